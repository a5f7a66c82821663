"""``paceline report``: a run as one page, or a run or a sweep as figures for a paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from cyclopts import Parameter

from paceline import answers, store
from paceline.cli import console, files
from paceline.cli.app import Force, Json, Memory, app, examples
from paceline.cli.failure import Failure, failing
from paceline.errors import ArgumentError

if TYPE_CHECKING:
    from paceline.show.figure import Theme
    from paceline.study.sweep import Sweep


Form = Literal["html", "png", "svg", "pdf"]
_FORMS = get_args(Form)


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    format: Form | None = None
    """An HTML page, or a figure for print. Default: html, or pdf for a sweep."""
    out: Path | None = None
    """File to write, in the format of its name. Default: report.FORMAT in the folder, or, for a
    recording, NAME-report.FORMAT in the current folder."""
    style: Path | None = None
    """A matplotlib style file (.mplstyle) for the figure: fonts, line widths, colours, size."""
    size: str | None = None
    """Size of the figure: WIDTHxHEIGHT in inches (in), cm or mm, a width alone, one-column or
    two-column."""
    panels: Annotated[list[str] | None, Parameter(name="--panel")] = None
    """Panels of a run's figure, separated by commas: throughput, rtt, queue, drops, window, rates.
    Default: all."""
    flow: int | None = None
    """The flow that the window and rates panels of a figure show."""
    metrics: Annotated[list[str] | None, Parameter(name="--metric")] = None
    """Metrics of a sweep's figure. Default: those of the sweep."""
    x: str | None = None
    """The key on the horizontal axis of a sweep's figure. Default: the sweep's longest numeric
    axis."""
    hue: str | None = None
    """The key with a line for each of its values. Each value of another key has its own panel."""
    memory: Memory = None
    force: Force = False
    json: Json = False


@app.command(
    help_epilogue=examples(
        "report runs/NAME",
        "report capture.pcapng",
        "report runs/NAME --format svg --panel throughput,queue --size 3.5x2.4in",
        "report runs/SWEEP --metric goodput --x queue.size --hue flows.0.cc --size one-column",
    )
)
def report(
    folder: Annotated[
        str,
        Parameter(
            name="FOLDER",
            help="The folder of a run or of a sweep, or a recording: a capture, a qlog, iperf3's "
            "JSON.",
        ),
    ],
    /,
    *,
    options: Options = Options(),
) -> None:
    """Write a report of a run (one self-contained HTML page), or a figure of a run or sweep.

    The page works offline. Drawing a figure again from the same run or sweep gives a byte-identical
    file. For a folder with several runs (repeats, or a comparison of controllers), the command
    writes one report of all runs. A sweep's figure shows curves with 95 % intervals. With `--size`,
    the figure has no title, because in a paper the caption replaces it.
    """
    is_file = Path(folder).is_file()
    folder = folder if is_file else files.run_folder(folder)
    sweep = None if is_file else files.sweep(folder)
    form = _form(options, "html" if sweep is None else "pdf")
    beside = Path(f"{files.stem(folder)}-report.{form}") if is_file else None
    place = options.out or beside or Path(folder) / f"report.{form}"
    store.check(place, force=options.force)
    with failing(ArgumentError, "bad-value"):
        if sweep is not None:
            write = _swept(sweep, form, options)
        elif together := files.runs_together(folder):
            write = _joint(folder, together, form, options)
        else:
            write = _single(folder, form, options)
        with store.writing(place, force=options.force) as fresh:
            write(fresh)
    answer: answers.Report = {"report": str(place), "format": form}
    console.answer(answer, str(place))


def _form(options: Options, otherwise: str) -> str:
    """Return the format that is asked for, or that the file's name ends in."""
    suffix = options.out.suffix.lstrip(".").lower() if options.out else ""
    if suffix and options.format is None and suffix not in _FORMS:
        hint = f"end its name in .{', .'.join(_FORMS)}, or give --format"
        raise Failure("usage", f"a report is not written as .{suffix}", hint=hint)
    if suffix in _FORMS and options.format not in (None, suffix):
        hint = f"leave --format out, or end its name in .{options.format}"
        raise Failure("usage", f"{options.out} is not the name of a {options.format}", hint=hint)
    return options.format or suffix or otherwise


def _theme(form: str, options: Options, *, panels: bool) -> Theme:
    """Return the look of a figure; refuse options that what is drawn does not have."""
    from paceline.show.figure import Theme

    figure: dict[str, object] = {"--style": options.style, "--size": options.size}
    run: dict[str, object] = {"--panel": options.panels, "--flow": options.flow}
    sweep: dict[str, object] = {"--x": options.x, "--hue": options.hue, "--metric": options.metrics}
    wrong = sweep if panels else run
    what = "a run" if panels else "a sweep"
    if form == "html":
        wrong = figure | run | sweep
        what = "the page"
    for name, value in wrong.items():
        if value is not None:
            figures = form == "html" and name not in sweep
            hint = "`--format pdf` draws a figure" if figures else "leave it out"
            raise Failure("usage", f"{what} has no option {name}", hint=hint)
    return Theme.of(options.style, options.size)


def _swept(sweep: Sweep, form: str, options: Options) -> Callable[[Path], object]:
    from paceline.show import figure

    if form == "html":
        hint = "`--format pdf` draws a figure; `paceline serve` shows it as a page"
        raise Failure("usage", "a sweep has no HTML report", hint=hint)
    _theme(form, options, panels=False)
    metrics = files.known_metrics(options.metrics, sweep.flow_count) or sweep.metrics
    drawn = sweep.plot(
        metrics, x=options.x, hue=options.hue, style=options.style, size=options.size
    )
    return lambda fresh: figure.write(drawn, fresh, form)


def _single(folder: str, form: str, options: Options) -> Callable[[Path], object]:
    """Return the function that writes the report of a run."""
    from paceline.show import figure, page

    theme = _theme(form, options, panels=True)
    run = files.recording(folder)
    if form == "html":
        return lambda fresh: page.write_page(run, fresh)
    drawn = figure.draw(run, options.flow, _panels(options), theme)
    return lambda fresh: figure.write(drawn, fresh, form)


def _panels(options: Options) -> list[str]:
    return [name.strip() for names in options.panels or () for name in names.split(",")]


def _joint(
    folder: str, places: Sequence[str], form: str, options: Options
) -> Callable[[Path], object]:
    """Return the function that writes one report of the runs in a folder."""
    from paceline.show import figure, joint

    if options.flow is not None:
        hint = f"`paceline report {folder}/{places[0]} --flow {options.flow} --format pdf` draws it"
        raise Failure("usage", f"{folder} holds several runs; --flow needs a single run", hint=hint)
    theme = _theme(form, options, panels=True)
    runs = joint.Joint()
    for place in places:
        name = Path(place).parts[0]
        side = "" if name.startswith("seed-") else name
        runs.add(place, side, files.read_run(f"{folder}/{place}"))
    if form == "html":
        own = [place for place in places if Path(folder, place, "report.html").is_file()]
        return lambda fresh: joint.write_page(runs, fresh, own)
    panels = figure.chosen([(panel, []) for panel in runs.panels()], _panels(options))
    drawn = figure.sheet(runs.scenario, panels, runs.end, theme)
    return lambda fresh: figure.write(drawn, fresh, form)
