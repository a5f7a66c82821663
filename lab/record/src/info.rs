//! The description of a run, known before it starts.

use serde::{Deserialize, Serialize};

use paceline_units::{Bytes, Duration, Instant, Rate};

/// The description of a run, known before it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Name of the scenario.
    pub scenario: String,
    /// The resolved scenario: TOML with every default written.
    pub scenario_toml: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// The engine: `sim` or `emu`.
    pub backend: String,
    /// Version of the program.
    pub version: String,
    /// Length of the run, from [`Instant::ZERO`].
    pub duration: Duration,
    /// Time between two rows of `samples` of one flow, and of `queue` of one link.
    pub sample_interval: Duration,
    /// Payload over wire bytes of a full packet: the share of a link's capacity that can be goodput.
    /// The greatest of the flows'.
    pub payload_ratio: f64,
    /// The same of each flow, in their order; none if all have the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub payload_ratios: Vec<f64>,
    /// Why it stopped early, if it did; `duration` is then the time it reached.
    pub incomplete: Option<String>,
    /// The controllers of its flows that come from outside this program.
    pub guests: Vec<GuestInfo>,
    /// The flows, in the order in which results list them.
    pub flows: Vec<FlowInfo>,
    /// The links; rows of `queue` name them by position.
    pub links: Vec<LinkInfo>,
}

impl RunInfo {
    /// Payload over wire bytes of a full packet of a flow, by its position.
    pub fn payload_ratio_of(&self, flow: usize) -> f64 {
        let own = self.payload_ratios.get(flow).copied();
        own.unwrap_or(self.payload_ratio)
    }

    /// Sets the payload over wire bytes of full packets, flow by flow.
    pub fn set_payload_ratios(&mut self, ratios: Vec<f64>) {
        self.payload_ratio = ratios.iter().copied().fold(0.0, f64::max);
        self.payload_ratios = match ratios.iter().all(|ratio| *ratio == self.payload_ratio) {
            true => Vec::new(),
            false => ratios,
        };
    }
}

/// A controller from outside this program: where its code came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestInfo {
    /// The name that flows use for it.
    pub name: String,
    /// Its language: `python`, or `c` for anything loaded through the C interface.
    pub language: String,
    /// The name of its file.
    pub file: String,
    /// SHA-256 of that file, in hexadecimal.
    pub sha256: String,
}

/// A flow, known before it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowInfo {
    /// Its number, used in rows.
    pub flow: u32,
    /// Name of its controller.
    pub cc: String,
    /// Its name in plots.
    pub label: String,
    /// When it starts.
    pub start: Instant,
    /// When its application is told to stop, if it is.
    pub stop: Option<Instant>,
    /// RTT without queues.
    pub base_rtt: Duration,
    /// Payload of a full packet in bytes.
    pub mss: u32,
}

/// A link, as it is at the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkInfo {
    /// Its name in plots.
    pub name: String,
    /// Its capacity at the start.
    pub capacity: Rate,
    /// The maximum of its queue at the start; infinite if it is not limited in bytes.
    pub limit: Bytes,
    /// The flows whose data crosses it; none for a link that carries only acknowledgments.
    pub flows: Vec<u32>,
    /// The position of the link whose return direction it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_of: Option<u32>,
}
