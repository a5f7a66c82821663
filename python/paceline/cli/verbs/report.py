"""``paceline report``: a run as one page, or as figures for paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from paceline import answers, store
from paceline.cli import console, files
from paceline.cli.app import Force, Json, Memory, RunFolder, app, examples, limit_memory
from paceline.cli.failure import Exit, Failure


@app.command(
    help_epilogue=examples(
        "report runs/NAME",
        "report runs/NAME --format svg --out figure-3.svg",
    )
)
def report(
    run: RunFolder,
    /,
    *,
    format: Annotated[  # noqa: A002
        Literal["html", "png", "svg", "pdf"], Parameter(help="One page, or figures for paper.")
    ] = "html",
    out: Annotated[
        Path | None, Parameter(help="File to write. Default: report.FORMAT in the run's folder.")
    ] = None,
    flow: Annotated[
        int | None, Parameter(help="The flow of the detailed panels of a figure.")
    ] = None,
    memory: Memory = None,
    force: Force = False,
    json: Json = False,
) -> Exit:
    """Write the report of a run: one self-contained HTML page, or the same plots as a figure.

    The page opens from disk, without a network. Figures are the same bytes every time.
    """
    limit_memory(memory)
    from paceline.show import figure, page

    place = out or Path(run) / f"report.{format}"
    found = files.read_run(run)
    try:
        with store.writing(place, force=force) as fresh:
            if format == "html":
                page.write_page(found, fresh)
            else:
                figure.save(found, fresh, format, flow)
    except ValueError as error:
        raise Failure("bad-flow", str(error), hint="choose another with --flow") from None
    if json:
        answer: answers.Report = {"report": str(place), "format": format}
        console.say_json(answer)
    else:
        console.stdout().print(str(place), soft_wrap=True)
    return Exit.OK
