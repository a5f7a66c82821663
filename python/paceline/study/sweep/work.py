"""The data that a sweep keeps of each run: the same bytes from every engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from paceline import store
from paceline.batch import Job, Outcome
from paceline.batch.ledger import Ledger
from paceline.later import polars as pl
from paceline.runs import Run
from paceline.study.sweep import dataset
from paceline.study.sweep.plan import Plan


class Kept(NamedTuple):
    """The data kept of a run: its results, and tables as Parquet."""

    record: dict[str, Any]
    tables: dict[str, bytes]


@dataclass(frozen=True)
class Keeps:
    """Keeps the results of a run, and the named tables."""

    tables: tuple[str, ...]

    def __call__(self, number: int, _: Job, run: Run) -> Kept:
        """Return the data to keep."""
        record = {"run": number, **run.inner.record()}
        tables = {name: _table(run, name, number) for name in self.tables}
        return Kept(record, {name: table for name, table in tables.items() if table})


def record_of(number: int, outcome: Outcome) -> dict[str, Any]:
    """Return the ledger record of a run: `run`, and `metrics` with `flows`, or `error`."""
    if outcome.error is not None:
        return {"run": number, "error": outcome.error}
    record: dict[str, Any] = outcome.kept.record
    return record


@dataclass(frozen=True)
class Book:
    """Writes the tables of runs into the folder of a sweep, and then their records."""

    plan: Plan
    folder: Path
    ledger: Ledger

    def has(self, number: int) -> bool:
        """Return whether a run already exists."""
        return number in self.ledger.records

    def add(self, number: int, outcome: Outcome) -> None:
        """Store the data of a run."""
        for name, table in ({} if outcome.error is not None else outcome.kept.tables).items():
            place = self.folder / dataset.table(self.plan.grid, name, number)
            place.parent.mkdir(parents=True, exist_ok=True)
            store.replace(place, table)
        self.ledger.add(record_of(number, outcome))


def _table(run: Run, name: str, number: int) -> bytes:
    table = run.inner.table(name)
    if table is None:
        return b""
    frame = pl.DataFrame(table).select(pl.lit(number, pl.UInt32).alias("run"), pl.all())
    return store.parquet(frame)
