"""What is compared: runs, repeats, comparisons and sweeps, as values by point, metric and seed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline import _paceline
from paceline.errors import NotARunError
from paceline.measures import alike, of_flow, value
from paceline.reading import read_json, read_toml
from paceline.study.sweep.result import NAME as SWEEP
from paceline.study.sweep.result import Sweep

#: Values of a metric by seed.
Values = dict[int, float]

_SEED = re.compile(r"seed-\d+")


@dataclass
class Subject:
    """One side of a comparison."""

    name: str
    #: By point, what each run says of itself, by its seed; a single run has one point without name.
    points: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    #: By point, what its scenario sets, by key; of flows, links and events without their numbers.
    settings: dict[str, dict[str, list[Any]]] = field(default_factory=dict)

    def values(self, point: str, metric: str) -> Values:
        """Return a metric at a point for each seed in which it is defined."""
        found = {seed: value(run, metric) for seed, run in self.points[point].items()}
        return {seed: v for seed, v in sorted(found.items()) if v is not None}

    def alike(self, point: str) -> bool:
        """Return whether there is one run at a point, or several that say the same."""
        runs = self.points[point].values()
        return alike({name: [value(run, name) for run in runs] for name in self.metrics()})

    def metrics(self) -> list[str]:
        """Return the metrics of its runs, in the order of their definitions."""
        there = {
            name
            for runs in self.points.values()
            for run in runs.values()
            for name in run["metrics"]
        }
        return [
            d["name"] for d in _paceline.metrics() if d["scope"] == "run" and d["name"] in there
        ]


def read(folder: Path) -> Subject:
    """Read a run, repeats, a comparison of controllers, or a sweep."""
    if (folder / SWEEP).is_file():
        return _sweep(Sweep.read(folder))
    subject = Subject(str(folder))
    for path in sorted(folder.rglob("run.json")):
        parts = path.parent.relative_to(folder).parts
        if any(part.startswith(".") for part in parts):
            continue  # what a killed process has left
        try:
            run = read_json(path)
            _schema(run["schema"])
            seed = int(run["seed"])
            _check(run["metrics"], *run["flows"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise NotARunError(f"{path} is not of a run: {error}") from error
        point = "/".join(part for part in parts if not _SEED.fullmatch(part))
        name = _without_seed(point)
        # Of two runs with one name and seed, as of two engines, each is a point.
        if seed in subject.points.get(name, {}):
            name = point
        subject.points.setdefault(name, {})[seed] = run
        if name not in subject.settings:
            subject.settings[name] = _settings(path.with_name("scenario.toml"))
    if not subject.points:
        raise NotARunError(f"{folder} has no run and no sweep")
    return subject


#: What a scenario says of itself, and what differs between repeats.
_WORDS = {"schema", "name", "about", "source", "seed", "repeats", "compare", "sweep", "expect"}


def _settings(path: Path) -> dict[str, list[Any]]:
    """Return what a scenario sets; nothing of one that is not there or cannot be read."""
    try:
        document = read_toml(path)
    except (OSError, ValueError):
        return {}
    found: dict[str, list[Any]] = {}
    for section, content in document.items():
        if section in _WORDS:
            continue
        for part in content if isinstance(content, list) else [content]:
            for key, setting in part.items() if isinstance(part, dict) else []:
                if key not in _WORDS:
                    found.setdefault(f"{section}.{key}", []).append(setting)
    return found


def _schema(found: object) -> None:
    if type(found) is not int or not 1 <= found <= _paceline.RECORD_SCHEMA:
        raise ValueError(
            f"it has schema {found}, this program reads schemas 1 to {_paceline.RECORD_SCHEMA}"
        )


def _check(*parts: object) -> None:
    metrics = {d["name"] for d in _paceline.metrics()}
    for part in parts:
        if not isinstance(part, dict):
            raise TypeError("its metrics are not by name")
        for name in metrics & part.keys():
            if part[name] is not None and not isinstance(part[name], int | float):
                raise TypeError(f"{name} is not a number")


#: The end of a folder's name: its seeds, and the hash and the number that may follow.
_END = re.compile(r"-\d+(to\d+)?-[0-9a-f]{6}(-\d+)?(?=/|$)|-\d+$")


def _without_seed(point: str) -> str:
    return _END.sub("", point)


def _sweep(sweep: Sweep) -> Subject:
    subject = Subject(str(sweep.folder))
    grid = sweep.grid
    flows: dict[int, list[dict[str, Any]]] = {}
    for flow in sweep.flows.iter_rows(named=True):
        flows.setdefault(flow["run"], []).append(flow)
    for row in sweep.runs.iter_rows(named=True):
        run = {"metrics": row, "flows": flows.get(row["run"], [])}
        pairs = grid.points[grid.point_of(row["run"])]
        point = ", ".join(f"{key} = {text}" for key, text in pairs)
        subject.points.setdefault(point, {})[grid.seed_of(row["run"])] = run
    settings = _settings(sweep.folder / "scenario.toml")
    settings |= {key: [text] for key, text in sweep.overrides}
    subject.settings = dict.fromkeys(subject.points, settings)
    return subject


def unknown(metrics: Iterable[str]) -> list[str]:
    """Return the names that no metric has."""
    known = {(d["scope"], d["name"]) for d in _paceline.metrics()}
    wrong = []
    for name in metrics:
        flow = of_flow(name)
        if (("flow", flow[1]) if flow else ("run", name)) not in known:
            wrong.append(name)
    return wrong
