"""CSV: the tables of a run, one file each; a link's capacity over time, from a table."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from pathlib import Path

from paceline.exchange.declared import Export, Import, Imported, ImportFailedError, ImportOptions
from paceline.exchange.mahimahi import LIMIT_MS, LONG_MS, one_flow
from paceline.later import polars as pl
from paceline.quantities import duration_ns, rate_bps
from paceline.runs import Run

TABLES = ("flows", "samples", "queue", "events", "packets")
_DELIMITERS = ",;\t"
#: The greatest rate of a link, in bit/s.
_FASTEST = 10**15


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


def looks_like(text: str, path: Path) -> bool:
    """Return whether a table is meant: by its name, and by its first line."""
    first = text.lstrip().partition("\n")[0]
    return path.suffix in {".csv", ".tsv"} and any(mark in first for mark in _DELIMITERS)


def read(text: str, options: ImportOptions) -> list[Imported]:
    """Return a scenario whose link has the rates of two columns, each from its row's time on."""
    first = text.lstrip("\ufeff \n").partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    lines = csv.reader(text.lstrip("\ufeff").splitlines(), delimiter=delimiter)
    try:
        rows = [(lines.line_num, row) for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ImportFailedError(f"it is no CSV: {error}", lines.line_num) from None
    names = [cell.strip() for cell in rows[0][1]] if rows else []
    if options.time is None or options.rate is None or options.rtt is None or options.queue is None:
        columns = f'--time "{(names or ["t"])[0]} s" --rate "COLUMN Mbit/s"'
        hint = f'paceline import {options.file} {columns} --rtt "40 ms" --queue "100 packets"'
        missing = "columns, round-trip time and queue are not given"
        raise ImportFailedError(f"{missing}; the columns are {', '.join(names)}", hint=hint)
    time, second = _column(names, options.time, "s")
    rate, bit = _column(names, options.rate, "bit/s")
    steps: list[tuple[Decimal, Decimal]] = []
    for line, row in rows[1:]:
        at, value = (_number(row, place, line) for place in (time, rate))
        if steps and at <= steps[-1][0]:
            raise ImportFailedError(f"the time {at} does not come after {steps[-1][0]}", line)
        if value < 0 or value * bit > _FASTEST:
            raise ImportFailedError(f"{value} is no rate of a link", line)
        steps.append((at, value))
    if not any(value for _, value in steps):
        raise ImportFailedError("the table has no row with a rate above zero")
    begin = steps[0][0]
    known = [(int((at - begin) * second), int(value * bit)) for at, value in steps]
    # The last rate holds as long as the one before.
    last = known[-1][0] + (known[-1][0] - known[-2][0] if len(known) > 1 else LONG_MS * 10**6)
    if last > LIMIT_MS * 10**6:
        raise ImportFailedError(f"the table is longer than {LIMIT_MS} ms", rows[-1][0])
    return [_scenario(options, known, last)]


def _column(names: list[str], column: str, base: str) -> tuple[int, int]:
    """Return the place of a column, and its unit in nanoseconds or bit/s."""
    name, _, unit = column.rpartition(" ")
    try:
        factor = duration_ns(f"1 {unit}") if base == "s" else rate_bps(f"1 {unit}")
    except ValueError:
        example = "time ms" if base == "s" else "rate Mbit/s"
        message = f"`{column}` is no name of a column and its unit"
        raise ImportFailedError(message, hint=f'for example "{example}"') from None
    if name.strip() not in names:
        message = f"there is no column `{name.strip()}`"
        raise ImportFailedError(message, 1, f"the columns are {', '.join(names)}")
    return names.index(name.strip()), factor


def _number(row: list[str], place: int, line: int) -> Decimal:
    cell = row[place].strip() if place < len(row) else ""
    try:
        value = Decimal(cell)
    except InvalidOperation:
        value = Decimal("nan")
    # Beyond any time and any rate in any unit.
    if not value.is_finite() or abs(value) > Decimal("1e24") or value.as_tuple().exponent < -30:  # type: ignore[operator]
        raise ImportFailedError(f"`{cell[:20]}` is not a number", line)
    return value


def _scenario(options: ImportOptions, steps: list[tuple[int, int]], last_ns: int) -> Imported:
    ends = [*(at for at, _ in steps[1:]), last_ns]
    bits = sum(rate * (end - at) for (at, rate), end in zip(steps, ends, strict=True))
    first = next(rate for _, rate in steps if rate > 0)
    changes = [step for before, step in pairwise([(0, first), *steps]) if step[1] != before[1]]
    duration, link = f"{last_ns} ns", f'"{first} bit/s"'
    rtt, queue = options.rtt or "", options.queue or ""
    text = one_flow(bits / last_ns / 1e6, duration, link, rtt, queue, options.cc)
    for at, rate in changes:
        text += f'\n[[events]]\nwhen = "{at} ns"\npath = {{ rate = "{rate} bit/s" }}\n'
    return Imported(options.file.stem, text)


EXPORT = Export("csv", "the tables, one file each", "csv", write)
IMPORT = Import(
    "csv", "the capacity of a link over time: a column of times and one of rates", looks_like, read
)
