"""What an export or an import says of itself, in its own module."""

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
    #: Name of the file, or of the folder, in a run's folder; by dialect, where it has several.
    place: str | Mapping[str, str]
    #: Writes runs, or one flow of each, to a place, in a dialect; returns the files.
    write: Callable[[Sequence[Run], Path, int | None, str], list[Path]]
    #: Whether it needs the record of packets.
    packets: bool = False
    #: Whether it lays several runs over each other.
    several: bool = False

    def place_of(self, dialect: str) -> str:
        """Return the name of what is written in a dialect."""
        return self.place if isinstance(self.place, str) else self.place[dialect]


class ImportFailedError(Exception):
    """What a file says cannot be said in a scenario, or cannot be read."""

    def __init__(self, message: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.hint = hint


@dataclass(frozen=True)
class Note:
    """What became of a line that has no exact counterpart."""

    line: int | None
    text: str


@dataclass
class Imported:
    """A scenario's text, its name, and what is not as in the original."""

    name: str
    toml: str
    notes: list[Note] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """What the user states about the imported file."""

    file: Path
    #: The folder that the scenario will be in.
    folder: Path = Path()
    rtt: str | None = None
    queue: str | None = None
    cc: str = "bbr3"
    ignore_commands: bool = False


@dataclass(frozen=True)
class Record:
    """A way to read what another program recorded: a module's `RECORD`."""

    name: str
    summary: str


@dataclass(frozen=True)
class Import:
    """A way to make scenarios of another program's file: a module's `IMPORT`."""

    name: str
    summary: str
    #: Whether a text is of this kind, from a file of this name.
    looks_like: Callable[[str, Path], bool]
    #: Returns a scenario for each experiment; raises `ImportFailedError`.
    read: Callable[[str, Asked], list[Imported]]
