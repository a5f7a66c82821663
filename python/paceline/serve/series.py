"""Lines over time, reduced to a screen's resolution: no peak is lost at any zoom."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from paceline import _paceline, memory, pages
from paceline.errors import NotARunError, PacelineError
from paceline.later import polars as pl
from paceline.quantities import quantity, scale_of
from paceline.reading import open_regular
from paceline.runs import Run
from paceline.serve import limits
from paceline.serve.beneath import opened
from paceline.show.palette import Style, flow_style
from paceline.show.panels import end_of, envelopes, rates

#: The quantities that can be plotted: title, and column.
QUANTITIES = {
    "throughput_bps": "Throughput",
    "rtt_ns": "Round-trip time",
    "queue_delay_ns": "Delay in the bottleneck's queue",
    "backlog_bytes": "Peak backlog of the bottleneck",
    "in_flight_bytes": "Bytes in flight",
    "cwnd_bytes": "Congestion window",
    "pacing_bps": "Pacing rate",
    "delivery_bps": "Delivery rate, as sampled",
}
#: Those of the bottleneck, in the table `queue`.
_QUEUE = {"queue_delay_ns": "delay_ns", "backlog_bytes": "peak_bytes"}

#: Minimum and maximum number of buckets of a line over an entire run, and of all lines of a plot.
BUCKETS, _FEWEST, _ALL = 600, 100, 25_000
#: Minimum width of throughput bins. If a plot has room for a hundred bins of the second width, they
#: have at least that: in narrower ones the bursts of each round trip hide the throughput.
_BIN_NS, _CALM_NS = 20_000_000, 100_000_000


class InMemory:
    """The tables of a run in memory."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def flows(self) -> pl.DataFrame:
        """One row for each flow."""
        return self._run.flows

    def columns(self, table: str, names: tuple[str, ...]) -> pl.DataFrame:
        """Return columns of a table, those that it has."""
        frame: pl.DataFrame = getattr(self._run, table)
        return frame.select(name for name in names if name in frame.columns)


class OnDisk:
    """The tables of a run in its folder, which is below another one."""

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._name = name
        self._read: dict[tuple[str, str], pl.Series] = {}
        # Plots are drawn in parallel, and share columns.
        self._reads = Lock()

    @contextmanager
    def _reading(self, table: str) -> Iterator[BinaryIO]:
        """Yield a table's open file: polars gets no name that it could interpret as a pattern."""
        reason = f"{self._name}: {table} cannot be read: run `paceline report` to see why"
        try:
            rows, size = _paceline.parquet_size(Path(self._name, f"{table}.parquet"), self._root)
        except (PacelineError, OSError):
            raise NotARunError(reason) from None
        most = memory.limit()
        if rows > limits.ROWS or size > most:
            large = f"{rows:,} rows, some {quantity('_bytes', size)} in memory"
            allowed = f"{limits.ROWS:,} rows and {quantity('_bytes', most)} are read"
            raise NotARunError(f"{self._name}: {table} has {large}; at most {allowed}")
        try:
            with (
                opened(self._root, self._name) as folder,
                open_regular(f"{table}.parquet", folder) as file,
            ):
                yield file
        except (pl.exceptions.PolarsError, OSError):
            raise NotARunError(reason) from None

    def check(self) -> None:
        """Raise `NotARunError` if a table has more rows than the limit."""
        try:
            with opened(self._root, self._name) as folder:
                names = os.listdir(folder)
        except OSError:
            raise NotARunError(f"{self._name} cannot be read") from None
        for name in names:
            if name.endswith(".parquet"):
                with self._reading(name.removesuffix(".parquet")):
                    pass

    def size(self) -> int:
        """Return the bytes of memory that its columns take."""
        return sum(int(column.estimated_size()) for column in list(self._read.values()))

    @cached_property
    def flows(self) -> pl.DataFrame:
        """One row for each flow."""
        with self._reading("flows") as file:
            return pl.read_parquet(file)

    @cached_property
    def _names(self) -> dict[str, frozenset[str]]:
        names = {}
        for table in ("samples", "queue"):
            with self._reading(table) as file:
                names[table] = frozenset(pl.read_parquet_schema(file))
        return names

    def columns(self, table: str, names: tuple[str, ...]) -> pl.DataFrame:
        """Return columns of a table, those that it has."""
        with self._reads:
            existing = [name for name in names if name in self._names[table]]
            fresh = [name for name in existing if (table, name) not in self._read]
            if fresh:
                with self._reading(table) as file:
                    frame = pl.read_parquet(file, columns=fresh)
                for name in fresh:
                    self._read[table, name] = frame[name]
        return pl.DataFrame([self._read[table, name] for name in existing])


#: Where the tables of a run are; only the requested columns are read.
Tables = InMemory | OnDisk


def end_ns(run: Tables) -> int:
    """Return when a run ended."""
    return end_of(*(run.columns(table, ("t_ns",)) for table in ("samples", "queue")))


def _spacing_ns(run: Tables) -> int:
    """Return the time from one row to the next, on average: the engine's sample interval."""
    times = run.columns("queue", ("link", "t_ns")).filter(pl.col("link") == 0)["t_ns"]
    first, last = times.min(), times.max()
    if not isinstance(first, int) or not isinstance(last, int) or times.len() < 2:
        return 1
    return -(-(last - first) // (times.len() - 1))


def series(
    runs: Mapping[str, Tables], quantity: str, start: int | None = None, end: int | None = None
) -> pages.Series:
    """Return the lines of a quantity of some runs between two times, in nanoseconds.

    Each bucket of time gives its minimum and maximum, in the order in which they occurred.
    All lines have the same times and the same unit.
    """
    last = max((end_ns(run) for run in runs.values()), default=1)
    start = max(start or 0, 0)
    end = max(min(end or last, last), start + 1)
    flows = sum(run.flows.height for run in runs.values())
    if flows > limits.LINES:
        raise NotARunError(f"{flows:,} flows, more than {limits.LINES:,} in a plot")
    buckets = min(max(_ALL // max(flows, 1), _FEWEST), BUCKETS)
    if end - start < last:
        # A page shows the middle half of a part, so that panning shows data at once.
        buckets *= 2
    # A bucket spans two rows: a narrower one could be empty and break the line.
    least = 2 * max((_spacing_ns(run) for run in runs.values()), default=1)
    if quantity == "throughput_bps":
        calm = min((end - start) // 100, _CALM_NS)
        width = max(-(-(end - start) // buckets), least, _BIN_NS, calm)
        count = max(-(-(end - start) // width), 1)
        times = [(start + (i + 0.5) * width) / 1e9 for i in range(count)]
    else:
        width = max(-(-(end - start + 1) // buckets), least)
        count = -(-(end - start + 1) // width)
        times = [(start + (i + 0.5) * width / 2) / 1e9 for i in range(2 * count)]
    lines: list[tuple[str, str, Style, pl.Series]] = []
    for nth, (name, run) in enumerate(runs.items()):
        for index, (label, values) in enumerate(_lines(run, quantity, start, width, count)):
            # With several runs, the colour shows the run and the dash the flow.
            colour = flow_style(nth if len(runs) > 1 else index).colour
            lines.append((name, label, Style(colour, flow_style(index).dash), values))
    # All lines as one column: a thousand cost as much to write as a few.
    column = pl.concat([values for *_, values in lines]) if lines else pl.Series(dtype=pl.Float64)
    most = column.max()
    scale = scale_of(quantity, most if isinstance(most, float) else 0.0)
    # To the digits that a plot can show.
    written = (column / scale.size).round_sig_figs(5).to_list()
    return {
        "title": QUANTITIES[quantity],
        "unit": scale.unit,
        "end": last / 1e9,
        "times": [round(time, 7) for time in times],
        "lines": [
            {
                "run": name,
                "label": label,
                "colour": style.colour,
                "dash": list(style.dash),
                "values": written[nth * len(times) : (nth + 1) * len(times)],
            }
            for nth, (name, label, style, _) in enumerate(lines)
        ],
    }


def _lines(
    run: Tables, quantity: str, start: int, width: int, count: int
) -> list[tuple[str, pl.Series]]:
    if quantity in _QUEUE:
        table = run.columns("queue", ("link", "t_ns", _QUEUE[quantity]))
        frame = table.filter(pl.col("link") == 0).with_columns(flow=pl.lit(0))
        lines = envelopes(frame, _QUEUE[quantity], width, count, start)
        return [("bottleneck", values) for values in lines.values()]
    labels = dict(run.flows.sort("flow").select("flow", "label").iter_rows())
    if quantity == "throughput_bps":
        frame = run.columns("samples", ("flow", "t_ns", "delivered_bytes"))
        ran = max(-(-(end_ns(run) - start) // width), 0)
        # After the end of a run that is shorter than others, its throughput is unknown.
        lines = {
            flow: values.head(ran).extend_constant(None, max(count - ran, 0))
            for flow, values in rates(frame, width, count, start).items()
        }
    elif quantity in (frame := run.columns("samples", ("flow", "t_ns", quantity))).columns:
        lines = envelopes(frame, quantity, width, count, start)
    else:
        return []
    return [(str(label), lines[flow]) for flow, label in labels.items() if flow in lines]
