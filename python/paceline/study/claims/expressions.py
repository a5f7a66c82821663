"""Expressions over measurements: a small part of Python, parsed but never executed.

``all(median(share.cc["bbr1"].share_ratio) >= 0.4)``: a name before the point is a case of the
claim, the one after the last point a metric or a value of the claim. `docs/reference/claims.md`
says what there is.
"""

from __future__ import annotations

import ast
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from paceline.quantities import quantity
from paceline.study.claims.quantity import (
    Quantity,
    QuantityError,
    defined,
    drops,
    gap,
    interval_end,
    pointwise,
    statistic,
)


class ExpressionError(ValueError):
    """An expression is invalid, or has no value; it is quoted as far as a message allows."""

    def __init__(self, message: str) -> None:
        most = 500
        super().__init__(message if len(message) <= most else f"{message[:most]} ...")


class Flows(NamedTuple):
    """A selection of flows: by number, or by the text in a column (`cc`, `label`)."""

    column: str
    selected: str | range


class Place(NamedTuple):
    """A case and, in brackets behind it, points of its sweep."""

    case: str
    points: tuple[slice | str, ...] = ()

    @classmethod
    def read(cls, text: str) -> Place:
        """Parse one, as written in an expression."""
        tree = _parse(text)
        try:
            return _place(tree)
        except QuantityError as error:
            raise ExpressionError(f"{text!r}: {error}") from error


class Case(Protocol):
    """The measurements of one case."""

    def quantity(self, points: Sequence[slice | str], flows: Flows | None, name: str) -> Quantity:
        """Return a metric or value at the chosen points, of a run or of some of its flows."""


#: Cases and plain values by name.
Names = Mapping[str, "Case | Quantity"]

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_STATISTICS = ("mean", "median", "low", "high", "median_low", "median_high")
_CONDITIONS: dict[str, Callable[[Sequence[float]], float]] = {"all": all, "any": any, "count": sum}
_REDUCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "average": lambda values: sum(values) / len(values),
    "spread": lambda values: max(values) - min(values),
}
_GROUPS = ("flows", "cc", "label")


def _parse(text: str) -> ast.expr:
    """Return the syntax tree of an expression; nothing of it is executed."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        # Python's parser reports too deep nesting as a memory error.
        reason = error.msg if isinstance(error, SyntaxError) else "cannot be read"
        raise ExpressionError(f"{reason}: {text!r}") from error


class Expression:
    """A parsed expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree = _parse(text)

    def uses(self) -> set[tuple[str, str | None, str]]:
        """Return the values that it uses: case, `flows`, `cc`, `label` or none, metric."""
        uses = set()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute) and node.attr not in _GROUPS:
                group = None
                inner: ast.expr = node.value
                while isinstance(inner, ast.Subscript | ast.Attribute):
                    if isinstance(inner, ast.Attribute):
                        group = inner.attr
                    inner = inner.value
                if isinstance(inner, ast.Name):
                    uses.add((inner.id, group, node.attr))
        return uses

    def names(self) -> set[str]:
        """Return every name that is not a function."""
        nodes = list(ast.walk(self._tree))
        functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        return {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in functions}

    def of(self, names: Names) -> Quantity:
        """Return its quantity."""
        return self._guarded(self._tree, names)

    def value(self, names: Names) -> float:
        """Return its number."""
        return self._single(self._tree, names)

    def estimate(self, names: Names) -> tuple[float, float | None, float | None]:
        """Return its number, and the interval if it is a mean or a median over the seeds."""
        value = self.value(names)
        ends = self.ends(names)
        if ends is None:
            return value, None, None
        low, high = (end.single() for end in ends)
        return (value, None, None) if math.isnan(low) else (value, low, high)

    def ends(self, names: Names) -> tuple[Quantity, Quantity] | None:
        """Return the interval ends at its points, if it is a mean or a median over seeds."""
        match self._tree:
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _BOTH:
                samples = self._guarded(argument, names)
                low, high = (samples.over_seeds(partial(interval_end, end)) for end in _BOTH[name])
                return low, high
        return None

    def is_statistic(self) -> bool:
        """Return whether it is a statistic of a single metric, and so in the unit of that."""
        match self._tree:
            case ast.Call(func=ast.Name(id=name), args=[ast.Attribute()]):
                return name in _STATISTICS
        return False

    def holds(self, names: Names) -> bool:
        """Return its truth value."""
        value = self._single(self._tree, names)
        if not isinstance(value, bool):
            raise ExpressionError(f"{self.text!r} is a number, not a condition")
        return value

    def measured(self, names: Names) -> str:
        """Return the results of its comparisons, for people."""
        return self._measured(self._tree, names)

    def _guarded(self, node: ast.expr, names: Names) -> Quantity:
        try:
            return _Evaluation(names).of(node)
        except ZeroDivisionError as error:
            raise ExpressionError(f"{self.text!r} divides by zero") from error
        except (QuantityError, RecursionError, OverflowError) as error:
            raise ExpressionError(f"{self.text!r}: {error}") from error

    def _single(self, node: ast.expr, names: Names) -> float:
        try:
            return self._guarded(node, names).single()
        except QuantityError as error:
            raise ExpressionError(f"{self.text!r} {error}") from error

    def _measured(self, node: ast.expr, names: Names) -> str:
        match node:
            case ast.BoolOp(values=operands):
                return "; ".join(filter(None, (self._measured(o, names) for o in operands)))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._measured(operand, names)
            case ast.Compare(left=left, comparators=rest) if not self._guarded(node, names).axes:
                sides = [side for side in [left, *rest] if not isinstance(side, ast.Constant)]
                return ", ".join(filter(None, (self._side(side, names) for side in sides)))
            case ast.Call(func=ast.Name(id="all" | "any" | "count"), args=[ast.Compare() as inner]):
                return self._misses(inner, names)
            case ast.Call(func=ast.Name(id="rising" | "falling" as name), args=[argument, *rest]):
                slack = self._single(rest[0], names) if rest else 0.0
                quantity = self._guarded(argument, names)
                sign = 1.0 if name == "rising" else -1.0
                falls = drops(pointwise(lambda v: v * sign, quantity), slack)
                return ", ".join(
                    f"{by * sign:+.3g} from {first!r} to {second!r}" for first, second, by in falls
                )
        return ""

    def _side(self, node: ast.expr, names: Names) -> str:
        """Return a side of a comparison: of an interval's end, both ends."""
        match node:
            case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _ENDS:
                each = (ast.Call(ast.Name(end), [argument], []) for end in _ENDS[name])
                low, high = (_written(end, self._single(end, names)) for end in each)
                return f"{low} to {high}"
            case ast.Call(func=ast.Name(id="defined"), args=[argument]):
                (row,) = self._guarded(argument, names).rows
                return f"{round(len(row) * defined(row))} of {len(row)} runs"
        quantity = self._guarded(node, names)
        return "" if quantity.seeded else _written(node, quantity.rows[0][0])

    def _misses(self, node: ast.Compare, names: Names) -> str:
        """Return the points at which a comparison does not hold, with the values on its left."""
        condition, left = self._guarded(node, names), self._guarded(node.left, names)
        if condition.seeded or len(left.rows) != len(condition.rows):
            return ""
        rows = zip(condition.points, left.rows, condition.rows, strict=True)
        return ", ".join(
            f"{_written(node.left, value[0])} at {', '.join(point)!r}"
            for point, value, holds in rows
            if not holds[0]
        )


#: The names of the ends of a statistic's interval; and by one of them, those of both.
_BOTH = {"mean": ("low", "high"), "median": ("median_low", "median_high")}
_ENDS = {end: both for both in _BOTH.values() for end in both}
#: Functions whose values have the unit of their arguments.
_KEEPS = frozenset({*_STATISTICS, "min", "max", "sum"})


def _written(node: ast.expr, value: float) -> str:
    """Return an expression's value, in the unit of its only metric."""
    parts = list(ast.walk(node))
    attributes = [part.attr for part in parts if isinstance(part, ast.Attribute)]
    names = [name for name in attributes if name not in _GROUPS]
    calls = {getattr(part.func, "id", "") for part in parts if isinstance(part, ast.Call)}
    same = calls <= _KEEPS and not any(isinstance(part, ast.BinOp | ast.Compare) for part in parts)
    if same and len(names) == 1 and names[0].endswith(("_ns", "_bps", "_bytes")):
        return quantity(names[0], value)
    return f"{value:.4g}"


_LARGEST = sys.float_info.max


class _Evaluation:
    def __init__(self, names: Names) -> None:
        self._names = names

    def of(self, node: ast.expr) -> Quantity:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as value):
                if not -_LARGEST <= value <= _LARGEST:
                    raise QuantityError("a number is beyond the largest of 64 bits")
                return Quantity.number(float(value))
            case ast.Name(id=name):
                plain = self._names.get(name)
                if isinstance(plain, Quantity):
                    return plain
                what = "a case, not a number" if plain else "not a case, figure or value"
                raise QuantityError(f"{name!r} is {what}")
            case ast.List(elts=items) if items:
                return Quantity.numbers([self.of(item).single() for item in items])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return pointwise(operator.neg, self._numbers(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return pointwise(operator.not_, self._conditions(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return pointwise(_ARITHMETIC[type(op)], self._numbers(left), self._numbers(right))
            case ast.BoolOp(op=op, values=operands):
                together = all if isinstance(op, ast.And) else any
                conditions = [self._conditions(operand) for operand in operands]
                return pointwise(lambda *values: together(values), *conditions)
            case ast.Compare(left=left, ops=ops, comparators=rest):
                return self._compare(node, [left, *rest], ops)
            case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]):
                return self._call(node, function, arguments)
            case ast.Attribute(value=value, attr=metric):
                return self._measured(value, metric)
        raise QuantityError(f"cannot read {ast.unparse(node)!r}")

    def _numbers(self, node: ast.expr, *, are_conditions: bool = False) -> Quantity:
        quantity = self.of(node)
        if isinstance(quantity.rows[0][0], bool) != are_conditions:
            what = "a number, not a condition" if are_conditions else "a condition, not a number"
            raise QuantityError(f"{ast.unparse(node)!r} is {what}")
        return quantity

    def _conditions(self, node: ast.expr) -> Quantity:
        return self._numbers(node, are_conditions=True)

    def _compare(self, node: ast.expr, sides: list[ast.expr], ops: list[ast.cmpop]) -> Quantity:
        for op in ops:
            if type(op) not in _COMPARISONS:
                raise QuantityError("compare with <, <=, > or >=")
        steps = [_COMPARISONS[type(op)] for op in ops]

        def chain(*values: float) -> bool:
            if any(map(math.isnan, values)):
                raise QuantityError(f"{ast.unparse(node)!r} compares an undefined value")
            pairs = zip(steps, values, values[1:], strict=False)
            return all(step(left, right) for step, left, right in pairs)

        return pointwise(chain, *(self._numbers(side) for side in sides))

    def _call(self, node: ast.expr, function: str, arguments: list[ast.expr]) -> Quantity:
        match arguments:
            case [argument] if function in _STATISTICS:
                values = self.of(argument)
                return values.over_seeds(lambda row: statistic(function, row))
            case [argument] if function == "defined":
                return self._numbers(argument).over_seeds(defined)
            case [argument] if function == "abs":
                return pointwise(abs, self._numbers(argument))
            case [argument] if function in _CONDITIONS:
                return self._conditions(argument).over_points(_CONDITIONS[function])
            case [argument] if function in _REDUCTIONS:
                return self._numbers(argument).over_points(_known(_REDUCTIONS[function]))
            case [ours, theirs] if function == "gap":
                return gap(self._numbers(ours), self._numbers(theirs))
            case [argument, *rest] if function in ("rising", "falling") and len(rest) < 2:
                slack = self.of(rest[0]).single() if rest else 0.0
                sign = 1.0 if function == "rising" else -1.0
                quantity = pointwise(lambda value: value * sign, self._numbers(argument))
                return Quantity((), ((not drops(quantity, slack),),), seeded=False)
        raise QuantityError(f"cannot read {ast.unparse(node)!r}")

    def _measured(self, node: ast.expr, metric: str) -> Quantity:
        """Return ``CASE[POINT].GROUP[FLOWS].metric``; the brackets may be left out."""
        flows = None
        match node:
            case ast.Subscript(value=ast.Attribute(value=inner, attr=group), slice=index) if (
                group in _GROUPS
            ):
                flows = _flows(group, index)
                node = inner
        place = _place(node)
        case = self._names.get(place.case)
        if case is None or isinstance(case, Quantity):
            raise QuantityError(f"the claim has no case {place.case!r}")
        return case.quantity(place.points, flows, metric)


def _known(reduce: Callable[[Sequence[float]], float]) -> Callable[[Sequence[float]], float]:
    """Make a reduction undefined where one of the values is."""
    return lambda values: math.nan if any(map(math.isnan, values)) else reduce(values)


def _flows(group: str, index: ast.expr) -> Flows:
    match index:
        case ast.Constant(value=str() as text) if group != "flows":
            return Flows(group, text)
        case ast.Constant(value=int() as number) if group == "flows":
            return Flows(group, range(number, number + 1))
        case ast.Slice(ast.Constant(int() as first), ast.Constant(int() as end), None) if (
            group == "flows" and first < end
        ):
            return Flows(group, range(first, end))
    raise QuantityError(f"cannot read {group}[{ast.unparse(index)}]")


def _place(node: ast.expr) -> Place:
    match node:
        case ast.Name(id=name):
            return Place(name)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=indices)):
            return Place(name, tuple(_point(index) for index in indices))
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            return Place(name, (_point(index),))
    raise QuantityError(f"cannot read {ast.unparse(node)!r}")


def _point(index: ast.expr) -> slice | str:
    match index:
        case ast.Constant(value=str() | int() | float() as name):
            return str(name)
        case ast.Slice(lower=lower, upper=upper, step=None):
            return slice(*[None if end is None else _point(end) for end in (lower, upper)])
    raise QuantityError(f"cannot read the point {ast.unparse(index)!r}")
