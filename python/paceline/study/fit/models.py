"""Loss models of a path: the nearest is the one whose simulation is closest to the record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from paceline import batch, guests
from paceline.errors import ScenarioError
from paceline.later import numpy as np
from paceline.quantities import setting
from paceline.study.fit import parameters
from paceline.study.fit.estimates import Estimate, Path
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
    def kept(self) -> float:
        """The share of packets that arrives, of those that left the link."""
        return 1 - min(self.loss, 0.99)

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings in a scenario's path."""
        given = self.parameters
        queue = {"size": setting("_bytes", given["size_bytes"])}
        if self.name in _AQMS:
            target = setting("_ns", given["target_s"] * 1e9)
            return {"queue": {"kind": self.name, **queue, "target": target}}
        settings: dict[str, Any] = {"queue": queue}
        if self.loss:
            settings["loss"] = f"{max(self.loss, 1e-6) * 100:.4f} %"
        if self.name == "policer":
            settings["policer"] = {
                "rate": setting("_bps", given["police_bps"]),
                "burst": setting("_bytes", given["burst_bytes"]),
            }
        return settings

    def near(self, factor: float) -> list[Model]:
        """Return it with each parameter once larger and once smaller."""
        return [
            Model(self.name, {**self.parameters, name: self.parameters[name] * by})
            for name in _SEARCHED
            if name in self.parameters
            for by in (factor, 1 / factor)
        ]


#: Disciplines that control delay, with their default targets.
_AQMS = {"codel": 0.005, "fq_codel": 0.005, "pie": 0.015}
#: The parameters that the record does not show by itself.
_SEARCHED = ("link_bps", "target_s", "burst_bytes")


@dataclass(frozen=True)
class Traits:
    """The features of a run that are compared: waits in seconds, shares as they are."""

    values: Mapping[str, float]

    def distance(self, other: Traits) -> float:
        """Return the mean of their differences, each as a share of the larger value.

        What one of them does not know is not compared.
        """
        both = {n: (one, other.values[n]) for n, one in self.values.items() if n in other.values}
        apart = [abs(a - b) / max(abs(a), abs(b), _FLOORS[name]) for name, (a, b) in both.items()]
        return float(np.mean(apart))


#: Differences below these do not count.
_FLOORS = {"goodput": 1e3, "second": 1e3, "lost": 3e-4, "losing": 0.01, "bunching": 1.0}
_FLOORS |= {f"wait_{name}": 1e-3 for name in ("p10", "p50", "p90", "p99", "max")}
_FLOORS |= {f"at_loss_{name}": 1e-3 for name in ("p10", "p50", "p90")}


def traits(observed: Observed) -> Traits:
    """Return the features of a run that were observed."""
    moved, half = observed.delivered, len(observed.delivered) // 2
    values = {
        "goodput": float(moved[-1]) / observed.duration,
        "second": float(moved[-1] - moved[half]) / observed.duration * 2,
    }
    ratio = observed.lost_ratio
    if observed.lost is not None and ratio is not None:
        lost = np.diff(observed.lost)
        # Losses by the tenth of a second.
        width = max(round(0.1 / observed.step), 1)
        bins = np.add.reduceat(lost, np.arange(0, len(lost), width)) if len(lost) else np.zeros(1)
        values |= {
            "lost": ratio,
            "losing": float(np.mean(bins > 0)),
            # 1 if each packet is lost with the same probability, more if losses are bursty.
            "bunching": float(np.var(bins) / np.mean(bins)) if bins.any() else 0.0,
        }
    waits = observed.waits[np.isfinite(observed.waits)]
    if not len(waits):
        return Traits(values)
    shares = (("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
    for (name, _), wait in zip(shares, np.quantile(waits, [s for _, s in shares]), strict=True):
        values[f"wait_{name}"] = float(wait)
    if observed.lost is not None:
        before = before_losses(observed, observed.lost)
        for name, share in shares[:3]:
            values[f"at_loss_{name}"] = float(np.quantile(before, share)) if len(before) else 0.0
    return Traits(values)


def before_losses(observed: Observed, lost: Series) -> Series:
    """Return the longest wait shortly before each time of loss."""
    at = np.flatnonzero(np.diff(lost, prepend=lost[:1]) > 0)
    waits = np.nan_to_num(observed.waits)
    longest = np.empty(len(at))
    for number, index in enumerate(at):
        # A lost packet left its sender an RTT earlier, and detection may take another RTT.
        back = round(((observed.least or 0.0) + float(waits[index])) * 1.5 / observed.step) + 2
        longest[number] = np.max(waits[max(index - back, 0) : index + 1])
    return longest


def calm_losses(observed: Observed, path: Path) -> int:
    """Return how often losses occurred while the queue was far from full."""
    if observed.lost is None:
        return 0
    return int(((np.diff(observed.lost, prepend=0.0) > 0) & parameters.calm(observed, path)).sum())


def models(observed: Observed, path: Path) -> list[Model]:
    """Return the models that may explain the losses."""
    packet = observed.packet
    fastest = max(stretch.guess for stretch in path.stretches)
    bdp = fastest * (path.rtt.value or 0.0) / 8
    backlog = path.backlog.value
    if observed.losses == 0:
        # Its capacity is at least the backlog; more is not known. With too low a rate more waits.
        capacity = 2 * max(backlog or bdp, path.backlog.high or 0.0)
        if not path.is_rate_known:
            capacity = max(capacity, float(observed.delivered[-1]))
        return [Model("none", {"size_bytes": max(capacity, 10 * packet)})]
    # A queue that was never observed may have any size.
    sizes = [backlog] if backlog else [bdp * part for part in (0.5, 1, 2, 4)]
    if path.back is not None and backlog:
        # ACKs wait for a part of each RTT, and longer at times: the queue may also be smaller.
        most = max(backlog - path.back.wait * fastest / 8, 0.0)
        sizes = [most * share for share in (1.0, 0.5, 0.25)]
    sizes = [max(size, 2 * packet) for size in sizes]
    candidates = [Model("droptail", {"size_bytes": size}) for size in sizes]
    room = max(4 * sizes[-1], 300 * packet)
    share = parameters.probability(observed, np.ones(len(observed.grid), bool)).value
    if share:
        links: list[dict[str, float]] = [{}]
        if not path.is_rate_known:
            links = [{"link_bps": fastest * faster} for faster in (1.0, 2.0, 5.0)]
        # It never became full, whatever its capacity.
        capacity = max(room, float(observed.delivered[-1]) / 4)
        one = {"size_bytes": capacity, "loss_ratio": share}
        candidates += [Model("random", {**one, **link}) for link in links]
        calm = parameters.probability(observed, parameters.calm(observed, path)).value
        if calm and backlog:
            candidates.append(Model(BOTH, {"size_bytes": sizes[0], "loss_ratio": calm}))
    return candidates


def aqms(observed: Observed, path: Path) -> list[Model]:
    """Return queues that control delay, with room for whatever came."""
    room = max(4 * (path.backlog.value or 0.0), 300 * observed.packet)
    return [
        Model(kind, {"size_bytes": room, "target_s": target * scale})
        for kind, target in _AQMS.items()
        if kind != "fq_codel" or len(observed.flows) > 1
        for scale in (1.0, 0.4, 2.5)
    ]


#: A full queue loses packets, and others are lost at random.
BOTH = "droptail+random"


def policers(observed: Observed, path: Path) -> list[Model]:
    """Return policers with the rate and the burst that losses allow, before links of any rate."""
    policer = parameters.policer(observed, path)
    if policer is None:
        return []
    rate, burst = policer[0].value or 0.0, policer[1].value or 0.0
    fastest = max(max(stretch.guess for stretch in path.stretches), 1.3 * rate)
    size = max(path.backlog.value or 0.0, 200 * observed.packet)
    one = {"size_bytes": size, "police_bps": rate, "burst_bytes": burst}
    return [Model("policer", {**one, "link_bps": fastest * faster}) for faster in (1.0, 1.5, 3.0)]


@dataclass(frozen=True)
class Judged:
    """A model, and the distance of its runs from the record."""

    model: Model
    distance: float
    #: How often it loses something while the queue is far from full.
    calm: int
    #: The data of its flows' ends.
    observed: Observed
    #: The distance of its runs with different seeds from each other.
    spread: float = 0.0

    @property
    def is_near(self) -> bool:
        """Whether it explains the record: of few losses each seed has others."""
        return self.distance <= max(POOR, 1.5 * self.spread)

    def __lt__(self, other: Judged) -> bool:
        return self.distance < other.distance


#: Seeds with which a model that draws random numbers is run.
SEEDS = (1, 2, 3)
#: At a larger distance a model does not explain a record.
POOR = 0.25
#: The factors by which parameters are changed, in turn, to find nearer ones.
FACTORS = (1.5, 1.2, 1.08)
#: At this distance a model explains a record, and none with more parameters is needed.
NEAR = 0.05
#: The number of model names that are searched.
FINALISTS = 2


@dataclass
class Judge:
    """Simulates models of a path, and compares them with the record."""

    observed: Observed
    path: Path
    text: Callable[[Model], str]
    progress: Callable[[int], object] | None = None
    count: int = 0
    threads: int | None = None

    def judged(self) -> list[Judged]:
        """Simulate models and search near the best; return the best of each name, nearest first."""
        observed, path = self.observed, self.path
        best: dict[str, Judged] = {}

        def run(given: Sequence[Model]) -> None:
            for one in self.run(given):
                name = one.model.name
                best[name] = min(best.get(name, one), one)

        first = models(observed, path)
        run(first)
        if not best:
            raise UnfitError(f"no path carries what its flows did{_why(self.text(first[0]))}")
        for more in (aqms, policers):
            if observed.losses != 0 and min(best.values()).distance > NEAR:
                run(more(observed, path))
        for factor in FACTORS:
            ahead = sorted(best.values())[:FINALISTS]
            run([model for one in ahead for model in one.model.near(factor)])
        return sorted(best.values(), key=lambda one: one.distance + self._handicap(one, best))

    def _handicap(self, one: Judged, best: Mapping[str, Judged]) -> float:
        """Return the penalty of a model in addition to its distance.

        A full queue loses packets when it is full, random loss at any time: if models are near,
        that decides.
        """
        name = one.model.name
        if name == "policer":
            return 0.03  # With three parameters it explains much that it did not cause.
        if name in _AQMS and not self.observed.has_waits:
            return 0.05  # The delay that it controls is not measured.
        full = best.get("droptail")
        if full is None or name not in ("droptail", "random", BOTH):
            return 0.0
        by_chance = calm_losses(self.observed, self.path) > full.calm + 2 + 2 * np.sqrt(full.calm)
        calm = parameters.calm(self.observed, self.path)
        chance = parameters.probability(self.observed, calm).value
        by_queue = parameters.overflows(self.observed, self.path, chance or 0.0)
        likely = (BOTH if by_queue else "random") if by_chance else "droptail"
        return 0.0 if name == likely else 0.1

    def target(self, best: Model) -> Estimate:
        """Return the target of an AQM: what gives the waits of the record, or its losses.

        Indirect inference (Gouriéroux, Monfort and Renault 1993): runs with targets around the
        best say how a statistic follows the target and how far it strays. Their paths differ by a
        few tenths of a percent, so that losses fall elsewhere. The most precise statistic counts.
        """
        value, target = best.parameters["target_s"], _statistics(self.observed)
        if not self.observed.has_waits:
            return Estimate(None, why="without RTTs no wait is seen")
        for _ in range(ROUNDS):
            given = [
                Model(best.name, {**best.parameters, "target_s": value * factor, "stray": stray})
                for factor in TARGETS
                for stray in STRAYS
            ]
            runs = self.run(given, seeds=SEEDS[:1])
            if len(runs) < len(given) - 2:
                return Estimate(None, why="too few paths with near targets can be simulated")
            targets = np.log([one.model.parameters["target_s"] for one in runs])
            statistics = [_statistics(one.observed) for one in runs]
            known = [name for name in target if all(name in one for one in statistics)]
            logs = {name: np.log([one[name] for one in statistics]) for name in known}
            inverted = [_inverted(targets, logs[name], math.log(target[name])) for name in known]
            middle, off = min(inverted, key=lambda one: one[1], default=(0.0, math.inf))
            if off > WIDEST:
                return Estimate(None, why="neither waits nor losses depend on it enough")
            middle, apart = math.exp(middle), math.exp(off)
            if TARGETS[0] <= middle / value <= TARGETS[-1]:
                slowest = min(stretch.guess for stretch in self.path.stretches)
                if middle / apart < 2 * self.observed.packet * 8 / slowest:
                    why = "it makes no difference below the time that two packets take to leave"
                    return Estimate(middle, None, middle * apart, why)
                return Estimate(middle, middle / apart, middle * apart)
            value *= min(max(middle / value, TARGETS[0] ** 2), TARGETS[-1] ** 2)
        return Estimate(None, why="no target gives such waits and losses")

    def run(self, models: Sequence[Model], seeds: Sequence[int] = ()) -> list[Judged]:
        """Simulate models; return those that can be run and under which something arrives."""
        target = traits(self.observed)
        jobs = []
        for number, model in enumerate(models):
            text = self.text(model)
            # A parameter may be beyond the limits of a scenario.
            if _why(text):
                continue
            drawn = "loss_ratio" in model.parameters or model.name == "pie"
            for seed in seeds or (SEEDS if drawn else SEEDS[:1]):
                jobs.append((number, batch.Job(text, (), seed, "sim", _NAME, 1)))
        runs = batch.outcomes(
            [job for _, job in jobs], lambda _, __, run: observe(run), threads=self.threads
        )
        by_model: dict[int, list[Observed]] = {}
        for (number, _), outcome in zip(jobs, runs, strict=True):
            if outcome.kept.has_waits:  # Otherwise nothing crossed such a path.
                by_model.setdefault(number, []).append(outcome.kept)
        self.count += len(jobs)
        if self.progress is not None:
            self.progress(self.count)
        judged = []
        for number, each in sorted(by_model.items()):
            features = [traits(observed) for observed in each]
            apart = float(np.mean([target.distance(one) for one in features]))
            pairs = [one.distance(other) for one, other in combinations(features, 2)]
            spread = float(np.mean(pairs)) if pairs else 0.0
            calm = calm_losses(each[0], self.path)
            judged.append(Judged(models[number], apart, calm, each[0], spread))
        return judged


#: Targets around the best with which waits are compared, and by how much rate and RTT are off.
TARGETS = (0.65, 1.0, 1.5)
STRAYS = (-0.003, 0.0, 0.003)
#: How often the targets are moved to where the wait is that of the record.
ROUNDS = 2
#: Student's t of a 95 % interval with as many runs less two, where the best of some is taken.
STUDENT = 3.0
#: The flows of a record are not quite those that are simulated: without this factor 12 of 17 drawn
#: targets are inside the interval.
MODEL_ERROR = 2.5
#: A wider interval, as a logarithm, is none.
WIDEST = 1.2


def _inverted(targets: Series, logs: Series, target: float) -> tuple[float, float]:
    """Return the target at which a statistic has a value, and half of the interval; logarithms."""
    slope, at = np.polyfit(targets, logs, 1)
    rest = logs - (slope * targets + at)
    stray = float(np.sqrt(rest @ rest / (len(logs) - 2)))
    if abs(slope) < 1e-3:
        return 0.0, math.inf
    half = MODEL_ERROR * STUDENT * max(stray, 0.01) * math.sqrt(1 + 1 / len(logs)) / abs(slope)
    return float((target - at) / slope), half


def _statistics(observed: Observed) -> dict[str, float]:
    """Return waits when flows have started, since a queue fills in another way at first; losses."""
    waits = observed.waits[len(observed.waits) // 3 :]
    waits = waits[np.isfinite(waits)]
    statistics = {"lost": observed.lost_ratio or 0.0}
    if len(waits):
        statistics["mean"] = float(np.mean(waits))
        for share in (0.5, 0.9, 0.99):
            statistics[f"p{share}"] = float(np.quantile(waits, share))
    return {name: value for name, value in statistics.items() if value > 0}


def _why(text: str) -> str:
    """Return why a scenario cannot be run, if it cannot."""
    try:
        guests.check(text, _NAME)
    except ScenarioError as error:
        return f": {error.diagnostics[0].message}"
    return ""


#: The name of a model's scenario in errors.
_NAME = "fitted.toml"
