"""Exports: runs as files of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from paceline import store
from paceline.export import csv, flent, pcapng, qlog, xplot
from paceline.export.qlog import Dialect
from paceline.runs import Run

Format = Literal["csv", "qlog", "pcapng", "xplot", "flent"]
FORMATS: tuple[Format, ...] = get_args(Format)

__all__ = ["FORMATS", "Dialect", "Format", "default_name", "export"]


def default_name(format: Format, dialect: Dialect = "current") -> str:  # noqa: A002
    """Return the name of the file, or of the folder, that a format is written to."""
    names = {"csv": "csv", "pcapng": "run.pcapng", "xplot": "run.xpl", "flent": "run.flent.gz"}
    return names.get(format, "run.qlog" if dialect == "0.3" else "qlog")


def export(
    runs: Sequence[Run],
    format: Format,  # noqa: A002
    place: Path,
    *,
    flow: int | None = None,
    dialect: Dialect = "current",
    force: bool = False,
) -> list[Path]:
    """Write runs, or one flow of each, as `format`; return the files.

    ``xplot`` lays several runs over each other, the others take one. ``csv`` and ``qlog`` write a
    folder. Raises `KeyError` where a format needs the table ``packets`` and there is none, and
    `StoreError` if there is something that we have not written, unless `force` is given.
    """
    with store.writing(place, force=force) as fresh:
        if format == "xplot":
            written = xplot.write(runs, fresh, flow)
        else:
            (run,) = runs
            written = _one(run, format, fresh, flow, dialect)
    return [place / path.relative_to(fresh) for path in written]


def _one(
    run: Run,
    format: Format,  # noqa: A002
    place: Path,
    flow: int | None,
    dialect: Dialect,
) -> list[Path]:
    match format:
        case "qlog":
            return qlog.write(run, place, flow, dialect)
        case "pcapng":
            return pcapng.write(run, place, flow)
        case "flent":
            return flent.write(run, place, flow)
        case _:
            return csv.write(run, place, flow)
