"""Claims, measured and judged."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline import _paceline
from paceline.claims.claim import Case, Claim, nearest
from paceline.claims.expressions import (
    Expression,
    ExpressionError,
    Flows,
    Names,
    Place,
)
from paceline.claims.jobs import Job, Pool, Record
from paceline.claims.quantity import Quantity, QuantityError
from paceline.claims.startup import startup_values
from paceline.errors import RunError, ScenarioError
from paceline.quantities import NONE
from paceline.runs import Progress

#: What the metrics of several flows add up to, by the end of their names; the rest is averaged.
_ADDITIVE = ("_bps", "_bytes", "_packets", "_count")


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"


@dataclass(frozen=True)
class Condition:
    """An expression of a claim's acceptance, and what came of it."""

    expression: str
    held: bool
    #: What was found where it compares.
    found: str


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
    #: What its pictures are drawn from.
    names: Names = field(default_factory=dict, repr=False, compare=False)

    def shown(self) -> str:
        """Return what was measured for people, with its interval."""
        if self.measured is None:
            return NONE
        return f"{self.measured:.7g}" + _interval(self.low, self.high)

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        claim = self.claim
        return {
            "id": claim.id,
            "topic": claim.topic,
            "source": claim.source,
            "published": claim.published,
            "measured": self.measured,
            "low": self.low,
            "high": self.high,
            "verdict": self.verdict,
            "why": self.why,
            "accept": [vars(condition) for condition in self.accept],
            "beside": [vars(figure) for figure in self.beside],
        }


class Measured:
    """What was measured of a case: a record for each point and seed."""

    def __init__(
        self, case: Case, records: Sequence[Sequence[Record]], values: dict[str, str]
    ) -> None:
        self._axes = case.axes
        self._records = records
        self._values = values

    def records(self, points: Sequence[slice | str]) -> list[Sequence[Record]]:
        """Return the records of the seeds at each of the chosen points."""
        return [self._records[row] for row in self.chosen(points)[1]]

    def quantity(self, points: Sequence[slice | str], flows: Flows | None, name: str) -> Quantity:
        """Return a metric or value at the chosen points, of a run or of some of its flows."""
        axes, rows = self.chosen(points)
        return Quantity(
            axes,
            tuple(tuple(self._value(r, flows, name) for r in self._records[row]) for row in rows),
            seeded=True,
        )

    def chosen(
        self, points: Sequence[slice | str]
    ) -> tuple[tuple[tuple[str, ...], ...], list[int]]:
        """Return the axes that are left and the rows of the chosen points."""
        if points and len(points) != len(self._axes):
            raise QuantityError(f"{len(points)} indices for {len(self._axes)} axes")
        indices: list[Sequence[int]] = []
        axes = []
        everything = [slice(None)] * len(self._axes)
        for axis, point in zip(self._axes, points or everything, strict=True):
            if isinstance(point, slice):
                first = 0 if point.start is None else _index(axis, point.start)
                end = len(axis) if point.stop is None else _index(axis, point.stop) + 1
                if first >= end:
                    raise QuantityError(f"there is no point from {point.start!r} to {point.stop!r}")
                indices.append(range(first, end))
                axes.append(axis[first:end])
            else:
                indices.append([_index(axis, str(point))])
        rows = []
        for place in itertools.product(*indices):
            row = 0
            for axis, index in zip(self._axes, place, strict=True):
                row = row * len(axis) + index
            rows.append(row)
        return tuple(axes), rows

    def _value(self, record: Record, flows: Flows | None, name: str) -> float:
        if flows is not None:
            return _of_flows(record.flows, flows, name)
        if name in record.metrics:
            value = record.metrics[name]
            return math.nan if value is None else float(value)
        if name not in self._values:
            raise QuantityError(f"no metric is called {name!r}")
        answer = record.answers[self._values[name]]
        if isinstance(answer, str):
            raise QuantityError(f"the value {name!r}: {answer}")
        if answer.shape != (1, 1):
            rows, columns = answer.shape
            message = f"{rows} rows of {columns} columns, not one number"
            raise QuantityError(f"the value {name!r} gives {message}")
        found = answer.item()
        if found is None:
            return math.nan
        if not isinstance(found, int | float):
            raise QuantityError(f"the value {name!r} gives {found!r}, not a number")
        return float(found)


def _index(axis: tuple[str, ...], name: str) -> int:
    if name not in axis:
        raise QuantityError(f"there is no point {name!r}; there are {', '.join(axis)}")
    return axis.index(name)


def _of_flows(rows: list[dict[str, Any]], flows: Flows, name: str) -> float:
    if isinstance(flows.wanted, range):
        if flows.wanted.stop > len(rows):
            raise QuantityError(f"there is no flow {flows.wanted.stop - 1} among {len(rows)}")
        chosen = rows[flows.wanted.start : flows.wanted.stop]
    else:
        chosen = [row for row in rows if row.get(flows.column) == flows.wanted]
        if not chosen:
            there = sorted({str(row.get(flows.column)) for row in rows})
            message = f"no flow has {flows.column} {flows.wanted!r}; there are {', '.join(there)}"
            raise QuantityError(message)
    values = [row.get(name) for row in chosen]
    numbers = [float(v) for v in values if isinstance(v, int | float)]
    if len(numbers) < len(values):
        return math.nan
    total = sum(numbers)
    additive = name == "share_ratio" or name.endswith(_ADDITIVE)
    return total if additive else total / len(numbers)


@dataclass
class _Plan:
    """A claim, and the jobs of each of its cases by point and seed."""

    claim: Claim
    jobs: dict[str, list[list[Job]]] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Verdicts:
    """The results of claims, in their order."""

    results: list[Result]
    #: The claims that Ctrl-C left unfinished.
    unfinished: list[Claim]


class Campaign:
    """Claims that are run together: all of their runs are one pool."""

    def __init__(
        self, claims: Iterable[Claim], *, seeds: int | None = None, quick: bool = False
    ) -> None:
        self._pool = Pool()
        self._plans = [_planned(claim, self._pool, seeds, quick=quick) for claim in claims]

    def __len__(self) -> int:
        """Return how many runs there are."""
        return len(self._pool)

    def errors(self) -> dict[str, str]:
        """Return what is wrong with claims that cannot be run, by their ids."""
        return {plan.claim.id: plan.error for plan in self._plans if plan.error}

    def verify(
        self,
        *,
        threads: int | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Verdicts:
        """Run the scenarios and judge each claim; after Ctrl-C, those that are finished."""
        plans, cut = self._plans, list[_Plan]()
        try:
            self._pool.run(threads=threads, progress=progress)
        except KeyboardInterrupt:
            plans, cut = _parted(plans, self._pool)
        results = [_judged(plan, self._pool) for plan in plans]
        return Verdicts(results, [plan.claim for plan in cut])


def _parted(plans: list[_Plan], pool: Pool) -> tuple[list[_Plan], list[_Plan]]:
    done = pool.records.keys() | pool.failures.keys()
    whole: list[_Plan] = []
    cut: list[_Plan] = []
    for plan in plans:
        jobs = {job for rows in plan.jobs.values() for row in rows for job in row}
        (whole if jobs <= done else cut).append(plan)
    return whole, cut


def _planned(claim: Claim, pool: Pool, seeds: int | None, *, quick: bool) -> _Plan:
    plan = _Plan(claim)
    try:
        _check(claim)
        for name, case in claim.cases.items():
            count = seeds or (claim.quick.seeds if quick else case.seeds or claim.seeds)
            extra = claim.quick.overrides if quick else ()
            plan.jobs[name] = [
                [
                    Job(case.scenario, point + case.varied(seed) + extra, seed)
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
                pool.add(job, picture.queries, keep=picture.sequence)
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
    """Find what expressions name and is not there, before anything is run."""
    metrics = {"run": set[str](), "flow": set[str]()}
    for definition in _paceline.metrics():
        metrics[definition["scope"]].add(definition["name"])
    double = (metrics["run"] & set(claim.values)) | (set(claim.cases) & set(claim.figures))
    if double:
        raise ExpressionError(f"{sorted(double)[0]!r} has two meanings")
    for expression in claim.expressions():
        for case, group, name in sorted(expression.uses(), key=str):
            if case not in claim.cases:
                raise _unknown(expression, "case", case, claim.cases)
            known = metrics["flow"] if group else metrics["run"] | set(claim.values)
            if name not in known:
                raise _unknown(expression, "metric", name, known)
    for place in (place for picture in claim.pictures for place in picture.cases):
        if place.case not in claim.cases:
            raise ExpressionError(f"a picture of {place.case!r}, which is no case")


def _unknown(expression: Expression, what: str, name: str, known: Iterable[str]) -> ExpressionError:
    near = nearest(name, known)
    mean = f"; did you mean {near!r}?" if near else ""
    return ExpressionError(f"{expression.text!r}: no {what} is called {name!r}{mean}")


def _queries(claim: Claim, case: str) -> list[str]:
    """Return the queries whose values expressions take from a case."""
    used = {
        name
        for expression in claim.expressions()
        for of, _, name in expression.uses()
        if of == case
    }
    return [query for name, query in claim.values.items() if name in used]


def _judged(plan: _Plan, pool: Pool) -> Result:
    claim = plan.claim
    try:
        if plan.error:
            raise RunError(plan.error)
        names = _names(plan, pool)
        measured = claim.measured.value(names)
        low, high = claim.measured.interval(names) or (None, None)
        accept = tuple(
            Condition(text.text, text.holds(names), text.found(names)) for text in claim.accept
        )
        beside = tuple(_figure(name, text, names) for name, text in claim.beside.items())
    except (ExpressionError, RunError) as error:
        return Result(claim, "error", why=str(error))
    if math.isnan(measured):
        return Result(claim, "error", why=f"{claim.measured.text!r} is undefined")
    missed = [condition for condition in accept if not condition.held]
    verdict = "not reproduced" if missed else "reproduced"
    why = "; ".join(f"not {c.expression}" + (f" ({c.found})" if c.found else "") for c in missed)
    if missed and claim.why:
        why = f"{why}. {claim.why}"
    return Result(claim, verdict, measured, low, high, why, accept, beside, names)


def _figure(name: str, expression: Expression, names: Names) -> Figure:
    value = expression.value(names)
    if math.isnan(value):
        return Figure(name, None)
    return Figure(name, value, *(expression.interval(names) or (None, None)))


def _names(plan: _Plan, pool: Pool) -> Names:
    """Return what expressions may name."""
    names: dict[str, Any] = {}
    for name, figure in plan.claim.figures.items():
        if isinstance(figure, list):
            names[name] = Quantity.numbers([float(number) for number in figure])
        else:
            names[name] = Quantity.number(float(figure))
    used = {name for expression in plan.claim.expressions() for name in expression.names()}
    for name, value in startup_values(plan.claim.startup_rows, used).items():
        names[name] = Quantity.number(value)
    for name, rows in plan.jobs.items():
        for job in itertools.chain.from_iterable(rows):
            if job in pool.failures:
                raise RunError(f"{job.scenario.name}, seed {job.seed}: {pool.failures[job]}")
        records = [[pool.records[job] for job in row] for row in rows]
        names[name] = Measured(plan.claim.cases[name], records, plan.claim.values)
    return names
