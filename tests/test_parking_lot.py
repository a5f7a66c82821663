"""A parking lot: Google's fluid model of BBR, and the packets of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

import paceline

SCENARIO = Path(__file__).parent.parent / "scenarios" / "topology" / "parking-lot.toml"
GAINS = (1.25, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
RATE = 10.0


def fluid(phases: int) -> list[list[float]]:
    """Return the three flows' bandwidth estimates after each phase.

    Each sends at its gain times the largest of its last ten receive rates; a link is full and is
    shared in proportion to what comes in. The first flow crosses both links.
    """
    filters = [[0.0] * 9 + [RATE / 2] for _ in range(3)]
    found = []
    for phase in range(phases):
        long, first, second = (
            GAINS[(phase + offset) % len(GAINS)] * max(rates)
            for offset, rates in zip((0, 2, 4), filters, strict=True)
        )
        between = RATE * long / (long + first)
        received = (
            RATE * between / (between + second),
            RATE * first / (long + first),
            RATE * second / (between + second),
        )
        for rates, rate in zip(filters, received, strict=True):
            rates[phase % len(rates)] = rate
        found.append([max(rates) for rates in filters])
    return found


def test_the_fluid_model_gives_what_google_printed() -> None:
    found = fluid(500)
    assert found[0] == pytest.approx([5.263, 5.000, 5.000], abs=5e-4)
    assert found[99] == pytest.approx([3.266, 7.319, 7.467], abs=5e-4)
    assert found[499] == pytest.approx([2.962, 7.630, 7.763], abs=5e-4)


def test_packets_go_where_the_fluid_says() -> None:
    run = paceline.run(SCENARIO)
    long, first, second = (flow["goodput_bps"] / 1e6 for flow in run.flow_metrics)
    model = fluid(500)[-1]
    # Packets are dropped on either link where the fluid is only thinned.
    assert 0.1 * RATE < long < model[0]
    assert first == pytest.approx(model[1], rel=0.1)
    assert second == pytest.approx(model[2], rel=0.1)
    assert long + first > 0.93 * RATE
    assert long + second > 0.93 * RATE
