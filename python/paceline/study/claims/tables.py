"""Tables of claims: a row for each point of a sweep."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from paceline.quantities import NONE, number, scale_of
from paceline.study.claims.expressions import Expression, Names
from paceline.study.claims.quantity import Axis, Quantity, QuantityError, common

#: The column that is judged.
OFF = "off"


class TableError(ValueError):
    """A table that cannot be written."""


@dataclass(frozen=True)
class Cell:
    """A figure, with the ends of its interval if it has one; not a number if it is undefined."""

    value: float
    low: float | None = None
    high: float | None = None

    def text(self, unit: str) -> str:
        """Return it for people, in the unit of a metric's suffix."""
        scale = scale_of(unit, self.value)
        ends = [end for end in (self.low, self.high) if end is not None and not math.isnan(end)]
        numbers = [number(value, scale) for value in (self.value, *ends)]
        if math.isnan(self.value):
            return NONE
        between = f" [{numbers[1]}, {numbers[2]}]" if len(ends) == 2 and ends[0] < ends[1] else ""
        named = "" if scale.unit in ("ratio", "count") else f" {scale.unit}"
        return f"{numbers[0]}{between}{named}"


@dataclass(frozen=True)
class Table:
    """The table of a claim."""

    title: str
    #: The labels of the sweep's axes.
    axes: tuple[str, ...]
    #: By name, the expressions with a value for each point.
    columns: dict[str, Expression]
    #: The expression judged at each point, and its upper bound; none to judge nothing.
    off: Expression | None = None
    bound: float = math.inf

    @classmethod
    def read(cls, table: dict[str, Any]) -> Table:
        """Read one from its table."""
        known = ("title", "axes", "columns", "off", "bound")
        for key in sorted(set(table) - set(known)):
            raise TableError(f"unknown key {key!r} in a table; known are {', '.join(known)}")
        if not isinstance(table.get("columns"), dict) or not table["columns"]:
            raise TableError("a table has 'columns' = { NAME = EXPRESSION }")
        axes = table.get("axes", [])
        if not isinstance(axes, list) or not all(isinstance(axis, str) for axis in axes):
            raise TableError("'axes' of a table is a list of names")
        if ("off" in table) != ("bound" in table):
            raise TableError("'off' of a table needs a 'bound', and a 'bound' an 'off'")
        off = table.get("off")
        return cls(
            str(table.get("title", "")),
            tuple(axes),
            {name: Expression(text) for name, text in table["columns"].items()},
            None if off is None else Expression(off),
            float(table.get("bound", math.inf)),
        )

    def expressions(self) -> list[Expression]:
        """Return its expressions."""
        return [*self.columns.values(), *([self.off] if self.off else [])]

    def filled(self, names: Names) -> Filled:
        """Return it with the measured values."""
        columns = {name: _column(text, names) for name, text in self.columns.items()}
        units = {name: _unit(text) for name, text in self.columns.items()}
        if self.off is not None:
            columns[OFF], units[OFF] = _column(self.off, names), ""
        common_axes: tuple[Axis, ...] = ()
        try:
            for column, _, _ in columns.values():
                common_axes = common(common_axes, column.axes)
        except QuantityError as error:
            raise TableError("its columns do not have the same points") from error
        if not common_axes or not all(column.axes for column, _, _ in columns.values()):
            raise TableError("its columns do not have the same points")
        if self.axes and len(self.axes) != len(common_axes):
            raise TableError(f"{len(self.axes)} names for {len(common_axes)} axes")
        rows = [
            (point, [_cell(column, row) for column in columns.values()])
            for row, point in enumerate(itertools.product(*common_axes))
        ]
        axes = self.axes or tuple(f"axis {n}" for n in range(1, len(common_axes) + 1))
        return Filled(self.title, axes, units, self.bound, rows)


_Column = tuple[Quantity, Quantity | None, Quantity | None]


def _column(text: Expression, names: Names) -> _Column:
    quantity = text.of(names)
    if quantity.seeded:
        raise TableError(f"{text.text!r} has a value for each seed: use mean(), median(), ...")
    low, high = text.ends(names) or (None, None)
    return quantity, low, high


def _cell(column: _Column, row: int) -> Cell:
    value, low, high = column
    ends = (None if end is None else end.rows[row][0] for end in (low, high))
    return Cell(value.rows[row][0], *ends)


def _unit(text: Expression) -> str:
    """Return the metric whose unit a column has: the only one that it is a statistic of."""
    metrics = {name for _, _, name in text.uses()}
    return metrics.pop() if len(metrics) == 1 and text.is_statistic() else ""


@dataclass(frozen=True)
class Filled:
    """A table with its figures."""

    title: str
    axes: tuple[str, ...]
    #: By column, the metric that gives the unit.
    units: dict[str, str]
    #: The upper bound of the last column, if a table is judged.
    bound: float = math.inf
    rows: list[tuple[tuple[str, ...], list[Cell]]] = field(default_factory=list)

    @property
    def head(self) -> list[str]:
        """The names of all columns."""
        return [*self.axes, *self.units]

    def texts(self) -> Iterator[list[str]]:
        """Yield its rows for people."""
        for point, cells in self.rows:
            yield [*point, *(c.text(u) for c, u in zip(cells, self.units.values(), strict=True))]

    def beyond(self) -> list[str]:
        """Return the points beyond the bound, and by how much."""
        if OFF not in self.units:
            return []
        return [
            f"{', '.join(point)} ({cells[-1].text('')})"
            for point, cells in self.rows
            if not cells[-1].value < self.bound
        ]

    def summary(self) -> str:
        """Return how many points are within the bound, and which are not."""
        if OFF not in self.units:
            return ""
        beyond = self.beyond()
        counted = f"{len(self.rows) - len(beyond)} of {len(self.rows)} within {self.bound:g}"
        return f"{counted}; beyond: {'; '.join(beyond)}" if beyond else counted

    def as_json(self) -> dict[str, Any]:
        """Return its object in `claims.json`."""
        rows = [
            {
                "point": list(point),
                "values": [
                    {"value": _known(c.value), "low": _known(c.low), "high": _known(c.high)}
                    for c in cells
                ],
            }
            for point, cells in self.rows
        ]
        return {
            "title": self.title,
            "axes": list(self.axes),
            "columns": list(self.units),
            "within": len(self.rows) - len(self.beyond()),
            "beyond": self.beyond(),
            "rows": rows,
        }

    def csv(self) -> str:
        """Return it as CSV: base units, and the ends of each interval in separate columns."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        numbers = range(len(self.units))
        ended = [any(cells[n].low is not None for _, cells in self.rows) for n in numbers]
        head = [*self.axes]
        for name, ends in zip(self.units, ended, strict=True):
            head += [name, f"{name}, low", f"{name}, high"] if ends else [name]
        writer.writerow(head)
        for point, cells in self.rows:
            line: list[object] = [*point]
            for cell, ends in zip(cells, ended, strict=True):
                values = (cell.value, cell.low, cell.high) if ends else (cell.value,)
                line += ["" if _known(value) is None else value for value in values]
            writer.writerow(line)
        return out.getvalue()

    def markdown(self) -> str:
        """Return it as Markdown, with the points beyond the bound."""
        lines = [self.head, ["---"] * len(self.head), *self.texts()]
        table = "".join(
            "| " + " | ".join(text.replace("|", "\\|") for text in line) + " |\n" for line in lines
        )
        summary = self.summary()
        return f"## {self.title}\n\n" + (f"{summary}\n\n" if summary else "") + table


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
