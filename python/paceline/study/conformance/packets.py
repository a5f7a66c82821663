"""Whether a flow does what an algorithm says, from its packets: by the algorithms' shadows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from paceline import _paceline
from paceline.errors import UnjudgeableError
from paceline.later import polars as pl
from paceline.study.conformance.draft import plain

if TYPE_CHECKING:
    from paceline.runs import Run

Verdict = Literal["fits", "broken", "cannot be told"]

#: The algorithms that have a shadow, and what each is; of two that fit alike the first is named.
SHADOWS = {
    "bbr3": "BBRv3 as the draft says",
    "bbr3-linux": "BBRv3 of Linux",
    "bbr2": "BBRv2 of Linux",
    "bbr1": "BBRv1 of Linux",
    "cubic": "CUBIC as RFC 9438 says",
    "cubic-linux": "CUBIC of Linux",
    "reno": "Reno as RFC 5681 says",
    "reno-linux": "Reno of Linux",
}
#: What a broken check may come from: an option, as `bbr3` calls it, with its values; without, what
#: was measured.
_CAUSES: dict[str, tuple[tuple[str, tuple[float, ...] | None], ...]] = {
    "startup.pacing": (("startup_pacing_gain", None), ("full_bw_rounds", (1, 2, 4, 5))),
    "startup.window": (("startup_cwnd_gain", (2.25, 2.5, 2.77, 2.885, 3)),),
    "startup.use": (("startup_pacing_gain", (2, 2.25, 2.5)), ("startup_cwnd_gain", (1.5, 1.75))),
    "drain.pacing": (("drain_pacing_gain", None),),
    "drain": (("full_bw_rounds", (4, 5, 6)), ("max_drain_rounds", (5, 10, 100))),
    "drain.least": (("cwnd_gain", (1.25, 1.5, 1.75)),),
    "down.pacing": (("probe_down_pacing_gain", None), ("pacing_margin", (0, 0.02, 0.03, 0.05))),
    "cruise.pacing": (("probe_cruise_pacing_gain", None), ("pacing_margin", (0, 0.02, 0.03, 0.05))),
    "refill.pacing": (("probe_refill_pacing_gain", None),),
    "up.pacing": (("probe_up_pacing_gain", None),),
    "cruise.least": (("headroom", (0.2, 0.3, 0.5)),),
    "cruise.most": (("headroom", (0, 0.05)),),
    "up.window": (("probe_up_cwnd_gain", (2.5, 2.75, 3)),),
    "up.least": (("full_bw_rounds", (1, 2)), ("probe_up_cwnd_gain", (1.5, 2))),
    "probe_rtt.window": (
        ("probe_rtt_cwnd_gain", (0.75, 1)),
        ("probe_rtt_interval", (7.5, 10, 20, 30)),
        ("probe_rtt_duration", (0.05, 0.1, 0.15)),
    ),
    "probe_rtt.depth": (("probe_rtt_cwnd_gain", (0, 0.25)),),
    "probe_rtt.interval": (("probe_rtt_interval", (1, 2, 2.5, 3, 4)),),
    "probe_rtt.duration": (("probe_rtt_duration", (0.05, 0.1, 0.3, 0.4, 0.5, 1)),),
}
#: What Linux calls these options: its versions 2 and 3, and its first.
_LINUX = {
    "drain_pacing_gain": "drain_gain",
    "probe_down_pacing_gain": "probe_down_gain",
    "probe_up_pacing_gain": "probe_up_gain",
    "full_bw_rounds": "full_bw_cnt",
    "headroom": "inflight_headroom",
    "probe_rtt_interval": "probe_rtt_win",
    "probe_rtt_duration": "probe_rtt_mode",
}
_FIRST = {
    **_LINUX,
    "startup_pacing_gain": "high_gain",
    "startup_cwnd_gain": "high_gain",
    "probe_rtt_interval": "min_rtt_win",
}
#: The shadows whose options are tried, and their names of them.
_OPTIONS: dict[str, dict[str, str]] = {
    "bbr3": {},
    "bbr3-linux": _LINUX,
    "bbr2": _LINUX,
    "bbr1": _FIRST,
}
#: Rows of ``packets`` that a sender sees of its own flow, and what reaches the receiver.
_SENT, _ACK, _RANGE, _DELIVERED = range(4)
_KINDS = {"send": _SENT, "retransmit": _SENT, "ack": _ACK, "sack": _RANGE, "deliver": _DELIVERED}
#: A flow is something else if it does less than this share of the time what a shadow allows.
NEAR = 0.3
#: The least share of time in which a flow that fits does what its shadow allows.
_LIKE = 0.5
#: Memory is bounded: ten minutes at 200 Mbit/s.
_MOST = 10_000_000
_PART = "the flow began before the recording: record it from its handshake on"
#: A recording with fewer packets shows no cycle of any BBR.
_LEAST = 200


@dataclass(frozen=True)
class Judged:
    """The verdict of one algorithm's shadow on a flow."""

    name: str
    #: The share of time in which the flow did what the algorithm allows.
    likeness: float
    #: Each check: its id, section, requirement, measure with bounds and unit, and verdict.
    checks: list[dict[str, Any]]
    packets: _paceline.Packets
    #: An option of the shadow at another value, if there is one.
    option: tuple[str, float] | None = None

    @classmethod
    def by(
        cls,
        name: str,
        packets: _paceline.Packets,
        option: tuple[str, float] | None = None,
        thorough: bool = False,
    ) -> Judged:
        """Judge packets by a shadow; `ValueError` if it has no such option at that value.

        If it is not `thorough`, checks are broken that hang on when losses were marked,
        or on a millisecond between the sender and where it was recorded.
        """
        likeness, checks = packets.judge(name, option, thorough)
        return cls(name, likeness, checks, packets, option)

    def settled(self) -> Judged:
        """Judge it thoroughly, if that may change what is broken.

        A flow that is not near is something else, whenever its losses were marked.
        """
        if self.likeness < NEAR or not self.having("broken"):
            return self
        return Judged.by(self.name, self.packets, self.option, thorough=True)

    def of_a_part(self) -> Judged:
        """Return what can be judged if the flow began before its recording, and so its shadow late.

        A flow that is rarely alike is something else all the same.
        """
        if self.likeness < NEAR:
            return self
        untold = {"verdict": "cannot be told", "why": _PART, "t_ns": None}
        checks = [{**one, **untold} if one["verdict"] == "broken" else one for one in self.checks]
        return replace(self, checks=checks)

    @cached_property
    def moments(self) -> pl.DataFrame:
        """What the shadow allowed after each ACK, and what the flow did."""
        return pl.DataFrame(self.packets.moments(self.name))

    def having(self, verdict: str) -> list[dict[str, Any]]:
        """Return the checks with this verdict."""
        return [check for check in self.checks if check["verdict"] == verdict]

    @property
    def verdict(self) -> Verdict:
        """Whether the flow is what the shadow is of."""
        if self.having("broken"):
            return "broken"
        # A shadow that stays in Startup, say, breaks nothing beside a flow with little to send.
        is_like = self.checks[-1]["verdict"] == "held" and self.likeness >= _LIKE
        return "fits" if is_like and not self.is_short else "cannot be told"

    @property
    def is_short(self) -> bool:
        """Whether the recording shows only how the flow starts, as other algorithms do."""
        states = {check["id"].partition(".")[0] for check in self.having("held")}
        return states <= {"startup", "drain", "slow_start", "all"}

    @property
    def is_other(self) -> bool:
        """Whether the flow is something else: it is rarely alike, or breaks most of its checks."""
        is_broken = len(self.having("broken")) > len(self.having("held"))
        return self.likeness < NEAR or is_broken

    @property
    def departure(self) -> dict[str, Any] | None:
        """What the shadow allowed when the flow first departed, for longer if it did, and did.

        Its own pace, `own_bps`, is that of the round trip which begins then.
        """
        times = [check["t_ns"] for check in self.having("broken") if check["t_ns"] is not None]
        if not times:
            return None
        since = self.checks[-1]["t_ns"] or min(times)
        later = self.moments.filter(pl.col("t_ns") >= since)
        # It may depart after the last ACK.
        there = (self.moments.tail(1) if later.is_empty() else later).row(0, named=True)
        round_trip = self.packets.min_rtt_ns or 0
        within = later.filter(pl.col("t_ns") <= there["t_ns"] + round_trip)
        last = within.row(-1, named=True) if within.height > 1 else there
        span = last["t_ns"] - there["t_ns"]
        sent = last["sent_bytes"] - there["sent_bytes"]
        return {**there, "own_bps": 8e9 * sent / span if span else None}


def judge(run: Run, flow: int, names: Iterable[str] = SHADOWS, later_ns: int = 0) -> list[Judged]:
    """Judge a flow by the shadows of these algorithms, the one that fits best first.

    Its ACKs are taken to have arrived so much later than they did.
    """
    packets = _packets(run, flow)
    if later_ns:
        packets = packets.shifted(later_ns)
    # Each takes about as much memory as the packets.
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(lambda name: Judged.by(name, packets), names))
        if not any(one.verdict == "fits" for one in judged):
            judged = list(pool.map(Judged.settled, judged))
    if _begins_before(run, flow, (packets.min_rtt_ns or later_ns) - later_ns):
        judged = [one.of_a_part() for one in judged]
    return ordered(judged)


def _begins_before(run: Run, flow: int, round_trip: int) -> bool:
    """Return whether ACKs arrive sooner than the first packet's could: of data sent before it."""
    kind = pl.col("kind").cast(pl.String)
    rows = run.packets.lazy().filter(pl.col("flow") == flow)
    sent = rows.filter(kind.is_in(["send", "retransmit"]))
    first = sent.select(pl.col("t_ns").min()).collect().item()
    soon = pl.col("t_ns").is_between(first, first + round_trip * 9 // 10, closed="none")
    acks = rows.filter(kind.is_in(["ack", "sack"]), soon).select("seq_bytes").collect()
    # A request's packets repeat one acknowledgment.
    return acks["seq_bytes"].n_unique() > 1


def ordered(judged: Iterable[Judged]) -> list[Judged]:
    """Return the nearest first: one under which a check is broken after one under which none is."""
    return sorted(judged, key=lambda one: (one.verdict != "fits", not is_near(one), -one.likeness))


def is_near(one: Judged) -> bool:
    """Return whether a flow may be what a shadow is of: no check is broken, and it is like it."""
    return one.likeness >= 1 - NEAR and one.verdict != "broken"


def alike(judged: Sequence[Judged]) -> list[str]:
    """Return the algorithms that a flow may have: those that fit, or else those that are near.

    One that a check has broken is none of them.
    """
    fits = [one.name for one in judged if one.verdict == "fits"]
    return fits or [one.name for one in judged if is_near(one)]


def reported(run: Run, flow: int) -> pl.DataFrame:
    """Return the states that a flow's sender reported: `t_ns` and `phase`, if it did."""
    own = run.samples.filter(pl.col("flow") == flow)
    own = own.select("t_ns", pl.col("phase").cast(pl.String)).drop_nulls().sort("t_ns")
    return own.filter(pl.col("phase") != "")


def agreement(run: Run, flow: int, judged: Judged) -> float | None:
    """Return the share of reported states that the shadow was in; `None` if none is one of its."""
    own = reported(run, flow).rename({"phase": "own"})
    both = own.join_asof(judged.moments.select("t_ns", "phase"), on="t_ns").drop_nulls()
    words = {word: plain(word) for name in ("own", "phase") for word in both[name].unique()}
    both = both.with_columns(pl.col("own", "phase").replace(words))
    if not both["own"].is_in(both["phase"].unique().to_list()).any():
        return None
    return both.filter(pl.col("own") == pl.col("phase")).height / both.height


def causes(broken: Sequence[Judged]) -> list[tuple[str, float]]:
    """Return options of a BBR at values with which it no longer departs from any of these flows.

    The first flow says which are tried. One that the shadow does not have is none.
    """
    names = {one.name for one in broken}
    if len(names) != 1 or not names <= _OPTIONS.keys():
        return []
    if any(one.likeness < NEAR for one in broken):
        return []
    (shadow,) = names
    own = _OPTIONS[shadow]
    tried: dict[tuple[str, float], None] = {}
    for check in broken[0].having("broken"):
        for name, values in _CAUSES.get(check["id"], ()):
            for value in values or (round(check["measured"], 3),):
                tried[own.get(name, name), value] = None
    causes: list[tuple[float, tuple[str, float]]] = []
    for option in tried:
        likeness = 0.0
        for judged in broken:
            try:
                one = Judged.by(shadow, judged.packets, option)
            except ValueError:
                # Out of the option's bounds, or no option of this shadow.
                break
            if one.likeness < judged.likeness or one.settled().verdict != "fits":
                break
            likeness += one.likeness
        else:
            causes.append((likeness, option))
    return [option for _, option in sorted(causes, reverse=True)]


def _packets(run: Run, flow: int) -> _paceline.Packets:
    table = run.packets
    if table.is_empty():
        message = "no packets are recorded"
        hint = "a run needs `record.packets = true` in [run]; a capture, the sender's own packets"
        raise UnjudgeableError((message, hint))
    kind = pl.col("kind").cast(pl.String)
    kind = kind.replace_strict(_KINDS, default=None, return_dtype=pl.UInt8)
    rows = (
        table.lazy()
        .filter(pl.col("flow") == flow)
        .select("t_ns", kind, "seq_bytes", "len_bytes")
        .filter(
            pl.col("kind").is_not_null(),
            # A damaged file's negative places and times are not of this flow.
            *(pl.col(name) >= 0 for name in ("t_ns", "seq_bytes", "len_bytes")),
        )
        .collect()
    )
    sent = rows.filter(pl.col("kind") == _SENT)
    if sent.height < _LEAST:
        message = f"flow {flow} sent {sent.height} packets, and these show no algorithm"
        raise UnjudgeableError((message, "record a bulk transfer of 20 s or longer"))
    described = run.flows.filter(pl.col("flow") == flow)
    usual: Any = sent["len_bytes"].mode().max()
    mss = int(described["mss_bytes"][0] or usual or 1)
    if (count := (sent["len_bytes"] // mss + 1).sum()) > _MOST:
        message = f"flow {flow} sent {count:,} segments, more than the {_MOST:,} that are followed"
        raise UnjudgeableError((message, "cut the recording, for example with `editcap -A -B`"))
    if not rows["kind"].is_in([_ACK, _RANGE]).any():
        rows = _with_acks(run, flow, rows, sent)
    rows = rows.filter(pl.col("kind") != _DELIVERED)
    # Captures may step back in time.
    if not rows["t_ns"].is_sorted():
        rows = rows.sort("t_ns", maintain_order=True)
    at, seq, length = (
        rows[name].cast(pl.UInt64).to_numpy(writable=True)
        for name in ("t_ns", "seq_bytes", "len_bytes")
    )
    kinds = rows["kind"].to_numpy(writable=True)
    packets = _paceline.Packets(at, kinds, seq, length, mss, _handshake(run, flow, described))
    least, base = packets.min_rtt_ns, described["base_rtt_ns"][0]
    if least is None:
        message = f"flow {flow} has no round trip of data that was sent once"
        raise UnjudgeableError((message, "record a transfer that loses less than all of its data"))
    if run.source is not None and (not base or 2 * least < base):
        message = f"flow {flow} was not recorded at its sender: its ACKs follow data too soon"
        hint = "record at the sender; a capture cut to headers is enough (`tcpdump -s 128`)"
        raise UnjudgeableError((message, hint))
    return packets


def _with_acks(run: Run, flow: int, rows: pl.DataFrame, sent: pl.DataFrame) -> pl.DataFrame:
    """Return the packets of a QUIC flow whose ACKs are encrypted, recorded at both ends.

    A packet counts as acknowledged when its ACK can be back. Packets are numbered, not placed in a
    stream: each gets a place of its own.
    """
    delivered = rows.filter(pl.col("kind") == _DELIVERED)
    rtt = run.flows.filter(pl.col("flow") == flow)["base_rtt_ns"][0]
    if delivered.is_empty() or not rtt:
        message = "the recording has no acknowledgments of this flow"
        hint = "record at the sender: a capture of TCP, or a qlog with the packets' ACK frames"
        raise UnjudgeableError((message, hint))
    ends = sent["len_bytes"].cum_sum()
    places = sent.select(number="seq_bytes", place=ends - sent["len_bytes"])
    places = places.unique("number", keep="first", maintain_order=True)
    kind = pl.lit(_RANGE, dtype=pl.UInt8)
    acknowledged = delivered.with_columns(pl.col("t_ns") + rtt // 2, kind=kind)
    return (
        pl.concat([sent, acknowledged])
        .join(places, left_on="seq_bytes", right_on="number", how="inner", maintain_order="left")
        .with_columns(seq_bytes="place")
        .sort("t_ns", maintain_order=True)
    )


def _handshake(run: Run, flow: int, described: pl.DataFrame) -> int | None:
    """Return the round trip of the connection's set-up, if it is known."""
    kind = pl.col("kind").cast(pl.String)
    events = run.events.filter(pl.col("flow") == flow, kind == "established")
    start = described["start_ns"][0]
    if not events.is_empty() and start is not None:
        at = events["t_ns"][0]
        # A kernel connects a while after its flow began, and reports the round trip.
        first = run.samples.filter(
            pl.col("flow") == flow, pl.col("t_ns") == at, pl.col("srtt_ns") > 0
        )
        return max(1, int(at - start if first.is_empty() else first["srtt_ns"][0]))
    # Zero is an import's word for unknown.
    rtt: int | None = described["base_rtt_ns"][0]
    return rtt or None
