"""Statistics of repeats by hand, and the short form of `make certainty`."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.statistics import aggregate, remarks, skewed, text, together

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
import certainty


def test_the_interval_of_the_mean_is_students() -> None:
    # Mean 3, s = sqrt(2.5), and t = 2.776445 with 4 degrees of freedom.
    statistics = aggregate([5, 1, 3, 2, 4])
    assert statistics is not None
    reach = 2.776445 * math.sqrt(2.5 / 5)
    assert (statistics["mean"], statistics["median"], statistics["count"], statistics["runs"]) == (
        3,
        3,
        5,
        5,
    )
    assert (statistics["low"], statistics["high"]) == pytest.approx(
        (3 - reach, 3 + reach), abs=1e-5
    )
    # Of five values, minimum and maximum hold the median in 1 - 2 / 2^5 = 93.75 %.
    assert (statistics["median_low"], statistics["median_high"]) == (1, 5)
    four = aggregate([1, 2, 3, 4])
    assert four is not None
    assert (four["mean"], four["median"], four["low"], four["median_high"]) == (
        2.5,
        2.5,
        None,
        None,
    )
    assert aggregate([]) is aggregate([None]) is aggregate([1, math.nan]) is None


def test_the_interval_of_the_median_is_between_order_statistics() -> None:
    # Of ten: the 2nd and 9th hold it in 1 - 2 x 11/1024 = 97.85 %, the 3rd and 8th in
    # 1 - 2 x 56/1024 = 89.06 %. Part 0.3245 of the way by probability is 8 I / (2 + 6 I) of values.
    statistics = aggregate(list(range(1, 11)))
    assert statistics is not None
    inside = (1 - 22 / 1024 - 0.95) / (90 / 1024)
    part = 8 * inside / (2 + 6 * inside)
    assert statistics["median_low"] == pytest.approx(2 + part)
    assert statistics["median_high"] == pytest.approx(9 - part)


def test_equal_values_have_an_interval_without_width() -> None:
    same = aggregate([0.1] * 7)
    assert same is not None
    assert same["low"] == same["mean"] == same["high"] == same["median_high"] == 0.1
    other = aggregate([1, 2, 3, 4, 5])
    notes = remarks([same, other])
    assert any("1 of 2 intervals have no width" in note for note in notes)
    assert any("start_jitter" in note for note in notes)
    assert not any("no width" in note for note in remarks([other]))


def test_times_longer_than_their_run_count_in_the_median() -> None:
    # 1, 2, 3, 4 and three longer ones: the middle of seven is 4; the mean is that of four.
    statistics = aggregate([1e9, 4e9, None, 2e9, None, 3e9, None], [5e9] * 7)
    assert statistics is not None
    assert (statistics["mean"], statistics["median"], statistics["low"]) == (2.5e9, 4e9, None)
    assert (statistics["count"], statistics["runs"], statistics["censored"]) == (4, 7, 3)
    assert text("convergence_ns", statistics) == "2.500 s (4 of 7)"
    # More than half are longer: so is the median.
    most = aggregate([1e9, None, None, None], [5e9] * 4)
    assert most is not None
    assert most["median"] is None


def test_a_skewed_interval_says_so() -> None:
    # 1 to 9 and 100: skewness 3.1, and 1.35 is beyond that of 95 % of normal samples of ten.
    skew = aggregate([*range(1, 10), 100])
    plain = aggregate(list(range(1, 11)))
    assert skew is not None
    assert plain is not None
    assert (skew["coverage_ratio"], plain["coverage_ratio"]) == (skewed(10), 0.95)
    assert text("rto_count", skew).startswith("14.50 (~")
    assert any("of a skewed metric (~)" in note for note in remarks([plain]))


def test_repeats_are_one_object() -> None:
    def run(seed: int, time: int | None) -> dict[str, object]:
        flow = {"flow": 0, "cc": "reno", "completion_ns": time, "state_ns": {}}
        limits = {} if time else {"censored": {"completion_ns": 9}}
        return {
            "seed": seed,
            "metrics": {"goodput_bps": 8},
            "flows": [flow | limits],
            "censored": {"x": 1},
        }

    joined = together([run(3, 4), run(4, None)])
    assert joined["seed"] == 3
    assert "censored" not in joined
    assert joined["metrics"]["goodput_bps"]["mean"] == 8
    (flow,) = joined["flows"]
    assert flow.keys() == {"flow", "cc", "completion_ns"}
    assert (flow["completion_ns"]["count"], flow["completion_ns"]["censored"]) == (1, 1)
    assert joined["repeats"] == {"seed": [3, 4], "goodput_bps": [8, 8]}


@pytest.mark.parametrize("count", [5, 10, 30])
@pytest.mark.parametrize("name", ["normal", "two modes, half each"])
def test_intervals_hold_the_mean_as_often_as_they_say(name: str, count: int) -> None:
    """2000 samples: the share has a standard error of 0.5 %."""
    draw, mean = certainty.MEANS[name]
    assert 0.93 <= certainty.coverage(draw, mean, count, 2000) <= 0.97


@pytest.mark.parametrize("count", [5, 10, 30])
def test_what_is_said_of_skewed_metrics_is_so(count: int) -> None:
    draw, mean = certainty.MEANS["lognormal, sigma 1"]
    assert abs(certainty.coverage(draw, mean, count, 2000) - skewed(count)) < 0.025


@pytest.mark.parametrize("name", certainty.NULLS)
@pytest.mark.parametrize(
    ("count", "points", "most"),
    [(2, 1, 0), (3, 1, 13), (5, 1, 13), (10, 1, 13), (3, 10, 6), (7, 10, 6)],
)
def test_a_comparison_of_the_same_finds_nothing(
    name: str, count: int, points: int, most: int
) -> None:
    """At most 5 %: chance alone gives more than 13 of 120, or than 6 of 40, in 0.3 % of cases."""
    draw, samples = certainty.NULLS[name], 120 if points == 1 else 40
    alarms = certainty.alarms(draw, count, points, same=count % 2 == 1, samples=samples)
    assert round(alarms * samples) <= most


def test_a_true_difference_is_found() -> None:
    """1.5 standard deviations with ten runs, in 80 of 100; 300 comparisons, error 2 %."""
    assert certainty.power(1.5, 10, same=True, samples=300) >= 0.8
    assert certainty.power(1.5, 10, same=False, samples=300) >= 0.8


def test_the_page_has_the_tables() -> None:
    page = certainty.PAGE.read_text(encoding="utf-8")
    for name in ("coverage of the mean", "coverage of the median", "false alarms", "power"):
        _, table, rest = page.partition(f"<!-- {name} -->\n")
        assert table
        assert rest.startswith("| ")
    for count in certainty.COUNTS:
        row = next(line for line in page.splitlines() if line.startswith("| lognormal, sigma 1 |"))
        cell = row.split("|")[2 + certainty.COUNTS.index(count)]
        assert float(cell.strip(" %")) / 100 == pytest.approx(skewed(count), abs=0.012)


def test_the_command_does_not_load_scipy_to_start() -> None:
    code = "import sys, paceline.cli.app; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
