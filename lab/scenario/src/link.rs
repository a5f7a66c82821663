//! Links: the path's own, the additional ones, and their changes.

use std::path::PathBuf;

use paceline_derive::{Section, link_keys};
use paceline_units::{AckFilter, Bytes, Duration, Gain, Hold, Loss, Policer, Rate, Reorder};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::bounds::{Problems, below, mtu, packets, rate, share, time};
use crate::document::{Node, Value};
use crate::engines::ALL;
use crate::limits;
use crate::packets::Packets;
use crate::queue::{NEEDS_SIZE, Queue};
use crate::reader::{Read, Reader, choices};
use crate::section::Key;

/// The properties of every link besides its rate, its delay and its queue.
#[link_keys]
pub struct LinkKeys {
    /// Which packets are lost on the way.
    #[key(default = Loss::NONE)]
    loss: Loss,
    /// Drop this many of the next packets.
    #[key(once)]
    drop: Packets,
    /// Hold this many of the next packets on the way.
    #[key(once)]
    hold: Hold,
    /// Some packets arrive out of order. Unset: none.
    #[key(event = "Which packets arrive later than in their turn.")]
    reorder: Option<Reorder>,
    /// The probability that a packet arrives twice, independently of all others.
    #[key(
        default = Gain::from_millionths(0),
        bound = share(),
        event = "The probability that a packet arrives twice."
    )]
    duplicate: Gain,
    /// Each packet is delayed by up to this much more, uniform and seeded, without overtaking.
    #[key(
        default = Duration::ZERO,
        bound = below(limits::MAX_RTT),
        event = "How much longer a packet may take."
    )]
    jitter: Duration,
    /// A token bucket in front of the queue. Unset: none.
    #[key(
        change = PolicerChange,
        event = "The token bucket in front of the queue; \"off\" takes it away."
    )]
    policer: Option<Policer>,
    /// Packets that leave the queue wait for the next multiple of this time and continue together.
    #[key(
        default = Duration::ZERO,
        bound = below(limits::MAX_RTT),
        event = "The time between departures from the link; \"0 ms\" ends bundling."
    )]
    aggregation: Duration,
    /// Packets that leave the queue request a transmission at the next multiple of `aggregation` and
    /// continue together when it is granted: this much later, at such a multiple. Those that come after
    /// a request and before its grant request theirs with that transmission (piggybacking), as a cable
    /// modem does: in DOCSIS, `aggregation` is the MAP interval, typically 2 ms. No requests collide.
    #[key(
        default = Duration::ZERO,
        bound = below(limits::MAX_RTT),
        event = "The time from a request to its grant; \"0 ms\" ends the requests."
    )]
    grant_delay: Duration,
    /// The link forwards one of this many ACKs of TCP that only advance, of each connection. Those with
    /// SACK blocks, duplicates and changes of the ECN flags pass.
    #[key(
        default = Packets(1),
        bound = packets(u64::from(u32::MAX)),
        event = "How many ACKs of TCP that only advance the link forwards one of; \"1 packet\" ends it."
    )]
    ack_thinning: Packets,
    /// Pure ACKs of TCP that wait are removed when a later one of their connection says the same, as in
    /// Linux's sch_cake. ACKs of QUIC are encrypted, and stay.
    #[key(default = AckFilter::Off, event = "Which ACKs that wait an arriving one replaces.")]
    ack_filter: AckFilter,
}

/// The bottleneck that all flows share.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table")]
pub struct PathSection {
    /// The name of its link, for routes.
    #[key(default = "bottleneck".to_owned(), on = ALL)]
    pub name: String,
    /// Its capacity: fixed, or a recorded trace.
    #[key(
        needs = "say how fast the bottleneck is: rate = \"50 Mbit/s\" or rate = { trace = \"FILE\" }"
    )]
    pub rate: RateSource,
    /// Round-trip propagation delay.
    #[key(needs = "say how long a round trip is: rtt = \"40 ms\"", bound = time(limits::MAX_RTT))]
    pub rtt: Duration,
    /// The queue in front of it.
    #[key(needs = NEEDS_SIZE)]
    pub queue: Queue,
    /// The keys that every link has.
    #[key(default = LinkKeys::default(), on = ALL)]
    pub link: LinkKeys,
    /// Its return direction. Unset: never congested, and not recorded.
    #[key(on = ALL)]
    pub r#return: Option<ReturnSection>,
    /// The largest IP packet, headers included.
    #[key(default = Bytes::new(1500), bound = mtu(), on = ALL)]
    pub mtu: Bytes,
}

/// A link that flows cross if their route names it.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table")]
pub struct LinkSection {
    /// Its name, for routes, events and plots.
    #[key(needs = "name it, for routes: name = \"nic\"")]
    pub name: String,
    /// Its capacity.
    #[key(needs = "say how fast it is: rate = \"50 Gbit/s\"", bound = rate())]
    pub rate: Rate,
    /// One-way propagation delay, a part of the round trip of the flows that cross it.
    #[key(default = Duration::ZERO, bound = below(limits::MAX_RTT), on = ALL)]
    pub delay: Duration,
    /// The queue in front of it. A `bdp` is its rate times the path's round trip.
    #[key(needs = NEEDS_SIZE)]
    pub queue: Queue,
    /// The keys that every link has.
    #[key(default = LinkKeys::default(), on = ALL)]
    pub link: LinkKeys,
    /// Its return direction. Unset: never congested, and not recorded.
    #[key(on = ALL)]
    pub r#return: Option<ReturnSection>,
}

/// The return direction of a link, which ACKs cross. An empty table is a direction that only counts.
/// That of the path has up to half of the shortest round trip as its propagation delay, that of
/// another link none.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table such as { rate = \"1 Mbit/s\", queue = { size = \"40 ms\" } }")]
pub struct ReturnSection {
    /// Its capacity: fixed, or a recorded trace. Unset: unlimited, so nothing waits.
    #[key(on = ALL)]
    pub rate: Option<RateSource>,
    /// The queue in front of it, which a `rate` needs. A `bdp` is its rate times the path's round trip.
    #[key(on = ALL)]
    pub queue: Option<Queue>,
    /// The keys that every link has.
    #[key(default = LinkKeys::default(), on = ALL)]
    pub link: LinkKeys,
}

impl ReturnSection {
    /// It as a link of its own, of this name.
    pub fn as_link(&self, name: String, rate: Rate, delay: Duration) -> LinkSection {
        LinkSection {
            name,
            rate,
            delay,
            queue: self.queue.clone().unwrap_or_else(Queue::unlimited),
            link: self.link.clone(),
            r#return: None,
        }
    }
}

impl PathSection {
    /// The path's own link at `rate`, with its own `delay`.
    pub fn own_link(&self, rate: Rate, delay: Duration) -> LinkSection {
        LinkSection {
            name: self.name.clone(),
            rate,
            delay,
            queue: self.queue.clone(),
            link: self.link.clone(),
            r#return: None,
        }
    }
}

impl Key for RateSource {}

/// Where the capacity comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RateSource {
    /// Constant until an event changes it.
    Fixed(Rate),
    /// Delivery opportunities from a file in mahimahi's format.
    Trace {
        /// The file, relative to the scenario's folder; see [`crate::Scenario::traces`].
        trace: PathBuf,
    },
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

impl Read for Loss {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Table(_) => Read::read(node, key, reader).map(Self::Burst),
            _ => Gain::read(node, key, reader).map(Self::Independent),
        }
    }
}

impl Key for Loss {
    fn check(&self, key: &str, problems: &mut Problems) {
        match self {
            Self::Independent(loss) => problems.share(key, *loss),
            Self::Burst(burst) => burst.check(key, problems),
        }
    }
}

/// The new policer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicerChange {
    /// None: "off".
    Off,
    /// This one, with a full bucket.
    Set(Policer),
}

/// A change of something that a link need not have.
trait Ended {
    /// The value that ends it if there was none before.
    fn ended(self) -> Self;
}

impl Ended for Reorder {
    fn ended(self) -> Self {
        Self {
            probability: Gain::from_millionths(0),
            ..self
        }
    }
}

impl Ended for PolicerChange {
    fn ended(self) -> Self {
        Self::Off
    }
}

impl From<Policer> for PolicerChange {
    fn from(policer: Policer) -> Self {
        Self::Set(policer)
    }
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

impl Key for PolicerChange {
    fn check(&self, key: &str, problems: &mut Problems) {
        if let Self::Set(policer) = self {
            policer.check(key, problems);
        }
    }
}
