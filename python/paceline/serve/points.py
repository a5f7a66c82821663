"""The points of a sweep as a page shows them, and the scenario of each."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from paceline import _paceline, grid, guests, pages
from paceline.errors import NotARunError
from paceline.measures import labelled
from paceline.serve import limits
from paceline.show.palette import flow_style
from paceline.statistics import text
from paceline.study.sweep import dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import polars as pl

    from paceline.study.sweep.result import Sweep


#: Maximum number of lines in a picture.
_LINES = 12


def points(sweep: Sweep, frame: pl.DataFrame, metric: str) -> pages.Points:
    """Return a metric at each point; with many points, only the lowest and the highest."""
    over = sweep.grid
    by_point = dataset.means(over, frame, metric)
    numbers = list(range(len(by_point)))
    if len(numbers) > limits.POINTS:
        defined = [n for n in numbers if by_point[n] is not None]
        defined.sort(key=lambda n: (by_point[n] or {})["mean"] or 0.0)
        half = limits.POINTS_SHOWN // 2
        numbers = sorted({*defined[:half], *defined[-half:]}, key=defined.index)
    shown: list[pages.GridPoint] = []
    for number in numbers:
        statistics = by_point[number]
        mean = statistics["mean"] if statistics else None
        place = list(over.place(number))
        label = text(metric, statistics)
        shown.append({"point": number, "place": place, "mean": mean, "text": label})
    known = [d["name"] for d in _paceline.metrics() if d["scope"] == "run"]
    return {
        "scenario": sweep.scenario,
        "metric": metric,
        "metrics": [m for m in dict.fromkeys([*sweep.metrics, *known]) if m in known],
        "axes": [grid.heading(axis.name, None) for axis in over.axes],
        "seeds": list(over.seeds),
        "total": len(by_point),
        "points": shown,
        "picture": _picture(sweep, metric, by_point, numbers),
    }


def _picture(
    sweep: Sweep, metric: str, by_point: Sequence[Mapping[str, Any] | None], numbers: list[int]
) -> pages.Picture | None:
    """Return a metric along an axis, a line for each point of another, or its distribution."""
    means = [statistics["mean"] if statistics else None for statistics in by_point]
    defined = {number: mean for number, mean in enumerate(means) if mean is not None}
    title, scale = labelled(metric, defined.values())
    shown = {number: nth for nth, number in enumerate(numbers) if number in defined}
    if sweep.grid.drawn:
        return _distribution(sweep, title, defined, shown, scale.size)
    along, hue, outer = sweep.grid.laid_out()
    axis = sweep.grid.axes[along]
    lines = [""] if hue is None else list(sweep.grid.axes[hue].names)
    if outer or len(lines) > _LINES:
        return None
    places, unit = grid.places(axis.names)

    def scaled(number: int, name: str) -> float | None:
        value = (by_point[number] or {})[name]
        return None if value is None else value / scale.size

    at = {number: sweep.grid.place(number) for number in shown}
    return {
        "across": grid.heading(axis.name, unit),
        "up": title,
        "ticks": [{"at": at, "text": grid.short(name, at, unit)} for name, at in places.items()],
        "log": unit is not None and grid.is_log(places.values()),
        # Across points that are left out, a line would show values that were not measured.
        "joined": "no" if unit is None or len(numbers) < len(by_point) else "straight",
        "lines": _tracks(map(grid.shown, lines)),
        "marks": [
            {
                "point": shown[number],
                "line": 0 if hue is None else lines.index(at[number][hue]),
                "x": places[at[number][along]],
                "y": defined[number] / scale.size,
                "low": scaled(number, "low"),
                "high": scaled(number, "high"),
            }
            for number in sorted(shown, key=lambda n: places[at[n][along]])
        ],
    }


def _tracks(labels: Iterable[str]) -> list[pages.Track]:
    """Return lines with these labels."""
    styled = ((label, flow_style(nth)) for nth, label in enumerate(labels))
    return [{"label": label, "colour": s.colour, "dash": list(s.dash)} for label, s in styled]


def _distribution(
    sweep: Sweep, title: str, defined: dict[int, float], shown: dict[int, int], size: float
) -> pages.Picture:
    """Return the share of each population at or below each value."""

    def other(number: int) -> tuple[str, ...]:
        names = enumerate(sweep.grid.place(number))
        return tuple(name for nth, name in names if nth not in sweep.grid.drawn)

    ranked = sorted(defined, key=lambda number: (other(number), defined[number]))
    populations = {place: list(those) for place, those in groupby(ranked, other)}
    return {
        "across": title,
        "up": "share of the draws",
        "ticks": [],
        "log": False,
        "joined": "steps",
        "lines": _tracks(map(", ".join, populations)),
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
