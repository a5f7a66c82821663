"""``paceline report``: a run as one page, or as figures for a paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from paceline import answers, store
from paceline.cli import console, files
from paceline.cli.app import Force, Json, Memory, RunFolder, app, examples
from paceline.cli.failure import Failure, failing


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
        Literal["html", "png", "svg", "pdf"], Parameter(help="An HTML page, or a figure for print.")
    ] = "html",
    out: Annotated[
        Path | None, Parameter(help="File to write. Default: report.FORMAT in the run's folder.")
    ] = None,
    flow: Annotated[
        int | None, Parameter(help="The flow that a figure shows in its detailed panels.")
    ] = None,
    memory: Memory = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a report of a run: one self-contained HTML page, or the same plots as a figure.

    The page works offline. A figure has the same bytes every time. For a folder with several runs
    (repeats, or a comparison of controllers), the command writes one report of all runs.
    """
    run = files.run_folder(run)
    place = out or Path(run) / f"report.{format}"
    store.check(place, force=force)
    together = files.runs_together(run)
    write = _joint(run, together, format, flow) if together else _single(run, format, flow)
    with (
        failing(ValueError, "bad-flow", "choose another with --flow"),
        store.writing(place, force=force) as fresh,
    ):
        write(fresh)
    answer: answers.Report = {"report": str(place), "format": format}
    console.answer(answer, str(place))


def _single(folder: str, form: str, flow: int | None) -> Callable[[Path], object]:
    """Return the function that writes the report of a run."""
    from paceline.show import figure, page

    run = files.read_run(folder)
    if form == "html":
        return lambda fresh: page.write_page(run, fresh)
    return lambda fresh: figure.write(figure.draw(run, flow), fresh, form)


def _joint(
    folder: str, places: Sequence[str], form: str, flow: int | None
) -> Callable[[Path], object]:
    """Return the function that writes one report of the runs in a folder."""
    from paceline.show import figure, joint

    if flow is not None:
        hint = f"`paceline report {folder}/{places[0]} --flow {flow}` draws it"
        raise Failure("usage", f"{folder} holds several runs; --flow needs a single run", hint=hint)
    runs = joint.Joint()
    for place in places:
        name = Path(place).parts[0]
        side = "" if name.startswith("seed-") else name
        runs.add(place, side, files.read_run(f"{folder}/{place}"))
    if form == "html":
        own = [place for place in places if Path(folder, place, "report.html").is_file()]
        return lambda fresh: joint.write_page(runs, fresh, own)
    drawn = figure.sheet(runs.scenario, [(panel, []) for panel in runs.panels()], runs.end)
    return lambda fresh: figure.write(drawn, fresh, form)
