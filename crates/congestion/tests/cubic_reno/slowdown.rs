//! Slowdowns that every flow of a bottleneck has (IETF 115, BBR and LEDBAT++).

use paceline_congestion::Controller;
use paceline_congestion::options::OptionValue;
use paceline_units::{Bytes, Duration, Instant};

use crate::flow::{Flow, MSS};

const RTT: Duration = Duration::from_millis(40);
const SLOW: &str = "Slowdown";

fn flow(name: &str, slowdown: &'static str) -> Flow {
    let options = [
        ("initial_ssthresh", OptionValue::Bytes(Bytes::ZERO)),
        ("slowdown", OptionValue::Choice(slowdown)),
    ];
    Flow::new(name, 100, RTT, &options)
}

/// One ACK of a segment; the window's segments are spread over the round trip.
fn step(flow: &mut Flow) {
    flow.now += flow.rtt / (flow.cwnd() / MSS);
    flow.ack(MSS);
}

/// Goes on until a slowdown begins or ends. Returns the time, and the window just before.
fn until(flow: &mut Flow, slow: bool) -> (Instant, u64) {
    for _ in 0..1_000_000 {
        let before = flow.cwnd();
        step(flow);
        if (flow.controller.phase() == SLOW) == slow {
            return (flow.now, before);
        }
    }
    panic!("no change");
}

/// draft-irtf-iccrg-ledbat-plus-plus 4.4: two packets for two round trips, slow start to the window
/// before, and the next after nine times the duration of both.
#[test]
fn the_periodic_one_is_that_of_ledbat_plus_plus() {
    for name in ["reno", "cubic"] {
        let mut flow = flow(name, "periodic");
        let (begin, window) = until(&mut flow, true);
        // Two round trips after the first ACK, at the next one.
        let first = Instant::ZERO + RTT / 100;
        let late = begin.since(first + RTT * 2);
        assert!(late <= RTT / 100, "{name} {late:?}");
        assert_eq!(flow.cwnd(), 2 * MSS, "{name}");

        let (end, _) = until(&mut flow, false);
        let lasted = end.since(begin);
        assert!(lasted >= RTT * 2 && lasted < RTT * 3, "{name} {lasted:?}");
        assert_eq!(flow.controller.phase(), "SlowStart");
        assert_eq!(flow.ssthresh(), window, "{name}");
        assert!(flow.cwnd() <= 3 * MSS, "{name} {}", flow.cwnd());
        while flow.controller.phase() == "SlowStart" {
            step(&mut flow);
        }
        assert!(
            flow.cwnd() >= window && flow.cwnd() <= window + MSS,
            "{name}"
        );

        // The ACK after the one that completes the ramp ends it.
        step(&mut flow);
        let took = flow.now.since(begin);
        let planned = flow.now + took * 9;
        let (next, _) = until(&mut flow, true);
        assert!(next.since(planned) <= RTT / 100, "{name}");
        assert!(next >= planned, "{name}");
    }
}

/// BBRv1's ProbeRTT: 10 s after the minimum RTT was seen, four packets for 200 ms, and the window
/// is as before.
#[test]
fn the_other_is_that_of_bbr() {
    for name in ["reno", "cubic"] {
        let mut flow = flow(name, "bbr-style");
        step(&mut flow);
        let stamp = flow.now;
        flow.rtt = RTT * 2;
        let (begin, window) = until(&mut flow, true);
        let late = begin.since(stamp + Duration::from_secs(10));
        assert!(late <= flow.rtt / 100, "{name} {late:?}");
        assert_eq!(flow.cwnd(), 4 * MSS, "{name}");
        let (end, _) = until(&mut flow, false);
        let lasted = end.since(begin);
        let least = Duration::from_millis(200);
        assert!(
            lasted >= least && lasted <= least + flow.rtt,
            "{name} {lasted:?}"
        );
        assert_eq!(flow.cwnd(), window, "{name}");
        flow.rtt += RTT;
        let (next, _) = until(&mut flow, true);
        let apart = next.since(end);
        let least = Duration::from_secs(10);
        assert!(
            apart >= least && apart <= least + flow.rtt / 50,
            "{name} {apart:?}"
        );

        // As low again: the next one is due later.
        let mut flow = self::flow(name, "bbr-style");
        while flow.now < Instant::ZERO + Duration::from_secs(30) {
            step(&mut flow);
            assert_ne!(flow.controller.phase(), SLOW, "{name}");
        }
    }
}

/// RFC 9438 section 4.2: the clock of CUBIC's curve excludes the time in which it does not set the window.
#[test]
fn cubics_clock_waits() {
    for (style, at_least) in [
        ("periodic", RTT * 5),
        ("bbr-style", Duration::from_millis(200)),
    ] {
        let mut flow = flow("cubic", style);
        step(&mut flow);
        flow.rtt = RTT * 2;
        let (begin, _) = until(&mut flow, true);
        let before = flow.duration("t");
        until(&mut flow, false);
        while flow.controller.phase() == "SlowStart" {
            step(&mut flow);
        }
        assert!(flow.now.since(begin) >= at_least, "{style}");
        let moved = flow.duration("t") - before;
        assert!(moved <= RTT / 4, "{style}: {moved:?}");
    }
}

/// A loss that is detected in a slowdown belongs to the window before it.
#[test]
fn a_loss_in_a_slowdown_reduces_the_window_before_it() {
    for (name, kept) in [("reno", 50), ("cubic", 70)] {
        let mut flow = flow(name, "bbr-style");
        step(&mut flow);
        flow.rtt = RTT * 2;
        let (_, window) = until(&mut flow, true);
        flow.recover();
        assert_eq!(flow.cwnd(), 4 * MSS, "{name}");
        until(&mut flow, false);
        let expected = window * kept / 100;
        let error = expected.abs_diff(flow.cwnd());
        assert!(error <= MSS, "{name}: {} for {expected}", flow.cwnd());
    }
}

/// After a timeout there is slow start, as without slowdowns, and in it none begins.
#[test]
fn a_timeout_cancels_a_slowdown() {
    for name in ["reno", "cubic"] {
        let mut flow = flow(name, "periodic");
        until(&mut flow, true);
        flow.controller.on_timeout(flow.now, Bytes::ZERO);
        flow.controller.on_recovery_exit(flow.now);
        assert_eq!(flow.cwnd(), MSS);
        step(&mut flow);
        assert_eq!(
            (flow.controller.phase(), flow.cwnd()),
            ("SlowStart", 2 * MSS)
        );
        while flow.controller.phase() == "SlowStart" {
            step(&mut flow);
        }
        step(&mut flow);
        let threshold = flow.now;
        let (begin, _) = until(&mut flow, true);
        let late = begin.since(threshold + RTT * 2);
        assert!(late <= RTT / 20, "{name} {late:?}");
    }
}
