"""The jobs of all chosen claims, as one batch: each runs once, and only results are kept."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline import _paceline, batch, guests, store
from paceline.batch import Job, Room, Watch, locally
from paceline.batch.ledger import Remembered
from paceline.grid import Overrides
from paceline.later import polars as pl
from paceline.runs import Run, load

if TYPE_CHECKING:
    from paceline.query import Query


@dataclass
class Record:
    """The data kept of a run."""

    metrics: dict[str, float | None]
    flows: list[dict[str, Any]]
    #: The results of queries over its tables; the message, if one failed.
    results: dict[Query, pl.DataFrame | str]
    #: The run, if a picture needs all of it.
    run: Run | None = None
    #: The times that the run ended before: what they are longer than.
    censored: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any] | None:
        """Return it as a ledger line; none if that is not possible, and the job runs again."""
        results = [a if isinstance(a, str) else _packed(a) for a in self.results.values()]
        if self.run is not None or None in results:
            return None
        kept = {"metrics": self.metrics, "flows": self.flows, "censored": self.censored}
        return {**kept, "answers": results}

    @classmethod
    def of(cls, value: dict[str, Any], queries: Sequence[Query]) -> Record:
        """Restore it from a ledger line."""
        results = [a if isinstance(a, str) else _unpacked(a) for a in value["answers"]]
        by_query = dict(zip(queries, results, strict=True))
        return cls(value["metrics"], value["flows"], by_query, censored=value.get("censored", {}))


#: Types of columns that JSON restores unchanged.
_PLAIN = ("Int32", "Int64", "UInt32", "UInt64", "Float64", "String", "Boolean")


def _packed(frame: pl.DataFrame) -> list[list[Any]] | None:
    """Return the columns of a result: name, type, values."""
    columns = [[c.name, str(c.dtype), c.to_list()] for c in frame.iter_columns()]
    plain = all(
        kind in _PLAIN and (kind != "Float64" or all(v is None or math.isfinite(v) for v in values))
        for _, kind, values in columns
    )
    return columns if plain else None


def _unpacked(columns: list[list[Any]]) -> pl.DataFrame:
    kinds: dict[str, Any] = {name: getattr(pl, name) for name in _PLAIN}
    return pl.DataFrame([pl.Series(name, values, kinds[kind]) for name, kind, values in columns])


class Pool:
    """Jobs, the queries to each, and finally their results."""

    def __init__(self, what: str = "claims") -> None:
        self._what = what
        #: The queries to each job, in the order in which they were added.
        self._queries: dict[Job, dict[Query, None]] = {}
        self._kept: set[Job] = set()
        self._texts: dict[Path, str] = {}
        self._lengths: dict[tuple[object, ...], int] = {}
        self._traces = set[Path]()
        self.records: dict[Job, Record] = {}
        self.failures: dict[Job, str] = {}
        #: The results of a folder's cases with a controller: several claims may need them.
        self.conformed: dict[tuple[Path, str], dict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def job(
        self, scenario: Path, overrides: Overrides, seed: int, backend: _paceline.Backend = "sim"
    ) -> Job:
        """Return a job; raises `ScenarioError` for an invalid one. Its engine is not needed yet."""
        if scenario not in self._texts:
            self._texts[scenario], _ = load(scenario)
        text, point = self._texts[scenario], (scenario, overrides, backend)
        if point not in self._lengths:
            plan = guests.check(text, str(scenario), overrides, backend=backend, here=False)
            self._lengths[point] = plan.duration_ns
            self._traces.update(map(Path, plan.traces))
        return Job(text, overrides, seed, backend, str(scenario), self._lengths[point])

    def add(self, job: Job, queries: Sequence[Query] = (), *, keep: bool = False) -> None:
        """Add a job, or add queries to an existing one."""
        pending = self._queries.setdefault(job, {})
        pending |= dict.fromkeys(queries)
        if keep:
            self._kept.add(job)

    def _key(self) -> str:
        """Return a key that distinguishes these jobs and queries from all others."""
        texts = {t: hashlib.sha256(t.encode()).hexdigest() for t in self._texts.values()}
        parts = [
            [texts[job.text], *job[1:], [query.text for query in queries]]
            for job, queries in self._queries.items()
        ]
        return store.key(parts, inputs=map(store.digest, sorted(self._traces)))

    def run(self, *, threads: int | None = None, watch: Watch | None = None) -> None:
        """Run every job. After Ctrl-C, which raises, `records` has those that were finished.

        `UnavailableError` says what this machine lacks for one of them, before any runs.

        What has ended is also written down until all has: who runs the same again goes on there,
        and `watch` hears of how many runs are known already.
        """
        jobs = list(self._queries)
        real = (job for job in jobs if job.backend != "sim")
        for text, file, overrides, backend in dict.fromkeys(
            (job.text, job.file, job.overrides, job.backend) for job in real
        ):
            guests.check(text, file, overrides, False, backend)

        def unpack(number: int, value: dict[str, Any]) -> Record:
            return Record.of(value, list(self._queries[jobs[number]]))

        book = Remembered(self._what, self._key(), len(jobs), Record.as_json, unpack)
        try:
            with book:
                if book.recalled and watch is not None:
                    watch.resumed(book.recalled)
                batch.execute(
                    jobs,
                    self._record,
                    executor=locally(threads),
                    store=book,
                    failures="collect",
                    watch=watch,
                    room=Room.here(threads),
                )
        finally:
            for number, outcome in book.outcomes.items():
                if outcome.error is None:
                    self.records[jobs[number]] = outcome.kept
                else:
                    self.failures[jobs[number]] = outcome.error

    def _record(self, _: int, job: Job, run: Run) -> Record:
        results = {query: result_of(run, query) for query in self._queries[job]}
        kept = run if job in self._kept else None
        return Record(run.metrics, run.flow_metrics, results, kept, run.censored)


def result_of(run: Run, query: Query) -> pl.DataFrame | str:
    """Return the result of a query over the tables of a run, or why there is none."""
    tables = {}
    from paceline.query import TABLES

    for name in TABLES:
        table = run.inner.table(name)
        if table is not None:
            tables[name] = pl.DataFrame(table)
    try:
        return query.execute(tables)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        return " ".join(str(error).split())
