"""Quantities: a value for each point of a sweep and for each seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paceline.statistics import FEWEST, aggregate, student, variance


class QuantityError(ValueError):
    """Incompatible quantities, or a reduction over something that does not exist."""


#: The names of the points along one axis; empty ones match any names.
Axis = tuple[str, ...]


@dataclass(frozen=True)
class Quantity:
    """Values by point and by seed. Undefined values are NaN."""

    #: The axes of the sweep; none for a single point.
    axes: tuple[Axis, ...]
    #: For each point, the last axis varying fastest, the values of the seeds, or one value.
    rows: tuple[tuple[float, ...], ...]
    #: Whether the rows hold seeds.
    seeded: bool

    @classmethod
    def number(cls, value: float) -> Quantity:
        """Return a single number."""
        return cls((), ((value,),), seeded=False)

    @classmethod
    def numbers(cls, values: Sequence[float]) -> Quantity:
        """Return a number for each point of a sweep along one axis, whatever its points' names."""
        return cls((("",) * len(values),), tuple((value,) for value in values), seeded=False)

    @classmethod
    def published(cls, figure: float | Sequence[float] | Sequence[Sequence[float]]) -> Quantity:
        """Return a published figure: a number, one for each point, or the trials at each."""
        if isinstance(figure, int | float):
            return cls.number(float(figure))
        trials = [row for row in figure if not isinstance(row, int | float)]
        if trials:
            return cls.trials(trials)
        return cls.numbers([float(value) for value in figure if isinstance(value, int | float)])

    @classmethod
    def trials(cls, rows: Sequence[Sequence[float]]) -> Quantity:
        """Return published trials: a row for each point. They are not our seeds, so unpaired."""
        most = max(map(len, rows))
        filled = tuple((*map(float, row), *[math.nan] * (most - len(row))) for row in rows)
        return cls((("",) * len(rows),), filled, seeded=True)

    @property
    def points(self) -> list[tuple[str, ...]]:
        """The names of the points, in the order of the rows."""
        return list(itertools.product(*self.axes))

    def single(self) -> float:
        """Return the only value."""
        if self.axes:
            hint = "use all(), count(), max(), ..."
            raise QuantityError(f"has a value for each of {len(self.rows)} points: {hint}")
        if self.seeded:
            raise QuantityError("has a value for each seed: use median(), low(), ...")
        return self.rows[0][0]

    def over_seeds(self, reduce: Callable[[Sequence[float]], float]) -> Quantity:
        """Return one value for each point."""
        if not self.seeded:
            raise QuantityError("has one value, not one for each seed: apply one statistic only")
        return Quantity(self.axes, tuple((reduce(row),) for row in self.rows), seeded=False)

    def over_points(self, reduce: Callable[[Sequence[float]], float]) -> Quantity:
        """Return one value over all points, for each seed if there are seeds."""
        if not self.axes:
            raise QuantityError("has only one point: it does not come from a sweep")
        row = tuple(reduce(column) for column in zip(*self.rows, strict=True))
        return Quantity((), (row,), self.seeded)


def pointwise(apply: Callable[..., float], *operands: Quantity) -> Quantity:
    """Apply a function point by point and seed by seed; a single number matches everything."""
    axes: tuple[Axis, ...] = ()
    for operand in operands:
        axes = common(axes, operand.axes)
    points = math.prod(map(len, axes))
    seeds = {len(operand.rows[0]) for operand in operands if operand.seeded}
    if len(seeds) > 1:
        raise QuantityError(f"{' and '.join(map(str, sorted(seeds)))} seeds cannot be paired")
    width = seeds.pop() if seeds else 1
    columns = [_stretched(operand, points, width) for operand in operands]
    rows = tuple(
        tuple(apply(*values) for values in zip(*row, strict=True))
        for row in zip(*columns, strict=True)
    )
    return Quantity(axes, rows, any(operand.seeded for operand in operands))


def _stretched(operand: Quantity, points: int, width: int) -> Iterator[tuple[float, ...]]:
    rows = operand.rows if operand.axes else operand.rows * points
    return (row if operand.seeded else row * width for row in rows)


def common(left: tuple[Axis, ...], right: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Return the axes of two compatible quantities, with the names of either."""
    if not left or not right:
        return left or right
    if [len(axis) for axis in left] == [len(axis) for axis in right]:
        if left == right or not any(map(any, right)):
            return left
        if not any(map(any, left)):
            return right
    raise QuantityError(f"the points {_names(left)} are not those of {_names(right)}")


def _names(axes: tuple[Axis, ...]) -> str:
    each = (f"({', '.join(axis)})" if any(axis) else f"of a list of {len(axis)}" for axis in axes)
    return " x ".join(each)


def statistic(name: str, values: Sequence[float]) -> float:
    """Return a statistic of the defined values, by its name.

    They are `mean` with the ends of its interval, `low` and `high`, and `median` with `median_low`
    and `median_high`. Of fewer than five values the ends are the minimum and the maximum. A time
    that its run ended before is infinite: it counts in the median, and the mean is undefined.
    """
    defined = [float(value) for value in values if not math.isnan(value)]
    finite = [value if math.isfinite(value) else None for value in defined]
    statistics = aggregate(finite, defined)
    if statistics is None or (None in finite and not name.startswith("median")):
        return math.nan
    if len(defined) < FEWEST and name.endswith(("low", "high")):
        end = (min if name.endswith("low") else max)(defined)
        return end if math.isfinite(end) else math.nan
    value = {key: end for key, end in statistics.items() if isinstance(end, float)}.get(name)
    return math.nan if value is None else value


def interval_end(name: str, values: Sequence[float]) -> float:
    """Return an end of an interval for display: none with fewer than five defined values."""
    enough = sum(not math.isnan(value) for value in values) >= FEWEST
    return statistic(name, values) if enough else math.nan


def gap(ours: Quantity, theirs: Quantity) -> Quantity:
    """Return, for each point, the part of the difference of two means beyond chance.

    That is how far the means lie outside of each other's reach by Student's t at 1 %, with the
    scatter that both have in common; zero within it. The values are not paired.
    """
    if not (ours.seeded and theirs.seeded):
        raise QuantityError("gap() takes seeds on one side and trials or seeds on the other")
    if len(ours.rows) != len(theirs.rows):
        raise QuantityError(f"gap() of {len(ours.rows)} points and {len(theirs.rows)}")
    axes = common(ours.axes, theirs.axes)
    rows = tuple((_gap(a, b),) for a, b in zip(ours.rows, theirs.rows, strict=True))
    return Quantity(axes, rows, seeded=False)


def _gap(ours: Sequence[float], theirs: Sequence[float]) -> float:
    sides = [[value for value in row if math.isfinite(value)] for row in (ours, theirs)]
    if min(map(len, sides)) < 2:
        return math.nan
    means = [sum(side) / len(side) for side in sides]
    freedom = sum(map(len, sides)) - 2
    squares = sum((len(side) - 1) * variance(side) for side in sides)
    error = math.sqrt(squares / freedom * sum(1 / len(side) for side in sides))
    low, _ = student(abs(means[0] - means[1]), error, freedom, 0.01)
    return max(low, 0.0)


def defined(values: Sequence[float]) -> float:
    """Return the share of values that are defined."""
    return sum(map(math.isfinite, values)) / len(values)


def drops(quantity: Quantity, slack: float) -> list[tuple[str, str, float]]:
    """Return each pair of points whose later one is lower by more than noise and `slack`.

    Noise is the 95 % interval of the mean of the difference, paired by seed. With each pair comes
    the mean of the difference.
    """
    if len(quantity.axes) != 1:
        raise QuantityError("is not a sweep along one axis")
    if len(quantity.rows) < 2:
        raise QuantityError("has fewer than two points: nothing rises or falls")
    if not quantity.seeded:
        raise QuantityError("needs a value for each seed, to separate changes from noise")
    falls = []
    for (first, early), (second, late) in itertools.combinations(
        zip(quantity.axes[0], quantity.rows, strict=True), 2
    ):
        differences = [b - a for a, b in zip(early, late, strict=True)]
        high = statistic("high", differences)
        if math.isnan(high):
            raise QuantityError(f"is undefined from {first!r} to {second!r}")
        if high < -slack:
            falls.append((first, second, statistic("mean", differences)))
    return falls
