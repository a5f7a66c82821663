"""stdout and stderr in any state: closed, full, or with an encoding of few characters."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from paceline.cli.failure import Exit, Failure


def prepare() -> None:
    """Make both usable, so that a failed write is reported clearly."""
    if sys.stdout is None:
        # Writing to a stream opened for reading fails like writing to a closed one.
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # It warns if it cannot store its list of fonts: no one has to fix that.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)


@contextmanager
def output() -> Iterator[None]:
    """Report clearly that stdout accepts nothing; a closed pipe is `BrokenPipeError`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon()
        message = f"cannot write to stdout: {error.strerror}"
        raise Failure("output", message, code=Exit.RUN_FAILED) from None


def abandon(stream: TextIO | None = None) -> None:
    """Print nothing more on a stream, by default stdout, not even at exit."""
    void = os.open(os.devnull, os.O_WRONLY)
    os.dup2(void, (stream or sys.stdout).fileno())
    os.close(void)


def finish() -> None:
    """Flush the streams; discard output that cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            abandon(stream)
