"""A path as the ends of flows see it: without data that only a link knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline import memory
from paceline.errors import MemoryLimitError
from paceline.quantities import quantity
from paceline.runs import Run

Series = NDArray[np.float64]

#: Bytes of IPv4 and TCP headers with timestamps.
HEADER = 52
#: Maximum payload of a packet: an IPv4 packet has no more.
_LARGEST = 65_535


class UnfitError(ValueError):
    """A record contains too little about its path, or contradicts itself."""


@dataclass(frozen=True)
class Flow:
    """One flow's samples; times in seconds, and counts in wire bytes or packets."""

    cc: str
    start: float
    stop: float | None
    finish: float | None
    payload: int
    t: Series
    delivered: Series
    sent: Series
    lost: Series
    rtt: Series
    min_rtt: Series

    @property
    def packet(self) -> int:
        """Bytes of a full packet on the wire."""
        return self.payload + HEADER

    @cached_property
    def least(self) -> float:
        """The minimum RTT."""
        return float(np.nanmin(np.fmin(self.rtt, self.min_rtt)))

    @property
    def is_least_of_handshake(self) -> bool:
        """Whether it is from packets without data: ACKs of data arrive two RTTs after the start."""
        reached = np.fmin(self.rtt, self.min_rtt) <= self.least * 1.0001
        return float(self.t[np.argmax(reached)]) < self.start + 1.9 * self.least

    @cached_property
    def waits(self) -> Series:
        """The latest RTT minus the minimum, at each time.

        The ACK of a single packet may have been held back by the receiver: the wait is then the one
        before.
        """
        several = np.diff(self.delivered, prepend=0.0) > 1.5 * self.packet
        several &= np.isfinite(self.rtt)
        if several.mean() < 0.1:
            several = np.isfinite(self.rtt)
        latest = np.maximum.accumulate(np.where(several, np.arange(len(self.t)), -1))
        return np.where(latest < 0, np.nan, self.rtt[latest] - self.least)


@dataclass(frozen=True)
class Observed:
    """The flows of a run that carried anything."""

    flows: Sequence[Flow]
    duration: float

    @cached_property
    def step(self) -> float:
        """The sample interval of a flow."""
        steps = np.concatenate([np.diff(flow.t) for flow in self.flows])
        return max(float(np.median(steps[steps > 0])), 1e-4)

    @cached_property
    def grid(self) -> Series:
        """The common times of all flows."""
        first = min(float(flow.t[0]) for flow in self.flows)
        return np.arange(first, max(float(flow.t[-1]) for flow in self.flows), self.step)

    @cached_property
    def least(self) -> float:
        """The minimum RTT of any flow."""
        return min(flow.least for flow in self.flows)

    @property
    def is_least_of_handshake(self) -> bool:
        """Whether the flow with the minimum has it from its handshake."""
        return min(self.flows, key=lambda flow: flow.least).is_least_of_handshake

    @cached_property
    def packet(self) -> int:
        """Bytes of the largest packet on the wire."""
        return max(flow.packet for flow in self.flows)

    @cached_property
    def delivered(self) -> Series:
        """Wire bytes that all flows together have delivered, at each time of the grid."""
        return self._sum("delivered")

    @cached_property
    def lost(self) -> Series:
        """Packets that all flows together have lost, at each time of the grid."""
        return self._sum("lost")

    @cached_property
    def sent(self) -> Series:
        """Packets that all flows together have sent, at each time of the grid."""
        return self._sum("sent")

    @cached_property
    def waits(self) -> Series:
        """The latest RTT minus the minimum, at each time of the grid, or NaN."""
        rows = np.full((len(self.flows), len(self.grid)), np.nan)
        for row, flow in zip(rows, self.flows, strict=True):
            at = np.searchsorted(flow.t, self.grid + 1e-9, side="right") - 1
            known = (at >= 0) & (self.grid <= flow.t[-1] + self.step)
            row[known] = flow.waits[at[known]]
        seen = np.isfinite(rows).any(axis=0)
        waits = np.full(len(self.grid), np.nan)
        waits[seen] = np.nanmax(rows[:, seen], axis=0)
        return waits

    @cached_property
    def has_waits(self) -> bool:
        """Whether any flow shows how long its packets waited."""
        return bool(self.flows) and bool(np.isfinite(self.waits).any())

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The displayed values, by names with units: of these flows only."""
        rtts = np.concatenate([flow.rtt[np.isfinite(flow.rtt)] for flow in self.flows]) * 1e9
        delivered = sum(flow.delivered[-1] * flow.payload / flow.packet for flow in self.flows)
        return {
            "goodput_bps": float(delivered) * 8 / self.duration,
            **{f"rtt_p{n}_ns": float(np.quantile(rtts, n / 100)) for n in (50, 95, 99)},
            "lost_ratio": float(self.lost[-1]) / max(float(self.sent[-1]), 1.0),
        }

    def _sum(self, name: str) -> Series:
        total = np.zeros(len(self.grid))
        for flow in self.flows:
            total += np.interp(self.grid, flow.t, getattr(flow, name), left=0.0)
        return total


def _times(column: pl.Series) -> Series:
    return column.cast(float).to_numpy() / 1e9


#: A flow that carried less than this share of all data is ignored.
LEAST_SHARE = 0.01


def of_use(run: Run) -> list[dict[str, Any]]:
    """Return the rows of the flows that say something about the path."""
    rows = list(run.flows.iter_rows(named=True))
    total = sum(row["goodput_bytes"] for row in rows)
    return [row for row in rows if row["goodput_bytes"] > LEAST_SHARE * total]


def observe(run: Run) -> Observed:
    """Extract the ends' view from a run."""
    flows = []
    table = run.samples.sort("flow", "t_ns")
    for row in of_use(run):
        seen = table.filter(flow=row["flow"])
        rtt = _times(seen["rtt_ns"])
        if not np.isfinite(rtt).any():
            continue
        payload = int(row["mss_bytes"])
        if not 0 < payload <= _LARGEST:
            raise UnfitError(f"flow {row['flow']} has packets with {payload} bytes of payload")
        whole = (payload + HEADER) / payload

        def column(name: str) -> Series:
            return np.asarray(seen[name].cast(float).fill_null(strategy="forward").fill_null(0.0))  # noqa: B023

        flows.append(
            Flow(
                cc=row["cc"],
                start=row["start_ns"] / 1e9,
                stop=None if row["stop_ns"] is None else row["stop_ns"] / 1e9,
                finish=None if row["finish_ns"] is None else row["finish_ns"] / 1e9,
                payload=payload,
                t=seen["t_ns"].cast(float).to_numpy() / 1e9,
                delivered=column("delivered_bytes") * whole,
                sent=column("sent_packets"),
                lost=column("lost_packets"),
                rtt=rtt,
                min_rtt=_times(seen["min_rtt_ns"]),
            )
        )
        _check(row["flow"], flows[-1])
    observed = Observed(flows, max((float(flow.t[-1]) for flow in flows), default=0.0))
    _check_size(observed)
    return observed


def _check(number: int, flow: Flow) -> None:
    """Raise `UnfitError` for samples that no flow can have."""
    if not (np.diff(flow.t) > 0).any():
        raise UnfitError(f"the samples of flow {number} have one time only")
    if np.nanmin(np.fmin(flow.rtt, flow.min_rtt)) <= 0:
        raise UnfitError(f"flow {number} has an RTT of zero")
    for name in ("delivered", "sent"):
        if (np.diff(getattr(flow, name)) < 0).any():
            raise UnfitError(f"the counter of what flow {number} has {name} goes back")


#: Arrays along the grid that are in memory at once, in addition to one for each flow.
_ARRAYS = 24


def _check_size(seen: Observed) -> None:
    """Raise `MemoryLimitError` if the common times of all flows are too many."""
    if not seen.flows:
        return
    span = seen.duration - min(float(flow.t[0]) for flow in seen.flows)
    size, most = 8 * (len(seen.flows) + _ARRAYS) * span / seen.step, memory.limit()
    if size > most:
        steps = f"{quantity('_ns', span * 1e9)} in steps of {quantity('_ns', seen.step * 1e9)}"
        told = f"samples of {steps} take {quantity('_bytes', size)} of memory"
        raise MemoryLimitError(
            [f"{told}; at most {quantity('_bytes', most)} may be used", "raise --memory"]
        )
