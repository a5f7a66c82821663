"""Exceptions."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """What a traceback shows below the message: the hint, and what `add_note` added."""
        hint = getattr(self, "hint", None)
        notes: list[str] = self.__dict__.setdefault("_notes", [f"hint: {hint}"] if hint else [])
        return notes

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the type and the attributes when pickled between processes, however it was made."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[PacelineError], args: tuple[object, ...], state: dict[str, object]) -> object:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ScenarioError(PacelineError):
    """A scenario that cannot be run; `diagnostics` lists every error."""

    def __init__(self, diagnostics: Sequence[Mapping[str, object]]) -> None:
        every = [Diagnostic(**d) for d in diagnostics]  # type: ignore[arg-type]
        # Each point of a sweep repeats what is wrong with all of them, or with a range's values.
        distinct = {(d.kind, d.key, d.message): d for d in reversed(every)}
        placed = {(d.kind, d.key, d.file, d.line, d.column): d for d in reversed(distinct.values())}
        first = {id(d) for d in placed.values()}
        self.diagnostics = [d for d in every if id(d) in first]
        super().__init__("\n".join(d.rendered for d in self.diagnostics))


class RunError(PacelineError):
    """A run that stopped early."""


class _PairError(PacelineError):
    """An error of the engines, which give a message and a hint."""

    def __init__(self, what_and_hint: Sequence[str | None]) -> None:
        what, self.hint = what_and_hint
        super().__init__(what)


class MemoryLimitError(_PairError, RunError):
    """A run that exceeds the memory limit; `hint` says how to reduce it."""


class UnavailableError(_PairError):
    """The machine lacks something that a run needs; `hint` says how to fix it."""


class UnjudgeableError(_PairError):
    """A recording that does not show what is asked; `hint` says what to record."""


class _PlaceError(PacelineError):
    """An error about a file or folder."""

    def __init__(
        self, kind: str, message: str, *, hint: str, file: str, failed: bool = False
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint
        self.file = file
        #: Whether the run failed by it; otherwise the input is at fault.
        self.failed = failed


class FileError(_PlaceError, OSError):
    """A file or folder that cannot be read; `hint` says what to do."""


class StoreError(_PlaceError):
    """Results cannot be written to a path, or existing files there must not be overwritten."""


class _HintError(PacelineError):
    """An error that says what to do."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class ArgumentError(_HintError, ValueError):
    """An argument that cannot be used, such as a negative seed; `hint` says which can."""


def within(what: str, value: int | None, least: int, most: int) -> None:
    """Raise `ArgumentError` for a number outside these limits."""
    if value is not None and not least <= value <= most:
        raise ArgumentError(f"{what} is {value}", hint=f"give one from {least} to {most}")


class NoTableError(_HintError, KeyError):
    """A table that a run does not have; `hint` says how to record it."""

    def __str__(self) -> str:
        # That of a key has quotation marks.
        return str(self.args[0])


class CaptureError(PacelineError):
    """A file of another program that cannot be read as a record."""


class NotARunError(PacelineError):
    """A folder that is not a run."""


def is_interrupted(error: BaseException | None) -> bool:
    """Return whether an error is only the consequence of an interrupt.

    Up to Python 3.12 `shutil.rmtree` closes a descriptor twice if a signal comes with its close.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


#: What to do about a file that cannot be read, by the kind of its error.
_HINTS = {
    "not-found": "check the name, and the folder that it is relative to",
    "directory": "name a file in it",
    "not-text": "give a text in UTF-8",
    "unreadable": "check its permissions and its owner",
}


@contextmanager
def of_file(path: str | os.PathLike[str], hints: Mapping[str, str] | None = None) -> Iterator[None]:
    """Raise `FileError` for what Python and the system say of a file that cannot be read.

    `hints` says what to do, by kind: ``not-found``, ``directory``, ``not-text``, ``unreadable``.
    """
    try:
        yield
    except FileError:
        raise
    except (OSError, ValueError) as error:
        if is_interrupted(error):
            raise KeyboardInterrupt from None
        # It may be a file in the folder that is read.
        inner = error.filename if isinstance(error, OSError) else None
        name = os.fsdecode(inner if isinstance(inner, str | bytes | os.PathLike) else path)
        code = error.errno if isinstance(error, OSError) else None
        message = f"cannot read {name}: {getattr(error, 'strerror', None) or error}"
        kind = "unreadable"
        if isinstance(error, UnicodeDecodeError):
            kind, message = "not-text", f"{name} is not a text file"
        elif not isinstance(error, OSError) and "\0" not in name:
            raise
        elif code in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG) or "\0" in name:
            kind, message = "not-found", f"no such file: {name}"
        elif code == errno.EISDIR:
            kind, message = "directory", f"{name} is a folder"
        hint = (hints or {}).get(kind) or _HINTS[kind]
        raise FileError(kind, message, hint=hint, file=name) from None
