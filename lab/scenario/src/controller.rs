//! `cc`: a controller by its name, with options.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::document::{Node, Value, join};
use crate::reader::{Read, Reader};
use crate::section::Key;

impl Key for ControllerChoice {}

/// A controller and its options. The existing names and options are not known here.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerChoice {
    /// The controller's name.
    pub name: String,
    /// Its options, as written.
    pub options: BTreeMap<String, OptionInput>,
}

/// The value of a controller's option, before the controller has checked it.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionInput {
    /// A boolean.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction, rounded to millionths.
    Millionths(i64),
    /// A text, such as a quantity with its unit.
    Text(String),
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
        // Beyond this a double does not represent every millionth.
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
