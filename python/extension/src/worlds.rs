//! Parallel runs in steps, in which Python sets windows between the steps.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time;

use paceline_experiment::{self as experiment, Guests, Progress, RunError, Watch};
use paceline_record::Recorder;
use paceline_scenario::Scenario;
use paceline_simulator::{Decision, Episode, Feedback, Steered};
use paceline_units::{Bytes, Duration, Rate};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::error;
use crate::interruptible::PERIOD;
use crate::run::Run;
use crate::scenario::parse;

/// The observed quantities of a flow: name, maximum value, and description. The least value is 0.
const COLUMNS: [(&str, f32, &str); 11] = [
    (
        "cwnd_packets",
        MOST_PACKETS as f32,
        "window during the step",
    ),
    (
        "pacing_mbps",
        MOST_MBPS as f32,
        "pacing rate during the step; 0 without pacing",
    ),
    (
        "in_flight_packets",
        2.0 * MOST_PACKETS as f32,
        "payload in flight at the end of the step, in full packets",
    ),
    (
        "sent_mbps",
        MOST_MBPS as f32,
        "payload sent during the step, including retransmissions",
    ),
    (
        "delivered_mbps",
        MOST_MBPS as f32,
        "payload newly acknowledged during the step",
    ),
    (
        "delivery_rate_mbps",
        MOST_MBPS as f32,
        "last delivery-rate sample (draft-ietf-ccwg-bbr section 4.1); 0 without one",
    ),
    (
        "loss_ratio",
        1.0,
        "payload declared lost, over lost plus acknowledged payload",
    ),
    (
        "ce_ratio",
        1.0,
        "payload marked CE, over acknowledged payload",
    ),
    (
        "rtt_mean_ms",
        MOST_MS,
        "mean RTT sample of the step; 0 without one",
    ),
    (
        "rtt_least_ms",
        MOST_MS,
        "minimum RTT sample of the step; 0 without one",
    ),
    (
        "min_rtt_ms",
        MOST_MS,
        "minimum RTT of the connection; 0 before the first",
    ),
];

/// The maximum window of an agent, in packets: 1.5 GB.
const MOST_PACKETS: f64 = 1_048_576.0;
/// The minimum.
const LEAST_PACKETS: f64 = 1.0;
/// The maximum rate of a scenario.
const MOST_MBPS: f64 = 1e6;
/// The minimum pacing rate of an agent.
const LEAST_MBPS: f64 = 0.01;
/// An hour.
const MOST_MS: f32 = 3.6e6;
/// The shortest step.
const LEAST_STEP: Duration = Duration::from_micros(100);

/// The quantity that an action changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    Window,
    Rate,
}

/// The state of a world after a step.
const GOES_ON: u8 = 0;
const TERMINATED: u8 = 1;
const TRUNCATED: u8 = 2;

/// The settings that all worlds share.
struct Common {
    scenario: Arc<Scenario>,
    flows: Vec<u32>,
    /// The length of a step; an RTT if it is not given.
    interval: Option<Duration>,
    control: Control,
    /// Bytes of memory that a world may take.
    share: u64,
    stop: AtomicBool,
}

/// A world, and its agents' decisions for flows that have opened: windows in packets, rates in
/// Mbit/s.
#[derive(Default)]
struct Slot {
    episode: Option<Episode>,
    values: Vec<Option<f64>>,
}

/// Worlds of one scenario, in which the windows of some flows are set from outside.
///
/// A step is an interval of virtual time, or with `interval_ns = None` the longest smoothed RTT of
/// the steered flows. An action is a number from -1 to 1 for each of them: the power of two by
/// which its window (`control` is "window"), or its pacing rate and with it the window ("rate"),
/// changes. Both are `float32` buffers in C order: actions [world, flow], observations [world,
/// flow, column] with the `columns`.
#[pyclass(frozen, module = "paceline._paceline")]
pub struct Worlds {
    common: Common,
    slots: Mutex<Vec<Slot>>,
    threads: usize,
}

#[pymethods]
impl Worlds {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        text: &str,
        file: PathBuf,
        overrides: Vec<(String, String)>,
        flows: Vec<u32>,
        count: usize,
        interval_ns: Option<u64>,
        control: &str,
        threads: usize,
        memory: u64,
    ) -> PyResult<Self> {
        let control = match control {
            "window" => Control::Window,
            "rate" => Control::Rate,
            _ => {
                let message = format!("control is \"window\" or \"rate\", not {control:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        let interval = interval_ns.map(Duration::from_nanos);
        if interval.is_some_and(|interval| interval < LEAST_STEP) {
            let message = format!("a step takes at least {} ns", LEAST_STEP.as_nanos());
            return Err(PyValueError::new_err(message));
        }
        let guests = Guests::none();
        let read = || parse(text, &file, &overrides, Engine::Simulator, &guests, true);
        let scenario = py.detach(read).map_err(|error| error::run(py, &error))?;
        let worlds = Self {
            common: Common {
                scenario: Arc::new(scenario),
                flows,
                interval,
                control,
                share: memory / count.max(1) as u64,
                stop: AtomicBool::new(false),
            },
            slots: Mutex::new((0..count).map(|_| Slot::default()).collect()),
            threads,
        };
        // Flows that cannot be steered are reported now.
        let first = || {
            let mut on_progress = |_: &Progress, _: Option<&Recorder>| ControlFlow::Continue(());
            let mut watch = Watch::new(worlds.common.share, &mut on_progress);
            worlds.common.begin(1, &mut watch)
        };
        py.detach(first).map_err(|error| error::run(py, &error))?;
        Ok(worlds)
    }

    /// The observed quantities of a flow: (name, unit, minimum, maximum, description).
    #[classattr]
    fn columns() -> Vec<(&'static str, &'static str, f32, f32, &'static str)> {
        let unit = |name: &str| match name.rsplit_once('_') {
            Some((_, "packets")) => "packets",
            Some((_, "mbps")) => "Mbit/s",
            Some((_, "ms")) => "ms",
            _ => "ratio",
        };
        let column = |(name, most, doc)| (name, unit(name), 0.0, most, doc);
        COLUMNS.map(column).to_vec()
    }

    /// For each steered flow its RTT without queues in ns, and the rate in bit/s of the slowest link
    /// that it crosses, at the start of a run.
    fn paths(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64)>> {
        let plan = experiment::Plan::resolve(&self.common.scenario, 1, "sim");
        let plan = plan.map_err(|wrong| error::scenario(py, &wrong))?;
        let flows = self.common.flows.iter();
        let flows = flows.filter_map(|flow| plan.flows.get(*flow as usize));
        let of_flow = |flow: &experiment::FlowPlan| {
            let route = flow.route.iter();
            let links = route.filter_map(|link| plan.info.links.get(*link));
            let slowest = links.map(|link| link.capacity.bps()).min();
            (flow.base_rtt.as_nanos(), slowest.unwrap_or(0))
        };
        Ok(flows.map(of_flow).collect())
    }

    /// A step of each world, in parallel: with a seed it restarts, without one its actions apply.
    /// `times` are the lengths of the steps in ns; `states` are 0, or 1 once all steered flows have
    /// ended, or 2 at the end of the run.
    fn step(
        &self,
        py: Python<'_>,
        actions: PyBuffer<f32>,
        seeds: Vec<Option<u64>>,
        observations: PyBuffer<f32>,
        times: PyBuffer<u64>,
        states: PyBuffer<u8>,
    ) -> PyResult<()> {
        let (given, mut observed) = (actions.to_vec(py)?, observations.to_vec(py)?);
        let (mut took, mut ended) = (times.to_vec(py)?, states.to_vec(py)?);
        let agents = self.common.flows.len();
        let width = agents * COLUMNS.len();
        let count = seeds.len();
        let sizes = [
            given.len() / agents,
            observed.len() / width,
            took.len(),
            ended.len(),
        ];
        let done = py.detach(|| {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            if sizes.iter().any(|size| *size != count) || slots.len() != count {
                return Err(Stop::Bad("a buffer has another size".to_owned()));
            }
            let steps = given.chunks(agents).zip(&seeds);
            let steps = steps.filter(|(_, seed)| seed.is_none());
            if let Some(wrong) = steps
                .flat_map(|(action, _)| action)
                .find(|exponent| !(-1.0..=1.0).contains(*exponent))
            {
                let message =
                    format!("an action is a number from -1 to 1 for each flow, not {wrong}");
                return Err(Stop::Bad(message));
            }
            self.common.stop.store(false, Relaxed);
            let rows = slots.iter_mut().zip(&seeds).zip(given.chunks(agents));
            let outs = observed.chunks_mut(width).zip(&mut took).zip(&mut ended);
            let mut tasks: Vec<Task<'_>> = rows
                .zip(outs)
                .map(|(((slot, seed), action), ((row, took), ended))| Task {
                    slot,
                    seed: *seed,
                    action,
                    row,
                    took,
                    ended,
                })
                .collect();
            let share = count.div_ceil(self.threads.clamp(1, count.max(1))).max(1);
            let work = |tasks: &mut [Task<'_>]| {
                tasks.iter_mut().try_for_each(|task| {
                    let done = self
                        .common
                        .step(task.slot, task.seed, task.action, task.row)?;
                    (*task.took, *task.ended) = done;
                    Ok(())
                })
            };
            let (own, others) = tasks.split_at_mut(share.min(count));
            std::thread::scope(|scope| {
                let others = others.chunks_mut(share);
                let others: Vec<_> = others.map(|tasks| scope.spawn(|| work(tasks))).collect();
                let mut done = work(own);
                for other in others {
                    let ended = other
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    done = done.and(ended);
                }
                done
            })
        });
        done.map_err(|stop| stop.raise(py))?;
        observations.copy_from_slice(py, &observed)?;
        times.copy_from_slice(py, &took)?;
        states.copy_from_slice(py, &ended)
    }

    /// The progress of a world: virtual time in ns, and data packets offered to the path.
    fn progress(&self, world: usize) -> (u64, u64) {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let episode = slots.get(world).and_then(|slot| slot.episode.as_ref());
        episode.map_or((0, 0), |episode| {
            (episode.now().as_nanos(), episode.packets())
        })
    }

    /// Ends a world, and returns the record of its run.
    fn finish(&self, py: Python<'_>, world: usize) -> PyResult<Option<Run>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let episode = slots.get_mut(world).and_then(|slot| slot.episode.take());
        let run = episode.map(|episode| py.detach(|| episode.finish()));
        let run = run
            .transpose()
            .map_err(|error| error::run(py, &error.into()))?;
        Ok(run.map(Run::new))
    }
}

/// A step of a world: its inputs, and where its outcome goes.
struct Task<'a> {
    slot: &'a mut Slot,
    seed: Option<u64>,
    action: &'a [f32],
    row: &'a mut [f32],
    took: &'a mut u64,
    ended: &'a mut u8,
}

/// Why there is no step.
enum Stop {
    /// An argument is invalid.
    Bad(String),
    Run(RunError),
    /// Python raised an exception, usually for Ctrl-C.
    Python(PyErr),
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl Stop {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Bad(message) => PyValueError::new_err(message),
            Self::Run(error) => error::run(py, &error),
            Self::Python(error) => error,
        }
    }
}

impl Common {
    fn begin(&self, seed: u64, watch: &mut Watch<'_>) -> Result<Episode, RunError> {
        Episode::new(&self.scenario, seed, &self.flows, watch)
    }

    /// A step of one world, or its start; returns how long it took, and the state of the world.
    fn step(
        &self,
        slot: &mut Slot,
        seed: Option<u64>,
        action: &[f32],
        row: &mut [f32],
    ) -> Result<(u64, u8), Stop> {
        let mut signal = None;
        let mut looked = time::Instant::now();
        let mut on_progress = |_: &Progress, _: Option<&Recorder>| {
            if looked.elapsed() >= PERIOD {
                looked = time::Instant::now();
                signal = Python::attach(|py| py.check_signals()).err();
            }
            if signal.is_some() {
                self.stop.store(true, Relaxed);
            }
            match self.stop.load(Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let mut watch = Watch::new(self.share, &mut on_progress);
        let done = match seed {
            Some(seed) => self.reset(slot, seed, row, &mut watch),
            None => self.advance(slot, action, row, &mut watch),
        };
        match signal {
            Some(error) => Err(Stop::Python(error)),
            None => done,
        }
    }

    fn reset(
        &self,
        slot: &mut Slot,
        seed: u64,
        row: &mut [f32],
        watch: &mut Watch<'_>,
    ) -> Result<(u64, u8), Stop> {
        slot.episode = None;
        let mut episode = self.begin(seed, watch)?;
        let flows: Vec<Steered> = episode.steered().collect();
        slot.values = vec![None; flows.len()];
        for (nth, flow) in flows.iter().enumerate() {
            // Packets of the handshake and of the first window belong to no step.
            episode.take_feedback(nth);
            let row = &mut row[nth * COLUMNS.len()..];
            observe(row, flow, &Feedback::default(), 1.0);
        }
        let state = state(&episode);
        slot.episode = Some(episode);
        Ok((0, state))
    }

    fn advance(
        &self,
        slot: &mut Slot,
        action: &[f32],
        row: &mut [f32],
        watch: &mut Watch<'_>,
    ) -> Result<(u64, u8), Stop> {
        let Some(episode) = &mut slot.episode else {
            return Err(Stop::Bad(
                "the episode has not begun: call reset first".into(),
            ));
        };
        let flows: Vec<Steered> = episode.steered().collect();
        for (nth, (flow, exponent)) in flows.iter().zip(action).enumerate() {
            if flow.is_open {
                let value = slot.values[nth].get_or_insert_with(|| self.control.begin(flow));
                episode.decide(nth, self.control.decision(value, *exponent, flow));
            }
        }
        let open = flows.iter().filter(|flow| flow.is_open);
        let rtt = open.map(|flow| flow.srtt).max();
        let longest = flows.iter().map(|flow| flow.base_rtt).max();
        let step = (self.interval.or(rtt).or(longest).unwrap_or(LEAST_STEP)).max(LEAST_STEP);
        let begin = episode.now();
        episode.run_until(begin + step, watch)?;
        let took = episode.now().since(begin);
        let flows: Vec<Steered> = episode.steered().collect();
        for (nth, flow) in flows.iter().enumerate() {
            let feedback = episode.take_feedback(nth);
            let seconds = took.as_secs_f64().max(1e-9);
            observe(&mut row[nth * COLUMNS.len()..], flow, &feedback, seconds);
        }
        Ok((took.as_nanos(), state(episode)))
    }
}

fn state(episode: &Episode) -> u8 {
    match () {
        () if episode.steered().all(|flow| flow.is_over) => TERMINATED,
        () if episode.is_at_end() => TRUNCATED,
        () => GOES_ON,
    }
}

impl Control {
    /// The decision before the first action: the initial window.
    fn begin(self, flow: &Steered) -> f64 {
        let mss = f64::from(flow.mss);
        let window = flow.decision.cwnd.get() as f64 / mss;
        match self {
            Self::Window => window,
            Self::Rate => window * mss * 8.0 / flow.srtt.as_secs_f64() / 1e6,
        }
    }

    /// The result of an action, which changes `value` by a power of two within its bounds.
    fn decision(self, value: &mut f64, exponent: f32, flow: &Steered) -> Decision {
        let (least, most) = match self {
            Self::Window => (LEAST_PACKETS, MOST_PACKETS),
            Self::Rate => (LEAST_MBPS, MOST_MBPS),
        };
        *value = (*value * libm::exp2(exponent.into())).clamp(least, most);
        let mss = f64::from(flow.mss);
        match self {
            Self::Window => Decision {
                cwnd: Bytes::new((*value * mss).round() as u64),
                pacing_rate: None,
            },
            Self::Rate => {
                // The window must not limit before the rate does.
                let window = 2.0 * *value * 1e6 / 8.0 * flow.srtt.as_secs_f64();
                Decision {
                    cwnd: Bytes::new(window.clamp(2.0 * mss, MOST_PACKETS * mss) as u64),
                    pacing_rate: Some(Rate::from_bps((*value * 1e6).round() as u64)),
                }
            }
        }
    }
}

/// Writes the observations of a flow over a step.
fn observe(row: &mut [f32], flow: &Steered, feedback: &Feedback, seconds: f64) {
    let packets = |bytes: Bytes| bytes.get() as f64 / f64::from(flow.mss);
    let rate = |bytes: Bytes| bytes.get() as f64 * 8.0 / seconds / 1e6;
    let mbps = |rate: Option<Rate>| rate.map_or(0.0, |rate| rate.bps() as f64 / 1e6);
    let ms = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let share = |part: Bytes, of: Bytes| match of.get() {
        0 => 0.0,
        of => part.get() as f64 / of as f64,
    };
    let values = [
        packets(flow.decision.cwnd),
        mbps(flow.decision.pacing_rate),
        packets(flow.in_flight),
        rate(feedback.sent),
        rate(feedback.acked),
        mbps(feedback.delivery_rate),
        share(feedback.lost, feedback.lost + feedback.acked),
        share(feedback.marked, feedback.acked),
        ms(feedback.mean_rtt),
        ms(feedback.least_rtt),
        ms(flow.min_rtt),
    ];
    for ((place, value), (_, most, _)) in row.iter_mut().zip(values).zip(COLUMNS) {
        *place = (value as f32).clamp(0.0, most);
    }
}
