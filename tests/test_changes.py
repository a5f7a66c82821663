"""Flows on paths that change."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import paceline

sys.path.insert(0, str(Path(__file__).parent / "peers"))

import back_after
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
