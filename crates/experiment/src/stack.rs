//! Flows of QUIC stacks: what their ends are made with.

use paceline_quic::{self as quic, EndConfig};
use paceline_scenario::FlowGroup;
use paceline_units::Instant;

use crate::guest::Choice;

/// What the ends of a group's flows are made with, none if they run no QUIC stack. A caller says which end it is, when
/// it begins, and its seed.
pub fn end_config(group: &FlowGroup, chosen: &Choice, max_datagram: u32) -> Option<EndConfig> {
    let controller = match chosen {
        Choice::Ours(recipe) => quic::Choice::Ours(recipe.clone()),
        Choice::Theirs(name) => quic::Choice::Theirs(name),
        // It is refused where the scenario is checked.
        Choice::Guest(..) => return None,
    };
    group.is_quic().then(|| EndConfig {
        sends: true,
        seed: 0,
        now: Instant::ZERO,
        max_datagram: u16::try_from(max_datagram).unwrap_or(u16::MAX),
        controller,
        initial_packets: u64::from(group.initial_window.0),
        receive_window: group.receive_window.get(),
        timer_slack: group.timer_slack(),
        gso: group.gso,
    })
}
