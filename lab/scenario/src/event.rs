//! `[[events]]`: changes during the run.

use paceline_derive::Section;
use paceline_units::{Duration, Gain, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::app::AppChange;
use crate::bounds::time;
use crate::document::{Node, Value};
use crate::engines::ALL;
use crate::limits;
use crate::link::LinkKeyChanges;
use crate::reader::{Read, Reader};
use crate::scenario::Scenario;
use crate::section::Key;

impl Key for When {}
impl Key for RateChange {}
impl Key for Vec<Event> {}

/// A change, and when it happens. Each event happens once.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table")]
pub struct Event {
    /// The moment.
    #[key(needs = "say when: when = \"10 s\" or when = { flow = 0, enters = \"Drain\" }")]
    pub when: When,
    /// How long the change lasts; then the previous value is restored. Unset: until the run
    /// ends, or another event changes it.
    #[key(bound = time(limits::MAX_DURATION), on = ALL)]
    pub r#for: Option<Duration>,
    /// Changes of the path.
    #[key(on = ALL)]
    pub path: Option<PathChange>,
    /// Changes of a flow.
    #[key(on = ALL)]
    pub flow: Option<FlowChange>,
}

/// The changes of the path.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table")]
pub struct PathChange {
    /// The link that changes, by name. Unset: that of the path.
    #[key(on = ALL)]
    pub link: Option<String>,
    /// The capacity; it replaces a trace.
    #[key(on = ALL)]
    pub rate: Option<RateChange>,
    /// The round-trip propagation delay of all flows without their own `rtt`.
    #[key(bound = time(limits::MAX_RTT), on = ALL)]
    pub rtt: Option<Duration>,
    /// Changes of the link.
    #[key(default = LinkKeyChanges::default(), on = ALL)]
    pub keys: LinkKeyChanges,
    /// Changes of the link's return direction.
    #[key(on = ALL)]
    pub r#return: Option<ReturnChange>,
}

/// The changes of a link's return direction.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table such as { loss = \"1 %\" }")]
pub struct ReturnChange {
    /// The capacity; it replaces a trace.
    #[key(on = ALL)]
    pub rate: Option<RateChange>,
    /// Changes of the link.
    #[key(default = LinkKeyChanges::default(), on = ALL)]
    pub keys: LinkKeyChanges,
}

/// The changes of one direction of a link.
#[derive(Clone, Copy)]
pub struct DirectionChange<'c> {
    /// Its number (see [`Scenario::return_number`]).
    pub number: usize,
    /// The key of its table in an event.
    pub at: &'static str,
    /// The capacity.
    pub rate: Option<RateChange>,
    /// The other keys.
    pub keys: &'c LinkKeyChanges,
}

impl PathChange {
    /// The changes of the link, and of its return direction if it has one.
    pub fn directions(
        &self,
        scenario: &Scenario,
    ) -> impl Iterator<Item = DirectionChange<'_>> + use<'_> {
        let named = self.link.as_ref();
        let number = named.and_then(|name| scenario.link_number(name));
        let number = number.unwrap_or(0);
        let forward = DirectionChange {
            number,
            at: "path",
            rate: self.rate,
            keys: &self.keys,
        };
        let back = self.r#return.as_ref().zip(scenario.return_number(number));
        let back = back.map(|(change, number)| DirectionChange {
            number,
            at: "path.return",
            rate: change.rate,
            keys: &change.keys,
        });
        std::iter::once(forward).chain(back)
    }
}

/// The changes of a flow.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table such as { flow = 0, app = \"pause\" }")]
pub struct FlowChange {
    /// The flow, numbered from 0 in the order of the groups.
    #[key(needs = "say which flow: { flow = 0, app = \"pause\" }")]
    pub flow: u32,
    /// Its application's workload from now on.
    #[key(needs = "say what it does: { flow = 0, app = \"pause\" }")]
    pub app: AppChange,
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
        /// The entry, counted from 1.
        nth: u32,
        /// Delay after it.
        delay: Duration,
    },
}

/// A new capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateChange {
    /// The new rate: "5 Mbit/s", or "0 bit/s" for an outage.
    Absolute(Rate),
    /// The current capacity times this factor: "-10 %" is 0.9.
    Factor(Gain),
}

impl RateChange {
    /// The capacity after the change; `now` is the current one.
    pub fn apply(self, now: Rate) -> Rate {
        match self {
            Self::Absolute(rate) => rate,
            Self::Factor(factor) => now * factor,
        }
    }
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
