//! The definition of a metric, of a run or of a flow.

use paceline_units::Quantity;
use serde_json::{Value, json};

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds; whole numbers.
    Nanoseconds,
    /// Bytes; whole numbers.
    Bytes,
    /// Bits per second; whole numbers.
    BitsPerSecond,
    /// A count; whole numbers.
    Count,
    /// A ratio.
    Ratio,
}

impl Unit {
    /// The suffix of every metric's name in this unit.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Count => "_count",
            _ => self.quantity().suffix(),
        }
    }

    /// A value in this unit for JSON: a whole number in every unit but ratios, `null` where
    /// undefined.
    pub fn json(self, value: Option<f64>) -> Value {
        match value {
            Some(value) if self != Self::Ratio => json!(value.round() as u64),
            value => json!(value),
        }
    }

    pub(crate) fn text(self) -> &'static str {
        self.quantity().unit()
    }

    fn quantity(self) -> Quantity {
        match self {
            Self::Nanoseconds => Quantity::Duration,
            Self::Bytes => Quantity::Bytes,
            Self::BitsPerSecond => Quantity::Rate,
            Self::Count => Quantity::Count,
            Self::Ratio => Quantity::Gain,
        }
    }
}

/// The direction in which a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// The complete definition of a metric of a run or of a flow. `F` computes it.
#[derive(Clone, Copy, Debug)]
pub struct Definition<F: 'static> {
    /// Name, which ends in the unit.
    pub name: &'static str,
    /// Its label for people.
    pub label: &'static str,
    /// Unit.
    pub unit: Unit,
    /// The direction in which it is better.
    pub better: Better,
    /// The formula.
    pub formula: &'static str,
    /// The window: over which rows.
    pub window: &'static str,
    /// The function that computes it.
    pub compute: F,
}

/// A metric of a run or of a flow: its name, and its value if it is defined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Name, which ends in the unit.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Value in that unit, never infinite nor NaN.
    pub value: Option<f64>,
}

impl Metric {
    /// The value for JSON: a whole number in every unit but ratios, `null` where undefined.
    pub fn json(&self) -> Value {
        self.unit.json(self.value)
    }
}

/// The metrics of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowMetrics {
    /// Its number.
    pub flow: u32,
    /// Its metrics, in the order of their definition.
    pub metrics: Vec<Metric>,
    /// Nanoseconds in each state of its controller, in the order in which they were first entered.
    pub states: Vec<(String, u64)>,
}
