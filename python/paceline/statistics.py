"""Statistics of repeats: mean, median and their 95 % intervals, the same for every command."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from paceline.measures import limit, names, value
from paceline.quantities import NONE, quantity

if TYPE_CHECKING:
    from paceline import answers

#: The minimum number of values for an interval: fewer do not show their distribution.
FEWEST = 5

#: The share of intervals that hold the mean of a skewed metric, by the number of values: drawn from
#: a lognormal distribution with a sigma of 1. `docs/guide/certainty.md` has the table for others.
SKEWED = {5: 0.82, 7: 0.83, 10: 0.84, 15: 0.85, 20: 0.86, 30: 0.88}


@cache
def quantile(freedom: float, p: float = 0.05) -> float:
    """Return the t whose two-sided tail is `p`."""
    from scipy.special import stdtrit  # slow to import, and most commands need none of it

    return -float(stdtrit(freedom, p / 2))


def variance(values: Sequence[float]) -> float:
    """Return the variance of a sample; zero of one value."""
    if len(values) < 2 or min(values) == max(values):
        return 0.0
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def student(mean: float, error: float, freedom: float, p: float = 0.05) -> tuple[float, float]:
    """Return the ends of the interval of a mean with a standard error, by Student's t."""
    reach = quantile(freedom, p) * error
    return mean - reach, mean + reach


def aggregate(
    values: Sequence[float | None], limits: Sequence[float | None] = ()
) -> answers.Statistics | None:
    """Return the statistics of repeats; none if it is undefined in all of them, or not finite.

    The undefined ones that have a limit are times longer than it. They belong to the median and
    not to the mean, which then has no interval: that of the others would not hold it.
    """
    pairs = zip(values, limits, strict=False)
    censored = sum(value is None and limit is not None for value, limit in pairs)
    defined = sorted(value for value in values if value is not None)
    if not defined or not all(map(math.isfinite, defined)):
        return None
    count = len(defined)
    mean = sum(defined) / count if defined[0] < defined[-1] else defined[0]
    low, high = None, None
    if count >= FEWEST and not censored:
        low, high = student(mean, math.sqrt(variance(defined) / count), count - 1)
    ranked = defined + [math.inf] * censored
    middle = (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2
    ends = _of_median(ranked) if len(ranked) >= FEWEST else (math.inf, math.inf)
    return {
        "mean": mean,
        "median": _known(middle),
        "low": low,
        "high": high,
        "median_low": _known(ends[0]),
        "median_high": _known(ends[1]),
        "count": count,
        "runs": len(values),
        "censored": censored,
        "coverage_ratio": None if low is None else _coverage(defined),
    }


def of_runs(runs: Sequence[Mapping[str, Any]], name: str) -> answers.Statistics | None:
    """Return the statistics of a metric over runs, given by their JSON."""
    return aggregate([value(run, name) for run in runs], [limit(run, name) for run in runs])


def together(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the ``--json`` object for repeats of one scenario, from those of its runs.

    It is the first one's, with statistics for each metric of the run and of its flows, and with the
    values of each run in `repeats`.
    """
    first = runs[0]
    flows = []
    for nth, flow in enumerate(first["flows"]):
        described = {k: v for k, v in flow.items() if k not in ("censored", "state_ns")}
        figures = {k: of_runs(runs, f"flows[{nth}].{k}") for k in flow if k in names("flow")}
        flows.append(described | figures)
    return {
        **{key: part for key, part in first.items() if key != "censored"},
        "metrics": {name: of_runs(runs, name) for name in first["metrics"]},
        "flows": flows,
        "repeats": {
            "seed": [run["seed"] for run in runs],
            **{name: [run["metrics"].get(name) for run in runs] for name in first["metrics"]},
        },
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _of_median(ranked: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the median: between order statistics, whatever the distribution.

    Interpolated between two of them as Hettmansperger and Sheather (1986) do; of five values the
    minimum and the maximum, which hold it in 93.75 % of samples.
    """
    nth, part = _place(len(ranked))

    def end(rows: Sequence[float]) -> float:
        near, far = rows[nth], rows[nth + 1]
        return near if part == 0 or near == far else (1 - part) * near + part * far

    return end(ranked), end(ranked[::-1])


@cache
def _place(count: int) -> tuple[int, float]:
    """Return which order statistic ends the median's interval, and which part of the next."""
    outside, below = 0.5**count, [0.5**count]
    for k in range(1, count // 2):
        outside = outside * (count - k + 1) / k
        below.append(below[-1] + outside)
    holds = [1 - 2 * p for p in below]
    nth = max((k for k, share in enumerate(holds) if share >= 0.95), default=-1)
    if nth < 0:
        return 0, 0.0
    inside = (holds[nth] - 0.95) / (holds[nth] - holds[nth + 1])
    rank = nth + 1
    return nth, (count - rank) * inside / (rank + (count - 2 * rank) * inside)


def _coverage(values: Sequence[float]) -> float:
    """Return the share of such intervals that hold the mean: 95 %, or fewer of skewed values.

    Values are skewed if their skewness is beyond that of 95 % of normal samples.
    """
    count, mean = len(values), sum(values) / len(values)
    moments = [sum((value - mean) ** power for value in values) / count for power in (2, 3)]
    if values[0] == values[-1] or moments[0] <= 0:
        return 0.95
    skewness = math.sqrt(count * (count - 1)) / (count - 2) * moments[1] / moments[0] ** 1.5
    error = math.sqrt(6 * count * (count - 1) / ((count - 2) * (count + 1) * (count + 3)))
    return skewed(count) if abs(skewness) > 1.96 * error else 0.95


def skewed(count: int) -> float:
    """Return the share of the intervals of this many values that hold a skewed metric's mean."""
    return SKEWED[max(known for known in SKEWED if known <= max(count, FEWEST))]


def of_count(statistics: Mapping[str, Any] | None) -> str:
    """Return in how many runs a metric is defined, unless it is in all: ``7 of 12``."""
    if statistics is None or statistics["count"] == statistics["runs"]:
        return ""
    return f"{statistics['count']} of {statistics['runs']}"


def spread(name: str, statistics: Mapping[str, Any] | None) -> str:
    """Return the interval of a mean for people, and the runs that it is of; a ~ if it is skewed."""
    if statistics is None:
        return ""
    low, high = statistics["low"], statistics["high"]
    parts = []
    if low is not None and high is not None and low < high:
        mark = "~" if statistics["coverage_ratio"] < 0.95 else ""
        parts.append(f"{mark}{quantity(name, low)} to {quantity(name, high)}")
    return ", ".join(filter(None, [*parts, of_count(statistics)]))


def text(name: str, statistics: Mapping[str, Any] | None, joint: str = " ") -> str:
    """Return a mean for people, with its spread in parentheses."""
    if statistics is None:
        return NONE
    interval = spread(name, statistics)
    return quantity(name, statistics["mean"]) + (f"{joint}({interval})" if interval else "")


#: What to do if nothing varies.
JITTER = 'start_jitter = "100 ms" in [[flows]] lets each seed start the flows at other times'


def remarks(figures: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """Return what a reader of some figures' intervals has to know."""
    shown = [f for f in figures if f is not None and f["low"] is not None]
    notes = []
    if shown:
        few, many = (end(f["count"] for f in shown) for end in (min, max))
        over = f"{few} to {many}" if few < many else f"{few}"
        note = f"95 % intervals of the mean, by Student's t, over {over} runs"
        if few < 100:
            note += f"; of a skewed metric (~) they hold it in {100 * skewed(few):.0f} %"
        notes.append(note)
    flat = sum(f["low"] == f["high"] != 0 for f in shown)
    if flat:
        notes.append(
            f"{flat} of {len(shown)} intervals have no width: all runs gave the same value, "
            f"which is no certainty; {JITTER}"
        )
    if any(f is not None and f["censored"] for f in figures):
        notes.append(
            "7 of 12: the others' times are longer than their runs, so the mean is that of the "
            "shorter ones, and has no interval"
        )
    return notes
