"""``paceline export``: runs as files of other programs."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from paceline import answers, exchange
from paceline.cli import console, files
from paceline.cli.app import Flow, Force, Json, Memory, app, examples
from paceline.cli.failure import Failure, failing
from paceline.show.sequence import SequenceError

_SEVERAL = ", ".join(name for name, one in exchange.EXPORTS.items() if one.several)
_PACKETS = " and ".join(name for name, one in exchange.EXPORTS.items() if one.packets)

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal[tuple(exchange.EXPORTS)]


@app.command(
    help_epilogue=examples(
        "export runs/NAME --format pcapng",
        "export runs/NAME --format qlog --qlog-dialect 0.3",
        "export runs/ONE runs/OTHER --format xplot --out both.xpl",
    ),
)
def export(
    run: Annotated[
        list[str], Parameter(negative="", help=f"A run's folder; {_SEVERAL} takes several folders.")
    ],
    /,
    *,
    format: Annotated[  # noqa: A002
        Format,
        Parameter(
            help=f"Format to write. {_PACKETS} need recorded packets: `record.packets = true` in "
            "`[run]`."
        ),
    ],
    out: Annotated[
        Path | None,
        Parameter(
            help="File to write, or a folder for csv and qlog. Default: in the run's folder."
        ),
    ] = None,
    flow: Flow = None,
    qlog_dialect: Annotated[
        Literal["current", "0.3"], Parameter(help="Version of qlog's event names; qvis needs 0.3.")
    ] = "current",
    memory: Memory = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Export a run for other programs: as tables, qlog, a packet capture, xplot or Flent data."""
    chosen = exchange.EXPORTS[format]
    if len(run) > 1 and not chosen.several:
        raise Failure(
            "usage",
            f"{format} takes one run, not {len(run)}",
            hint=f"export them one by one; only {_SEVERAL} overlays several runs",
        )
    run = [files.run_folder(folder) for folder in run]
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
