"""A complete sweep, in its folder."""

from __future__ import annotations

import html
import json
import math
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline import _paceline, answers, store
from paceline.errors import NotARunError
from paceline.grid import Axis, Grid
from paceline.later import polars as pl
from paceline.measures import all_named, higher_is_better, named, of_flow, unknown
from paceline.reading import read_json, read_parquet
from paceline.study.sweep import dataset
from paceline.study.sweep.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paceline.show.figure import Drawing

#: The file that describes a sweep; a folder that has it holds a complete one.
NAME = "sweep.json"
POINTS = "points.parquet"
SCENARIO = "scenario.toml"
#: A sweep's files in addition to its data set.
NAMES = (NAME, POINTS, SCENARIO)
SCHEMA = 1
#: Maximum number of runs, as in a scenario.
_RUNS = 1_000_000


@dataclass(frozen=True)
class Sweep:
    """A sweep: its grid, and the results at each point."""

    folder: Path
    scenario: str
    grid: Grid
    #: The metrics to compare and draw; the first decides which point is best.
    metrics: tuple[str, ...]
    failed: int
    #: The settings of every point.
    overrides: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Sweep:
        """Read a sweep from its folder."""
        try:
            return cls.of(Path(folder), read_json(Path(folder) / NAME))
        except (OSError, ValueError) as error:
            raise NotARunError(f"{folder} is not a sweep: {error}") from error

    @classmethod
    def of(cls, folder: Path, value: Any) -> Sweep:
        """Return the sweep in a folder's `sweep.json`; raises `ValueError`."""
        try:
            if value["schema"] != SCHEMA:
                reads = f"this version of Paceline reads schema {SCHEMA}"
                raise ValueError(f"it has schema {value['schema']}, but {reads}")
            axes, seeds = tuple(map(Axis.of, value["axes"])), tuple(value["seeds"])
            keys = [key for axis in axes for key in axis.keys]
            runs = math.prod([len(axis.points) for axis in axes]) * len(seeds)
            if not (axes and len(set(keys)) == len(keys) and 0 < runs <= _RUNS):
                raise ValueError(f"its axes and seeds are not those of 1 to {_RUNS:,} runs")
            metrics = tuple(value["metrics"])
            if not metrics or unknown(metrics):
                raise ValueError(f"its metrics are {list(metrics)[:10]}")
            name, failed = str(value["scenario"]), int(value["failed"])
            overrides = tuple((str(key), str(text)) for key, text in value["overrides"])
            return cls(folder, name, Grid(axes, tuple(map(int, seeds))), metrics, failed, overrides)
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from error

    @cached_property
    def runs(self) -> pl.DataFrame:
        """A row for each run: its position in the grid, its seed, its metrics."""
        return dataset.read(self.grid, self.folder, "runs")

    @cached_property
    def flows(self) -> pl.DataFrame:
        """A row for each flow of each run."""
        return dataset.read(self.grid, self.folder, "flows")

    @property
    def flow_count(self) -> int:
        """The maximum number of flows of a run."""
        last = self.flows["flow"].max()
        return last + 1 if isinstance(last, int) else 0

    @cached_property
    def points(self) -> pl.DataFrame:
        """A row for each point and metric: mean, median and their 95 % intervals over the seeds."""
        return read_parquet(self.folder / POINTS)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """A row for each run: its settings, its seed, why it failed, and its metrics.

        The names of settings end in the unit (``path.rtt_ns``); those of the sweep's flow metrics
        name the flow (``flows[0].share_ratio``). `flows` has all metrics of all flows.
        """
        seeds = len(self.grid.seeds)
        columns: dict[str, Any] = {
            key: [value for value in values for _ in range(seeds)]
            for key, values in dataset.settings(self.grid).items()
        }
        runs = self.runs.drop(["run", *dataset.keys(self.grid)])
        flows = {
            metric: [value for point in self.values(metric) for value in point]
            for metric in self.metrics
            if of_flow(metric)
        }
        return pl.concat([pl.DataFrame(columns), runs, pl.DataFrame(flows)], how="horizontal")

    def mean(self, *metrics: str) -> pl.DataFrame:
        """Return a row for each point: its settings, and the mean of each metric over the seeds.

        Beside a metric are the ends of its 95 % interval and the number of runs: `_low`, `_high`,
        `_count`. By default those are the metrics of the sweep.
        """
        columns: dict[str, Any] = dict(dataset.settings(self.grid))
        for metric in map(named, metrics or self.metrics):
            rows = self.statistics(metric)
            for end, name in (("", "mean"), ("_low", "low"), ("_high", "high")):
                values = [None if row is None else row[name] for row in rows]  # type: ignore[literal-required]
                columns[metric + end] = pl.Series(values, dtype=pl.Float64)
            columns[f"{metric}_count"] = [0 if row is None else row["count"] for row in rows]
        return pl.DataFrame(columns)

    def values(self, metric: str) -> list[list[float | None]]:
        """Return a metric at each point, for each seed."""
        metric = named(metric)
        flow = of_flow(metric)
        return self._by_point(flow[0] if flow else None, flow[1] if flow else metric)

    def limits(self, metric: str) -> list[list[float | None]]:
        """Return what a metric is longer than where it is a time that a run ended before."""
        metric = named(metric)
        flow = of_flow(metric)
        column = dataset.limit_of(flow[1] if flow else metric)
        if column not in (self.flows if flow else self.runs).columns:
            return [[None] * len(self.grid.seeds) for _ in self.grid.points]
        return self._by_point(flow[0] if flow else None, column)

    def _by_point(self, flow: int | None, column: str) -> list[list[float | None]]:
        if flow is None:
            values = self.runs[column].to_list()
        else:
            rows = self.flows.filter(pl.col("flow") == flow)
            by_run = dict(zip(rows["run"].to_list(), rows[column].to_list(), strict=True))
            values = [by_run.get(run) for run in range(len(self.grid))]
        width = len(self.grid.seeds)
        return [values[at : at + width] for at in range(0, len(values), width)]

    def statistics(self, metric: str) -> list[answers.Statistics | None]:
        """Return the statistics over the seeds at each point; `None` where undefined."""
        points = zip(self.values(metric), self.limits(metric), strict=True)
        return [dataset.over_seeds(values, limits) for values, limits in points]

    def populations(self, metric: str) -> dict[tuple[str, ...], list[float]]:
        """Return a metric of each draw, a mean over seeds, by the position along the other axes."""
        populations: dict[tuple[str, ...], list[float]] = {}
        for point, values in enumerate(self.values(metric)):
            defined = [value for value in values if value is not None]
            places = enumerate(self.grid.place(point))
            place = tuple(name for nth, name in places if nth not in self.grid.drawn)
            means = [sum(defined) / len(defined)] if defined else []
            populations.setdefault(place, []).extend(means)
        return {place: sorted(values) for place, values in populations.items()}

    def best(self) -> tuple[int, int] | None:
        """Return the best and the worst point by the first metric.

        That is its mean; where times are longer than their run, it counts them as what they are
        longer than: a point where one run of ten converges soon is not the best.
        """
        metric = self.metrics[0]
        points = zip(self.values(metric), self.limits(metric), strict=True)
        return extremes(metric, [_at_least(*point) for point in points])

    def plot(
        self,
        y: str | Sequence[str] | None = None,
        *,
        x: str | None = None,
        hue: str | None = None,
        style: str | os.PathLike[str] | None = None,
        size: str | None = None,
    ) -> Drawing:
        """Draw a metric, or several, along the key `x`: a line for each value of `hue`.

        By default that is the first metric along the longest axis of numbers, with lines for the
        first axis of names, or else for the last axis; what else varies is in panels of their own.
        Along one axis, the same metric of several flows has a line for each. Bands are 95 %
        intervals. `style` is a file of matplotlib (``.mplstyle``); `size` is one for a paper, such
        as ``one-column`` or ``3.5x2.4in``, whose caption has the title.
        """
        from paceline.show.figure import Theme
        from paceline.study.sweep.picture import draw

        metrics = [y] if isinstance(y, str) else y or self.metrics[:1]
        return draw(self, all_named(metrics, self.flow_count), x, hue, Theme.of(style, size))

    def as_json(self) -> dict[str, Any]:
        """Return the ``--json`` object."""
        statistics = {metric: self.statistics(metric) for metric in self.metrics}
        points = [
            {"set": dict(point), "metrics": {name: rows[nth] for name, rows in statistics.items()}}
            for nth, point in enumerate(self.grid.points)
        ]
        best = self.best()
        return {
            "scenario": self.scenario,
            "out": str(self.folder),
            "runs": len(self.grid),
            "failed": self.failed,
            "seeds": list(self.grid.seeds),
            "metrics": list(self.metrics),
            "points": points,
            "best": best and dict(self.grid.points[best[0]]),
            "worst": best and dict(self.grid.points[best[1]]),
        }

    def _repr_html_(self) -> str:
        axes = "".join(
            f"<tr><td>{html.escape(axis.name)}</td>"
            f"<td>{html.escape(', '.join(axis.names))}</td></tr>"
            for axis in self.grid.axes
        )
        seeds = ", ".join(map(str, self.grid.seeds))
        caption = f"Sweep {html.escape(self.scenario)}, {len(self.grid)} runs"
        rows = f"{axes}<tr><td>seed</td><td>{seeds}</td></tr>"
        return f"<table><caption>{caption}</caption>{rows}</table>"

    def __repr__(self) -> str:
        shape = " x ".join(str(len(axis.points)) for axis in self.grid.axes)
        keys = " x ".join(axis.name for axis in self.grid.axes)
        seeds = len(self.grid.seeds)
        return f"<Sweep {self.scenario}: {keys}, {shape} points x {seeds} seeds>"


def _at_least(values: list[float | None], limits: list[float | None]) -> float:
    """Return the mean of values, with what the undefined ones are longer than."""
    if all(value is None for value in values):
        return math.nan
    bounds = (limit if v is None else v for v, limit in zip(values, limits, strict=True))
    known = [bound for bound in bounds if bound is not None]
    return sum(known) / len(known)


def extremes(metric: str, values: list[float]) -> tuple[int, int] | None:
    """Return where a metric is best and where it is worst, among the defined values."""
    defined = [nth for nth, value in enumerate(values) if not math.isnan(value)]
    if not defined:
        return None
    most = max(defined, key=lambda nth: (values[nth], -nth))
    least = min(defined, key=lambda nth: (values[nth], nth))
    return (most, least) if higher_is_better(metric) else (least, most)


def write(plan: Plan, folder: Path, records: dict[int, dict[str, Any]]) -> Sweep:
    """Write the data set of a sweep whose runs have all ended, then mark it complete."""
    runs = dataset.runs(plan.grid, records)
    dataset.write(plan.grid, folder, "runs", runs)
    dataset.write(plan.grid, folder, "flows", dataset.flows(plan.grid, records))
    store.replace(folder / POINTS, store.parquet(dataset.together(plan.grid, runs)))
    store.replace(folder / SCENARIO, plan.text)
    value = {
        "schema": SCHEMA,
        "version": _paceline.__version__,
        "scenario": plan.scenario,
        "overrides": plan.overrides,
        "axes": [axis.as_json() for axis in plan.grid.axes],
        "seeds": plan.grid.seeds,
        "metrics": plan.metrics,
        "tables": plan.tables,
        "failed": runs["error"].count(),
    }
    # Written last: it marks the sweep as complete.
    store.replace(folder / NAME, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    return Sweep.read(folder)
