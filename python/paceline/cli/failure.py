"""Error messages of commands, and exit codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from paceline import answers


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    RUN_FAILED = 1
    BAD_INPUT = 2
    EXPECTATION_FAILED = 3
    REGRESSION = 4
    #: Of `shell`, whose other exit codes are its client's.
    SHELL_FAILED = 125
    UNAVAILABLE = 127
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


@dataclass
class Failure(Exception):  # noqa: N818 - it is caught, not shown
    """A failure, with everything that a person, or a script, needs to fix it."""

    kind: str
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    code: Exit = Exit.BAD_INPUT
    # The message as it should appear in a terminal, if it has its own form (source lines).
    rendered: str | None = None
    # Every error in a scenario; `message` is the first of them.
    diagnostics: list[answers.Problem] = field(default_factory=list)

    def __str__(self) -> str:
        return self.message

    def as_json(self) -> answers.Error:
        """Return the object that ``--json`` prints."""
        error: answers.Error = {
            "kind": self.kind,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "hint": self.hint,
        }
        if len(self.diagnostics) > 1:
            error["all"] = self.diagnostics
        return error
