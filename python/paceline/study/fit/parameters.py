"""The parameters of what loses packets, each with a 95 % interval, from the ends' data alone."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from paceline.later import numpy as np
from paceline.study.fit.estimates import Estimate, Path, Z
from paceline.study.fit.observed import Observed, Series

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

    At a loss its bucket is empty. So from one episode of losses to the next it passes its rate
    times the time, or, if the bucket was full in between, from then on its burst and the rate times
    the time. The rate is the median of what each pair of episodes says, and its interval that of
    the order statistics (Conover 1999, 3.2). The burst is what passed before the first loss beyond
    that rate: both are solved in turn.
    """
    episodes = _episodes(seen, path)
    if episodes is None:
        return None
    first, pairs = episodes
    begin = int(np.argmax(seen.delivered > 0))
    # To the first losses, with what passes until they are noticed.
    last = min(int(np.searchsorted(seen.grid, seen.grid[first] + seen.least)), len(seen.grid) - 1)
    time = seen.grid[begin : last + 1] - seen.grid[begin]
    moved = seen.delivered[begin : last + 1]
    burst = math.inf
    # The bucket was full as the flows began, if that is in the record.
    for _ in range(_TURNS if seen.has_begin else 1):
        value = float(np.median(_refills(seen, pairs, burst)))
        beyond = moved - value / 8 * time
        gained = float(np.max(beyond - np.minimum.accumulate(beyond))) + seen.packet
        burst = max(gained, 2.0 * seen.packet)
    why = "losses come in too few episodes"
    rank = math.floor(len(pairs) / 2 - Z * math.sqrt(len(pairs)) / 2)
    if rank < 1:
        return Estimate(value, None, None, why), Estimate(burst, None, None, why)
    # Rows and packets make many of them equal.
    spans = np.array([seen.grid[end] - seen.grid[at] for at, end in pairs])
    grain = 8 * seen.packet / float(np.median(spans)) / math.sqrt(len(pairs))
    is_sure = seen.has_begin and seen.has_waits and bool(calm(seen, path)[first])
    slack = 1.5 * seen.packet
    # A larger bucket was full less often, and one of any size at least never.
    largest = burst + slack if is_sure else math.inf
    low = float(_refills(seen, pairs, largest)[rank - 1]) - grain
    high = float(_refills(seen, pairs, burst - slack)[-rank]) + grain
    off = max(value - low, high - value) / 8 * float(time[-1]) + slack
    rate = Estimate(value, low, high)
    if not is_sure:
        why = "the queue may have lost the first packets"
        if not seen.has_begin:
            why = "the record does not show what passed before it"
        return rate, Estimate(burst, max(burst - off, 0.0), None, why)
    return rate, Estimate(burst, max(burst - off, 0.0), burst + off)


#: Packets between episodes of losses from which on they say something about a rate, and how often
#: a policer's rate and burst are computed from each other.
_BETWEEN, _TURNS = 20, 8


def _episodes(seen: Observed, path: Path) -> tuple[int, list[tuple[int, int]]] | None:
    """Return the first loss, and the begins of each two successive episodes of losses.

    Where the link became slower than the policer it is the queue that loses packets, and the rate
    between losses is the link's: the stretch in which that is highest counts.
    """
    if seen.lost is None or seen.least is None:
        return None
    at = np.flatnonzero(np.diff(seen.lost) > 0) + 1
    if len(at) < 2:
        return None
    apart = np.diff(seen.grid[at]) > 1.5 * seen.least
    firsts = at[np.concatenate([[True], apart])]
    by_stretch: dict[int, list[tuple[int, int]]] = {}
    ends = [stretch.end for stretch in path.stretches[:-1]]
    for pair in pairwise(int(first) for first in firsts):
        if seen.delivered[pair[1]] - seen.delivered[pair[0]] > _BETWEEN * seen.packet:
            number, other = (int(np.searchsorted(ends, seen.grid[one])) for one in pair)
            if number == other:
                by_stretch.setdefault(number, []).append(pair)
    if not by_stretch:
        return None
    fastest = max(by_stretch.values(), key=lambda pairs: np.median(_refills(seen, pairs, math.inf)))
    return int(firsts[0]), fastest


def _refills(seen: Observed, pairs: list[tuple[int, int]], burst: float) -> Series:
    """Return the least rate that fills a bucket for each two episodes, in bit/s, in order."""
    rates = []
    for at, end in pairs:
        moved = seen.delivered[end] - seen.delivered[at:end]
        times = seen.grid[end] - seen.grid[at:end]
        given = np.where(np.arange(len(moved)) == 0, moved, moved - burst)
        rates.append(float(np.max((given / times)[moved > _BETWEEN * seen.packet])) * 8)
    return np.sort(rates)
