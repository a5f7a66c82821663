"""Claims as their files hold them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class ClaimError(ValueError):
    """A file of claims is wrong."""


@dataclass(frozen=True)
class Case:
    """One scenario of a claim, and what is set in it."""

    scenario: Path
    overrides: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Claim:
    """A published statement and what a reproduction must show."""

    id: str
    topic: str
    source: str
    #: What was published, in words or figures.
    published: str
    #: The expression that is shown as measured.
    measured: str
    #: Expressions that must all hold.
    accept: tuple[str, ...]
    #: Scenarios by the name that expressions use.
    cases: dict[str, Case] = field(default_factory=dict)
    #: Seeds 1 to this.
    seeds: int = 10
    #: Printed rows of the start-up simulator by gain: growth, t, round, cwnd, pif, bw.
    startup_rows: dict[str, list[list[str]]] = field(default_factory=dict)
    #: What is known of a claim that does not hold.
    why: str = ""
    file: Path = Path()


_REQUIRED = ("id", "topic", "source", "published", "measured", "accept")


def load(folder: Path) -> list[Claim]:
    """Return every claim below a folder, in the order of their ids."""
    claims = [claim for path in sorted(folder.rglob("*.toml")) for claim in _read(path)]
    seen: dict[str, Path] = {}
    for claim in claims:
        if claim.id in seen:
            raise ClaimError(f"{claim.file}: claim {claim.id} is in {seen[claim.id]} already")
        seen[claim.id] = claim.file
    return sorted(claims, key=lambda claim: claim.id)


def find(claims: Iterable[Claim], names: Iterable[str]) -> list[Claim]:
    """Return the claims with these ids or topics; all of them for no names."""
    claims, names = list(claims), list(names)
    known = {claim.id for claim in claims} | {claim.topic for claim in claims}
    for name in names:
        if name not in known:
            raise KeyError(name)
    return [c for c in claims if not names or c.id in names or c.topic in names]


def _read(path: Path) -> list[Claim]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ClaimError(f"{path}: {error}") from error
    unknown = set(document) - {"claims"}
    if unknown:
        raise ClaimError(f"{path}: unknown key {sorted(unknown)[0]!r}; a file holds [[claims]]")
    return [_claim(path, table) for table in document.get("claims", [])]


def _claim(path: Path, table: dict[str, Any]) -> Claim:
    name = table.get("id", "a claim without id")
    missing = [key for key in _REQUIRED if key not in table]
    if missing:
        raise ClaimError(f"{path}: {name} has no {missing[0]!r}")
    known = {*_REQUIRED, "cases", "seeds", "startup_rows", "why"}
    unknown = sorted(set(table) - known)
    if unknown:
        raise ClaimError(f"{path}: {name}: unknown key {unknown[0]!r}")
    cases = {key: _case(path, name, value) for key, value in table.get("cases", {}).items()}
    plain = {key: value for key, value in table.items() if key not in {"cases", "accept"}}
    return Claim(**plain, accept=tuple(table["accept"]), cases=cases, file=path)


def _case(path: Path, name: str, table: dict[str, Any]) -> Case:
    unknown = sorted(set(table) - {"scenario", "set"})
    if unknown or "scenario" not in table:
        raise ClaimError(
            f"{path}: {name}: a case is {{ scenario = FILE, set = {{ KEY = VALUE }} }}"
        )
    overrides = tuple((key, str(value)) for key, value in table.get("set", {}).items())
    return Case(path.parent / table["scenario"], overrides)
