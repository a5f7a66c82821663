"""Grids of experiments: axes, their points, and the settings of each point."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from paceline import _paceline
from paceline.errors import ArgumentError
from paceline.names import did_you_mean
from paceline.quantities import scale_of

#: Keys of a scenario and their values, as the parser takes them.
Overrides = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Point:
    """A point along an axis: its name, and its settings."""

    name: str
    overrides: Overrides


@dataclass(frozen=True)
class Axis:
    """The points along one axis, and the keys that are set there."""

    keys: tuple[str, ...]
    points: tuple[Point, ...]
    #: Whether its points are drawn: a population, whose points are all equal in rank.
    drawn: bool = False

    def __hash__(self) -> int:
        """Return a summary that is quick to compute, however many points there are."""
        return hash(self.keys)

    @classmethod
    def of(cls, value: Any) -> Axis:
        """Return an axis from the data of the parser, or of a sweep's own file."""
        keys = tuple(value["keys"])
        points = (
            Point(point["name"], tuple(zip(keys, point["values"], strict=True)))
            for point in value["points"]
        )
        return cls(keys, tuple(points), bool(value.get("drawn", False)))

    def as_json(self) -> dict[str, Any]:
        """Return its data in a sweep's own file."""
        points = [
            {"name": point.name, "values": [value for _, value in point.overrides]}
            for point in self.points
        ]
        axis = {"keys": self.keys, "points": points}
        return axis | {"drawn": True} if self.drawn else axis

    @property
    def name(self) -> str:
        """The keys, for people."""
        return ", ".join(self.keys)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its points."""
        return tuple(point.name for point in self.points)


@dataclass(frozen=True)
class Grid:
    """Axes that are crossed, and the seeds that each point is run with."""

    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]

    @property
    def drawn(self) -> list[int]:
        """The numbers of the axes that are drawn."""
        return [nth for nth, axis in enumerate(self.axes) if axis.drawn]

    @cached_property
    def points(self) -> list[Overrides]:
        """The settings of each point, the last axis varying fastest."""
        return list(crossed(self.axes))

    def laid_out(
        self, x: int | None = None, hue: int | None = None
    ) -> tuple[int, int | None, list[int]]:
        """Return the axis along a picture, the one with a line for each point, and the others.

        By default those are the longest axis of numbers, and the first of names, or else the last.
        """
        free = list(range(len(self.axes)))
        numeric = [n for n in free if places(self.axes[n].names)[1] is not None]
        if x is None:
            along = [n for n in numeric or free if n != hue] or free
            x = max(along, key=lambda n: (len(self.axes[n].points), n))
        free.remove(x)
        if hue is None and free:
            hue = next((n for n in free if n not in numeric), free[-1])
        return x, hue, [n for n in free if n != hue]

    def find(self, name: str) -> tuple[int, str | None]:
        """Return the axis with a name, or that of a key and the key, whose last parts are enough.

        Raises `ArgumentError` for what the grid does not vary, or if several keys end so.
        """
        of = {key: nth for nth, axis in enumerate(self.axes) for key in axis.keys}
        names = {axis.name: nth for nth, axis in enumerate(self.axes)}
        if name in names:
            return names[name], None
        matches = [key for key in of if key == name] or [k for k in of if k.endswith(f".{name}")]
        if len(matches) == 1:
            return of[matches[0]], matches[0]
        if matches:
            message = f"{name!r} may be {' or '.join(matches)}"
            raise ArgumentError(message, hint="write the key in full")
        hint = did_you_mean(name, of, f"it varies {', '.join(of)}")
        raise ArgumentError(f"the sweep does not vary {name!r}", hint=hint)

    def __len__(self) -> int:
        """Return the number of runs: the seeds of a point are consecutive."""
        return math.prod(len(axis.points) for axis in self.axes) * len(self.seeds)

    def point_of(self, run: int) -> int:
        """Return the point of a run."""
        return run // len(self.seeds)

    def seed_of(self, run: int) -> int:
        """Return the seed of a run."""
        return self.seeds[run % len(self.seeds)]

    def at(self, point: int) -> tuple[Point, ...]:
        """Return the position of a point along each axis."""
        places = []
        for axis in reversed(self.axes):
            point, nth = divmod(point, len(axis.points))
            places.append(axis.points[nth])
        return tuple(reversed(places))

    def place(self, point: int) -> tuple[str, ...]:
        """Return the name of a point along each axis."""
        return tuple(place.name for place in self.at(point))


def read_axes(table: Mapping[str, Any], file: str, *, twice: bool = False) -> tuple[Axis, ...]:
    """Read axes as in `[sweep.over]` of a scenario; raises `ScenarioError`.

    With `twice` a value may be there again.
    """
    text = "".join(f"{_key(key)} = {toml(value, nested=True)}\n" for key, value in table.items())
    return tuple(map(Axis.of, _paceline.axes(text, file, twice)))


def overrides_of(table: Mapping[str, Any]) -> Overrides:
    """Return the settings of a table, as the parser takes them.

    Several keys, with commas between them, take one value for all or a list with one for each, as
    along an axis; raises `ValueError` if the list has another length.
    """
    pairs: list[tuple[str, str]] = []
    for key, value in table.items():
        names = [name.strip() for name in key.split(",")]
        each = value if isinstance(value, list) and len(names) > 1 else [value] * len(names)
        if len(each) != len(names):
            raise ValueError(f"{key!r} sets {len(names)} keys, and its list has {len(each)} values")
        pairs += zip(names, map(toml, each), strict=True)
    return tuple(pairs)


def document(sections: Mapping[str, Any]) -> str:
    """Return a scenario as TOML; raises `ArgumentError` for what has no form in it.

    A name that is a word of Python has an underscore at its end: ``return_``.
    """
    values, tables = [], []
    for name, value in ({"schema": 1} | dict(sections)).items():
        head = _key(name)
        several = isinstance(value, list | tuple) and all(isinstance(v, Mapping) for v in value)
        if value and (several or isinstance(value, Mapping)):
            for table in value if several else [value]:
                tables.append(f"[[{head}]]" if several else f"[{head}]")
                tables += [f"{_key(key)} = {toml(table[key], nested=True)}" for key in table]
        else:
            values.append(f"{head} = {toml(value, nested=True)}")
    return "\n".join([*values, *tables]) + "\n"


def toml(value: object, *, nested: bool = False) -> str:
    """Return a value in the form of an override: TOML, but plain text without its quotes."""
    if hasattr(value, "item"):
        value = value.item()  # a scalar of numpy
    match value:
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False) if nested else value
        case os.PathLike():
            return toml(os.fspath(value), nested=nested)
        case list() | tuple() | range():
            return f"[{', '.join(toml(item, nested=True) for item in value)}]"
        case Mapping():
            entries = (f"{_key(k)} = {toml(v, nested=True)}" for k, v in value.items())
            return f"{{ {', '.join(entries)} }}"
        case int() | float():
            return str(value)
    hint = "give a text with its unit, a number, a list or a table"
    raise ArgumentError(f"a scenario has no value {value!r}", hint=hint)


def _key(name: str) -> str:
    name = name.removesuffix("_")
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def crossed(axes: Sequence[Axis]) -> Iterator[Overrides]:
    """Yield the settings of each point of a grid, the last axis varying fastest."""
    for places in itertools.product(*(axis.points for axis in axes)):
        yield tuple(pair for place in places for pair in place.overrides)


_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(.*)")

#: The units of values that are no quantity: a number, a part, a part of the BDP, a count.
_UNITS = {"", "%", "bdp", "packets"}

#: The kinds of quantities, and how the name of a column with each of them ends.
_KINDS: dict[Literal["time", "rate", "volume"], str] = {
    "time": "_ns",
    "rate": "_bps",
    "volume": "_bytes",
}


def measured(texts: Sequence[str]) -> tuple[str, list[int]] | None:
    """Return times, rates or volumes in base units, and the end of a column's name for them."""
    for kind, end in _KINDS.items():
        with suppress(ValueError):
            return end, [_paceline.parse_quantity(kind, text) for text in texts]
    return None


def places(names: Sequence[str]) -> tuple[dict[str, float], str | None]:
    """Return the positions of points on a scale, and its unit if they are of one kind."""
    names = list(dict.fromkeys(names))
    quantities = measured(names)
    matches = [_NUMBER.fullmatch(re.sub("packet$", "packets", name)) for name in names]
    units = {match.group(2) if match else None for match in matches}
    unit = units.pop() if len(units) == 1 else None
    if unit is not None and (quantities or unit in _UNITS):
        return {n: float(match[1]) for n, match in zip(names, matches, strict=True) if match}, unit
    if quantities is not None:
        end, values = quantities
        scale = scale_of(end, max(values, default=0))
        return {n: v / scale.size for n, v in zip(names, values, strict=True)}, scale.unit
    return {name: float(index) for index, name in enumerate(names)}, None


def is_log(places: Iterable[float]) -> bool:
    """Return whether points are spaced by a factor rather than by a step: for a log scale."""
    at = sorted(set(places))
    if len(at) < 2 or at[0] <= 0:
        return False
    if len(at) == 2:
        return at[1] / at[0] >= 20
    steps = [high - low for low, high in itertools.pairwise(at)]
    factors = [math.log(high / low) for low, high in itertools.pairwise(at)]
    return max(factors) / min(factors) < max(steps) / min(steps)


#: Parts of keys that are called otherwise.
_WORDS = {"cc": "controller", "rtt": "RTT", "mss": "MSS", "ecn": "ECN", "ack": "ACK", "p": "ratio"}


def words(keys: str, *, alone: bool = False) -> str:
    """Return keys in words: ``flows.0.cc, path.rtt`` is ``controller of flow 0, RTT``.

    Of a scenario with one flow, which is `alone`, no number is given.
    """
    labels = []
    for key in keys.split(", "):
        head, *parts = key.split(".")
        if head in ("flows", "links", "events") and len(parts) > 1:
            number, *parts = parts
            parts = parts[1:] if parts[0] == "cc" and len(parts) > 1 else parts
            of = "" if alone and head == "flows" else f" of {head.removesuffix('s')} {number}"
        else:
            of, parts = "", parts or [head]
        part_names = " ".join(_WORDS.get(part, part.replace("_", " ")) for part in parts)
        labels.append(part_names + of)
    return ", ".join(labels)


def heading(keys: str, unit: str | None = None, *, alone: bool = False) -> str:
    """Return keys in words as a label begins, with their unit: ``Queue size (BDP)``."""
    text = words(keys, alone=alone)
    return text[0].upper() + text[1:] + (f" ({shown(unit)})" if unit else "")


def shown(name: str) -> str:
    """Return a name or a unit of a point for people: ``1 bdp`` is ``1 BDP``."""
    return re.sub(r"(^|(?<= ))bdp$", "BDP", name)


def short(name: str, at: float, unit: str | None) -> str:
    """Return the name of a point without the unit of its scale, on which it is `at`."""
    match = _NUMBER.fullmatch(name)
    if unit is None or match is None:
        return name
    return match[1] if match[2] == unit else f"{at:g}"
