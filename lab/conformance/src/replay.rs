//! Feeds a trace's events to the algorithm and compares the result of each.

use std::fmt;

use paceline_congestion::Described;
use paceline_congestion::dctcp::Dctcp;
use paceline_congestion::linux::reno::Reno;
use paceline_congestion::linux::{bbr1, bbr2, bbr3, cubic};
use strum::IntoStaticStr;

use crate::subject::bbr::BbrReplay;
use crate::subject::cubic::CubicReplay;
use crate::subject::window::WindowReplay;
use crate::subject::{Difference, Subject};
use crate::trace::{Draw, Event, State, Trace};

/// Number of events that a mismatch shows, including the one that differs.
const INPUTS_SHOWN: usize = 10;
/// The Linux algorithm that a trace was recorded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Version {
    /// BBR in mainline.
    V1,
    /// The alpha of BBR v2.
    V2,
    /// BBR in google/bbr, branch v3.
    V3,
    /// CUBIC in mainline.
    Cubic,
    /// Reno in mainline.
    Reno,
    /// DCTCP in mainline.
    Dctcp,
}

impl Version {
    /// Every version.
    pub const ALL: [Self; 6] = [
        Self::V1,
        Self::V2,
        Self::V3,
        Self::Cubic,
        Self::Reno,
        Self::Dctcp,
    ];

    /// The folder of its traces.
    pub fn folder(self) -> &'static str {
        self.into()
    }

    /// The group of its traces.
    pub fn suite(self) -> &'static str {
        match self {
            Self::V1 | Self::V2 | Self::V3 => "linux-bbr",
            Self::Cubic => "linux-cubic",
            Self::Reno => "linux-reno",
            Self::Dctcp => "linux-dctcp",
        }
    }

    /// The controller that must agree with it.
    pub fn controller(self) -> &'static str {
        match self {
            Self::V1 => bbr1::Core::NAME,
            Self::V2 => bbr2::Core::NAME,
            Self::V3 => bbr3::Core::NAME,
            Self::Cubic => cubic::Cubic::NAME,
            Self::Reno => Reno::NAME,
            Self::Dctcp => Dctcp::NAME,
        }
    }
}

/// A trace that passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Events fed.
    pub events: u64,
    /// States compared.
    pub states: u64,
}

/// The first event of a trace after which something differs.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Mismatch {
    /// The event, from 1.
    pub event: u64,
    /// Its line, from 1.
    pub line: u64,
    /// The event's name, such as `ack`.
    pub kind: &'static str,
    /// The fields that differ, in the trace's order; at least one.
    pub differences: Vec<Difference>,
    /// The lines of the last events, oldest first, ending with this one.
    pub inputs: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            event, line, kind, ..
        } = self;
        writeln!(f, "event {event} ({kind}, line {line}) differs:")?;
        writeln!(f, "  {:<12} {:>20} {:>20}", "field", "expected", "got")?;
        for Difference {
            field,
            expected,
            got,
        } in &self.differences
        {
            writeln!(f, "  {field:<12} {expected:>20} {got:>20}")?;
        }
        write!(f, "inputs that led there, oldest first:")?;
        self.inputs
            .iter()
            .try_for_each(|input| write!(f, "\n  {input}"))
    }
}

/// Replays `trace` through `version` with Linux's own parameters.
pub fn replay(version: Version, trace: &Trace) -> Result<Replayed, Box<Mismatch>> {
    match version {
        Version::V1 => Replayer::new(BbrReplay::<bbr1::Core>::new(), trace).run(),
        Version::V2 => Replayer::new(BbrReplay::<bbr2::Core>::new(), trace).run(),
        Version::V3 => Replayer::new(BbrReplay::<bbr3::Core>::new(), trace).run(),
        Version::Cubic => Replayer::new(CubicReplay::default(), trace).run(),
        Version::Reno => Replayer::new(WindowReplay::<Reno>::new(), trace).run(),
        Version::Dctcp => Replayer::new(WindowReplay::<Dctcp>::new(), trace).run(),
    }
}

/// Trace keys that abbreviate Linux's names, and those names.
const FIELDS: &[(&str, &str)] = &[
    ("cwnd", "cwnd"),
    ("pacing", "pacing_rate"),
    ("pg", "pacing_gain"),
    ("cg", "cwnd_gain"),
    ("bw", "bw"),
    ("maxbw", "max_bw"),
    ("minrtt", "min_rtt"),
    ("rstart", "round_start"),
    ("fullbw", "full_bw"),
    ("cnt", "full_bw_cnt"),
    ("full", "full_bw_reached"),
    ("prior_cwnd", "prior_cwnd"),
    ("xacked", "extra_acked"),
    ("idle", "idle_restart"),
    ("rtt_cnt", "rtt_cnt"),
    ("lt_use", "lt_use_bw"),
    ("lt_bw", "lt_bw"),
    ("lt_rtt", "lt_rtt_cnt"),
    ("pktcons", "packet_conservation"),
    ("bwlo", "bw_lo"),
    ("iflo", "inflight_lo"),
    ("ifhi", "inflight_hi"),
    ("bwlat", "bw_latest"),
    ("iflat", "inflight_latest"),
    ("lrs", "loss_round_start"),
    ("lir", "loss_in_round"),
    ("ackph", "ack_phase"),
    ("probes", "bw_probe_samples"),
    ("high", "prev_probe_too_high"),
    ("risky", "stopped_risky_probe"),
    ("rsp", "rounds_since_probe"),
    ("upcnt", "bw_probe_up_cnt"),
    ("upacks", "bw_probe_up_acks"),
    ("uprnds", "bw_probe_up_rounds"),
    ("wait", "probe_wait"),
    ("ecna", "ecn_alpha"),
    ("fast", "try_fast_path"),
    ("fnow", "full_bw_now"),
];

struct Replayer<'a, A> {
    trace: &'a Trace,
    subject: A,
    /// The algorithm's fields after an event, in its order.
    fields: Vec<(&'static str, u64)>,
    /// For each key of the trace, the index of its field.
    places: Vec<Option<usize>>,
}

impl<'a, A: Subject> Replayer<'a, A> {
    fn new(subject: A, trace: &'a Trace) -> Self {
        Self {
            trace,
            subject,
            fields: Vec::new(),
            places: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Replayed, Box<Mismatch>> {
        let mut replayed = Replayed::default();
        for (index, event) in self.trace.events.iter().enumerate() {
            replayed.events += 1;
            let mut differences = self.subject.apply(event);
            if let Some(state) = &event.state {
                replayed.states += 1;
                self.compare(state, &mut differences);
            }
            if !differences.is_empty() {
                let first = (index + 1).saturating_sub(INPUTS_SHOWN);
                let inputs = self.trace.events.iter().take(index + 1).skip(first);
                return Err(Box::new(Mismatch {
                    event: replayed.events,
                    line: event.line,
                    kind: event.input.name(),
                    differences,
                    inputs: inputs.map(show).collect(),
                }));
            }
        }
        Ok(replayed)
    }

    fn compare(&mut self, state: &State, differences: &mut Vec<Difference>) {
        self.fields.clear();
        let fields = &mut self.fields;
        (self.subject).visit(&mut |name, field| fields.push((name, field.raw())));
        if self.places.is_empty() {
            let keys = self.trace.keys.iter();
            self.places = keys.map(|key| place(key, fields)).collect();
            // A field that is missing in the trace is a difference too, so that nothing is
            // overlooked.
            let absent = fields.iter().enumerate().filter(|(at, (name, _))| {
                *name != "cycle_idx" && !self.places.contains(&Some(*at))
            });
            differences.extend(absent.map(|(_, (name, value))| Difference {
                field: String::from(*name),
                expected: String::from("(not in the trace)"),
                got: value.to_string(),
            }));
        }

        if let Some(got) = self.subject.other_mode(&state.mode) {
            differences.push(Difference {
                field: String::from("mode"),
                expected: String::from(&*state.mode),
                got,
            });
        }
        let values = self.trace.keys.iter().zip(&self.places).zip(&state.values);
        for ((key, place), expected) in values {
            let got = place
                .and_then(|at| self.fields.get(at))
                .map(|(_, value)| *value);
            if got != Some(*expected) {
                differences.push(Difference {
                    field: key.clone(),
                    expected: expected.to_string(),
                    got: got.map_or(String::from("(no such field)"), |value| value.to_string()),
                });
            }
        }
    }
}

/// The index of a trace's key among the algorithm's fields.
fn place(key: &str, fields: &[(&'static str, u64)]) -> Option<usize> {
    let named = |name: &str| fields.iter().position(|(field, _)| *field == name);
    let short = || FIELDS.iter().find(|(short, _)| *short == key);
    named(key).or_else(|| named(short()?.1))
}

/// An event's line, with its random draws.
fn show(event: &Event) -> String {
    let draws = event.draws.iter();
    let draws = draws.map(|Draw { below, drew }| format!(" R below={below} drew={drew}"));
    format!("{}{}", event.text, draws.collect::<String>())
}
