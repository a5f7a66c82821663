//! Flows of QUIC stacks: the configuration of their ends.

use paceline_congestion::Signals;
#[cfg(feature = "quic")]
use paceline_quic::{self as quic, EndConfig};
#[cfg(feature = "quic")]
use paceline_scenario::FlowGroup;
#[cfg(feature = "quic")]
use paceline_units::Instant;
use paceline_units::StackName;

#[cfg(feature = "quic")]
use crate::guest::Choice;

/// The signals that a QUIC stack gives a controller; none if this build does not have the stack.
#[cfg(feature = "quic")]
pub(crate) fn signals(stack: StackName) -> Option<Signals> {
    match stack {
        StackName::Paceline | StackName::Guest => None,
        StackName::Quinn => Some(quic::quinn::SIGNALS),
        StackName::Noq => Some(quic::noq::SIGNALS),
    }
}

#[cfg(not(feature = "quic"))]
pub(crate) fn signals(_: StackName) -> Option<Signals> {
    None
}

/// The controllers that a stack brings.
#[cfg(feature = "quic")]
pub(crate) fn controllers(stack: StackName) -> &'static [&'static str] {
    quic::controllers(stack)
}

#[cfg(not(feature = "quic"))]
pub(crate) fn controllers(_: StackName) -> &'static [&'static str] {
    &[]
}

/// The controllers that a QUIC stack of this build brings, and its version.
#[cfg(feature = "quic")]
pub fn brought(stack: StackName) -> Option<(&'static [&'static str], &'static str)> {
    Some((quic::controllers(stack), quic::version(stack)?))
}

/// None in a build without QUIC stacks.
#[cfg(not(feature = "quic"))]
pub fn brought(_: StackName) -> Option<(&'static [&'static str], &'static str)> {
    None
}

/// The configuration of the ends of a group's flows; none if they run no QUIC stack. A caller says which end it is, when
/// it begins, and its seed.
#[cfg(feature = "quic")]
pub fn end_config(group: &FlowGroup, chosen: &Choice, max_datagram: u32) -> Option<EndConfig> {
    let controller = match chosen {
        Choice::Ours(recipe) => quic::Choice::Ours(recipe.clone()),
        Choice::Theirs(name) => quic::Choice::Theirs(name),
        // It is refused where the scenario is checked.
        Choice::Guest(..) | Choice::GuestFlow(..) => return None,
    };
    group.is_built_in_quic().then(|| EndConfig {
        sends: true,
        seed: 0,
        now: Instant::ZERO,
        max_datagram: u16::try_from(max_datagram).unwrap_or(u16::MAX),
        controller,
        initial_packets: u64::from(group.initial_window.0),
        receive_window: group.receive_window.get(),
        timer_slack: group.timer_slack(),
        gso: group.gso,
        ack_frequency: group.ack_frequency.map(|packets| packets.0),
        crypto: group.crypto,
        qlog: None,
    })
}
