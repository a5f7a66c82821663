//! Without QUIC stacks: their flows are refused where a scenario is checked.

use paceline_scenario::FlowGroup;

use crate::foreign::Stack;

/// Nothing: no stack writes a qlog.
#[derive(Default)]
pub(crate) struct Qlogs;

impl Qlogs {
    pub fn size(&self) -> u64 {
        0
    }

    pub fn take(&self) -> Vec<(u32, Vec<u8>)> {
        Vec::new()
    }
}

/// None.
pub(crate) fn named(_: &FlowGroup, _: Option<&Qlogs>) -> Option<Stack> {
    None
}
