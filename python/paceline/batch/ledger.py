"""The ledger of a batch: each run's record as soon as it has ended, so that none is run twice.

It is a file of lines of JSON. The first names the batch, each other holds a run. A line that is
torn, because everything stopped while it was written, is cut off when the batch goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from paceline.batch.job import Outcome
from paceline.errors import PacelineError
from paceline.reading import TEXT, json_value, open_regular

#: Name of the file in a sweep's folder. It is removed when the sweep is complete.
NAME = "ledger.jsonl"
#: The folder of ledgers for batches without a folder of their own.
UNFINISHED = Path("runs") / ".unfinished"

#: Seconds of work that a power failure may lose; a killed process loses nothing.
_SYNC_S = 1.0


#: One encoder for all lines: creating it takes as long as a line.
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class LedgerError(PacelineError):
    """A folder that contains another unfinished sweep, or an active one."""


def see_idle(folder: Path) -> None:
    """Raise `LedgerError` if a process is sweeping into a folder."""
    with suppress(FileNotFoundError), open_regular(folder / NAME) as file:
        _lock(file, folder)


def clear(folder: Path) -> None:
    """Remove the remains of a sweep that was killed after its results were complete."""
    with suppress(FileNotFoundError, LedgerError), open_regular(folder / NAME) as file:
        _lock(file, folder)
        (folder / NAME).unlink()


def _lock(file: IO[bytes], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise LedgerError(f"another process sweeps into {folder}") from None


class Ledger:
    """Records of runs by number, including those of earlier attempts."""

    def __init__(self, folder: Path, sweep: str, runs: int, name: str = NAME) -> None:
        self._path = folder / name
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
                # A run whose line is damaged is repeated.
                if _is_record(value, runs):
                    self.records[value["run"]] = value
            elif value.get("sweep") is None:
                raise LedgerError(f"the first line of {self._path} is damaged")
            elif value["sweep"] != sweep:
                raise LedgerError(f"{folder} holds another, unfinished sweep")
        self._file.truncate(whole)
        self._file.seek(0, os.SEEK_END)
        if whole == 0:
            self._write({"sweep": sweep})

    def add(self, record: dict[str, Any]) -> None:
        """Store the record of a run; once this returns, a crash does not lose it."""
        self._write(record)
        self.records[record["run"]] = record

    def _write(self, value: dict[str, Any]) -> None:
        self._file.write(f"{_encode(value)}\n".encode())
        self._file.flush()
        if time.monotonic() - self._synced > _SYNC_S:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def abandon(self) -> None:
        """Close a file that accepts no more writes."""
        with suppress(OSError):
            self._file.close()

    def close(self, *, remove: bool = False) -> None:
        """Close the file; remove it if its sweep is complete."""
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
    """Return whether a line contains the outcome of a run."""
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


@dataclass
class Remembered:
    """The outcomes of a batch whose results have no folder; written down until it is complete.

    Where that cannot be written, or another process is at the same, they are in memory only.
    """

    #: The kind of batch, and its distinguishing key.
    what: str
    key: str
    runs: int
    #: Converts the data kept of a run to a ledger line, if possible; and back.
    pack: Callable[[Any], dict[str, Any] | None]
    unpack: Callable[[int, dict[str, Any]], Any]
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    #: How many of them are from earlier attempts.
    recalled: int = 0
    _ledger: Ledger | None = None
    _able: bool = True

    def __enter__(self) -> Remembered:
        if (UNFINISHED / self._name).exists():
            self._open()
            for number, record in self._ledger.records.items() if self._ledger else ():
                error = record.get("error")
                kept = None if error else self.unpack(number, record)
                self.outcomes[number] = Outcome(kept, error)
            self.recalled = len(self.outcomes)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._ledger is not None:
            self._ledger.close(remove=error is None)
            for folder in (UNFINISHED, UNFINISHED.parent):
                with suppress(OSError):
                    folder.rmdir()

    @property
    def _name(self) -> str:
        return f"{self.what}-{self.key[:16]}.jsonl"

    def _open(self) -> None:
        try:
            UNFINISHED.mkdir(parents=True, exist_ok=True)
            self._ledger = Ledger(UNFINISHED, self.key, self.runs, self._name)
        except LedgerError:
            self._able = False
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        """Continue in memory only: an incomplete file is not a ledger."""
        if self._ledger is not None:
            self._ledger.abandon()
        self._able, self._ledger = False, None
        with suppress(OSError):
            (UNFINISHED / self._name).unlink()

    def has(self, number: int) -> bool:
        """Return whether a job is already done."""
        return number in self.outcomes

    def add(self, number: int, outcome: Outcome) -> None:
        """Store an outcome, if possible in a way that survives a crash."""
        self.outcomes[number] = outcome
        record = {"error": outcome.error} if outcome.error else self.pack(outcome.kept)
        if self._ledger is None and self._able and record is not None:
            self._open()
        if self._ledger is not None and record is not None:
            try:
                self._ledger.add({"run": number, **record})
            except OSError:
                self._give_up()
