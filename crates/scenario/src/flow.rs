//! `[[flows]]`: who sends.

use std::collections::BTreeMap;

use paceline_units::{Bytes, Duration, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::document::{Node, Value};
use crate::ecn::EcnKind;
use crate::host::HostSection;
use crate::reader::{Read, Reader, describe, join};

/// One flow, or several alike.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FlowGroup {
    /// The congestion controller, by name, with options if it is a table.
    pub cc: ControllerChoice,
    /// How many flows. Flows are numbered from 0 in the order of the groups.
    #[schemars(default = "default_count")]
    pub count: u32,
    /// When the first of them starts.
    #[schemars(default = "zero")]
    pub start: Duration,
    /// Each flow starts later by a random time up to this, uniform and seeded.
    #[schemars(default = "zero")]
    pub start_jitter: Duration,
    /// Each flow starts later than the one before it by this.
    #[schemars(default = "zero")]
    pub stagger: Duration,
    /// When they stop, in time of the run. Unset: at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Duration>,
    /// Round-trip propagation delay of these flows. Unset: that of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// The links that their data crosses, by name and in order. Unset: that of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Vec<String>>,
    /// What the application sends.
    #[schemars(default)]
    pub app: App,
    /// The congestion window at the start.
    #[serde(serialize_with = "write_packets")]
    #[schemars(with = "PacketCount", default = "default_initial_window_text")]
    pub initial_window: u32,
    /// When the receiver acknowledges.
    #[schemars(default)]
    pub ack: AckPolicy,
    /// How the sender recovers from loss.
    #[schemars(with = "RecoveryChoice", default)]
    pub recovery: RecoverySection,
    /// What the hosts at both ends add. Unset: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSection>,
    /// How the receiver reports congestion marks. Whether packets can be marked is the
    /// controller's choice.
    #[schemars(default)]
    pub ecn: EcnKind,
    /// How much the receiver is willing to hold.
    #[schemars(default = "default_receive_window")]
    pub receive_window: Bytes,
    /// IP and TCP headers of a packet: its payload is the path's `mtu` less this.
    #[schemars(default = "default_header")]
    pub header: Bytes,
    /// Whether round trips and the receiver's delay come by the ETS option (draft-yang-tcpm-ets),
    /// in its units. An ACK then holds two SACK ranges at most, and the header has 56 bytes where
    /// plain timestamps have 52.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub ets: bool,
    /// The most that is sent at once. Unset: what the controller asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_burst: Option<Bytes>,
    /// A name for plots and tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A controller and its options. Which names and options exist is not known here.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerChoice {
    /// The controller's name.
    pub name: String,
    /// Its options, as written.
    pub options: BTreeMap<String, OptionInput>,
}

/// The value of a controller's option, before the controller has judged it.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionInput {
    /// A yes or no.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction, rounded to millionths.
    Millionths(i64),
    /// A text, such as a quantity with its unit.
    Text(String),
}

/// What an application sends.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum App {
    /// As much as it can, for ever: "bulk".
    #[default]
    Bulk,
    /// A number of bytes: `{ size = "10 MB" }`.
    Sized {
        /// How many.
        size: Bytes,
    },
    /// At most so fast, for ever: `{ rate = "5 Mbit/s" }`.
    Limited {
        /// How fast.
        rate: Rate,
    },
    /// By turns active and silent: `{ on = "1 s", off = "2 s" }`.
    OnOff {
        /// How long it is active.
        on: Duration,
        /// How long it is silent.
        off: Duration,
        /// How fast while active. Unset: as much as it can.
        rate: Option<Rate>,
    },
}

/// When the receiver acknowledges.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AckPolicy {
    /// One ACK for so many packets.
    #[serde(serialize_with = "write_packets")]
    #[schemars(with = "PacketCount", default = "default_ack_every_text")]
    pub every: u32,
    /// The longest that an ACK is held back.
    #[schemars(default = "default_ack_delay")]
    pub delay: Duration,
    /// So many packets at the start are acknowledged at once, one by one.
    #[serde(serialize_with = "write_packets")]
    #[schemars(with = "PacketCount", default = "default_ack_quick_text")]
    pub quick: u32,
    /// How long ACKs of what is out of order are held back once three have told of the same gap:
    /// Linux's `tcp_comp_sack_delay_ns`, which is 1 ms, but a twentieth of the flow's base RTT at the
    /// most, and 100 us by which its timer slips. Unset: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comp_sack_delay: Option<Duration>,
    /// Whether packets with PSH are acknowledged at once, as Linux does since 6.6, and are sent as Linux sends them: the last
    /// of what the application has written, and the last of each burst of two or more that segmentation offload takes (1/1024
    /// s at the pacing rate, at least two packets).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub pushed: bool,
}

/// How the sender recovers from loss. Also written as the `kind` alone.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RecoverySection {
    /// How losses are found, and how the window falls.
    #[schemars(default)]
    pub kind: RecoveryKind,
    /// The shortest retransmission timeout.
    #[schemars(default = "default_min_rto")]
    pub min_rto: Duration,
    /// Whether a tail loss probe is sent (RFC 8985 section 7).
    #[schemars(default = "yes")]
    pub tlp: bool,
    /// Whether what arrives after a timeout may show it to be spurious (F-RTO, RFC 5682).
    #[schemars(default = "yes")]
    pub f_rto: bool,
    /// Whether timestamps (RFC 3522) and DSACKs may show losses to be spurious.
    #[schemars(default = "yes")]
    pub undo: bool,
    /// Whether new data goes on the first duplicates (RFC 3042).
    #[schemars(default = "yes")]
    pub limited_transmit: bool,
}

/// How losses are found, and how the window falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryKind {
    /// RACK-TLP (RFC 8985) and proportional rate reduction (RFC 9937).
    #[default]
    RackPrr,
    /// The same with the conservative bound of RFC 6937.
    RackPrrCrb,
    /// The same with the slow-start bound of RFC 6937.
    RackPrrSsrb,
    /// RACK-TLP, the window falls at once, and again when retransmissions are lost (RFC 5681 4.3).
    Rack,
    /// SACK without RACK (RFC 6675): a lost retransmission waits for the timeout.
    Sack,
    /// No SACK (RFC 6582, impatient): one segment a round trip.
    Newreno,
}

impl RecoveryKind {
    const WORDS: [(&str, Self); 6] = [
        ("rack-prr", Self::RackPrr),
        ("rack-prr-crb", Self::RackPrrCrb),
        ("rack-prr-ssrb", Self::RackPrrSsrb),
        ("rack", Self::Rack),
        ("sack", Self::Sack),
        ("newreno", Self::Newreno),
    ];
}

/// How the sender recovers from loss: a kind, or a table of its options.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "Recovery")]
#[expect(dead_code, reason = "describes what is read")]
enum RecoveryChoice {
    Kind(RecoveryKind),
    Section(RecoverySection),
}

impl Default for AckPolicy {
    fn default() -> Self {
        Self {
            every: 2,
            delay: default_ack_delay(),
            quick: 16,
            comp_sack_delay: None,
            pushed: false,
        }
    }
}

impl Default for RecoverySection {
    fn default() -> Self {
        Self {
            kind: RecoveryKind::default(),
            min_rto: default_min_rto(),
            tlp: yes(),
            f_rto: yes(),
            undo: yes(),
            limited_transmit: yes(),
        }
    }
}

pub(crate) const DEFAULT_INITIAL_WINDOW: u32 = 10;

pub(crate) fn default_count() -> u32 {
    1
}

pub(crate) fn zero() -> Duration {
    Duration::ZERO
}

pub(crate) fn yes() -> bool {
    true
}

pub(crate) fn default_ack_delay() -> Duration {
    Duration::from_millis(40)
}

pub(crate) fn default_min_rto() -> Duration {
    Duration::from_millis(200)
}

pub(crate) fn default_receive_window() -> Bytes {
    Bytes::new(1 << 30)
}

/// 20 bytes of IPv4, 20 of TCP, 12 of timestamps.
pub(crate) fn default_header() -> Bytes {
    Bytes::new(52)
}

fn default_initial_window_text() -> String {
    packets(DEFAULT_INITIAL_WINDOW)
}

fn default_ack_every_text() -> String {
    packets(AckPolicy::default().every)
}

fn default_ack_quick_text() -> String {
    packets(AckPolicy::default().quick)
}

pub(crate) fn packets(count: u32) -> String {
    format!("{count} packet{}", if count == 1 { "" } else { "s" })
}

pub(crate) fn write_packets<S: Serializer>(count: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&packets(*count))
}

/// How a number of packets is written: "10 packets".
pub(crate) struct PacketCount(pub(crate) u32);

impl JsonSchema for PacketCount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Packets".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A number of packets such as \"10 packets\"",
            "pattern": "^\\s*[0-9]+\\s*packets?\\s*$",
            "examples": ["10 packets"],
        })
    }
}

impl Serialize for OptionInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Millionths(millionths) => serializer.serialize_f64(*millionths as f64 / 1e6),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl Serialize for ControllerChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.options.is_empty() {
            return serializer.serialize_str(&self.name);
        }
        let mut map = serializer.serialize_map(Some(1 + self.options.len()))?;
        map.serialize_entry("name", &self.name)?;
        for (key, value) in &self.options {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl JsonSchema for ControllerChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Controller".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A congestion controller: its name, or a table of its name and options",
            "examples": ["bbr3"],
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": { "name": { "type": "string" } },
                    "required": ["name"],
                    "additionalProperties": { "type": ["boolean", "number", "string"] },
                },
            ],
        })
    }
}

impl Serialize for App {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::Bulk {
            return serializer.serialize_str("bulk");
        }
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Bulk => {}
            Self::Sized { size } => map.serialize_entry("size", size)?,
            Self::Limited { rate } => map.serialize_entry("rate", rate)?,
            Self::OnOff { on, off, rate } => {
                map.serialize_entry("on", on)?;
                map.serialize_entry("off", off)?;
                if let Some(rate) = rate {
                    map.serialize_entry("rate", rate)?;
                }
            }
        }
        map.end()
    }
}

impl JsonSchema for App {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "App".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = generator.subschema_for::<Bytes>();
        let rate = generator.subschema_for::<Rate>();
        let time = generator.subschema_for::<Duration>();
        json_schema!({
            "description": "What an application sends",
            "examples": ["bulk"],
            "anyOf": [
                { "const": "bulk" },
                {
                    "type": "object",
                    "properties": { "size": size },
                    "required": ["size"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "properties": { "rate": rate },
                    "required": ["rate"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "properties": { "on": time, "off": time, "rate": rate },
                    "required": ["on", "off"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

impl Read for FlowGroup {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let cc = table.required("cc", "name the controller: cc = \"bbr3\"");
        let group = Self {
            cc: ControllerChoice {
                name: String::new(),
                options: BTreeMap::new(),
            },
            count: table.or("count", default_count()),
            start: table.or("start", zero()),
            start_jitter: table.or("start_jitter", zero()),
            stagger: table.or("stagger", zero()),
            stop: table.optional("stop"),
            rtt: table.optional("rtt"),
            route: table.optional("route"),
            app: table.or("app", App::default()),
            initial_window: table
                .or("initial_window", PacketCount(DEFAULT_INITIAL_WINDOW))
                .0,
            ack: table.or("ack", AckPolicy::default()),
            recovery: table.or("recovery", RecoverySection::default()),
            host: table.optional("host"),
            ecn: table.or("ecn", EcnKind::default()),
            receive_window: table.or("receive_window", default_receive_window()),
            header: table.or("header", default_header()),
            ets: table.or("ets", false),
            max_burst: table.optional("max_burst"),
            label: table.optional("label"),
        };
        table.finish();
        Some(Self { cc: cc?, ..group })
    }
}

impl Read for ControllerChoice {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        if let Value::Text(name) = &node.value {
            return Some(Self {
                name: name.clone(),
                options: BTreeMap::new(),
            });
        }
        let wanted = "a controller: a name, or a table such as { name = \"bbr3\" }";
        let mut table = reader.table(node, key, wanted)?;
        let name = table.required("name", "name the controller: cc = { name = \"bbr3\" }");
        let mut options = BTreeMap::new();
        for (option, node) in table.others() {
            let value = OptionInput::read(node, &join(key, option), table.reader)?;
            options.insert(option.clone(), value);
        }
        Some(Self {
            name: name?,
            options,
        })
    }
}

impl Read for OptionInput {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        // Beyond this a double does not hold every millionth.
        const MOST: f64 = 1e9;
        match &node.value {
            Value::Flag(flag) => Some(Self::Flag(*flag)),
            Value::Text(text) => Some(Self::Text(text.clone())),
            Value::Integer(number) => match i64::try_from(*number) {
                Ok(number) => Some(Self::Integer(number)),
                Err(_) => reader.bad_value(node, key, "a number", "of 64 bits at most".to_owned()),
            },
            Value::Float(number) if number.abs() <= MOST => {
                Some(Self::Millionths((number * 1e6).round() as i64))
            }
            Value::Float(_) => {
                let hint = format!("a finite number, at most {MOST}");
                reader.bad_value(node, key, "an option's value", hint)
            }
            _ => reader.wrong_type(node, key, "an option's value: a number, a flag or a text"),
        }
    }
}

impl Read for App {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "\"bulk\", { size = \"10 MB\" }, { rate = \"5 Mbit/s\" } \
                      or { on = \"1 s\", off = \"2 s\" }";
        if !matches!(node.value, Value::Table(_)) {
            return reader.word(node, key, wanted, &[("bulk", Self::Bulk)]);
        }
        let mut table = reader.table(node, key, wanted)?;
        let size: Option<Bytes> = table.optional("size");
        let on: Option<Duration> = table.optional("on");
        let off: Option<Duration> = table.optional("off");
        let rate: Option<Rate> = table.optional("rate");
        let before = table.reader.problems.len();
        let has = |name| matches!(&node.value, Value::Table(entries) if entries.contains_key(name));
        let shape = ["size", "on", "off", "rate"].map(has);
        table.finish();
        match shape {
            [true, false, false, false] => Some(Self::Sized { size: size? }),
            [false, false, false, true] => Some(Self::Limited { rate: rate? }),
            [false, true, true, with_rate] => Some(Self::OnOff {
                on: on?,
                off: off?,
                rate: if with_rate { Some(rate?) } else { None },
            }),
            // An unknown key says enough about a table that has no other.
            _ if reader.problems.len() > before => None,
            _ => {
                let message = format!("`{key}` takes {wanted}, found {}", describe(node));
                let hint = "these keys do not make one of them".to_owned();
                let kind = crate::Kind::BadValue;
                reader.report(kind, &node.origin, key, message, Some(hint));
                None
            }
        }
    }
}

impl Read for AckPolicy {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let default = Self::default();
        let mut table = reader.table(node, key, "a table")?;
        let policy = Self {
            every: table.or("every", PacketCount(default.every)).0,
            delay: table.or("delay", default.delay),
            quick: table.or("quick", PacketCount(default.quick)).0,
            comp_sack_delay: table.optional("comp_sack_delay"),
            pushed: table.or("pushed", false),
        };
        table.finish();
        Some(policy)
    }
}

impl Read for RecoverySection {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let default = Self::default();
        if matches!(node.value, Value::Text(_)) {
            let kind = RecoveryKind::read(node, key, reader)?;
            return Some(Self { kind, ..default });
        }
        let mut table = reader.table(node, key, "\"rack-prr\" or another kind, or a table")?;
        let section = Self {
            kind: table.or("kind", default.kind),
            min_rto: table.or("min_rto", default.min_rto),
            tlp: table.or("tlp", default.tlp),
            f_rto: table.or("f_rto", default.f_rto),
            undo: table.or("undo", default.undo),
            limited_transmit: table.or("limited_transmit", default.limited_transmit),
        };
        table.finish();
        Some(section)
    }
}

impl Read for RecoveryKind {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "\"rack-prr\", \"rack-prr-crb\", \"rack-prr-ssrb\", \"rack\", \
                      \"sack\" or \"newreno\"";
        reader.word(node, key, wanted, &Self::WORDS)
    }
}

impl Read for PacketCount {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a number of packets such as \"10 packets\"";
        let text = reader.text(node, key, wanted)?.trim();
        let number = text
            .strip_suffix("packets")
            .or_else(|| text.strip_suffix("packet"));
        match number.map(|number| number.trim().parse()) {
            Some(Ok(count)) => Some(Self(count)),
            Some(Err(_)) => {
                let hint = format!("a whole number from 0 to {}", u32::MAX);
                reader.bad_value(node, key, wanted, hint)
            }
            None => {
                let hint = "the unit is \"packets\"".to_owned();
                reader.bad_value(node, key, wanted, hint)
            }
        }
    }
}
