//! Links: the path's own, the additional ones, and their changes.

use std::path::PathBuf;

use paceline_units::{AckFilter, Bytes, Duration, Gain, Hold, Loss, Policer, Rate, Reorder};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::bounds::{Problems, below, mtu, packets, rate, share, time};
use crate::document::{Node, Value, join};
use crate::engines::ALL;
use crate::limits;
use crate::link_keys::{Ended, link_keys};
use crate::packets::Packets;
use crate::queue::{NEEDS_SIZE, Queue};
use crate::reader::{Read, Reader, Table, choices};
use crate::section::{Key, Properties, section};

link_keys! {
    /// Which packets are lost on the way.
    Loss loss: always Loss = Loss::NONE;
    once {
        /// Drop this many of the next packets.
        Drop drop: Packets;
        /// Hold this many of the next packets on the way.
        Hold hold: Hold;
    }
    /// Some packets arrive out of order. Unset: none.
    Reorder reorder: maybe Reorder, "Which packets arrive later than in their turn.";
    /// The probability that a packet arrives twice, independently of all others.
    Duplicate duplicate: always Gain = Gain::from_millionths(0), in share(),
        "The probability that a packet arrives twice.";
    /// Each packet is delayed by up to this much more, uniform and seeded, without overtaking.
    Jitter jitter: always Duration = Duration::ZERO, in below(limits::MAX_RTT),
        "How much longer a packet may take.";
    /// A token bucket in front of the queue. Unset: none.
    Policer policer: maybe Policer as PolicerChange,
        "The token bucket in front of the queue; \"off\" takes it away.";
    /// Packets that leave the queue wait for the next multiple of this time and continue together.
    Aggregation aggregation: always Duration = Duration::ZERO, in below(limits::MAX_RTT),
        "The time between departures from the link; \"0 ms\" ends bundling.";
    /// Packets that leave the queue request a transmission at the next multiple of `aggregation` and
    /// continue together when it is granted: this much later, at such a multiple. Those that come after
    /// a request and before its grant request theirs with that transmission (piggybacking), as a cable
    /// modem does: in DOCSIS, `aggregation` is the MAP interval, typically 2 ms. No requests collide.
    GrantDelay grant_delay: always Duration = Duration::ZERO, in below(limits::MAX_RTT),
        "The time from a request to its grant; \"0 ms\" ends the requests.";
    /// The link forwards one of this many ACKs of TCP that only advance, of each connection. Those with
    /// SACK blocks, duplicates and changes of the ECN flags pass.
    AckThinning ack_thinning: always Packets = Packets(1), in packets(u64::from(u32::MAX)),
        "How many ACKs of TCP that only advance the link forwards one of; \"1 packet\" ends it.";
    /// Pure ACKs of TCP that wait are removed when a later one of their connection says the same, as in
    /// Linux's sch_cake. ACKs of QUIC are encrypted, and stay.
    AckFilter ack_filter: always AckFilter = AckFilter::Off, "Which ACKs that wait an arriving one replaces.";
}

section! {
    /// The bottleneck that all flows share.
    pub struct PathSection, "a table" {
        /// The name of its link, for routes.
        name: String = "bottleneck".to_owned(), on ALL;
        /// Its capacity: fixed, or a recorded trace.
        rate: RateSource, needs "say how fast the bottleneck is: rate = \"50 Mbit/s\" or rate = { trace = \"FILE\" }";
        /// Round-trip propagation delay.
        rtt: Duration, needs "say how long a round trip is: rtt = \"40 ms\"", in time(limits::MAX_RTT);
        /// The queue in front of it.
        queue: Queue, needs NEEDS_SIZE;
        /// The keys that every link has.
        link: LinkKeys = LinkKeys::default(), on ALL;
        /// Its return direction. Unset: never congested, and not recorded.
        r#return: Option<ReturnSection>, on ALL;
        /// The largest IP packet, headers included.
        mtu: Bytes = Bytes::new(1500), in mtu(), on ALL;
    }
}

section! {
    /// A link that flows cross if their route names it.
    pub struct LinkSection, "a table" {
        /// Its name, for routes, events and plots.
        name: String, needs "name it, for routes: name = \"nic\"";
        /// Its capacity.
        rate: Rate, needs "say how fast it is: rate = \"50 Gbit/s\"", in rate();
        /// One-way propagation delay, a part of the round trip of the flows that cross it.
        delay: Duration = Duration::ZERO, in below(limits::MAX_RTT), on ALL;
        /// The queue in front of it. A `bdp` is its rate times the path's round trip.
        queue: Queue, needs NEEDS_SIZE;
        /// The keys that every link has.
        link: LinkKeys = LinkKeys::default(), on ALL;
        /// Its return direction. Unset: never congested, and not recorded.
        r#return: Option<ReturnSection>, on ALL;
    }
}

section! {
    /// The return direction of a link, which ACKs cross. An empty table is a direction that only counts.
    /// That of the path has up to half of the shortest round trip as its propagation delay, that of
    /// another link none.
    pub struct ReturnSection, "a table such as { rate = \"1 Mbit/s\", queue = { size = \"40 ms\" } }" {
        /// Its capacity: fixed, or a recorded trace. Unset: unlimited, so nothing waits.
        rate: Option<RateSource>, on ALL;
        /// The queue in front of it, which a `rate` needs. A `bdp` is its rate times the path's round trip.
        queue: Option<Queue>, on ALL;
        /// The keys that every link has.
        link: LinkKeys = LinkKeys::default(), on ALL;
    }
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
