use super::*;
use crate::options::{OptionValue, Parameters as _};
use crate::{CaState, RateSample};

const MSS: u64 = 1000;

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn gain(thousandths: u32) -> OptionValue {
    OptionValue::Gain(Gain::from_millionths(thousandths * 1000))
}

/// Without hops and flow scaling: the target is 100 us.
fn plain(window: u64, more: &[(&str, OptionValue)]) -> Swift {
    let mut options = std::vec![
        ("base_target", OptionValue::Duration(us(100))),
        ("hop_delay", OptionValue::Duration(us(0))),
        ("fs_range", OptionValue::Duration(us(0))),
    ];
    options.extend_from_slice(more);
    let parameters = Parameters::with(&options).unwrap_or_else(|at| panic!("{at}"));
    Swift::new(
        &Config {
            mss: MSS as u32,
            initial_window: Bytes::new(window * MSS),
            seed: 0,
            now: Instant::ZERO,
            srtt: Some(us(100)),
            has_selective_acks: true,
        },
        parameters,
    )
}

fn ack(at: u64, rtt: u64, delay: Option<u64>) -> Ack {
    Ack {
        now: Instant::ZERO + us(at),
        sample: RateSample::default(),
        newly_acked: Bytes::new(MSS),
        newly_lost: Bytes::ZERO,
        newly_marked: Some(Bytes::ZERO),
        prior_in_flight: Bytes::ZERO,
        in_flight: Bytes::ZERO,
        delivered: Bytes::ZERO,
        lost: Bytes::ZERO,
        sent: Bytes::ZERO,
        rtt: Some(us(rtt)),
        srtt: us(rtt),
        min_rtt: us(rtt),
        cwnd_limited: true,
        ca_state: CaState::Open,
        una_advanced: true,
        delayed: false,
        one_way_delay: None,
        network_rtt: Some(us(rtt) - us(delay.unwrap_or(0))),
        receiver_delay: delay.map(us),
        ece: false,
    }
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + us(micros)
}

/// A window in thousandths of a packet, to the nearest.
fn milli(window: u64) -> u64 {
    (window * 1000 + ONE / 2) >> BITS
}

#[test]
fn flow_scaling_by_the_worked_values() {
    let scaling = FlowScaling::new(&Parameters::default());
    // alpha 32.655 us, beta -3.266 us.
    assert!((32_654..=32_656).contains(&scaling.alpha), "{scaling:?}");
    assert!((3_264..=3_266).contains(&scaling.offset), "{scaling:?}");
    for (thousandths, nanos) in [
        (1, 100_000),
        (100, 100_000),
        (1_000, 29_390),
        (10_000, 7_060),
        (100_000, 0),
        (500_000, 0),
    ] {
        let extra = scaling.extra(ONE * thousandths / 1000).as_nanos();
        assert!(extra.abs_diff(nanos) <= 10, "{thousandths}: {extra}");
    }
}

#[test]
fn topology_scales_the_target() {
    let mut swift = Swift::new(
        &Config {
            mss: 1000,
            initial_window: Bytes::new(100_000),
            seed: 0,
            now: Instant::ZERO,
            srtt: None,
            has_selective_acks: true,
        },
        Parameters::with(&[("hops", OptionValue::Count(5))]).unwrap_or_default(),
    );
    assert_eq!(swift.fabric_target(), us(25 + 5));
    swift.fabric.cwnd = ONE;
    assert!(swift.fabric_target() > us(59));
}

#[test]
fn a_decrease_is_in_proportion_to_the_excess_and_at_most_half() {
    // Delay of 2 targets: 0.6; from 2.667 targets on: 0.5.
    for (delay, kept) in [
        (100, 10_000),
        (200, 6_000),
        (267, 5_000),
        (400, 5_000),
        (125, 8_400),
    ] {
        let mut swift = plain(10, &[]);
        swift.on_ack(&ack(1000, delay, None));
        assert!(
            milli(swift.fabric.cwnd).abs_diff(kept) <= 3,
            "{delay}: {}",
            milli(swift.fabric.cwnd)
        );
    }
}

#[test]
fn decreases_are_a_round_trip_apart() {
    let mut swift = plain(16, &[]);
    swift.on_ack(&ack(1000, 400, None));
    swift.on_ack(&ack(1399, 400, None));
    assert_eq!(milli(swift.fabric.cwnd), 8000);
    swift.on_ack(&ack(1400, 400, None));
    assert_eq!(milli(swift.fabric.cwnd), 4000);
    swift.on_recovery_enter(at(1500), Bytes::ZERO);
    assert_eq!(milli(swift.fabric.cwnd), 4000);
    swift.on_recovery_enter(at(1800), Bytes::ZERO);
    assert_eq!(milli(swift.fabric.cwnd), 2000);
}

#[test]
fn growth_is_one_packet_a_window_above_one_and_one_an_ack_below() {
    let mut swift = plain(10, &[]);
    swift.on_ack(&ack(10, 50, None));
    assert_eq!(milli(swift.fabric.cwnd), 10_100);
    swift.fabric.cwnd = ONE / 4;
    swift.on_ack(&ack(20, 50, None));
    assert_eq!(milli(swift.fabric.cwnd), 1_250);
    // The target itself is not below it.
    swift.on_ack(&ack(20_000, 100, None));
    assert_eq!(milli(swift.fabric.cwnd), 1_250);
}

#[test]
fn each_window_has_its_own_time_of_decrease() {
    let mut swift = plain(10, &[("endpoint_ewma", gain(1000))]);
    // The hosts' delay is 300 us, three targets; the fabric's is 300 us as well.
    swift.on_ack(&ack(1000, 600, Some(300)));
    assert_eq!(milli(swift.fabric.cwnd), 5_000);
    assert_eq!(milli(swift.endpoint.cwnd), 5_000);
    // The smaller window applies, and each recovers by its own delay.
    swift.on_ack(&ack(1700, 300, Some(250)));
    assert!(swift.fabric.cwnd > swift.endpoint.cwnd);
    assert_eq!(swift.window(), swift.endpoint.cwnd);
}

#[test]
fn what_the_receiver_holds_is_not_the_fabrics() {
    let mut swift = plain(10, &[]);
    swift.on_ack(&ack(1000, 190, Some(100)));
    assert_eq!(swift.fabric_delay, us(90));
    assert!(swift.fabric.cwnd > 10 * ONE);
    // Without the option all of the delay counts, and the hosts' window does not apply.
    let mut swift = plain(10, &[]);
    swift.on_ack(&ack(1000, 190, None));
    assert!(swift.fabric.cwnd < 10 * ONE);
    assert_eq!(swift.endpoint.cwnd, 10 * ONE);
    for n in 0..1000 {
        swift.on_ack(&ack(2000 + n, 50, None));
    }
    assert!(swift.window() > 40 * ONE);
}

#[test]
fn the_hosts_delay_is_smoothed() {
    let mut swift = plain(10, &[]);
    swift.on_ack(&ack(1000, 150, Some(80)));
    swift.on_ack(&ack(1010, 150, Some(160)));
    assert_eq!(swift.endpoint_delay, Some(us(90)));
}

#[test]
fn below_one_packet_pacing_carries_the_window() {
    let mut swift = plain(1, &[]);
    assert_eq!((swift.pacing_rate(), swift.phase()), (None, "Window"));
    for round in 0..20 {
        swift.on_ack(&ack(1000 * (round + 1), 400, None));
    }
    // Half each round, down to a thousandth.
    assert_eq!(milli(swift.fabric.cwnd), 1);
    assert_eq!((swift.phase(), swift.cwnd()), ("Paced", Bytes::new(1)));
    swift.fabric.cwnd = ONE / 4;
    // A packet of 1000 B every 4 x 400 us.
    assert_eq!(swift.pacing_rate(), Some(Rate::from_bps(5_000_000)));
    assert_eq!(swift.cwnd(), Bytes::new(250));
    assert_eq!(swift.send_quantum(), Bytes::new(1000));
}

#[test]
fn without_small_windows_one_packet_is_the_least() {
    let mut swift = plain(1, &[("min_cwnd", gain(1000))]);
    swift.on_ack(&ack(1000, 400, None));
    assert_eq!((swift.cwnd(), swift.pacing_rate()), (Bytes::new(MSS), None));
}

#[test]
fn timeouts_cut_and_several_in_a_row_reset() {
    let mut swift = plain(64, &[]);
    for nth in 1..=4 {
        swift.on_timeout(at(1000 * nth), Bytes::ZERO);
    }
    assert_eq!(milli(swift.fabric.cwnd), 4_000);
    assert_eq!(milli(swift.endpoint.cwnd), 4_000);
    // An ACK restarts the count.
    swift.on_ack(&ack(4_500, 100, None));
    swift.on_timeout(at(5_000), Bytes::ZERO);
    assert_eq!(milli(swift.fabric.cwnd), 2_000);
    for nth in 6..=9 {
        swift.on_timeout(at(1000 * nth), Bytes::ZERO);
    }
    assert_eq!(
        (milli(swift.fabric.cwnd), milli(swift.endpoint.cwnd)),
        (1, 1)
    );
}

#[test]
fn a_window_at_its_ceiling_can_still_fall() {
    let mut swift = plain(8, &[("max_cwnd", OptionValue::Count(8))]);
    for n in 0..50 {
        swift.on_ack(&ack(1000 + n, 50, None));
    }
    assert_eq!(milli(swift.fabric.cwnd), 8_000);
    swift.on_ack(&ack(1050, 400, None));
    assert_eq!(milli(swift.fabric.cwnd), 4_000);
    // Nor does a decrease at the floor delay a later one.
    swift.fabric.cwnd = swift.parameters.clamp(0);
    swift.on_ack(&ack(2000, 400, None));
    swift.fabric.cwnd = ONE;
    swift.on_ack(&ack(2100, 400, None));
    assert_eq!(milli(swift.fabric.cwnd), 500);
}

/// If hosts report their delay, an ACK without a report gives no sample of the fabric's delay.
#[test]
fn an_ack_without_the_hosts_delay_is_no_sample() {
    let mut swift = plain(16, &[]);
    swift.on_ack(&ack(1000, 150, Some(100)));
    let (cwnd, delay) = (swift.fabric.cwnd, swift.fabric_delay);
    assert_eq!(delay, us(50));
    swift.on_ack(&Ack {
        network_rtt: None,
        receiver_delay: None,
        ..ack(3000, 400, None)
    });
    assert_eq!((swift.fabric.cwnd, swift.fabric_delay), (cwnd, delay));
}

#[test]
fn windows_are_shown_in_bytes() {
    let swift = plain(10, &[]);
    assert_eq!(swift.packets(5 << (BITS - 1)), Bytes::new(2500));
    let mut shown = std::vec::Vec::new();
    swift.visit_state(&mut crate::Visitor::each(&mut |name, value| {
        shown.push((name, value))
    }));
    assert_eq!(shown[0].0, "fcwnd");
    assert_eq!(shown[0].1, paceline_units::Value::Bytes(Bytes::new(10_000)));
}
