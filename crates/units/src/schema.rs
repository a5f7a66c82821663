//! The JSON Schema of options and of plain values.

use alloc::borrow::{Cow, ToOwned};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use duplicate::duplicate_item;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value as Json};

use crate::options::{Choice, OptionInfo, OptionKind, Parameters};
use crate::{
    AckFilter, Acks, App, BurstLoss, Bytes, Crypto, Direction, Duration, EcnFeedback, Frequency,
    Gain, Hold, Loss, Policer, Rate, Recovery, Reorder, Size, StackName,
};

/// Documentation as a description: its first paragraph, with its line breaks.
pub fn description(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    let first = lines
        .split(|line| line.is_empty())
        .next()
        .unwrap_or_default();
    first.join("\n")
}

/// A schema with a description before its other keys, and a default after them.
pub fn described(schema: Schema, description: String, default: Option<Json>) -> Json {
    let mut described = Map::new();
    described.insert("description".to_owned(), description.into());
    if let Json::Object(says) = Json::from(schema) {
        described.extend(says);
    }
    if let Some(default) = default {
        described.insert("default".to_owned(), default);
    }
    Json::Object(described)
}

/// The values that an option takes.
fn kind(kind: &OptionKind, generator: &mut SchemaGenerator) -> Schema {
    match kind {
        OptionKind::Gain(..) => generator.subschema_for::<f64>(),
        OptionKind::Share | OptionKind::ShareAboveZero => generator.subschema_for::<Gain>(),
        OptionKind::Count(..) => generator.subschema_for::<u32>(),
        OptionKind::Duration(..) => generator.subschema_for::<Duration>(),
        OptionKind::Bytes(..) => generator.subschema_for::<Bytes>(),
        OptionKind::Rate => generator.subschema_for::<Rate>(),
        OptionKind::Frequency => generator.subschema_for::<Frequency>(),
        OptionKind::Size => generator.subschema_for::<Size>(),
        OptionKind::Flag => generator.subschema_for::<bool>(),
        OptionKind::Choice(words) => json_schema!({ "enum": words }),
    }
}

/// The keys of options, and the required ones.
pub fn options(
    options: impl Iterator<Item = OptionInfo>,
    generator: &mut SchemaGenerator,
) -> (Map<String, Json>, Vec<&'static str>) {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for option in options {
        let default = match option.needs {
            "" => serde_json::to_value(option.default).ok(),
            _ => {
                required.push(option.name);
                None
            }
        };
        let schema = described(
            kind(&option.kind, generator),
            option.doc.to_string(),
            default,
        );
        properties.insert(option.name.to_owned(), schema);
    }
    (properties, required)
}

/// A table of options.
pub fn table(
    about: &[&str],
    all: impl Iterator<Item = OptionInfo>,
    generator: &mut SchemaGenerator,
) -> Schema {
    let (properties, required) = options(all, generator);
    let mut schema = json_schema!({
        "description": description(about),
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    schema
}

#[duplicate_item(Table; [BurstLoss]; [Policer]; [Reorder]; [Hold])]
impl JsonSchema for Table {
    fn schema_name() -> Cow<'static, str> {
        stringify!(Table).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        table(Self::ABOUT, (0..).map_while(Self::info), generator)
    }
}

#[duplicate_item(
    Word           title;
    [Recovery]     ["RecoveryKind"];
    [EcnFeedback]  ["EcnKind"];
    [StackName]    ["Stack"];
    [Crypto]       ["Crypto"];
    [Direction]    ["Direction"];
    [AckFilter]    ["AckFilter"];
    [Acks]         ["Acks"];
)]
impl JsonSchema for Word {
    fn schema_name() -> Cow<'static, str> {
        title.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<Json> = Self::MEANINGS
            .iter()
            .map(|(word, doc)| {
                json_schema!({ "description": doc.trim(), "type": "string", "const": word }).into()
            })
            .collect();
        json_schema!({ "description": Self::ABOUT.trim(), "oneOf": words })
    }
}

impl JsonSchema for Loss {
    fn schema_name() -> Cow<'static, str> {
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

impl JsonSchema for Frequency {
    fn schema_name() -> Cow<'static, str> {
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

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
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

impl JsonSchema for App {
    fn schema_name() -> Cow<'static, str> {
        "App".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = generator.subschema_for::<Bytes>();
        let rate = generator.subschema_for::<Rate>();
        let time = generator.subschema_for::<Duration>();
        let form = |properties: Json, required: &[&str]| {
            json_schema!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            })
        };
        json_schema!({
            "description": "The workload of an application",
            "examples": ["bulk"],
            "anyOf": [
                { "const": "bulk" },
                form(serde_json::json!({ "size": size }), &["size"]),
                form(serde_json::json!({ "rate": rate }), &["rate"]),
                form(serde_json::json!({ "on": time, "off": time, "rate": rate }), &["on", "off"]),
            ],
        })
    }
}
