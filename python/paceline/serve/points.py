"""The points of a sweep as a page shows them, and the scenario of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline import _paceline, answers, guests
from paceline.errors import NotARunError
from paceline.quantities import NONE, quantity
from paceline.serve import limits
from paceline.study.sweep import dataset

if TYPE_CHECKING:
    import polars as pl

    from paceline.study.sweep.result import Sweep


def points(sweep: Sweep, frame: pl.DataFrame, metric: str) -> answers.Points:
    """Return a metric at each point; of many points, where it is lowest and where it is highest."""
    grid = sweep.grid
    found = dataset.means(grid, frame, metric)
    numbers = list(range(len(found)))
    if len(numbers) > limits.POINTS:
        defined = [n for n in numbers if found[n] is not None]
        defined.sort(key=lambda n: (found[n] or {})["mean"] or 0.0)
        half = limits.POINTS_SHOWN // 2
        numbers = sorted({*defined[:half], *defined[-half:]}, key=defined.index)
    shown: list[answers.GridPoint] = []
    for number in numbers:
        statistics = found[number]
        mean, low, high = (
            statistics[name] if statistics else None for name in ("mean", "low", "high")
        )
        text = NONE if mean is None else quantity(metric, mean)
        if low is not None and high is not None:
            text += f" ({quantity(metric, low)} to {quantity(metric, high)})"
        place = list(grid.place(number))
        shown.append({"point": number, "place": place, "mean": mean, "text": text})
    known = [d["name"] for d in _paceline.metrics() if d["scope"] == "run"]
    return {
        "scenario": sweep.scenario,
        "metric": metric,
        "metrics": [m for m in dict.fromkeys([*sweep.metrics, *known]) if m in known],
        "axes": [axis.name for axis in grid.axes],
        "seeds": list(grid.seeds),
        "total": len(found),
        "points": shown,
    }


def scenario(sweep: Sweep, text: str, point: int) -> str:
    """Return what was run at a point: with its seed, it gives the same bytes again."""
    if not 0 <= point < len(sweep.grid.points):
        raise NotARunError("the sweep has no such point")
    set_there = (*sweep.overrides, *sweep.grid.points[point])
    file = f"{sweep.scenario}.toml"
    return str(guests.check(text, file, set_there, False, "sim", files=False).toml)
