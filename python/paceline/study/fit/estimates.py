"""The rate, base RTT and buffer of a path, each with an interval, from its ends' data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from paceline.study.fit.observed import Observed, Series


@dataclass(frozen=True)
class Estimate:
    """A value and the bounds of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Stretch:
    """A time in which the link has one rate, in bit/s."""

    begin: float
    end: float
    rate: Estimate


@dataclass(frozen=True)
class Path:
    """The known parameters of a path before its losses are explained; times in seconds."""

    rtt: Estimate
    stretches: list[Stretch]
    #: The maximum number of bytes that ever waited.
    backlog: Estimate

    @property
    def is_rate_known(self) -> bool:
        """Whether the link was busy for long enough to determine its rate at all times."""
        return all(math.isfinite(stretch.rate.high) for stretch in self.stretches)

    def rate_at(self, times: Series) -> Series:
        """Return the link's rate at each of some times."""
        return _rates(self.stretches, times)


#: The minimum duration of a rate.
SHORTEST = 0.5
#: The minimum relative change of a rate.
LEAST_CHANGE = 0.06
#: The number of packets that must leave a busy link to determine its rate.
PACKETS = 200
#: Bytes of a full packet.
FULL = 1500
#: The number of packets over which a throughput is computed, and the minimum.
PIECE, FEWEST = 60, 25


def estimate(seen: Observed) -> Path:
    """Estimate the rate, the base RTT and the maximum backlog of a path."""
    rate = _guess(seen)
    stretches: list[Stretch] = []
    for _ in range(2):
        pieces = list(_pieces(seen, _busy(seen, rate), rate))
        if sum(piece.packets for piece in pieces) < PACKETS:
            break
        stretches = list(_stretches(seen, pieces))
        stretches = list(_with_gaps(seen, pieces, stretches))
        rate = _rates(stretches, seen.grid)
    if not stretches:
        least = float(np.max(rate))
        stretches = [Stretch(0.0, seen.duration, Estimate(least, least, np.inf))]
    rate = _rates(stretches, seen.grid)
    backlogs = _backlogs(seen, rate)
    most, packet = float(np.max(backlogs)), seen.packet
    # Without the transmission time of a full packet, which a handshake does not include.
    serial = packet * 8 / stretches[0].rate.value
    base = seen.least if seen.is_least_of_handshake else seen.least - serial
    rtt = Estimate(base, min(base, seen.least - 2 * serial), seen.least)
    # One packet is on the wire while the others wait, and the maximum lies between two samples.
    full = most if seen.is_least_of_handshake else most + packet
    backlog = Estimate(full, full - packet, full * 1.05 + 2 * packet)
    return Path(rtt, stretches, backlog)


def _backlogs(seen: Observed, rate: Series) -> Series:
    """Return the backlog when the latest acknowledged packet arrived, at each time of the grid."""
    waits = np.nan_to_num(seen.waits)
    carried = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(seen.grid))]) / 8
    before = np.interp(seen.grid - waits, seen.grid, carried)
    # Several consecutive samples agree about a queue that was full.
    ends = np.concatenate([[0.0], carried - before, [0.0]])
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(ends, 3), axis=1))


def _guess(seen: Observed) -> Series:
    """Return a first estimate of the rate: the maximum delivered over a fifth of a second."""
    width = max(min(round(0.2 / seen.step), (len(seen.grid) - 1) // 4), 1)
    moved = seen.delivered[width:] - seen.delivered[:-width]
    rate = float(np.quantile(moved, 0.98)) * 8 / (width * seen.step) if len(moved) else 1.0
    return np.full(len(seen.grid), max(rate, 1.0))


def _rates(stretches: list[Stretch], times: Series) -> Series:
    begins = [stretch.begin for stretch in stretches[1:]]
    rates = np.array([stretch.rate.value for stretch in stretches])
    return np.asarray(rates[np.searchsorted(begins, times, side="right")])


def _busy(seen: Observed, rate: Series) -> Series:
    """Find the times of the grid between which the link was never idle, as indices.

    A packet that has waited says that the link was busy until it left, for as long as it waited.
    """
    packet = seen.packet * 8 / rate
    waits = np.nan_to_num(seen.waits)
    before, after = waits[:-1], waits[1:]
    enough = np.minimum(seen.step, 6 * packet[1:]) + 1.5 * packet[1:]
    return np.asarray((after > enough) & (before > 1.5 * packet[:-1]))


@dataclass(frozen=True)
class _Piece:
    """The data that left a busy link in some time."""

    begin: float
    end: float
    moved: float
    packets: float


def _pieces(seen: Observed, busy: Series, rate: Series) -> Iterator[_Piece]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], busy.astype(int), [0]])))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        # The link may have been idle at the start of the first step.
        first += 1
        if last <= first:
            continue
        packet = seen.packet * 8 / float(rate[first])
        least = max(1, math.ceil(FEWEST * packet / seen.step))
        width = max(least, min(math.ceil(PIECE * packet / seen.step), last - first))
        for at in range(first, last - width + 1, width):
            end = at + width if last - at >= 2 * width else last
            moved = float(seen.delivered[end] - seen.delivered[at])
            if moved < 3 * seen.packet:  # That says nothing about a rate.
                continue
            yield _Piece(float(seen.grid[at]), float(seen.grid[end]), moved, moved / seen.packet)
            if end == last:
                break


def _stretches(seen: Observed, pieces: list[_Piece]) -> Iterator[Stretch]:
    """Split the time where the rate of the link's output changes."""
    cuts = [0, *_cuts(pieces), len(pieces)]
    for number, (first, last) in enumerate(pairwise(cuts)):
        part = pieces[first:last]
        # An ACK says what left the link half an RTT ago.
        back = seen.least / 2
        begin = 0.0 if number == 0 else (pieces[first - 1].end + part[0].begin) / 2 - back
        end = seen.duration
        if last < len(pieces):
            end = (part[-1].end + pieces[last].begin) / 2 - back
        yield Stretch(begin, end, _rate(part))


def _with_gaps(seen: Observed, pieces: list[_Piece], stretches: list[Stretch]) -> Iterator[Stretch]:
    """Add stretches in which the link was never busy and yet carried more than its rate."""
    width = max(round(0.2 / seen.step), 2)
    moved = (seen.delivered[width:] - seen.delivered[:-width]) * 8 / (width * seen.step)
    times = seen.grid[:-width]
    edges = [(piece.begin, piece.end) for piece in pieces]
    gaps = [
        (end, begin)
        for (_, end), (begin, _) in pairwise([(0.0, 0.0), *edges, (seen.duration, 0.0)])
        if begin - end > 2 * SHORTEST
    ]
    for stretch in stretches:
        at = stretch.begin
        for end, begin in gaps:
            inside = (times >= end) & (times + width * seen.step <= begin)
            if not (stretch.begin <= end and begin <= stretch.end + SHORTEST) or not inside.any():
                continue
            most = float(np.max(moved[inside]))
            if most > stretch.rate.value * (1 + LEAST_CHANGE):
                if end > at:
                    yield Stretch(at, end, stretch.rate)
                yield Stretch(end, begin, Estimate(most, most, np.inf))
                at = begin
        if stretch.end > at:
            yield Stretch(at, stretch.end, stretch.rate)


def _rate(part: list[_Piece]) -> Estimate:
    moved = np.array([piece.moved for piece in part])
    times = np.array([piece.end - piece.begin for piece in part])
    each = moved * 8 / times
    # Pieces in which the link paused briefly show less than its rate.
    middle = float(np.sort(each)[len(each) // 2])
    good = np.abs(each / middle - 1) < 0.1
    if np.mean(good) < 0.5:
        # They disagree: the link did not set their pace.
        return Estimate(float(np.max(each)), float(np.max(each)), np.inf)
    value = float(moved[good].sum() * 8 / times[good].sum())
    apart = float(np.std(each[good])) / np.sqrt(max(good.sum(), 1))
    # A packet more or less may have left.
    wide = float(max(2 * apart, value * FULL / moved[good].sum()))
    return Estimate(value, value - wide, value + wide)


def _cuts(pieces: list[_Piece], first: int = 0, last: int | None = None) -> Iterator[int]:
    last = len(pieces) if last is None else last
    rates = np.array([p.moved * 8 / (p.end - p.begin) for p in pieces[first:last]])
    times = np.array([(p.begin + p.end) / 2 for p in pieces[first:last]])
    if len(rates) < 6:
        return
    logs = np.log(np.maximum(rates, 1.0))
    counts = np.arange(1, len(logs))
    sums = np.cumsum(logs)
    left, right = sums[:-1] / counts, (sums[-1] - sums[:-1]) / (len(logs) - counts)
    gains = (left - right) ** 2 * counts * (len(logs) - counts) / len(logs)
    gains[(times[1:] - times[0] < SHORTEST) | (times[-1] - times[:-1] < SHORTEST)] = 0
    at = int(np.argmax(gains)) + 1
    if gains[at - 1] == 0:
        return
    before, after = logs[:at], logs[at:]
    change = abs(float(np.median(after) - np.median(before)))
    noise = 1.4826 * max(_mad(before), _mad(after)) / np.sqrt(min(len(before), len(after)))
    if change < max(LEAST_CHANGE, 5 * noise):
        return
    yield from _cuts(pieces, first, first + at)
    yield first + at
    yield from _cuts(pieces, first + at, last)


def _mad(values: Series) -> float:
    return float(np.median(np.abs(values - np.median(values))))
