//! `[path]`: the bottleneck.

use std::path::PathBuf;

use paceline_units::{Bytes, Duration, Gain, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::document::{Node, Value};
use crate::flow::zero;
use crate::impair::{Policer, Reorder};
use crate::loss::Loss;
use crate::queue::Queue;
use crate::reader::{Read, Reader, choices, unit_hint};

/// The bottleneck that all flows share.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PathSection {
    /// The name of its link, for routes.
    #[schemars(default = "default_link")]
    pub name: String,
    /// Its capacity: fixed, or a recorded trace.
    pub rate: RateSource,
    /// Round-trip propagation delay.
    pub rtt: Duration,
    /// The queue in front of it.
    pub queue: Queue,
    /// Which packets are lost on the way.
    #[schemars(default = "crate::loss::none")]
    pub loss: Loss,
    /// Some packets arrive later than in their turn. Unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// The probability that a packet arrives twice, independently of all others.
    #[schemars(default = "no_loss")]
    pub duplicate: Gain,
    /// Each packet takes up to this longer, uniform and seeded, but overtakes none.
    #[schemars(default = "zero")]
    pub jitter: Duration,
    /// A token bucket in front of the queue. Unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<Policer>,
    /// What has left the queue waits for the next multiple of this time, and goes on together.
    #[schemars(default = "zero")]
    pub aggregation: Duration,
    /// ACKs wait for the next multiple of this time, and come back together.
    #[schemars(default = "zero")]
    pub ack_aggregation: Duration,
    /// The largest IP packet, headers included.
    #[schemars(default = "default_mtu")]
    pub mtu: Bytes,
}

/// Where the capacity comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RateSource {
    /// The same until an event changes it.
    Fixed(Rate),
    /// Delivery opportunities from a file in mahimahi's format.
    Trace {
        /// The file, relative to the scenario's folder; see [`crate::Scenario::trace_path`].
        trace: PathBuf,
    },
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSize {
    /// A volume: "250 kB".
    Bytes(Bytes),
    /// A number of packets of any size: "165 packets".
    Packets(u64),
    /// A multiple of the bandwidth-delay product: "0.1 bdp".
    Bdp {
        /// The multiple, in millionths.
        millionths: u64,
    },
    /// What the bottleneck sends in this time: "40 ms".
    Time(Duration),
}

impl QueueSize {
    /// The size in bytes at a bottleneck of `rate`, `rtt` and `mtu`, rounded down, but never less
    /// than one packet of `mtu` bytes: a smaller queue would pass nothing.
    pub fn to_bytes(self, rate: Rate, rtt: Duration, mtu: Bytes) -> Bytes {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::Packets(packets) => mtu * packets,
            Self::Bdp { millionths } => {
                let bdp = u128::from(rate.volume_in(rtt).get());
                let scaled = bdp * u128::from(millionths) / u128::from(Gain::SCALE);
                Bytes::new(u64::try_from(scaled).unwrap_or(u64::MAX))
            }
            Self::Time(time) => rate.volume_in(time),
        };
        bytes.max(mtu)
    }
}

pub(crate) fn no_loss() -> Gain {
    Gain::from_millionths(0)
}

pub(crate) fn default_link() -> String {
    "bottleneck".to_owned()
}

pub(crate) fn default_mtu() -> Bytes {
    Bytes::new(1500)
}

impl Serialize for QueueSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(bytes) => bytes.serialize(serializer),
            Self::Packets(packets) => serializer.collect_str(&format_args!("{packets} packets")),
            Self::Bdp { millionths } => {
                let (whole, rest) = (millionths / 1_000_000, millionths % 1_000_000);
                let text = format!("{whole}.{rest:06}");
                let text = text.trim_end_matches('0').trim_end_matches('.');
                serializer.collect_str(&format_args!("{text} bdp"))
            }
            Self::Time(time) => time.serialize(serializer),
        }
    }
}

impl JsonSchema for RateSource {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RateSource".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A fixed rate, or a trace in mahimahi's format",
            "anyOf": [
                generator.subschema_for::<Rate>(),
                {
                    "type": "object",
                    "properties": { "trace": {
                        "type": "string",
                        "description": "The file, relative to the scenario's folder",
                    } },
                    "required": ["trace"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

impl JsonSchema for QueueSize {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "QueueSize".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A multiple of the bandwidth-delay product, packets, a volume or a time",
            "examples": ["1 bdp", "165 packets", "250 kB", "40 ms"],
            "anyOf": [
                { "type": "string", "pattern": "^\\s*[0-9]+(\\.[0-9]+)?\\s*bdp\\s*$" },
                { "type": "string", "pattern": "^\\s*[0-9]+\\s*packets?\\s*$" },
                generator.subschema_for::<Bytes>(),
                generator.subschema_for::<Duration>(),
            ],
        })
    }
}

impl Read for PathSection {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let name = table.or("name", default_link());
        let rate = table.required(
            "rate",
            "say how fast the bottleneck is: rate = \"50 Mbit/s\" or rate = { trace = \"FILE\" }",
        );
        let rtt = table.required("rtt", "say how long a round trip is: rtt = \"40 ms\"");
        let queue = table.required("queue", QUEUE_NEEDS_SIZE);
        let loss = table.or("loss", Loss::NONE);
        let reorder = table.optional("reorder");
        let duplicate = table.or("duplicate", no_loss());
        let jitter = table.or("jitter", zero());
        let policer = table.optional("policer");
        let aggregation = table.or("aggregation", zero());
        let ack_aggregation = table.or("ack_aggregation", zero());
        let mtu = table.or("mtu", default_mtu());
        table.finish();
        Some(Self {
            name,
            rate: rate?,
            rtt: rtt?,
            queue: queue?,
            loss,
            reorder,
            duplicate,
            jitter,
            policer,
            aggregation,
            ack_aggregation,
            mtu,
        })
    }
}

pub(crate) const QUEUE_NEEDS_SIZE: &str = "a queue needs a size, because results depend on it: \
    queue = { kind = \"droptail\", size = \"1 bdp\" }; \
    other sizes: \"165 packets\", \"250 kB\", \"40 ms\"";

impl Read for RateSource {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        if !matches!(node.value, Value::Table(_)) {
            return Rate::read(node, key, reader).map(Self::Fixed);
        }
        let mut table = reader.table(node, key, "a rate or a trace")?;
        let trace = table.required("trace", "name the file: rate = { trace = \"FILE\" }");
        table.finish();
        Some(Self::Trace { trace: trace? })
    }
}

impl Read for QueueSize {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a size such as \"1 bdp\", \"165 packets\", \"250 kB\" or \"40 ms\"";
        let text = reader.text(node, key, wanted)?.trim();
        let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
        let number = number.trim();
        let size = match unit {
            "packet" | "packets" => number
                .parse()
                .map(Self::Packets)
                .map_err(|_| "packets are counted in whole numbers".to_owned()),
            // A megabyte is a million: the multiple in millionths, exactly.
            "bdp" => Bytes::parse(&format!("{number} MB"))
                .map(|millions| Self::Bdp {
                    millionths: millions.get(),
                })
                .map_err(|_| "a bdp takes a decimal number with at most 6 places".to_owned()),
            _ => match (Bytes::parse(text), Duration::parse(text)) {
                (Ok(bytes), _) => Ok(Self::Bytes(bytes)),
                (_, Ok(time)) => Ok(Self::Time(time)),
                (Err(volume), Err(time)) => {
                    let unknown = paceline_units::ParseErrorKind::UnknownUnit;
                    let mut units = vec!["bdp", "packets"];
                    units.extend(volume.units().chain(time.units()));
                    Err(if unit.is_empty() {
                        format!("the unit is missing; {}", choices("", &units, "\""))
                    } else if volume.kind() == unknown && time.kind() == unknown {
                        choices(unit, &units, "\"")
                    } else if volume.kind() == unknown {
                        unit_hint(text, &time)
                    } else {
                        unit_hint(text, &volume)
                    })
                }
            },
        };
        match size {
            Ok(size) => Some(size),
            Err(hint) => reader.bad_value(node, key, wanted, hint),
        }
    }
}
