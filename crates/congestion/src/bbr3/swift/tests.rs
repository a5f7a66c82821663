use std::vec::Vec;

use super::*;
use crate::options::{OptionValue, Parameters as _};
use crate::{CaState, RateSample};

const MSS: u64 = 1000;

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn choice(word: &'static str) -> OptionValue {
    OptionValue::Choice(word)
}

/// 100 packets in flight through 8 Gbit/s; the target is 100 us.
struct Flow<C> {
    cc: C,
    now: Instant,
    delivered: u64,
}

fn config() -> Config {
    Config {
        mss: MSS as u32,
        initial_window: Bytes::new(10 * MSS),
        seed: 3,
        now: Instant::ZERO,
        srtt: Some(us(50)),
        has_selective_acks: true,
    }
}

impl<C: Controller> Flow<C> {
    /// One packet acknowledged; 100 of them are a round.
    fn ack(&mut self, rtt: u64, delay: u64) {
        let ack = self.next(rtt, delay);
        self.cc.on_ack(&ack);
    }

    fn next(&mut self, rtt: u64, delay: u64) -> Ack {
        self.now += us(1);
        self.delivered += MSS;
        let flight = 100 * MSS;
        Ack {
            now: self.now,
            sample: RateSample {
                has_data: true,
                delivered: Bytes::new(flight.min(self.delivered)),
                prior_delivered: Bytes::new(self.delivered.saturating_sub(flight)),
                interval: us(100),
                tx_in_flight: Bytes::new(flight),
                ..RateSample::default()
            },
            newly_acked: Bytes::new(MSS),
            newly_lost: Bytes::ZERO,
            newly_marked: Some(Bytes::ZERO),
            prior_in_flight: Bytes::new(flight),
            in_flight: Bytes::new(flight - MSS),
            delivered: Bytes::new(self.delivered),
            lost: Bytes::ZERO,
            sent: Bytes::new(self.delivered) + Bytes::new(flight - MSS),
            rtt: Some(us(rtt)),
            srtt: us(rtt),
            min_rtt: us(50),
            cwnd_limited: true,
            ca_state: CaState::Open,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: Some(us(rtt - delay)),
            receiver_delay: (delay > 0).then(|| us(delay)),
            ece: true,
        }
    }
}

impl Flow<BbrSwift> {
    fn new(options: &[(&str, OptionValue)]) -> Self {
        let mut all = std::vec![("target_rtt", OptionValue::Duration(us(100)))];
        all.extend_from_slice(options);
        let parameters = Parameters::with(&all).unwrap_or_else(|at| panic!("{at}"));
        Self {
            cc: BbrSwift::new(&config(), parameters),
            now: Instant::ZERO,
            delivered: 0,
        }
    }

    /// The same, with the pipe known to be full and the core cruising.
    fn cruising(options: &[(&str, OptionValue)]) -> Self {
        let mut flow = Self::new(options);
        for _ in 0..150 {
            flow.ack(90, 0);
        }
        let bbr = &mut flow.cc.bbr;
        bbr.full_bw_reached = true;
        bbr.start_probe_bw_down(Instant::ZERO);
        bbr.start_probe_bw_cruise();
        bbr.bw_probe_wait = Duration::from_secs(60);
        bbr.rounds_since_probe_up = 0;
        bbr.cwnd = Bytes::new(100 * MSS);
        // In steady state: rates from the model, just after the end of a round.
        flow.round(90);
        flow.round(90);
        assert_eq!(flow.cc.phase(), "ProbeBW_CRUISE");
        flow
    }

    /// The same, with a lasting factor decided once per round.
    fn lasting(options: &[(&str, OptionValue)]) -> Self {
        let mut all = std::vec![("acts_on", choice("scale")), ("cadence", choice("round"))];
        all.extend_from_slice(options);
        Self::cruising(&all)
    }

    /// To the end of the round, and the ACK that begins the next.
    fn round(&mut self, rtt: u64) {
        loop {
            self.ack(rtt, 0);
            self.cc.bbr.rounds_since_probe_up = 0;
            if self.cc.bbr.round_start {
                return;
            }
        }
    }
}

fn ratio(after: u64, before: u64) -> f64 {
    after as f64 / before as f64
}

#[test]
fn the_decrease_by_the_published_formula() {
    let flow = Flow::new(&[]);
    for (rtt, kept) in [
        (50, 1_000_000),
        (100, 1_000_000),
        (125, 840_000),
        (200, 600_000),
        (266, 500_752),
        (267, 500_000),
        (5000, 500_000),
    ] {
        assert_eq!(flow.cc.decrease(us(rtt)).millionths(), kept, "{rtt}");
    }
}

#[test]
fn without_a_target_it_is_bbr3() {
    let mut plain = Flow {
        cc: Bbr3::new(&config(), crate::bbr3::Parameters::default()),
        now: Instant::ZERO,
        delivered: 0,
    };
    let mut swift = Flow::new(&[("target_rtt", OptionValue::Duration(us(0)))]);
    for nth in 0..5000u64 {
        let rtt = 50 + nth * nth % 400;
        plain.ack(rtt, 0);
        swift.ack(rtt, 0);
        let state = |cc: &dyn Controller| {
            let mut fields = Vec::new();
            cc.visit_state(&mut crate::Visitor::each(&mut |name, value| {
                fields.push((name, value))
            }));
            fields
        };
        let (a, b) = (state(&plain.cc), state(&swift.cc));
        assert_eq!(a[..], b[..a.len()]);
        assert_eq!(plain.cc.cwnd(), swift.cc.cwnd());
        assert_eq!(plain.cc.pacing_rate(), swift.cc.pacing_rate());
    }
    assert_eq!(swift.cc.ecn(), Ecn::NotEct);
}

#[test]
fn the_target_follows_the_boundary_of_marking() {
    let feed = |flow: &mut Flow<BbrSwift>, boundary: u64| {
        for nth in 0..4000u64 {
            let rtt = 50 + nth * 37 % 150;
            let ack = Ack {
                ece: rtt > boundary,
                ..flow.next(rtt, 0)
            };
            flow.cc.on_ack(&ack);
        }
    };
    for (share, of) in [(1_000_000, 1), (500_000, 2)] {
        let share = OptionValue::Gain(Gain::from_millionths(share));
        let options = [("target_rule", choice("marks")), ("boundary_share", share)];
        let mut flow = Flow::new(&options);
        assert_eq!(flow.cc.ecn(), Ecn::Ect0);
        // Nothing is marked yet: the configured target.
        feed(&mut flow, 1000);
        assert_eq!(flow.cc.target(), us(100));
        for boundary in [140, 80, 120] {
            feed(&mut flow, boundary);
            let error = flow.cc.target().as_micros().abs_diff(boundary / of);
            assert!(error <= 3, "{:?} for {boundary} / {of}", flow.cc.target());
        }
    }
    let mut flow = Flow::new(&[]);
    feed(&mut flow, 80);
    assert_eq!(flow.cc.target(), us(100));
}

#[test]
fn it_decreases_once_a_round_or_on_every_ack() {
    let mut flow = Flow::lasting(&[]);
    flow.round(200);
    let scale = flow.cc.scale;
    assert!(scale < WHOLE);
    for _ in 0..98 {
        flow.ack(200, 0);
    }
    assert_eq!(flow.cc.scale, scale);
    let mut flow = Flow::lasting(&[("cadence", choice("ack"))]);
    flow.ack(200, 0);
    flow.ack(200, 0);
    assert_eq!(flow.cc.scale, WHOLE * 36 / 100);
}

#[test]
fn a_round_stands_by_its_mean_its_least_or_its_last() {
    for (sample, kept) in [("mean", 733_333), ("min", 1_000_000), ("latest", 600_000)] {
        let mut flow = Flow::lasting(&[("sample", choice(sample))]);
        flow.round(50);
        // Half of the round at 100, half at 200 us: 150.
        let mut nth = 0;
        loop {
            nth += 1;
            flow.ack(if nth <= 50 { 100 } else { 200 }, 0);
            if flow.cc.bbr.round_start {
                break;
            }
        }
        assert_eq!(nth, 100);
        assert!(
            flow.cc.md.millionths().abs_diff(kept) <= 1,
            "{sample}: {:?}",
            flow.cc.md
        );
    }
}

#[test]
fn what_the_receiver_took_does_not_count_unless_asked() {
    for (signal, kept) in [("network", WHOLE), ("total", WHOLE * 6 / 10)] {
        let options = [("cadence", choice("ack")), ("signal", choice(signal))];
        let mut flow = Flow::lasting(&options);
        flow.ack(200, 110);
        assert_eq!(flow.cc.scale, kept, "{signal}");
    }
}

/// If receivers report their delay, an ACK without a report (it only SACKs) gives no sample of the
/// network's RTT.
#[test]
fn an_ack_without_the_receivers_delay_is_no_sample() {
    let mut flow = Flow::cruising(&[("acts_on", choice("output"))]);
    flow.ack(90, 10);
    let mut silent = flow.next(400, 0);
    silent.network_rtt = None;
    flow.cc.on_ack(&silent);
    assert_eq!((flow.cc.network_rtt, flow.cc.md), (us(80), Gain::ONE));
}

#[test]
fn the_lasting_factor_multiplies_window_and_rate_and_grows_back() {
    let mut flow = Flow::lasting(&[
        ("cadence", choice("ack")),
        ("ai", OptionValue::Gain(Gain::ONE)),
    ]);
    flow.ack(200, 0);
    let window = ratio(flow.cc.cwnd().get(), flow.cc.bbr.cwnd.get());
    let rate = flow.cc.pacing_rate().map_or(0, Rate::bps);
    let rate = ratio(rate, flow.cc.bbr.pacing_rate.bps());
    assert!(
        (window - 0.6).abs() < 1e-4 && (rate - 0.6).abs() < 1e-4,
        "{window} {rate}"
    );
    // 8 Gbit/s over 80 us are 80 packets: one of them is an eightieth.
    flow.ack(80, 0);
    let grown = ratio(flow.cc.scale, WHOLE) - 0.6;
    assert!((grown - 1.0 / 80.0).abs() < 1e-3, "{grown}");
    for _ in 0..100 {
        flow.ack(80, 0);
    }
    assert_eq!(flow.cc.scale, WHOLE);
}

#[test]
fn the_lasting_factor_takes_the_window_below_a_packet() {
    let mut flow = Flow::lasting(&[("cadence", choice("ack"))]);
    for _ in 0..20 {
        flow.ack(1000, 0);
    }
    assert!(flow.cc.cwnd() < Bytes::new(MSS));
    assert!(flow.cc.cwnd() > Bytes::ZERO);
}

#[test]
fn the_short_term_bounds_last_until_the_next_probe() {
    let mut flow = Flow::cruising(&[("cadence", choice("ack")), ("acts_on", choice("bounds"))]);
    let (bw, rate, cwnd) = (flow.cc.bbr.bw, flow.cc.bbr.pacing_rate, flow.cc.bbr.cwnd);
    flow.ack(200, 0);
    assert_eq!(flow.cc.bbr.bw, bw * Gain::from_millionths(600_000));
    assert!((ratio(flow.cc.bbr.pacing_rate.bps(), rate.bps()) - 0.6).abs() < 1e-3);
    assert!((ratio(flow.cc.cwnd().get(), cwnd.get()) - 0.6).abs() < 0.01);
    flow.ack(90, 0);
    assert_eq!(flow.cc.bbr.bw, bw * Gain::from_millionths(600_000));
    flow.cc.bbr.start_probe_bw_refill();
    flow.ack(90, 0);
    assert_eq!(flow.cc.bbr.bw, bw);
}

#[test]
fn the_output_of_an_ack_is_its_own() {
    let mut flow = Flow::cruising(&[("acts_on", choice("output"))]);
    let rate = flow.cc.pacing_rate().map_or(0, Rate::bps);
    let cwnd = flow.cc.cwnd();
    flow.ack(200, 0);
    let cut = flow.cc.pacing_rate().map_or(0, Rate::bps);
    assert!((ratio(cut, rate) - 0.6).abs() < 1e-3);
    assert!((ratio(flow.cc.cwnd().get(), cwnd.get()) - 0.6).abs() < 0.02);
    flow.ack(90, 0);
    assert_eq!(flow.cc.pacing_rate().map(Rate::bps), Some(rate));
    assert!(flow.cc.cwnd() >= cwnd);
    // The same delay all through a round gives the same cut, not its hundredth power.
    for _ in 0..98 {
        flow.ack(200, 0);
    }
    let (window, of_bbr) = (flow.cc.cwnd(), flow.cc.bbr.cwnd);
    assert_eq!(window, of_bbr * Gain::from_millionths(600_000));
    assert!(of_bbr >= cwnd);
    // If stored, each ACK cuts the result of the previous ACK, down to BBR's floor.
    let mut stored = Flow::cruising(&[("acts_on", choice("stored"))]);
    for _ in 0..98 {
        stored.ack(200, 0);
    }
    assert!(stored.cc.cwnd() < Bytes::new(10 * MSS));
    // The window is never less than one packet.
    flow.cc.bbr.cwnd = Bytes::new(MSS);
    assert_eq!(flow.cc.cwnd(), Bytes::new(MSS));
}

#[test]
fn flow_scaling_gives_a_flow_with_little_in_flight_a_longer_target() {
    let plain = Flow::cruising(&[]);
    assert_eq!(plain.cc.target(), us(100));
    let mut flow = Flow::cruising(&[("fs_range", OptionValue::Duration(us(100)))]);
    // The Swift paper's figures (section 3.5): 29.39 us for a window of one, nothing from 100 on.
    flow.cc.network_rtt = us(100);
    for (bits, micros, nanos) in [(80, 129, 390), (8, 200, 0), (8000, 100, 0)] {
        flow.cc.bbr.bw = Rate::from_bps(bits * 1_000_000);
        let expected = Duration::from_nanos(micros * 1000 + nanos);
        let target = flow.cc.target();
        assert!(
            target.max(expected) - target.min(expected) < us(1),
            "{target:?}"
        );
    }
}

#[test]
fn samples_go_on_through_the_pacer_only_with_a_target() {
    for (target, pacer, below) in [
        (100, "below", true),
        (100, "above", false),
        (0, "below", false),
    ] {
        let options = [
            ("target_rtt", OptionValue::Duration(us(target))),
            ("pacer", choice(pacer)),
        ];
        assert_eq!(Flow::new(&options).cc.pacer_below(), below);
    }
}

#[test]
fn rounds_above_the_target_end_startup() {
    for (rounds, ends) in [(2, 2), (3, 3), (0, u32::MAX)] {
        let mut flow = Flow::new(&[("startup_rounds", OptionValue::Count(rounds))]);
        let mut count = 0;
        while flow.cc.phase() == "Startup" && count < 4 {
            // Bandwidth keeps growing: only the delay can end Startup.
            flow.cc.bbr.reset_full_bw();
            flow.ack(300, 0);
            if flow.cc.bbr.round_start && flow.cc.bbr.round_count > 1 {
                count += 1;
            }
        }
        assert_eq!(flow.cc.phase() != "Startup", ends <= 4, "{rounds}");
        if ends <= 4 {
            assert!(
                count <= ends && flow.cc.bbr.full_bw_reached,
                "{rounds}: {count}"
            );
        }
    }
}

#[test]
fn a_round_above_the_target_ends_a_probe() {
    for ends in [true, false] {
        let mut flow = Flow::cruising(&[("ends_probe", OptionValue::Flag(ends))]);
        flow.cc.bbr.start_probe_bw_refill();
        flow.round(90);
        flow.round(90);
        assert_eq!(flow.cc.phase(), "ProbeBW_UP");
        flow.cc.bbr.full_bw = Rate::from_bps(1);
        flow.round(300);
        assert_eq!(flow.cc.phase() == "ProbeBW_DOWN", ends);
    }
}

#[test]
fn options_of_the_core_are_taken_as_well() {
    let parameters = Parameters::with(&[("reno_rounds", OptionValue::Count(7))]);
    assert!(matches!(parameters, Ok(p) if p.bbr.reno_rounds == 7));
    assert!(matches!(
        Parameters::with(&[("no", OptionValue::Count(7))]),
        Err(0)
    ));
    let names: Vec<_> = (0..)
        .map_while(Parameters::info)
        .map(|info| info.name)
        .collect();
    assert!(names.contains(&"target_rtt") && names.contains(&"probe_wait_random"));
}
