//! LEDBAT (RFC 6817): a window that grows and shrinks with the distance of the queuing delay from a
//! target. Implements the pseudocode of section 2.4.2, without the slow start that it leaves open.

use paceline_units::{Bytes, Duration, Gain, Instant, Value, parameters};

use super::delay::{BaseHistory, CurrentFilter, MAX_HISTORY};
use super::fine::{FineWindow, MAX_QUANTUM, MIN_CWND, share};
use crate::options::{Choice as _, choice};
use crate::state::state;
use crate::{Ack, CaState, Config, Controller, Described, Signals};

choice! {
    /// The delay that is measured.
    pub enum DelaySignal {
        /// From the sender to the receiver (section 2.3).
        OneWay = "one-way" default,
        /// The round trip, for transports without timestamps.
        RoundTrip = "rtt",
    }
}

parameters! {
    /// The options that a scenario may set.
    pub struct Parameters {
        /// The delay that is measured (RFC 6817 2.3)
        delay: Choice(DelaySignal) = DelaySignal::OneWay;
        /// TARGET: the target queuing delay, at most 100 ms (RFC 6817 2.5)
        target: Millis(1, 100) = Duration::from_millis(100);
        /// GAIN: growth in windows per round trip with an empty queue, at most 1 (RFC 6817 2.5)
        gain: Gain(1, 1000) = Gain::ONE;
        /// GAIN above the target, where it may be larger (RFC 6817 2.5)
        decrease_gain: Gain(1, 10_000) = Gain::ONE;
        /// ALLOWED_INCREASE: the maximum number of packets by which the window exceeds the flight
        /// size (RFC 6817 2.5)
        allowed_increase: Count(1, 1000) = 1;
        /// BASE_HISTORY: number of intervals whose minimum delays make the base delay (RFC 6817
        /// 2.5)
        base_history: Count(1, 10) = MAX_HISTORY;
        /// Length of such an interval, a minute (RFC 6817 2.4.2)
        base_interval: Millis(100, 3_600_000) = Duration::from_secs(60);
        /// CURRENT_FILTER: number of samples whose minimum is the current delay, none older than a
        /// round trip (RFC 6817 2.5)
        current_filter: Count(1, 10) = 4;
    }
}

choice! {
    /// Its states.
    enum Phase {
        CongestionAvoidance = "CongestionAvoidance",
        Recovery = "Recovery",
        Loss = "Loss",
    }
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Ledbat {
    parameters: Parameters,
    mss: Bytes,
    window: FineWindow,
    base: BaseHistory,
    current: CurrentFilter,
    current_delay: Option<Duration>,
    ca_state: CaState,
    /// Whether a loss episode is in progress, from its first reduction to its end.
    in_episode: bool,
    /// The window before the last episode, for its undo.
    before_loss: Option<Bytes>,
}

impl Ledbat {
    /// Makes one.
    pub fn new(config: &Config, parameters: Parameters) -> Self {
        let mss = Bytes::new(u64::from(config.mss.max(1)));
        Self {
            mss,
            // INIT_CWND, no larger than TCP's.
            window: FineWindow::new(config.initial_window.min(mss * MIN_CWND).max(mss)),
            base: BaseHistory::new(parameters.base_history, parameters.base_interval),
            current: CurrentFilter::new(parameters.current_filter),
            current_delay: None,
            ca_state: CaState::Open,
            in_episode: false,
            before_loss: None,
            parameters,
        }
    }

    fn floor(&self) -> Bytes {
        self.mss * MIN_CWND
    }

    fn queuing_delay(&self) -> Option<Duration> {
        Some(self.current_delay? - self.base.least()?)
    }

    /// The change over one round trip, in 2^-16 bytes: `GAIN * off_target * MSS`.
    fn change(&self, queuing_delay: Duration) -> i128 {
        let target = i128::from(self.parameters.target.as_nanos().max(1));
        let distance = target - i128::from(queuing_delay.as_nanos());
        let gain = if distance < 0 {
            self.parameters.decrease_gain
        } else {
            self.parameters.gain
        };
        let full = i128::from((self.mss * gain).get()) << 16;
        full.saturating_mul(distance) / target
    }

    fn begin_episode(&mut self) {
        if !core::mem::replace(&mut self.in_episode, true) {
            self.before_loss = Some(self.window.bytes);
        }
    }
}

impl Described for Ledbat {
    type Parameters = Parameters;
    const NAME: &'static str = "ledbat";
    const SUMMARY: &'static str = "Low extra delay background transport";
    const SOURCE: &'static str = "RFC 6817";
    const PHASES: &'static [&'static str] = Phase::WORDS;

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            one_way_delay: parameters.delay == DelaySignal::OneWay,
            ..Signals::NONE
        }
    }
}

impl Controller for Ledbat {
    fn hears_each_send(&self) -> bool {
        false
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.ca_state = ack.ca_state;
        let delay = match self.parameters.delay {
            DelaySignal::OneWay => ack.one_way_delay,
            DelaySignal::RoundTrip => ack.rtt,
        };
        if let Some(delay) = delay {
            self.base.on_sample(ack.now, delay);
            self.current.on_sample(ack.now, delay);
        }
        self.current_delay = self.current.least(ack.now, ack.srtt);
        // The transport reduces the window in recovery (RFC 9937).
        if ack.ca_state == CaState::Recovery {
            return;
        }
        if let Some(queuing_delay) = self.queuing_delay() {
            let cwnd = self.window.bytes;
            let allowed =
                ack.prior_in_flight + self.mss * u64::from(self.parameters.allowed_increase);
            let change = share(self.change(queuing_delay), ack.newly_acked, cwnd);
            self.window
                .add(change, self.floor(), allowed.max(self.floor()));
        }
    }

    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {
        self.begin_episode();
        self.ca_state = CaState::Recovery;
        let cwnd = self.window.bytes;
        let half = Bytes::new(cwnd.get() / 2).max(self.floor());
        self.window.set(cwnd.min(half));
    }

    fn on_recovery_exit(&mut self, _now: Instant) {
        self.ca_state = CaState::Open;
        self.in_episode = false;
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: Bytes) {
        self.begin_episode();
        self.ca_state = CaState::Loss;
        self.window.set(self.mss);
    }

    fn on_spurious(&mut self, now: Instant, _delivered: Bytes) {
        if let Some(before) = self.before_loss.take() {
            self.window.set(self.window.bytes.max(before));
            self.on_recovery_exit(now);
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = Bytes::new(u64::from(mss.max(1)));
        self.window.set(self.window.bytes.max(self.mss));
    }

    fn cwnd(&self) -> Bytes {
        self.window.bytes
    }

    fn send_quantum(&self) -> Bytes {
        self.window.bytes.max(MAX_QUANTUM)
    }

    fn phase(&self) -> &'static str {
        match self.ca_state {
            CaState::Recovery => Phase::Recovery,
            CaState::Loss => Phase::Loss,
            _ => Phase::CongestionAvoidance,
        }
        .word()
    }

    state! {
        fn visit_state(&self) -> Value {
            base_delay: Duration = self.base.least().unwrap_or(Duration::ZERO),
            current_delay: Duration = self.current_delay.unwrap_or(Duration::ZERO),
            queuing_delay: Duration = self.queuing_delay().unwrap_or(Duration::ZERO),
        }
    }
}
