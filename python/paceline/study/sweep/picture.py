"""A sweep as a picture: curves along an axis, a line for each point of another, panels for more."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from paceline import grid
from paceline.errors import ArgumentError
from paceline.measures import labelled, of_flow, scoped
from paceline.quantities import Scale
from paceline.show.figure import TURNED, Drawing, Theme, canvas, literal, plain, styled
from paceline.show.palette import MARKS, NEUTRAL, flow_style
from paceline.statistics import of_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from paceline.study.sweep.result import Sweep

#: Maximum number of panels of a metric, and of them side by side.
_PANELS, _ACROSS = 36, 6
#: Maximum number of lines in a population's picture.
_LINES = 12
#: Lines that are distinguished by colours of their own; more have shades from dark to pale.
_COLOURS = 7
#: Maximum number of entries in a legend, and of labels along an axis.
_LEGEND, _LABELS = 14, 12
#: Inches that a letter takes.
_LETTER = 0.075


def draw(
    sweep: Sweep,
    metrics: Sequence[str],
    x: str | None = None,
    hue: str | None = None,
    theme: Theme | None = None,
) -> Drawing:
    """Draw metrics over the grid of a sweep; raises `ArgumentError` for a key that it has not."""
    with styled(theme, **{"lines.linewidth": 1.1}):
        if sweep.grid.drawn:
            if x or hue:
                hint = "leave out x and hue: it is drawn as shares of its draws"
                raise ArgumentError("a population is not drawn along an axis", hint=hint)
            return literal(_shares(sweep, metrics, theme))
        return literal(_Curves(sweep, metrics, x, hue, theme or Theme()).draw())


def _title(sweep: Sweep) -> str:
    seeds = len(sweep.grid.seeds)
    return f"{sweep.scenario}, mean of {seeds} seed{'s' * (seeds > 1)}"


class _Curves:
    """The axes of a sweep: along the picture, by line, and by panel."""

    def __init__(
        self, sweep: Sweep, metrics: Sequence[str], x: str | None, hue: str | None, theme: Theme
    ) -> None:
        self._sweep, self._theme = sweep, theme
        self._alone = sweep.flow_count < 2
        axes = sweep.grid.axes
        lines = None if hue is None else sweep.grid.find(hue)[0]
        along, key = (None, None) if x is None else sweep.grid.find(x)
        if lines is not None and lines == along:
            raise ArgumentError(f"{hue!r} is along the axis", hint="give another hue")
        self._x, self._hue, self._outer = sweep.grid.laid_out(along, lines)
        # Without another axis, a panel has the same metric of several flows.
        kinds: dict[object, list[str]] = {}
        for metric in metrics:
            kinds.setdefault(scoped(metric) if self._hue is None else metric, []).append(metric)
        self._rows = list(kinds.values())
        several = [m for row in self._rows if len(row) > 1 for m in row]
        self._flows = sorted({flow[0] for m in several if (flow := of_flow(m))})
        # Of keys that vary together the named one is drawn.
        shown = axes[self._x]
        if key is not None and len(shown.keys) > 1:
            shown = _only(shown, key)
        self._across, self._names = shown.name, shown.names
        self._places, self._unit = grid.places(shown.names)

    def draw(self) -> Drawing:
        axes, paper = self._sweep.grid.axes, self._theme.size
        facets = list(itertools.product(*(range(len(axes[n].points)) for n in self._outer)))
        shown = facets[:_PANELS]
        wide = math.ceil(math.sqrt(len(shown))) if len(self._outer) > 1 else len(shown)
        columns = min(wide, _ACROSS, max(int(paper.width / 1.6), 1) if paper else _ACROSS)
        down = math.ceil(len(shown) / columns)
        rows = down * len(self._rows)
        statistics = {m: self._sweep.statistics(m) for row in self._rows for m in row}
        sure = any(f is not None and f["low"] is not None for fs in statistics.values() for f in fs)
        title = _title(self._sweep) + ", 95 % interval" * sure
        if any(of_count(f) for fs in statistics.values() for f in fs):
            title += "; hollow: the mean of some runs only"
        if len(shown) < len(facets):
            title += f"; the first {len(shown)} of {len(facets)} panels"
        high = 1.75 * rows + 0.6 if paper else max(2.2 * rows + 0.6, 3.4)
        figure = canvas(max(6.4, 2.2 * columns + 1.6), high, title, self._theme)
        room = max(int(figure.get_figheight() / rows * 0.75 / _LETTER), 12)
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for nth, row in enumerate(self._rows):
            means = [f["mean"] for metric in row for f in statistics[metric] if f is not None]
            text, scale = labelled(row[0], means)
            if len(row) > 1:
                text = re.sub(r" of flow \d+", "", text)
            mine = list(panels[nth * down : (nth + 1) * down].flat)
            for number, (facet, ax) in enumerate(zip(shown, mine, strict=False)):
                if number:
                    ax.sharey(mine[0])
                place = dict(zip(self._outer, facet, strict=True))
                for metric in row:
                    self._panel(ax, metric, statistics[metric], place, scale)
                if place and (nth == 0 or down > 1):
                    heading = "\n".join(self._setting(*where) for where in place.items())
                    ax.set_title(heading, fontsize=7)
            for ax in () if means else mine:
                ax.plot([*self._places.values()], [0] * len(self._places), "none")
                ax.text(0.5, 0.5, "undefined in all runs", transform=ax.transAxes, ha="center")
                ax.set_yticks([])
            # An interval of what is never negative may be.
            bottom, top = mine[0].get_ylim()
            least = min(means, default=0.0) / scale.size
            mine[0].set_ylim(0.0 if least >= 0 else bottom, top + 0.04 * abs(top))
            for number, ax in enumerate(mine):
                ax.spines["right"].set_visible(False)
                ax.set_visible(number < len(shown))
                ax.tick_params("y", labelleft=number % columns == 0)
                ax.set_ylabel("" if number % columns else textwrap.fill(text, room))
        self._ticks(figure, panels[0][0], columns)
        for number in range(min(columns, len(shown))):
            at = len(shown) - 1 - number
            ax = panels[rows - down + at // columns][at % columns]
            ax.tick_params("x", labelbottom=True)
            ax.set_xlabel(self._label(self._across, self._unit))
        self._legend(figure)
        return figure

    def _label(self, keys: str, unit: str | None = None) -> str:
        return grid.heading(keys, unit, alone=self._alone)

    def _setting(self, axis: int, point: int) -> str:
        chosen = self._axis(axis)
        return f"{self._label(chosen.name)}: {grid.shown(chosen.points[point].name)}"

    def _lines(self) -> list[str]:
        if self._hue is not None:
            return [*map(grid.shown, self._axis(self._hue).names)]
        known: dict[int, list[str]] = {}
        for flow, label in self._sweep.flows.select("flow", "label").unique().iter_rows():
            known.setdefault(flow, []).append(label)
        # An axis may change what a flow is.
        names = [known.get(flow, []) for flow in self._flows]
        return [
            named[0] if len(named) == 1 else f"flow {flow}"
            for flow, named in zip(self._flows, names, strict=True)
        ]

    def _axis(self, number: int) -> grid.Axis:
        return self._sweep.grid.axes[number]

    def _line(self, nth: int) -> dict[str, Any]:
        count, style = len(self._lines()), flow_style(nth)
        colours = self._theme.colours or [style.colour]
        colour: Any = colours[nth % len(colours)]
        if count > _COLOURS:
            colour = mpl.colormaps["cividis"](0.9 * nth / (count - 1))
        dash = style.line if self._unit is not None else "none"
        mark = MARKS[nth % len(MARKS)]
        return {"color": colour, "linestyle": dash, "marker": mark, "markersize": 3.5}

    def _panel(
        self, ax: Axes, metric: str, statistics: list[Any], fixed: dict[int, int], scale: Scale
    ) -> None:
        axes, flow = self._sweep.grid.axes, of_flow(metric)
        count = len(self._lines()) or 1
        mine = self._flows.index(flow[0]) if flow and flow[0] in self._flows else 0
        for nth in range(count) if self._hue is not None else [mine]:
            # Side by side, where names are along the axis.
            aside = 0.0 if self._unit is not None else (nth - (count - 1) / 2) * 0.5 / count
            rows = []
            for at, name in enumerate(self._names):
                place = {**fixed, self._x: at} | ({} if self._hue is None else {self._hue: nth})
                point = 0
                for n, axis in enumerate(axes):
                    point = point * len(axis.points) + place[n]
                rows.append((self._places[name] + aside, statistics[point]))
            rows.sort(key=lambda row: row[0])
            xs = [x for x, _ in rows]
            means, lows, highs = (
                [math.nan if f is None or f[end] is None else f[end] / scale.size for _, f in rows]
                for end in ("mean", "low", "high")
            )
            theme = self._line(nth)
            if self._flows and not (flow and flow[0] in self._flows):
                theme |= {"color": NEUTRAL, "marker": "."}
            if self._unit is None:
                reach = [
                    [max(m - low, 0.0) for m, low in zip(means, lows, strict=True)],
                    [max(high - m, 0.0) for m, high in zip(means, highs, strict=True)],
                ]
                ax.errorbar(xs, means, yerr=reach, capsize=2.5, **theme)
            else:
                ax.plot(xs, means, **theme)
                ax.fill_between(xs, lows, highs, color=theme["color"], alpha=0.2, linewidth=0)
            some = [m if of_count(f) else math.nan for m, (_, f) in zip(means, rows, strict=True)]
            if not all(map(math.isnan, some)):
                ax.plot(xs, some, **theme | {"linestyle": "none", "markerfacecolor": "white"})

    def _ticks(self, figure: Drawing, ax: Axes, columns: int) -> None:
        if self._unit is not None and grid.is_log(self._places.values()):
            ax.set_xscale("log")
            ax.minorticks_off()
        if self._unit is not None and len(self._places) > _LABELS:
            return
        names = [plain(grid.short(name, at, self._unit)) for name, at in self._places.items()]
        room = figure.get_figwidth() / columns * 0.75 / _LETTER
        turned: dict[str, Any] = {}
        step = 1
        if sum(map(len, names)) + len(names) > room:
            # Names are turned, and every so many numbers have a label.
            turned = TURNED if self._unit is None else {}
            step = math.ceil((sum(map(len, names)) + len(names)) / room) if not turned else 1
            step = max(step, math.ceil(len(names) / 20))
        ax.set_xticks(list(self._places.values())[::step], names[::step], **turned)

    def _legend(self, figure: Drawing) -> None:
        names = self._lines()
        if not names:
            return
        from matplotlib.lines import Line2D

        step = math.ceil(len(names) / _LEGEND)
        shown = range(0, len(names), step)
        handles = [Line2D([], [], label=names[nth], **self._line(nth)) for nth in shown]
        axis = None if self._hue is None else self._axis(self._hue)
        title = "" if axis is None else self._label(axis.name)
        if self._theme.size is None:
            figure.legend(handles=handles, title=title, loc="outside right upper")
            return
        width = max(map(len, [names[nth] for nth in shown])) * _LETTER + 0.5
        columns = max(1, min(len(handles), int(figure.get_figwidth() / width)))
        # Names speak for themselves; numbers do not.
        title = title if axis is not None and grid.places(axis.names)[1] is not None else ""
        figure.legend(handles=handles, title=title, ncols=columns, loc="outside upper center")


def _only(axis: grid.Axis, key: str) -> grid.Axis:
    """Return an axis with one of its keys."""
    points = tuple(grid.Point(dict(p.overrides)[key], p.overrides) for p in axis.points)
    return grid.Axis((key,), points)


def _shares(sweep: Sweep, metrics: Sequence[str], theme: Theme | None) -> Drawing:
    """Draw the share of a population at or below each value: a line for each other point."""
    figure = canvas(6.4, 2.8 * len(metrics) + 0.6, _title(sweep), theme)
    panels = figure.subplots(len(metrics), 1, squeeze=False)[:, 0]
    for ax, metric in zip(panels, metrics, strict=True):
        populations = list(sweep.populations(metric).items())
        text, scale = labelled(metric, [v for _, values in populations for v in values])
        for nth, (place, values) in enumerate(populations[:_LINES]):
            style = flow_style(nth)
            line: Any = {"color": style.colour, "linestyle": style.line}
            line["label"] = ", ".join(place) or None
            ax.ecdf([value / scale.size for value in values] or [math.nan], **line)
        ax.set_ylabel("Share of the draws")
        ax.set_xlabel(text)
        if any(place for place, _ in populations) and ax is panels[0]:
            more = len(populations) - _LINES
            ax.legend(title=f"the first {_LINES} of {len(populations)}" if more > 0 else None)
    return figure
