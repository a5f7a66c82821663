//! How a queue signals congestion before it is full.

use paceline_units::Gain;
use schemars::JsonSchema;
use serde::Serialize;

use crate::document::Node;
use crate::path::QueueSize;
use crate::reader::{Read, Reader};

/// Step marking, as DCTCP asks for (RFC 8257 section 3.1). Packets that are not ECN-capable pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct StepMark {
    /// What may wait, the packet itself included, or how long a packet may.
    pub threshold: QueueSize,
}

/// Random early detection (Floyd and Jacobson 1993).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Red {
    /// The average queue below which all pass.
    pub min: QueueSize,
    /// The average queue from which on all are dropped, unless it is gentle.
    pub max: QueueSize,
    /// The probability of a signal as the average reaches `max`.
    #[schemars(default = "default_probability")]
    pub probability: Gain,
    /// The weight of the queue that a packet finds in the average.
    #[schemars(default = "default_weight")]
    pub weight: Gain,
    /// Whether ECN-capable packets are marked instead of dropped where not all are dropped.
    #[schemars(default = "crate::flow::yes")]
    pub ecn: bool,
    /// Whether the probability goes on from `max` to one at twice that, instead of jumping there.
    #[schemars(default)]
    pub gentle: bool,
}

/// `max_p`: one in ten.
pub(crate) fn default_probability() -> Gain {
    Gain::from_millionths(100_000)
}

/// `w_q`: the paper's 0.002.
pub(crate) fn default_weight() -> Gain {
    Gain::from_millionths(2_000)
}

impl Read for StepMark {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table such as { threshold = \"100 kB\" }")?;
        let threshold = table.required(
            "threshold",
            "say from where on: threshold = \"100 kB\", \"65 packets\" or \"50 us\"",
        );
        table.finish();
        Some(Self {
            threshold: threshold?,
        })
    }
}

impl Read for Red {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a table such as { min = \"30 kB\", max = \"90 kB\" }";
        let mut table = reader.table(node, key, wanted)?;
        let min = table.required("min", "say below which average all pass: min = \"30 kB\"");
        let max = table.required(
            "max",
            "say from which average all are dropped: max = \"90 kB\"",
        );
        let probability = table.or("probability", default_probability());
        let weight = table.or("weight", default_weight());
        let ecn = table.or("ecn", crate::flow::yes());
        let gentle = table.or("gentle", false);
        table.finish();
        Some(Self {
            min: min?,
            max: max?,
            probability,
            weight,
            ecn,
            gentle,
        })
    }
}
