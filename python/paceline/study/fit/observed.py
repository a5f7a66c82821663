"""A path as the ends of flows observe it: without data that only a link knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from paceline import memory
from paceline.errors import MemoryLimitError
from paceline.later import numpy as np
from paceline.later import polars as pl
from paceline.quantities import quantity
from paceline.runs import Run, packets_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

Series: TypeAlias = "NDArray[np.float64]"

#: Bytes of IPv4 and TCP headers with timestamps.
HEADER = 52
#: The headers that fill a packet of this size are those of the record: without timestamps, of IPv6
#: or of QUIC a packet carries more or less.
_MTUS, _HEADERS = (1500, 9000, 1492, 1280), (28, 40, 48, 52, 60, 72)
#: Less is no full packet's payload.
_SEGMENT = 500
#: Maximum payload of a packet: an IPv4 packet has no more.
_LARGEST = 65_535


class UnfitError(ValueError):
    """A record contains too little about its path, or contradicts itself."""


@dataclass(frozen=True)
class Flow:
    """One flow's samples; times in seconds, and counts in wire bytes or packets.

    A count that the record does not have is `None`.
    """

    start: float
    payload: int
    header: int
    t: Series
    delivered: Series
    #: Transmissions.
    sent: Series | None
    lost: Series | None
    rtt: Series
    min_rtt: Series
    #: The RTT of the handshake, where the record has it apart from its samples.
    handshake: float | None
    #: Of a capture: when data passed it, and the wire bytes of each segment.
    arrivals: tuple[Series, Series] | None = None
    #: Whether it is a recording of another program, which may begin at any time.
    is_imported: bool = False
    #: Whether deliveries are what was acknowledged: iperf3 counts what it has written.
    is_acknowledged: bool = True
    #: Whether its ACKs cover what passed the capture just before them.
    is_answered: bool = False
    #: The payload that was handed over, and when the last of it was.
    goodput_bytes: int = 0
    end: float = 0.0
    #: When its application had nothing to send, from the sender's side.
    pauses: Sequence[tuple[float, float]] = ()

    @property
    def packet(self) -> int:
        """Bytes of a full packet on the wire."""
        return self.payload + self.header

    @cached_property
    def least(self) -> float | None:
        """The minimum RTT."""
        every = np.concatenate([self.rtt, self.min_rtt, [self.handshake or np.nan]])
        every = every[np.isfinite(every)]
        return float(np.min(every)) if len(every) else None

    @property
    def is_least_of_handshake(self) -> bool:
        """Whether it is from packets without data: ACKs of data arrive two RTTs after the start."""
        if self.least is None or self.handshake is not None:
            return self.least is not None and self.handshake == self.least
        rtts = np.fmin(self.rtt, self.min_rtt)
        reached = rtts <= self.least * 1.0001
        if self.arrivals is not None:
            # The receiver's capture has it in its first RTT, which then is known as data begins.
            row = int(np.argmax(np.isfinite(rtts)))
            is_first = row == 0 or float(self.t[row - 1]) <= self.start
            return self.is_spaced and is_first and bool(reached[row])
        if self.is_imported:
            # A log may begin in the course of a connection.
            return bool((reached & (self.delivered == 0)).any())
        row = int(np.argmax(reached))
        before = float(self.t[row - 1]) if row > 0 else self.start
        return before < self.start + 1.9 * self.least

    @cached_property
    def is_spaced(self) -> bool:
        """Whether packets passed the capture as a link spaces them: it is at the receiver."""
        if self.arrivals is None or len(self.arrivals[0]) < 2:
            return False
        span = float(self.arrivals[0][-1] - self.arrivals[0][0])
        mean = span / len(self.arrivals[0])
        return float(np.quantile(np.diff(self.arrivals[0]), 0.05)) > 0.2 * mean

    @property
    def transmitted(self) -> Series | None:
        """Packets sent; where they were not counted, those delivered and those lost."""
        if self.sent is not None:
            return self.sent
        return None if self.lost is None else self.delivered / self.packet + self.lost

    @cached_property
    def samples(self) -> Series:
        """The RTT minus the minimum where it was measured, and NaN elsewhere.

        The ACK of a single packet may have been delayed by the receiver, and shows nothing.
        """
        several = np.diff(self.delivered, prepend=0.0) > 1.5 * self.packet
        several &= np.isfinite(self.rtt)
        if several.mean() < 0.1:
            several = np.isfinite(self.rtt)
        return np.asarray(np.where(several, self.rtt - (self.least or np.nan), np.nan))

    @cached_property
    def waits(self) -> Series:
        """The latest RTT minus the minimum, at each time: not known an RTT after the last ACK."""
        known = np.isfinite(self.samples)
        latest = np.maximum.accumulate(np.where(known, np.arange(len(self.t)), -1))
        waits: Series = np.where(latest < 0, np.nan, self.samples[latest])
        moved = np.diff(self.delivered, prepend=0.0) > 0
        moving = np.maximum.accumulate(np.where(moved, self.t, -np.inf))
        lasting = np.maximum(waits + (self.least or 0.0), 0.1)
        return np.asarray(np.where(self.t - moving <= lasting, waits, np.nan))


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
        span = max(float(flow.t[-1]) for flow in self.flows) - first
        return np.asarray(first + self.step * np.arange(math.floor(span / self.step + 1e-6) + 1))

    @cached_property
    def least(self) -> float | None:
        """The minimum RTT of any flow."""
        return min((one.least for one in self.flows if one.least is not None), default=None)

    @property
    def is_least_of_handshake(self) -> bool:
        """Whether the flow with the minimum has it from its handshake."""
        return any(one.least == self.least and one.is_least_of_handshake for one in self.flows)

    @property
    def has_begin(self) -> bool:
        """Whether the record includes the handshake of the first flow: the path was empty."""
        first = min(self.flows, key=lambda flow: flow.start)
        has_handshake = first.handshake is not None or first.is_least_of_handshake
        return not first.is_imported or has_handshake

    @property
    def is_handshake_sure(self) -> bool:
        """Whether it is certain which packets have the minimum: a QUIC handshake fills packets."""
        least = [one for one in self.flows if one.least == self.least]
        return any(one.handshake is not None or not one.is_imported for one in least)

    @property
    def is_answered(self) -> bool:
        """Whether ACKs cover what passed just before them, as in a capture at the receiver."""
        return bool(self.flows) and all(one.is_answered for one in self.flows)

    @property
    def is_spaced(self) -> bool:
        """Whether it is a capture at the receiver."""
        return any(one.is_spaced for one in self.flows)

    @cached_property
    def packet(self) -> int:
        """Bytes of the largest packet on the wire."""
        return max(flow.packet for flow in self.flows)

    @cached_property
    def header(self) -> int:
        """Bytes of a packet without data."""
        return max(flow.header for flow in self.flows)

    @property
    def is_acknowledged(self) -> bool:
        """Whether deliveries are known in the course of time, and not in total only."""
        return all(flow.is_acknowledged for flow in self.flows)

    @cached_property
    def delivered(self) -> Series:
        """Wire bytes that all flows together have delivered, at each time of the grid."""
        return self._sum([flow.delivered for flow in self.flows])

    @cached_property
    def lost(self) -> Series | None:
        """Packets that all flows together have lost, at each time of the grid, if counted."""
        return self._counted([flow.lost for flow in self.flows])

    @cached_property
    def sent(self) -> Series | None:
        """Packets that all flows together have sent, at each time of the grid.

        Where the record does not count them they are those delivered and those lost: that leaves
        out those in flight.
        """
        return self._counted([flow.transmitted for flow in self.flows])

    @property
    def losses(self) -> int | None:
        """How many packets were lost."""
        return None if self.lost is None else round(float(self.lost[-1]))

    @property
    def lost_ratio(self) -> float | None:
        """The share of all transmissions that was lost."""
        if self.lost is None or self.sent is None or self.sent[-1] < 1:
            return None
        return float(self.lost[-1]) / float(self.sent[-1])

    @cached_property
    def waits(self) -> Series:
        """The latest RTT minus the minimum of the flow that waits longest, on the grid, or NaN."""
        return self._aligned([flow.waits for flow in self.flows], np.fmax)

    @cached_property
    def shared_waits(self) -> Series:
        """The same without waits for ACKs: in one queue flows wait nearly alike."""
        least = self.least_waits
        return np.asarray(np.where(self.waits > 1.3 * least + self.step, least, self.waits))

    @cached_property
    def least_waits(self) -> Series:
        """The latest RTT minus the minimum of the flow that waits for the shortest time."""
        latest = []
        for flow in self.flows:
            # Measured in this row or one of the two before.
            ends = np.concatenate([[np.nan] * 2, flow.samples])
            window = np.lib.stride_tricks.sliding_window_view(ends, 3)
            latest.append(np.fmax(window[:, 2], np.fmax(window[:, 1], window[:, 0])))
        return self._aligned(latest, np.fmin)

    def _aligned(self, series: Sequence[Series], join: np.ufunc) -> Series:
        joined = np.full(len(self.grid), np.nan)
        for flow, values in zip(self.flows, series, strict=True):
            at = np.searchsorted(flow.t, self.grid + 1e-9, side="right") - 1
            known = (at >= 0) & (self.grid <= flow.t[-1] + self.step)
            joined[known] = join(joined[known], values[at[known]])
        return joined

    @cached_property
    def has_waits(self) -> bool:
        """Whether any flow shows how long its packets waited."""
        return bool(self.flows) and bool(np.isfinite(self.waits).any())

    @cached_property
    def arrivals(self) -> tuple[Series, Series] | None:
        """When data of all flows passed a capture, and the wire bytes of each segment."""
        arrivals = [flow.arrivals for flow in self.flows if flow.arrivals is not None]
        if not arrivals or len(arrivals) < len(self.flows):
            return None
        times, sizes = (np.concatenate(parts) for parts in zip(*arrivals, strict=True))
        order = np.argsort(times, kind="stable")
        return times[order], sizes[order]

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """The displayed values, by names with units: of these flows only."""
        rtts = np.concatenate([flow.rtt[np.isfinite(flow.rtt)] for flow in self.flows]) * 1e9
        # As everywhere: payload in order, over the time in which a flow was active.
        span = max(flow.end for flow in self.flows) - min(flow.start for flow in self.flows)
        moved = sum(flow.goodput_bytes for flow in self.flows)
        shares = {f"rtt_p{n}_ns": n / 100 for n in (50, 95, 99)}
        quantiles = {
            k: float(np.quantile(rtts, s)) if len(rtts) else None for k, s in shares.items()
        }
        goodput = moved * 8 / max(span, 1e-9)
        return {"goodput_bps": goodput, **quantiles, "lost_ratio": self.lost_ratio}

    def _counted(self, counts: Sequence[Series | None]) -> Series | None:
        """Return the sum of counts; none if one of them is not known."""
        known = [count for count in counts if count is not None]
        return self._sum(known) if len(known) == len(counts) else None

    def _sum(self, counts: Sequence[Series]) -> Series:
        total = np.zeros(len(self.grid))
        for flow, count in zip(self.flows, counts, strict=True):
            total += np.interp(self.grid, flow.t, count, left=0.0)
        return total


def _times(column: pl.Series) -> Series:
    return column.cast(float).to_numpy() / 1e9


#: A flow that carried less than this share of all data is ignored.
LEAST_SHARE = 0.01


def of_use(run: Run) -> list[dict[str, Any]]:
    """Return the rows of the flows that carry information about the path."""
    rows = list(run.flows.iter_rows(named=True))
    total = sum(row["goodput_bytes"] for row in rows)
    return [row for row in rows if row["goodput_bytes"] > LEAST_SHARE * total]


def begin(run: Run) -> float:
    """Return when the first flow of a recording begins, in seconds: there a scenario begins."""
    starts = [row["start_ns"] for row in of_use(run)] if run.source is not None else []
    return min(starts, default=0) / 1e9


def observe(run: Run) -> Observed:
    """Extract the ends' view from a run."""
    flows: list[Flow] = []
    table = run.samples.sort("flow", "t_ns")
    packets = _packets(run)
    origin = begin(run)
    for row in of_use(run):
        data = table.filter(flow=row["flow"])
        captured = None if packets is None else packets.filter(flow=row["flow"])
        payload = int(row["mss_bytes"]) if captured is None else _segment(captured, row)
        if not 0 < payload <= _LARGEST:
            raise UnfitError(f"flow {row['flow']} has packets with {payload} bytes of payload")
        header = _header(payload)

        def column(name: str) -> Series:
            return np.asarray(data[name].cast(float).fill_null(strategy="forward").fill_null(0.0))  # noqa: B023

        t, rtt, least = (_times(data[name]) for name in ("t_ns", "rtt_ns", "min_rtt_ns"))
        if run.source is not None:
            for rtts in (rtt, least):
                rtts[rtts == 0] = np.nan  # Nothing was measured.
        if captured is not None and row["base_rtt_ns"]:
            # Below the minimum of all only the way to one end had been measured.
            for rtts in (rtt, least):
                rtts[rtts < row["base_rtt_ns"] / 1e9] = np.nan
        sent, lost = _counts(row, column)
        delivered, arrivals = column("delivered_bytes"), None
        if captured is not None:
            delivered = _spread(captured, t, covered(captured, t), row["base_rtt_ns"])
            times, sizes = _arrivals(captured, payload, header)
            arrivals = times - origin, sizes
            sent = _passed(captured, ("send", "retransmit"), payload, t)
            lost = _passed(captured, ("retransmit",), payload, t)
        # A row repeats the latest RTT: where nothing was acknowledged none was measured.
        rtt[np.diff(delivered, prepend=0.0) <= 0] = np.nan
        ended = row["finish_ns"] if row["stop_ns"] is None else row["stop_ns"]
        flows.append(
            Flow(
                start=row["start_ns"] / 1e9 - origin,
                payload=payload,
                header=header,
                t=t - origin,
                delivered=delivered * (payload + header) / payload,
                sent=sent,
                lost=lost,
                rtt=rtt,
                min_rtt=least,
                handshake=_handshake(run, row, least),
                arrivals=arrivals,
                is_imported=run.source is not None,
                is_acknowledged=run.backend != "iperf3",
                is_answered=captured is not None and _is_answered(captured, payload),
                goodput_bytes=row["goodput_bytes"],
                end=float(t[-1]) - origin if ended is None else ended / 1e9 - origin,
            )
        )
        if captured is not None and not flows[-1].is_spaced:
            flows[-1] = replace(flows[-1], pauses=_pauses(flows[-1], column("in_flight_bytes")))
        _check(row["flow"], flows[-1])
    observed = Observed(flows, max((float(flow.t[-1]) for flow in flows), default=0.0))
    _check_size(observed)
    return observed


#: The shortest pause of an application, in seconds and RTTs, and the number that a scenario takes.
PAUSE, _PAUSE_RTTS, _PAUSES = 0.3, 4, 200


def spans(flags: Any) -> Iterator[tuple[int, int]]:
    """Yield the first row of each span in which a flag is set, and the row after its last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    yield from zip((int(e) for e in edges[::2]), (int(e) for e in edges[1::2]), strict=True)


def _pauses(flow: Flow, in_flight: Series) -> list[tuple[float, float]]:
    """Return when nothing was in flight for long, although everything had arrived."""
    is_idle = (in_flight == 0) & (np.diff(flow.delivered, prepend=0.0) <= 0)
    shortest = max(PAUSE, _PAUSE_RTTS * (flow.least or 0.0))
    pauses = [
        (float(flow.t[first]), float(flow.t[last]))
        for first, last in spans(is_idle)
        if last < len(flow.t) and flow.delivered[first] > 0
    ]
    return [one for one in pauses if one[1] - one[0] > shortest][:_PAUSES]


def _spread(packets: pl.DataFrame, times: Series, delivered: Series, rtt_ns: int) -> Series:
    """Return deliveries without the jump where a capture lacks packets.

    What the first ACK after that covers, and no captured packet carried, arrived in that time.
    """
    table = packets.filter(pl.col("kind").is_in(["send", "ack"])).sort("t_ns")
    if table.is_empty():
        return delivered
    is_ack = (table["kind"] == "ack").to_numpy()
    t, first = _times(table["t_ns"]), table["seq_bytes"].cast(pl.Int64).to_numpy()
    size = np.where(is_ack, 0, table["len_bytes"].cast(pl.Int64).to_numpy())
    most = np.maximum.accumulate(first + size)
    delivered = delivered.copy()
    for last in map(int, np.flatnonzero(np.diff(t) > max(PAUSE, _PAUSE_RTTS * rtt_ns / 1e9))):
        after = last + 1 + int(np.argmax(is_ack[last + 1 :]))
        carried = most[last] + int(size[last + 1 : after].sum())
        if is_ack[after] and first[after] > carried + _SEGMENT:
            begin, end = np.searchsorted(times, [t[last], t[after]]).tolist()
            ends = [max(begin - 1, 0), min(end, len(times) - 1)]
            delivered[begin:end] = np.interp(times[begin:end], times[ends], delivered[ends])
    return delivered


def _segment(packets: pl.DataFrame, row: dict[str, Any]) -> int:
    """Return the payload of a full packet: a capture may have merged several into one."""
    largest = int(row["mss_bytes"])
    sizes = packets.filter(pl.col("len_bytes") > 0)["len_bytes"].cast(pl.Int64).to_numpy()
    several, counts = np.unique(sizes, return_counts=True)
    common = math.gcd(*(int(size) for size in several[counts > 0.01 * len(sizes)]))
    return min(common, largest) if common >= _SEGMENT else largest


def _header(payload: int) -> int:
    """Return the headers of a full packet: those that fill a usual packet, else TCP's."""
    return max({mtu - payload for mtu in _MTUS} & set(_HEADERS), default=HEADER)


def _handshake(run: Run, row: dict[str, Any], least: Series) -> float | None:
    """Return the handshake's RTT of a capture, which is in no sample.

    It is the minimum that the record gives, where no sample is as low. Another record's `base_rtt`
    is a setting of its path.
    """
    base, known = row["base_rtt_ns"] / 1e9, least[np.isfinite(least)]
    if run.backend != "pcap" or base == 0 or (len(known) and base >= float(np.min(known))):
        return None
    return float(base)


def _counts(
    row: dict[str, Any], column: Callable[[str], Series]
) -> tuple[Series | None, Series | None]:
    """Return the transmissions and the losses of a flow, as far as its record counts them.

    The samples have no nulls; the totals do. Retransmissions stand for losses that were
    not counted, and a flow cannot have lost more than it sent.
    """

    def counted(name: str) -> Series | None:
        return None if row.get(name) is None else column(name)

    sent, lost, again = (counted(f"{name}_packets") for name in ("sent", "lost", "retransmitted"))
    if again is not None and (lost is None or lost[-1] == 0):
        lost = again
    if sent is not None and (sent[-1] < 1 or (lost is not None and lost[-1] > sent[-1])):
        sent = None
    return sent, lost


def _packets(run: Run) -> pl.DataFrame | None:
    """Return the packets of a capture, whose samples count what was acknowledged in order only."""
    if run.backend != "pcap" or (packets := packets_of(run)) is None:
        return None
    return packets.with_columns(pl.col("kind").cast(pl.String))


def _arrivals(packets: pl.DataFrame, payload: int, header: int) -> tuple[Series, Series]:
    """Return when data passed the capture, and the wire bytes of each segment."""
    data = packets.filter(pl.col("kind").is_in(["send", "retransmit"]))
    size = data["len_bytes"].cast(float).to_numpy()
    return _times(data["t_ns"]), size + header * np.ceil(size / payload)


def _is_answered(packets: pl.DataFrame, payload: int) -> bool:
    """Return whether ACKs cover what passed just before them: the capture is the receiver's."""
    rows = packets.filter(pl.col("kind").is_in(["send", "retransmit", "ack"]))
    is_ack = (rows["kind"] == "ack").to_numpy()
    ends = (rows["seq_bytes"].cast(pl.Int64) + rows["len_bytes"].cast(pl.Int64)).to_numpy()
    in_flight = np.maximum.accumulate(np.where(is_ack, 0, ends)) - ends
    return bool(is_ack.any()) and float(np.median(in_flight[is_ack])) < payload


def _passed(packets: pl.DataFrame, kinds: Sequence[str], payload: int, times: Series) -> Series:
    """Return the packets of some kinds at each of some times: a segment may be several."""
    rows = packets.filter(pl.col("kind").is_in(kinds))
    count = np.cumsum(np.ceil(rows["len_bytes"].cast(float).to_numpy() / payload))
    at = np.searchsorted(_times(rows["t_ns"]), times, side="right")
    return np.concatenate([[0.0], count])[at]


def covered(packets: pl.DataFrame, times: Series) -> Series:
    """Return the bytes that ACKs, cumulative or selective, cover at each of some times."""
    acks = packets.filter(pl.col("kind").is_in(["ack", "sack"]))
    if acks.is_empty():
        return np.zeros(len(times))
    t = _times(acks["t_ns"])
    is_ack = (acks["kind"] == "ack").to_numpy()
    start = acks["seq_bytes"].cast(pl.Int64).to_numpy()
    total = np.maximum.accumulate(np.where(is_ack, start, 0))
    beyond = np.zeros(len(t))
    ranges: list[tuple[int, int]] = []
    # Most ACKs have no block, and then there is nothing to keep.
    ends = start + acks["len_bytes"].cast(pl.Int64).to_numpy()
    blocks = [*map(int, np.flatnonzero(~is_ack)), len(t)]
    for at, last in pairwise(blocks):
        low, high = int(start[at]), int(ends[at])
        before = int(total[at])
        joined = []
        for one in ranges:
            if one[1] < low or high < one[0]:
                if one[1] > before:
                    joined.append(one)
            else:
                low, high = min(low, one[0]), max(high, one[1])
        ranges = [*joined, (low, high)]
        beyond[at] = sum(end - max(begin, before) for begin, end in ranges if end > before)
        # The next ACKs move into the ranges.
        for later in range(at + 1, last):
            before = int(total[later])
            ranges = [one for one in ranges if one[1] > before]
            if not ranges:
                break
            beyond[later] = sum(end - max(begin, before) for begin, end in ranges)
    known = np.maximum.accumulate(total + beyond)
    latest = np.searchsorted(t, times, side="right") - 1
    return np.asarray(np.where(latest < 0, 0.0, known[np.maximum(latest, 0)]))


def _check(number: int, flow: Flow) -> None:
    """Raise `UnfitError` for samples that no flow can have."""
    if not (np.diff(flow.t) > 0).any():
        raise UnfitError(f"the samples of flow {number} have one time only")
    if flow.least is not None and flow.least <= 0:
        raise UnfitError(f"flow {number} has an RTT of zero")
    for name in ("delivered", "sent"):
        counts = getattr(flow, name)
        if counts is not None and (np.diff(counts) < 0).any():
            raise UnfitError(f"the counter of what flow {number} has {name} goes back")


#: Arrays along the grid that are in memory at once, in addition to one for each flow.
_ARRAYS = 24


def _check_size(observed: Observed) -> None:
    """Raise `MemoryLimitError` if the common times of all flows are too many."""
    if not observed.flows:
        return
    span = observed.duration - min(float(flow.t[0]) for flow in observed.flows)
    size, most = 8 * (len(observed.flows) + _ARRAYS) * span / observed.step, memory.limit()
    if size > most:
        steps = f"{quantity('_ns', span * 1e9)} in steps of {quantity('_ns', observed.step * 1e9)}"
        what = f"samples of {steps} take {quantity('_bytes', size)} of memory"
        what += f"; at most {quantity('_bytes', most)} may be used"
        raise MemoryLimitError([what, "raise --memory"])
