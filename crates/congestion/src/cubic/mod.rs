//! CUBIC (RFC 9438), by default with HyStart++ (RFC 9406).
//!
//! The transport handles fast recovery (RFC 9937). A congestion event multiplies the window, not
//! the flight size; section 4.6 allows that to a sender that does not grow a window it does not
//! use.

mod curve;
mod parameters;

use paceline_units::{Bytes, Duration, Gain, Instant};

use crate::options::Choice as _;
use crate::state::state;
use crate::window::{Phase, Window, by_window};
use crate::{Ack, CaState, Config, Controller, Cue, Described, Signals, Value};
use curve::Curve;
pub use parameters::Parameters;

/// Fractional bits of the share of the window that an ACK acknowledges.
const SHARE: u32 = 40;
/// Fractional bits of `alpha_cubic` times the segment size.
const ALPHA: u32 = 16;

/// The variables of section 4.1.2 that an undo restores (4.9).
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// The window before the last reduction, up to which `w_est` grows by `alpha_cubic`; zero
    /// before the first reduction, because after a slow start without loss `alpha_cubic` is 1 at
    /// once.
    cwnd_prior: Bytes,
    /// The window of the plateau; zero if no loss has revealed it.
    w_max: Bytes,
    /// Time from the start of the epoch to `w_max`.
    k: Duration,
    /// The start of this stage of congestion avoidance, moved forward by the time in which the
    /// application was the limit; none until its first ACK.
    epoch_start: Option<Instant>,
    /// The window that Reno would have.
    w_est: Bytes,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    c: Gain,
    beta: Gain,
    fast_convergence: bool,
    curve: Curve,
    /// `alpha_cubic` times the segment size.
    alpha: u64,
    epoch: Epoch,
    /// The epoch before the recovery episode.
    undo: Option<Epoch>,
    /// Bytes of growth carried over, with [`SHARE`] fractional bits.
    cwnd_fraction: u64,
    /// The same for `w_est`, with [`SHARE`] + [`ALPHA`] fractional bits.
    w_est_fraction: u64,
    /// The last event of which the epoch's clock knows.
    last_event: Instant,
}

impl Cubic {
    /// Makes one.
    pub fn new(config: &Config, parameters: Parameters) -> Self {
        let window = Window::new(config, parameters);
        let mut cubic = Self {
            c: parameters.c,
            beta: parameters.beta,
            fast_convergence: parameters.fast_convergence,
            curve: Curve::new(parameters.c, window.mss()),
            alpha: 0,
            epoch: Epoch {
                cwnd_prior: Bytes::ZERO,
                w_max: Bytes::ZERO,
                k: Duration::ZERO,
                epoch_start: None,
                w_est: Bytes::ZERO,
            },
            undo: None,
            cwnd_fraction: 0,
            w_est_fraction: 0,
            last_event: config.now,
            window,
        };
        cubic.set_alpha();
        cubic
    }

    /// Section 4.3: `alpha_cubic = 3 (1 - beta) / (1 + beta)`.
    fn set_alpha(&mut self) {
        let (one, beta) = (u64::from(Gain::SCALE), u64::from(self.beta.millionths()));
        let numerator = u128::from(self.window.mss().get() << ALPHA) * u128::from(3 * (one - beta));
        self.alpha = (numerator / u128::from(one + beta)) as u64;
    }

    /// Sections 4.6 and 4.7, up to the new window.
    fn reduce(&mut self) {
        let cwnd = self.window.cwnd();
        let reduced = self.window.reduced();
        self.epoch.w_max = if self.fast_convergence && cwnd < self.epoch.w_max {
            // (1 + beta) / 2.
            Bytes::new(cwnd.get() / 2) + Bytes::new(reduced.get() / 2)
        } else {
            cwnd
        };
        self.epoch.cwnd_prior = cwnd;
        self.epoch.epoch_start = None;
        self.window.set_ssthresh(reduced);
    }

    /// The first ACK of a stage of congestion avoidance.
    fn begin_epoch(&mut self, now: Instant) {
        let cwnd = self.window.cwnd();
        let epoch = &mut self.epoch;
        epoch.epoch_start = Some(now);
        epoch.w_est = cwnd;
        if cwnd < epoch.w_max {
            epoch.k = self.curve.k(epoch.w_max, cwnd);
        } else {
            // After a timeout (4.8), after slow start without loss (4.10).
            epoch.k = Duration::ZERO;
            epoch.w_max = cwnd;
        }
        self.cwnd_fraction = 0;
        self.w_est_fraction = 0;
    }

    /// Section 4.2 to 4.5, with `t` the time since the start of the epoch.
    fn avoid_congestion(&mut self, acked: Bytes, t: Duration, srtt: Duration) {
        let cwnd = self.window.cwnd();
        // The only division: the share of the window that is acknowledged.
        let share = u128::from(share_of(acked, cwnd));
        let Epoch { k, w_max, .. } = self.epoch;

        // 4.3, equation 4.
        let alpha = if self.epoch.w_est < self.epoch.cwnd_prior {
            self.alpha
        } else {
            self.window.mss().get() << ALPHA
        };
        let growth = u128::from(alpha) * share + u128::from(self.w_est_fraction);
        self.epoch.w_est += Bytes::new((growth >> (SHARE + ALPHA)) as u64);
        self.w_est_fraction = (growth & ((1 << (SHARE + ALPHA)) - 1)) as u64;

        if self.curve.w_cubic(t, k, w_max) < self.epoch.w_est {
            // The Reno-friendly region.
            self.window.set_cwnd(cwnd.max(self.epoch.w_est));
            return;
        }
        // 4.4 and 4.5, the concave and the convex region: (target - cwnd) / cwnd
        // segments for each segment acknowledged.
        let most = cwnd + Bytes::new(cwnd.get() / 2);
        let target = self.curve.w_cubic(t + srtt, k, w_max).clamp(cwnd, most);
        let growth = u128::from((target - cwnd).get()) * share + u128::from(self.cwnd_fraction);
        self.window
            .set_cwnd(cwnd + Bytes::new((growth >> SHARE) as u64));
        self.cwnd_fraction = (growth & ((1 << SHARE) - 1)) as u64;
    }

    /// Moves the epoch forward by the time since the last event: it excludes the time in which the
    /// window was not updated (4.2, 5.8).
    fn hold_clock(&mut self, now: Instant) {
        let pause = now.since(self.last_event);
        if let Some(start) = &mut self.epoch.epoch_start {
            *start += pause;
        }
    }

    /// `t` at the last event.
    fn t(&self) -> Duration {
        self.epoch
            .epoch_start
            .map_or(Duration::ZERO, |start| self.last_event.since(start))
    }
}

/// `part / whole`, at most 1, with [`SHARE`] fractional bits.
fn share_of(part: Bytes, whole: Bytes) -> u64 {
    let (part, whole) = (part.get(), whole.get());
    if part >= whole {
        1 << SHARE
    } else if part < 1 << (64 - SHARE) {
        (part << SHARE) / whole
    } else {
        ((u128::from(part) << SHARE) / u128::from(whole)) as u64
    }
}

impl Described for Cubic {
    type Parameters = Parameters;
    const NAME: &'static str = "cubic";
    const SUMMARY: &'static str = "CUBIC with HyStart++";
    const SOURCE: &'static str = "RFC 9438, RFC 9406";
    const PHASES: &'static [&'static str] = Phase::WORDS;

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            marks: parameters.ecn,
            pacing: parameters.pacing,
            ..Signals::NONE
        }
    }
}

impl Controller for Cubic {
    fn hears_each_send(&self) -> bool {
        false
    }

    fn on_send(&mut self, sent: &crate::Sent) {
        // Nothing was in flight, so no ACK could show that the application paused.
        if sent.in_flight == Bytes::ZERO {
            self.hold_clock(sent.now);
            self.last_event = sent.now;
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let held = self.window.is_held();
        if self.window.begin_ack(ack) {
            // 4.6: after an ECN signal the window may fall to one segment, where a threshold of two
            // leaves room for slow start.
            let reduced = self.window.reduced();
            self.reduce();
            self.window.set_cwnd(reduced);
        } else {
            let acked = self.window.slow_start(ack);
            if !ack.cwnd_limited || held {
                self.hold_clock(ack.now);
            } else if acked > Bytes::ZERO && Window::may_grow(ack) {
                if self.epoch.epoch_start.is_none() {
                    self.begin_epoch(ack.now);
                }
                let start = self.epoch.epoch_start.unwrap_or(ack.now);
                self.avoid_congestion(acked, ack.now.since(start), ack.srtt);
            }
        }
        self.last_event = ack.now;
        self.window.end_ack(ack);
    }

    fn follow(&mut self, cue: Cue) {
        if let Cue::SlowStartEnd(window) = cue {
            self.window.end_slow_start(window);
            self.epoch.epoch_start = None;
        }
    }

    /// Growth up to the threshold is slow start, and after it a new stage of congestion avoidance
    /// begins (4.2).
    fn on_idle_restart(&mut self, _now: Instant) {
        if self.window.restart() {
            self.epoch.epoch_start = None;
        }
    }

    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {
        let before = self.epoch;
        if self.window.begin_episode(CaState::Recovery) {
            self.undo = Some(before);
        }
        self.reduce();
        self.window.set_cwnd(self.window.ssthresh());
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: Bytes) {
        let first = self.window.first_timeout();
        let before = self.epoch;
        if self.window.begin_episode(CaState::Loss) {
            self.undo = Some(before);
        }
        if first {
            self.reduce();
        }
        // 4.8: in the next stage K is 0, and W_max is the window at its beginning.
        self.epoch.w_max = Bytes::ZERO;
        self.epoch.epoch_start = None;
        self.window.collapse();
    }

    fn on_spurious(&mut self, _now: Instant, _delivered: Bytes) {
        let before = self.undo.take();
        if self.window.undo()
            && let Some(before) = before
        {
            self.epoch = before;
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.window.set_mss(mss);
        self.curve = Curve::new(self.c, self.window.mss());
        self.set_alpha();
    }

    by_window!();

    state! {
        fn visit_state(&self) -> Value {
            window: of(Window) = |visit| self.window.visit_state(visit),
            cwnd_prior: Bytes = self.epoch.cwnd_prior,
            w_max: Bytes = self.epoch.w_max,
            k: Duration = self.epoch.k,
            t: Duration = self.t(),
            w_est: Bytes = self.epoch.w_est,
        }
    }
}
