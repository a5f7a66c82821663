"""Runs of a sweep, done: on threads of this process, or by the workers of a Ray cluster.

Whoever does a run, what is kept of it is the same bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import polars as pl

from paceline import _paceline
from paceline.grid import Overrides
from paceline.runs import Progress, simulate
from paceline.study.sweep.plan import Plan, Task

#: Runs that are handed to the engine at a time.
BATCH = 1000


class Outcome(NamedTuple):
    """What is kept of a run."""

    #: `run`, and `metrics` with `flows`, or `error`.
    record: dict[str, Any]
    #: The tables that are kept, as Parquet.
    tables: dict[str, bytes]
    #: Time on the wall, packets and events.
    engine: tuple[int, int, int]


@dataclass(frozen=True)
class Work:
    """What all runs of a sweep have in common."""

    text: str
    file: str
    tables: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan) -> Work:
        """Return that of a plan."""
        return cls(plan.text, plan.file, plan.tables)

    def do(
        self,
        tasks: Sequence[tuple[int, Overrides, int]],
        finished: Callable[[Outcome], object],
        *,
        threads: int | None,
        progress: Callable[[Progress], object] | None = None,
        share: int = 1,
    ) -> None:
        """Do runs side by side; one that stops before its end does not stop the others.

        They take one part in `share` of the memory that runs may take here.
        """

        def keep(index: int, run: _paceline.Run, engine: tuple[int, int, int]) -> None:
            number = tasks[index][0]
            summary = json.loads(run.summary_json())
            flows = [_plain(flow) for flow in summary["flows"]]
            record = {"run": number, "metrics": summary["metrics"], "flows": flows}
            tables = {name: _table(run, name, number) for name in self.tables}
            finished(Outcome(record, {k: v for k, v in tables.items() if v}, engine))

        def failed(index: int, message: str) -> None:
            finished(Outcome({"run": tasks[index][0], "error": message}, {}, (0, 0, 0)))

        jobs = [(self.text, self.file, overrides, seed) for _, overrides, seed in tasks]
        simulate(jobs, keep, threads=threads, progress=progress, failed=failed, share=share)


def _plain(flow: dict[str, Any]) -> dict[str, Any]:
    """Return what a flow says of itself, without what does not fit into a column."""
    return {key: value for key, value in flow.items() if not isinstance(value, dict | list)}


def _table(run: _paceline.Run, name: str, number: int) -> bytes:
    table = run.table(name)
    if table is None:
        return b""
    out = io.BytesIO()
    frame = pl.DataFrame(table).select(pl.lit(number, pl.UInt32).alias("run"), pl.all())
    frame.write_parquet(out)
    return out.getvalue()


class Watch:
    """Who hears of a sweep while it is at work."""

    def finished(self, outcome: Outcome) -> None:
        """Hear of a run that has ended."""

    def progress(self, simulated_ns: int) -> None:
        """Hear how much has been simulated of the runs that have not ended."""


def on_threads(
    plan: Plan, tasks: Iterable[Task], watch: Watch, *, threads: int | None = None
) -> None:
    """Do the runs on threads of this process; the engine does not hold Python's lock."""
    left = iter(tasks)
    while batch := list(islice(left, BATCH)):
        _batch(plan, batch, watch, threads)


def _batch(plan: Plan, batch: list[Task], watch: Watch, threads: int | None) -> None:
    ended = 0

    def keep(outcome: Outcome) -> None:
        nonlocal ended
        ended += plan.duration_ns(outcome.record["run"])
        watch.finished(outcome)

    def progress(seen: Progress) -> None:
        watch.progress(max(seen.simulated_ns - ended, 0))

    Work.of(plan).do(batch, keep, threads=threads, progress=progress)
