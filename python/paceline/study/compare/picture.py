"""A comparison as a picture: the change of each metric, and its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paceline.quantities import plain as words
from paceline.show.figure import Drawing, canvas, literal, styled
from paceline.show.palette import NEUTRAL, QUANTITIES
from paceline.study.compare import Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The width of a label, as a share of the axis.
_ROOM = 0.16
_COLOURS = {"better": QUANTITIES[2], "worse": QUANTITIES[1]}


def draw(title: str, findings: Sequence[Finding]) -> Drawing:
    """Draw the change of each metric in per cent of the old value, with its 95 % interval."""
    shown = [f for f in findings if f.change is not None and math.isfinite(f.change)]
    with styled():
        figure = canvas(6.4, 0.24 * len(shown) + 1.1, title)
        axes = figure.subplots()
        axes.axvline(0, color=NEUTRAL, linewidth=0.8)
        for row, finding in enumerate(shown):
            colour = _COLOURS.get(finding.verdict, NEUTRAL)
            diff, scale = finding.difference, 100 / abs(finding.old or 1)
            if diff is not None and diff.low is not None and diff.high is not None:
                axes.plot([diff.low * scale, diff.high * scale], [row, row], color=colour)
            axes.plot([100 * (finding.change or 0.0)], [row], "o", color=colour, markersize=4)
        names = [f"{words(finding.metric)} ({finding.verdict})" for finding in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.invert_yaxis()
        # A metric that was almost zero must not take the others' space.
        axes.set_xscale("symlog", linthresh=10)
        axes.margins(x=0.04)
        _ticks(axes)
        axes.set_xlabel("Change, with its 95 % interval")
        axes.spines["right"].set_visible(False)
    return literal(figure)


def _ticks(axes: Axes) -> None:
    """Label changes in per cent: 0, 5, 10, 30, 100, 300, ... in both directions, where they fit."""
    low, high = axes.get_xlim()
    steps = [5.0, *(factor * 10.0**power for power in range(1, 9) for factor in (1, 3))]
    ticks = (*(-step for step in reversed(steps)), 0.0, *steps)
    shown = [tick for tick in ticks if low <= tick <= high]
    # The more decades, the fewer labels: those nearest to 0 first, each with room of its own.
    place = axes.transAxes.inverted().transform(axes.transData.transform([(t, 0) for t in shown]))
    kept: list[tuple[float, float]] = []
    for at, tick in sorted(zip(place[:, 0], shown, strict=True), key=lambda pair: abs(pair[1])):
        if all(abs(at - other) >= _ROOM for other, _ in kept):
            kept.append((float(at), tick))
    shown = [tick for _, tick in kept]
    axes.set_xticks(shown, [f"{tick:+,.0f} %" if tick else "0" for tick in shown])
    axes.minorticks_off()
