//! LEDBAT (RFC 6817): a window that grows and shrinks with the distance of the queuing delay from a
//! target. The pseudocode of section 2.4.2 as it stands, without the slow start that it leaves open.

use paceline_units::{Bytes, Duration, Gain, Instant, Value};

use super::delay::{BaseHistory, CurrentFilter, MAX_HISTORY};
use super::{FineWindow, MAX_QUANTUM, MIN_CWND, share};
use crate::options::{OptionSpec, choice, option};
use crate::{Ack, CaState, Config, Controller};

choice! {
    /// Which delay is measured.
    DelaySignal {
        /// From the sender to the receiver (section 2.3).
        OneWay = "one-way",
        /// The round trip, for transports without timestamps.
        RoundTrip = "rtt",
    }
}

/// What a scenario may set; see [`OPTIONS`](crate::options::Parameters::OPTIONS).
#[derive(Clone, Debug)]
pub struct Parameters {
    delay: DelaySignal,
    target: Duration,
    gain: Gain,
    decrease_gain: Gain,
    allowed_increase: u32,
    base_history: u32,
    base_interval: Duration,
    current_filter: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            delay: DelaySignal::OneWay,
            target: Duration::from_millis(100),
            gain: Gain::ONE,
            decrease_gain: Gain::ONE,
            allowed_increase: 1,
            base_history: MAX_HISTORY,
            base_interval: Duration::from_secs(60),
            current_filter: 4,
        }
    }
}

impl crate::options::Parameters for Parameters {
    const OPTIONS: &'static [OptionSpec<Self>] = &[
        option!(
            delay,
            p.delay,
            Choice(DelaySignal),
            "The delay that is measured (RFC 6817 2.3)"
        ),
        option!(
            target,
            p.target,
            Millis(1, 100),
            "TARGET: the queuing delay to hold, at most 100 ms (RFC 6817 2.5)"
        ),
        option!(
            gain,
            p.gain,
            Gain(1, 1000),
            "GAIN: windows of growth a round trip at an empty queue, at most 1 (RFC 6817 2.5)"
        ),
        option!(
            decrease_gain,
            p.decrease_gain,
            Gain(1, 10_000),
            "GAIN above the target, where it may be larger (RFC 6817 2.5)"
        ),
        option!(
            allowed_increase,
            p.allowed_increase,
            Count(1, 1000),
            "ALLOWED_INCREASE: packets by which the window may exceed the flight size (RFC 6817 2.5)"
        ),
        option!(
            base_history,
            p.base_history,
            Count(1, 10),
            "BASE_HISTORY: intervals whose least delays make the base delay (RFC 6817 2.5)"
        ),
        option!(
            base_interval,
            p.base_interval,
            Millis(100, 3_600_000),
            "Length of such an interval, a minute (RFC 6817 2.4.2)"
        ),
        option!(
            current_filter,
            p.current_filter,
            Count(1, 10),
            "CURRENT_FILTER: samples whose minimum is the current delay, none older than a round trip (RFC 6817 2.5)"
        ),
    ];
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
    /// From the first reduction of an episode of loss to its end.
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

    /// What a round trip changes, in 2^-16 bytes: `GAIN * off_target * MSS`.
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

impl Controller for Ledbat {
    fn name(&self) -> &'static str {
        "ledbat"
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

    fn on_spurious(&mut self, now: Instant) {
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
            CaState::Recovery => "Recovery",
            CaState::Loss => "Loss",
            _ => "CongestionAvoidance",
        }
    }

    fn visit_state(&self, visit: &mut dyn FnMut(&'static str, Value)) {
        let known = |delay: Option<Duration>| Value::Duration(delay.unwrap_or(Duration::ZERO));
        visit("base_delay", known(self.base.least()));
        visit("current_delay", known(self.current_delay));
        visit("queuing_delay", known(self.queuing_delay()));
    }
}
