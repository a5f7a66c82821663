//! LEDBAT++, computed by hand.

use super::*;

#[test]
fn gain_by_base_rtt() {
    let divisor = |micros| gain_divisor(ms(60), Duration::from_micros(micros), 16);
    let table = [
        (1, 16),
        (7_500, 16),
        (10_000, 12),
        (20_000, 6),
        (30_000, 4),
        (40_000, 3),
        (60_000, 2),
        (80_000, 2),
        (100_000, 2),
        (119_999, 2),
        (120_000, 1),
        (300_000, 1),
    ];
    for (base, expected) in table {
        assert_eq!(divisor(base), expected, "{base} us");
    }
    assert_eq!(divisor(0), 16);
}

/// The change of a round trip in packets, with 100 packets at a base of 20 ms.
fn packets_at(queue: Duration) -> f64 {
    let window = Bytes::new(100 * MSS);
    change(Bytes::new(MSS), 6, Gain::ONE, window, queue, ms(60)) as f64 / 65_536.0 / MSS as f64
}

#[test]
fn change_by_queuing_delay() {
    let table = [
        (0, 1.0 / 6.0),
        (30_000, 1.0 / 6.0),
        (60_000, 1.0 / 6.0),
        // 100 packets x (66 / 60 - 1) are 10.
        (66_000, 1.0 / 6.0 - 10.0),
        (75_000, 1.0 / 6.0 - 25.0),
        (90_000, 1.0 / 6.0 - 50.0),
        (90_100, -50.0),
        (120_000, -50.0),
        (10_000_000, -50.0),
    ];
    for (micros, expected) in table {
        let packets = packets_at(Duration::from_micros(micros));
        assert!(
            (packets - expected).abs() < 0.01,
            "{micros} us: {packets}, not {expected}"
        );
    }
}

// --- Pitfalls seen in implementations.

#[test]
fn pitfall_the_decrease_formula_is_not_used_below_the_target() {
    // With an empty queue it would add a whole window per round trip.
    assert!(packets_at(Duration::ZERO) < 1.0);
    assert!(packets_at(ms(59)) < 1.0);
    let mut flow = Flow::avoiding(&[], 100);
    let before = flow.cwnd();
    flow.round(BASE + ms(30));
    let grown = flow.cwnd() - before;
    assert!((MSS / 6 - 5..=MSS / 6 + 5).contains(&grown), "{grown}");
}

#[test]
fn pitfall_half_a_window_is_the_most_of_a_round_trip_not_of_an_ack() {
    for pace in ["spread", "once"] {
        let mut flow = Flow::avoiding(&[("decrease", word(pace))], 100);
        let before = flow.cwnd();
        let rtt = BASE + ms(400);
        // One round trip in acknowledgments of one packet each, and in a single acknowledgment.
        for _ in 0..before / MSS {
            flow.ack(rtt);
        }
        let left = flow.cwnd() as f64 / before as f64;
        assert!((0.49..0.56).contains(&left), "{pace}: {left}");
        let mut flow = Flow::avoiding(&[("decrease", word(pace))], 100);
        for _ in 0..5 {
            flow.ack(rtt);
        }
        let before = flow.cwnd();
        flow.ack_of(rtt, 1000);
        assert!(flow.cwnd() >= before * 49 / 100, "{pace}");
    }
}

#[test]
fn pitfall_half_a_window_is_the_most_with_two_windows_in_flight_too() {
    let mut flow = Flow::avoiding(&[], 100);
    flow.recover();
    let (rtt, before) = (BASE + ms(400), flow.cwnd());
    flow.in_flight = Some(2 * before);
    for _ in 0..2 * before / MSS - 1 {
        flow.ack(rtt);
    }
    assert!(flow.cwnd() >= before / 2, "{}", flow.cwnd());
}

#[test]
fn pitfall_just_above_the_target_the_window_still_grows() {
    assert!(packets_at(Duration::from_micros(60_050)) > 0.0);
    assert!(packets_at(Duration::from_micros(60_150)) < 0.0);
    for pace in ["spread", "once"] {
        let mut flow = Flow::avoiding(&[("decrease", word(pace))], 20);
        let before = flow.cwnd();
        flow.round(BASE + Duration::from_micros(60_100));
        assert!(flow.cwnd() > before, "{pace}");
    }
}

#[test]
fn pitfall_gain_and_the_three_quarters_are_not_integer_divisions() {
    // 3/4 of 60 ms and a sixth of a packet, where an integer division gives 0.
    let mut flow = Flow::new("ledbat++", &[]);
    for _ in 0..20 {
        flow.round(BASE);
    }
    let before = flow.cwnd();
    for _ in 0..10 {
        flow.ack(BASE + ms(45));
    }
    assert_eq!(flow.controller.phase(), "InitialSlowStart");
    assert_eq!(flow.cwnd() - before, 10 * MSS / 6);
    for _ in 0..4 {
        flow.ack(BASE + Duration::from_micros(45_010));
    }
    assert_eq!(flow.controller.phase(), "CongestionAvoidance");
    assert_eq!(flow.ssthresh(), flow.cwnd());
}

#[test]
fn pitfall_a_queue_ends_the_initial_slow_start_only() {
    let mut flow = Flow::avoiding(&[], 100);
    flow.until("Slowdown", BASE + ms(50));
    flow.until("Ramp", BASE);
    for _ in 0..5 {
        flow.round(BASE + ms(100));
        assert_eq!(flow.controller.phase(), "Ramp");
    }
    assert!(flow.cwnd() > 3 * MSS);
}

// --- LEDBAT++ as a machine.

#[test]
fn the_window_starts_at_two_packets_and_grows_by_the_gain() {
    let mut flow = Flow::new("ledbat++", &[]);
    assert_eq!(flow.cwnd(), 2 * MSS);
    assert_eq!(flow.controller.phase(), "InitialSlowStart");
    // F is 6 at 20 ms: x 7/6 each round trip.
    for _ in 0..30 {
        flow.ack(BASE);
    }
    assert_eq!(flow.cwnd().next_multiple_of(10), 7 * MSS);
    // At 120 ms it doubles.
    let mut flow = Flow::new("ledbat++", &[]);
    for _ in 0..30 {
        flow.ack(ms(120));
    }
    assert_eq!(flow.cwnd(), 32 * MSS);
}

#[test]
fn the_initial_slowdown_comes_two_round_trips_after_slow_start() {
    let mut flow = Flow::avoiding(&[], 100);
    let left = flow.now;
    let rtt = BASE + ms(46);
    while flow.controller.phase() == "CongestionAvoidance" {
        flow.now += ms(1);
        flow.ack(rtt);
    }
    assert_eq!(flow.controller.phase(), "Slowdown");
    assert_eq!(flow.now.since(left), rtt * 2);
    assert_eq!(flow.cwnd(), 2 * MSS);
    assert!(flow.ssthresh() > 100 * MSS);
}

#[test]
fn a_slowdown_lasts_two_round_trips_and_its_ramp_goes_by_the_gain() {
    for (ramp, doubling) in [("gain-scaled", false), ("doubling", true)] {
        let mut flow = Flow::avoiding(&[("ramp", word(ramp))], 100);
        flow.until("Slowdown", BASE + ms(46));
        let (begin, threshold) = (flow.now, flow.ssthresh());
        while flow.controller.phase() == "Slowdown" {
            flow.now += ms(1);
            flow.ack(BASE);
            assert_eq!(flow.cwnd(), 2 * MSS);
        }
        assert_eq!(flow.now.since(begin), ms(40));
        assert_eq!(flow.controller.phase(), "Ramp");
        // From 2 packets to over 100: 7 round trips of doubling, about 26 of growth by a sixth.
        let rounds = flow.until("CongestionAvoidance", BASE);
        let expected = if doubling { 4.0..8.0 } else { 20.0..30.0 };
        assert!(expected.contains(&rounds), "{rounds}");
        assert_eq!(flow.cwnd(), threshold);
        // The next one is due nine times the duration of all this after the ramp.
        let (end, took) = (flow.now, flow.now.since(begin));
        while flow.controller.phase() == "CongestionAvoidance" {
            flow.now += ms(1);
            flow.ack(BASE + ms(30));
        }
        let waited = flow.now.since(end).as_nanos() as f64 / took.as_nanos() as f64;
        assert!((8.9..9.1).contains(&waited), "{waited}");
    }
}

#[test]
fn a_ramp_that_a_queue_cuts_short_counts_twice() {
    let mut flow = Flow::avoiding(&[("ramp_end", word("target"))], 100);
    flow.until("Slowdown", BASE + ms(46));
    let begin = flow.now;
    flow.until("Ramp", BASE);
    flow.until("CongestionAvoidance", BASE + ms(61));
    assert!(flow.cwnd() < 10 * MSS);
    let (end, took) = (flow.now, flow.now.since(begin));
    while flow.controller.phase() == "CongestionAvoidance" {
        flow.now += ms(1);
        flow.ack(BASE);
    }
    let waited = flow.now.since(end).as_nanos() as f64 / took.as_nanos() as f64;
    assert!((17.8..18.2).contains(&waited), "{waited}");
}

#[test]
fn a_decrease_puts_the_slowdown_off_where_that_is_asked() {
    let deferral = OptionValue::Duration(Duration::from_secs(30));
    let mut flow = Flow::avoiding(&[("slowdown_deferral", deferral)], 100);
    for _ in 0..5 {
        flow.ack(BASE + ms(70));
    }
    let from = flow.now;
    while flow.controller.phase() == "CongestionAvoidance" {
        flow.now += ms(10);
        flow.ack(BASE);
    }
    assert_eq!(flow.now.since(from), Duration::from_secs(30));
}

#[test]
fn bbr_style_cuts_to_four_packets_ten_seconds_after_the_base_was_seen() {
    let mut flow = Flow::avoiding(&[("slowdown", word("bbr-style"))], 100);
    let last_seen = flow.now;
    while flow.controller.phase() == "CongestionAvoidance" {
        flow.now += ms(5);
        flow.ack(BASE + ms(40));
    }
    assert_eq!(flow.now.since(last_seen), Duration::from_secs(10) + ms(5));
    assert_eq!(
        (flow.controller.phase(), flow.cwnd()),
        ("Slowdown", 4 * MSS)
    );
    // The estimate restarts from the current samples.
    assert_eq!(flow.duration("base_delay"), BASE + ms(40));
    let window = flow.ssthresh();
    // More than four packets are in flight for 60 ms more: that time does not count.
    flow.in_flight = Some(50 * MSS);
    for _ in 0..60 {
        flow.now += ms(1);
        flow.ack(BASE + ms(40));
    }
    flow.in_flight = Some(4 * MSS);
    let floor = flow.now;
    while flow.controller.phase() == "Slowdown" {
        flow.now += ms(1);
        flow.ack(BASE);
    }
    // The first acknowledgment at the floor starts the clock.
    assert_eq!(flow.now.since(floor), ms(201));
    assert_eq!(flow.duration("base_delay"), BASE);
    assert_eq!(
        (flow.controller.phase(), flow.cwnd()),
        ("CongestionAvoidance", window)
    );
}

#[test]
fn bbr_style_waits_ten_seconds_from_the_end_of_a_slowdown() {
    let mut flow = Flow::avoiding(&[("slowdown", word("bbr-style"))], 100);
    flow.until("Slowdown", BASE + ms(40));
    flow.in_flight = Some(4 * MSS);
    flow.ack(BASE);
    // Only the first sample at the floor is as low.
    while flow.controller.phase() == "Slowdown" {
        flow.now += ms(1);
        flow.ack(BASE + ms(1));
    }
    let end = flow.now;
    flow.until("Slowdown", BASE + ms(40));
    assert!(flow.now.since(end) > Duration::from_secs(10));
}

#[test]
fn bbr_style_holds_for_a_round_trip_at_the_least() {
    let duration = OptionValue::Duration(Duration::ZERO);
    let options = [("slowdown", word("bbr-style")), ("bbr_duration", duration)];
    let mut flow = Flow::avoiding(&options, 100);
    flow.until("Slowdown", BASE + ms(40));
    flow.in_flight = Some(4 * MSS);
    for packet in 0..4 {
        assert_eq!(flow.controller.phase(), "Slowdown", "{packet}");
        flow.ack(BASE);
    }
    // The first of these left three in flight.
    assert_eq!(flow.controller.phase(), "CongestionAvoidance");
}

#[test]
fn the_modified_target_is_the_base_rtt_up_to_the_target() {
    for (base, target) in [(10, 10), (59, 59), (60, 60), (100, 60)] {
        let mut flow = Flow::new("ledbat++", &[("target_rule", word("min-base-rtt"))]);
        flow.ack(ms(base));
        assert_eq!(flow.duration("target"), ms(target));
    }
    let share = OptionValue::Gain(Gain::from_millionths(500_000));
    let options = [
        ("target_rule", word("min-base-rtt")),
        ("base_rtt_share", share),
    ];
    let mut flow = Flow::new("ledbat++", &options);
    flow.ack(BASE);
    assert_eq!(flow.duration("target"), ms(10));
}

#[test]
fn the_modified_target_sets_the_exit_the_decrease_and_by_choice_the_gain() {
    for (gain, divisor) in [("fixed", 6), ("effective", 2)] {
        let options = [
            ("target_rule", word("min-base-rtt")),
            ("gain_target", word(gain)),
        ];
        let mut flow = Flow::new("ledbat++", &options);
        for _ in 0..100 {
            flow.ack(BASE);
        }
        assert_eq!(flow.value("gain_divisor"), Value::Count(divisor));
        for _ in 0..4 {
            flow.ack(BASE + ms(16));
        }
        assert_eq!(flow.controller.phase(), "CongestionAvoidance");
        let before = flow.cwnd();
        for _ in 0..8 {
            flow.ack(BASE + ms(25));
        }
        assert!(flow.cwnd() < before);
    }
}

#[test]
fn a_loss_halves_the_window_and_ends_the_initial_slow_start() {
    let mut flow = Flow::new("ledbat++", &[]);
    for _ in 0..228 {
        flow.ack(BASE);
    }
    let half = flow.cwnd() / 2;
    flow.recover();
    assert_eq!((flow.cwnd(), flow.ssthresh()), (half, half));
    assert_eq!(flow.controller.phase(), "CongestionAvoidance");
    let from = flow.now;
    while flow.controller.phase() == "CongestionAvoidance" {
        flow.now += ms(1);
        flow.ack(BASE);
    }
    assert_eq!(
        (flow.now.since(from), flow.controller.phase()),
        (BASE * 2, "Slowdown")
    );
}

#[test]
fn recovery_holds_the_window_and_the_floor_is_two_packets() {
    let mut flow = Flow::avoiding(&[], 100);
    flow.controller.on_recovery_enter(flow.now, Bytes::ZERO);
    assert_eq!(flow.controller.phase(), "Recovery");
    let before = flow.cwnd();
    flow.ca_state = CaState::Recovery;
    for _ in 0..100 {
        flow.ack(BASE + ms(200));
    }
    assert_eq!(flow.cwnd(), before);
    for _ in 0..20 {
        flow.recover();
    }
    assert_eq!((flow.cwnd(), flow.ssthresh()), (2 * MSS, 2 * MSS));
    flow.ca_state = CaState::Open;
    flow.round(BASE + ms(900));
    assert_eq!(flow.cwnd(), 2 * MSS);
}

#[test]
fn a_loss_in_a_slowdown_halves_what_the_option_says() {
    for what in ["window", "threshold"] {
        let mut flow = Flow::avoiding(&[("loss_in_slowdown", word(what))], 100);
        flow.until("Slowdown", BASE + ms(46));
        let half = flow.ssthresh() / 2;
        flow.recover();
        let expected = if what == "window" { 2 * MSS } else { half };
        assert_eq!((flow.cwnd(), flow.ssthresh()), (2 * MSS, expected));
        assert_eq!(flow.controller.phase(), "Slowdown");
    }
}

/// A timeout, or fast recovery, in the first round of the ramp.
#[test]
fn a_loss_in_the_ramp_halves_what_the_option_says() {
    for (what, timeout) in [
        ("window", true),
        ("threshold", true),
        ("window", false),
        ("threshold", false),
    ] {
        let mut flow = Flow::avoiding(&[("loss_in_slowdown", word(what))], 100);
        flow.until("Slowdown", BASE + ms(46));
        let half = flow.ssthresh() / 2;
        flow.until("Ramp", BASE);
        assert!(flow.cwnd() < 4 * MSS);
        let expected = if what == "window" { 2 * MSS } else { half };
        match timeout {
            true => {
                flow.controller.on_timeout(flow.now, Bytes::ZERO);
                flow.controller.on_recovery_exit(flow.now);
                assert_eq!((flow.cwnd(), flow.controller.phase()), (MSS, "SlowStart"));
            }
            false => {
                flow.recover();
                let goes_on = if what == "window" {
                    "CongestionAvoidance"
                } else {
                    "Ramp"
                };
                assert_eq!(flow.controller.phase(), goes_on);
            }
        }
        assert_eq!(flow.ssthresh(), expected, "{what}");
        flow.until("CongestionAvoidance", BASE);
        // Where slow start ends, a round trip adds more than the packet of congestion avoidance.
        assert!(
            (expected..expected * 3 / 2 + 4 * MSS).contains(&flow.cwnd()),
            "{what}"
        );
    }
}

/// Late in the ramp the window is above half of the one before the slowdown.
#[test]
fn a_loss_late_in_the_ramp_ends_it() {
    let mut flow = Flow::avoiding(&[("loss_in_slowdown", word("threshold"))], 100);
    flow.until("Slowdown", BASE + ms(46));
    let half = flow.ssthresh() / 2;
    flow.until("Ramp", BASE);
    while flow.cwnd() <= half + MSS {
        flow.ack(BASE);
    }
    flow.recover();
    assert_eq!(flow.controller.phase(), "CongestionAvoidance");
    assert_eq!((flow.cwnd(), flow.ssthresh()), (half, half));
}

#[test]
fn a_loss_ends_the_ramp() {
    let mut flow = Flow::avoiding(&[], 100);
    flow.until("Slowdown", BASE + ms(46));
    flow.until("Ramp", BASE);
    for _ in 0..108 {
        flow.ack(BASE);
    }
    let before = flow.cwnd();
    flow.recover();
    assert_eq!(flow.controller.phase(), "CongestionAvoidance");
    assert_eq!((flow.cwnd(), flow.ssthresh()), (before / 2, before / 2));
}

#[test]
fn a_timeout_starts_over_from_one_packet_and_forgets_the_slowdown() {
    let mut flow = Flow::avoiding(&[], 100);
    let half = flow.cwnd() / 2;
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (MSS, half));
    flow.controller.on_recovery_exit(flow.now);
    flow.now += Duration::from_secs(5);
    flow.ack(BASE);
    assert_eq!(flow.controller.phase(), "SlowStart");
    // Slow start to the threshold whatever the queue, then a slowdown two round trips later.
    flow.until("CongestionAvoidance", BASE + ms(100));
    assert_eq!(flow.cwnd(), half);
    assert!(flow.until("Slowdown", BASE + ms(100)) < 2.1);
}

#[test]
fn a_spurious_episode_is_undone() {
    let mut flow = Flow::avoiding(&[], 100);
    let before = (flow.cwnd(), flow.ssthresh());
    flow.controller.on_recovery_enter(flow.now, Bytes::ZERO);
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), before);
    // Nothing is restored twice, and nothing ends a slowdown early.
    flow.recover();
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.ssthresh()), before);
    flow.until("Slowdown", BASE + ms(46));
    flow.recover();
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    assert_eq!(flow.cwnd(), 2 * MSS);
    assert!(flow.ssthresh() >= before.1);
}

#[test]
fn idleness_returns_to_two_packets_without_a_slowdown() {
    let mut flow = Flow::avoiding(&[], 100);
    let sent = |flow: &Flow, pause: Duration| Sent {
        now: flow.now + pause,
        size: MSS as u32,
        in_flight: Bytes::ZERO,
        app_limited: true,
    };
    let before = flow.cwnd();
    flow.controller.on_send(&sent(&flow, ms(900)));
    assert_eq!(flow.cwnd(), before);
    flow.controller.on_send(&sent(&flow, ms(1950)));
    assert_eq!(
        (flow.cwnd(), flow.controller.phase()),
        (2 * MSS, "SlowStart")
    );
    flow.now += Duration::from_secs(2);
    flow.ack(BASE);
    assert_eq!(flow.controller.phase(), "SlowStart");
}

#[test]
fn an_unused_window_does_not_grow() {
    for mut flow in [Flow::new("ledbat++", &[]), Flow::avoiding(&[], 50)] {
        let before = flow.cwnd();
        flow.cwnd_limited = false;
        for _ in 0..50 {
            flow.ack(BASE);
        }
        assert_eq!(flow.cwnd(), before);
    }
}

#[test]
fn pacing_by_linux_ratios() {
    let mut flow = Flow::avoiding(&[("pacing", OptionValue::Flag(true))], 100);
    for _ in 0..10 {
        flow.ack(BASE + ms(30));
    }
    let rate = flow.controller.pacing_rate().unwrap().bps();
    // 1.2 windows in 50 ms.
    assert_eq!(rate, flow.cwnd() * 12 / 10 * 8 * 20);
    assert_eq!(Flow::avoiding(&[], 10).controller.pacing_rate(), None);
}
