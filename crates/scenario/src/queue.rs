//! The queue in front of a link: its discipline and the options of that.

use paceline_units::{Bytes, Duration, Gain};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::aqm::{Red, StepMark};
use crate::document::Node;
use crate::flow::yes;
use crate::path::{QUEUE_NEEDS_SIZE, QueueSize};
use crate::reader::{Read, Reader, Table};

/// The queue in front of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Queue {
    /// The discipline.
    #[serde(flatten)]
    pub kind: QueueKind,
    /// How much it holds.
    pub size: QueueSize,
    /// Marks with CE what finds more waiting than a threshold. Unset: it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<StepMark>,
    /// Random early detection. Unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub red: Option<Red>,
}

/// A queueing discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum QueueKind {
    /// First in, first out; what does not fit is dropped on arrival.
    #[default]
    DropTail,
    /// Controlled delay (RFC 8289).
    Codel(Codel),
    /// Fair queues, each with CoDel (RFC 8290).
    #[serde(rename = "fq_codel")]
    FqCodel(FqCodel),
    /// Proportional integral controller enhanced (RFC 8033).
    Pie(Pie),
    /// Two coupled queues, one of them for L4S (RFC 9332).
    DualPi2(DualPi2),
}

/// Controlled delay (RFC 8289): drops or marks at the head while packets have waited longer than
/// the target for an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Codel {
    /// How long packets may wait (`TARGET`).
    #[schemars(default = "codel_target")]
    pub target: Duration,
    /// For how long they may wait longer (`INTERVAL`).
    #[schemars(default = "codel_interval")]
    pub interval: Duration,
    /// Whether ECN-capable packets are marked instead of dropped.
    #[schemars(default = "yes")]
    pub ecn: bool,
}

/// Fair queues, each with CoDel (RFC 8290). What overflows is dropped from the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FqCodel {
    /// CoDel of each queue.
    #[serde(flatten)]
    pub codel: Codel,
    /// How many queues flows are spread over.
    #[schemars(default = "fq_flows")]
    pub flows: u32,
    /// What a queue sends in its turn.
    #[schemars(default = "fq_quantum")]
    pub quantum: Bytes,
}

/// Proportional integral controller enhanced (RFC 8033): drops or marks on arrival, with a
/// probability that follows the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pie {
    /// The delay to hold (`QDELAY_REF`).
    #[schemars(default = "pie_target")]
    pub target: Duration,
    /// Time between updates of the probability (`T_UPDATE`).
    #[schemars(default = "pie_target")]
    pub update: Duration,
    /// Weight of the distance from the target.
    #[schemars(default = "pie_alpha")]
    pub alpha: Frequency,
    /// Weight of the change since the last update.
    #[schemars(default = "pie_beta")]
    pub beta: Frequency,
    /// How long a burst passes without drops (`MAX_BURST`).
    #[schemars(default = "pie_burst")]
    pub burst: Duration,
    /// Whether ECN-capable packets are marked instead of dropped (section 5.1).
    #[schemars(default = "yes")]
    pub ecn: bool,
    /// The probability from which on they are dropped all the same (`mark_ecnth`).
    #[schemars(default = "pie_mark_limit")]
    pub mark_limit: Gain,
    /// Whether drops are kept from clustering (section 5.4).
    #[schemars(default = "yes")]
    pub derandomize: bool,
}

/// DualPI2 (RFC 9332, appendix A): a Classic queue and one for L4S, whose marks are coupled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DualPi2 {
    /// The delay to hold in the Classic queue.
    #[schemars(default = "pie_target")]
    pub target: Duration,
    /// The longest round trip that it is to be stable at; the gains follow from it.
    #[schemars(default = "codel_interval")]
    pub rtt_max: Duration,
    /// The coupling factor `k`.
    #[schemars(default = "dual_coupling")]
    pub coupling: u32,
    /// The sojourn in the L4S queue from which on it marks (`minTh`).
    #[schemars(default = "dual_ramp_min")]
    pub ramp_min: Duration,
    /// How much more marks all (`range`).
    #[schemars(default = "dual_ramp_range")]
    pub ramp_range: Duration,
    /// What the Classic queue gets at least while both have packets.
    #[schemars(default = "dual_classic_share")]
    pub classic_share: Gain,
}

/// A weight per second, in millionths: "0.125 Hz".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency(pub Gain);

fn codel_target() -> Duration {
    Duration::from_millis(5)
}

fn codel_interval() -> Duration {
    Duration::from_millis(100)
}

fn fq_flows() -> u32 {
    1024
}

fn fq_quantum() -> Bytes {
    Bytes::new(1514)
}

fn pie_target() -> Duration {
    Duration::from_millis(15)
}

fn pie_alpha() -> Frequency {
    Frequency(Gain::from_millionths(125_000))
}

fn pie_beta() -> Frequency {
    Frequency(Gain::from_millionths(1_250_000))
}

fn pie_burst() -> Duration {
    Duration::from_millis(150)
}

fn pie_mark_limit() -> Gain {
    Gain::from_millionths(100_000)
}

fn dual_coupling() -> u32 {
    2
}

fn dual_ramp_min() -> Duration {
    Duration::from_micros(800)
}

fn dual_ramp_range() -> Duration {
    Duration::from_micros(400)
}

fn dual_classic_share() -> Gain {
    Gain::from_millionths(100_000)
}

/// The names of the disciplines.
#[derive(Clone, Copy)]
enum Name {
    DropTail,
    Codel,
    FqCodel,
    Pie,
    DualPi2,
}

const NAMES: [(&str, Name); 5] = [
    ("droptail", Name::DropTail),
    ("codel", Name::Codel),
    ("fq_codel", Name::FqCodel),
    ("pie", Name::Pie),
    ("dualpi2", Name::DualPi2),
];

impl Read for Name {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(node, key, "a queueing discipline", &NAMES)
    }
}

impl Read for Queue {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a table such as { kind = \"droptail\", size = \"1 bdp\" }";
        let mut table = reader.table(node, key, wanted)?;
        // What other keys there are depends on it.
        let name = table.node("kind").map(|node| {
            let key = crate::reader::join(key, "kind");
            Name::read(node, &key, table.reader)
        });
        let name = match name {
            None => Name::DropTail,
            Some(Some(name)) => name,
            Some(None) => return None,
        };
        let size = table.required("size", QUEUE_NEEDS_SIZE);
        let (mut mark, mut red) = (None, None);
        let kind = match name {
            Name::DropTail => {
                (mark, red) = (table.optional("mark"), table.optional("red"));
                QueueKind::DropTail
            }
            Name::Codel => QueueKind::Codel(Codel::options(&mut table)),
            Name::FqCodel => QueueKind::FqCodel(FqCodel::options(&mut table)),
            Name::Pie => QueueKind::Pie(Pie::options(&mut table)),
            Name::DualPi2 => QueueKind::DualPi2(DualPi2::options(&mut table)),
        };
        table.finish();
        Some(Self {
            kind,
            size: size?,
            mark,
            red,
        })
    }
}

impl Codel {
    fn options(table: &mut Table<'_, '_, '_>) -> Self {
        Self {
            target: table.or("target", codel_target()),
            interval: table.or("interval", codel_interval()),
            ecn: table.or("ecn", yes()),
        }
    }
}

impl FqCodel {
    fn options(table: &mut Table<'_, '_, '_>) -> Self {
        Self {
            codel: Codel::options(table),
            flows: table.or("flows", fq_flows()),
            quantum: table.or("quantum", fq_quantum()),
        }
    }
}

impl Pie {
    fn options(table: &mut Table<'_, '_, '_>) -> Self {
        Self {
            target: table.or("target", pie_target()),
            update: table.or("update", pie_target()),
            alpha: table.or("alpha", pie_alpha()),
            beta: table.or("beta", pie_beta()),
            burst: table.or("burst", pie_burst()),
            ecn: table.or("ecn", yes()),
            mark_limit: table.or("mark_limit", pie_mark_limit()),
            derandomize: table.or("derandomize", yes()),
        }
    }
}

impl DualPi2 {
    fn options(table: &mut Table<'_, '_, '_>) -> Self {
        Self {
            target: table.or("target", pie_target()),
            rtt_max: table.or("rtt_max", codel_interval()),
            coupling: table.or("coupling", dual_coupling()),
            ramp_min: table.or("ramp_min", dual_ramp_min()),
            ramp_range: table.or("ramp_range", dual_ramp_range()),
            classic_share: table.or("classic_share", dual_classic_share()),
        }
    }
}

impl JsonSchema for Queue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Queue".into()
    }

    /// One form for each kind.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = generator.subschema_for::<QueueSize>();
        let mark = generator.subschema_for::<StepMark>();
        let red = generator.subschema_for::<Red>();
        let droptail = json_schema!({
            "description": "First in, first out; what does not fit is dropped on arrival",
            "properties": {
                "mark": {
                    "description": "Marks with CE what finds more waiting than a threshold",
                    "allOf": [mark],
                },
                "red": { "description": "Random early detection", "allOf": [red] },
            },
        });
        let forms = [
            ("droptail", droptail),
            ("codel", Codel::json_schema(generator)),
            ("fq_codel", FqCodel::json_schema(generator)),
            ("pie", Pie::json_schema(generator)),
            ("dualpi2", DualPi2::json_schema(generator)),
        ]
        .map(|(name, mut form)| {
            let mut properties = serde_json::Map::new();
            let mut kind = json_schema!({ "description": "The discipline", "const": name });
            if name == "droptail" {
                kind.insert("default".into(), name.into());
            }
            properties.insert("kind".into(), kind.into());
            let size =
                json_schema!({ "description": "How much it holds", "allOf": [size.clone()] });
            properties.insert("size".into(), size.into());
            if let Some(Json::Object(options)) = form.remove("properties") {
                properties.extend(options);
            }
            let required = match name {
                "droptail" => vec!["size"],
                _ => vec!["kind", "size"],
            };
            form.insert("type".into(), "object".into());
            form.insert("properties".into(), properties.into());
            form.insert("required".into(), required.into());
            form.insert("additionalProperties".into(), false.into());
            form
        });
        json_schema!({
            "description": "The queue in front of a link",
            "anyOf": forms,
        })
    }
}

impl Serialize for Frequency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (whole, rest) = (
            self.0.millionths() / 1_000_000,
            self.0.millionths() % 1_000_000,
        );
        let text = format!("{whole}.{rest:06}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        serializer.collect_str(&format_args!("{text} Hz"))
    }
}

impl JsonSchema for Frequency {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Frequency".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A weight per second",
            "type": "string",
            "examples": ["0.125 Hz"],
            "pattern": "^\\s*[0-9]+(\\.[0-9]+)?\\s*Hz\\s*$",
        })
    }
}

impl Read for Frequency {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a weight per second such as \"0.125 Hz\"";
        let text = reader.text(node, key, wanted)?.trim();
        // A megabyte is a million: the weight in millionths, exactly.
        let millionths = text
            .strip_suffix("Hz")
            .and_then(|number| Bytes::parse(&format!("{} MB", number.trim())).ok())
            .and_then(|millions| u32::try_from(millions.get()).ok());
        match millionths {
            Some(millionths) => Some(Self(Gain::from_millionths(millionths))),
            None => {
                let hint = "a decimal number up to 4294 with at most 6 places, and the unit Hz";
                reader.bad_value(node, key, wanted, hint.to_owned())
            }
        }
    }
}
