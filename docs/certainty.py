"""Measure how sure Paceline's statistics are, and write the tables of `docs/guide/certainty.md`.

`make certainty` draws many samples with a known truth: how often an interval holds the mean, how
often a comparison of the same thing finds a difference, and how often it finds a true one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from paceline.statistics import aggregate
from paceline.study.compare import compare
from paceline.study.compare.subjects import Subject

PAGE = Path(__file__).parent / "guide" / "certainty.md"
COUNTS = (5, 7, 10, 15, 20, 30)

Draw = Callable[[random.Random], float]


def _modes(share: float) -> Draw:
    return lambda source: source.gauss(20 if source.random() < share else 10, 1)


#: Distributions of a metric by seed, with their means.
MEANS: dict[str, tuple[Draw, float]] = {
    "normal": (lambda source: source.gauss(10, 2), 10),
    "two modes, half each": (_modes(0.5), 15),
    "two modes, 7 to 3": (_modes(0.3), 13),
    "exponential": (lambda source: source.expovariate(1), 1),
    "lognormal, sigma 0.5": (lambda source: source.lognormvariate(0, 0.5), 1.1331484530668263),
    "lognormal, sigma 1": (lambda source: source.lognormvariate(0, 1), 1.6487212707001282),
}


def _count(mean: float) -> Draw:
    """Return a count: events of a rate in a unit of time."""

    def draw(source: random.Random) -> float:
        count, at = 0, source.expovariate(mean)
        while at < 1:
            count, at = count + 1, at + source.expovariate(mean)
        return count

    return draw


#: Metrics without any difference between two sides.
NULLS: dict[str, Draw] = {
    "normal": MEANS["normal"][0],
    "lognormal, sigma 1": MEANS["lognormal, sigma 1"][0],
    "two modes, half each": MEANS["two modes, half each"][0],
    "two narrow modes": lambda source: source.gauss(20 if source.random() < 0.5 else 10, 0.01),
    "yes or no": lambda source: float(source.random() < 0.5),
    "count, 0.3 on average": _count(0.3),
    "count, 3 on average": _count(3),
    "limited from above": lambda source: min(source.gauss(0.97, 0.02), 0.97),
    "constant": lambda _: 1.0,
}


def coverage(draw: Draw, mean: float, count: int, samples: int, what: str = "") -> float:
    """Return the share of intervals that hold the mean, or the median."""
    source, covered = random.Random(count), 0
    for _ in range(samples):
        statistics = aggregate([draw(source) for _ in range(count)])
        assert statistics is not None
        low, high = statistics[f"{what}low"], statistics[f"{what}high"]  # type: ignore[literal-required]
        covered += low <= mean <= high
    return covered / samples


def _side(
    name: str, draws: Sequence[Draw], points: int, seeds: range, source: random.Random
) -> Subject:
    metrics = ("queue_p95_ns", "rtt_p50_ns", "goodput_bps", "rto_count", "loss_ratio")
    return Subject(
        name,
        {
            str(point): {
                seed: {
                    "metrics": {m: d(source) for m, d in zip(metrics, draws, strict=False)},
                    "flows": [],
                }
                for seed in seeds
            }
            for point in range(points)
        },
    )


def alarms(draw: Draw, count: int, points: int, *, same: bool, samples: int) -> float:
    """Return the share of comparisons without a true difference that find one."""
    source, raised = random.Random(count), 0
    for _ in range(samples):
        old = _side("old", [draw], points, range(count), source)
        seeds = range(count) if same else range(count, 2 * count)
        new = _side("new", [draw], points, seeds, source)
        raised += any(f.verdict in ("better", "worse") for f in compare(old, new, tolerance=0))
    return raised / samples


def power(shift: float, count: int, *, same: bool, samples: int) -> float:
    """Return the share of comparisons that find a difference in standard deviations."""
    source, detected = random.Random(count), 0
    for _ in range(samples):
        old = _side("old", [lambda s: s.gauss(10, 1)], 1, range(count), source)
        seeds = range(count) if same else range(count, 2 * count)
        new = _side("new", [lambda s: s.gauss(10 + shift, 1)], 1, seeds, source)
        detected += any(f.verdict == "worse" for f in compare(old, new, ["queue_p95_ns"]))
    return detected / samples


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"


def _table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    return _row(head) + _row(["---"] * len(head)) + "".join(map(_row, rows)) + "\n"


#: Runs per side, and points of a sweep.
SIZES = [(points, count) for points in (1, 10) for count in (2, 3, 5, 10, 30)]


#: What a cell of a table is, by its arguments.
CELLS: dict[str, Callable[..., float]] = {
    "mean": lambda name, count, samples: coverage(*MEANS[name], count, samples),
    "median": lambda name, at, count, samples: coverage(
        MEANS[name][0], at, count, samples, "median_"
    ),
    "null": lambda name, same, size, samples: alarms(
        NULLS[name], size[1], size[0], same=same, samples=samples
    ),
    "power": lambda shift, same, count, samples: power(shift, count, same=same, samples=samples),
}


def _cell(task: tuple[Any, ...]) -> str:
    """Return a cell as the table has it; called in a process of its own."""
    kind, *arguments = task
    return f"{100 * CELLS[kind](*arguments):.1f} %"


def tables(samples: int) -> dict[str, str]:
    """Return the tables of the page; comparisons take longer, so they are fewer."""
    few, both = samples // 20, (True, False)
    seeds = {True: "same seeds", False: "other seeds"}
    middles = {"normal": 10.0, "lognormal, sigma 1": 1.0}
    values = ["distribution", *(f"{n} values" for n in COUNTS)]
    points = [f"{n} runs" if points == 1 else f"{points} points, {n} runs" for points, n in SIZES]
    plans: dict[str, tuple[list[str], list[list[Any]]]] = {
        "coverage of the mean": (
            values,
            [[name, *(("mean", name, n, samples) for n in COUNTS)] for name in MEANS],
        ),
        "coverage of the median": (
            values,
            [
                [name, *(("median", name, at, n, samples) for n in COUNTS)]
                for name, at in middles.items()
            ],
        ),
        "false alarms": (
            ["distribution", *points],
            [
                [
                    f"{name}, {seeds[same]}",
                    *(("null", name, same, size, few // (1 + size[0] // 5)) for size in SIZES),
                ]
                for name in NULLS
                for same in both
            ],
        ),
        "power": (
            ["standard deviations", *(f"{n} runs" for n in COUNTS)],
            [
                [f"{shift:g}, {seeds[same]}", *(("power", shift, same, n, few) for n in COUNTS)]
                for shift in (1.0, 1.5, 2.0)
                for same in both
            ],
        ),
    }
    tasks = [task for _, rows in plans.values() for row in rows for task in row[1:]]
    with ProcessPoolExecutor() as pool:
        cells = pool.map(_cell, tasks)
        return {
            name: _table(head, [[row[0], *(next(cells) for _ in row[1:])] for row in rows])
            for name, (head, rows) in plans.items()
        }


def written(page: str, tables: dict[str, str]) -> str:
    """Return the page with its tables."""
    for name, table in tables.items():
        head, _, rest = page.partition(f"<!-- {name} -->\n")
        _, _, tail = rest.partition("<!-- end -->\n")
        page = f"{head}<!-- {name} -->\n{table}<!-- end -->\n{tail}"
    return page


if __name__ == "__main__":
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables(samples)), encoding="utf-8")
