"""stdout and stderr as they may be: closed, full, or in an encoding that has few characters."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from paceline.cli.failure import Exit, Failure


def prepare() -> None:
    """Make both usable, so that writing fails plainly if it does."""
    if sys.stdout is None:
        # Writing into what is open for reading fails as into what is closed.
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # It warns where it cannot keep its list of fonts: nobody has to fix that.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)


@contextmanager
def output() -> Iterator[None]:
    """Say plainly that stdout takes nothing; a reader that has gone is `BrokenPipeError`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon()
        message = f"cannot write to stdout: {error.strerror}"
        raise Failure("output", message, code=Exit.RUN_FAILED) from None


def abandon() -> None:
    """Say nothing more on stdout, not even at exit."""
    void = os.open(os.devnull, os.O_WRONLY)
    os.dup2(void, sys.stdout.fileno())
    os.close(void)


def finish() -> None:
    """Bring out what is left; what cannot be said now is never said."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            void = os.open(os.devnull, os.O_WRONLY)
            os.dup2(void, stream.fileno())
            os.close(void)
