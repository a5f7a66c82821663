"""What a report draws, worked out once for the page and for the figures.

Time is cut into buckets; of each quantity a bucket keeps its least and its greatest value, in the
order in which they came, so that no peak is lost however long the run is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from paceline.quantities import Scale, scale_of
from paceline.report.palette import Style, flow_style, quantity_style
from paceline.runs import Run

#: Buckets over a whole run.
BUCKETS = 1000

#: Width of the bins of throughput, at least; a long run has wider ones.
BIN_NS = 100_000_000
BINS = 1200

#: The flows that have detailed panels in a page, so that it stays light.
DETAILED = 12

Values = list[float | None]


@dataclass(frozen=True)
class Series:
    """A line."""

    label: str
    style: Style
    values: Values
    #: Whether it is measured on the right axis.
    right: bool = False


@dataclass(frozen=True)
class Panel:
    """A plot: lines over the same times, in seconds."""

    title: str
    unit: str
    times: list[float]
    series: list[Series]
    stacked: bool = False
    unit_right: str | None = None


@dataclass(frozen=True)
class Band:
    """A span, in seconds, in which a controller was in one state."""

    start: float
    end: float
    state: str


@dataclass(frozen=True)
class Detail:
    """What is drawn of one flow."""

    flow: int
    label: str
    panels: list[Panel]
    bands: list[Band] = field(default_factory=list)


def envelope(frame: pl.DataFrame, column: str, width: int, count: int) -> Values:
    """Return the least and greatest value of each of `count` buckets of `width` nanoseconds.

    A bucket gives two values, in the order in which they came; one without rows gives two gaps.
    """
    values: Values = [None] * (2 * count)
    extremes = (
        frame.select(pl.col("t_ns"), pl.col(column).cast(pl.Float64).alias("v"))
        .drop_nulls()
        .group_by((pl.col("t_ns") // width).clip(0, count - 1).alias("bucket"))
        .agg(
            low=pl.col("v").min(),
            high=pl.col("v").max(),
            low_first=pl.col("v").arg_min() <= pl.col("v").arg_max(),
        )
    )
    for bucket, low, high, low_first in extremes.iter_rows():
        values[2 * bucket : 2 * bucket + 2] = [low, high] if low_first else [high, low]
    return values


class Sketch:
    """The panels of a run."""

    def __init__(self, run: Run) -> None:
        self._samples = run.samples
        self._queue = run.queue.filter(pl.col("link") == 0)
        self._events = run.events
        self.flows = run.flows.sort("flow")
        ends = [frame["t_ns"].max() for frame in (self._samples, self._queue)]
        self.end_ns = max([int(end) for end in ends if isinstance(end, int)], default=1) or 1
        rows = max(self._queue.height, 1)
        self._count = min(BUCKETS, rows)
        self._width = -(-(self.end_ns + 1) // self._count)
        self._by_flow = {
            int(key[0]): frame
            for key, frame in self._samples.partition_by("flow", as_dict=True).items()
        }
        # Two values in a bucket stand at its first and its third quarter.
        self._times = [(i + 0.5) * self._width / 2 / 1e9 for i in range(2 * self._count)]

    def _flows(self) -> list[tuple[int, str, Style]]:
        return [
            (int(row["flow"]), str(row["label"]), flow_style(i))
            for i, row in enumerate(self.flows.iter_rows(named=True))
        ]

    def _of_flow(self, flow: int) -> pl.DataFrame:
        return self._by_flow.get(flow, self._samples.clear())

    def overview(self) -> list[Panel]:
        """Return what is drawn of all flows together."""
        return [self.throughput(), self.rtt(), self.queue()]

    def throughput(self) -> Panel:
        """Goodput of each flow, one on the other."""
        width = max(BIN_NS, -(-self.end_ns // BINS))
        count = max(-(-self.end_ns // width), 1)
        rates = {flow: _rates(self._of_flow(flow), width, count) for flow, _, _ in self._flows()}
        total = max((sum(row) for row in zip(*rates.values(), strict=True)), default=0.0)
        capacity = self._queue["rate_bps"].max() if self._queue.height else None
        top = float(capacity) if isinstance(capacity, int | float) else 0.0
        scale = scale_of("_bps", max(total, top))
        series = [
            Series(label, style, _scaled(list(rates[flow]), scale))
            for flow, label, style in self._flows()
        ]
        times = [(i + 0.5) * width / 1e9 for i in range(count)]
        title = f"Goodput by flow, stacked, {width / 1e6:g} ms bins"
        return Panel(title, scale.unit, times, series, stacked=True)

    def rtt(self) -> Panel:
        """Round-trip time of each flow."""
        series = [
            (label, style, self._envelope(self._of_flow(flow), "rtt_ns"))
            for flow, label, style in self._flows()
        ]
        return self._panel("Round-trip time", "_ns", series)

    def queue(self) -> Panel:
        """Backlog of the bottleneck, in bytes and in time."""
        peak = self._envelope(self._queue, "peak_bytes")
        delay = self._envelope(self._queue, "delay_ns")
        volume, time = scale_of("_bytes", _top(peak)), scale_of("_ns", _top(delay))
        series = [
            Series("peak backlog", quantity_style(0), _scaled(peak, volume)),
            Series("delay", quantity_style(1), _scaled(delay, time), right=True),
        ]
        title = "Queue at the bottleneck"
        return Panel(title, volume.unit, self._times, series, unit_right=time.unit)

    def detail(self, flow: int) -> Detail:
        """Return what is drawn of one flow."""
        label = next((label for f, label, _ in self._flows() if f == flow), str(flow))
        frame = self._of_flow(flow)
        windows = [("in flight", "in_flight_bytes"), ("cwnd", "cwnd_bytes")]
        panels = [
            self._columns(f"Window and bytes in flight, {label}", "_bytes", frame, windows),
            self._columns(f"Rates, {label}", "_bps", frame, self._rate_columns(frame)),
        ]
        return Detail(flow, label, panels, self._bands(flow, frame))

    def _rate_columns(self, frame: pl.DataFrame) -> list[tuple[str, str]]:
        """Return the pacing rate, the samples, and the controller's own estimates."""
        own = [
            name
            for name in frame.columns
            if name.endswith("_bps") and name not in ("pacing_bps", "delivery_bps")
        ]
        names = ["delivery_bps", "pacing_bps", *own]
        known = [n for n in names if n in frame.columns and frame[n].null_count() < frame.height]
        return [(name.removesuffix("_bps"), name) for name in known]

    def _columns(
        self, title: str, suffix: str, frame: pl.DataFrame, columns: list[tuple[str, str]]
    ) -> Panel:
        series = [
            (label, quantity_style(i), self._envelope(frame, column))
            for i, (label, column) in enumerate(columns)
        ]
        return self._panel(title, suffix, series)

    def _panel(self, title: str, suffix: str, series: list[tuple[str, Style, Values]]) -> Panel:
        scale = scale_of(suffix, max((_top(values) for _, _, values in series), default=0.0))
        lines = [Series(label, style, _scaled(v, scale)) for label, style, v in series]
        return Panel(title, scale.unit, self._times, lines)

    def _envelope(self, frame: pl.DataFrame, column: str) -> Values:
        return envelope(frame, column, self._width, self._count)

    def _bands(self, flow: int, frame: pl.DataFrame) -> list[Band]:
        """Return the states of a flow's controller, from the events; they miss no short one."""
        if frame.is_empty():
            return []
        changes = self._events.filter((pl.col("kind") == "state") & (pl.col("flow") == flow))
        steps = [(int(t), str(state)) for t, state in changes.select("t_ns", "detail").iter_rows()]
        first = frame.filter(
            pl.col("phase").is_not_null() & (pl.col("phase").cast(pl.String) != "")
        )
        if not first.is_empty():
            began, state = int(first["t_ns"][0]), str(first["phase"][0])
            before = changes["from"][0] if changes.height else None
            if not steps or began < steps[0][0]:
                steps.insert(0, (began, str(before or state)))
        ends = [t for t, _ in steps[1:]] + [self.end_ns]
        return [
            Band(t / 1e9, end / 1e9, state)
            for (t, state), end in zip(steps, ends, strict=False)
            if end > t
        ]


def _rates(frame: pl.DataFrame, width: int, count: int) -> list[float]:
    """Return the goodput of one flow in each bin, in bit/s.

    The counter is read at the last sample of each bin.
    """
    rates = [0.0] * count
    ends = (
        frame.select("t_ns", "goodput_bytes")
        .group_by(((pl.col("t_ns") - 1) // width).clip(0, count - 1).alias("bin"))
        .agg(pl.col("t_ns").last(), pl.col("goodput_bytes").last())
        .sort("bin")
    )
    before_t = before = 0
    for bin_, t, goodput in ends.iter_rows():
        if t > before_t:
            rates[bin_] = max(goodput - before, 0) * 8e9 / (t - before_t)
        before_t, before = t, goodput
    return rates


def _top(values: Values) -> float:
    return max((v for v in values if v is not None), default=0.0)


def _scaled(values: list[float] | Values, scale: Scale) -> Values:
    """Return the values in `scale`, to four digits: more than a plot can show."""
    return [None if v is None else float(f"{v / scale.size:.4g}") for v in values]
