"""Estimates the path of a record, and simulates it to test the estimate."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from paceline import batch, guests
from paceline.errors import NoTableError, UnjudgeableError
from paceline.grid import toml as value
from paceline.quantities import exact_time, quantity, setting
from paceline.reading import toml
from paceline.runs import Run
from paceline.study.conformance import packets
from paceline.study.fit import parameters
from paceline.study.fit.estimates import Estimate, Path, Stretch, Z, estimate
from paceline.study.fit.models import BOTH, Judge, Judged, Model, Traits, traits
from paceline.study.fit.observed import Observed, UnfitError, begin, observe, of_use
from paceline.study.fit.returns import ack_interval, acknowledges_pairs, paths

__all__ = ["LABELS", "Estimate", "Fit", "UnfitError", "fit", "interval", "observe", "written"]


@dataclass(frozen=True)
class Fit:
    """A path, its loss model, and the models that were tried, the nearest first."""

    observed: Observed
    path: Path
    judged: list[Judged]
    #: The parameters of the nearest model, by their names.
    parameters: dict[str, Estimate]
    #: The scenario with the nearest model.
    text: str
    #: The scenario without its path, and the parameters of each model that explains it about as
    #: well.
    base: dict[str, Any]
    near: list[tuple[Model, dict[str, Estimate]]]
    #: What the packets show of each flow that the record does not name, the nearest first: nothing
    #: without its ACKs.
    senders: dict[int, list[packets.Judged]]
    #: The controller with which flows that it does not name are simulated.
    guess: str | None = None

    @property
    def rtt(self) -> Estimate:
        """The base RTT in seconds."""
        return self.path.rtt

    @property
    def size(self) -> Estimate:
        """The capacity of the queue in bytes: a bound if it was never full."""
        return self.parameters["size_bytes"]

    @property
    def stretches(self) -> list[Stretch]:
        """The rates of the link: of what left it, where some of that was lost behind it."""
        best = self.judged[0].model
        share = self.parameters.get("loss_ratio", Estimate(0.0, 0.0, 0.0))
        if best.name == "policer":
            police = best.parameters["police_bps"]
            return [_beyond(stretch, police) for stretch in self.path.stretches]
        if self.path.is_gross:
            return self.path.stretches
        return [
            replace(stretch, rate=_gross(stretch.rate, share), guess=stretch.guess / best.kept)
            for stretch in self.path.stretches
        ]

    @property
    def notes(self) -> list[str]:
        """The notes needed to read the estimates."""
        best, *others = self.judged
        notes = []
        named = [packets.alike(judged) for judged in self.senders.values()]
        if not all(named) or (named and not any(self.guess in names for names in named)):
            why = "With the controller that packets show, no simulation is near"
            why = why if all(named) else "Packets do not show which controller sent"
            notes.append(
                f"{why}. Of those that were tried, {self.guess} gives the nearest simulation."
            )
        if (back := self.path.back) is not None:
            apart, rate = quantity("_ns", 1e9 * back.interval), quantity("_bps", back.rate)
            notes.append(
                f"The return path is slow: ACKs arrive {apart} apart, however much data they cover "
                f"({rate} if an ACK has {back.size} bytes), and at most {back.packets} of them "
                "wait. The scenario has it as path.return. RTTs include the wait of ACKs, so rate, "
                "queue and losses of the forward path are those of the nearest simulation."
            )
        for name, one in self._estimates():
            if one.why and (one.high is None or one.low is None):
                notes.append(f"Of the {name} no interval is given: {one.why}.")
        if best.model.name == "none":
            unknown = "what the path does when its queue is full is not known"
            notes.append(f"Nothing was lost: {unknown}.")
        if others and others[0].distance < _alike(best.distance):
            kind = f"Losses of the kind {others[0].model.name!r}"
            notes.append(f"{kind} would explain the record about as well.")
        if not best.is_near:
            warning = "do not rely on the path that was fitted"
            notes.append(f"No model reproduces this recording: {warning}.")
        return notes

    def scenario(self, model: Model, scale: float = 1.0, rtt: float | None = None) -> str:
        """Return the scenario with another model, with a factor of the rate, or another RTT."""
        path = self.path
        stretches = [replace(one, guess=one.guess * scale) for one in path.stretches]
        base = path.rtt if rtt is None else replace(path.rtt, value=rtt)
        given = dict(model.parameters)
        given["size_bytes"] = max(given["size_bytes"], 2.0 * self.observed.packet)
        if "link_bps" in given:
            given["link_bps"] *= scale
        model = replace(model, parameters=given)
        return _text(self.base, replace(path, rtt=base, stretches=stretches), model)

    def drawn(self, rng: random.Random) -> tuple[str, str]:
        """Return the scenario of a path that is drawn from what is not known, and its model.

        It has one of the models that explain the record about as well, and each parameter is drawn:
        from a lognormal distribution around its value if it has an interval, and evenly in its
        logarithm between the ends of `span` if it has a bound.
        """
        model, known = rng.choice(self.near)
        given, unsure = dict(model.parameters), self.unsure(model, known)
        for name, (one, most) in unsure.items():
            if name in given:
                given[name] = _draw(rng, one, most)
        # A link of a rate of its own is not drawn twice.
        scale = _draw(rng, self.rate) / (self.rate.value or 1.0)
        scale = 1.0 if "link_bps" in unsure else scale
        text = self.scenario(replace(model, parameters=given), scale, _draw(rng, self.rtt))
        return text, model.name

    def allowed(self, count: int, threads: int | None = None) -> list[str]:
        """Return scenarios of drawn paths on which the same flows do about what the record shows.

        Approximate Bayesian computation (Pritchard et al. 1999): of more paths those remain whose
        simulation is about as near as the best model's, or as its seeds are to each other. As many
        remain of each model of which any are: one is not less likely because a parameter of it is
        known less well.
        """
        rng = random.Random(1)
        drawn = dict(self.drawn(rng) for _ in range(count * TRIED))
        texts = list(drawn)
        target = traits(self.observed)
        jobs = [batch.Job(text, (), 1, "sim", "drawn.toml", 1) for text in texts]
        runs = batch.outcomes(jobs, lambda _, __, run: _simulated(run, target), threads=threads)
        distances = [outcome.kept for outcome in runs]
        best = self.judged[0]
        most = max(_alike(best.distance), 1.5 * best.spread)
        # Beyond it, paths count by their distance. A model of which any path is near has its share,
        # if need be with paths that are less near.
        order = sorted(range(len(texts)), key=lambda number: max(distances[number], most))
        within = {drawn[texts[number]] for number in order if distances[number] <= most}
        turns: Counter[str] = Counter()
        ranks = []
        for place, number in enumerate(order):
            name = drawn[texts[number]]
            ranks.append((bool(within) and name not in within, turns[name], place))
            turns[name] += 1
        return [texts[order[place]] for *_, place in sorted(ranks)[:count]]

    @property
    def rate(self) -> Estimate:
        """The first rate of the link that is known, or else its bound."""
        rates = [one.rate for one in self.path.stretches]
        return next((rate for rate in rates if rate.high is not None), rates[0])

    def unsure(
        self, model: Model, known: Mapping[str, Estimate]
    ) -> dict[str, tuple[Estimate, float]]:
        """Return the parameters of a model that change how a path behaves.

        Each has an estimate, and the least that a bound's upper end is.
        """
        bdp = self.path.stretches[0].guess * (self.rtt.value or 0.0) / 8
        unsure = {name: (one, 0.0) for name, one in known.items() if one.value}
        unsure.pop("size_bytes", None)
        if "target_s" not in model.parameters:  # Such a queue is never full.
            one, least = known["size_bytes"], 2.0 * self.observed.packet
            value = max(bdp / FARTHEST if one.value is None else one.value, least)
            low = None if one.value is None else max(one.low or 0.0, least)
            unsure["size_bytes"] = (replace(one, value=value, low=low), FARTHEST * bdp)
        if self.rate.high is not None:
            unsure.pop("link_bps", None)
        return unsure

    def _estimates(self) -> list[tuple[str, Estimate]]:
        rates = [stretch.rate for stretch in self.stretches]
        unknown = next((rate for rate in rates if rate.high is None), rates[0])
        every = [("rate", unknown), ("base RTT", self.rtt), ("queue", self.size)]
        words = {key: LABELS[key] for key in self.parameters if key in LABELS}
        return every + [(word, self.parameters[key]) for key, word in words.items()]


def _simulated(run: Run, target: Traits) -> float:
    """Return how far a simulation is from a record: infinitely if nothing crossed its path."""
    observed = observe(run)
    return target.distance(traits(observed)) if observed.has_waits else math.inf


#: A parameter of which only a bound is known is up to this many times larger, or half of it.
FARTHEST = 4.0
#: How many paths are drawn for each that is kept.
TRIED = 8


def span(one: Estimate, most: float = 0.0) -> tuple[float, float]:
    """Return the ends of the interval of an estimate; of a bound, those of what is likely."""
    low, high, value = one.low, one.high, one.value or 1.0
    if low is None and high is None:
        return value / math.sqrt(FARTHEST), max(value * math.sqrt(FARTHEST), most)
    if high is None:
        low = max(value if low is None else low, value / FARTHEST)
        return low, max(FARTHEST * low, most)
    return (high / 2 if low is None else max(low, value / FARTHEST)), high


def _draw(rng: random.Random, one: Estimate, most: float = 0.0) -> float:
    low, high = span(one, most)
    if one.low is None or one.high is None or one.value is None:
        return math.exp(rng.uniform(math.log(low), math.log(high)))
    return one.value * math.exp(rng.gauss(0.0, math.log(high / low) / (2 * Z)))


def _alike(distance: float) -> float:
    """Return the distance up to which another model explains a record about as well."""
    return 1.5 * distance + 0.01


def written(name: str, value: float | None, digits: int = 4) -> str:
    """Return a parameter or a metric in words; its name ends in its unit."""
    if value is not None and name.endswith("_ratio"):
        return f"{100 * value:.{digits}g} %"
    if value is not None and name.endswith("_s"):
        name, value = "_ns", value * 1e9
    return quantity(name, value)


def interval(name: str, one: Estimate) -> str:
    """Return the interval of an estimate, or the bound that it has, in words."""
    if one.low is None or one.high is None:
        bound, value = ("at most", one.high) if one.low is None else ("at least", one.low)
        return f"{bound} {written(name, value)}"
    return f"{written(name, one.low)} to {written(name, one.high)}"


#: What the parameters of models are called.
LABELS = {
    "loss_ratio": "probability",
    "police_bps": "policer's rate",
    "burst_bytes": "policer's burst",
    "target_s": "target",
}
#: Sections of a scenario that do not concern its flows.
_LEFT_OUT = ("about", "source", "name", "path", "links", "expect", "sweep", "schema", "variants")
#: Only a link this many times faster than a policer is recognised as one.
_FASTER = 1.2
#: A recorded flow that could have sent this many times its data was limited by its application.
_LIMITED = 3


def fit(
    run: Run,
    *,
    cc: str | None = None,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Fit:
    """Estimate the path on which a record was taken.

    Flows whose controller is not known run with `cc`; without it, with what their packets say that
    it is. If they do not say it, or no such simulation is near, the nearest of `GUESSES` is used.
    Raises `UnfitError` for a record that says nothing of its path, or whose own scenario is none.
    """
    observed, path = ends(run)
    apart = ack_interval(run)
    ways = [path] if apart is None else paths(observed, path, apart)
    senders = {} if cc is not None else senders_of(run)
    like = {flow: packets.alike(judged) for flow, judged in senders.items()}
    guesses = dict.fromkeys(name for names in like.values() for name in names)
    if not all(like.values()):
        guesses |= dict.fromkeys(GUESSES)
    tried: list[tuple[float, str | None, dict[str, Any], Judge, list[Judged]]] = []
    count = 0
    todo = list(guesses or [cc])
    for guess in todo:
        chosen = {flow: guess if guess in own or not own else own[0] for flow, own in like.items()}
        for way in ways:
            base = _base(run, observed, way, chosen, cc)
            judge = Judge(observed, way, partial(_text, base, way), progress, count, threads)
            judged = judge.judged()
            tried.append((judged[0].distance, guess if senders else None, base, judge, judged))
            count = judge.count
        if senders and guess == todo[-1] and not any(one[-1][0].is_near for one in tried):
            todo += [name for name in GUESSES if name not in todo]
            like = {flow: [] for flow in like}
    _, guess, base, judge, judged = min(tried, key=lambda one: one[0])
    path, best, most = judge.path, judged[0], _alike(judged[0].distance)
    known = _parameters(judge, best.model)
    others = [one.model for one in judged[1:] if one.distance < most]
    near = [(model, _parameters(judge, model, is_best=False)) for model in others]
    near.insert(0, (best.model, known))
    text = _text(base, path, best.model)
    return Fit(observed, path, judged, known, text, base, near, senders, guess)


def ends(run: Run) -> tuple[Observed, Path]:
    """Return what the ends of a path see, and its rate, RTT and queue; raises `UnfitError`."""
    observed = observe(run)
    if not observed.flows or not (observed.has_waits or observed.arrivals):
        raise UnfitError("no flow of it has both data and RTTs")
    return observed, estimate(observed)


#: The controllers of a sender that its packets do not show.
GUESSES = ("cubic-linux", "cubic", "reno", "reno-linux", "bbr1", "bbr3")


def senders_of(run: Run) -> dict[int, list[packets.Judged]]:
    """Return what the packets show of each flow whose controller the record does not name."""
    senders: dict[int, list[packets.Judged]] = {}
    for row in of_use(run) if run.source is not None else ():
        if _named(run, row["cc"]) is None:
            try:
                senders[row["flow"]] = packets.judge(run, row["flow"])
            except (UnjudgeableError, NoTableError):
                senders[row["flow"]] = []
    return senders


def _named(run: Run, name: str) -> str | None:
    """Return the controller of the simulator that a record means by a name, if there is one."""
    if run.backend != "sim" and name in _LINUX:
        return _LINUX[name]
    return name if name in guests.names() else None


def _parameters(judge: Judge, best: Model, *, is_best: bool = True) -> dict[str, Estimate]:
    """Return the parameters of a model with their intervals; only the best one's target has one."""
    observed, path = judge.observed, judge.path
    backlog = path.backlog
    estimates = {"size_bytes": backlog}
    if best.name not in ("droptail", BOTH) and backlog.value is not None:
        why = "the queue was never seen full"
        estimates["size_bytes"] = Estimate(backlog.low, backlog.low, None, why)
    if path.back is not None:
        full = best.parameters["size_bytes"] if best.name in ("droptail", BOTH) else None
        estimates["size_bytes"] = Estimate(full, why="ACKs wait for a part of each round trip")
    if "loss_ratio" in best.parameters:
        calm = parameters.calm(observed, path)
        estimates["loss_ratio"] = parameters.probability(observed, calm | (best.name != BOTH))
    if best.name == "policer":
        estimates["police_bps"], estimates["burst_bytes"] = parameters.policer(observed, path) or (
            Estimate(best.parameters["police_bps"]),
            Estimate(best.parameters["burst_bytes"]),
        )
    if "target_s" in best.parameters:
        value = best.parameters["target_s"]
        estimates["target_s"] = judge.target(best) if is_best else Estimate(value)
    if "link_bps" in best.parameters:
        value, least = best.parameters["link_bps"], path.stretches[0].rate.low
        estimates["link_bps"] = Estimate(value, least, why="nothing keeps it busy")
    return estimates


def _gross(rate: Estimate, share: Estimate) -> Estimate:
    """Return the rate of a link behind which a share of its packets is lost."""
    value, low, high = share.value or 0.0, share.low or 0.0, share.high or 0.0
    if rate.value is None or rate.low is None or rate.high is None:
        kept, least = (None if one is None else one / (1 - low) for one in (rate.value, rate.low))
        return Estimate(kept, least, None, rate.why)
    middle = rate.value / (1 - value)
    below = math.hypot(1 - rate.low / rate.value, (value - low) / (1 - value))
    above = math.hypot(rate.high / rate.value - 1, (high - value) / (1 - value))
    return Estimate(middle, middle * (1 - below), middle * (1 + above))


def _beyond(stretch: Stretch, police: float) -> Stretch:
    """Return the rate of the link behind a policer, which is only observed in bursts."""
    rate = stretch.rate
    if rate.high is not None and stretch.guess > _FASTER * police:
        return stretch
    why = "a policer keeps the flows below it"
    least = rate.low if rate.high is None else police
    return replace(stretch, rate=Estimate(least, least, None, why))


#: The nearest equivalents of Linux's controllers.
_LINUX = {"bbr": "bbr1", "cubic": "cubic-linux", "reno": "reno-linux"}
#: Its receivers acknowledge the end of a burst at once, and hold back the ACKs of one gap.
_LINUX_ACKS = {"pushed": True, "comp_sack_delay": "1 ms"}


def _base(
    run: Run, observed: Observed, path: Path, senders: Mapping[int, str | None], cc: str | None
) -> dict[str, Any]:
    try:
        return _flows(run, observed, path, senders, cc)
    except UnfitError:
        raise
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise UnfitError("its scenario.toml is not a scenario") from error


def _flows(
    run: Run, observed: Observed, path: Path, senders: Mapping[int, str | None], cc: str | None
) -> dict[str, Any]:
    """Return the scenario of a record without its path."""
    table = toml(run.scenario_toml)
    declared = table.get("flows", [])
    is_linux = run.backend != "sim" and not acknowledges_pairs(run, observed)
    acks = _LINUX_ACKS if is_linux else {}

    def controller(given: Any, flow: str, number: int = -1) -> Any:
        name = given["name"] if isinstance(given, dict) else given
        chosen = _named(run, name)
        if chosen is not None:
            return given if chosen == name else chosen
        if (chosen := senders.get(number) or cc) is None:
            raise UnfitError(f"no controller is called {name!r}, which {flow} has")
        return chosen

    if declared and sum(flow.get("count", 1) for flow in declared) == run.flows.height:
        base = {key: part for key, part in table.items() if key not in _LEFT_OUT}
        kept = ("duration", "sample_interval")
        base["run"] = {key: table["run"][key] for key in kept if key in table["run"]}
        base["flows"] = []
        for number, given in enumerate(declared):
            flow = {key: part for key, part in given.items() if key not in ("rtt", "route")}
            if "stack" not in flow:
                flow["cc"] = controller(flow["cc"], f"flow {number}")
                flow["ack"] = flow.get("ack", {}) | acks
            base["flows"].append(flow)
        events = [{k: v for k, v in e.items() if k != "path"} for e in table.get("events", [])]
        return base | {"events": [event for event in events if "flow" in event]}
    origin = round(begin(run) * 1e9)
    flows: list[dict[str, Any]] = []
    pauses: list[dict[str, Any]] = []
    possible = sum(one.guess * (one.end - one.begin) for one in path.stretches) / 8
    is_limited = possible > _LIMITED * float(observed.delivered[-1])
    for row in of_use(run):
        name = controller(row["cc"], f"the flow {row['label']}", row["flow"])
        flow = {"cc": name, "ack": acks}
        if row["start_ns"] > origin:
            flow["start"] = exact_time(row["start_ns"] - origin)
        if between := observed.flows[len(flows)].pauses:
            # An application that hands over all of its data at once does not pause.
            flow["stop"] = exact_time(observed.flows[len(flows)].end * 1e9)
            pauses += [
                {"when": exact_time(at * 1e9), "flow": {"flow": len(flows), "app": app}}
                for pause in between
                for at, app in zip(pause, ("pause", "resume"), strict=True)
            ]
        elif row["finish_ns"] is not None:
            flow["app"] = {"size": f"{row['goodput_bytes']} B"}
        elif row["stop_ns"] is not None:
            flow["stop"] = exact_time(row["stop_ns"] - origin)
            if is_limited:
                # When is not known; so much that another path shows, and no more.
                flow["app"] = {"size": f"{row['goodput_bytes'] * 3 // 2} B"}
        flows.append(flow)
    times = {"duration": observed.duration, "sample_interval": observed.step}
    lengths = {key: exact_time(time * 1e9) for key, time in times.items()}
    return {"run": lengths, "flows": flows, "events": pauses}


def _text(base: dict[str, Any], path: Path, model: Model) -> str:
    """Write the scenario of a path and a model."""
    stray = model.parameters.get("stray", 0.0)
    scale = (1 + stray) / (1.0 if path.is_gross else model.kept)
    if "link_bps" in model.parameters:
        scale = model.parameters["link_bps"] / max(one.guess for one in path.stretches) / model.kept
    rates = [setting("_bps", one.guess * scale) for one in path.stretches]
    rtt = setting("_ns", (path.rtt.value or 0.0) * (1 - stray) * 1e9)
    link = {"rate": rates[0], "rtt": rtt, **model.settings}
    changes = [
        {"when": exact_time(stretch.begin * 1e9), "path": {"rate": rate}}
        for stretch, rate, before in zip(path.stretches[1:], rates[1:], rates, strict=False)
        if rate != before
    ]
    back = {} if path.back is None else {"path.return": path.back.settings}
    parts = {"path": link, **back, **base, "events": [*base["events"], *changes]}
    lines = ["schema = 1"]
    for name, part in parts.items():
        for table in part if isinstance(part, list) else [part]:
            lines += ["", f"[[{name}]]" if isinstance(part, list) else f"[{name}]"]
            lines += [f"{key} = {value(each, nested=True)}" for key, each in table.items()]
    return "\n".join(lines) + "\n"
