"""Pictures of claims as data: their content, not their style."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paceline.study.claims.expressions import Expression, Place

if TYPE_CHECKING:
    from paceline.query import Query


class PictureError(ValueError):
    """A picture that cannot be drawn."""


@dataclass(frozen=True)
class Picture:
    """One picture of a claim."""

    #: `sweep`, `bars`, `time`, `sequence` or `startup`.
    kind: str
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    #: The labels of a sweep's points, if not their values.
    points: tuple[str, ...] = ()
    #: Which axes are logarithmic: `x`, `y`, `xy` or none.
    log: str = ""
    #: By label, the measured and the published expressions.
    y: dict[str, Expression] = field(default_factory=dict)
    published: dict[str, Expression] = field(default_factory=dict)
    #: The case whose run with seed 1 is drawn over time, and the queries over its tables.
    cases: tuple[Place, ...] = ()
    queries: tuple[Query, ...] = ()
    #: Whether the cases are lines of one panel, instead of panels.
    overlay: bool = False
    #: How many round trips of `sequence`; all if none.
    rounds: int | None = None
    #: The gains of `startup`.
    gains: tuple[float, ...] = ()

    @classmethod
    def read(cls, table: dict[str, Any]) -> Picture:
        """Read one from its table."""
        kind = table.get("kind")
        if not isinstance(kind, str) or kind not in _KEYS:
            raise PictureError(f"a picture's kind is one of {', '.join(_KEYS)}, not {kind!r}")
        needed, more = _KEYS[kind]
        for key in needed:
            if not table.get(key):
                raise PictureError(f"a picture of kind {kind!r} has {key!r}")
        for key in sorted(set(table) - {"kind", *needed, *more}):
            raise PictureError(f"unknown key {key!r} in a picture of kind {kind!r}")
        if table.get("log", "") not in ("", "x", "y", "xy"):
            raise PictureError("a picture's 'log' is 'x', 'y' or 'xy'")
        try:
            return cls(**{key: _READ.get(key, str)(value) for key, value in table.items()})
        except (AttributeError, TypeError, ValueError) as error:
            raise PictureError(f"a picture of kind {kind!r}: {error}") from error

    def expressions(self) -> list[Expression]:
        """Return its expressions."""
        return [*self.y.values(), *self.published.values()]


def _expressions(table: dict[str, str]) -> dict[str, Expression]:
    return {label: Expression(text) for label, text in table.items()}


def _queries(texts: list[str]) -> tuple[Query, ...]:
    if not texts:
        return ()
    from paceline.query import Query, QueryError

    queries = []
    for text in texts:
        try:
            queries.append(Query.read(text))
        except QueryError as error:
            raise PictureError(f"{text!r} {error}") from error
    return tuple(queries)


_LABELS = ("title", "xlabel", "ylabel", "log")
#: By kind, the required keys and the optional ones.
_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sweep": (("y",), (*_LABELS, "published", "points")),
    "bars": (("y",), (*_LABELS, "published")),
    "time": (("cases", "queries"), ("title", "log", "overlay")),
    "sequence": (("cases",), ("title", "rounds")),
    "startup": (("gains",), ("title",)),
}
_READ: dict[str, Callable[[Any], Any]] = {
    "y": _expressions,
    "published": _expressions,
    "cases": lambda texts: tuple(Place.read(text) for text in texts),
    "points": lambda names: tuple(map(str, names)),
    "queries": _queries,
    "overlay": bool,
    "rounds": int,
    "gains": lambda gains: tuple(float(gain) for gain in gains),
}
