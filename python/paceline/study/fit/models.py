"""Loss models of a path: the nearest is the one whose simulation is closest to the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline import batch, guests
from paceline.errors import ScenarioError
from paceline.quantities import quantity
from paceline.study.fit.estimates import Path
from paceline.study.fit.observed import Observed, Series, UnfitError, observe


@dataclass(frozen=True)
class Model:
    """A loss model, its parameters, and its settings in the scenario's path."""

    name: str
    #: In bytes, bit/s, seconds and shares, according to their names.
    parameters: Mapping[str, float]

    @property
    def loss(self) -> float:
        """The share of packets that is lost behind the link."""
        return self.parameters.get("loss_ratio", 0.0)

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings in a scenario's path."""
        given = self.parameters
        queue = {"size": quantity("_bytes", given["size_bytes"])}
        if self.name in _AQMS:
            target = quantity("_ns", given["target_s"] * 1e9)
            return {"queue": {"kind": self.name, **queue, "target": target}}
        found: dict[str, Any] = {"queue": queue}
        if self.name == "random":
            found["loss"] = f"{max(self.loss, 1e-6) * 100:.4f} %"
        if "link_bps" in given:
            found["rate"] = quantity("_bps", given["link_bps"] / (1 - self.loss))
        if self.name == "policer":
            found["policer"] = {
                "rate": quantity("_bps", given["police_bps"]),
                "burst": quantity("_bytes", given["burst_bytes"]),
            }
        return found

    def near(self, factor: float) -> list[Model]:
        """Return it with each parameter once larger and once smaller."""
        return [
            Model(self.name, {**self.parameters, name: self.parameters[name] * by})
            for name in _SEARCHED
            if name in self.parameters and (name != "size_bytes" or self.name not in _AQMS)
            for by in (factor, 1 / factor)
        ]


#: Disciplines that control delay, with their default targets.
_AQMS = {"codel": 0.005, "fq_codel": 0.005, "pie": 0.015}
#: The parameters that are searched; the queue of an AQM is practically unlimited.
_SEARCHED = ("size_bytes", "loss_ratio", "police_bps", "burst_bytes", "link_bps", "target_s")


@dataclass(frozen=True)
class Traits:
    """The features of a run that are compared: waits in seconds, shares as they are."""

    values: Mapping[str, float]

    def distance(self, other: Traits) -> float:
        """Return the mean of their differences, each as a share of the larger value."""
        apart = [
            abs(one - other.values[name]) / max(abs(one), abs(other.values[name]), _FLOORS[name])
            for name, one in self.values.items()
        ]
        return float(np.mean(apart))


#: Differences below these do not count.
_FLOORS = {
    "goodput": 1e3,
    "second": 1e3,
    "wait_p10": 1e-3,
    "wait_p50": 1e-3,
    "wait_p90": 1e-3,
    "wait_p99": 1e-3,
    "wait_max": 1e-3,
    "lost": 3e-4,
    "losing": 0.01,
    "bunching": 1.0,
    "at_loss_p10": 1e-3,
    "at_loss_p50": 1e-3,
    "at_loss_p90": 1e-3,
}


def traits(seen: Observed) -> Traits:
    """Return the features of a run."""
    waits = seen.waits[np.isfinite(seen.waits)]
    lost = np.diff(seen.lost)
    sent = max(float(seen.sent[-1]), 1.0)
    # Losses by the tenth of a second.
    width = max(round(0.1 / seen.step), 1)
    bins = np.add.reduceat(lost, np.arange(0, len(lost), width)) if len(lost) else np.zeros(1)
    moved, half = seen.delivered, len(seen.delivered) // 2
    values = {
        "goodput": float(moved[-1]) / seen.duration,
        "second": float(moved[-1] - moved[half]) / seen.duration * 2,
        "lost": max(float(seen.lost[-1]), 0.0) / sent,
        "losing": float(np.mean(bins > 0)),
        # 1 if each packet is lost with the same probability, more if losses are bursty.
        "bunching": float(np.var(bins) / np.mean(bins)) if bins.any() else 0.0,
    }
    _, before = before_losses(seen)
    for name, share in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9)):
        values[f"at_loss_{name}"] = float(np.quantile(before, share)) if len(before) else 0.0
    for name, share in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)):
        values[f"wait_{name}"] = float(np.quantile(waits, share))
    return Traits(values)


def before_losses(seen: Observed) -> tuple[Series, Series]:
    """Return the losses at each time of loss, and the longest wait shortly before."""
    lost = np.diff(seen.lost, prepend=seen.lost[:1])
    at = np.flatnonzero(lost > 0)
    waits = np.nan_to_num(seen.waits)
    longest = np.empty(len(at))
    for number, index in enumerate(at):
        # A lost packet left its sender an RTT earlier, and detection may take another RTT.
        back = round((seen.least + float(waits[index])) * 1.5 / seen.step) + 2
        longest[number] = waits[max(index - back, 0) : index + 1].max()
    return lost[at], longest


def calm_losses(seen: Observed, path: Path) -> int:
    """Return how often losses occurred while the queue was far below its maximum."""
    at = np.flatnonzero(np.diff(seen.lost, prepend=seen.lost[:1]) > 0)
    _, waits = before_losses(seen)
    held = waits * path.rate_at(seen.grid[at]) / 8
    return int(np.sum(held < 0.8 * path.backlog.value))


def models(seen: Observed, path: Path) -> list[Model]:
    """Return the models that may explain the losses."""
    backlog, packet = path.backlog.value, seen.packet
    size = {"size_bytes": backlog}
    if seen.lost[-1] < 1:
        # It held the backlog, and more is not known. With too low a rate more waits.
        held = 2 * path.backlog.high
        if not path.is_rate_known:
            held = max(held, float(seen.delivered[-1]))
        return [Model("none", {"size_bytes": held})]
    found = [Model("droptail", size)]
    share = float(seen.lost[-1]) / max(float(seen.sent[-1]), 1.0)
    # The queue may have dropped some of them.
    parts = [{**size, "loss_ratio": share * part} for part in (1.0, 0.5, 0.25, 0.12, 0.06)]
    if not path.is_rate_known:
        rate = max(stretch.rate.value for stretch in path.stretches)
        parts = [{**parts[0], "link_bps": rate * faster} for faster in (1.0, 2.0, 5.0)]
    found += [Model("random", part) for part in parts]
    room = max(4 * backlog, 300 * packet)
    found += [
        Model(kind, {"size_bytes": room, "target_s": target * scale})
        for kind, target in _AQMS.items()
        if kind != "fq_codel" or len(seen.flows) > 1
        for scale in (1.0, 0.4, 2.5)
    ]
    return found


def policers(seen: Observed, path: Path) -> list[Model]:
    """Return policers with the rate that losses allow, and the burst before the first loss."""
    at = np.flatnonzero(np.diff(seen.lost) > 0)
    if len(at) < 2:
        return []
    first, last = int(at[0]) + 1, len(seen.grid) - 1
    span = float(seen.grid[last] - seen.grid[first])
    if span < 1:
        return []
    rate = float(seen.delivered[last] - seen.delivered[first]) / span
    begin = int(np.argmax(seen.delivered > 0))
    time = float(seen.grid[first] - seen.grid[begin])
    burst = max(float(seen.delivered[first]) - rate * time, 10 * seen.packet)
    width = max(round(0.05 / seen.step), 1)
    fastest = float(np.max(seen.delivered[width:] - seen.delivered[:-width])) / (width * seen.step)
    link = max(fastest, 1.3 * rate)
    size = max(path.backlog.value, 200 * seen.packet)
    return [
        Model(
            "policer",
            {
                "size_bytes": size,
                "police_bps": rate * 8 * more,
                "burst_bytes": burst * larger,
                "link_bps": link * 8 * faster,
            },
        )
        for more in (1.0, 1.1, 1.25, 1.5)
        for larger in (0.5, 1.0, 2.0)
        for faster in (1.0, 2.0)
    ]


@dataclass(frozen=True)
class Judged:
    """A model, and the distance of its runs from the record."""

    model: Model
    distance: float
    #: The range of a parameter with about the same distance.
    ranges: Mapping[str, tuple[float, float]]
    #: How often it loses something while the queue is far from full.
    calm: int
    #: The data of its flows' ends.
    seen: Observed


#: Seeds with which a model that draws random numbers is run.
SEEDS = (1, 2, 3)
#: The factors by which parameters are changed, in turn, to find nearer ones.
FACTORS = (1.5, 1.2, 1.08, 1.03)
#: At this distance a model explains a record, and no policer is needed.
NEAR = 0.05
#: The number of model names that are searched.
FINALISTS = 3


def judge(
    seen: Observed,
    path: Path,
    text: Callable[[Model], str],
    progress: Callable[[int], object] | None = None,
) -> list[Judged]:
    """Simulate models and search near the best; return the best of each name, nearest first."""
    wanted = traits(seen)
    tried: dict[str, list[_Trial]] = {}
    count = 0

    def run(given: Sequence[Model]) -> None:
        nonlocal count
        for one in _simulated(wanted, path, given, text):
            tried.setdefault(one.model.name, []).append(one)
            count += 1
        if progress is not None:
            progress(count)

    first = models(seen, path)
    run(first)
    if not tried:
        raise UnfitError(f"no path carries what its flows did{_why(text(first[0]))}")
    if min(min(trials) for trials in tried.values()).distance > NEAR:
        run(policers(seen, path))
    for factor in FACTORS:
        ahead = sorted(min(trials) for trials in tried.values())[:FINALISTS]
        run([model for one in ahead for model in one.model.near(factor)])
    best = {name: _judged(trials) for name, trials in tried.items()}
    return sorted(best.values(), key=lambda one: one.distance + _handicap(one, best, seen, path))


def _why(text: str) -> str:
    """Return why a scenario cannot be run, if it cannot."""
    try:
        guests.check(text, _NAME)
    except ScenarioError as error:
        return f": {error.diagnostics[0].message}"
    return ""


def _judged(trials: Sequence[_Trial]) -> Judged:
    best = min(trials)
    near = [one.model for one in trials if one.distance <= best.distance * 1.25 + 0.005]
    ranges = {}
    for name in best.model.parameters:
        values = [model.parameters[name] for model in near]
        ranges[name] = (min(values), max(values))
    return Judged(best.model, best.distance, ranges, best.calm, best.seen)


def _handicap(one: Judged, best: Mapping[str, Judged], seen: Observed, path: Path) -> float:
    """Return the penalty of a model in addition to its distance.

    A full queue loses packets when it is full, random loss at any time: if two models are near,
    that decides.
    """
    full = best.get("droptail")
    if one.model.name == "policer":
        return 0.03  # With three parameters it explains much that it did not cause.
    if full is None or one.model.name not in ("droptail", "random"):
        return 0.0
    beyond = calm_losses(seen, path) > full.calm + 2 + 2 * np.sqrt(full.calm)
    return 0.05 if beyond == (one.model.name == "droptail") else 0.0


@dataclass(frozen=True)
class _Trial:
    """The features of a model's runs."""

    model: Model
    distance: float
    calm: int
    seen: Observed

    def __lt__(self, other: _Trial) -> bool:
        return self.distance < other.distance


#: The name of a model's scenario in errors.
_NAME = "fitted.toml"


def _simulated(
    wanted: Traits, path: Path, models: Sequence[Model], text: Callable[[Model], str]
) -> list[_Trial]:
    jobs = [
        (number, batch.Job(text(model), (), seed, "sim", _NAME, 1))
        for number, model in enumerate(models)
        # A parameter may be beyond the limits of a scenario.
        if not _why(text(model))
        for seed in (SEEDS if model.name in ("random", "pie") else SEEDS[:1])
    ]
    found: dict[int, list[tuple[int, float, int, Observed]]] = {}

    class Heard(batch.Watch):
        def finished(self, number: int, outcome: batch.Outcome) -> None:
            seen = outcome.kept
            if not seen.has_waits:
                return  # Nothing crossed such a path.
            one = (number, wanted.distance(traits(seen)), calm_losses(seen, path), seen)
            found.setdefault(jobs[number][0], []).append(one)

    batch.execute([job for _, job in jobs], lambda _, __, run: observe(run), watch=Heard())
    trials = []
    for number, runs in sorted(found.items()):
        _, _, calm, first = min(runs, key=lambda each: each[0])
        apart = float(np.mean([apart for _, apart, _, _ in runs]))
        trials.append(_Trial(models[number], apart, calm, first))
    return trials
