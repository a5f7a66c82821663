//! The example in virtual time, against what its link can carry.

use example_transport::End;
use paceline_experiment::{Guests, Watch};
use paceline_record::Run;
use paceline_record::arrow_array::cast::AsArray;
use paceline_record::arrow_array::types::Int64Type;
use paceline_simulator::{Stack, Stacks, run_with};
use paceline_units::Duration;

const HEADER: u32 = 52;

fn run(path: &str, app: &str, window: usize) -> Run {
    let text = format!(
        "schema = 1\nrun.duration = \"10 s\"\n[path]\nrate = \"10 Mbit/s\"\nrtt = \"40 ms\"\n{path}\n[[flows]]\ncc = \"reno\"\n{app}\n"
    );
    let scenario = paceline_experiment::parse(&text, "test.toml", &[]).expect("a scenario");
    let stacks = Stacks::none().with(
        0,
        Stack::new(move |setup| {
            let end = || End::new(window, setup.max_datagram, Duration::from_millis(250));
            (end(), end())
        }),
    );
    run_with(&scenario, 1, &Guests::none(), &stacks, &mut Watch::none())
        .unwrap_or_else(|error| panic!("{error}"))
        .0
}

fn goodput(run: &Run) -> f64 {
    run.metric("goodput_bps").expect("one flow")
}

/// A window of two BDPs fills the link: what is carried is the link's rate less the headers, once the
/// first data has arrived.
#[test]
fn a_large_window_fills_the_link() {
    let run = run("queue.size = \"4 bdp\"", "", 66);
    let payload = f64::from(1500 - HEADER) / 1500.0;
    let carried = goodput(&run) / (10e6 * payload * (10.0 - 0.02) / 10.0);
    assert!((0.998..=1.0).contains(&carried), "{carried}");
    assert_eq!(run.metric("loss_ratio"), Some(0.0));
}

/// A window of ten datagrams carries ten a round trip: 40 ms and the time that a packet takes to be sent.
#[test]
fn a_small_window_carries_a_window_a_round_trip() {
    let run = run("queue.size = \"1 bdp\"", "", 10);
    let round = 0.040 + 1500.0 * 8.0 / 10e6;
    let expected = 10.0 * 1448.0 * 8.0 / round;
    // To a window of the 2427 datagrams that are carried in ten seconds.
    let carried = goodput(&run) / expected;
    assert!((carried - 1.0).abs() < 10.0 / 2427.0, "{carried}");
}

/// One packet of fifty is lost, one of fifty copied, some come late: all of the data arrives, once.
#[test]
fn what_is_lost_goes_again() {
    let run = run(
        "queue.size = \"1 bdp\"\nloss = \"2 %\"\nduplicate = \"2 %\"\nreorder = { probability = \"1 %\", delay = \"5 ms\" }",
        "app = { size = \"1448000 B\" }",
        10,
    );
    let flow = &run.flows()[0];
    let value = |name: &str| {
        let metric = flow.metrics.iter().find(|metric| metric.name == name);
        metric.and_then(|metric| metric.value)
    };
    assert!(value("completion_ns").is_some(), "{:?}", flow.metrics);
    let flows = run.table("flows").expect("a table");
    let delivered = flows.column_by_name("goodput_bytes").expect("a column");
    assert_eq!(delivered.as_primitive::<Int64Type>().value(0), 1_448_000);
    assert!(
        value("retransmit_ratio") > Some(0.015),
        "{:?}",
        flow.metrics
    );
}
