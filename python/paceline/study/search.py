"""The smallest path on which a sender fails: a search in a space of paths.

A space is a scenario whose keys are drawn or listed (`[sweep.over]`). Its events, and its flows
after the first, are the most that a path has: any of them can be left out. What fails is made small
and tried with other start times and with other numbers, so that it is a region and no accident.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import random
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from paceline import _paceline, batch, guests
from paceline.errors import ArgumentError, PacelineError, ScenarioError
from paceline.grid import Axis, Overrides, document, places
from paceline.later import numpy as np
from paceline.later import polars as pl
from paceline.measures import all_named, named, of_flow
from paceline.measures import value as value_of
from paceline.names import did_you_mean
from paceline.quantities import duration_ns, quantity
from paceline.reading import toml
from paceline.runs import Run

#: Draws of each key, from which values are taken.
_DRAWS = 500
#: Candidates of a generation; of the first ones all are random, of later ones these.
_GENERATION, _FIRST, _RANDOM = 32, 4, 12
#: How many candidates have children, and how many of these may fail in one way.
_PARENTS, _ALIKE = 24, 3
#: The start offsets of a trial and of the final check; the latest of them.
_TRIAL_OFFSETS, _FINAL_OFFSETS, _OFFSET = 6, 40, "100 ms"
#: The smallest share of offsets, and of changes of a number by this share, in which a find fails.
_MIN_SHARE, _CHANGE = 0.1, 0.05
#: How many candidates of a group are reduced, and how many groups there are.
_REDUCED, _GROUPS = 2, 5


#: A state lasts if it does so for this long; a stall is one from here on, or from so many RTTs.
_LASTS_S, _STALL_S, _STALL_ROUNDS = 10.0, 5.0, 10
_OWN = "flows[0].goodput_bps"
#: Time between the rows that goals are judged by.
_INTERVAL = (("run.sample_interval", "100 ms"),)
#: Settings of a link that make a path unclean, unless they are zero or off.
_IMPAIRMENTS = ("loss", "reorder", "duplicate", "jitter", "policer", "aggregation", "grant_delay")


class Verdict(NamedTuple):
    """Whether a run fails, and what the sender did then."""

    #: What the goal bounds, as a part of the bound: it fails below 1, and less is worse.
    value: float
    #: The controller's state and that of loss recovery, and the last change of the path before.
    group: tuple[str, str, str] = ("", "", "")
    #: A bound of `[expect]` that fails.
    expected: tuple[str, str] = ("", "")
    description: str = ""
    #: The goodput of the run, and of each of its flows.
    goodputs: tuple[float, ...] = (0.0, 0.0)

    @property
    def goodput(self) -> float:
        """The goodput of the flow that is judged."""
        return self.goodputs[1]

    def had(self, bound: float) -> tuple[str, str]:
        """Return the bound of `[expect]` for a flow that ought to have another goodput.

        It takes metrics of a run: those of its only flow, or how fair it would be.
        """
        whole, own, *others = self.goodputs
        if others and bound > own:
            sides = ((own, *others), (bound, *others))
            now, then = (sum(side) ** 2 / sum(one * one for one in side) for side in sides)
            if then > now:
                return "jain_ratio", _bound("jain_ratio", then / (1 + len(others)))
        return "goodput_bps", _bound("goodput_bps", whole + bound - own, upper=bound < own)

    @property
    def fails(self) -> bool:
        """Whether it is what the goal looks for."""
        return self.value < 1


class TimeSeries:
    """A run on one grid of times, as goals need it. The first flow is the one judged."""

    def __init__(self, run: Run, text: str) -> None:
        self.run, queue, flows = run, run.queue.filter(pl.col("link") == 0), run.flows
        self.t = queue["t_ns"].to_numpy() / 1e9
        self.step = float(np.median(np.diff(self.t)))
        self.limit = run.links[0][2]
        names = (
            "backlog_bytes",
            "dropped_packets",
            "offered_packets",
            "capacity_bytes",
            "delay_ns",
        )
        self.backlog, self.dropped, self.offered, self.capacity, self.delay = (
            queue[name].to_numpy() for name in names
        )
        self.row = flows.row(0, named=True)
        self.own = run.samples.filter(pl.col("flow") == 0)
        own_t = self.own["t_ns"].to_numpy() / 1e9
        self.received = self._at(own_t, self.own["goodput_bytes"].to_numpy())
        self.acked = self._at(own_t, self.own["delivered_bytes"].to_numpy())
        ends = [
            (row["start_ns"] / 1e9, (row["stop_ns"] or row["finish_ns"] or math.inf) / 1e9)
            for row in flows.iter_rows(named=True)
        ]
        active = sum((self.t > start) & (self.t <= end) for start, end in ends)
        payload = self.row["mss_bytes"] / (self.row["mss_bytes"] + 52)
        self.fair = np.cumsum(np.diff(self.capacity, prepend=0) * payload / np.maximum(active, 1))
        self.unclean = self._unclean(text)
        # Nor is it judged while the application is the limit.
        limited = self._at(own_t, self.own["app_limited"].cast(float).to_numpy()) > 0
        idle = (self.t - self.step < ends[0][0]) | (self.t > ends[0][1])
        self.unjudged = self.unclean | limited | idle

    def _at(self, times: Any, values: Any) -> Any:
        return np.interp(self.t, times, values, left=0.0) if len(times) else 0 * self.t

    def _unclean(self, text: str) -> Any:
        """Return in which steps the path changes, stands still, or has impairments."""
        path = toml(text)["path"]
        state = {
            f"{link} {key}": bool(_amount(table.get(key)))
            for link, table in ((0, path), (1, path.get("return", {})))
            for key in _IMPAIRMENTS
        }
        changed = self.run.events.filter(pl.col("key").is_not_null())
        columns = ("t_ns", "key", "before_value", "value", "detail")
        self.changes = [(t / 1e9, *rest) for t, *rest in changed.select(columns).iter_rows()]
        links = changed["link"].to_list()
        unclean = np.full(len(self.t), any(state.values()))
        for (time, key, _, value, detail), link in zip(self.changes, links, strict=True):
            at = int(np.searchsorted(self.t, time))
            if (name := key.partition(".")[0]) in (*_IMPAIRMENTS, "rate"):
                bad = not value if name == "rate" else bool(value) or detail == "on"
                state[f"{link} {name}"] = bad
            unclean[at:] = any(state.values())
            unclean[at : at + 1] = True
        return unclean

    def shares(self, first: Any, last: Any) -> Any:
        """Return which parts of its fair share the flow has between some rows."""
        return (self.received[last] - self.received[first]) / (self.fair[last] - self.fair[first])

    def windows(self, seconds: float, bad: Any) -> tuple[Any, Any]:
        """Return the first and last rows of all windows of this length without a bad step."""
        count = round(seconds / self.step)
        first = np.arange(max(len(self.t) - count, 0))
        steps = np.cumsum(bad)
        first = first[steps[first + count] == steps[first]]
        return first, first + count

    def verdict(
        self, value: float, first: int, last: int, expected: tuple[str, float], what: str
    ) -> Verdict:
        """Return a verdict on a time, with what the sender did in it."""
        begin, end = float(self.t[first]), float(self.t[last])
        rows = self.own.filter(pl.col("t_ns").is_between(round(begin * 1e9), round(end * 1e9)))
        states = [_most(rows[name].cast(pl.String).to_list()) for name in ("phase", "ca_state")]
        before = next((_change(*one) for one in reversed(self.changes) if one[0] <= begin), "start")
        group = (states[0][0], states[1][0], before)
        goodputs = tuple(
            float(one["goodput_bps"] or 0) for one in (self.run.metrics, *self.run.flow_metrics)
        )
        if value >= 1:
            return Verdict(value, group, goodputs=goodputs)
        expired = self.run.events.filter(pl.col("kind") == "rto", pl.col("flow") == 0)
        timeouts = [t / 1e9 for t in expired["t_ns"]]
        now = sum(begin < t <= end for t in timeouts)
        columns = (rows[name].drop_nulls().to_numpy() for name in ("cwnd_bytes", "in_flight_bytes"))
        medians = (np.median(column if rows.height else [0]) for column in columns)
        window, in_flight = (quantity("_bytes", median) for median in medians)
        description = (
            f"From {begin:.1f} to {end:.1f} s {what}. {self.row['cc']} is in {states[0][0]} for "
            f"{states[0][1]:.0%} of this time, and loss recovery in {states[1][0]} for "
            f"{states[1][1]:.0%}; the median window is "
            f"{window}, with {in_flight} in flight; {now} "
            f"retransmission timeouts in it and {sum(t <= begin for t in timeouts)} before. "
            f"Before it: {before}."
        ).replace("%", " %")
        verdict = Verdict(value, group, description=description, goodputs=goodputs)
        metric, bound = expected
        expectation = verdict.had(bound) if metric == _OWN else (metric, _bound(metric, bound))
        return verdict._replace(expected=expectation)

    def short(self, value: float, first: int, last: int, needed: float, what: str) -> Verdict:
        """Return a verdict on a time in which the flow has less than the wanted bytes."""
        goodput = float(self.run.flow_metrics[0]["goodput_bps"] or 0)
        total = float(self.received[-1])
        lacks = needed - float(self.received[last] - self.received[first])
        bound = goodput * (1 + lacks / total) if total else 8 * lacks / float(self.t[-1])
        return self.verdict(value, first, last, (_OWN, bound), what)


def _amount(value: Any) -> bool:
    """Return whether an impairment is there: a number that is not zero, or a table."""
    number = re.match(r"[0-9.]+", str(value or ""))
    return isinstance(value, dict) or (number is not None and float(number[0]) > 0)


def _most(words: Sequence[str | None]) -> tuple[str, float]:
    word, count = Counter(words).most_common(1)[0] if words else ("", 0)
    return word or "no state", count / max(len(words), 1)


def _change(_: float, key: str, before: float | None, value: float | None, detail: str) -> str:
    if key in _IMPAIRMENTS:
        return f"{key} {'begins' if value else 'ends'}"
    if before is not None and value is not None and before != value:
        return f"{key} {'rises' if value > before else 'falls'}"
    return f"{key} {detail}".strip()


def _bound(metric: str, bound: float, *, upper: bool = False) -> str:
    """Write a bound so that what fails by any digit still fails: rounded away from it."""
    upper = upper or metric.startswith(("queue", "loss"))
    power = 10 ** (math.floor(math.log10(bound)) - 3) if bound > 0 else 1
    rounded = (math.floor if upper else math.ceil)(bound / power) * power
    unit = {"bps": " bit/s", "ns": " ns"}.get(metric.rpartition("_")[2], "")
    return f"{'<=' if upper else '>='} {f'{rounded:.0f}' if unit else f'{rounded:.6g}'}{unit}"


def _starves(series: TimeSeries) -> Verdict | None:
    first, last = series.windows(_LASTS_S, series.unjudged)
    if not len(first):
        return None
    shares = series.shares(first, last)
    at = int(np.argmin(shares))
    i, j = int(first[at]), int(last[at])
    what = f"the flow has {shares[at]:.1%} of its fair share"
    return series.short(shares[at] / 0.2, i, j, 0.2 * (series.fair[j] - series.fair[i]), what)


def _never_recovers(series: TimeSeries) -> Verdict | None:
    late = max((one[0] for one in series.changes), default=math.inf) + _LASTS_S
    first, last = series.windows(5.0, series.unjudged | (series.t <= late))
    if not len(first) or series.t[last[-1]] - series.t[first[0]] < _LASTS_S:
        return None
    shares = series.shares(first, last)
    i, j = int(first[0]), int(last[-1])
    what = f"the flow has at most {shares.max():.1%} of its fair share in any 5 s"
    needed = 0.5 * (series.fair[j] - series.fair[i])
    return series.short(float(shares.max()) / 0.5, i, j, needed, what)


def _stalls(series: TimeSeries) -> Verdict | None:
    moves = (np.diff(series.acked, prepend=0) > 0) | series.unjudged
    edges = np.flatnonzero(np.concatenate([[True], moves, [True]]))
    gaps = np.diff(edges)
    at = int(np.argmax(gaps))
    i, j = int(edges[at]), int(edges[at + 1]) - 1
    i, lasts = max(i - 1, 0), float(gaps[at] - 1) * series.step
    bound = max(_STALL_S, _STALL_ROUNDS * series.row["base_rtt_ns"] / 1e9)
    what = f"no data of the flow is acknowledged for {lasts:.1f} s"
    needed = 0.2 * (series.fair[j] - series.fair[i]) + 1
    return series.short(bound / max(lasts, series.step), i, max(j, i), needed, what)


def _floods(series: TimeSeries) -> Verdict | None:
    first, last = series.windows(_LASTS_S, series.unclean)
    if not len(first):
        return None
    offered = np.maximum(series.offered[last] - series.offered[first], 1)
    losses = (series.dropped[last] - series.dropped[first]) / offered
    at = int(np.argmax(losses))
    i, j = int(first[at]), int(last[at])
    all_ = float(series.run.metrics["loss_ratio"] or 0)
    excess = (losses[at] - 0.2) * offered[at] / max(float(series.offered[-1]), 1)
    bound = ("loss_ratio", max(all_ - excess, 0.0))
    value, what = 0.2 / max(losses[at], 1e-9), f"{losses[at]:.1%} of the packets are dropped"
    if series.limit:
        span = int(last[0] - first[0]) + 1
        least = np.lib.stride_tricks.sliding_window_view(series.backlog, span).min(axis=1)[first]
        at = int(np.argmax(least))
        if (other := 0.9 * series.limit / max(least[at], 1)) < value:
            value, i, j = other, int(first[at]), int(last[at])
            what = f"the queue is at least {least[at] / series.limit:.0%} full"
            rows = series.delay[i : j + 1].astype(float)
            allowed = 0.9 * series.limit / np.maximum(series.backlog[i : j + 1], 1)
            over = np.nanmean(np.maximum(rows * (1 - allowed), 0))
            mean = float(series.run.metrics["queue_mean_ns"] or 0)
            bound = ("queue_mean_ns", mean - float(over) * span / len(series.t))
    return series.verdict(float(value), i, j, bound, what)


def _unfair(series: TimeSeries) -> Verdict | None:
    jain, half = series.run.metrics["jain_last_half_ratio"], len(series.t) // 2
    if jain is None or series.run.flows.height < 2 or series.unclean[half:].any():
        return None
    what = f"Jain's index of the flows is {jain:.2f}"
    bound = ("jain_last_half_ratio", 0.6)
    return series.verdict(jain / 0.6, half, len(series.t) - 1, bound, what)


GOALS: dict[str, tuple[str, Callable[[TimeSeries], Verdict | None]]] = {
    "starves": ("below 20 % of its fair share for 10 s on a clean path", _starves),
    "floods": ("queue at 90 % of its limit, or loss above 20 %, for 10 s on a clean path", _floods),
    "stalls": ("nothing acknowledged for 5 s and 10 RTTs on a clean path", _stalls),
    "never-recovers": (
        "below half of its fair share from 10 s after the last event on",
        _never_recovers,
    ),
    "unfair": ("Jain's index below 0.6 in the last half", _unfair),
}
_COMPARED = re.compile(r"\s*([\w.\[\]]+)\s*(<=|>=|<|>)\s*(.+?)\s*")
_INVERSE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_ARITHMETIC |= {ast.Div: lambda one, other: one / other if other else math.inf}


@dataclass(frozen=True)
class Goal:
    """What is looked for. As a function, it is what a batch keeps of a run: its verdict."""

    text: str
    #: `slower` than a controller, or `differs` from an engine or a program; or nothing.
    kind: str = ""
    other: str = ""
    factor: float = 1.0
    #: A metric, how it compares, and with what.
    compared: tuple[str, str, str] | None = None

    @classmethod
    def read(cls, text: str) -> Goal:
        """Read a goal; raises `ArgumentError`."""
        kind, _, rest = text.partition(":")
        if text in GOALS:
            return cls(text)
        if kind in ("slower", "differs") and rest:
            *names, last = rest.split(":")
            is_factor = bool(names) and re.fullmatch(r"[0-9]*\.?[0-9]+", last) is not None
            other = ":".join(names) if is_factor else rest
            factor = float(last) if is_factor else (0.5 if kind == "slower" else 0.8)
            if not 0 < factor < 1:
                raise ArgumentError(f"{text!r}: {last} is no part", hint="from 0 to 1, such as 0.5")
            known = guests.names()
            if kind == "slower" and other not in known:
                hint = did_you_mean(other, known, "`paceline list controllers` shows all")
                raise ArgumentError(f"no controller is called {other!r}", hint=hint)
            if kind == "differs" and other != "vm" and shutil.which(other) is None:
                hint = 'name the other `paceline`, for example "differs:old/bin/paceline"'
                raise ArgumentError(f"{other} is no program", hint=hint)
            return cls(text, kind, other, factor)
        if match := _COMPARED.fullmatch(text):
            (metric,) = all_named([match[1]])
            goal = cls(text, compared=(metric, match[2], match[3]))
            goal.right({"metrics": {}, "flows": []})
            return goal
        known_goals = ", ".join([*GOALS, "slower:CC:0.5", "differs:vm", "differs:PATH"])
        hint = did_you_mean(kind, GOALS, f'{known_goals}, or "flows[0].goodput_bps < 1 Mbit/s"')
        raise ArgumentError(f"no goal is called {text!r}", hint=hint)

    @property
    def each(self) -> int:
        """The number of runs of a path."""
        return 1 if self.kind == "" or (self.kind == "differs" and self.other != "vm") else 2

    def _tables(self, text: str) -> str:
        """Return the scenario of the other run."""
        if self.kind != "slower":
            return text
        tables = toml(text)
        tables["flows"][0]["cc"] = self.other
        tables["flows"][0].pop("stack", None)
        return document(tables)

    def check(self, text: str, file: str, given: Overrides = ()) -> None:
        """Check a path; raises `ScenarioError`."""
        guests.check(text, file, given, sweep=False)
        if self.other == "vm":
            guests.check(text, file, given, sweep=False, backend="vm")

    def jobs(
        self, cases: Sequence[tuple[str, Overrides]], file: str, duration_ns: int
    ) -> list[batch.Job]:
        """Return the runs of scenarios: those of the other kind follow all of the first."""

        def job(text: str, given: Overrides, backend: Literal["sim", "vm"] = "sim") -> batch.Job:
            seed = int(dict(given).get("run.seed", toml(text)["run"].get("seed", 1)))
            return batch.Job(text, (*_INTERVAL, *given), seed, backend, file, duration_ns)

        jobs = [job(text, given) for text, given in cases]
        if self.each == 2:
            engine: Literal["sim", "vm"] = "vm" if self.other == "vm" else "sim"
            jobs += [job(self._tables(text), given, engine) for text, given in cases]
        return jobs

    def __call__(self, _: int, job: batch.Job, run: Run) -> Verdict | None:
        """Return the verdict on a run, or its goodput if it is compared with another's."""
        if job.backend == "vm":
            return Verdict(1.0, goodputs=(0.0, float(run.flow_metrics[0]["goodput_bps"] or 0)))
        series = TimeSeries(run, job.text)
        if self.text in GOALS:
            return GOALS[self.text][1](series)
        if self.compared is not None:
            return self._expressed(series)
        # What it did matters only if it fails: zero, so that it is described.
        whole = series.verdict(0.0, 0, len(series.t) - 1, (_OWN, 1.0), "{}")
        return self._against(whole, self._elsewhere(job)) if self.each == 1 else whole

    def judge(self, kept: Sequence[Verdict | None]) -> list[Verdict | None]:
        """Return the verdict on each path, from what is kept of the runs of `jobs`."""
        if self.each == 1:
            return list(kept)
        half = len(kept) // 2
        pairs = zip(kept[:half], kept[half:], strict=True)
        return [one and two and self._against(one, two.goodput) for one, two in pairs]

    def _against(self, own: Verdict, other: float) -> Verdict:
        """Return a verdict on a flow that has another goodput elsewhere."""
        here = own.goodput
        value, bound = here / max(self.factor * other, 1e-9), self.factor * other
        if self.kind == "differs" and here > other:
            value, bound = other / max(self.factor * here, 1e-9), other / self.factor
        if value >= 1:
            return own._replace(value=value, description="", expected=("", ""))
        where = f"with {self.other}" if self.kind == "slower" else f"in {self.other}"
        what = f"the flow has {quantity('_bps', here)}, and {quantity('_bps', other)} {where}"
        description = own.description.replace("{}", what)
        return own._replace(value=value, description=description, expected=own.had(bound))

    def _elsewhere(self, job: batch.Job) -> float:
        """Return the goodput that another `paceline` reports."""
        with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
            file = Path(folder) / "path.toml"
            file.write_text(job.text, encoding="utf-8")
            given = [part for key, value in job.overrides for part in ("--set", f"{key}={value}")]
            call = [self.other, "run", str(file), "--json", "--quiet", "--out", f"{folder}/run"]
            done = subprocess.run([*call, *given], capture_output=True, text=True, check=False)
            try:
                return float(json.loads(done.stdout)["flows"][0]["goodput_bps"] or 0)
            except (ValueError, LookupError, TypeError):
                last = (done.stderr.strip() or done.stdout.strip())[-300:]
                hint = "it has to run the paths of the space: choose a space of its version"
                raise ArgumentError(f"{self.other} fails: {last}", hint=hint) from None

    def right(self, summary: Mapping[str, Any]) -> float | None:
        """Return what the metric is compared with; raises `ArgumentError`."""
        text = self.compared[2] if self.compared else ""
        for kind in ("rate", "time", "volume"):
            with suppress(ValueError):
                return float(_paceline.parse_quantity(kind, text))
        with suppress(ValueError):
            return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        try:
            return self._value(ast.parse(text, mode="eval").body, summary)
        except (SyntaxError, KeyError, RecursionError, MemoryError):
            hint = 'a number with its unit, or metrics with + - * /: "0.3 * flows[1].goodput_bps"'
            raise ArgumentError(f"{self.text!r}: {text!r} cannot be read", hint=hint) from None

    def _value(self, node: ast.expr, summary: Mapping[str, Any]) -> float | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return float(node.value)
        if isinstance(node, ast.BinOp):
            one, other = (self._value(side, summary) for side in (node.left, node.right))
            done = _ARITHMETIC[type(node.op)]
            return None if one is None or other is None else done(one, other)
        return value_of(summary, named(ast.unparse(node)))

    def _expressed(self, series: TimeSeries) -> Verdict | None:
        assert self.compared is not None
        metric, sign, _ = self.compared
        left, right = value_of(series.run.summary, metric), self.right(series.run.summary)
        if left is None or right is None:
            return None
        low, high = (left, right) if sign[0] == "<" else (right, left)
        ratio = low / high if high else (math.inf if low else 1.0)
        holds = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
        value = min(ratio, 1 - 1e-9) if holds[sign] else max(ratio, 1.0)
        what = f"{metric} is {quantity(metric, left)}"
        verdict = series.verdict(value, 0, len(series.t) - 1, (_OWN, 1.0), what)
        unit = {"bps": " bit/s", "ns": " ns", "bytes": " B"}.get(metric.rpartition("_")[2], "")
        number = f"{right:.0f}" if unit else f"{right:.9g}"
        if metric == _OWN and sign[0] == "<":
            return verdict._replace(expected=verdict.had(right))
        # `[expect]` has no metrics of flows.
        expressible = "" if of_flow(metric) else metric
        return verdict._replace(expected=(expressible, f"{_INVERSE[sign]} {number}{unit}"))


class NoSpaceError(PacelineError):
    """A scenario in which nothing varies."""


class Genome(NamedTuple):
    """A path of a space: where each gene is on its scale, from 0 to 1, and which parts exist."""

    at: tuple[float, ...]
    has: tuple[bool, ...]


def put(tables: dict[str, Any], key: str, text: str) -> None:
    """Set a key of a scenario, as ``--set`` does: TOML, or a text without its quotes."""
    *above, last = key.split(".")
    at: Any = tables
    for name in above:
        if isinstance(at, list):
            at = at[int(name)]
            continue
        inner = at.setdefault(name, {})
        if isinstance(inner, str):
            inner = at[name] = {"name": inner}  # a controller, of which an option is set
        at = inner
    try:
        at[last] = toml(f"it = {text}")["it"]
    except ValueError:
        at[last] = text


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of `[sweep.over]`, whose points may be below tables of keys."""
    for name, value in table.items():
        if isinstance(value, dict) and not {"draw", "from", "to"} & value.keys():
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


@dataclass(frozen=True)
class Space:
    """The paths in which is searched."""

    name: str
    #: The scenario's file, to which the paths of traces are relative.
    file: str
    base: dict[str, Any]
    #: By gene its settings, in the order of their values: what is near is alike.
    genes: tuple[tuple[Overrides, ...], ...]
    #: What may be left out: `events` or `flows`, and the number there.
    parts: tuple[tuple[str, int], ...]
    duration_ns: int

    @classmethod
    def read(cls, text: str, file: str, overrides: Overrides = ()) -> Space:
        """Read a space; raises `ScenarioError`, and `NoSpaceError` if nothing varies."""
        guests.check(text, file, overrides, sweep=False)
        base = toml(text)
        for key, value in overrides:
            put(base, key, value)
        over = dict(_flat(base.pop("sweep", {}).get("over", {})))
        is_drawn = any(isinstance(law, dict) and "draw" in law for law in over.values())
        draws = (("sweep.draws", str(_DRAWS)),) if is_drawn else ()
        checked = guests.check(text, file, (*overrides, *draws))
        axes = [Axis.of(axis) for axis in checked.sweep["axes"]] if checked.sweep else []
        base.pop("expect", None)
        base.pop("about", None)
        parts = [("events", n) for n in range(len(base.get("events", ())))]
        parts += [("flows", n) for n in range(1, len(base["flows"]))]
        if not axes and not parts:
            raise NoSpaceError(f"{file} has no [sweep], no event and one flow: nothing varies")
        trace = base["path"].get("rate")
        if isinstance(trace, dict) and "trace" in trace:
            trace["trace"] = str((Path(file).parent / trace["trace"]).resolve())
        genes = tuple(gene for axis in axes for gene in _genes(axis, over))
        return cls(checked.name, file, base, genes, tuple(parts), checked.duration_ns)

    def at(self, genome: Genome) -> dict[str, Any]:
        """Return a path as the tables of a scenario."""
        tables = deepcopy(self.base)
        gone = [part for part, has in zip(self.parts, genome.has, strict=True) if not has]
        for gene, at in zip(self.genes, genome.at, strict=True):
            for key, value in gene[min(int(at * len(gene)), len(gene) - 1)]:
                if _part(key) not in gone:
                    put(tables, key, value)
        for name, number in reversed(gone):
            del tables[name][number]
        return {name: value for name, value in tables.items() if value != []}

    def drawn(self, rng: random.Random) -> Genome:
        """Return a random path."""
        chosen = rng.sample(range(len(self.parts)), rng.randint(0, len(self.parts)))
        has = tuple(number in chosen for number in range(len(self.parts)))
        return Genome(tuple(rng.random() for _ in self.genes), has)

    def child(self, rng: random.Random, one: Genome, other: Genome) -> Genome:
        """Return a path of which each part is that of one or the other, with some changes."""
        of: dict[Any, Genome] = {}

        def side(key: Any) -> Genome:
            if key not in of:
                of[key] = rng.choice((one, other))
            return of[key]

        at = []
        for number, gene in enumerate(self.genes):
            key = gene[0][0][0]
            place = side(_part(key) or key).at[number]
            if rng.random() < 2 / len(self.genes):
                near = min(max(rng.gauss(place, 0.1), 0.0), 1.0)
                place = rng.choice((near, rng.random()))
            at.append(place)
        flip = [rng.random() < 1 / len(self.parts) for _ in self.parts]
        has = (side(part).has[number] != flip[number] for number, part in enumerate(self.parts))
        return Genome(tuple(at), tuple(has))


def _part(key: str) -> tuple[str, int] | None:
    """Return the event or the flow that a key is of, if it is one that may be left out."""
    head, _, rest = key.partition(".")
    number = rest.partition(".")[0]
    return (head, int(number)) if head in ("events", "flows") and number.isdecimal() else None


def _genes(axis: Axis, over: Mapping[str, Any]) -> Iterator[tuple[Overrides, ...]]:
    points = [point.overrides for point in axis.points]
    if not axis.drawn:
        yield tuple(points)
        return
    # Keys that are drawn together, by one law or from the rows of one file, stay together.
    groups: dict[Any, list[str]] = {}
    for names, law in over.items():
        if isinstance(law, dict) and "draw" in law:
            keys = [key.strip() for key in names.split(",")]
            groups.setdefault(law.get("file", names), []).extend(keys)
    for keys in groups.values():
        drawn = [tuple(pair for pair in point if pair[0] in keys) for point in points]
        order, _ = places([settings[0][1] for settings in drawn])
        yield tuple(sorted(drawn, key=lambda settings: order[settings[0][1]]))


class Candidate(NamedTuple):
    """A path that was simulated."""

    run: int
    genome: Genome
    tables: dict[str, Any]
    verdict: Verdict
    how: str

    @property
    def order(self) -> tuple[float, int]:
        """The worst first, and of equal ones the first."""
        return self.verdict.value, self.run


@dataclass
class Find:
    """A path on which the sender fails."""

    tables: dict[str, Any]
    verdict: Verdict
    #: The run of its candidate, how it was drawn, and how many candidates failed so.
    run: int
    how: str
    alike: int
    #: The shares of start offsets, and of changed numbers, in which it fails; unset if not tried.
    offsets: float | None = None
    changes: float | None = None

    def toml(self) -> str:
        """Return it as a scenario whose `[expect]` fails."""
        tables = {"about": self.verdict.description, **self.tables}
        metric, bound = self.verdict.expected
        return document(tables | ({"expect": {metric: bound}} if metric else {}))


@dataclass
class Search:
    """A search, and its results so far."""

    space: Space
    goal: Goal
    seed: int = 1
    executor: batch.Executor | None = None
    watch: Callable[[batch.Outcome], object] = lambda _: None
    #: Only random paths, to compare with.
    only_random: bool = False
    runs: int = 0
    #: The runs of `explore`, which the budget counts; the others make finds small.
    explored: int = 0
    best: float = math.inf
    failing: list[Candidate] = field(default_factory=list)
    finds: list[Find] = field(default_factory=list)
    #: Groups whose candidates fail in too few of the changed paths.
    accidents: int = 0
    #: Why runs ended early, by their scenario.
    errors: list[tuple[str, str]] = field(default_factory=list)

    def explore(self, left: Callable[[int], int]) -> None:
        """Try paths, as many more as `left` returns after some runs, until it returns none."""
        rng = random.Random(self.seed)
        known: list[Candidate] = []
        nth = 0
        while count := min(left(self.explored) // self.goal.each, _GENERATION):
            made = self._generation(rng, known, count, nth < _FIRST)
            verdicts = self.verdicts([(document(tables), ()) for _, tables, _ in made])
            for (genome, tables, how), verdict in zip(made, verdicts, strict=True):
                self.explored += self.goal.each
                if verdict is not None:
                    one = Candidate(self.explored, genome, tables, verdict, how)
                    known.append(one)
                    self.best = min(self.best, verdict.value)
                    if verdict.fails:
                        self.failing.append(one)
            known = _parents(known)
            nth += 1

    def _generation(
        self, rng: random.Random, known: Sequence[Candidate], count: int, first: bool
    ) -> list[tuple[Genome, dict[str, Any], str]]:
        made: list[tuple[Genome, dict[str, Any], str]] = []
        tries = 0
        while len(made) < count:
            tries += 1
            is_random = first or self.only_random or not known or len(made) < _RANDOM
            genome = self.space.drawn(rng)
            if not is_random:
                parents = (rng.choice(known).genome, rng.choice(known).genome)
                genome = self.space.child(rng, *parents)
            tables = self.space.at(genome)
            problem = self._problem(tables)
            if problem is None:
                made.append((genome, tables, "random" if is_random else "evolution"))
            elif tries >= 100 * _GENERATION:
                raise problem
        return made

    def _problem(self, tables: Mapping[str, Any]) -> ScenarioError | None:
        try:
            self.goal.check(document(tables), self.space.file)
            self.goal.check(document(tables), self.space.file, _late(tables))
        except ScenarioError as error:
            return error
        return None

    def verdicts(self, cases: Sequence[tuple[str, Overrides]]) -> list[Verdict | None]:
        """Return the verdict on each scenario, with what is set in it; none of a failed run."""
        jobs = self.goal.jobs(cases, self.space.file, self.space.duration_ns)
        outcomes = batch.outcomes(
            jobs,
            self.goal,
            executor=self.executor,
            failures="collect",
            ended=lambda _, outcome: self.watch(outcome),
        )
        self.runs += len(jobs)
        for job, outcome in zip(jobs, outcomes, strict=True):
            if outcome.error is not None:
                self.errors.append((job.text, outcome.error))
        return self.goal.judge([outcome.kept for outcome in outcomes])

    def reduce(self) -> None:
        """Make the worst of each group small; what is an accident is counted and left out."""
        finds: dict[tuple[str, str, str], Find] = {}
        for group in _grouped(self.failing)[:_GROUPS]:
            for one in group[:_REDUCED]:
                find = Find(one.tables, one.verdict, one.run, one.how, len(group))
                if self._small(find) and self._holds(find):
                    there = finds.get(find.verdict.group)
                    if there is not None:
                        find.alike += there.alike
                        # Of one defect the smallest path is the one to read.
                        if len(there.toml()) <= len(find.toml()):
                            there.alike, find = find.alike, there
                    finds[find.verdict.group] = find
                    self.finds = list(finds.values())
                    break
            else:
                self.accidents += 1

    def unreduced(self) -> list[Find]:
        """Return finds that are not reduced, the worst of each group, after an interrupt."""
        known = {find.verdict.group for find in self.finds}
        rest = [group for group in _grouped(self.failing) if group[0].verdict.group not in known]
        return [Find(g[0].tables, g[0].verdict, g[0].run, g[0].how, len(g)) for g in rest[:_GROUPS]]

    def _failures(self, tables: dict[str, Any], offsets: int) -> tuple[Verdict | None, int]:
        """Return the verdict on a path, and with how many start offsets it fails."""
        text = document(tables)
        seeds = [(*_late(tables), ("run.seed", str(seed))) for seed in range(1, offsets + 1)]
        # Most that is tried no longer fails: that takes one run.
        (own,) = self.verdicts([(text, ())])
        if own is None or not own.fails:
            return own, 0
        others = self.verdicts([(text, one) for one in seeds])
        return own, sum(other is not None and other.fails for other in others)

    def _small(self, find: Find) -> bool:
        """Remove, round and shorten what can go; return whether it fails with other offsets too."""
        own, count = self._failures(find.tables, _TRIAL_OFFSETS)
        if own is None or not own.fails or count == 0:
            return False
        least, before = math.ceil(count / 2), ""
        while before != (before := document(find.tables)):
            for way in _WAYS:
                tried: set[str] = set()
                # What was made smaller has other places: they are listed again.
                while tables := next((t for t in way(find.tables) if document(t) not in tried), {}):
                    tried.add(document(tables))
                    if self._problem(tables) is not None:
                        continue
                    verdict, failed = self._failures(tables, _TRIAL_OFFSETS)
                    if verdict is not None and verdict.fails and failed >= least:
                        find.tables, find.verdict = tables, verdict
        return True

    def _holds(self, find: Find) -> bool:
        """Try a find with many offsets, and with each of its numbers changed a little."""
        _, failed = self._failures(find.tables, _FINAL_OFFSETS)
        near = [t for t in _changed(find.tables) if self._problem(t) is None]
        verdicts = self.verdicts([(document(tables), ()) for tables in near])
        find.offsets = failed / _FINAL_OFFSETS
        find.changes = sum(v is not None and v.fails for v in verdicts) / max(len(near), 1)
        return min(find.offsets, find.changes) >= _MIN_SHARE


def _late(tables: Mapping[str, Any]) -> Overrides:
    """Return what lets each flow start later by a random time."""
    return tuple((f"flows.{n}.start_jitter", _OFFSET) for n in range(len(tables["flows"])))


def _parents(known: Iterable[Candidate]) -> list[Candidate]:
    """Return the worst, but few that fail in one way, so that others remain too."""
    counts: dict[tuple[str, str, str], int] = {}
    chosen: list[Candidate] = []
    for one in sorted(known, key=lambda one: one.order):
        counts[one.verdict.group] = counts.get(one.verdict.group, 0) + 1
        if counts[one.verdict.group] <= _ALIKE and len(chosen) < _PARENTS:
            chosen.append(one)
    return chosen


def _grouped(failing: Iterable[Candidate]) -> list[list[Candidate]]:
    groups: dict[tuple[str, str, str], list[Candidate]] = {}
    for one in sorted(failing, key=lambda one: one.order):
        groups.setdefault(one.verdict.group, []).append(one)
    # What fails most often is most of the space.
    return sorted(groups.values(), key=lambda group: -len(group))


#: A pulse is not made shorter than this.
_SHORTEST_NS = 20_000_000
_NUMBER = re.compile(r"([0-9.]+)( ?[A-Za-z%].*)?")
#: What a path needs, or what makes it longer if it is removed.
_KEPT = {"run", "path", "flows", "events", "when", "for", "rate", "cc"}


def _leaves(at: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the places in a scenario, a table before what is in it, and what is there."""
    for name, value in at.items() if isinstance(at, dict) else enumerate(at):
        yield (*above, name), value
        if isinstance(value, dict | list):
            yield from _leaves(value, (*above, name))


def _with(tables: dict[str, Any], place: tuple[Any, ...], value: Any = None) -> dict[str, Any]:
    """Return a path with another value at a place, or without the place and an empty table."""
    tables = deepcopy(tables)
    *above, last = place
    at: Any = tables
    for name in above:
        at = at[name]
    if value is None:
        del at[last]
        return _with(tables, tuple(above)) if above and not at else tables
    at[last] = value
    return tables


def _fewer(tables: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, least in (("flows", 1), ("events", 0)):
        for number in reversed(range(least, len(tables.get(name, ())))):
            yield _with(tables, (name, number))


def _plainer(tables: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for place, _ in _leaves(tables):
        if place[-1] not in _KEPT and isinstance(place[-1], str):
            yield _with(tables, place)


def _parts(value: Any) -> tuple[float, str] | None:
    match = _NUMBER.fullmatch(str(value)) if type(value) in (int, float, str) else None
    return (float(match[1]), match[2] or "") if match else None


def _written(value: Any, number: float, unit: str) -> Any:
    return f"{number:.10g}{unit}" if isinstance(value, str) else type(value)(number)


def _shorter(tables: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for place, value in _leaves(tables):
        if place[-1] in ("duration", "for") and (parts := _parts(value)):
            for share in (0.5, 0.8) if duration_ns(value) > _SHORTEST_NS else ():
                number = float(f"{share * parts[0]:.2g}")
                if number < parts[0]:
                    yield _with(tables, place, _written(value, number, parts[1]))


def _rounder(tables: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for place, value in _leaves(tables):
        if parts := _parts(value):
            for digits in (1, 2):
                number = float(f"{parts[0]:.{digits}g}")
                if number != parts[0]:
                    yield _with(tables, place, _written(value, number, parts[1]))


_WAYS = (_fewer, _plainer, _shorter, _rounder)


def _changed(tables: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a path with each number a little less, and a little more."""
    changed = []
    for place, value in _leaves(tables):
        if isinstance(value, str) and (parts := _parts(value)) and parts[0]:
            for share in (1 - _CHANGE, 1 + _CHANGE):
                # Of packets and the like there are whole numbers.
                number = float(f"{share * parts[0]:.4g}")
                changed.append(_with(tables, place, _written(value, number, parts[1])))
    return changed
