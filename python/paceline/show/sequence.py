"""The content of a time-sequence diagram of a flow, from the table ``packets``.

A view is cut into columns and rows no wider than what a figure can show. New data in a column is
drawn as one stroke, which covers the same ground as its packets; of retransmissions, losses and
SACK blocks, each cell that has some keeps one: nothing that happened vanishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.later import polars as pl
from paceline.runs import Run, packets_of

#: Columns and rows of a view; more than a figure has points.
COLUMNS = 1500
ROWS = 1000

#: As many marks of a kind are drawn as they are.
FEW = 3000


class SequenceError(ValueError):
    """There is nothing to draw; `hint` says what would help."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class View:
    """The time range that is shown."""

    from_ns: int
    to_ns: int


@dataclass(frozen=True)
class Trace:
    """A flow's packets at its sender: time, and the range of the stream."""

    label: str
    #: ``t_ns``, ``seq``, ``end`` of first transmissions, in order.
    sends: pl.DataFrame
    #: The same for retransmissions, dropped packets and SACK blocks.
    retransmits: pl.DataFrame
    drops: pl.DataFrame
    sacks: pl.DataFrame
    #: ``t_ns``, ``seq`` (acknowledged below) and ``end`` (allowed by the receive window).
    acks: pl.DataFrame
    #: Those that never arrive: lost by a link of the return path, or removed by its ACK filter.
    ack_drops: pl.DataFrame
    ack_filters: pl.DataFrame

    @property
    def start_ns(self) -> int:
        """When the first packet left."""
        return int(self.sends["t_ns"][0])

    @property
    def end_ns(self) -> int:
        """The time of the last entry."""
        parts = (self.sends, self.retransmits, self.acks)
        return max(int(part["t_ns"][-1]) for part in parts if part.height)

    def round_end(self, rounds: int) -> int:
        """Return when the `rounds`-th round trip of data is over; the end if there are fewer.

        The first round begins with the first packet. A round ends with the first ACK of anything
        sent after it began, which begins the next.
        """
        t = self.start_ns
        for _ in range(rounds):
            before = int(self.sends["t_ns"].search_sorted(t, "left"))
            sent = int(self.sends["end"][before - 1]) if before else 0
            ack = int(self.acks["seq"].search_sorted(sent, "right"))
            if ack >= self.acks.height:
                return self.end_ns
            t = int(self.acks["t_ns"][ack])
        return t


def traces(runs: Sequence[Run], flow: int | None = None) -> list[Trace]:
    """Return the flows of runs, all or the named one, in their order.

    Raises `SequenceError` where a run has no packets, or not that flow.
    """
    pairs = []
    for run in runs:
        if (packets := packets_of(run)) is None:
            hint = "`paceline run FILE --set run.record.packets=true` records them"
            raise SequenceError(f"{run.scenario} has no recorded packets", hint)
        flows = run.flows.sort("flow")
        if flow is not None:
            flows = flows.filter(pl.col("flow") == flow)
            if flows.is_empty():
                last = run.flows.height - 1
                raise SequenceError(
                    f"{run.scenario} has no flow {flow}; its flows are 0 to {last}",
                    "choose another with --flow",
                )
        for row in flows.iter_rows(named=True):
            trace = _trace(str(row["label"]), packets.filter(pl.col("flow") == row["flow"]))
            if trace is not None:
                pairs.append((run, trace))
    if not pairs:
        raise SequenceError("no flow sent anything", "choose another flow, or a longer run")
    return _named(runs, pairs)


def _trace(label: str, packets: pl.DataFrame) -> Trace | None:
    end = pl.col("seq_bytes") + pl.col("len_bytes")

    def kind(name: str, end: pl.Expr = end) -> pl.DataFrame:
        rows = packets.filter(pl.col("kind").cast(pl.String) == name)
        return rows.select("t_ns", pl.col("seq_bytes").alias("seq"), end.alias("end"))

    acks = kind("ack", pl.col("seq_bytes") + pl.col("window_bytes"))
    # A late ACK acknowledges nothing new.
    acks = acks.with_columns(pl.col("seq", "end").cum_max())
    sends = kind("send")
    if sends.is_empty():
        return None
    return Trace(
        label,
        sends,
        *(kind("retransmit"), kind("drop"), kind("sack")),
        *(acks, kind("ack-drop"), kind("ack-filter")),
    )


def _named(runs: Sequence[Run], pairs: list[tuple[Run, Trace]]) -> list[Trace]:
    """Give every trace a unique label."""
    labels = [trace.label for _, trace in pairs]
    if len(set(labels)) < len(labels) and len(runs) > 1:
        alone = len(pairs) == len(runs)
        labels = [r.scenario if alone else f"{r.scenario}, {t.label}" for r, t in pairs]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({n})" for n, label in enumerate(labels, 1)]
    return [replace(t, label=label) for label, (_, t) in zip(labels, pairs, strict=True)]


def view_of(
    traces: Sequence[Trace],
    from_ns: int | None = None,
    to_ns: int | None = None,
    rounds: int | None = None,
) -> View:
    """Return the time to show: all of it, a part, or the first rounds of the slowest."""
    start = min(trace.start_ns for trace in traces) if from_ns is None else from_ns
    if to_ns is not None:
        end = to_ns
    elif rounds is not None:
        end = max(trace.round_end(rounds) for trace in traces)
    else:
        end = max(trace.end_ns for trace in traces)
    if end <= start:
        raise SequenceError(
            f"nothing was sent between {start / 1e9:g} s and {end / 1e9:g} s",
            "choose a later end with --to, or an earlier start with --from",
        )
    return View(start, end)


def inside(frame: pl.DataFrame, view: View) -> pl.DataFrame:
    """Return the rows in a view."""
    return frame.filter(pl.col("t_ns").is_between(view.from_ns, view.to_ns))


def _column(view: View) -> pl.Expr:
    width = max(-(-(view.to_ns - view.from_ns) // COLUMNS), 1)
    return ((pl.col("t_ns") - view.from_ns) // width).alias("column")


def strokes(frame: pl.DataFrame, view: View) -> pl.DataFrame:
    """Return new data in a view as strokes from (``t_ns``, ``seq``) to (``last_ns``, ``end``)."""
    rows = inside(frame, view)
    if rows.height <= FEW:
        return rows.select("t_ns", "seq", last_ns="t_ns", end="end")
    return (
        rows.group_by(_column(view), maintain_order=True)
        .agg(
            pl.col("t_ns").first(),
            pl.col("seq").min(),
            last_ns=pl.col("t_ns").last(),
            end=pl.col("end").max(),
        )
        .select("t_ns", "seq", "last_ns", "end")
    )


def marks(frame: pl.DataFrame, view: View) -> pl.DataFrame:
    """Return the marks in a view, one per cell if there are many."""
    rows = inside(frame, view)
    if rows.height <= FEW:
        return rows
    low, high = rows["seq"].min(), rows["end"].max()
    assert isinstance(low, int) and isinstance(high, int)  # noqa: PT018 - for the types
    height = max(-(-(high - low) // ROWS), 1)
    cell = ((pl.col("seq") - low) // height).alias("row")
    # Of blocks that begin in one cell the longest covers the others.
    longest = pl.col("end").max()
    kept = rows.group_by(_column(view), cell, maintain_order=True)
    return kept.agg(pl.col("t_ns").first(), pl.col("seq").first(), longest).select(rows.columns)


def steps(frame: pl.DataFrame, column: str, view: View) -> tuple[list[int], list[int]]:
    """Return times and values of a step line in a view."""
    before = frame.filter(pl.col("t_ns") < view.from_ns).tail(1)
    rows = inside(frame, view)
    if rows.height > FEW:
        ends = rows.group_by(_column(view), maintain_order=True)
        first = ends.agg(pl.col("t_ns", column).first())
        last = ends.agg(pl.col("t_ns", column).last())
        rows = pl.concat([first, last]).sort("t_ns", column, maintain_order=True)
    times = [int(t) for t in rows["t_ns"]]
    values = [int(v) for v in rows[column]]
    if before.height:
        times, values = [view.from_ns, *times], [int(before[column][0]), *values]
    if times:
        # The last value holds until the view ends.
        times, values = [*times, view.to_ns], [*values, values[-1]]
    return times, values
