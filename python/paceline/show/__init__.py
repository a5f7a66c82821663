"""Reports: one page, or figures for paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from paceline import store
from paceline.cli.failure import Failure

if TYPE_CHECKING:
    from paceline.runs import Run


def write(
    run: Run,
    path: Path,
    format: str,  # noqa: A002
    flow: int | None = None,
    *,
    force: bool = False,
) -> Path:
    """Write the report of a run as `format`: ``html``, ``png``, ``svg`` or ``pdf``."""
    from paceline.report import figure, page

    try:
        with store.writing(path, force=force) as fresh:
            if format == "html":
                page.write_page(run, fresh)
            else:
                figure.save(run, fresh, format, flow)
    except ValueError as error:
        raise Failure("bad-flow", str(error), hint="choose another with --flow") from None
    return path
