"""The declaration of an export or an import, in its own module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from paceline.runs import Run


@dataclass(frozen=True)
class Export:
    """A way to write runs for another program: a module's `EXPORT`."""

    name: str
    summary: str
    #: Name of the file or folder in a run's folder; by dialect, if it has several.
    place: str | Mapping[str, str]
    #: Writes runs, or one flow of each, to a path, in a dialect; returns the files.
    write: Callable[[Sequence[Run], Path, int | None, str], list[Path]]
    #: Whether it needs the record of packets.
    packets: bool = False
    #: Whether it overlays several runs.
    several: bool = False

    def place_of(self, dialect: str) -> str:
        """Return the name of the output in a dialect."""
        return self.place if isinstance(self.place, str) else self.place[dialect]


class ImportFailedError(Exception):
    """A part of a file that a scenario cannot express, or that cannot be read."""

    def __init__(self, message: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.hint = hint


@dataclass(frozen=True)
class Note:
    """A note about a line that has no exact counterpart."""

    line: int | None
    text: str


@dataclass
class Imported:
    """A scenario's text, its name, and its differences from the original."""

    name: str
    toml: str
    notes: list[Note] = field(default_factory=list)


@dataclass(frozen=True)
class ImportOptions:
    """The options of an import: what the user states about the file."""

    file: Path
    #: The future folder of the scenario.
    folder: Path = Path()
    rtt: str | None = None
    queue: str | None = None
    cc: str = "bbr3"
    #: The columns of a table: a name, and the unit of its numbers.
    time: str | None = None
    rate: str | None = None
    ignore_commands: bool = False


@dataclass(frozen=True)
class Record:
    """A way to read recordings of another program: a module's `RECORD`."""

    name: str
    summary: str


@dataclass(frozen=True)
class Import:
    """A way to convert another program's file into scenarios: a module's `IMPORT`."""

    name: str
    summary: str
    #: Whether a text is of this kind, given its file name.
    looks_like: Callable[[str, Path], bool]
    #: Returns a scenario for each experiment; raises `ImportFailedError`.
    read: Callable[[str, ImportOptions], list[Imported]]
