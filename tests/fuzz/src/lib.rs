//! What must hold of anything that comes from outside. Each tells whether the input was accepted.
//!
//! The fuzz targets ask it of what libFuzzer invents; `tests/soak` of stored inputs and corruptions of them, with
//! stable Rust.

pub mod record;
pub mod stream;

use std::ops::ControlFlow;

use paceline_experiment::RunError;
use paceline_path::{CapacityTrace, Link, LinkConfig, Packet, QueueLimit, Service};
use paceline_recovery::ets::Ets;
use paceline_units::{Duration, Instant};

/// What is read as an ETS option is written and read again as the same.
pub fn ets(octets: &[u8]) -> bool {
    let Ok(option) = Ets::decode(octets) else {
        return false;
    };
    let mut written = [0; Ets::SYN_LEN];
    let len = option
        .encode(&mut written)
        .expect("the longest option fits");
    assert!(len <= octets.len());
    assert_eq!(written[2..12], octets[2..12]);
    assert_eq!(Ets::decode(&written[..len]), Ok(option));
    true
}

/// What is read as another program's recording is a run with metrics, within its memory.
pub fn capture(octets: &[u8]) -> bool {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let Ok(run) = paceline_capture::read_bytes(octets, "fuzz", None, 8 << 20, &stop) else {
        return false;
    };
    let info = run.info();
    assert_eq!(run.flows().len(), info.flows.len());
    for metric in run.metrics() {
        assert!(metric.value.is_none_or(f64::is_finite), "{}", metric.name);
    }
    true
}

/// What is read as a scenario is written and read again as the same, but for its sweep: what is written is one run.
pub fn scenario(text: &str) -> bool {
    match paceline_experiment::parse(text, "fuzz.toml", &[]) {
        Ok(mut scenario) => {
            scenario.sweep = None;
            let again = paceline_experiment::parse(&scenario.to_toml(), "fuzz.toml", &[]);
            assert_eq!(again.expect("what is written can be read"), scenario);
            true
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            false
        }
    }
}

/// What is read as a scenario runs, or is refused. Only its beginning is run.
pub fn run(text: &str) -> bool {
    let Ok(scenario) = paceline_experiment::parse(text, "fuzz.toml", &[]) else {
        return false;
    };
    let seed = scenario.run.seed;
    match paceline_simulator::run(&scenario, seed, &mut |_| ControlFlow::Break(())) {
        Ok(_) | Err(RunError::Interrupted) => true,
        Err(RunError::Scenario(problems)) => {
            assert!(!problems.is_empty());
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[derive(Clone)]
struct Frame;

impl Packet for Frame {
    fn size(&self) -> u32 {
        1000
    }
}

/// What is read as a capacity trace drives a link to its end.
pub fn trace(text: &str) -> bool {
    let Ok(trace) = CapacityTrace::parse(text) else {
        return false;
    };
    assert!(trace.period() > Duration::ZERO);
    let mut link = Link::new(LinkConfig {
        service: Service::Trace(trace),
        delay: Duration::ZERO,
        limit: QueueLimit::Packets(100),
        seed: 1,
    });
    for _ in 0..100 {
        link.enqueue(Instant::ZERO, Frame);
    }
    let (mut now, mut arrived) = (Instant::ZERO, 0);
    while let Some(at) = link.next_arrival() {
        assert!(at >= now);
        now = at;
        assert!(link.arrive(at).is_some());
        arrived += 1;
    }
    assert_eq!(arrived, 100);
    assert!(link.is_balanced());
    true
}
