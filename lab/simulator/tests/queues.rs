//! Whole runs through queues that signal before they are full.

use std::ops::ControlFlow;

use paceline_record::Run;
use paceline_record::arrow_array::cast::AsArray;
use paceline_record::arrow_array::types::{Int32Type, Int64Type, UInt32Type};

fn run(flows: &str, queue: &str, more: &str) -> Run {
    let text = format!(
        "schema = 1\nrun.duration = \"20 s\"\n{more}\n[path]\nrate = \"20 Mbit/s\"\nrtt = \"40 ms\"\n\
         queue = {queue}\n{flows}"
    );
    let scenario = paceline_experiment::parse(&text, "test.toml", &[]).unwrap_or_else(|wrong| {
        let shown: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        panic!("{}", shown.join("\n"))
    });
    paceline_simulator::run(&scenario, 1, &mut |_| ControlFlow::Continue(()))
        .unwrap_or_else(|error| panic!("{error}"))
        .0
}

fn metric(run: &Run, name: &str) -> f64 {
    run.metric(name)
        .unwrap_or_else(|| panic!("{name} is undefined"))
}

fn ints(run: &Run, table: &str, column: &str) -> Vec<i64> {
    let column = run.column(table, column).unwrap();
    let column = column.as_primitive::<Int64Type>();
    column.iter().map(Option::unwrap_or_default).collect()
}

const CUBICS: &str = "[[flows]]\ncc = \"cubic\"\ncount = 4\n";

const KINDS: [&str; 4] = ["codel", "fq_codel", "pie", "dualpi2"];

#[test]
fn each_kind_holds_its_queue_far_below_its_limit() {
    let median = |kind: &str| {
        let queue = format!("{{ kind = \"{kind}\", size = \"400 ms\" }}");
        let run = run(CUBICS, &queue, "");
        assert!(metric(&run, "utilisation_ratio") > 0.9, "{kind}");
        metric(&run, "queue_p50_ns") / 1e6
    };
    assert!(median("droptail") > 200.0);
    // Targets of 5, 5, 15 and 15 ms.
    for (kind, most) in KINDS.into_iter().zip([10.0, 10.0, 22.0, 22.0]) {
        let median = median(kind);
        assert!(median < most, "{kind}: {median} ms");
    }
}

#[test]
fn each_drop_has_its_row_and_recording_it_changes_nothing() {
    for kind in KINDS {
        let queue = format!("{{ kind = \"{kind}\", size = \"60 packets\" }}");
        let plain = run(CUBICS, &queue, "");
        let recorded = run(CUBICS, &queue, "run.record.packets = true");
        for name in ["samples", "queue", "flows"] {
            assert_eq!(plain.table(name), recorded.table(name), "{kind}: {name}");
        }
        let kinds = recorded.column("packets", "kind").unwrap();
        let kinds = kinds.as_dictionary::<Int32Type>();
        let names = kinds.values().as_string::<i32>();
        let is_drop = |key: &i32| names.value(*key as usize) == "drop";
        let drops = kinds
            .keys()
            .values()
            .iter()
            .filter(|key| is_drop(key))
            .count();
        assert!(ints(&recorded, "packets", "t_ns").is_sorted(), "{kind}");
        let dropped = ints(&recorded, "queue", "dropped_packets").last().copied();
        assert!(drops > 10, "{kind}");
        assert_eq!(Some(drops as i64), dropped, "{kind}");
    }
}

#[test]
fn dual_queues_hold_a_target_each() {
    let flows = "[[flows]]\ncc = \"prague\"\nlabel = \"p\"\n[[flows]]\ncc = \"cubic\"\n";
    let run = run(flows, "{ kind = \"dualpi2\", size = \"250 ms\" }", "");
    let rtt = |flow: u32| {
        let flows = run.column("samples", "flow").unwrap();
        let flows = flows.as_primitive::<UInt32Type>().values().iter();
        let mut rtts: Vec<i64> = flows
            .zip(ints(&run, "samples", "rtt_ns"))
            .filter(|(number, _)| **number == flow)
            .map(|(_, rtt)| rtt)
            .collect();
        rtts.sort_unstable();
        rtts[rtts.len() / 2] as f64 / 1e6
    };
    // 40 ms of propagation; a packet takes 0.6 ms.
    assert!((40.0..43.0).contains(&rtt(0)), "{}", rtt(0));
    assert!((48.0..62.0).contains(&rtt(1)), "{}", rtt(1));
    assert!(metric(&run, "utilisation_ratio") > 0.95);
}

#[test]
fn bursts_of_loss_cost_cubic_less_than_as_many_single_losses() {
    let goodput = |loss: &str| {
        let text = format!(
            "schema = 1\nrun.duration = \"20 s\"\n[path]\nrate = \"20 Mbit/s\"\nrtt = \"40 ms\"\n\
             loss = {loss}\nqueue.size = \"1 bdp\"\n[[flows]]\ncc = \"cubic\"\n"
        );
        let scenario =
            paceline_experiment::parse(&text, "test.toml", &[]).unwrap_or_else(|w| panic!("{w:?}"));
        let run = paceline_simulator::run(&scenario, 1, &mut |_| ControlFlow::Continue(()));
        metric(
            &run.unwrap_or_else(|error| panic!("{error}")).0,
            "utilisation_ratio",
        )
    };
    let (single, burst) = (
        goodput("\"1 %\""),
        goodput("{ p = \"0.1 %\", r = \"10 %\" }"),
    );
    assert!(burst > 1.3 * single, "{burst} and {single}");
}
