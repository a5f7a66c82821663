"""``paceline fit``: the path of a record, as a scenario, and how well it fits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline import _paceline, answers, store
from paceline.cli import console, files
from paceline.cli.app import Force, Json, Memory, Quiet, app, examples, limit_memory
from paceline.cli.failure import Exit, Failure
from paceline.names import did_you_mean
from paceline.quantities import NONE, plain, quantity
from paceline.study import fit as study


@app.command(
    help_epilogue=examples(
        "fit runs/mine",
        "fit runs/capture --cc cubic --out home.toml",
        "fit runs/mine --json",
    )
)
def fit(
    record: Annotated[
        str, Parameter(help="The folder of a run; `import` makes one from a capture.")
    ],
    /,
    *,
    cc: Annotated[
        str | None,
        Parameter(help="Controller of the flows for which the record does not name one."),
    ] = None,
    out: Annotated[
        Path | None, Parameter(help="Scenario to write. Default: NAME-fitted.toml, here.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    memory: Memory = None,
    json: Json = False,
) -> Exit:
    """Estimate the path on which a record was taken, and write it as a scenario.

    Only data visible to the flows' endpoints is used: deliveries, RTTs and losses. They give the
    rate, the base RTT and the backlog, each with an interval. The loss model is the one whose
    simulation, with the same flows, is nearest to the record: a full queue, random loss, a policer,
    CoDel, FQ-CoDel or PIE. The table at the end compares the record with that simulation. A value
    that the record does not determine, such as the size of a buffer that never filled, is given as
    a bound.
    """
    limit_memory(memory)
    known = [row["name"] for row in _paceline.controllers()]
    if cc is not None and cc not in known:
        hint = did_you_mean(cc, known, "`paceline list controllers` shows all")
        raise Failure("unknown-name", f"no controller is called {cc!r}", hint=hint)
    run = files.read_run(record)
    place = out or Path(f"{store.readable(Path(record).resolve().name)}-fitted.toml")
    if out is not None:
        store.check(place, force=force)
    status = console.stderr().status("simulating models of the path")
    try:
        if quiet or json:
            fitted = study.fit(run, cc=cc)
        else:
            with status:
                fitted = study.fit(
                    run, cc=cc, progress=lambda n: status.update(f"simulated {n} paths")
                )
    except study.UnfitError as error:
        named = "no controller" in str(error)
        hint = "name one with --cc" if named else "fit needs a record of flows with RTTs"
        raise Failure("unfit", f"{record}: {error}", hint=hint, file=record) from None
    if not (place.is_file() and place.read_bytes() == fitted.text.encode()):
        with store.writing(place, force=force) as fresh:
            fresh.write_text(fitted.text, encoding="utf-8")
    if json:
        console.say_json(_answer(record, place, fitted))
    else:
        _tell(record, fitted)
        console.say_file(f"{place}\n")
    return Exit.OK


def _answer(record: str, place: Path, fitted: study.Fit) -> answers.Fit:
    best, path = fitted.judged[0], fitted.path
    size = fitted.size
    return {
        "run": record,
        "scenario": str(place),
        "rates": [
            {
                "begin_ns": round(stretch.begin * 1e9),
                "rate_bps": stretch.rate.value,
                "low_bps": stretch.rate.low,
                "high_bps": _finite(stretch.rate.high),
            }
            for stretch in path.stretches
        ],
        "rtt_ns": path.rtt.value * 1e9,
        "rtt_low_ns": path.rtt.low * 1e9,
        "rtt_high_ns": path.rtt.high * 1e9,
        "queue_bytes": size.value,
        "queue_low_bytes": size.low,
        "queue_high_bytes": _finite(size.high),
        "loss": best.model.name,
        "parameters": {
            name: {"value": best.model.parameters[name], "low": low, "high": high}
            for name, (low, high) in best.ranges.items()
        },
        "models": [{"loss": one.model.name, "distance": one.distance} for one in fitted.judged],
        "measured": fitted.seen.metrics,
        "fitted": best.seen.metrics,
        "notes": fitted.notes,
    }


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def _tell(record: str, fitted: study.Fit) -> None:
    path, best, out = fitted.path, fitted.judged[0], console.stdout()
    table = console.table("Path", "Estimate", "Interval", title=record)
    for number, stretch in enumerate(path.stretches):
        name = "rate" if number == 0 else f"rate from {quantity('_ns', stretch.begin * 1e9)}"
        table.add_row(name, *_cells("_bps", stretch.rate, 1.0))
    table.add_row("base RTT", *_cells("_ns", path.rtt, 1e9))
    table.add_row("queue", *_cells("_bytes", fitted.size, 1.0))
    table.add_row("losses", best.model.name, "")
    for name, (low, high) in best.ranges.items():
        if name in _PARAMETERS:
            word, unit, scale = _PARAMETERS[name]
            estimate = study.Estimate(best.model.parameters[name], low, high)
            table.add_row(f"  {word}", *_cells(unit, estimate, scale))
    out.print(table)
    table = console.table("Metric", "Measured", "Fitted")
    for name, value in fitted.seen.metrics.items():
        cells = (_written(name, one) for one in (value, best.seen.metrics[name]))
        table.add_row(plain(name), *cells)
    out.print(table)
    for note in fitted.notes:
        out.print(note, soft_wrap=True)


#: The labels of a model's parameters, their units, and their scales.
_PARAMETERS = {
    "loss_ratio": ("probability", "_ratio", 1.0),
    "police_bps": ("policer's rate", "_bps", 1.0),
    "burst_bytes": ("policer's burst", "_bytes", 1.0),
    "target_s": ("target", "_ns", 1e9),
}


def _cells(unit: str, estimate: study.Estimate, scale: float) -> tuple[str, str]:
    value, low, high = (
        _written(unit, one * scale) for one in (estimate.value, estimate.low, estimate.high)
    )
    if math.isinf(estimate.high):
        return f"at least {low}", ""
    return value, f"{low} to {high}"


def _written(unit: str, value: float) -> str:
    if unit.endswith("_ratio"):
        return f"{100 * value:.4g} %"
    return NONE if math.isinf(value) else quantity(unit, value)
