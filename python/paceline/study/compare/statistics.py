"""The significance of a difference: t tests, and corrections for multiple testing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

from paceline.measures import FEWEST


@dataclass(frozen=True)
class Difference:
    """The difference of two means, new minus old, and its significance."""

    mean: float
    #: Ends of the 95 % interval; none with fewer than five values on a side.
    low: float | None
    high: float | None
    #: Two-sided probability of a difference this large by chance; none for a single pair.
    p: float | None
    #: Hedges' g: the difference over the pooled standard deviation, corrected for its bias in small
    #: samples (Hedges 1981). None if nothing varies.
    effect: float | None


def paired(old: Sequence[float], new: Sequence[float]) -> Difference:
    """Compare paired values by Student's t test of their differences."""
    differences = [b - a for a, b in zip(old, new, strict=True)]
    count = len(differences)
    error = math.sqrt(_variance(differences) / count) if count > 1 else 0.0
    return _difference(old, new, sum(differences) / count, error, count - 1)


def unpaired(old: Sequence[float], new: Sequence[float]) -> Difference:
    """Compare two samples by the t test of Welch (1947), which does not assume equal variances."""
    mean = sum(new) / len(new) - sum(old) / len(old)
    if min(len(old), len(new)) < 2:
        return _difference(old, new, mean, 0.0, 0)
    parts = [_variance(sample) / len(sample) for sample in (old, new)]
    total = sum(parts)
    weights = sum(
        part**2 / (len(sample) - 1) for part, sample in zip(parts, (old, new), strict=True)
    )
    freedom = total**2 / weights if weights > 0 else float(len(old) + len(new) - 2)
    return _difference(old, new, mean, math.sqrt(total), freedom)


def _difference(
    old: Sequence[float], new: Sequence[float], mean: float, error: float, freedom: float
) -> Difference:
    if freedom <= 0:
        return Difference(mean, None, None, None, None)
    reach = quantile(freedom) * error
    # Without any variance a difference is certain, or there is none.
    p = tail(mean / error, freedom) if error > 0 else float(mean == 0)
    if min(len(old), len(new)) < FEWEST:
        return Difference(mean, None, None, p, hedges(old, new))
    return Difference(mean, mean - reach, mean + reach, p, hedges(old, new))


def hedges(old: Sequence[float], new: Sequence[float]) -> float | None:
    """Return Hedges' g; `None` if nothing varies."""
    freedom = len(old) + len(new) - 2
    squares = sum((len(sample) - 1) * _variance(sample) for sample in (old, new))
    if freedom < 1 or squares <= 0:
        return None
    mean = sum(new) / len(new) - sum(old) / len(old)
    return mean / math.sqrt(squares / freedom) * (1 - 3 / (4 * freedom - 1))


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def tail(t: float, freedom: float) -> float:
    """Return the two-sided tail probability of Student's t distribution."""
    return 2 * float(stdtr(freedom, -abs(t)))


def quantile(freedom: float, p: float = 0.05) -> float:
    """Return the t whose two-sided tail is `p`."""
    return -float(stdtrit(freedom, p / 2))


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust probabilities by Holm (1979): bounds the chance of even one false alarm."""
    order = sorted(range(len(ps)), key=lambda nth: ps[nth])
    adjusted = [0.0] * len(ps)
    above = 0.0
    for rank, nth in enumerate(order):
        above = max(above, min((len(ps) - rank) * ps[nth], 1.0))
        adjusted[nth] = above
    return adjusted


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """Adjust by Benjamini and Hochberg (1995): bounds the share of false alarms."""
    order = sorted(range(len(ps)), key=lambda nth: ps[nth], reverse=True)
    adjusted = [0.0] * len(ps)
    below = 1.0
    for rank, nth in enumerate(order):
        below = min(below, ps[nth] * len(ps) / (len(ps) - rank))
        adjusted[nth] = below
    return adjusted
