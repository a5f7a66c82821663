//! Whole runs: properties of every scenario, and behaviour of particular ones.

use std::ops::ControlFlow;

use paceline_experiment::RunError;
use paceline_record::{RecordMemory, Run};
use paceline_scenario::Scenario;
use proptest::prelude::*;

fn parse(text: &str) -> Scenario {
    paceline_experiment::parse(text, "test.toml", &[]).unwrap_or_else(|wrong| {
        let shown: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        panic!("{}", shown.join("\n"))
    })
}

fn run(text: &str, seed: u64) -> Run {
    paceline_simulator::run(&parse(text), seed, &mut |_| ControlFlow::Continue(()))
        .unwrap_or_else(|error| panic!("{error}"))
        .0
}

fn one(cc: &str, path: &str, seconds: u32) -> String {
    format!(
        "schema = 1\nrun.duration = \"{seconds} s\"\n[path]\n{path}\n[[flows]]\ncc = \"{cc}\"\n"
    )
}

fn metric(run: &Run, name: &str) -> f64 {
    run.metric(name)
        .unwrap_or_else(|| panic!("{name} is undefined"))
}

/// Goodput of all flows in bit/s between two times in seconds.
fn goodput_between(run: &Run, from: i64, to: i64) -> f64 {
    use paceline_record::arrow_array::cast::AsArray;
    use paceline_record::arrow_array::types::Int64Type;
    let samples = run.table("samples").unwrap();
    let column = |name| {
        samples
            .column_by_name(name)
            .unwrap()
            .as_primitive::<Int64Type>()
    };
    let (t, goodput) = (column("t_ns"), column("goodput_bytes"));
    let at = |seconds: i64| {
        let row = (0..t.len()).find(|&row| t.value(row) == seconds * 1_000_000_000);
        goodput.value(row.unwrap())
    };
    (at(to) - at(from)) as f64 * 8.0 / (to - from) as f64
}

/// `run.json` and every table: two runs of the same scenario must agree in all of it.
fn bytes(run: &Run) -> (String, String) {
    let tables: Vec<String> = run
        .tables()
        .map(|(name, table)| format!("{name} {table:?}"))
        .collect();
    (run.summary_json().to_string(), tables.join("\n"))
}

const PLAIN: &str =
    "rate = \"20 Mbit/s\"\nrtt = \"40 ms\"\nqueue = { kind = \"droptail\", size = \"1 bdp\" }";

#[test]
fn the_same_seed_gives_the_same_record_and_another_seed_does_not() {
    let lossy = format!("loss = \"0.1 %\"\n{PLAIN}");
    let text = one("bbr3", &lossy, 8);
    assert_eq!(bytes(&run(&text, 5)), bytes(&run(&text, 5)));
    assert_ne!(bytes(&run(&text, 5)).1, bytes(&run(&text, 6)).1);
}

#[test]
fn every_controller_fills_a_plain_path() {
    for spec in paceline_congestion::controllers() {
        // RFC 6817 has no slow start, and LEDBAT++'s gain is a sixth here: they are slow to ramp
        // up.
        let seconds = if spec.name.starts_with("ledbat") {
            30
        } else {
            10
        };
        let mut text = one(spec.name, PLAIN, seconds);
        if spec.name == "swift" {
            // Its target includes the propagation delay: the default is for a data centre.
            let cc = "cc = { name = \"swift\", base_target = \"60 ms\" }";
            text = text.replace("cc = \"swift\"", cc);
        }
        let run = run(&text, 1);
        let summary = run.summary_json();
        let states = summary["flows"][0]["state_ns"].as_object().unwrap();
        for state in states.keys() {
            assert!(
                spec.phases.contains(&state.as_str()),
                "{}: {state}",
                spec.name
            );
        }
        let utilisation = metric(&run, "utilisation_ratio");
        assert!(utilisation > 0.85, "{}: {utilisation}", spec.name);
        assert!(metric(&run, "rtt_p50_ns") >= 40e6, "{}", spec.name);
        // 1 BDP of queue and 1 packet in transmission, at most.
        assert!(metric(&run, "rtt_p99_ns") < 81.5e6, "{}", spec.name);
    }
}

#[test]
fn an_idle_path_shows_its_own_rtt() {
    // One packet of 1500 B at 20 Mbit/s takes 0.6 ms.
    let text = one("reno", PLAIN, 5) + "app = { size = \"1000 B\" }\n";
    let run = run(&text, 1);
    let flow = &run.summary_json()["flows"][0];
    assert_eq!(flow["retransmit_ratio"], 0.0);
    let completion = flow["completion_ns"].as_f64().unwrap();
    // The handshake, then the data to its receiver: one and a half round trips and the transmission
    // times.
    assert!((60e6..62e6).contains(&completion), "{completion}");
}

#[test]
fn a_stopped_flow_leaves_the_rest_to_the_other() {
    let text = one("cubic", PLAIN, 20) + "stop = \"8 s\"\n[[flows]]\ncc = \"cubic\"\n";
    let run = run(&text, 1);
    let summary = run.summary_json();
    let goodput = |flow: usize| summary["flows"][flow]["goodput_bps"].as_f64().unwrap();
    assert!(goodput(1) > 12e6, "{}", goodput(1));
    assert!(goodput(0) > 4e6, "{}", goodput(0));
}

#[test]
fn an_outage_ends_and_the_flow_goes_on() {
    for cc in ["bbr3", "cubic", "reno", "bbr1", "bbr2", "bbr3-linux"] {
        let text = one(cc, PLAIN, 40)
            + "[[events]]\nwhen = \"5 s\"\npath.rate = \"0 bit/s\"\n[[events]]\nwhen = \"15 s\"\npath.rate = \"20 Mbit/s\"\n";
        let run = run(&text, 1);
        // The packets that the link held for 10 s give RTT samples of 10 s: a flow left with only
        // lost packets in flight waits for a timeout of about 11 s (bbr1 does, in PROBE_RTT). By 30
        // s all must have recovered; before that, bbr1 has measured 0.61 of the capacity.
        let late = goodput_between(&run, 30, 40);
        assert!(late > 0.85 * 20e6 * 1448.0 / 1500.0, "{cc}: {late}");
        let utilisation = metric(&run, "utilisation_ratio");
        assert!(utilisation > 0.6, "{cc}: {utilisation}");
    }
}

#[test]
fn an_event_upon_a_state_happens_in_it() {
    let text = one("bbr3", PLAIN, 3)
        + "[[events]]\nwhen = { flow = 0, enters = \"Drain\" }\npath.rate = \"-10 %\"\n";
    let run = run(&text, 1);
    let [(_, link, before, value)] = changes(&run, "rate")[..] else {
        panic!("{:?}", run.table("events"));
    };
    assert_eq!((link, before, value), (Some(0), Some(20e6), Some(18e6)));
}

#[test]
fn scripted_drops_are_repaired() {
    let text = one("reno", PLAIN, 5)
        + "app = { size = \"1 MB\" }\n[[events]]\nwhen = \"500 ms\"\npath.drop = \"3 packets\"\n";
    let run = run(&text, 1);
    let flow = &run.summary_json()["flows"][0];
    assert!(flow["completion_ns"].is_number(), "{flow}");
    assert!(flow["retransmit_ratio"].as_f64().unwrap() > 0.0);
}

#[test]
fn limited_and_on_off_applications_send_what_they_say() {
    let limited = run(
        &(one("bbr3", PLAIN, 10) + "app = { rate = \"2 Mbit/s\" }\n"),
        1,
    );
    let goodput = metric(&limited, "goodput_bps");
    assert!((goodput / 2e6 - 1.0).abs() < 0.05, "{goodput}");
    let on_off = run(
        &(one("bbr3", PLAIN, 20) + "app = { on = \"1 s\", off = \"1 s\", rate = \"4 Mbit/s\" }\n"),
        1,
    );
    let goodput = metric(&on_off, "goodput_bps");
    assert!((goodput / 2e6 - 1.0).abs() < 0.1, "{goodput}");
}

/// A row for each of 2000 flows every millisecond: the engine asks the caller after one or two of
/// these, and passes the memory that they use.
#[test]
fn the_caller_is_asked_often_however_much_an_event_does() {
    let text = format!(
        "{}count = 2000\n",
        one("reno", PLAIN, 2).replacen('\n', "\nrun.sample_interval = \"1 ms\"\n", 1)
    );
    let row = RecordMemory::rows(1, 0, 0, 0, 0).samples;
    let (mut before, mut most, mut calls) = (0, 0, 0);
    let (run, last) = paceline_simulator::run(&parse(&text), 1, &mut |progress| {
        let rows = progress.memory.record.samples / row;
        (most, before, calls) = (most.max(rows - before), rows, calls + 1);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(calls > 1000, "{calls}");
    assert!(most < 2 * 2000, "{most} rows between two calls");
    let rows = run.table("samples").unwrap().num_rows() as u64;
    let bytes = last.memory.record.samples;
    // Reno reports its own fields in each row.
    assert!(
        bytes > rows * row && bytes < 2 * rows * row,
        "{bytes} bytes, {rows} rows"
    );
    // Each flow has at least one packet on its way.
    assert!(last.memory.in_flight > 2000 * 100, "{last:?}");
    assert!(last.memory.fixed > 0);
}

#[test]
fn names_that_do_not_exist_are_told_with_their_place() {
    let text = "schema = 1\nrun.duration = \"1 s\"\n[path]\nrate = { trace = \"none.trace\" }\nrtt = \"1 ms\"\n\
                queue = { kind = \"droptail\", size = \"10 kB\" }\n[[flows]]\ncc = \"bbr4\"\n[[flows]]\n\
                cc = { name = \"bbr3\", startup_pacing_gian = 2.8 }\n[expect]\nutilisation = \">= 0.5\"\njian_ratio = \">= 1\"\n";
    let wrong = paceline_simulator::check(&parse(text));
    let keys: Vec<&str> = wrong.iter().map(|w| w.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "flows[0].cc",
            "flows[1].cc.startup_pacing_gian",
            "expect.jian_ratio",
            "path.rate.trace"
        ]
    );
    assert_eq!(wrong[0].line, Some(8));
    assert!(
        wrong[1]
            .hint
            .as_deref()
            .is_some_and(|h| h.contains("startup_pacing_gain"))
    );
}

#[test]
fn bounds_states_and_comparisons_are_checked_by_name_and_unit() {
    let text = one("reno", PLAIN, 5)
        + "[[events]]\nwhen = { flow = 0, enters = \"SlowStrat\" }\npath.drop = \"1 packet\"\n\
           [expect]\nutilisation_ratio = \">= 5 ms\"\nrtt_p50 = \"<= 90 ms\"\n";
    let wrong = paceline_simulator::check(&parse(&text));
    let keys: Vec<&str> = wrong.iter().map(|w| w.key.as_str()).collect();
    assert_eq!(keys, ["events[0].when.enters", "expect.utilisation_ratio"]);
    assert_eq!(wrong[0].hint.as_deref(), Some("did you mean `SlowStart`?"));
    let text = one("reno", PLAIN, 5).replace(
        "run.duration",
        "run.compare = [\"reno\", \"bogus\"]\nrun.duration",
    );
    let wrong = paceline_simulator::check(&parse(&text));
    assert_eq!(
        (wrong[0].key.as_str(), wrong[0].line),
        ("run.compare[1]", Some(2))
    );
}

#[test]
fn a_run_can_be_interrupted() {
    let mut events = 0;
    let result = paceline_simulator::run(&parse(&one("bbr3", PLAIN, 60)), 1, &mut |progress| {
        events = progress.events;
        ControlFlow::Break(())
    });
    assert!(matches!(result, Err(RunError::Interrupted)) && events > 0);
}

/// A column of integers of the rows of `samples` or another table.
fn ints(run: &Run, table: &str, column: &str) -> Vec<i64> {
    use paceline_record::arrow_array::cast::AsArray;
    use paceline_record::arrow_array::types::Int64Type;
    let values = run.column(table, column);
    values
        .unwrap_or_else(|| panic!("no {column}"))
        .as_primitive::<Int64Type>()
        .iter()
        .flatten()
        .collect()
}

/// Changes of a key: time, link, old value, new value.
type Changed = (i64, Option<u32>, Option<f64>, Option<f64>);

/// The changes of a key that the scenario requested.
fn changes(run: &Run, key: &str) -> Vec<Changed> {
    use paceline_record::arrow_array::cast::AsArray;
    use paceline_record::arrow_array::types::{Float64Type, Int32Type, UInt32Type};
    let events = run.table("events").unwrap();
    let column = |name: &str| events.column_by_name(name).unwrap();
    let keys = column("key").as_dictionary::<Int32Type>();
    let names = keys.values().as_string::<i32>();
    let links = column("link").as_primitive::<UInt32Type>().iter();
    let befores = column("before_value").as_primitive::<Float64Type>().iter();
    let values = column("value").as_primitive::<Float64Type>().iter();
    let times = ints(run, "events", "t_ns").into_iter();
    let rows = times
        .zip(links)
        .zip(befores.zip(values))
        .zip(keys.keys().iter());
    rows.filter(|(_, of)| of.is_some_and(|of| names.value(of as usize) == key))
        .map(|(((t, link), (before, value)), _)| (t, link, before, value))
        .collect()
}

/// The rows of a table whose `kind` is `kind`: the values of `column`.
fn of_kind(run: &Run, table: &str, kind: &str, column: &str) -> Vec<i64> {
    use paceline_record::arrow_array::cast::AsArray;
    use paceline_record::arrow_array::types::Int32Type;
    let kinds = run.column(table, "kind").unwrap();
    let kinds = kinds.as_dictionary::<Int32Type>();
    let names = kinds.values().as_string::<i32>();
    let rows = kinds
        .keys()
        .iter()
        .map(|key| names.value(key.unwrap() as usize) == kind);
    let values = ints(run, table, column);
    values
        .into_iter()
        .zip(rows)
        .filter(|(_, is)| *is)
        .map(|(value, _)| value)
        .collect()
}

#[test]
fn a_flight_held_beyond_the_timeout_is_sent_again_and_completes() {
    for cc in ["bbr3", "cubic", "reno"] {
        let text = one(cc, PLAIN, 20)
            + "app = { size = \"5 MB\" }\n[[events]]\nwhen = \"500 ms\"\n\
               path.hold = { packets = 400, delay = \"2 s\" }\n";
        let run = run(&text, 1);
        let flow = &run.summary_json()["flows"][0];
        assert!(flow["rto_count"].as_u64() >= Some(1), "{cc}: {flow}");
        assert!(flow["completion_ns"].is_number(), "{cc}: {flow}");
        assert_eq!(ints(&run, "flows", "goodput_bytes"), [5_000_000], "{cc}");
    }
}

#[test]
fn a_few_packets_held_make_a_loss_that_was_none() {
    let text = one("bbr3", PLAIN, 10)
        + "[[events]]\nwhen = \"5 s\"\npath.hold = { packets = 3, delay = \"60 ms\" }\n";
    let run = run(&text, 1);
    let delays: Vec<i64> = changes(&run, "hold.packets").iter().map(|c| c.0).collect();
    assert_eq!(delays, [5_000_000_000]);
    let mut undone = of_kind(&run, "events", "undo", "t_ns");
    undone.retain(|t| *t > 5_000_000_000);
    assert_eq!(undone.len(), 1);
    assert!(
        (5_060_000_000..5_300_000_000).contains(&undone[0]),
        "{undone:?}"
    );
    assert!(ints(&run, "flows", "spurious_packets")[0] >= 1);
}

#[test]
fn reordering_jitter_and_copies_lose_nothing() {
    let path = format!(
        "reorder = {{ probability = \"1 %\", delay = \"5 ms\" }}\nduplicate = \"0.5 %\"\njitter = \"2 ms\"\n{}",
        PLAIN.replace("1 bdp", "20 bdp")
    );
    for cc in ["bbr3", "cubic"] {
        let run = run(&one(cc, &path, 10), 1);
        assert_eq!(metric(&run, "loss_ratio"), 0.0, "{cc}");
        assert_eq!(metric(&run, "rto_count"), 0.0, "{cc}");
        assert!(metric(&run, "utilisation_ratio") > 0.8, "{cc}");
    }
}

#[test]
fn a_policer_holds_a_flow_to_its_rate() {
    let path = format!("policer = {{ rate = \"10 Mbit/s\", burst = \"100 kB\" }}\n{PLAIN}");
    let text = one("bbr3", &path, 20) + "[[events]]\nwhen = \"10 s\"\npath.policer = \"off\"\n";
    let run = run(&text, 1);
    let policed = goodput_between(&run, 2, 10);
    assert!(policed < 10.1e6 * 1448.0 / 1500.0, "{policed}");
    assert!(policed > 6e6, "{policed}");
    let free = goodput_between(&run, 15, 20);
    assert!(free > 17e6, "{free}");
    assert!(metric(&run, "loss_ratio") > 0.0);
}

#[test]
fn acks_come_back_in_slots_while_they_are_asked_for() {
    let text = one("bbr3", PLAIN, 6).replace("[path]", "run.record.packets = true\n[path]")
        + "[[events]]\nwhen = \"2 s\"\npath.return.aggregation = \"20 ms\"\n\
           [[events]]\nwhen = \"4 s\"\npath.return.aggregation = \"0 ms\"\n";
    let text = text.replace("[path]", "[path]\nreturn = {}");
    let run = run(&text, 1);
    // The return path adds 20 ms as well.
    let acks = of_kind(&run, "packets", "ack", "t_ns");
    let in_slot = |t: &&i64| **t % 20_000_000 == 0;
    let between = |from: i64, to: i64| -> Vec<i64> {
        let inside = |t: &&i64| (from..to).contains(&(**t / 1_000_000));
        acks.iter().filter(inside).copied().collect()
    };
    let bundled = between(2_040, 4_020);
    assert!(bundled.len() > 1000 && bundled.iter().filter(in_slot).count() == bundled.len());
    let free = between(4_060, 6_000);
    assert!(free.iter().filter(in_slot).count() < free.len() / 10);
    assert!(metric(&run, "utilisation_ratio") > 0.8);
}

#[test]
fn marks_reach_the_sender_by_every_feedback_and_keep_the_queue_short() {
    let marking = PLAIN.replace("1 bdp\"", "10 bdp\", mark = { threshold = \"40 packets\" }");
    let unmarked = run(&one("reno", &PLAIN.replace("1 bdp", "10 bdp"), 10), 1);
    for feedback in ["classic", "dctcp", "accurate", "ace"] {
        let text = one("reno", &marking, 10).replace("\"reno\"", "{ name = \"reno\", ecn = true }")
            + &format!("ecn = \"{feedback}\"\n");
        let run = run(&text, 1);
        assert!(
            *ints(&run, "queue", "marked_packets").last().unwrap() > 0,
            "{feedback}"
        );
        assert_eq!(metric(&run, "loss_ratio"), 0.0, "{feedback}");
        assert!(metric(&run, "utilisation_ratio") > 0.9, "{feedback}");
        // Reno's sawtooth swings between the threshold and half of the data in flight at that
        // point.
        assert!(metric(&run, "queue_p95_ns") < 30e6, "{feedback}");
        assert!(metric(&run, "queue_p95_ns") < metric(&unmarked, "queue_p95_ns") / 3.0);
    }
}

#[test]
fn classic_feedback_reduces_once_a_round_and_no_more() {
    // Every packet that waits is marked: classic feedback still halves at most once per round trip.
    let marking = PLAIN.replace("1 bdp\"", "10 bdp\", mark = { threshold = \"1 packet\" }");
    let text = one("reno", &marking, 10).replace("\"reno\"", "{ name = \"reno\", ecn = true }")
        + "ecn = \"classic\"\n";
    // Less than a round trip between two rows.
    let text = text.replace("[path]", "run.sample_interval = \"40 ms\"\n[path]");
    let run = run(&text, 1);
    let cwnd = ints(&run, "samples", "cwnd_bytes");
    assert!(cwnd.windows(2).all(|pair| pair[1] >= pair[0] / 2 - 1448));
    assert!(cwnd.windows(2).any(|pair| pair[1] < pair[0]));
    assert_eq!(metric(&run, "retransmit_ratio"), 0.0);
}

#[test]
fn red_marks_those_that_can_be_marked_and_drops_the_others() {
    let red = PLAIN.replace(
        "1 bdp\"",
        "10 bdp\", red = { min = \"20 packets\", max = \"120 packets\" }",
    );
    let capable = one("reno", &red, 20).replace("\"reno\"", "{ name = \"reno\", ecn = true }");
    let capable = run(&(capable + "ecn = \"classic\"\n"), 1);
    assert!(*ints(&capable, "queue", "marked_packets").last().unwrap() > 3);
    let other = run(&one("reno", &red, 20), 1);
    assert!(metric(&other, "loss_ratio") > 0.0);
    for run in [&capable, &other] {
        assert!(metric(run, "utilisation_ratio") > 0.8);
        assert!(metric(run, "queue_p50_ns") < 60e6);
    }
}

/// The rows of one link in `queue`: the last value of a column.
fn last_of_link(run: &Run, link: usize, column: &str) -> i64 {
    use paceline_record::arrow_array::cast::AsArray;
    use paceline_record::arrow_array::types::UInt32Type;
    let links = run.column("queue", "link").unwrap();
    let links = links.as_primitive::<UInt32Type>().values();
    let row = links.iter().rposition(|number| *number as usize == link);
    ints(run, "queue", column)[row.unwrap()]
}

const PARKING_LOT: &str = "schema = 1\nrun.duration = \"30 s\"\n[path]\nname = \"a\"\nrate = \"20 Mbit/s\"\n\
    rtt = \"40 ms\"\nqueue.size = \"1 bdp\"\n[[links]]\nname = \"b\"\nrate = \"20 Mbit/s\"\ndelay = \"10 ms\"\n\
    queue.size = \"1 bdp\"\n[[flows]]\ncc = \"CC\"\nroute = [\"a\", \"b\"]\n[[flows]]\ncc = \"CC\"\n\
    [[flows]]\ncc = \"CC\"\nroute = [\"b\"]\n";

#[test]
fn in_a_parking_lot_the_long_flow_gets_least_and_both_links_are_full() {
    // Without any jitter, Reno's packets, whose windows are whole segments, meet full queues at the
    // same points.
    let jittered = PARKING_LOT.replace("queue.size", "jitter = \"20 us\"\nqueue.size");
    for cc in ["reno", "bbr1", "bbr3"] {
        let run = run(&jittered.replace("CC", cc), 1);
        let summary = run.summary_json();
        let goodput = |flow: usize| summary["flows"][flow]["goodput_bps"].as_f64().unwrap();
        assert!(goodput(0) < goodput(1) && goodput(0) < goodput(2), "{cc}");
        assert!(goodput(0) > 0.3e6, "{cc}: {}", goodput(0));
        for other in [1, 2] {
            let link = goodput(0) + goodput(other);
            assert!((17e6..19.4e6).contains(&link), "{cc}: {link}");
        }
        // The packets of the first flow that one link delivers arrive at the other.
        for (number, name) in ["a", "b"].into_iter().enumerate() {
            assert_eq!(run.info().links[number].name, name);
            let offered = last_of_link(&run, number, "offered_packets");
            let carried = last_of_link(&run, number, "delivered_bytes") / 1500;
            let dropped = last_of_link(&run, number, "dropped_packets");
            assert!(offered - dropped - carried < 300, "{cc}: {name}");
        }
    }
}

#[test]
fn the_rtt_falls_and_comes_back_and_a_flow_with_its_own_keeps_that() {
    let event =
        |at: &str, rtt: &str| format!("[[events]]\nwhen = \"{at}\"\npath.rtt = \"{rtt}\"\n");
    let flow = "[[flows]]\ncc = \"reno\"\napp = { rate = \"1 Mbit/s\" }\n";
    let text = "schema = 1\nrun.duration = \"15 s\"\nrun.sample_interval = \"1 s\"\n\
         [path]\nrate = \"100 Mbit/s\"\nrtt = \"40 ms\"\nqueue.size = \"1 bdp\"\n"
        .to_owned()
        + &event("5 s", "4 ms")
        + &event("10 s", "40 ms")
        + flow;
    // RTTs of a flow after the first second, by the second of the run.
    let rtts = |run: &Run, number: u32| {
        let (t, flow) = (ints(run, "samples", "t_ns"), flow_of(run));
        let rtt = ints(run, "samples", "rtt_ns");
        assert_eq!(t.len(), rtt.len());
        let rows = (0..t.len()).filter(|row| flow[*row] == number);
        rows.map(|row| (t[row] / 1_000_000_000, rtt[row]))
            .collect::<Vec<_>>()
    };
    // A packet of 1500 B at 100 Mbit/s takes 0.12 ms, and may wait for another.
    let shows = |run: &Run, flow: u32, seconds: std::ops::Range<i64>, ms: i64| {
        let near = ms * 1_000_000..ms * 1_000_000 + 250_000;
        let rtts = rtts(run, flow);
        let count = rtts.iter().filter(|(t, _)| seconds.contains(t)).count();
        assert!(count >= 4, "{count}");
        let far = rtts
            .iter()
            .filter(|(t, rtt)| seconds.contains(t) && !near.contains(rtt));
        assert_eq!(far.count(), 0, "{ms} ms in {seconds:?}: {rtts:?}");
    };
    let follows = |run: &Run| {
        shows(run, 0, 1..5, 40);
        shows(run, 0, 6..10, 4);
        shows(run, 0, 11..15, 40);
    };
    follows(&run(&text, 1));
    for own in [1, 20] {
        let run = run(&format!("{text}{flow}rtt = \"{own} ms\"\n"), 1);
        follows(&run);
        shows(&run, 1, 1..15, own);
    }
}

#[test]
fn links_add_their_delays_and_events_name_them() {
    let text = PARKING_LOT.replace("CC", "bbr3").replace(
        "[[flows]]\ncc = \"bbr3\"\nroute = [\"a\", \"b\"]",
        "[[events]]\nwhen = \"10 s\"\npath = { link = \"b\", rate = \"5 Mbit/s\" }\n\
         [[events]]\nwhen = \"20 s\"\npath.rtt = \"80 ms\"\n\
         [[flows]]\ncc = \"bbr3\"\nroute = [\"a\", \"b\"]",
    );
    let run = run(&text, 1);
    let seconds = |s: i64| s * 1_000_000_000;
    let expected = (seconds(10), Some(1), Some(20e6), Some(5e6));
    assert_eq!(changes(&run, "rate"), [expected]);
    let expected = (seconds(20), None, None, Some(8e7));
    assert_eq!(changes(&run, "rtt"), [expected]);
    let rate = last_of_link(&run, 1, "rate_bps");
    assert_eq!(
        (last_of_link(&run, 0, "rate_bps"), rate),
        (20_000_000, 5_000_000)
    );
    // Every flow's RTT is that of the path, before and after its change; a packet takes at least
    // 0.6 ms on each link.
    let (t, flow) = (ints(&run, "samples", "t_ns"), flow_of(&run));
    let rtt = ints(&run, "samples", "rtt_ns");
    assert_eq!(t.len(), rtt.len());
    for number in 0..3 {
        let least = |from: i64, to: i64| {
            let rows = (0..t.len()).filter(|&row| {
                flow[row] == number && (from..to).contains(&(t[row] / 1_000_000_000))
            });
            rows.map(|row| rtt[row]).min().unwrap()
        };
        assert!(
            (40_000_000..46_000_000).contains(&least(0, 10)),
            "{number}: {}",
            least(0, 10)
        );
        assert!(
            (80_000_000..110_000_000).contains(&least(22, 30)),
            "{number}: {}",
            least(22, 30)
        );
    }
}

fn flow_of(run: &Run) -> Vec<u32> {
    use paceline_record::arrow_array::cast::AsArray;
    use paceline_record::arrow_array::types::UInt32Type;
    let flows = run.column("samples", "flow").unwrap();
    flows.as_primitive::<UInt32Type>().values().to_vec()
}

#[test]
fn flows_of_one_host_share_its_nic() {
    let text = "schema = 1\nrun.duration = \"10 s\"\n[path]\nname = \"switch\"\nrate = \"40 Mbit/s\"\n\
        rtt = \"10 ms\"\nqueue.size = \"4 bdp\"\n[[links]]\nname = \"nic\"\nrate = \"10 Mbit/s\"\n\
        queue.size = \"1 bdp\"\n[[flows]]\ncc = \"cubic\"\ncount = 2\nroute = [\"nic\", \"switch\"]\n\
        [[flows]]\ncc = \"cubic\"\n";
    let run = run(text, 1);
    let summary = run.summary_json();
    let goodput = |flow: usize| summary["flows"][flow]["goodput_bps"].as_f64().unwrap();
    let nic = goodput(0) + goodput(1);
    assert!((8.5e6..9.8e6).contains(&nic), "{nic}");
    assert!(goodput(2) > 26e6, "{}", goodput(2));
    assert_eq!(run.info().links[1].flows, [0, 1]);
    assert_eq!(run.info().links[0].flows, [0, 1, 2]);
}

const FAST: &str = "rate = \"1 Gbit/s\"\nrtt = \"100 us\"\nqueue.size = \"1000 packets\"";

/// The median RTT of a flow over a fast path with the given hosts, in ns.
fn rtt_with(host: &str, more: &str) -> f64 {
    let text =
        one("bbr3", FAST, 1) + more + &format!("app = {{ rate = \"20 Mbit/s\" }}\nhost = {host}\n");
    metric(&run(&text, 1), "rtt_p50_ns")
}

#[test]
fn hosts_add_their_delays_to_round_trips() {
    // At 20 Mbit/s of 1 Gbit/s, two packets at a time: 100 us, and up to 21 us on the link.
    let every = "ack = { every = \"1 packet\" }\n";
    let base = rtt_with("{}", every);
    assert!((112_000.0..121_000.0).contains(&base), "{base}");
    let full = "{ send = \"10 us\", receive = \"20 us\", ack = \"40 us\", ack_receive = \"80 us\"";
    // By the NIC's clock the RTT ends before the ACK goes up to TCP.
    let by_nic = rtt_with(&format!("{full} }}"), every);
    assert_eq!(by_nic - base, 70_000.0);
    let by_tcp = rtt_with(&format!("{full}, nic_timestamps = false }}"), every);
    assert_eq!(by_tcp - base, 150_000.0);
    let drawn = rtt_with("{ receive = { min = \"10 us\", max = \"30 us\" } }", every);
    assert!((drawn - base - 20_000.0).abs() < 3_000.0, "{drawn}");
}

#[test]
fn a_batch_is_acknowledged_once() {
    let text = |host: &str| {
        one("bbr3", FAST, 1).replace("[path]", "run.record.packets = true\n[path]") + host
    };
    let acks = |text: &str| of_kind(&run(text, 1), "packets", "ack", "t_ns").len();
    let (plain, gro) = (
        acks(&text("")),
        acks(&text(
            "host = { gro = { time = \"100 us\", packets = \"16 packets\" } }\n",
        )),
    );
    // One for two packets, and one for up to sixteen.
    assert!(gro * 4 < plain && gro * 10 > plain, "{gro} of {plain}");
    let run = run(
        &text("host = { gro = { time = \"100 us\", packets = \"16 packets\" } }\n"),
        1,
    );
    assert!(metric(&run, "utilisation_ratio") > 0.8);
    assert_eq!(metric(&run, "retransmit_ratio"), 0.0);
}

#[test]
fn acks_of_one_gap_are_held_back_and_nothing_is_taken_for_lost() {
    let path = "rate = \"100 Mbit/s\"\nrtt = \"20 ms\"\nqueue.size = \"1 bdp\"\nloss = \"1 %\"";
    let text = |more: &str| {
        one("bbr1", path, 2).replace("[path]", "run.record.packets = true\n[path]") + more
    };
    let of = |more: &str| {
        let run = run(&text(more), 1);
        let gaps = of_kind(&run, "packets", "sack", "t_ns").len();
        let lost = (
            metric(&run, "retransmit_ratio"),
            metric(&run, "goodput_bps"),
        );
        (gaps, lost)
    };
    let (all, (again, goodput)) = of("");
    assert_eq!(
        of("ack.comp_sack_delay = \"0 s\"\n"),
        (all, (again, goodput))
    );
    let (few, (again_too, goodput_too)) = of("ack.comp_sack_delay = \"1 ms\"\n");
    // Nine packets arrive in 1.1 ms.
    assert!(few * 3 < all, "{few} of {all}");
    assert!((again_too - again).abs() < 0.003, "{again_too} {again}");
    assert!(
        (goodput_too / goodput - 1.0).abs() < 0.03,
        "{goodput_too} {goodput}"
    );
}

#[test]
fn the_end_of_a_burst_is_acknowledged_at_once() {
    // Windows of 3 in a queue of two: each is a burst of two and one.
    let path =
        "rate = \"10 Mbit/s\"\nrtt = \"10 ms\"\nqueue.size = \"0.25 bdp\"\njitter = \"20 us\"";
    let text = |more: &str| {
        one("reno", path, 4).replace("[path]", "run.record.packets = true\n[path]") + more
    };
    let of = |more: &str| {
        let run = run(&text(more), 1);
        let acks = of_kind(&run, "packets", "ack", "seq_bytes");
        let steps = acks.windows(2).map(|pair| pair[1] - pair[0]);
        let single = steps.filter(|step| *step == 1448).count();
        single as f64 / acks.len() as f64
    };
    let plain = of("");
    assert_eq!(of("ack.pushed = false\n"), plain);
    let pushed = of("ack.pushed = true\n");
    assert!(plain < 0.1 && pushed > 0.15, "{pushed} and {plain}");
}

#[test]
fn random_hosts_keep_every_packet_in_order() {
    let host = "host = { send = { mean = \"20 us\" }, receive = { mean = \"50 us\", deviation = \"30 us\" }, \
        ack = { max = \"100 us\" }, ack_receive = { mean = \"30 us\" }, gro = { time = \"30 us\" } }\n";
    for cc in ["bbr3", "cubic"] {
        let text = one(cc, &FAST.replace("1000 packets", "20 MB"), 2) + host + "count = 3\n";
        let first = run(&text, 1);
        assert_eq!(metric(&first, "retransmit_ratio"), 0.0, "{cc}");
        assert!(metric(&first, "utilisation_ratio") > 0.8, "{cc}");
        assert_eq!(bytes(&first), bytes(&run(&text, 1)));
    }
}

#[test]
fn a_row_for_each_round_if_asked() {
    let plain = one("bbr3", PLAIN, 8);
    let asked = plain.replace("[path]", "run.record.rounds = true\n[path]");
    let (plain, asked) = (run(&plain, 1), run(&asked, 1));
    let rounds = ints(&asked, "samples", "round_count");
    let last = *rounds.last().unwrap();
    assert!(last > 50);
    for round in 0..=last {
        assert!(rounds.contains(&round), "no row of round {round}");
    }
    // A row at each change of state, at its time.
    let times = ints(&asked, "samples", "t_ns");
    for t in of_kind(&asked, "events", "state", "t_ns").iter().skip(1) {
        assert!(times.contains(t), "no row at {t}");
    }
    // They show more of the same run, and carry no weight.
    assert!(times.len() > ints(&plain, "samples", "t_ns").len());
    for name in [
        "utilisation_ratio",
        "goodput_bps",
        "rtt_p50_ns",
        "rtt_p95_ns",
    ] {
        assert_eq!(metric(&plain, name), metric(&asked, name), "{name}");
    }
}

#[test]
fn no_row_for_each_change_of_state_if_asked() {
    let plain = one("bbr3", PLAIN, 8);
    let asked = plain.replace("[path]", "run.record.states = false\n[path]");
    let (plain, asked) = (run(&plain, 1), run(&asked, 1));
    assert!(of_kind(&plain, "events", "state", "t_ns").len() > 2);
    assert!(of_kind(&asked, "events", "state", "t_ns").is_empty());
    assert_eq!(of_kind(&asked, "events", "established", "t_ns").len(), 1);
    assert_eq!(
        ints(&plain, "samples", "delivered_bytes"),
        ints(&asked, "samples", "delivered_bytes")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    /// Whatever goes wrong on the way, a sized flow completes or the record says why not.
    #[test]
    fn impairments_end_in_balance(
        cc in prop::sample::select(vec!["bbr3", "cubic", "reno", "bbr1"]),
        (reorder, duplicate, loss) in (0u32..50, 0u32..50, 0u32..3),
        (jitter, slot, ack_slot) in (0u32..30, 0u32..30, 0u32..50),
        policer in any::<bool>(), (hold, delay) in (1u32..60, 1u32..3000), seed in 0u64..1000,
    ) {
        let policer = if policer { "policer = { rate = \"8 Mbit/s\", burst = \"30 kB\" }\n" } else { "" };
        let path = format!(
            "reorder = {{ probability = \"{reorder} %\", delay = \"15 ms\" }}\nduplicate = \"{duplicate} %\"\n\
             loss = \"{loss} %\"\njitter = \"{jitter} ms\"\naggregation = \"{slot} ms\"\nreturn.aggregation = \"{ack_slot} ms\"\n{policer}{PLAIN}"
        );
        let text = one(cc, &path, 300).replace("[path]", "run.sample_interval = \"1 s\"\n[path]") + &format!(
            "app = {{ size = \"200 kB\" }}\n[[events]]\nwhen = \"100 ms\"\npath.hold = {{ packets = {hold}, delay = \"{delay} ms\" }}\n"
        );
        let run = run(&text, seed);
        prop_assert_eq!(ints(&run, "flows", "goodput_bytes"), [200_000]);
        prop_assert!(run.metric("loss_ratio").is_some_and(|r| (0.0..=1.0).contains(&r)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    /// Unusual paths end, balance their packets, and respect physical limits.
    #[test]
    fn any_path_ends_with_a_sensible_record(
        cc in prop::sample::select(vec!["bbr3", "cubic", "reno", "bbr1", "bbr2", "bbr3-linux"]),
        kbps in prop_oneof![1u64..100, 100u64..100_000, Just(10_000_000u64)],
        rtt_us in prop_oneof![1u64..1000, 1000u64..1_000_000, Just(10_000_000u64)],
        queue in prop_oneof![Just("1 packet".to_owned()), Just("1500 B".to_owned()), Just("0.1 bdp".to_owned()), Just("10 ms".to_owned()), Just("5 bdp".to_owned())],
        loss in prop_oneof![3 => Just(0u32), 1 => 1u32..60],
        flows in 1u32..6, seed in 0u64..1000,
    ) {
        let millis = if kbps > 1_000_000 { 200 } else { 20_000 };
        let text = format!(
            "schema = 1\nrun.duration = \"{millis} ms\"\n[path]\nrate = \"{kbps} kbit/s\"\nrtt = \"{rtt_us} us\"\n\
             loss = \"{loss} %\"\nqueue = {{ kind = \"droptail\", size = \"{queue}\" }}\n[[flows]]\ncc = \"{cc}\"\ncount = {flows}\n"
        );
        let run = run(&text, seed);
        if let Some(utilisation) = run.metric("utilisation_ratio") {
            prop_assert!((0.0..=1.001).contains(&utilisation), "{}", utilisation);
        }
        if let Some(rtt) = run.metric("rtt_p50_ns") {
            prop_assert!(rtt >= rtt_us as f64 * 1e3);
        }
        for ratio in ["loss_ratio", "retransmit_ratio"] {
            prop_assert!(run.metric(ratio).is_none_or(|r| (0.0..=1.0).contains(&r)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// A run whose packets are recorded handles each arrival at its time, and another one ahead of it
    /// where the way decides nothing. Everything else in their records is equal.
    #[test]
    fn receivers_that_run_ahead_change_nothing(
        (rate, rtt, queue, loss) in (1u32..60, 1u32..60, 1u32..40, 0u32..3),
        (jitter, switch, interval) in (0u32..2, any::<bool>(), 1u32..40),
        flows in prop::collection::vec((0usize..5, 1u32..4, 1u32..6, 0usize..4, 0u32..2), 1..4),
    ) {
        let groups = flows.iter().map(|&(cc, count, every, app, stop)| {
            let cc = ["reno", "bbr3", "cubic", "dctcp", "bbr1"][cc];
            let app = ["\"bulk\"", "{ size = \"80 kB\" }", "{ rate = \"300 kbit/s\" }", "\"bulk\""][app];
            let ack = match every {
                5 => "\"linux\"".to_owned(),
                _ => format!("{{ every = \"{every} packets\", delay = \"{every} ms\" }}"),
            };
            let route = if switch { "route = [\"nic\", \"bottleneck\"]\n" } else { "" };
            let stop = if stop > 0 { "stop = \"700 ms\"\n" } else { "" };
            format!("[[flows]]\ncc = \"{cc}\"\ncount = {count}\napp = {app}\nack = {ack}\n{route}{stop}")
        });
        let groups: String = groups.collect();
        let nic = if switch { "[[links]]\nname = \"nic\"\nrate = \"50 Mbit/s\"\nqueue.size = \"30 packets\"\n" } else { "" };
        let [(ahead, few), (each, many)] = [false, true].map(|packets| {
            let text = format!(
                "schema = 1\n[run]\nduration = \"1 s\"\nsample_interval = \"{interval} ms\"\n\
                 record = {{ rounds = true, states = true, packets = {packets} }}\n[path]\n\
                 rate = \"{rate} Mbit/s\"\nrtt = \"{rtt} ms\"\nqueue.size = \"{queue} packets\"\n\
                 loss = \"{loss} %\"\njitter = \"{jitter} ms\"\n{nic}{groups}"
            );
            paceline_simulator::run(&parse(&text), 1, &mut |_| ControlFlow::Continue(())).unwrap()
        });
        prop_assert!(few.events < many.events);
        prop_assert_eq!(few.packets, many.packets);
        for table in ["samples", "queue", "events"] {
            prop_assert!(ahead.table(table) == each.table(table), "{}", table);
        }
        prop_assert_eq!(format!("{:?}", ahead.metrics()), format!("{:?}", each.metrics()));
    }
}
