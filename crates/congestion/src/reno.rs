//! Reno: slow start and congestion avoidance (RFC 5681) with appropriate byte counting (RFC 3465).
//! The transport handles fast recovery (RFC 9937), and its configuration gives the initial window
//! (RFC 6928).
//!
//! Two options go beyond that: HyStart++ (RFC 9406) and pacing with Linux's ratios. As in Linux, a
//! congestion event multiplies the window, not the flight size, and the window grows only while it
//! is in use. Half of it is rounded to whole segments, as in Linux: half a segment more could not
//! be sent, and would have to be acknowledged before the window grows.
//!
//! [`linux::reno`](crate::linux::reno) is the same with Linux's settings.

use core::marker::PhantomData;

use paceline_units::{Bytes, Gain, Instant};

use crate::options::Choice as _;
use crate::state::state;
use crate::window::{Phase, Settings, Window, by_window, window_parameters};
use crate::{Ack, CaState, Config, Controller, Cue, Described, Signals, Value};

window_parameters! {
    Gain::from_millionths(500_000), " (RFC 5681 3.1)";
    " (RFC 5681 3.1: arbitrarily high)";
    hystart = false;
}

/// The controller, with the RFCs' parameters or Linux's.
#[derive(Clone, Debug)]
pub struct Reno<P = Parameters> {
    window: Window,
    /// Data acknowledged towards the next segment (RFC 3465 section 2.1).
    bytes_acked: Bytes,
    parameters: PhantomData<P>,
}

impl<P: Into<Settings>> Reno<P> {
    /// Makes one.
    pub fn new(config: &Config, parameters: P) -> Self {
        Self {
            window: Window::new(config, parameters),
            bytes_acked: Bytes::ZERO,
            parameters: PhantomData,
        }
    }
}

impl<P> Reno<P> {
    /// RFC 5681 (4), in whole segments. Returns it without its floor of two.
    fn reduce(&mut self) -> Bytes {
        let (half, mss) = (self.window.reduced().get(), self.window.mss().get());
        let reduced = Bytes::new(half - half % mss);
        self.window.set_ssthresh(reduced);
        self.bytes_acked = Bytes::ZERO;
        reduced
    }
}

impl Described for Reno {
    type Parameters = Parameters;
    const NAME: &'static str = "reno";
    const SUMMARY: &'static str = "NewReno's window with appropriate byte counting";
    const SOURCE: &'static str = "RFC 5681, RFC 3465";
    const PHASES: &'static [&'static str] = Phase::WORDS;

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            marks: parameters.ecn,
            pacing: parameters.pacing,
            ..Signals::NONE
        }
    }
}

impl<P> Controller for Reno<P> {
    fn hears_each_send(&self) -> bool {
        false
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        if self.window.begin_ack(ack) {
            // As after a loss, except for the floor: a window of two segments may halve.
            let reduced = self.reduce();
            self.window.set_cwnd(reduced);
        } else {
            let acked = self.window.slow_start(ack);
            if acked > Bytes::ZERO && Window::may_grow(ack) {
                self.window.avoid_congestion(&mut self.bytes_acked, acked);
            }
        }
        self.window.end_ack(ack);
    }

    fn follow(&mut self, cue: Cue) {
        if let Cue::SlowStartEnd(window) = cue {
            self.window.end_slow_start(window);
        }
    }

    fn on_idle_restart(&mut self, _now: Instant) {
        if self.window.restart() && !self.window.keeps_growth() {
            self.bytes_acked = Bytes::ZERO;
        }
    }

    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {
        self.window.begin_episode(CaState::Recovery);
        self.reduce();
        self.window.set_cwnd(self.window.ssthresh());
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: Bytes) {
        let first = self.window.first_timeout();
        self.window.begin_episode(CaState::Loss);
        if first {
            self.reduce();
        }
        self.window.collapse();
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
            bytes_acked: Bytes = self.bytes_acked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_for_marks_and_pacing_if_it_uses_them() {
        for (ecn, pacing) in [(false, true), (true, false)] {
            let parameters = Parameters {
                ecn,
                pacing,
                ..Parameters::default()
            };
            let needs = <Reno>::needs(&parameters);
            assert_eq!((needs.marks, needs.pacing), (ecn, pacing));
        }
    }
}
