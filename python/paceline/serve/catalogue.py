"""The runs and sweeps in the folder."""

from __future__ import annotations

import os
import tomllib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias, get_args

from paceline import _paceline, answers, guests, pages, store
from paceline.errors import MemoryLimitError, NotARunError, ScenarioError, StoreError
from paceline.later import polars as pl
from paceline.measures import foremost
from paceline.names import meant
from paceline.quantities import quantity
from paceline.reading import json_value, open_regular, read_bytes
from paceline.runs import HEADLINES, Run
from paceline.serve import limits, points
from paceline.serve.beneath import opened
from paceline.serve.series import OnDisk
from paceline.show.tables import verdict
from paceline.statistics import of_runs
from paceline.study.compare import Finding, compare, differing
from paceline.study.compare.subjects import Subject, repeats_of
from paceline.study.sweep.result import NAME as SWEEP
from paceline.study.sweep.result import POINTS, SCENARIO, Sweep

_RUN = "run.json"

#: The engines that can run a scenario.
BACKENDS: tuple[answers.Backend, ...] = get_args(answers.Backend)

#: What the files of a run or a sweep raise that has another form.
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)

#: Pictures in a sweep's folder.
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}


#: The version of an entry's file, and the entry.
_Entry: TypeAlias = tuple[tuple[int, ...], dict[str, Any]]


class Missing(LookupError):  # noqa: N818 - it is an answer
    """A name that does not exist, or something unreadable."""


class Catalogue:
    """Runs and sweeps below a folder, by their names: their paths in it.

    A name is looked up among the known entries, and never taken for a path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        #: The entry of each run and sweep by name, with the version of its file.
        self._entries: dict[str, _Entry] = {}
        self._tables: OrderedDict[tuple[str, tuple[int, ...]], OnDisk] = OrderedDict()

    def entries(self) -> list[dict[str, Any]]:
        """Return every run and sweep, the latest first."""
        with self._lock:
            self._scan()
            entries = [entry for _, entry in self._entries.values()]
        return sorted(entries, key=lambda entry: (-entry["changed_ns"], entry["id"]))

    def _scan(self) -> None:
        entries: dict[str, _Entry] = {}
        with opened(self._folder) as root:
            looked = os.fwalk(".", dir_fd=root, follow_symlinks=False)
            for nth, (path, below, names, folder) in enumerate(looked):
                # Unfinished folders, and those of killed writers, have hidden names.
                below[:] = [name for name in below if not name.startswith(".")]
                if path.count("/") >= limits.DEEP:
                    below.clear()
                kind = SWEEP if SWEEP in names else _RUN
                if kind in names:
                    # Folders inside a run or a sweep belong to it.
                    below.clear()
                    name = path.removeprefix("./")
                    entry = self._entry(name, kind, folder)
                    if entry is not None:
                        entries[name] = entry
                if nth >= limits.FOLDERS or len(entries) >= limits.ENTRIES:
                    break
        self._entries = entries

    def _entry(self, name: str, kind: str, folder: int) -> _Entry | None:
        try:
            # Names that are not valid text cannot be shown on a page.
            name.encode()
            mark = _mark(kind, folder)
            known = self._entries.get(name)
            if known is not None and known[0] == mark:
                return known
            value = json_value(read_bytes(kind, beneath=folder))
            content = _sweep(folder, value) if kind == SWEEP else _run(value)
        except (*_DAMAGE, OverflowError):
            return None
        return mark, {"id": name, "changed_ns": mark[0], **content}

    def _known(self, name: str, kind: str) -> tuple[int, ...]:
        """Return the version of a run or a sweep: it changes if the name is used again."""
        with self._lock:
            if name not in self._entries:
                self._scan()
            _, entry = self._entries.get(name, ((), {"kind": None}))
        if entry["kind"] != kind:
            raise Missing(f"no {kind} has that name")
        try:
            with opened(self._folder, name) as folder:
                return _mark(_RUN if kind == "run" else SWEEP, folder)
        except OSError:
            raise Missing(f"that {kind} no longer exists") from None

    @contextmanager
    def _reading(self, name: str, kind: str, *errors: type[Exception]) -> Iterator[int]:
        """Yield the open folder of a run or a sweep; raise `NotARunError` for one of the errors."""
        self._known(name, kind)
        try:
            with opened(self._folder, name) as folder:
                yield folder
        except errors:
            why = "run `paceline report` to see why" if kind == "run" else "run the sweep again"
            raise NotARunError(f"{name} cannot be read: {why}") from None

    @contextmanager
    def _files(self, name: str) -> Iterator[tuple[Any, str]]:
        """Yield the results of a run, and its scenario."""
        with self._reading(name, "run", *_DAMAGE) as folder:
            value = json_value(read_bytes(_RUN, beneath=folder))
            yield value, read_bytes("scenario.toml", beneath=folder).decode()

    def order(self, name: str) -> pages.Scenario:
        """Return the scenario of a run; `Missing` if there is none of that name."""
        with self._files(name) as (value, text):
            # A recording is of another program.
            backend: answers.Backend = value["backend"] if value["backend"] in BACKENDS else "sim"
            return {"text": text, "seed": int(value["seed"]), "backend": backend}

    def compare(self, old: str, new: str) -> pages.Between:
        """Compare two runs, including their repeats next to them.

        Named are the settings and the metrics in which they differ, and how sure a difference is.
        """
        one, other = self._subject(old), self._subject(new)
        if repeats_of(old) != repeats_of(new) or one.settings != other.settings:
            for side in (one, other):  # neither is a repeat of the other
                self._join_repeats(side)
        before, after = one.settings[""], other.settings[""]
        settings: list[pages.Differing] = [
            {"key": key, "old": _written(before.get(key)), "new": _written(after.get(key))}
            for key in differing(one, other)
        ]
        metrics: list[pages.Change] = [
            {
                "name": f.metric,
                "old": one.figure("", f.metric),
                "new": other.figure("", f.metric),
                "change_ratio": (f.new - f.old) / f.old if f.old and f.new is not None else None,
                "interval": _interval(f),
                "p": f.p,
                "verdict": f.verdict,
            }
            for f in compare(one, other)
        ]
        counts = [len(side.points[""]) for side in (one, other)]
        return {"settings": settings, "metrics": metrics, "runs": counts}

    def side(self, name: str, *, repeats: bool) -> pages.Side:
        """Return what came of a run, or of it and its repeats."""
        side = self._subject(name)
        if repeats:
            self._join_repeats(side)
        runs = list(side.points[""].values())
        text = self.order(name)["text"]
        statistics = {name: of_runs(runs, name) for name in side.metrics()}
        means, medians = (
            {name: of and of[kind] for name, of in statistics.items()}
            for kind in ("mean", "median")
        )
        try:
            plan = guests.check(text, "scenario.toml", (), False, files=False, here=False)
            outcomes = plan.evaluate(list(medians.items()))
        except ScenarioError:
            outcomes = []
        return {
            "verdict": verdict(outcomes, means, [str(flow["cc"]) for flow in runs[0]["flows"]]),
            "failed": not all(outcome["held"] for outcome in outcomes),
            "runs": len(runs),
            "metrics": {n: side.figure("", n) for n in foremost(means, side.flow_count)},
        }

    def _join_repeats(self, side: Subject) -> None:
        """Add the runs next to a run that differ from it only in the seed."""
        with self._lock:
            entries = {name: entry for name, (_, entry) in self._entries.items()}
        backend = entries[side.name]["backend"] if side.name in entries else None
        beside = [
            name
            for name, entry in entries.items()
            if entry["kind"] == "run"
            and name != side.name
            and repeats_of(name) == repeats_of(side.name)
            and entry["backend"] == backend
        ]
        for name in sorted(beside)[: limits.REPEATS]:
            # One that cannot be read, or is just being deleted, is not a repeat.
            with suppress(Missing, NotARunError):
                repeat = self._subject(name)
                if repeat.settings == side.settings:
                    side.points[""] = repeat.points[""] | side.points[""]

    def _subject(self, name: str) -> Subject:
        with self._files(name) as (value, text):
            return Subject.alone(name, value, tomllib.loads(text))

    def delete(self, name: str) -> None:
        """Delete a run; `StoreError` if its folder contains other files."""
        self._known(name, "run")
        with opened(self._folder, name):
            # It is a folder inside this one, not reached through a link.
            store.delete(self._folder / name)

    def rename(self, name: str, new: str) -> str:
        """Rename the folder of a run, a sweep or some repeats; return its new name."""
        if not any(f"{one['id']}/".startswith(f"{name}/") for one in self.entries()):
            raise Missing("nothing has that name")
        above, _, last = name.rpartition("/")
        new = store.readable(new)
        with opened(self._folder, above or ".") as folder:
            there = os.listdir(folder)
            if store.MANIFEST in there:
                raise _error(f"{last} is one of several runs", "rename the folder of all")
            if new in there:
                raise _error(f"{new} already exists", "choose another name")
            os.rename(last, new, src_dir_fd=folder, dst_dir_fd=folder)
        return f"{above}/{new}" if above else new

    def run(self, name: str) -> Run:
        """Return a run; `Missing` if there is none of that name."""
        self.tables(name).check()
        with self._reading(name, "run", OSError, MemoryLimitError, NotARunError):
            return Run.read_beneath(self._folder, name)

    def tables(self, name: str) -> OnDisk:
        """Return the tables of a run; `Missing` if there is none of that name."""
        key = name, self._known(name, "run")
        with self._lock:
            tables = self._tables.pop(key, None) or OnDisk(self._folder, name)
            self._tables[key] = tables
            sizes = [one.size() for one in self._tables.values()]
            while len(sizes) > 1 and sum(sizes) > limits.TABLES:
                self._tables.popitem(last=False)
                del sizes[0]
        return tables

    def points(self, name: str, metric: str) -> pages.Points:
        """Return a metric over the points of a sweep; by default, the first that it compares."""
        sweep = self._sweep(name)
        chosen = metric or sweep.metrics[0]
        matches = meant(chosen, [d["name"] for d in _paceline.metrics() if d["scope"] == "run"])
        chosen = matches[0] if len(matches) == 1 else HEADLINES[0]
        errors = (OSError, pl.exceptions.PolarsError)
        with self._reading(name, "sweep", *errors) as folder, open_regular(POINTS, folder) as file:
            return points.points(sweep, pl.read_parquet(file), chosen)

    def at(self, name: str, point: int, seed: int) -> pages.Scenario:
        """Return the scenario of a sweep's point with a seed."""
        sweep = self._sweep(name)
        if seed not in sweep.grid.seeds:
            raise Missing("the sweep has no such seed")
        with self._reading(name, "sweep", OSError, ValueError) as folder:
            text = read_bytes(SCENARIO, beneath=folder).decode()
        return {"text": points.scenario(sweep, text, point), "seed": seed, "backend": "sim"}

    def _sweep(self, name: str) -> Sweep:
        with self._reading(name, "sweep", OSError, ValueError) as folder:
            return Sweep.of(Path(), json_value(read_bytes(SWEEP, beneath=folder)))

    def picture(self, name: str, picture: str) -> tuple[str, bytes]:
        """Return the type and the bytes of a picture in a sweep's folder."""
        self._known(name, "sweep")
        kind = PICTURES.get(os.path.splitext(picture)[1])
        if kind is None or "/" in picture or picture.startswith("."):
            raise Missing("no plot has that name")
        try:
            with opened(self._folder, name) as folder:
                return kind, read_bytes(picture, limits.PICTURE, beneath=folder)
        except (OSError, ValueError):
            raise Missing("no plot has that name") from None


def _error(why: str, hint: str) -> StoreError:
    return StoreError("not-a-run", f"{why}: {hint}", hint=hint, file="")


def _written(settings: list[Any] | None) -> str:
    """Return the settings of a scenario, one after the other for flows, links and events."""
    return ", ".join(dict.fromkeys(str(setting) for setting in settings or []))


def _interval(finding: Finding) -> str | None:
    """Return the 95 % interval of a difference, if repeats give one."""
    difference = finding.difference
    if difference is None or difference.low is None or difference.high is None:
        return None
    low, high = (quantity(finding.metric, end) for end in (difference.low, difference.high))
    return f"{low} to {high}"


def _mark(name: str, folder: int) -> tuple[int, ...]:
    """Return what identifies a version of a file: time of change, inode and size."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return status.st_mtime_ns, status.st_ino, status.st_size


def _run(value: dict[str, Any]) -> dict[str, Any]:
    metrics = value["metrics"]
    if not all(cell is None or isinstance(cell, int | float) for cell in metrics.values()):
        raise ValueError("metrics are numbers")
    return {
        "kind": "run",
        "scenario": str(value["scenario"]),
        "seed": int(value["seed"]),
        "backend": str(value["backend"]),
        "beyond": [str(b["message"]) for b in (value.get("emulation") or {}).get("beyond", [])],
        "controllers": list(dict.fromkeys(str(flow["cc"]) for flow in value["flows"])),
        "flows": len(value["flows"]),
        "metrics": {n: quantity(n, metrics[n]) for n in foremost(metrics, len(value["flows"]))},
    }


def _sweep(folder: int, value: Any) -> dict[str, Any]:
    sweep = Sweep.of(Path(), value)
    pictures = (name for name in os.listdir(folder) if os.path.splitext(name)[1] in PICTURES)
    return {
        "kind": "sweep",
        "scenario": str(sweep.scenario),
        "axes": [str(axis.name) for axis in sweep.grid.axes],
        "runs": len(sweep.grid),
        "pictures": sorted(name for name in pictures if name.isprintable()),
    }
