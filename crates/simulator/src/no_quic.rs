//! Without QUIC stacks: their flows are refused where a scenario is checked.

use paceline_scenario::FlowGroup;

use crate::foreign::Stack;

/// None.
pub(crate) fn named(_: &FlowGroup) -> Option<Stack> {
    None
}
