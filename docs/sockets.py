"""Writes docs/stacks/sockets.md: the surprising cells of docs/stacks.md, again over real sockets.

`make stacks-sockets` runs it in real time, in about twenty minutes, on a machine with nothing else
to do, and resumes where it was stopped. Libraries in target/guests are stacks, too.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict

from generate import table as markdown
from stacks import FILES, NOTES, WORK, libraries

import paceline
from paceline import guests
from paceline.cli.guests import bring
from paceline.study.claims.quantity import Quantity, gap

PAGE = NOTES / "sockets.md"
DURATION = "10 s"
SEEDS = (1, 2, 3, 4, 5)
#: What is known of the cells that differ.
FINDINGS = NOTES / "sockets.txt"
#: The metrics that are compared: their titles, how they are shown, and the difference of the means
#: beyond chance up to which two sides agree: a part of the simulated mean, and a fixed amount.
SHOWN = (
    ("goodput_bps", "goodput, Mbit/s", 1e6, 0.05, 0.0),
    ("queue_p50_ns", "median queue, ms", 1e6, 0.2, 1.0),
    ("loss_ratio", "packets lost, %", 0.01, 0.2, 0.2),
)


class Measured(TypedDict):
    """The values of each metric, run by run, and whether each emulation kept its bounds."""

    simulated: dict[str, list[float]]
    sockets: dict[str, list[float]]
    trusted: bool


@dataclass(frozen=True)
class Cell:
    """A path, and the controllers to run on it."""

    about: str
    file: str
    controllers: tuple[str, ...]
    settings: dict[str, str]


CELLS = (
    Cell(
        "100 Mbit/s, 100 ms, 1 BDP",
        "one-flow",
        ("quinn:bbr", "quinn+bbr1"),
        {"path.rtt": "100 ms"},
    ),
    Cell(
        "100 Mbit/s, 40 ms, 1 BDP",
        "one-flow",
        ("noq:bbr3", "noq+bbr3", "s2n:bbr", "tquic:bbr3"),
        {"path.rtt": "40 ms"},
    ),
    Cell(
        "10 Mbit/s, 10 ms, 1 BDP",
        "one-flow",
        ("s2n:bbr", "s2n:cubic"),
        {"path.rate": "10 Mbit/s", "path.rtt": "10 ms"},
    ),
    Cell(
        "100 Mbit/s, 100 ms, 4 BDP",
        "one-flow",
        ("noq:cubic", "quinn:cubic"),
        {"path.rtt": "100 ms", "path.queue.size": "4 bdp"},
    ),
    Cell(
        "400 Mbit/s, 100 ms, 1 BDP",
        "one-flow",
        ("noq:cubic", "quinn:cubic"),
        {"path.rate": "400 Mbit/s", "path.rtt": "100 ms"},
    ),
    Cell(
        "100 Mbit/s, 10 ms, 1 % random loss",
        "one-flow",
        ("noq:bbr3", "noq+bbr3"),
        {"path.rtt": "10 ms", "path.loss": "1 %"},
    ),
    Cell(
        "100 Mbit/s, 40 ms, jitter of 10 ms in order",
        "jitter",
        ("quinn:bbr", "noq:bbr3", "quinn+bbr3"),
        {"path.rtt": "40 ms", "path.jitter": "10 ms"},
    ),
    Cell(
        "100 Mbit/s, 40 ms, half of the packets 10 ms late and overtaken",
        "jitter",
        ("quinn:cubic", "noq:cubic", "quinn+cubic"),
        {
            "path.rtt": "40 ms",
            "path.reorder.probability": "50 %",
            "path.reorder.delay": "10 ms",
        },
    ),
)

HEAD = """\
<!-- Written by docs/sockets.py; edit docs/stacks/sockets.txt. -->

# Surprising cells over sockets

[QUIC stacks compared](../stacks.md) runs stacks in virtual time. Its surprising cells are
repeated here in real time: the same stack over UDP sockets of this kernel, through the emulated
path. `quinn+bbr3` is our `bbr3` over quinn. Each figure is the mean of {count} runs of {duration},
with their range. `make stacks-sockets` writes this page again; s2n-quic and tquic are guests, which
`make guests` builds.

The scatter of the runs explains a difference of two means up to Student's t at 1 %. Beyond that,
two means agree if goodput differs by at most 5 %, the median queue by at most 20 % or 1 ms, and the
loss by at most 20 % of its value or 0.2 percentage points. *untrusted* marks runs in which the
machine exceeded the emulator's [bounds](../concepts/emulation.md).

"""


def settings(cell: Cell, controller: str) -> dict[str, str]:
    """Return the overrides of a cell for a controller; `STACK+NAME` is ours over that stack."""
    stack, ours, name = controller.partition("+")
    flow = {"flows.0.stack": stack, "flows.0.cc": name} if ours else {"flows.0.cc": controller}
    return {**cell.settings, **flow, "run.duration": DURATION}


def agrees(simulated: Sequence[float], sockets: Sequence[float], part: float, fixed: float) -> bool:
    """Return whether two means differ by at most this beyond what the scatter explains."""
    ours, theirs = (Quantity((), (tuple(side),), seeded=True) for side in (simulated, sockets))
    ((beyond,),) = gap(ours, theirs).rows
    return beyond <= max(part * abs(statistics.fmean(simulated)), fixed)


def measured(cell: Cell, controller: str) -> Measured:
    """Run a controller on a path, simulated and over sockets, or read what that gave."""
    store = WORK / "sockets.json"
    known: dict[str, Measured] = json.loads(store.read_text()) if store.is_file() else {}
    key = f"{cell.about}, {controller}, {DURATION}, {len(SEEDS)} runs"
    if key not in known:
        given = settings(cell, controller)
        # Without its sweep, which names controllers that do not run on each stack.
        text = (FILES / f"{cell.file}.toml").read_text(encoding="utf-8").partition("[sweep]")[0]
        simulated = paceline.run_many(text, SEEDS, overrides=given)
        runs = [paceline.run(text, seed=seed, overrides=given, backend="emu") for seed in SEEDS]
        known[key] = {
            "simulated": {metric: _values(simulated, metric) for metric, *_ in SHOWN},
            "sockets": {metric: _values(runs, metric) for metric, *_ in SHOWN},
            "trusted": all((run.emulation or {}).get("trusted", False) for run in runs),
        }
        store.parent.mkdir(parents=True, exist_ok=True)
        store.write_text(json.dumps(known, indent=1))
    return known[key]


def _values(runs: Iterable[paceline.Run], metric: str) -> list[float]:
    values = [run.metrics[metric] for run in runs]
    defined = [value for value in values if value is not None]
    if len(defined) < len(values):
        sys.exit(f"error: {metric} is undefined")
    return defined


def row(cell: Cell, controller: str) -> list[str]:
    """Return a row of the table."""
    result = measured(cell, controller)
    cells, agree = [], True
    for metric, _, unit, part, fixed in SHOWN:
        simulated, sockets = result["simulated"][metric], result["sockets"][metric]
        for values in (simulated, sockets):
            ends = (min(values), statistics.fmean(values), max(values))
            low, mean, high = (f"{value / unit:.3g}" for value in ends)
            cells.append(mean if low == high else f"{mean} ({low} to {high})")
        agree &= agrees(simulated, sockets, part, fixed * unit)
    verdict = ("yes" if agree else "no") + ("" if result["trusted"] else ", untrusted")
    sys.stderr.write(f"{cell.about}, {controller}: {verdict}\n")
    return [cell.about, f"`{controller}`", *cells, verdict]


def page() -> None:
    """Write the page."""
    titles = [title for _, title, *_ in SHOWN]
    columns = ["path", "controller"]
    for title in titles:
        columns += [f"{title}: simulated", "sockets"]
    bring(libraries())
    known = {stack.name for stack in guests.stacks()}
    rows = [
        row(cell, controller)
        for cell in CELLS
        for controller in cell.controllers
        if controller.replace("+", ":").partition(":")[0] in known
    ]
    today = datetime.now(tz=UTC).date()
    foot = f"\nRun on {today} with Paceline {paceline.__version__}, Linux {platform.release()}.\n"
    table = markdown([*columns, "agree"], rows)
    findings = FINDINGS.read_text(encoding="utf-8")
    text = f"{HEAD.format(count=len(SEEDS), duration=DURATION)}{table}\n{findings}{foot}"
    PAGE.write_text(text, encoding="utf-8")
    sys.stderr.write(f"{PAGE}\n")


if __name__ == "__main__":
    page()
