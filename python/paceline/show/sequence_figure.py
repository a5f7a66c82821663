"""Time-sequence diagrams: transmits thick, ACKs thin, the receive window grey."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from paceline.quantities import Scale, scale_of
from paceline.show.figure import BESIDE, Drawing, canvas, literal, styled
from paceline.show.palette import NEUTRAL, flow_style
from paceline.show.sequence import Trace, View, inside, marks, steps, strokes, traces, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from paceline.runs import Run

#: Widths of lines, in points.
THICK, THIN = 2.2, 0.7

#: For losses of any flow: they are drawn on the line of sent data.
_LOSS = "#000000"

_WINDOW = "#AAAAAA"

#: For a single flow, its parts have their own colours.
_ALONE = {"send": "#0072B2", "ack": "#009E73", "sack": "#CC79A7", "retransmit": "#D55E00"}

#: The order of the legend.
_ORDER = (
    *("transmit", "retransmit", "drop"),
    *("ACK", "ACK dropped", "ACK filtered", "SACK block", "receive window"),
)

#: Empty time on the left, in widths of the view, so that the first packets do not touch the axis.
_LEAD = 0.01

#: How far above the data the window may be to be drawn in full, in heights of the data.
_REACH = 0.25


def draw(
    runs: Sequence[Run],
    *,
    flow: int | None = None,
    from_ns: int | None = None,
    to_ns: int | None = None,
    rounds: int | None = None,
    title: str | None = None,
) -> Drawing:
    """Draw the flows of one run, or of several runs overlaid.

    The time range is the entire run, `from_ns` to `to_ns`, or the first `rounds` round trips
    of the slowest flow. Raises `SequenceError` where there is nothing to draw.
    """
    shown = traces(runs, flow)
    view = view_of(shown, from_ns, to_ns, rounds)
    with styled():
        figure = canvas(9, 5.5, "")
        ax = figure.subplots()
        ax.set_title(title or _title(runs, rounds if to_ns is None else None))
        _Diagram(ax, shown, view).draw()
    return literal(figure)


def _title(runs: Sequence[Run], rounds: int | None) -> str:
    name = f"{runs[0].scenario}, seed {runs[0].seed}" if len(runs) == 1 else f"{len(runs)} runs"
    if rounds is None:
        return name
    return f"{name}, first {rounds} rounds" if rounds > 1 else f"{name}, first round"


class _Diagram:
    def __init__(self, ax: Axes, shown: Sequence[Trace], view: View) -> None:
        self._ax = ax
        self._traces = shown
        self._view = view
        self._low, self._high = self._extent()
        self._time = scale_of("_ns", view.to_ns)
        self._volume = scale_of("_bytes", self._high)
        #: The drawn elements by name, for the legend.
        self._kinds: dict[str, Line2D] = {}

    def _extent(self) -> tuple[int, int]:
        """Return the part of the streams that is sent or acknowledged in the view."""
        low: list[int] = []
        high: list[int] = []
        for trace in self._traces:
            for frame in (trace.sends, trace.retransmits):
                rows = inside(frame, self._view)
                if rows.height:
                    low.append(_int(rows["seq"].min()))
                    high.append(_int(rows["end"].max()))
            acked = steps(trace.acks, "seq", self._view)[1]
            if acked:
                low.append(acked[0])
                high.append(acked[-1])
        return (min(low), max(high)) if low else (0, 1)

    def draw(self) -> None:
        many = len(self._traces) > 1
        for index, trace in enumerate(self._traces):
            colour = flow_style(index).colour
            colours = dict.fromkeys(_ALONE, colour) if many else _ALONE
            self._window(trace)
            self._acks(trace, colours["ack"])
            self._sends(trace.sends, colours["send"])
            self._sacks(trace, colours["sack"])
            style: dict[str, Any] = {"markeredgecolor": "black", "markeredgewidth": 0.5}
            style |= {"marker": "^", "markersize": 4.5}
            self._marks("retransmit", trace.retransmits, colours["retransmit"], 5, style)
            style = {"marker": "x", "markersize": 4, "markeredgewidth": 0.9}
            self._marks("drop", trace.drops, _LOSS, 6, style)
        ax = self._ax
        margin = 0.03 * max(self._high - self._low, 1)
        bottom, top = self._low - margin, self._top() + margin
        ax.set_ylim(bottom / self._volume.size, top / self._volume.size)
        lead = _LEAD * (self._view.to_ns - self._view.from_ns)
        begin, end = self._view.from_ns - lead, self._view.to_ns
        ax.set_xlim(begin / self._time.size, end / self._time.size)
        ax.ticklabel_format(useOffset=False, style="plain")
        ax.set_xlabel(f"Time ({self._time.unit})")
        ax.set_ylabel(f"Sequence number ({self._volume.unit})")
        handles = [
            Line2D([], [], color=flow_style(index).colour, linewidth=THICK, label=trace.label)
            for index, trace in enumerate(self._traces)
            if many
        ]
        if many:
            handles.append(Line2D([], [], linestyle="none", label=""))
        handles += [self._kinds[name] for name in _ORDER if name in self._kinds]
        ax.legend(handles=handles, handlelength=1.6, **BESIDE)

    def _top(self) -> int:
        """Return the top of the view: the data, and the window if it is near."""
        edges = [e for t in self._traces for e in steps(t.acks, "end", self._view)[1][-1:]]
        reach = self._high + _REACH * (self._high - self._low)
        return max([self._high, *(edge for edge in edges if edge <= reach)])

    def _kind(self, name: str, colour: str, **style: object) -> None:
        # A drop has the same colour in all flows.
        shown = NEUTRAL if len(self._traces) > 1 and name != "drop" else colour
        self._kinds.setdefault(name, Line2D([], [], color=shown, label=name, **style))  # type: ignore[arg-type]

    def _bars(self, frame: pl.DataFrame, colour: str, width: float, order: float) -> None:
        """Draw ranges of the stream; one that is thinner than a line is still a dot."""
        time, volume = self._time.size, self._volume.size
        last = "last_ns" if "last_ns" in frame.columns else "t_ns"
        rows = frame.select("t_ns", "seq", pl.col(last).alias("last"), "end").iter_rows()
        lines = [
            [(t / time, seq / volume), (last / time, end / volume)] for t, seq, last, end in rows
        ]
        style: Any = {"colors": colour, "linewidths": width, "zorder": order}
        self._ax.add_collection(LineCollection(lines, capstyle="projecting", **style))

    def _line(self, trace: Trace, column: str, colour: str, width: float, order: float) -> bool:
        times, values = steps(trace.acks, column, self._view)
        at = [t / self._time.size for t in times], [v / self._volume.size for v in values]
        self._ax.step(*at, where="post", color=colour, linewidth=width, zorder=order)
        return bool(times)

    def _window(self, trace: Trace) -> None:
        times, edges = steps(trace.acks, "end", self._view)
        if not times:
            return
        self._line(trace, "end", _WINDOW, THIN + 0.3, 1)
        label = "receive window" if edges[0] <= self._top() else "receive window (above)"
        handle = Line2D([], [], color=_WINDOW, linewidth=THIN + 0.3, label=label)
        self._kinds.setdefault("receive window", handle)

    def _acks(self, trace: Trace, colour: str) -> None:
        if self._line(trace, "seq", colour, THIN, 2):
            self._kind("ACK", colour, linewidth=THIN)
        lost = (("ACK dropped", "x", trace.ack_drops), ("ACK filtered", "o", trace.ack_filters))
        for name, marker, frame in lost:
            style = {"marker": marker, "markersize": 3.5, "markeredgewidth": 0.7}
            self._marks(name, frame, colour, 4, style | {"markerfacecolor": "none"})

    def _sends(self, frame: pl.DataFrame, colour: str) -> None:
        rows = strokes(frame, self._view)
        if rows.height:
            self._bars(rows, colour, THICK, 3)
            self._kind("transmit", colour, linewidth=THICK)

    def _sacks(self, trace: Trace, colour: str) -> None:
        rows = marks(trace.sacks, self._view)
        if rows.height:
            self._bars(rows, colour, THIN, 2.5)
            style = {"linestyle": "none", "marker": "|", "markersize": 8}
            self._kind("SACK block", colour, **style)

    def _marks(
        self, name: str, frame: pl.DataFrame, colour: str, order: float, style: dict[str, Any]
    ) -> None:
        """Draw a mark at the beginning of each range of the stream."""
        rows = marks(frame, self._view)
        if rows.height:
            style = {"linestyle": "none", **style}
            at = (_scaled(rows["t_ns"], self._time), _scaled(rows["seq"], self._volume))
            self._ax.plot(*at, color=colour, zorder=order, **style)
            self._kind(name, colour, **style)


def _scaled(values: pl.Series, scale: Scale) -> list[float]:
    return [value / scale.size for value in values]


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
