//! Complete runs.

use std::borrow::Cow;
use std::ops::ControlFlow;

use paceline_experiment::{self as experiment, Choice, Fault, Guests, Memory, Plan};
use paceline_record::{Held, Recorder, Run};
use paceline_scenario::{Diagnostic, Scenario};
use paceline_units::{Duration, Instant};

use crate::foreign::Stacks;
use crate::named::with_named;
use crate::world::{self, Halt, World};

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time that has passed.
    pub simulated: Duration,
    /// Virtual time of the whole run.
    pub total: Duration,
    /// Data packets offered to the path so far.
    pub packets: u64,
    /// Events handled so far.
    pub events: u64,
    /// Memory of the run.
    pub memory: Memory,
}

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario names something that does not exist.
    #[error("the scenario cannot run")]
    Scenario(Vec<Diagnostic>),
    /// The progress callback asked to stop.
    #[error("interrupted at {} s of virtual time", .0.simulated.as_secs_f64())]
    Interrupted(Progress),
    /// Virtual time does not advance: a defect of the engine.
    #[error("the engine does not get past {} s of virtual time; please report this scenario", .0.simulated.as_secs_f64())]
    Stuck(Progress),
    /// An end of another transport cannot be driven.
    #[error("the endpoint of flow {flow} is defective: {what}, at {} s of virtual time", .at.simulated.as_secs_f64())]
    Endpoint {
        /// The flow.
        flow: u32,
        /// What is wrong with it.
        what: Cow<'static, str>,
        /// The record up to that time, marked incomplete; none of an episode, which still has it.
        run: Option<Box<Run>>,
        /// How far the run had come.
        at: Box<Progress>,
    },
    /// A guest controller cannot continue.
    #[error("{what}")]
    Guest {
        /// Its error.
        what: String,
        /// The record up to that time, marked incomplete.
        run: Box<Run>,
        /// How far the run had come.
        at: Box<Progress>,
    },
    /// Packet counts do not balance: a defect of the engine.
    #[error(transparent)]
    Unbalanced(#[from] experiment::Unbalanced),
}

/// Errors of a scenario beyond its own text: controllers, their options, metrics and files that do
/// not exist.
pub fn check(scenario: &Scenario) -> Vec<Diagnostic> {
    check_with(scenario, &Guests::none())
}

/// [`check`] of a scenario that may name these controllers too.
pub fn check_with(scenario: &Scenario, guests: &Guests) -> Vec<Diagnostic> {
    let mut wrong = experiment::choices(scenario, guests)
        .err()
        .unwrap_or_default();
    wrong.extend(experiment::check(scenario));
    wrong
}

/// Work between two calls of `progress`: about 50 us; where each event has to look at tens of
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
        return Err(RunError::Scenario(check_with(scenario, guests)));
    };
    plan.info.guests = experiment::used(&choices);
    let each = world::each_flow(scenario).map(|group| choices[group].clone());
    Ok((plan, each.collect()))
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
    run_with(scenario, seed, &Guests::none(), &Stacks::none(), progress)
}

/// [`run`] with third-party controllers and transports.
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
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(Run, Progress), RunError> {
    run_watched(scenario, seed, guests, stacks, &mut |at, _| progress(at))
}

/// [`run_with`] whose `watch` sees the record so far, too.
///
/// # Errors
/// See [`RunError`].
pub fn run_watched(
    scenario: &Scenario,
    seed: u64,
    guests: &Guests,
    stacks: &Stacks,
    watch: &mut dyn FnMut(&Progress, &Recorder) -> ControlFlow<()>,
) -> Result<(Run, Progress), RunError> {
    let fault = Fault::default();
    let (stacks, qlogs) = with_named(scenario, stacks, &fault);
    let (plan, choices) = prepare(scenario, seed, guests)?;
    let fixed = plan.fixed_memory();
    let mut world = World::new(plan, choices, &stacks, &fault);
    let total = scenario.run.duration;
    let end = Instant::ZERO + total;
    // Rows are counted each time; packets in flight only so often that looking at all flows costs
    // almost nothing.
    let seldom = 1 + world.parts() as u64 / 16;
    let mut in_flight = 0;
    let mut strides = 0;
    loop {
        let reached = world.run(end, STRIDE);
        if strides % seldom == 0 {
            in_flight = world.in_flight();
        }
        strides += 1;
        let so_far = Progress {
            simulated: world.now.since(Instant::ZERO),
            total,
            packets: world.tally.packets,
            events: world.tally.events,
            memory: Memory {
                record: Held {
                    qlog: qlogs.size(),
                    ..world.held()
                },
                in_flight,
                fixed,
            },
        };
        if let Some(what) = fault.seen() {
            let (first, rest) = what.split_at(what.find('\n').unwrap_or(what.len()));
            let seconds = so_far.simulated.as_secs_f64();
            let what = format!("{first}, by {seconds} s of virtual time{rest}");
            let run = world.stop(scenario, &what)?.with_qlogs(qlogs.take());
            let run = Box::new(run);
            return Err(RunError::Guest {
                what,
                run,
                at: Box::new(so_far),
            });
        }
        match reached {
            Err(Halt::Stuck) => return Err(RunError::Stuck(so_far)),
            Err(Halt::Defective(flow, what)) => {
                let error = |run| RunError::Endpoint {
                    flow,
                    what: what.clone(),
                    run,
                    at: Box::new(so_far),
                };
                let run = world.stop(scenario, &error(None).to_string())?;
                let run = run.with_qlogs(qlogs.take());
                return Err(error(Some(Box::new(run))));
            }
            Ok(true) => {
                let run = world.finish(scenario)?.with_qlogs(qlogs.take());
                return Ok((run, so_far));
            }
            Ok(false) if watch(&so_far, world.recorder()).is_break() => {
                return Err(RunError::Interrupted(so_far));
            }
            Ok(false) => {}
        }
    }
}
