"""pcapng: the packets of a run with headers of IPv4 and TCP, as captured at the sender.

Payloads are not there: a packet's original length is on record, its captured part ends with the
headers, and its checksum is that of a payload of zeros. Times count from the run's start. There are
timestamps if the record has those of ACKs; what is left of a header is filled up with NOPs. A
packet that was dropped on its way has a comment that says so.
"""

from __future__ import annotations

import re
import struct
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from paceline._paceline import __version__
from paceline.export.timestamps import Clock, Times, nanoseconds
from paceline.runs import Run

#: Addresses for documentation (RFC 5737). Each flow has a port of its own.
_SENDER, _RECEIVER = bytes([192, 0, 2, 1]), bytes([198, 51, 100, 1])
_PORT, _PORTS, _SERVICE = 10_000, 50_000, 5_001

_SYN, _ACK = 0x02, 0x10
_IP, _TCP, _OPTIONS = 20, 20, 40
#: The window's shift (RFC 7323 section 2.3: 14 at the most).
_SHIFT = 14
_WORD = 2**32

_RAW = 101  # LINKTYPE_RAW: a packet begins with its IP header
_COMMENT, _IF_NAME, _SHB_APPLICATION, _TSRESOL = 1, 2, 4, 9


@dataclass
class _Packet:
    """A packet in either direction; `seq` and `ack` are offsets in the stream."""

    t: int
    flow: int
    sent: bool
    flags: int = _ACK
    seq: int = 0
    ack: int = 0
    length: int = 0
    window: int = 0
    sacks: list[tuple[int, int]] = field(default_factory=list)
    times: Times | None = None
    comment: str = ""


def write(run: Run, path: Path, flow: int | None = None) -> list[Path]:
    """Write the packets of a run. Raises `KeyError` if they were not recorded."""
    packets, events = run.packets, run.events
    if flow is not None:
        packets = packets.filter(pl.col("flow") == flow)
        events = events.filter(pl.col("flow") == flow)
    sizes, clocks = headers(run), _clocks(run, packets)
    mss = {int(row["flow"]): int(row["mss_bytes"]) for row in run.flows.iter_rows(named=True)}
    opening = iter(_handshakes(events))
    following = next(opening, None)
    with path.open("wb") as file:
        _begin(file, run)
        for packet in _packets(packets):
            while following is not None and following.t <= packet.t:
                space = sizes[following.flow] - _IP - _TCP
                _enhanced(file, following, space, mss[following.flow], clocks)
                following = next(opening, None)
            _enhanced(file, packet, sizes[packet.flow] - _IP - _TCP, 0, clocks)
    return [path]


def headers(run: Run) -> dict[int, int]:
    """Return the headers of each flow's packets, in bytes."""
    return dict(enumerate(int(re.sub(r"\D", "", group["header"])) for group in _groups(run)))


def _groups(run: Run) -> Iterator[dict[str, Any]]:
    """Return what the scenario says of each flow."""
    for group in tomllib.loads(run.scenario_toml)["flows"]:
        yield from repeat(group, group["count"])


def _clocks(run: Run, packets: pl.DataFrame) -> dict[int, Clock]:
    """Return the timestamps of each flow; none if they are not on record."""
    if "departed_ns" not in packets.columns:
        return {}
    back = packets.group_by("flow").agg((pl.col("t_ns") - pl.col("departed_ns")).min())
    least = {flow: time or 0 for flow, time in back.iter_rows()}
    return {
        flow: Clock(group.get("ets", False), nanoseconds(group["ack"]["delay"]), least.get(flow, 0))
        for flow, group in enumerate(_groups(run))
    }


def ack_bytes(header: int, blocks: int) -> int:
    """Return the length of an ACK with so many SACK blocks (RFC 2018 section 3)."""
    sack = 4 + 8 * blocks if blocks else 0
    return min(header + sack, _IP + _TCP + _OPTIONS)


def _handshakes(events: pl.DataFrame) -> list[_Packet]:
    """Return SYN, its answer and the ACK of that, from when flows opened."""
    packets = []
    began: dict[int, int] = {}
    for row in events.iter_rows(named=True):
        if row["kind"] == "start":
            began[row["flow"]] = row["t_ns"]
            packets.append(_Packet(row["t_ns"], row["flow"], sent=True, flags=_SYN, seq=-1))
        elif row["kind"] == "established":
            answer = _Packet(row["t_ns"], row["flow"], sent=False, flags=_SYN | _ACK, seq=-1)
            answer.window = 0xFFFF
            answer.times = Times(row["t_ns"], began.get(row["flow"], row["t_ns"]))
            packets += [answer, _Packet(row["t_ns"], row["flow"], sent=True)]
    return packets


def _packets(rows: pl.DataFrame) -> Iterator[_Packet]:
    """Put rows together: SACK blocks belong to the ACK before them."""
    open_: _Packet | None = None
    rows = rows.with_row_index()
    dropped = _dropped(rows)
    columns = ["index", "t_ns", "flow", "kind", "seq_bytes", "len_bytes", "window_bytes"]
    columns += [name for name in ("departed_ns", "echoed_ns", "held_ns") if name in rows.columns]
    for index, t, flow, kind, seq, length, window, *told in rows.select(columns).iter_rows():
        if open_ is not None and kind == "sack":
            open_.sacks.append((seq, seq + length))
            continue
        if kind not in ("send", "retransmit", "ack"):
            continue
        if open_ is not None:
            yield open_
        if kind == "ack":
            open_ = _Packet(t, flow, sent=False, ack=seq, window=window)
            open_.times = Times(*told) if told else None
        else:
            open_ = _Packet(t, flow, sent=True, seq=seq, length=length)
            said = ["retransmission"] if kind == "retransmit" else []
            open_.comment = ", ".join(said + ["dropped on the way"] * (index in dropped))
    if open_ is not None:
        yield open_


def _dropped(rows: pl.DataFrame) -> set[int]:
    """Return the rows of the transmissions that were dropped: a queue may do so long after."""
    kind = pl.col("kind").cast(pl.String)
    key = ("flow", "seq_bytes")
    sent = rows.filter(kind.is_in(["send", "retransmit"])).select("index", *key, sent="index")
    drops = rows.filter(kind == "drop").select("index", *key)
    return set(drops.join_asof(sent, on="index", by=key, check_sortedness=False)["sent"])


def _begin(file: BinaryIO, run: Run) -> None:
    about = f"{run.scenario}, seed {run.seed}; times from the start of the run".encode()
    application = f"paceline {__version__}".encode()
    body = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    _block(file, 0x0A0D0D0A, body + _options((_COMMENT, about), (_SHB_APPLICATION, application)))
    body = struct.pack("<HHI", _RAW, 0, 0)
    _block(file, 1, body + _options((_IF_NAME, b"sender"), (_TSRESOL, b"\x09")))


def _enhanced(
    file: BinaryIO, packet: _Packet, space: int, mss: int, clocks: dict[int, Clock]
) -> None:
    """Write an enhanced packet block."""
    times = _times(packet, clocks.get(packet.flow))
    data = _ip(packet, _segment(packet, space, mss, times))
    body = struct.pack(
        "<IIIII", 0, packet.t >> 32, packet.t % _WORD, len(data), len(data) + packet.length
    )
    body += _padded(data)
    if packet.comment:
        body += _options((_COMMENT, packet.comment.encode()))
    _block(file, 6, body)


def _times(packet: _Packet, clock: Clock | None) -> bytes:
    """Return the option with a packet's timestamps."""
    if clock is None:
        return b""
    if packet.sent:
        return clock.syn(packet.t) if packet.flags & _SYN else clock.data(packet.t)
    if packet.times is None:
        return b""
    if packet.flags & _SYN:
        return clock.syn_ack(packet.t, packet.times.echoed)
    return clock.ack(packet.t, packet.times)


def _segment(packet: _Packet, space: int, mss: int, times: bytes) -> bytes:
    """Return the TCP header; the checksum is filled in with the addresses."""
    if packet.flags & _SYN:
        # MSS, SACK permitted, window scale
        options = struct.pack(">BBHBBBBBB", 2, 4, mss, 4, 2, 1, 3, 3, _SHIFT)
        options += b"\x01" * (-len(options) % 4) + times
    elif packet.sent:
        room = min(max(space, 0), _OPTIONS) // 4 * 4
        options = times if len(times) <= room else b""
        options += b"\x01" * (room - len(options))
    else:
        blocks = packet.sacks[:4]
        options = _sack(blocks)
        # Four blocks leave no room; the simulation has them none the less.
        if len(times) + len(options) <= _OPTIONS:
            options = times + options
    ports = (_PORT + packet.flow % _PORTS, _SERVICE)
    source, target = ports if packet.sent else ports[::-1]
    acknowledges = packet.flags & _ACK != 0
    shift = 0 if packet.flags & _SYN else _SHIFT
    return (
        struct.pack(
            ">HHIIBBHHH",
            source,
            target,
            _number(packet.seq),
            _number(packet.ack) if acknowledges else 0,
            (_TCP + len(options)) // 4 << 4,
            packet.flags,
            0xFFFF if packet.sent else min(packet.window >> shift, 0xFFFF),
            0,
            0,
        )
        + options
    )


def _sack(blocks: list[tuple[int, int]]) -> bytes:
    if not blocks:
        return b""
    option = struct.pack(">BBBB", 1, 1, 5, 2 + 8 * len(blocks))
    return option + b"".join(struct.pack(">II", _number(a), _number(b)) for a, b in blocks)


def _number(offset: int) -> int:
    """Return the sequence number of a byte: the SYN has 0, the first byte 1."""
    return (offset + 1) % _WORD


def _ip(packet: _Packet, segment: bytes) -> bytes:
    source, target = (_SENDER, _RECEIVER) if packet.sent else (_RECEIVER, _SENDER)
    length = len(segment) + packet.length
    pseudo = source + target + struct.pack(">BBH", 0, 6, length)
    segment = segment[:16] + struct.pack(">H", _checksum(pseudo + segment)) + segment[18:]
    header = struct.pack(">BBHHHBBH", 0x45, 0, _IP + length, 0, 0x4000, 64, 6, 0) + source + target
    return header[:10] + struct.pack(">H", _checksum(header)) + header[12:] + segment


def _checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071; `data` has an even length."""
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _options(*options: tuple[int, bytes]) -> bytes:
    written = (struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options)
    return b"".join(written) + bytes(4)


def _block(file: BinaryIO, kind: int, body: bytes) -> None:
    length = len(body) + 12
    file.write(struct.pack("<II", kind, length) + body + struct.pack("<I", length))
