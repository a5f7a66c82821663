//! What a run is, known before it starts.

use serde::{Deserialize, Serialize};

use paceline_units::{Bytes, Duration, Instant, Rate};

/// What a run was, known before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInfo {
    /// Name of the scenario.
    pub scenario: String,
    /// The resolved scenario: TOML with every default written.
    pub scenario_toml: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// What ran it: `sim` or `emu`.
    pub backend: String,
    /// Version of the program.
    pub version: String,
    /// Length of the run, from [`Instant::ZERO`].
    pub duration: Duration,
    /// Time between two rows of `samples` of one flow, and of `queue` of one link.
    pub sample_interval: Duration,
    /// Payload over wire bytes of a full packet: the share of a link's capacity that can be goodput.
    pub payload_ratio: f64,
    /// Why it stopped before its end, if it did; `duration` is then how far it came.
    pub incomplete: Option<String>,
    /// The controllers of its flows that are not of this program.
    pub guests: Vec<GuestInfo>,
    /// The flows, in the order in which results list them.
    pub flows: Vec<FlowInfo>,
    /// The links; rows of `queue` name them by position.
    pub links: Vec<LinkInfo>,
}

/// A controller that is not of this program: what its code was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestInfo {
    /// The name by which flows name it.
    pub name: String,
    /// What it is written in: `python`, or `c` for whatever was loaded by the C interface.
    pub language: String,
    /// The name of its file.
    pub file: String,
    /// SHA-256 of that file, in hexadecimal.
    pub sha256: String,
}

/// A flow, known before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowInfo {
    /// Its number, by which rows name it.
    pub flow: u32,
    /// Name of its controller.
    pub cc: String,
    /// Its name in plots.
    pub label: String,
    /// When it starts.
    pub start: Instant,
    /// When its application is told to stop, if it is.
    pub stop: Option<Instant>,
    /// Round trip without queues.
    pub base_rtt: Duration,
    /// Payload of a full packet in bytes.
    pub mss: u32,
}

/// A link, as it is at the start.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkInfo {
    /// What plots call it.
    pub name: String,
    /// Its capacity at the start.
    pub capacity: Rate,
    /// The most its queue holds at the start; infinite when it is not counted in bytes.
    pub limit: Bytes,
    /// The flows whose data crosses it; none for a link that carries only acknowledgments.
    pub flows: Vec<u32>,
}
