"""What became of a claim: its verdict and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.quantities import NONE
from paceline.study.claims.claim import Claim
from paceline.study.claims.expressions import Names
from paceline.study.claims.tables import Filled


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"


@dataclass(frozen=True)
class Condition:
    """A condition of a claim's acceptance, and whether it held."""

    expression: str
    #: The same as a sentence.
    that: str
    held: bool
    #: What was found where it compares.
    found: str
    #: Who set it, `source` or `ours`, and why if it is ours.
    by: str = "source"
    reason: str = ""
    #: The bound that stood here before, and why it does not any more.
    corrected: str = ""

    def set_by(self) -> str:
        """Return for people who set it, and what stood here before."""
        said = "bound of the source" if self.by == "source" else f"bound of ours: {self.reason}"
        return f"{said}. Corrected: {self.corrected}" if self.corrected else said

    def text(self) -> str:
        """Return it for people: whether it holds, and what was found where it does not."""
        if self.held:
            return f"holds: {self.that}"
        return f"fails: {self.that}" + (f" ({self.found})" if self.found else "")


@dataclass(frozen=True)
class Figure:
    """A figure that is stated beside the verdict."""

    name: str
    measured: float | None
    low: float | None = None
    high: float | None = None

    def text(self) -> str:
        """Return it for people, with its interval."""
        if self.measured is None:
            return "undefined"
        return f"{self.measured:.4g}" + _interval(self.low, self.high)


@dataclass(frozen=True)
class Changed:
    """A claim with something changed: another choice, or a cause put in or taken away."""

    name: str
    that: str
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    #: Whether every bound holds with it; of a variant also, whether it halves the gap.
    held: bool = False
    #: The bounds that do not hold, or what was found of the gap; or why it could not be measured.
    found: str = ""

    def text(self) -> str:
        """Return it for people."""
        if self.measured is None:
            return f"{self.that}: {self.found}"
        figure = f"{self.measured:.4g}" + _interval(self.low, self.high)
        return f"{self.that}: {figure}, {self.found}"


@dataclass(frozen=True)
class Result:
    """What was published, what was measured, and whether it was reproduced."""

    claim: Claim
    verdict: str
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""
    accept: tuple[Condition, ...] = ()
    beside: tuple[Figure, ...] = ()
    #: What the other choices give, and what each cause does on its own.
    choices: tuple[Changed, ...] = ()
    variants: tuple[Changed, ...] = ()
    #: What its pictures are drawn from.
    names: Names = field(default_factory=dict, repr=False, compare=False)
    tables: tuple[Filled, ...] = ()
    #: How many seeds a case without a number of its own was run with; none without cases.
    seeds: int | None = None

    @property
    def stands(self) -> bool:
        """Whether it was measured and each of its bounds holds."""
        return self.verdict != "error" and all(condition.held for condition in self.accept)

    def figure(self) -> str:
        """Return what was measured as a sentence: its name and unit, its interval, the seeds."""
        over = f", {self.seeds} seeds" if self.seeds else ""
        return f"{self.claim.measures or self.claim.measured.text}: {self.shown()}{over}"

    def shown(self) -> str:
        """Return what was measured for people, with its interval."""
        if self.measured is None:
            return NONE
        # What is computed and not simulated is known to all of its digits.
        digits = 4 if self.claim.cases else 7
        return f"{self.measured:.{digits}g}" + _interval(self.low, self.high)

    def cause(self) -> str:
        """Return why it is not reproduced, without the expressions where the cause is known."""
        said = self.claim.why if self.verdict == "not reproduced" and self.claim.why else self.why
        shown = [f"{variant.text()}." for variant in self.variants if variant.held]
        return " ".join([said, *shown])

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        claim = self.claim
        return {
            "id": claim.id,
            "topic": claim.topic,
            "source": claim.source,
            "published": claim.published,
            "measures": claim.measures,
            "measured": self.measured,
            "seeds": self.seeds,
            "low": self.low,
            "high": self.high,
            "verdict": self.verdict,
            "why": self.why,
            "accept": [vars(condition) for condition in self.accept],
            "choice": claim.choice,
            "choices": [vars(changed) for changed in self.choices],
            "variants": [vars(changed) for changed in self.variants],
            "beside": [vars(figure) for figure in self.beside],
            "tables": [table.as_json() for table in self.tables],
        }


def tally(verdicts: Sequence[str]) -> str:
    """Return how many claims of a list have each verdict."""
    chosen, findings = verdicts.count("reproduced by choice"), verdicts.count("finding")
    held = verdicts.count("reproduced") + chosen
    by_choice = f", {chosen} of them by choice" if chosen else ""
    beside = f"; {findings} {'finding' if findings == 1 else 'findings'}" if findings else ""
    return f"{held} of {len(verdicts) - findings} claims reproduced{by_choice}{beside}"
