"""How well `paceline fit` finds paths that were drawn at random, and how often its intervals hold.

    python tests/fitting.py [--own 40] [--captured 60] [--emulated 0] [--seed 101] [--write]

Every seed is a path: a rate of 4 to 100 Mbit/s (in a quarter of them changed after 10 s), an RTT of
10 to 120 ms, a buffer of 0.3 to 4 BDP or an AQM with half to twice its default target, random loss
of 0.05 to 2 %, with a buffer that never fills or with one of 0.3 to 1 BDP, or a policer at 30 to
70 % of the rate; and one or two flows, for 20 s. None is left out. Of a path on which nothing was
lost, that is what fit has to say.

A captured record is the same with at most 40 Mbit/s, written as a capture at the sender or the
receiver, with or without merged segments and timestamps, with receivers that acknowledge each
packet, every second one, or as Linux does, and then imported.

An interval counts where there is one, and a bound as a bound. A parameter of a loss model counts
where the model is right. `--write` puts the table into the guide.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

import paceline
from captures import Capture
from paceline import grid
from paceline.study import fit as study

#: Before and after a change of the rate.
TIMES = (5.0, 15.0)
#: Models of loss, the common ones more often.
KINDS = (
    "droptail",
    "droptail",
    "random",
    "random",
    "droptail+random",
    "policer",
    "codel",
    "fq_codel",
    "pie",
)
TARGETS = {"codel": 5e-3, "fq_codel": 5e-3, "pie": 15e-3}
#: What a receiver's ACKs are like.
ACKS: Sequence[Any] = ({}, {}, {"every": "1 packet"}, "linux")


@dataclass(frozen=True)
class Drawn:
    """A path, and what is to be found."""

    kind: str
    rates: Sequence[float]
    rtt: float
    size: float
    text: str
    cc: str
    #: The parameters of its losses, by their names in the answer.
    parameters: dict[str, float] = field(default_factory=dict)


#: What flows have in the simulator.
CONTROLLERS = ("cubic", "bbr3", "reno")


def draw(seed: int, controllers: Sequence[str] = CONTROLLERS, *, captured: bool = False) -> Drawn:
    """Draw a path with one or two flows."""
    rng = random.Random(seed if not captured else f"captured {seed}")

    def between(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    rate = between(4e6, 40e6 if captured else 100e6)
    rtt = round(between(10e-3, 120e-3), 5)
    kind = rng.choice(KINDS)
    bdp = rate * rtt / 8
    size = max(round(between(0.3, 1 if kind == "droptail+random" else 4) * bdp), 15_000)
    queue: dict[str, Any] = {"size": f"{size} B"}
    parameters = {}
    if kind in TARGETS:
        target = round(TARGETS[kind] * between(0.5, 2) * 1e6)
        room = max(round(8 * bdp), 300_000)
        queue = {"kind": kind, "size": f"{room} B", "target": f"{target} us"}
        parameters["target_s"] = target / 1e6
    path: dict[str, Any] = {"rate": _rate(rate), "rtt": f"{rtt * 1e3:.2f} ms", "queue": queue}
    if kind == "random":
        # It never becomes full, not even by a slow start without a loss.
        size = 100_000_000
        path["queue"] = {"size": f"{size} B"}
    if "random" in kind:
        loss = round(between(0.05, 2), 3)
        path["loss"] = f"{loss} %"
        parameters["loss_ratio"] = loss / 100
    if kind == "policer":
        burst, police = round(between(0.5, 4) * bdp) + 15_000, rate * rng.uniform(0.3, 0.7)
        path["policer"] = {"rate": _rate(police), "burst": f"{burst} B"}
        parameters |= {"police_bps": police, "burst_bytes": float(burst)}
    flow: dict[str, Any] = {"cc": rng.choice(controllers)}
    if captured:
        flow["ack"] = rng.choice(ACKS)
    flows = [flow]
    if rng.random() < 0.5:
        other = flow["cc"] if captured else rng.choice(controllers)
        flows.append({**flow, "cc": other, "start": f"{rng.uniform(0.5, 3):.2f} s"})
    if kind == "fq_codel" and len(flows) == 1:
        kind = "codel"  # No end sees a difference.
    rates, events = [rate], []
    if rng.random() < 0.25:
        rates.append(rate * rng.choice([0.4, 0.6, 1.7]))
        events.append({"when": "10 s", "path": {"rate": _rate(rates[1])}})
    lines = ["schema = 1"]
    for name, tables in (
        ("run", {"duration": "20 s", **({"record": {"packets": True}} if captured else {})}),
        ("path", path),
        ("flows", flows),
        ("events", events),
    ):
        for table in tables if isinstance(tables, list) else [tables]:
            lines.append(f"[[{name}]]" if isinstance(tables, list) else f"[{name}]")
            lines += [f"{key} = {grid.toml(value, nested=True)}" for key, value in table.items()]
    text = "\n".join(lines) + "\n"
    return Drawn(kind, rates, rtt, size, text, flow["cc"], parameters)


def _rate(value: float) -> str:
    return f"{value / 1e6:.3f} Mbit/s"


def capture(seed: int, drawn: Drawn) -> tuple[paceline.Run, Capture]:
    """Run a path, capture its packets at one end, and read the capture."""
    how = Capture(
        end=("sender", "receiver")[seed % 2],
        merged=seed // 2 % 2 == 1,
        timestamps=seed // 4 % 2 == 1,
        opened=seed % 5 != 0,
    )
    text = drawn.text
    if not how.timestamps:
        # A segment fills its packet.
        text = text.replace("[[flows]]", '[[flows]]\nheader = "40 B"')
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        place = Path(folder) / "run.pcap"
        how.write(paceline.run(text, seed=seed), place)
        return paceline.Run.capture(place), how


@dataclass(frozen=True)
class Compared:
    """An estimate of one parameter, and the truth."""

    name: str
    truth: float
    estimate: study.Estimate

    @property
    def is_interval(self) -> bool:
        """Whether it has both bounds."""
        return self.estimate.low is not None and self.estimate.high is not None

    @property
    def holds(self) -> bool:
        """Whether the truth is within the bounds that there are."""
        low, high = self.estimate.low, self.estimate.high
        # Scenarios have four digits.
        low = -math.inf if low is None else low * (1 - 1e-9)
        high = math.inf if high is None else high * (1 + 1e-9)
        return low <= self.truth <= high

    @property
    def width(self) -> float:
        """The interval as a share of the truth."""
        assert self.estimate.low is not None
        assert self.estimate.high is not None
        return (self.estimate.high - self.estimate.low) / self.truth

    def __str__(self) -> str:
        one = self.estimate
        sides = (
            (b / self.truth - 1) * 100 if b is not None else math.nan
            for b in (one.low, one.value, one.high)
        )
        low, value, high = (f"{side:+.2f}" if math.isfinite(side) else "?" for side in sides)
        return f"{self.name} {low} [{value}] {high}%{'' if self.holds else ' OUTSIDE'}"


@dataclass(frozen=True)
class FitResult:
    """The result of a fit, compared with the path."""

    right: bool
    loss: str
    second: str
    compared: Sequence[Compared]

    def of(self, name: str) -> study.Estimate | None:
        """Return the estimate of a parameter, if there is one to compare."""
        return next((one.estimate for one in self.compared if one.name == name), None)


def find(drawn: Drawn, run: paceline.Run) -> FitResult:
    """Fit the run of a path, and compare."""
    fitted = study.fit(run, cc=drawn.cc)
    best = fitted.judged[0]
    expected = {"none"} if fitted.observed.losses == 0 else {drawn.kind}
    if drawn.kind == "droptail+random":
        # Random losses may keep the queue from becoming full.
        expected.add("random")
    right = best.model.name in expected
    compared = [Compared("rtt", drawn.rtt, fitted.rtt)]
    for at, truth in zip(TIMES, (drawn.rates[0], drawn.rates[-1]), strict=True):
        stretch = next(one for one in fitted.stretches if at <= one.end)
        compared.append(Compared("rate", truth, stretch.rate))
        if len(drawn.rates) == 1:
            break
    if drawn.kind in ("droptail", "droptail+random") and right:
        compared.append(Compared("queue", drawn.size, fitted.size))
    if right:
        for name, truth in drawn.parameters.items():
            if name in fitted.parameters:
                compared.append(Compared(name, truth, fitted.parameters[name]))
    second = fitted.judged[1].model.name if len(fitted.judged) > 1 else ""
    return FitResult(right, best.model.name, second, compared)


#: Parameters as the table calls them.
NAMES = {
    "rate": "rate",
    "rtt": "base RTT",
    "queue": "queue",
    "loss_ratio": "loss probability",
    "police_bps": "policer's rate",
    "burst_bytes": "policer's burst",
    "target_s": "AQM target",
}


def table(results: Iterable[FitResult]) -> str:
    """Return the coverage of each parameter, as rows of Markdown."""
    by_name: dict[str, list[Compared]] = defaultdict(list)
    for one in results:
        for each in one.compared:
            by_name[each.name].append(each)
    lines = [
        "| Parameter | Intervals | True value inside | Median width | Bounds only | Bound holds |"
    ]
    lines.append("|---|---|---|---|---|---|")
    for name, word in NAMES.items():
        every = by_name[name]
        sure = [one for one in every if one.is_interval]
        open_ = [one for one in every if not one.is_interval]
        inside = sum(one.holds for one in sure)
        share = f"{inside} ({100 * inside / len(sure):.0f} %)" if sure else "0"
        width = f"{100 * float(np.median([one.width for one in sure])):.2g} %" if sure else "-"
        bounds = sum(one.holds for one in open_)
        lines.append(f"| {word} | {len(sure)} | {share} | {width} | {len(open_)} | {bounds} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fit records of drawn paths, and print what was found and how often intervals hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--own", type=int, default=40)
    parser.add_argument("--captured", type=int, default=60)
    parser.add_argument("--emulated", type=int, default=0)
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    jobs: list[tuple[Literal["own", "captured", "emu"], int]] = []
    jobs += [("own", options.seed + n) for n in range(options.own)]
    jobs += [("captured", options.seed + n) for n in range(options.captured)]
    jobs += [("emu", options.seed + n) for n in range(options.emulated)]
    every = []
    for kind, seed in jobs:
        how: Any = ""
        if kind == "captured":
            drawn = draw(seed, captured=True)
            run, how = capture(seed, drawn)
        else:
            drawn = draw(seed, ("cubic", "bbr1", "reno") if kind == "emu" else CONTROLLERS)
            run = paceline.run(drawn.text, seed=seed, backend="emu" if kind == "emu" else "sim")
        try:
            result = find(drawn, run)
        except study.UnfitError as error:
            sys.stdout.write(f"{kind} {seed}: {drawn.kind} UNFIT {error} {how}\n")
            continue
        every.append(result)
        word = "right" if result.right else "WRONG"
        values = ", ".join(str(one) for one in result.compared)
        sys.stdout.write(f"{kind} {seed}: {drawn.kind} {word} {result.loss}; {values} {how}\n")
        sys.stdout.flush()
    right = sum(result.right for result in every)
    text = f"{table(every)}\nThe model is right in {right} of {len(jobs)}.\n"
    sys.stdout.write(text)
    if options.write:
        page = Path(__file__).parents[1] / "docs" / "guide" / "fit.md"
        begin, end = "<!-- coverage -->\n", "<!-- /coverage -->\n"
        before, rest = page.read_text(encoding="utf-8").split(begin)
        after = rest.split(end)[1]
        page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
