//! Adapts a controller in Python to our interface. Python's lock is taken for each event that its
//! class has a method for, and for nothing else.

use std::cell::Cell;
use std::sync::Arc;

use paceline_congestion::{Config, Ecn, Field, Quantity, Signals, Value};
use paceline_experiment::{
    Arguments, Bridge, Decisions, Fault, Guest, GuestController, GuestError, Instance, Method,
    Options, Prepared, guest_field, guest_trial, interned,
};
use paceline_record::GuestInfo;
use paceline_scenario::OptionInput;
use paceline_units::limits::{MAX_QUEUE_BYTES, MAX_RATE};
use paceline_units::{Bytes, Duration, Rate};
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

    fn prepare(&self, options: &Options) -> Result<Arc<dyn Prepared>, GuestError> {
        check(&self.info.name, &self.options, options)?;
        let wrong = |message| GuestError {
            message,
            ..GuestError::default()
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
            let (probe, _) = class.instance(py, &guest_trial()).map_err(wrong)?;
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

    /// A new instance, and its first decisions.
    fn instance(&self, py: Python<'_>, config: &Config) -> Result<(Object, Decisions), String> {
        let traced = |error: PyErr| self.raised(py, "__init__", &error);
        let options = PyDict::new(py);
        for (name, value) in &self.options {
            let set = match value {
                OptionInput::Flag(flag) => options.set_item(name, flag),
                OptionInput::Integer(number) => options.set_item(name, number),
                OptionInput::Millionths(number) => options.set_item(name, *number as f64 / 1e6),
                OptionInput::Text(text) => options.set_item(name, text),
            };
            set.map_err(traced)?;
        }
        let given = (events::Config::from(config),);
        let class = self.class.bind(py);
        let object = class.call(given, Some(&options)).map_err(traced)?;
        let base = PyModule::import(py, "paceline.controller")
            .and_then(|module| module.getattr("Controller"))
            .map_err(traced)?;
        // Methods that the class does not define are not called.
        let mut methods = [const { None }; Method::ALL.len()];
        for method in Method::ALL {
            let name = method.name();
            let own = || -> PyResult<Option<Py<PyAny>>> {
                match class.getattr(name)?.is(&base.getattr(name)?) {
                    true => Ok(None),
                    false => Ok(Some(object.getattr(name)?.unbind())),
                }
            };
            methods[method as usize] = own().map_err(traced)?;
        }
        let object = Object {
            name: self.name.clone(),
            methods,
            object: object.unbind(),
            phase: Cell::new(""),
            phases: self.phases.clone(),
        };
        let decisions = object.decide(py, "__init__")?;
        Ok((object, decisions))
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
            let (object, decisions) = self.instance(py, config)?;
            let bridge = Bridge::new(object, &decisions, config, &self.fields, fault);
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
    let traceback = format().unwrap_or_else(|_| error.to_string());
    format!("`{name}` failed in {doing}\n{}", traceback.trim_end())
}

/// An instance of a class.
struct Object {
    name: String,
    object: Py<PyAny>,
    /// The methods that the class has of its own.
    methods: [Option<Py<PyAny>>; Method::ALL.len()],
    phase: Cell<&'static str>,
    phases: Vec<&'static str>,
}

impl Object {
    fn get<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        name: &Bound<'py, PyString>,
        after: &str,
    ) -> Result<Bound<'py, PyAny>, String> {
        let attribute = object.getattr(name);
        attribute.map_err(|error| raised(object.py(), &self.name, after, &error))
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
    fn decide(&self, py: Python<'_>, after: &str) -> Result<Decisions, String> {
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
        let ecn = match ecn.is_none() {
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
        };
        let phase = phase.extract::<&str>().unwrap_or("?");
        if phase != self.phase.get() {
            let declared = self.phases.iter().find(|known| **known == phase);
            match declared {
                Some(known) => self.phase.set(known),
                None => {
                    let name = &self.name;
                    return Err(format!(
                        "`{name}` has set phase to {phase:?} in {after}, which is not among its `phases` {:?}",
                        self.phases
                    ));
                }
            }
        }
        Ok(Decisions {
            cwnd_bytes: cwnd,
            pacing_bps: pacing,
            send_quantum_bytes: quantum,
            ssthresh_bytes: ssthresh,
            ecn,
            uses_prr: uses_prr.is_truthy().unwrap_or(true),
            phase: self.phase.get(),
        })
    }

    /// The fields of the state, from a newly created instance.
    fn read_fields(&self, py: Python<'_>) -> Result<Vec<Field>, String> {
        let Some(state) = &self.methods[Method::State as usize] else {
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
        let what = "state, which returns a dict of numbers";
        read().map_err(|error| raised(py, &self.name, what, &error))
    }

    fn values(&self, py: Python<'_>, fields: &[Field]) -> PyResult<Vec<Value>> {
        let Some(state) = &self.methods[Method::State as usize] else {
            return Ok(Vec::new());
        };
        let state = state.call0(py)?;
        let state = state.bind(py);
        let values = fields.iter().map(|field| {
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
        values.collect()
    }
}

impl Instance for Object {
    fn call(
        &mut self,
        method: Method,
        arguments: Arguments<'_>,
    ) -> Result<Option<Decisions>, String> {
        let Some(own) = &self.methods[method as usize] else {
            return Ok(None);
        };
        Python::attach(|py| {
            let done = match arguments {
                Arguments::Ack(interruptible) => own.call1(py, (events::Ack::from(interruptible),)),
                Arguments::Loss(loss) => own.call1(py, (events::Loss::from(loss),)),
                Arguments::Sent(sent) => own.call1(py, (events::Sent::from(sent),)),
                Arguments::Time(now) => own.call1(py, (now.as_nanos(),)),
                Arguments::TimeAndVolume(now, volume) => {
                    own.call1(py, (now.as_nanos(), volume.get()))
                }
                Arguments::Mss(mss) => own.call1(py, (mss,)),
            };
            done.map_err(|error| raised(py, &self.name, method.name(), &error))?;
            self.decide(py, method.name()).map(Some)
        })
    }

    fn state(&self, fields: &[Field]) -> Result<Vec<Value>, String> {
        Python::attach(|py| {
            let values = self.values(py, fields);
            values.map_err(|error| raised(py, &self.name, "state", &error))
        })
    }
}
