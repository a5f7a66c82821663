//! A run, in its own process.

use std::fmt::Display;

use paceline_experiment::{
    Backend, Choice, FlowPlan, Guests, Memory, Plan, Progress, QLOG_ENTRY, RunError, Unavailable,
    Watch, end_config, seed_of, stack_choices, used,
};
use paceline_quic::{EndConfig, Qlog};
use paceline_record::{RecordMemory, Run};
use paceline_scenario::{Diagnostic, Scenario};
use paceline_units::Duration;
use rustix::event::{PollFd, PollFlags};

use crate::ends::Stack;
use crate::kernel::{self, controllers};
use crate::message::{self, Message, Outcome};
use crate::programs::Programs;
use crate::{child, fidelity, process, record, sys};

/// The emulator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Emulator;

impl Backend for Emulator {
    fn check(&self, scenario: &Scenario, guests: &Guests) -> Vec<Diagnostic> {
        kernel::check(scenario, guests)
    }

    fn available(&self, scenario: &Scenario) -> Result<(), RunError> {
        Ok(kernel::available(scenario, &controllers())?)
    }

    /// In real time. The record contains any exceeded bounds of the emulation.
    fn run(
        &self,
        scenario: &Scenario,
        guests: &Guests,
        seed: u64,
        watch: &mut Watch<'_>,
    ) -> Result<(Run, Progress), RunError> {
        let wrong = self.check(scenario, guests);
        if !wrong.is_empty() {
            return Err(RunError::Scenario(wrong));
        }
        let mut plan = Plan::resolve(scenario, seed, "emu").map_err(RunError::Scenario)?;
        self.available(scenario)?;
        let choices = stack_choices(scenario, guests).map_err(RunError::Scenario)?;
        plan.info.guests = used(choices.iter().flatten());
        let stacks = stacks(&plan, &choices);
        let (outcome, last) = emulate(&plan, &stacks, None, watch)?;
        let report = fidelity::report(&plan, &outcome);
        let run = paceline_tcp::record(plan.info, &plan.flows, outcome.observations, Vec::new());
        let run = run.with_qlogs(outcome.qlogs).with_emulation(report);
        Ok((run, last))
    }
}

/// The longest time between two questions to the watch.
const PERIOD: Duration = Duration::from_millis(50);

/// Runs programs at both ends of a scenario's path, in addition to its flows, until the client ends
/// or the scenario does. Returns the record, and the client's exit status, 124 if it was still
/// running.
///
/// # Errors
/// See [`RunError`].
pub fn shell(
    scenario: &Scenario,
    seed: u64,
    programs: &Programs,
    watch: &mut Watch<'_>,
) -> Result<(Run, i32), RunError> {
    let mut wrong = match scenario.flows.is_empty() {
        true => Vec::new(),
        false => Emulator.check(scenario, &Guests::none()),
    };
    if scenario.path.r#return.is_some() {
        let mut refuse = |key, message, hint: &str| {
            wrong.push(scenario.diagnostic(key, message, Some(hint.to_owned())));
        };
        if programs.up.is_some() {
            let message = "the rate of the client's direction is given twice";
            refuse("path.return", message, "change path.return.rate instead");
        }
        if scenario.flows.iter().any(|group| group.rtt.is_some()) {
            let message = "programs need all of the path's round trip on its two directions";
            refuse("path.return", message, "leave out the flows' own rtt");
        }
    }
    if !wrong.is_empty() {
        return Err(RunError::Scenario(wrong));
    }
    let plan = Plan::resolve(scenario, seed, "emu").map_err(RunError::Scenario)?;
    let up = match &programs.up {
        Some(up) => Plan::resolve(up, seed, "emu").map_err(RunError::Scenario)?,
        None => plan.clone(),
    };
    Emulator.available(scenario)?;
    let choices = stack_choices(scenario, &Guests::none()).map_err(RunError::Scenario)?;
    let foreground = sys::in_foreground();
    let (outcome, _) = emulate(&plan, &stacks(&plan, &choices), Some(programs), watch)?;
    let (report, exit) = (fidelity::report(&plan, &outcome), outcome.exit.unwrap_or(0));
    let info = record::with_talks(&plan, up.info.links.first(), &outcome);
    if foreground {
        // The client had the terminal, and has ended.
        let _ = sys::take_terminal();
    }
    let talks = outcome.talks.into_iter().map(|talk| talk.totals).collect();
    let run = paceline_tcp::record(info, &plan.flows, outcome.observations, talks);
    let run = run.with_qlogs(outcome.qlogs).with_emulation(report);
    Ok((run, exit))
}

/// The stack of each flow; none where the kernel's TCP runs. `choices` are the controllers, group by
/// group.
fn stacks(plan: &Plan<'_>, choices: &[Option<Choice>]) -> Vec<Option<Stack>> {
    let groups = plan.scenario.flows.iter().zip(choices);
    let of_flows =
        groups.flat_map(|(group, choice)| std::iter::repeat_n(choice, group.count as usize));
    let flows = (0..).zip(&plan.flows).zip(of_flows);
    let stack = |((number, flow), choice): ((u64, &FlowPlan), &Option<Choice>)| {
        let (now, seed) = (flow.start, seed_of(plan.seed, number));
        if let Choice::GuestFlow(_, guest) = choice.as_ref()? {
            return Some(Stack::Guest(guest.clone(), seed, now, flow.mss));
        }
        let config = end_config(&flow.group, choice.as_ref()?, flow.mss)?;
        let config = EndConfig {
            now,
            seed,
            qlog: plan.scenario.run.record.qlog.then(Qlog::default),
            ..config
        };
        Some(Stack::Named(flow.group.stack, Box::new(config)))
    };
    flows.map(stack).collect()
}

/// Memory of the record so far: rows as the path's process stores them, as they arrive from there,
/// and as columns.
fn memory(plan: &Plan<'_>, so_far: &Progress) -> Memory {
    const COPIES: u64 = 3;
    let times = so_far.passed.as_nanos() / plan.info.sample_interval.as_nanos().max(1);
    let each = |count: usize| times.saturating_mul(count as u64 * COPIES);
    let packets = match plan.scenario.run.record.packets {
        // Sent, delivered, and every other one acknowledged.
        true => so_far.packets.saturating_mul(5 * COPIES) / 2,
        false => 0,
    };
    let qlog = match plan.scenario.run.record.qlog {
        true => so_far.packets.saturating_mul(QLOG_ENTRY * COPIES) * 3 / 2,
        false => 0,
    };
    let (samples, queue) = (each(plan.flows.len()), each(plan.links.len()));
    Memory {
        record: RecordMemory {
            qlog,
            ..RecordMemory::rows(samples, 0, queue, 0, packets)
        },
        in_flight: 0,
        fixed: plan.fixed_memory(),
    }
}

fn failed(what: impl Display) -> RunError {
    RunError::Failed(format!("the emulator failed: {what}"))
}

fn io(what: &str) -> impl FnOnce(std::io::Error) -> RunError {
    move |error| failed(format_args!("{what}: {error}"))
}

fn emulate(
    plan: &Plan<'_>,
    stacks: &[Option<Stack>],
    programs: Option<&Programs>,
    watch: &mut Watch<'_>,
) -> Result<(Outcome, Progress), RunError> {
    let parent = std::process::id();
    let (_child, mut ours) =
        process::start(|theirs| child::main(plan, stacks, programs, theirs, parent))
            .map_err(io("start a process"))?;
    let mut so_far = Progress {
        total: plan.info.duration,
        ..Progress::default()
    };
    loop {
        so_far.memory = memory(plan, &so_far);
        watch.check(&so_far, None)?;
        let ready = sys::poll([PollFd::new(&ours, PollFlags::IN)], PERIOD);
        if ready.map_err(io("wait for the emulator"))? != [true] {
            continue;
        }
        match message::read(&mut ours).map_err(io("hear from the emulator"))? {
            Some(Message::Progress { passed, packets }) => {
                so_far.passed = Duration::from_nanos(passed).min(so_far.total);
                so_far.packets = packets;
            }
            Some(Message::Outcome(outcome)) => {
                so_far.passed = so_far.total;
                so_far.packets = outcome.observations.packets_offered;
                return Ok((*outcome, so_far));
            }
            Some(Message::Unavailable { what, hint }) => {
                return Err(Unavailable { what, hint }.into());
            }
            Some(Message::Failed(what)) => return Err(failed(what)),
            None => return Err(failed("its process has died")),
        }
    }
}
