"""The jobs of all chosen claims, as one pool: each is run once, and only answers are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from paceline import _paceline
from paceline.grid import Overrides
from paceline.query import TABLES, Query
from paceline.runs import Progress, Run, load, simulate
from paceline.study.claims.emulation import Emulations, Load, Room


class Job(NamedTuple):
    """One run: a scenario, what is set in it, and a seed."""

    scenario: Path
    overrides: tuple[tuple[str, str], ...]
    seed: int
    backend: _paceline.Backend = "sim"


@dataclass
class Record:
    """What is kept of a run."""

    metrics: dict[str, float | None]
    flows: list[dict[str, Any]]
    #: The answers to queries over its tables; the message, where one failed.
    answers: dict[Query, pl.DataFrame | str]
    #: The run, where a picture needs all of it.
    run: Run | None = None


class Pool:
    """Jobs, what is asked of each, and in the end what they answered."""

    def __init__(self) -> None:
        #: The queries of each job, in the order in which they were asked.
        self._queries: dict[Job, dict[Query, None]] = {}
        self._kept: set[Job] = set()
        self._texts: dict[Path, str] = {}
        self._loads: dict[tuple[object, ...], Load | None] = {}
        self.records: dict[Job, Record] = {}
        self.failures: dict[Job, str] = {}
        #: The emulated jobs, and those of them that were repeated.
        self.emulated = 0
        self.repeated = 0
        #: How often emulations broke each of their bounds.
        self.broken = dict[str, int]()

    def __len__(self) -> int:
        return len(self._queries)

    def add(self, job: Job, queries: Sequence[Query] = (), *, keep: bool = False) -> None:
        """Add a job, or ask more of one that is there; raises `ScenarioError` for a wrong one."""
        if job.scenario not in self._texts:
            self._texts[job.scenario], _ = load(job.scenario)
        point = (job.scenario, job.overrides, job.backend)
        if point not in self._loads:
            text = self._texts[job.scenario]
            plan = _paceline.check(text, str(job.scenario), job.overrides, backend=job.backend)
            self._loads[point] = Load.of(plan) if job.backend == "emu" else None
        asked = self._queries.setdefault(job, {})
        asked |= dict.fromkeys(queries)
        if keep:
            self._kept.add(job)

    def run(
        self,
        *,
        threads: int | None = None,
        progress: Callable[[Progress], object] | None = None,
        note: Callable[[str], object] | None = None,
    ) -> None:
        """Run every job. After Ctrl-C, which raises, `records` has those that were finished.

        What is emulated comes last, side by side as there is room, and nothing is simulated then.
        """
        simulated = [job for job in self._queries if job.backend == "sim"]
        if simulated:
            simulate(
                [self._task(job) for job in simulated],
                lambda index, inner, _: self._collect(simulated[index], Run(inner)),
                threads=threads,
                progress=progress,
                failed=lambda index, message: self._failed(simulated[index], message),
            )
        emulated = {
            job: load
            for job in self._queries
            if (load := self._loads[job.scenario, job.overrides, job.backend]) is not None
        }
        if emulated:
            jobs = list(emulated)
            emulations = Emulations(
                [self._task(job) for job in jobs],
                list(emulated.values()),
                Room.here(threads),
                lambda index, run: self._collect(jobs[index], run),
                lambda index, message: self._failed(jobs[index], message),
                progress or (lambda _: None),
                note or (lambda _: None),
            )
            try:
                emulations.run()
            finally:
                self.emulated, self.repeated = len(jobs), len(emulations.repeated)
                self.broken = dict(sorted(emulations.broken.items()))

    def _task(self, job: Job) -> tuple[str, str, Overrides, int]:
        return self._texts[job.scenario], str(job.scenario), job.overrides, job.seed

    def _collect(self, job: Job, run: Run) -> None:
        answers = {query: ask(run, query) for query in self._queries[job]}
        kept = run if job in self._kept else None
        self.records[job] = Record(run.metrics, run.flow_metrics, answers, kept)

    def _failed(self, job: Job, message: str) -> None:
        self.failures[job] = message


def ask(run: Run, query: Query) -> pl.DataFrame | str:
    """Return what a query over the tables of a run answers, or why it does not."""
    tables = {}
    for name in TABLES:
        table = run.inner.table(name)
        if table is not None:
            tables[name] = pl.DataFrame(table)
    try:
        return query.ask(tables)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        return " ".join(str(error).split())
