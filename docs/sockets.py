"""Writes docs/stacks/sockets.md: the surprising cells of docs/stacks.md, again over real sockets.

`make stacks-sockets` runs it in real time, in about five minutes, on a machine with nothing else to
do. Only the stacks of the wheel run over sockets.
"""

from __future__ import annotations

import platform
import statistics
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

from generate import table as markdown
from stacks import FILES, NOTES

import paceline

PAGE = NOTES / "sockets.md"
DURATION = "10 s"
SEEDS = (1, 2, 3)
#: What is known of the cells that differ.
FINDINGS = NOTES / "sockets.txt"
#: The metrics that are compared: their titles, how they are shown, and the difference up to which
#: two figures agree: a part of the simulated one, and a fixed amount.
SHOWN = (
    ("goodput_bps", "goodput, Mbit/s", 1e6, 0.05, 0.0),
    ("queue_p50_ns", "median queue, ms", 1e6, 0.2, 1.0),
    ("loss_ratio", "packets lost, %", 0.01, 0.2, 0.2),
)


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
    Cell("100 Mbit/s, 40 ms, 1 BDP", "one-flow", ("noq:bbr3", "noq+bbr3"), {"path.rtt": "40 ms"}),
    Cell(
        "100 Mbit/s, 100 ms, 4 BDP",
        "one-flow",
        ("noq:cubic", "quinn:cubic"),
        {"path.rtt": "100 ms", "path.queue.size": "4 bdp"},
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
path. `quinn+bbr3` is our `bbr3` over quinn. Each figure is the median of {count} runs, with their
range. `make stacks-sockets` writes this page again.

Medians agree if goodput differs by at most 5 %, the median queue by at most 20 % or 1 ms, and the
loss by at most 20 % of its value or 0.2 percentage points. *untrusted* marks runs in which the
machine exceeded the emulator's [bounds](../concepts/emulation.md).

"""


def settings(cell: Cell, controller: str) -> dict[str, str]:
    """Return the overrides of a cell for a controller; `STACK+NAME` is ours over that stack."""
    stack, ours, name = controller.partition("+")
    flow = {"flows.0.stack": stack, "flows.0.cc": name} if ours else {"flows.0.cc": controller}
    return {**cell.settings, **flow, "run.duration": DURATION}


def row(cell: Cell, controller: str) -> list[str]:
    """Run a controller on a path, simulated and over sockets."""
    given = settings(cell, controller)
    # Without its sweep, which names controllers that do not run on each stack.
    text, _, _ = (FILES / f"{cell.file}.toml").read_text(encoding="utf-8").partition("[sweep]")
    simulated = paceline.run_many(text, SEEDS, overrides=given)
    runs = [paceline.run(text, seed=seed, overrides=given, backend="emu") for seed in SEEDS]
    cells, agree = [], True
    for metric, _, unit, part, fixed in SHOWN:
        middles = []
        for side in (simulated, runs):
            values = sorted(value for run in side if (value := run.metrics[metric]) is not None)
            if not values:
                sys.exit(f"error: {metric} of {controller} is undefined on {cell.about}")
            middles.append(statistics.median(values))
            low, mid, high = (f"{v / unit:.3g}" for v in (values[0], middles[-1], values[-1]))
            cells.append(mid if low == high else f"{mid} ({low} to {high})")
        ours, theirs = middles
        agree &= abs(theirs - ours) <= max(part * abs(ours), fixed * unit)
    trusted = all((run.emulation or {}).get("trusted", False) for run in runs)
    verdict = ("yes" if agree else "no") + ("" if trusted else ", untrusted")
    sys.stderr.write(f"{cell.about}, {controller}: {verdict}\n")
    return [cell.about, f"`{controller}`", *cells, verdict]


def page() -> None:
    """Write the page."""
    titles = [title for _, title, *_ in SHOWN]
    columns = ["path", "controller"]
    for title in titles:
        columns += [f"{title}: simulated", "sockets"]
    rows = [row(cell, controller) for cell in CELLS for controller in cell.controllers]
    today = datetime.now(tz=UTC).date()
    foot = f"\nRun on {today} with Paceline {paceline.__version__}, Linux {platform.release()}.\n"
    table = markdown([*columns, "agree"], rows)
    findings = FINDINGS.read_text(encoding="utf-8")
    text = f"{HEAD.format(count=len(SEEDS))}{table}\n{findings}{foot}"
    PAGE.write_text(text, encoding="utf-8")
    sys.stderr.write(f"{PAGE}\n")


if __name__ == "__main__":
    page()
