//! Data Center TCP (RFC 8257): Reno with a response to congestion marks in proportion to the
//! fraction of marked data.

use paceline_units::{Bytes, Gain, Instant, parameters};

use crate::options::choice;
use crate::slowdown::SharedSlowdown;
use crate::state::state;
use crate::window::{AfterIdle, Phase, Settings, Window, by_window};
use crate::{Ack, CaState, Config, Controller, Described, Signals, Value};

choice! {
    /// The quantity that determines the size of a reduction.
    pub enum Response {
        /// The moving average of the fraction marked, at the first mark of a window (RFC 8257 section 3.3).
        Average = "average" default,
        /// The marked fraction of the round that ends, without memory (as in Google's GCN).
        Instant = "instant",
    }
}

parameters! {
    /// The options that a scenario may set.
    pub struct Parameters {
        /// Weight of the newest window in alpha (RFC 8257 4.2: 1/16)
        g: Gain(1, 1000) = Gain::from_millionths(62_500);
        /// Alpha at the start (RFC 8257 3.3)
        initial_alpha: Gain(0, 1000) = Gain::ONE;
        /// Reduce by half of alpha at a window's first mark, or by half of the fraction marked when a round ends
        response: Choice(Response) = Response::Average;
        /// Alpha in 1024ths, both of its terms rounded down, and reductions for marks of whole segments;
        /// those for losses are not rounded (Linux)
        linux_rounding: Flag = false;
        /// The fraction of the window kept after a loss (RFC 8257 3.4)
        beta: Gain(100, 990) = Gain::from_millionths(500_000);
        /// L: segments that one ACK may add in slow start (RFC 3465 2.2); 1000000: no limit, after a
        /// timeout neither (Linux)
        abc_limit: Count(1, 1_000_000) = 2;
        /// Slow-start threshold at the start
        initial_ssthresh: AnyBytes = Bytes::INFINITE;
        /// Pace at 2 cwnd/srtt below half of ssthresh, at 1.2 cwnd/srtt above (Linux)
        pacing: Flag = false;
        /// After nothing was sent for an RTO: restart with the initial window (RFC 5681 4.1), keep
        /// the window, or halve it for each RTO and keep the data counted towards the next segment
        /// (Linux)
        after_idle: Choice(AfterIdle) = AfterIdle::Restart;
    }
}

impl From<Parameters> for Settings {
    fn from(p: Parameters) -> Self {
        Self {
            beta: p.beta,
            abc_limit: p.abc_limit,
            initial_ssthresh: p.initial_ssthresh,
            hystart: false,
            pacing: p.pacing,
            ecn: true,
            after_idle: p.after_idle,
            slowdown: SharedSlowdown::Never,
        }
    }
}

/// Units of a fraction, fine enough for its average.
const ONE: u64 = 1_000_000_000;

/// The kernel's unit of alpha.
const KERNEL_ONE: u64 = 1024;

/// A fraction of [`ONE`] in 1024ths, rounded down.
fn in_1024ths(fraction: u64) -> u64 {
    fraction.min(ONE) * KERNEL_ONE / ONE
}

/// `part / whole` in units of [`ONE`], at most one.
fn fraction(part: Bytes, whole: Bytes) -> u64 {
    let scaled = u128::from(part.get()) * u128::from(ONE);
    match scaled.checked_div(u128::from(whole.get())) {
        Some(fraction) => u64::try_from(fraction).unwrap_or(ONE).min(ONE),
        None => 0,
    }
}

/// A fraction for display.
fn shown(fraction: u64) -> Gain {
    let millionths = fraction / (ONE / u64::from(Gain::SCALE));
    Gain::from_millionths(u32::try_from(millionths).unwrap_or(Gain::SCALE))
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Dctcp {
    window: Window,
    g: Gain,
    response: Response,
    linux_rounding: bool,
    /// `DCTCP.Alpha`.
    alpha: u64,
    /// `DCTCP.BytesAcked`, `DCTCP.BytesMarked` and their ratio in the last window.
    bytes_acked: Bytes,
    bytes_marked: Bytes,
    fraction: u64,
    /// `DCTCP.WindowEnd`, in data delivered or lost.
    window_end: Bytes,
    /// Data acknowledged towards the next segment (RFC 3465 section 2.1).
    growth: Bytes,
}

impl Dctcp {
    /// Makes one.
    pub fn new(config: &Config, parameters: Parameters) -> Self {
        Self {
            window: Window::new(config, parameters),
            g: parameters.g,
            response: parameters.response,
            linux_rounding: parameters.linux_rounding,
            alpha: parameters.initial_alpha.scale(ONE).min(ONE),
            bytes_acked: Bytes::ZERO,
            bytes_marked: Bytes::ZERO,
            fraction: 0,
            window_end: Bytes::ZERO,
            growth: Bytes::ZERO,
        }
    }

    /// RFC 8257 section 3.3, steps 1 to 8. True when a window ends.
    fn count(&mut self, ack: &Ack) -> bool {
        self.bytes_acked += ack.newly_acked;
        self.bytes_marked += ack.marked();
        let resolved = ack.resolved();
        if resolved <= self.window_end {
            return false;
        }
        self.fraction = fraction(self.bytes_marked, self.bytes_acked);
        self.alpha = match self.linux_rounding {
            false => (self.alpha - self.g.scale(self.alpha) + self.g.scale(self.fraction)).min(ONE),
            true => self.alpha_as_linux(),
        };
        self.window_end = resolved + ack.in_flight;
        self.bytes_acked = Bytes::ZERO;
        self.bytes_marked = Bytes::ZERO;
        true
    }

    /// `dctcp_update_alpha`, which counts in 1024ths: a small alpha goes to zero at once.
    fn alpha_as_linux(&self) -> u64 {
        let alpha = in_1024ths(self.alpha);
        let forgotten = match self.g.scale(alpha) {
            0 => alpha,
            part => part,
        };
        let new = u128::from(self.bytes_marked.get()) * u128::from(self.g.scale(KERNEL_ONE));
        let new = new.checked_div(u128::from(self.bytes_acked.get()));
        let new = u64::try_from(new.unwrap_or(0)).unwrap_or(KERNEL_ONE);
        ((alpha - forgotten + new).min(KERNEL_ONE) * ONE).div_ceil(KERNEL_ONE)
    }

    /// `cwnd * (1 - fraction / 2)` (RFC 8257 section 3.3, step 9).
    fn reduce(&mut self, fraction: u64) {
        let cwnd = self.window.cwnd();
        if self.linux_rounding {
            let mss = self.window.mss();
            let segments = cwnd.get() / mss.get();
            let cut = segments * in_1024ths(fraction) / (2 * KERNEL_ONE);
            let reduced = mss * (segments - cut).max(2);
            self.window.set_ssthresh(reduced);
            self.window.set_cwnd(reduced.min(cwnd));
            self.growth = Bytes::ZERO;
            return;
        }
        let cut = u128::from(cwnd.get()) * u128::from(fraction) / u128::from(2 * ONE);
        let reduced = cwnd - Bytes::new(u64::try_from(cut).unwrap_or(u64::MAX));
        self.window.set_ssthresh(reduced);
        self.window.set_cwnd(reduced);
        self.growth = Bytes::ZERO;
    }
}

impl Described for Dctcp {
    type Parameters = Parameters;
    const NAME: &'static str = "dctcp";
    const SUMMARY: &'static str =
        "Reno's window, reduced in proportion to the part of the data that is marked";
    const SOURCE: &'static str = "RFC 8257";
    const PHASES: &'static [&'static str] = Phase::WITHOUT_CSS;

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            marks: true,
            mark_counts: true,
            pacing: parameters.pacing,
            ..Signals::NONE
        }
    }
}

impl Controller for Dctcp {
    fn hears_each_send(&self) -> bool {
        false
    }

    fn on_ack(&mut self, ack: &Ack) {
        let round_ended = self.count(ack);
        let signal = self.window.begin_ack(ack);
        let in_loss = matches!(ack.ca_state, CaState::Recovery | CaState::Loss);
        let cut = match self.response {
            Response::Average if signal => Some(self.alpha),
            Response::Instant if round_ended && self.fraction > 0 && !in_loss => {
                Some(self.fraction)
            }
            _ => None,
        };
        if let Some(fraction) = cut {
            self.reduce(fraction);
        } else {
            let acked = self.window.slow_start(ack);
            if acked > Bytes::ZERO && Window::may_grow(ack) {
                self.window.avoid_congestion(&mut self.growth, acked);
            }
        }
        self.window.end_ack(ack);
    }

    fn on_idle_restart(&mut self, _now: Instant) {
        if self.window.restart() && !self.window.keeps_growth() {
            self.growth = Bytes::ZERO;
        }
    }

    /// The response to a loss is Reno's (RFC 8257 section 3.4).
    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {
        self.window.begin_episode(CaState::Recovery);
        self.window.set_ssthresh(self.window.reduced());
        self.window.set_cwnd(self.window.ssthresh());
        self.growth = Bytes::ZERO;
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: Bytes) {
        let first = self.window.first_timeout();
        self.window.begin_episode(CaState::Loss);
        if first {
            self.window.set_ssthresh(self.window.reduced());
        }
        self.window.collapse();
        self.growth = Bytes::ZERO;
    }

    fn on_spurious(&mut self, _now: Instant, _delivered: Bytes) {
        self.window.undo();
    }

    fn on_mss(&mut self, mss: u32) {
        self.window.set_mss(mss);
    }

    by_window!();

    state! {
        fn visit_state(&self) -> Value {
            window: of(Window) = |visit| self.window.visit_state(visit),
            alpha: Gain = shown(self.alpha),
            marked_fraction: Gain = shown(self.fraction),
        }
    }
}

#[cfg(test)]
mod tests;
