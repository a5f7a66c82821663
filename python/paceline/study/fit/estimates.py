"""The rate, base RTT and backlog of a path, each with a 95 % interval, from its ends' data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from paceline.later import numpy as np
from paceline.quantities import setting
from paceline.study.fit.observed import Observed, Series, UnfitError, spans


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval.

    A bound that the record does not give is `None`, and `why` says why; so is a value of which
    nothing is known.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""

    @classmethod
    def about(cls, value: float, half: float) -> Estimate:
        """Return a value and an interval of which it is the middle; nothing here is negative."""
        return cls(value, max(value - half, 0.0), value + half)

    def __mul__(self, factor: float) -> Estimate:
        """Return it in another unit."""
        value, low, high = (
            None if one is None else one * factor for one in (self.value, self.low, self.high)
        )
        return Estimate(value, low, high, self.why)


@dataclass(frozen=True)
class Stretch:
    """A time in which the link has one rate, in bit/s: that of the packets that have arrived."""

    begin: float
    end: float
    rate: Estimate
    #: The rate with which a simulation begins where there is only a bound.
    guess: float
    #: From when to when it surely has that rate.
    sure: tuple[float, float] = (-math.inf, math.inf)


@dataclass(frozen=True)
class Back:
    """A return path that drops ACKs: the time for each, and the wait of an ACK if it is full.

    The wait is a part of each round trip's, and at most this: a queue of the forward path that
    never becomes empty adds to it. In seconds.
    """

    interval: float
    wait: float
    #: The size of an ACK in bytes.
    size: int

    @property
    def rate(self) -> float:
        """Its rate in bit/s."""
        return 8 * self.size / self.interval

    @property
    def packets(self) -> int:
        """The ACKs that wait if its queue is full."""
        return max(round(self.wait / self.interval), 1)

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings in a scenario's path."""
        queue = {"size": f"{self.packets} packets"}
        return {"rate": setting("_bps", self.rate), "queue": queue}


@dataclass(frozen=True)
class Path:
    """The known parameters of a path before its losses are explained; times in seconds."""

    rtt: Estimate
    stretches: list[Stretch]
    #: The maximum number of bytes that ever waited.
    backlog: Estimate
    #: Whether rates are the link's own: no packet that was lost behind it is missing.
    is_gross: bool
    #: A slow return path, if the ACKs show one.
    back: Back | None = None

    @property
    def is_rate_known(self) -> bool:
        """Whether the link was busy for long enough to determine its rate at all times."""
        return all(stretch.rate.high is not None for stretch in self.stretches)

    def rate_at(self, times: Series) -> Series:
        """Return the link's rate at each of some times."""
        return _rates(self.stretches, times)


#: The minimum duration of a rate.
SHORTEST = 0.5
#: The minimum relative change of a rate.
LEAST_CHANGE = 0.06
#: The number of packets that must leave a busy link to determine its rate.
PACKETS = 200
#: The number of packets over which a throughput is computed, and the minimum.
PIECE, FEWEST = 60, 25
#: Without an observation for this share of the record, it is unknown whether the rate has changed.
UNOBSERVED = 0.2
#: Of a 95 % interval of a normal distribution.
Z = 1.96


def estimate(observed: Observed) -> Path:
    """Estimate the rate, the base RTT and the maximum backlog of a path."""
    rate = _guess(observed)
    stretches: list[Stretch] = []
    is_gross = not observed.has_waits
    for _ in range(1 if is_gross else 2):
        pieces = _trains(observed) if is_gross else list(_pieces(observed, rate))
        if sum(piece.packets for piece in pieces) < PACKETS:
            break
        stretches = list(_stretches(observed, pieces))
        stretches = list(_with_gaps(observed, pieces, stretches))
        rate = _rates(stretches, observed.grid)
    if observed.is_answered and not (stretches and all(one.rate.high for one in stretches)):
        # A short queue never keeps the link busy for long, but it spaces the packets of each burst.
        trains = _trains(observed)
        if sum(piece.packets for piece in trains) >= PACKETS:
            stretches = list(_with_gaps(observed, trains, list(_stretches(observed, trains))))
    if not stretches:
        stretches = _bounds(observed, float(np.max(rate)))
    stretches = [_at_least_measured(observed, stretch) for stretch in stretches]
    rtt = _base(observed, stretches[0])
    return Path(rtt, stretches, _backlog(observed, rtt, stretches), is_gross)


def _base(observed: Observed, first: Stretch) -> Estimate:
    """Return the base RTT: the minimum RTT without the transmission time of its packet.

    That is the header alone in a handshake, and a full packet otherwise, or two if the ACK waited
    for the second. A rate that is only a lower bound bounds that time, and is not subtracted.
    """
    if observed.least is None:
        raise UnfitError(
            "it has no RTT: a capture at the receiver has RTTs if packets have timestamps, and the "
            "base RTT if it includes the handshake"
        )
    of_handshake = observed.is_least_of_handshake
    size = 8 * (observed.header if of_handshake else observed.packet)
    if first.rate.high is None:
        slowest = first.rate.low or 0.0
        longest = (1 if of_handshake else 2) * size / slowest if slowest > 0 else math.inf
        value, low = observed.least, max(observed.least - longest, 0.0)
    else:
        serial = size / first.guess
        value = observed.least - serial
        if value <= 0:
            raise UnfitError("its RTTs are shorter than a packet takes to leave the link")
        low = value - 0.5 * serial
        if of_handshake and not observed.is_handshake_sure:
            low = value - 8 * observed.packet / first.guess
    # A later flow's handshake may have waited behind the data of others.
    if not (of_handshake and observed.has_begin) and not _was_empty(observed, first):
        why = "the queue was never seen empty, and the first handshake is not in the record"
        return Estimate(value, None, observed.least, why)
    if first.rate.high is None:
        return Estimate(value, low, observed.least)
    high = min(value + 0.5 * (observed.least - value), observed.least)
    return Estimate(value, max(low, 0.0), high)


#: The share of RTTs within two packets of the minimum from which on it is that of an empty queue.
EMPTY = 0.01


def _was_empty(observed: Observed, first: Stretch) -> bool:
    if observed.least is None:
        return False
    rtts = np.concatenate([flow.rtt[np.isfinite(flow.rtt)] for flow in observed.flows])
    near = rtts <= observed.least + 2 * observed.packet * 8 / first.guess
    is_often = bool(len(rtts)) and float(np.mean(near)) > EMPTY
    return is_often and (first.rate.high is None or _was_idle(observed, first))


#: The time over which a link's output is compared with its rate, and by how many packets less of
#: each flow show that it was idle: ACKs may cover several at once.
_IDLE_TIME, _IDLE_PACKETS = 1.0, 6


def _was_idle(observed: Observed, first: Stretch) -> bool:
    """Return whether a link of known rate carried less than that for some time.

    A queue that is never empty has a minimum too, and often the same one: only a link that was idle
    shows that it was empty.
    """
    lost = 0.0 if observed.lost is None else observed.lost * observed.packet
    moved = (observed.delivered + lost)[(observed.delivered > 0) & (observed.grid <= first.end)]
    short = (first.rate.low or 0.0) / 8 * observed.step * np.arange(len(moved)) - moved
    width = max(round(_IDLE_TIME / observed.step), 1)
    if len(short) <= width:
        return True
    windows = np.lib.stride_tricks.sliding_window_view(short, width)
    missing = float(np.max(windows[:, -1] - np.min(windows, axis=1)))
    return missing > _IDLE_PACKETS * observed.packet * len(observed.flows)


#: The range of a queue's size around the largest backlog in packets. A full queue has no room
#: for one more, and the packet that is being sent is outside it: half of the errors of drawn paths
#: are below -0.3 packets, one in forty below and above these.
BEYOND, SHORT = 0.95, 0.65
#: The same in a recording, where an ACK may have waited for one more packet; where the minimum RTT
#: is that of data; and where a receiver's capture has measured it.
BEYOND_RECORDED, BEYOND_DATA, BEYOND_SPACED = BEYOND + 1.0, 3.0, 5.0


def _backlog(observed: Observed, rtt: Estimate, stretches: list[Stretch]) -> Estimate:
    """Return the size of the queue if it was full: the maximum number of bytes that waited.

    Its error is that of the rate, and a packet.
    """
    if not observed.has_waits:
        return Estimate(None, why="without RTTs a queue is not seen")
    packet = observed.packet
    rates = _arriving(observed, stretches)
    # Several consecutive samples, and all flows, agree about a queue that was full.
    shared, shortest = observed.shared_waits, observed.least_waits
    waits = np.where(shared <= shortest + BEYOND_DATA * packet * 8 / rates, shared, shortest)
    backlogs = np.median(_windows(_backlog_at(observed, rates, waits)), axis=1)
    at = int(np.argmax(backlogs))
    most = float(backlogs[at])
    # In a queue that was full only briefly, the maximum is between samples.
    peak = max(float(np.max(_windows(_backlog_at(observed, rates, shared))[at])) - most, 0.0)
    if not observed.is_least_of_handshake:
        most += packet
    stretch = next(one for one in stretches if observed.grid[at] <= one.end or one is stretches[-1])
    rate = stretch.rate
    off = most * (1 - (rate.low or 0.0) / stretch.guess)
    # A receiver may have delayed the ACK that ends an RTT measured there.
    is_sure = observed.is_least_of_handshake and observed.is_handshake_sure
    beyond = BEYOND if is_sure else BEYOND_DATA
    if observed.is_spaced:
        beyond = BEYOND_SPACED
    elif is_sure and any(flow.is_imported for flow in observed.flows):
        beyond = BEYOND_RECORDED
    least = max(most - off - beyond * packet, 0.0)
    if rate.high is None or rtt.low is None:
        return Estimate(most, least, None, rate.why or rtt.why)
    return Estimate(most, least, most + off + peak + SHORT * packet)


def _arriving(observed: Observed, stretches: list[Stretch]) -> Series:
    """Return the rate of the link as ACKs show it, at each time of the grid.

    When it changed is known to a piece only: until then the lower one counts.
    """
    guesses = np.array([stretch.guess for stretch in stretches])
    pairs = list(pairwise(stretches))
    late = [max(after.begin, after.sure[0]) for _, after in pairs]
    early = [min(before.end, before.sure[1]) for before, _ in pairs]
    sides = (np.searchsorted(edges, observed.grid, side="right") for edges in (early, late))
    return np.asarray(np.minimum(*(guesses[side] for side in sides)))


def _windows(values: Series) -> Series:
    """Return each value with the one before and the one after it."""
    return np.lib.stride_tricks.sliding_window_view(np.pad(values, 1), 3)


def _backlog_at(observed: Observed, rate: Series, waits: Series) -> Series:
    """Return the backlog when the latest acknowledged packet arrived, at each time of the grid."""
    waits = np.nan_to_num(waits)
    carried = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(observed.grid))]) / 8
    return np.asarray(carried - np.interp(observed.grid - waits, observed.grid, carried))


def _guess(observed: Observed) -> Series:
    """Return a first estimate of the rate: the maximum delivered over a fifth of a second."""
    width = max(min(round(0.2 / observed.step), (len(observed.grid) - 1) // 4), 1)
    moved = observed.delivered[width:] - observed.delivered[:-width]
    rate = float(np.quantile(moved, 0.98)) * 8 / (width * observed.step) if len(moved) else 1.0
    return np.full(len(observed.grid), max(rate, 1.0))


def _carried(observed: Observed, begin: float, end: float) -> float:
    """Return the maximum rate that the link has certainly carried in some time.

    What is acknowledged at once may have left over a longer time: up to four packets, at either end
    of a window, of each flow.
    """
    inside = np.flatnonzero((observed.grid >= begin) & (observed.grid <= end))
    if len(inside) < 2:
        return 0.0
    moved, most = observed.delivered[inside], 0.0
    slack = 4 * observed.packet * len(observed.flows)
    last = len(inside) - 1
    for width in (*(1 << n for n in range(last.bit_length()) if 1 << n < last), last):
        if (width * observed.step >= 0.1 and observed.is_acknowledged) or width == last:
            gained = float(np.max(moved[width:] - moved[:-width])) - slack
            most = max(most, gained * 8 / (width * observed.step))
    return most


def _bound(observed: Observed, begin: float, end: float, guess: float) -> Stretch:
    """Return a stretch of whose rate only what it carried is known."""
    least = _carried(observed, begin, end)
    why = "the link was not busy for long enough"
    return Stretch(begin, end, Estimate(least, least, None, why), max(guess, least, 1.0))


#: Parts of a record in which nothing shows a rate, and how far what they carried may differ: if by
#: more they may have had another rate, and if by much more, less to carry.
_PARTS, _DIFFERENT, _IDLE = 4, 0.8, 0.2


def _bounds(observed: Observed, guess: float) -> list[Stretch]:
    """Return bounds for a record in which the link was never busy: its rate may have changed."""
    edges = np.linspace(0.0, observed.duration, _PARTS + 1)
    bounds: list[Stretch] = []
    for begin, end in pairwise(float(edge) for edge in edges):
        part = _bound(observed, begin, end, guess)
        least, before = part.rate.low or 0.0, bounds[-1].rate.low or 0.0 if bounds else 0.0
        is_alike = _DIFFERENT * before <= least <= before / _DIFFERENT
        if bounds and (is_alike or least < _IDLE * before):
            bounds[-1] = _bound(observed, bounds[-1].begin, end, guess)
        else:
            bounds.append(part)
    return bounds


def _at_least_measured(observed: Observed, stretch: Stretch) -> Stretch:
    """Return a stretch whose rate is not below what it carried."""
    rate = stretch.rate
    if rate.high is None:
        return stretch
    least = _carried(observed, *stretch.sure)
    if least <= stretch.guess:
        return stretch
    # It was as much too low as that shows, or more.
    high = least + (rate.high - stretch.guess) + (least - stretch.guess)
    return replace(stretch, rate=Estimate(least, min(rate.low or least, least), high), guess=least)


def _rates(stretches: list[Stretch], times: Series) -> Series:
    begins = [stretch.begin for stretch in stretches[1:]]
    rates = np.array([stretch.guess for stretch in stretches])
    return np.asarray(rates[np.searchsorted(begins, times, side="right")])


def _busy(observed: Observed, rate: Series) -> Series:
    """Find the times of the grid between which the link was never idle, as indices.

    A packet that has waited says that the link was busy until it left, for as long as it waited.
    """
    packet = observed.packet * 8 / rate
    waits = np.nan_to_num(observed.waits)
    before, after = waits[:-1], waits[1:]
    enough = np.minimum(observed.step, 6 * packet[1:]) + 1.5 * packet[1:]
    return np.asarray((after > enough) & (before > 1.5 * packet[:-1]))


@dataclass(frozen=True)
class _Piece:
    """The data that left a busy link in some time."""

    begin: float
    end: float
    #: How long the link was busy.
    time: float
    moved: float
    packets: float
    #: The busy period to which it belongs.
    period: int


def _pieces(observed: Observed, rate: Series) -> Iterator[_Piece]:
    for first, last in spans(_busy(observed, rate)):
        # The link may have been idle at the start of the first step.
        first += 1
        if last <= first:
            continue
        packet = observed.packet * 8 / float(rate[first])
        least = max(1, math.ceil(FEWEST * packet / observed.step))
        width = max(least, min(math.ceil(PIECE * packet / observed.step), last - first))
        for at in range(first, last - width + 1, width):
            end = at + width if last - at >= 2 * width else last
            moved = float(observed.delivered[end] - observed.delivered[at])
            if moved < 3 * observed.packet:  # That is too little for a rate.
                continue
            begins, ends = float(observed.grid[at]), float(observed.grid[end])
            yield _Piece(begins, ends, ends - begins, moved, moved / observed.packet, first)
            if end == last:
                break


#: The time over which the spacing of packets is examined, and how alike spacings are.
_BLOCK, _ALIKE = 1.0, 1.02
#: The share of a block's bytes, and the number of packets, that a busy link has spaced.
_SPACED, _SPACED_PACKETS = 0.05, 20
#: Packets that must once have followed each other at nearly this rate: a network card may hand over
#: several at once.
_SUSTAINED, _NEARLY = 40, 1.03


def _trains(observed: Observed) -> list[_Piece]:
    """Find packets that follow each other as closely as the link lets them, second by second.

    Of the rates at which the segments of a capture follow each other, the highest that occurs often
    is the link's (packet dispersion: Dovrolis, Ramanathan and Moore, INFOCOM 2001, whose capacity
    mode it is). A packet that is lost behind the link leaves a gap, which belongs to no train.
    """
    if observed.arrivals is None or len(observed.arrivals[0]) <= _SUSTAINED:
        return []
    times, sizes = observed.arrivals
    gone = np.cumsum(sizes)
    spans = np.maximum(times[_SUSTAINED:] - times[:-_SUSTAINED], 1e-9)
    fastest = float(np.max((gone[_SUSTAINED:] - gone[:-_SUSTAINED]) * 8 / spans)) * _NEARLY
    gaps, sizes = np.diff(times), sizes[1:]
    paces = np.where(gaps > 0, sizes * 8 / np.maximum(gaps, 1e-9), np.inf)
    blocks = np.floor((times[1:] - times[0]) / _BLOCK).astype(int)
    edges = np.searchsorted(blocks, np.arange(blocks[-1] + 2))
    pieces = []
    for number, (first, last) in enumerate(pairwise(edges)):
        order = np.argsort(paces[first:last])
        ranked = paces[first:last][order]
        total = np.concatenate([[0.0], np.cumsum(sizes[first:last][order])])
        weight = total[np.searchsorted(ranked, ranked * _ALIKE, side="right")] - total[:-1]
        enough = max(_SPACED * total[-1], _SPACED_PACKETS * observed.packet)
        heavy = np.flatnonzero((weight >= enough) & np.isfinite(ranked))
        if len(heavy) == 0 or ranked[heavy[-1]] > fastest:
            continue
        low = float(ranked[heavy[-1]]) * (1 - 1e-3)
        within = (paces[first:last] >= low) & (paces[first:last] <= low * _ALIKE)
        moved, time = float(sizes[first:last][within].sum()), float(gaps[first:last][within].sum())
        begin = float(times[0]) + number * _BLOCK
        pieces.append(_Piece(begin, begin + _BLOCK, time, moved, moved / observed.packet, number))
    return pieces


def _stretches(observed: Observed, pieces: list[_Piece]) -> Iterator[Stretch]:
    """Split the time where the rate of the link's output changes."""
    cuts = [0, *_cuts(pieces), len(pieces)]
    # An ACK shows what left the link half an RTT ago.
    back = (observed.least or 0.0) / 2
    for number, (first, last) in enumerate(pairwise(cuts)):
        part = pieces[first:last]
        begin = 0.0 if number == 0 else (pieces[first - 1].end + part[0].begin) / 2 - back
        end = observed.duration
        if last < len(pieces):
            end = (part[-1].end + pieces[last].begin) / 2 - back
        rate, guess = _rate(observed, part, not observed.has_waits)
        sure = (
            part[min(1, len(part) - 1)].begin if number > 0 else -math.inf,
            part[max(len(part) - 2, 0)].end if last < len(pieces) else math.inf,
        )
        yield Stretch(begin, end, rate, guess, sure)


def _with_gaps(
    observed: Observed, pieces: list[_Piece], stretches: list[Stretch]
) -> Iterator[Stretch]:
    """Add stretches in which the link was never busy.

    Its rate may have changed there: it has if it carried more than its rate, and it may have where
    nothing is known until the end.
    """
    edges = [(piece.begin, piece.end) for piece in pieces]
    gaps = [
        (end, begin)
        for (_, end), (begin, _) in pairwise([(0.0, 0.0), *edges, (observed.duration, 0.0)])
        if begin - end > 2 * SHORTEST
    ]
    for stretch in stretches:
        at = stretch.begin
        for end, begin in gaps:
            if not (stretch.begin <= end and begin <= stretch.end + SHORTEST):
                continue
            most = _carried(observed, end, begin)
            is_last = begin >= observed.duration and begin - end > UNOBSERVED * observed.duration
            if most > stretch.guess * (1 + LEAST_CHANGE) or is_last:
                if end > at:
                    yield replace(stretch, begin=at, end=end, sure=(stretch.sure[0], end))
                yield _bound(observed, end, begin, stretch.guess)
                at = begin
        if stretch.end > at:
            yield replace(stretch, begin=at)


def _rate(observed: Observed, part: list[_Piece], is_gross: bool) -> tuple[Estimate, float]:
    """Return the rate of pieces, and its best guess.

    The error has two parts. Pieces differ at random; those of one busy period share their ends, so
    the autocovariance of their residuals counts (Newey and West 1987). And at the ends of a busy
    period ACKs change their ways, in the same way each time, by up to a packet.
    """
    moved = np.array([piece.moved for piece in part])
    times = np.array([piece.time for piece in part])
    each = moved * 8 / times
    # Pieces in which the link paused briefly show less than its rate.
    middle, apart = float(np.sort(each)[len(each) // 2]), 0.1
    if is_gross:
        # A sender may pace its packets just below the rate.
        middle = float(np.quantile(each, 0.8))
        apart = max(0.004, 2 * _mad(each / middle))
    good = np.abs(each / middle - 1) < apart
    is_alike = np.mean(np.abs(each / middle - 1) < 0.1) >= 0.5
    if not is_alike:
        # They disagree: the link did not set their pace.
        bound = _bound(observed, part[0].begin, part[-1].end, float(np.max(each)))
        return replace(bound.rate, why="the link did not set the pace"), bound.guess
    moved, times = moved[good] * 8, times[good]
    value = float(moved.sum() / times.sum())
    rest = moved - value * times
    spread = float(rest @ rest)
    for lag in range(1, min(4, len(rest))):
        spread += 2 * (1 - lag / 4) * float(rest[lag:] @ rest[:-lag])
    packet = observed.packet * 8
    periods = len({piece.period for piece, is_good in zip(part, good, strict=True) if is_good})
    ends = EDGE * packet * periods
    spread = max(spread, packet**2 * periods)
    half = SPREAD * math.hypot(Z * math.sqrt(spread), ends) / float(times.sum())
    return Estimate.about(value, half), value


#: Packets by which the ends of each busy period are in error, and the factor of a rate's interval:
#: with these 95 % of the rates of drawn paths are inside.
EDGE, SPREAD = 0.6, 1.0


def _cuts(pieces: list[_Piece], first: int = 0, last: int | None = None) -> Iterator[int]:
    last = len(pieces) if last is None else last
    rates = np.array([p.moved * 8 / p.time for p in pieces[first:last]])
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
