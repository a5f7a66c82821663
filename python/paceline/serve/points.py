"""The points of a sweep as a page shows them, and the scenario of each."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from paceline import _paceline, grid, guests, pages
from paceline.errors import NotARunError
from paceline.quantities import scale_of
from paceline.serve import limits
from paceline.show.palette import flow_style
from paceline.statistics import text
from paceline.study.sweep import dataset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from paceline.study.sweep.result import Sweep


def points(sweep: Sweep, frame: pl.DataFrame, metric: str) -> pages.Points:
    """Return a metric at each point; with many points, only the lowest and the highest."""
    over = sweep.grid
    found = dataset.means(over, frame, metric)
    numbers = list(range(len(found)))
    if len(numbers) > limits.POINTS:
        defined = [n for n in numbers if found[n] is not None]
        defined.sort(key=lambda n: (found[n] or {})["mean"] or 0.0)
        half = limits.POINTS_SHOWN // 2
        numbers = sorted({*defined[:half], *defined[-half:]}, key=defined.index)
    shown: list[pages.GridPoint] = []
    for number in numbers:
        statistics = found[number]
        mean = statistics["mean"] if statistics else None
        place = list(over.place(number))
        told = text(metric, statistics)
        shown.append({"point": number, "place": place, "mean": mean, "text": told})
    known = [d["name"] for d in _paceline.metrics() if d["scope"] == "run"]
    return {
        "scenario": sweep.scenario,
        "metric": metric,
        "metrics": [m for m in dict.fromkeys([*sweep.metrics, *known]) if m in known],
        "axes": [axis.name for axis in over.axes],
        "seeds": list(over.seeds),
        "total": len(found),
        "points": shown,
        "picture": _picture(sweep, metric, found, numbers),
    }


def _picture(
    sweep: Sweep,
    metric: str,
    found: Sequence[Mapping[str, Any] | None],
    numbers: list[int],
) -> pages.Picture | None:
    """Return a metric along the only axis, or its distribution over each population."""
    means = [statistics["mean"] if statistics else None for statistics in found]
    defined = {number: mean for number, mean in enumerate(means) if mean is not None}
    scale = scale_of(metric, max(map(abs, defined.values()), default=None))
    label = {d["name"]: d["label"] for d in _paceline.metrics()}.get(metric, metric)
    title = label if scale.unit in ("ratio", "count", "") else f"{label} ({scale.unit})"
    shown = {number: nth for nth, number in enumerate(numbers) if number in defined}
    if sweep.grid.drawn:
        return _distribution(sweep, title, defined, shown, scale.size)
    if len(sweep.grid.axes) > 1:
        return None
    (axis,) = sweep.grid.axes
    places, unit = grid.places(axis.names)
    ends = min(places.values()), max(places.values())

    def scaled(number: int, name: str) -> float | None:
        value = (found[number] or {})[name]
        return None if value is None else value / scale.size

    return {
        "across": f"{axis.name} ({unit})" if unit else axis.name,
        "up": title,
        "ticks": [{"at": at, "text": grid.short(name, unit)} for name, at in places.items()],
        "log": unit is not None and ends[0] > 0 and ends[1] / ends[0] >= 20,
        "joined": "no" if unit is None else "straight",
        "lines": [{"label": "", "colour": flow_style(0).colour, "dash": []}],
        "marks": [
            {
                "point": shown[number],
                "line": 0,
                "x": places[axis.names[number]],
                "y": defined[number] / scale.size,
                "low": scaled(number, "low"),
                "high": scaled(number, "high"),
            }
            for number in sorted(shown, key=lambda n: places[axis.names[n]])
        ],
    }


def _distribution(
    sweep: Sweep,
    title: str,
    defined: dict[int, float],
    shown: dict[int, int],
    size: float,
) -> pages.Picture:
    """Return the share of each population at or below each value."""

    def other(number: int) -> tuple[str, ...]:
        names = enumerate(sweep.grid.place(number))
        return tuple(name for nth, name in names if nth not in sweep.grid.drawn)

    ranked = sorted(defined, key=lambda number: (other(number), defined[number]))
    populations = {place: list(those) for place, those in groupby(ranked, other)}
    styles = [flow_style(nth) for nth in range(len(populations))]
    return {
        "across": title,
        "up": "share of the draws",
        "ticks": [],
        "log": False,
        "joined": "steps",
        "lines": [
            {"label": ", ".join(place), "colour": style.colour, "dash": list(style.dash)}
            for place, style in zip(populations, styles, strict=True)
        ],
        "marks": [
            {
                "point": shown[number],
                "line": line,
                "x": defined[number] / size,
                "y": rank / len(those),
                "low": None,
                "high": None,
            }
            for line, those in enumerate(populations.values())
            for rank, number in enumerate(those, 1)
            if number in shown
        ],
    }


def scenario(sweep: Sweep, text: str, point: int) -> str:
    """Return the scenario of a point: with its seed, it gives the same bytes again."""
    if not 0 <= point < len(sweep.grid.points):
        raise NotARunError("the sweep has no such point")
    set_there = (*sweep.overrides, *sweep.grid.points[point])
    file = f"{sweep.scenario}.toml"
    return str(guests.check(text, file, set_there, False, "sim", files=False).toml)
