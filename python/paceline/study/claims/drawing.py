"""Draws the pictures of claims, with identical bytes every time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from paceline import _paceline, grid
from paceline.later import polars as pl
from paceline.show import sequence_figure
from paceline.show.figure import BESIDE, TURNED, canvas, literal, plain, styled
from paceline.show.palette import NEUTRAL, QUANTITIES
from paceline.show.sequence import SequenceError
from paceline.study.claims.expressions import Expression, ExpressionError, Names, Place
from paceline.study.claims.jobs import Record
from paceline.study.claims.measured import Measured
from paceline.study.claims.pictures import Picture, PictureError
from paceline.study.claims.quantity import interval_end, statistic
from paceline.study.claims.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from paceline.query import Query

#: An algorithm has the same colour in every picture.
COLOURS = {
    "BBRv1": "#D55E00",
    "BBRv2": "#CC79A7",
    "BBRv3": "#0072B2",
    "BBRv3 (Linux)": "#56B4E9",
    "CUBIC": "#009E73",
    "Reno": "#000000",
    "LEDBAT++": "#E69F00",
}
_MARKS = "osD^v<>P*X"
#: Published values of bars.
_PUBLISHED: dict[str, Any] = {"color": "black", "linestyle": "none", "marker": "_"}
#: The dashes of published lines that share a colour.
_DASHES = ((4, 3), (1, 1.5), (6, 2, 1, 2))


@dataclass(frozen=True)
class Value:
    """A value in a picture: the mean of the seeds and the ends of its interval."""

    mean: float
    low: float
    high: float
    #: The values behind the mean: published trials are drawn one by one.
    trials: tuple[float, ...] = ()


@dataclass(frozen=True)
class Line:
    """A line of a sweep or the bars of a label: a value for each point."""

    label: str
    points: tuple[str, ...]
    values: tuple[Value, ...]
    published: bool = False


def lines(picture: Picture, names: Names) -> list[Line]:
    """Return the lines that a picture draws of expressions, measured ones first."""
    drawn = [line for label, text in picture.y.items() for line in _lines(label, text, names)]
    if picture.points:
        drawn = [replace(line, points=_points(line, picture.points)) for line in drawn]
    points = drawn[0].points if drawn else ()
    for label, text in picture.published.items():
        for line in _lines(label, text, names):
            at = points if len(line.points) == len(points) else line.points
            drawn.append(Line(label, at, line.values, published=True))
    return drawn


def _points(line: Line, points: tuple[str, ...]) -> tuple[str, ...]:
    if len(line.points) != len(points):
        raise PictureError(f"{line.label!r} has {len(line.points)} points, not {len(points)}")
    return points


def _lines(label: str, expression: Expression, names: Names) -> Iterator[Line]:
    quantity = expression.of(names)
    values = [_value(row) for row in quantity.rows]
    match quantity.axes:
        case ():
            yield Line(label, ("",), tuple(values))
        case (axis,):
            yield Line(label, axis, tuple(values))
        case (axis, others):
            for index, other in enumerate(others):
                yield Line(f"{label}, {other}", axis, tuple(values[index :: len(others)]))
        case _:
            message = f"{expression.text!r} has {len(quantity.axes)} axes; at most 2 are allowed"
            raise ExpressionError(message)


def _value(row: tuple[float, ...]) -> Value:
    return Value(statistic("mean", row), interval_end("low", row), interval_end("high", row), row)


def draw(result: Result, picture: Picture) -> Figure:
    """Draw a picture of a claim."""
    with styled():
        mpl.rcParams["lines.linewidth"] = 1.2
        match picture.kind:
            case "time":
                return literal(_time(result, picture))
            case "sequence":
                return _sequence(result, picture)
        figure = canvas(7.2, 3.6, picture.title)
        axes = figure.subplots()
        match picture.kind:
            case "sweep":
                _sweep(axes, picture, lines(picture, result.names))
            case "bars":
                _bars(axes, picture, lines(picture, result.names))
            case "startup":
                _startup(axes, picture.gains)
        axes.set_xlabel(picture.xlabel or axes.get_xlabel())
        axes.set_ylabel(picture.ylabel or axes.get_ylabel())
        if "y" in picture.log:
            axes.set_yscale("log")
    return literal(figure)


def _styles(labels: Iterable[str]) -> dict[str, str]:
    """Return a colour for each label; labels with the same text before a comma share it."""
    labels = list(labels)
    named = {label.partition(",")[0].strip() for label in labels}
    taken = {COLOURS[head] for head in named if head in COLOURS}
    spare = iter([c for c in QUANTITIES if c not in taken] + list(QUANTITIES))
    colours: dict[str, str] = {}
    heads: dict[str, str] = {}
    for label in labels:
        head = label.partition(",")[0].strip()
        if head not in heads:
            heads[head] = COLOURS.get(head) or next(spare, NEUTRAL)
        colours[label] = heads[head]
    return colours


def _sweep(axes: Axes, picture: Picture, drawn: list[Line]) -> None:
    colours = _styles(line.label for line in drawn)
    places, unit = grid.places([point for line in drawn for point in line.points])
    marks: dict[str, int] = {}
    others: dict[str, int] = {}
    handles: list[Any] = []
    for line in drawn:
        head = line.label.partition(",")[0]
        nth = marks[head] = marks.get(head, -1) + (0 if line.published else 1)
        xs = [places[point] for point in line.points]
        means = [value.mean for value in line.values]
        mark = _MARKS[max(nth, 0) % len(_MARKS)]
        if line.published:
            known = others[head] = others.get(head, -1) + 1
            line_style: dict[str, Any] = {"linestyle": (0, _DASHES[known % len(_DASHES)])}
            line_style |= {"marker": "x", "alpha": 0.8}
            colour = colours[line.label]
            if any(len(value.trials) > 1 for value in line.values):
                line_style["marker"] = ""
                pairs = zip(xs, line.values, strict=True)
                places_of = [(x, trial) for x, value in pairs for trial in value.trials]
                axes.plot(*zip(*places_of, strict=True), "x", color=colour, markersize=4, alpha=0.8)
            line_style |= {"color": colour, "label": line.label, "markersize": 5}
            handles += axes.plot(xs, means, **line_style)
            continue
        drawn_line = axes.errorbar(
            xs,
            means,
            yerr=whiskers(line.values),
            color=colours[line.label],
            label=line.label,
            marker=mark,
            markersize=3.5,
            capsize=2.5,
            elinewidth=0.9,
            linestyle="solid" if nth == 0 else (0, (2, 1.5)),
        )
        handles.append(drawn_line)
    if unit is None or "x" in picture.log:
        if "x" in picture.log and unit is not None:
            axes.set_xscale("log")
        axes.minorticks_off()
        names = [plain(grid.short(name, at, unit)) for name, at in places.items()]
        axes.set_xticks(list(places.values()), names)
    axes.set_xlabel(unit or "")
    if "y" not in picture.log:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.legend(handles=handles, **BESIDE)


def whiskers(values: tuple[Value, ...]) -> list[list[float]]:
    """Return how far the interval extends below and above each mean."""
    return [
        [max(value.mean - value.low, 0.0) for value in values],
        [max(value.high - value.mean, 0.0) for value in values],
    ]


#: Maximum number of letters of labels side by side below a picture.
_ALONG = 100


def _bars(axes: Axes, picture: Picture, drawn: list[Line]) -> None:
    """Draw a bar for each label; of a sweep, a group of bars for each point."""
    measured = [line for line in drawn if not line.published]
    published = {line.label: line for line in drawn if line.published}
    colours = _styles(line.label for line in measured)
    groups = list(dict.fromkeys(point for line in measured for point in line.points))
    alone, tick_style = groups == [""], dict[str, Any]()
    width = 0.6 if alone else 0.8 / len(measured)
    for nth, line in enumerate(measured):
        offset = 0.0 if alone else (nth - (len(measured) - 1) / 2) * width
        xs = [(nth if alone else groups.index(point)) + offset for point in line.points]
        axes.bar(
            xs,
            [value.mean for value in line.values],
            width * 0.92,
            yerr=whiskers(line.values),
            capsize=3,
            color=colours[line.label],
            label=line.label,
            error_kw={"elinewidth": 0.9},
        )
        known = published.get(line.label)
        if known is not None:
            values = [value.mean for value in known.values]
            axes.plot(xs, values, markersize=22, markeredgewidth=1.6, **_PUBLISHED)
    if published:
        axes.plot([], [], **_PUBLISHED, label="published")
    if alone:
        labels = [line.label for line in measured]
        longest = max(len(line) for label in labels for line in label.splitlines())
        tick_style = TURNED if len(labels) * longest > _ALONG else {}
        axes.set_xticks(range(len(measured)), map(plain, labels), **tick_style)
        axes.grid(visible=False, axis="x")
        if published:
            axes.legend(handles=axes.lines[-1:], loc="best")
        return
    axes.set_xticks(range(len(groups)), map(plain, groups))
    axes.grid(visible=False, axis="x")
    axes.legend(**BESIDE)


def _time(result: Result, picture: Picture) -> Figure:
    """Draw queries over time: a row of panels for each query, a column for each case or for all."""
    results = {
        _title(result, place): {q: _answer(record.results[q], q) for q in picture.queries}
        for place, record in zip(picture.cases, _records(result, picture), strict=True)
    }
    if picture.overlay:
        results = {"": {query: _laid_over(results, query) for query in picture.queries}}
    rows, columns = len(picture.queries), len(results)
    figure = canvas(max(7.2, 4.2 * columns + 1.2), 2.3 * rows + 0.7, picture.title)
    panels = figure.subplots(rows, columns, squeeze=False, sharex="col", sharey="row")
    for (name, frames), column in zip(results.items(), panels.T, strict=True):
        for query, axes in zip(picture.queries, column, strict=True):
            _curves(axes, query, frames[query])
            if "y" in picture.log:
                axes.set_yscale("log")
        column[0].set_title(name)
        column[-1].set_xlabel(column[-1].get_xlabel(), visible=True)
    for axes in panels.flat:
        if "y" not in picture.log:
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.set_ylabel(axes.get_ylabel() if axes in panels[:, 0] else "")
        axes.set_xlabel(axes.get_xlabel() if axes in panels[-1] else "")
    return figure


def _title(result: Result, place: Place) -> str:
    """Return the name of a case, as the claim's other pictures give it, and its point."""
    labels = [pair for picture in result.claim.pictures for pair in picture.y.items()]
    alike = (label for label, of in labels if set(of.names()) == {place.case})
    return ", ".join([next(alike, place.case), *map(str, place.points)])


def _answer(frame: pl.DataFrame | str, query: Query) -> pl.DataFrame:
    if isinstance(frame, str):
        raise PictureError(f"{query.text!r}: {frame}")
    return frame


def _laid_over(results: Mapping[str, Mapping[Query, pl.DataFrame]], query: Query) -> pl.DataFrame:
    """Return all cases' answers to a query, with the name of the case as the name of its line."""
    frames = []
    for name, of_case in results.items():
        if of_case[query].width != 2:
            raise PictureError(f"{query.text!r}: with 'overlay' a query gives x and y alone")
        frames.append(of_case[query].with_columns(pl.lit(name).alias("case")))
    return pl.concat(frames, how="vertical_relaxed")


#: Maximum number of points of a curve: more than a picture can show.
_POINTS = 4000


def _curves(axes: Axes, query: Query, frame: pl.DataFrame) -> None:
    if frame.width not in (2, 3):
        message = f"{query.text!r} gives {frame.width} columns, not x, y and perhaps a name"
        raise PictureError(message)
    x, y, *split = frame.columns
    parts = frame.partition_by(split, as_dict=True) if split else {("",): frame}
    for index, (key, part) in enumerate(parts.items()):
        thin = part.drop_nulls().gather_every(max(part.height // _POINTS, 1))
        name = str(key[0])
        label = f"{split[0]} {name}" if split and name.isdigit() else name
        colour = QUANTITIES[index % len(QUANTITIES)]
        axes.plot(thin[x].to_list(), thin[y].to_list(), color=colour, label=label, linewidth=0.8)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if split and len(parts) <= 2 * len(QUANTITIES):
        axes.legend(loc="best", fontsize=6)


def _sequence(result: Result, picture: Picture) -> Figure:
    """Draw the time-sequence diagrams of the cases overlaid."""
    runs = [record.run for record in _records(result, picture) if record.run is not None]
    try:
        return sequence_figure.draw(runs, rounds=picture.rounds, title=picture.title or None)
    except SequenceError as error:
        raise PictureError(str(error)) from error


def _records(result: Result, picture: Picture) -> list[Record]:
    """Return the records of seed 1 of a picture's cases."""
    records = []
    for place in picture.cases:
        case = result.names[place.case]
        assert isinstance(case, Measured)
        record = case.records(place.points)[0][0]
        if record is None:
            raise PictureError(f"{_title(result, place)} has no run with seed 1")
        records.append(record)
    return records


def _startup(axes: Axes, gains: tuple[float, ...]) -> None:
    for gain, colour in zip(gains, QUANTITIES, strict=False):
        rows = [row for row in _paceline.startup(gain, 15) if row["growth"] > 0]
        rounds, growth = [row["round"] for row in rows], [row["growth"] for row in rows]
        axes.plot(rounds, growth, marker="o", markersize=3.5, color=colour, label=f"gain {gain:g}")
    axes.axhline(2, color=NEUTRAL, linewidth=0.8, linestyle="--")
    axes.set_xlabel("round")
    axes.set_ylabel("bandwidth over that of the round before")
    axes.legend(loc="best")


def series(picture: Picture, names: Names) -> dict[str, Any]:
    """Return the figures behind a picture, as ``--json`` prints them."""
    return {
        "kind": picture.kind,
        "title": picture.title,
        "lines": [
            {
                "label": line.label,
                "published": line.published,
                "points": [
                    {"point": point, **_finite(value)}
                    for point, value in zip(line.points, line.values, strict=True)
                ],
            }
            for line in lines(picture, names)
        ],
    }


def _finite(value: Value) -> dict[str, float | None]:
    ends = {"mean": value.mean, "low": value.low, "high": value.high}
    return {name: end if math.isfinite(end) else None for name, end in ends.items()}
