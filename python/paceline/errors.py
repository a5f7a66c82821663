"""Exceptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnostic:
    """One error in a scenario, and its position."""

    kind: str
    message: str
    file: str | None
    line: int | None
    column: int | None
    key: str | None
    hint: str | None
    #: The message, with the source line that it concerns.
    rendered: str


class PacelineError(Exception):
    """Any error of this package."""

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the type and the attributes when pickled between processes, however it was made."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[PacelineError], args: tuple[object, ...], state: dict[str, object]) -> object:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ScenarioError(PacelineError):
    """A scenario that cannot be run; `diagnostics` lists every error."""

    def __init__(self, diagnostics: Sequence[Mapping[str, object]]) -> None:
        self.diagnostics = [Diagnostic(**d) for d in diagnostics]  # type: ignore[arg-type]
        super().__init__("\n".join(d.rendered for d in self.diagnostics))


class RunError(PacelineError):
    """A run that stopped early."""


class MemoryLimitError(RunError):
    """A run that exceeds the memory limit; `hint` says how to reduce it."""

    def __init__(self, what_and_hint: Sequence[str | None]) -> None:
        what, self.hint = what_and_hint
        super().__init__(what)


class UnavailableError(PacelineError):
    """The machine lacks something that a run needs; `hint` says how to fix it."""

    def __init__(self, what_and_hint: Sequence[str | None]) -> None:
        what, self.hint = what_and_hint
        super().__init__(what)


class CaptureError(PacelineError):
    """A file of another program that cannot be read as a record."""


class NotARunError(PacelineError):
    """A folder that is not a run."""


class StoreError(PacelineError):
    """Results cannot be written to a path, or existing files there must not be overwritten."""

    def __init__(
        self, kind: str, message: str, *, hint: str, file: str, failed: bool = False
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint
        self.file = file
        #: Whether the system refused, not Paceline.
        self.failed = failed


def is_interrupted(error: BaseException | None) -> bool:
    """Return whether an error is only the consequence of an interrupt.

    Up to Python 3.12 `shutil.rmtree` closes a descriptor twice if a signal comes with its close.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
