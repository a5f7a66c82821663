"""Claims as their files hold them. `docs/reference/claims.md` describes the form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from paceline import _paceline
from paceline.errors import ScenarioError
from paceline.grid import Axis, Overrides, crossed, overrides_of, read_axes
from paceline.names import nearest
from paceline.query import Query, QueryError
from paceline.reading import read_text, toml
from paceline.study.claims.expressions import Expression, ExpressionError
from paceline.study.claims.pictures import Picture, PictureError
from paceline.study.claims.tables import Table, TableError

#: Seeds of a short form that does not say.
QUICK_SEEDS = 2


class ClaimError(ValueError):
    """A file of claims is wrong."""


@dataclass(frozen=True)
class Case:
    """A scenario of a claim, what is set in it, and the points of its sweep."""

    scenario: Path
    overrides: Overrides = ()
    sweep: tuple[Axis, ...] = ()
    #: What changes with the seed besides, in turn.
    vary: tuple[Axis, ...] = ()
    #: Seeds 1 to this; the claim's if none.
    seeds: int | None = None
    #: Whether it is simulated, or run with a kernel in real time or in virtual time.
    backend: _paceline.Backend = "sim"

    @property
    def axes(self) -> tuple[tuple[str, ...], ...]:
        """The names of the points along each axis."""
        return tuple(axis.names for axis in self.sweep)

    def points(self) -> Iterator[Overrides]:
        """Yield what is set at each point, the last axis running fastest."""
        for point in crossed(self.sweep):
            yield self.overrides + point

    def kept(self, points: dict[str, tuple[str, ...]]) -> Case:
        """Return it with these points alone of the axes of these keys."""
        axes = (
            replace(axis, points=tuple(p for p in axis.points if p.name in points[axis.name]))
            if axis.name in points
            else axis
            for axis in self.sweep
        )
        return replace(self, sweep=tuple(axes))

    def varied(self, seed: int) -> Overrides:
        """Return what is set with a seed besides."""
        places = (axis.points[(seed - 1) % len(axis.points)] for axis in self.vary)
        return tuple(pair for place in places for pair in place.overrides)


@dataclass(frozen=True)
class Bound:
    """A condition of a claim's acceptance."""

    expression: Expression
    #: What it says, as a sentence; the expression itself if the claim does not say.
    that: str


@dataclass(frozen=True)
class Quick:
    """The short form of a claim."""

    seeds: int = QUICK_SEEDS
    overrides: Overrides = ()
    #: By the keys of an axis, the points of it that are kept.
    points: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A published statement and what a reproduction must show."""

    id: str
    topic: str
    source: str
    #: What was published, in words or figures.
    published: str
    #: The expression that is shown as measured.
    measured: Expression
    #: What must all hold.
    accept: tuple[Bound, ...]
    #: What is measured, with its unit.
    measures: str = ""
    #: Why it is measured thus.
    about: str = ""
    #: Scenarios by the name that expressions use.
    cases: dict[str, Case] = field(default_factory=dict)
    #: Queries by the name that expressions use.
    values: dict[str, Query] = field(default_factory=dict)
    #: Published figures by the name that expressions use.
    figures: dict[str, float | list[float]] = field(default_factory=dict)
    #: Figures that are stated besides.
    beside: dict[str, Expression] = field(default_factory=dict)
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    #: Seeds 1 to this.
    seeds: int = 10
    quick: Quick = Quick()
    #: Printed rows of the start-up simulator by gain: growth, t, round, cwnd, pif, bw.
    startup_rows: dict[str, list[list[str]]] = field(default_factory=dict)
    #: Folder of conformance cases, from the file's; none if the claim is not about them.
    conformance: Path | None = None
    #: What is known of a claim that does not hold.
    why: str = ""
    file: Path = Path()

    @property
    def backend(self) -> _paceline.Backend:
        """What it needs: the emulator, or else a virtual machine, if any of its cases does."""
        used = {case.backend for case in self.cases.values()}
        return "emu" if "emu" in used else "vm" if "vm" in used else "sim"

    def expressions(self) -> list[Expression]:
        """Return all of its expressions, those of its pictures included."""
        drawn = [expression for picture in self.pictures for expression in picture.expressions()]
        tabled = [expression for table in self.tables for expression in table.expressions()]
        bounds = [bound.expression for bound in self.accept]
        return [self.measured, *bounds, *self.beside.values(), *drawn, *tabled]

    def short(self) -> Claim:
        """Return its short form: the sweeps have those points that it keeps."""
        cases = {name: case.kept(self.quick.points) for name, case in self.cases.items()}
        return replace(self, cases=cases)


_REQUIRED = ("id", "topic", "source", "published", "measured", "accept")


def load(folder: Path) -> list[Claim]:
    """Return every claim below a folder, in the order of their ids."""
    claims = [claim for path in sorted(folder.rglob("*.toml")) for claim in _read(path)]
    seen: dict[str, Path] = {}
    for claim in claims:
        if claim.id in seen:
            raise ClaimError(f"{claim.file}: claim {claim.id} is already in {seen[claim.id]}")
        seen[claim.id] = claim.file
    return sorted(claims, key=lambda claim: claim.id)


def find(
    claims: Iterable[Claim], names: Iterable[str], backend: _paceline.Backend | None = None
) -> list[Claim]:
    """Return the claims with these ids or topics, all of them for no names.

    With a backend, they are those that need it, and those that are named by their ids.
    """
    claims, names = list(claims), list(names)
    known = {claim.id for claim in claims} | {claim.topic for claim in claims}
    for name in names:
        if name not in known:
            raise KeyError(name)
    return [
        claim
        for claim in claims
        if claim.id in names
        or ((not names or claim.topic in names) and backend in (None, claim.backend))
    ]


def _read(path: Path) -> list[Claim]:
    try:
        return parse(read_text(path), path)
    except (OSError, UnicodeDecodeError) as error:
        raise ClaimError(f"{path}: {error}") from error


def parse(text: str, path: Path) -> list[Claim]:
    """Read the claims of a file from its text."""
    try:
        document = toml(text)
    except ValueError as error:
        raise ClaimError(f"{path}: {error}") from error
    _no_others(f"{path}", document, ("claims",))
    tables = document.get("claims", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ClaimError(f"{path}: a file holds [[claims]]")
    return [_claim(path, table) for table in tables]


def _no_others(where: str, table: dict[str, Any], known: Iterable[str]) -> None:
    for key in sorted(set(table) - set(known)):
        near = nearest(key, known)
        mean = f"; did you mean {near!r}?" if near else f"; known are {', '.join(known)}"
        raise ClaimError(f"{where}: unknown key {key!r}{mean}")


def _claim(path: Path, table: dict[str, Any]) -> Claim:
    where = f"{path}: {table.get('id', 'a claim without id')}"
    for key in _REQUIRED:
        if key not in table:
            raise ClaimError(f"{where} has no {key!r}")
    _no_others(where, table, [f.name for f in fields(Claim) if f.name != "file"])
    read = dict(table)
    for key in ("id", "topic", "source", "published", "measures", "why", "about"):
        # A text may run over lines; nobody wants its breaks.
        read[key] = " ".join(_text(where, key, table.get(key, "")).split())
    for key in ("cases", "values", "figures", "beside", "startup_rows"):
        if not isinstance(table.get(key, {}), dict):
            raise ClaimError(f"{where}: {key!r} is a table")
    try:
        read["measured"] = Expression(_text(where, "measured", table["measured"]))
        read["accept"] = tuple(_bound(where, entry) for entry in table["accept"])
        read["beside"] = {
            name: Expression(_text(where, name, text))
            for name, text in table.get("beside", {}).items()
        }
        pictures, tables = table.get("pictures", []), table.get("tables", [])
        read["pictures"] = tuple(Picture.read(picture) for picture in pictures)
        read["tables"] = tuple(Table.read(part) for part in tables)
    except (ExpressionError, PictureError, TableError, AttributeError, TypeError) as error:
        raise ClaimError(f"{where}: {error}") from error
    cases = table.get("cases", {}).items()
    read["cases"] = {name: _case(path, f"{where}: case {name}", value) for name, value in cases}
    if "conformance" in table:
        read["conformance"] = path.parent / _text(where, "conformance", table["conformance"])
    read["seeds"] = _seeds(where, table.get("seeds", Claim.seeds))
    read["quick"] = _quick(where, table.get("quick", {}), read["cases"].values())
    read["values"] = {
        name: _query(where, name, query) for name, query in table.get("values", {}).items()
    }
    for name, figure in table.get("figures", {}).items():
        numbers = figure if isinstance(figure, list) else [figure]
        if not numbers or not all(
            isinstance(n, int | float) and abs(n) != math.inf for n in numbers
        ):
            raise ClaimError(f"{where}: the figure {name!r} is a number or a list of them")
    return Claim(**read, file=path)


def _bound(where: str, entry: object) -> Bound:
    if not isinstance(entry, dict):
        text = _text(where, "accept", entry)
        return Bound(Expression(text), text)
    _no_others(f"{where}: accept", entry, ("that", "is"))
    for key in ("that", "is"):
        if key not in entry:
            raise ClaimError(f"{where}: an entry of 'accept' has no {key!r}")
    that = " ".join(_text(where, "that", entry["that"]).split())
    return Bound(Expression(_text(where, "is", entry["is"])), that)


def _query(where: str, name: str, text: object) -> Query:
    try:
        return Query.read(_text(where, name, text))
    except QueryError as error:
        raise ClaimError(f"{where}: the value {name!r} {error}") from error


def _text(where: str, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ClaimError(f"{where}: {key!r} must be a string, not {value!r}")
    return value


def _seeds(where: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ClaimError(f"{where}: 'seeds' must be a whole number from 1, not {value!r}")
    return value


def _quick(where: str, table: dict[str, Any], cases: Iterable[Case]) -> Quick:
    where = f"{where}: quick"
    _no_others(where, table, ("seeds", "set", "points"))
    seeds, points = _seeds(where, table.get("seeds", QUICK_SEEDS)), {}
    axes = [axis for case in cases for axis in case.sweep]
    for key, values in table.get("points", {}).items():
        (kept,) = _axes(f"{where}: points", {key: values})
        known = {name for axis in axes if axis.name == kept.name for name in axis.names}
        for name in kept.names:
            if name not in known:
                raise ClaimError(f"{where}: no sweep over {key!r} has the point {name!r}")
        points[kept.name] = kept.names
    return Quick(seeds, overrides_of(table.get("set", {})), points)


def _case(path: Path, where: str, table: dict[str, Any]) -> Case:
    if not isinstance(table, dict) or "scenario" not in table:
        raise ClaimError(f"{where} is {{ scenario = FILE, set = {{ KEY = VALUE }}, ... }}")
    _no_others(where, table, ("scenario", "set", "sweep", "vary", "seeds", "backend"))
    backend = table.get("backend", "sim")
    if backend not in ("sim", "emu", "vm"):
        raise ClaimError(f"{where}: 'backend' is sim, emu or vm, not {backend!r}")
    return Case(
        path.parent / _text(where, "scenario", table["scenario"]),
        overrides_of(table.get("set", {})),
        _axes(f"{where}: sweep", table.get("sweep", {})),
        _axes(f"{where}: vary", table.get("vary", {}), twice=True),
        _seeds(where, table["seeds"]) if "seeds" in table else None,
        backend,
    )


def _axes(where: str, table: Any, *, twice: bool = False) -> tuple[Axis, ...]:
    if not isinstance(table, dict):
        raise ClaimError(f"{where} is a table of keys and their values")
    try:
        return read_axes(table, where, twice=twice)
    except ScenarioError as error:
        first = error.diagnostics[0]
        hint = f"; {first.hint}" if first.hint else ""
        raise ClaimError(f"{where}: {first.message}{hint}") from error
