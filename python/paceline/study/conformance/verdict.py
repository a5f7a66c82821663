"""A judged flow: its verdict in words, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from paceline.quantities import quantity
from paceline.runs import Run
from paceline.study.conformance.packets import SHADOWS, Judged, agreement, alike

#: Broken checks that a sentence names.
_LISTED = 3


@dataclass(frozen=True)
class Flow:
    """A judged flow."""

    run: Run
    target: str
    path: str | None
    flow: int
    judged: list[Judged]
    #: The algorithm that `--as`, or its name, gives.
    named: str | None
    #: Options of its shadow that would explain this flow and those that were judged with it.
    causes: list[tuple[str, float]]

    @property
    def nearest(self) -> Judged:
        """The shadow that it is judged by."""
        return self.judged[0]

    @property
    def name(self) -> str:
        """What a reader calls it."""
        return f"{self.target}{f' on {self.path}' if self.path else f', flow {self.flow}'}"

    @cached_property
    def agreement(self) -> float | None:
        """The share of reported states that the shadow was in."""
        return agreement(self.run, self.flow, self.nearest)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        nearest, broken = self.nearest, self.nearest.having("broken")
        name = SHADOWS[nearest.name]
        if nearest.verdict == "fits":
            holding, untold = (len(nearest.having(one)) for one in ("held", "cannot be told"))
            summary = f"nothing is broken, {holding} checks held"
            return (
                f"{self.name} is {name}: {summary}{f', {untold} cannot be told' if untold else ''}"
            )
        if nearest.verdict == "cannot be told":
            summary = f"{self.name}: these packets do not tell whether it is {name}"
            why = ": they show only its start; record a bulk transfer of 20 s or longer"
            return summary + why * nearest.is_short
        if nearest.is_other:
            is_not = (
                f"is not {name}" if self.named else f"is none of the algorithms; {name} is nearest"
            )
            return f"{self.name} {is_not}: {len(broken)} of its checks are broken"
        summary = "; ".join(in_words(check) for check in broken[:_LISTED])
        more = f"; and {len(broken) - _LISTED} more" if len(broken) > _LISTED else ""
        things = "one thing" if len(broken) == 1 else f"{len(broken)} things"
        return f"{self.name} is {name} in all but {things}: {summary}{more}"

    @property
    def remarks(self) -> list[str]:
        """What else a reader wants to know: where it departs, why, and the states it reported."""
        remarks = [f"With {option} = {value:g} nothing is broken" for option, value in self.causes]
        if (there := self.nearest.departure) is not None:
            at, window = quantity("_ns", there["t_ns"]), quantity("_bytes", there["window_bytes"])
            pace = there["pace_bps"]
            allows = window if pace is None else f"{quantity('_bps', pace)} and {window} in flight"
            flight = quantity("_bytes", there["in_flight_bytes"])
            own = there["own_bps"]
            sends = "" if own is None else f"; it sends at {quantity('_bps', own)}"
            remarks.append(
                f"It departs at {at}: {self.nearest.name} is in {there['phase']} and allows "
                f"{allows}; {flight} are in flight{sends}"
            )
        if others := [one for one in alike(self.judged) if one != self.nearest.name]:
            remarks.append(f"These packets do not tell it from {' or '.join(others)}")
        if self.agreement is not None:
            remarks.append(
                f"Its reported states are the shadow's {100 * self.agreement:.1f} % of the time"
            )
        return remarks

    def as_json(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        return {
            "target": self.target,
            "path": self.path,
            "flow": self.flow,
            "judged_as": self.nearest.name,
            "verdict": self.nearest.verdict,
            "sentence": self.sentence,
            "likeness": {one.name: round(one.likeness, 4) for one in self.judged},
            "states_share": self.agreement,
            "departure": self.nearest.departure,
            "causes": [{"option": option, "value": value} for option, value in self.causes],
            "checks": self.nearest.checks,
        }


def in_words(check: dict[str, Any]) -> str:
    """Return a broken check in words."""
    return f"{check['id']} ({check['section']}) is {measured(check)}, allowed {bounds(check)}"


def measured(check: dict[str, Any]) -> str:
    """Return what a check measured, with its unit."""
    value = check["measured"]
    return "unknown" if value is None else f"{value:.4g} {check['unit']}".strip()


def bounds(check: dict[str, Any]) -> str:
    """Return what a check allows."""
    least, most = check["least"], check["most"]
    if least is most is None:
        return ""
    if least == most:
        return f"{least:.3g}"
    if most is None:
        return f"{least:.3g} or more"
    if least in (None, 0.0):
        return f"up to {most:.3g}"
    return f"{least:.3g} to {most:.3g}"
