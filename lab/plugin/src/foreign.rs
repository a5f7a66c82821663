//! Adapts a library's controller to our controller interface.

use std::ffi::c_char;
use std::fmt;
use std::sync::Arc;

use paceline_capi::ecn;
use paceline_capi::types::*;
use paceline_congestion::{
    Ack, Config, Controller, Ecn, Field, Lost, Quantity, RecoveryWindow, Sent, Signals, Value,
    Visitor,
};
use paceline_units::{Bytes, Duration, Gain, Instant, Rate};

use crate::open::initialise;
use crate::state::State;
use crate::{PluginError, Spec};

/// The name of a phase that the controller's table does not have.
const UNDECLARED: &str = "undeclared";

/// A controller of a library.
#[derive(Clone)]
pub struct Foreign {
    spec: Arc<Spec>,
    state: State,
    /// Its decision after the last event.
    outputs: paceline_outputs,
    /// Called with decisions that make no sense.
    report: Option<Arc<Report>>,
}

type Report = dyn Fn(String) + Send + Sync;

/// The largest plausible window.
const MOST_WINDOW: u64 = paceline_units::limits::MAX_QUEUE_BYTES;

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign")
            .field("name", &self.spec.name)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

impl Foreign {
    /// A new instance, with options as in a scenario: `("startup_pacing_gain", "2.89")`.
    ///
    /// # Errors
    /// If the controller refuses the configuration or an option, or needs a signal that is not
    /// available.
    pub fn build(
        spec: &Arc<Spec>,
        config: &Config,
        signals: Signals,
        options: &[(&str, &str)],
    ) -> Result<Self, PluginError> {
        let state = State::new(spec.layout);
        initialise(spec.name, options, |options, message| {
            let init = spec.table.init?;
            // SAFETY: the state has the size and alignment that the table asks for; everything else
            // lives until the call has returned.
            Some(unsafe {
                init(
                    &raw const spec.table,
                    state.place(),
                    &paceline_config::of(config, signals),
                    options.as_ptr(),
                    options.len(),
                    message.as_mut_ptr().cast::<c_char>(),
                    message.len(),
                )
            })
        })?;
        let mut foreign = Self {
            spec: Arc::clone(spec),
            state,
            outputs: paceline_outputs::default(),
            report: None,
        };
        foreign.decide();
        Ok(foreign)
    }

    /// The same, with `report` called for senseless windows, the current one included.
    #[must_use]
    pub fn reporting(mut self, report: impl Fn(String) + Send + Sync + 'static) -> Self {
        self.report = Some(Arc::new(report));
        self.decide();
        self
    }

    /// Asks for its current decision.
    fn decide(&mut self) {
        if let Some(outputs) = self.spec.table.outputs {
            // SAFETY: `init` made the state; there is room for the outputs, for which any numbers
            // are valid.
            unsafe { outputs(self.state.place(), &raw mut self.outputs) };
        }
        if let Some(report) = &self.report
            && self.outputs.cwnd_bytes > MOST_WINDOW
        {
            let window = self.outputs.cwnd_bytes;
            report(format!(
                "has set cwnd_bytes to {window}: the most is {MOST_WINDOW}"
            ));
        }
    }
}

/// Passes an event to the library, and then reads its decisions if it handles the event and `decides` holds.
macro_rules! notify {
    ($foreign:ident.$event:ident($($argument:expr),*) $(if $decides:expr)?) => {
        if let Some(event) = $foreign.spec.table.$event {
            // SAFETY: `init` made the state, nobody else uses it, and the pointers stay valid until
            // the call has returned.
            unsafe { event($foreign.state.place(), $($argument),*) };
            if true $(&& $decides)? {
                $foreign.decide();
            }
        }
    };
}

impl Controller for Foreign {
    fn on_send(&mut self, sent: &Sent) {
        // By the contract nothing else changes.
        notify!(self.on_send(&sent.into()) if sent.in_flight == Bytes::ZERO);
    }

    fn on_idle_restart(&mut self, now: Instant) {
        notify!(self.on_idle_restart(now.as_nanos()));
    }

    fn on_loss(&mut self, loss: &Lost) {
        notify!(self.on_loss(&loss.into()));
    }

    fn on_ack(&mut self, ack: &Ack) {
        notify!(self.on_ack(&ack.into()));
    }

    fn on_recovery_enter(&mut self, now: Instant, in_flight: Bytes) {
        notify!(self.on_recovery_enter(now.as_nanos(), in_flight.get()));
    }

    fn on_recovery_exit(&mut self, now: Instant) {
        notify!(self.on_recovery_exit(now.as_nanos()));
    }

    fn on_timeout(&mut self, now: Instant, in_flight: Bytes) {
        notify!(self.on_timeout(now.as_nanos(), in_flight.get()));
    }

    fn on_spurious(&mut self, now: Instant, delivered: Bytes) {
        notify!(self.on_spurious(now.as_nanos(), delivered.get()));
    }

    fn on_mss(&mut self, mss: u32) {
        notify!(self.on_mss(mss));
    }

    fn cwnd(&self) -> Bytes {
        Bytes::new(self.outputs.cwnd_bytes)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rate = self.outputs.pacing_rate_bps;
        (rate != PACELINE_NONE).then(|| Rate::from_bps(rate))
    }

    fn send_quantum(&self) -> Bytes {
        Bytes::new(self.outputs.send_quantum_bytes)
    }

    fn ssthresh(&self) -> Option<Bytes> {
        (self.outputs.has_ssthresh != 0).then(|| Bytes::new(self.outputs.ssthresh_bytes))
    }

    fn recovery_window(&self) -> RecoveryWindow {
        match self.outputs.uses_prr {
            0 => RecoveryWindow::Controller,
            _ => RecoveryWindow::Prr,
        }
    }

    fn marks_app_limited(&self) -> bool {
        self.outputs.marks_app_limited != 0
    }

    fn pacer_below(&self) -> bool {
        self.outputs.pacer_below != 0
    }

    fn ecn(&self) -> Ecn {
        ecn(self.outputs.ecn)
    }

    fn phase(&self) -> &'static str {
        let mut name = paceline_string::EMPTY;
        if let Some(phase) = self.spec.table.phase {
            // SAFETY: `init` made the state, and there is room for the name.
            unsafe { phase(self.state.place(), &raw mut name) };
        }
        // SAFETY: a name lives as long as its library, which is never unloaded.
        let name = unsafe { name.text::<'static>() };
        let declared = self.spec.phases.iter().find(|phase| name == Some(**phase));
        declared.copied().unwrap_or(UNDECLARED)
    }

    fn round_count(&self) -> u64 {
        self.outputs.round_count
    }

    fn visit_state(&self, visitor: &mut Visitor<'_>) {
        let mut numbers = vec![0; self.spec.fields.len()];
        if let Some(values) = self.spec.table.values {
            // SAFETY: `init` made the state, and the number of values passed has room.
            unsafe { values(self.state.place(), numbers.as_mut_ptr(), numbers.len()) };
        }
        for (Field { name, quantity }, number) in self.spec.fields.iter().zip(numbers) {
            visitor.show(name, value(*quantity, number));
        }
    }
}

fn value(quantity: Quantity, number: u64) -> Value {
    match quantity {
        Quantity::Bytes => Value::Bytes(Bytes::new(number)),
        Quantity::Rate => Value::Rate(Rate::from_bps(number)),
        Quantity::Duration => Value::Duration(Duration::from_nanos(number)),
        Quantity::Gain => Value::Gain(Gain::from_millionths(
            u32::try_from(number).unwrap_or(u32::MAX),
        )),
        Quantity::Packets => Value::Packets(number),
        Quantity::Count => Value::Count(number),
        Quantity::Flag => Value::Flag(number != 0),
        Quantity::Number => Value::Number(f64::from_bits(number)),
    }
}
