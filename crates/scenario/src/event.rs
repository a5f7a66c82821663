//! `[[events]]`: what changes on the way.

use paceline_units::{Duration, Gain, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::document::{Node, Value};
use crate::flow::{App, PacketCount};
use crate::impair::{Hold, PolicerChange, Reorder};
use crate::loss::Loss;
use crate::reader::{Read, Reader, choices};

/// A change, and when it happens. Each event happens once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Event {
    /// The moment.
    pub when: When,
    /// What changes on the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
    /// What changes in a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowChange>,
}

/// When an event happens.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// At a time of the run: "10 s".
    At(Duration),
    /// When a flow's controller enters a state: `{ flow = 0, enters = "Drain" }`.
    Enters {
        /// The flow, numbered from 0 in the order of the groups.
        flow: u32,
        /// The state, by the name that the controller gives it.
        state: String,
        /// At which entry, counted from 1.
        nth: u32,
        /// How long after it.
        delay: Duration,
    },
}

/// What changes on the path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PathChange {
    /// The link that changes, by name. Unset: that of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The capacity; it replaces a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateChange>,
    /// The round-trip propagation delay of all flows that have none of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// Which packets are lost on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Drop the next so many packets.
    #[serde(
        serialize_with = "write_optional_packets",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<PacketCount>")]
    pub drop: Option<u32>,
    /// Hold the next so many packets on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Which packets arrive later than in their turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// The probability that a packet arrives twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Gain>,
    /// How much longer a packet may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Duration>,
    /// The token bucket in front of the queue; "off" takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<PolicerChange>,
    /// The time between departures from the link; "0 ms" ends bundling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<Duration>,
    /// The time between arrivals of ACKs; "0 ms" ends bundling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_aggregation: Option<Duration>,
}

/// A new capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateChange {
    /// So much from now on: "5 Mbit/s", and "0 bit/s" for an outage.
    Absolute(Rate),
    /// The capacity in force times this: "-10 %" is 0.9.
    Factor(Gain),
}

impl RateChange {
    /// The capacity after the change, `now` being the one in force.
    pub fn apply(self, now: Rate) -> Rate {
        match self {
            Self::Absolute(rate) => rate,
            Self::Factor(factor) => now * factor,
        }
    }
}

/// What changes in a flow.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FlowChange {
    /// The flow, numbered from 0 in the order of the groups.
    pub flow: u32,
    /// What its application does from now on.
    pub app: AppChange,
}

/// What an application does from now on.
#[derive(Clone, Debug, PartialEq)]
pub enum AppChange {
    /// Write nothing: "pause".
    Pause,
    /// Go on as before the pause: "resume".
    Resume,
    /// Another kind of traffic, written as the `app` of a flow.
    Set(App),
}

impl Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(time) => time.serialize(serializer),
            Self::Enters {
                flow,
                state,
                nth,
                delay,
            } => {
                let mut map = serializer.serialize_map(Some(4))?;
                map.serialize_entry("flow", flow)?;
                map.serialize_entry("enters", state)?;
                map.serialize_entry("nth", nth)?;
                map.serialize_entry("delay", delay)?;
                map.end()
            }
        }
    }
}

impl JsonSchema for When {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "When".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Duration>();
        json_schema!({
            "description": "A time of the run, or a flow's entry into a state",
            "anyOf": [
                time,
                {
                    "type": "object",
                    "properties": { "at": time },
                    "required": ["at"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "properties": {
                        "flow": { "type": "integer", "minimum": 0 },
                        "enters": { "type": "string", "examples": ["Drain"] },
                        "nth": { "type": "integer", "minimum": 1, "default": 1 },
                        "delay": time,
                    },
                    "required": ["flow", "enters"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

impl Serialize for RateChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absolute(rate) => rate.serialize(serializer),
            Self::Factor(factor) => {
                let (sign, change) = match factor.millionths().checked_sub(Gain::SCALE) {
                    Some(more) => ('+', more),
                    None => ('-', Gain::SCALE - factor.millionths()),
                };
                let change = Gain::from_millionths(change);
                serializer.collect_str(&format_args!("{sign}{change}"))
            }
        }
    }
}

impl JsonSchema for RateChange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RateChange".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A rate, or a change of the one in force",
            "examples": ["5 Mbit/s", "-10 %"],
            "anyOf": [
                generator.subschema_for::<Rate>(),
                { "type": "string", "pattern": "^\\s*[-+][0-9]+(\\.[0-9]+)?\\s*%\\s*$" },
            ],
        })
    }
}

impl Serialize for AppChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Pause => serializer.serialize_str("pause"),
            Self::Resume => serializer.serialize_str("resume"),
            Self::Set(app) => app.serialize(serializer),
        }
    }
}

impl JsonSchema for AppChange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AppChange".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What an application does from now on",
            "anyOf": [
                { "enum": ["pause", "resume"] },
                generator.subschema_for::<App>(),
            ],
        })
    }
}

fn write_optional_packets<S: Serializer>(
    count: &Option<u32>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match count {
        Some(count) => crate::flow::write_packets(count, serializer),
        None => serializer.serialize_none(),
    }
}

impl Read for Event {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let when = table.required(
            "when",
            "say when: when = \"10 s\" or when = { flow = 0, enters = \"Drain\" }",
        );
        let path = table.optional("path");
        let flow = table.optional("flow");
        table.finish();
        Some(Self {
            when: when?,
            path,
            flow,
        })
    }
}

impl Read for When {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            return Duration::read(node, key, reader).map(Self::At);
        };
        let at = entries.contains_key("at");
        let mut table = reader.table(node, key, "a time or a flow's state")?;
        if at {
            let time = table.required("at", "");
            table.finish();
            return time.map(Self::At);
        }
        let flow = table.required("flow", "say whose state: { flow = 0, enters = \"Drain\" }");
        let state = table.required("enters", "name the state: { flow = 0, enters = \"Drain\" }");
        let nth = table.or("nth", 1);
        let delay = table.or("delay", Duration::ZERO);
        table.finish();
        Some(Self::Enters {
            flow: flow?,
            state: state?,
            nth,
            delay,
        })
    }
}

impl Read for PathChange {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let change = Self {
            link: table.optional("link"),
            rate: table.optional("rate"),
            rtt: table.optional("rtt"),
            loss: table.optional("loss"),
            drop: table.optional("drop").map(|PacketCount(count)| count),
            hold: table.optional("hold"),
            reorder: table.optional("reorder"),
            duplicate: table.optional("duplicate"),
            jitter: table.optional("jitter"),
            policer: table.optional("policer"),
            aggregation: table.optional("aggregation"),
            ack_aggregation: table.optional("ack_aggregation"),
        };
        table.finish();
        Some(change)
    }
}

impl Read for RateChange {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a rate such as \"5 Mbit/s\" or a change such as \"-10 %\"";
        let text = reader.text(node, key, wanted)?.trim();
        if !text.ends_with('%') {
            return Rate::read(node, key, reader).map(Self::Absolute);
        }
        let (less, change) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
            (Some(change), _) => (true, change),
            (_, Some(change)) => (false, change),
            _ => {
                let hint = format!("say whether it is more or less: \"+{text}\" or \"-{text}\"");
                return reader.bad_value(node, key, wanted, hint);
            }
        };
        let change = match change.starts_with(['-', '+']) {
            true => None,
            false => Gain::parse(change).ok(),
        };
        let factor = change.and_then(|change| match less {
            true => Gain::SCALE.checked_sub(change.millionths()),
            false => Gain::SCALE.checked_add(change.millionths()),
        });
        match factor {
            Some(factor) => Some(Self::Factor(Gain::from_millionths(factor))),
            None => {
                let hint = "no less than \"-100 %\", in steps of 0.0001 %".to_owned();
                reader.bad_value(node, key, wanted, hint)
            }
        }
    }
}

impl Read for FlowChange {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table such as { flow = 0, app = \"pause\" }")?;
        let flow = table.required("flow", "say which flow: { flow = 0, app = \"pause\" }");
        let app = table.required("app", "say what it does: { flow = 0, app = \"pause\" }");
        table.finish();
        Some(Self {
            flow: flow?,
            app: app?,
        })
    }
}

impl Read for AppChange {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Text(text) => match text.as_str() {
                "pause" => Some(Self::Pause),
                "resume" => Some(Self::Resume),
                "bulk" => Some(Self::Set(App::Bulk)),
                _ => {
                    let hint = choices(text, &["pause", "resume", "bulk"], "\"");
                    reader.bad_value(node, key, "what the application does", hint)
                }
            },
            _ => App::read(node, key, reader).map(Self::Set),
        }
    }
}
