"""Claims, read from their files. `docs/reference/claims.md` describes the form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from paceline import _paceline
from paceline.errors import ScenarioError
from paceline.grid import Axis, Overrides, overrides_of, read_axes
from paceline.grid import toml as toml_text
from paceline.names import nearest
from paceline.reading import read_text, toml
from paceline.study.claims.claim import QUICK_SEEDS, Bound, Case, Change, Claim, Quick
from paceline.study.claims.expressions import Expression, ExpressionError
from paceline.study.claims.pictures import Picture, PictureError
from paceline.study.claims.tables import Table, TableError
from paceline.study.claims.where import ClaimError, Where, lines

if TYPE_CHECKING:
    from paceline.query import Query

_REQUIRED = ("id", "topic", "source", "published", "measured", "accept")
_TEXTS = ("id", "topic", "source", "published", "measures", "why", "about", "choice")
#: Keys with queries.
_ASKING = ("values", "pictures")
#: Keys of a claim that do not come from a file.
_OURS = ("file", "conforms")


def load(place: Path, *, queries: bool = True) -> list[Claim]:
    """Return every claim of a file or in a folder, in the order of their ids.

    Without their queries, whose parser takes longer to load than all else, they can be listed.
    """
    files = sorted(place.rglob("*.toml")) if place.is_dir() else [place]
    claims = [claim for path in files for claim in _read(path, queries=queries)]
    by_id: dict[str, Path] = {}
    for claim in claims:
        if claim.id in by_id:
            message = f"{claim.file}: claim {claim.id} is already in {by_id[claim.id]}"
            raise ClaimError(message, claim.file)
        by_id[claim.id] = claim.file
    return sorted(claims, key=lambda claim: claim.id)


def find(
    claims: Iterable[Claim], names: Iterable[str], backend: _paceline.Backend | None = None
) -> list[Claim]:
    """Return the claims with these ids or topics; without names, all of them.

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


def _read(path: Path, *, queries: bool) -> list[Claim]:
    try:
        return parse(read_text(path), path, queries=queries)
    except (OSError, UnicodeDecodeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise ClaimError(f"{path}: {why}", path) from error


def parse(text: str, path: Path, *, queries: bool = True) -> list[Claim]:
    """Parse the claims in a file's text."""
    try:
        document = toml(text)
    except ValueError as error:
        raise ClaimError(f"{path}: {error}", path) from error
    where = Where(path, lines(text))
    _no_others(where, document, ("claims",))
    tables = document.get("claims", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise where.wrong(": a file holds [[claims]]")
    if not queries:
        tables = [{key: table[key] for key in table if key not in _ASKING} for table in tables]
    return [
        _claim(where.at(number, words=str(table.get("id", "a claim without id"))), table)
        for number, table in enumerate(tables)
    ]


def _no_others(where: Where, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in sorted(set(table) - set(known)):
        near = nearest(key, known)
        mean = f"; did you mean {near!r}?" if near else f"; known are {', '.join(known)}"
        raise where.wrong(f": unknown key {key!r}{mean}", key)


def _known(where: Where, what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        near = nearest(name, known)
        mean = f"; did you mean {near!r}?" if near else f"; there are {', '.join(known) or 'none'}"
        raise where.wrong(f": no {what} is called {name!r}{mean}")


def _claim(where: Where, table: dict[str, Any]) -> Claim:
    for key in _REQUIRED:
        if key not in table:
            raise where.wrong(f" has no {key!r}")
    names = [f.name for f in fields(Claim) if f.name not in _OURS]
    _no_others(where, table, [*names, "by", "reason"])
    read: dict[str, Any] = {key: value for key, value in table.items() if key in names}
    for key in _TEXTS:
        read[key] = _words(where, table, key)
    for key in ("cases", "values", "figures", "beside", "startup_rows"):
        _kind(where, table, key, dict, "a table")
    finding = _kind(where, table, "finding", bool, "true or false")
    try:
        read["measured"] = Expression(_text(where, table, "measured"))
        bounds = _kind(where, table, "accept", list, "a list of bounds")
        if not bounds and not finding:
            none = ": 'accept' has no bound, and what is not judged is not reproduced"
            raise where.wrong(none, "accept")
        read["accept"] = tuple(
            _bound(where.at("accept", number), table, entry) for number, entry in enumerate(bounds)
        )
        beside, place = table.get("beside", {}), where.at("beside")
        read["beside"] = {name: Expression(_text(place, beside, name)) for name in beside}
        read["pictures"] = tuple(map(Picture.read, table.get("pictures", [])))
        read["tables"] = tuple(map(Table.read, table.get("tables", [])))
    except (ExpressionError, PictureError, TableError, AttributeError, TypeError) as error:
        raise where.wrong(f": {error}") from error
    read["cases"] = {
        name: _case(where.at("cases", name, words=f"case {name}"), value)
        for name, value in table.get("cases", {}).items()
    }
    if "conformance" in table:
        read["conformance"] = where.path.parent / _text(where, table, "conformance")
    read["seeds"] = _seeds(where, table.get("seeds", Claim.seeds))
    read["quick"] = _quick(where.at("quick"), table.get("quick", {}), read["cases"].values())
    values = table.get("values", {})
    read["values"] = {name: _query(where.at("values"), values, name) for name in values}
    for name, figure in table.get("figures", {}).items():
        if not _is_figure(figure):
            message = f": the figure {name!r} is a number, a list of numbers, or a list of lists"
            raise where.wrong(f"{message}: the trials at each point", "figures", name)
    for key, more in _CHANGES.items():
        read[key] = tuple(
            _change(where.at(key, name, words=f"{key} {name}"), name, change, read["cases"], more)
            for name, change in _kind(where, table, key, dict, "a table of names").items()
        )
    if read["choices"] and not read["choice"]:
        raise where.wrong(": 'choices' needs a 'choice', the one that was made", "choices")
    return Claim(**read, file=where.path)


#: Keys that the three kinds of changes may have in addition.
_CHANGES = {
    "choices": ("measured",),
    "variants": ("measured", "halves", "seeds"),
    "mutants": ("conformance", "long"),
}


def _change(
    where: Where, name: str, table: object, cases: Mapping[str, Case], more: tuple[str, ...]
) -> Change:
    if not isinstance(table, dict) or "that" not in table:
        raise where.wrong(" is { that = SENTENCE, set = { KEY = VALUE }, ... }")
    _no_others(where, table, ("that", "set", "cases", "swap", *more))
    changed = _kind(where, table, "cases", list, "a list of names")
    if not all(isinstance(case, str) for case in changed):
        raise where.wrong(": 'cases' is a list of names", "cases")
    swap = _kind(where, table, "swap", dict, "{ CASE = CASE }")
    if not all(isinstance(case, str) for case in swap.values()):
        raise where.wrong(": 'swap' is { CASE = CASE }", "swap")
    for case in (*changed, *swap, *swap.values()):
        _known(where, "case", case, cases)
    conforms = _kind(where, table, "conformance", dict, "{ OPTION = VALUE }")
    if not any(table.get(key) for key in ("set", "swap", "measured", "conformance")):
        raise where.wrong(" changes nothing: add set = { KEY = VALUE } or swap = { CASE = CASE }")
    try:
        halves, measured = (
            Expression(_text(where, table, key)) if key in table else None
            for key in ("halves", "measured")
        )
    except ExpressionError as error:
        raise where.wrong(f": {error}") from error
    return Change(
        name,
        _words(where, table, "that"),
        _set(where, table),
        tuple(changed),
        dict(swap),
        toml_text({"name": "bbr3", **conforms}) if conforms else "",
        _words(where, table, "long"),
        _seeds(where, table["seeds"]) if "seeds" in table else None,
        halves,
        measured,
    )


def _set(where: Where, table: Mapping[str, Any]) -> Overrides:
    settings = _kind(where, table, "set", dict, "{ KEY = VALUE }")
    try:
        return overrides_of(settings)
    except ValueError as error:
        raise where.wrong(f": {error}", "set") from error


def _bound(where: Where, claim: dict[str, Any], entry: object) -> Bound:
    if not isinstance(entry, dict):
        text = _text(where, {"accept": entry}, "accept")
        entry = {"that": text, "is": text}
    place = where.at(words="accept")
    _no_others(place, entry, ("that", "is", "by", "reason", "corrected"))
    for key in ("that", "is"):
        if key not in entry:
            raise where.wrong(f": an entry of 'accept' has no {key!r}")
    source = entry if "by" in entry else claim
    by = source.get("by", "source")
    if by not in ("source", "ours"):
        raise place.wrong(f": 'by' is source or ours, not {by!r}")
    reason = _words(where, entry if entry.get("reason") else source, "reason")
    if by == "ours" and not reason:
        raise place.wrong(": a bound with by = 'ours' needs a 'reason'")
    of, that = Expression(_text(where, entry, "is")), _words(where, entry, "that")
    corrected = _words(where, entry, "corrected")
    if by == "ours":
        return Bound(of, that, "ours", reason, corrected)
    return Bound(of, that, corrected=corrected)


def _is_figure(figure: object) -> bool:
    """Return whether it is a number, one for each point, or the trials at each point."""
    rows = figure if isinstance(figure, list) and figure else [figure]
    lists = [isinstance(row, list) and len(row) > 0 for row in rows]
    numbers = [n for row in rows for n in (row if isinstance(row, list) else [row])]
    known = (isinstance(n, int | float) and abs(n) != math.inf for n in numbers)
    return all(known) and (all(lists) or not any(lists))


def _query(where: Where, table: Mapping[str, Any], name: str) -> Query:
    from paceline.query import Query, QueryError

    try:
        return Query.read(_text(where, table, name))
    except QueryError as error:
        raise where.wrong(f": the value {name!r} {error}", name) from error


_Kind = TypeVar("_Kind")


def _kind(where: Where, table: Mapping[str, Any], key: str, kind: type[_Kind], what: str) -> _Kind:
    """Return the value of a key, or an empty one."""
    value = table.get(key, kind())
    if not isinstance(value, kind):
        raise where.wrong(f": {key!r} is {what}", key)
    return value


def _text(where: Where, table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise where.wrong(f": {key!r} must be a string, not {value!r}", key)
    return value


def _words(where: Where, table: Mapping[str, Any], key: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(_text(where, table, key).split())


def _seeds(where: Where, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise where.wrong(f": 'seeds' must be a whole number from 1, not {value!r}", "seeds")
    return value


def _quick(where: Where, table: dict[str, Any], cases: Iterable[Case]) -> Quick:
    where = where.at(words="quick")
    if not isinstance(table, dict):
        raise where.wrong(" is a table")
    _no_others(where, table, ("seeds", "set", "points"))
    seeds, points = _seeds(where, table.get("seeds", QUICK_SEEDS)), {}
    axes = [axis for case in cases for axis in case.sweep]
    for key, values in table.get("points", {}).items():
        (kept,) = _axes(where.at("points", key, words="points"), {key: values})
        known = {name for axis in axes if axis.name == kept.name for name in axis.names}
        for name in kept.names:
            if name not in known:
                raise where.wrong(f": no sweep over {key!r} has the point {name!r}", "points", key)
        points[kept.name] = kept.names
    return Quick(seeds, _set(where, table), points)


def _case(where: Where, table: dict[str, Any]) -> Case:
    if not isinstance(table, dict) or "scenario" not in table:
        raise where.wrong(" is { scenario = FILE, set = { KEY = VALUE }, ... }")
    _no_others(where, table, ("scenario", "set", "sweep", "vary", "seeds", "backend"))
    backend: _paceline.Backend = table.get("backend", "sim")
    if backend not in ("sim", "emu", "vm"):
        raise where.wrong(f": 'backend' is sim, emu or vm, not {backend!r}", "backend")
    return Case(
        where.path.parent / _text(where, table, "scenario"),
        _set(where, table),
        _axes(where.at("sweep", words="sweep"), table.get("sweep", {})),
        _axes(where.at("vary", words="vary"), table.get("vary", {}), twice=True),
        _seeds(where, table["seeds"]) if "seeds" in table else None,
        backend,
    )


def _axes(where: Where, table: Any, *, twice: bool = False) -> tuple[Axis, ...]:
    if not isinstance(table, dict):
        raise where.wrong(" is a table of keys and their values")
    try:
        return read_axes(table, str(where), twice=twice)
    except ScenarioError as error:
        first = error.diagnostics[0]
        hint = f"; {first.hint}" if first.hint else ""
        raise where.wrong(f": {first.message}{hint}") from error
