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
            Value::Text(text) => match parts(text) {
                Some((number, unit)) if !unit.is_empty() => Some(Self {
                    number,
                    unit: unit.to_owned(),
                    whole: false,
                }),
                _ => {
                    let found = describe(node);
                    let message = format!("`{key}` takes {wanted}, found {found}");
                    let hint = "a number and its unit".to_owned();
                    reader.report(Kind::BadValue, &node.origin, key, message, Some(hint));
                    None
                }
            },
            _ => reader.wrong_type(node, key, wanted),
        }
    }
}

/// A text's number and its unit.
pub(crate) fn parts(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let digit = |c: char| c.is_ascii_digit() || ".+-".contains(c);
    let (number, unit) = text.split_at(text.find(|c| !digit(c)).unwrap_or(text.len()));
    let number: Option<f64> = number.parse().ok();
    let number = number.filter(|number| number.is_finite());
    Some((number?, unit.trim()))
}

/// The nearest number that is kept exactly in its unit, but not zero for one above it.
pub(crate) fn kept(number: f64, unit: &str) -> f64 {
    let Some(steps) = paceline_units::steps(unit) else {
        return number;
    };
    let (steps, scaled) = (steps as f64, number * steps as f64);
    match scaled.fract() == 0.0 {
        true => number,
        false if number > 0.0 => scaled.round().max(1.0) / steps,
        false => scaled.round() / steps,
    }
}

/// A number that is computed or drawn, as [`written`], and in a step that is kept exactly.
pub(crate) fn computed(number: f64, unit: &str, whole: bool) -> Value {
    match written(number, unit, whole) {
        Value::Float(number) => Value::Float(kept(number, unit)),
        Value::Text(text) => Value::Text(exact(&text)),
        whole => whole,
    }
}

/// A quantity's text in a step that is kept exactly; as it is if it is that, or no quantity.
pub(crate) fn exact(text: &str) -> String {
    let number = |(number, unit)| (number, unit, kept(number, unit));
    match parts(text).map(number) {
        Some((number, unit, kept)) if kept != number => format!("{kept} {unit}").trim().to_owned(),
        _ => text.to_owned(),
    }
}

/// A number of a range: the value that runs is the value that is shown, so it has four digits, or
/// all digits of a whole number.
pub(crate) fn written(number: f64, unit: &str, whole: bool) -> Value {
    if whole {
        return Value::Integer(number.round() as i128);
    }
    let rounded: f64 = match number.fract() == 0.0 && number.abs() < 1e15 {
        true => number,
        false => format!("{number:.3e}").parse().unwrap_or(number),
    };
    match unit.is_empty() {
        true => Value::Float(rounded),
        false => Value::Text(format!("{rounded} {unit}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: f64, unit: &str) -> String {
        match computed(number, unit, false) {
            Value::Text(text) => text,
            Value::Float(number) => number.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn computed_numbers_are_kept_exactly() {
        // Shares are kept in steps of 0.0001 %, times in nanoseconds, rates in bit/s.
        assert_eq!(text(0.031_622_8, "%"), "0.0316 %");
        assert_eq!(text(0.000_321, "%"), "0.0003 %");
        assert_eq!(text(0.000_001, "%"), "0.0001 %");
        assert_eq!(text(0.0, "%"), "0 %");
        assert_eq!(text(3.162_277, "%"), "3.162 %");
        assert_eq!(text(0.316_227, "us"), "0.316 us");
        assert_eq!(text(0.031_622, "kbit/s"), "0.032 kbit/s");
        assert_eq!(text(31.622_776, "packets"), "32 packets");
        assert_eq!(text(31.622_776, "B"), "32 B");
        assert_eq!(text(3.162_277, "KiB"), "3.162109375 KiB");
        assert_eq!(text(0.000_012_34, "bdp"), "0.000012 bdp");
        assert_eq!(text(0.000_012_34, ""), "0.000012");
        assert_eq!(text(12.344_9, "ms"), "12.34 ms");
        assert_eq!(text(12.344_9, "furlongs"), "12.34 furlongs");
        assert_eq!(exact("0.0123456 %"), "0.0123 %");
        assert_eq!(exact("12.3456 Mbit/s"), "12.3456 Mbit/s");
        assert_eq!(exact("bulk"), "bulk");
    }
}
