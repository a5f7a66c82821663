"""Reports: one page, or figures for paper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cli.failure import Exit, Failure

if TYPE_CHECKING:
    from paceline.runs import Run


def write(run: Run, path: Path, format: str, flow: int | None = None) -> Path:  # noqa: A002
    """Write the report of a run as `format`: ``html``, ``png``, ``svg`` or ``pdf``."""
    from paceline.report import figure, page

    try:
        with writing(path):
            if format == "html":
                return page.write_page(run, path)
            figure.save(run, path, format, flow)
    except ValueError as error:
        raise Failure("bad-flow", str(error), hint="choose another with --flow") from None
    return path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say plainly why a file cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise Failure(
            "write-failed",
            f"cannot write {os.fspath(path)}: {reason}",
            hint="choose another place with --out",
            file=str(path),
            code=Exit.RUN_FAILED,
        ) from None
