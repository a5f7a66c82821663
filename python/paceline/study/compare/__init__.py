"""Same, better or worse: compare two runs, repeats or sweeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paceline import answers
from paceline.errors import PacelineError
from paceline.measures import higher_is_better
from paceline.study.compare.statistics import Difference, benjamini_hochberg, holm, paired, unpaired
from paceline.study.compare.subjects import Subject, Values, read, split

__all__ = [
    "CORRECTIONS",
    "Finding",
    "Incomparable",
    "Subject",
    "compare",
    "differing",
    "read",
    "split",
]

CORRECTIONS = {"holm": holm, "bh": benjamini_hochberg}


class Incomparable(PacelineError):  # noqa: N818 - it says what two things are
    """Two results that have nothing in common."""


@dataclass(frozen=True)
class Finding:
    """A metric at a point: its old and new value, and the verdict."""

    point: str
    metric: str
    old: float | None
    new: float | None
    #: Values on each side, and whether they were compared seed by seed.
    counts: tuple[int, int]
    paired: bool
    difference: Difference | None
    #: The probability, corrected for multiple testing; none for single runs.
    p: float | None
    #: `same`; `better` or `worse`; `unclear`, if a difference may be chance; `untested`, if there
    #: is only one run per side; `lost` or `gained`, if it is defined on one side only.
    verdict: answers.Verdict

    @property
    def change(self) -> float | None:
        """The difference divided by the old value."""
        if self.difference is None or self.old is None:
            return None
        if self.difference.mean == 0:
            return 0.0
        return self.difference.mean / abs(self.old) if self.old else math.inf

    def as_json(self) -> answers.Finding:
        """Return the object that ``--json`` prints."""
        found = self.difference
        change = self.change
        return {
            "point": self.point,
            "metric": self.metric,
            "old": self.old,
            "new": self.new,
            "counts": list(self.counts),
            "paired": self.paired,
            "difference": None if found is None else found.mean,
            "low": None if found is None else found.low,
            "high": None if found is None else found.high,
            "change_ratio": change if change is not None and math.isfinite(change) else None,
            "effect": None if found is None else found.effect,
            "p": None if found is None else found.p,
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
    of the same seeds are compared pair by pair. A single run on a side says how large a difference
    is and not how sure; and where the seed changes nothing, its repeats are one run.
    """
    points = [point for point in old.points if point in new.points]
    pairs = [(point, point) for point in points]
    if not pairs and len(old.points) == len(new.points) == 1:
        pairs = [(next(iter(old.points)), next(iter(new.points)))]
    if not pairs:
        raise Incomparable(f"{old.name} and {new.name} have no point in common")
    recorded = {p: old.is_recording(p) or new.is_recording(other) for p, other in pairs}
    names = metrics or [name for name in old.metrics() if name in new.metrics()]
    rows = [
        (point, name, old.values(point, name), new.values(other, name))
        for point, other in pairs
        for name in names
    ]
    single = {point for point, other in pairs if old.alike(point) and new.alike(other)}
    differences = [_difference(a, b, single=point in single) for point, _, a, b in rows]
    tested = [nth for nth, d in enumerate(differences) if d is not None and d.p is not None]
    raw = [differences[nth].p or 0.0 for nth in tested]  # type: ignore[union-attr]
    adjusted = dict(zip(tested, CORRECTIONS[correction](raw), strict=True))
    findings = []
    for nth, (point, name, before, after) in enumerate(rows):
        if not before and not after:
            continue
        if not (before and after) and recorded[point]:
            continue  # data that a recording lacks is not lost
        means = [sum(v.values()) / len(v) if v else None for v in (before, after)]
        p = adjusted.get(nth)
        findings.append(
            Finding(
                point,
                name,
                means[0],
                means[1],
                (len(before), len(after)),
                before.keys() == after.keys(),
                differences[nth],
                p,
                _verdict(name, means[0], means[1], differences[nth], p, tolerance, level),
            )
        )
    return findings


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
        for key in [*before, *(key for key in after if key not in before)]:
            if before.get(key) != after.get(key):
                keys[key] = None
    return list(keys)


def _difference(before: Values, after: Values, *, single: bool) -> Difference | None:
    if not before or not after:
        return None
    if single:
        return unpaired(list(before.values())[:1], list(after.values())[:1])
    if before.keys() == after.keys():
        return paired(list(before.values()), [after[seed] for seed in before])
    return unpaired(list(before.values()), list(after.values()))


def _verdict(
    metric: str,
    old: float | None,
    new: float | None,
    difference: Difference | None,
    p: float | None,
    tolerance: float,
    level: float,
) -> answers.Verdict:
    if old is None or new is None or difference is None:
        return "lost" if new is None else "gained"
    if abs(difference.mean) <= tolerance * abs(old):
        return "same"
    if p is None:
        return "untested"
    if p >= level:
        return "unclear"
    return "better" if (difference.mean > 0) == higher_is_better(metric) else "worse"
