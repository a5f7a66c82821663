use paceline_units::Comparison;
use serde_json::{Value, json};

use crate::metric::{self, Metric};
use crate::metrics::{METRICS, find};

/// An expectation about a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// Name of the metric, with or without its unit.
    pub metric: String,
    /// Comparison.
    pub op: Comparison,
    /// Bound in the metric's unit.
    pub bound: f64,
}

/// The result of an expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Name of the metric, in full; the given name if there is no such metric.
    pub metric: String,
    /// The comparison, as `>= 0.95`.
    pub bound: String,
    /// The measured value; `None` when the metric is undefined or does not exist.
    pub value: Option<f64>,
    /// Whether it held; an undefined metric holds no expectation.
    pub held: bool,
}

impl Outcome {
    /// `metric`, `bound`, `value` and `held`, as in `--json`.
    pub fn json(&self) -> Value {
        let value = metric::json(&self.metric, self.value);
        json!({ "metric": self.metric, "bound": self.bound, "value": value, "held": self.held })
    }
}

/// Checks expectations against metrics, in their order.
pub fn evaluate(metrics: &[Metric], expectations: &[Expectation]) -> Vec<Outcome> {
    let outcome = |expected: &Expectation| {
        let spec = find(METRICS, &expected.metric);
        let name = spec.map_or(expected.metric.as_str(), |spec| spec.name);
        let metric = metrics.iter().find(|m| m.name == name);
        let value = metric.and_then(|m| m.value);
        Outcome {
            metric: name.to_owned(),
            bound: format!("{} {}", expected.op, expected.bound),
            value,
            held: value.is_some_and(|value| expected.op.holds(value, expected.bound)),
        }
    };
    expectations.iter().map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::two_flows;

    fn outcome(metric: &str, op: Comparison, bound: f64) -> Outcome {
        let expected = Expectation {
            metric: metric.into(),
            op,
            bound,
        };
        evaluate(two_flows().metrics(), &[expected]).remove(0)
    }

    #[test]
    fn bounds_hold_or_not() {
        // jain_bins_ratio is 0.95
        let holds = |op, bound| outcome("jain_bins_ratio", op, bound).held;
        assert!(holds(Comparison::AtLeast, 0.95) && !holds(Comparison::AtLeast, 0.96));
        assert!(holds(Comparison::Greater, 0.94) && !holds(Comparison::Greater, 0.95));
        assert!(holds(Comparison::AtMost, 0.95) && !holds(Comparison::AtMost, 0.94));
        assert!(holds(Comparison::Less, 0.96) && !holds(Comparison::Less, 0.95));
        assert!(holds(Comparison::Equal, 0.95) && !holds(Comparison::Equal, 0.96));
    }

    #[test]
    fn the_unit_may_be_left_out() {
        let outcome = outcome("rtt_p50", Comparison::AtMost, 60e6);
        let json = r#"{"metric":"rtt_p50_ns","bound":"<= 60000000","value":90000000,"held":false}"#;
        assert_eq!(outcome.json().to_string(), json);
    }

    #[test]
    fn what_is_unknown_or_undefined_holds_nothing() {
        let unknown = outcome("jainn", Comparison::AtLeast, 0.0);
        assert_eq!(
            (unknown.metric.as_str(), unknown.value, unknown.held),
            ("jainn", None, false)
        );
        let undefined = evaluate(
            &[],
            &[Expectation {
                metric: "jain".into(),
                op: Comparison::AtLeast,
                bound: 0.0,
            }],
        );
        assert!(!undefined[0].held && undefined[0].json()["value"].is_null());
    }
}
