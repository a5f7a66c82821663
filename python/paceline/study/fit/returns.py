"""What ACKs show of the return path and of the receiver: when they arrive, and what they cover."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paceline.later import numpy as np
from paceline.later import polars as pl
from paceline.runs import Run, packets_of
from paceline.study.fit.estimates import Back, Estimate, Path
from paceline.study.fit.observed import Observed, Series, of_use

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: So many ACKs, and such a share of all, are needed.
_FEWEST, _SHARE = 200, 0.2
#: How far an even gap is from the minimum, which is a quantile.
_LEAST, _BELOW, _ABOVE = 0.05, 0.95, 1.1
#: Such a share of these ACKs covers so many times more data than the least of them.
_OTHERS, _MORE = 0.1, 1.5
#: Shorter gaps may be those of a receiver's network card.
_SHORTEST = 0.3e-3
#: Gaps in whole numbers of this are those of a clock or of slots.
_TICK, _NEAR = 1e-3, 0.02
#: The queue of a return path that drops ACKs is full nearly always, but not at first.
_FULL, _BEGIN = 0.02, 0.2
#: Of at least so many ACKs, a receiver that acknowledges pairs sends at most such a share for an
#: odd number of segments, which is one at least so far from an even one, in pairs.
_PAIRS, _ODD, _PART = 50, 0.002, 0.2
#: The first segments, which may be acknowledged one by one, and in seconds a gap in which a delayed
#: ACK may have become due.
_QUICK, _PAUSE = 60, 0.03


def paths(observed: Observed, path: Path, interval: float) -> list[Path]:
    """Return paths with a slow return path, and the rates that the forward path may have.

    Where the return path sets the pace of the ACKs, data that they cover may seem to leave the link
    more slowly than it does: so its fastest rate may be its rate at all times.
    """
    waits = observed.waits[round(_BEGIN * len(observed.waits)) :]
    waits = waits[np.isfinite(waits)]
    wait = float(np.quantile(waits, _FULL)) if len(waits) else interval
    back = Back(interval, wait, observed.header)
    # The base RTT has the transmission of an ACK in it.
    rtt = path.rtt
    value, low, high = (
        None if one is None else max(one - interval, 0.0) for one in (rtt.value, rtt.low, rtt.high)
    )
    path = replace(path, back=back, rtt=Estimate(value, low, high, rtt.why))
    found = [path]
    if len(path.stretches) > 1:
        begin, end = path.stretches[0].begin, path.stretches[-1].end
        fastest = max(path.stretches, key=lambda one: one.guess)
        found.append(replace(path, stretches=[replace(fastest, begin=begin, end=end)]))
    return found


def acknowledges_pairs(run: Run, observed: Observed) -> bool:
    """Return whether the receivers acknowledge each second segment, as RFC 9293 says.

    Linux also acknowledges segments with PSH, and those that let the receive window grow.
    """
    packets = packets_of(run)
    if packets is None:
        return False
    for row, flow in zip(of_use(run), observed.flows, strict=True):
        acks = _acks(packets, row["flow"])
        segments = np.diff(acks.seq) / flow.payload
        # Segments at the start, around a gap and before a pause are acknowledged one by one.
        plain = (segments > 0) & (np.diff(acks.t) < _PAUSE) & ~acks.sacks[1:] & ~acks.sacks[:-1]
        pairs = segments[plain & (acks.seq[1:] > _QUICK * flow.payload)] / 2
        if len(pairs) < _PAIRS or np.mean(np.abs(pairs - np.round(pairs)) > _PART) > _ODD:
            return False
    return True


@dataclass(frozen=True)
class _Acks:
    #: When they arrive in seconds, what they acknowledge, and whether they have SACK blocks.
    t: Series
    seq: Series
    sacks: NDArray[np.bool_]


def _acks(packets: pl.DataFrame, flow: int) -> _Acks:
    rows = packets.filter(flow=flow).with_columns(pl.col("kind").cast(pl.String))
    # An ACK with SACK blocks has several rows.
    acks = (
        rows.filter(pl.col("kind").is_in(["ack", "sack"]))
        .group_by("t_ns")
        .agg(
            pl.col("seq_bytes").filter(pl.col("kind") == "ack").max().cast(pl.Int64),
            (pl.col("kind") == "sack").any().alias("sacks"),
        )
        .sort("t_ns")
    )
    seq = acks["seq_bytes"].cast(float).fill_null(strategy="forward").to_numpy()
    return _Acks(acks["t_ns"].cast(float).to_numpy() / 1e9, seq, acks["sacks"].to_numpy())


def ack_interval(run: Run) -> float | None:
    """Return the time that a slow return path needs for an ACK; none if ACKs do not show one.

    A slow link delivers ACKs evenly. If it also drops ACKs, those that arrive cover more data than
    others at the same distance. Behind a bottleneck of the data, an ACK that covers more data comes
    later. Data of several flows is mixed there, so only a flow that is alone shows this.
    """
    flows, packets = of_use(run), packets_of(run)
    if packets is None or len(flows) != 1:
        return None
    acks = _acks(packets, flows[0]["flow"])
    gaps = np.diff(acks.t)
    if len(gaps) < _FEWEST:
        return None
    least = float(np.quantile(gaps, _LEAST))
    covered = np.diff(acks.seq)
    even = (gaps > _BELOW * least) & (gaps < _ABOVE * least)
    plain = even & ~acks.sacks[1:] & (covered > 0)
    if plain.sum() < max(_FEWEST, _SHARE * len(gaps)):
        return None
    gap, data = float(np.median(gaps[even])), covered[plain]
    is_tick = abs(gap / _TICK - round(gap / _TICK)) < _NEAR
    varies = float(np.mean(data > _MORE * np.quantile(data, _LEAST))) > _OTHERS
    return gap if gap > _SHORTEST and not is_tick and varies else None
