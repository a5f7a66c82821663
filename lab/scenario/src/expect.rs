//! `[expect]`: the expected results.

use std::collections::BTreeMap;

use paceline_units::{Bytes, Comparison, Duration, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::document::join;
use crate::document::{Node, Value};
use crate::reader::{Read, Reader};

/// A bound on a metric, such as ">= 0.95", "<= 100 ms" or ">= 80 %".
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// How the metric compares.
    pub op: Comparison,
    /// The value: a ratio for "%", nanoseconds, bits per second, bytes, or a bare number.
    pub value: f64,
    /// The unit that it was written with.
    pub unit: BoundUnit,
    /// The bound as written.
    pub text: String,
}

/// The kind of quantity in which a bound is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundUnit {
    /// A bare number.
    Number,
    /// A share: "80 %".
    Share,
    /// A time: "100 ms".
    Time,
    /// A rate: "5 Mbit/s".
    Rate,
    /// A volume: "250 kB".
    Volume,
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl JsonSchema for Bound {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bound".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A bound on a metric: a comparison and a number, with its unit if the metric has one",
            "pattern": "^\\s*(>=|<=|==|>|<)\\s*[-+]?[0-9].*$",
            "examples": [">= 0.95", "<= 100 ms", ">= 80 %"],
        })
    }
}

impl Bound {
    /// Reads a bound; the error says what would be correct.
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let Some((op, rest)) = Comparison::ALL
            .into_iter()
            .find_map(|op| Some((op, text.strip_prefix(op.symbol())?.trim())))
        else {
            return Err("it starts with one of >=, >, <=, <, ==".to_owned());
        };
        // Without this, "inf" and "nan" would be numbers.
        let number = |text: &str| {
            let digits = text.trim_start_matches(['-', '+']);
            text.parse::<f64>().ok().filter(|value| {
                value.is_finite() && digits.starts_with(|c: char| c.is_ascii_digit())
            })
        };
        let share = |text: &str| number(text.strip_suffix('%')?.trim_end());
        let time = |text: &str| Some(Duration::parse(text).ok()?.as_nanos() as f64);
        let rate = |text: &str| Some(Rate::parse(text).ok()?.bps() as f64);
        let volume = |text: &str| Some(Bytes::parse(text).ok()?.get() as f64);
        let read = None
            .or_else(|| Some((number(rest)?, BoundUnit::Number)))
            .or_else(|| Some((share(rest)? / 100.0, BoundUnit::Share)))
            .or_else(|| Some((time(rest)?, BoundUnit::Time)))
            .or_else(|| Some((rate(rest)?, BoundUnit::Rate)))
            .or_else(|| Some((volume(rest)?, BoundUnit::Volume)));
        match read {
            Some((value, unit)) => Ok(Self {
                op,
                value,
                unit,
                text: text.to_owned(),
            }),
            None => Err(
                "after it stands a number, a share, a time, a rate or a volume with its unit"
                    .to_owned(),
            ),
        }
    }
}

impl Read for Bound {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a bound such as \">= 0.95\" or \"<= 100 ms\"";
        let text = reader.text(node, key, wanted)?;
        match Self::parse(text) {
            Ok(bound) => Some(bound),
            Err(hint) => reader.bad_value(node, key, wanted, hint),
        }
    }
}

impl Read for BTreeMap<String, Bound> {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            return reader.wrong_type(node, key, "a table of metrics and bounds");
        };
        let mut bounds = Self::new();
        for (metric, entry) in entries {
            if let Some(bound) = Bound::read(&entry.node, &join(key, metric), reader) {
                bounds.insert(metric.clone(), bound);
            }
        }
        Some(bounds)
    }
}
