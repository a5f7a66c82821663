"""Every controller beside every other: share, and harm by goodput, delay and loss.

Harm is that of Ware et al., "Beyond Jain's Fairness Index" (HotNets 2019): how much of what a flow
has alone it loses beside another, ``(alone - beside) / alone`` where more is better and
``(beside - alone) / beside`` where less is. It is 0 for none, 1 for all, and below 0 for a gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline import _paceline
from paceline.runs import Progress
from paceline.study.claims.jobs import Job, Pool, Record

#: What is measured of a pair, as the second flow of it finds it.
MEASURES = {
    "share": "share of the column",
    "goodput": "harm to the column's goodput",
    "delay": "harm to the column's delay (mean RTT)",
    "loss": "harm to the column's retransmits",
}

_METRICS = {"goodput": "goodput_bps", "delay": "rtt_mean_ns", "loss": "retransmit_ratio"}


@dataclass(frozen=True)
class Matrix:
    """What each controller (a column) has beside each other (a row)."""

    controllers: tuple[str, ...]
    #: By measure, rows of columns; not a number where it is undefined.
    cells: dict[str, list[list[float]]]
    seeds: int

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        cells = {
            name: [[None if math.isnan(cell) else cell for cell in row] for row in rows]
            for name, rows in self.cells.items()
        }
        return {"controllers": list(self.controllers), "seeds": self.seeds, **cells}


def pairs(
    folder: Path,
    controllers: Sequence[str],
    *,
    seeds: int,
    duration: str | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Matrix:
    """Run every controller beside every other on the path of ``pair.toml``, and each alone."""
    more = (("run.duration", duration),) if duration else ()
    pool = Pool()
    alone = {
        cc: [_alone(folder, cc, seed, more) for seed in range(1, seeds + 1)] for cc in controllers
    }
    beside = {
        (one, other): [_beside(folder, one, other, seed, more) for seed in range(1, seeds + 1)]
        for one in controllers
        for other in controllers
    }
    for jobs in (*alone.values(), *beside.values()):
        for job in jobs:
            pool.add(job)
    pool.run(threads=threads, progress=progress)
    cells: dict[str, list[list[float]]] = {}
    for measure in MEASURES:
        cells[measure] = [
            [_cell(pool, measure, alone[other], beside[one, other]) for other in controllers]
            for one in controllers
        ]
    return Matrix(tuple(controllers), cells, seeds)


def _alone(folder: Path, cc: str, seed: int, more: tuple[tuple[str, str], ...]) -> Job:
    # As long as a pair is, so that its start weighs as much.
    return Job(folder / "one.toml", (("flows.0.cc", cc), ("run.duration", "60 s"), *more), seed)


def _beside(
    folder: Path, one: str, other: str, seed: int, more: tuple[tuple[str, str], ...]
) -> Job:
    # Who begins decides much; each begins with every other seed.
    first, second = ("0 s", "1 s") if seed % 2 else ("1 s", "0 s")
    starts = (("flows.0.start", first), ("flows.1.start", second))
    return Job(
        folder / "pair.toml", (("flows.0.cc", one), ("flows.1.cc", other), *starts, *more), seed
    )


def _cell(pool: Pool, measure: str, alone: Sequence[Job], beside: Sequence[Job]) -> float:
    values = []
    for before, after in zip(alone, beside, strict=True):
        if before not in pool.records or after not in pool.records:
            return math.nan
        values.append(_value(measure, pool.records[before], pool.records[after]))
    return sum(values) / len(values)


def _value(measure: str, alone: Record, beside: Record) -> float:
    if measure == "share":
        return _number(beside.flows[1].get("share_ratio"))
    metric = _METRICS[measure]
    better = {d["name"]: d["better"] for d in _paceline.metrics() if d["scope"] == "flow"}
    return harm(
        _number(alone.flows[0].get(metric)),
        _number(beside.flows[1].get(metric)),
        more_is_better=better[metric] == "higher",
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def harm(alone: float, beside: float, *, more_is_better: bool) -> float:
    """Return the harm of Ware et al.; none if there is nothing to lose."""
    best, lost = (alone, alone - beside) if more_is_better else (beside, beside - alone)
    if lost == 0:
        return 0.0
    return lost / best if best > 0 else math.nan
