"""Several runs of one scenario on one page: controllers side by side, and their repeats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import polars as pl

from paceline import answers
from paceline._paceline import metrics
from paceline.measures import label
from paceline.quantities import NONE, quantity, scale_of
from paceline.runs import Run
from paceline.show import page
from paceline.show.palette import Style, flow_style
from paceline.show.panels import Panel, Series, Values, bins, end_of, rates, scaled, scattered, top
from paceline.statistics import aggregate, remarks, spread

#: Maximum number of runs drawn one by one if there is no comparison.
DRAWN = 12

#: The plots of each run: name, title, suffix with unit, table, column; for throughput, the sum.
_DRAWN = (
    ("throughput", "Throughput of all flows", "_bps", "samples", "delivered_bytes"),
    ("rtt", "Round-trip time, mean of all flows", "_ns", "samples", "rtt_ns"),
    ("delay", "Delay in the bottleneck's queue, mean", "_ns", "queue", "delay_ns"),
)


@dataclass(frozen=True)
class One:
    """A run: its path below the folder, its controller, its results and its lines."""

    place: str
    #: The controller of a comparison; empty if there is none.
    side: str
    seed: int
    metrics: dict[str, float | None]
    #: The times that the run ended before: what they are longer than.
    censored: dict[str, float]
    lines: list[Values]
    style: Style


@dataclass
class Joint:
    """Runs of one scenario."""

    scenario: str = ""
    runs: list[One] = field(default_factory=list)
    width: int = 0

    def add(self, place: str, side: str, run: Run) -> None:
        """Add a run; of its tables only the lines are kept."""
        if not self.runs:
            self.scenario = run.scenario
            self.width, _ = bins(end_of(run.samples, run.queue))
        sides = list(dict.fromkeys([*self.sides, side]))
        style = flow_style(sides.index(side) if side else len(self.runs))
        lines = _lines(run, self.width)
        self.runs.append(One(place, side, run.seed, run.metrics, run.censored, lines, style))

    @property
    def sides(self) -> list[str]:
        """The controllers, in the order in which they were added."""
        return list(dict.fromkeys(run.side for run in self.runs))

    @property
    def compares(self) -> bool:
        """Whether they are runs of several controllers."""
        return len(self.sides) > 1

    @property
    def end(self) -> float:
        """When the longest of them ends, in seconds."""
        return self._bins * self.width / 1e9

    @property
    def _bins(self) -> int:
        return max(len(line) for run in self.runs for line in run.lines)

    def panels(self) -> list[Panel]:
        """Return the plots: a line for each controller, or for each run of the only one."""
        times = [(i + 0.5) * self.width / 1e9 for i in range(self._bins)]
        panels = []
        for nth, (name, title, suffix, *_) in enumerate(_DRAWN):
            drawn = self._drawn(nth)
            scale = scale_of(suffix, max(top(line) for *_, line in drawn))
            series = [Series(label, style, scaled(line, scale)) for label, style, line in drawn]
            panels.append(Panel(name, title, scale.unit, times, series))
        return panels

    def _drawn(self, nth: int) -> list[tuple[str, Style, Values]]:
        if not self.compares:
            runs = self.runs[:DRAWN]
            return [(f"seed {run.seed}", run.style, self._mean([run], nth)) for run in runs]
        sides = [(side, self._of(side)) for side in self.sides]
        return [(side, runs[0].style, self._mean(runs, nth)) for side, runs in sides]

    def _of(self, side: str) -> list[One]:
        return [run for run in self.runs if run.side == side]

    def _mean(self, runs: list[One], nth: int) -> Values:
        """Return the mean of a line over some runs, as long as the longest of all."""
        rows = zip_longest(*(run.lines[nth] for run in runs), range(self._bins))
        return [_mean([value for value in row[:-1] if value is not None]) for row in rows]

    def rows(self) -> list[dict[str, Any]]:
        """Return the metrics that are defined somewhere, with the values of each side."""
        names = dict.fromkeys(name for run in self.runs for name in run.metrics)
        rows = []
        for name in names:
            cells = [self._cell(name, side) for side in self.sides]
            if any(cell["value"] != NONE for cell in cells):
                rows.append({"name": name, "label": label(name), "cells": cells})
        return rows

    def _cell(self, name: str, side: str) -> dict[str, str]:
        statistics = self._together(name, side)
        mean = NONE if statistics is None else quantity(name, statistics["mean"])
        return {"value": mean, "interval": spread(name, statistics)}

    def _together(self, name: str, side: str) -> answers.Statistics | None:
        runs = self._of(side)
        values = [run.metrics.get(name) for run in runs]
        return aggregate(values, [run.censored.get(name) for run in runs])

    def remarks(self) -> list[str]:
        """Return what a reader of the intervals has to know."""
        names = dict.fromkeys(name for run in self.runs for name in run.metrics)
        return remarks([self._together(name, side) for name in names for side in self.sides])


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _lines(run: Run, width: int) -> list[Values]:
    """Return the lines of a run, in bins."""
    count = max(-(-end_of(run.samples, run.queue) // width), 1)
    flows = [values.to_list() for values in rates(run.samples, width, count).values()]
    sums = [sum(row) for row in zip(*flows, strict=True)]
    lines: list[Values] = [[*sums] or [None] * count]
    for *_, table, column in _DRAWN[1:]:
        frame = run.samples if table == "samples" else run.queue.filter(pl.col("link") == 0)
        nth = (pl.col("t_ns") // width).clip(0, count - 1).alias("bin")
        means = frame.group_by(nth).agg(pl.col(column).mean()).drop_nulls()
        lines.append(scattered(means["bin"], means[column], count).to_list())
    return lines


def write_page(joint: Joint, path: Path, reports: Iterable[str] = ()) -> Path:
    """Write the page; `reports` are the paths of runs that have their own reports."""
    panels = [page.as_json(panel) for panel in joint.panels()]
    text = page.filled(
        "joint.html.j2",
        {
            "end": joint.end,
            "overview": panels,
            "details": [],
            "tints": {},
            "marks": [],
            "happenings": [],
        },
        joint=joint,
        drawn=DRAWN,
        colours={run.side: run.style.colour for run in joint.runs},
        rows=joint.rows(),
        reports=set(reports),
        definitions=[d for d in metrics() if d["scope"] == "run"],
        bins=quantity("_ns", joint.width),
    )
    path.write_text(text, encoding="utf-8")
    return path
