"""Changes of a claim: a cause added or removed, another choice, a mutant.

All are the claim with something else set in its cases. They differ in what is expected of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paceline.grid import Overrides
from paceline.study.claims.expressions import Expression

if TYPE_CHECKING:
    from paceline.study.claims.claim import Claim


@dataclass(frozen=True)
class Change:
    """A change of a claim: settings in some of its cases, or a case replaced by another."""

    name: str
    #: The change, in words.
    that: str
    overrides: Overrides = ()
    #: The cases that are changed; all if none is named.
    cases: tuple[str, ...] = ()
    #: By a case's name, the case whose runs take its place.
    swap: dict[str, str] = field(default_factory=dict)
    #: The value of `bbr3` in the conformance cases, in the form of `flows.cc`.
    conformance: str = ""
    #: Of a mutant: why only the long form of the claim shows that it fails.
    long: str = ""
    #: Seeds 1 to this, of every case; those of the claim if none.
    seeds: int | None = None
    #: Of a variant: a gap that it must at least halve; none if every bound must hold with it.
    halves: Expression | None = None
    #: Of a variant or a choice: another figure than the one that the claim measures.
    measured: Expression | None = None

    def of(self, claim: Claim) -> Claim:
        """Return the changed claim, without its display elements."""
        cases = dict(claim.cases)
        for name in self.cases or (tuple(cases) if self.overrides else ()):
            cases[name] = replace(cases[name], after=cases[name].after + self.overrides)
        for name, other in self.swap.items():
            cases[name] = claim.cases[other]
        if self.seeds is not None:
            cases = {name: replace(case, seeds=None) for name, case in cases.items()}
        halves = {"": self.halves} if self.halves else {}
        return replace(
            claim,
            cases=cases,
            measured=self.measured or claim.measured,
            seeds=self.seeds or claim.seeds,
            conforms=self.conformance or claim.conforms,
            beside=halves,
            pictures=(),
            tables=(),
            variants=(),
            choices=(),
            mutants=(),
        )
