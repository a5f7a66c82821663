"""CSV: the tables of a run, one file each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from paceline.exchange.declared import Export
from paceline.runs import Run

TABLES = ("flows", "samples", "queue", "events", "packets")


def write(runs: Sequence[Run], folder: Path, flow: int | None, _: str) -> list[Path]:
    """Write every table of the run; with `flow`, only that flow's rows where rows have a flow."""
    (run,) = runs
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in TABLES:
        try:
            table: pl.DataFrame = getattr(run, name)
        except KeyError:
            continue
        if flow is not None and "flow" in table.columns:
            table = table.filter(pl.col("flow") == flow)
        path = folder / f"{name}.csv"
        table.write_csv(path)
        written.append(path)
    return written


EXPORT = Export("csv", "the tables, one file each", "csv", write)
