//! Data Center TCP (RFC 8257): Reno whose answer to congestion marks is in
//! proportion to the part of the data that is marked.

use paceline_units::{Bytes, Gain, Instant, Rate};

use crate::options::{OptionSpec, choice, option};
use crate::window::{Settings, Window};
use crate::{Ack, CaState, Config, Controller, Ecn, Value};

choice! {
    /// What a reduction is in proportion to.
    Response {
        /// The moving average of the fraction marked, at the first mark of a window (RFC 8257 section 3.3).
        Average = "average",
        /// The fraction marked in the round that ends, with no memory (as Google's GCN).
        Instant = "instant",
    }
}

/// What a scenario may set.
#[derive(Clone, Debug)]
pub struct Parameters {
    settings: Settings,
    g: Gain,
    initial_alpha: Gain,
    response: Response,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            settings: Settings {
                beta: Gain::from_millionths(500_000),
                abc_limit: 2,
                initial_ssthresh: Bytes::INFINITE,
                hystart: false,
                pacing: false,
                ecn: true,
            },
            g: Gain::from_millionths(62_500),
            initial_alpha: Gain::ONE,
            response: Response::Average,
        }
    }
}

impl crate::options::Parameters for Parameters {
    const OPTIONS: &'static [OptionSpec<Self>] = &[
        option!(
            g,
            p.g,
            Gain(1, 1000),
            "Weight of the newest window in alpha (RFC 8257 4.2: 1/16)"
        ),
        option!(
            initial_alpha,
            p.initial_alpha,
            Gain(0, 1000),
            "Alpha at the start (RFC 8257 3.3)"
        ),
        option!(
            response,
            p.response,
            Choice(Response),
            "Reduce by half of alpha at a window's first mark, or by half of the fraction marked when a round ends"
        ),
        option!(
            beta,
            p.settings.beta,
            Gain(100, 990),
            "What is left of the window after a loss (RFC 8257 3.4)"
        ),
        option!(
            abc_limit,
            p.settings.abc_limit,
            Count(1, 1_000_000),
            "L: segments that one ACK may add in slow start (RFC 3465 2.2)"
        ),
        option!(
            initial_ssthresh,
            p.settings.initial_ssthresh,
            AnyBytes,
            "Slow-start threshold at the start"
        ),
        option!(
            pacing,
            p.settings.pacing,
            Flag,
            "Pace at 2 cwnd/srtt below half of ssthresh, at 1.2 cwnd/srtt above (Linux)"
        ),
    ];
}

/// Units of a fraction, fine enough that its average loses nothing that matters.
const ONE: u64 = 1_000_000_000;

/// `part / whole` in units of [`ONE`], at most one.
fn fraction(part: Bytes, whole: Bytes) -> u64 {
    let scaled = u128::from(part.get()) * u128::from(ONE);
    match scaled.checked_div(u128::from(whole.get())) {
        Some(fraction) => u64::try_from(fraction).unwrap_or(ONE).min(ONE),
        None => 0,
    }
}

/// A fraction for reading.
fn shown(fraction: u64) -> Value {
    let millionths = fraction / (ONE / u64::from(Gain::SCALE));
    Value::Gain(Gain::from_millionths(
        u32::try_from(millionths).unwrap_or(Gain::SCALE),
    ))
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Dctcp {
    window: Window,
    g: Gain,
    response: Response,
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
            window: Window::new(config, parameters.settings),
            g: parameters.g,
            response: parameters.response,
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
        // With exact counts they hold; a bare echo speaks of all that it acknowledges.
        self.bytes_marked += if ack.newly_marked > Bytes::ZERO {
            ack.newly_marked
        } else if ack.ece {
            ack.newly_acked
        } else {
            Bytes::ZERO
        };
        let resolved = ack.delivered + ack.lost;
        if resolved <= self.window_end {
            return false;
        }
        self.fraction = fraction(self.bytes_marked, self.bytes_acked);
        self.alpha = (self.alpha - self.g.scale(self.alpha) + self.g.scale(self.fraction)).min(ONE);
        self.window_end = resolved + ack.in_flight;
        self.bytes_acked = Bytes::ZERO;
        self.bytes_marked = Bytes::ZERO;
        true
    }

    /// `cwnd * (1 - fraction / 2)` (RFC 8257 section 3.3, step 9).
    fn reduce(&mut self, fraction: u64) {
        let cwnd = self.window.cwnd();
        let cut = u128::from(cwnd.get()) * u128::from(fraction) / u128::from(2 * ONE);
        let reduced = cwnd - Bytes::new(u64::try_from(cut).unwrap_or(u64::MAX));
        self.window.set_ssthresh(reduced);
        self.window.set_cwnd(reduced);
        self.growth = Bytes::ZERO;
    }

    /// As Reno: one segment for each window acknowledged.
    fn avoid_congestion(&mut self, acked: Bytes) {
        let cwnd = self.window.cwnd();
        self.growth = (self.growth + acked).min(cwnd * 2);
        if self.growth >= cwnd {
            self.growth -= cwnd;
            self.window.set_cwnd(cwnd + self.window.mss());
        }
    }
}

impl Controller for Dctcp {
    fn name(&self) -> &'static str {
        "dctcp"
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
                self.avoid_congestion(acked);
            }
        }
        self.window.end_ack(ack);
    }

    /// A loss is answered as by Reno (RFC 8257 section 3.4).
    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {
        self.window.begin_episode(CaState::Recovery);
        self.window.set_ssthresh(self.window.reduced());
        self.window.set_cwnd(self.window.ssthresh());
        self.growth = Bytes::ZERO;
    }

    fn on_recovery_exit(&mut self, _now: Instant) {
        self.window.end_episode();
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: Bytes) {
        self.window.begin_episode(CaState::Loss);
        if self.window.first_timeout() {
            self.window.set_ssthresh(self.window.reduced());
        }
        self.window.collapse();
        self.growth = Bytes::ZERO;
    }

    fn on_spurious(&mut self, _now: Instant) {
        self.window.undo();
    }

    fn on_mss(&mut self, mss: u32) {
        self.window.set_mss(mss);
    }

    fn cwnd(&self) -> Bytes {
        self.window.cwnd()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.window.pacing_rate()
    }

    fn send_quantum(&self) -> Bytes {
        self.window.send_quantum()
    }

    fn ssthresh(&self) -> Option<Bytes> {
        Some(self.window.ssthresh())
    }

    fn ecn(&self) -> Ecn {
        self.window.ecn()
    }

    fn phase(&self) -> &'static str {
        self.window.phase()
    }

    fn visit_state(&self, visit: &mut dyn FnMut(&'static str, Value)) {
        self.window.visit_state(visit);
        visit("alpha", shown(self.alpha));
        visit("marked_fraction", shown(self.fraction));
    }
}

#[cfg(test)]
mod tests;
