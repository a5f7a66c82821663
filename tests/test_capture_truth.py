"""Captures of a transfer that is known: whatever a capture does to it, the figures are the same.

The transfer is drawn: its size, RTT, losses, reordering, offload. It is captured at either end,
with timestamps or not, with identifications or not; packets are captured twice, merged, written in
the wrong order; the capture begins late, ends early, or misses a part.
"""

from __future__ import annotations

import random
import re
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import paceline

MSS = 1460
#: The time in which an end answers, in seconds.
DELAY = 20e-6
SYN, ACK, FIN = 2, 16, 1
START = 1_700_000_000


@dataclass(frozen=True)
class Packet:
    """A packet at a capture point; times are in seconds, positions count from the first byte."""

    at: float
    back: bool = False
    flags: int = ACK
    start: int = 0
    length: int = 0
    ack: int = 0
    blocks: tuple[tuple[int, int], ...] = ()
    stamp: tuple[int, int] | None = None
    id: int = 0


@dataclass
class Transfer:
    """A transfer of segments of one size, of which some are lost once."""

    rng: random.Random
    stamps: bool
    sack: bool
    burst: int
    late: bool
    rtt: float = 0.0
    #: The time between two bursts.
    spacing: float = 0.0
    size: int = 0
    lost: set[int] = field(default_factory=set)
    #: What passes the sender and the receiver.
    ends: dict[str, list[Packet]] = field(default_factory=dict)

    @property
    def payload(self) -> int:
        return MSS - 12 * self.stamps

    def run(self) -> None:
        """Send segments at a steady rate, each loss again after 1.5 RTTs."""
        rng, payload = self.rng, self.payload
        there, back = rng.uniform(0.004, 0.05), rng.uniform(0.004, 0.05)
        self.rtt = there + back + DELAY
        count = rng.randrange(300, 900)
        self.size = count * payload
        gap = self.rtt / rng.randrange(10, 40)
        self.spacing = gap * self.burst
        # The last ones arrive, so that a gap shows each loss at the receiver too.
        self.lost = {n for n in range(5, count - 60) if rng.random() < 0.01}
        clock = rng.randrange(1, 2**32)

        def value(at: float) -> int:
            return (clock + int(at * 1000)) % 2**32

        begin = self.rtt + 3 * DELAY
        sends = [(begin + n // self.burst * self.spacing, n, False) for n in range(count)]
        sends += [(at + 1.5 * self.rtt, n, True) for at, n, _ in sends if n in self.lost]
        sends.sort()
        identity = rng.randrange(1, 2**16)
        forward, arrivals = [], []
        for order, (at, n, again) in enumerate(sends):
            packet = Packet(at, start=n * payload, length=payload, id=(identity + order) % 2**16)
            forward.append(packet)
            if n not in self.lost or again:
                delay = there
                if self.late and not again and rng.random() < 0.02:
                    delay += self.rtt / 8
                arrivals.append((at + delay, order, packet))
        arrivals.sort(key=lambda one: one[:2])
        got: set[int] = set()
        low, latest = 0, 0
        acks: list[Packet] = []
        for at, _, packet in arrivals:
            got.add(packet.start // payload)
            while low in got:
                low += 1
            latest = max(latest, value(packet.at))
            blocks = self._blocks({n for n in got if n >= low}, packet.start // payload)
            at += DELAY
            stamp = (value(at), latest) if self.stamps else None
            ack = Packet(
                at, back=True, ack=low * payload, blocks=blocks, stamp=stamp, id=7000 + len(acks)
            )
            acks.append(ack)
        # What each side echoes is the latest timestamp that it has received.
        echo = 0
        returned = sorted(acks, key=lambda one: one.at)
        stamped, due = [], iter(returned)
        coming = next(due, None)
        for packet in forward:
            while coming and coming.at + back <= packet.at:
                echo, coming = (coming.stamp or (0, 0))[0], next(due, None)
            stamp = (value(packet.at), echo) if self.stamps else None
            stamped.append(replace(packet, stamp=stamp))
        reach = {packet.id: (at, order) for at, order, packet in arrivals}
        opening = [
            Packet(0.0, flags=SYN, start=-1, stamp=(value(0), 0)),
            Packet(there + DELAY, True, SYN | ACK, -1, stamp=(value(there), value(0))),
            Packet(self.rtt + DELAY, start=0, stamp=(value(self.rtt), value(there))),
        ]
        if not self.stamps:
            opening = [replace(packet, stamp=None) for packet in opening]
        sender = [opening[0], replace(opening[1], at=self.rtt), opening[2], *stamped]
        sender += [replace(ack, at=ack.at + back) for ack in acks]
        receiver = [replace(opening[0], at=there), opening[1]]
        receiver += [replace(opening[2], at=self.rtt + DELAY + there)]
        receiver += [replace(one, at=reach[one.id][0]) for one in stamped if one.id in reach]
        receiver += acks
        self.ends = {
            name: sorted(packets, key=lambda one: one.at)
            for name, packets in (("sender", sender), ("receiver", receiver))
        }

    def _blocks(self, beyond: set[int], newest: int) -> tuple[tuple[int, int], ...]:
        if not self.sack or not beyond:
            return ()
        runs: list[list[int]] = []
        for n in sorted(beyond):
            if runs and runs[-1][1] == n:
                runs[-1][1] = n + 1
            else:
                runs.append([n, n + 1])
        runs.sort(key=lambda run: not run[0] <= newest < run[1])
        return tuple((a * self.payload, b * self.payload) for a, b in runs[:3])


def merged(packets: list[Packet]) -> list[Packet]:
    """Merge neighbouring data of one instant, as offload shows it."""
    out: list[Packet] = []
    for packet in packets:
        last = out[-1] if out else None
        if (
            last
            and packet.length
            and last.length
            and not packet.back
            and packet.at - last.at < 1e-9
            and last.start + last.length == packet.start
            and last.length + packet.length < 60_000
        ):
            out[-1] = replace(last, length=last.length + packet.length)
        else:
            out.append(packet)
    return out


def octets(packet: Packet, first: int, *, ids: bool, six: bool) -> bytes:
    """Return the packet as bare IP; the payload was not captured."""
    options = b""
    if packet.flags & SYN:
        options += struct.pack(">BBHBBBB", 2, 4, MSS, 1, 3, 3, 7)
    if packet.stamp:
        options += struct.pack(">BBBBII", 1, 1, 8, 10, *packet.stamp)
    if packet.blocks:
        options += struct.pack(">BBBB", 1, 1, 5, 2 + 8 * len(packet.blocks))
        for block in packet.blocks:
            options += struct.pack(">II", *((first + at) % 2**32 for at in block))
    seq, ack = (5000, first + packet.ack) if packet.back else (first + packet.start, 5000)
    if packet.back and packet.flags & SYN:
        seq = 4999
    if not packet.flags & ACK:
        ack = 0
    ports = (5201, 40_000) if packet.back else (40_000, 5201)
    words = (20 + len(options)) // 4
    tcp = struct.pack(">HHIIBB", *ports, seq % 2**32, ack % 2**32, words << 4, packet.flags)
    tcp += struct.pack(">HHH", 60_000, 0, 0) + options
    total = len(tcp) + packet.length
    ends = [b"\x0a\0\0\1", b"\x0a\0\0\2"]
    if packet.back:
        ends.reverse()
    if six:
        far = b"\x20\x01" + bytes(10)
        return (
            struct.pack(">IHBB", 6 << 28, total, 6, 64) + b"".join(far + end for end in ends) + tcp
        )
    number = packet.id if ids else 0
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + total, number, 0x4000, 64, 6, 0)
    return head + b"".join(ends) + tcp


def written(frames: list[tuple[float, bytes]]) -> bytes:
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    for at, frame in frames:
        micros = round(at * 1e6)
        times = START + micros // 10**6, micros % 10**6
        out.append(struct.pack("<IIII", *times, len(frame), len(frame)) + frame)
    return b"".join(out)


CHOICES: dict[str, list[Any]] = {
    "end": ["sender", "receiver"],
    "stamps": [True, False],
    "sack": [True, False],
    "burst": [1, 1, 4, 10],
    "late": [False, True],
    "ids": [True, True, False],
    "six": [False, False, True],
    "copies": [0, 0, 1, 2],
    "shuffled": [False, True],
    "cut": ["nothing", "nothing", "begin", "end", "middle"],
}


@pytest.mark.parametrize("seed", range(80))
def test_a_capture_of_a_known_transfer(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    drawn = {name: rng.choice(values) for name, values in CHOICES.items()}
    if drawn["cut"] == "begin" and drawn["end"] == "receiver" and not drawn["stamps"]:
        # Nothing gives the RTT, so only identifications show what was reordered.
        drawn["late"] = drawn["late"] and drawn["ids"] and not drawn["six"]
    transfer = Transfer(rng, drawn["stamps"], drawn["sack"], drawn["burst"], drawn["late"])
    transfer.run()
    packets = transfer.ends[drawn["end"]]
    if drawn["burst"] > 1:
        packets = merged(packets)
    span = packets[-1].at
    begin, end, hole = 0.0, span, (0.0, 0.0)
    match drawn["cut"]:
        case "begin":
            begin = span * rng.uniform(0.1, 0.5)
        case "end":
            end = span * rng.uniform(0.5, 0.9)
        case "middle":
            middle = span * rng.uniform(0.4, 0.6)
            hole = (middle, middle + transfer.rtt / 2)
    kept = [one for one in packets if begin <= one.at <= end and not hole[0] < one.at < hole[1]]
    first = rng.randrange(2**32)
    apart = rng.choice([1e-6, 20e-6, 200e-6])
    frames = []
    for packet in kept:
        frame = octets(packet, first, ids=drawn["ids"], six=drawn["six"])
        frames += [(packet.at + n * apart, frame) for n in range(1 + drawn["copies"])]
    frames.sort(key=lambda one: one[0])
    if drawn["shuffled"]:
        # Nothing gives the order of packets with one time.
        for n in range(0, len(frames) - 3, 3):
            if len({round(at * 1e6) for at, _ in frames[n : n + 3]}) == 3:
                frames[n], frames[n + 2] = frames[n + 2], frames[n]
    (tmp_path / "known.pcap").write_bytes(written(frames))
    run = paceline.Run.capture(tmp_path / "known.pcap")
    (row,), (metrics,) = run.flows.to_dicts(), run.flow_metrics
    notes = " ".join((run.source or {"notes": []})["notes"])

    data = [one for one in kept if one.length]
    covered: set[int] = set()
    again, sent, expected = 0, 0, set()
    highest = min(one.start for one in data)
    for one in data:
        pieces = range(one.start, one.start + one.length, transfer.payload)
        sent += len(pieces)
        again += sum(n in covered for n in pieces)
        # At the receiver, what fills a gap an RTT later was sent again.
        if one.start < highest and one.start not in covered:
            expected.add(one.start)
        covered |= set(pieces)
        highest = max(highest, one.start + one.length)
    late = {n * transfer.payload for n in transfer.lost}
    again += len(expected & late)
    assert row["sent_packets"] == sent, drawn
    # A retransmission whose first transmission precedes the capture may look like one.
    slack = 1 if drawn["cut"] in {"begin", "middle"} else 0
    assert abs(row["retransmitted_packets"] - again) <= slack, drawn
    assert row["mss_bytes"] == transfer.payload, drawn

    begun = data[0].at
    before = [one.ack for one in kept if one.back and one.at < begun]
    acks = [one.ack for one in kept if one.back and not one.flags & SYN and one.at >= begun]
    base = max(before) if before else min(data[0].start, acks[0])
    assert row["goodput_bytes"] == max(acks) - base, drawn
    reported = {
        n for one in data for n in range(one.start, one.start + one.length, transfer.payload)
    }
    lowest = 0 if drawn["cut"] != "begin" else min(reported)
    missing = sum(
        transfer.payload for n in range(lowest, max(acks), transfer.payload) if n not in reported
    )
    assert (f"not in the capture: {missing}" in notes) == (missing > 0), (drawn, missing, notes)
    copies = drawn["copies"] * len(kept)
    match = re.search(r"of which the first counts: (\d+)", notes)
    known = int(match[1]) if match else 0
    if not copies:
        assert known == 0, drawn
    elif drawn["ids"] and not drawn["six"]:
        # An identification shows nothing until there is another.
        assert copies - 4 <= known <= copies, drawn
    else:
        # An ACK that the receiver repeats at once, without SACK, looks the same.
        assert known >= copies * 0.9, drawn
        assert known <= copies * (1.1 if drawn["sack"] else 2), drawn

    if drawn["end"] == "sender":
        assert metrics["rtt_p50_ns"] == pytest.approx(transfer.rtt * 1e9, rel=0.01), drawn
    elif drawn["stamps"]:
        # A sender echoes what it has when it sends, in milliseconds.
        above = (metrics["rtt_p50_ns"] or 0) / 1e9 - transfer.rtt
        assert -0.0011 <= above <= transfer.spacing + 0.0011, drawn
    elif drawn["cut"] != "begin":
        assert metrics["rtt_p50_ns"] is None, drawn
        assert row["base_rtt_ns"] == pytest.approx(transfer.rtt * 1e9, rel=0.01), drawn
