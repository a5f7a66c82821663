"""References by the names that a command line gives them."""

from __future__ import annotations

from collections.abc import Sequence

from paceline import shipped
from paceline.cli.failure import Failure, failing
from paceline.names import did_you_mean
from paceline.runs import Run
from paceline.study.conformance import DRAFT, CaseError, named
from paceline.study.conformance.reference import PREFIX, Reference, references, run


def chosen(names: Sequence[str]) -> list[Reference]:
    """Return the references of these names, in their own order; all if there is no name."""
    hint = "run it elsewhere: this folder's conformance/ replaces the references of the package"
    with failing(CaseError, "bad-case", hint):
        known = references(shipped.nearest_folder("conformance") / DRAFT)
    wanted = [name.removeprefix(PREFIX) for name in names]
    for name in wanted:
        if not any(named(reference.id, name) for reference in known):
            ids = [reference.id for reference in known]
            hint = did_you_mean(name, ids, "`paceline reference list` shows them all")
            raise Failure("unknown-name", f"no reference is called {name!r}", hint=hint)
    return [one for one in known if not names or any(named(one.id, name) for name in wanted)]


def run_one(name: str) -> Run:
    """Run the reference of this name; of several, the first."""
    return run(chosen([name])[0])
