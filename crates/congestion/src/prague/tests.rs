use super::*;
use crate::RateSample;
use crate::options::{OptionValue, Parameters as _};

const MSS: u64 = 1000;

struct Flow {
    cc: Prague,
    now: Instant,
    rtt: Duration,
    delivered: u64,
    ca_state: CaState,
    limited: bool,
}

impl Flow {
    fn new(window: u64, rtt: Duration, options: &[(&str, OptionValue)]) -> Self {
        Self {
            cc: Prague::new(
                &Config {
                    mss: MSS as u32,
                    initial_window: Bytes::new(window * MSS),
                    seed: 0,
                    now: Instant::ZERO,
                    srtt: Some(rtt),
                    has_selective_acks: true,
                },
                Parameters::with(options).unwrap_or_else(|at| panic!("{at}")),
            ),
            now: Instant::ZERO,
            rtt,
            delivered: 0,
            ca_state: CaState::Open,
            limited: true,
        }
    }

    /// In congestion avoidance.
    fn avoiding(window: u64, rtt: Duration, options: &[(&str, OptionValue)]) -> Self {
        let mut flow = Self::new(window, rtt, options);
        flow.cc.ssthresh = flow.cc.cwnd;
        flow
    }

    /// One packet acknowledged; a window of them takes an RTT.
    fn ack(&mut self, marked: bool) {
        self.delivered += MSS;
        self.now += self.rtt / u64::from(self.cc.cwnd);
        let cwnd = self.cc.cwnd();
        self.cc.on_ack(&Ack {
            now: self.now,
            sample: RateSample::default(),
            newly_acked: Bytes::new(MSS),
            newly_lost: Bytes::ZERO,
            newly_marked: Some(Bytes::new(if marked { MSS } else { 0 })),
            prior_in_flight: cwnd,
            in_flight: cwnd - Bytes::new(MSS),
            delivered: Bytes::new(self.delivered),
            lost: Bytes::ZERO,
            sent: Bytes::new(self.delivered) + cwnd - Bytes::new(MSS),
            rtt: Some(self.rtt),
            srtt: self.rtt,
            min_rtt: self.rtt,
            cwnd_limited: self.limited,
            ca_state: self.ca_state,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: Some(self.rtt),
            receiver_delay: None,
            ece: false,
        });
    }

    fn acks(&mut self, count: u32) {
        for _ in 0..count {
            self.ack(false);
        }
    }

    /// The window in packets, including its carry.
    fn window(&self) -> f64 {
        f64::from(self.cc.cwnd) + self.cc.carry as f64 / ONE as f64
    }

    fn alpha(&self) -> f64 {
        (self.cc.upscaled_alpha >> self.cc.parameters.g_shift) as f64 / ONE as f64
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_first_mark_halves_a_packet_an_ack_and_ends_slow_start() {
    let mut flow = Flow::new(40, ms(10), &[]);
    assert_eq!(flow.cc.ecn(), Ecn::Ect1);
    flow.acks(20);
    assert_eq!((flow.cc.cwnd, flow.alpha()), (60, 1.0));
    flow.ack(true);
    assert_eq!((flow.cc.cwnd, flow.cc.phase()), (59, "CongestionAvoidance"));
    let mut acks = 1;
    while flow.cc.carry <= -ONE {
        let before = flow.cc.cwnd;
        flow.ack(false);
        assert_eq!(flow.cc.cwnd, before - 1);
        acks += 1;
    }
    // Half of 60, plus the growth of these ACKs themselves.
    assert!((29..=30).contains(&acks), "{acks}");
    assert!((30.0..31.0).contains(&flow.window()), "{}", flow.window());
}

#[test]
fn alpha_waits_for_the_first_mark() {
    let mut flow = Flow::avoiding(10, ms(50), &[]);
    flow.acks(200);
    assert_eq!(flow.alpha(), 1.0);
    flow.ack(true);
    flow.acks(200);
    assert!(flow.alpha() < 0.7, "{}", flow.alpha());
}

#[test]
fn growth_below_the_target_rtt_goes_with_its_square() {
    for (rtt, scaling, per_round) in [
        (ms(5), "rate", 0.04),
        (ms(5), "none", 1.0),
        // A target of 30 ms: (5 / 30)^2.
        (ms(5), "additive", 1.0 / 36.0),
        (ms(25), "rate", 1.0),
        (ms(80), "rate", 1.0),
    ] {
        let mut flow = Flow::avoiding(100, rtt, &[("rtt_scaling", OptionValue::Choice(scaling))]);
        flow.acks(101);
        // Not before its time.
        let before = flow.window();
        flow.acks(100);
        assert!((flow.window() - before - 1.0).abs() < 0.03, "{scaling}");
        flow.cc.rounds = 4;
        let before = flow.window();
        flow.acks(100);
        let grown = flow.window() - before;
        assert!(
            (grown / per_round - 1.0).abs() < 0.05,
            "{scaling} {rtt:?}: {grown}"
        );
    }
}

#[test]
fn what_is_marked_and_what_is_not_used_earns_nothing() {
    let mut flow = Flow::avoiding(100, ms(50), &[]);
    flow.cc.upscaled_alpha = 0;
    let before = flow.window();
    for _ in 0..50 {
        flow.ack(true);
    }
    assert!(flow.window() <= before);
    flow.limited = false;
    flow.acks(100);
    assert!(flow.window() <= before);
}

#[test]
fn reductions_are_a_window_apart_and_with_short_rtts_a_target_rtt() {
    // Ten round trips of 5 ms, all marked, are two target RTTs.
    for (transition, rtt, range) in [
        (1_000_000, ms(5), 9..=11),
        (0, ms(5), 2..=3),
        (0, ms(50), 9..=11),
    ] {
        let options = [("rtt_transition", OptionValue::Count(transition))];
        let mut flow = Flow::avoiding(50, rtt, &options);
        let mut cuts = 0;
        while flow.now.since(Instant::ZERO) < rtt * 10 {
            // Each reduction should take a tenth; the window stays as it is.
            flow.cc.upscaled_alpha = (ONE / 5) << 4;
            flow.ack(true);
            cuts += u32::from(flow.cc.cwnd < 50);
            (flow.cc.cwnd, flow.cc.ssthresh, flow.cc.carry) = (50, 50, 0);
        }
        assert!(range.contains(&cuts), "{rtt:?}: {cuts}");
    }
}

#[test]
fn a_loss_takes_half_and_undo_gives_it_back() {
    let mut flow = Flow::avoiding(40, ms(50), &[]);
    flow.cc.carry = ONE / 2;
    flow.cc.on_recovery_enter(flow.now, Bytes::new(39 * MSS));
    flow.ca_state = CaState::Recovery;
    flow.acks(30);
    assert_eq!(flow.window(), 20.25);
    assert_eq!(flow.cc.phase(), "Recovery");
    flow.cc.on_spurious(flow.now, Bytes::ZERO);
    flow.cc.on_recovery_exit(flow.now);
    assert_eq!(flow.window(), 40.5);
}

#[test]
fn a_timeout_leaves_one_packet_and_slow_start_to_half() {
    let mut flow = Flow::avoiding(40, ms(50), &[]);
    flow.cc.on_timeout(flow.now, Bytes::ZERO);
    flow.cc.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!((flow.cc.cwnd, flow.cc.ssthresh), (1, 20));
    flow.ca_state = CaState::Loss;
    flow.acks(19);
    assert_eq!(flow.cc.cwnd, 20);
    flow.acks(21);
    assert_eq!(flow.cc.cwnd, 21);
}

#[test]
fn two_packets_are_the_least_and_bursts_are_short() {
    let mut flow = Flow::avoiding(4, ms(50), &[]);
    for _ in 0..50 {
        flow.ack(true);
    }
    assert_eq!(flow.cc.cwnd, 2);
    // 100 packets in 10 ms are 80 Mbit/s, 2.5 packets in 250 us.
    let flow = Flow::avoiding(100, ms(10), &[]);
    assert_eq!(flow.cc.send_quantum(), Bytes::new(2500));
    assert_eq!(flow.cc.pacing_rate(), Some(Rate::from_bps(80_000_000)));
    let flow = Flow::new(100, ms(10), &[]);
    assert_eq!(flow.cc.pacing_rate(), Some(Rate::from_bps(160_000_000)));
}

#[test]
fn the_threshold_is_in_bytes() {
    let flow = Flow::avoiding(40, ms(50), &[]);
    assert_eq!(flow.cc.ssthresh(), Some(Bytes::new(40_000)));
    let flow = Flow::new(40, ms(50), &[]);
    assert_eq!(flow.cc.ssthresh(), Some(Bytes::INFINITE));
}
