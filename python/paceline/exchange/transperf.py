"""The language of transperf's configurations, read from their syntax tree and never executed.

A configuration assigns module-level names. Each takes a value or a list of values; lists multiply,
in the order of assignment. A value may be a function of the experiment. Only literals, arithmetic,
the known builders and `lambda exp:` are understood; all else is an error with its line.
"""

from __future__ import annotations

import ast
import itertools
import operator
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from paceline.exchange.declared import ImportFailedError

#: The names that a configuration may set.
NAMES = (
    *("conn", "bw", "rtt", "buf", "loss", "out_loss"),
    *("slot", "policer", "dur", "machine_cmd", "cmd", "check"),
)

#: The builders, with the names of their arguments in order; `*` takes any number.
BUILDERS: dict[str, tuple[str, ...]] = {
    "conn": (
        "cc", "num", "start", "dur", "size", "burst", "params", "sender", "upload", "tool",
    ),
    "conns": ("*",),
    "burst": ("wait", "rounds", "repeat", "req", "res"),
    "bw": ("downlink", "uplink", "dur"),
    "var_bw": ("*",),
    "rtt": ("val", "dur", "var", "out_var", "in_dist", "out_dist", "sender"),
    "mixed_rtt": ("*",),
    "var_rtt": ("*",),
    "uniform_distribution": ("min", "max"),
    "distribution": ("mean", "var", "file"),
    "bdp": ("ratio",),
    "slot": ("in_dist", "in_max_bytes", "in_max_pkts", "out_dist", "out_max_bytes", "out_max_pkts"),
    "policer": ("bw", "burst", "dur"),
    "var_policer": ("*",),
    "machine_cmd": ("cmd", "start", "sender", "receiver"),
    "qdisc": ("bw", "out_bw", "qdisc", "out_qdisc"),
    "check_with_scores": ("scores",),
}  # fmt: skip

#: The maximum number of experiments in one file.
MOST = 1000
#: Bounds of a file: its characters, the depth of an expression, steps of evaluation, and numbers.
LENGTH, DEPTH, STEPS, LARGEST = 1_000_000, 100, 1_000_000, 10**15

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}

_COMPARISONS: dict[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


@dataclass(frozen=True)
class Call:
    """A builder with its arguments."""

    name: str
    line: int
    arguments: dict[str, Any] = field(default_factory=dict)
    items: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Later:
    """A function of the experiment."""

    line: int
    parameter: str
    body: ast.expr


@dataclass(frozen=True)
class Setting:
    """A value of one experiment, and the line that sets it."""

    line: int
    value: Any


Experiment = dict[str, Setting]


def experiments(text: str) -> Iterator[Experiment]:
    """Yield every experiment of a configuration."""
    steps = itertools.count()
    axes = list(_assignments(text, steps).items())
    total = 1
    for _, choices in axes:
        total *= len(choices)
        if total > MOST:
            raise ImportFailedError(f"the product of the lists is more than {MOST} experiments")
    for choice in itertools.product(*(choices for _, choices in axes)):
        chosen: Experiment = dict(zip((name for name, _ in axes), choice, strict=True))
        known = dict(chosen)
        for name, setting in chosen.items():
            if isinstance(setting.value, Later):
                later = setting.value
                value = _Evaluator({}, (later.parameter, known), steps).value(later.body)
                chosen[name] = Setting(setting.line, value)
        yield chosen


def _assignments(text: str, steps: Iterator[int]) -> dict[str, list[Setting]]:
    if len(text) > LENGTH:
        raise ImportFailedError(f"longer than {LENGTH} characters")
    try:
        with warnings.catch_warnings():
            # Python's advice on style, such as a space after a digit, does not concern this
            # program.
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text)
    except SyntaxError as error:
        message = f"not Python: {error.msg.partition(';')[0]}"
        raise ImportFailedError(message, error.lineno) from None
    except (RecursionError, MemoryError):
        raise ImportFailedError("not readable as Python: it is nested too deeply") from None
    except ValueError as error:
        raise ImportFailedError(f"not Python: {error}") from None
    _shallow(tree)
    settings: dict[str, list[Setting]] = {}
    constants: dict[str, Any] = {}
    for statement in tree.body:
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.Pass():
                # Everything to import is known here.
                continue
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Assign(targets=[ast.Name(id=name)], value=node):
                value = _Evaluator(constants, None, steps).value(node)
                if name in NAMES:
                    choices = value if isinstance(value, list) else [value]
                    if not choices:
                        raise ImportFailedError(f"`{name}` is an empty list", statement.lineno)
                    settings[name] = [Setting(statement.lineno, choice) for choice in choices]
                else:
                    constants[name] = value
            case _:
                message = f"cannot read {_describe(statement)}"
                hint = "a configuration is not executed: only assignments of values are supported"
                raise ImportFailedError(message, statement.lineno, hint)
    return settings


def _shallow(tree: ast.Module) -> None:
    """Refuse expressions that are too deep to evaluate or show."""
    level: list[ast.AST] = [tree]
    for _ in range(DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    for node in level:
        if isinstance(node, ast.expr | ast.stmt):
            raise ImportFailedError(f"more than {DEPTH} nested expressions", node.lineno)


def _describe(node: ast.AST) -> str:
    return f"`{ast.unparse(node).splitlines()[0][:60]}`"


def _bounded(value: float, node: ast.expr) -> float:
    if not -LARGEST <= value <= LARGEST:
        raise ImportFailedError(f"a number above {LARGEST:.0e}", node.lineno)
    return value


class _Evaluator:
    """Evaluates an expression from its allowed parts."""

    def __init__(
        self,
        constants: dict[str, Any],
        experiment: tuple[str, Experiment] | None,
        steps: Iterator[int],
    ) -> None:
        self.constants = constants
        self.experiment = experiment
        self.steps = steps

    def value(self, node: ast.expr) -> Any:
        if next(self.steps) >= STEPS:
            raise ImportFailedError(f"more than {STEPS} evaluation steps", node.lineno)
        match node:
            case ast.Constant(value=bool() | str() | None as value):
                return value
            case ast.Constant(value=int() | float() as value):
                return _bounded(value, node)
            case ast.List(elts=items):
                return [self.value(item) for item in items]
            case ast.Tuple(elts=items):
                return tuple(self.value(item) for item in items)
            case ast.Dict():
                return self._table(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(operand)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return self._arithmetic(node)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                return _COMPARISONS[type(op)](self._number(left), self._number(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.value(test) else orelse)
            case ast.Lambda(args=ast.arguments(args=[ast.arg(arg=name)]), body=body):
                return Later(node.lineno, name, body)
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value=ast.Name(id=name), attr=key) if (
                self.experiment and name == self.experiment[0]
            ):
                setting = self.experiment[1].get(key)
                if setting is None or isinstance(setting.value, Later):
                    raise ImportFailedError(f"the experiment has no `{key}`", node.lineno)
                return setting.value
            case ast.Name(id=name) if name in self.constants:
                return self.constants[name]
            case ast.Name(id="default_check"):
                return None
        known = f"numbers, strings, lists, arithmetic, `lambda exp:` and {', '.join(BUILDERS)}"
        raise ImportFailedError(
            f"cannot read {_describe(node)}", node.lineno, f"supported are {known}"
        )

    def _table(self, node: ast.Dict) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                raise ImportFailedError("a key is text", node.lineno)
            table[key.value] = self.value(value)
        return table

    def _number(self, node: ast.expr) -> float:
        value = self.value(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ImportFailedError(f"{_describe(node)} is not a number", node.lineno)
        return value

    def _arithmetic(self, node: ast.BinOp) -> float:
        sides = self._number(node.left), self._number(node.right)
        try:
            result: float = _OPERATORS[type(node.op)](*sides)
        except (ZeroDivisionError, OverflowError) as error:
            raise ImportFailedError(f"{_describe(node)}: {error}", node.lineno) from None
        return _bounded(result, node)

    def _call(self, node: ast.Call) -> Call:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in BUILDERS:
            hint = f"the builders are {', '.join(BUILDERS)}"
            raise ImportFailedError(f"cannot call {_describe(node.func)}", node.lineno, hint)
        expected = BUILDERS[name]
        values = [self.value(item) for item in node.args]
        if expected == ("*",):
            if node.keywords:
                raise ImportFailedError(f"`{name}` takes no named arguments", node.lineno)
            items = values[0] if len(values) == 1 and isinstance(values[0], list) else values
            return Call(name, node.lineno, items=tuple(items))
        if len(values) > len(expected):
            message = f"`{name}` takes at most {len(expected)} arguments"
            raise ImportFailedError(message, node.lineno)
        arguments = dict(zip(expected, values, strict=False))
        for keyword in node.keywords:
            if keyword.arg not in expected:
                message = f"`{name}` has no argument `{keyword.arg}`"
                raise ImportFailedError(message, node.lineno, "it has " + ", ".join(expected))
            arguments[keyword.arg] = self.value(keyword.value)
        return Call(name, node.lineno, arguments)
