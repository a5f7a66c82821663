//! `[run]`: how long, how often, what is kept.

use paceline_units::{Duration, Gain};
use schemars::JsonSchema;
use serde::Serialize;

use crate::document::Node;
use crate::flow::yes;
use crate::reader::{Read, Reader};

/// How long the experiment lasts, how often it is repeated and what is kept of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunSection {
    /// Length of one run.
    pub duration: Duration,
    /// Where the randomness starts: repeat n uses seed + n.
    #[schemars(default = "one")]
    pub seed: u64,
    /// How many runs, each with the next seed.
    #[schemars(default = "one")]
    pub repeats: u32,
    /// Time between rows of the samples table. Unset: 10 ms, and longer when that would make
    /// more than a million rows; see [`crate::Scenario::sample_interval`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_interval: Option<Duration>,
    /// Run the whole scenario once for each of these controllers, each time in place of the
    /// `cc` of every flow. Empty: run it once as it is written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub compare: Vec<String>,
    /// What is kept beside the tables that are always kept.
    #[schemars(default)]
    pub record: RecordSection,
    /// How far an emulated run may be from what is asked for.
    #[serde(skip_serializing_if = "EmulationSection::is_default")]
    #[schemars(default)]
    pub emulation: EmulationSection,
}

/// How far an emulated run may be from what is asked for, and still be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct EmulationSection {
    /// The 99th percentile of how much later than planned packets leave the path.
    #[schemars(default = "default_lateness")]
    pub lateness_p99: Duration,
    /// What the emulator itself adds to a round trip, in the median.
    #[schemars(default = "default_added_delay")]
    pub added_delay: Duration,
    /// By how much a busy link is off its rate.
    #[schemars(default = "default_rate_error")]
    pub rate_error: Gain,
    /// The share of the run in which the path stood still because the machine did not run it.
    #[schemars(default = "default_stalled")]
    pub stalled: Gain,
    /// The longest that a receiver took to acknowledge what it has to acknowledge at once: its ACKs
    /// then come in a burst, and so does what they let go. Linux itself compresses SACKs for up to 1 ms.
    #[schemars(default = "default_answer_max")]
    pub answer_max: Duration,
}

impl EmulationSection {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for EmulationSection {
    fn default() -> Self {
        Self {
            lateness_p99: default_lateness(),
            added_delay: default_added_delay(),
            rate_error: default_rate_error(),
            stalled: default_stalled(),
            answer_max: default_answer_max(),
        }
    }
}

fn default_lateness() -> Duration {
    Duration::from_millis(2)
}

fn default_added_delay() -> Duration {
    Duration::from_millis(1)
}

fn default_rate_error() -> Gain {
    Gain::from_millionths(20_000)
}

fn default_stalled() -> Gain {
    Gain::from_millionths(10_000)
}

fn default_answer_max() -> Duration {
    Duration::from_millis(3)
}

/// What is kept beside the tables that are always kept.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RecordSection {
    /// A row for every packet.
    #[schemars(default)]
    pub packets: bool,
    /// Beside those at each interval, a row of the samples table whenever a flow's round, its
    /// controller's state or its recovery state changes, and when a loss episode is undone.
    #[schemars(default)]
    pub rounds: bool,
    /// A row of the events table whenever a controller's state changes. Thousands of flows that
    /// probe every round trip make gigabytes of them; without them `state_ns` is not known.
    #[serde(skip_serializing_if = "Clone::clone")]
    #[schemars(default = "yes")]
    pub states: bool,
}

impl Default for RecordSection {
    fn default() -> Self {
        Self {
            packets: false,
            rounds: false,
            states: yes(),
        }
    }
}

fn one() -> u32 {
    1
}

impl Read for RunSection {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let duration = table.required("duration", "say how long a run is: duration = \"60 s\"");
        let seed = table.or("seed", u64::from(one()));
        let repeats = table.or("repeats", one());
        let sample_interval = table.optional("sample_interval");
        let compare = table.or("compare", Vec::new());
        let record = table.or("record", RecordSection::default());
        let emulation = table.or("emulation", EmulationSection::default());
        table.finish();
        Some(Self {
            duration: duration?,
            seed,
            repeats,
            sample_interval,
            compare,
            record,
            emulation,
        })
    }
}

impl Read for EmulationSection {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let usual = Self::default();
        let lateness_p99 = table.or("lateness_p99", usual.lateness_p99);
        let added_delay = table.or("added_delay", usual.added_delay);
        let rate_error = table.or("rate_error", usual.rate_error);
        let stalled = table.or("stalled", usual.stalled);
        let answer_max = table.or("answer_max", usual.answer_max);
        table.finish();
        Some(Self {
            lateness_p99,
            added_delay,
            rate_error,
            stalled,
            answer_max,
        })
    }
}

impl Read for RecordSection {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let packets = table.or("packets", false);
        let rounds = table.or("rounds", false);
        let states = table.or("states", yes());
        table.finish();
        Some(Self {
            packets,
            rounds,
            states,
        })
    }
}
