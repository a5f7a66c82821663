"""The two sides of a comparison, as values by point, metric and seed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline import _paceline
from paceline.errors import ArgumentError, NotARunError
from paceline.measures import alike, limit, names, scoped, times, value
from paceline.reading import read_json, read_toml
from paceline.statistics import of_runs, text
from paceline.study.sweep.dataset import limit_of
from paceline.study.sweep.result import NAME as SWEEP
from paceline.study.sweep.result import Sweep

#: Values of a metric by their pairing key: a seed, or the position along axes.
Values = dict[Any, float]

_SEED = re.compile(r"seed-\d+")


@dataclass
class Subject:
    """One side of a comparison."""

    name: str
    #: By point, each run's JSON, by pairing key; a single run has one point without a name.
    points: dict[str, dict[Any, dict[str, Any]]] = field(default_factory=dict)
    #: By point, its scenario's settings, by key; those of flows, links and events without numbers.
    settings: dict[str, dict[str, list[Any]]] = field(default_factory=dict)

    @classmethod
    def alone(cls, name: str, run: dict[str, Any], scenario: dict[str, Any]) -> Subject:
        """Return a single run, read from its files."""
        _schema(run["schema"])
        _check(run["metrics"], *run["flows"])
        return cls(name, {"": {int(run["seed"]): run}}, {"": _of_document(scenario)})

    def values(self, point: str, metric: str) -> Values:
        """Return a metric at a point for each seed in which it is defined."""
        values = {seed: value(run, metric) for seed, run in self.points[point].items()}
        return {seed: v for seed, v in sorted(values.items()) if v is not None}

    def censored(self, point: str, metric: str) -> Values:
        """Return what a time is longer than, for each seed whose run ended before it.

        A record that does not say how long its run could show it has no limit: it is longer than
        all others, if runs at the point have that time at all.
        """
        scope, name = scoped(metric)
        if name not in times(scope):
            return {}
        runs = sorted(self.points[point].items())
        some = any(value(run, metric) is not None for _, run in runs)
        bounds = {}
        for seed, run in runs:
            least = limit(run, metric)
            if value(run, metric) is None and (least is not None or some):
                bounds[seed] = math.inf if least is None else least
        return bounds

    def figure(self, point: str, metric: str) -> str:
        """Return a metric's mean at a point for people, with its interval and the runs it is of."""
        return text(metric, of_runs(list(self.points[point].values()), metric))

    def alike(self, point: str) -> bool:
        """Return whether there is one run at a point, or several with identical results."""
        runs = self.points[point].values()
        return alike({name: [value(run, name) for run in runs] for name in self.metrics()})

    def is_paired_by_point(self, point: str) -> bool:
        """Return whether its values at a point are of other paths, and not of other seeds."""
        return any(isinstance(unit, tuple) for unit in self.points[point])

    @property
    def flow_count(self) -> int:
        """The number of flows of the run that has most."""
        runs = (run for runs in self.points.values() for run in runs.values())
        return max((len(run["flows"]) for run in runs), default=0)

    def is_recording(self, point: str) -> bool:
        """Return whether another program recorded the run at a point: its path is unknown."""
        return any(run.get("source") is not None for run in self.points[point].values())

    def metrics(self) -> list[str]:
        """Return the metrics of its runs, in the order of their definitions."""
        runs = (run for runs in self.points.values() for run in runs.values())
        there = {name for run in runs for name in run["metrics"]}
        return [name for name in names("run") if name in there]


def read(folder: Path) -> Subject:
    """Read a run, repeats, a comparison of controllers, or a sweep."""
    if (folder / SWEEP).is_file():
        return _sweep(Sweep.read(folder))
    subject = Subject(str(folder))
    for path in sorted(folder.rglob("run.json")):
        parts = path.parent.relative_to(folder).parts
        if any(part.startswith(".") for part in parts):
            continue  # remains of a killed process
        try:
            run = read_json(path)
            _schema(run["schema"])
            seed = int(run["seed"])
            _check(run["metrics"], *run["flows"])
        except (KeyError, TypeError, OSError, ValueError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            why = "a value has the wrong type" if isinstance(error, TypeError) else why
            raise NotARunError(f"{path} is not the run.json of a run: {why}") from error
        point = "/".join(part for part in parts if not _SEED.fullmatch(part))
        name = _END.sub("", point)
        # Two runs with one name and seed, such as of two engines, are two points.
        if seed in subject.points.get(name, {}):
            name = point
        subject.points.setdefault(name, {})[seed] = run
        if name not in subject.settings:
            subject.settings[name] = _settings(path.with_name("scenario.toml"))
    if not subject.points:
        raise NotARunError(f"{folder} has no run and no sweep")
    return subject


#: A scenario's description, and the differences between repeats.
_WORDS = {"schema", "name", "about", "source", "seed", "repeats", "compare", "sweep", "expect"}


def _settings(path: Path) -> dict[str, list[Any]]:
    """Return a scenario's settings; nothing if it is missing or unreadable."""
    try:
        return _of_document(read_toml(path))
    except (OSError, ValueError):
        return {}


def _of_document(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Return a scenario's settings."""
    settings: dict[str, list[Any]] = {}
    for section, content in document.items():
        if section in _WORDS:
            continue
        for part in content if isinstance(content, list) else [content]:
            for key, setting in part.items() if isinstance(part, dict) else []:
                if key not in _WORDS:
                    settings.setdefault(f"{section}.{key}", []).append(setting)
    return settings


def _schema(version: object) -> None:
    if type(version) is not int or version != _paceline.RECORD_SCHEMA:
        reads = f"this version of Paceline reads schema {_paceline.RECORD_SCHEMA}"
        raise ValueError(f"it has schema {version}, but {reads}")


def _check(*parts: object) -> None:
    metrics = names("run") | names("flow")
    for part in parts:
        if not isinstance(part, dict):
            raise ValueError("`metrics` is not a table of names and values")
        for name in metrics & part.keys():
            if part[name] is not None and not isinstance(part[name], int | float):
                raise ValueError(f"{name} is not a number")


#: The end of a folder's name: its seeds, and the hash and the number that may follow.
_END = re.compile(r"-\d+(to\d+)?-[0-9a-f]{6}(-\d+)?(?=/|$)|-\d+$")


def repeats_of(place: str) -> str:
    """Return the common part of the folder names of a scenario's repeats."""
    above, _, last = place.rpartition("/")
    return f"{above}/" if _SEED.fullmatch(last) else _END.sub("", place)


def _sweep(sweep: Sweep) -> Subject:
    """Return a sweep with each of its points; drawn values are paired draw by draw.

    A draw is one of a population: it counts once, as the mean of its seeds, and pairs with the draw
    of another sweep that has the same number and the same values.
    """
    grid = sweep.grid
    listed = [nth for nth in range(len(grid.axes)) if nth not in grid.drawn]
    return _side(sweep, str(sweep.folder), range(len(grid)), listed, grid.drawn)


def split(sweep: Sweep, key: str) -> dict[str, Subject]:
    """Return a sweep as a side for each value of a key; `ArgumentError` if it has one value only.

    What else it varies pairs them: at each of those points a side has the mean of its seeds. Where
    it varies nothing else, the seeds do.
    """
    grid = sweep.grid
    axis, _ = grid.find(key)
    if len(set(grid.axes[axis].names)) < 2:
        hint = "sweep two values of it, or compare two sweeps"
        raise ArgumentError(f"the sweep has one value of {key!r}", hint=hint)
    runs: dict[str, list[int]] = {}
    for run in range(len(grid)):
        runs.setdefault(grid.place(grid.point_of(run))[axis], []).append(run)
    others = [n for n in range(len(grid.axes)) if n != axis]
    return {name: _side(sweep, name, those, (), others) for name, those in runs.items()}


def _side(
    sweep: Sweep, name: str, runs: Iterable[int], axes: Iterable[int], paired: Sequence[int] = ()
) -> Subject:
    """Return runs of a sweep: a point for each place along some axes, paired along others."""
    subject = Subject(name)
    grid, chosen, axes = sweep.grid, set(runs), list(axes)
    flows: dict[int, list[dict[str, Any]]] = {}
    for flow in sweep.flows.iter_rows(named=True):
        flows.setdefault(flow["run"], []).append(flow | {"censored": _limits("flow", flow)})
    points: dict[str, dict[Any, list[dict[str, Any]]]] = {}
    for row in sweep.runs.iter_rows(named=True):
        if row["run"] not in chosen:
            continue
        places = grid.at(grid.point_of(row["run"]))
        overrides = (pair for n in axes for pair in places[n].overrides)
        point = ", ".join(f"{key} = {text}" for key, text in overrides)
        unit = tuple(places[n].name for n in paired) or grid.seed_of(row["run"])
        run = {"metrics": row, "flows": flows.get(row["run"], []), "censored": _limits("run", row)}
        points.setdefault(point, {}).setdefault(unit, []).append(run)
    for point, units in points.items():
        subject.points[point] = {unit: _mean(runs) for unit, runs in units.items()}
    settings = _settings(sweep.folder / "scenario.toml")
    settings |= {key: [text] for key, text in sweep.overrides}
    subject.settings = dict.fromkeys(subject.points, settings)
    return subject


def _limits(scope: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return what the times in a row of a sweep are longer than, by metric."""
    limits = {name: row.get(limit_of(name)) for name in times(scope)}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _mean(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of runs: the mean of each metric where it is defined.

    If a time is longer than one of the runs, their mean is longer than the mean of what is known.
    """
    if len(runs) == 1:
        return runs[0]
    flows = zip(*(run["flows"] for run in runs), strict=False)
    metrics, censored = _means([run["metrics"] for run in runs], [r["censored"] for r in runs])
    parts = (_means(list(same), [flow["censored"] for flow in same]) for same in flows)
    means = [flow | {"censored": limits} for flow, limits in parts]
    return {"metrics": metrics, "flows": means, "censored": censored}


def _means(
    rows: Sequence[dict[str, Any]], limits: Sequence[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    means, censored = {}, {}
    for name in rows[0]:
        values = [row[name] for row in rows if isinstance(row.get(name), int | float)]
        means[name] = sum(values) / len(values) if values else None
        if any(name in limit for limit in limits):
            pairs = zip(rows, limits, strict=True)
            known = [limit.get(name, row.get(name)) for row, limit in pairs]
            least = [value for value in known if value is not None]
            means[name], censored[name] = None, sum(least) / len(least)
    return means, censored
