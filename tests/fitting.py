"""How well `paceline fit` finds paths that were drawn at random.

    python tests/fitting.py [--simulated 40] [--emulated 10] [--seed 1]

Every seed is a path: a rate of 4 to 100 Mbit/s (in a quarter of them changed after 10 s), an RTT of
10 to 120 ms, a buffer of 0.3 to 4 BDP or an AQM with room for 8, random loss of 0.05 to 2 % or a
policer at 30 to 70 % of the rate; and one or two flows. None is left out. Of a path on which
nothing was lost, that is what fit has to say. A rate counts where fit gives one and not a bound,
and a buffer where it says that it was full.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import paceline
from paceline import grid
from paceline.study import fit as study

#: Before and after a change of the rate.
TIMES = (5.0, 15.0)
#: Models of loss, the common ones more often.
KINDS = ("droptail", "droptail", "random", "random", "policer", "codel", "fq_codel", "pie")


@dataclass(frozen=True)
class Drawn:
    """A path, and what is to be found."""

    kind: str
    rates: Sequence[float]
    rtt: float
    size: float
    text: str


#: What flows have in the simulator.
CONTROLLERS = ("cubic", "bbr3", "reno")


def draw(seed: int, controllers: Sequence[str] = CONTROLLERS) -> Drawn:
    """Draw a path with one or two flows."""
    rng = random.Random(seed)

    def between(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    rate, rtt, kind = between(4e6, 100e6), between(10e-3, 120e-3), rng.choice(KINDS)
    bdp = rate * rtt / 8
    size = max(round(between(0.3, 4) * bdp), 15_000)
    queue: dict[str, Any] = {"size": f"{size} B"}
    if kind in ("codel", "fq_codel", "pie"):
        queue = {"kind": kind, "size": f"{max(round(8 * bdp), 300_000)} B"}
    path: dict[str, Any] = {"rate": _rate(rate), "rtt": f"{rtt * 1e3:.2f} ms", "queue": queue}
    if kind == "random":
        path["loss"] = f"{between(0.05, 2):.3f} %"
    if kind == "policer":
        burst = round(between(0.5, 4) * bdp) + 15_000
        path["policer"] = {"rate": _rate(rate * rng.uniform(0.3, 0.7)), "burst": f"{burst} B"}
    flows = [{"cc": rng.choice(controllers)}]
    if rng.random() < 0.5:
        flows.append({"cc": rng.choice(controllers), "start": f"{rng.uniform(0.5, 3):.2f} s"})
    if kind == "fq_codel" and len(flows) == 1:
        kind = "codel"  # No end sees a difference.
    rates, events = [rate], []
    if rng.random() < 0.25:
        rates.append(rate * rng.choice([0.4, 0.6, 1.7]))
        events.append({"when": "10 s", "path": {"rate": _rate(rates[1])}})
    lines = ["schema = 1"]
    for name, tables in (
        ("run", {"duration": "20 s"}),
        ("path", path),
        ("flows", flows),
        ("events", events),
    ):
        for table in tables if isinstance(tables, list) else [tables]:
            lines.append(f"[[{name}]]" if isinstance(tables, list) else f"[{name}]")
            lines += [f"{key} = {grid.toml(value, nested=True)}" for key, value in table.items()]
    return Drawn(kind, rates, rtt, size, "\n".join(lines) + "\n")


def _rate(value: float) -> str:
    return f"{value / 1e6:.3f} Mbit/s"


@dataclass(frozen=True)
class Found:
    """What fit found of a path; errors are shares, none where it gives a bound."""

    right: bool
    rate: float | None
    rtt: float
    size: float | None
    loss: str
    second: str


def find(drawn: Drawn, run: paceline.Run) -> Found:
    """Fit the run of a path, and compare."""
    fitted = study.fit(run)
    best, path = fitted.judged[0], fitted.path
    rate = None
    if path.is_rate_known and best.model.name != "policer":
        kept = 1 - best.model.loss
        found = path.rate_at(np.array(TIMES)) / kept
        wanted = (drawn.rates[0], drawn.rates[-1])
        rate = max(abs(one / other - 1) for one, other in zip(found, wanted, strict=True))
    nothing = fitted.seen.lost[-1] < 1
    return Found(
        best.model.name == ("none" if nothing else drawn.kind),
        rate,
        path.rtt.value / drawn.rtt - 1,
        path.backlog.value / drawn.size - 1 if best.model.name == "droptail" else None,
        best.model.name,
        fitted.judged[1].model.name if len(fitted.judged) > 1 else "",
    )


def main() -> None:
    """Fit paths in the simulator and over the emulated link, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulated", type=int, default=40)
    parser.add_argument("--emulated", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    right, count, off = 0, 0, [0, 0, 0]
    jobs: list[tuple[Literal["sim", "emu"], int]] = []
    jobs += [("sim", options.seed + n) for n in range(options.simulated)]
    jobs += [("emu", options.seed + n) for n in range(options.emulated)]
    for backend, seed in jobs:
        drawn = draw(seed, ("cubic", "bbr1", "reno") if backend == "emu" else CONTROLLERS)
        run = paceline.run(drawn.text, seed=seed, backend=backend)
        found = find(drawn, run)
        errors = (found.rate, found.rtt, found.size)
        for place, (error, bound) in enumerate(zip(errors, (0.02, 0.02, 0.15), strict=True)):
            off[place] += error is not None and abs(error) > bound
        said = " ".join("bound" if e is None else f"{100 * e:+.2f}%" for e in errors)
        word = "right" if found.right else "WRONG"
        sys.stdout.write(f"{backend} {seed}: {drawn.kind} {word} {found.loss} {said}\n")
        sys.stdout.flush()
        right, count = right + found.right, count + 1
    sys.stdout.write(
        f"models right: {right} of {count}; beyond 2 % rate {off[0]}, beyond 2 % RTT {off[1]}, "
        f"beyond 15 % buffer {off[2]}\n"
    )


if __name__ == "__main__":
    main()
