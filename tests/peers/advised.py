"""How often `paceline advise` is right: on drawn paths, captured under one controller.

    nice python tests/peers/advised.py [--seeds 1-20] [--twice]

A seed is a path, a controller, and a capture at the sender or the receiver. On every fourth path,
as `tests/fitting.py` draws them (4 to 40 Mbit/s, 10 to 120 ms, queues, losses, policers, AQMs, one
or two flows), controllers hardly differ. So the others have one thing that parts them: losses of 1
to 5 %, a queue of 0.03 to 0.3 BDP, or a transfer of 0.05 to 5 MB over a queue of 0.1 to 4 BDP. The
truth is the mean goodput of each controller on the path itself, over ten seeds.

An answer is right if it names the best, or says "no difference" of controllers that are within 5 %
of the best; close, if the one that it names is; open, if the best is among those that it does not
tell apart; wrong, if something worse is called better. Beside it is the best constant answer. With
`--twice` each path is captured under CUBIC and under BBRv3, and the two answers are compared.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import paceline
from paceline import batch
from paceline.study import advise, fit

sys.path.insert(0, str(Path(__file__).parents[1]))
from captures import Capture
from fitting import draw

CONTROLLERS = ("reno", "cubic", "bbr1", "bbr3")
#: Controllers that are within this share of the best are as good.
ALIKE = 0.95


def path(seed: int) -> tuple[str, str]:
    """Draw a path with flows; return its kind and its scenario."""
    if seed % 4 == 0:
        drawn = draw(seed, captured=True)
        return drawn.kind, drawn.text
    rng = random.Random(f"advised {seed}")

    def between(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    kind = ("", "lossy", "shallow", "short")[seed % 4]
    size = {"lossy": (0.5, 4), "shallow": (0.03, 0.3), "short": (0.1, 4)}[kind]
    rate, rtt = between(4e6, 40e6), between(10e-3, 120e-3)
    held = max(between(*size) * rate * rtt / 8, 6_000)
    lines = [
        "schema = 1",
        'run = { duration = "20 s", record = { packets = true } }',
        f'path = {{ rate = "{rate / 1e6:.3f} Mbit/s", rtt = "{rtt * 1e3:.2f} ms",',
    ]
    lines[-1] += f' queue = {{ size = "{held:.0f} B" }}'
    lines[-1] += f', loss = "{between(1, 5):.2f} %" }}' if kind == "lossy" else " }"
    app = f'app = {{ size = "{between(50e3, 5e6):.0f} B" }}' if kind == "short" else ""
    return kind, "\n".join([*lines, "[[flows]]", 'cc = "cubic"', app, ""])


def truth(text: str) -> dict[str, float]:
    """Return the goodput of each controller as a share of the best one's."""
    cases = [advise.Case(text, cc, (), seed, 0) for cc in CONTROLLERS for seed in range(1, 11)]
    found: dict[str, list[float]] = {cc: [] for cc in CONTROLLERS}

    class Heard(batch.Watch):
        def finished(self, number: int, outcome: batch.Outcome) -> None:
            found[cases[number].cc].append(outcome.kept["goodput_bps"])

    def keep(number: int, _: batch.Job, run: paceline.Run) -> dict[str, float]:
        return cases[number].measure(run)

    batch.execute([case.job() for case in cases], keep, watch=Heard())
    means = {cc: float(np.mean(values)) for cc, values in found.items()}
    return {cc: mean / max(means.values()) for cc, mean in means.items()}


def answer(seed: int, text: str, cc: str) -> tuple[list[str], str]:
    """Return the controllers that advise does not tell apart from the best, and what it saw."""
    how = Capture(end=("sender", "receiver")[seed % 2], merged=seed // 2 % 2 == 1)
    flows = text.count("[[flows]]")
    settings = {f"flows.{n}.cc": cc for n in range(flows)}
    run = paceline.run(text, seed=seed, overrides=settings)
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        place = Path(folder) / "run.pcap"
        how.write(run, place)
        try:
            seen = advise.read("run.pcap", paceline.Run.capture(place))
        except fit.UnfitError as error:
            return [], f"{how.end}: {error}"
    if seen.fitted is None:
        return [], f"{how.end}: {seen.limits.sentence}"
    best = seen.fitted.judged[0]
    near = f"{best.model.name} {best.distance:.3f} ({best.spread:.3f})"
    told = f"{how.end}: {near}, {' or '.join(seen.senders)}"
    if not seen.is_near:
        return [], f"{told}, no model is near"
    study = advise.Study([seen], advise.Asked(CONTROLLERS), "throughput")
    return study.run(batch.Watch()).best("throughput"), told


def judged(said: list[str], true: dict[str, float]) -> str:
    """Return whether an answer is right."""
    best = max(true, key=lambda cc: true[cc])
    if not said:
        return "nothing said"
    if said == [best] or (best in said and min(true[cc] for cc in said) >= ALIKE):
        return "right"
    if best in said:
        return "open"
    return "close" if max(true[cc] for cc in said) >= ALIKE else "wrong"


def main() -> int:
    """Compare answers with the truth, and print how many are right."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", default="1-20")
    parser.add_argument("--twice", action="store_true")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    counts: Counter[str] = Counter()
    constant: Counter[str] = Counter()
    bests: Counter[str] = Counter()
    alike = ahead = done = 0
    for seed in range(int(first), int(last or first) + 1):
        kind, text = path(seed)
        true = truth(text)
        order = sorted(true, key=lambda cc: -true[cc])
        bests[order[0]] += 1
        ahead += true[order[1]] < 1 / 1.2
        done += 1
        constant.update(cc for cc in CONTROLLERS if true[cc] >= ALIKE)
        shown = ", ".join(f"{cc} {true[cc]:.3f}" for cc in order)
        used = ("cubic", "bbr3") if options.twice else (random.Random(seed).choice(CONTROLLERS),)
        answers = []
        for cc in used:
            said, how = answer(seed, text, cc)
            word = judged(said, true)
            counts[word] += 1
            answers.append(set(said))
            print(seed, kind, cc, word.upper(), said, "|", shown, "|", how, flush=True)
        alike += options.twice and answers[0] == answers[1]
    print(", ".join(f"{word} {count}" for word, count in counts.most_common()))
    print(f"best: {dict(bests)}; 20 % ahead of the second in {ahead} of {done}")
    for cc, count in constant.most_common(1):
        print(f"the best constant answer, {cc}, is right (within 5 %) in {count} of {done}")
    if options.twice:
        print(f"captures under CUBIC and BBRv3 give one answer in {alike} of {done}")
    return min(counts["wrong"], 1)


if __name__ == "__main__":
    sys.exit(main())
