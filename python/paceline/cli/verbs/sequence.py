"""``paceline sequence``: time-sequence diagrams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline import answers, store
from paceline.cli import console, files
from paceline.cli.app import FILE, Flow, Force, Image, Json, Memory, app, examples, positive
from paceline.cli.failure import Failure, failing
from paceline.quantities import duration_ns


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    format: Image = "png"
    """Format of the diagram."""
    out: Annotated[Path | None, FILE] = None
    """File to write. Default: sequence.FORMAT in the first run's folder."""
    flow: Flow = None
    begin: Annotated[str | None, Parameter(name="--from")] = None
    """Start time, such as "1.2 s"."""
    end: Annotated[str | None, Parameter(name="--to")] = None
    """End time, such as "1.4 s"."""
    rounds: Annotated[int | None, Parameter(validator=positive)] = None
    """End the diagram when every flow has completed this many round trips."""
    title: str | None = None
    """Title of the diagram. Default: the run's name."""
    memory: Memory = None
    force: Force = False
    json: Json = False


def _time(option: str, text: str | None) -> int | None:
    with failing(ValueError, "bad-value", f'{option} "0.5 s"', what=option):
        return None if text is None else duration_ns(text)


@app.command(
    help_epilogue=examples(
        "sequence runs/NAME",
        "sequence runs/ONE runs/OTHER --rounds 5 --format svg",
        'sequence runs/NAME --flow 0 --from "1.2 s" --to "1.4 s"',
    )
)
def sequence(
    run: Annotated[list[str], Parameter(help="Folders of runs.")],
    /,
    *,
    options: Options = Options(),
) -> None:
    """Draw a time-sequence diagram: each packet, each ACK and the receive window over time.

    Thick lines are transmissions, thin lines are ACKs, and grey lines are the receive window.
    Retransmissions, losses and SACK blocks are marked. If you name several runs, the diagram
    overlays them. It needs recorded packets: `record.packets = true` in `[run]`.
    """
    from paceline.show.figure import saved
    from paceline.show.sequence import SequenceError
    from paceline.show.sequence_figure import draw

    if options.end is not None and options.rounds is not None:
        raise Failure("usage", "--to and --rounds exclude each other", hint="give one of them")
    run = [files.run_folder(folder) for folder in run]
    runs = [files.read_run(folder) for folder in run]
    out = options.out or Path(run[0]) / f"sequence.{options.format}"
    store.check(out, force=options.force)
    with failing(SequenceError, "no-sequence"):
        figure = draw(
            runs,
            flow=options.flow,
            from_ns=_time("--from", options.begin),
            to_ns=_time("--to", options.end),
            rounds=options.rounds,
            title=options.title,
        )
    store.write(out, saved(figure, options.format), force=options.force)
    answer: answers.Sequence = {"sequence": str(out), "format": options.format, "runs": run}
    console.answer(answer, str(out))
