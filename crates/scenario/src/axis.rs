//! Axes, and the numbers with units that their points consist of.

use crate::diagnostic::Kind;
use crate::document::{Node, Origin, Value};
use crate::reader::{Read, Reader, describe};

/// One axis: the keys that vary along it, and its points.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Keys, as overrides name them.
    pub keys: Vec<String>,
    /// Points, in order.
    pub points: Vec<Point>,
    /// Whether its points are drawn: a population, whose points are all equal in rank.
    pub drawn: bool,
    pub(crate) origin: Origin,
}

/// One point of an axis.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its name: the values that it sets, for people.
    pub name: String,
    /// The values that it sets: one for each key, in the form of an override.
    pub values: Vec<String>,
    pub(crate) nodes: Vec<Node>,
}

/// An end of a range: a number, with the unit that follows it.
pub(crate) struct End {
    pub(crate) number: f64,
    pub(crate) unit: String,
    pub(crate) whole: bool,
}

impl Read for End {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a number, or one with its unit such as \"10 ms\"";
        match &node.value {
            Value::Integer(number) => Some(Self {
                number: *number as f64,
                unit: String::new(),
                whole: true,
            }),
            Value::Float(number) if number.is_finite() => Some(Self {
                number: *number,
                unit: String::new(),
                whole: false,
            }),
            Value::Text(text) => {
                let text = text.trim();
                let digit = |c: char| c.is_ascii_digit() || ".+-".contains(c);
                let (number, unit) = text.split_at(text.find(|c| !digit(c)).unwrap_or(text.len()));
                match number.parse::<f64>() {
                    Ok(number) if number.is_finite() && !unit.trim().is_empty() => Some(Self {
                        number,
                        unit: unit.trim().to_owned(),
                        whole: false,
                    }),
                    _ => {
                        let found = describe(node);
                        let message = format!("`{key}` takes {wanted}, found {found}");
                        let hint = "a number and its unit".to_owned();
                        reader.report(Kind::BadValue, &node.origin, key, message, Some(hint));
                        None
                    }
                }
            }
            _ => reader.wrong_type(node, key, wanted),
        }
    }
}

/// A number of a range: the value that runs is the value that is shown, so it has four digits, or
/// all digits of a whole number.
pub(crate) fn written(number: f64, unit: &str, whole: bool) -> Value {
    if whole {
        return Value::Integer(number.round() as i128);
    }
    let rounded: f64 = if number.fract() == 0.0 && number.abs() < 1e15 {
        number
    } else {
        format!("{number:.3e}").parse().unwrap_or(number)
    };
    if unit.is_empty() {
        Value::Float(rounded)
    } else {
        Value::Text(format!("{rounded} {unit}"))
    }
}
