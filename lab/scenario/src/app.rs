//! `app`: an application's traffic, and its changes during the run.

use paceline_units::{App, Bytes, Duration, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::diagnostic::Kind;
use crate::document::{Node, Value};
use crate::reader::{Read, Reader, choices, describe};
use crate::section::Key;

impl Key for App {}
impl Key for AppChange {}

impl Read for App {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "\"bulk\", { size = \"10 MB\" }, { rate = \"5 Mbit/s\" } \
                      or { on = \"1 s\", off = \"2 s\" }";
        if !matches!(node.value, Value::Table(_)) {
            return reader
                .word(node, key, wanted, &["bulk"])
                .map(|_| Self::Bulk);
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
            // For a table with no other key, the error about the unknown key is enough.
            _ if reader.problems.len() > before => None,
            _ => {
                let message = format!("`{key}` takes {wanted}, found {}", describe(node));
                let hint = "these keys do not make one of them".to_owned();
                let kind = Kind::BadValue;
                reader.report(kind, &node.origin, key, message, Some(hint));
                None
            }
        }
    }
}

/// An application's workload from now on.
#[derive(Clone, Debug, PartialEq)]
pub enum AppChange {
    /// Write nothing: "pause".
    Pause,
    /// Resume after a pause: "resume".
    Resume,
    /// Another kind of traffic, written like the `app` of a flow.
    Set(App),
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
