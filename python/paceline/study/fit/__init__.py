"""Estimates the path of a record, and simulates it to test the estimate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from paceline import _paceline
from paceline.grid import toml as value
from paceline.quantities import quantity
from paceline.reading import toml
from paceline.runs import Run
from paceline.study.fit import parameters
from paceline.study.fit.estimates import Estimate, Path, Stretch, estimate
from paceline.study.fit.models import BOTH, Judge, Judged, Model
from paceline.study.fit.observed import Observed, UnfitError, observe, of_use

__all__ = ["LABELS", "Estimate", "Fit", "Judged", "Model", "Path", "UnfitError", "fit", "observe"]


@dataclass(frozen=True)
class Fit:
    """A path, its loss model, and the models that were tried, the nearest first."""

    seen: Observed
    path: Path
    judged: list[Judged]
    #: The parameters of the nearest model, by their names.
    parameters: dict[str, Estimate]
    #: The scenario with the nearest model.
    text: str

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
        said = []
        for name, one in self._estimates():
            if one.why and (one.high is None or one.low is None):
                said.append(f"Of the {name} no interval is given: {one.why}.")
        if best.model.name == "none":
            said.append("Nothing was lost: what the path does when its queue is full is not known.")
        if others and others[0].distance < 1.5 * best.distance + 0.01:
            said.append(
                f"Losses of the kind {others[0].model.name!r} would explain the record about as "
                "well."
            )
        if best.distance > POOR:
            said.append(
                "No model reproduces this recording: do not rely on the path that was fitted."
            )
        return said

    def _estimates(self) -> list[tuple[str, Estimate]]:
        rates = [stretch.rate for stretch in self.stretches]
        unknown = next((rate for rate in rates if rate.high is None), rates[0])
        every = [("rate", unknown), ("base RTT", self.rtt), ("queue", self.size)]
        words = {key: LABELS[key] for key in self.parameters if key in LABELS}
        return every + [(word, self.parameters[key]) for key, word in words.items()]


#: What the parameters of models are called.
LABELS = {
    "loss_ratio": "probability",
    "police_bps": "policer's rate",
    "burst_bytes": "policer's burst",
    "target_s": "target",
}
#: At this distance or more a model does not explain a record.
POOR = 0.25
#: Sections of a scenario that do not concern its flows.
_LEFT_OUT = ("about", "source", "name", "path", "links", "expect", "sweep", "schema", "variants")
#: Only a link this many times faster than a policer is seen to be one.
_FASTER = 1.2
#: A recorded flow that could have sent this many times its data was limited by its application.
_LIMITED = 3


def fit(
    run: Run,
    *,
    cc: str | None = None,
    progress: Callable[[int], object] | None = None,
) -> Fit:
    """Estimate the path on which a record was taken.

    Flows whose controller is not known run with `cc`. Raises `UnfitError` for a record that says
    nothing of its path, or whose own scenario is none.
    """
    seen = observe(run)
    if not seen.flows or not (seen.has_waits or seen.arrivals):
        raise UnfitError("no flow of it has both data and RTTs")
    path = estimate(seen)
    base = _base(run, seen, path, cc)

    def text(model: Model) -> str:
        return _text(base, path, model)

    judge = Judge(seen, path, text, progress)
    judged = judge.judged()
    best = judged[0].model
    return Fit(seen, path, judged, _parameters(judge, best), text(best))


def _parameters(judge: Judge, best: Model) -> dict[str, Estimate]:
    """Return the parameters of a model with their intervals."""
    seen, path = judge.seen, judge.path
    backlog = path.backlog
    found = {"size_bytes": backlog}
    if best.name not in ("droptail", BOTH) and backlog.value is not None:
        found["size_bytes"] = Estimate(
            backlog.low, backlog.low, None, "the queue was never seen full"
        )
    if "loss_ratio" in best.parameters:
        calm = parameters.calm(seen, path)
        found["loss_ratio"] = parameters.probability(seen, calm | (best.name != BOTH))
    if best.name == "policer":
        found["police_bps"], found["burst_bytes"] = parameters.policer(seen, path) or (
            Estimate(best.parameters["police_bps"]),
            Estimate(best.parameters["burst_bytes"]),
        )
    if "target_s" in best.parameters:
        found["target_s"] = judge.target(best)
    if "link_bps" in best.parameters:
        why = "nothing keeps it busy"
        found["link_bps"] = Estimate(
            best.parameters["link_bps"], path.stretches[0].rate.low, why=why
        )
    return found


def _gross(rate: Estimate, share: Estimate) -> Estimate:
    """Return the rate of a link behind which a share of its packets is lost."""
    value, low, high = share.value or 0.0, share.low or 0.0, share.high or 0.0
    if rate.value is None or rate.low is None or rate.high is None:
        return Estimate(
            None if rate.value is None else rate.value / (1 - low),
            None if rate.low is None else rate.low / (1 - low),
            None,
            rate.why,
        )
    middle = rate.value / (1 - value)
    below = math.hypot(1 - rate.low / rate.value, (value - low) / (1 - value))
    above = math.hypot(rate.high / rate.value - 1, (high - value) / (1 - value))
    return Estimate(middle, middle * (1 - below), middle * (1 + above))


def _beyond(stretch: Stretch, police: float) -> Stretch:
    """Return the rate of the link behind a policer, which is only seen in bursts."""
    rate = stretch.rate
    if rate.high is not None and stretch.guess > _FASTER * police:
        return stretch
    why = "a policer keeps the flows below it"
    least = rate.low if rate.high is None else police
    return replace(stretch, rate=Estimate(least, least, None, why))


#: The nearest equivalents of Linux's controllers.
_LINUX = {"bbr": "bbr1", "cubic": "cubic-linux"}
#: Its receivers acknowledge the end of a burst at once, and hold back the ACKs of one gap.
_LINUX_ACKS = {"pushed": True, "comp_sack_delay": "1 ms"}


def _base(run: Run, seen: Observed, path: Path, cc: str | None) -> dict[str, Any]:
    try:
        return _flows(run, seen, path, cc)
    except UnfitError:
        raise
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise UnfitError("its scenario.toml is not a scenario") from error


def _flows(run: Run, seen: Observed, path: Path, cc: str | None) -> dict[str, Any]:
    """Return the scenario of a record without its path."""
    table = toml(run.scenario_toml)
    declared = table.get("flows", [])
    known = {row["name"] for row in _paceline.controllers()}
    is_linux = run.backend != "sim"
    acks = _LINUX_ACKS if is_linux else {}

    def controller(given: Any, flow: str) -> Any:
        name = given["name"] if isinstance(given, dict) else given
        if is_linux and name in _LINUX:
            return _LINUX[name]
        if name in known:
            return given
        if cc is None:
            raise UnfitError(f"no controller is called {name!r}, which {flow} has")
        return cc

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
    flows = []
    possible = sum(one.guess * (one.end - one.begin) for one in path.stretches) / 8
    is_limited = possible > _LIMITED * float(seen.delivered[-1])
    for row in of_use(run):
        name = controller(row["cc"], f"the flow {row['label']}")
        flow = {"cc": name, "start": f"{row['start_ns']} ns", "ack": acks}
        if row["finish_ns"] is not None:
            flow["app"] = {"size": f"{row['goodput_bytes']} B"}
        elif row["stop_ns"] is not None:
            flow["stop"] = f"{row['stop_ns']} ns"
            if is_limited:
                # When is not known; so much that another path shows, and no more.
                flow["app"] = {"size": f"{row['goodput_bytes'] * 3 // 2} B"}
        flows.append(flow)
    times = {"duration": seen.duration, "sample_interval": seen.step}
    return {
        "run": {key: f"{round(time * 1e9)} ns" for key, time in times.items()},
        "flows": flows,
        "events": [],
    }


def _text(base: dict[str, Any], path: Path, model: Model) -> str:
    """Write the scenario of a path and a model."""
    kept = 1.0 if path.is_gross else model.kept
    stray = model.parameters.get("stray", 0.0)
    rates = [quantity("_bps", one.guess / kept * (1 + stray)) for one in path.stretches]
    rtt = quantity("_ns", (path.rtt.value or 0.0) * (1 - stray) * 1e9)
    link = {"rate": rates[0], "rtt": rtt, **model.settings}
    changes = [
        {"when": quantity("_ns", stretch.begin * 1e9), "path": {"rate": rate}}
        for stretch, rate, before in zip(path.stretches[1:], rates[1:], rates, strict=False)
        if rate != before
    ]
    parts = {"path": link, **base, "events": [*base["events"], *changes]}
    lines = ["schema = 1"]
    for name, part in parts.items():
        for table in part if isinstance(part, list) else [part]:
            lines += ["", f"[[{name}]]" if isinstance(part, list) else f"[{name}]"]
            lines += [f"{key} = {value(each, nested=True)}" for key, each in table.items()]
    return "\n".join(lines) + "\n"
