//! The stacks that a scenario names.

use paceline_experiment::Choice;
use paceline_quic::{self as stack, EndConfig, noq, quinn};
use paceline_scenario::{FlowGroup, Scenario};
use paceline_units::StackName;

use crate::foreign::{Setup, Stack, Stacks};

/// Those of a scenario, and `others` in their stead where there are such.
pub(crate) fn with_named(scenario: &Scenario, others: &Stacks) -> Stacks {
    let mut stacks = Stacks::none();
    for (number, group) in scenario.flows.iter().enumerate() {
        if let Some(stack) = others.0.get(&number).cloned().or_else(|| named(group)) {
            stacks = stacks.with(number, stack);
        }
    }
    stacks
}

fn named(group: &FlowGroup) -> Option<Stack> {
    let initial_packets = u64::from(group.initial_window.0);
    let receive_window = group.receive_window.get();
    let (timer_slack, gso) = (group.timer_slack(), group.gso);
    let end = move |setup: &Setup<'_>, sends: bool| EndConfig {
        sends,
        seed: setup.seed,
        now: setup.now,
        max_datagram: u16::try_from(setup.max_datagram).unwrap_or(u16::MAX),
        controller: choice(setup.controller),
        initial_packets,
        receive_window,
        timer_slack,
        gso,
    };
    match group.stack {
        StackName::Paceline => None,
        StackName::Quinn => Some(Stack::new(move |setup| {
            let end = |sends| quinn::End::new(&end(setup, sends));
            (end(true), end(false))
        })),
        StackName::Noq => Some(Stack::new(move |setup| {
            let end = |sends| noq::End::new(&end(setup, sends));
            (end(true), end(false))
        })),
    }
}

/// The controller for a stack: one of ours by its adapter, or one of its own. Guests are refused before.
fn choice(chosen: &Choice) -> stack::Choice {
    match chosen {
        Choice::Ours(recipe) => stack::Choice::Ours(recipe.clone()),
        Choice::Theirs(name) => stack::Choice::Theirs(name),
        Choice::Guest(info, _) => unreachable!("`{}` is refused by the check", info.name),
    }
}
