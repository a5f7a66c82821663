//! The AIMD of examples/controller-c in Rust: `cargo build --release` here, then
//! `paceline run FILE --controller mine=target/release/libaimd.so`.

use paceline_congestion::{Ack, CaState, Config, Controller, Described};
use paceline_units::{Bytes, Instant};

paceline_units::parameters! {
    /// What a scenario may set.
    pub struct Parameters {
        /// Share of the window that is kept after a loss, in per cent.
        beta_percent: Count(1, 99) = 50;
    }
}

#[derive(Clone, Copy)]
pub struct Aimd {
    window: u64,
    threshold: u64,
    acked: u64,
    mss: u64,
    beta: u64,
}

impl Described for Aimd {
    type Parameters = Parameters;
    const NAME: &'static str = "aimd";
    const SUMMARY: &'static str = "Additive increase, multiplicative decrease";
    const SOURCE: &'static str = "RFC 5681 section 3.1, without its refinements";
    const PHASES: &'static [&'static str] = &["Aimd"];
}

impl paceline_capi::Own for Aimd {
    fn new(config: &Config, parameters: Parameters) -> Self {
        Self {
            window: config.initial_window.get(),
            threshold: u64::MAX,
            acked: 0,
            mss: config.mss.into(),
            beta: parameters.beta_percent.into(),
        }
    }
}

impl Controller for Aimd {
    fn on_ack(&mut self, ack: &Ack) {
        let grows = ack.cwnd_limited && ack.ca_state != CaState::Recovery;
        if grows && self.window < self.threshold {
            self.window += ack.newly_acked.get();
        } else if grows {
            self.acked += ack.newly_acked.get();
            if self.acked >= self.window {
                self.acked -= self.window;
                self.window += self.mss;
            }
        }
    }

    fn on_recovery_enter(&mut self, _: Instant, _: Bytes) {
        self.threshold = (self.window * self.beta / 100).max(2 * self.mss);
        self.window = self.threshold;
        self.acked = 0;
    }

    fn on_timeout(&mut self, now: Instant, in_flight: Bytes) {
        self.on_recovery_enter(now, in_flight);
    }

    fn cwnd(&self) -> Bytes {
        Bytes::new(self.window)
    }
    fn send_quantum(&self) -> Bytes {
        Bytes::new(2 * self.mss)
    }
    fn phase(&self) -> &'static str {
        "Aimd"
    }
}

paceline_capi::export!(Aimd);
