"""A sweep as a picture: a line along one axis, a heat map over two, several over more."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from paceline import grid
from paceline.quantities import Scale, number, scale_of
from paceline.quantities import plain as words
from paceline.show.figure import literal, plain
from paceline.show.palette import QUANTITIES, flow_style
from paceline.study.canvas import TURNED, canvas, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from paceline.study.sweep.result import Sweep

#: Maximum number of heat maps in one picture.
_PANELS = 36
#: Maximum number of lines in a population's picture.
_LINES = 12
#: Maximum number of cells of a heat map with printed values.
_WRITTEN = 80
#: Dark to pale, and safe for colour-blind readers.
_COLOURS = "cividis"


def draw(sweep: Sweep, metric: str) -> Figure:
    """Draw a metric over the grid of a sweep."""
    found = sweep.statistics(metric)
    means = [math.nan if f is None else f["mean"] for f in found]
    defined = [abs(mean) for mean in means if not math.isnan(mean)]
    scale = scale_of(metric.rpartition(".")[2], max(defined, default=None))
    with styled():
        seeds = len(sweep.grid.seeds)
        unit = "" if scale.unit in ("ratio", "count") else f" ({scale.unit})"
        title = f"{sweep.scenario}: {words(metric)}{unit}, mean of {seeds} seed{'s' * (seeds > 1)}"
        if sweep.grid.drawn:
            return literal(_shares(sweep, title, metric, scale))
        if len(sweep.grid.axes) == 1:
            return literal(_line(sweep, title, found, scale))
        return literal(_maps(sweep, title, means, scale))


def _reach(above: float | None, below: float | None) -> float:
    return math.nan if above is None or below is None else max(above - below, 0.0)


def _line(sweep: Sweep, title: str, found: list[Any], scale: Scale) -> Figure:
    told = any(f is not None and f["low"] is not None for f in found)
    figure = canvas(6.4, 3.4, f"{title}, 95 % interval" if told else title)
    axes = figure.subplots()
    (axis,) = sweep.grid.axes
    places, unit = grid.places(axis.names)
    rows = [(places[n], f) for n, f in zip(axis.names, found, strict=True) if f is not None]
    values = [f["mean"] / scale.size for _, f in rows]
    whiskers = [
        [_reach(f["mean"], f["low"]) / scale.size for _, f in rows],
        [_reach(f["high"], f["mean"]) / scale.size for _, f in rows],
    ]
    look: dict[str, Any] = {"linestyle": "solid" if unit is not None else "none", "capsize": 2.5}
    xs = [x for x, _ in rows]
    axes.errorbar(xs, values, yerr=whiskers, color=QUANTITIES[0], marker="o", markersize=4, **look)
    ends = min(places.values()), max(places.values())
    if unit is not None and ends[0] > 0 and ends[1] / ends[0] >= 20:
        axes.set_xscale("log")
        axes.minorticks_off()
    if unit is None or len(places) <= 12:
        axes.set_xticks(list(places.values()), [plain(grid.short(name, unit)) for name in places])
    axes.set_xlabel(f"{axis.name} ({unit})" if unit else axis.name)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    return figure


def _shares(sweep: Sweep, title: str, metric: str, scale: Scale) -> Figure:
    """Draw the share of a population at or below each value: a line for each other point."""
    figure = canvas(6.4, 3.4, title)
    axes = figure.subplots()
    populations = list(sweep.populations(metric).items())
    for nth, (place, values) in enumerate(populations[:_LINES]):
        style = flow_style(nth)
        look: dict[str, Any] = {"color": style.colour, "label": ", ".join(place) or None}
        look["linestyle"] = (0, style.dash) if style.dash else "solid"
        axes.ecdf([value / scale.size for value in values] or [math.nan], **look)
    if any(place for place, _ in populations):
        more = f"the first {_LINES} of {len(populations)}" if len(populations) > _LINES else None
        axes.legend(title=more, loc="best")
    axes.set_ylabel("share of the draws")
    axes.set_xlabel(scale.unit)
    return figure


def _maps(sweep: Sweep, title: str, means: list[float], scale: Scale) -> Figure:
    *outer, rows, columns = sweep.grid.axes
    places = list(itertools.product(*(axis.points for axis in outer)))
    size = len(rows.points) * len(columns.points)
    shown = places[:_PANELS]
    across = len(outer[-1].points) if len(outer) > 1 else math.ceil(math.sqrt(len(shown)))
    across = min(across, 6)
    down = math.ceil(len(shown) / across)
    wide = min(max(0.52 * len(columns.points) + 1.0, 2.2), 7.0)
    high = min(max(0.34 * len(rows.points) + 0.9, 1.7), 6.0)
    if len(shown) < len(places):
        title += f"; the first {len(shown)} of {len(places)}"
    figure = canvas(wide * across + 1.0, high * down + 0.5, title)
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    defined = [mean / scale.size for mean in means if not math.isnan(mean)]
    low, high_ = min(defined, default=0.0), max(defined, default=1.0)
    norm = Normalize(low, high_ if high_ > low else low + 1.0)
    image = None
    for nth, (place, axes) in enumerate(zip(shown, panels.flat, strict=False)):
        cells = [
            [mean / scale.size for mean in means[start : start + len(columns.points)]]
            for start in range(nth * size, (nth + 1) * size, len(columns.points))
        ]
        image = axes.imshow(cells, cmap=_colours(), norm=norm, aspect="auto", origin="lower")
        _cells(axes, cells, norm, scale)
        names = [f"{axis.name} = {point.name}" for axis, point in zip(outer, place, strict=True)]
        axes.set_title("\n".join(names), fontsize=7)
    for axes in list(panels.flat)[len(shown) :]:
        axes.set_visible(False)
    for axes in panels.flat:
        _axis(axes, rows, columns)
    for axes in panels[:, 0]:
        axes.set_ylabel(rows.name)
    # The last panel of each column has the labels, also where the last row is not full.
    for nth in range(min(across, len(shown))):
        axes = panels[(len(shown) - 1 - nth) // across][nth]
        axes.tick_params("x", labelbottom=True)
        axes.set_xlabel(columns.name)
    if image is not None:
        figure.colorbar(image, ax=panels, label=scale.unit, shrink=0.9, pad=0.02)
    return figure


def _colours() -> Any:
    return mpl.colormaps[_COLOURS].with_extremes(bad="#eeeeee")


def _axis(axes: Axes, rows: grid.Axis, columns: grid.Axis) -> None:
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    across, down = [plain(n) for n in columns.names], [plain(n) for n in rows.names]
    turned = TURNED if sum(map(len, across)) > 7 * len(across) or len(across) > 10 else {}
    step = math.ceil(len(across) / 20)
    axes.set_xticks(range(0, len(across), step), across[::step], fontsize=6, **turned)
    step = math.ceil(len(down) / 20)
    axes.set_yticks(range(0, len(down), step), down[::step], fontsize=6)


def _cells(axes: Axes, cells: list[list[float]], norm: Normalize, scale: Scale) -> None:
    if sum(map(len, cells)) > _WRITTEN:
        return
    for y, row in enumerate(cells):
        for x, value in enumerate(row):
            pale = not math.isnan(value) and float(norm(value)) > 0.6
            text = number(value, Scale(scale.unit, 1.0)) if math.isnan(value) else f"{value:.3g}"
            colour = "black" if pale or math.isnan(value) else "white"
            axes.text(x, y, text, ha="center", va="center", fontsize=5.5, color=colour)
