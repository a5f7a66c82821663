"""What lies in the folder of runs."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Any

from paceline.reading import read_json
from paceline.runs import Run
from paceline.serve.series import OnDisk
from paceline.sweep.result import NAME as SWEEP
from paceline.sweep.result import Sweep

#: Runs whose tables are kept in memory, at most: whoever looks at one looks at it again.
_KEPT = 12

#: Pictures that a sweep's folder may hold.
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}


class Missing(LookupError):  # noqa: N818 - it is an answer
    """A name that nothing has."""


class Catalogue:
    """Runs and sweeps below a folder, by their paths in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        #: What a run says of itself, by its path and the time of its last change.
        self._said: dict[str, tuple[int, dict[str, Any]]] = {}
        self._tables: OrderedDict[tuple[str, int], OnDisk] = OrderedDict()

    def entries(self) -> list[dict[str, Any]]:
        """Return every run and sweep, the latest first."""
        found = []
        for folder, below, names in os.walk(self._folder):
            # What a writer has not finished, or left when it was killed, is hidden.
            below[:] = [name for name in below if not name.startswith(".")]
            name = SWEEP if SWEEP in names else "run.json"
            if name not in names:
                continue
            # What lies in a run's or a sweep's folder is its own.
            below.clear()
            entry = self._entry(Path(folder), name)
            if entry is not None:
                found.append(entry)
        return sorted(found, key=lambda entry: (-entry["changed_ns"], entry["id"]))

    def _entry(self, folder: Path, name: str) -> dict[str, Any] | None:
        path = folder.relative_to(self._folder).as_posix()
        try:
            changed = (folder / name).stat().st_mtime_ns
            known = self._said.get(path)
            if known is None or known[0] != changed:
                value = _sweep(folder) if name == SWEEP else _run(folder / name)
                known = changed, {"id": path, "changed_ns": changed, **value}
                self._said[path] = known
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return known[1]

    def run(self, path: str) -> Run:
        """Return a run; `Missing` if there is none of that name."""
        return Run.read(self._inside(path))

    def tables(self, path: str) -> OnDisk:
        """Return the tables of a run; `Missing` if there is none of that name."""
        folder = self._inside(path)
        try:
            key = path, (folder / "run.json").stat().st_mtime_ns
        except OSError:
            raise Missing(path) from None
        with self._lock:
            tables = self._tables.pop(key, None) or OnDisk(folder)
            self._tables[key] = tables
            while len(self._tables) > _KEPT:
                self._tables.popitem(last=False)
        return tables

    def picture(self, path: str, name: str) -> tuple[str, bytes]:
        """Return the type and the bytes of a picture in a sweep's folder."""
        file = self._inside(path) / Path(name).name
        if file.suffix not in PICTURES or not file.is_file():
            raise Missing(name)
        return PICTURES[file.suffix], file.read_bytes()

    def _inside(self, path: str) -> Path:
        root = self._folder.resolve()
        folder = (root / path).resolve()
        if not folder.is_relative_to(root):
            raise Missing(path)
        return folder


def _run(path: Path) -> dict[str, Any]:
    value = read_json(path)
    return {
        "kind": "run",
        "scenario": value["scenario"],
        "seed": value["seed"],
        "backend": value["backend"],
        "beyond": [bound["message"] for bound in (value.get("emulation") or {}).get("beyond", [])],
        "controllers": list(dict.fromkeys(flow["cc"] for flow in value["flows"])),
        "flows": len(value["flows"]),
        "metrics": value["metrics"],
    }


def _sweep(folder: Path) -> dict[str, Any]:
    sweep = Sweep.read(folder)
    return {
        "kind": "sweep",
        "scenario": sweep.scenario,
        "axes": [axis.name for axis in sweep.grid.axes],
        "runs": len(sweep.grid),
        "pictures": sorted(p.name for p in folder.iterdir() if p.suffix in PICTURES),
    }
