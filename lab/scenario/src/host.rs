//! The delays that the ends of a flow add to its RTT.

use paceline_derive::Section;
use paceline_units::Duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::bounds::{Problems, below, packets};
use crate::document::{Node, Value};
use crate::engines::ALL;
use crate::limits;
use crate::packets::Packets;
use crate::reader::{Read, Reader};
use crate::section::Key;

/// The hosts at both ends of a flow. Packets and ACKs of one flow keep their order in them.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table such as { receive = \"20 us\" }")]
pub struct HostSection {
    /// From the pacer's release of a packet to the sender's NIC.
    #[key(default = Delay::NONE, on = ALL)]
    pub send: Delay,
    /// From the receiver's NIC to its TCP.
    #[key(default = Delay::NONE, on = ALL)]
    pub receive: Delay,
    /// From the receiver's decision to acknowledge to the release of the ACK.
    #[key(default = Delay::NONE, on = ALL)]
    pub ack: Delay,
    /// From the sender's NIC to its TCP, for ACKs.
    #[key(default = Delay::NONE, on = ALL)]
    pub ack_receive: Delay,
    /// Generic receive offload: packets that arrive together are delivered and acknowledged
    /// together. Unset: off.
    #[key(on = ALL)]
    pub gro: Option<Gro>,
    /// Whether RTTs end as the ACK reaches the sender's NIC, and the delay that the receiver
    /// reports begins as the data reaches its NIC. If not, both are taken in TCP.
    #[key(default = true, on = ALL)]
    pub nic_timestamps: bool,
}

/// Generic receive offload: a batch is passed up when it is full or its time is over.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table such as { time = \"20 us\" }")]
pub struct Gro {
    /// The maximum time that its first packet waits for others.
    #[key(needs = "say how long a packet waits: time = \"20 us\"", bound = below(limits::MAX_RTT))]
    pub time: Duration,
    /// The maximum number of packets.
    #[key(default = BATCH, bound = packets(u64::from(u32::MAX)), on = ALL)]
    pub packets: Packets,
}

/// 64 kB of full packets, as in Linux.
const BATCH: Packets = Packets(44);

/// A time, or a distribution of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Always the same: "50 us".
    Fixed(Duration),
    /// Uniform: `{ min = "10 us", max = "50 us" }`.
    Uniform {
        /// The minimum.
        min: Duration,
        /// The maximum.
        max: Duration,
    },
    /// Exponential: `{ mean = "20 us" }`.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// Normal, with values below zero drawn again: `{ mean = "50 us", deviation = "10 us" }`.
    Normal {
        /// The mean, before values below zero are excluded.
        mean: Duration,
        /// The standard deviation, likewise.
        deviation: Duration,
    },
}

impl Delay {
    /// No delay.
    pub const NONE: Self = Self::Fixed(Duration::ZERO);

    /// The longest of the host's delays.
    pub fn greatest(self) -> Duration {
        match self {
            Self::Fixed(time) | Self::Exponential { mean: time } => time,
            Self::Uniform { min, max } => min.max(max),
            Self::Normal { mean, deviation } => mean.max(deviation),
        }
    }
}

impl Serialize for Delay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = match self {
            Self::Fixed(time) => return time.serialize(serializer),
            Self::Uniform { min, max } => vec![("min", min), ("max", max)],
            Self::Exponential { mean } => vec![("mean", mean)],
            Self::Normal { mean, deviation } => vec![("mean", mean), ("deviation", deviation)],
        };
        let mut map = serializer.serialize_map(Some(pairs.len()))?;
        for (key, time) in pairs {
            map.serialize_entry(key, time)?;
        }
        map.end()
    }
}

impl JsonSchema for Delay {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Delay".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Duration>();
        let table = |keys: &[&str], required: &[&str]| {
            let properties: serde_json::Map<String, serde_json::Value> = keys
                .iter()
                .map(|key| ((*key).to_owned(), time.clone().into()))
                .collect();
            json_schema!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            })
        };
        json_schema!({
            "description": "A time; or a uniform, exponential or truncated normal distribution",
            "examples": ["50 us"],
            "anyOf": [
                time,
                table(&["min", "max"], &["max"]),
                table(&["mean", "deviation"], &["mean"]),
            ],
        })
    }
}

impl Read for Delay {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            return Duration::read(node, key, reader).map(Self::Fixed);
        };
        let uniform = entries.contains_key("min") || entries.contains_key("max");
        let wanted = "a time or a distribution such as { mean = \"20 us\" }";
        let mut table = reader.table(node, key, wanted)?;
        if uniform {
            let min = table.get("min").flatten().unwrap_or(Duration::ZERO);
            let max = table.required("max", "say the most: { min = \"10 us\", max = \"50 us\" }");
            table.finish();
            return Some(Self::Uniform { min, max: max? });
        }
        let mean = table.required("mean", "say the mean: { mean = \"20 us\" }");
        let deviation = table.optional("deviation");
        table.finish();
        let mean = mean?;
        Some(match deviation {
            Some(deviation) => Self::Normal { mean, deviation },
            None => Self::Exponential { mean },
        })
    }
}

impl Key for Delay {
    fn check(&self, key: &str, problems: &mut Problems) {
        problems.below(key, self.greatest(), limits::MAX_RTT);
        if let Self::Uniform { min, max } = self
            && min > max
        {
            let message = format!("`{key}.min` is {min}, more than `max`, {max}");
            problems.bad(&format!("{key}.min"), message, "from the least to the most");
        }
    }
}
