"""The results of a claim: its verdict and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.quantities import NONE
from paceline.study.claims.claim import Claim
from paceline.study.claims.expressions import Names
from paceline.study.claims.tables import Filled

#: The verdict on a claim whose source leaves something open.
_BY_CHOICE = "reproduced by choice"


def _shown(value: float, low: float | None, high: float | None, digits: int = 4) -> str:
    interval = "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"
    return f"{value:.{digits}g}{interval}"


@dataclass(frozen=True)
class Condition:
    """A condition of a claim's acceptance, and whether it held."""

    expression: str
    #: The same as a sentence.
    that: str
    held: bool
    #: The results of its comparisons.
    found: str
    #: Who set it, `source` or `ours`, and the reason if it is ours.
    by: str = "source"
    reason: str = ""
    #: The previous bound, and why it was changed.
    corrected: str = ""

    def set_by(self) -> str:
        """Return for people who set it, and the previous bound."""
        source = "bound of the source" if self.by == "source" else f"bound of ours: {self.reason}"
        return f"{source}. {self.correction()}" if self.corrected else source

    def correction(self) -> str:
        """Return the previous bound, and why it was changed."""
        old, _, why = self.corrected.partition(": ")
        return f"Old bound: {old}{f'; changed because {why}' if why else ''}"

    def text(self) -> str:
        """Return it for people: whether it holds, and the result."""
        word = "holds" if self.held else "fails"
        return f"{word}: {self.that}" + (f" ({self.found})" if self.found else "")


@dataclass(frozen=True)
class Figure:
    """An additional figure next to the verdict."""

    name: str
    measured: float | None
    low: float | None = None
    high: float | None = None

    def text(self) -> str:
        """Return it for people, with its interval."""
        if self.measured is None:
            return "undefined"
        return _shown(self.measured, self.low, self.high)


@dataclass(frozen=True)
class Changed:
    """A changed claim: another choice, or a cause added or removed."""

    name: str
    that: str
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    #: Whether every bound holds with it; for a variant also, whether it halves the gap.
    held: bool = False
    #: The bounds that do not hold, or the resulting gap; or why it could not be measured.
    found: str = ""

    def text(self) -> str:
        """Return it for people."""
        if self.measured is None:
            return f"{self.that}: {self.found}"
        return f"{self.that}: {_shown(self.measured, self.low, self.high)}, {self.found}"


@dataclass(frozen=True)
class Result:
    """The published result, the measured one, and whether it was reproduced."""

    claim: Claim
    verdict: str
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""
    accept: tuple[Condition, ...] = ()
    beside: tuple[Figure, ...] = ()
    #: The results of the other choices, and the effect of each cause on its own.
    choices: tuple[Changed, ...] = ()
    variants: tuple[Changed, ...] = ()
    #: The data of its pictures.
    names: Names = field(default_factory=dict, repr=False, compare=False)
    tables: tuple[Filled, ...] = ()
    #: The number of seeds of cases without a number of their own; none without cases.
    seeds: int | None = None

    @property
    def stands(self) -> bool:
        """Whether it was measured and each of its bounds holds."""
        return self.verdict != "error" and all(condition.held for condition in self.accept)

    def figure(self) -> str:
        """Return the measured result as a sentence: its name and unit, its interval, the seeds."""
        over = f", {self.seeds} seeds" if self.seeds else ""
        return f"{self.claim.measures or self.claim.measured.text}: {self.shown()}{over}"

    def shown(self) -> str:
        """Return the measured result for people, with its interval."""
        if self.measured is None:
            return NONE
        # A computed, not simulated, value is known to all of its digits.
        return _shown(self.measured, self.low, self.high, 4 if self.claim.cases else 7)

    def cause(self) -> str:
        """Return why it is not reproduced, without the expressions if the cause is known."""
        why = self.claim.why if self.verdict == "not reproduced" and self.claim.why else self.why
        shown = [f"{variant.text()}." for variant in self.variants if variant.held]
        return " ".join([why, *shown])

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        declared = ("id", "topic", "source", "published", "measures")
        keys = ("measured", "seeds", "low", "high", "verdict", "why")
        return {
            **{key: getattr(self.claim, key) for key in declared},
            **{key: getattr(self, key) for key in keys},
            "accept": list(map(vars, self.accept)),
            "choice": self.claim.choice,
            "choices": list(map(vars, self.choices)),
            "variants": list(map(vars, self.variants)),
            "beside": list(map(vars, self.beside)),
            "tables": [table.as_json() for table in self.tables],
        }


def in_words(verdict: str) -> str:
    """Return a verdict as text for people."""
    return "reproduced under a stated assumption" if verdict == _BY_CHOICE else verdict


#: What the short forms are for.
NOT_QUOTED = "quick mode: a check that everything works; do not quote its verdicts"


def tally(verdicts: Sequence[str]) -> str:
    """Return how many claims of a list have each verdict."""
    chosen, findings = verdicts.count(_BY_CHOICE), verdicts.count("finding")
    reproduced = verdicts.count("reproduced") + chosen
    by_choice = f", {chosen} of them under a stated assumption" if chosen else ""
    beside = f"; {findings} {'finding' if findings == 1 else 'findings'}" if findings else ""
    return f"{reproduced} of {len(verdicts) - findings} claims reproduced{by_choice}{beside}"
