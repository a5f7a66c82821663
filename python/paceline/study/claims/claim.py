"""Claims as stored in files. `docs/reference/claims.md` describes the format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from paceline import _paceline
from paceline.grid import Axis, Overrides, crossed
from paceline.study.claims.expressions import Expression
from paceline.study.claims.pictures import Picture
from paceline.study.claims.tables import Table

if TYPE_CHECKING:
    from paceline.query import Query

#: Seeds of a short form that does not set them.
QUICK_SEEDS = 2


@dataclass(frozen=True)
class Case:
    """A scenario of a claim, its settings, and the points of its sweep."""

    scenario: Path
    overrides: Overrides = ()
    sweep: tuple[Axis, ...] = ()
    #: Settings that also change with the seed, in turn.
    vary: tuple[Axis, ...] = ()
    #: Seeds 1 to this; the claim's if none.
    seeds: int | None = None
    #: Whether it is simulated, or run with a kernel in real time or in virtual time.
    backend: _paceline.Backend = "sim"
    #: Settings applied last, after the points of the sweep.
    after: Overrides = ()

    @property
    def axes(self) -> tuple[tuple[str, ...], ...]:
        """The names of the points along each axis."""
        return tuple(axis.names for axis in self.sweep)

    def points(self) -> Iterator[Overrides]:
        """Yield the settings of each point, the last axis varying fastest."""
        for point in crossed(self.sweep):
            yield self.overrides + point + self.after

    def kept(self, points: dict[str, tuple[str, ...]]) -> Case:
        """Return it with only these points of the axes of these keys."""
        axes = (
            replace(axis, points=tuple(p for p in axis.points if p.name in points[axis.name]))
            if axis.name in points
            else axis
            for axis in self.sweep
        )
        return replace(self, sweep=tuple(axes))

    def varied(self, seed: int) -> Overrides:
        """Return the settings that go with a seed."""
        places = (axis.points[(seed - 1) % len(axis.points)] for axis in self.vary)
        return tuple(pair for place in places for pair in place.overrides)


@dataclass(frozen=True)
class Bound:
    """A condition of a claim's acceptance."""

    expression: Expression
    #: Its meaning, as a sentence; the expression itself if the claim has none.
    that: str
    #: Who set it: the source, or we.
    by: Literal["source", "ours"] = "source"
    #: The reason, if it is ours.
    reason: str = ""
    #: The previous bound, and why it was changed.
    corrected: str = ""


@dataclass(frozen=True)
class Quick:
    """The short form of a claim."""

    seeds: int = QUICK_SEEDS
    overrides: Overrides = ()
    #: By the keys of an axis, the points of it that are kept.
    points: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """A change of a claim: settings in some of its cases, or a case replaced by another.

    It is a cause added or removed, another choice, or a mutant; what is expected of these differs.
    """

    name: str
    #: The change, in words.
    that: str
    overrides: Overrides = ()
    #: The cases that are changed; all if none is named.
    cases: tuple[str, ...] = ()
    #: By a case's name, the case whose runs take its place.
    swap: dict[str, str] = field(default_factory=dict)
    #: The value of `bbr3` in the conformance cases, in the form of `flows.cc`.
    conformance: str = ""
    #: Of a mutant: why only the long form of the claim shows that it fails.
    long: str = ""
    #: Seeds 1 to this, of every case; those of the claim if none.
    seeds: int | None = None
    #: Of a variant: a gap that it must at least halve; none if every bound must hold with it.
    halves: Expression | None = None
    #: Of a variant or a choice: another figure than the one that the claim measures.
    measured: Expression | None = None

    def of(self, claim: Claim) -> Claim:
        """Return the changed claim, without its display elements."""
        cases = dict(claim.cases)
        for name in self.cases or (tuple(cases) if self.overrides else ()):
            cases[name] = replace(cases[name], after=cases[name].after + self.overrides)
        for name, other in self.swap.items():
            cases[name] = claim.cases[other]
        if self.seeds is not None:
            cases = {name: replace(case, seeds=None) for name, case in cases.items()}
        halves = {"": self.halves} if self.halves else {}
        shown: Any = dict.fromkeys(("pictures", "tables", "variants", "choices", "mutants"), ())
        return replace(
            claim,
            cases=cases,
            measured=self.measured or claim.measured,
            seeds=self.seeds or claim.seeds,
            conforms=self.conformance or claim.conforms,
            beside=halves,
            **shown,
        )


@dataclass(frozen=True)
class Claim:
    """A published statement and the bounds of its reproduction."""

    id: str
    topic: str
    source: str
    #: The published result, in words or figures.
    published: str
    #: The expression whose value is shown as measured.
    measured: Expression
    #: The bounds that must all hold.
    accept: tuple[Bound, ...]
    #: The measured quantity, with its unit.
    measures: str = ""
    #: Why it is measured like this.
    about: str = ""
    #: Scenarios by the name that expressions use.
    cases: dict[str, Case] = field(default_factory=dict)
    #: Queries by the name that expressions use.
    values: dict[str, Query] = field(default_factory=dict)
    #: Published figures by the name that expressions use: one, one for each point, or its trials.
    figures: dict[str, float | list[float] | list[list[float]]] = field(default_factory=dict)
    #: Additional figures.
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
    #: The explanation of a claim that does not hold.
    why: str = ""
    #: Whether it is a question of our own, which no publication answers.
    finding: bool = False
    #: The point that the source leaves open, and our choice.
    choice: str = ""
    #: The other choices.
    choices: tuple[Change, ...] = ()
    #: Causes, added or removed one by one, of a claim that does not hold.
    variants: tuple[Change, ...] = ()
    #: Mutants: its subject is removed, and with each of them it must not hold.
    mutants: tuple[Change, ...] = ()
    #: The value of `bbr3` in the conformance cases.
    conforms: str = "bbr3"
    file: Path = Path()

    @property
    def backend(self) -> _paceline.Backend:
        """The required engine: the emulator, else a virtual machine, if any of its cases does."""
        used = {case.backend for case in self.cases.values()}
        return "emu" if "emu" in used else "vm" if "vm" in used else "sim"

    def expressions(self) -> list[Expression]:
        """Return all of its expressions, including those of its pictures."""
        drawn = [expression for picture in self.pictures for expression in picture.expressions()]
        tabled = [expression for table in self.tables for expression in table.expressions()]
        bounds = [bound.expression for bound in self.accept]
        gaps = [v.halves for v in self.variants if v.halves is not None]
        return [self.measured, *bounds, *self.beside.values(), *drawn, *tabled, *gaps]

    def short(self) -> Claim:
        """Return its short form: only the selected points of its sweeps."""
        cases = {name: case.kept(self.quick.points) for name, case in self.cases.items()}
        return replace(self, cases=cases)
