"""The significance of a difference: which test, its probability, and corrections for many tests.

Student's t decides if the values are distinct. It trusts their variance, and few values hide it:
two samples of a metric with two modes are apart by chance with a probability of up to 2 x 4^-n,
whatever their variance says. No t test claims less than that. Values that repeat, as counts do, get
a permutation test, which assumes nothing of their distribution.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from paceline.later import numpy as np
from paceline.statistics import FEWEST, student, variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

Test = Literal["t", "permutation", "sign flips", "log rank"]

#: Above this number of rearrangements, as many of them are drawn as fit in half of it.
_MOST = 50_000
#: Beyond this probability no permutation is needed to see that a difference may be chance.
_FAR = 0.2
#: Values that differ by less than this part of the largest are equal but for rounding.
_ROUNDING = 1e-9
#: And by less than this part of their range: their distance does not show how far they vary.
_NEAR = 1e-3
#: From this number on, a permutation test can decide what a t test does.
_MANY = 6


@dataclass(frozen=True)
class Difference:
    """A difference of two samples, new minus old, and its significance."""

    #: The difference of the means; none for times of which some are longer than their run.
    mean: float | None
    #: Ends of the 95 % interval; none with fewer than five values on a side.
    low: float | None = None
    high: float | None = None
    #: Two-sided probability of a difference this large by chance; none if there is no test.
    p: float | None = None
    #: Hedges' g: the difference over the pooled standard deviation, corrected for its bias in small
    #: samples (Hedges 1981). None if nothing varies.
    effect: float | None = None
    test: Test | None = None
    #: The least probability that the test gives with as many values, however far apart they are.
    least: float = 1.0
    #: The standard error and its degrees of freedom.
    error: float = 0.0
    freedom: float = 0.0
    #: Whether the mean is that of logarithms of ratios, and is not a difference of means.
    ratios: bool = False
    #: Of pairs, how many are higher and how many are lower.
    signs: tuple[int, int] | None = None

    def corrected(self, count: float) -> Difference:
        """Return it with the interval of one of `count` that hold together in 95 %."""
        if self.low is None or self.mean is None:
            return self
        low, high = student(self.mean, self.error, self.freedom, 0.05 / count)
        return replace(self, low=low, high=high)


def paired(old: Sequence[float], new: Sequence[float], *, alike: bool = True) -> Difference:
    """Compare paired values: by Student's t test of their differences, if these are distinct.

    Otherwise by a permutation test: of all values, or, if pairs are not `alike` (each of another
    path), of the signs of the differences.
    """
    differences = [b - a for a, b in zip(old, new, strict=True)]
    count = len(differences)
    mean = sum(differences) / count
    signs = (sum(d > 0 for d in differences), sum(d < 0 for d in differences))
    if count < 2:
        return Difference(mean, signs=signs)
    error = math.sqrt(variance(differences) / count)
    difference = _estimate(old, new, mean, error, count - 1)
    p: float | None
    test: Test | None
    if not _repeats(differences) and not (alike and _repeats([*old, *new])):
        p, least, test = _student(mean, error, count - 1, count, count)
    elif alike:
        dealt = unpaired(old, new)
        p, least, test = dealt.p, dealt.least, dealt.test
    else:
        p, least = _flipped(differences)
        test = "sign flips"
    return replace(difference, p=p, least=least, test=test, signs=signs)


def ratios(old: Sequence[float], new: Sequence[float]) -> Difference:
    """Compare pairs that are not alike by the logarithms of their ratios; all values positive."""
    logs = [[math.log(value) for value in side] for side in (old, new)]
    return replace(paired(*logs, alike=False), ratios=True)


def unpaired(old: Sequence[float], new: Sequence[float]) -> Difference:
    """Compare two samples by the t test of Welch (1947), which does not assume equal variances.

    A permutation test decides instead where values repeat, and as well where there are enough of
    them or not as many on each side: a few values near each other would pass for certain.
    """
    mean = sum(new) / len(new) - sum(old) / len(old)
    if min(len(old), len(new)) < 2:
        return Difference(mean)
    parts = [variance(sample) / len(sample) for sample in (old, new)]
    error = math.sqrt(sum(parts))
    weights = parts[0] ** 2 / (len(old) - 1) + parts[1] ** 2 / (len(new) - 1)
    freedom = sum(parts) ** 2 / weights if weights > 0 else float(len(old) + len(new) - 2)
    difference = _estimate(old, new, mean, error, freedom)
    guess = tail(mean / error, freedom) if error > 0 else 0.0
    if _repeats([*old, *new]):
        p, least = _permuted(old, new, guess)
        return replace(difference, p=p, least=least, test="permutation")
    p, least, test = _student(mean, error, freedom, len(old), len(new))
    if len(old) != len(new) or len(old) >= _MANY:
        exact, at_least = _permuted(old, new, guess)
        p, least = max(p, exact), max(least, at_least)
    return replace(difference, p=p, least=least, test=test)


def survival(old: Sequence[tuple[float, bool]], new: Sequence[tuple[float, bool]]) -> Difference:
    """Compare times of which some are longer than their run: (time, whether it ended) each.

    By the log-rank test, with the exact distribution of its score over all permutations. The effect
    is positive if the new times are longer.
    """
    times = sorted([*old, *new])
    hazard = 0.0
    scores: dict[tuple[float, bool], float] = {}
    at_risk = len(times)
    for time in dict.fromkeys(time for time, _ in times):
        those = [ended for at, ended in times if at == time]
        hazard += sum(those) / at_risk
        at_risk -= len(those)
        scores |= {(time, ended): hazard - ended for ended in those}
    sides = [[scores[one] for one in side] for side in (old, new)]
    effect = hedges(sides[0], sides[1])
    if min(map(len, sides)) < 2:
        return Difference(None, effect=effect)
    p, least = _permuted(sides[0], sides[1])
    return Difference(None, p=p, effect=effect, test="log rank", least=least)


def _estimate(
    old: Sequence[float], new: Sequence[float], mean: float, error: float, freedom: float
) -> Difference:
    difference = Difference(mean, effect=hedges(old, new), error=error, freedom=freedom)
    if min(len(old), len(new)) < FEWEST or error == 0:
        return difference
    low, high = student(mean, error, freedom)
    return replace(difference, low=low, high=high)


def _student(
    mean: float, error: float, freedom: float, old: int, new: int
) -> tuple[float, float, Test]:
    """Return the probability by t, and the least: that two modes look like two samples."""
    log = old * math.log(old) + new * math.log(new) - (old + new) * math.log(old + new)
    least = min(2 * math.exp(log), 1.0)
    p = tail(mean / error, freedom) if error > 0 else float(mean == 0)
    return max(p, least), least, "t"


def _repeats(values: Sequence[float]) -> bool:
    """Return whether some values are equal: then their variance may be too small by chance."""
    ranked = sorted(values)
    range_ = ranked[-1] - ranked[0]
    least = max(_ROUNDING * max(abs(ranked[0]), abs(ranked[-1])), _NEAR * range_)
    return any(b - a <= least for a, b in itertools.pairwise(ranked))


def _permuted(
    old: Sequence[float], new: Sequence[float], guess: float = 0.0
) -> tuple[float, float]:
    """Return how often the sides differ as much if the values are dealt to them at random.

    With it comes how often they differ most. A guess that is far from any verdict is kept.
    """
    pooled = sorted([*old, *new])
    middle = sum(pooled) / len(pooled)
    slack = _ROUNDING * sum(abs(value - middle) for value in pooled)
    ways = math.comb(len(pooled), len(old))
    ends = []
    for ranked in (pooled, pooled[::-1]):
        last = ranked[len(old) - 1]
        same = [abs(value - last) <= slack for value in ranked]
        reach = abs(sum(ranked[: len(old)]) - len(old) * middle)
        ends.append((reach, math.comb(sum(same), sum(same[: len(old)]))))
    most = max(reach for reach, _ in ends)
    least = sum(count for reach, count in ends if reach >= most - slack) / ways
    # If all are dealt to one side in two ways, these are the same.
    least = max(min(least, 1.0), 1 / (_MOST // 2 + 1) if ways > _MOST else 0.0)
    if guess > _FAR:
        return guess, least
    values = np.array([*old, *new]) - middle
    deals = _deals(len(old), len(new))
    observed = abs(float(values[: len(old)].sum()))
    return _share(deals @ values, observed - slack, complete=ways <= _MOST), least


def _flipped(differences: Sequence[float]) -> tuple[float, float]:
    """Return how often the differences are as large if their signs are random."""
    count = len(differences)
    complete = 2**count <= _MOST
    moved = sum(value != 0 for value in differences)
    least = max(min(2 * 0.5**moved, 1.0), 0.0 if complete else 1 / (_MOST // 2 + 1))
    values = np.array(differences)
    observed = abs(float(values.sum())) - _ROUNDING * float(abs(values).sum())
    return _share(_flips(count) @ values, observed, complete=complete), least


def _share(sums: NDArray[Any], observed: float, *, complete: bool) -> float:
    """Return the share of sums as large as the observed one; it is one of all."""
    as_large = int((abs(sums) >= observed).sum())
    return as_large / len(sums) if complete else (as_large + 1) / (len(sums) + 1)


@lru_cache(maxsize=4)
def _deals(old: int, new: int) -> NDArray[Any]:
    """Return which of all values come to the first side: a row for each way, or for many."""
    count = old + new
    if math.comb(count, old) > _MOST:
        rows = np.random.default_rng(1).random((_MOST // 2, count), np.float32)
        return (rows.argsort(axis=1) < old).astype(float)
    chosen = np.array(list(itertools.combinations(range(count), old)))
    deals = np.zeros((len(chosen), count))
    np.put_along_axis(deals, chosen, 1.0, axis=1)
    return deals


@lru_cache(maxsize=4)
def _flips(count: int) -> NDArray[Any]:
    """Return signs for as many differences: a row for each way to choose them, or for many."""
    if 2**count > _MOST:
        return np.random.default_rng(1).choice([-1.0, 1.0], (_MOST // 2, count))
    return 1.0 - 2.0 * (np.arange(2**count)[:, None] >> np.arange(count) & 1)


def hedges(old: Sequence[float], new: Sequence[float]) -> float | None:
    """Return Hedges' g; `None` if nothing varies."""
    freedom = len(old) + len(new) - 2
    squares = sum((len(sample) - 1) * variance(sample) for sample in (old, new))
    if freedom < 1 or squares <= 0:
        return None
    mean = sum(new) / len(new) - sum(old) / len(old)
    return mean / math.sqrt(squares / freedom) * (1 - 3 / (4 * freedom - 1))


def tail(t: float, freedom: float) -> float:
    """Return the two-sided tail probability of Student's t distribution."""
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -abs(t)))


def decidable(leasts: Sequence[float], level: float) -> list[int]:
    """Return the tests that can reach the level, corrected for as many as there are of them.

    After Tarone (1990): a test that cannot give a false alarm need not be corrected for.
    """
    for count in range(1, len(leasts) + 1):
        able = [nth for nth, least in enumerate(leasts) if least <= level / count]
        if len(able) <= count:
            return able
    return []


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust probabilities by Holm (1979): bounds the chance of even one false alarm."""
    order = sorted(range(len(ps)), key=lambda nth: ps[nth])
    ranked = [min((len(ps) - rank) * ps[nth], 1.0) for rank, nth in enumerate(order)]
    adjusted = dict(zip(order, itertools.accumulate(ranked, max), strict=True))
    return [adjusted[nth] for nth in range(len(ps))]


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """Adjust by Benjamini and Hochberg (1995): bounds the share of false alarms."""
    order = sorted(range(len(ps)), key=lambda nth: ps[nth], reverse=True)
    ranked = [min(ps[nth] * len(ps) / (len(ps) - rank), 1.0) for rank, nth in enumerate(order)]
    adjusted = dict(zip(order, itertools.accumulate(ranked, min), strict=True))
    return [adjusted[nth] for nth in range(len(ps))]
