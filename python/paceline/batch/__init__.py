"""Batches of runs: jobs, the workers that do them, the results kept of each, and checkpoints.

A job is a scenario with what is set in it, a seed and an engine; equal jobs give equal runs. What a
verb does with many runs is a list of jobs, and a function that says what is kept of a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paceline import _paceline, guests
from paceline.batch.emulated import Emulated, Room
from paceline.batch.job import Executor, Job, Keep, Outcome, Task
from paceline.batch.kept import Batch
from paceline.batch.locally import locally
from paceline.batch.work import Store, Watch, execute
from paceline.controller import Controller
from paceline.errors import within
from paceline.runs import Overrides, Progress, Run, load, pairs

__all__ = [
    "Batch",
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
    for _, seed in jobs:
        within("seed", seed, 0, 2**63 - 1)
    within("threads", threads, 1, 2**16)
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
