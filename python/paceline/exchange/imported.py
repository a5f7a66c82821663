"""Experiments of other tools, as scenarios."""

from __future__ import annotations

from dataclasses import dataclass, field


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
