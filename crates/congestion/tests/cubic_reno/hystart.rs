//! HyStart++ (RFC 9406), tested through both controllers.

use paceline_congestion::{CaState, Controller};
use paceline_units::{Bytes, Duration};

use crate::flow::{Flow, MSS, flag};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A flow in its second round, whose first had an RTT of `base`.
fn second_round(base: Duration) -> Flow {
    let mut flow = Flow::new("cubic", 20, base, &[]);
    flow.round();
    assert_eq!(flow.cwnd(), 40 * MSS);
    assert_eq!(flow.duration("last_round_min_rtt"), base);
    flow
}

/// The phase after eight ACKs at `rtt`.
fn after_eight(mut flow: Flow, rtt: Duration) -> &'static str {
    flow.rtt = rtt;
    for _ in 0..7 {
        flow.ack(MSS);
        assert_eq!(flow.controller.phase(), "SlowStart", "too few samples");
    }
    flow.ack(MSS);
    flow.controller.phase()
}

#[test]
fn a_rise_by_the_threshold_enters_css() {
    let just_below = |rtt| rtt - Duration::from_nanos(1);
    for (base, threshold) in [
        // An eighth of the RTT, between 4 ms and 16 ms.
        (ms(40), ms(5)),
        (ms(8), ms(4)),
        (ms(100), Duration::from_micros(12_500)),
        (ms(400), ms(16)),
    ] {
        let rtt = base + threshold;
        assert_eq!(after_eight(second_round(base), rtt), "CSS");
        let phase = after_eight(second_round(base), just_below(rtt));
        assert_eq!(phase, "SlowStart");
    }
}

#[test]
fn css_grows_by_a_quarter_and_exits_after_five_rounds() {
    let mut flow = second_round(ms(40));
    flow.rtt = ms(50);
    for _ in 0..8 {
        flow.ack(MSS);
    }
    assert_eq!(flow.controller.phase(), "CSS");
    assert_eq!(flow.duration("css_baseline_min_rtt"), ms(50));
    let before = flow.cwnd();
    flow.ack(MSS);
    assert_eq!(flow.cwnd(), before + MSS / 4);
    let mut rounds = 0;
    let mut last = before;
    while flow.controller.phase() == "CSS" {
        // The data acknowledged by the end of the next round was in flight at its start.
        last = flow.cwnd();
        flow.round();
        rounds += 1;
        assert!(rounds <= 5);
    }
    assert_eq!(rounds, 5);
    assert_eq!(flow.controller.phase(), "CongestionAvoidance");
    assert!(flow.ssthresh() >= last && flow.cwnd() >= flow.ssthresh());
    // Section 4.10 of RFC 9438: no loss, so the plateau is here.
    flow.ack(MSS);
    assert_eq!(flow.duration("k"), Duration::ZERO);
    assert_eq!(flow.bytes("w_max"), flow.ssthresh());
}

#[test]
fn css_returns_when_the_rtt_falls_again() {
    let mut flow = second_round(ms(40));
    flow.rtt = ms(50);
    for _ in 0..8 {
        flow.ack(MSS);
    }
    flow.round();
    assert_eq!(flow.controller.phase(), "CSS");
    flow.rtt = ms(49);
    flow.round();
    assert_eq!(flow.controller.phase(), "SlowStart");
    assert_eq!(flow.duration("css_baseline_min_rtt"), Duration::MAX);
    let before = flow.cwnd();
    flow.ack(MSS);
    assert_eq!(flow.cwnd(), before + MSS);
}

#[test]
fn congestion_ends_it_for_good() {
    let mut flow = second_round(ms(40));
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    flow.controller.on_recovery_exit(flow.now);
    let mut rtt = 40;
    while flow.controller.phase() != "CongestionAvoidance" {
        rtt += 20;
        flow.rtt = ms(rtt);
        assert_eq!(flow.controller.phase(), "SlowStart");
        flow.round();
    }
    assert_eq!(flow.ssthresh(), 28 * MSS);
}

#[test]
fn the_limit_of_an_ack() {
    let grown = |name, options: &[_]| {
        let mut flow = Flow::new(name, 40, ms(40), options);
        flow.ack(20 * MSS);
        flow.cwnd() / MSS - 40
    };
    assert_eq!(grown("cubic", &[]), 8);
    assert_eq!(grown("cubic", &[("pacing", flag(true))]), 20);
    assert_eq!(grown("cubic", &[("hystart", flag(false))]), 2);
    assert_eq!(grown("reno", &[]), 2);
    assert_eq!(grown("reno", &[("hystart", flag(true))]), 8);
}

#[test]
fn an_undo_resumes_it() {
    let mut flow = second_round(ms(40));
    flow.controller.on_recovery_enter(flow.now, Bytes::ZERO);
    let mut ack = flow.ack_of(MSS);
    ack.ca_state = CaState::Recovery;
    flow.feed(ack);
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    let before = flow.cwnd();
    flow.ack(20 * MSS);
    assert_eq!(flow.cwnd(), before + 8 * MSS);
}
