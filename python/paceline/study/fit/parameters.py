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
#: Packets in calm times from which on a probability is given.
ENOUGH = 500


def calm(observed: Observed, path: Path) -> Flags:
    """Return whether the queue was far from full, and that for as long as a loss goes unnoticed."""
    most = path.backlog.value
    if most is None or observed.least is None:
        return np.ones(len(observed.grid), bool)
    waits = np.nan_to_num(observed.shared_waits)
    backlog = waits * path.rate_at(observed.grid) / 8
    # A lost packet left its sender an RTT earlier, and detection may take another half.
    full = np.flatnonzero(backlog > CALM * most)
    back = np.round((observed.least + waits) * 1.5 / observed.step).astype(int) + 2
    last = np.full(len(backlog), -(2**40))
    last[full] = full
    last = np.maximum.accumulate(last)
    return np.asarray(np.arange(len(backlog)) - last > back)


def probability(observed: Observed, times: Flags) -> Estimate:
    """Return the probability with which a packet is lost at some of the times of the grid.

    Wilson's interval (1927) for a share. Losses that come in bursts count for fewer: their number
    is divided by the ratio of variance to mean over blocks (McCullagh and Nelder 1989, 4.5).
    """
    if observed.lost is None or observed.sent is None:
        return Estimate(None, why="losses were not counted")
    lost = np.diff(observed.lost, prepend=0.0) * times
    # Those that were sent have arrived or were lost: by the time when that is known.
    came = np.diff(observed.delivered, prepend=0.0) / observed.packet * times
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


def overflows(observed: Observed, path: Path, random: float) -> bool:
    """Return whether the queue has lost packets that random losses do not account for."""
    if observed.lost is None or path.backlog.value is None:
        return False
    busy = ~calm(observed, path)
    lost = float((np.diff(observed.lost, prepend=0.0) * busy).sum())
    came = float((np.diff(observed.delivered, prepend=0.0) * busy).sum()) / observed.packet
    expected = (came + lost) * random
    return lost > expected + 3 * math.sqrt(expected) + 3


def policer(observed: Observed, path: Path) -> tuple[Estimate, Estimate] | None:
    """Return the rate and the burst of a policer, in bit/s and bytes.

    At a loss its bucket is empty. So from one episode of losses to the next it passes its rate
    times the time, or, if the bucket was full in between, from then on its burst and the rate times
    the time. The rate is the median of what each pair of episodes says, and its interval that of
    the order statistics (Conover 1999, 3.2). The burst is what passed before the first loss beyond
    that rate: both are solved in turn. Where pairs differ much in their rate it is no policer.
    """
    episodes = _episodes(observed, path)
    if episodes is None:
        return None
    first, pairs = episodes
    begin = int(np.argmax(observed.delivered > 0))
    # To the first losses, with what passes until they are noticed.
    noticed = int(np.searchsorted(observed.grid, observed.grid[first] + observed.least))
    last = min(noticed, len(observed.grid) - 1)
    time = observed.grid[begin : last + 1] - observed.grid[begin]
    moved = observed.delivered[begin : last + 1]
    burst = math.inf
    # The bucket was full as the flows began, if that is in the record.
    for _ in range(_TURNS if observed.has_begin else 1):
        value = float(np.median(_refills(observed, pairs, burst)))
        beyond = moved - value / 8 * time
        gained = float(np.max(beyond - np.minimum.accumulate(beyond))) + observed.packet
        burst = max(gained, 2.0 * observed.packet)
    quartiles = np.quantile(_refills(observed, pairs, burst), (0.25, 0.75))
    if len(pairs) >= _JUDGED and float(quartiles[1] - quartiles[0]) > _APART * value:
        return None
    why = "losses come in too few episodes"
    rank = math.floor(len(pairs) / 2 - Z * math.sqrt(len(pairs)) / 2)
    if rank < 1:
        return Estimate(value, None, None, why), Estimate(burst, None, None, why)
    # Rows and packets make many of them equal.
    spans = np.array([observed.grid[end] - observed.grid[at] for at, end in pairs])
    grain = 8 * observed.packet / float(np.median(spans)) / math.sqrt(len(pairs))
    is_sure = observed.has_begin and observed.has_waits and bool(calm(observed, path)[first])
    slack = 1.5 * observed.packet
    # A larger bucket was full less often, and one of any size at least never.
    largest = burst + slack if is_sure else math.inf
    low = float(_refills(observed, pairs, largest)[rank - 1]) - grain
    high = float(_refills(observed, pairs, burst - slack)[-rank]) + grain
    off = max(value - low, high - value) / 8 * float(time[-1]) + slack
    rate = Estimate(value, low, high)
    least = max(burst - off, 0.0)
    if is_sure:
        return rate, Estimate(burst, least, burst + off)
    why = "the record does not show what passed before it"
    if observed.has_begin:
        why = "the queue may have lost the first packets"
    return rate, Estimate(burst, least, None, why)


#: Packets between episodes of losses from which on they show a rate, and how often
#: a policer's rate and burst are computed from each other.
_BETWEEN, _TURNS = 20, 8
#: Of at least so many pairs of episodes, a policer's rates have quartiles at most this share apart:
#: 0.05 on drawn paths with one, and 0.4 or more where random losses keep CUBIC below the link.
_JUDGED, _APART = 8, 0.15


def _episodes(observed: Observed, path: Path) -> tuple[int, list[tuple[int, int]]] | None:
    """Return the first loss, and the begins of each two successive episodes of losses.

    Where the link became slower than the policer it is the queue that loses packets, and the rate
    between losses is the link's: the stretch in which that is highest counts.
    """
    if observed.lost is None or observed.least is None:
        return None
    at = np.flatnonzero(np.diff(observed.lost) > 0) + 1
    if len(at) < 2:
        return None
    firsts = at[np.concatenate([[True], np.diff(observed.grid[at]) > 1.5 * observed.least])]
    by_stretch: dict[int, list[tuple[int, int]]] = {}
    ends = [stretch.end for stretch in path.stretches[:-1]]
    for pair in pairwise(int(first) for first in firsts):
        if observed.delivered[pair[1]] - observed.delivered[pair[0]] > _BETWEEN * observed.packet:
            number, other = (int(np.searchsorted(ends, observed.grid[one])) for one in pair)
            if number == other:
                by_stretch.setdefault(number, []).append(pair)
    if not by_stretch:
        return None

    def rate(pairs: list[tuple[int, int]]) -> float:
        return float(np.median(_refills(observed, pairs, math.inf)))

    return int(firsts[0]), max(by_stretch.values(), key=rate)


def _refills(observed: Observed, pairs: list[tuple[int, int]], burst: float) -> Series:
    """Return the least rate that fills a bucket for each two episodes, in bit/s, in order."""
    rates = []
    for at, end in pairs:
        moved = observed.delivered[end] - observed.delivered[at:end]
        times = observed.grid[end] - observed.grid[at:end]
        given = np.where(np.arange(len(moved)) == 0, moved, moved - burst)
        rates.append(float(np.max((given / times)[moved > _BETWEEN * observed.packet])) * 8)
    return np.sort(rates)
