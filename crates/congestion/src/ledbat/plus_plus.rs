//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus): RFC 6817 on round-trip times, with a gain that
//! scales with the base RTT, a multiplicative decrease above the target, and slowdowns to measure
//! the base RTT.

use paceline_units::{Bytes, Duration, Gain, Instant, Rate, Value};

use super::delay::{BaseHistory, CurrentFilter};
use super::fine::{FineWindow, MAX_QUANTUM, MIN_CWND, share};
use super::parameters::{
    DecreasePace, GainTarget, LossInSlowdown, PlusPlusParameters, RampEnd, RampGain, TargetRule,
};
use crate::options::choice;
use crate::slowdown::{Clock, INITIAL_ROUNDS, LeastRtt, Slowdown};
use crate::state::state;
use crate::window::Window;
use crate::{Ack, CaState, Config, Controller, Described, Sent, Signals};

/// A pause of this length is idleness: the minimum retransmission timeout (RFC 6298 2.4).
const IDLE: Duration = Duration::from_secs(1);
const PACING_SLOW_START: Gain = Gain::from_millionths(2_000_000);
const PACING_AVOIDANCE: Gain = Gain::from_millionths(1_200_000);

choice! {
    /// States of the machine.
    enum Phase {
        /// Slow start, ended by a queue (4.1).
        InitialSlowStart = "InitialSlowStart",
        /// Slow start after a timeout or idleness.
        SlowStart = "SlowStart",
        CongestionAvoidance = "CongestionAvoidance",
        /// The window is at its floor.
        Slowdown = "Slowdown",
        /// Slow start back to the window before the slowdown.
        Ramp = "Ramp",
    }
}

/// The state it shows while the transport reduces the window.
const RECOVERY: &str = "Recovery";

/// The base RTT.
#[derive(Clone, Debug)]
enum Base {
    /// By RFC 6817's history.
    History(BaseHistory),
    /// By BBR's filter.
    Window(LeastRtt),
}

impl Base {
    fn least(&self) -> Option<Duration> {
        match self {
            Self::History(history) => history.least(),
            Self::Window(window) => window.least,
        }
    }
}

/// The state saved for an episode of loss.
#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: Bytes,
    ssthresh: Bytes,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct LedbatPlusPlus {
    parameters: PlusPlusParameters,
    mss: Bytes,
    window: FineWindow,
    ssthresh: Bytes,
    base: Base,
    current: CurrentFilter,
    current_rtt: Option<Duration>,
    srtt: Duration,
    phase: Phase,
    ca_state: CaState,
    /// The time of the flow's last event, to detect idle periods.
    last_event: Instant,
    slowdown: Clock,
    /// `spread`: delivered data that ends the round trip, and the remaining reduction in it.
    decrease_round: Bytes,
    decrease_left: i128,
    /// `once`: no decrease before this.
    next_decrease: Instant,
    in_episode: bool,
    undo: Option<Undo>,
    pacing_rate: Option<Rate>,
}

/// Section 4.2: the divisor `F` of `GAIN = 1 / F`.
pub(super) fn gain_divisor(target: Duration, base: Duration, constant: u32) -> u64 {
    let twice = target.as_nanos().saturating_mul(2);
    match base.as_nanos() {
        0 => u64::from(constant),
        base => twice.div_ceil(base).clamp(1, u64::from(constant)),
    }
}

/// Section 4.3: the change over one round trip, in 2^-16 bytes, with `delay` the queuing delay.
/// Above the target only the decrease counts; just above it the sum still grows.
pub(super) fn change(
    mss: Bytes,
    divisor: u64,
    constant: Gain,
    window: Bytes,
    delay: Duration,
    target: Duration,
) -> i128 {
    let increase = (i128::from(mss.get()) << 16) / i128::from(divisor.max(1));
    if delay <= target {
        return increase;
    }
    let window = i128::from(window.get()) << 16;
    let excess = u128::from((delay - target).as_nanos()) << 16;
    let ratio = excess / u128::from(target.as_nanos().max(1));
    // Sixteen times the target is beyond the bound for any window.
    let ratio = u64::try_from(ratio).unwrap_or(u64::MAX).min(1 << 20);
    let decrease = (window >> 16) * i128::from(constant.scale(ratio));
    (increase - decrease).max(-window / 2)
}

impl LedbatPlusPlus {
    /// Makes one.
    pub fn new(config: &Config, parameters: PlusPlusParameters) -> Self {
        let mss = Bytes::new(u64::from(config.mss.max(1)));
        let base = match parameters.slowdown {
            Slowdown::Periodic => Base::History(BaseHistory::new(
                parameters.base_history,
                parameters.base_interval,
            )),
            Slowdown::BbrStyle => Base::Window(LeastRtt::new(config.now)),
        };
        let mut controller = Self {
            mss,
            // 4.1: two packets, but no more than the transport's.
            window: FineWindow::new(config.initial_window.min(mss * MIN_CWND).max(mss)),
            ssthresh: Bytes::INFINITE,
            base,
            current: CurrentFilter::new(parameters.current_filter),
            current_rtt: None,
            srtt: config.srtt.unwrap_or(Duration::ZERO),
            phase: Phase::InitialSlowStart,
            ca_state: CaState::Open,
            last_event: config.now,
            slowdown: Clock::new(config.now),
            decrease_round: Bytes::ZERO,
            decrease_left: 0,
            next_decrease: config.now,
            in_episode: false,
            undo: None,
            pacing_rate: None,
            parameters,
        };
        controller.pace();
        controller
    }

    fn floor(&self) -> Bytes {
        self.mss * MIN_CWND
    }

    fn queuing_delay(&self) -> Duration {
        match (self.current_rtt, self.base.least()) {
            (Some(current), Some(base)) => current - base,
            _ => Duration::ZERO,
        }
    }

    /// The current target.
    fn target(&self) -> Duration {
        let target = self.parameters.target;
        match (self.parameters.target_rule, self.base.least()) {
            (TargetRule::MinBaseRtt, Some(base)) => {
                target.min(base * self.parameters.base_rtt_share)
            }
            _ => target,
        }
    }

    fn divisor(&self) -> u64 {
        let target = match self.parameters.gain_target {
            GainTarget::Fixed => self.parameters.target,
            GainTarget::Effective => self.target(),
        };
        let base = self.base.least().unwrap_or(Duration::ZERO);
        gain_divisor(target, base, self.parameters.gain_constant)
    }

    /// Processes an RTT sample. True when BBR's filter says that it is time to measure the base
    /// RTT.
    fn on_rtt(&mut self, now: Instant, rtt: Duration) -> bool {
        self.current.on_sample(now, rtt);
        match &mut self.base {
            Base::History(history) => {
                history.on_sample(now, rtt);
                false
            }
            Base::Window(window) => window.on_sample(now, rtt, self.parameters.bbr_interval),
        }
    }

    /// 4.4: the window falls to its floor, its previous value becomes the threshold.
    fn begin_slowdown(&mut self, now: Instant) {
        self.ssthresh = self.window.bytes.max(self.floor());
        self.phase = Phase::Slowdown;
        self.slowdown.begin(now);
        let floor = self.parameters.rule().floor(self.mss);
        self.window.set(self.window.bytes.min(floor));
    }

    fn end_slowdown(&mut self, now: Instant) {
        match self.parameters.slowdown {
            Slowdown::Periodic => self.phase = Phase::Ramp,
            Slowdown::BbrStyle => {
                self.window.set(self.window.bytes.max(self.ssthresh));
                self.phase = Phase::CongestionAvoidance;
                if let Base::Window(window) = &mut self.base {
                    window.stamp = now;
                }
            }
        }
    }

    /// Changes to congestion avoidance, and schedules the next slowdown (4.4).
    fn avoid_congestion_from(&mut self, now: Instant, cut_short: bool) {
        let wait = match self.phase {
            Phase::Ramp | Phase::Slowdown => {
                let took = self.slowdown.took(now);
                let took = if cut_short { took * 2 } else { took };
                took * u64::from(self.parameters.slowdown_factor)
            }
            _ => self.srtt * INITIAL_ROUNDS,
        };
        self.phase = Phase::CongestionAvoidance;
        if self.parameters.slowdown == Slowdown::Periodic {
            self.slowdown.plan(now + wait);
        }
    }

    /// 4.1: `divisor` acknowledged packets add one, up to the threshold.
    fn slow_start(&mut self, ack: &Ack, divisor: u64) {
        if Window::may_grow(ack) {
            let growth = (i128::from(ack.newly_acked.get()) << 16) / i128::from(divisor.max(1));
            self.window.add(growth, self.mss, self.ssthresh);
        }
        if self.window.bytes >= self.ssthresh {
            self.avoid_congestion_from(ack.now, false);
        }
    }

    /// 4.3.
    fn avoid_congestion(&mut self, ack: &Ack) {
        let (delay, target) = (self.queuing_delay(), self.target());
        let cwnd = self.window.bytes;
        let constant = self.parameters.decrease_constant;
        let change = change(self.mss, self.divisor(), constant, cwnd, delay, target);
        if change >= 0 {
            if Window::may_grow(ack) && (delay <= target || ack.now >= self.next_decrease) {
                let growth = share(change, ack.newly_acked, cwnd);
                self.window.add(growth, self.floor(), Bytes::INFINITE);
            }
            return;
        }
        let decrease = match self.parameters.decrease {
            DecreasePace::Once if ack.now < self.next_decrease => return,
            DecreasePace::Once => {
                self.next_decrease = ack.now + self.srtt;
                change
            }
            DecreasePace::Spread => {
                if ack.delivered >= self.decrease_round {
                    self.decrease_round = ack.delivered + ack.in_flight;
                    self.decrease_left = i128::from(cwnd.get()) << 15;
                }
                let decrease = share(change, ack.newly_acked, cwnd).max(-self.decrease_left);
                self.decrease_left += decrease;
                decrease
            }
        };
        self.window.add(decrease, self.floor(), Bytes::INFINITE);
        let deferral = self.parameters.slowdown_deferral;
        if deferral > Duration::ZERO && self.slowdown.is_planned() {
            self.slowdown.plan(ack.now + deferral);
        }
    }

    /// Whether a loss now belongs to the window before the slowdown.
    fn keeps_threshold(&self) -> bool {
        self.parameters.loss_in_slowdown == LossInSlowdown::Threshold
            && matches!(self.phase, Phase::Slowdown | Phase::Ramp)
    }

    fn begin_episode(&mut self) {
        if !core::mem::replace(&mut self.in_episode, true) {
            self.undo = Some(Undo {
                cwnd: self.window.bytes,
                ssthresh: self.ssthresh,
            });
        }
        let lost_of = match self.keeps_threshold() {
            true => self.ssthresh,
            false => self.window.bytes,
        };
        self.ssthresh = Bytes::new(lost_of.get() / 2).max(self.floor());
    }

    fn pace(&mut self) {
        if self.parameters.pacing && self.srtt > Duration::ZERO {
            let ratio = match self.phase {
                Phase::CongestionAvoidance => PACING_AVOIDANCE,
                _ => PACING_SLOW_START,
            };
            self.pacing_rate = Some(Rate::from_delivery(self.window.bytes * ratio, self.srtt));
        }
    }
}

impl Described for LedbatPlusPlus {
    type Parameters = PlusPlusParameters;
    const NAME: &'static str = "ledbat++";
    const SUMMARY: &'static str = "LEDBAT with slowdowns and multiplicative decrease";
    const SOURCE: &'static str = "draft-irtf-iccrg-ledbat-plus-plus";
    const PHASES: &'static [&'static str] = &[
        Phase::InitialSlowStart.word(),
        Phase::SlowStart.word(),
        Phase::CongestionAvoidance.word(),
        Phase::Slowdown.word(),
        Phase::Ramp.word(),
        RECOVERY,
    ];
    const MAX_SIZE: usize = 576;

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            pacing: parameters.pacing,
            ..Signals::NONE
        }
    }
}

impl Controller for LedbatPlusPlus {
    fn on_send(&mut self, sent: &Sent) {
        // XNU: after idleness two packets and slow start, and no slowdown is due.
        let idle = sent.now.since(self.last_event);
        if sent.in_flight == Bytes::ZERO && idle > IDLE.max(self.srtt * 2) {
            self.window.set(self.window.bytes.min(self.floor()));
            if self.phase != Phase::InitialSlowStart {
                self.phase = Phase::SlowStart;
            }
            self.slowdown.cancel();
        }
        self.last_event = sent.now;
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.last_event = ack.now;
        self.ca_state = ack.ca_state;
        if ack.srtt > Duration::ZERO {
            self.srtt = ack.srtt;
        }
        let expired = ack.rtt.is_some_and(|rtt| self.on_rtt(ack.now, rtt));
        self.current_rtt = self.current.least(ack.now, self.srtt);
        if (expired || self.slowdown.is_due(ack.now)) && self.phase != Phase::Slowdown {
            self.begin_slowdown(ack.now);
        }
        // The transport reduces the window in recovery (RFC 9937).
        if ack.ca_state != CaState::Recovery {
            let delay = self.queuing_delay();
            match self.phase {
                Phase::InitialSlowStart
                    if delay.as_nanos() > 3 * (self.target().as_nanos() / 4) =>
                {
                    self.ssthresh = self.window.bytes.max(self.floor());
                    self.avoid_congestion_from(ack.now, false);
                }
                Phase::InitialSlowStart | Phase::SlowStart => self.slow_start(ack, self.divisor()),
                Phase::Ramp
                    if self.parameters.ramp_end == RampEnd::Target && delay > self.target() =>
                {
                    self.avoid_congestion_from(ack.now, true);
                }
                Phase::Ramp => {
                    let divisor = match self.parameters.ramp {
                        RampGain::Scaled => self.divisor(),
                        RampGain::Doubling => 1,
                    };
                    self.slow_start(ack, divisor);
                }
                Phase::CongestionAvoidance => self.avoid_congestion(ack),
                Phase::Slowdown => {
                    let rule = self.parameters.rule();
                    if self.slowdown.is_over(&rule, ack, self.srtt, self.mss) {
                        self.end_slowdown(ack.now);
                    }
                }
            }
        }
        self.pace();
    }

    fn on_recovery_enter(&mut self, now: Instant, _in_flight: Bytes) {
        self.begin_episode();
        self.ca_state = CaState::Recovery;
        if self.phase != Phase::Slowdown {
            self.window
                .set(self.ssthresh.min(self.window.bytes.max(self.mss)));
            // With a threshold above it, the ramp goes on.
            let ramps = self.keeps_threshold() && self.window.bytes < self.ssthresh;
            if self.phase != Phase::CongestionAvoidance && !ramps {
                self.avoid_congestion_from(now, false);
            }
        }
        self.pace();
    }

    fn on_recovery_exit(&mut self, _now: Instant) {
        self.ca_state = CaState::Open;
        self.in_episode = false;
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: Bytes) {
        if self.ca_state != CaState::Loss {
            self.begin_episode();
        }
        self.ca_state = CaState::Loss;
        self.window.set(self.mss);
        self.phase = Phase::SlowStart;
        self.slowdown.cancel();
        self.pace();
    }

    fn on_spurious(&mut self, now: Instant, _delivered: Bytes) {
        if let Some(undo) = self.undo.take() {
            self.on_recovery_exit(now);
            self.ssthresh = self.ssthresh.max(undo.ssthresh);
            if self.phase != Phase::Slowdown {
                self.window.set(self.window.bytes.max(undo.cwnd));
            }
            self.pace();
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = Bytes::new(u64::from(mss.max(1)));
        self.ssthresh = self.ssthresh.max(self.floor());
        self.window.set(self.window.bytes.max(self.mss));
    }

    fn cwnd(&self) -> Bytes {
        self.window.bytes
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }

    fn send_quantum(&self) -> Bytes {
        match self.pacing_rate {
            None => self.window.bytes.max(MAX_QUANTUM),
            Some(rate) => rate
                .volume_in(Duration::from_millis(1))
                .min(MAX_QUANTUM)
                .max(self.mss * 2),
        }
    }

    fn ssthresh(&self) -> Option<Bytes> {
        Some(self.ssthresh)
    }

    fn phase(&self) -> &'static str {
        if self.ca_state == CaState::Recovery {
            RECOVERY
        } else {
            self.phase.word()
        }
    }

    state! {
        fn visit_state(&self) -> Value {
            ssthresh: Bytes = self.ssthresh,
            base_delay: Duration = self.base.least().unwrap_or(Duration::ZERO),
            current_delay: Duration = self.current_rtt.unwrap_or(Duration::ZERO),
            queuing_delay: Duration = self.queuing_delay(),
            target: Duration = self.target(),
            gain_divisor: Count = self.divisor(),
        }
    }
}
