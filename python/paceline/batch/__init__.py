"""Batches of runs: jobs, the workers that do them, the results kept of each, and checkpoints.

A job is a scenario with what is set in it, a seed and an engine; equal jobs give equal runs. What a
verb does with many runs is a list of jobs, and a function that says what is kept of a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from paceline import _paceline, guests
from paceline.batch.emulated import Emulated, Room, emulate
from paceline.batch.job import Executor, Job, Keep, Outcome, Task
from paceline.batch.locally import locally
from paceline.controller import Controller
from paceline.errors import ArgumentError
from paceline.runs import Overrides, Progress, Run, load, pairs

__all__ = [
    "Emulated",
    "Executor",
    "Job",
    "Keep",
    "Outcome",
    "Room",
    "Store",
    "Task",
    "Watch",
    "execute",
    "locally",
    "run",
    "run_jobs",
    "run_many",
]


class Store(Protocol):
    """Where outcomes are stored, so that no job is done twice."""

    def has(self, number: int) -> bool:
        """Return whether a job is already done."""

    def add(self, number: int, outcome: Outcome) -> None:
        """Store an outcome; once this returns, a crash does not lose it."""


class Watch:
    """Watches a batch in progress. An exception in it stops the remaining jobs."""

    #: The number of repeated emulations.
    repeats = Emulated()

    def finished(self, number: int, outcome: Outcome) -> None:
        """Handle the end of a job."""

    def progress(self, seen: Progress) -> None:
        """Report the progress of all jobs."""

    def note(self, text: str) -> None:
        """Report a message for the user."""

    def emulated(self, seen: Emulated) -> None:
        """Report at the end how many emulations were repeated."""
        self.repeats = seen


@dataclass
class _Course:
    """The progress of a batch."""

    collects: bool
    broken: Callable[[Task, Run], object] | None
    store: Store | None
    watch: Watch
    total_ns: int
    done_ns: int = 0
    packets: int = 0
    events: int = 0
    count: int = 0

    def known(self, job: Job) -> None:
        self.done_ns += job.duration_ns
        self.count += 1

    def ended(self, task: Task, outcome: Outcome) -> None:
        if self.store is not None:
            if self.store.has(task.number):
                return  # from a worker that was presumed dead
            self.store.add(task.number, outcome)
        self.known(task.job)
        self.packets += outcome.engine.packets
        self.events += outcome.engine.events
        self.watch.finished(task.number, outcome)

    def seen(self, simulated_ns: int, packets: int, events: int) -> None:
        done = min(self.done_ns + simulated_ns, self.total_ns)
        packets, events = self.packets + packets, self.events + events
        self.watch.progress(Progress(done, self.total_ns, packets, events, self.count))


def execute(
    jobs: Iterable[Job],
    keep: Keep,
    *,
    executor: Executor | None = None,
    store: Store | None = None,
    failures: Literal["stop", "collect"] = "stop",
    watch: Watch | None = None,
    total_ns: int | None = None,
    room: Room | None = None,
    distrusted: Literal["keep", "fail"] = "fail",
    broken: Callable[[Task, Run], object] | None = None,
) -> None:
    """Do jobs in parallel, and keep `keep(number, job, run)` of each run.

    They are taken as they are begun, so that any number of them takes no memory; `total_ns` is how
    long they are together, which is worked out from a list. Those that the store has are not done
    again. A run that stops before its end stops the others and raises, unless failures are
    collected: then it is an outcome with an error. What is emulated comes last, as many as there is
    room for, and nothing is simulated then; a run beyond its bounds is repeated, and one that stays
    beyond them is kept or fails, as `distrusted` says. `broken` is given what there is of a run
    that a controller of one's own has ended. After Ctrl-C, which raises, what the watch and the
    store have heard of is complete.
    """
    if total_ns is None:
        jobs = list(jobs)
        total_ns = sum(job.duration_ns for job in jobs)
    course = _Course(failures == "collect", broken, store, watch or Watch(), total_ns)
    emulated: list[Task] = []

    def simulated() -> Iterator[Task]:
        for number, job in enumerate(jobs):
            if store is not None and store.has(number):
                course.known(job)
            elif job.backend == "emu":
                emulated.append(Task(number, job))
            else:
                yield Task(number, job)

    (executor or locally())(simulated(), keep, course)
    if emulated:
        note, ended = course.watch.note, course.watch.emulated
        keeps = distrusted == "keep"
        emulate(emulated, keep, course, room or Room.here(), note=note, ended=ended, keeps=keeps)


@dataclass
class _Runs(Watch):
    """The runs themselves, by number."""

    heard: Callable[[Progress], object] | None
    ended: Callable[[int, Run], object] | None
    runs: dict[int, Run] = field(default_factory=dict)

    def finished(self, number: int, outcome: Outcome) -> None:
        self.runs[number] = outcome.kept
        if self.ended is not None:
            self.ended(number, outcome.kept)

    def progress(self, seen: Progress) -> None:
        if self.heard is not None:
            self.heard(seen)


def run_jobs(
    scenario: str | os.PathLike[str],
    jobs: Sequence[tuple[Overrides, int]],
    *,
    name: str | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    finished: Callable[[int, Run], object] | None = None,
    backend: _paceline.Backend = "sim",
) -> list[Run]:
    """Run a scenario once for each job (overrides, seed), in parallel; runs are in the jobs' order.

    With the backend ``emu`` they run in real time, one after another, and one that is beyond its
    bounds is repeated up to three times.

    `name` is what errors call the scenario. `finished(index, run)` hears of each run as it ends.
    Ctrl-C raises `KeyboardInterrupt`; what `finished` was given by then is complete.
    """
    text, file = load(scenario)
    name = name or file
    for what, value, least, most in (
        *(("seed", seed, 0, 2**63 - 1) for _, seed in jobs),
        ("threads", 1 if threads is None else threads, 1, 2**16),
    ):
        if not least <= value <= most:
            raise ArgumentError(f"{what} is {value}", hint=f"give one from {least} to {most}")
    lengths: dict[tuple[tuple[str, str], ...], int] = {}

    def job(overrides: Overrides, seed: int) -> Job:
        given = pairs(overrides)
        if given not in lengths:
            plan = guests.check(text, name, given, sweep=False, backend=backend)
            lengths[given] = plan.duration_ns
        return Job(text, given, seed, backend, name, lengths[given])

    watch = _Runs(progress, finished)
    execute(
        [job(*each) for each in jobs],
        lambda _, __, run: run,
        executor=locally(threads),
        watch=watch,
        room=Room.alone(),
        distrusted="keep",
    )
    return [watch.runs[number] for number in range(len(jobs))]


def run_many(
    scenario: str | os.PathLike[str],
    seeds: Iterable[int],
    *,
    overrides: Overrides = (),
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    backend: _paceline.Backend = "sim",
) -> list[Run]:
    """Run a scenario once for each seed, in parallel; runs are in the seeds' order."""
    jobs = [(pairs(overrides), seed) for seed in seeds]
    return run_jobs(scenario, jobs, threads=threads, progress=progress, backend=backend)


def run(
    scenario: str | os.PathLike[str],
    *,
    seed: int | None = None,
    overrides: Overrides = (),
    progress: Callable[[Progress], object] | None = None,
    backend: _paceline.Backend = "sim",
    controllers: Mapping[str, type[Controller]] | None = None,
) -> Run:
    """Run a scenario, given as a path or as TOML text, once.

    The seed is the scenario's unless another is given. The backend is ``sim``, the simulator;
    ``vm``, the kernel of a guest in virtual time; or ``emu``, in real time with this kernel's own
    TCP (Linux). `UnavailableError` says what the machine lacks for that, and `Run.emulation` how
    far an emulated run was from what was asked for. With `controllers`, classes that derive from
    `Controller`, the scenario may name these too.

    >>> run("scenarios/bbr3/startup-50M-40ms.toml", seed=7)  # doctest: +SKIP
    """
    given = pairs(overrides)
    with guests.using(controllers):
        if seed is None:
            text, name = load(scenario)
            seed = guests.check(text, name, given, backend=backend).seed
        return run_many(scenario, [seed], overrides=given, progress=progress, backend=backend)[0]
