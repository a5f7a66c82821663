//! Adapts a controller in Python to our interface. Python's lock is taken for each event that its
//! class has a method for, and for nothing else.

use std::cell::Cell;
use std::sync::Arc;

use paceline_congestion::{
    self as congestion, Config, Controller, Ecn, Field, Lost, Outputs, Quantity, RecoveryWindow,
    Signals, Value, Visitor,
};
use paceline_experiment::{
    Fault, Guest, GuestController, Options, Prepared, Refused, guest_field, guest_quantum,
    guest_trial, interned,
};
use paceline_record::GuestInfo;
use paceline_scenario::OptionInput;
use paceline_units::limits::{MAX_QUEUE_BYTES, MAX_RATE};
use paceline_units::{Bytes, Duration, Instant, Rate};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use super::declared::{Declared, check};
use super::events;

/// The largest plausible window.
const MOST_WINDOW: f64 = MAX_QUEUE_BYTES as f64;

/// A class that derives from `paceline.Controller`.
pub struct PythonGuest {
    pub info: GuestInfo,
    pub class: Py<PyAny>,
    pub options: Vec<Declared>,
}

impl Guest for PythonGuest {
    fn info(&self) -> &GuestInfo {
        &self.info
    }

    fn prepare(&self, options: &Options) -> Result<Arc<dyn Prepared>, Refused> {
        check(&self.info.name, &self.options, options)?;
        let wrong = |message| Refused {
            message,
            ..Refused::default()
        };
        // One instance reports the fields of its state.
        Python::attach(|py| {
            let mut class = Class {
                name: self.info.name.clone(),
                class: self.class.clone_ref(py),
                options: options.clone(),
                fields: Vec::new(),
                phases: Vec::new(),
            };
            class.phases = class.read_phases(py).map_err(wrong)?;
            let probe = class
                .instance(py, &guest_trial(), &Fault::default())
                .map_err(wrong)?;
            class.fields = probe.read_fields(py).map_err(wrong)?;
            Ok(Arc::new(class) as Arc<dyn Prepared>)
        })
    }
}

/// A class with its options.
struct Class {
    name: String,
    class: Py<PyAny>,
    options: Options,
    fields: Vec<Field>,
    phases: Vec<&'static str>,
}

impl Class {
    /// A Python exception, as an error of this guest.
    fn raised(&self, py: Python<'_>, doing: &str, error: &PyErr) -> String {
        raised(py, &self.name, doing, error)
    }

    fn read_phases(&self, py: Python<'_>) -> Result<Vec<&'static str>, String> {
        let phases = self.class.bind(py).getattr(intern!(py, "phases"));
        let names: PyResult<Vec<String>> = phases.and_then(|phases| phases.extract());
        let names =
            names.map_err(|error| self.raised(py, "its `phases`, names in a tuple,", &error))?;
        Ok(names.iter().map(|name| interned(name)).collect())
    }

    fn instance(&self, py: Python<'_>, config: &Config, fault: &Fault) -> Result<Bridge, String> {
        let told = |error: PyErr| self.raised(py, "__init__", &error);
        let options = PyDict::new(py);
        for (name, value) in &self.options {
            let set = match value {
                OptionInput::Flag(flag) => options.set_item(name, flag),
                OptionInput::Integer(number) => options.set_item(name, number),
                OptionInput::Millionths(number) => options.set_item(name, *number as f64 / 1e6),
                OptionInput::Text(text) => options.set_item(name, text),
            };
            set.map_err(told)?;
        }
        let given = (events::Config::from(config),);
        let class = self.class.bind(py);
        let object = class.call(given, Some(&options)).map_err(told)?;
        let base = PyModule::import(py, "paceline.controller")
            .and_then(|module| module.getattr("Controller"))
            .map_err(told)?;
        // Methods that the class does not define are not called.
        let method = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            match class.getattr(name)?.is(&base.getattr(name)?) {
                true => Ok(None),
                false => Ok(Some(object.getattr(name)?.unbind())),
            }
        };
        let methods = || -> PyResult<Methods> {
            Ok(Methods {
                on_send: method("on_send")?,
                on_idle_restart: method("on_idle_restart")?,
                on_loss: method("on_loss")?,
                on_ack: method("on_ack")?,
                on_recovery_enter: method("on_recovery_enter")?,
                on_recovery_exit: method("on_recovery_exit")?,
                on_timeout: method("on_timeout")?,
                on_spurious: method("on_spurious")?,
                on_mss: method("on_mss")?,
                state: method("state")?,
            })
        };
        let mut bridge = Bridge {
            name: self.name.clone(),
            methods: methods().map_err(told)?,
            object: object.unbind(),
            fault: fault.clone(),
            is_broken: Cell::new(false),
            mss: config.mss,
            next_round: Bytes::ZERO,
            rounds: 0,
            phase: "",
            phases: self.phases.clone(),
            fields: self.fields.clone(),
            outputs: Outputs {
                cwnd: config.initial_window,
                pacing_rate: None,
                send_quantum: guest_quantum(config.initial_window, None, config.mss),
                ssthresh: None,
                round_count: 0,
                recovery_window: RecoveryWindow::Prr,
                marks_app_limited: false,
                pacer_below: false,
                ecn: Ecn::NotEct,
            },
        };
        bridge.decide(py, "__init__")?;
        Ok(bridge)
    }
}

impl Prepared for Class {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn phases(&self) -> &[&'static str] {
        &self.phases
    }

    fn build(&self, config: &Config, _: Signals, fault: &Fault) -> Result<GuestController, String> {
        Python::attach(|py| {
            let bridge = self.instance(py, config, fault)?;
            Ok(Box::new(bridge) as GuestController)
        })
    }
}

/// The exception, with its traceback.
fn raised(py: Python<'_>, name: &str, doing: &str, error: &PyErr) -> String {
    let format = || -> PyResult<String> {
        let lines =
            PyModule::import(py, "traceback")?.call_method1("format_exception", (error,))?;
        Ok(lines.extract::<Vec<String>>()?.concat())
    };
    let told = format().unwrap_or_else(|_| error.to_string());
    format!("`{name}` failed in {doing}\n{}", told.trim_end())
}

/// The methods that a class has of its own.
struct Methods {
    on_send: Option<Py<PyAny>>,
    on_idle_restart: Option<Py<PyAny>>,
    on_loss: Option<Py<PyAny>>,
    on_ack: Option<Py<PyAny>>,
    on_recovery_enter: Option<Py<PyAny>>,
    on_recovery_exit: Option<Py<PyAny>>,
    on_timeout: Option<Py<PyAny>>,
    on_spurious: Option<Py<PyAny>>,
    on_mss: Option<Py<PyAny>>,
    state: Option<Py<PyAny>>,
}

/// An instance of a class.
struct Bridge {
    name: String,
    object: Py<PyAny>,
    methods: Methods,
    fault: Fault,
    /// It has failed: it is not called any more, and the run will end.
    is_broken: Cell<bool>,
    mss: u32,
    /// Data delivered at the start of the current round; a packet sent later ends the round.
    next_round: Bytes,
    rounds: u64,
    phase: &'static str,
    phases: Vec<&'static str>,
    fields: Vec<Field>,
    outputs: Outputs,
}

/// Calls a method, if it exists and nothing has failed, and then reads the outputs.
macro_rules! tell {
    ($bridge:ident.$method:ident, $($argument:expr),+) => {
        if $bridge.methods.$method.is_some() && !$bridge.is_broken.get() {
            let done = Python::attach(|py| {
                let Some(method) = &$bridge.methods.$method else { return Ok(()) };
                match method.call1(py, ($($argument,)+)) {
                    Ok(_) => $bridge.decide(py, stringify!($method)),
                    Err(error) => Err(raised(py, &$bridge.name, stringify!($method), &error)),
                }
            });
            if let Err(what) = done {
                $bridge.fail(what);
            }
        }
    };
}

impl Bridge {
    fn fail(&self, what: String) {
        self.is_broken.set(true);
        self.fault.report(what);
    }

    fn get<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        name: &Bound<'py, PyString>,
        after: &str,
    ) -> Result<Bound<'py, PyAny>, String> {
        let found = object.getattr(name);
        found.map_err(|error| raised(object.py(), &self.name, after, &error))
    }

    /// An attribute that holds a number, if it is set: limited to its bounds.
    fn number<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        name: &Bound<'py, PyString>,
        unit: &str,
        most: f64,
        after: &str,
    ) -> Result<Option<u64>, String> {
        let value = self.get(object, name, after)?;
        if value.is_none() {
            return Ok(None);
        }
        match (value.extract::<u64>(), value.extract::<f64>()) {
            (Ok(whole), _) if whole as f64 <= most => Ok(Some(whole)),
            (Err(_), Ok(real)) if (0.0..=most).contains(&real) => Ok(Some(real as u64)),
            _ => {
                let shown = value
                    .repr()
                    .map_or_else(|_| "?".into(), |shown| shown.to_string());
                Err(format!(
                    "`{}` has set {name} to {shown} in {after}: it takes a number of {unit} from 0 to {most:e}",
                    self.name
                ))
            }
        }
    }

    /// Reads the object's decisions after one of its methods.
    fn decide(&mut self, py: Python<'_>, after: &str) -> Result<(), String> {
        let object = self.object.bind(py);
        let get = |name| self.get(object, name, after);
        let number = |name, unit, most| self.number(object, name, unit, most, after);
        let cwnd = number(intern!(py, "cwnd_bytes"), "bytes", MOST_WINDOW)?;
        let Some(cwnd) = cwnd else {
            let name = &self.name;
            return Err(format!(
                "`{name}` has no window: cwnd_bytes is None after {after}"
            ));
        };
        let pacing = number(intern!(py, "pacing_bps"), "bit/s", MAX_RATE.bps() as f64)?;
        let quantum = number(intern!(py, "send_quantum_bytes"), "bytes", MOST_WINDOW)?;
        let ssthresh = number(intern!(py, "ssthresh_bytes"), "bytes", MOST_WINDOW)?;
        let ecn = get(intern!(py, "ecn"))?;
        let uses_prr = get(intern!(py, "uses_prr"))?;
        let phase = get(intern!(py, "phase"))?;
        let cwnd = Bytes::new(cwnd);
        let pacing = pacing.map(|rate| Rate::from_bps(rate.max(1)));
        self.outputs = Outputs {
            cwnd,
            pacing_rate: pacing,
            send_quantum: match (quantum, pacing) {
                (Some(quantum), _) => Bytes::new(quantum.max(1)),
                (None, pacing) => guest_quantum(cwnd, pacing, self.mss),
            },
            ssthresh: ssthresh.map(Bytes::new),
            recovery_window: match uses_prr.is_truthy() {
                Ok(false) => RecoveryWindow::Controller,
                _ => RecoveryWindow::Prr,
            },
            ecn: match ecn.is_none() {
                true => Ecn::NotEct,
                false => match ecn.extract::<&str>() {
                    Ok("ect0") => Ecn::Ect0,
                    Ok("ect1") => Ecn::Ect1,
                    _ => {
                        let name = &self.name;
                        return Err(format!(
                            "`{name}` has set ecn to {ecn} in {after}: there are \"ect0\", \"ect1\" and None"
                        ));
                    }
                },
            },
            ..self.outputs
        };
        let phase = phase.extract::<&str>().unwrap_or("?");
        if phase != self.phase {
            let declared = self.phases.iter().find(|known| **known == phase);
            self.phase = match declared {
                Some(known) => known,
                None => {
                    let name = &self.name;
                    return Err(format!(
                        "`{name}` has set phase to {phase:?} in {after}, which is not among its `phases` {:?}",
                        self.phases
                    ));
                }
            };
        }
        Ok(())
    }

    /// The fields of the state, from a newly created instance.
    fn read_fields(&self, py: Python<'_>) -> Result<Vec<Field>, String> {
        let Some(state) = &self.methods.state else {
            return Ok(Vec::new());
        };
        let read = || -> PyResult<Vec<Field>> {
            let state = state.call0(py)?;
            let fields = state
                .bind(py)
                .cast::<PyDict>()?
                .iter()
                .map(|(name, value)| {
                    let name: String = name.extract()?;
                    Ok(guest_field(&name, value.is_instance_of::<PyBool>()))
                });
            fields.collect()
        };
        read().map_err(|error| {
            raised(
                py,
                &self.name,
                "state, which returns a dict of numbers",
                &error,
            )
        })
    }

    fn values(&self, py: Python<'_>) -> PyResult<Vec<Value>> {
        let Some(state) = &self.methods.state else {
            return Ok(Vec::new());
        };
        let state = state.call0(py)?;
        let state = state.bind(py);
        let fields = self.fields.iter().map(|field| {
            let value = state.get_item(field.name)?;
            let whole = || -> PyResult<u64> {
                if value.is_none() {
                    return Ok(u64::MAX);
                }
                // Negative numbers and NaN are shown as 0, as in a cast of floats.
                value
                    .extract::<u64>()
                    .or_else(|_| Ok(value.extract::<f64>()? as u64))
            };
            Ok(match field.quantity {
                Quantity::Bytes => Value::Bytes(Bytes::new(whole()?)),
                Quantity::Rate => Value::Rate(Rate::from_bps(whole()?)),
                Quantity::Duration => Value::Duration(Duration::from_nanos(whole()?)),
                Quantity::Packets => Value::Packets(whole()?),
                Quantity::Flag => Value::Flag(value.is_truthy()?),
                Quantity::Gain | Quantity::Count | Quantity::Number => match value.is_none() {
                    true => Value::Number(f64::NAN),
                    false => Value::Number(value.extract()?),
                },
            })
        });
        fields.collect()
    }
}

impl Controller for Bridge {
    fn on_send(&mut self, sent: &congestion::Sent) {
        tell!(self.on_send, events::Sent::from(sent));
    }

    fn on_idle_restart(&mut self, now: Instant) {
        tell!(self.on_idle_restart, now.as_nanos());
    }

    fn on_loss(&mut self, loss: &Lost) {
        tell!(self.on_loss, events::Loss::from(loss));
    }

    fn on_ack(&mut self, ack: &congestion::Ack) {
        // draft-ietf-ccwg-bbr section 5.5.1.
        let round_start = ack.sample.has_data && ack.sample.prior_delivered >= self.next_round;
        if round_start {
            self.next_round = ack.delivered;
            self.rounds += 1;
        }
        tell!(self.on_ack, events::Ack::new(ack, round_start, self.rounds));
    }

    fn on_recovery_enter(&mut self, now: Instant, in_flight: Bytes) {
        tell!(self.on_recovery_enter, now.as_nanos(), in_flight.get());
    }

    fn on_recovery_exit(&mut self, now: Instant) {
        tell!(self.on_recovery_exit, now.as_nanos());
    }

    fn on_timeout(&mut self, now: Instant, in_flight: Bytes) {
        tell!(self.on_timeout, now.as_nanos(), in_flight.get());
    }

    fn on_spurious(&mut self, now: Instant, delivered: Bytes) {
        tell!(self.on_spurious, now.as_nanos(), delivered.get());
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
        tell!(self.on_mss, mss);
    }

    fn cwnd(&self) -> Bytes {
        self.outputs.cwnd
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.outputs.pacing_rate
    }

    fn send_quantum(&self) -> Bytes {
        self.outputs.send_quantum
    }

    fn ssthresh(&self) -> Option<Bytes> {
        self.outputs.ssthresh
    }

    fn recovery_window(&self) -> RecoveryWindow {
        self.outputs.recovery_window
    }

    fn ecn(&self) -> Ecn {
        self.outputs.ecn
    }

    fn phase(&self) -> &'static str {
        self.phase
    }

    fn visit_state(&self, visitor: &mut Visitor<'_>) {
        if self.fields.is_empty() || self.is_broken.get() {
            return;
        }
        let values = Python::attach(|py| {
            let values = self.values(py);
            values.map_err(|error| raised(py, &self.name, "state", &error))
        });
        match values {
            Ok(values) => self
                .fields
                .iter()
                .zip(values)
                .for_each(|(f, value)| visitor.show(f.name, value)),
            Err(what) => self.fail(what),
        }
    }
}
