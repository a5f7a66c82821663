"""Claims as their files hold them. `docs/reference/claims.md` describes the form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from paceline import _paceline
from paceline.grid import Axis, Overrides, crossed
from paceline.query import Query
from paceline.study.claims.changes import Change
from paceline.study.claims.expressions import Expression
from paceline.study.claims.pictures import Picture
from paceline.study.claims.tables import Table

#: Seeds of a short form that does not say.
QUICK_SEEDS = 2


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
    #: What is set last, after the points of the sweep.
    after: Overrides = ()

    @property
    def axes(self) -> tuple[tuple[str, ...], ...]:
        """The names of the points along each axis."""
        return tuple(axis.names for axis in self.sweep)

    def points(self) -> Iterator[Overrides]:
        """Yield what is set at each point, the last axis running fastest."""
        for point in crossed(self.sweep):
            yield self.overrides + point + self.after

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
    #: Who set it: the source, or we.
    by: Literal["source", "ours"] = "source"
    #: Why it is what it is, where it is ours.
    reason: str = ""
    #: The bound that stood here before, and why it does not any more.
    corrected: str = ""


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
    #: Published figures by the name that expressions use: one, one for each point, or its trials.
    figures: dict[str, float | list[float] | list[list[float]]] = field(default_factory=dict)
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
    #: Whether it is a question of our own, which no publication answers.
    finding: bool = False
    #: What the source leaves open, and what was chosen for it.
    choice: str = ""
    #: The other choices.
    choices: tuple[Change, ...] = ()
    #: Causes, put in or taken away on their own, of a claim that does not hold.
    variants: tuple[Change, ...] = ()
    #: What it is about, taken away: with each of them it must not hold.
    mutants: tuple[Change, ...] = ()
    #: What `bbr3` is in the conformance cases.
    conforms: str = "bbr3"
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
        gaps = [v.halves for v in self.variants if v.halves is not None]
        return [self.measured, *bounds, *self.beside.values(), *drawn, *tabled, *gaps]

    def short(self) -> Claim:
        """Return its short form: the sweeps have those points that it keeps."""
        cases = {name: case.kept(self.quick.points) for name, case in self.cases.items()}
        return replace(self, cases=cases)
