//! What goes wrong on the path, besides loss.

use paceline_units::{Bytes, Duration, Gain, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::document::{Node, Value};
use crate::reader::{Read, Reader, choices};

/// Some packets arrive later than in their turn, and others overtake them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Reorder {
    /// How likely a packet is to be one of them, independently of all others.
    pub probability: Gain,
    /// How much later it arrives.
    pub delay: Duration,
}

/// A token bucket in front of the queue: what finds no tokens is dropped at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Policer {
    /// How fast tokens come.
    pub rate: Rate,
    /// The most that the bucket holds; it is full at the start.
    pub burst: Bytes,
}

/// The policer from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicerChange {
    /// None: "off".
    Off,
    /// This one, with a full bucket.
    Set(Policer),
}

/// The next packets are held on the way, and others overtake them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Hold {
    /// How many of those that the queue accepts.
    pub packets: u32,
    /// How much later than in their turn they arrive, in their order.
    pub delay: Duration,
}

impl Serialize for PolicerChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::Set(policer) => policer.serialize(serializer),
        }
    }
}

impl JsonSchema for PolicerChange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PolicerChange".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A policer from now on, or none",
            "anyOf": [{ "const": "off" }, generator.subschema_for::<Policer>()],
        })
    }
}

impl Read for Reorder {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a table such as { probability = \"1 %\", delay = \"20 ms\" }";
        let mut table = reader.table(node, key, wanted)?;
        let probability =
            table.required("probability", "say how many packets: probability = \"1 %\"");
        let delay = table.required("delay", "say how much later they arrive: delay = \"20 ms\"");
        table.finish();
        Some(Self {
            probability: probability?,
            delay: delay?,
        })
    }
}

impl Read for Policer {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a table such as { rate = \"10 Mbit/s\", burst = \"100 kB\" }";
        let mut table = reader.table(node, key, wanted)?;
        let rate = table.required("rate", "say how fast tokens come: rate = \"10 Mbit/s\"");
        let burst = table.required("burst", "say what the bucket holds: burst = \"100 kB\"");
        table.finish();
        Some(Self {
            rate: rate?,
            burst: burst?,
        })
    }
}

impl Read for PolicerChange {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "\"off\" or a table such as { rate = \"10 Mbit/s\", burst = \"100 kB\" }";
        match &node.value {
            Value::Text(text) if text == "off" => Some(Self::Off),
            Value::Text(text) => {
                let hint = choices(text, &["off"], "\"");
                reader.bad_value(node, key, wanted, hint)
            }
            Value::Table(_) => Policer::read(node, key, reader).map(Self::Set),
            _ => reader.wrong_type(node, key, wanted),
        }
    }
}

impl Read for Hold {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a table such as { packets = 3, delay = \"60 ms\" }";
        let mut table = reader.table(node, key, wanted)?;
        let packets = table.required("packets", "say how many: packets = 3");
        let delay = table.required("delay", "say how much later they arrive: delay = \"60 ms\"");
        table.finish();
        Some(Self {
            packets: packets?,
            delay: delay?,
        })
    }
}
