"""Batches of runs: jobs, the workers that do them, the results kept of each, and checkpoints.

A job is a scenario with what is set in it, a seed and an engine; equal jobs give equal runs. What a
verb does with many runs is a list of jobs, and a function that says what is kept of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from paceline import _paceline, guests
from paceline.batch.emulated import Emulated, Room
from paceline.batch.job import Executor, Job, Outcome, Task
from paceline.batch.kept import Batch
from paceline.batch.locally import locally
from paceline.batch.work import Bar, Watch, execute, in_notebook, outcomes
from paceline.controller import Controller
from paceline.errors import within
from paceline.runs import Overrides, Progress, Run, Scenario, load, pairs

__all__ = [
    "Bar",
    "Batch",
    "Emulated",
    "Executor",
    "Job",
    "Outcome",
    "Room",
    "Task",
    "Watch",
    "execute",
    "in_notebook",
    "locally",
    "outcomes",
    "run",
    "run_jobs",
    "run_many",
]


def run_jobs(
    scenario: Scenario,
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

    if progress is None and in_notebook():
        progress = Bar(name, len(jobs)).progress
    results = outcomes(
        [job(*each) for each in jobs],
        lambda _, __, run: run,
        threads=threads,
        room=Room.alone(),
        distrusted="keep",
        progress=progress,
        ended=finished and (lambda number, outcome: finished(number, outcome.kept)),
    )
    return [outcome.kept for outcome in results]


def run_many(
    scenario: Scenario,
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
    scenario: Scenario,
    *,
    seed: int | None = None,
    overrides: Overrides = (),
    progress: Callable[[Progress], object] | None = None,
    backend: _paceline.Backend = "sim",
    controllers: Mapping[str, type[Controller]] | None = None,
) -> Run:
    """Run a scenario once: a file, the name of an included one, TOML, or what `scenario` returns.

    The seed is the scenario's unless another is given. The backend is ``sim``, the simulator;
    ``vm``, the kernel of a guest in virtual time; or ``emu``, in real time with this kernel's own
    TCP (Linux). `UnavailableError` says what the machine lacks for that, and `Run.emulation` how
    far an emulated run was from what was asked for. With `controllers`, classes that derive from
    `Controller`, the scenario may name these too.

    In a notebook a bar shows the progress, unless `progress` hears of it.

    >>> run("four-flows", seed=7)  # doctest: +SKIP
    """
    given = pairs(overrides)
    with guests.using(controllers):
        if seed is None:
            text, name = load(scenario)
            seed = guests.check(text, name, given, backend=backend).seed
        return run_many(scenario, [seed], overrides=given, progress=progress, backend=backend)[0]
