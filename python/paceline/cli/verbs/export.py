"""``paceline export``: runs as files of other programs."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from paceline import answers, exchange, store
from paceline.cli import console, files
from paceline.cli.app import Flow, Force, Json, Memory, app, examples
from paceline.cli.failure import Failure, failing
from paceline.show.sequence import SequenceError

_SEVERAL = ", ".join(name for name, one in exchange.EXPORTS.items() if one.several)
_PACKETS = " and ".join(name for name, one in exchange.EXPORTS.items() if one.packets)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paceline.study.sweep import Sweep

    Format = str
else:
    # A sweep has tables of its own.
    Format = Literal[(*exchange.EXPORTS, "parquet", "latex")]


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    format: Annotated[
        Format,
        Parameter(
            help=f"Format to write. {_PACKETS} need recorded packets: `record.packets = true` in "
            "`[run]`. For a sweep: csv, parquet or latex."
        ),
    ]
    out: Path | None = None
    """File to write, or a folder for csv and qlog. Default: in the run's folder."""
    flow: Flow = None
    mean: bool = False
    """Write a row for each point of a sweep, with the means over the seeds and their 95 %
    intervals."""
    metrics: Annotated[list[str] | None, Parameter(name="--metric")] = None
    """Metrics to write with `--mean` or `--format latex`. Default: those of the sweep."""
    qlog_dialect: Literal["current", "0.3"] = "current"
    """Version of qlog's event names; qvis needs 0.3."""
    memory: Memory = None
    force: Force = False
    json: Json = False


@app.command(
    help_epilogue=examples(
        "export runs/NAME --format pcapng",
        "export runs/NAME --format qlog --qlog-dialect 0.3",
        "export runs/ONE runs/OTHER --format xplot --out both.xpl",
        "export runs/SWEEP --format csv --out runs.csv",
        "export runs/SWEEP --format latex --mean --metric goodput",
    )
)
def export(
    run: Annotated[
        list[str],
        Parameter(help=f"Folder of a run or of a sweep. Format {_SEVERAL} takes several folders."),
    ],
    /,
    *,
    options: Options,
) -> None:
    """Export a run for other programs: as tables, qlog, a packet capture, xplot or Flent.

    For a sweep, the command writes one table. The table has a row for each run, with the settings
    and the metrics of the run, and their units.
    """
    form, flow, dialect = options.format, options.flow, options.qlog_dialect
    if dialect != "current" and form != "qlog":
        raise Failure("usage", f"{form} has no --qlog-dialect", hint="leave it out")
    run = [files.run_folder(folder) for folder in run]
    if sweep := files.sweep(run[0]):
        _table(sweep, run, options)
        return
    if form not in exchange.EXPORTS or options.mean or options.metrics:
        metric = "--metric" if options.metrics else f"--format {form}"
        what = "--mean" if options.mean else metric
        hint = "its tables are Parquet in its folder; csv writes them as text"
        raise Failure("usage", f"{what} is for a sweep; {run[0]} is a run", hint=hint)
    chosen = exchange.EXPORTS[form]
    if len(run) > 1 and not chosen.several:
        hint = f"export them one by one; only {_SEVERAL} overlays several runs"
        raise Failure("usage", f"{form} takes one run, not {len(run)}", hint=hint)
    runs = [files.read_run(folder) for folder in run]
    for one, folder in zip(runs, run, strict=True):
        last = one.flows.height - 1
        if flow is not None and flow > last:
            message = f"{folder} has no flow {flow}; its flows are 0 to {last}"
            raise Failure("bad-flow", message, hint="choose another with --flow")
    place = options.out or Path(run[0]) / chosen.place_of(dialect)
    try:
        with failing(SequenceError, "no-packets"):
            force = options.force
            written = exchange.export(runs, form, place, flow=flow, dialect=dialect, force=force)
    except (ValueError, struct.error, OverflowError) as error:
        message = f"{run[0]} is damaged, or {form} cannot represent it: {error}"
        raise Failure("damaged", message, hint="run it again") from None
    except KeyError:
        hint = "`paceline run FILE --set run.record.packets=true` records them"
        raise Failure("no-packets", f"{run[0]} has no recorded packets", hint=hint) from None
    names = [str(path) for path in written]
    answer: answers.Export = {"files": names, "format": form, "runs": run}
    console.answer(answer, *names)


def _table(sweep: Sweep, folders: Sequence[str], options: Options) -> None:
    """Write a sweep as a table."""
    from paceline.study.sweep.table import ENDS, write

    form, metrics, mean = options.format, options.metrics, options.mean
    if form not in ENDS or options.flow is not None or len(folders) > 1:
        several = f"{len(folders)} folders" if len(folders) > 1 else f"--format {form}"
        wrong = "--flow" if options.flow is not None else several
        hint = f"export the sweep alone, as {', '.join(ENDS)}"
        raise Failure("usage", f"{folders[0]} is a sweep: it does not take {wrong}", hint=hint)
    if metrics and not mean and form != "latex":
        hint = "add --mean, or leave it out: the table has all metrics of its runs"
        raise Failure("usage", f"--metric is for --mean and latex, not for {form}", hint=hint)
    place = options.out or Path(folders[0]) / f"{'means' if mean else 'runs'}.{ENDS[form]}"
    known = files.known_metrics(metrics, sweep.flow_count)
    with store.writing(place, force=options.force) as fresh:
        write(sweep, form, fresh, known, mean=mean)
    answer: answers.Export = {"files": [str(place)], "format": form, "runs": list(folders)}
    console.answer(answer, str(place))
