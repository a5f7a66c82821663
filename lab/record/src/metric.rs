//! The definition of a metric, of a run or of a flow.

use paceline_units::Quantity;
use serde_json::{Map, Value, json};

/// What a metric of this name measures.
fn quantity_of(name: &str) -> Quantity {
    Quantity::of_name(name).unwrap_or(Quantity::Gain)
}

/// A metric's value for JSON: a whole number in every unit but ratios, `null` where undefined.
pub(crate) fn json(name: &str, value: Option<f64>) -> Value {
    match value {
        Some(value) if quantity_of(name) != Quantity::Gain => json!(value.round() as u64),
        value => json!(value),
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
    /// The direction in which it is better.
    pub better: Better,
    /// The formula.
    pub formula: &'static str,
    /// The window: over which rows.
    pub window: &'static str,
    /// If it is a time that a run may end before: where it is then censored.
    pub censored: Option<Censored<F>>,
    /// The function that computes it.
    pub compute: F,
}

impl<F> Definition<F> {
    /// What it measures, by the unit in its name.
    pub fn quantity(&self) -> Quantity {
        quantity_of(self.name)
    }
}

/// Where a time that a run does not show is censored: it is longer than that.
#[derive(Clone, Copy, Debug)]
pub struct Censored<F: 'static> {
    /// The place, in words.
    pub at: &'static str,
    /// The function that computes it; `None` where the time does not apply.
    pub compute: F,
}

/// A metric of a run or of a flow: its name, and its value if it is defined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Name, which ends in the unit.
    pub name: &'static str,
    /// Value in that unit, never infinite nor NaN.
    pub value: Option<f64>,
    /// What it is longer than, if it is a time that the run does not show.
    pub censored: Option<f64>,
}

impl Metric {
    /// The value for JSON: a whole number in every unit but ratios, `null` where undefined.
    pub fn json(&self) -> Value {
        json(self.name, self.value)
    }

    /// What the censored times among some metrics are longer than, by name, for JSON.
    pub fn censored_json(metrics: &[Self]) -> Option<Value> {
        let limit = |m: &Self| Some((m.name.to_owned(), json(m.name, Some(m.censored?))));
        let limits: Map<String, Value> = metrics.iter().filter_map(limit).collect();
        (!limits.is_empty()).then_some(Value::Object(limits))
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
