"""Where a run departs from a reference, in words: by BBR's states, or by its packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median

from paceline.later import numpy as np
from paceline.later import polars as pl
from paceline.quantities import quantity
from paceline.runs import Run
from paceline.study.conformance.draft import NO_STATES, has_states, names_of, visits_of

_CRUISE, _PROBE_RTT = "ProbeBW_CRUISE", "ProbeRTT"
#: The draft draws the wait for the next probe from 2 to 3 s (draft-ietf-ccwg-bbr-06 5.3.3.8), so a
#: Cruise may end up to a second sooner or later.
_WAIT_NS, _DRAWN_NS = 2_000_000_000, 1_000_000_000

#: The part of the reference's rate that counts as reached, and as a difference: headers, which some
#: count, are up to 4 %.
_REACHED, _DIFFERENT = 0.9, 0.05
#: The part of its own rate by which one falls within a state: more than BBR's pacing margin, 1 %.
_FALLING = 0.02
#: The part of the base RTT by which a queue differs.
_QUEUE = 0.25
#: The part of the packets by which losses differ: the draft's LossThresh.
_LOSS = 0.02
#: The number of rounds that a state must last for its packets to be compared, and of those at its
#: start that are left out.
_LONG, _SETTLING = 6, 2


@dataclass(frozen=True)
class Stay:
    """The stay of a flow in a state."""

    state: str
    enter_ns: int
    #: None for the last.
    lasts_ns: int | None


@dataclass(frozen=True)
class Round:
    """A base round trip of a flow."""

    #: Its beginning, from the first RTT sample.
    begin_ns: int
    delivery_bps: float
    #: The median RTT in it; none if there was no sample.
    rtt_ns: float | None
    #: Packets sent and declared lost; none if the record does not have them.
    sent: float | None = None
    lost: float | None = None


def stays(run: Run) -> list[Stay]:
    """Return the stays of the first flow, by the draft's names of the states."""
    rows = visits_of(run, names_of(run)).iter_rows(named=True)
    return [
        Stay(
            row["phase"],
            row["enter_ns"],
            None if row["leave_ns"] is None else row["leave_ns"] - row["enter_ns"],
        )
        for row in rows
    ]


def rounds(run: Run, rtt_ns: int) -> tuple[int, list[Round]]:
    """Return the time of the first flow's first RTT sample, and its rounds of this length.

    A stack may report no RTT samples: then the rounds begin at its first delivery.
    """
    counted = (pl.col("flow") == 0) & pl.col("delivered_bytes").is_not_null()
    samples = run.samples.filter(counted).sort("t_ns", maintain_order=True)
    known = samples.filter(pl.col("rtt_ns").is_not_null())
    first = samples.filter(pl.col("delivered_bytes") > 0) if known.is_empty() else known
    if first.is_empty():
        return 0, []
    start, end = int(first["t_ns"][0]), int(samples["t_ns"][-1])
    edges = np.arange(start, end + 1, rtt_ns)
    times = samples["t_ns"].to_numpy()
    grown = [
        [None] * (len(edges) - 1)
        if samples[column].null_count() == samples.height
        else np.diff(np.interp(edges, times, samples[column].fill_null(0).to_numpy())).tolist()
        for column in ("delivered_bytes", "sent_packets", "lost_packets")
    ]
    medians = dict(
        known.group_by((pl.col("t_ns") - start).floordiv(rtt_ns).alias("round"))
        .agg(pl.col("rtt_ns").cast(pl.Float64).median())
        .iter_rows()
    )
    return start, [
        Round(nth * rtt_ns, count * 8e9 / rtt_ns, medians.get(nth), sent, lost)
        for nth, (count, sent, lost) in enumerate(zip(*grown, strict=True))
    ]


def departure(reference: Run, other: Run) -> str:
    """Describe where the first flow of a run departs from that of a reference."""
    if difference := states_departure(reference, other):
        return difference
    return f"{NO_STATES}; by its packets, {packets_departure(reference, other)}"


def states_departure(reference: Run, other: Run) -> str | None:
    """Describe where a run's states depart; none if its record has no states of BBR."""
    if not has_states(other, names_of(other)):
        return None
    return by_states(stays(reference), stays(other), _rtt(reference))


def packets_departure(reference: Run, other: Run) -> str:
    """Describe where a run departs by its packets."""
    rtt = _rtt(reference)
    theirs = rounds(other, rtt)
    differences = by_packets(stays(reference), rounds(reference, rtt), theirs, rtt)
    compared = ["rate"]
    compared += ["queue"] if any(one.rtt_ns for one in theirs[1]) else []
    compared += ["loss"] if _lost(theirs[1]) is not None else []
    same = " and ".join(filter(None, [", ".join(compared[:-1]), compared[-1]]))
    are = "are those" if len(compared) > 1 else "is that"
    return "; ".join(differences) or f"{same} {are} of the reference"


def _rtt(reference: Run) -> int:
    return int(reference.flows["base_rtt_ns"][0])


def by_states(reference: Sequence[Stay], other: Sequence[Stay], rtt_ns: int) -> str:
    """Describe where states first depart from those of a reference with this base RTT."""
    both = list(zip(reference, other, strict=False))
    for number, (one, two) in enumerate(both, 1):
        if one.state != two.state:
            text = (
                f"state {number} is {two.state} at {_time(two.enter_ns)}; the reference enters "
                f"{one.state} at {_time(one.enter_ns)}"
            )
            if _drawn(reference, other, number - 1):
                return f"{text}, as the drawn end of a Cruise may have it; until then they agree"
            return text
        if one.lasts_ns is None or two.lasts_ns is None:
            continue
        longer = two.lasts_ns - one.lasts_ns
        if abs(longer) > rtt_ns + (_DRAWN_NS if one.state == _CRUISE else 0):
            return (
                f"leaves {one.state}, state {number}, {_in_rounds(longer, rtt_ns)}: after "
                f"{_time(two.lasts_ns)}, the reference after {_time(one.lasts_ns)}"
            )
    return f"the first {len(both)} states are the same, each within one RTT"


def _drawn(reference: Sequence[Stay], other: Sequence[Stay], at: int) -> bool:
    """Return whether states may differ because one Cruise ended before ProbeRTT was due."""
    states = {reference[at].state, other[at].state}
    if _PROBE_RTT not in states or all(stay.state != _CRUISE for stay in reference[:at]):
        return False
    sides = (other, reference) if other[at].state == _PROBE_RTT else (reference, other)
    probing, cruising = sides
    return any(
        stay.state == _PROBE_RTT and abs(stay.enter_ns - probing[at].enter_ns) <= _DRAWN_NS
        for stay in cruising
    )


#: The time of the first RTT sample, and the rounds since.
_Rounds = tuple[int, list[Round]]


def by_packets(stays: Sequence[Stay], ours: _Rounds, theirs: _Rounds, rtt_ns: int) -> list[str]:
    """Describe differences: until the rate is reached, and in a steady state."""
    (start, reference), (_, other) = ours, theirs
    state, begin, end = _steady(stays, start, reference, rtt_ns)
    steady = _within(reference, begin, end)
    if len(steady) < _LONG or len(other) < _LONG:
        return ["there are too few rounds to compare"]
    rate = mean(one.delivery_bps for one in steady)
    most = f"{100 * _REACHED:.0f} % of the reference's {_rate(rate)}"
    own, their = (_reaching(rows, _REACHED * rate) for rows in (reference, other))
    if their is None:
        return [f"it never delivers {most}"]
    late = 0 if own is None else their - own
    differences = []
    if abs(late) > rtt_ns:
        differences.append(
            f"it delivers {most} {_in_rounds(late, rtt_ns)}: {_time(their)} after its first RTT "
            f"sample, the reference after {_time(own)}"
        )
    there = _within(other, begin + max(late, 0), end)
    when = f"{_time(start + begin)} to {_time(start + end)}"
    if len(there) < _LONG:
        differences.append(
            f"there are too few rounds in the reference's {state}, {when}, to compare"
        )
    elif parts := _steadily(steady, there, rtt_ns):
        differences.append(f"in the reference's {state}, {when}, {' and '.join(parts)}")
    return differences


def _steadily(steady: Sequence[Round], there: Sequence[Round], rtt_ns: int) -> list[str]:
    """Describe differences between the rounds of two runs in the same state."""
    differences = []
    ours, theirs = (mean(one.delivery_bps for one in rows) for rows in (steady, there))
    (_, _, own), (first, last, fall) = _fall(steady), _fall(there)
    if fall > own + _FALLING:
        differences.append(
            f"its rate decays from {_rate(first)} to {_rate(last)}; the reference keeps "
            f"{_rate(ours)}"
        )
    elif abs(theirs - ours) > _DIFFERENT * ours:
        differences.append(f"it delivers {_rate(theirs)}, the reference {_rate(ours)}")
    queues = [
        [one.rtt_ns - rtt_ns for one in rows if one.rtt_ns is not None] for rows in (steady, there)
    ]
    if all(queues):
        own, their = (max(median(rows), 0.0) for rows in queues)
        if abs(their - own) > _QUEUE * rtt_ns:
            differences.append(
                f"its RTT is {_time(their)} above the base RTT, the reference's {_time(own)}"
            )
    lost, theirs_lost = (_lost(rows) for rows in (steady, there))
    if lost is not None and theirs_lost is not None and abs(theirs_lost - lost) > _LOSS:
        differences.append(
            f"it loses {100 * theirs_lost:.1f} % of its packets, the reference {100 * lost:.1f} %"
        )
    return differences


def _lost(rows: Sequence[Round]) -> float | None:
    """Return the part of the packets that was lost; none if it is not known."""
    sent = [one.sent for one in rows if one.sent is not None]
    lost = [one.lost for one in rows if one.lost is not None]
    return sum(lost) / sum(sent) if lost and sum(sent) > 0 else None


def _fall(rows: Sequence[Round]) -> tuple[float, float, float]:
    """Return the median rate of the first third and of the last, and by what part it falls."""
    third = len(rows) // 3
    first, last = (median(r.delivery_bps for r in part) for part in (rows[:third], rows[-third:]))
    return first, last, 1 - last / first if first else 0.0


def _steady(
    stays: Sequence[Stay], start: int, rows: Sequence[Round], rtt_ns: int
) -> tuple[str, int, int]:
    """Return a long state of the reference, and when its rounds begin and end.

    Its first Cruise, as far as no draw ends it sooner in another run; or else the longest state.
    """
    last = start + rows[-1].begin_ns + rtt_ns if rows else start
    ends = [last if s.lasts_ns is None else s.enter_ns + s.lasts_ns for s in stays]
    long = [
        (stay, end)
        for stay, end in zip(stays, ends, strict=True)
        if end - stay.enter_ns >= (_SETTLING + _LONG) * rtt_ns
    ]
    cruise = next(((s, end) for s, end in long if s.state == _CRUISE), None)
    stay, end = cruise or max(long, key=lambda one: one[1] - one[0].enter_ns, default=(None, 0))
    if stay is None:
        return "", 0, 0
    if cruise is not None:
        end = min(end - rtt_ns, stay.enter_ns + _WAIT_NS)
    return stay.state, stay.enter_ns + _SETTLING * rtt_ns - start, end - start


def _within(rows: Sequence[Round], begin: int, end: int) -> list[Round]:
    return [one for one in rows if one.begin_ns >= begin and one.begin_ns < end]


def _reaching(rows: Sequence[Round], rate: float) -> int | None:
    """Return when a rate is reached: in two rounds, as a first flight alone does not count."""
    return next((one.begin_ns for one, two in pairwise(rows) if _slower(one, two) >= rate), None)


def _slower(one: Round, two: Round) -> float:
    return min(one.delivery_bps, two.delivery_bps)


def _in_rounds(longer_ns: int, rtt_ns: int) -> str:
    return f"{abs(longer_ns) / rtt_ns:.1f} RTTs {'later' if longer_ns > 0 else 'sooner'}"


def _rate(bps: float) -> str:
    return quantity("_bps", bps)


def _time(ns: float | None) -> str:
    return quantity("_ns", ns)
