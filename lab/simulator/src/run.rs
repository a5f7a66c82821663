//! Complete runs.

use std::ops::ControlFlow;

use paceline_experiment::{
    self as experiment, Backend, Choice, Fault, Guests, Memory, Plan, Progress, RunError, Watch,
};
use paceline_record::{Recorder, Run};
use paceline_scenario::{Diagnostic, Scenario};
use paceline_units::Instant;

use crate::flow::each_flow;
use crate::foreign::Stacks;
use crate::halt::Halt;
use crate::named::with_named;
use crate::world::World;

/// The simulator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulator;

impl Backend for Simulator {
    fn check(&self, scenario: &Scenario, guests: &Guests) -> Vec<Diagnostic> {
        let mut wrong = experiment::choices(scenario, guests)
            .err()
            .unwrap_or_default();
        wrong.extend(experiment::check(scenario));
        wrong
    }

    fn run(
        &self,
        scenario: &Scenario,
        guests: &Guests,
        seed: u64,
        watch: &mut Watch<'_>,
    ) -> Result<(Run, Progress), RunError> {
        run_with(scenario, seed, guests, &Stacks::none(), watch)
    }
}

/// Errors of a scenario beyond its own text: controllers, their options, metrics and files that do
/// not exist.
pub fn check(scenario: &Scenario) -> Vec<Diagnostic> {
    Simulator.check(scenario, &Guests::none())
}

/// Work between two questions to the watch: about 50 us; where each event has to look at tens of
/// thousands of queues, still at most about 50 ms.
pub(crate) const STRIDE: i64 = 256;

/// The plan of a run, and the controllers of its flows.
pub(crate) fn prepare<'s>(
    scenario: &'s Scenario,
    seed: u64,
    guests: &Guests,
) -> Result<(Plan<'s>, Vec<Choice>), RunError> {
    let plan = Plan::resolve(scenario, seed, "sim");
    let (Ok(mut plan), Ok(choices)) = (plan, experiment::choices(scenario, guests)) else {
        return Err(RunError::Scenario(Simulator.check(scenario, guests)));
    };
    plan.info.guests = experiment::used(&choices);
    let each = each_flow(scenario).map(|group| choices[group].clone());
    Ok((plan, each.collect()))
}

/// The progress of a run that is about to take its memory.
pub(crate) fn begun(plan: &Plan<'_>) -> Progress {
    Progress {
        total: plan.scenario.run.duration,
        memory: Memory {
            fixed: plan.fixed_memory(),
            ..Memory::default()
        },
        ..Progress::default()
    }
}

/// Runs a scenario with `seed` to its end. `progress` is called every few hundred events, so that a
/// request to stop takes effect quickly whatever an event costs; it may stop the run.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    scenario: &Scenario,
    seed: u64,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(Run, Progress), RunError> {
    let mut on_progress = |at: &Progress, _: Option<&Recorder>| progress(at);
    let mut watch = Watch::new(u64::MAX, &mut on_progress);
    Simulator.run(scenario, &Guests::none(), seed, &mut watch)
}

/// A run with third-party controllers and transports. `watch` is asked every few hundred events.
///
/// Flows of our transport may use `guests`. Groups of flows in `stacks` run transports that a
/// scenario cannot name: any two ends that are [`Endpoint`](paceline_endpoint::Endpoint)s. Their
/// packets cross the same links, queues and hosts; the record contains the state that they report.
///
/// # Errors
/// See [`RunError`].
pub fn run_with(
    scenario: &Scenario,
    seed: u64,
    guests: &Guests,
    stacks: &Stacks,
    watch: &mut Watch<'_>,
) -> Result<(Run, Progress), RunError> {
    let fault = Fault::default();
    let (stacks, qlogs) = with_named(scenario, stacks, &fault);
    let (plan, choices) = prepare(scenario, seed, guests)?;
    watch.within(&begun(&plan))?;
    let mut world = World::new(plan, choices, &stacks, &fault);
    let end = Instant::ZERO + scenario.run.duration;
    loop {
        let reached = world.run(end, STRIDE);
        let so_far = world.progress(qlogs.size());
        let broken = match (fault.message(), &reached) {
            (Some(what), _) => {
                let (first, rest) = what.split_at(what.find('\n').unwrap_or(what.len()));
                let seconds = so_far.passed.as_secs_f64();
                Some(format!("{first}, by {seconds} s of virtual time{rest}"))
            }
            (None, Err(halt @ Halt::Defective(..))) => Some(halt.message(world.now)),
            _ => None,
        };
        if let Some(what) = broken {
            let run = world.stop(&what)?.with_qlogs(qlogs.take());
            let run = Box::new(run);
            return Err(RunError::Broken { what, run });
        }
        match reached {
            Err(halt) => return Err(RunError::Failed(halt.message(world.now))),
            Ok(true) => {
                let run = world.finish()?.with_qlogs(qlogs.take());
                return Ok((run, so_far));
            }
            Ok(false) => watch.check(&so_far, Some(world.recorder()))?,
        }
    }
}
