"""Captures of simulated runs, as a machine at either end would have taken them.

`paceline export` writes what passes the sender, packet by packet. Here the same record becomes a
capture at the sender or at the receiver, with segments merged as TSO and GRO merge them, with or
without timestamps, and with or without its handshake.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl

import paceline

#: Sequence numbers before the first byte, of the sender and of the receiver: some wrap around.
_FIRST = (0xFFFF_0000, 77)
_SHIFT = 14
#: Flags of the last segment: ACK, PSH and FIN.
_FIN = 0x19
_ADDRESSES = (bytes([192, 0, 2, 1]), bytes([198, 51, 100, 1]))
#: Bytes that one merged segment may have.
_MERGED = 65_000
#: Segments that arrive within this time are merged by the receiver's card.
_GRO_NS = 250_000


@dataclass
class _Segment:
    t: int
    flow: int
    sent: bool
    seq: int = 0
    ack: int = 0
    length: int = 0
    window: int = 1 << 20
    flags: int = 0x10
    #: When it left its end, which is what its timestamp says.
    left: int = 0
    echo: int = 0
    sacks: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Capture:
    """How a capture is taken."""

    end: Literal["sender", "receiver"] = "sender"
    merged: bool = False
    timestamps: bool = True
    opened: bool = True

    def write(self, run: paceline.Run, path: Path, flows: Sequence[int] | None = None) -> None:
        """Write the packets of a run, which has recorded them, as a pcap with nanoseconds."""
        segments = sorted(self._segments(run), key=lambda segment: segment.t)
        if flows is not None:
            segments = [one for one in segments if one.flow in flows]
        mss = [int(n) for n in run.flows["mss_bytes"]]
        with path.open("wb") as file:
            # Raw IP packets.
            file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 256, 101))
            for one in self._joined(segments) if self.merged else segments:
                if not self.opened and one.t < 300_000_000:
                    continue
                octets = self._octets(one, mss[one.flow])
                seconds, nanos = divmod(one.t, 1_000_000_000)
                sizes = len(octets), len(octets) + one.length
                file.write(struct.pack("<IIII", seconds, nanos, *sizes) + octets)

    def _segments(self, run: paceline.Run) -> Iterator[_Segment]:
        here = self.end == "sender"
        yield from self._handshakes(run)
        latest: dict[int, int] = {}
        left: dict[tuple[int, int], tuple[int, int]] = {}
        # The last segment of a transfer that ended has a FIN, which has a sequence number.
        done = run.flows.filter(pl.col("finish_ns").is_not_null())
        ends = dict(done.select("flow", "goodput_bytes").iter_rows())
        last: _Segment | None = None
        columns = ["t_ns", "flow", "kind", "seq_bytes", "len_bytes", "window_bytes"]
        columns += ["departed_ns", "echoed_ns"]
        rows = run.packets.with_columns(pl.col("kind").cast(pl.String)).select(columns)
        for t, flow, kind, seq, length, window, departed, echoed in rows.iter_rows():
            if kind == "sack" and last is not None:
                last.sacks.append((seq, seq + length))
                continue
            if last is not None:
                yield last
                last = None
            if kind in ("send", "retransmit"):
                left[flow, seq] = t, latest.get(flow, 0)
                if here:
                    yield _Segment(
                        *(t, flow, True, seq, 0, length),
                        flags=_FIN if seq + length == ends.get(flow) else 0x10,
                        left=t,
                        echo=latest.get(flow, 0),
                    )
            elif kind == "deliver" and not here:
                at, echo = left[flow, seq]
                flags = _FIN if seq + length == ends.get(flow) else 0x10
                yield _Segment(t, flow, True, seq, 0, length, flags=flags, left=at, echo=echo)
            elif kind == "ack":
                latest[flow] = departed
                seq += seq == ends.get(flow)
                last = _Segment(t if here else departed, flow, False, 0, seq, 0, window)
                last.left, last.echo = departed, echoed
        if last is not None:
            yield last

    def _handshakes(self, run: paceline.Run) -> Iterator[_Segment]:
        # A fixed delay back, that of the fastest ACK; the rest of the round trip is the way there.
        acks = run.packets.filter(pl.col("kind").cast(pl.String) == "ack")
        ways = acks.group_by("flow").agg((pl.col("t_ns") - pl.col("departed_ns")).min())
        back = {flow: time or 0 for flow, time in ways.iter_rows()}
        began: dict[int, int] = {}
        for t, flow, kind in run.events.select("t_ns", "flow", "kind").iter_rows():
            if kind == "start":
                began[flow] = t
            elif kind == "established":
                opened, accepted = began[flow], t - back.get(flow, 0)
                there = accepted - opened
                shift = (0, 0) if self.end == "sender" else (there, -back.get(flow, 0))
                yield _Segment(opened + shift[0], flow, True, -1, 0, 0, 65535, 0x02, opened)
                late = t + shift[1]
                yield _Segment(late, flow, False, -1, 0, 0, 65535, 0x12, accepted, opened)
                late = t + shift[0]
                yield _Segment(late, flow, True, 0, 0, 0, 65535, 0x10, t, accepted)

    def _joined(self, segments: list[_Segment]) -> Iterator[_Segment]:
        """Merge successive segments of one burst."""
        within = 0 if self.end == "sender" else _GRO_NS
        open_: dict[int, _Segment] = {}
        closed: list[_Segment] = []
        for one in segments:
            before = open_.pop(one.flow, None)
            if one.sent and one.length and before is not None:
                fits = before.length + one.length <= _MERGED
                follows = before.seq + before.length == one.seq and before.flags == one.flags
                if follows and fits and one.t - before.t <= within:
                    # A card hands over what it has merged when the last has come.
                    before.t, before.length = one.t, before.length + one.length
                    open_[one.flow] = before
                    continue
            if before is not None:
                closed.append(before)
            if one.sent and one.length:
                open_[one.flow] = one
            else:
                closed.append(one)
        closed += open_.values()
        yield from sorted(closed, key=lambda segment: segment.t)

    def _octets(self, one: _Segment, mss: int) -> bytes:
        own, other = _FIRST if one.sent else _FIRST[::-1]
        options = b""
        if one.flags & 0x02:
            offered = mss + (12 if self.timestamps else 0)
            options += bytes([2, 4, *offered.to_bytes(2, "big"), 4, 2, 1, 3, 3, _SHIFT, 1, 1])
        if self.timestamps:
            stamps = struct.pack(">II", one.left // 1_000_000 + 1, _ticks(one.echo))
            options += bytes([1, 1, 8, 10]) + stamps
        room = (40 - len(options) - 4) // 8
        if blocks := one.sacks[:room]:
            edges = [(_FIRST[0] + 1 + edge) % 2**32 for block in blocks for edge in block]
            options += bytes([1, 1, 5, 2 + 8 * len(blocks)]) + struct.pack(
                f">{len(edges)}I", *edges
            )
        ports = [10_000 + one.flow, 5001]
        seq = (own + 1 + one.seq) % 2**32 if one.sent or one.flags & 2 else own + 1
        ack = (other + 1 + (one.ack if not one.sent else 0)) % 2**32
        if one.flags == 0x02:
            ack = 0
        window = 65535 if one.sent or one.flags & 2 else min(one.window >> _SHIFT, 65535)
        size = 20 + len(options)
        if not one.sent:
            ports.reverse()
        tcp = struct.pack(">HHIIBBHHH", *ports, seq, ack, (size // 4) << 4, one.flags, window, 0, 0)
        total = 20 + size + one.length
        addresses = _ADDRESSES if one.sent else _ADDRESSES[::-1]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, total, 0, 0x4000, 64, 6, 0) + b"".join(addresses)
        return ip + tcp + options


def _ticks(at: int) -> int:
    return 0 if at == 0 else at // 1_000_000 + 1
