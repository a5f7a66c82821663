"""Compares the return path of the simulator with Linux's in virtual time, over drawn cells.

Sixty cells, each factor balanced and the order drawn from a seed: an uplink of a tenth, a thirtieth
or a hundredth of 20 Mbit/s; 0, 1 or 5 % of the packets on it lost; with an upload or without; Reno,
CUBIC, BBRv1 or Linux's BBRv3; a queue of 1 BDP or 1000 packets on it, drop-tail or FQ-CoDel. Each
run of a cell has its own offset of the starts. Results are kept in FOLDER: a run that is there is
not repeated.

    python tests/peers/returned.py FOLDER [--offsets 5] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from statistics import mean
from typing import Any, Literal

import paceline

DOWN_MBPS = 20
RTT_MS = 40
FACTORS: dict[str, tuple[Any, ...]] = {
    "share": (10, 30, 100),
    "loss": (0, 1, 5),
    "upload": (False, True),
    "cc": ("reno-linux", "cubic-linux", "bbr1", "bbr3-linux"),
    "queue": ("1 bdp", "1000 packets"),
    "kind": ("droptail", "fq_codel"),
}
CELLS = 60
#: What Linux's hosts do, for the simulated side.
HOSTS = 'ack = "linux"\nrecovery = "linux"\ntso_defer = true\nstart_jitter = "10 ms"\n'
Cell = dict[str, Any]
Side = Literal["sim", "vm"]
SIDES: tuple[Side, ...] = ("sim", "vm")


def cells(seed: int) -> list[Cell]:
    """Draw the cells: each value of a factor as often as the others."""
    rng = random.Random(seed)
    drawn: list[Cell] = [{} for _ in range(CELLS)]
    for factor, values in FACTORS.items():
        column = [values[n % len(values)] for n in range(CELLS)]
        rng.shuffle(column)
        for cell, value in zip(drawn, column, strict=True):
            cell[factor] = value
    return drawn


def scenario(cell: Cell, side: str, *, alone: str = "") -> str:
    """Return the scenario of one side; `alone` leaves one direction only."""
    rate = DOWN_MBPS * 1000 // cell["share"]
    cc, kind, size = cell["cc"], cell["kind"], cell["queue"]
    if kind != "droptail" and size == "1 bdp":
        # A kernel's CoDel, FQ-CoDel and PIE count packets, whatever their size.
        size = f"{max(rate * RTT_MS // (8 * 1500), 1)} packets"
    hosts = HOSTS if side == "sim" else ""
    aqm = ", total_backlog = true" if kind == "fq_codel" and side == "sim" else ""
    down = f'[[flows]]\ncc = "{cc}"\nlabel = "down"\n{hosts}'
    up = f'[[flows]]\ncc = "{cc}"\nlabel = "up"\ndirection = "up"\n{hosts}'
    flows = {"": down + up, "down": down, "up": up}[alone if cell["upload"] else "down"]
    return (
        f'schema = 1\nrun = {{ duration = "60 s", sample_interval = "20 ms" }}\n'
        f'[path]\nrate = "{DOWN_MBPS} Mbit/s"\nrtt = "{RTT_MS} ms"\nqueue.size = "1 bdp"\n'
        f'[path.return]\nrate = "{rate} kbit/s"\nloss = "{cell["loss"]} %"\n'
        f'queue = {{ kind = "{kind}", size = "{size}"{aqm} }}\n{flows}'
    )


def measure(folder: Path, cell: Cell, side: Side, seed: int, alone: str = "") -> dict[str, Any]:
    """Return what each flow of a run reached, run now or before."""
    name = "-".join(str(value).replace(" ", "") for value in cell.values())
    kept = folder / f"{name}-{side}-{alone or 'both'}-{seed}.json"
    if not kept.exists():
        run = paceline.run(scenario(cell, side, alone=alone), backend=side, seed=seed)
        flows = {
            flow["label"]: [flow["goodput_bps"], flow["rtt_p50_ns"]]
            for flow in run.summary["flows"]
        }
        kept.write_text(json.dumps(flows))
    return dict(json.loads(kept.read_text()))


def main() -> None:
    """Run what is missing, and print a line a cell that is beyond its bound, then the counts."""
    about = argparse.ArgumentParser(description=__doc__)
    about.add_argument("folder", type=Path)
    about.add_argument("--offsets", type=int, default=5)
    about.add_argument("--seed", type=int, default=1)
    given = about.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    drawn, seeds = cells(given.seed), range(1, given.offsets + 1)
    for seed in seeds:
        for cell in drawn:
            for alone in ("", "down", "up") if cell["upload"] else ("",):
                for side in SIDES:
                    measure(given.folder, cell, side, seed, alone)
        print(f"offset {seed} of {given.offsets}", flush=True)
    judge(given.folder, drawn, seeds)


def judge(folder: Path, drawn: list[Cell], seeds: range) -> None:
    """Print what differs: goodput by 3 %, or its share of that alone by .1; median RTT by 5 %."""
    good = {"goodput": 0, "rtt": 0}
    for cell in drawn:
        values: dict[str, dict[str, list[float]]] = {}
        for side in SIDES:
            both = [measure(folder, cell, side, seed) for seed in seeds]
            values[side] = {
                f"{label} {what}": [mean(run[label][place] for run in both)]
                for label in both[0]
                for place, what in enumerate(("goodput", "rtt"))
            }
            for label in both[0] if cell["upload"] else ():
                alone = mean(measure(folder, cell, side, s, label)[label][0] for s in seeds)
                values[side][f"{label} goodput"].append(alone)
        beyond = []
        for key, (sim, *sim_alone) in values["sim"].items():
            vm, *vm_alone = values["vm"][key]
            if sim_alone:
                off = abs(sim / sim_alone[0] - vm / vm_alone[0])
                is_off = off > 0.1
            else:
                off = abs(sim / vm - 1)
                is_off = off > (0.05 if key.endswith("rtt") else 0.03)
            if is_off:
                beyond.append(f"{key}: simulated {sim:.4g}, Linux {vm:.4g} ({off:.3f})")
        for what in good:
            good[what] += not any(f" {what}:" in line for line in beyond)
        if beyond:
            print(*cell.values(), *beyond, sep="; ")
    print(f"within the bounds: {good} of {len(drawn)} cells")


if __name__ == "__main__":
    main()
