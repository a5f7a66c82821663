use paceline_congestion::{CaState, Controller, Sent};
use paceline_units::{Bytes, Duration};

use crate::flow::{Flow, MSS, flag, gain, near};

const RTT: Duration = Duration::from_millis(100);

fn segments(bytes: u64) -> f64 {
    bytes as f64 / MSS as f64
}

#[test]
fn multiplicative_decrease_and_k() {
    let mut flow = Flow::avoiding("cubic", 100, RTT);
    flow.recover();
    assert_eq!((flow.cwnd(), flow.ssthresh()), (70 * MSS, 70 * MSS));
    assert_eq!(flow.bytes("w_max"), 100 * MSS);
    assert_eq!(flow.bytes("cwnd_prior"), 100 * MSS);
    flow.ack(MSS);
    // The cubic root of 30 / 0.4.
    let k = flow.duration("k").as_secs_f64();
    assert!(near(k, 4.217_163, 0.0001), "{k}");
}

#[test]
fn the_window_follows_the_cubic_function() {
    // A long RTT, where the cubic function is above Reno's window.
    let mut flow = Flow::avoiding("cubic", 1000, RTT);
    flow.recover();
    // K is the cubic root of 300 / 0.4.
    let k = 750f64.cbrt();
    let mut seconds = 0;
    while seconds < 14 {
        flow.round();
        let t = flow.duration("t").as_secs_f64();
        if t < f64::from(seconds) {
            continue;
        }
        seconds += 1;
        // The window chases W_cubic(t + RTT): it is between that and W_cubic(t).
        let w_cubic = |t: f64| 0.4 * (t - k).powi(3) + 1000.0;
        let cwnd = segments(flow.cwnd());
        assert!(
            cwnd >= w_cubic(t - 0.1) - 1.0 && cwnd <= w_cubic(t + 0.2) + 1.0,
            "{cwnd} at {t}: {}",
            w_cubic(t)
        );
    }
}

#[test]
fn growth_is_at_most_half_a_window_a_round() {
    let mut flow = Flow::avoiding("cubic", 10, RTT);
    flow.ack(MSS);
    flow.now += Duration::from_secs(1000);
    let before = flow.cwnd();
    flow.ack(MSS);
    let growth = flow.cwnd() - before;
    // A share of mss / cwnd of half the window, rounded down.
    assert!((MSS / 2 - 1..=MSS / 2).contains(&growth), "{growth}");
}

#[test]
fn reno_friendly_region_and_its_alpha() {
    let rtt = Duration::from_millis(10);
    let mut flow = Flow::avoiding("cubic", 100, rtt);
    flow.recover();
    let mut rounds = 0;
    while flow.cwnd() < 99 * MSS {
        let before = flow.cwnd();
        flow.round();
        rounds += 1;
        // alpha = 3 * 0.3 / 1.7 = 0.5294 segments a round.
        let growth = segments(flow.cwnd() - before);
        assert!(growth > 0.515 && growth < 0.535, "{growth}");
        assert_eq!(flow.cwnd(), flow.bytes("w_est"));
    }
    assert!((54..=56).contains(&rounds), "{rounds}");
    while flow.cwnd() < 100 * MSS {
        flow.round();
    }
    // Once at cwnd_prior, alpha is 1.
    for _ in 0..20 {
        let before = flow.cwnd();
        flow.round();
        let growth = segments(flow.cwnd() - before);
        assert!(growth > 0.98 && growth < 1.01, "{growth}");
    }
}

#[test]
fn fast_convergence() {
    let mut flow = Flow::avoiding("cubic", 100, RTT);
    flow.recover();
    // Lost again below W_max: 70 * 1.7 / 2.
    flow.recover();
    assert_eq!(flow.bytes("w_max"), 59_500);
    assert_eq!(flow.bytes("cwnd_prior"), 70 * MSS);
    assert_eq!(flow.cwnd(), 49 * MSS);

    let mut slow = Flow::new("cubic", 100, RTT, &[("fast_convergence", flag(false))]);
    slow.recover();
    slow.recover();
    assert_eq!(slow.bytes("w_max"), 70 * MSS);
}

#[test]
fn timeout() {
    let mut flow = Flow::avoiding("cubic", 100, RTT);
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (MSS, 70 * MSS));
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (MSS, 70 * MSS));
    let mut ack = flow.ack_of(MSS);
    ack.ca_state = CaState::Loss;
    flow.feed(ack);
    assert_eq!(flow.cwnd(), 2 * MSS);
    flow.controller.on_recovery_exit(flow.now);
    while flow.controller.phase() == "SlowStart" {
        flow.round();
    }
    flow.ack(MSS);
    // 4.8: the next stage starts on the plateau.
    assert_eq!(flow.duration("k"), Duration::ZERO);
    assert!((70 * MSS..=71 * MSS).contains(&flow.bytes("w_max")));
    assert_eq!(flow.bytes("cwnd_prior"), 100 * MSS);
}

#[test]
fn a_spurious_episode_restores_the_epoch() {
    let names = ["cwnd_prior", "w_max", "w_est", "ssthresh"];
    for timeout in [false, true] {
        let mut flow = Flow::avoiding("cubic", 100, RTT);
        flow.recover();
        for _ in 0..10 {
            flow.round();
        }
        let before = names.map(|name| flow.bytes(name));
        let (cwnd, k) = (flow.cwnd(), flow.duration("k"));
        let t = flow.duration("t");
        flow.controller.on_recovery_enter(flow.now, Bytes::ZERO);
        if timeout {
            flow.controller.on_timeout(flow.now, Bytes::ZERO);
        }
        assert!(flow.cwnd() < cwnd);
        assert_ne!(names.map(|name| flow.bytes(name)), before);
        flow.controller.on_spurious(flow.now, Bytes::ZERO);
        assert_eq!(names.map(|name| flow.bytes(name)), before);
        assert_eq!((flow.cwnd(), flow.duration("k")), (cwnd, k));
        assert_eq!(flow.duration("t"), t);
    }
}

#[test]
fn time_without_use_of_the_window_does_not_count() {
    let mut flow = Flow::avoiding("cubic", 1000, RTT);
    flow.recover();
    flow.round();
    let (t, cwnd) = (flow.duration("t"), flow.cwnd());
    // The application trickles for a minute, ...
    flow.cwnd_limited = false;
    for _ in 0..600 {
        flow.now += RTT;
        flow.ack(MSS);
    }
    assert_eq!((flow.duration("t"), flow.cwnd()), (t, cwnd));
    // ... pauses with nothing in flight, ...
    flow.now += Duration::from_secs(60);
    let sent = Sent {
        now: flow.now,
        size: MSS as u32,
        in_flight: Bytes::ZERO,
        app_limited: false,
    };
    flow.controller.on_send(&sent);
    assert_eq!(flow.duration("t"), t);
    // ... and continues.
    flow.cwnd_limited = true;
    flow.now += RTT;
    flow.ack(MSS);
    assert_eq!(flow.duration("t"), t + RTT);
    assert!(flow.cwnd() < cwnd + MSS);
}

#[test]
fn ecn_may_take_the_window_to_one_segment() {
    let mut flow = Flow::new("cubic", 1, RTT, &[("ecn", flag(true))]);
    let mut ack = flow.ack_of(MSS);
    ack.ece = true;
    flow.feed(ack);
    // 4.6: cwnd = max(0.7, 1), ssthresh = max(0.7, 2).
    assert_eq!((flow.cwnd(), flow.ssthresh()), (MSS, 2 * MSS));
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    assert_eq!(flow.ssthresh(), 2 * MSS);
}

#[test]
fn the_average_window_of_periodic_loss() {
    // RFC 9438 section 5.1, equation 6: 1.054 RTT^0.75 / p^0.75 for the defaults; table 1 has 187
    // for RTT 0.1 s. The window before each loss is 1 / 0.925 of it. The cubic function is flat
    // there, so convergence takes hundreds of losses.
    for (millis, expected) in [(100, 187.4), (200, 315.2)] {
        for start in [0.9, 1.1] {
            let window = (start * expected / 0.925) as u64;
            let mut flow = Flow::avoiding("cubic", window, Duration::from_millis(millis));
            flow.recover();
            let mean = flow.mean_window(10_000, 400);
            assert!(near(mean, expected, 5.0), "{mean} for {expected}");
        }
    }
}

#[test]
fn the_constant_and_beta_are_options() {
    let options = [("beta", gain(500_000)), ("c", gain(1_000_000))];
    let mut flow = Flow::new("cubic", 128, RTT, &options);
    flow.recover();
    assert_eq!(flow.cwnd(), 64 * MSS);
    flow.ack(MSS);
    // The cubic root of 64 / 1.
    assert_eq!(flow.duration("k"), Duration::from_secs(4));
}
