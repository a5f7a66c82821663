"""Flows on paths that change."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import paceline

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
