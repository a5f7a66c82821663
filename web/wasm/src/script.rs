//! A controller that is a class of the page, with the events and outputs of a controller in Python.
//!
//! Numbers are passed in one array of [`SLOTS`] floats: the arguments of a method in one direction,
//! and the instance's outputs in the other. NaN means none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use paceline_congestion::{CaState, Config, Ecn, Field, Lost, Quantity, Sent, Signals, Value};
use paceline_experiment::{
    AckEvent, Arguments, Bridge, Decisions, Fault, Guest, GuestController, GuestError, Instance,
    Method, Options, Prepared, guest_events, guest_field, guest_trial, interned,
};
use paceline_record::GuestInfo;
use paceline_scenario::OptionInput;
use paceline_units::limits::{MAX_QUEUE_BYTES, MAX_RATE};
use paceline_units::{Bytes, Duration, Rate};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

/// Numbers per call.
pub const SLOTS: usize = 64;
/// The content of each call.
pub type Slots = [f64; SLOTS];

/// Creates an instance, from its configuration, and its options as JSON.
pub const CONSTRUCTOR: &str = "constructor";

/// The name and number of the call of a method; the constructor has the number 0.
fn call_of(method: Method) -> (&'static str, u32) {
    (method.name(), method as u32 + 1)
}

/// The owner of the class.
pub trait Page: Send + Sync {
    /// Calls a method of an instance, which is [`CONSTRUCTOR`] or a [`Method`], by its name and number.
    ///
    /// # Errors
    /// The exception.
    fn call(
        &self,
        call: (&'static str, u32),
        instance: u32,
        slots: &mut Slots,
        text: &str,
    ) -> Result<String, String>;
}

/// A value of an event, as a page reads it.
trait Slot {
    /// How the page reads the number.
    const KIND: &'static str = "number";
    fn slot(self) -> f64;
}

impl Slot for u32 {
    fn slot(self) -> f64 {
        self.into()
    }
}

impl Slot for u64 {
    fn slot(self) -> f64 {
        self as f64
    }
}

impl<T: Slot> Slot for Option<T> {
    fn slot(self) -> f64 {
        self.map_or(f64::NAN, T::slot)
    }
}

impl Slot for bool {
    const KIND: &'static str = "flag";
    fn slot(self) -> f64 {
        f64::from(u8::from(self))
    }
}

/// One of [`CaState::NAMES`].
impl Slot for &'static str {
    const KIND: &'static str = "state";
    fn slot(self) -> f64 {
        let at = CaState::NAMES.iter().position(|name| *name == self);
        at.map_or(f64::NAN, |at| at as f64)
    }
}

/// An event that passes its attributes in slots.
trait Event {
    /// The name and kind of each.
    const ATTRIBUTES: &'static [(&'static str, &'static str)];
    /// Their values.
    fn fill(&self, slots: &mut Slots);
}

macro_rules! slots {
    ($($(#[$_class:meta])* $_name:ident($event:ident: $source:ty) {
        $($(#[$_doc:meta])* $name:ident: $kind:ty = $value:expr,)*
    })*) => {$(
        impl Event for $source {
            const ATTRIBUTES: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), <$kind as Slot>::KIND)),*];

            fn fill(&self, slots: &mut Slots) {
                let $event = self;
                let values = [$(<$kind as Slot>::slot($value)),*];
                slots.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
            }
        }
    )*};
}

guest_events!(slots);

/// The outputs of an instance, in the order in which they are passed.
const OUTPUTS: [&str; 6] = [
    "cwnd_bytes",
    "pacing_bps",
    "send_quantum_bytes",
    "ssthresh_bytes",
    "ecn",
    "uses_prr",
];
/// The position of the state's index among `phases`.
const PHASE: usize = OUTPUTS.len();

/// Everything that a page has to know: the calls by their numbers, with the members of their
/// argument, or the names of several.
pub fn interface() -> Json {
    let calls = Method::ALL.map(|method| {
        let (object, count) = match method {
            Method::OnAck => (Some(AckEvent::ATTRIBUTES), 0),
            Method::OnLoss => (Some(Lost::ATTRIBUTES), 0),
            Method::OnSend => (Some(Sent::ATTRIBUTES), 0),
            Method::OnRecoveryEnter | Method::OnTimeout | Method::OnSpurious => (None, 2),
            Method::OnRecoveryExit | Method::OnIdleRestart | Method::OnMss => (None, 1),
            Method::State => (None, 0),
        };
        json!({ "name": method.name(), "object": object, "count": count })
    });
    let constructor = json!({ "name": CONSTRUCTOR, "object": Config::ATTRIBUTES, "count": 0 });
    let calls: Vec<_> = [constructor].into_iter().chain(calls).collect();
    json!({ "calls": calls, "outputs": OUTPUTS, "states": CaState::NAMES, "slots": SLOTS })
}

/// The description of a class without methods, states and fields.
pub const SILENT: &str = r#"{"methods":[],"phases":[],"fields":[]}"#;

/// A page's description of its class, from a newly created instance.
#[derive(Clone, Debug, Default, Deserialize)]
struct Described {
    /// Methods that it defines itself.
    methods: Vec<String>,
    /// States of its state machine.
    phases: Vec<String>,
    /// Names of its state's numbers, and whether each is true or false.
    fields: Vec<(String, bool)>,
}

/// The class of a page, under the name `mine`.
pub struct Script<P> {
    info: GuestInfo,
    page: Arc<P>,
}

impl<P: Page> Script<P> {
    /// The class of a page.
    pub fn new(page: P, source: &str) -> Self {
        let digest = Sha256::digest(source);
        Self {
            info: GuestInfo {
                name: "mine".into(),
                language: "javascript".into(),
                file: "controller.js".into(),
                sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            },
            page: Arc::new(page),
        }
    }
}

impl<P: Page + 'static> Guest for Script<P> {
    fn info(&self) -> &GuestInfo {
        &self.info
    }

    fn prepare(&self, options: &Options) -> Result<Arc<dyn Prepared>, GuestError> {
        let given = options.iter().map(|(name, value)| {
            let value = match value {
                OptionInput::Flag(flag) => json!(flag),
                OptionInput::Integer(number) => json!(number),
                OptionInput::Millionths(number) => json!(*number as f64 / 1e6),
                OptionInput::Text(text) => json!(text),
            };
            (name.clone(), value)
        });
        let mut class = Class {
            page: Arc::clone(&self.page),
            options: Json::Object(given.collect::<Map<_, _>>()).to_string(),
            described: Described::default(),
            phases: Vec::new(),
            fields: Vec::new(),
            next: Arc::new(AtomicU32::new(0)),
        };
        let guest_error = |message| GuestError {
            message,
            ..GuestError::default()
        };
        let (_, text, _) = class.make(&guest_trial()).map_err(guest_error)?;
        class.described = serde_json::from_str(&text)
            .map_err(|error| guest_error(format!("`mine` cannot be read: {error}")))?;
        if class.described.fields.len() > SLOTS {
            let message = format!("`mine` shows more than {SLOTS} numbers in its state");
            return Err(guest_error(message));
        }
        class.phases = (class.described.phases.iter())
            .map(|name| interned(name))
            .collect();
        class.fields = (class.described.fields.iter())
            .map(|(name, is_flag)| guest_field(name, *is_flag))
            .collect();
        Ok(Arc::new(class))
    }
}

/// The class with its options.
struct Class<P> {
    page: Arc<P>,
    options: String,
    described: Described,
    phases: Vec<&'static str>,
    fields: Vec<Field>,
    next: Arc<AtomicU32>,
}

impl<P: Page> Class<P> {
    /// An instance: its number, the class description from the page, and its outputs.
    fn make(&self, config: &Config) -> Result<(u32, String, Slots), String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut slots = [f64::NAN; SLOTS];
        config.fill(&mut slots);
        let described = (self.page).call((CONSTRUCTOR, 0), number, &mut slots, &self.options);
        let described =
            described.map_err(|error| format!("`mine` failed in constructor: {error}"))?;
        Ok((number, described, slots))
    }
}

impl<P: Page + 'static> Prepared for Class<P> {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn phases(&self) -> &[&'static str] {
        &self.phases
    }

    fn build(&self, config: &Config, _: Signals, fault: &Fault) -> Result<GuestController, String> {
        let (number, _, slots) = self.make(config)?;
        let own = &self.described.methods;
        let object = Object {
            page: Arc::clone(&self.page),
            number,
            has: Method::ALL.map(|method| own.iter().any(|name| name == method.name())),
            phases: self.phases.clone(),
        };
        let decisions = object.decide(CONSTRUCTOR, &slots)?;
        let bridge = Bridge::new(object, &decisions, config, &self.fields, fault);
        Ok(Box::new(bridge))
    }
}

/// An instance.
struct Object<P> {
    page: Arc<P>,
    number: u32,
    /// Whether the class has each of [`Method::ALL`].
    has: [bool; Method::ALL.len()],
    phases: Vec<&'static str>,
}

impl<P: Page> Object<P> {
    fn call_page(&self, method: Method, slots: &mut Slots) -> Result<String, String> {
        let output = (self.page).call(call_of(method), self.number, slots, "");
        output.map_err(|error| format!("`mine` failed in {}: {error}", method.name()))
    }

    fn decide(&self, after: &str, slots: &Slots) -> Result<Decisions, String> {
        let number = |slot: usize, most: f64| -> Result<Option<u64>, String> {
            let value = slots[slot];
            match value.is_nan() {
                true => Ok(None),
                false if (0.0..=most).contains(&value) => Ok(Some(value as u64)),
                false => Err(format!(
                    "`mine` has set {} to {value} in {}: it takes a number from 0 to {most:e}",
                    OUTPUTS[slot], after
                )),
            }
        };
        let most_window = MAX_QUEUE_BYTES as f64;
        let Some(cwnd) = number(0, most_window)? else {
            return Err(format!(
                "`mine` has no window: cwnd_bytes is no number after {after}"
            ));
        };
        Ok(Decisions {
            cwnd_bytes: cwnd,
            pacing_bps: number(1, MAX_RATE.bps() as f64)?,
            send_quantum_bytes: number(2, most_window)?,
            ssthresh_bytes: number(3, most_window)?,
            ecn: match number(4, 2.0)? {
                Some(1) => Ecn::Ect0,
                Some(2) => Ecn::Ect1,
                _ => Ecn::NotEct,
            },
            uses_prr: slots[5] != 0.0,
            phase: match self.phases.as_slice() {
                [] => "",
                phases => {
                    let known = phases.get(slots[PHASE] as usize);
                    known.filter(|_| slots[PHASE] >= 0.0).ok_or_else(|| {
                        format!(
                            "`mine` has set phase in {after} to what is not among its phases {phases:?}"
                        )
                    })?
                }
            },
        })
    }
}

impl<P: Page> Instance for Object<P> {
    fn call(
        &mut self,
        method: Method,
        arguments: Arguments<'_>,
    ) -> Result<Option<Decisions>, String> {
        if !self.has[method as usize] {
            return Ok(None);
        }
        let mut slots = [f64::NAN; SLOTS];
        match arguments {
            Arguments::Ack(ack) => ack.fill(&mut slots),
            Arguments::Loss(loss) => loss.fill(&mut slots),
            Arguments::Sent(sent) => sent.fill(&mut slots),
            Arguments::Time(now) => slots[0] = now.as_nanos().slot(),
            Arguments::TimeAndVolume(now, volume) => {
                (slots[0], slots[1]) = (now.as_nanos().slot(), volume.get().slot());
            }
            Arguments::Mss(mss) => slots[0] = mss.slot(),
        }
        self.call_page(method, &mut slots)?;
        self.decide(method.name(), &slots).map(Some)
    }

    fn state(&self, fields: &[Field]) -> Result<Vec<Value>, String> {
        let mut slots = [f64::NAN; SLOTS];
        self.call_page(Method::State, &mut slots)?;
        let values = fields.iter().zip(slots).map(|(field, value)| {
            let whole = match value.is_nan() {
                true => u64::MAX,
                false => value as u64,
            };
            match field.quantity {
                Quantity::Bytes => Value::Bytes(Bytes::new(whole)),
                Quantity::Rate => Value::Rate(Rate::from_bps(whole)),
                Quantity::Duration => Value::Duration(Duration::from_nanos(whole)),
                Quantity::Packets => Value::Packets(whole),
                Quantity::Flag => Value::Flag(value != 0.0),
                Quantity::Gain | Quantity::Count | Quantity::Number => Value::Number(value),
            }
        });
        Ok(values.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Mutex;

    use super::*;
    use crate::laboratory::Laboratory;

    /// A page whose class halves its window when recovery begins, and grows it by the data that
    /// each ACK acknowledges.
    #[derive(Default)]
    struct Halving {
        windows: Mutex<Vec<f64>>,
        throws_in: Option<&'static str>,
    }

    impl Page for Halving {
        fn call(
            &self,
            (call, _): (&'static str, u32),
            instance: u32,
            slots: &mut Slots,
            text: &str,
        ) -> Result<String, String> {
            if self.throws_in == Some(call) {
                return Err("out of ideas".into());
            }
            let mut windows = self.windows.lock().unwrap();
            let nth = instance as usize;
            match call {
                CONSTRUCTOR => {
                    assert_eq!(slots[0], 1448.0);
                    windows.resize(nth + 1, 0.0);
                    windows[nth] = slots[1];
                }
                "on_ack" => windows[nth] += slots[1],
                "on_recovery_enter" => windows[nth] = (windows[nth] / 2.0).max(2896.0),
                "state" => {
                    slots[0] = windows[nth] / 2.0;
                    return Ok(String::new());
                }
                _ => return Err(format!("no method {call}")),
            }
            slots.fill(f64::NAN);
            slots[0] = windows[nth];
            slots[PHASE] = f64::from(u8::from(call == "on_recovery_enter"));
            let beta = match text.contains("beta") {
                true => "half_again",
                false => "half_bytes",
            };
            Ok(format!(
                r#"{{"methods":["on_ack","on_recovery_enter","state"],"phases":["up","down"],"fields":[["{beta}",false]]}}"#
            ))
        }
    }

    const TEXT: &str = r#"
        schema = 1
        [run]
        duration = "2 s"
        [path]
        rate = "10 Mbit/s"
        rtt = "20 ms"
        queue = { kind = "droptail", size = "1 bdp" }
        [[flows]]
        cc = "mine"
    "#;

    fn run(text: &str, page: Halving) -> (Laboratory, Json) {
        let mut laboratory = Laboratory::default();
        laboratory.bring(Some(Arc::new(Script::new(page, "class"))));
        let result = laboratory.run(text, &mut |_, _| ControlFlow::Continue(()));
        (laboratory, result)
    }

    #[test]
    fn a_class_of_the_page_controls_a_flow() {
        let (laboratory, result) = run(TEXT, Halving::default());
        let metrics = &result["summary"]["metrics"];
        assert!(
            metrics["utilisation_ratio"].as_f64() > Some(0.8),
            "{result}"
        );
        assert_eq!(result["summary"]["guests"][0]["language"], "javascript");
        assert!(!laboratory.column("samples.half_bytes").is_empty());
        let (options, _) = run(
            &TEXT.replace("\"mine\"", "{ name = \"mine\", beta = 0.5 }"),
            Halving::default(),
        );
        assert!(!options.column("samples.half_again").is_empty());
    }

    #[test]
    fn what_it_throws_ends_the_run_and_says_where() {
        for call in [CONSTRUCTOR, "on_ack", "on_recovery_enter", "state"] {
            let page = Halving {
                throws_in: Some(call),
                ..Halving::default()
            };
            let (_, result) = run(TEXT, page);
            let problems = result["problems"].to_string();
            let wanted = format!("failed in {call}: out of ideas");
            assert!(problems.contains(&wanted), "{problems}");
        }
    }

    #[test]
    fn what_it_sets_is_within_bounds() {
        struct Setting(f64);
        impl Page for Setting {
            fn call(
                &self,
                _: (&'static str, u32),
                _: u32,
                slots: &mut Slots,
                _: &str,
            ) -> Result<String, String> {
                slots.fill(f64::NAN);
                slots[0] = self.0;
                Ok(SILENT.into())
            }
        }
        for (cwnd, wanted) in [
            (-1.0, "cwnd_bytes to -1"),
            (f64::INFINITY, "cwnd_bytes to inf"),
            (f64::NAN, "no window"),
        ] {
            let script = Script::new(Setting(cwnd), "");
            let class = script.prepare(&Options::new()).unwrap();
            let built = class.build(&guest_trial(), Signals::ALL, &Fault::default());
            let error = built.err().expect("out of bounds");
            assert!(error.contains(wanted), "{error}");
        }
    }
}
