//! The transports that a scenario names.

use paceline_endpoint::{Batch, Datagram, Endpoint, Stats, Write};
use paceline_experiment::{Choice, Fault, GuestEnd};
use paceline_scenario::Scenario;
use paceline_units::{Instant, StackName};

use crate::foreign::{Setup, Stack, Stacks};
use crate::quic::{self, Qlogs};

/// The transports of a scenario's flows, overridden by `others`, and the qlogs that they write. Those of guests report
/// to `fault`.
pub(crate) fn with_named(scenario: &Scenario, others: &Stacks, fault: &Fault) -> (Stacks, Qlogs) {
    let (mut stacks, qlogs) = (Stacks::none(), Qlogs::default());
    let written = scenario.run.record.qlog.then_some(&qlogs);
    for (number, group) in scenario.flows.iter().enumerate() {
        let named = || match group.stack {
            StackName::Guest => Some(of_guest(fault)),
            _ => quic::named(group, written),
        };
        if let Some(stack) = others.0.get(&number).cloned().or_else(named) {
            stacks = stacks.with(number, stack);
        }
    }
    (stacks, qlogs)
}

/// The stack of a library, which the flow's controller names.
fn of_guest(fault: &Fault) -> Stack {
    let fault = fault.clone();
    Stack::new(move |setup| {
        made(setup).unwrap_or_else(|why| {
            fault.report(why);
            (Box::new(Dead), Box::new(Dead))
        })
    })
}

fn made(setup: &Setup<'_>) -> Result<(GuestEnd, GuestEnd), String> {
    match setup.controller {
        Choice::GuestFlow(info, flow) => flow
            .ends(setup.seed, setup.now, setup.max_datagram)
            .map_err(|why| format!("`{}`: {why}", info.name)),
        _ => unreachable!("a scenario's controllers are checked against their transports"),
    }
}

/// An end that was not made: the run stops.
struct Dead;

impl Endpoint for Dead {
    type Payload = Vec<u8>;

    fn receive(&mut self, _: Instant, _: Datagram<Vec<u8>>) {}

    fn on_timer(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, _: Instant) -> Option<Batch<Vec<u8>>> {
        None
    }

    fn next_timer(&mut self) -> Option<Instant> {
        None
    }

    fn write(&mut self, _: Instant, _: Write) {}

    fn delivered(&self) -> u64 {
        0
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }
}
