"""How often `paceline advise` is right, on drawn paths of which each controller wins some.

    nice python tests/peers/advised.py RESULTS [--engine sim] [--count 20] [--twice] [--beside]

A seed draws a path, an aim, and company that is asked for with `--beside`. The truth is the mean of
the aim's metric of each controller on the path itself: over ten seeds simulated, and three in Linux
in virtual time. Paths are kept by the truth alone: until each controller is the best on as many,
on a half or more of them by 20 %. Then each path is captured under one controller, at the sender or
at the receiver (with `--twice` under CUBIC and under BBR), and `advise` answers. With `--beside` a
flow of CUBIC that is not in the capture shares the path, in the truth as in the recording.

An answer is right if it names the best, or says "no difference" of controllers that are within 5 %
of the best; close, if the one that it names is; open, if the best is among those that it does not
tell apart; wrong, if something worse is called better. Without an answer it is right if an end is
the limit and the controllers are within 5 %. Beside it is the best constant answer.

RESULTS is a file with a line for each truth and answer, and the same command continues it. After a
change of `advise`, remove the lines of the answers.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import paceline
from paceline import batch
from paceline.exchange import pcapng
from paceline.study import advise, fit

sys.path.insert(0, str(Path(__file__).parents[1]))
from captures import Capture

CONTROLLERS = ("reno", "cubic", "bbr1", "bbr3")
#: What the guest calls them.
LINUX = {"bbr3": "bbr3-linux", "cubic-linux": "cubic"}
#: The seeds of a truth, by engine.
SEEDS = {"sim": 10, "vm": 3}
#: Each has paths of its own; on those before the first, causes of open answers were sought.
FIRST = {"sim": 202, "vm": 5001}
#: Controllers that are within this share of the best are as good; the second is behind by 20 %.
ALIKE, BEHIND = 0.95, 1 / 1.2
#: Of as many paths, those on which each controller is the best, by 20 % or not.
QUOTA = {True: 3, False: 2}
KINDS = ("deep", "long", "shallow", "lossy", "policed", "aqm", "short", "acks")
#: Their queues, in BDP.
SIZES = {"deep": (2, 16), "long": (3, 8), "shallow": (0.03, 0.3), "policed": (1, 2), "aqm": (6, 8)}
#: Aims, the sum of whose truths is the issue's: each controller is good for something.
AIMS: tuple[advise.Aim, ...] = ("throughput", "latency", "sharing")


def draw(seed: int) -> dict[str, Any]:
    """Draw a path with a flow, the aim, and the company beside it."""
    rng = random.Random(f"advised path {seed}")

    def between(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    kind, aim, beside = rng.choice(KINDS), rng.choice(AIMS), rng.choice((0, 0, 1, 2))
    rate, rtt, duration = between(4e6, 40e6), between(10e-3, 120e-3), 20
    if kind == "long":  # For as long as CUBIC needs to take what others leave.
        aim, beside, duration = "throughput", max(beside, 1), 60
        rate, rtt = between(15e6, 40e6), between(60e-3, 120e-3)
    size = max(between(*SIZES.get(kind, (0.3, 4))) * rate * rtt / 8, 6_000)
    queue = f'size = "{size:.0f} B"'
    if kind == "aqm":
        queue = f'kind = "{rng.choice(("codel", "pie"))}", {queue}'
    lines = [
        "schema = 1",
        f'run = {{ duration = "{duration} s", record = {{ packets = true }} }}',
        "[path]",
        f'rate = "{rate / 1e6:.3f} Mbit/s"',
        f'rtt = "{rtt * 1e3:.2f} ms"',
        f"queue = {{ {queue} }}",
    ]
    if kind == "lossy":
        lines.append(f'loss = "{between(0.05, 5):.3f} %"')
    if kind == "policed":
        police, burst = rate * rng.uniform(0.3, 0.7), between(0.5, 4) * rate * rtt / 8 + 15_000
        bucket = f'rate = "{police / 1e6:.3f} Mbit/s", burst = "{burst:.0f} B"'
        lines.append(f"policer = {{ {bucket} }}")
    if kind == "acks":
        lines.append(f'return = {{ loss = "{between(2, 40):.1f} %" }}')
    lines += ["[[flows]]", 'cc = "cubic"']
    if kind == "short":
        lines.append(f'app = {{ size = "{between(50e3, 5e6):.0f} B" }}')
    text = "\n".join([*lines, ""])
    return {"seed": seed, "kind": kind, "aim": aim, "beside": beside, "text": text}


#: A flow that shares the path and is in no capture.
HIDDEN = '[[flows]]\ncc = "cubic"\n'


def truth(drawn: dict[str, Any], engine: Any, *, hidden: bool) -> dict[str, float]:
    """Return how good each controller is for the aim, as a share of the best one."""
    aim, count = drawn["aim"], drawn["beside"] + hidden
    company: advise.Company = (("cubic", count),) if count else ()
    if aim == "sharing" and not count:
        company = ((advise.NEIGHBOURS[0], 1),)
    cases = [
        advise.Case(drawn["text"], cc, company, seed, 0)
        for cc in CONTROLLERS
        for seed in range(1, SEEDS[engine] + 1)
    ]
    if engine == "vm":
        company = tuple((LINUX.get(cc, cc), n) for cc, n in company)
        cases = [replace(case, cc=LINUX.get(case.cc, case.cc), company=company) for case in cases]
    jobs = [case.job()._replace(backend=engine) for case in cases]
    kept = batch.outcomes(jobs, lambda number, _, run: cases[number].measure(run))
    goodputs: dict[str, list[float]] = {cc: [] for cc in CONTROLLERS}
    for number, one in enumerate(kept):
        goodputs[CONTROLLERS[number // SEEDS[engine]]].append(one.kept[advise.AIMS[aim]])
    means = {cc: float(np.mean(values)) for cc, values in goodputs.items()}
    if aim == "latency":
        return {cc: min(means.values()) / mean for cc, mean in means.items()}
    return {cc: mean / max(means.values()) for cc, mean in means.items()}


def answer(drawn: dict[str, Any], cc: str, engine: Any, *, hidden: bool) -> dict[str, Any]:
    """Return the controllers that advise does not distinguish from the best, and its recording."""
    seed = drawn["seed"]
    how = Capture(end=("sender", "receiver")[seed % 2], merged=seed // 2 % 2 == 1)
    text = drawn["text"] + (HIDDEN if hidden else "")
    name = LINUX.get(cc, cc) if engine == "vm" else cc
    run = paceline.run(text, backend=engine, seed=seed, overrides={"flows.0.cc": name})
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        place = Path(folder) / "run.pcap"
        if engine == "vm":  # Its packets do not say when ACKs left the receiver.
            how = Capture()
            pcapng.write([run], place, 0, "")
        else:
            how.write(run, place, flows=[0])
        try:
            recording = advise.read("run.pcap", paceline.Run.capture(place))
        except fit.UnfitError as error:
            return {"said": [], "how": f"{how.end}: {error}"}
    if recording.fitted is None:
        return {"said": [], "limited": True, "how": f"{how.end}: {recording.limits.sentence}"}
    best = recording.fitted.judged[0]
    near = f"{best.model.name} {best.distance:.3f} ({best.spread:.3f})"
    summary = f"{how.end}: {near}, {' or '.join(recording.senders)}"
    if not recording.is_near:
        return {"said": [], "how": f"{summary}, no model is near"}
    beside = (("cubic", drawn["beside"]),) if drawn["beside"] else ()
    options = advise.StudyOptions(CONTROLLERS, beside)
    advice = advise.Study([recording], options, drawn["aim"]).run(batch.Watch())
    return {"said": advice.best(drawn["aim"]), "use": advice.recommended, "how": summary}


def judged(row: dict[str, Any], true: dict[str, float]) -> str:
    """Return whether an answer is right."""
    best, chosen = max(true, key=lambda cc: true[cc]), row["said"]
    if not chosen:
        alike = row.get("limited", False) and min(true.values()) >= ALIKE
        return "right" if alike else "nothing said"
    if chosen == [best] or (best in chosen and min(true[cc] for cc in chosen) >= ALIKE):
        return "right"
    if best in chosen:
        return "open"
    return "close" if max(true[cc] for cc in chosen) >= ALIKE else "wrong"


def cell(true: dict[str, float]) -> tuple[str, bool]:
    """Return the best controller, and whether it is 20 % ahead."""
    first, second = sorted(true, key=lambda cc: -true[cc])[:2]
    return first, true[second] < BEHIND


def drawn_paths(
    known: dict[str, dict[str, Any]], first: int, count: int, more: str, add: Any
) -> list[dict[str, Any]]:
    """Return the paths that are kept; simulate the truth of those that are not known."""
    kept: list[dict[str, Any]] = []
    full: Counter[tuple[str, bool]] = Counter()
    for seed in range(first, first + 4000):
        if len(kept) >= count:
            break
        key = f"truth {seed}{more}"
        one = known.get(key) or add(key, draw(seed))
        where = cell(one["true"])
        if full[where] < QUOTA[where[1]]:
            full[where] += 1
            kept.append(one)
    return kept


def main() -> int:
    """Compare answers with the truth, and print how many are right."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--engine", choices=tuple(SEEDS), default="sim")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--truth", action="store_true", help="only draw the paths")
    options = parser.parse_args()
    there = options.results.read_text().splitlines() if options.results.exists() else []
    known = {one["key"]: one for one in map(json.loads, there)}

    def add(key: str, value: dict[str, Any]) -> dict[str, Any]:
        if key.startswith("truth"):
            value["true"] = truth(value, options.engine, hidden=options.beside)
        with options.results.open("a") as file:
            file.write(json.dumps({"key": key, **value}) + "\n")
        return value

    more = " beside" * options.beside
    kept = drawn_paths(known, FIRST[options.engine], options.count, more, add)
    counts: Counter[str] = Counter()
    uses: Counter[str] = Counter()
    same = 0
    for one in () if options.truth else kept:
        seed, true = one["seed"], one["true"]
        used = ("cubic", "bbr1") if options.twice else (CONTROLLERS[seed % 4],)
        rows = []
        for cc in used:
            key = f"answer {seed} {cc}{more}"
            row = known.get(key)
            if row is None:
                row = add(key, answer(one, cc, options.engine, hidden=options.beside))
            word, use = judged(row, true), row.get("use")
            counts[word] += 1
            uses["none" if use is None else "good" if true[use] >= ALIKE else "worse"] += 1
            rows.append(set(row["said"]))
            shown = ", ".join(f"{cc} {true[cc]:.3f}" for cc in sorted(true, key=lambda n: -true[n]))
            who = f"{one['kind']}, {one['aim']}, beside {one['beside']}"
            print(seed, who, cc, word.upper(), row["said"], use, "|", shown, "|", row["how"])
        same += options.twice and rows[0] == rows[1]
    cells = [cell(one["true"]) for one in kept]
    print(", ".join(f"{word} {count}" for word, count in counts.most_common()))
    print("recommended:", ", ".join(f"{word} {count}" for word, count in uses.most_common()))
    best = Counter(cc for cc, _ in cells)
    print(f"best: {dict(best)}; 20 % ahead in {sum(far for _, far in cells)} of {len(kept)}")
    for cc in CONTROLLERS:
        right = sum(one["true"][cc] >= ALIKE for one in kept)
        print(f"the constant answer {cc} is right (within 5 %) in {right} of {len(kept)}")
    if options.twice:
        print(f"captures under CUBIC and BBR give one answer in {same} of {len(kept)}")
    return min(counts["wrong"], 1)


if __name__ == "__main__":
    sys.exit(main())
