"""Which controller suits a path: what recordings show, and a ranking over the paths they allow."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from paceline import answers, batch, grid, guests
from paceline.later import numpy as np
from paceline.later import polars as pl
from paceline.quantities import duration_ns, exact_time, quantity, scale_of
from paceline.reading import toml
from paceline.runs import Run, packets_of
from paceline.study import fit
from paceline.study.compare import Finding, compare
from paceline.study.compare.subjects import Subject
from paceline.study.conformance import packets
from paceline.study.conformance.packets import SHADOWS
from paceline.study.fit.estimates import Estimate, Path
from paceline.study.fit.observed import Flow, Observed, of_use, spans

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Aim = Literal["throughput", "latency", "sharing"]

#: What each aim compares: a metric of the flows, or the goodput of CUBIC beside them.
AIMS: dict[Aim, str] = {
    "throughput": "goodput_bps",
    "latency": "rtt_p95_ns",
    "sharing": "neighbour_bps",
}
#: The controllers of Linux and of QUIC stacks; Linux's Reno differs from `reno` only where an ACK
#: covers more than two packets.
CANDIDATES = ("cubic-linux", "reno", "bbr1", "bbr3-linux", "cubic", "bbr3")
#: What a controller's harm is to: the first of these that is on the path, or one more flow.
NEIGHBOURS = ("cubic-linux", "cubic")
#: Smaller differences are none.
TOLERANCE = 0.05
#: One of the paths is the real one: a difference is certain if it is on this share of them, and if
#: chance gives it with a smaller probability than that. Neither depends on how many are compared.
SURE, LEVEL = 0.9, 0.01
#: Paths in the ensemble, and what they are multiplied by to look for the turn of an answer.
PATHS = 12
_AROUND = (-0.25, 0.1, 0.5, 0.9, 1.25)
#: Company starts within this many RTTs of the recording's flows.
_START_RTTS = 2
#: How many times longer than the recording a transfer of its size may take.
LONGER = 3
#: Seeds of each path, drawn or swept: when its company starts and what it loses at random is chance
#: that is not a difference of paths.
_SEEDS = (1, 2, 3)
#: The share of the time in which something is the limit from which on no controller helps.
LIMIT = 0.6


@dataclass(frozen=True)
class Limits:
    """The shares of the time in which something other than the path was the limit, if known."""

    application: float | None
    window: float | None
    #: One of the two, where only both together are known.
    either: float | None = None

    @property
    def sentence(self) -> str | None:
        """What no controller changes, if that is the limit."""
        if self.either is not None and self.either >= LIMIT:
            return (
                f"For {_percent(self.either)} of the time an end is the limit, and not the path: "
                "no controller will help. Whether it is the application, its send buffer or the "
                "receive window is not known. A capture that begins before the connection shows "
                "it, and of a run its packets (`record = { packets = true }`)."
            )
        ends = {
            "the receive window is": self.window,
            "the application, or its send buffer, is": self.application,
        }
        shares = sorted(((share, what) for what, share in ends.items() if share), reverse=True)
        if sum(share for share, _ in shares) < LIMIT:
            return None
        # Both, where only both together reach it.
        known = shares[:1] if shares[0][0] >= LIMIT else shares
        each = [f"for {_percent(share)} of the time {what} the limit" for share, what in known]
        return f"F{', and '.join(each)[1:]}, and not the path: no controller will help."


@dataclass(frozen=True)
class Recording:
    """A file, what it shows, and the path that it allows."""

    name: str
    run: Run | None = None
    #: A path that is known, as a scenario.
    text: str = ""
    observed: Observed | None = None
    path: Path | None = None
    limits: Limits = Limits(None, None)
    #: The controller that the user names, of flows whose controller the recording does not name.
    given: str | None = None
    #: What their packets show.
    judged: Mapping[int, Sequence[packets.Judged]] = field(default_factory=dict)
    #: Nothing if something else than the path was the limit.
    fitted: fit.Fit | None = None
    #: Paths that it allows, as scenarios.
    paths: Sequence[str] = ()

    @property
    def _hosts(self) -> set[str]:
        """The addresses of a capture's flows."""
        rows = of_use(self.run) if self.run is not None else []
        sides = [str(row["label"] or "").split(" to ") for row in rows]
        return {end.rpartition(":")[0] for ends in sides if len(ends) == 2 for end in ends}

    def differs(self, other: Recording) -> tuple[list[str], bool]:
        """Return in what the path of another recording differs, and whether it is another path.

        One end may have several addresses, and between two addresses the rate may change.
        """
        differences, hosts = [], (self._hosts, other._hosts)
        common = len(hosts[0] & hosts[1])
        is_other = all(hosts) and common == 0
        if all(hosts) and common < 2:
            differences.append("addresses ({} instead of {})".format(*map(_listed, hosts)))
        if self.path is None or other.path is None:
            return differences, is_other
        rtts = (self.path.rtt, other.path.rtt)
        if _apart(*rtts):
            ends = (fit.interval("_s", one) for one in rtts)
            differences.append("base RTT ({} instead of {})".format(*ends))
            is_other = True
        if self.fitted is not None and other.fitted is not None:
            rates = (self.fitted.rate, other.fitted.rate)
            if _apart(*rates):
                ends = (fit.interval("_bps", one) for one in rates)
                differences.append("rate ({} instead of {})".format(*ends))
                is_other = is_other or common < 2
        return differences, is_other

    @property
    def is_near(self) -> bool:
        """Whether a model reproduces it."""
        return self.fitted is None or self.fitted.judged[0].is_near

    @property
    def scenario(self) -> str:
        """The scenario of its path."""
        return self.text if self.fitted is None else self.fitted.text

    @property
    def _sent(self) -> list[list[str]]:
        """The controllers that each flow may have, as far as they are known."""
        rows = of_use(self.run) if self.run is not None else []
        known, sent = guests.names(), []
        for row in rows:
            named = row["cc"] if row["cc"] in known or self.given is None else self.given
            names = packets.alike(self.judged.get(row["flow"], ())) or [named]
            sent.append([name for name in names if name in known])
        return sent

    @property
    def senders(self) -> list[str]:
        """The controllers that sent, as far as they are known."""
        return list(dict.fromkeys(name for names in self._sent for name in names))

    @property
    def shared(self) -> list[str]:
        """The controllers that all of its flows may have: one of these can be kept."""
        return [name for name in self.senders if all(name in names for names in self._sent)]

    @property
    def sentences(self) -> list[str]:
        """What the recording shows."""
        run, observed = self.run, self.observed
        if run is None or observed is None or self.path is None:
            return [f"{self.name} is a scenario: its path is known."]
        sentences = []
        for row in of_use(run):
            who, moved = row["label"] or f"Flow {row['flow']}", row["goodput_bytes"]
            names = [SHADOWS[name] for name in packets.alike(self.judged.get(row["flow"], ()))]
            how = "a controller that its packets do not show"
            if names:
                how = f"{' or '.join(names)}, by its packets"
            elif self.given is not None and row["cc"] not in guests.names():
                how = f"{self.given}, as --sender says"
            elif row["flow"] not in self.judged:
                how = f"{row['cc']}, as the record says"
            sentences.append(f"{who}: {quantity('_bytes', moved)}, sent with {how}.")
        values, least = observed.metrics, observed.least
        sentences.append(
            f"Goodput {quantity('_bps', values['goodput_bps'])}; minimum RTT "
            f"{quantity('_ns', None if least is None else least * 1e9)}, median "
            f"{quantity('_ns', values['rtt_p50_ns'])}, 95th percentile "
            f"{quantity('_ns', values['rtt_p95_ns'])}."
        )
        acks = run.metrics.get("return_ack_loss_ratio")
        backlog = quantity("_bytes", self.path.backlog.value)
        sentences.append(
            f"Longest queue {backlog}; lost {_percent(values['lost_ratio'])}; ACKs lost "
            f"{_percent(acks)}."
        )
        shares = {"application": self.limits.application, "receive window": self.limits.window}
        for what, share in shares.items():
            known = f"The {what} was the limit for {_percent(share)} of the time."
            unknown = f"Whether the {what} was the limit is not known."
            sentences.append(unknown if share is None else known)
        return sentences


#: Intervals of two recordings are of other paths if this factor is between them.
APART = 1.25


def _apart(one: Estimate, other: Estimate) -> bool:
    """Return whether two estimates cannot be of one value."""
    ends = [(e.low or 0.0, e.high or math.inf) for e in (one, other)]
    return any(low > APART * high for (low, _), (_, high) in (ends, ends[::-1]))


def _listed(names: set[str]) -> str:
    first, *others = sorted(names)
    return f"{first} and {others[-1] if len(others) == 1 else f'{len(others)} more'}"


def read(
    name: str,
    run: Run,
    cc: str | None = None,
    *,
    paths: int = PATHS,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Recording:
    """Say what limits a recording, and fit its path if that is the limit; raises `UnfitError`."""
    observed, path = fit.ends(run)
    limits = _limits(run, observed, path)
    recording = Recording(name, run, observed=observed, path=path, limits=limits, given=cc)
    if limits.sentence is not None:
        return replace(recording, judged={} if cc is not None else fit.senders_of(run))
    fitted = fit.fit(run, cc=cc, threads=threads, progress=progress)
    recording = replace(recording, judged=fitted.senders, fitted=fitted)
    allowed = fitted.allowed(paths, threads) if recording.is_near else ()
    return replace(recording, paths=allowed)


#: A queue is none below this wait in seconds, this share of the RTT and this many packets' times.
_WAIT, _SHARE, _PACKETS = 2e-3, 0.1, 1.5
#: Samples further apart, in seconds, miss what a sender probes.
_COARSE = 0.1
#: For this long, in seconds and RTTs, a path without a queue or a loss shows that it is not the
#: limit, if the rate stays within this factor and below this share of the link's.
_LASTS, _ROUNDS, _FLAT, _BUSY = 3.0, 20, 1.1, 0.9


def _limits(run: Run, observed: Observed, path: Path) -> Limits:
    """Return what limited the flows, weighted with their time."""
    pairs = zip(of_use(run), observed.flows, strict=True)
    rows = [(_own(run, row, flow, path), flow) for row, flow in pairs]
    limits: list[float | None] = []
    for part in range(3):
        known = [(shares[part], flow.end - flow.start) for shares, flow in rows]
        time = sum(span for _, span in known)
        is_known = time > 0 and all(share is not None for share, _ in known)
        limits.append(sum((s or 0.0) * span for s, span in known) / time if is_known else None)
    return Limits(*limits)


def _own(
    run: Run, row: Mapping[str, Any], flow: Flow, path: Path
) -> tuple[float | None, float | None, float | None]:
    """Return the shares of a flow's time in which its application or its window was the limit.

    The third is that of both, if packets do not show how large the window is.
    """
    samples = run.samples.filter(pl.col("flow") == row["flow"]).sort("t_ns")
    app_limited = samples["app_limited"].fill_null(value=False).to_numpy()
    known = app_limited if app_limited.any() and run.source is None else None
    step = float(np.median(np.diff(flow.t))) if len(flow.t) > 1 else math.inf
    if flow.least is None or step > _COARSE:
        return None if known is None else float(np.mean(known)), None, None
    rate = flow.delivered[-1] / max(flow.end - flow.start, step)
    wait = max(_WAIT, _SHARE * flow.least, _PACKETS * flow.packet / max(rate, 1.0))
    is_short = ~(np.nan_to_num(flow.waits) > wait)
    is_full = _fills(run, row, flow, samples)
    window = None if is_full is None else float(np.mean(is_full & is_short))
    if known is not None:
        return float(np.mean(known if is_full is None else known & ~is_full)), window, None
    lost = np.zeros(len(flow.t)) if flow.lost is None else np.diff(flow.lost, prepend=0.0)
    calm = is_short & (lost <= 0)
    shortest = max(round(max(_LASTS, _ROUNDS * flow.least) / step), 3)
    limited = np.zeros(len(flow.t), bool)
    rates = [one.rate.value or 0.0 for one in path.stretches if one.rate.high is not None]
    busy = max(rates, default=math.inf) * _BUSY / 8
    for first, last in spans(calm):
        # Until a flow has started it grows.
        first = max(first, int(np.searchsorted(flow.t, flow.start + 10 * flow.least)))
        if last - first < shortest:
            continue
        third = (last - first) // 3
        moved = [
            flow.delivered[at + third] - flow.delivered[at] for at in (first, last - third - 1)
        ]
        paces = [float(one) / (third * step) for one in moved]
        if min(paces) > 0 and max(paces) / min(paces) < _FLAT and max(paces) < busy:
            limited[first:last] = True
    for begin, end in flow.pauses:
        limited[(flow.t >= begin) & (flow.t <= end)] = True
    if is_full is None:
        return None, None, float(np.mean(limited))
    return float(np.mean(limited & ~is_full)), window, None


def _fills(run: Run, row: Mapping[str, Any], flow: Flow, samples: pl.DataFrame) -> Any:
    """Return whether a flow fills its receiver's window, at each time; its ACKs give the size."""
    if flow.least is None or (table := packets_of(run)) is None:
        return None
    acks = table.filter((pl.col("flow") == row["flow"]) & (pl.col("kind").cast(pl.String) == "ack"))
    times = acks["t_ns"].cast(float).to_numpy() / 1e9 - row["start_ns"] / 1e9 + flow.start
    windows = acks["window_bytes"].cast(float).to_numpy()
    at = np.searchsorted(times, flow.t, side="right") - 1
    if not len(at) or not len(windows) or np.isnan(windows).all():
        return None  # Without a window there is none that is not full.
    window = np.where(at < 0, np.inf, windows[np.maximum(at, 0)])
    in_flight = samples["in_flight_bytes"].cast(float).fill_null(0.0).to_numpy()
    if flow.is_spaced:
        # At the receiver what is in flight is what arrives in an RTT.
        before = np.interp(flow.t - flow.least, flow.t, flow.delivered, left=0.0)
        in_flight = (flow.delivered - before) * flow.payload / flow.packet
    if np.mean(in_flight > window + 2 * flow.payload) > 0.02:
        return None  # Its scale is in a handshake that was not captured.
    full = np.flatnonzero(in_flight >= window - 2 * flow.payload)
    # Within an RTT of that its data is acknowledged.
    if not len(full):
        return np.zeros(len(flow.t), bool)
    near = np.searchsorted(full, np.arange(len(flow.t)), side="right") - 1
    since = flow.t - flow.t[full[np.maximum(near, 0)]]
    return (near >= 0) & (since <= flow.least)


#: Other flows on a path: controllers, and how many of each.
Company: TypeAlias = "tuple[tuple[str, int], ...]"
#: By candidate and company, its metrics on each path.
Values: TypeAlias = "dict[tuple[str, Company], dict[int, dict[str, float]]]"


@dataclass(frozen=True)
class StudyOptions:
    """The options of a study: what is compared, and where."""

    candidates: Sequence[str] = CANDIDATES
    beside: Company = ()
    paths: int = PATHS
    threads: int | None = None


#: What other parameters of paths are called.
WORDS = {
    "rate_bps": "rate",
    "rtt_s": "base RTT",
    "size_bytes": "queue",
    "link_bps": "rate of the link",
}


def _cause(text: str) -> str:
    """Return what loses packets on a path, in words."""
    path = toml(text)["path"]
    if "policer" in path:
        return "a policer causes the losses"
    if "loss" in path:
        return "packets are lost at random"
    kind = path.get("queue", {}).get("kind", "droptail")
    return "a full queue causes the losses" if kind == "droptail" else f"{kind} causes the losses"


@dataclass(frozen=True)
class Turn:
    """A condition under which another controller is ahead."""

    #: Or what loses packets, which has no value.
    parameter: str
    value: float | None
    #: The value in BDP, of a queue.
    bdp: float | None
    best: str
    lead: float

    def as_json(self) -> answers.Turned:
        """Return it as `--json` prints it."""
        return {
            "parameter": self.parameter,
            "value": self.value,
            "best": self.best,
            "lead_ratio": self.lead,
        }

    def sentence(self, last: Turn | None = None) -> str:
        """Return it in words, after the aim; with the last of several values that do the same."""
        ends = [self] if last is None or last is self else [self, last]
        leads = sorted({f"{100 * one.lead:.0f}" for one in ends}, key=float)
        ahead = f"{self.best} is ahead by {' to '.join(leads)} %."
        if self.value is None:
            return f"if {self.parameter}, {ahead}"
        values = " to ".join(fit.written(self.parameter, one.value, 3) for one in ends)
        if self.parameter == "loss_ratio":
            return f"if {values} of packets are lost at random, {ahead}"
        bdps = [f"{one.bdp:.2g}" for one in ends if one.bdp is not None]
        more = f" ({' to '.join(bdps)} BDP)" if bdps else ""
        what = f"a {fit.LABELS.get(self.parameter) or WORDS.get(self.parameter, self.parameter)}"
        return f"with {what} of {values}{more} {ahead}"


@dataclass
class Row:
    """A candidate over the ensemble."""

    name: str
    #: Each metric's value on each path.
    values: Mapping[str, Sequence[float]]
    #: The goodput of a neighbour, against its goodput beside another neighbour.
    harm: Finding | None
    #: For each aim, the comparison with the best of all; none of the best.
    findings: dict[Aim, Finding | None] = field(default_factory=dict)

    @property
    def harmed(self) -> float | None:
        """What a neighbour loses beside it; nothing of the neighbour's own controller."""
        if self.harm is None:
            return 0.0
        return None if self.harm.change is None else -self.harm.change

    def mean(self, metric: str) -> float | None:
        """Return the mean of a metric over the paths."""
        values = self.values.get(metric)
        return float(np.mean(values)) if values else None

    def range(self, metric: str) -> list[float] | None:
        """Return the range of a metric over the paths without the extreme ones."""
        values = self.values.get(metric)
        return _range(values) if values else None


@dataclass(frozen=True)
class Advice:
    """The ranking of candidates over an ensemble of paths."""

    rows: Sequence[Row]
    turns: Sequence[Turn]
    #: The parameters in which a turn was looked for, and the aim.
    swept: Sequence[str]
    aim: Aim
    neighbour: str
    #: The controllers that all flows of all recordings may have, and those that any may have.
    shared: Sequence[str] = ()
    senders: Sequence[str] = ()

    def against(self, row: Row) -> list[float] | None:
        """Return the range of a candidate's change against the best without its extreme paths.

        At each end as many are left out as may contradict a difference that is certain.
        """
        best = next(one for one in self.rows if one.findings[self.aim] is None)
        sides = [one.values.get(AIMS[self.aim], ()) for one in (row, best)]
        if len(sides[0]) != len(sides[1]) or not sides[0] or min(sides[1]) <= 0:
            return None
        return _range(list(np.array(sides[0]) / np.array(sides[1]) - 1))

    def best(self, aim: Aim) -> list[str]:
        """Return the candidates that nothing is better than: the one with the best mean first."""
        leading = [
            row.name
            for row in self.rows
            if (finding := row.findings[aim]) is None or finding.verdict != "worse"
        ]
        first = next(row.name for row in self.rows if row.findings[aim] is None)
        return sorted(leading, key=lambda name: name != first)

    @property
    def recommended(self) -> str | None:
        """The controller of all senders if none is better, or else the best.

        Of several without a difference it is one beside which CUBIC loses least: of these, one that
        sends already, or else the best. Those that are worse than the best have no part in it: the
        answer is the same without them.
        """
        leading, rows = self.best(self.aim), {row.name: row for row in self.rows}
        if own := [name for name in leading if name in self.shared]:
            return own[0]
        if any(_verdict(rows[name].findings[self.aim]) != "same" for name in leading):
            return None
        beside = {name: rows[name].mean("neighbour_bps") or 0.0 for name in leading}
        mild = [cc for cc in leading if beside[cc] >= (1 - TOLERANCE) * max(beside.values())]
        mild.sort(key=lambda cc: (cc not in self.senders, -_score(rows[cc], self.aim)))
        return mild[0]

    @property
    def conditions(self) -> list[str]:
        """When another controller is ahead, in words: successive values together."""
        alike = itertools.groupby(self.turns, key=lambda turn: (turn.parameter, turn.best))
        groups = [list(turns) for _, turns in alike]
        return [turns[0].sentence(turns[-1]) for turns in groups]

    @property
    def reason(self) -> str:
        """The recommendation in words, after the aim."""
        name, leading = self.recommended, self.best(self.aim)
        if name is None:
            names = f"{', '.join(leading[:-1])} and {leading[-1]}"
            return f"no difference between {names} is certain, so none of them is recommended."
        if name in self.shared:
            return f"keep {name}, no other is certainly better."
        if leading == [name]:
            return f"use {name}."
        already = " and is in use already" if name in self.senders else ""
        return f"use {name}: no other is better, and it harms others least{already}."

    def sentence(self, aim: Aim) -> str:
        """Return the answer for an aim."""
        first, *others = self.best(aim)
        rows = {row.name: row for row in self.rows}
        ends = {"throughput": "the highest goodput", "latency": "the lowest 95th RTT"}
        what = ends.get(aim, "the least harm to CUBIC beside it")
        unsure = [name for name in others if _verdict(rows[name].findings[aim]) != "same"]
        if len(others) + 1 == len(rows):
            if unsure:
                return f"For {aim}: no difference is certain between the controllers."
            return f"For {aim}: the controllers do not differ by more than {_percent(TOLERANCE)}."
        behind = [row for row in self.rows if row.name not in (first, *others)]
        changes = sorted(abs(_change(row.findings[aim])) for row in behind)
        far = " to ".join(dict.fromkeys(map(_percent, (changes[0], changes[-1]))))
        who, verb = (behind[0].name, "is") if len(changes) == 1 else ("the others", "are")
        by = f"{who} {verb} {far} {'higher' if aim == 'latency' else 'lower'}"
        if aim == "sharing":
            by = f"beside {who} its goodput is {far} lower"
        if not others:
            return f"For {aim}: {first} has {what}; {by}."
        names = f"{', '.join([first, *others[:-1]])} and {others[-1]}"
        word = "but no difference between them is certain" if unsure else "without a difference"
        return f"For {aim}: {names} have {what}, {word}; {by}."


def _percent(share: float | None) -> str:
    return "not known" if share is None else f"{100 * share:.3g} %"


def _range(values: Sequence[float]) -> list[float]:
    """Return the ends of values without as many as may contradict a difference that is certain."""
    ranked = sorted(values)
    out = int(len(ranked) * (1 - SURE))
    return [float(ranked[out]), float(ranked[-1 - out])]


def _change(finding: Finding | None) -> float:
    return (finding.change if finding is not None else None) or 0.0


def _verdict(finding: Finding | None) -> str:
    return "same" if finding is None else finding.verdict


@dataclass(frozen=True)
class Case:
    """A path with a candidate and its company, of which the last one's loss counts."""

    text: str
    cc: str
    company: Company
    seed: int
    path: int

    @property
    def own(self) -> int:
        """The number of the recording's flows."""
        return sum(flow.get("count", 1) for flow in toml(self.text)["flows"])

    @property
    def given(self) -> tuple[tuple[str, str], ...]:
        """What gives the recording's flows the candidate."""
        flows = enumerate(toml(self.text)["flows"])
        return tuple((f"flows.{n}.cc", self.cc) for n, flow in flows if "stack" not in flow)

    def job(self) -> batch.Job:
        """Return the job that runs it."""
        given, rng = self.given, random.Random(self.seed)
        # A path that draws nothing would be the same with each seed: flows meet at other times.
        table = toml(self.text)
        rtt = duration_ns(table.get("path", {}).get("rtt", "0 s"))
        # A receiver that acknowledges more or less often changes who takes how much.
        acks = grid.toml(table["flows"][0].get("ack", {}), nested=True)
        text = self.text + "".join(
            f'\n[[flows]]\ncc = "{name}"\ncount = {count}\nack = {acks}\n'
            f'start = "{exact_time(rng.uniform(0, _START_RTTS) * rtt)}"\n'
            for name, count in self.company
        )
        length = guests.check(text, "advised.toml", given, sweep=False).duration_ns
        if all("size" in flow.get("app", ()) for flow in table["flows"]):
            # Another controller may need longer for the same data.
            length *= LONGER
            given += (("run.duration", exact_time(length)),)
        return batch.Job(text, given, self.seed, "sim", "advised.toml", length)

    def measure(self, run: Run) -> dict[str, float]:
        """Return the metrics of its flows together, and its neighbours' goodput beside them."""
        own, flow_metrics = self.own, run.flow_metrics
        rows = list(run.flows.sort("flow").iter_rows(named=True))[:own]
        end = int(run.samples["t_ns"].max() or 0)  # type: ignore[arg-type]
        ends = [row["finish_ns"] or row["stop_ns"] or end for row in rows]
        last, first = max(ends), min(row["start_ns"] for row in rows)
        span = max(last - first, 1)
        # Data that arrives after a flow has stopped is in its counters, and not in its goodput.
        bits = sum(
            (one["goodput_bps"] or 0.0) * (stop - row["start_ns"])
            for one, row, stop in zip(flow_metrics[:own], rows, ends, strict=True)
        )
        metrics = {"goodput_bps": bits / span}
        for name in ("rtt_p95_ns", "retransmit_ratio", "completion_ns"):
            known = [one[name] for one in flow_metrics[:own] if one.get(name) is not None]
            if len(known) == own:
                metrics[name] = max(known)
        if self.company:
            # Once its own flows have ended, the neighbours have the path for themselves.
            count, goodput = self.company[-1][1], pl.col("goodput_bytes")
            beside = run.samples.filter(
                pl.col("flow") >= len(flow_metrics) - count, pl.col("t_ns").is_between(first, last)
            )
            each = beside.group_by("flow").agg(goodput.max() - goodput.min())["goodput_bytes"]
            metrics["neighbour_bps"] = int(each.sum()) * 8e9 / span / count
        return metrics


class Study:
    """The runs of candidates over the paths that recordings allow."""

    def __init__(self, recordings: Sequence[Recording], options: StudyOptions, aim: Aim) -> None:
        self.options, self.aim = options, aim
        self._first, *more = recordings
        self._senders = list(dict.fromkeys(cc for one in recordings for cc in one.senders))
        self._shared = [cc for cc in self._first.shared if all(cc in one.shared for one in more)]
        each = [one.paths or [one.text] * options.paths for one in recordings]
        turns = (divmod(n, len(each)) for n in range(options.paths))
        # Where fewer differ than are requested, each has several seeds.
        paths = [each[which][nth % len(each[which])] for nth, which in turns]
        given = dict(options.beside)
        #: The controller of the neighbours, which come last.
        self.neighbour = next((name for name in NEIGHBOURS if name in given), NEIGHBOURS[0])
        others = tuple(one for one in options.beside if one[0] != self.neighbour)
        self._beside: Company = (*others, (self.neighbour, given.get(self.neighbour, 1)))
        self._company = self._beside if self.neighbour in given else options.beside
        self._cases = [
            Case(text, cc, company, turn * len(paths) + n + 1, n)
            for turn in range(len(_SEEDS))
            for n, text in enumerate(paths)
            for cc in dict.fromkeys((*options.candidates, self.neighbour))
            for company in dict.fromkeys((self._company, self._beside))
            if cc in options.candidates or company == self._beside
        ]
        self._sweep = list(self._around()) if self._first.fitted is not None else []
        self._turned = [
            Case(text, cc, self._with(aim), seed, -1 - n)
            for n, (_, _, text) in enumerate(self._sweep)
            for cc in options.candidates
            for seed in _SEEDS
        ]
        self._jobs = [case.job() for case in (*self._cases, *self._turned)]

    def __len__(self) -> int:
        return len(self._jobs)

    def _with(self, aim: Aim) -> Company:
        return self._beside if aim == "sharing" else self._company

    def cases(self, cc: str) -> list[Case]:
        """Return the runs of which the row of a candidate is the mean."""
        return [case for case in self._cases if (case.cc, case.company) == (cc, self._company)]

    def _around(self) -> Iterator[tuple[str, float, str]]:
        """Yield paths on which the two parameters that are known least have other values."""
        fitted = self._first.fitted
        assert fitted is not None
        model, known = fitted.near[0]
        every = {"rate_bps": (fitted.rate, 0.0), "rtt_s": (fitted.rtt, 0.0)}
        every |= {n: one for n, one in fitted.unsure(model, known).items() if n in model.parameters}
        if "link_bps" in every:
            del every["rate_bps"]  # A bound of the same rate.
        spans = {name: fit.span(*one) for name, one in every.items()}
        least = sorted(spans, key=lambda n: spans[n][0] / spans[n][1])
        for name in least[:2]:
            low, high = spans[name]
            # Beyond the ends, too: a known value may be another one tomorrow.
            low, high = min(low, high / 4), max(high, low * 4)
            for part in _AROUND:
                value = math.exp(math.log(low) + part * (math.log(high) - math.log(low)))
                if name == "rate_bps":
                    text = fitted.scenario(model, value / (fitted.rate.value or value))
                elif name == "rtt_s":
                    text = fitted.scenario(model, rtt=value)
                else:
                    given = {**model.parameters, name: value}
                    text = fitted.scenario(replace(model, parameters=given))
                yield name, value, text

    def run(self, watch: batch.Watch) -> Advice:
        """Run everything, and rank the candidates."""
        cases = [*self._cases, *self._turned]
        outcomes = batch.outcomes(
            self._jobs,
            lambda number, _, run: cases[number].measure(run),
            threads=self.options.threads,
            progress=watch.progress,
        )
        measured = [outcome.kept for outcome in outcomes]
        seeds: dict[tuple[str, Company], dict[int, list[dict[str, float]]]] = {}
        for case, metrics in zip(self._cases, measured, strict=False):
            paths = seeds.setdefault((case.cc, case.company), {})
            paths.setdefault(case.path, []).append(metrics)
        values = {
            key: {path: _mean(each) for path, each in paths.items()} for key, paths in seeds.items()
        }
        turned = {
            (case.path, case.cc, case.seed): measured[len(self._cases) + n]
            for n, case in enumerate(self._turned)
        }
        advice = self.ranked(values)
        swept = list(dict.fromkeys(name for name, _, _ in self._sweep))
        turns = [*self._causes(advice), *self._turns(advice, turned)]
        return replace(advice, turns=turns, swept=swept)

    def ranked(self, values: Values) -> Advice:
        """Rank the candidates by their metrics on the paths."""
        rows = [self._row(cc, values) for cc in self.options.candidates]
        first = {aim: max(rows, key=lambda row: _score(row, aim)).name for aim in AIMS}
        for row in rows:
            row.findings |= {aim: self._against(first[aim], row.name, aim, values) for aim in AIMS}
        rows.sort(key=lambda row: -_score(row, self.aim))
        return Advice(rows, (), [], self.aim, self.neighbour, self._shared, self._senders)

    def _row(self, cc: str, values: Values) -> Row:
        alone, beside = values[cc, self._company], values[cc, self._beside]
        names = dict.fromkeys(name for one in alone.values() for name in one)
        metrics = {n: [one[n] for one in alone.values() if n in one] for n in names}
        metrics["neighbour_bps"] = [one["neighbour_bps"] for one in beside.values()]
        return Row(cc, metrics, self._against(self.neighbour, cc, "sharing", values))

    def _against(self, old: str, new: str, aim: Aim, values: Values) -> Finding | None:
        """Compare a candidate with another over the paths.

        Where they differ by less than what counts, neither is ahead: a candidate that is as good on
        some paths and worse on the others is worse. Whether their mean difference is chance is
        tested with all paths as they are.
        """
        if old == new:
            return None
        metric = "rtt_p95_ns" if aim == "latency" else "goodput_bps"
        olds, news = (
            {path: one.get(AIMS[aim]) for path, one in values[cc, self._with(aim)].items()}
            for cc in (old, new)
        )
        before, after = (
            Subject(cc, {"": {(n,): {"metrics": {metric: v}, "flows": []} for n, v in one.items()}})
            for cc, one in ((old, olds), (new, news))
        )
        for finding in compare(before, after, [metric], tolerance=TOLERANCE, level=LEVEL):
            pairs = [(olds[path] or 0.0, one or 0.0) for path, one in news.items()]
            signs = [one > other for one, other in pairs if not _is_alike(one, other)]
            ahead = max(sum(signs), len(signs) - sum(signs))
            is_sure = finding.verdict == "same" or ahead >= SURE * len(signs)
            return finding if is_sure else replace(finding, verdict="unclear")
        return None

    def _causes(self, advice: Advice) -> Iterator[Turn]:
        """Yield what may lose packets, if that decides which controller is the best."""
        metric = AIMS[self.aim]
        texts = {case.path: case.text for case in self._cases}
        paths: dict[str, list[int]] = {}
        for number, text in texts.items():
            paths.setdefault(_cause(text), []).append(number)
        for cause, numbers in paths.items() if len(paths) > 1 else ():
            each = {
                row.name: [values[n] for n in numbers]
                for row in advice.rows
                if len(values := row.values.get(metric, ())) == len(texts)
            }
            if (turn := self._turn(advice, cause, None, each)) is not None:
                yield turn

    def _turn(
        self, advice: Advice, name: str, value: float | None, values: Mapping[str, Sequence[float]]
    ) -> Turn | None:
        """Return that another controller is ahead of the one that is recommended, if it is.

        Without a recommendation, it is ahead of all others that may be the best. It is ahead if it
        is on nearly all paths or seeds: that of a mean of a few may be chance.
        """
        if len(values) < len(advice.rows) or not all(min(each) > 0 for each in values.values()):
            return None
        sign = -1 if self.aim == "latency" else 1
        means = {cc: float(np.mean(each)) for cc, each in values.items()}
        best = max(means, key=lambda cc: sign * means[cc])
        use = advice.recommended
        others = [use] if use is not None else [n for n in advice.best(self.aim) if n != best]
        lead = min(abs(means[best] / means[cc] - 1) for cc in others)
        changes = [sign * (np.array(values[best]) / np.array(values[cc]) - 1) for cc in others]
        is_sure = len(values[best]) >= len(_SEEDS) and all(
            np.mean(each > TOLERANCE) >= SURE for each in changes
        )
        if lead <= TOLERANCE or not is_sure:
            return None
        bdp, fitted = None, self._first.fitted
        if name == "size_bytes" and fitted is not None and value is not None:
            bdp = value * 8 / fitted.path.stretches[0].guess / (fitted.rtt.value or 1.0)
        return Turn(name, value, bdp, best, lead)

    def _turns(self, advice: Advice, turned: Mapping[tuple[int, str, int], Any]) -> Iterator[Turn]:
        """Yield the values of what was swept at which another controller is ahead."""
        metric = AIMS[self.aim]
        for n, (name, value, _) in enumerate(self._sweep):
            each = {
                cc: [turned[-1 - n, cc, seed].get(metric, 0.0) for seed in _SEEDS]
                for cc in self.options.candidates
            }
            if (turn := self._turn(advice, name, value, each)) is not None:
                yield turn


def _mean(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the means of the metrics of a path's seeds, without those that not all have."""
    first, *others = metrics
    names = [name for name in first if all(name in one for one in others)]
    return {name: float(np.mean([one[name] for one in metrics])) for name in names}


def _is_alike(one: float, other: float) -> bool:
    if min(one, other) <= 0:
        return one == other
    return abs(other / one - 1) <= TOLERANCE


def _score(row: Row, aim: Aim) -> float:
    """Return the mean of a metric's logarithm: higher is better."""
    values = [max(value, 1.0) for value in row.values.get(AIMS[aim], ())]
    mean = float(np.mean(np.log(values))) if values else -math.inf
    return -mean if aim == "latency" and values else mean


def draw(advice: Advice) -> Figure:
    """Draw the goodput over the 95th RTT of each candidate: its mean and one deviation of paths."""
    from matplotlib.patches import Ellipse

    from paceline.show.figure import canvas, literal, styled
    from paceline.show.palette import QUANTITIES

    names = ("rtt_p95_ns", "goodput_bps")
    both = [[row.values.get(name, ()) for name in names] for row in advice.rows]
    sides = zip(*both, strict=True)
    tops = [max((max(values) for values in side if values), default=1.0) for side in sides]
    across, up = scale_of("_ns", tops[0]), scale_of("_bps", tops[1])
    with styled():
        title = "Goodput over the 95th RTT: means, and one deviation over the paths"
        figure = canvas(6.4, 4.0, title)
        axes = figure.subplots()
        for nth, (row, (rtts, goodputs)) in enumerate(zip(advice.rows, both, strict=True)):
            if not rtts or len(rtts) != len(goodputs):
                continue
            colour = QUANTITIES[nth % len(QUANTITIES)]
            points = np.array([np.array(rtts) / across.size, np.array(goodputs) / up.size])
            sizes, turns = np.linalg.eigh(np.cov(points))
            width, height = 2 * np.sqrt(np.maximum(sizes, 0.0))
            angle = float(np.degrees(np.arctan2(turns[1, 0], turns[0, 0])))
            middle = float(np.mean(points[0])), float(np.mean(points[1]))
            shape = Ellipse(middle, width, height, angle=angle, facecolor=colour, alpha=0.15)
            axes.add_patch(shape)
            axes.plot(*middle, "o", color=colour, markersize=4, label=row.name)
        axes.autoscale_view()
        axes.set_xlabel(f"95th RTT ({across.unit}), left is better")
        axes.set_ylabel(f"goodput ({up.unit}), up is better")
        axes.legend(fontsize=7)
    return literal(figure)


def page(advice: Advice | None, **values: Any) -> str:
    """Return the page with these texts, which works without anything else."""
    from paceline.show.figure import saved
    from paceline.study import template

    picture = "" if advice is None else template.embedded(saved(draw(advice), "png"))
    return template.page("advice.html.j2", picture=picture, **values)
