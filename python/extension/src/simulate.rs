//! Parallel runs while Python stays responsive: the GIL is released, Ctrl-C works.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_experiment::{Guests, Progress, RunError, Watch};
use paceline_record::Recorder;
use paceline_scenario::Scenario;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use crate::engine::{self, Engine};
use crate::error;
use crate::follow::Follower;
use crate::guest::{self, PyGuest};
use crate::interruptible::PERIOD;
use crate::run::Run;
use crate::scenario::parse;

/// How long a request to stop waits for runs that are about to end. A run notices it at once,
/// except while its metrics are computed.
const GRACE: Duration = Duration::from_millis(300);

/// The progress of one job.
#[derive(Default)]
struct JobProgress {
    /// Length of the run; zero before its scenario is read.
    total_ns: AtomicU64,
    simulated_ns: AtomicU64,
    packets: AtomicU64,
    events: AtomicU64,
}

impl JobProgress {
    fn set(&self, progress: &Progress) {
        self.simulated_ns.store(progress.passed.as_nanos(), Relaxed);
        self.packets.store(progress.packets, Relaxed);
        self.events.store(progress.events, Relaxed);
    }
}

struct Ended {
    index: usize,
    outcome: Result<(paceline_record::Run, Progress), RunError>,
    wall: Duration,
}

impl Ended {
    /// Its memory until it is passed on.
    fn bytes(&self) -> u64 {
        let run = self.outcome.as_ref();
        run.map_or(0, |(_, last)| last.memory.total())
    }
}

/// The text of a scenario, its name in errors, overrides, seed.
type Job = (PyBackedStr, PathBuf, Vec<(String, String)>, u64);

/// The data that several jobs may share: text, file, overrides.
struct Source {
    text: PyBackedStr,
    file: PathBuf,
    overrides: Vec<(String, String)>,
    /// The number of jobs that have not taken it, and the scenario as long as there are others to
    /// come.
    left: Mutex<(usize, Option<Arc<Scenario>>)>,
}

impl Source {
    /// The scenario, read and checked by the first job that asks.
    fn take(&self, engine: Engine, guests: &Guests) -> Result<Arc<Scenario>, RunError> {
        let mut left = lock(&self.left);
        let ready = match left.1.take() {
            Some(ready) => ready,
            None => {
                let (text, file) = (&self.text, &self.file);
                let scenario = parse(text, file, &self.overrides, engine, guests, true)?;
                engine::backend(engine).available(&scenario)?;
                Arc::new(scenario)
            }
        };
        left.0 = left.0.saturating_sub(1);
        left.1 = (left.0 > 0).then(|| Arc::clone(&ready));
        Ok(ready)
    }
}

/// A lock left by a panicked thread protects unchanged data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Jobs, each with its seed, and the sources that they share. Texts count as the same if they are
/// the same Python object, not merely equal.
fn sources(jobs: Vec<Job>) -> (Vec<Source>, Vec<(usize, u64)>) {
    let mut sources: Vec<Source> = Vec::new();
    let mut places = HashMap::new();
    let jobs = jobs.into_iter().map(|(text, file, overrides, seed)| {
        let key = (text.as_ptr() as usize, file, overrides);
        let place = match places.get(&key) {
            Some(place) => *place,
            None => {
                let (_, file, overrides) = key.clone();
                sources.push(Source {
                    text,
                    file,
                    overrides,
                    left: Mutex::new((0, None)),
                });
                places.insert(key, sources.len() - 1);
                sources.len() - 1
            }
        };
        if let Some(source) = sources.get(place) {
            lock(&source.left).0 += 1;
        }
        (place, seed)
    });
    let jobs = jobs.collect();
    (sources, jobs)
}

/// Runs `jobs` (text, file, overrides, seed) on `threads` threads.
///
/// `progress(simulated_ns, total_ns, packets, events, ended)` is called a few times a second,
/// `finished(index, run, engine)` once for each job, as they end, with `engine` being `(wall_ns,
/// packets, events)`. An exception from any of them, and Ctrl-C, stops the remaining jobs. So does
/// a run that stops early, unless `failed(index, message)` handles it. A scenario is read when its
/// first job begins; an invalid one stops the remaining jobs. `memory` bytes are shared evenly
/// among the active runs, plus one share for those that have ended and wait to be passed on.
/// `backend` is `sim`, `vm` or `emu`; runs in real time would disturb each other, so they run one
/// after another. Scenarios may name `guests`; `broken(index, run, message)` is called for a run
/// that one of them has ended, with the partial run, instead of `failed`. A simulated run writes its
/// rows to its path in `streams`, if it has one, while it goes on.
#[pyfunction]
#[pyo3(signature = (jobs, threads, memory, finished, progress = None, failed = None, backend = "sim", guests = Vec::new(), broken = None, streams = Vec::new()))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn simulate(
    py: Python<'_>,
    jobs: Vec<Job>,
    threads: usize,
    memory: u64,
    finished: Py<PyAny>,
    progress: Option<Py<PyAny>>,
    failed: Option<Py<PyAny>>,
    backend: &str,
    guests: Vec<PyRef<'_, PyGuest>>,
    broken: Option<Py<PyAny>>,
    streams: Vec<Option<PathBuf>>,
) -> PyResult<()> {
    let engine = engine::named(backend)?;
    let threads = match engine {
        Engine::Simulator | Engine::Vm => threads.clamp(1, jobs.len().max(1)),
        Engine::Emulator => 1,
    };
    let shares = threads + usize::from(jobs.len() > threads);
    let (sources, jobs) = sources(jobs);
    let batch = Batch {
        progress: jobs.iter().map(|_| JobProgress::default()).collect(),
        jobs,
        streams,
        sources,
        engine,
        guests: guest::guests(&guests),
        share: memory / shares as u64,
        waiting: Mutex::new(0),
        handed: Condvar::new(),
        known: Mutex::new(Vec::new()),
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let listener = Listener {
        finished,
        failed,
        broken,
    };
    py.detach(|| Arc::new(batch).run(threads, &listener, progress.as_ref()))
}

/// The callbacks for jobs that have ended.
struct Listener {
    finished: Py<PyAny>,
    failed: Option<Py<PyAny>>,
    broken: Option<Py<PyAny>>,
}

struct Batch {
    /// The source of each job, and its seed.
    jobs: Vec<(usize, u64)>,
    /// The path of its stream.
    streams: Vec<Option<PathBuf>>,
    sources: Vec<Source>,
    engine: Engine,
    guests: Guests,
    /// Memory limit of a run in bytes.
    share: u64,
    /// Bytes of the runs that have ended and are not passed on yet.
    waiting: Mutex<u64>,
    handed: Condvar,
    /// Python's identifiers of the threads, if there are guests.
    known: Mutex<Vec<u64>>,
    progress: Vec<JobProgress>,
    next: AtomicUsize,
    stop: AtomicBool,
}

impl Batch {
    fn run(
        self: &Arc<Self>,
        threads: usize,
        listener: &Listener,
        progress: Option<&Py<PyAny>>,
    ) -> PyResult<()> {
        let (sender, receiver) = mpsc::sync_channel(threads);
        let mut workers = Vec::new();
        for nth in 0..threads {
            let (batch, sender) = (Arc::clone(self), sender.clone());
            // If the system refuses threads, the existing ones do their work.
            match std::thread::Builder::new().spawn(move || batch.begin(&sender)) {
                Err(error) if nth == 0 => return Err(error.into()),
                Err(_) => break,
                Ok(worker) => workers.push(worker),
            }
        }
        drop(sender);

        let mut result = Ok(());
        let (mut ended, mut hurries, mut leaves) = (0, false, None);
        loop {
            let step = match receiver.recv_timeout(PERIOD) {
                Ok(job) => {
                    ended += 1;
                    let bytes = job.bytes();
                    let step = self.hand_over(job, listener, result.is_err());
                    *lock(&self.waiting) -= bytes;
                    self.handed.notify_all();
                    step
                }
                Err(RecvTimeoutError::Timeout) => {
                    let step = self.report(progress, ended);
                    hurries |= step.is_err();
                    step
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = step {
                // A signal's exception is not an `Exception`.
                hurries |= Python::attach(|py| !error.is_instance_of::<PyException>(py));
                if hurries && leaves.is_none() {
                    self.interrupt();
                    leaves = Some(Instant::now() + GRACE);
                }
                self.stop.store(true, Relaxed);
                // The first reason counts; the others are consequences.
                result = result.and(Err(error));
            }
            // The others first remove their changes to the machine.
            let may_leave = self.engine == Engine::Simulator;
            if may_leave && leaves.is_some_and(|at| Instant::now() >= at) {
                return result;
            }
        }
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
        result.and_then(|()| self.report(progress, ended))
    }

    /// The initialisation of one thread. If there are guests, Python knows the thread all the time:
    /// attaching for each event would cost more than the event.
    fn begin(&self, sender: &mpsc::SyncSender<Ended>) {
        match self.guests.names().next() {
            None => self.work(sender),
            Some(_) => Python::attach(|py| {
                let named = PyModule::import(py, "threading")
                    .and_then(|module| module.call_method0("get_ident")?.extract());
                if let Ok(name) = named {
                    lock(&self.known).push(name);
                }
                py.detach(|| self.work(sender));
            }),
        }
    }

    /// Interrupts guests in Python, so that no thread is in the way when the program ends.
    fn interrupt(&self) {
        let known = std::mem::take(&mut *lock(&self.known));
        if !known.is_empty() {
            Python::attach(|py| {
                // A thread that cannot be interrupted is abandoned.
                let _ = PyModule::import(py, "paceline.guests")
                    .and_then(|module| module.call_method1("interrupt", (known,)));
            });
        }
    }

    /// The work of one thread: job after job, until there is none or something stops the batch.
    fn work(&self, sender: &mpsc::SyncSender<Ended>) {
        while !self.stop.load(Relaxed) {
            let index = self.next.fetch_add(1, Relaxed);
            let (Some((source, seed)), Some(counts)) =
                (self.jobs.get(index), self.progress.get(index))
            else {
                return;
            };
            let stream = self.streams.get(index).and_then(Option::as_deref);
            self.wait_for_room();
            let begin = Instant::now();
            let outcome = self.one(*source, *seed, stream, counts);
            let ended = Ended {
                index,
                outcome,
                wall: begin.elapsed(),
            };
            *lock(&self.waiting) += ended.bytes();
            if sender.send(ended).is_err() {
                return;
            }
        }
    }

    /// Waits until the runs that have ended use no more than one share.
    fn wait_for_room(&self) {
        let mut waiting = lock(&self.waiting);
        while *waiting > self.share && !self.stop.load(Relaxed) {
            let woken = self.handed.wait_timeout(waiting, PERIOD);
            (waiting, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// One run of a source.
    fn one(
        &self,
        source: usize,
        seed: u64,
        stream: Option<&Path>,
        counts: &JobProgress,
    ) -> Result<(paceline_record::Run, Progress), RunError> {
        let Some(source) = self.sources.get(source) else {
            return Err(RunError::Failed("the job has no scenario".to_owned()));
        };
        let scenario = source.take(self.engine, &self.guests)?;
        let total = scenario.run.duration.as_nanos();
        counts.total_ns.store(total, Relaxed);
        let mut follower = Follower::new(stream);
        let mut on_progress = |progress: &Progress, record: Option<&Recorder>| {
            if let Some(record) = record {
                follower.follow(record, progress.passed);
            }
            counts.set(progress);
            match self.stop.load(Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let mut watch = Watch::new(self.share, &mut on_progress);
        engine::backend(self.engine).run(&scenario, &self.guests, seed, &mut watch)
    }

    fn hand_over(&self, job: Ended, listener: &Listener, stopping: bool) -> PyResult<()> {
        Python::attach(|py| match job.outcome {
            Ok((run, last)) => {
                if let Some(counts) = self.progress.get(job.index) {
                    counts.set(&last);
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
            Err(RunError::Broken { what, run }) if listener.broken.is_some() => {
                let run = Run::new(*run);
                let interruptible = listener.broken.as_ref();
                interruptible.map_or(Ok(()), |broken| {
                    broken.call1(py, (job.index, run, what)).map(drop)
                })
            }
            Err(error) => match &listener.failed {
                Some(failed)
                    if !matches!(error, RunError::Scenario(_) | RunError::Unavailable(_)) =>
                {
                    let message = error::message(&error);
                    failed.call1(py, (job.index, message)).map(drop)
                }
                _ => Err(error::run(py, &error)),
            },
        })
    }

    fn report(&self, progress: Option<&Py<PyAny>>, ended: usize) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            let Some(progress) = progress else {
                return Ok(());
            };
            let sum = |field: fn(&JobProgress) -> &AtomicU64| -> u64 {
                let counts = self.progress.iter();
                counts.map(|counts| field(counts).load(Relaxed)).sum()
            };
            // Each scenario not read yet is assumed to last as long as the others.
            let counts = self.progress.iter();
            let known = counts.map(|counts| counts.total_ns.load(Relaxed));
            let (count, length) = known
                .filter(|total| *total > 0)
                .fold((0, 0), |(n, sum), total| (n + 1, u128::from(total) + sum));
            let total = length * self.progress.len() as u128 / u128::from(count.max(1_u64));
            let total = u64::try_from(total).unwrap_or(u64::MAX);
            let simulated = sum(|counts| &counts.simulated_ns);
            let packets = sum(|counts| &counts.packets);
            let events = sum(|counts| &counts.events);
            progress.call1(py, (simulated, total, packets, events, ended))?;
            Ok(())
        })
    }
}
