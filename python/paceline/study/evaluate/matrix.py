"""Every controller against every other: share, and harm by goodput, delay and loss.

Harm is defined by Ware et al., "Beyond Jain's Fairness Index" (HotNets 2019): the fraction of its
solo performance that a flow loses in competition, ``(alone - beside) / alone`` where more is
better and ``(beside - alone) / beside`` where less is.
It is 0 for none, 1 for all, and below 0 for a gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from paceline.batch import Job
from paceline.measures import higher_is_better
from paceline.study.claims.jobs import Pool, Record

#: The measures of a pair, from the view of its second flow.
MEASURES = {
    "share": "share of the column",
    "goodput": "harm to the column's goodput",
    "delay": "harm to the column's delay (mean RTT)",
    "loss": "harm to the column's retransmits",
}

_METRICS = {"goodput": "goodput_bps", "delay": "rtt_mean_ns", "loss": "retransmit_ratio"}


@dataclass(frozen=True)
class Matrix:
    """The results of each controller (a column) against each other one (a row)."""

    controllers: tuple[str, ...]
    #: By measure, rows of columns; NaN where it is undefined.
    cells: dict[str, list[list[float]]]
    seeds: int

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        cells = {
            name: [[None if math.isnan(cell) else cell for cell in row] for row in rows]
            for name, rows in self.cells.items()
        }
        return {"controllers": list(self.controllers), "seeds": self.seeds, **cells}


class Pairs:
    """Every controller against every other on the path of ``pair.toml``, and each alone."""

    def __init__(
        self,
        pool: Pool,
        folder: Path,
        controllers: Sequence[str],
        *,
        seeds: int,
        duration: str | None = None,
    ) -> None:
        self._pool = pool
        self._folder = folder
        self._controllers = tuple(controllers)
        self._seeds = seeds
        self._more = (("run.duration", duration),) if duration else ()
        each = range(1, seeds + 1)
        self._single = {cc: [self._alone(cc, seed) for seed in each] for cc in controllers}
        self._pairs = {
            (one, other): [self._beside(one, other, seed) for seed in each]
            for one in controllers
            for other in controllers
        }
        for job in chain.from_iterable((*self._single.values(), *self._pairs.values())):
            pool.add(job)

    def matrix(self) -> Matrix:
        """Return the results of the pool's runs."""
        every = self._controllers
        cells = {
            m: [[self._cell(m, one, other) for other in every] for one in every] for m in MEASURES
        }
        return Matrix(every, cells, self._seeds)

    def _cell(self, measure: str, one: str, other: str) -> float:
        values, records = [], self._pool.records
        for alone, beside in zip(self._single[other], self._pairs[one, other], strict=True):
            if alone not in records or beside not in records:
                return math.nan
            values.append(_value(measure, records[alone], records[beside]))
        return sum(values) / len(values)

    def _alone(self, cc: str, seed: int) -> Job:
        # As long as a pair's, so that the start has the same weight.
        overrides = (("flows.0.cc", cc), ("run.duration", "60 s"), *self._more)
        return self._pool.job(self._folder / "one.toml", overrides, seed)

    def _beside(self, one: str, other: str, seed: int) -> Job:
        # The order of starts matters much; each starts first with every other seed.
        first, second = ("0 s", "1 s") if seed % 2 else ("1 s", "0 s")
        starts = (("flows.0.start", first), ("flows.1.start", second))
        overrides = (("flows.0.cc", one), ("flows.1.cc", other), *starts, *self._more)
        return self._pool.job(self._folder / "pair.toml", overrides, seed)


def _value(measure: str, alone: Record, beside: Record) -> float:
    if measure == "share":
        return _number(beside.flows[1].get("share_ratio"))
    metric = _METRICS[measure]
    both = (_number(flow.get(metric)) for flow in (alone.flows[0], beside.flows[1]))
    return harm(*both, more_is_better=higher_is_better(f"flows[1].{metric}"))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def harm(alone: float, beside: float, *, more_is_better: bool) -> float:
    """Return the harm of Ware et al.; none if there is nothing to lose."""
    best, lost = (alone, alone - beside) if more_is_better else (beside, beside - alone)
    if lost == 0:
        return 0.0
    return lost / best if best > 0 else math.nan
