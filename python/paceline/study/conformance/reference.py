"""The references: the draft's cases and the baselines beside them, run with the draft's BBR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline import _paceline, batch, shipped
from paceline.errors import ArgumentError
from paceline.names import did_you_mean
from paceline.reading import read_toml
from paceline.runs import Run
from paceline.study.conformance.case import DRAFT, STEPS, CaseError, named

#: The prefix of a reference, in place of a folder.
PREFIX = "reference:"

#: The controller of a reference.
CONTROLLER = "bbr3"


@dataclass(frozen=True)
class Reference:
    """A scenario whose run is a reference for implementations of the draft."""

    id: str
    #: What its trace shows.
    about: str
    #: The draft's section, with its title; none for a baseline.
    section: str | None
    scenario: Path


def draft() -> str:
    """Return the draft's name with its number, such as ``draft-ietf-ccwg-bbr-06``."""
    return next(c["source"] for c in _paceline.controllers() if c["name"] == CONTROLLER)


def references(folder: Path) -> list[Reference]:
    """Return every reference of a folder, in the order of their names.

    A scenario without steps is a baseline: it is no case of the draft.
    """
    files = [path for path in sorted(folder.glob("*.toml")) if not path.name.endswith(STEPS)]
    if not files:
        raise CaseError(f"{folder} has no scenarios: no file ends in .toml")
    return [_read(path) for path in files]


def _read(path: Path) -> Reference:
    try:
        document = read_toml(path)
    except (OSError, ValueError) as error:
        raise CaseError(f"{path}: {error}") from error
    about, source = (str(document.get(key, "")) for key in ("about", "source"))
    section = source.removeprefix(draft()).strip() or None
    return Reference(path.stem, " ".join(about.split()), section, path)


def settings(*, packets: bool = False) -> tuple[tuple[str, str], ...]:
    """Return what a reference's run sets in its scenario."""
    recorded = (("run.record.packets", "true"),) if packets else ()
    return (("flows.0.cc", CONTROLLER), *recorded)


def chosen(names: Sequence[str]) -> list[Reference]:
    """Return the references of these names, in their own order; all if there is no name.

    Raises `ArgumentError` for a name that there is not, and `CaseError` for a folder without any.
    """
    known = references(shipped.nearest_folder("conformance") / DRAFT)
    selected = [name.removeprefix(PREFIX) for name in names]
    for name in selected:
        if not any(named(reference.id, name) for reference in known):
            ids = [reference.id for reference in known]
            hint = did_you_mean(name, ids, "`paceline reference list` shows them all")
            raise ArgumentError(f"no reference is called {name!r}", hint=hint)
    return [one for one in known if not names or any(named(one.id, name) for name in selected)]


def run(reference: Reference) -> Run:
    """Run a reference."""
    return batch.run(reference.scenario, overrides=settings())
