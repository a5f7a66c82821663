"""The measurements of a case: its metrics and values at each point and for each seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from paceline.study.claims.claim import Case
from paceline.study.claims.expressions import Flows
from paceline.study.claims.jobs import Record
from paceline.study.claims.quantity import Axis, Quantity, QuantityError

if TYPE_CHECKING:
    from paceline.query import Query

#: The metrics of several flows that are added up, by suffix; the others are averaged.
_ADDITIVE = ("_bps", "_bytes", "_packets", "_count")


class Measured:
    """The measurements of a case: a record for each point and seed; none for failed runs."""

    def __init__(
        self, case: Case, records: Sequence[Sequence[Record | None]], values: dict[str, Query]
    ) -> None:
        self._axes = case.axes
        self._records = records
        self._values = values

    def records(self, points: Sequence[slice | str]) -> list[Sequence[Record | None]]:
        """Return the records of the seeds at each of the chosen points."""
        return [self._records[row] for row in self.chosen(points)[1]]

    def without(self, seed: int) -> Measured:
        """Return it without a seed, from 0; unchanged if it has one seed or no such one."""
        records = [
            [record for n, record in enumerate(row) if n != seed] if len(row) > 1 else row
            for row in self._records
        ]
        left = Measured.__new__(Measured)
        left._axes, left._records, left._values = self._axes, records, self._values
        return left

    def quantity(self, points: Sequence[slice | str], flows: Flows | None, name: str) -> Quantity:
        """Return a metric or value at the chosen points, of a run or of some of its flows."""
        axes, rows = self.chosen(points)
        return Quantity(
            axes,
            tuple(tuple(self._value(r, flows, name) for r in self._records[row]) for row in rows),
            seeded=True,
        )

    def chosen(self, points: Sequence[slice | str]) -> tuple[tuple[Axis, ...], list[int]]:
        """Return the remaining axes and the rows of the chosen points."""
        if points and len(points) != len(self._axes):
            raise QuantityError(f"{len(points)} indices for {len(self._axes)} axes")
        indices: list[Sequence[int]] = []
        axes = []
        everything = [slice(None)] * len(self._axes)
        for axis, point in zip(self._axes, points or everything, strict=True):
            if not axis:
                raise QuantityError("the short form keeps no point of a sweep")
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

    def _value(self, record: Record | None, flows: Flows | None, name: str) -> float:
        if record is None:
            return math.nan
        if flows is not None:
            return _of_flows(record.flows, flows, name)
        if name in record.metrics:
            return _or_longer(record.metrics[name], name in record.censored)
        if name not in self._values:
            raise QuantityError(f"no metric is called {name!r}")
        result = record.results[self._values[name]]
        if isinstance(result, str):
            raise QuantityError(f"the value {name!r}: {result}")
        if result.shape != (1, 1):
            shape = "{} rows of {} columns".format(*result.shape)
            raise QuantityError(f"the value {name!r} gives {shape}, not one number")
        value = result.item()
        if value is None:
            return math.nan
        if not isinstance(value, int | float | Decimal):
            raise QuantityError(f"the value {name!r} gives {value!r}, not a number")
        return float(value)


def _index(axis: tuple[str, ...], name: str) -> int:
    if name not in axis:
        raise QuantityError(f"there is no point {name!r}; there are {', '.join(axis)}")
    return axis.index(name)


def _or_longer(value: Any, censored: bool) -> float:
    """Return a metric: infinite if it is a time that the run ended before, or undefined."""
    if isinstance(value, int | float):
        return float(value)
    return math.inf if censored else math.nan


def _of_flows(rows: list[dict[str, Any]], flows: Flows, name: str) -> float:
    if isinstance(flows.selected, range):
        if flows.selected.stop > len(rows):
            raise QuantityError(f"there is no flow {flows.selected.stop - 1} among {len(rows)}")
        chosen = rows[flows.selected.start : flows.selected.stop]
    else:
        chosen = [row for row in rows if row.get(flows.column) == flows.selected]
        if not chosen:
            there = sorted({str(row.get(flows.column)) for row in rows})
            message = f"no flow has {flows.column} {flows.selected!r}; there are {', '.join(there)}"
            raise QuantityError(message)
    numbers = [_or_longer(row.get(name), name in row.get("censored", {})) for row in chosen]
    total = sum(numbers)
    additive = name == "share_ratio" or name.endswith(_ADDITIVE)
    return total if additive else total / len(numbers)
