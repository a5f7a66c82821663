//! LEDBAT, and the lists of delays of both algorithms.

use super::*;

#[test]
fn the_base_is_the_least_of_ten_minutes_and_then_forgotten() {
    let mut history = BaseHistory::new(10, Duration::from_secs(60));
    assert_eq!(history.least(), None);
    history.on_sample(at(30_000), ms(20));
    for minute in 1..10 {
        history.on_sample(at(minute * 60_000), ms(80));
        assert_eq!(history.least(), Some(ms(20)), "minute {minute}");
    }
    history.on_sample(at(10 * 60_000 - 1), ms(80));
    assert_eq!(history.least(), Some(ms(20)));
    history.on_sample(at(10 * 60_000), ms(80));
    assert_eq!(history.least(), Some(ms(80)));
}

#[test]
fn a_minute_without_a_sample_counts_as_one() {
    let mut history = BaseHistory::new(3, Duration::from_secs(60));
    history.on_sample(at(0), ms(20));
    // Minutes 1 and 2 pass without samples; minute 3 pushes minute 0 out.
    history.on_sample(at(3 * 60_000), ms(80));
    assert_eq!(history.least(), Some(ms(80)));
    // Far ahead, and a clock that goes back.
    history.on_sample(Instant::MAX, ms(90));
    assert_eq!(history.least(), Some(ms(90)));
    history.on_sample(at(0), ms(85));
    assert_eq!(history.least(), Some(ms(85)));
}

#[test]
fn the_current_delay_is_the_least_of_the_last_samples_of_a_round_trip() {
    let mut filter = CurrentFilter::new(4);
    assert_eq!(filter.least(at(0), ms(100)), None);
    for (time, delay) in [(0, 20), (10, 50), (20, 60), (30, 70)] {
        filter.on_sample(at(time), ms(delay));
    }
    assert_eq!(filter.least(at(30), ms(100)), Some(ms(20)));
    // Older than a round trip of 25 ms: only samples from 10 ms or later count.
    assert_eq!(filter.least(at(30), ms(25)), Some(ms(50)));
    filter.on_sample(at(40), ms(80));
    assert_eq!(filter.least(at(40), ms(100)), Some(ms(50)));
    // The newest counts however old it is.
    assert_eq!(filter.least(at(9999), ms(1)), Some(ms(80)));
}

// --- Worked values.

#[test]
fn ledbat_grows_and_shrinks_with_the_distance_from_the_target() {
    // (queuing delay in ms, growth over a round trip of 50 packets in thousandths of a packet)
    for (queue, expected) in [
        (0, 1000),
        (50, 500),
        (75, 250),
        (100, 0),
        (150, -500),
        (300, -2000),
    ] {
        let mut flow = Flow::new("ledbat", &[]);
        while flow.cwnd() < 50 * MSS {
            flow.round(BASE);
        }
        for _ in 0..4 {
            flow.ack(BASE + ms(queue));
        }
        let before = flow.cwnd() as i64;
        for _ in 0..50 {
            flow.ack(BASE + ms(queue));
        }
        let change = flow.cwnd() as i64 - before;
        assert!((change - expected).abs() < 60, "{queue} ms: {change}");
    }
}

#[test]
fn ledbat_does_not_see_the_clocks_offset() {
    let mut flow = Flow::new("ledbat", &[]);
    flow.ack(BASE);
    for _ in 0..4 {
        flow.ack(BASE + ms(30));
    }
    assert_eq!(flow.duration("queuing_delay"), ms(30));
    assert!(flow.duration("base_delay") > Duration::from_secs(1));
    // The delay of a round trip, by choice.
    let mut flow = Flow::new("ledbat", &[("delay", word("rtt"))]);
    flow.ack(BASE);
    assert_eq!(flow.duration("base_delay"), BASE);
}

#[test]
fn ledbat_exceeds_the_flight_size_by_the_allowed_increase() {
    let mut flow = Flow::new("ledbat", &[]);
    flow.in_flight = Some(5 * MSS);
    for _ in 0..1000 {
        flow.ack(BASE);
    }
    assert_eq!(flow.cwnd(), 6 * MSS);
    flow.in_flight = Some(0);
    flow.ack(BASE);
    assert_eq!(flow.cwnd(), 2 * MSS);
}

#[test]
fn ledbat_halves_on_loss_and_falls_to_one_packet_on_timeout() {
    let mut flow = Flow::new("ledbat", &[]);
    while flow.cwnd() < 40 * MSS {
        flow.round(BASE);
    }
    let before = flow.cwnd();
    flow.recover();
    assert_eq!(flow.cwnd(), before / 2);
    flow.controller.on_spurious(flow.now, Bytes::ZERO);
    assert_eq!(flow.cwnd(), before);
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!((flow.cwnd(), flow.controller.phase()), (MSS, "Loss"));
    flow.controller.on_recovery_exit(flow.now);
    flow.ack(BASE);
    assert_eq!(flow.cwnd(), 2 * MSS);
    for _ in 0..5 {
        flow.recover();
    }
    assert_eq!(flow.cwnd(), 2 * MSS);
}
