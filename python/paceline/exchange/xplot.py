"""xplot: the plots of tcptrace and similar tools, for one run or several overlaid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, pairwise
from pathlib import Path

from paceline.exchange.declared import Export
from paceline.later import polars as pl
from paceline.runs import Run
from paceline.show.sequence import Trace, traces

#: For one flow, tcptrace's colours: data white, ACKs green, the window yellow, SACK purple.
_ALONE = {"send": "white", "ack": "green", "window": "yellow", "sack": "purple", "again": "red"}

#: For several flows, the colours of xplot.
_COLOURS = ("white", "green", "red", "blue", "yellow", "purple", "orange", "magenta", "pink")

#: xplot's `unsigned` has 32 bits.
_UNSIGNED = 2**32


def write(runs: Sequence[Run], path: Path, flow: int | None, _: str) -> list[Path]:
    """Write the time-sequence diagram of runs; every packet, every ACK, every SACK block."""
    shown = traces(runs, flow)
    with path.open("w", encoding="ascii", errors="replace", newline="\n") as file:
        for line in _lines(runs, shown):
            file.write(line + "\n")
    return [path]


def _lines(runs: Sequence[Run], shown: Sequence[Trace]) -> Iterator[str]:
    greatest = max(int(trace.sends["end"][-1]) for trace in shown)
    yield "timeval unsigned" if greatest < _UNSIGNED else "timeval double"
    yield "title"
    yield runs[0].scenario if len(runs) == 1 else ", ".join(trace.label for trace in shown)
    yield from ("xlabel", "time", "ylabel", "sequence number")
    for trace, colour in zip(shown, cycle(_COLOURS), strict=False):
        many = len(shown) > 1
        yield from _trace(trace, greatest, dict.fromkeys(_ALONE, colour) if many else _ALONE)
        if many:
            yield colour
            yield f"rtext {_time(trace.end_ns)} {trace.sends['end'][-1]}"
            yield trace.label
    yield "go"


def _trace(trace: Trace, greatest: int, colours: dict[str, str]) -> Iterator[str]:
    yield colours["window"]
    # xplot shows everything: a window that is never near would leave the data no room.
    yield from _steps(trace.acks.filter(pl.col("end") <= 2 * greatest), "end")
    yield colours["ack"]
    yield from _steps(trace.acks, "seq")
    for sign, lost in (("x", trace.ack_drops), ("box", trace.ack_filters)):
        yield from (f"{sign} {_time(t)} {seq}" for t, seq, _ in lost.iter_rows())
    yield colours["send"]
    for t, seq, end in trace.sends.iter_rows():
        yield from _range(t, seq, end)
        yield f"darrow {_time(t)} {seq}"
        yield f"uarrow {_time(t)} {end}"
    yield colours["sack"]
    for t, seq, end in trace.sacks.iter_rows():
        yield from _range(t, seq, end)
        yield from (f"htick {_time(t)} {edge}" for edge in (seq, end))
    yield colours["again"]
    for t, seq, end in trace.retransmits.iter_rows():
        yield from _range(t, seq, end)
        yield f"atext {_time(t)} {end}"
        yield "R"
    for t, seq, _ in trace.drops.iter_rows():
        yield f"diamond {_time(t)} {seq}"


def _time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds // 1000, 10**6)
    return f"{seconds}.{rest:06d}"


def _range(t: int, seq: int, end: int) -> Iterator[str]:
    yield f"line {_time(t)} {seq} {_time(t)} {end}"


def _steps(acks: pl.DataFrame, column: str) -> Iterator[str]:
    for (t, value), (following, new) in pairwise(acks.select("t_ns", column).iter_rows()):
        yield f"line {_time(t)} {value} {_time(following)} {value}"
        if new != value:
            yield f"line {_time(following)} {value} {_time(following)} {new}"


EXPORT = Export(
    "xplot", "a time-sequence diagram for xplot", "run.xpl", write, packets=True, several=True
)
