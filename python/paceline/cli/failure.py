"""Error messages of commands, and exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from paceline import errors

if TYPE_CHECKING:
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
    INTERRUPTED = 130


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

    @classmethod
    def of(cls, error: errors.PacelineError) -> Failure:
        """Return the failure that an error of the package is on the command line."""
        hint = getattr(error, "hint", None)
        match error:
            case errors.ScenarioError():
                return _of_scenario(error)
            case errors.StoreError() | errors.FileError():
                code = Exit.RUN_FAILED if error.failed else Exit.BAD_INPUT
                return cls(error.kind, str(error), hint=hint, file=error.file, code=code)
            case errors.UnavailableError():
                return cls("unavailable", str(error), hint=hint, code=Exit.UNAVAILABLE)
            case errors.MemoryLimitError():
                return cls("memory", str(error), hint=hint, code=Exit.RUN_FAILED)
            case errors.NotARunError():
                return cls("not-a-run", str(error), hint="`paceline run` makes runs")
        return cls("bad-input", str(error), hint=hint)

    @classmethod
    def interrupted(cls, message: str = "interrupted", hint: str | None = None) -> Failure:
        """Return the failure of a command that Ctrl-C ends."""
        return cls("interrupted", message, hint=hint, code=Exit.INTERRUPTED)

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


@contextmanager
def failing(
    kinds: type[Exception] | tuple[type[Exception], ...],
    kind: str,
    hint: str | None = None,
    *,
    what: str = "",
    file: str | None = None,
    code: Exit = Exit.BAD_INPUT,
) -> Iterator[None]:
    """Raise errors of some types as failures of a kind; without a hint, with that of the error.

    `what` is the beginning of the message, before a colon.
    """
    try:
        yield
    except kinds as error:
        advice = hint or getattr(error, "hint", None)
        message = f"{what}: {error}" if what else str(error)
        raise Failure(kind, message, hint=advice, file=file, code=code) from error


def _problem(diagnostic: errors.Diagnostic) -> answers.Problem:
    problem: Any = asdict(diagnostic)
    del problem["rendered"]
    return problem  # type: ignore[no-any-return]


def _of_scenario(error: errors.ScenarioError) -> Failure:
    first = error.diagnostics[0]
    failure = Failure(first.kind, first.message, first.hint, first.file, first.line, first.column)
    failure.rendered = "\n\n".join(d.rendered for d in error.diagnostics)
    failure.diagnostics = [_problem(diagnostic) for diagnostic in error.diagnostics]
    return failure
