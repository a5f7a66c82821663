"""The ledger of a sweep: each run's record as soon as it has ended, so that none is run twice.

It is a file of lines of JSON. The first names the sweep, each other holds a run. A line that is
torn, because everything stopped while it was written, is cut off when the sweep goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError

#: Name of the file in the sweep's folder. It goes when the sweep is whole.
NAME = "ledger.jsonl"

#: Seconds of work that a loss of power may take away; a killed process loses nothing.
_SYNC_S = 1.0


class LedgerError(PacelineError):
    """A folder in which another sweep was begun, or is at work."""


class Ledger:
    """Records of runs by number, those of earlier attempts included."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._path = folder / NAME
        self._file = self._path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise LedgerError(f"another process sweeps into {folder}") from None
        self.records: dict[int, dict[str, Any]] = {}
        self._synced = time.monotonic()
        try:
            self._recover(folder, fingerprint)
        except BaseException:
            self._file.close()
            raise

    def _recover(self, folder: Path, fingerprint: str) -> None:
        self._file.seek(0)
        whole = 0
        for nth, line in enumerate(self._file):
            value = _read(line)
            if value is None:
                break
            if nth == 0:
                if value.get("sweep") != fingerprint:
                    raise LedgerError(f"{folder} has another sweep, begun and not finished")
            else:
                self.records[value["run"]] = value
            whole += len(line)
        self._file.truncate(whole)
        self._file.seek(0, os.SEEK_END)
        if whole == 0:
            self._write({"sweep": fingerprint})

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


def _read(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
