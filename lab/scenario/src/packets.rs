use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// A number of packets, written "10 packets".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets(pub u32);

impl Serialize for Packets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plural = if self.0 == 1 { "" } else { "s" };
        serializer.collect_str(&format_args!("{} packet{plural}", self.0))
    }
}

impl JsonSchema for Packets {
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
