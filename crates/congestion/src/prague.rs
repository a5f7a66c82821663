//! TCP Prague: the scalable sender of L4S (draft-briscoe-iccrg-prague-congestion-control, RFC 9331
//! section 4; details that they leave open follow `tcp_prague.c` of L4STeam's Linux).
//!
//! Left out, because nothing here needs it: fallback to a classic response when the AQM on the path
//! is a classic one (off by default in Linux too), and fallback to Reno without accurate feedback,
//! which transports here always have.

use paceline_units::{Bytes, Duration, Gain, Instant, Rate, parameters};

use crate::options::choice;
use crate::state::state;
use crate::window::Phase;
use crate::{Ack, CaState, Config, Controller, Described, Ecn, RecoveryWindow, Signals, Value};

choice! {
    /// The RTT that a flow's growth emulates, so that short RTTs gain no advantage.
    pub enum RttScaling {
        /// One segment per target RTT, at the rate of a flow with that RTT.
        Rate = "rate" default,
        /// The same with its own RTT added to the target.
        Additive = "additive",
        /// One segment a round, whatever the RTT.
        None = "none",
    }
}

parameters! {
    /// The options that a scenario may set.
    pub struct Parameters {
        /// How a flow with a short RTT emulates the pace of one with the target RTT
        rtt_scaling: Choice(RttScaling) = RttScaling::Rate;
        /// That RTT (Linux: 25 ms)
        rtt_target: Micros(1, 1_000_000) = Duration::from_millis(25);
        /// Rounds after slow start before this applies (Linux: 4)
        rtt_transition: Count(0, 1_000_000) = 4;
        /// Weight of the newest round in alpha, as a power of a half: 4 is 1/16
        g_shift: Count(0, 16) = 4;
        /// The minimum window in packets
        min_window: Count(1, 1000) = 2;
        /// The longest burst, at the pacing rate (RFC 9331 4.3)
        burst: Micros(1, 100_000) = Duration::from_micros(250);
    }
}

/// Bits of fraction in alpha and in the window's carry.
const BITS: u32 = 20;
/// One, shifted accordingly.
const ONE: i64 = 1 << BITS;
/// RTTs above it are not scaled.
const MAX_SCALED_RTT: Duration = Duration::from_millis(100);

/// The controller. Its window is a number of whole packets and a carry, so that the small steps of
/// a low marking rate add up.
#[derive(Clone, Debug)]
pub struct Prague {
    parameters: Parameters,
    mss: u32,
    cwnd: u32,
    /// The amount to add to the window or subtract from it, at most one packet per ACK.
    carry: i64,
    ssthresh: u32,
    /// Alpha over g: the average keeps what a division would lose.
    upscaled_alpha: i64,
    saw_ce: bool,
    in_loss: bool,
    ca_state: CaState,
    /// Rounds since slow start.
    rounds: u32,
    /// The end of the round, and the end of the window that a reduction covers, in data delivered
    /// or lost.
    round_end: Bytes,
    cwr_end: Bytes,
    round_acked: Bytes,
    round_marked: Bytes,
    alpha_stamp: Instant,
    cwr_stamp: Option<Instant>,
    srtt: Duration,
    in_flight: Bytes,
    /// The window before a loss, for undo.
    prior: Option<(u32, i64, u32)>,
}

impl Prague {
    /// Makes one.
    pub fn new(config: &Config, parameters: Parameters) -> Self {
        let mss = config.mss.max(1);
        let packets = config.initial_window.packets(u64::from(mss));
        Self {
            mss,
            cwnd: u32::try_from(packets)
                .unwrap_or(u32::MAX)
                .max(parameters.min_window),
            carry: 0,
            ssthresh: u32::MAX,
            upscaled_alpha: ONE << parameters.g_shift,
            saw_ce: false,
            in_loss: false,
            ca_state: CaState::Open,
            rounds: 0,
            round_end: Bytes::ZERO,
            cwr_end: Bytes::ZERO,
            round_acked: Bytes::ZERO,
            round_marked: Bytes::ZERO,
            alpha_stamp: config.now,
            cwr_stamp: None,
            srtt: config.srtt.unwrap_or(Duration::ZERO),
            in_flight: Bytes::ZERO,
            prior: None,
            parameters,
        }
    }

    fn packets(&self, volume: Bytes) -> i64 {
        let shifted = u128::from(volume.get()) << BITS;
        let packets = shifted / u128::from(self.mss.max(1));
        // No more than one window counts.
        i64::try_from(packets).unwrap_or(i64::MAX).min(1 << 52)
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The RTT that the flow emulates.
    fn target_rtt(&self) -> Duration {
        match self.parameters.rtt_scaling {
            RttScaling::Additive => self.parameters.rtt_target + self.srtt,
            _ => self.parameters.rtt_target,
        }
    }

    fn is_rtt_independent(&self) -> bool {
        self.parameters.rtt_scaling != RttScaling::None
            && !self.in_slow_start()
            && self.rounds >= self.parameters.rtt_transition
    }

    /// The growth of a round without marks, in packets: one, or (RTT / target)^2 below the target.
    fn increase(&self) -> i64 {
        let (rtt, target) = (self.srtt.as_nanos(), self.target_rtt().as_nanos());
        let scaled =
            self.is_rtt_independent() && rtt > 0 && rtt < target && self.srtt <= MAX_SCALED_RTT;
        if !scaled {
            return ONE;
        }
        let ratio = (u128::from(rtt) << BITS) / u128::from(target.max(1));
        i64::try_from((ratio * ratio) >> BITS).unwrap_or(ONE).max(1)
    }

    /// Growth: marked data earns none, and an unused window does not grow.
    fn grow(&mut self, ack: &Ack, marked: Bytes) {
        let mut acked = self.packets(ack.newly_acked - marked);
        if acked == 0 || self.in_loss || !ack.cwnd_limited {
            return;
        }
        if self.in_slow_start() {
            let room = self.ssthresh - self.cwnd;
            let whole = acked >> BITS;
            let step = u32::try_from(whole).unwrap_or(u32::MAX).min(room);
            self.cwnd = self.cwnd.saturating_add(step);
            if self.in_slow_start() {
                // Fractions of packets add up to whole packets.
                self.carry = self.carry.saturating_add(acked & (ONE - 1));
                return;
            }
            acked -= i64::from(step) << BITS;
        }
        let grown = i128::from(acked) * i128::from(self.increase());
        let grown = (grown >> BITS) / i128::from(self.cwnd.max(1));
        self.carry = self
            .carry
            .saturating_add(i64::try_from(grown).unwrap_or(ONE));
    }

    /// The window follows its carry, one packet per ACK.
    fn adjust(&mut self) {
        if self.carry <= -ONE {
            self.carry += ONE;
            self.cwnd -= 1;
            if self.cwnd < self.parameters.min_window {
                self.cwnd = self.parameters.min_window;
                self.carry = 0;
            }
            self.ssthresh = self.cwnd;
        } else if self.carry >= ONE {
            self.carry -= ONE;
            self.cwnd = self.cwnd.saturating_add(1);
        }
    }

    /// Updates alpha once per round, and while RTTs are scaled at most once per target RTT; not
    /// before the first mark.
    fn end_round(&mut self, ack: &Ack) {
        let resolved = ack.resolved();
        if resolved < self.round_end
            || (self.is_rtt_independent() && ack.now.since(self.alpha_stamp) < self.target_rtt())
        {
            return;
        }
        if self.saw_ce {
            let marked = self.packets(self.round_marked);
            let acked = self.packets(self.round_acked).max(1);
            let fraction = (i128::from(marked) << BITS) / i128::from(acked);
            let alpha = self.upscaled_alpha;
            let fraction = i64::try_from(fraction).unwrap_or(ONE).min(ONE);
            self.upscaled_alpha = (alpha - (alpha >> self.parameters.g_shift) + fraction)
                .min(ONE << self.parameters.g_shift);
            self.alpha_stamp = ack.now;
        }
        self.round_end = resolved + ack.in_flight;
        self.round_acked = Bytes::ZERO;
        self.round_marked = Bytes::ZERO;
        if !self.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    /// A mark: reduces by half of alpha, once per window and, while RTTs are scaled, once per
    /// target RTT.
    fn reduce(&mut self, ack: &Ack) {
        let resolved = ack.resolved();
        let in_loss = matches!(ack.ca_state, CaState::Recovery | CaState::Loss);
        if resolved < self.cwr_end || in_loss {
            return;
        }
        self.cwr_end = resolved + ack.in_flight;
        let recent = self
            .cwr_stamp
            .is_some_and(|stamp| ack.now.since(stamp) < self.target_rtt());
        if self.is_rtt_independent() && recent {
            return;
        }
        self.cwr_stamp = Some(ack.now);
        let alpha = self.upscaled_alpha >> self.parameters.g_shift;
        // Half a unit more, so that rounding is unbiased.
        let cut = (i128::from(alpha) * i128::from(self.cwnd) + 1) >> 1;
        self.carry -= i64::try_from(cut).unwrap_or(i64::MAX);
    }

    /// A loss: halves the window, one packet per ACK.
    fn halve(&mut self) {
        self.prior = Some((self.cwnd, self.carry, self.ssthresh));
        self.carry -= (i64::from(self.cwnd) << (BITS - 1)) + (self.carry >> 1);
        self.in_loss = true;
    }
}

/// A factor in 2^-BITS, for display.
fn millionths(value: i64) -> Gain {
    let scaled = (i128::from(value.max(0)) * i128::from(Gain::SCALE)) >> BITS;
    Gain::from_millionths(u32::try_from(scaled).unwrap_or(0))
}

impl Described for Prague {
    type Parameters = Parameters;
    const NAME: &'static str = "prague";
    const SUMMARY: &'static str = "The scalable sender of L4S, independent of its RTT";
    const SOURCE: &'static str = "draft-briscoe-iccrg-prague-congestion-control, RFC 9331";
    const PHASES: &'static [&'static str] = Phase::WITHOUT_CSS;

    fn needs(_parameters: &Self::Parameters) -> Signals {
        Signals {
            marks: true,
            mark_counts: true,
            ect1: true,
            pacing: true,
            ..Signals::NONE
        }
    }
}

impl Controller for Prague {
    fn hears_each_send(&self) -> bool {
        false
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.ca_state = ack.ca_state;
        self.in_flight = ack.in_flight;
        if ack.srtt > Duration::ZERO {
            self.srtt = ack.srtt;
        }
        let marked = ack.marked().min(ack.newly_acked);
        self.round_acked += ack.newly_acked;
        self.round_marked += marked;
        if marked > Bytes::ZERO {
            self.saw_ce = true;
            self.reduce(ack);
        }
        self.grow(ack, marked);
        self.adjust();
        self.end_round(ack);
    }

    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {
        self.ca_state = CaState::Recovery;
        self.halve();
    }

    fn on_recovery_exit(&mut self, _now: Instant) {
        self.ca_state = CaState::Open;
        self.in_loss = false;
    }

    /// One packet more than the data in flight, and slow start to half of the window.
    fn on_timeout(&mut self, _now: Instant, in_flight: Bytes) {
        if self.ca_state != CaState::Loss {
            if !self.in_loss {
                self.prior = Some((self.cwnd, self.carry, self.ssthresh));
            }
            self.ssthresh = (self.cwnd / 2).max(self.parameters.min_window);
        }
        self.ca_state = CaState::Loss;
        let out = in_flight.packets(u64::from(self.mss));
        self.cwnd = u32::try_from(out).unwrap_or(u32::MAX).saturating_add(1);
        self.carry = 0;
        // It grows again at once, in slow start.
        self.in_loss = false;
    }

    fn on_spurious(&mut self, _now: Instant, _delivered: Bytes) {
        if let Some((cwnd, carry, ssthresh)) = self.prior.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.carry = carry;
            self.ssthresh = ssthresh;
            self.in_loss = false;
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss.max(1);
    }

    fn cwnd(&self) -> Bytes {
        Bytes::new(u64::from(self.cwnd) * u64::from(self.mss))
    }

    /// The window per round trip; twice that in slow start, which sends two packets for each ACK.
    fn pacing_rate(&self) -> Option<Rate> {
        if self.srtt == Duration::ZERO {
            return None;
        }
        let rate = Rate::from_delivery(self.cwnd().max(self.in_flight), self.srtt);
        let doubles = self.cwnd < self.ssthresh / 2;
        Some(if doubles {
            rate * Gain::from_millionths(2 * Gain::SCALE)
        } else {
            rate
        })
    }

    fn send_quantum(&self) -> Bytes {
        let least = Bytes::new(u64::from(self.mss));
        match self.pacing_rate() {
            Some(rate) => rate
                .volume_in(self.parameters.burst)
                .min(Bytes::new(64 * 1024))
                .max(least),
            None => self.cwnd().max(least),
        }
    }

    fn ssthresh(&self) -> Option<Bytes> {
        Some(match self.ssthresh {
            u32::MAX => Bytes::INFINITE,
            packets => Bytes::new(u64::from(packets) * u64::from(self.mss)),
        })
    }

    /// It reduces the window itself, one packet per ACK.
    fn recovery_window(&self) -> RecoveryWindow {
        RecoveryWindow::Controller
    }

    fn ecn(&self) -> Ecn {
        Ecn::Ect1
    }

    fn phase(&self) -> &'static str {
        Phase::of(self.ca_state, self.in_slow_start()).word()
    }

    state! {
        fn visit_state(&self) -> Value {
            ssthresh: Bytes = self.ssthresh().unwrap_or(Bytes::INFINITE),
            alpha: Gain = millionths(self.upscaled_alpha >> self.parameters.g_shift),
            increase: Gain = millionths(self.increase()),
            rounds: Count = self.rounds.into(),
            saw_ce: Flag = self.saw_ce,
        }
    }
}

#[cfg(test)]
mod tests;
