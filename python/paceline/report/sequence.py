"""Time-sequence diagrams: what each packet carried, when it left and when it was acknowledged.

In the manner of tcptrace: transmissions thick, the cumulative acknowledgment a thin line, the
receive window a grey one above; retransmissions, drops and selective acknowledgments marked.
Connections of one run or of several are laid over each other, each from its own start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import polars as pl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paceline.quantities import scale_of
from paceline.report.figure import SETTINGS
from paceline.report.palette import NEUTRAL, Style, flow_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from paceline.runs import Run

#: Of each connection, transmissions and acknowledgments are drawn in so many moments at most: more
#: than a picture has columns. Retransmissions, drops and SACKs are all drawn.
_MOMENTS = 4000
_RETRANSMIT, _DROP, _SACK = "#D55E00", "#000000", "#7B3FA0"
#: Connections in one picture, at most: beyond it nobody can tell them apart.
MOST = 7


class NoPacketsError(ValueError):
    """A run has not recorded its packets."""


@dataclass(frozen=True)
class Connection:
    """One flow's packets; times are in seconds from its start, numbers in bytes."""

    label: str
    base_rtt: float
    #: When the handshake was complete.
    established: float
    #: Columns `t`, `kind`, `seq`, `end`, `window`, in order of time.
    packets: pl.DataFrame

    def of(self, kind: str) -> pl.DataFrame:
        """Return the packets of a kind."""
        return self.packets.filter(pl.col("kind") == kind)

    def within(self, start: float, end: float) -> Connection:
        """Return what happened between two times."""
        packets = self.packets.filter(pl.col("t").is_between(start, end))
        return Connection(self.label, self.base_rtt, self.established, packets)


def connections(runs: Sequence[Run], flow: int | None = None) -> list[Connection]:
    """Return the connections of runs: those of one flow number, or all."""
    found = []
    for run in runs:
        table = run.inner.table("packets")
        if table is None:
            raise NoPacketsError(
                f"{run.scenario}, seed {run.seed}, has no packets: run it with "
                "--set run.record.packets=true"
            )
        packets = pl.DataFrame(table)
        for row in run.flows.iter_rows(named=True):
            if flow is None or row["flow"] == flow:
                found.append(_connection(run, row, packets, alone=len(runs) == 1))
    return found


def _connection(
    run: Run, flow: dict[str, Any], packets: pl.DataFrame, *, alone: bool
) -> Connection:
    number, start = flow["flow"], flow["start_ns"]
    opened = run.events.filter((pl.col("flow") == number) & (pl.col("kind") == "established"))
    label = flow["label"] or (
        f"{flow['cc']}, flow {number}" if run.flows.height > 1 else flow["cc"]
    )
    return Connection(
        label=str(label) if alone or flow["label"] else f"{run.scenario}: {label}",
        base_rtt=flow["base_rtt_ns"] / 1e9,
        established=((opened["t_ns"][0] if opened.height else start) - start) / 1e9,
        packets=packets.filter(pl.col("flow") == number).select(
            ((pl.col("t_ns") - start) / 1e9).alias("t"),
            pl.col("kind").cast(pl.Utf8),
            pl.col("seq_bytes").alias("seq"),
            (pl.col("seq_bytes") + pl.col("len_bytes")).alias("end"),
            pl.col("window_bytes").alias("window"),
        ),
    )


def first_rounds(found: Iterable[Connection], rounds: int) -> float:
    """Return the time at which every connection has had so many round trips of data."""
    return max((c.established + rounds * c.base_rtt for c in found), default=0.0)


def draw(found: Sequence[Connection], title: str, start: float, end: float) -> Figure:
    """Draw connections between two times."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        figure = Figure(figsize=(9, 5.5), layout="constrained", dpi=150)
        FigureCanvasAgg(figure)
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
        ax = figure.subplots()
        parts = [connection.within(start, end) for connection in found]
        data = [c.packets.filter(pl.col("kind").is_in(["send", "retransmit"])) for c in parts]
        lowest = min((int(d["seq"].min()) for d in data if d.height), default=0)  # type: ignore[arg-type]
        highest = max((int(d["end"].max()) for d in data if d.height), default=1)  # type: ignore[arg-type]
        scale = scale_of("seq_bytes", highest)
        marks: dict[str, Line2D] = {}
        for index, connection in enumerate(parts):
            marks |= _draw(ax, connection, flow_style(index), scale.size, len(parts) == 1)
        room = 0.04 * (highest - lowest)
        ax.set_ylim((lowest - room) / scale.size, (highest + room) / scale.size)
        ax.set_xlim(start, end)
        ax.set_xlabel("time since the start of the connection (s)")
        ax.set_ylabel(f"sequence number ({scale.unit})")
        names = [
            Line2D([], [], color=flow_style(i).colour, linewidth=2.4, label=c.label)
            for i, c in enumerate(parts)
        ]
        if not _window_in_view(parts, highest):
            marks["window"] = Line2D(
                [], [], color=NEUTRAL, linewidth=0.9, label="receive window (above the picture)"
            )
        ax.legend(handles=[*names, *marks.values()], loc="upper left")
    return figure


def save(figure: Figure, path: Path, format: str) -> None:  # noqa: A002
    """Write a diagram as ``png`` or ``svg``: the same bytes for the same packets."""
    metadata = {"Date": None} if format == "svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "paceline"}):
        figure.savefig(path, format=format, metadata=metadata)


def _draw(
    ax: Axes, connection: Connection, style: Style, unit: float, alone: bool
) -> dict[str, Line2D]:
    sends, acks = _thin(connection.of("send"), "bar"), _thin(connection.of("ack"), "step")
    marks = {
        "send": Line2D([], [], color="#444444", linewidth=2.4, label="sent (thick)"),
        "ack": Line2D([], [], color="#444444", linewidth=0.7, label="acknowledged (thin)"),
    }
    colour = style.colour
    edge = (acks["seq"] + acks["window"]) / unit
    ax.step(acks["t"], edge, where="post", color=NEUTRAL, linewidth=0.9, zorder=1)
    marks["window"] = Line2D([], [], color=NEUTRAL, linewidth=0.9, label="receive window")
    ax.step(acks["t"], acks["seq"] / unit, where="post", color=colour, linewidth=0.7, zorder=2)
    _bars(ax, sends, unit, colour, 2.4, 3)
    sacks = connection.of("sack")
    # Blocks are repeated in acknowledgment after acknowledgment: each is marked once.
    sacks = sacks.unique(["seq", "end"], keep="first", maintain_order=True)
    if sacks.height and alone:
        _bars(ax, sacks, unit, _SACK, 0.5, 2)
        marks["sack"] = Line2D([], [], color=_SACK, linewidth=1, label="selectively acknowledged")
    again = connection.of("retransmit")
    if again.height:
        _bars(ax, again, unit, _RETRANSMIT, 2.4, 4)
        ax.plot(again["t"], again["end"] / unit, "^", color=colour, mec=_RETRANSMIT, ms=4, zorder=5)
        marks["again"] = Line2D(
            [], [], color=_RETRANSMIT, marker="^", ms=4, linewidth=2.4, label="sent again"
        )
    drops = connection.of("drop")
    if drops.height:
        ax.plot(drops["t"], drops["end"] / unit, "x", color=_DROP, ms=4, mew=0.8, zorder=6)
        marks["drop"] = Line2D(
            [], [], color=_DROP, marker="x", ms=4, linestyle="none", label="dropped on the way"
        )
    return marks


def _bars(ax: Axes, rows: pl.DataFrame, unit: float, colour: str, width: float, z: int) -> None:
    lines = [
        ((t, seq / unit), (t, end / unit))
        for t, seq, end in rows.select("t", "seq", "end").iter_rows()
    ]
    ax.add_collection(LineCollection(lines, colors=colour, linewidths=width, zorder=z))


def _thin(rows: pl.DataFrame, shape: str) -> pl.DataFrame:
    """Return at most `_MOMENTS` rows: what was sent in a moment as one bar, or its last state."""
    if rows.height <= _MOMENTS:
        return rows
    first, last = float(rows["t"][0]), float(rows["t"][-1])
    moment = ((pl.col("t") - first) / (last - first) * (_MOMENTS - 1)).floor().alias("moment")
    groups = rows.group_by(moment, maintain_order=True)
    if shape == "step":
        return groups.last()
    return groups.agg(pl.col("t").first(), pl.col("seq").min(), pl.col("end").max())


def _window_in_view(parts: Sequence[Connection], highest: float) -> bool:
    acks = [c.of("ack") for c in parts]
    return any(
        float((a["seq"] + a["window"]).min()) <= highest  # type: ignore[arg-type]
        for a in acks
        if a.height
    )


def xplot(found: Sequence[Connection], title: str, start: float, end: float) -> str:
    """Return the diagram in the format of xplot and jPlot, with tcptrace's colours and marks.

    Nothing is thinned out: these programs zoom.
    """
    colours = ("white", "green", "yellow", "magenta", "pink", "orange", "blue")
    lines = ["double double", "title", title, "xlabel", "time (s)", "ylabel", "sequence (bytes)"]
    for index, connection in enumerate(found):
        part = connection.within(start, end)
        colour = colours[index % len(colours)]
        last: tuple[float, int, int] | None = None
        if (label := part.packets.head(1)).height:
            lines += [f"rtext {label['t'][0]:.9f} {label['end'][0]} {colour}", part.label]
        for t, kind, seq, to, window in part.packets.iter_rows():
            if kind == "send":
                lines.append(f"line {t:.9f} {seq} {t:.9f} {to} {colour}")
            elif kind == "retransmit":
                lines += [f"line {t:.9f} {seq} {t:.9f} {to} red", f"atext {t:.9f} {to} red", "R"]
            elif kind == "drop":
                lines.append(f"x {t:.9f} {to} red")
            elif kind == "sack":
                lines += [
                    f"line {t:.9f} {seq} {t:.9f} {to} purple",
                    f"rtext {t:.9f} {to} purple",
                    "S",
                ]
            elif kind == "ack":
                if last is not None:
                    before, ack, edge = last
                    for old, new, ink in ((ack, seq, "green"), (edge, seq + window, "yellow")):
                        lines.append(f"line {before:.9f} {old} {t:.9f} {old} {ink}")
                        lines.append(f"line {t:.9f} {old} {t:.9f} {new} {ink}")
                last = (t, seq, seq + window)
    return "\n".join([*lines, "go", ""])
