"""Estimates the path of a record, and simulates it to test the estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from paceline import _paceline
from paceline.grid import toml as value
from paceline.quantities import quantity
from paceline.reading import toml
from paceline.runs import Run
from paceline.study.fit.estimates import Estimate, Path, estimate
from paceline.study.fit.models import Judged, Model, judge
from paceline.study.fit.observed import Observed, UnfitError, observe, of_use

__all__ = ["Estimate", "Fit", "Judged", "Model", "Path", "UnfitError", "fit", "observe"]


@dataclass(frozen=True)
class Fit:
    """A path, its loss model, and the models that were tried, the nearest first."""

    seen: Observed
    path: Path
    judged: list[Judged]
    #: The scenario with the nearest model.
    text: str

    @property
    def size(self) -> Estimate:
        """The capacity of the queue in bytes: a bound if it was never full."""
        if self.judged[0].model.name == "droptail":
            return self.path.backlog
        least = self.path.backlog.low
        return Estimate(least, least, inf)

    @property
    def notes(self) -> list[str]:
        """The notes needed to read the estimates."""
        best, *others = self.judged
        said = []
        if not self.path.is_rate_known:
            said.append(
                "The link was not busy for long enough to tell its rate: it is at least what it "
                "carried."
            )
        if best.model.name == "none":
            said.append("Nothing was lost: what the path does when its queue is full is not known.")
        elif best.model.name != "droptail":
            said.append("The queue was never seen full: its size is at least what it held.")
        if others and others[0].distance < 1.5 * best.distance + 0.01:
            said.append(
                f"Losses of the kind {others[0].model.name!r} would explain the record about as "
                "well."
            )
        if best.distance > POOR:
            said.append(
                "No model is near the record: the path does something that none of them does, or "
                "its flows did."
            )
        return said


#: At this distance or more a model does not explain a record.
POOR = 0.25
#: Sections of a scenario that do not concern its flows.
_LEFT_OUT = ("about", "source", "name", "path", "links", "expect", "sweep", "schema", "variants")


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
    if not seen.has_waits:
        raise UnfitError("no flow of it has both data and RTTs")
    path = estimate(seen)
    base = _base(run, seen, cc)

    def text(model: Model) -> str:
        return _text(base, path, model)

    judged = judge(seen, path, text, progress)
    return Fit(seen, path, judged, text(judged[0].model))


#: The nearest equivalents of Linux's controllers.
_LINUX = {"bbr": "bbr1", "cubic": "cubic-linux"}
#: Its receivers acknowledge the end of a burst at once, and hold back the ACKs of one gap.
_LINUX_ACKS = {"pushed": True, "comp_sack_delay": "1 ms"}


def _base(run: Run, seen: Observed, cc: str | None) -> dict[str, Any]:
    try:
        return _flows(run, seen, cc)
    except UnfitError:
        raise
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise UnfitError("its scenario.toml is not a scenario") from error


def _flows(run: Run, seen: Observed, cc: str | None) -> dict[str, Any]:
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
    for row in of_use(run):
        name = controller(row["cc"], f"the flow {row['label']}")
        flow = {"cc": name, "start": f"{row['start_ns']} ns", "ack": acks}
        if row["finish_ns"] is not None:
            flow["app"] = {"size": f"{row['goodput_bytes']} B"}
        elif row["stop_ns"] is not None:
            flow["stop"] = f"{row['stop_ns']} ns"
        flows.append(flow)
    times = {"duration": seen.duration, "sample_interval": seen.step}
    return {
        "run": {key: f"{round(time * 1e9)} ns" for key, time in times.items()},
        "flows": flows,
        "events": [],
    }


def _text(base: dict[str, Any], path: Path, model: Model) -> str:
    """Write the scenario of a path and a model."""
    kept = 1 - model.loss
    rates = [quantity("_bps", stretch.rate.value / kept) for stretch in path.stretches]
    link = {"rate": rates[0], "rtt": quantity("_ns", path.rtt.value * 1e9), **model.settings}
    changes = [
        {"when": quantity("_ns", stretch.begin * 1e9), "path": {"rate": rate}}
        for stretch, rate in zip(path.stretches[1:], rates[1:], strict=True)
    ]
    parts = {"path": link, **base, "events": [*base["events"], *changes]}
    lines = ["schema = 1"]
    for name, part in parts.items():
        for table in part if isinstance(part, list) else [part]:
            lines += ["", f"[[{name}]]" if isinstance(part, list) else f"[{name}]"]
            lines += [f"{key} = {value(each, nested=True)}" for key, each in table.items()]
    return "\n".join(lines) + "\n"
