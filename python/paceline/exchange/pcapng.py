"""pcapng: the packets of a run with headers of IPv4 and TCP, as captured at the sender.

Payloads are not there. Times count from the run's start. There are timestamps if the record has
those of ACKs; a record does not say when the answer to a SYN left: it is taken to be under way as
long as the fastest ACK. A packet that was dropped on its way has a comment that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

from paceline import _paceline
from paceline.exchange.declared import Export, Record
from paceline.later import polars as pl
from paceline.quantities import size_bytes
from paceline.reading import toml
from paceline.runs import Run


@dataclass
class _Packet:
    """A packet in either direction; `seq` and `ack` are offsets in the stream."""

    t: int
    flow: int
    sent: bool
    syn: bool = False
    fin: bool = False
    seq: int = 0
    ack: int = 0
    length: int = 0
    window: int = 0
    sacks: list[tuple[int, int]] = field(default_factory=list)
    #: Departure time, echoed departure time, and the delay of the ACK of the echoed segment.
    times: tuple[int, int, int | None] | None = None
    comment: str = ""


def write(runs: Sequence[Run], path: Path, flow: int | None, _: str) -> list[Path]:
    """Write the packets of a run. Raises `KeyError` if they were not recorded."""
    (run,) = runs
    packets, events = run.packets, run.events
    if flow is not None:
        packets = packets.filter(pl.col("flow") == flow)
        events = events.filter(pl.col("flow") == flow)
    timed = not packets["departed_ns"].is_null().all()
    mss = {int(row["flow"]): int(row["mss_bytes"]) for row in run.flows.iter_rows(named=True)}
    largest = dict(packets.group_by("flow").agg(pl.col("window_bytes").max()).iter_rows())
    clocks = ((group.get("ets", False), group["ack"]["delay"]) for group in _groups(run))
    flows = [
        (header, mss[n], largest.get(n) or 0, clock if timed else None)
        for (n, header), clock in zip(headers(run).items(), clocks, strict=True)
    ]
    about = f"{run.scenario}, seed {run.seed}; times from the start of the run"
    opening = _handshakes(events, _least_ways_back(packets) if timed else {})
    path.write_bytes(
        _paceline.pcapng(about, flows, _merged(opening, _packets(packets, _ends(run, packets))))
    )
    return [path]


def headers(run: Run) -> dict[int, int]:
    """Return the headers of each flow's packets, in bytes."""
    return dict(enumerate(size_bytes(group["header"]) for group in _groups(run)))


def _groups(run: Run) -> Iterator[dict[str, Any]]:
    """Return the scenario's settings of each flow, or what the flows of programs usually have."""
    try:
        groups = toml(run.scenario_toml)["flows"]
        counted = [({**g, "header": str(g["header"])}, int(g["count"])) for g in groups]
    except (KeyError, TypeError) as error:
        raise ValueError("its scenario has no flows") from error
    # Exactly as many as there are, whatever its count.
    every = chain.from_iterable(repeat(group, count) for group, count in counted)
    yield from islice(chain(every, repeat(_PROGRAM)), run.flows.height)


#: A program behind a path has no settings: headers with timestamps.
_PROGRAM = {"header": "52 B", "ack": {"delay": "0 s"}}


def ack_bytes(header: int, blocks: int) -> int:
    """Return the length of an ACK with this many SACK blocks (RFC 2018 section 3)."""
    return min(header + (4 + 8 * blocks if blocks else 0), 80)


def _least_ways_back(packets: pl.DataFrame) -> dict[int, int]:
    """Return the travel time of each flow's fastest ACK."""
    back = packets.group_by("flow").agg((pl.col("t_ns") - pl.col("departed_ns")).min())
    return {flow: time or 0 for flow, time in back.iter_rows()}


def _handshakes(events: pl.DataFrame, back: dict[int, int]) -> Iterator[_Packet]:
    """Return SYN, SYN-ACK and ACK, from the time when a flow opened."""
    began: dict[int, int] = {}
    for t, flow, kind in events.select("t_ns", "flow", "kind").iter_rows():
        if kind == "start":
            began[flow] = t
            yield _Packet(t, flow, sent=True, syn=True)
        elif kind == "established":
            opened = began.get(flow, t)
            times = (max(t - back.get(flow, 0), opened), opened, 0)
            yield _Packet(t, flow, sent=False, syn=True, times=times)
            yield _Packet(t, flow, sent=True)


def _merged(opening: Iterator[_Packet], packets: Iterator[_Packet]) -> Iterator[_Packet]:
    """Insert handshakes before the packets of their time."""
    following = next(opening, None)
    for packet in packets:
        while following is not None and following.t <= packet.t:
            yield following
            following = next(opening, None)
        yield packet


def _ends(run: Run, packets: pl.DataFrame) -> dict[int, int]:
    """Return where the data of each flow ends that finished: its last segment has the FIN."""
    done = run.flows.filter(pl.col("finish_ns").is_not_null())["flow"].to_list()
    is_first = pl.col("kind").cast(pl.String) == "send"
    sent = packets.filter(is_first, pl.col("flow").is_in(done))
    each = sent.group_by("flow").agg((pl.col("seq_bytes") + pl.col("len_bytes")).max())
    return dict(each.iter_rows())


def _packets(rows: pl.DataFrame, ends: dict[int, int]) -> Iterator[_Packet]:
    """Combine rows: SACK blocks belong to the ACK before them."""
    open_: _Packet | None = None
    rows = rows.with_row_index()
    dropped = _dropped(rows)
    columns = ["index", "t_ns", "flow", "kind", "seq_bytes", "len_bytes", "window_bytes"]
    columns += ["departed_ns", "echoed_ns", "held_ns"]
    for index, t, flow, kind, seq, length, window, *times in rows.select(columns).iter_rows():
        if open_ is not None and kind == "sack":
            open_.sacks.append((seq, seq + length))
            continue
        if kind not in ("send", "retransmit", "ack"):
            continue
        if open_ is not None:
            yield open_
        if kind == "ack":
            # A FIN has a sequence number of its own.
            open_ = _Packet(t, flow, sent=False, ack=seq + (seq == ends.get(flow)), window=window)
            open_.times = None if times[0] is None else (times[0], times[1], times[2])
        else:
            ending = seq + length == ends.get(flow)
            open_ = _Packet(t, flow, sent=True, fin=ending, seq=seq, length=length)
            notes = ["retransmission"] if kind == "retransmit" else []
            open_.comment = ", ".join(notes + ["dropped on the path"] * (index in dropped))
    if open_ is not None:
        yield open_


def _dropped(rows: pl.DataFrame) -> set[int]:
    """Return the rows of dropped transmissions: a queue may drop long after the transmission."""
    kind = pl.col("kind").cast(pl.String)
    key = ("flow", "seq_bytes")
    sent = rows.filter(kind.is_in(["send", "retransmit"])).select("index", *key, sent="index")
    drops = rows.filter(kind == "drop").select("index", *key)
    return set(drops.join_asof(sent, on="index", by=key, check_sortedness=False)["sent"])


EXPORT = Export(
    "pcapng", "a packet capture at the sender, for Wireshark", "run.pcapng", write, packets=True
)

RECORD = Record("pcap", "a capture of TCP, pcap or pcapng: a flow per direction of a connection")
