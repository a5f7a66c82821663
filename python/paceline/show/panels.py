"""The panels of a report, computed once for the page and for the figures.

Time is divided into buckets. For each quantity, a bucket keeps the minimum and maximum in the order
in which they occurred, so that no peak is lost, however long the run is.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from paceline import pages
from paceline.quantities import NONE, Scale, quantity, scale_of
from paceline.runs import Run
from paceline.show.palette import NEUTRAL, Style, flow_style, quantity_style, reference_style

#: Buckets over an entire run.
BUCKETS = 1000

#: Minimum width of throughput bins; a long run has wider ones.
BIN_NS = 100_000_000
BINS = 1200

#: Maximum number of flows drawn one by one, the largest first; the others are drawn as their sum.
DRAWN = 12

#: Maximum number of events in a page: those of the largest flows, and of the path.
HAPPENINGS = 20_000

# Internal state of a controller, which would hide its estimates.
_INNER = ("undo_", "full_", "prior_")

Values = list[float | None]

#: The panels by name, and what the left axis of each shows.
_AXES = {
    "throughput": "Throughput",
    "rtt": "RTT",
    "queue": "Backlog",
    "drops": "Packets",
    "return-queue": "Backlog",
    "return-drops": "Packets",
    "window": "Window",
    "rates": "Rate",
    "delay": "Queue delay",
    "ratio": "Ratio",
}


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

    #: Its name on the command line.
    name: str
    title: str
    unit: str
    times: list[float]
    series: list[Series]
    stacked: bool = False
    unit_right: str | None = None
    #: Reference lines: capacity, fair share, base RTT.
    references: list[Series] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What the left axis shows, with its unit."""
        word = _AXES[self.name]
        return word if self.unit in ("", word.lower()) else f"{word} ({self.unit})"


@dataclass(frozen=True)
class Detail:
    """The plotted data of one flow."""

    flow: int
    label: str
    panels: list[Panel]
    bands: list[pages.Band] = field(default_factory=list)
    #: What limited the sender, span by span.
    limits: list[pages.Band] = field(default_factory=list)
    #: Packets declared lost up to each time of the panels.
    lost: list[int] = field(default_factory=list)


def end_of(*frames: pl.DataFrame) -> int:
    """Return when a run ended, by the last time in its tables."""
    ends = [frame["t_ns"].max() for frame in frames]
    return max((int(end) for end in ends if isinstance(end, int)), default=1) or 1


def bins(end_ns: int, interval: int = 0) -> tuple[int, int]:
    """Return how wide throughput bins are up to an end, at least an interval, and how many."""
    width = max(BIN_NS, interval, -(-end_ns // BINS))
    return width, max(-(-end_ns // width), 1)


def envelope(frame: pl.DataFrame, column: str, width: int, count: int) -> Values:
    """Return the minimum and maximum of each of `count` buckets of `width` nanoseconds.

    A bucket gives two values, in the order in which they occurred; an empty one gives two gaps.
    """
    by_flow = envelopes(frame.with_columns(flow=pl.lit(0)), column, width, count)
    return by_flow[0].to_list() if by_flow else [None] * (2 * count)


def envelopes(
    frame: pl.DataFrame, column: str, width: int, count: int, start: int = 0
) -> dict[int, pl.Series]:
    """Return the envelope of each flow of a frame from `start` on, by its number."""
    bucket = (pl.col("t_ns") - start).floordiv(width)
    known = (
        frame.lazy()
        .select("flow", bucket=bucket, v=pl.col(column).cast(pl.Float64))
        .filter(pl.col("bucket").is_between(0, count - 1) & pl.col("v").is_not_null())
        .collect()
    )
    if known.is_empty():
        return {}
    flows = known["flow"].unique().sort()
    # A number for each bucket of each flow.
    cell = flows.search_sorted(known["flow"]).cast(pl.Int64) * count + known["bucket"]
    order, starts = _together(cell)
    v = known["v"].to_numpy()[order]
    low, high = np.minimum.reduceat(v, starts), np.maximum.reduceat(v, starts)
    # A bucket's first extreme is the first of all its rows at the minimum or the maximum.
    sizes = np.diff(starts, append=len(v))
    extreme = (v == np.repeat(low, sizes)) | (v == np.repeat(high, sizes))
    rows = np.where(extreme, np.arange(len(v)), len(v))
    first = v[np.minimum.reduceat(rows, starts)]
    last = np.where(first == low, high, low)
    places = 2 * cell.to_numpy()[order][starts]
    values = scattered(
        pl.Series(np.concatenate([places, places + 1])),
        pl.Series(np.concatenate([first, last])),
        2 * flows.len() * count,
    )
    return _by_flow(values, flows, 2 * count)


def _together(cell: pl.Series) -> tuple[Any, Any]:
    """Return the order in which rows of a cell follow each other, and where each cell starts."""
    numbers = cell.to_numpy()
    order = np.argsort(numbers, kind="stable")
    return order, np.flatnonzero(np.diff(numbers[order], prepend=-1))


def _by_flow(values: pl.Series, flows: pl.Series, length: int) -> dict[int, pl.Series]:
    """Return the part of each flow of a column in which they follow each other."""
    return {int(flow): values.slice(n * length, length) for n, flow in enumerate(flows)}


def scattered(places: pl.Series, values: pl.Series, length: int) -> pl.Series:
    """Return a column with values at some rows, and null at the others."""
    return pl.repeat(None, length, dtype=values.dtype, eager=True).scatter(places, values)


class Sketch:
    """The panels of a run."""

    def __init__(self, run: Run) -> None:
        self._samples = run.samples
        self._queue = run.queue.filter(pl.col("link") == 0)
        self._back = run.queue.filter(
            pl.col("link").is_in([link for link, of in enumerate(run.returns) if of == 0])
        )
        self._events = run.events
        self._convergence = run.metrics.get("convergence_ns")
        self._limit = next((limit for _, _, limit in run.links), None)
        self._rate = next((float(rate or 0) for _, rate, _ in run.links), 0.0)
        self.flows = run.flows.sort("flow")
        self.end_ns = end_of(self._samples, self._queue)
        # With many flows few are drawn one by one: the rows of the others are not copied.
        few = self._samples.filter(pl.col("flow").is_in(self.drawn))
        self._by_flow = {
            int(key[0]): frame for key, frame in few.partition_by("flow", as_dict=True).items()
        }
        # A recording of another program has no link.
        longest = self._samples.group_by("flow").len()["len"].max()
        self._rows = self._queue.height or int(longest or 0)  # type: ignore[arg-type]
        # Two rows fill a bucket, which an emulation's uneven samples leave empty otherwise.
        self._count = min(BUCKETS, max(self._rows // 2, 1))
        self._width = -(-(self.end_ns + 1) // self._count)
        # The two values of a bucket are drawn at a quarter and at three quarters of it.
        self._times = [(i + 0.5) * self._width / 2 / 1e9 for i in range(2 * self._count)]

    def _chosen(self) -> list[tuple[int, str, Style]]:
        """Return the flows that are drawn one by one, in their order, with their labels."""
        rows = list(enumerate(self.flows.iter_rows(named=True)))
        largest = sorted(rows, key=lambda row: -int(row[1]["goodput_bytes"]))[:DRAWN]
        return [(int(row["flow"]), str(row["label"]), flow_style(i)) for i, row in sorted(largest)]

    @property
    def drawn(self) -> list[int]:
        """The flows that are drawn one by one."""
        return [flow for flow, _, _ in self._chosen()]

    def _of_flow(self, flow: int) -> pl.DataFrame:
        return self._by_flow.get(flow, self._samples.clear())

    def overview(self) -> list[Panel]:
        """Return the panels of all flows together."""
        panels: list[Panel | None] = [self._throughput(), self._rtt()]
        place = "at the bottleneck"
        if not self._queue.is_empty():
            panels.append(self._queued("queue", self._queue, place, self._limit))
            panels.append(self._discarded("drops", self._queue, place))
            place = "in the return direction"
            if not self._back.is_empty():
                panels.append(self._queued("return-queue", self._back, place, None))
                panels.append(self._discarded("return-drops", self._back, place))
        return [panel for panel in panels if panel is not None]

    def _throughput(self) -> Panel:
        """Throughput of each flow, stacked.

        It counts what arrived, in whatever order: what the receiver hands over in order comes in
        bursts after a loss, beyond what the link can carry.
        """
        width, count = bins(self.end_ns, self.end_ns // max(self._rows - 1, 1))
        by_flow = {flow: r.to_list() for flow, r in rates(self._samples, width, count).items()}
        sent = {int(f): by_flow.get(int(f), [0.0] * count) for f in self.flows["flow"]}
        total = max((sum(row) for row in zip(*sent.values(), strict=True)), default=0.0)
        capacity = self._queue["rate_bps"].max() if self._queue.height else None
        most = float(capacity) if isinstance(capacity, int | float) else 0.0
        scale = scale_of("_bps", max(total, most))
        series = [
            Series(label, style, scaled(list(sent.pop(flow)), scale))
            for flow, label, style in self._chosen()
        ]
        if sent:
            others = [sum(row) for row in zip(*sent.values(), strict=True)]
            label = f"{len(sent)} other flows"
            series.append(Series(label, Style(NEUTRAL, ()), scaled(list(others), scale)))
        times = [(i + 0.5) * width / 1e9 for i in range(count)]
        title = f"Throughput by flow, stacked, bins of {width / 1e6:g} ms"
        levels: list[tuple[str, Values]] = []
        if not self._queue.is_empty():
            levels.append(("link rate", self._capacity(width, count)))
            if self.flows.height > 1:
                levels.append(("fair share", self._share(levels[0][1], times)))
        lines = self._level(levels, scale)
        return Panel("throughput", title, scale.unit, times, series, True, references=lines)

    def _capacity(self, width: int, count: int) -> Values:
        """Return the capacity of the bottleneck in each bin, in bit/s."""
        ends = (
            self._queue.lazy()
            .select("capacity_bytes", "t_ns", bin=((pl.col("t_ns") - 1) // width).clip(-1, count))
            .group_by("bin")
            .agg(pl.col("t_ns").last(), pl.col("capacity_bytes").last())
            .sort("bin")
            .with_columns(since=pl.col("t_ns").diff(), grown=pl.col("capacity_bytes").diff())
            .filter((pl.col("bin") >= 0) & (pl.col("bin") < count) & (pl.col("since") > 0))
            .select("bin", pl.col("grown") * 8e9 / pl.col("since"))
            .collect()
        )
        return scattered(ends["bin"], ends["grown"], count).to_list()

    def _share(self, capacity: Values, times: list[float]) -> Values:
        """Return the rate over the number of flows that are active at each time."""
        ends = pl.min_horizontal(
            pl.col("stop_ns").fill_null(self.end_ns), pl.col("finish_ns").fill_null(self.end_ns)
        )
        begun, over = sorted(self.flows["start_ns"]), sorted(self.flows.select(ends).to_series())
        active = [bisect(begun, t * 1e9) - bisect(over, t * 1e9) for t in times]
        return [
            rate / flows if rate is not None and flows > 0 else None
            for rate, flows in zip(capacity, active, strict=True)
        ]

    def _rtt(self) -> Panel:
        """Round-trip time of each flow."""
        series = [
            (label, style, self._envelope(self._of_flow(flow), "rtt_ns"))
            for flow, label, style in self._chosen()
        ]
        title = "Round-trip time"
        if len(series) < self.flows.height:
            title += f" of the {len(series)} largest flows"
        bases = self.flows["base_rtt_ns"].unique().sort().to_list()
        lines = [
            ("base RTT" if len(bases) == 1 else f"base RTT {i + 1}", base)
            for i, base in enumerate(bases[:4])
        ]
        levels: list[tuple[str, Values]] = [(label, self._at_all(base)) for label, base in lines]
        if self._limit is not None and self._rate and len(bases) == 1:
            full = [bases[0] + self._limit * 8e9 / r if r else None for r in self._rates]
            levels.append(("base RTT and a full queue", full))
        most = max((top(values) for _, _, values in series), default=0.0)
        # A buffer that was never half full would flatten everything else.
        shown = [(label, values) for label, values in levels if top(values) <= 2 * most]
        return self._panel("rtt", title, "_ns", series, shown)

    def _queued(self, name: str, frame: pl.DataFrame, place: str, limit: int | None) -> Panel:
        """Backlog of a link, in bytes and in time."""
        peak = self._envelope(frame, "peak_bytes")
        delay = self._envelope(frame, "delay_ns")
        volume, time = scale_of("_bytes", top(peak)), scale_of("_ns", top(delay))
        series = [
            Series("peak backlog", quantity_style(0), scaled(peak, volume)),
            Series("delay", quantity_style(1), scaled(delay, time), right=True),
        ]
        title = f"Queue {place}"
        lines = []
        if limit is not None and limit <= 2 * top(peak):
            lines.append(("queue limit", self._at_all(limit)))
        references = self._level(lines, volume)
        return Panel(name, title, volume.unit, self._times, series, False, time.unit, references)

    def _discarded(self, name: str, frame: pl.DataFrame, place: str) -> Panel | None:
        """Packets that a link dropped and marked, if there were any."""
        columns = [("dropped", "dropped_packets"), ("marked with CE", "marked_packets")]
        counters = [pair for pair in columns if frame.height and frame[pair[1]].max()]
        if not counters:
            return None
        width, count = bins(self.end_ns)
        series = []
        for nth, (label, column) in enumerate(counters):
            grown = (
                frame.with_columns(grown=pl.col(column).diff().fill_null(pl.col(column)))
                .group_by(((pl.col("t_ns") - 1) // width).clip(0, count - 1).alias("bin"))
                .agg(pl.col("grown").sum().cast(pl.Float64))
            )
            values = scattered(grown["bin"], grown["grown"], count).fill_null(0.0).to_list()
            series.append(Series(label, quantity_style(nth), scaled(values, Scale("", 1.0))))
        times = [(i + 0.5) * width / 1e9 for i in range(count)]
        what = " and ".join(label for label, _ in counters)
        title = f"Packets {what} {place}, in each {width / 1e6:g} ms"
        return Panel(name, title, "packets", times, series)

    def detail(self, flow: int) -> Detail:
        """Return the panels of one flow."""
        labels = self.flows.filter(pl.col("flow") == flow)["label"]
        label = str(labels[0]) if labels.len() else str(flow)
        frame = self._of_flow(flow)
        windows = [("in flight", "in_flight_bytes"), ("cwnd", "cwnd_bytes")]
        bases = self.flows.filter(pl.col("flow") == flow)["base_rtt_ns"].to_list()
        known = self._rates if self._rate else []
        bdps = ([None if r is None else r * base / 8e9 for r in known] for base in bases[:1])
        bdp = [("1 BDP", values) for values in bdps]
        rate = [("link rate", known)]
        title, rates = f"Window and bytes in flight, {label}", self._rate_columns(frame)
        panels = [
            self._columns("window", title, "_bytes", frame, windows, bdp),
            self._columns("rates", f"Rates, {label}", "_bps", frame, rates, rate),
        ]
        bands = self._bands(flow, frame)
        return Detail(flow, label, panels, bands, self._limits(frame), self._lost(frame))

    def _limits(self, frame: pl.DataFrame) -> list[pages.Band]:
        """Return what limited the sender at each sample, with equal neighbours merged.

        A sender whose window has room for another packet waits for its pacer.
        """
        room = pl.col("cwnd_bytes") - pl.col("in_flight_bytes")
        mss = int(self.flows["mss_bytes"].max() or 1)  # type: ignore[arg-type]
        limit = (
            pl.when(pl.col("app_limited"))
            .then(pl.lit("application"))
            .when(pl.col("cwnd_bytes").is_null() & pl.col("pacing_bps").is_null())
            .then(pl.lit("not known"))
            .when(room < mss)
            .then(pl.lit("congestion window"))
            .when(pl.col("pacing_bps").is_not_null())
            .then(pl.lit("pacing rate"))
            .otherwise(pl.lit("receiver or application"))
        )
        return bands_of(frame.select("t_ns", limit=limit), "limit", self.end_ns)

    def _lost(self, frame: pl.DataFrame) -> list[int]:
        """Return the packets declared lost up to each time."""
        at = pl.DataFrame({"t_ns": [int(t * 1e9) for t in self._times]})
        joined = at.join_asof(
            frame.select("t_ns", "lost_packets").sort("t_ns"), on="t_ns", strategy="backward"
        )
        return [int(n or 0) for n in joined["lost_packets"]]

    def marks(self) -> list[pages.Happening]:
        """Return the scenario's changes, and when the flows have converged."""
        changes = self._events.filter(pl.col("kind") == "change")
        marks = [happening(row) for row in changes.iter_rows(named=True)]
        if self._convergence is not None and self.flows.height > 1:
            last = int(self.flows["start_ns"].max() or 0)  # type: ignore[arg-type]
            at, text = (last + self._convergence) / 1e9, "flows have converged"
            marks.append({"t": at, "flow": None, "kind": "converged", "text": text})
        return sorted(marks, key=lambda mark: mark["t"])

    def happenings(self) -> list[pages.Happening]:
        """Return the events of the flows that are drawn, and of the path."""
        drawn = self._events.filter(pl.col("flow").is_null() | pl.col("flow").is_in(self.drawn))
        return [happening(row) for row in drawn.head(HAPPENINGS).iter_rows(named=True)]

    def _rate_columns(self, frame: pl.DataFrame) -> list[tuple[str, str]]:
        """Return the pacing rate, the samples, and the controller's own estimates."""
        own = [
            name
            for name in frame.columns
            if name.endswith("_bps")
            and name not in ("pacing_bps", "delivery_bps")
            and not name.startswith(_INNER)
        ]
        names = ["delivery_bps", "pacing_bps", *own]
        known = [n for n in names if n in frame.columns and frame[n].null_count() < frame.height]
        return [(name.removesuffix("_bps"), name) for name in known]

    def _columns(
        self,
        name: str,
        title: str,
        suffix: str,
        frame: pl.DataFrame,
        columns: list[tuple[str, str]],
        levels: list[tuple[str, Values]],
    ) -> Panel:
        series = [
            (label, quantity_style(i), self._envelope(frame, column))
            for i, (label, column) in enumerate(columns)
        ]
        return self._panel(name, title, suffix, series, levels)

    def _panel(
        self,
        name: str,
        title: str,
        suffix: str,
        series: list[tuple[str, Style, Values]],
        levels: list[tuple[str, Values]],
    ) -> Panel:
        scale = scale_of(suffix, max((top(values) for _, _, values in series), default=0.0))
        lines = [Series(label, style, scaled(v, scale)) for label, style, v in series]
        references = self._level(levels, scale)
        return Panel(name, title, scale.unit, self._times, lines, references=references)

    def _level(self, levels: list[tuple[str, Values]], scale: Scale) -> list[Series]:
        """Return the reference lines that there are values for."""
        return [
            Series(label, reference_style(nth), scaled(values, scale))
            for nth, (label, values) in enumerate(levels)
            if values
        ]

    def _at_all(self, value: float) -> Values:
        return [float(value)] * len(self._times)

    @cached_property
    def _rates(self) -> Values:
        """The rate of the bottleneck at each time of the panels, in bit/s."""
        if self._queue.is_empty():
            return self._at_all(self._rate)
        times = pl.DataFrame({"t_ns": [int(t * 1e9) for t in self._times]})
        known = self._queue.select("t_ns", pl.col("rate_bps").cast(pl.Float64))
        return times.join_asof(known, on="t_ns", strategy="forward")["rate_bps"].to_list()

    def _envelope(self, frame: pl.DataFrame, column: str) -> Values:
        return envelope(frame, column, self._width, self._count)

    def _bands(self, flow: int, frame: pl.DataFrame) -> list[pages.Band]:
        """Return the states of a flow's controller, from the events, so that none is missed."""
        if frame.is_empty():
            return []
        changes = self._events.filter((pl.col("kind") == "state") & (pl.col("flow") == flow))
        steps = [(int(t), str(state)) for t, state in changes.select("t_ns", "detail").iter_rows()]
        first = frame.filter(pl.col("phase").cast(pl.String) != "")
        if not first.is_empty():
            began, state = int(first["t_ns"][0]), str(first["phase"][0])
            before = changes["from"][0] if changes.height else None
            if not steps or began < steps[0][0]:
                steps.insert(0, (began, str(before or state)))
        ends = [t for t, _ in steps[1:]] + [self.end_ns]
        return [
            {"start": t / 1e9, "end": end / 1e9, "state": state}
            for (t, state), end in zip(steps, ends, strict=False)
            if end > t
        ]


#: The suffix of a quantity for the unit of an event's value; what has no unit is a probability.
_SUFFIXES = {"bit/s": "_bps", "ns": "_ns", "byte": "_bytes", "1": "loss_ratio"}


def happening(row: dict[str, Any]) -> pages.Happening:
    """Return a row of `events` in words."""
    kind, was, now = str(row["kind"]), row["from"], str(row["detail"] or "")
    text = kind
    if kind == "change":
        suffix = _SUFFIXES.get(str(row["unit"]), "")
        old, new = (
            NONE if value is None else quantity(suffix, value) if suffix else f"{value:g}"
            for value in (row["before_value"], row["value"])
        )
        text = f"{row['key']} {now}" if row["value"] is None else f"{row['key']} {new}"
        if row["before_value"] is not None:
            text = f"{row['key']} {old} to {new}"
        if row["link"]:
            text += f" on link {row['link']}"
    elif kind in ("state", "recovery"):
        text = f"{kind} {was} to {now}" if was else f"{kind} {now}"
    elif kind == "rto":
        text = "retransmission timeout"
    elif now:
        text = f"{kind}: {now}"
    return {"t": int(row["t_ns"]) / 1e9, "flow": row["flow"], "kind": kind, "text": text}


def bands_of(frame: pl.DataFrame, column: str, end_ns: int) -> list[pages.Band]:
    """Return the spans in which a column has one value."""
    starts = frame.filter(pl.col(column) != pl.col(column).shift().fill_null(""))
    times = [*starts["t_ns"], end_ns]
    return [
        {"start": start / 1e9, "end": end / 1e9, "state": str(state)}
        for start, end, state in zip(times, times[1:], starts[column], strict=False)
    ]


def rates(frame: pl.DataFrame, width: int, count: int, start: int = 0) -> dict[int, pl.Series]:
    """Return the throughput of each flow in bins of `width` nanoseconds from `start`, in bit/s.

    The counter is read at the last sample of each bin, and what it grew by is spread over the time
    since the sample before: samples of an emulation do not fall on the bins' edges.
    """
    nth = (pl.col("t_ns") - (start + 1)).floordiv(width).clip(-1)
    first = pl.col("flow").cast(pl.Int64) * (count + 1)
    ends = (
        frame.lazy()
        .filter(pl.col("t_ns") <= start + count * width)
        # A number for each bin of each flow, beginning with the one before the start.
        .select("t_ns", "delivered_bytes", cell=first + nth + 1)
        # The last sample up to the start is where the first bin begins.
        .group_by("cell")
        .agg(pl.col("t_ns").last(), pl.col("delivered_bytes").last())
        .sort("cell")
        .with_columns(flow=pl.col("cell") // (count + 1), bin=pl.col("cell") % (count + 1) - 1)
        .with_columns(
            # A flow that begins in a bin has nothing before it.
            since=pl.col("t_ns").shift().over("flow").fill_null(start + pl.col("bin") * width),
            grown=pl.col("delivered_bytes")
            .diff()
            .over("flow")
            .fill_null(pl.col("delivered_bytes")),
        )
        .filter(pl.col("bin") >= 0)
        .with_columns(rate=pl.col("grown").clip(0) * 8e9 / (pl.col("t_ns") - pl.col("since")))
        .select("flow", "bin", "rate")
        .collect()
    )
    flows = ends["flow"].unique().sort()
    cells = flows.search_sorted(ends["flow"]).cast(pl.Int64) * count + ends["bin"]
    filled = scattered(cells, ends["rate"], flows.len() * count).fill_null(0.0)
    return _by_flow(filled, flows, count)


def top(values: Values) -> float:
    """Return the maximum, 0 if there is none."""
    return max((v for v in values if v is not None), default=0.0)


def scaled(values: list[float] | Values, scale: Scale) -> Values:
    """Return the values in `scale`, to four digits: more than a plot can show."""
    return [None if v is None else float(f"{v / scale.size:.4g}") for v in values]
