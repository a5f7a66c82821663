//! Without QUIC stacks: flows that need them are refused when a scenario is checked.

use paceline_scenario::FlowGroup;

use crate::foreign::Stack;

/// None.
pub(crate) fn named(_: &FlowGroup) -> Option<Stack> {
    None
}
