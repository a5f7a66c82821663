"""The parameters of what loses packets, each with a 95 % interval, from the ends' data alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from paceline.later import numpy as np
from paceline.study.fit.estimates import Estimate, Path, Z
from paceline.study.fit.observed import Observed

if TYPE_CHECKING:
    from numpy.typing import NDArray

Flags: TypeAlias = "NDArray[np.bool_]"

#: Losses with a longer queue than this share of the maximum may be those of a full queue.
CALM = 0.7
#: Blocks of a record in which losses are counted, to see whether they come in bursts.
BLOCKS = 20
#: Packets in calm times from which on a probability is told.
ENOUGH = 500


def calm(seen: Observed, path: Path) -> Flags:
    """Return whether the queue was far from full, and that for as long as a loss goes unnoticed."""
    most = path.backlog.value
    if most is None or seen.least is None:
        return np.ones(len(seen.grid), bool)
    waits = np.nan_to_num(seen.shared_waits)
    held = waits * path.rate_at(seen.grid) / 8
    # A lost packet left its sender an RTT earlier, and detection may take another half.
    full = np.flatnonzero(held > CALM * most)
    back = np.round((seen.least + waits) * 1.5 / seen.step).astype(int) + 2
    last = np.full(len(held), -(2**40))
    last[full] = full
    last = np.maximum.accumulate(last)
    return np.asarray(np.arange(len(held)) - last > back)


def probability(seen: Observed, times: Flags) -> Estimate:
    """Return the probability with which a packet is lost at some of the times of the grid.

    Wilson's interval (1927) for a share. Losses that come in bursts count for fewer: their number
    is divided by the ratio of variance to mean over blocks (McCullagh and Nelder 1989, 4.5).
    """
    if seen.lost is None or seen.sent is None:
        return Estimate(None, why="losses were not counted")
    lost = np.diff(seen.lost, prepend=0.0) * times
    # Those that were sent have arrived or were lost: by the time when that is known.
    came = np.diff(seen.delivered, prepend=0.0) / seen.packet * times
    hits, count = float(lost.sum()), float(lost.sum() + came.sum())
    if count < ENOUGH:
        return Estimate(None, why="the queue was too rarely far from full")
    edges = np.searchsorted(np.cumsum(lost + came), np.arange(1, BLOCKS) * count / BLOCKS)
    parts = np.array([part.sum() for part in np.split(lost, edges)])
    burst = max(float(np.var(parts, ddof=1)) / max(hits / BLOCKS, 1e-9), 1.0) if hits else 1.0
    return _wilson(hits / burst, count / burst)


def _wilson(hits: float, count: float) -> Estimate:
    share = hits / count
    middle = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2)) / (1 + Z**2 / count)
    return Estimate(share, max(middle - half, 0.0), middle + half)


def overflows(seen: Observed, path: Path, random: float) -> bool:
    """Return whether the queue has lost packets that random losses do not account for."""
    if seen.lost is None or path.backlog.value is None:
        return False
    busy = ~calm(seen, path)
    lost = float((np.diff(seen.lost, prepend=0.0) * busy).sum())
    came = float((np.diff(seen.delivered, prepend=0.0) * busy).sum()) / seen.packet
    expected = (came + lost) * random
    return lost > expected + 3 * math.sqrt(expected) + 3


def policer(seen: Observed, path: Path) -> tuple[Estimate, Estimate] | None:
    """Return the rate and the burst of a policer, in bit/s and bytes.

    At a loss its bucket is empty: what passes from one episode of losses to the next is the rate
    times the time, unless the bucket was full in between and the flow got less. The interval of the
    median of these rates is that of its order statistics (Conover 1999, 3.2). What passed before
    the first loss beyond that is the burst.
    """
    if seen.lost is None or seen.least is None:
        return None
    at = np.flatnonzero(np.diff(seen.lost) > 0) + 1
    if len(at) < 2:
        return None
    times = seen.grid[at]
    first = at[np.concatenate([[True], np.diff(times) > 1.5 * seen.least])]
    moved = np.diff(seen.delivered[first])
    enough = moved > 20 * seen.packet
    rates = np.sort(moved[enough] * 8 / np.diff(seen.grid[first])[enough])
    begin = int(np.argmax(seen.delivered > 0))
    if len(rates) == 0:
        return None
    value = float(np.median(rates))
    rank = math.floor(len(rates) / 2 - Z * math.sqrt(len(rates)) / 2)
    why = "losses come in too few episodes"
    rate = Estimate(value, None, None, why)
    if rank >= 1:
        # Rows and packets make many of them equal.
        grain = 8 * seen.packet / float(np.median(np.diff(seen.grid[first])[enough]))
        grain /= math.sqrt(len(rates))
        rate = Estimate(value, float(rates[rank - 1]) - grain, float(rates[-rank]) + grain)
    # To the first losses, with what passes until they are noticed.
    last = min(
        int(np.searchsorted(seen.grid, seen.grid[first[0]] + seen.least)), len(seen.grid) - 1
    )
    time = seen.grid[begin : last + 1] - seen.grid[begin]
    beyond = seen.delivered[begin : last + 1] - value / 8 * time
    gained = float(np.max(beyond - np.minimum.accumulate(beyond))) + seen.packet
    size = max(gained, 2.0 * seen.packet)
    if rate.low is None or rate.high is None:
        return rate, Estimate(size, None, None, why)
    off = max(value - rate.low, rate.high - value) / 8 * float(time[-1]) + 1.5 * seen.packet
    if not seen.has_waits or not calm(seen, path)[first[0]]:
        why = "the queue may have lost the first packets"
        return rate, Estimate(size, max(size - off, 0.0), None, why)
    return rate, Estimate(size, max(size - off, 0.0), size + off)
