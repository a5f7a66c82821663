"""What is compared: runs, repeats, comparisons and sweeps, as values by point, metric and seed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline import _paceline
from paceline.errors import NotARunError
from paceline.measures import of_flow, value
from paceline.sweep.result import NAME as SWEEP
from paceline.sweep.result import Sweep

#: Values of a metric by seed.
Values = dict[int, float]

_SEED = re.compile(r"seed-\d+")


@dataclass
class Subject:
    """One side of a comparison."""

    name: str
    #: By point, what each run says of itself, by its seed; a single run has one point without name.
    points: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)

    def values(self, point: str, metric: str) -> Values:
        """Return a metric at a point for each seed in which it is defined."""
        found = {seed: value(run, metric) for seed, run in self.points[point].items()}
        return {seed: v for seed, v in sorted(found.items()) if v is not None}

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
            run = json.loads(path.read_text(encoding="utf-8"))
            seed = int(run["seed"])
            _check(run["metrics"], *run["flows"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise NotARunError(f"{path} is not of a run: {error}") from error
        point = "/".join(part for part in parts if not _SEED.fullmatch(part))
        subject.points.setdefault(_without_seed(point, seed), {})[seed] = run
    if not subject.points:
        raise NotARunError(f"{folder} has no run and no sweep")
    return subject


def _check(*parts: object) -> None:
    metrics = {d["name"] for d in _paceline.metrics()}
    for part in parts:
        if not isinstance(part, dict):
            raise TypeError("its metrics are not by name")
        for name in metrics & part.keys():
            if part[name] is not None and not isinstance(part[name], int | float):
                raise TypeError(f"{name} is not a number")


def _without_seed(point: str, seed: int) -> str:
    # The controllers of a comparison lie in folders that end in the first seed.
    return re.sub(r"-\d+$", "", point) if point else point


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
