"""``paceline doctor``: the capabilities of this machine."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from paceline import _paceline
from paceline.cli import console
from paceline.cli.app import Json, app, examples
from paceline.cli.failure import Exit
from paceline.kernel import controller
from paceline.quantities import quantity
from paceline.reading import json_value

_STYLES = {"good": "", "lacking": "yellow", "missing": "red"}


@app.command(help_epilogue=examples("doctor", "doctor --quick --json"))
def doctor(
    *,
    quick: Annotated[
        bool, Parameter(help="Do not measure which link rates this machine can emulate.")
    ] = False,
    json: Json = False,
) -> Exit:
    """Check whether this machine can run `--backend emu`, `--backend vm` and `paceline kernel`.

    Without --quick, the command also emulates links at increasing rates, with up to three attempts
    of two seconds at each rate. It stops at the first rate at which the emulator's error exceeds
    the default bounds of `[run.emulation]` in every attempt. The exit code is 127 if this machine
    cannot emulate at all.
    """
    err = console.stderr()

    def step(what: str) -> None:
        if not json:
            err.print(f"trying {what} ...")

    report: dict[str, Any] = json_value(_paceline.doctor(quick, step))
    report["checks"].append(_kernel())
    console.answer(report, lambda: _print(report))
    return Exit.OK if report["able"] else Exit.UNAVAILABLE


def _kernel() -> dict[str, Any]:
    """Check what `paceline kernel` needs."""
    lacking = controller.lacking()
    state = "lacking" if lacking else "good"
    registered = controller.NAME in controller.available()
    summary = "; ".join(what for what, _ in lacking) or (
        f"{controller.NAME} is registered" if registered else "this kernel takes it by eBPF"
    )
    fix = "\n  ".join(hint for _, hint in lacking) or None
    return {"name": "BBRv3 in the kernel", "state": state, "found": summary, "fix": fix}


def _print(report: dict[str, Any]) -> None:
    out = console.stdout()
    table = console.table("Check", "State", "Found", left=3)
    for check in report["checks"]:
        state = console.styled(check["state"], _STYLES[check["state"]])
        table.add_row(check["name"], state, check["found"])
    out.print(table)
    if report.get("rates"):
        rates = console.table("Rate", "Held", "Utilisation", "Lateness p99", "Added", "CPU", left=2)
        for tried in report["rates"]:
            names = ("utilisation_ratio", "lateness_p99_ns", "added_delay_ns", "emulator_cpu_ratio")
            is_held = "yes" if tried["held"] else "no"
            cells = [quantity(name, tried.get(name)) for name in names]
            rates.add_row(quantity("_bps", tried["rate_bps"]), is_held, *cells)
        out.print(rates)
        highest = report["highest_rate_bps"]
        is_held = "none of the rates tried" if highest is None else quantity("_bps", highest)
        out.print(f"With its current load, this machine emulates {is_held} within bounds.")
        for tried in report["rates"]:
            for why in tried["why"]:
                out.print(f"  {quantity('_bps', tried['rate_bps'])}: {why}")
    for check in report["checks"]:
        if check["fix"]:
            out.print(f"To fix {check['name']}:\n  {check['fix']}")
