"""The jobs of all chosen claims, as one pool: each is run once, and only answers are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from paceline import _paceline
from paceline.runs import Progress, Run, load, simulate

#: What may run a job, in the order in which they do.
BACKENDS: tuple[_paceline.Backend, ...] = ("sim", "emu")


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
    answers: dict[str, pl.DataFrame | str]
    #: The run, where a picture needs all of it.
    run: Run | None = None


class Pool:
    """Jobs, what is asked of each, and in the end what they answered."""

    def __init__(self) -> None:
        #: The queries of each job, in the order in which they were asked.
        self._queries: dict[Job, dict[str, None]] = {}
        self._kept: set[Job] = set()
        self._texts: dict[Path, str] = {}
        self._checked: set[tuple[object, ...]] = set()
        self.records: dict[Job, Record] = {}
        self.failures: dict[Job, str] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def add(self, job: Job, queries: Sequence[str] = (), *, keep: bool = False) -> None:
        """Add a job, or ask more of one that is there; raises `ScenarioError` for a wrong one."""
        if job.scenario not in self._texts:
            self._texts[job.scenario], _ = load(job.scenario)
        point = (job.scenario, job.overrides, job.backend)
        if point not in self._checked:
            text = self._texts[job.scenario]
            _paceline.check(text, str(job.scenario), job.overrides, backend=job.backend)
            self._checked.add(point)
        asked = self._queries.setdefault(job, {})
        asked |= dict.fromkeys(queries)
        if keep:
            self._kept.add(job)

    def run(
        self, *, threads: int | None = None, progress: Callable[[Progress], object] | None = None
    ) -> None:
        """Run every job. After Ctrl-C, which raises, `records` has those that were finished.

        What is emulated comes last, one after another, with nothing simulated beside it.
        """
        for backend in BACKENDS:
            self._run(backend, threads, progress)

    def _run(
        self,
        backend: _paceline.Backend,
        threads: int | None,
        progress: Callable[[Progress], object] | None,
    ) -> None:
        jobs = [job for job in self._queries if job.backend == backend]
        if not jobs:
            return

        def collect(index: int, inner: _paceline.Run, _: object) -> None:
            job, run = jobs[index], Run(inner)
            if run.emulation is not None and not run.emulation["trusted"]:
                beyond = "; ".join(bound["message"] for bound in run.emulation["beyond"])
                failed(index, f"emulated beyond its bounds: {beyond}")
                return
            answers = {query: ask(run, query) for query in self._queries[job]}
            kept = run if job in self._kept else None
            self.records[job] = Record(run.metrics, run.flow_metrics, answers, kept)

        def failed(index: int, message: str) -> None:
            self.failures[jobs[index]] = message

        simulate(
            [(self._texts[j.scenario], str(j.scenario), j.overrides, j.seed) for j in jobs],
            collect,
            threads=threads,
            progress=progress,
            failed=failed,
            backend=backend,
        )


def ask(run: Run, query: str) -> pl.DataFrame | str:
    """Return what a query over the tables of a run answers, or why it does not."""
    tables = {}
    for name in ("flows", "samples", "queue", "events", "packets"):
        table = run.inner.table(name)
        if table is not None:
            tables[name] = pl.DataFrame(table).lazy()
    try:
        return pl.SQLContext(frames=tables).execute(query, eager=True)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        return " ".join(str(error).split())
