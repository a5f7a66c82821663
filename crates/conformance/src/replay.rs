//! Feeds a trace's events to the algorithm and compares what comes of each.

use std::fmt;

use paceline_congestion::linux::{Algorithm, Field, Socket, bbr1, bbr2, bbr3};

use crate::cubic::CubicReplay;
use crate::trace::{AckSocket, Draw, Event, Input, State, Trace};

/// How many events a mismatch shows, the one that differs included.
const INPUTS_SHOWN: usize = 10;
/// `TCP_ECN_OK | TCP_ECN_LOW`: negotiated, on a route that marks at a shallow threshold.
const ECN_OK_LOW: u32 = 1 | 16;

/// Which of Linux's algorithms a trace is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// BBR in mainline.
    V1,
    /// The alpha of BBR v2.
    V2,
    /// BBR in google/bbr, branch v3.
    V3,
    /// CUBIC in mainline.
    Cubic,
}

impl Version {
    /// Every version.
    pub const ALL: [Self; 4] = [Self::V1, Self::V2, Self::V3, Self::Cubic];

    /// The folder of its traces.
    pub fn folder(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::V3 => "v3",
            Self::Cubic => "cubic",
        }
    }

    /// What its traces are part of.
    pub fn suite(self) -> &'static str {
        match self {
            Self::V1 | Self::V2 | Self::V3 => "linux-bbr",
            Self::Cubic => "linux-cubic",
        }
    }

    /// The controller that must agree with it.
    pub fn controller(self) -> &'static str {
        match self {
            Self::V1 => bbr1::Core::NAME,
            Self::V2 => bbr2::Core::NAME,
            Self::V3 => bbr3::Core::NAME,
            Self::Cubic => "cubic-linux",
        }
    }
}

/// A trace that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Events fed.
    pub events: u64,
    /// States compared.
    pub states: u64,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The trace's name for it.
    pub field: String,
    /// What the trace has.
    pub expected: String,
    /// What came out.
    pub got: String,
}

/// The first event of a trace after which something differs.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Mismatch {
    /// Which event, from 1.
    pub event: u64,
    /// Its line, from 1.
    pub line: u64,
    /// What happened in it, as `ack`.
    pub kind: &'static str,
    /// The fields that differ, in the trace's order; at least one.
    pub differences: Vec<Difference>,
    /// The last events' lines, oldest first, that of this one last.
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
    }
}

/// An algorithm with its socket, to which a trace's events happen.
pub(crate) trait Subject {
    /// Feeds an event. Says where the draws asked for differ from those traced.
    fn apply(&mut self, event: &Event) -> Vec<Difference>;

    /// Every field, by Linux's names, once there is a connection.
    fn visit(&self, visit: &mut dyn FnMut(&'static str, Field));

    /// The state, if it is not the trace's.
    fn other_mode(&self, mode: &str) -> Option<String>;
}

/// The names of fields that a trace shortens, and Linux's.
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
    /// For each key of the trace, where its field is among those.
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
            self.places = self
                .trace
                .keys
                .iter()
                .map(|key| place(key, fields))
                .collect();
            // A field that the trace does not have is a difference, too: nothing goes unseen.
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

/// A BBR with its socket.
struct BbrReplay<A> {
    sk: Socket,
    core: Option<A>,
}

impl<A> BbrReplay<A> {
    fn new() -> Self {
        Self {
            sk: Socket::default(),
            core: None,
        }
    }
}

impl<A: Algorithm> Subject for BbrReplay<A> {
    fn apply(&mut self, event: &Event) -> Vec<Difference> {
        if matches!(event.input, Input::Cubic(_)) {
            return vec![foreign(event)];
        }
        let mut differences = Vec::new();
        let mut draws = event.draws.iter();
        let mut random = |below: u32| match draws.next() {
            Some(draw) if draw.below == below => draw.drew,
            other => {
                let expected = other.map(|draw| draw.below);
                differences.push(draw_difference(expected, Some(below)));
                0
            }
        };
        let sk = &mut self.sk;
        if let Input::Init {
            cwnd,
            mss,
            srtt,
            min_rtt,
            ecn_flags,
        } = event.input
        {
            *sk = Socket {
                now: event.time,
                wstamp_ns: 0,
                mss,
                cwnd,
                srtt,
                min_rtt,
                ecn_low: ecn_flags & ECN_OK_LOW == ECN_OK_LOW,
                ..Socket::default()
            };
            self.core = Some(A::new(sk, A::Parameters::default()));
        }
        sk.now = event.time;
        if let Some(core) = &mut self.core {
            match event.input {
                Input::Init { .. } | Input::Cubic(_) => {}
                Input::Ack { socket, sample } => {
                    set_ack(sk, socket);
                    core.cong_control(sk, &sample, &mut random);
                }
                Input::Lost {
                    delivered,
                    lost,
                    cwnd,
                    packet,
                } => {
                    (sk.delivered, sk.lost, sk.cwnd) = (delivered, lost, cwnd);
                    core.skb_marked_lost(sk, &packet, &mut random);
                }
                Input::Ssthresh => core.ssthresh(sk),
                Input::SetState { state, cwnd } => {
                    sk.cwnd = cwnd;
                    core.set_state(sk, state, &mut random);
                    sk.ca_state = state;
                }
                Input::Undo => sk.cwnd = core.undo_cwnd(sk),
                Input::TxStart { app_limited } => {
                    sk.app_limited = app_limited;
                    core.tx_start(sk, &mut random);
                }
                Input::Tlp {
                    delivered,
                    app_limited,
                } => {
                    sk.delivered = delivered;
                    sk.tlp_orig_data_app_limited = app_limited;
                    core.tlp_recovery(sk, &mut random);
                }
            }
        }
        differences.extend(draws.map(|draw| draw_difference(Some(draw.below), None)));
        differences
    }

    fn visit(&self, visit: &mut dyn FnMut(&'static str, Field)) {
        if let Some(core) = &self.core {
            core.visit(&self.sk, visit);
        }
    }

    fn other_mode(&self, mode: &str) -> Option<String> {
        let phase = self.core.as_ref()?.phase();
        // Of v1 a trace tells the place in its cycle of gains.
        let mut cycle_idx = None;
        self.visit(&mut |name, field| {
            if name == "cycle_idx" {
                cycle_idx = Some(field.raw());
            }
        });
        let suffix = cycle_idx.map_or(String::new(), |index| format!("/{index}"));
        (!is_mode(mode, phase, cycle_idx)).then(|| format!("{phase}{suffix}"))
    }
}

/// An event that the algorithm does not know.
pub(crate) fn foreign(event: &Event) -> Difference {
    Difference {
        field: String::from("event"),
        expected: String::from(event.input.name()),
        got: String::from("(not one of this algorithm)"),
    }
}

fn set_ack(sk: &mut Socket, ack: AckSocket) {
    let AckSocket {
        delivered,
        delivered_ce,
        delivered_mstamp,
        lost,
        packets_in_flight,
        is_cwnd_limited,
        ca_state,
        wstamp_ns,
        srtt,
        min_rtt,
        app_limited,
    } = ack;
    (sk.delivered, sk.delivered_ce) = (delivered, delivered_ce);
    (sk.delivered_mstamp, sk.wstamp_ns) = (delivered_mstamp, wstamp_ns);
    (sk.lost, sk.packets_in_flight) = (lost, packets_in_flight);
    (sk.is_cwnd_limited, sk.ca_state) = (is_cwnd_limited, ca_state);
    (sk.srtt, sk.min_rtt, sk.app_limited) = (srtt, min_rtt, app_limited);
}

/// Where the field of a trace's key is among the algorithm's.
fn place(key: &str, fields: &[(&'static str, u64)]) -> Option<usize> {
    let named = |name: &str| fields.iter().position(|(field, _)| *field == name);
    let short = || FIELDS.iter().find(|(short, _)| *short == key);
    named(key).or_else(|| named(short()?.1))
}

/// Whether a trace's mode, as `PROBE_BW/UP`, `DRAIN/-` or v1's `PROBE_BW/3`, is this one.
fn is_mode(mode: &str, phase: &str, cycle_idx: Option<u64>) -> bool {
    let Some((head, tail)) = mode.split_once('/') else {
        return false;
    };
    match cycle_idx {
        Some(index) => head == phase && tail.parse() == Ok(index),
        None if tail == "-" => head == phase,
        None => {
            phase
                .strip_prefix(head)
                .and_then(|rest| rest.strip_prefix('_'))
                == Some(tail)
        }
    }
}

fn draw_difference(expected: Option<u32>, got: Option<u32>) -> Difference {
    let show = |below: Option<u32>| below.map_or(String::from("none"), |n| format!("below {n}"));
    Difference {
        field: String::from("draw"),
        expected: show(expected),
        got: show(got),
    }
}

/// An event's line, with its draws.
fn show(event: &Event) -> String {
    let draws = event.draws.iter();
    let draws = draws.map(|Draw { below, drew }| format!(" R below={below} drew={drew}"));
    format!("{}{}", event.text, draws.collect::<String>())
}
