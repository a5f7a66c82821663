"""Flows on paths that change."""

from __future__ import annotations

import json
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
        found = results(f"five-{spread}", [104 + s for s in steps], [100 + s for s in steps])
        assert found.agrees(path, "goodput_bps") == agree, spread
    ratio = disturbed.ratio(found, path, "goodput_bps")
    assert ratio == pytest.approx(1.04)


def test_the_kinds_of_a_path() -> None:
    kinds = disturbed.kinds_of(drawn.changes(1016))
    assert kinds == {
        "bbr3-linux", "reno", "droptail", "2 flows", "rate", "loss", "rtt", "duplicate", "app",
    }  # fmt: skip
