"""``paceline fit``: the path of a record, as a scenario, and how well it fits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline import answers, store
from paceline.cli import console, files
from paceline.cli.app import FILE, Controllers, Force, Json, Memory, Quiet, app, examples
from paceline.cli.failure import Failure
from paceline.quantities import plain, quantity
from paceline.study import fit as study


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    cc: str | None = None
    """The controller that the flows used, if the record does not name it. Default: the controller
    that the packets identify, or else the controller whose simulation is nearest to the record."""
    out: Annotated[Path | None, FILE] = None
    """Scenario to write. Default: NAME-fitted.toml in the current folder."""
    controllers: Controllers = None
    force: Force = False
    quiet: Quiet = False
    memory: Memory = None
    json: Json = False


@app.command(
    help_epilogue=examples(
        "fit runs/mine", "fit capture.pcapng --out home.toml", "fit runs/mine --json"
    )
)
def fit(
    record: Annotated[
        str, Parameter(help="A run's folder, or a recording: a capture, a qlog, iperf3's JSON.")
    ],
    /,
    *,
    options: Options = Options(),
) -> None:
    """Estimate a path from a record of traffic over it, and write the path as a scenario.

    The estimate uses only data that the flows' endpoints can see: deliveries, RTTs and losses. The
    command estimates the rate, the base RTT, the queue and the parameters of the loss model, each
    with a 95 % interval. It tries these loss models: tail drop, random loss, tail drop with random
    loss, a policer, CoDel, FQ-CoDel and PIE. It chooses the model whose simulation of the same
    flows is closest to the record. The table at the end compares the record with this simulation.
    If the record determines only one end of an interval (for example, only the lower end for a
    buffer that never filled), the output gives this bound alone, and a note gives the reason.
    """
    cc, out = options.cc, options.out
    files.known_controllers([cc] if cc is not None else [])
    run = files.recording(record)
    place = out or Path(f"{files.stem(record)}-fitted.toml")
    if out is not None:
        store.check(place, force=options.force)
    try:
        with console.simulating() as progress:
            fitted = study.fit(run, cc=cc, progress=progress)
    except study.UnfitError as error:
        named = "no controller" in str(error)
        hint = "name one with --cc" if named else "fit needs a record of flows with RTTs"
        raise Failure("unfit", f"{record}: {error}", hint=hint, file=record) from None
    files.write_new(place, fitted.text, force=options.force)
    console.answer(
        described(record, place, fitted),
        lambda: show(record, fitted),
        lambda: console.print_file(f"{place}\n"),
    )


def described(record: str, place: Path | None, fitted: study.Fit) -> answers.Fit:
    """Return what `--json` says of a fitted path."""
    best, size, rtt = fitted.judged[0], fitted.size, fitted.rtt * 1e9
    back = fitted.path.back
    return {
        "run": record,
        "scenario": None if place is None else str(place),
        "rates": [
            {
                "begin_ns": round(stretch.begin * 1e9),
                "rate_bps": stretch.rate.value,
                "low_bps": stretch.rate.low,
                "high_bps": stretch.rate.high,
            }
            for stretch in fitted.stretches
        ],
        "rtt_ns": rtt.value,
        "rtt_low_ns": rtt.low,
        "rtt_high_ns": rtt.high,
        "queue_bytes": size.value,
        "queue_low_bytes": size.low,
        "queue_high_bytes": size.high,
        "return_rate_bps": None if back is None else back.rate,
        "return_queue_packets": None if back is None else back.packets,
        "loss": best.model.name,
        "parameters": {
            name: {"value": one.value, "low": one.low, "high": one.high}
            for name, one in fitted.parameters.items()
        },
        "models": [{"loss": one.model.name, "distance": one.distance} for one in fitted.judged],
        "measured": fitted.observed.metrics,
        "fitted": best.observed.metrics,
        "notes": fitted.notes,
    }


def show(record: str, fitted: study.Fit, *, metrics: bool = True) -> None:
    """Print a fitted path, and how well it fits."""
    best = fitted.judged[0]
    table = console.table("Path", "Estimate", "95 % interval", title=record)
    for number, stretch in enumerate(fitted.stretches):
        name = "rate" if number == 0 else f"rate from {quantity('_ns', stretch.begin * 1e9)}"
        table.add_row(name, *_cells("_bps", stretch.rate))
    table.add_row("base RTT", *_cells("_s", fitted.rtt))
    table.add_row("queue", *_cells("_bytes", fitted.size))
    back = fitted.path.back
    known = None if back is None else study.written("_bps", back.rate)
    table.add_row("return path", known or "unknown", "")
    table.add_row("losses", best.model.name, "")
    for name, estimate in fitted.parameters.items():
        if name in study.LABELS:
            table.add_row(f"  {study.LABELS[name]}", *_cells(name, estimate))
    console.show(table)
    if not metrics:
        return
    table = console.table("Metric", "Measured", "Fitted")
    for name, value in fitted.observed.metrics.items():
        cells = (study.written(name, one) for one in (value, best.observed.metrics[name]))
        table.add_row(plain(name), *cells)
    console.show(table, *fitted.notes)


def _cells(unit: str, one: study.Estimate) -> tuple[str, str]:
    if one.value is None:
        return "unknown", ""
    if one.low is None and one.high is None:
        return study.written(unit, one.value), "unknown"
    interval = study.interval(unit, one)
    is_bound = one.low is None or one.high is None
    return (interval, "unknown") if is_bound else (study.written(unit, one.value), interval)
