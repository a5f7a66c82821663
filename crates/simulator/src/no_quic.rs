//! Without QUIC stacks: their flows are refused where a scenario is checked.

use paceline_scenario::Scenario;

use crate::foreign::Stacks;

/// Nothing: no stack writes a qlog.
pub(crate) struct Qlogs;

impl Qlogs {
    pub fn size(&self) -> u64 {
        0
    }

    pub fn take(&self) -> Vec<(u32, Vec<u8>)> {
        Vec::new()
    }
}

/// The stacks of a scenario: none but `others`.
pub(crate) fn with_named(_: &Scenario, others: &Stacks) -> (Stacks, Qlogs) {
    (others.clone(), Qlogs)
}
