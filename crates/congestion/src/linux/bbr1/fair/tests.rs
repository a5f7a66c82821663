//! One episode of recovery by hand: 100 packets in flight, a BDP of 40 packets.

use paceline_units::{Bytes, Duration, Gain, Instant, Value};

use super::*;
use crate::options::{OptionValue, Parameters as _};
use crate::{Ack, Config, Controller, Ecn, Lost, PacketState, Sent};

const MSS: u64 = 1000;
const RTT: Duration = Duration::from_millis(40);

struct Flow {
    cc: Bbr1Fair,
    now: Instant,
    delivered: u64,
    lost: u64,
    in_flight: u64,
    ca_state: CaState,
    app_limited: bool,
    interval: Duration,
    rtt: Duration,
}

fn packets(n: u64) -> Bytes {
    Bytes::new(n * MSS)
}

impl Flow {
    fn new(options: &[(&str, OptionValue)]) -> Self {
        let config = Config {
            mss: MSS as u32,
            initial_window: packets(100),
            seed: 1,
            now: Instant::ZERO,
            srtt: Some(RTT),
            has_selective_acks: true,
        };
        let parameters = Parameters::with(options).unwrap_or_else(|at| panic!("{at}"));
        Self {
            cc: Bbr1Fair::new(&config, parameters),
            now: Instant::ZERO,
            delivered: 0,
            lost: 0,
            in_flight: 100,
            ca_state: CaState::Open,
            app_limited: false,
            interval: RTT,
            rtt: RTT,
        }
    }

    /// An ACK that delivers `n` packets, one a millisecond; its sample is 40 packets an interval.
    fn ack(&mut self, n: u64, ece: bool) {
        self.now += Duration::from_millis(n);
        let prior = self.in_flight;
        self.in_flight -= n;
        self.delivered += n;
        let mut sample = crate::RateSample {
            has_data: true,
            delivered: packets(40),
            prior_delivered: packets(self.delivered.saturating_sub(40)),
            interval: self.interval,
            app_limited: self.app_limited,
            ..crate::RateSample::default()
        };
        if self.delivered < 40 {
            sample.delivered = packets(self.delivered);
        }
        self.cc.on_ack(&Ack {
            now: self.now,
            sample,
            newly_acked: packets(n),
            newly_lost: Bytes::ZERO,
            newly_marked: Some(Bytes::ZERO),
            prior_in_flight: packets(prior),
            in_flight: packets(self.in_flight),
            delivered: packets(self.delivered),
            lost: packets(self.lost),
            sent: packets(self.delivered) + packets(self.lost) + packets(self.in_flight),
            rtt: Some(self.rtt),
            srtt: RTT,
            min_rtt: RTT,
            cwnd_limited: true,
            ca_state: self.ca_state,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: Some(RTT),
            receiver_delay: None,
            ece,
        });
    }

    fn lose(&mut self, n: u64) {
        for _ in 0..n {
            self.lost += 1;
            self.in_flight -= 1;
            self.cc.on_loss(&Lost {
                now: self.now,
                packet: PacketState {
                    size: MSS as u32,
                    ..PacketState::default()
                },
                lost: packets(self.lost),
                delivered: packets(self.delivered),
                in_flight: packets(self.in_flight),
                starts_range: true,
                retransmission: false,
            });
        }
    }

    fn enter(&mut self) {
        self.ca_state = CaState::Recovery;
        self.cc.on_recovery_enter(self.now, packets(self.in_flight));
    }

    fn leave(&mut self) {
        self.ca_state = CaState::Open;
        self.cc.on_recovery_exit(self.now);
    }

    /// Sends as much as the window allows; returns how much that is.
    fn send(&mut self) -> u64 {
        let window = self.cc.cwnd().packets(MSS);
        let sent = window.saturating_sub(self.in_flight);
        for _ in 0..sent {
            self.cc.on_send(&Sent {
                now: self.now,
                size: MSS as u32,
                in_flight: packets(self.in_flight),
                app_limited: false,
            });
            self.in_flight += 1;
        }
        sent
    }

    fn field(&self, wanted: &str) -> Value {
        let mut shown = None;
        self.cc
            .visit_state(&mut crate::Visitor::each(&mut |name, value| {
                if name == wanted {
                    shown = Some(value);
                }
            }));
        shown.unwrap_or_else(|| panic!("{wanted}"))
    }

    /// To the first ACK in recovery: 100 sent, 10 of them lost.
    fn recovering(options: &[(&str, OptionValue)]) -> Self {
        let mut flow = Self::new(options);
        flow.ack(1, false);
        flow.in_flight = 100;
        flow.lose(10);
        flow.enter();
        flow
    }
}

#[test]
fn holds_until_half_is_out_then_sends_one_for_one() {
    let mut flow = Flow::recovering(&[]);
    assert_eq!(flow.field("max_packets_out"), Value::Bytes(packets(100)));
    assert_eq!(flow.cc.pacing_rate(), None);
    assert_eq!(flow.send(), 0, "a loss is no leave to send");
    // 90 in flight: 39 deliveries and nothing sent.
    for _ in 0..39 {
        flow.ack(1, false);
        assert_eq!((flow.send(), flow.cc.phase()), (0, "RECOVERY_HOLD"));
    }
    // At 50, half of 100, each delivery allows one packet, whatever the bandwidth.
    for _ in 0..20 {
        flow.ack(2, false);
        assert_eq!((flow.send(), flow.cc.phase()), (2, "RECOVERY_FAST"));
    }
    // Half, less the overshoot of the first of these two-packet ACKs.
    assert_eq!(flow.in_flight, 51);
}

#[test]
fn losses_in_recovery_shrink_the_window_by_as_much() {
    let mut flow = Flow::recovering(&[("hold", OptionValue::Gain(Gain::ONE))]);
    flow.ack(1, false);
    assert_eq!((flow.send(), flow.in_flight), (1, 90));
    // A tenth of each nine delivered is lost.
    for _ in 0..9 {
        flow.lose(1);
        assert_eq!(flow.send(), 0, "a timer's losses let nothing go");
        flow.ack(9, false);
        assert_eq!(flow.send(), 9);
    }
    assert_eq!(flow.in_flight, 81);
}

#[test]
fn leaves_with_what_is_in_flight_as_window_and_bandwidth() {
    let mut flow = Flow::recovering(&[]);
    for _ in 0..60 {
        flow.ack(1, false);
        flow.send();
    }
    assert_eq!(flow.in_flight, 51);
    flow.leave();
    flow.ack(1, false);
    // 51 packets in 40 ms are 10.2 Mbit/s; the samples said 8.
    assert_eq!(flow.cc.cwnd(), packets(51));
    assert_eq!(
        flow.field("max_packets_delivered"),
        Value::Bytes(packets(51))
    );
    let Value::Rate(bw) = flow.field("bw") else {
        panic!("a rate");
    };
    assert!((10_199_000..=10_200_000).contains(&bw.bps()), "{bw:?}");
    // The pipe counts as full and the timer is armed at 0.9 of it or of the drain's share.
    assert_eq!(flow.field("full_bw_reached"), Value::Flag(true));
    assert!(flow.cc.pacing_rate().is_some_and(|rate| rate < bw));
    assert_ne!(flow.cc.phase(), "STARTUP");
}

#[test]
fn an_older_maximum_does_not_survive_the_reseed() {
    for (reseed, mbps) in [(true, 8), (false, 16)] {
        let mut flow = Flow::new(&[("reseed", OptionValue::Flag(reseed))]);
        flow.interval = RTT / 2;
        for _ in 0..50 {
            flow.ack(1, false);
        }
        flow.interval = RTT;
        flow.in_flight = 100;
        flow.lose(80);
        flow.enter();
        for _ in 0..10 {
            flow.ack(1, false);
            flow.send();
        }
        flow.leave();
        flow.ack(1, false);
        // 20 packets in 40 ms are 4 Mbit/s, less than the present samples.
        assert_eq!(
            flow.field("max_packets_delivered"),
            Value::Bytes(packets(20))
        );
        let Value::Rate(bw) = flow.field("max_bw") else {
            panic!("a rate");
        };
        let shown = (bw.bps() + 500_000) / 1_000_000;
        assert_eq!(shown, mbps, "{bw:?}");
        assert_eq!(flow.field("full_bw_reached"), Value::Flag(reseed));
    }
}

#[test]
fn an_application_limited_recovery_keeps_the_bandwidth() {
    let mut flow = Flow::recovering(&[]);
    flow.app_limited = true;
    for _ in 0..60 {
        flow.ack(1, false);
        flow.send();
    }
    flow.leave();
    flow.ack(1, false);
    assert_eq!(flow.field("full_bw_reached"), Value::Flag(false));
}

#[test]
fn a_timeout_is_bbr1s() {
    let mut flow = Flow::recovering(&[]);
    flow.ack(1, false);
    flow.ca_state = CaState::Loss;
    flow.in_flight = 0;
    flow.cc.on_timeout(flow.now, Bytes::ZERO);
    assert_eq!(flow.cc.cwnd(), packets(1));
    assert!(flow.cc.pacing_rate().is_some());
    flow.leave();
    flow.in_flight = 5;
    flow.ack(1, false);
    assert_eq!(
        flow.field("max_packets_delivered"),
        Value::Bytes(Bytes::ZERO)
    );
}

#[test]
fn a_spurious_episode_returns_the_window() {
    for acks in [0, 5] {
        let mut flow = Flow::recovering(&[]);
        for _ in 0..acks {
            flow.ack(1, false);
        }
        assert!(flow.cc.cwnd() <= packets(90));
        flow.cc.on_spurious(flow.now, Bytes::ZERO);
        flow.leave();
        flow.ack(1, false);
        assert!(
            flow.cc.cwnd() >= packets(100),
            "{acks}: {:?}",
            flow.cc.cwnd()
        );
        assert_eq!(
            flow.field("max_packets_delivered"),
            Value::Bytes(Bytes::ZERO)
        );
        assert!(flow.cc.pacing_rate().is_some());
    }
}

#[test]
fn a_loss_that_a_probe_repaired_teaches_nothing() {
    let mut flow = Flow::new(&[]);
    flow.ack(1, false);
    flow.enter();
    flow.leave();
    flow.ack(1, false);
    assert_eq!(
        flow.field("max_packets_delivered"),
        Value::Bytes(Bytes::ZERO)
    );
    assert_eq!(flow.cc.phase(), "STARTUP");
}

#[test]
fn a_new_episode_at_once_still_ends_the_first() {
    let mut flow = Flow::recovering(&[]);
    for _ in 0..60 {
        flow.ack(1, false);
        flow.send();
    }
    flow.leave();
    flow.lose(1);
    flow.enter();
    assert_eq!(
        flow.field("max_packets_delivered"),
        Value::Bytes(packets(50))
    );
    flow.ack(1, false);
    assert_eq!(flow.cc.phase(), "RECOVERY_HOLD");
}

/// A threshold of half the min RTT of 40 ms: a round is congested if all of its RTTs exceed 60 ms.
#[test]
fn the_delay_of_a_round_is_a_signal() {
    let half = OptionValue::Gain(Gain::from_millionths(500_000));
    let mut flow = Flow::new(&[("delay_threshold", half)]);
    assert_eq!(flow.cc.ecn(), Ecn::NotEct);
    let mut round = |least: u64, others: u64| {
        for nth in 0..80 {
            let rtt = if nth % 10 == 0 { least } else { others };
            flow.rtt = Duration::from_millis(rtt);
            flow.ack(1, false);
            flow.in_flight += 1;
            if flow.cc.phase() == "RECOVERY_HOLD" {
                return true;
            }
        }
        false
    };
    assert!(!round(40, 40));
    assert!(!round(60, 60));
    assert!(!round(50, 200));
    assert!(round(61, 200));
    // Without the option no delay is.
    let mut deaf = Flow::new(&[]);
    for rtt in [40, 200] {
        deaf.rtt = Duration::from_millis(rtt);
        for _ in 0..90 {
            deaf.ack(1, false);
            deaf.in_flight += 1;
            assert!(!deaf.cc.phase().starts_with("RECOVERY"));
        }
    }
}

#[test]
fn a_mark_is_a_signal_once_a_window() {
    let mut flow = Flow::new(&[("ecn", OptionValue::Flag(true))]);
    assert_eq!(flow.cc.ecn(), Ecn::Ect0);
    flow.ack(1, false);
    assert!(flow.cc.pacing_rate().is_some());
    flow.ack(1, true);
    assert_eq!(flow.cc.phase(), "RECOVERY_HOLD");
    // 98 in flight are resolved after 98 more deliveries.
    let mut acks = 0;
    while flow.cc.phase().starts_with("RECOVERY") {
        flow.ack(1, true);
        flow.send();
        acks += 1;
        assert!(acks < 200);
    }
    assert_eq!(acks, 98);
    assert_eq!(
        flow.field("max_packets_delivered"),
        Value::Bytes(packets(50))
    );
    // If it is not ECN-capable, it ignores marks.
    let mut deaf = Flow::new(&[]);
    deaf.ack(1, true);
    assert_eq!((deaf.cc.phase(), deaf.cc.ecn()), ("STARTUP", Ecn::NotEct));
}

#[test]
fn a_policed_rate_does_not_hide_the_reseeded_filter() {
    let mut sk = Socket {
        mss: MSS as u32,
        cwnd: 100,
        srtt: 40_000,
        min_rtt: 40_000,
        packets_in_flight: 50,
        ..Socket::default()
    };
    let mut core = Core::new(&mut sk, Parameters::default());
    for _ in 0..20 {
        sk.delivered += 100;
        sk.lost += 50;
        sk.delivered_mstamp += 40_000;
        core.bbr.policer.sample(&sk, true, false, true);
    }
    assert!(core.bbr.policer.bw().is_some());
    core.end(&mut sk, 1, false);
    assert_eq!(core.bbr.policer.bw(), None);
    assert_eq!(core.bbr.bw(), core.bbr.bw.get());
}
