"""Exports and imports: formats of other programs, one per module.

A module that has an `EXPORT`, an `IMPORT` or a `RECORD` is on the list by that alone.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from paceline import store
from paceline.exchange.declared import Export, Import, Record
from paceline.runs import Run

_MODULES = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]

#: Every export, every import of a scenario and every import of a record, by name.
EXPORTS: dict[str, Export] = {m.EXPORT.name: m.EXPORT for m in _MODULES if hasattr(m, "EXPORT")}
IMPORTS: dict[str, Import] = {m.IMPORT.name: m.IMPORT for m in _MODULES if hasattr(m, "IMPORT")}
RECORDS: dict[str, Record] = {m.RECORD.name: m.RECORD for m in _MODULES if hasattr(m, "RECORD")}


def export(
    runs: Sequence[Run],
    format: str,  # noqa: A002
    place: Path,
    *,
    flow: int | None = None,
    dialect: str = "current",
    force: bool = False,
) -> list[Path]:
    """Write runs, or one flow of each, as `format`; return the files.

    Raises `KeyError` where a format needs the table ``packets`` and there is none, and `StoreError`
    if there is something that we have not written, unless `force` is given.
    """
    with store.writing(place, force=force) as fresh:
        written = EXPORTS[format].write(runs, fresh, flow, dialect)
    return [place / path.relative_to(fresh) for path in written]
