"""Measures and judges claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline import measures
from paceline.batch import Emulated, Job, Watch
from paceline.errors import RunError, ScenarioError
from paceline.names import nearest
from paceline.study.claims.claim import Bound, Change, Claim
from paceline.study.claims.conformance import conformance_values
from paceline.study.claims.expressions import Expression, ExpressionError, Names, Place
from paceline.study.claims.jobs import Pool
from paceline.study.claims.measured import Measured
from paceline.study.claims.quantity import Quantity, QuantityError
from paceline.study.claims.results import Changed, Condition, Figure, Result
from paceline.study.claims.startup import startup_values
from paceline.study.claims.tables import Filled, TableError

if TYPE_CHECKING:
    from paceline.query import Query


@dataclass
class Plan:
    """A claim, and the jobs of each of its cases by point and seed."""

    claim: Claim
    jobs: dict[str, list[list[Job]]] = field(default_factory=dict)
    error: str = ""
    #: For cases without a number of their own.
    seeds: int | None = None
    #: The claim with another choice, or with a cause.
    changed: list[tuple[Change, Plan]] = field(default_factory=list)
    #: The unchanged claim, with the seeds of a variant that has its own.
    longer: dict[int, Plan] = field(default_factory=dict)

    def all_jobs(self) -> Iterator[Job]:
        """Yield its jobs, and those of its changes."""
        for rows in self.jobs.values():
            yield from itertools.chain.from_iterable(rows)
        for plan in (*(plan for _, plan in self.changed), *self.longer.values()):
            yield from plan.all_jobs()


@dataclass(frozen=True)
class Verdicts:
    """The results of claims, in their order."""

    results: list[Result]
    #: The claims that Ctrl-C left unfinished.
    unfinished: list[Claim]
    #: The number of emulated and repeated runs, and the bounds that they exceeded.
    repeats: Emulated = field(default_factory=Emulated)


class Campaign:
    """Claims that run together: all of their runs form one pool."""

    def __init__(
        self,
        claims: Iterable[Claim],
        *,
        seeds: int | None = None,
        quick: bool = False,
        pool: Pool | None = None,
    ) -> None:
        self._pool = Pool() if pool is None else pool
        self._plans = [_planned(claim, self._pool, seeds, quick=quick) for claim in claims]

    def __len__(self) -> int:
        """Return how many runs there are."""
        return len(self._pool)

    def errors(self) -> dict[str, str]:
        """Return the errors in claims that cannot be run, by their ids."""
        return {plan.claim.id: plan.error for plan in self._plans if plan.error}

    def verify(self, *, threads: int | None = None, watch: Watch | None = None) -> Verdicts:
        """Run the scenarios and judge each claim; after Ctrl-C, those that are finished."""
        watch = watch or Watch()
        by_plan: dict[int, Result] = {}

        def judge(plans: Iterable[Plan]) -> None:
            for plan in plans:
                if id(plan) not in by_plan:
                    by_plan[id(plan)] = judged(plan, self._pool)

        # After Ctrl-C nothing slow is started: claims without runs are judged before.
        with suppress(KeyboardInterrupt):
            judge(plan for plan in self._plans if not plan.jobs and not plan.claim.conformance)
            self._pool.run(threads=threads, watch=watch)
            judge(self._plans)
        judge(plan for plan in self._plans if plan.jobs and _is_done(plan, self._pool))
        results = [by_plan[id(plan)] for plan in self._plans if id(plan) in by_plan]
        unfinished = [plan.claim for plan in self._plans if id(plan) not in by_plan]
        return Verdicts(results, unfinished, watch.repeats)


def _is_done(plan: Plan, pool: Pool) -> bool:
    ended = all(job in pool.records or job in pool.failures for job in plan.all_jobs())
    return ended and plan.claim.conformance is None


def _planned(claim: Claim, pool: Pool, seeds: int | None, *, quick: bool) -> Plan:
    """Return the plan of a claim, with its choices and variants."""
    claim = claim.short() if quick else claim
    plan = plan_of(claim, pool, seeds, quick=quick)
    for change in (*claim.choices, *claim.variants) if not plan.error else ():
        plan.changed.append((change, plan_of(change.of(claim), pool, seeds, quick=quick)))
        if change.halves and change.seeds and not quick and change.seeds not in plan.longer:
            same = Change("", "", seeds=change.seeds, halves=change.halves)
            plan.longer[change.seeds] = plan_of(same.of(claim), pool, seeds, quick=False)
    return plan


def plan_of(claim: Claim, pool: Pool, seeds: int | None, *, quick: bool) -> Plan:
    """Return the plan of a claim by itself."""
    plan = Plan(claim)
    try:
        _check(claim)
        for name, case in claim.cases.items():
            common = seeds or (min(claim.quick.seeds, claim.seeds) if quick else claim.seeds)
            count = common if seeds or quick else case.seeds or common
            plan.seeds = common
            extra = claim.quick.overrides if quick else ()
            plan.jobs[name] = [
                [
                    pool.job(case.scenario, point + case.varied(seed) + extra, seed, case.backend)
                    for seed in range(1, count + 1)
                ]
                for point in case.points()
            ]
            queries = _queries(claim, name)
            for job in itertools.chain.from_iterable(plan.jobs[name]):
                pool.add(job, queries)
        for picture in claim.pictures:
            for place in picture.cases:
                job = _drawn(claim, place, plan.jobs[place.case])
                pool.add(job, picture.queries, keep=picture.kind == "sequence")
    except (ExpressionError, ScenarioError, OSError, UnicodeDecodeError) as error:
        plan.error = str(error)
        plan.jobs = {}
    return plan


def _drawn(claim: Claim, place: Place, jobs: list[list[Job]]) -> Job:
    """Return the job of seed 1 at a single point."""
    measured = Measured(claim.cases[place.case], [], {})
    try:
        axes, rows = measured.chosen(place.points)
    except QuantityError as error:
        raise ExpressionError(f"a picture of {place.case}: {error}") from error
    if axes:
        raise ExpressionError(f"a picture of {place.case}: choose one point of its sweep")
    return jobs[rows[0]][0]


def _check(claim: Claim) -> None:
    """Check, before anything runs, that everything named in expressions exists."""
    double = (measures.names("run") & set(claim.values)) | (set(claim.cases) & set(claim.figures))
    if double:
        raise ExpressionError(f"{sorted(double)[0]!r} is defined twice")
    for expression in claim.expressions():
        for case, group, name in sorted(expression.uses(), key=str):
            if case not in claim.cases:
                raise _unknown(expression, "case", case, claim.cases)
            known = measures.names("flow") if group else measures.names("run") | set(claim.values)
            if name not in known:
                raise _unknown(expression, "metric", name, known)
    for place in (place for picture in claim.pictures for place in picture.cases):
        if place.case not in claim.cases:
            raise ExpressionError(f"a picture of {place.case!r}, which is not a case")


def _unknown(expression: Expression, what: str, name: str, known: Iterable[str]) -> ExpressionError:
    near = nearest(name, known)
    mean = f"; did you mean {near!r}?" if near else ""
    return ExpressionError(f"{expression.text!r}: no {what} is called {name!r}{mean}")


def _queries(claim: Claim, case: str) -> list[Query]:
    """Return the queries of a case whose values expressions use."""
    uses = [use for expression in claim.expressions() for use in expression.uses()]
    used = {name for of, _, name in uses if of == case}
    return [query for name, query in claim.values.items() if name in used]


def judged(plan: Plan, pool: Pool) -> Result:
    """Return the result of a claim whose runs have ended."""
    claim = plan.claim
    names: Names = {}
    tables: tuple[Filled, ...] = ()
    lost: list[str] = []
    try:
        if plan.error:
            raise RunError(plan.error)
        names, lost = names_of(plan, pool)
        tables = tuple(table.filled(names) for table in claim.tables)
        measured = claim.measured.estimate(names)
        accept = tuple(_condition(bound, names) for bound in claim.accept)
        beside = tuple(_figure(name, text, names) for name, text in claim.beside.items())
        if not math.isfinite(measured[0]):
            what = "undefined" if math.isnan(measured[0]) else "infinite"
            raise RunError(f"{claim.measured.text!r} is {what}")
    except (ExpressionError, RunError, TableError) as error:
        why = ". ".join([str(error), *lost])
        return Result(claim, "error", why=why, names=names, tables=tables)
    missed = "; ".join(condition.text() for condition in accept if not condition.held)
    why = ". ".join(filter(None, [missed, claim.why if missed else "", *lost]))
    verdict = _verdict(claim, missed=bool(missed))
    changed = [(change, other) for change, other in plan.changed if change in claim.choices]
    choices = [_choice(change, other, names, pool) for change, other in changed]
    changed = [(change, other) for change, other in plan.changed if change in claim.variants]
    variants = [_variant(plan, change, other, names, pool) for change, other in changed]
    value, low, high = measured
    return Result(
        claim,
        verdict,
        float(value),
        low,
        high,
        why,
        accept,
        beside,
        tuple(choices),
        tuple(variants),
        names,
        tables,
        plan.seeds,
    )


def _verdict(claim: Claim, *, missed: bool) -> str:
    if claim.finding:
        return "finding"
    if missed:
        return "not reproduced"
    return "reproduced by choice" if claim.choice else "reproduced"


def _choice(change: Change, plan: Plan, names: Names, pool: Pool) -> Changed:
    """Return the result of another choice; one that only measures needs no run of its own."""
    if not change.overrides and not change.swap and change.measured is not None:
        try:
            measured = change.measured.estimate(names)
        except ExpressionError as error:
            return Changed(change.name, change.that, found=str(error))
        if not math.isfinite(measured[0]):
            return Changed(change.name, change.that, found="undefined")
        return Changed(change.name, change.that, *measured, True, "beside")
    return _changed(change, judged(plan, pool))


def _changed(change: Change, result: Result) -> Changed:
    if result.measured is None:
        return Changed(change.name, change.that, found=result.why)
    missed = [condition.text() for condition in result.accept if not condition.held]
    text = "; ".join(missed) or "every bound holds"
    measured = result.measured, result.low, result.high
    return Changed(change.name, change.that, *measured, not missed, text)


def _variant(plan: Plan, change: Change, changed: Plan, names: Names, pool: Pool) -> Changed:
    """Return the effect of a cause alone: every bound holds with it, or it halves the gap."""
    result = _changed(change, judged(changed, pool))
    if change.halves is None or result.measured is None:
        return result
    try:
        if change.seeds in plan.longer:
            names, _ = names_of(plan.longer[change.seeds], pool)
        gap = change.halves.value(names)
        left = change.halves.value(names_of(changed, pool)[0])
    except (ExpressionError, RunError) as error:
        return replace(result, held=False, found=str(error))
    is_halved = gap > 0 and left <= gap / 2
    return replace(result, held=is_halved, found=f"the gap is {left:.4g} for {gap:.4g}")


def _condition(bound: Bound, names: Names) -> Condition:
    of = bound.expression
    fields = vars(bound) | {"expression": of.text}
    return Condition(**fields, held=of.holds(names), found=of.measured(names))


def _figure(name: str, expression: Expression, names: Names) -> Figure:
    measured = expression.estimate(names)
    return Figure(name, *measured) if math.isfinite(measured[0]) else Figure(name, None)


def names_of(plan: Plan, pool: Pool) -> tuple[Names, list[str]]:
    """Return the names available to expressions, and which emulated runs are missing."""
    lost = []
    figures = plan.claim.figures.items()
    names: dict[str, Any] = {name: Quantity.published(figure) for name, figure in figures}
    used = {name for expression in plan.claim.expressions() for name in expression.names()}
    numbers = startup_values(plan.claim.startup_rows, used)
    if plan.claim.conformance is not None:
        key = (plan.claim.conformance, plan.claim.conforms)
        if key not in pool.conformed:
            pool.conformed[key] = conformance_values(*key)
        numbers |= pool.conformed[key]
    names |= {name: Quantity.number(value) for name, value in numbers.items()}
    for name, rows in plan.jobs.items():
        for job in itertools.chain.from_iterable(rows):
            if job in pool.failures:
                if job.backend == "sim":
                    where = f"{Path(job.file).name}, seed {job.seed}"
                    raise RunError(f"{where}: {pool.failures[job]}")
                place = ", ".join(value for _, value in job.overrides)
                lost.append(f"without {place}, seed {job.seed}: {pool.failures[job]}")
        records = [[pool.records.get(job) for job in row] for row in rows]
        names[name] = Measured(plan.claim.cases[name], records, plan.claim.values)
    return names, lost
