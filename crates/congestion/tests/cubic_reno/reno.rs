use paceline_congestion::{CaState, Controller, Ecn};
use paceline_units::{Bytes, Duration, Instant, Rate};

use crate::flow::{Flow, MSS, flag, near};

const RTT: Duration = Duration::from_millis(40);

#[test]
fn slow_start_doubles_and_counts_bytes() {
    let mut flow = Flow::new("reno", 10, RTT, &[]);
    assert_eq!(flow.controller.phase(), "SlowStart");
    flow.round();
    assert_eq!(flow.cwnd(), 20 * MSS);
    flow.ack(MSS / 2);
    assert_eq!(flow.cwnd(), 20 * MSS + MSS / 2);
    // RFC 3465: a stretch ACK adds L = 2 segments.
    flow.ack(5 * MSS);
    assert_eq!(flow.cwnd(), 22 * MSS + MSS / 2);
}

#[test]
fn congestion_avoidance_adds_a_segment_a_round() {
    let mut flow = Flow::avoiding("reno", 10, RTT);
    assert_eq!(flow.controller.phase(), "CongestionAvoidance");
    for round in 1..=20 {
        flow.round();
        assert_eq!(flow.cwnd(), (10 + round) * MSS);
    }
}

#[test]
fn delayed_acks_do_not_slow_congestion_avoidance() {
    let mut flow = Flow::avoiding("reno", 10, RTT);
    for _ in 0..5 {
        flow.ack(2 * MSS);
    }
    assert_eq!(flow.cwnd(), 11 * MSS);
}

#[test]
fn bytes_beyond_a_segment_of_growth_count_on() {
    let mut flow = Flow::avoiding("reno", 10, RTT);
    for _ in 0..7 {
        flow.ack(3 * MSS);
    }
    // 21 segments: 10 for the first segment of growth, 11 for the second.
    assert_eq!(flow.cwnd(), 12 * MSS);
    // But one ACK leaves at most a window of them.
    flow.ack(100 * MSS);
    flow.ack(MSS);
    flow.ack(MSS);
    assert_eq!(flow.cwnd(), 14 * MSS);
}

#[test]
fn slow_start_ends_at_the_threshold() {
    let mut flow = Flow::new("reno", 64, RTT, &[]);
    flow.recover();
    assert_eq!((flow.cwnd(), flow.ssthresh()), (32 * MSS, 32 * MSS));
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (MSS, 16 * MSS));
    flow.controller.on_recovery_exit(flow.now);
    for expected in [2, 4, 8, 16, 17, 18] {
        flow.round();
        assert_eq!(flow.cwnd(), expected * MSS);
    }
}

#[test]
fn fast_recovery_halves_and_holds() {
    let mut flow = Flow::avoiding("reno", 20, RTT);
    flow.controller.on_recovery_enter(flow.now, Bytes::ZERO);
    assert_eq!(flow.controller.phase(), "Recovery");
    assert_eq!((flow.cwnd(), flow.ssthresh()), (10 * MSS, 10 * MSS));
    for _ in 0..40 {
        let mut ack = flow.ack_of(MSS);
        ack.ca_state = CaState::Recovery;
        flow.feed(ack);
    }
    assert_eq!(flow.cwnd(), 10 * MSS);
    flow.controller.on_recovery_exit(flow.now);
    flow.round();
    assert_eq!(flow.cwnd(), 11 * MSS);
}

#[test]
fn half_of_a_window_is_in_whole_segments() {
    for (segments, half) in [(21, 10), (20, 10), (5, 2), (3, 2)] {
        let mut flow = Flow::avoiding("reno", segments, RTT);
        flow.recover();
        assert_eq!((flow.cwnd(), flow.ssthresh()), (half * MSS, half * MSS));
    }
    // A partial segment does not help.
    let mut flow = Flow::new("reno", 20, RTT, &[]);
    flow.ack(MSS / 2);
    flow.ack(MSS);
    assert_eq!(flow.cwnd(), 21 * MSS + MSS / 2);
    flow.recover();
    assert_eq!(flow.cwnd(), 10 * MSS);
}

#[test]
fn floors() {
    let mut flow = Flow::new("reno", 1, RTT, &[]);
    flow.recover();
    assert_eq!((flow.cwnd(), flow.ssthresh()), (2 * MSS, 2 * MSS));
    flow.controller.on_mss(4000);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (4000, 8000));
}

#[test]
fn a_second_timeout_of_the_same_data_keeps_the_threshold() {
    let mut flow = Flow::avoiding("reno", 40, RTT);
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (MSS, 20 * MSS));
    assert_eq!(flow.controller.phase(), "Loss");
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (MSS, 20 * MSS));
    // Other data: RFC 5681 (4) applies again.
    let mut ack = flow.ack_of(MSS);
    ack.ca_state = CaState::Loss;
    flow.feed(ack);
    assert_eq!(flow.cwnd(), 2 * MSS);
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (MSS, 2 * MSS));
}

#[test]
fn slow_start_after_a_timeout_adds_one_segment_an_ack() {
    let mut flow = Flow::avoiding("reno", 40, RTT);
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    let mut ack = flow.ack_of(3 * MSS);
    ack.ca_state = CaState::Loss;
    flow.feed(ack);
    assert_eq!(flow.cwnd(), 2 * MSS);
}

#[test]
fn a_spurious_episode_is_undone_to_its_beginning() {
    let mut flow = Flow::new("reno", 40, RTT, &[]);
    flow.controller.on_recovery_enter(flow.now, Bytes::ZERO);
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (MSS, 10 * MSS));
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    assert_eq!(flow.cwnd(), 40 * MSS);
    assert_eq!(flow.controller.ssthresh(), Some(Bytes::INFINITE));
    assert_eq!(flow.controller.phase(), "SlowStart");
    // Nothing is restored twice.
    flow.recover();
    flow.recover();
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (20 * MSS, 20 * MSS));
}

#[test]
fn an_unused_window_and_a_duplicate_do_not_grow_it() {
    for mut flow in [
        Flow::new("reno", 10, RTT, &[]),
        Flow::avoiding("reno", 10, RTT),
        Flow::new("cubic", 10, RTT, &[]),
        Flow::avoiding("cubic", 10, RTT),
    ] {
        flow.cwnd_limited = false;
        for _ in 0..100 {
            flow.round();
        }
        assert_eq!(flow.cwnd(), 10 * MSS);
        flow.cwnd_limited = true;
        for _ in 0..100 {
            let mut ack = flow.ack_of(MSS);
            ack.una_advanced = false;
            flow.feed(ack);
        }
        assert_eq!(flow.cwnd(), 10 * MSS);
        flow.round();
        assert!(flow.cwnd() > 10 * MSS);
    }
}

#[test]
fn the_average_window_of_periodic_loss() {
    // RFC 9438 section 5.2 (table 1): 1.2 / sqrt(p); exactly sqrt(3 / 2p) = 122.5.
    let mut flow = Flow::avoiding("reno", 100, RTT);
    let mean = flow.mean_window(10_000, 10);
    assert!(near(mean, 122.5, 2.0), "{mean}");
}

#[test]
fn ecn_reduces_once_a_round() {
    let mut flow = Flow::new("reno", 40, RTT, &[("ecn", flag(true))]);
    assert_eq!(flow.controller.ecn(), Ecn::Ect0);
    let echo = |flow: &mut Flow| {
        let mut ack = flow.ack_of(MSS);
        ack.in_flight = Bytes::new(10 * MSS);
        ack.sent = ack.delivered + ack.in_flight;
        ack.ece = true;
        flow.feed(ack);
        flow.cwnd() / MSS
    };
    assert_eq!(echo(&mut flow), 20);
    // The round's ten segments, and the ACK of the last, which was sent before the one with CWR.
    for _ in 0..10 {
        assert_eq!(echo(&mut flow), 20);
    }
    assert_eq!(echo(&mut flow), 10);
}

#[test]
fn ecn_beside_recovery_reduces_once() {
    let mut flow = Flow::new("reno", 40, RTT, &[("ecn", flag(true))]);
    flow.controller.on_recovery_enter(flow.now, Bytes::ZERO);
    for ca_state in [CaState::Recovery, CaState::Open] {
        let mut ack = flow.ack_of(MSS);
        ack.ece = true;
        ack.ca_state = ca_state;
        flow.feed(ack);
        assert_eq!(flow.cwnd(), 20 * MSS);
    }
}

#[test]
fn an_ecn_reduction_is_not_undone() {
    let mut flow = Flow::new("reno", 40, RTT, &[("ecn", flag(true))]);
    flow.recover();
    flow.ack(MSS);
    let mut ack = flow.ack_of(MSS);
    ack.delivered = Bytes::new(100 * MSS);
    ack.sent = ack.delivered + ack.in_flight;
    ack.ece = true;
    flow.feed(ack);
    assert_eq!(flow.cwnd(), 10 * MSS);
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    assert_eq!(flow.cwnd(), 10 * MSS);
}

#[test]
fn without_the_option_an_echo_is_ignored() {
    let mut flow = Flow::avoiding("reno", 40, RTT);
    assert_eq!(flow.controller.ecn(), Ecn::NotEct);
    let mut ack = flow.ack_of(MSS);
    ack.ece = true;
    flow.feed(ack);
    assert_eq!(flow.cwnd(), 40 * MSS);
}

#[test]
fn pacing_by_linux_ratios() {
    let unpaced = Flow::new("reno", 10, RTT, &[]);
    assert_eq!(unpaced.controller.pacing_rate(), None);
    assert_eq!(unpaced.controller.send_quantum(), Bytes::new(65_536));

    let mut flow = Flow::new("reno", 10, RTT, &[("pacing", flag(true))]);
    // 10 kB in 40 ms are 2 Mbit/s; two segments are more than a millisecond of 4 Mbit/s.
    let rate = flow.controller.pacing_rate();
    assert_eq!(rate, Some(Rate::from_bps(4_000_000)));
    assert_eq!(flow.controller.send_quantum(), Bytes::new(2 * MSS));
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    flow.controller.on_recovery_exit(flow.now);
    // ssthresh is 5 segments: twice the window until it is 2.5 of them.
    flow.ack(MSS);
    assert_eq!(flow.controller.pacing_rate(), Some(Rate::from_bps(800_000)));
    flow.ack(MSS);
    assert_eq!(flow.controller.pacing_rate(), Some(Rate::from_bps(720_000)));
    let fast = Flow::new("reno", 100_000, RTT, &[("pacing", flag(true))]);
    assert_eq!(fast.controller.send_quantum(), Bytes::new(65_536));
    assert_eq!(flow.now, Instant::ZERO);
}
