"""``paceline startup``: the start-up gain simulator, and where the gains come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from paceline import _paceline, store
from paceline.cli import console
from paceline.cli.app import FILE, Force, Json, app, bounded, examples
from paceline.cli.failure import Failure

if TYPE_CHECKING:
    from paceline._paceline import StartupRow

#: Precision of `--find`.
TOLERANCE = 1e-4
#: The growth that `--find` counts as doubling: 2 to the three decimals of the tables.
DOUBLING = 1.9995
ROUNDS = 15


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    find: bool = False
    """Find the smallest gain with which the bandwidth estimate grows by a factor of at least 1.9995
    in each of rounds 10 to 15. Some larger gains, from 2.819 to 2.821, do not reach this factor."""
    rounds: Annotated[
        int | None,
        Parameter(
            validator=bounded(1, 20, "from 1 to 20, because the data sent doubles in each round"),
            help=f"Number of rounds to simulate, at most 20. Default: {ROUNDS}.",
        ),
    ] = None
    plot: Annotated[Path | None, FILE] = None
    """Plot the result to this .png or .svg file."""
    force: Force = False
    json: Json = False


@app.command(
    help_epilogue=examples("startup 2.77", "startup 2.78 --plot startup.png", "startup --find")
)
def startup(
    gain: Annotated[float | None, Parameter(help="A pacing gain, such as 2.77.")] = None,
    /,
    *,
    options: Options = Options(),
) -> None:
    """Simulate BBR's Startup for a pacing gain, and derive the gains of Startup and Drain.

    With a gain, the command prints the same rows as Google's start-up simulator: the state at the
    first ACK of each round, on an ideal path with an RTT of 100 ms. Without a gain and without
    --find, the command prints only the derivation of the gains.
    """
    if gain is not None and not (math.isfinite(gain) and 0 < gain <= 100):
        message = f"the gain {gain:g} is not a number above 0 and at most 100"
        raise Failure("bad-value", message, hint="try 2.77")
    find, plot = options.find, options.plot
    for option, given in (("--plot FILE", plot), ("--rounds N", options.rounds)):
        if given is not None and gain is None:
            hint = f"`paceline startup 2.77 {option}`"
            raise Failure("usage", f"{option.split()[0]} needs a gain", hint=hint)
    if plot is not None and plot.suffix.lower() not in {".png", ".svg"}:
        kind = f"a {plot.suffix} file" if plot.suffix else "a file without an extension"
        hint = "the name ends in .png or .svg"
        raise Failure("bad-value", f"--plot {plot}: cannot draw {kind}", hint=hint)
    derived = _paceline.startup_derivation()
    value: dict[str, Any] = {"derivation": dict(derived)}
    rows: list[StartupRow] = []
    if gain is not None:
        rows = _paceline.startup(gain, options.rounds or ROUNDS)
        value |= {"gain": gain, "rows": rows}
    if find:
        value["least_doubling_gain"] = _paceline.least_doubling_gain(TOLERANCE)
    if plot is not None:
        _draw(rows, plot, force=options.force)
        value["plot"] = str(plot)
    shown: list[Any] = []
    if rows:
        heads = ("cwnd (packets)", "In flight (packets)", "bw (packets/s)")
        table = console.table("Round", "Growth", "t (s)", *heads)
        for row in rows:
            growth = f"{row['growth']:.3f}x" if row["growth"] else "\N{EN DASH}"
            cells = (f"{row['t']:.6f}", str(row["cwnd"]), str(row["pif"]), f"{row['bw']:.6f}")
            table.add_row(str(row["round"]), growth, *cells)
        shown.append(table)
    if find:
        least = f"{value['least_doubling_gain']:.4f}"
        shown.append(f"smallest gain with growth >= {DOUBLING} in each of rounds 10 to 15: {least}")
    if not rows and not find:
        shown += [
            f"pacing gain of Startup  {derived['pacing_gain']:.9f}  (4 ln 2)",
            f"window gain of Startup  {derived['cwnd_gain']:.9f}",
            f"pacing gain of Drain    {derived['drain_gain']:.9f}",
        ]
    if plot is not None:
        shown.append(str(plot))
    console.answer(value, *shown)


def _draw(rows: list[StartupRow], path: Path, *, force: bool) -> None:
    from paceline.show.figure import canvas, saved, styled

    with styled():
        figure = canvas(7, 5, "")
        bandwidth, growth = figure.subplots(2, 1, sharex=True)
        rounds = [row["round"] for row in rows]
        bandwidth.semilogy(rounds, [row["bw"] for row in rows], "o-", color="#0072b2")
        bandwidth.set_ylabel("bandwidth estimate (packets/s)")
        grown = [row for row in rows if row["growth"] > 0]
        growth.plot(
            [row["round"] for row in grown], [row["growth"] for row in grown], "s-", color="#d55e00"
        )
        growth.axhline(2, color="#777777", linewidth=0.8, linestyle="--")
        growth.set_ylabel("growth over the round before")
        growth.set_xlabel("round")
        store.write(path, saved(figure, path.suffix[1:].lower()), force=force)
