//! Without QUIC stacks: flows that need them are refused when a scenario is checked.

use paceline_scenario::Scenario;

use crate::foreign::Stacks;

/// The stacks of a scenario: only `others`.
pub(crate) fn with_named(_: &Scenario, others: &Stacks) -> Stacks {
    others.clone()
}
