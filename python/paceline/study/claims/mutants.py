"""Mutants of claims: the subject of a claim is removed. With each mutant it must not hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from paceline.batch import Watch
from paceline.errors import RunError
from paceline.study.claims.claim import Change, Claim
from paceline.study.claims.expressions import ExpressionError, Names
from paceline.study.claims.jobs import Pool
from paceline.study.claims.measured import Measured
from paceline.study.claims.runner import Plan, judged, names_of, plan_of

#: In how many of the draws of seeds the claim must hold and the mutant fail.
ENOUGH = 0.9

Outcome = Literal["fails", "survives", "not judged", "error"]


@dataclass(frozen=True)
class Mutant:
    """The result of a mutant."""

    claim: Claim
    change: Change
    #: `fails`, as it must; `survives`; or `not judged`, because the claim itself does not hold.
    outcome: Outcome
    #: The bounds that fail with it, or why there is no result.
    found: str
    #: In how many draws of the seeds, each without one of them, the claim holds and it fails.
    draws: int = 0
    of: int = 0

    def text(self) -> str:
        """Return it for people."""
        draws = f" in {self.draws} of {self.of} draws of the seeds" if self.of > 1 else ""
        return f"{self.outcome}{draws}" if self.outcome in ("fails", "survives") else self.outcome

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        values = {key: getattr(self, key) for key in ("outcome", "found", "draws", "of")}
        change = self.change
        return {"claim": self.claim.id, "mutant": change.name, "that": change.that, **values}


class Mutants:
    """Claims and their mutants, run together with the same seeds."""

    def __init__(
        self, claims: Sequence[Claim], *, seeds: int | None = None, quick: bool = False
    ) -> None:
        self._pool = Pool("mutants")
        self._quick = quick
        self._plans: list[tuple[Plan, Change, Plan]] = []
        for claim in claims:
            if claim.mutants:
                short = claim.short() if quick else claim
                plan = plan_of(Change("", "").of(short), self._pool, seeds, quick=quick)
                for mutant in (m for m in claim.mutants if not (quick and m.long)):
                    changed = plan_of(mutant.of(short), self._pool, seeds, quick=quick)
                    self._plans.append((plan, mutant, changed))

    @property
    def count(self) -> int:
        """The number of mutants."""
        return len(self._plans)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._pool)

    def run(
        self, *, threads: int | None = None, watch: Watch | None = None
    ) -> tuple[list[Mutant], bool]:
        """Run all; return the result of each, and whether Ctrl-C left some unfinished."""
        with suppress(KeyboardInterrupt):
            self._pool.run(threads=threads, watch=watch)
            return [_judge(*p, self._pool, quick=self._quick) for p in self._plans], False
        return [], True


def _judge(plan: Plan, change: Change, changed: Plan, pool: Pool, *, quick: bool) -> Mutant:
    claim = plan.claim
    whole = judged(plan, pool)
    if not whole.stands:
        return Mutant(claim, change, "not judged", f"the claim does not hold: {whole.why}")
    if changed.error:
        return Mutant(claim, change, "error", changed.error)
    try:
        names, others = names_of(plan, pool)[0], names_of(changed, pool)[0]
    except RunError as error:
        return Mutant(claim, change, "error", str(error))
    missed = _missed(changed.claim, others)
    # The two or three seeds of a short form are too few to leave one out.
    seeds = (len(jobs) for rows in plan.jobs.values() for jobs in rows)
    count = 0 if quick else max(seeds, default=1)
    draws = sum(
        not _missed(claim, _without(names, seed))
        and bool(_missed(changed.claim, _without(others, seed)))
        for seed in range(count)
    )
    fails = bool(missed) and draws >= ENOUGH * count
    measured = "; ".join(missed) or "every bound holds"
    return Mutant(claim, change, "fails" if fails else "survives", measured, draws, count)


def _without(names: Names, seed: int) -> Names:
    return {
        name: value.without(seed) if isinstance(value, Measured) else value
        for name, value in names.items()
    }


def _missed(claim: Claim, names: Names) -> list[str]:
    """Return the bounds that do not hold; one over something undefined does not."""
    missed = []
    for bound in claim.accept:
        try:
            if bound.expression.holds(names):
                continue
            measured = bound.expression.measured(names)
        except ExpressionError:
            measured = "undefined"
        missed.append(f"{bound.that} ({measured})" if measured else bound.that)
    return missed
