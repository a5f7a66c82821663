"""Flows on paths that change."""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

import pytest

import paceline
from test_vm import snapshot

sys.path.insert(0, str(Path(__file__).parent / "peers"))

import back_after
import disturbed
import drawn

#: Paths on which Linux's rule pins a flow to a few packets for tens of seconds.
PINNED = (11, 30, 156)


# Reno grows by a packet a round trip from what is left of its threshold: it is not back either way.
@pytest.mark.parametrize("cc", ["cubic-linux", "cubic"])
def test_a_flow_is_back_after_outages(cc: str) -> None:
    # The whole form: python tests/peers/back_after.py --paths 10000
    for seed in (*PINNED, 1, 2, 3):
        [share] = back_after.shares(range(seed, seed + 1), cc).values()
        assert share > 0.4, f"{cc}, path {seed}"


def test_the_kernel_s_kind_pins_as_the_kernel_does() -> None:
    for seed in PINNED:
        [share] = back_after.shares(range(seed, seed + 1), "cubic-linux", "linux").values()
        assert share < 0.1, f"path {seed}"


def test_drawn_paths_are_scenarios_for_both_sides() -> None:
    for seed in range(1000, 1040):
        path = drawn.changes(seed)
        assert path.events
        assert path.ends
        paceline.check(path.toml())
        assert drawn.changes(seed) == path


def test_the_time_to_return_is_that_of_the_first_ten_round_trips_at_nine_tenths() -> None:
    # 12 Mbit/s carry 1448 bytes a millisecond. An outage until 1.5 s, then a quarter of the rate
    # until 2 s: a window of 100 ms has nine tenths if at least 86.7 ms of it are later, so from
    # 1.99 s on. After the second change, at 3 s, the rate is never reached.
    path = drawn.Drawn(1, 12, 10, "", [], 4.0, [], [(1.5, 12), (3.0, 24)])

    def delivered(ns: int) -> int:
        ms = ns / 1e6
        return round(1448 * (min(ms, 1000) + min(max(ms - 1500, 0), 500) / 4 + max(ms - 2000, 0)))

    def back(first: list[int], count: int) -> float:
        times = first + [first[-1] + 10_000_000 * n for n in range(1, 400)]
        flow = (times, [delivered(t) // count for t in times])
        return disturbed._back(path, disturbed.on_grid([flow] * count, path.duration)) / 1e9

    assert back([0], 1) == pytest.approx(0.49 + 1)
    assert back([0], 2) == pytest.approx(0.49 + 1)
    # The kernel's first interval is shorter, and the others are beside the grid.
    assert back([2_400_000, 5_054_000], 1) == pytest.approx(0.49 + 1)


def test_flows_are_added_on_one_grid() -> None:
    ms = 1_000_000
    flows = [([5 * ms, 15 * ms, 25 * ms], [0, 100, 300]), ([20 * ms], [7])]
    assert disturbed.on_grid(flows, 0.04) == [0, 50, 207, 307, 307]


def test_means_agree_within_the_bound_or_with_narrow_intervals_that_overlap(
    tmp_path: Path,
) -> None:
    def results(folder: str, sim: list[float], vm: list[float]) -> disturbed.Results:
        rows = [
            {
                "seed": 1000,
                "side": side,
                "start": start,
                "measures": {"goodput_bps": v, "rtos": 2.0},
            }
            for side, values in (("sim", sim), ("vm", vm))
            for start, v in enumerate(values, 1)
        ]
        (tmp_path / folder).mkdir()
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / folder / "runs.jsonl").write_text(text)
        return disturbed.Results(tmp_path / folder)

    path = drawn.changes(1000)
    assert results("near", [102.9], [100]).agrees(path, "goodput_bps")
    assert not results("far", [103.1], [100]).agrees(path, "goodput_bps")
    # Means of 104 and 100 with five starts each: standard deviations of 2 give halves of
    # 2.78 * 2 / sqrt(5) = 2.5, which overlap; those of 0.2 do not, and those of 8 are too wide.
    for spread, agree in ((2, True), (0.2, False), (8, False)):
        # The standard deviation of -1, -1, 0, 1, 1 is one.
        steps = [spread * n for n in (-1, -1, 0, 1, 1)]
        measured = results(f"five-{spread}", [104 + s for s in steps], [100 + s for s in steps])
        assert measured.agrees(path, "goodput_bps") == agree, spread
    ratio = disturbed.ratio(measured, path, "goodput_bps")
    assert ratio == pytest.approx(1.04)


def test_the_kinds_of_a_path() -> None:
    kinds = disturbed.kinds_of(drawn.changes(1016))
    assert kinds == {
        "bbr3-linux", "reno", "droptail", "2 flows", "rate", "loss", "rtt", "duplicate", "app",
    }  # fmt: skip


# The guest's path under each key that a scenario can change, packet by packet.


__all__ = ["snapshot"]

SCENARIO = """\
schema = 1
name = "change"
run = { duration = "6 s", record.packets = true }
path = { rate = "10 Mbit/s", rtt = "40 ms", queue.size = "1 bdp" }
events = [EVENTS]
[[flows]]
cc = "reno"
"""
#: IPv4 and TCP with timestamps, and the queue: 10 Mbit/s for 40 ms.
HEADERS, QUEUE = 52, 50_000
#: The last packets are on their way at the end.
SETTLED = 5.5
#: The guest's own work, and HTB's slack of 100 us.
TICK = 0.0003
#: A full packet at a rate in Mbit/s.
FULL = 12e-3


class Sent(NamedTuple):
    at: float
    seq: int
    size: int


class Both(NamedTuple):
    """The packets, and the arrivals of each segment in the guest and behind our link."""

    sent: list[Sent]
    guest: dict[int, list[float]]
    link: dict[int, list[float]]
    run: paceline.Run

    def differing_segments(self) -> list[int]:
        """Return the segments that do not arrive as often on both sides."""
        return [
            seq
            for seq in sorted(self.guest.keys() | self.link.keys())
            if len(self.guest.get(seq, [])) != len(self.link.get(seq, []))
            and min(self.guest.get(seq, []) + self.link.get(seq, [])) < SETTLED
        ]

    def apart(self, since: float, until: float) -> tuple[float, float]:
        """Return how early and how late packets are in the guest at most."""
        off = [
            a - b
            for seq, times in self.guest.items()
            if len(times) == len(self.link.get(seq, []))
            for a, b in zip(times, self.link[seq], strict=True)
            if since <= b < until
        ]
        return max(0.0, -min(off)), max(0.0, max(off))


def through(
    sent: list[Sent], rates: list[tuple[float, float]], delays: list[tuple[float, float]]
) -> list[float | None]:
    """Return when each packet arrives behind a link; none if its queue is full."""
    arrivals: list[float | None] = []
    free, last, queue = 0.0, 0.0, list[tuple[float, float, int]]()
    for packet in sent:
        queue = [one for one in queue if one[1] > packet.at]
        waiting = sum(size for start, _, size in queue if start > packet.at)
        if queue and waiting + packet.size > QUEUE:
            arrivals.append(None)
            continue
        start = now = max(packet.at, free)
        bits = 8.0 * packet.size
        place = bisect_right([at for at, _ in rates], now) - 1
        while place + 1 < len(rates) and now + bits / rates[place][1] > rates[place + 1][0]:
            bits -= (rates[place + 1][0] - now) * rates[place][1]
            now = rates[place + 1][0]
            place += 1
        free = now + bits / rates[place][1]
        queue.append((start, free, packet.size))
        # In order, also when the delay falls.
        last = max(last, free + delays[bisect_right([at for at, _ in delays], free) - 1][1])
        arrivals.append(last)
    return arrivals


def both(
    events: str,
    rates: dict[float, float] | None = None,
    delays: dict[float, float] | None = None,
) -> Both:
    """Run the scenario in the guest; rates in Mbit/s and delays hold from their time on."""
    run = paceline.run(SCENARIO.replace("EVENTS", events), backend="vm")
    packets = run.packets
    assert packets is not None
    sends = packets.filter(packets["kind"].is_in(["send", "retransmit"]))
    columns = (sends[name].to_list() for name in ("t_ns", "seq_bytes", "len_bytes"))
    sent = [Sent(t / 1e9, seq, size + HEADERS) for t, seq, size in zip(*columns, strict=True)]
    guest: dict[int, list[float]] = {}
    got = packets.filter(packets["kind"] == "deliver")
    for t, seq in zip(got["t_ns"].to_list(), got["seq_bytes"].to_list(), strict=True):
        guest.setdefault(seq, []).append(t / 1e9)
    steps = [(at, 1e6 * rate) for at, rate in ({0.0: 10.0} | (rates or {})).items()]
    halves = list(({0.0: 0.02} | (delays or {})).items())
    link: dict[int, list[float]] = {}
    for packet, arrival in zip(sent, through(sent, steps, halves), strict=True):
        if arrival is not None:
            link.setdefault(packet.seq, []).append(arrival)
    return Both(sent, guest, link, run)


@pytest.mark.parametrize("rate", [1.0, 0.5, 40.0])
def test_a_change_of_the_rate(snapshot: str, rate: float) -> None:
    ran = both(f'{{ when = "2 s", path.rate = "{rate} Mbit/s" }}', {2.0: rate})
    assert max(ran.apart(0, 2)) < TICK
    # The packet in service keeps its rate: the others are early or late by one at most.
    one = 1.25 * FULL / min(rate, 10.0)
    assert max(ran.apart(2, SETTLED)) < one
    assert len(ran.differing_segments()) <= 3
    if rate > 10:
        assert max(ran.apart(2.1, SETTLED)) < TICK
    # Without the size table a packet would take 0.9 % longer.
    arrived = [t for times in ran.guest.values() for t in times if 3 <= t < SETTLED]
    if rate < 10:
        assert FULL * len(arrived) / (SETTLED - 3) == pytest.approx(rate, rel=0.005)


def test_a_change_of_the_round_trip(snapshot: str) -> None:
    events = '{ when = "2 s", path.rtt = "120 ms" }, { when = "4 s", path.rtt = "20 ms" }'
    ran = both(events, delays={2.0: 0.06, 4.0: 0.01})
    assert not ran.differing_segments()
    # The packet in service keeps its delay.
    assert all(max(ran.apart(*times)) < TICK for times in ((0, 2), (2.1, 4), (4.1, SETTLED)))
    packets = ran.run.packets
    assert packets is not None
    acks = packets.filter(packets["kind"] == "ack")["seq_bytes"].to_list()
    assert acks == sorted(acks)


def test_jitter_begins_and_ends(snapshot: str) -> None:
    events = '{ when = "2 s", path.jitter = "10 ms" }, { when = "4 s", path.jitter = "0 ms" }'
    ran = both(events)
    assert not ran.differing_segments()
    assert max(ran.apart(0, 2)) < TICK
    early, late = ran.apart(2.1, 4)
    assert early < TICK
    assert 0.009 < late < 0.010 + TICK
    assert max(ran.apart(4.1, SETTLED)) < TICK


def test_duplicates_begin_and_end(snapshot: str) -> None:
    events = '{ when = "2 s", path.duplicate = "5 %" }, { when = "4 s", path.duplicate = "0 %" }'
    ran = both(events)
    twice = ran.differing_segments()
    # 5 % of the 1667 packets of two seconds: 83, and three standard deviations of 9.
    assert 83 - 27 <= len(twice) <= 83 + 27
    assert all(2 < ran.guest[seq][0] < 4.1 for seq in twice)
    assert max(ran.apart(0, SETTLED)) < TICK


def test_an_outage_is_for_packets_that_join_the_queue(snapshot: str) -> None:
    ran = both('{ when = "2 s", for = "300 ms", path.loss = "100 %" }')
    lost = sorted(ran.differing_segments())
    assert lost
    sent = {seq: [one.at for one in ran.sent if one.seq == seq] for seq in lost}
    # Each was sent once within the outage, and that did not arrive.
    assert all(sum(2 <= at < 2.3 for at in times) == 1 for times in sent.values())
    within = {one.seq for one in ran.sent if 2 <= one.at < 2.3}
    assert within == set(lost)
    assert max(ran.apart(0, SETTLED)) < TICK
