"""``paceline export``: runs as files of other programs."""

from __future__ import annotations

import struct
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


@app.command(
    help_epilogue=examples(
        "export runs/NAME --format pcapng",
        "export runs/NAME --format qlog --qlog-dialect 0.3",
        "export runs/ONE runs/OTHER --format xplot --out both.xpl",
        "export runs/SWEEP --format csv --out runs.csv",
        "export runs/SWEEP --format latex --mean --metric goodput",
    ),
)
def export(
    run: Annotated[
        list[str],
        Parameter(
            negative="", help=f"A run's folder, or a sweep's; {_SEVERAL} takes several folders."
        ),
    ],
    /,
    *,
    format: Annotated[  # noqa: A002
        Format,
        Parameter(
            help=f"Format to write. {_PACKETS} need recorded packets: `record.packets = true` in "
            "`[run]`. A sweep takes csv, parquet or latex."
        ),
    ],
    out: Annotated[
        Path | None,
        Parameter(
            help="File to write, or a folder for csv and qlog. Default: in the run's folder."
        ),
    ] = None,
    flow: Flow = None,
    mean: Annotated[
        bool,
        Parameter(
            negative="",
            help="Write a row for each point of a sweep: means and their 95 % intervals.",
        ),
    ] = False,
    metrics: Annotated[
        list[str] | None,
        Parameter(
            name="--metric",
            negative="",
            help="Metrics to write with `--mean` or as latex. Default: those of the sweep.",
        ),
    ] = None,
    qlog_dialect: Annotated[
        Literal["current", "0.3"], Parameter(help="Version of qlog's event names; qvis needs 0.3.")
    ] = "current",
    memory: Memory = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Export a run for other programs: as tables, qlog, a packet capture, xplot, Flent.

    For a sweep, the command writes one table with a row for each run. The row has the run's
    settings, with their units, and its metrics.
    """
    if qlog_dialect != "current" and format != "qlog":
        raise Failure("usage", f"{format} has no --qlog-dialect", hint="leave it out")
    run = [files.run_folder(folder) for folder in run]
    if sweep := files.sweep(run[0]):
        _table(sweep, run, format, out, metrics, mean=mean, flow=flow, force=force)
        return
    if format not in exchange.EXPORTS or mean or metrics:
        what = "--mean" if mean else "--metric" if metrics else f"--format {format}"
        hint = "its tables are Parquet in its folder; csv writes them as text"
        raise Failure("usage", f"{what} is for a sweep; {run[0]} is a run", hint=hint)
    chosen = exchange.EXPORTS[format]
    if len(run) > 1 and not chosen.several:
        raise Failure(
            "usage",
            f"{format} takes one run, not {len(run)}",
            hint=f"export them one by one; only {_SEVERAL} overlays several runs",
        )
    runs = [files.read_run(folder) for folder in run]
    for one, folder in zip(runs, run, strict=True):
        last = one.flows.height - 1
        if flow is not None and flow > last:
            message = f"{folder} has no flow {flow}; its flows are 0 to {last}"
            raise Failure("bad-flow", message, hint="choose another with --flow")
    place = out or Path(run[0]) / chosen.place_of(qlog_dialect)
    try:
        with failing(SequenceError, "no-packets"):
            written = exchange.export(
                runs, format, place, flow=flow, dialect=qlog_dialect, force=force
            )
    except (ValueError, struct.error, OverflowError) as error:
        raise Failure(
            "damaged",
            f"{run[0]} is damaged, or {format} cannot represent it: {error}",
            hint="run it again",
        ) from None
    except KeyError:
        raise Failure(
            "no-packets",
            f"{run[0]} has no recorded packets",
            hint="`paceline run FILE --set run.record.packets=true` records them",
        ) from None
    names = [str(path) for path in written]
    answer: answers.Export = {"files": names, "format": format, "runs": run}
    console.answer(answer, *names)


def _table(
    sweep: Sweep,
    folders: Sequence[str],
    form: str,
    out: Path | None,
    metrics: Sequence[str] | None,
    *,
    mean: bool,
    flow: int | None,
    force: bool,
) -> None:
    """Write a sweep as a table."""
    from paceline.study.sweep.table import ENDS, write

    if form not in ENDS or flow is not None or len(folders) > 1:
        several = f"{len(folders)} folders" if len(folders) > 1 else f"--format {form}"
        wrong = "--flow" if flow is not None else several
        hint = f"export the sweep alone, as {', '.join(ENDS)}"
        raise Failure("usage", f"{folders[0]} is a sweep: it does not take {wrong}", hint=hint)
    if metrics and not mean and form != "latex":
        hint = "add --mean, or leave it out: the table has all metrics of its runs"
        raise Failure("usage", f"--metric is for --mean and latex, not for {form}", hint=hint)
    place = out or Path(folders[0]) / f"{'means' if mean else 'runs'}.{ENDS[form]}"
    known = files.known_metrics(metrics, sweep.flow_count)
    with store.writing(place, force=force) as fresh:
        write(sweep, form, fresh, known, mean=mean)
    answer: answers.Export = {"files": [str(place)], "format": form, "runs": list(folders)}
    console.answer(answer, str(place))
