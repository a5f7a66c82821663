//! Runs, side by side, while Python stays alive: the GIL is released, Ctrl-C is honoured.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use paceline_scenario::Scenario;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use crate::engine::{self, Engine, Failure, Progress};
use crate::run::Run;
use crate::scenario::parse;

/// How often Python hears of progress and signals are looked for.
const PERIOD: Duration = Duration::from_millis(50);

/// What one job has done so far.
#[derive(Default)]
struct Seen {
    simulated_ns: AtomicU64,
    packets: AtomicU64,
    events: AtomicU64,
}

impl Seen {
    fn set(&self, progress: &Progress) {
        self.simulated_ns.store(progress.passed_ns, Relaxed);
        self.packets.store(progress.packets, Relaxed);
        self.events.store(progress.events, Relaxed);
    }
}

struct Ended {
    index: usize,
    outcome: Result<(paceline_record::Run, Progress), Failure>,
    wall: Duration,
}

/// The text of a scenario, what errors call it, overrides, seed.
type Job = (PyBackedStr, PathBuf, Vec<(String, String)>, u64);

/// Runs `jobs` (text, file, overrides, seed) on `threads` threads.
///
/// `progress(simulated_ns, total_ns, packets, events, ended)` is called some times a second,
/// `finished(index, run, engine)` once for each job, as they end, with `engine` being
/// `(wall_ns, packets, events)`. What any of them raises, and Ctrl-C, stops the jobs that are left.
/// So does a run that stops before its end, unless `failed(index, message)` hears of it. Of runs
/// that have ended, no more than `threads` wait to be handed over. `backend` is `sim` or `emu`; runs
/// in real time would get in each other's way, and go one after another.
#[pyfunction]
#[pyo3(signature = (jobs, threads, finished, progress = None, failed = None, backend = "sim"))]
pub fn simulate(
    py: Python<'_>,
    jobs: Vec<Job>,
    threads: usize,
    finished: Py<PyAny>,
    progress: Option<Py<PyAny>>,
    failed: Option<Py<PyAny>>,
    backend: &str,
) -> PyResult<()> {
    let engine = engine::named(backend)?;
    let threads = match engine {
        Engine::Simulator => threads.max(1),
        Engine::Emulator => 1,
    };
    let jobs = jobs
        .into_iter()
        .map(|(text, file, overrides, seed)| {
            // There may be thousands of them.
            py.check_signals()?;
            Ok((parse(py, &text, &file, &overrides, engine, true)?, seed))
        })
        .collect::<PyResult<Vec<_>>>()?;
    let batch = Batch {
        seen: jobs.iter().map(|_| Seen::default()).collect(),
        jobs,
        engine,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let listener = Listener { finished, failed };
    py.detach(|| batch.run(threads, &listener, progress.as_ref()))
}

/// Who hears of jobs that have ended.
struct Listener {
    finished: Py<PyAny>,
    failed: Option<Py<PyAny>>,
}

struct Batch {
    jobs: Vec<(Scenario, u64)>,
    engine: Engine,
    seen: Vec<Seen>,
    next: AtomicUsize,
    stop: AtomicBool,
}

impl Batch {
    fn run(
        &self,
        threads: usize,
        listener: &Listener,
        progress: Option<&Py<PyAny>>,
    ) -> PyResult<()> {
        let (sender, receiver) = mpsc::sync_channel(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(self.jobs.len()) {
                let sender = sender.clone();
                scope.spawn(move || self.work(&sender));
            }
            drop(sender);

            let mut result = Ok(());
            let mut ended = 0;
            loop {
                let step = match receiver.recv_timeout(PERIOD) {
                    Ok(job) => {
                        ended += 1;
                        self.hand_over(job, listener, result.is_err())
                    }
                    Err(RecvTimeoutError::Timeout) => self.report(progress, ended),
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if let Err(error) = step {
                    self.stop.store(true, Relaxed);
                    // The first reason counts; the others follow from it.
                    result = result.and(Err(error));
                }
            }
            result.and_then(|()| self.report(progress, ended))
        })
    }

    /// What one thread does: job after job, until there is none or something stops the batch.
    fn work(&self, sender: &mpsc::SyncSender<Ended>) {
        while !self.stop.load(Relaxed) {
            let index = self.next.fetch_add(1, Relaxed);
            let (Some((scenario, seed)), Some(seen)) = (self.jobs.get(index), self.seen.get(index))
            else {
                return;
            };
            let begin = Instant::now();
            let outcome = engine::run(self.engine, scenario, *seed, &mut |progress| {
                seen.set(&progress);
                if self.stop.load(Relaxed) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            let wall = begin.elapsed();
            if sender
                .send(Ended {
                    index,
                    outcome,
                    wall,
                })
                .is_err()
            {
                return;
            }
        }
    }

    fn hand_over(&self, job: Ended, listener: &Listener, stopping: bool) -> PyResult<()> {
        Python::attach(|py| match job.outcome {
            Ok((run, last)) => {
                if let Some(seen) = self.seen.get(job.index) {
                    seen.set(&last);
                }
                let wall_ns = u64::try_from(job.wall.as_nanos()).unwrap_or(u64::MAX);
                let engine = (wall_ns, last.packets, last.events);
                listener
                    .finished
                    .call1(py, (job.index, Run::new(run), engine))?;
                Ok(())
            }
            // We stopped it ourselves.
            Err(_) if stopping => Ok(()),
            Err(error) => match &listener.failed {
                Some(failed) => failed.call1(py, (job.index, error.message())).map(drop),
                None => Err(error.raise(py)),
            },
        })
    }

    fn report(&self, progress: Option<&Py<PyAny>>, ended: usize) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            let Some(progress) = progress else {
                return Ok(());
            };
            let sum = |field: fn(&Seen) -> &AtomicU64| -> u64 {
                self.seen.iter().map(|seen| field(seen).load(Relaxed)).sum()
            };
            let total: u64 = self
                .jobs
                .iter()
                .map(|(scenario, _)| scenario.run.duration.as_nanos())
                .sum();
            let simulated = sum(|seen| &seen.simulated_ns);
            let packets = sum(|seen| &seen.packets);
            let events = sum(|seen| &seen.events);
            progress.call1(py, (simulated, total, packets, events, ended))?;
            Ok(())
        })
    }
}
