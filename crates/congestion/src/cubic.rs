//! Cubic (placeholder: replaced by the real one).
use crate::options::OptionSpec;
use crate::{Ack, Config, Controller, Value};
use paceline_units::{Bytes, Instant};
/// Options.
#[derive(Clone, Debug, Default)]
pub struct Parameters {}
impl crate::options::Parameters for Parameters {
    const OPTIONS: &'static [OptionSpec<Self>] = &[];
}
/// The controller.
#[derive(Clone, Debug)]
pub struct Cubic {
    cwnd: Bytes,
}
impl Cubic {
    /// Makes one.
    pub fn new(config: &Config, _parameters: Parameters) -> Self {
        Self {
            cwnd: config.initial_window,
        }
    }
}
impl Controller for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }
    fn on_ack(&mut self, _ack: &Ack) {}
    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {}
    fn on_timeout(&mut self, _now: Instant, _in_flight: Bytes) {}
    fn cwnd(&self) -> Bytes {
        self.cwnd
    }
    fn send_quantum(&self) -> Bytes {
        Bytes::new(14480)
    }
    fn phase(&self) -> &'static str {
        "Stub"
    }
    fn visit_state(&self, _visit: &mut dyn FnMut(&'static str, Value)) {}
}
