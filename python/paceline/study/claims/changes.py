"""Changes of a claim: a cause put in or taken away, another choice, a mutant.

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
    """A claim changed: what is set in which of its cases, or which case takes another's place."""

    name: str
    #: What is changed, in words.
    that: str
    overrides: Overrides = ()
    #: In which cases; in all if none is named.
    cases: tuple[str, ...] = ()
    #: By a case's name, the case whose runs take its place.
    swap: dict[str, str] = field(default_factory=dict)
    #: What `bbr3` is in the conformance cases, as `flows.cc` takes it.
    conformance: str = ""
    #: Seeds 1 to this, of every case; those of the claim if none.
    seeds: int | None = None
    #: Of a variant: a gap that it must at least halve; none if every bound must hold with it.
    halves: Expression | None = None
    #: Of a variant or a choice: another figure than the one that the claim measures.
    measured: Expression | None = None

    def of(self, claim: Claim) -> Claim:
        """Return the claim so changed, without what is only shown."""
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
