"""Expressions over measurements: numbers, names, arithmetic, comparisons and a few functions.

``median(v3.jain_ratio) >= 0.95``: a name before the point is a case of the claim, one after it a
metric. Nothing else of Python is understood, and nothing is executed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

#: What the metrics of a case have: mean, median, and the ends of the 95 % interval.
Statistics = Mapping[str, float | None]
Cases = Mapping[str, Mapping[str, Statistics]]


class ExpressionError(ValueError):
    """An expression is not one, or names what is not there."""


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
_STATISTICS = ("mean", "median", "low", "high")


def evaluate(expression: str, cases: Cases, values: Mapping[str, float]) -> float | bool:
    """Return the value of an expression over the cases' statistics and plain values."""
    try:
        tree = ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"{expression!r}: {error.msg}") from error
    return _Evaluation(expression, cases, values).of(tree)


class _Evaluation:
    def __init__(self, text: str, cases: Cases, values: Mapping[str, float]) -> None:
        self._text = text
        self._cases = cases
        self._values = values

    def of(self, node: ast.expr) -> float | bool:
        match node:
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name) if name in self._values:
                return self._values[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.of(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                try:
                    return _ARITHMETIC[type(op)](self.of(left), self.of(right))
                except ZeroDivisionError as error:
                    raise ExpressionError(f"{self._text!r} divides by zero") from error
            case ast.Compare(left=left, ops=ops, comparators=rest):
                return self._compare(left, ops, rest)
            case ast.Call(func=ast.Name(id="abs"), args=[argument], keywords=[]):
                return abs(self.of(argument))
            case ast.Call(
                func=ast.Name(id=statistic),
                args=[ast.Attribute(value=ast.Name(id=case), attr=metric)],
                keywords=[],
            ) if statistic in _STATISTICS:
                return self._statistic(statistic, case, metric)
        raise ExpressionError(f"{self._text!r}: cannot read {ast.unparse(node)!r}")

    def _compare(self, left: ast.expr, ops: list[ast.cmpop], rest: list[ast.expr]) -> bool:
        value = self.of(left)
        for op, node in zip(ops, rest, strict=True):
            if type(op) not in _COMPARISONS:
                raise ExpressionError(f"{self._text!r}: compare with <, <=, > or >=")
            other = self.of(node)
            if not _COMPARISONS[type(op)](value, other):
                return False
            value = other
        return True

    def _statistic(self, statistic: str, case: str, metric: str) -> float:
        metrics = self._cases.get(case)
        if metrics is None:
            raise ExpressionError(f"{self._text!r}: the claim has no case {case!r}")
        if metric not in metrics:
            raise ExpressionError(f"{self._text!r}: no metric is called {metric!r}")
        value = metrics[metric][statistic]
        if value is None:
            raise ExpressionError(f"{self._text!r}: {metric} of {case} is undefined")
        return value


def interval_of(expression: str) -> tuple[str, str] | None:
    """Return the expressions of the interval's ends, for one that is a mean or a median alone."""
    for statistic in ("median(", "mean("):
        if expression.startswith(statistic) and expression.count("(") == 1:
            rest = expression[len(statistic) :]
            return f"low({rest}", f"high({rest}"
    return None
