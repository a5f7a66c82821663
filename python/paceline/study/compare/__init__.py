"""Same, better or worse: compare two runs, repeats or sweeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paceline import answers
from paceline.errors import PacelineError
from paceline.measures import all_named, higher_is_better
from paceline.study.compare import statistics
from paceline.study.compare.statistics import Difference
from paceline.study.compare.subjects import Subject, Values

CORRECTIONS = {"holm": statistics.holm, "bh": statistics.benjamini_hochberg}


class Incomparable(PacelineError):  # noqa: N818 - it says what two things are
    """Two results that have nothing in common."""


@dataclass(frozen=True)
class Finding:
    """A metric at a point: its old and new value, and the verdict."""

    point: str
    metric: str
    old: float | None
    new: float | None
    #: Values on each side, of how many runs, and how many of these ended before the time that the
    #: metric is; and whether values were compared seed by seed.
    counts: tuple[int, int]
    runs: tuple[int, int]
    censored: tuple[int, int]
    paired: bool
    #: Whether the pairs are of different paths, and not of seeds.
    by_point: bool
    difference: Difference | None
    #: The probability, corrected for multiple testing; none if so few runs cannot reach the level.
    p: float | None
    #: `same`; `better` or `worse`; `unclear`, if a difference may be chance; `untested`, if there
    #: are too few runs for any test; `lost` or `gained`, if it is defined on one side only.
    verdict: answers.Verdict

    @property
    def change(self) -> float | None:
        """The difference divided by the old value; of ratios, their geometric mean less 1."""
        return None if self.difference is None else self._part(self.difference.mean)

    @property
    def change_ends(self) -> tuple[float, float] | None:
        """The ends of the interval of that."""
        difference = self.difference
        low, high = (None, None) if difference is None else (difference.low, difference.high)
        ends = self._part(low), self._part(high)
        return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])

    def _part(self, difference: float | None) -> float | None:
        if self.difference is None or difference is None or self.old is None:
            return None
        if self.difference.ratios:
            return math.expm1(difference)
        if difference == 0:
            return 0.0
        return difference / abs(self.old) if self.old else math.copysign(math.inf, difference)

    @property
    def _shift(self) -> float | None:
        """The new value less the old one."""
        difference = self.difference
        if difference is None or difference.mean is None or self.old is None or self.new is None:
            return None
        return self.new - self.old if difference.ratios else difference.mean

    def as_json(self) -> answers.Finding:
        """Return the object that ``--json`` prints."""
        difference = self.difference
        signs = difference.signs if difference is not None else None
        shown = None if difference is None or difference.ratios else difference
        ends = self.change_ends or (None, None)
        return {
            "point": self.point,
            "metric": self.metric,
            "old": self.old,
            "new": self.new,
            "counts": list(self.counts),
            "runs": list(self.runs),
            "censored": list(self.censored),
            "paired": self.paired,
            "difference": self._shift,
            "low": None if shown is None else shown.low,
            "high": None if shown is None else shown.high,
            "change_ratio": _finite(self.change),
            "change_low_ratio": _finite(ends[0]),
            "change_high_ratio": _finite(ends[1]),
            "higher": None if signs is None else signs[0],
            "lower": None if signs is None else signs[1],
            "effect": None if difference is None else difference.effect,
            "test": None if difference is None else difference.test,
            "p": None if difference is None else difference.p,
            "p_adjusted": self.p,
            "verdict": self.verdict,
        }


def compare(
    old: Subject,
    new: Subject,
    metrics: Sequence[str] = (),
    *,
    tolerance: float = 0.01,
    level: float = 0.05,
    correction: str = "holm",
) -> list[Finding]:
    """Compare `new` with `old` at each point that both have.

    A difference counts if it is larger than `tolerance` times the old value, and if chance gives
    one as large with a probability below `level`, corrected for all that are tested here. Values
    of the same seeds are compared pair by pair; pairs of other paths by their ratios, if no value
    is zero or negative. Times that a run ended before are longer than it. A single run on a side
    says how large a difference is and not how sure; and where the seed changes nothing, its repeats
    are one run. What too few runs cannot decide is not tested.
    """
    pairs = [(point, point) for point in old.points if point in new.points]
    if not pairs and len(old.points) == len(new.points) == 1:
        pairs = [(next(iter(old.points)), next(iter(new.points)))]
    if not pairs:
        raise Incomparable(f"{old.name} and {new.name} have no point in common")
    names = all_named(metrics, max(old.flow_count, new.flow_count))
    names = names or [name for name in old.metrics() if name in new.metrics()]
    rows = []
    differences: list[Difference | None] = []
    for point, other in pairs:
        single = old.alike(point) and new.alike(other)
        alike = not old.is_paired_by_point(point)
        for name in names:
            sides = old.values(point, name), new.values(other, name)
            ended = old.censored(point, name), new.censored(other, name)
            rows.append((point, other, name, *sides, (len(ended[0]), len(ended[1]))))
            differences.append(_difference(*sides, *ended, single=single, alike=alike))
    adjusted = _adjusted(differences, level, CORRECTIONS[correction])
    findings = []
    for row, (difference, p) in zip(rows, adjusted, strict=True):
        point, other, name, before, after, longer = row
        if not (before and after) and (old.is_recording(point) or new.is_recording(other)):
            continue  # data that a recording lacks is not lost
        if not before and not after:
            continue
        means = [sum(v.values()) / len(v) if v else None for v in (before, after)]
        counts = (len(before), len(after))
        runs = (len(old.points[point]), len(new.points[other]))
        pairs_up = before.keys() == after.keys() and not any(longer)
        paired = old.is_paired_by_point(point)
        finding = Finding(
            point,
            name,
            means[0],
            means[1],
            counts,
            runs,
            longer,
            pairs_up,
            paired,
            difference,
            p,
            "same",
        )
        findings.append(replace(finding, verdict=_verdict(finding, tolerance, level)))
    return findings


def _adjusted(
    differences: Sequence[Difference | None],
    level: float,
    correct: Callable[[Sequence[float]], list[float]],
) -> list[tuple[Difference | None, float | None]]:
    """Return differences and their probabilities, both corrected for all that can be tested."""
    tests = [(n, d) for n, d in enumerate(differences) if d is not None and d.p is not None]
    able = [tests[n] for n in statistics.decidable([d.least for _, d in tests], level)]
    raw = [difference.p or 0.0 for _, difference in able]
    adjusted = {nth: p for (nth, _), p in zip(able, correct(raw), strict=True)}
    corrected: list[tuple[Difference | None, float | None]] = []
    for nth, difference in enumerate(differences):
        p, count = adjusted.get(nth), float(max(len(able), 1))
        if difference is not None and difference.p and p is not None and p < 1:
            count = max(p / difference.p, 1.0)
        corrected.append((None if difference is None else difference.corrected(count), p))
    return corrected


def differing(old: Subject, new: Subject) -> list[str]:
    """Return the keys in which the scenarios differ at the points that are compared."""
    keys: dict[str, None] = {}
    alone = len(old.points) == len(new.points) == 1
    for point in old.points:
        other = next(iter(new.points)) if alone else point
        if point not in old.settings or other not in new.settings:
            continue
        if old.is_recording(point) or new.is_recording(other):
            continue
        before, after = old.settings[point], new.settings[other]
        both = dict.fromkeys([*before, *after])
        keys |= {key: None for key in both if before.get(key) != after.get(key)}
    return list(keys)


def _difference(
    before: Values,
    after: Values,
    longer_before: Values,
    longer_after: Values,
    *,
    single: bool,
    alike: bool,
) -> Difference | None:
    if (longer_before or longer_after) and (before or after):
        sides = [
            [(least, False) for least in longer.values()]
            + [(v, True) for seed, v in values.items() if seed not in longer]
            for values, longer in ((before, longer_before), (after, longer_after))
        ]
        if all(sides):
            return statistics.survival(*([side[:1] for side in sides] if single else sides))
    if not before or not after:
        return None
    olds, news = list(before.values()), list(after.values())
    if single:
        return statistics.unpaired(olds[:1], news[:1])
    if before.keys() != after.keys():
        return statistics.unpaired(olds, news)
    news = [after[seed] for seed in before]
    if alike or min(*olds, *news) <= 0:
        return statistics.paired(olds, news, alike=alike)
    return statistics.ratios(olds, news)


def _verdict(finding: Finding, tolerance: float, level: float) -> answers.Verdict:
    difference = finding.difference
    sure = finding.p is not None and finding.p < level
    if difference is None or (not sure and (finding.old is None or finding.new is None)):
        return "lost" if finding.new is None else "gained"
    if finding.change is not None and abs(finding.change) <= tolerance:
        return "same"
    if finding.p is None:
        return "untested"
    if not sure:
        return "unclear"
    # Times that are longer than some runs have an effect and no mean.
    size = difference.effect or 0.0 if difference.mean is None else difference.mean
    return "better" if (size > 0) == higher_is_better(finding.metric) else "worse"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
