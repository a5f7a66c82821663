//! Which packets are lost on the way.

use paceline_units::Gain;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::document::{Node, Value};
use crate::reader::{Read, Reader};

/// Which packets are lost on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Loss {
    /// Each with this probability, independently of all others: "1 %".
    Independent(Gain),
    /// In bursts: { p = "1 %", r = "20 %" }.
    Burst(BurstLoss),
}

/// Loss in two states (Gilbert 1960, Elliott 1963). In the long run (good r + bad p) / (p + r) of
/// the packets are lost, and a bad state lasts 1 / r packets on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BurstLoss {
    /// The probability of going from the good state to the bad one, with each packet.
    pub p: Gain,
    /// The probability of going back.
    pub r: Gain,
    /// The probability of loss in the good state.
    #[schemars(default = "crate::path::no_loss")]
    pub good: Gain,
    /// The probability of loss in the bad state.
    #[schemars(default = "all")]
    pub bad: Gain,
}

impl Loss {
    /// None at all.
    pub const NONE: Self = Self::Independent(Gain::from_millionths(0));
}

pub(crate) fn none() -> Loss {
    Loss::NONE
}

fn all() -> Gain {
    Gain::ONE
}

impl JsonSchema for Loss {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Loss".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A probability, the same for each packet, or loss in bursts",
            "examples": ["1 %", { "p": "1 %", "r": "20 %" }],
            "anyOf": [generator.subschema_for::<Gain>(), generator.subschema_for::<BurstLoss>()],
        })
    }
}

impl Read for Loss {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        if !matches!(node.value, Value::Table(_)) {
            return Gain::read(node, key, reader).map(Self::Independent);
        }
        let mut table = reader.table(node, key, "a share or a table")?;
        let p = table.required(
            "p",
            "say how likely a burst begins: { p = \"1 %\", r = \"20 %\" }",
        );
        let r = table.required("r", "say how likely it ends: { p = \"1 %\", r = \"20 %\" }");
        let good = table.or("good", crate::path::no_loss());
        let bad = table.or("bad", all());
        table.finish();
        Some(Self::Burst(BurstLoss {
            p: p?,
            r: r?,
            good,
            bad,
        }))
    }
}
