//! A controller that is a class of the page, with the events and outputs of a controller in Python.
//!
//! Numbers are passed in one array of [`SLOTS`] floats: the arguments of a method in one direction,
//! and the instance's outputs in the other. NaN means none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use paceline_congestion::{
    Ack, CaState, Config, Controller, Ecn, Field, Lost, Outputs, Quantity, RecoveryWindow, Sent,
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
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

/// Numbers per call.
pub const SLOTS: usize = 64;
/// The content of each call.
pub type Slots = [f64; SLOTS];

/// The calls, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "named as their methods")]
pub enum Call {
    /// Create an instance: its configuration, and its options as JSON.
    New,
    OnAck,
    OnLoss,
    OnSend,
    OnRecoveryEnter,
    OnRecoveryExit,
    OnTimeout,
    OnSpurious,
    OnIdleRestart,
    OnMss,
    /// Its state, in the order of its fields.
    State,
}

impl Call {
    const ALL: [Self; 11] = [
        Self::New,
        Self::OnAck,
        Self::OnLoss,
        Self::OnSend,
        Self::OnRecoveryEnter,
        Self::OnRecoveryExit,
        Self::OnTimeout,
        Self::OnSpurious,
        Self::OnIdleRestart,
        Self::OnMss,
        Self::State,
    ];

    /// The method's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "constructor",
            Self::OnAck => "on_ack",
            Self::OnLoss => "on_loss",
            Self::OnSend => "on_send",
            Self::OnRecoveryEnter => "on_recovery_enter",
            Self::OnRecoveryExit => "on_recovery_exit",
            Self::OnTimeout => "on_timeout",
            Self::OnSpurious => "on_spurious",
            Self::OnIdleRestart => "on_idle_restart",
            Self::OnMss => "on_mss",
            Self::State => "state",
        }
    }
}

/// The owner of the class.
pub trait Page: Send + Sync {
    /// Calls a method of an instance.
    ///
    /// # Errors
    /// The exception.
    fn call(
        &self,
        call: Call,
        instance: u32,
        slots: &mut Slots,
        text: &str,
    ) -> Result<String, String>;
}

/// A member of an event: name, type and offset.
type Member<E> = (&'static str, Kind, fn(&E) -> f64);

/// The meaning of a number.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Flag,
    /// One of [`STATES`].
    State,
}

/// States of recovery, by Linux's names.
const STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];

/// An ACK, and the round counters.
struct Heard {
    ack: Ack,
    round_start: bool,
    round_count: u64,
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn bytes(value: Bytes) -> f64 {
    value.get() as f64
}

fn nanos(value: Duration) -> f64 {
    value.as_nanos() as f64
}

fn maybe(value: Option<Duration>) -> f64 {
    value.map_or(f64::NAN, nanos)
}

fn at(now: Instant) -> f64 {
    now.as_nanos() as f64
}

const CONFIG: &[Member<Config>] = &[
    ("mss_bytes", Kind::Number, |c| c.mss.into()),
    ("initial_window_bytes", Kind::Number, |c| {
        bytes(c.initial_window)
    }),
    ("seed", Kind::Number, |c| c.seed as f64),
    ("now_ns", Kind::Number, |c| at(c.now)),
    ("srtt_ns", Kind::Number, |c| maybe(c.srtt)),
    ("has_selective_acks", Kind::Flag, |c| {
        flag(c.has_selective_acks)
    }),
];

const ACK: &[Member<Heard>] = {
    use Kind::{Flag, Number, State};
    &[
        ("now_ns", Number, |e| at(e.ack.now)),
        ("newly_acked_bytes", Number, |e| bytes(e.ack.newly_acked)),
        ("newly_lost_bytes", Number, |e| bytes(e.ack.newly_lost)),
        ("ce_bytes", Number, |e| {
            e.ack.newly_marked.map_or(f64::NAN, bytes)
        }),
        ("ece", Flag, |e| flag(e.ack.ece)),
        ("prior_in_flight_bytes", Number, |e| {
            bytes(e.ack.prior_in_flight)
        }),
        ("in_flight_bytes", Number, |e| bytes(e.ack.in_flight)),
        ("delivered_bytes", Number, |e| bytes(e.ack.delivered)),
        ("lost_bytes", Number, |e| bytes(e.ack.lost)),
        ("sent_bytes", Number, |e| bytes(e.ack.sent)),
        ("rtt_ns", Number, |e| maybe(e.ack.rtt)),
        ("srtt_ns", Number, |e| nanos(e.ack.srtt)),
        ("min_rtt_ns", Number, |e| nanos(e.ack.min_rtt)),
        ("delivery_rate_bps", Number, |e| {
            let sample = &e.ack.sample;
            match sample.has_data && sample.interval > Duration::ZERO {
                true => sample.delivery_rate().bps() as f64,
                false => f64::NAN,
            }
        }),
        ("app_limited", Flag, |e| flag(e.ack.sample.app_limited)),
        ("sample_interval_ns", Number, |e| {
            nanos(e.ack.sample.interval)
        }),
        ("sample_delivered_bytes", Number, |e| {
            bytes(e.ack.sample.delivered)
        }),
        ("sample_lost_bytes", Number, |e| bytes(e.ack.sample.lost)),
        ("tx_in_flight_bytes", Number, |e| {
            bytes(e.ack.sample.tx_in_flight)
        }),
        ("round_start", Flag, |e| flag(e.round_start)),
        ("round_count", Number, |e| e.round_count as f64),
        ("cwnd_limited", Flag, |e| flag(e.ack.cwnd_limited)),
        ("una_advanced", Flag, |e| flag(e.ack.una_advanced)),
        ("delayed", Flag, |e| flag(e.ack.delayed)),
        ("one_way_delay_ns", Number, |e| maybe(e.ack.one_way_delay)),
        ("network_rtt_ns", Number, |e| maybe(e.ack.network_rtt)),
        ("receiver_delay_ns", Number, |e| maybe(e.ack.receiver_delay)),
        ("ca_state", State, |e| match e.ack.ca_state {
            CaState::Open => 0.0,
            CaState::Disorder => 1.0,
            CaState::Cwr => 2.0,
            CaState::Recovery => 3.0,
            CaState::Loss => 4.0,
        }),
    ]
};

const LOSS: &[Member<Lost>] = {
    use Kind::{Flag, Number};
    &[
        ("now_ns", Number, |e| at(e.now)),
        ("size_bytes", Number, |e| e.packet.size.into()),
        ("sent_ns", Number, |e| at(e.packet.send_time)),
        ("lost_bytes", Number, |e| bytes(e.lost)),
        ("lost_since_send_bytes", Number, |e| {
            bytes(e.lost_since_send())
        }),
        ("delivered_bytes", Number, |e| bytes(e.delivered)),
        ("in_flight_bytes", Number, |e| bytes(e.in_flight)),
        ("tx_in_flight_bytes", Number, |e| {
            bytes(e.packet.tx_in_flight)
        }),
        ("starts_range", Flag, |e| flag(e.starts_range)),
        ("retransmission", Flag, |e| flag(e.retransmission)),
    ]
};

const SENT: &[Member<Sent>] = {
    use Kind::{Flag, Number};
    &[
        ("now_ns", Number, |e| at(e.now)),
        ("size_bytes", Number, |e| e.size.into()),
        ("in_flight_bytes", Number, |e| bytes(e.in_flight)),
        ("app_limited", Flag, |e| flag(e.app_limited)),
    ]
};

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
    fn members<E>(list: &[Member<E>]) -> Json {
        let one = |(name, kind, _): &Member<E>| {
            let kind = match kind {
                Kind::Number => "number",
                Kind::Flag => "flag",
                Kind::State => "state",
            };
            json!([name, kind])
        };
        list.iter().map(one).collect()
    }
    let calls = Call::ALL.map(|call| {
        let (object, count) = match call {
            Call::New => (members(CONFIG), 0),
            Call::OnAck => (members(ACK), 0),
            Call::OnLoss => (members(LOSS), 0),
            Call::OnSend => (members(SENT), 0),
            Call::OnRecoveryEnter | Call::OnTimeout | Call::OnSpurious => (Json::Null, 2),
            Call::OnRecoveryExit | Call::OnIdleRestart | Call::OnMss => (Json::Null, 1),
            Call::State => (Json::Null, 0),
        };
        json!({ "name": call.name(), "object": object, "count": count })
    });
    json!({ "calls": calls, "outputs": OUTPUTS, "states": STATES, "slots": SLOTS })
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

    fn prepare(&self, options: &Options) -> Result<Arc<dyn Prepared>, Refused> {
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
        let refused = |message| Refused {
            message,
            ..Refused::default()
        };
        let (_, said, _) = class.make(&guest_trial()).map_err(refused)?;
        class.described = serde_json::from_str(&said)
            .map_err(|error| refused(format!("`mine` cannot be read: {error}")))?;
        if class.described.fields.len() > SLOTS {
            let message = format!("`mine` shows more than {SLOTS} numbers in its state");
            return Err(refused(message));
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
        fill(&mut slots, CONFIG, config);
        let said = self.page.call(Call::New, number, &mut slots, &self.options);
        let said = said.map_err(|error| format!("`mine` failed in constructor: {error}"))?;
        Ok((number, said, slots))
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
        let has = |call: Call| {
            let named = |name: &String| name == call.name();
            self.described.methods.iter().any(named)
        };
        let mut bridge = Bridge {
            page: Arc::clone(&self.page),
            number,
            has: Call::ALL.map(has),
            fault: fault.clone(),
            is_broken: false,
            mss: config.mss,
            next_round: Bytes::ZERO,
            rounds: 0,
            phase: self.phases.first().copied().unwrap_or(""),
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
        bridge.decide(Call::New, &slots)?;
        Ok(Box::new(bridge))
    }
}

fn fill<E>(slots: &mut Slots, members: &[Member<E>], event: &E) {
    for (slot, (_, _, read)) in slots.iter_mut().zip(members) {
        *slot = read(event);
    }
}

/// An instance.
struct Bridge<P> {
    page: Arc<P>,
    number: u32,
    /// The methods that the class has, by their numbers.
    has: [bool; Call::ALL.len()],
    fault: Fault,
    /// It has failed: it is not called any more, and the run will end.
    is_broken: bool,
    mss: u32,
    /// Data delivered at the start of the current round; a packet sent later ends the round.
    next_round: Bytes,
    rounds: u64,
    phase: &'static str,
    phases: Vec<&'static str>,
    fields: Vec<Field>,
    outputs: Outputs,
}

impl<P: Page> Bridge<P> {
    /// Calls a method, if it exists and nothing has failed, and then reads the decisions.
    fn tell(&mut self, call: Call, set: impl FnOnce(&mut Slots)) {
        if !self.has[call as usize] || self.is_broken {
            return;
        }
        let mut slots = [f64::NAN; SLOTS];
        set(&mut slots);
        let told = self.page.call(call, self.number, &mut slots, "");
        let decided = told
            .map_err(|error| format!("`mine` failed in {}: {error}", call.name()))
            .and_then(|_| self.decide(call, &slots));
        if let Err(what) = decided {
            self.is_broken = true;
            self.fault.report(what);
        }
    }

    fn decide(&mut self, after: Call, slots: &Slots) -> Result<(), String> {
        let number = |slot: usize, most: f64| -> Result<Option<u64>, String> {
            let value = slots[slot];
            match value.is_nan() {
                true => Ok(None),
                false if (0.0..=most).contains(&value) => Ok(Some(value as u64)),
                false => Err(format!(
                    "`mine` has set {} to {value} in {}: it takes a number from 0 to {most:e}",
                    OUTPUTS[slot],
                    after.name()
                )),
            }
        };
        let most_window = MAX_QUEUE_BYTES as f64;
        let Some(cwnd) = number(0, most_window)? else {
            return Err(format!(
                "`mine` has no window: cwnd_bytes is no number after {}",
                after.name()
            ));
        };
        let cwnd = Bytes::new(cwnd);
        let pacing = number(1, MAX_RATE.bps() as f64)?.map(|rate| Rate::from_bps(rate.max(1)));
        self.outputs = Outputs {
            cwnd,
            pacing_rate: pacing,
            send_quantum: match number(2, most_window)? {
                Some(quantum) => Bytes::new(quantum.max(1)),
                None => guest_quantum(cwnd, pacing, self.mss),
            },
            ssthresh: number(3, most_window)?.map(Bytes::new),
            ecn: match number(4, 2.0)? {
                Some(1) => Ecn::Ect0,
                Some(2) => Ecn::Ect1,
                _ => Ecn::NotEct,
            },
            recovery_window: match slots[5] == 0.0 {
                true => RecoveryWindow::Controller,
                false => RecoveryWindow::Prr,
            },
            ..self.outputs
        };
        if !self.phases.is_empty() {
            let known = self
                .phases
                .get(slots[PHASE] as usize)
                .filter(|_| slots[PHASE] >= 0.0);
            self.phase = known.ok_or_else(|| {
                let (after, phases) = (after.name(), &self.phases);
                format!(
                    "`mine` has set phase in {after} to what is not among its phases {phases:?}"
                )
            })?;
        }
        Ok(())
    }
}

impl<P: Page> Controller for Bridge<P> {
    fn on_send(&mut self, sent: &Sent) {
        self.tell(Call::OnSend, |slots| fill(slots, SENT, sent));
    }

    fn on_idle_restart(&mut self, now: Instant) {
        self.tell(Call::OnIdleRestart, |slots| slots[0] = at(now));
    }

    fn on_loss(&mut self, loss: &Lost) {
        self.tell(Call::OnLoss, |slots| fill(slots, LOSS, loss));
    }

    fn on_ack(&mut self, ack: &Ack) {
        // draft-ietf-ccwg-bbr section 5.5.1.
        let round_start = ack.sample.has_data && ack.sample.prior_delivered >= self.next_round;
        if round_start {
            self.next_round = ack.delivered;
            self.rounds += 1;
        }
        let heard = Heard {
            ack: *ack,
            round_start,
            round_count: self.rounds,
        };
        self.tell(Call::OnAck, |slots| fill(slots, ACK, &heard));
    }

    fn on_recovery_enter(&mut self, now: Instant, in_flight: Bytes) {
        self.tell(Call::OnRecoveryEnter, |slots| {
            (slots[0], slots[1]) = (at(now), bytes(in_flight));
        });
    }

    fn on_recovery_exit(&mut self, now: Instant) {
        self.tell(Call::OnRecoveryExit, |slots| slots[0] = at(now));
    }

    fn on_timeout(&mut self, now: Instant, in_flight: Bytes) {
        self.tell(Call::OnTimeout, |slots| {
            (slots[0], slots[1]) = (at(now), bytes(in_flight));
        });
    }

    fn on_spurious(&mut self, now: Instant, delivered: Bytes) {
        self.tell(Call::OnSpurious, |slots| {
            (slots[0], slots[1]) = (at(now), bytes(delivered));
        });
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.tell(Call::OnMss, |slots| slots[0] = mss.into());
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
        if self.fields.is_empty() || self.is_broken {
            return;
        }
        let mut slots = [f64::NAN; SLOTS];
        if let Err(error) = self.page.call(Call::State, self.number, &mut slots, "") {
            self.fault
                .report(format!("`mine` failed in state: {error}"));
            return;
        }
        for (field, value) in self.fields.iter().zip(slots) {
            let whole = match value.is_nan() {
                true => u64::MAX,
                false => value as u64,
            };
            let value = match field.quantity {
                Quantity::Bytes => Value::Bytes(Bytes::new(whole)),
                Quantity::Rate => Value::Rate(Rate::from_bps(whole)),
                Quantity::Duration => Value::Duration(Duration::from_nanos(whole)),
                Quantity::Packets => Value::Packets(whole),
                Quantity::Flag => Value::Flag(value != 0.0),
                Quantity::Gain | Quantity::Count | Quantity::Number => Value::Number(value),
            };
            visitor.show(field.name, value);
        }
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
        throws_in: Option<Call>,
    }

    impl Page for Halving {
        fn call(
            &self,
            call: Call,
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
                Call::New => {
                    assert_eq!(slots[0], 1448.0);
                    windows.resize(nth + 1, 0.0);
                    windows[nth] = slots[1];
                }
                Call::OnAck => windows[nth] += slots[1],
                Call::OnRecoveryEnter => windows[nth] = (windows[nth] / 2.0).max(2896.0),
                Call::State => {
                    slots[0] = windows[nth] / 2.0;
                    return Ok(String::new());
                }
                _ => return Err(format!("no method {}", call.name())),
            }
            slots.fill(f64::NAN);
            slots[0] = windows[nth];
            slots[PHASE] = f64::from(u8::from(call == Call::OnRecoveryEnter));
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
        let answer = laboratory.run(text, &mut |_, _| ControlFlow::Continue(()));
        (laboratory, answer)
    }

    #[test]
    fn a_class_of_the_page_controls_a_flow() {
        let (laboratory, answer) = run(TEXT, Halving::default());
        let metrics = &answer["summary"]["metrics"];
        assert!(
            metrics["utilisation_ratio"].as_f64() > Some(0.8),
            "{answer}"
        );
        assert_eq!(answer["summary"]["guests"][0]["language"], "javascript");
        assert!(!laboratory.column("samples.half_bytes").is_empty());
        let (options, _) = run(
            &TEXT.replace("\"mine\"", "{ name = \"mine\", beta = 0.5 }"),
            Halving::default(),
        );
        assert!(!options.column("samples.half_again").is_empty());
    }

    #[test]
    fn what_it_throws_ends_the_run_and_says_where() {
        for call in [Call::New, Call::OnAck, Call::OnRecoveryEnter, Call::State] {
            let page = Halving {
                throws_in: Some(call),
                ..Halving::default()
            };
            let (_, answer) = run(TEXT, page);
            let said = answer["problems"].to_string();
            let wanted = format!("failed in {}: out of ideas", call.name());
            assert!(said.contains(&wanted), "{said}");
        }
    }

    #[test]
    fn its_events_are_those_of_python() {
        let python = include_str!("../../python/src/guest/events.rs");
        let of = |class: &str| -> Vec<String> {
            let start = python.find(&format!("pub struct {class} {{")).unwrap();
            let body = &python[start..start + python[start..].find("\n}").unwrap()];
            let fields = body.lines().skip(1).map(str::trim);
            let fields = fields.filter(|line| !line.starts_with("//"));
            fields
                .filter_map(|line| Some(line.split_once(':')?.0.to_owned()))
                .collect()
        };
        fn named<E>(members: &[Member<E>]) -> Vec<&str> {
            members.iter().map(|(name, ..)| *name).collect()
        }
        assert_eq!(of("Config"), named(CONFIG));
        assert_eq!(of("Ack"), named(ACK));
        assert_eq!(of("Loss"), named(LOSS));
        assert_eq!(of("Sent"), named(SENT));
    }

    #[test]
    fn what_it_sets_is_within_bounds() {
        struct Setting(f64);
        impl Page for Setting {
            fn call(&self, _: Call, _: u32, slots: &mut Slots, _: &str) -> Result<String, String> {
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
