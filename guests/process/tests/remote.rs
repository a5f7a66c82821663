//! A guest in a process of its own, which does well or does not.

use std::time;

use paceline_capi::{EndConfig, OwnStack};
use paceline_endpoint::{Datagram, Ecn, Endpoint};
use paceline_units::Instant;
use process::{Guest, Remote};

struct Faulty;

impl Guest for Faulty {
    const NAME: &'static str = "faulty";
    const SUMMARY: &'static str = "What its controller's name says";
    const VERSION: &'static str = "1";
    const CONTROLLERS: &'static str = "";
    const PHASES: &'static [&'static str] = &["Down", "Up"];
    const EXECUTABLE: &'static str = "../faulty";
    const PATIENCE: time::Duration = time::Duration::from_secs(1);
}

const BEGIN: Instant = Instant::from_nanos(1_000_000);

fn made(controller: &str, seed: u64) -> Result<Remote<Faulty>, String> {
    let config = EndConfig {
        sends: true,
        max_datagram: 1448,
        seed,
        now: BEGIN,
        controller,
    };
    Remote::new(&config, &[])
}

/// What it says after a step in which its time-out is due.
fn step(controller: &str, seed: u64) -> Remote<Faulty> {
    let mut end = made(controller, seed).expect("an end");
    let now = Instant::from_nanos(BEGIN.as_nanos() + 123_456);
    end.on_timer(now);
    assert_eq!(end.poll_transmit(now), None);
    let _ = end.next_timer();
    end
}

#[test]
fn what_is_asked_and_what_is_answered_cross_the_boundary() {
    let mut end = made("well", 1).expect("an end");
    let datagram = Datagram {
        payload: vec![9; 700],
        size: 700,
        ecn: Some(Ecn::Ce),
    };
    end.receive(BEGIN, datagram);
    let out = end.poll_transmit(BEGIN).expect("a datagram");
    assert_eq!((out.payload, out.ecn), (vec![1, 2, 3], Ecn::Ect0));
    assert_eq!(end.poll_transmit(BEGIN), None);
    assert_eq!(end.next_timer(), Some(Instant::from_nanos(77)));
    assert_eq!((end.delivered(), end.stats().lost_packets), (700, 5));
    assert_eq!((end.stats().phase, end.phase()), ("Up", "Up"));
    assert_eq!(end.failure(), None);
}

#[test]
fn its_clock_is_the_engines_and_its_draws_follow_from_the_seed() {
    assert_eq!(step("clock", 1).delivered(), 123_456);
    let draws = |seed| step("draws", seed).delivered();
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
}

#[test]
fn what_it_does_to_itself_is_the_failure_of_one_end() {
    assert_eq!(made("refuses", 1).map(drop), Err("it refuses".to_owned()));
    for (controller, why) in [
        ("panics", "it panicked: at its worst"),
        ("aborts", "its process aborted: at its; worst"),
        (
            "grows",
            "its process aborted: memory allocation of 1073741824 bytes failed",
        ),
        ("exits", "its process ended with code 3"),
        ("babbles", "its process answers what is no answer"),
        (
            "spins",
            "its process does not answer within 1 s of CPU time",
        ),
    ] {
        let failure = step(controller, 1).failure().expect("a failure");
        assert!(failure.starts_with(why), "{failure}");
    }
}
