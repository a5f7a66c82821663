//! Reno: slow start and congestion avoidance (RFC 5681) with appropriate byte
//! counting (RFC 3465). The transport keeps fast recovery (RFC 9937), the
//! initial window comes from its configuration (RFC 6928).
//!
//! Two options go beyond: HyStart++ (RFC 9406) and pacing with Linux's ratios.
//! The window, not the flight size, is what a congestion event multiplies, as
//! in Linux; it grows only while it is in use. Half of it is taken in whole segments, as Linux counts:
//! half a segment more could not be sent, and would have to be acknowledged before the window grows.

use paceline_units::{Bytes, Gain, Instant, Rate};

use crate::options::{OptionSpec, option};
use crate::window::{Settings, Window};
use crate::{Ack, CaState, Config, Controller, Ecn, Value};

/// What a scenario may set; see [`OPTIONS`](crate::options::Parameters::OPTIONS).
#[derive(Clone, Debug)]
pub struct Parameters {
    settings: Settings,
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
                ecn: false,
            },
        }
    }
}

impl crate::options::Parameters for Parameters {
    const OPTIONS: &'static [OptionSpec<Self>] = &[
        option!(
            beta,
            p.settings.beta,
            Gain(100, 990),
            "What is left of the window after a congestion event (RFC 5681 3.1)"
        ),
        option!(
            abc_limit,
            p.settings.abc_limit,
            Count(1, 1_000_000),
            "L: segments that one ACK may add in slow start without HyStart++ (RFC 3465 2.2)"
        ),
        option!(
            initial_ssthresh,
            p.settings.initial_ssthresh,
            AnyBytes,
            "Slow-start threshold at the start (RFC 5681 3.1: arbitrarily high)"
        ),
        option!(
            hystart,
            p.settings.hystart,
            Flag,
            "HyStart++ in the initial slow start (RFC 9406)"
        ),
        option!(
            pacing,
            p.settings.pacing,
            Flag,
            "Pace at 2 cwnd/srtt below half of ssthresh, at 1.2 cwnd/srtt above (Linux)"
        ),
        option!(
            ecn,
            p.settings.ecn,
            Flag,
            "Send ECT(0) and reduce once a round on an echoed mark (RFC 3168 6.1.2)"
        ),
    ];
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Reno {
    window: Window,
    /// Data acknowledged towards the next segment (RFC 3465 section 2.1).
    bytes_acked: Bytes,
}

impl Reno {
    /// Makes one.
    pub fn new(config: &Config, parameters: Parameters) -> Self {
        Self {
            window: Window::new(config, parameters.settings),
            bytes_acked: Bytes::ZERO,
        }
    }

    /// RFC 5681 (4), in whole segments. Returns it without its floor of two.
    fn reduce(&mut self) -> Bytes {
        let (half, mss) = (self.window.reduced().get(), self.window.mss().get());
        let reduced = Bytes::new(half - half % mss);
        self.window.set_ssthresh(reduced);
        self.bytes_acked = Bytes::ZERO;
        reduced
    }

    /// RFC 3465 section 2.1: one segment for each window acknowledged.
    fn avoid_congestion(&mut self, acked: Bytes) {
        let cwnd = self.window.cwnd();
        self.bytes_acked = (self.bytes_acked + acked).min(cwnd * 2);
        if self.bytes_acked >= cwnd {
            self.bytes_acked -= cwnd;
            self.window.set_cwnd(cwnd + self.window.mss());
        }
    }
}

impl Controller for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.window.begin_ack(ack) {
            // As after a loss, but for the floor: a window of two segments may halve.
            let reduced = self.reduce();
            self.window.set_cwnd(reduced);
        } else {
            let acked = self.window.slow_start(ack);
            if acked > Bytes::ZERO && Window::may_grow(ack) {
                self.avoid_congestion(acked);
            }
        }
        self.window.end_ack(ack);
    }

    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {
        self.window.begin_episode(CaState::Recovery);
        self.reduce();
        self.window.set_cwnd(self.window.ssthresh());
    }

    fn on_recovery_exit(&mut self, _now: Instant) {
        self.window.end_episode();
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: Bytes) {
        self.window.begin_episode(CaState::Loss);
        if self.window.first_timeout() {
            self.reduce();
        }
        self.window.collapse();
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
        visit("bytes_acked", Value::Bytes(self.bytes_acked));
    }
}
