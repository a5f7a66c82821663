//! A transport reduced to its acknowledgments: one window per round, evenly spaced.

use paceline_congestion::options::OptionValue;
use paceline_congestion::{
    Ack, AnyController, CaState, Config, Controller, RateSample, Value, build,
};
use paceline_units::{Bytes, Duration, Gain, Instant};

pub const MSS: u64 = 1000;

pub fn flag(value: bool) -> OptionValue {
    OptionValue::Flag(value)
}

pub fn gain(millionths: u32) -> OptionValue {
    OptionValue::Gain(Gain::from_millionths(millionths))
}

pub struct Flow {
    pub controller: AnyController,
    pub now: Instant,
    pub rtt: Duration,
    pub delivered: Bytes,
    pub cwnd_limited: bool,
}

impl Flow {
    pub fn new(name: &str, window: u64, rtt: Duration, options: &[(&str, OptionValue)]) -> Self {
        let config = Config {
            mss: MSS as u32,
            initial_window: Bytes::new(window * MSS),
            seed: 0,
            now: Instant::ZERO,
            srtt: Some(rtt),
            has_selective_acks: true,
        };
        Self {
            controller: build(name, &config, options).expect("a known controller"),
            now: Instant::ZERO,
            rtt,
            delivered: Bytes::ZERO,
            cwnd_limited: true,
        }
    }

    /// A flow that starts in congestion avoidance.
    pub fn avoiding(name: &str, window: u64, rtt: Duration) -> Self {
        let ssthresh = OptionValue::Bytes(Bytes::ZERO);
        Self::new(name, window, rtt, &[("initial_ssthresh", ssthresh)])
    }

    /// The next acknowledgment, of `size` bytes.
    pub fn ack_of(&self, size: u64) -> Ack {
        let cwnd = self.controller.cwnd();
        Ack {
            now: self.now,
            sample: RateSample::default(),
            newly_acked: Bytes::new(size),
            newly_lost: Bytes::ZERO,
            newly_marked: Some(Bytes::ZERO),
            prior_in_flight: cwnd,
            in_flight: cwnd - Bytes::new(size),
            delivered: self.delivered + Bytes::new(size),
            lost: Bytes::ZERO,
            sent: self.delivered + Bytes::new(size) + cwnd - Bytes::new(size),
            rtt: Some(self.rtt),
            srtt: self.rtt,
            min_rtt: self.rtt,
            cwnd_limited: self.cwnd_limited,
            ca_state: CaState::Open,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: Some(self.rtt),
            receiver_delay: None,
            ece: false,
        }
    }

    pub fn feed(&mut self, ack: Ack) {
        self.delivered = ack.delivered;
        self.controller.on_ack(&ack);
    }

    /// `size` bytes are acknowledged.
    pub fn ack(&mut self, size: u64) {
        self.feed(self.ack_of(size));
    }

    /// A round: each whole segment of the window is acknowledged separately.
    pub fn round(&mut self) {
        let segments = self.controller.cwnd().get() / MSS;
        for _ in 0..segments {
            self.now += self.rtt / segments;
            self.ack(MSS);
        }
    }

    /// Fast recovery that takes no time.
    pub fn recover(&mut self) {
        self.controller.on_recovery_enter(self.now, Bytes::ZERO);
        self.controller.on_recovery_exit(self.now);
    }

    pub fn cwnd(&self) -> u64 {
        self.controller.cwnd().get()
    }

    pub fn ssthresh(&self) -> u64 {
        self.controller.ssthresh().expect("it has one").get()
    }

    pub fn state(&self, name: &str) -> Value {
        let mut shown = None;
        self.controller
            .visit_state(&mut paceline_congestion::Visitor::each(
                &mut |key, value| {
                    if key == name {
                        shown = Some(value);
                    }
                },
            ));
        shown.expect("a known field")
    }

    pub fn bytes(&self, name: &str) -> u64 {
        match self.state(name) {
            Value::Bytes(bytes) => bytes.get(),
            other => panic!("{name} is {other:?}"),
        }
    }

    pub fn duration(&self, name: &str) -> Duration {
        match self.state(name) {
            Value::Duration(duration) => duration,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// The mean window in segments over ten losses, one in `period` packets, after `warm_up` losses.
    pub fn mean_window(&mut self, period: u64, warm_up: u32) -> f64 {
        let (mut area, mut time) = (0.0, 0.0);
        for loss in 0..warm_up + 10 {
            for _ in 0..period {
                let cwnd = self.cwnd() as f64 / MSS as f64;
                let step = Duration::from_nanos((self.rtt.as_nanos() as f64 / cwnd) as u64);
                self.now += step;
                if loss >= warm_up {
                    area += cwnd * step.as_secs_f64();
                    time += step.as_secs_f64();
                }
                self.ack(MSS);
            }
            self.recover();
        }
        area / time
    }
}

/// Whether `value` is within `percent` of `expected`.
pub fn near(value: f64, expected: f64, percent: f64) -> bool {
    (value - expected).abs() <= expected * percent / 100.0
}
