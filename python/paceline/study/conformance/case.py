"""The draft's test cases as stored in files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.grid import overrides_of
from paceline.reading import read_toml

if TYPE_CHECKING:
    from paceline.query import Query

#: The tables that a step's query may use; `draft.tables_of` describes them.
TABLES = frozenset({"samples", "visits", "events", "queue", "path"})

#: The suffix of a file of steps; the scenario has the same name without it.
STEPS = ".steps.toml"


class CaseError(ValueError):
    """A file of steps is invalid."""


@dataclass(frozen=True)
class Step:
    """One of the draft's numbered steps."""

    number: int
    #: The condition, in words.
    says: str
    #: A query with one row, whose column `holds` is the result; its other columns are evidence.
    query: Query


@dataclass(frozen=True)
class Variant:
    """The case with other values in its scenario."""

    #: The difference, in words; empty for the scenario as written.
    name: str = ""
    overrides: tuple[tuple[str, str], ...] = ()
    #: Steps that cannot hold here, with the reason.
    expected: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One of the draft's example test cases."""

    id: str
    title: str
    scenario: Path
    steps: tuple[Step, ...]
    variants: tuple[Variant, ...]
    #: By controller: steps that do not hold for it, with the reason.
    expected: dict[str, dict[int, str]]
    #: Whether it is tried on all of its paths.
    on_all_paths: bool = True


#: The suite's name, and that of its folder.
DRAFT = "draft-ietf-ccwg-bbr"


def named(id_: str, name: str) -> bool:
    """Return whether a name refers to a case: its id, or the beginning of it."""
    return id_ == name or id_.startswith((f"{name}-", f"{name}/"))


def load(folder: Path) -> list[Case]:
    """Return every case of a folder, in the order of their names."""
    files = sorted(folder.glob(f"*{STEPS}"))
    if not files:
        raise CaseError(f"{folder} has no cases: no file ends in {STEPS}")
    return [_read(path) for path in files]


def _read(path: Path) -> Case:
    try:
        document = read_toml(path)
    except (OSError, ValueError) as error:
        raise CaseError(f"{path}: {error}") from error
    _known(path, "the file", document, {"title", "steps", "variants", "expected"})
    name = path.name.removesuffix(STEPS)
    steps = tuple(_step(path, table) for table in _list(path, document, "steps"))
    if not steps:
        raise CaseError(f"{path}: no [[steps]]")
    numbers = {step.number for step in steps}
    expected = {
        controller: _reasons(path, numbers, table)
        for controller, table in document.get("expected", {}).items()
    }
    variants = [_variant(path, numbers, table) for table in _list(path, document, "variants")]
    return Case(
        id=name,
        title=_text(path, "the file", document, "title"),
        scenario=path.with_name(f"{name}.toml"),
        steps=steps,
        variants=(Variant(), *variants),
        expected=expected,
    )


def _step(path: Path, table: dict[str, Any]) -> Step:
    _known(path, "a step", table, {"number", "says", "query"})
    number = table.get("number")
    if not isinstance(number, int):
        raise CaseError(f"{path}: a step's number is the draft's, such as number = 1")
    where = f"step {number}"
    says, text = (_text(path, where, table, key) for key in ("says", "query"))
    from paceline.query import Query, QueryError

    try:
        return Step(number, says, Query.read(text, TABLES))
    except QueryError as error:
        raise CaseError(f"{path}: {where}: its query {error}") from error


def _variant(path: Path, numbers: set[int], table: dict[str, Any]) -> Variant:
    _known(path, "a variant", table, {"name", "set", "expected"})
    name = _text(path, "a variant", table, "name")
    overrides = overrides_of(table.get("set", {}))
    return Variant(name, overrides, _reasons(path, numbers, table.get("expected", {})))


def _reasons(path: Path, numbers: set[int], table: dict[str, Any]) -> dict[int, str]:
    reasons = {}
    for key, reason in table.items():
        if not key.isdecimal() or int(key) not in numbers:
            raise CaseError(f"{path}: {key!r} is expected to fail, and no step has that number")
        reasons[int(key)] = str(reason)
    return reasons


def _list(path: Path, document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise CaseError(f"{path}: write {key} as [[{key}]]")
    return tables


def _text(path: Path, where: str, table: dict[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        raise CaseError(f"{path}: {where} needs {key!r}, a text")
    return value


def _known(path: Path, where: str, table: dict[str, Any], keys: set[str]) -> None:
    unknown = sorted(set(table) - keys)
    if unknown:
        known = ", ".join(sorted(keys))
        raise CaseError(f"{path}: {where} has an unknown key {unknown[0]!r}; known are {known}")
