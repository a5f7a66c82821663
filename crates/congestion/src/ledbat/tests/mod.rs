mod classic;
mod plus_plus;
mod properties;

use std::vec::Vec;

use paceline_units::{Bytes, Duration, Gain, Instant, Value};

use super::delay::{BaseHistory, CurrentFilter};
use super::plus_plus::{change, gain_divisor};
use crate::options::{OptionKind, OptionValue};
use crate::{
    Ack, AnyController, CaState, Config, Controller, RateSample, Sent, build, controllers,
};

const MSS: u64 = 1000;
const BASE: Duration = Duration::from_millis(20);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

fn word(word: &'static str) -> OptionValue {
    OptionValue::Choice(word)
}

/// A controller, and acknowledgments of one packet for it.
struct Flow {
    controller: AnyController,
    now: Instant,
    delivered: u64,
    lost: u64,
    in_flight: Option<u64>,
    cwnd_limited: bool,
    ca_state: CaState,
}

impl Flow {
    fn new(name: &str, options: &[(&str, OptionValue)]) -> Self {
        let config = Config {
            mss: MSS as u32,
            initial_window: Bytes::new(10 * MSS),
            seed: 0,
            now: Instant::ZERO,
            srtt: None,
            has_selective_acks: true,
        };
        Self {
            controller: build(name, &config, options).unwrap(),
            now: Instant::ZERO,
            delivered: 0,
            lost: 0,
            in_flight: None,
            cwnd_limited: true,
            ca_state: CaState::Open,
        }
    }

    fn ack_of(&mut self, rtt: Duration, packets: u64) {
        let cwnd = self.controller.cwnd();
        let prior = self.in_flight.map_or(cwnd, Bytes::new);
        self.delivered += packets * MSS;
        self.controller.on_ack(&Ack {
            now: self.now,
            sample: RateSample::default(),
            newly_acked: Bytes::new(packets * MSS),
            newly_lost: Bytes::ZERO,
            newly_marked: Some(Bytes::ZERO),
            prior_in_flight: prior,
            in_flight: prior - Bytes::new(packets * MSS),
            delivered: Bytes::new(self.delivered),
            lost: Bytes::new(self.lost),
            sent: Bytes::new(self.delivered) + Bytes::new(self.lost) + prior
                - Bytes::new(packets * MSS),
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: BASE,
            cwnd_limited: self.cwnd_limited,
            ca_state: self.ca_state,
            una_advanced: true,
            delayed: false,
            // Half of the base, and clocks that differ by a second.
            one_way_delay: Some(Duration::from_secs(1) + rtt - BASE / 2),
            network_rtt: Some(rtt),
            receiver_delay: None,
            ece: false,
        });
    }

    fn ack(&mut self, rtt: Duration) {
        self.ack_of(rtt, 1);
    }

    /// A round trip: each packet of the window is acknowledged separately.
    fn round(&mut self, rtt: Duration) {
        let packets = (self.cwnd() / MSS).max(1);
        for _ in 0..packets {
            self.now += rtt / packets;
            self.ack(rtt);
        }
    }

    /// Acknowledgments with one RTT until the phase changes, and none after. Returns the time in
    /// RTTs.
    fn until(&mut self, phase: &str, rtt: Duration) -> f64 {
        let from = self.now;
        for _ in 0..100_000 {
            if self.controller.phase() == phase {
                return self.now.since(from).as_secs_f64() / rtt.as_secs_f64();
            }
            self.now += rtt / (self.cwnd() / MSS).max(1);
            self.ack(rtt);
        }
        panic!("never {phase}, always {}", self.controller.phase());
    }

    /// In congestion avoidance after an initial slow start that ended at about `packets`; no
    /// slowdown yet.
    fn avoiding(options: &[(&str, OptionValue)], packets: u64) -> Self {
        let mut flow = Self::new("ledbat++", options);
        while flow.cwnd() < packets * MSS {
            flow.round(BASE);
        }
        // One sample cannot pass the filter of four.
        for _ in 0..10 {
            flow.ack(BASE + ms(46));
        }
        assert_eq!(flow.controller.phase(), "CongestionAvoidance");
        flow
    }

    fn recover(&mut self) {
        self.controller.on_recovery_enter(self.now, Bytes::ZERO);
        self.controller.on_recovery_exit(self.now);
    }

    fn cwnd(&self) -> u64 {
        self.controller.cwnd().get()
    }

    fn ssthresh(&self) -> u64 {
        self.controller.ssthresh().unwrap().get()
    }

    fn value(&self, name: &str) -> Value {
        let mut shown = None;
        self.controller
            .visit_state(&mut crate::Visitor::each(&mut |key, value| {
                if key == name {
                    shown = Some(value);
                }
            }));
        shown.unwrap()
    }

    fn duration(&self, name: &str) -> Duration {
        match self.value(name) {
            Value::Duration(duration) => duration,
            other => panic!("{other:?}"),
        }
    }
}
