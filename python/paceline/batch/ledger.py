"""The ledger of a sweep: each run's record as soon as it has ended, so that none is run twice.

It is a file of lines of JSON. The first names the sweep, each other holds a run. A line that is
torn, because everything stopped while it was written, is cut off when the sweep goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from paceline.errors import PacelineError
from paceline.reading import TEXT, json_value, open_regular

#: Name of the file in the sweep's folder. It goes when the sweep is whole.
NAME = "ledger.jsonl"

#: Seconds of work that a loss of power may take away; a killed process loses nothing.
_SYNC_S = 1.0


class LedgerError(PacelineError):
    """A folder in which another sweep was begun, or is at work."""


def see_idle(folder: Path) -> None:
    """See that no process sweeps into a folder; raises `LedgerError` if one does."""
    with suppress(FileNotFoundError), open_regular(folder / NAME) as file:
        _lock(file, folder)


def _lock(file: IO[bytes], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise LedgerError(f"another process sweeps into {folder}") from None


class Ledger:
    """Records of runs by number, those of earlier attempts included."""

    def __init__(self, folder: Path, sweep: str, runs: int) -> None:
        self._path = folder / NAME
        self._file = open_regular(self._path, mode="a+b")
        self.records: dict[int, dict[str, Any]] = {}
        self._synced = time.monotonic()
        try:
            _lock(self._file, folder)
            self._recover(folder, sweep, runs)
        except BaseException:
            self._file.close()
            raise

    def _recover(self, folder: Path, sweep: str, runs: int) -> None:
        self._file.seek(0)
        whole = 0
        for nth, line in enumerate(iter(lambda: self._file.readline(TEXT), b"")):
            if len(line) == TEXT:
                raise LedgerError(f"{self._path} has a line of more than {TEXT:,} bytes")
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            value = _read(line)
            if nth > 0:
                # A run whose line is damaged is done again.
                if _is_record(value, runs):
                    self.records[value["run"]] = value
            elif value.get("sweep") is None:
                raise LedgerError(f"the first line of {self._path} is damaged")
            elif value["sweep"] != sweep:
                raise LedgerError(f"{folder} has another sweep, begun and not finished")
        self._file.truncate(whole)
        self._file.seek(0, os.SEEK_END)
        if whole == 0:
            self._write({"sweep": sweep})

    def add(self, record: dict[str, Any]) -> None:
        """Keep the record of a run; once this returns, a crash does not lose it."""
        self._write(record)
        self.records[record["run"]] = record

    def _write(self, value: dict[str, Any]) -> None:
        line = json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n"
        self._file.write(line.encode())
        self._file.flush()
        if time.monotonic() - self._synced > _SYNC_S:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def close(self, *, remove: bool = False) -> None:
        """Let go of the file; remove it if its sweep is whole."""
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            if remove:
                self._path.unlink()
            self._file.close()


def _read(line: bytes) -> dict[str, Any]:
    try:
        value = json_value(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_record(value: dict[str, Any], runs: int) -> bool:
    """Whether a line says what became of a run."""
    if type(value.get("run")) is not int or not 0 <= value["run"] < runs:
        return False
    if isinstance(value.get("error"), str):
        return True
    metrics, flows = value.get("metrics"), value.get("flows", [])
    return (
        isinstance(metrics, dict)
        and all(v is None or isinstance(v, int | float) for v in metrics.values())
        and isinstance(flows, list)
        and all(isinstance(flow, dict) for flow in flows)
    )
