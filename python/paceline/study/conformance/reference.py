"""A case of the draft as a reference: its run with `bbr3`, and where other states differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline import batch
from paceline.quantities import quantity
from paceline.runs import Run
from paceline.study.conformance.case import Case
from paceline.study.conformance.draft import names_of, visits_of

#: The prefix of a reference, in place of a folder.
PREFIX = "reference:"


@dataclass(frozen=True)
class Stay:
    """The stay of a flow in a state."""

    state: str
    enter_ns: int
    #: None for the last.
    lasts_ns: int | None


def run(case: Case) -> Run:
    """Run a case on its first path with `bbr3`."""
    overrides = (*case.variants[0].overrides, ("flows.0.cc", "bbr3"))
    return batch.run(case.scenario, overrides=overrides)


def stays(run: Run) -> list[Stay]:
    """Return the stays of the first flow, by the draft's names of the states."""
    rows = visits_of(run, names_of(run)).iter_rows(named=True)
    return [
        Stay(
            row["phase"],
            row["enter_ns"],
            None if row["leave_ns"] is None else row["leave_ns"] - row["enter_ns"],
        )
        for row in rows
    ]


def departure(reference: Sequence[Stay], other: Sequence[Stay], rtt_ns: int) -> str:
    """Describe where states differ from those of a reference with this base RTT."""
    if not other:
        return "the record has no states"
    both = list(zip(reference, other, strict=False))
    for number, (one, two) in enumerate(both, 1):
        if one.state != two.state:
            return (
                f"state {number} is {two.state} at {_time(two.enter_ns)}; the reference enters "
                f"{one.state} at {_time(one.enter_ns)}"
            )
        if one.lasts_ns is None or two.lasts_ns is None:
            continue
        longer = two.lasts_ns - one.lasts_ns
        if abs(longer) > rtt_ns:
            rounds, than = abs(longer) / rtt_ns, "longer" if longer > 0 else "shorter"
            return (
                f"state {number}, {one.state}, lasts {_time(two.lasts_ns)}: {rounds:.1f} RTTs "
                f"{than} than in the reference"
            )
    return f"the first {len(both)} states are the same, each within one RTT"


def _time(ns: int) -> str:
    return quantity("_ns", ns)
