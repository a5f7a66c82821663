"""The simulator against Linux in virtual time, on paths that change.

    nice python tests/peers/disturbed.py run FOLDER [--seeds 1000-1199] [--starts 10]
    python tests/peers/disturbed.py summary FOLDER [--by]
    nice python tests/peers/disturbed.py parting SEED [--start 1]

`run` draws a scenario from each seed (`drawn.changes`), runs it once on each side and, where the
two differ, with ten start offsets a side: both sides start their flows up to 10 ms later, by the
seed of the run. It writes a line of JSON for each run into FOLDER, and continues where it stopped.
`summary` compares: a metric agrees if its values, or the means over the starts, are within the
bound, or if the 95 % intervals overlap and are no wider than 10 % of the mean. With `--by` it tells
bias from chance: for each controller, queue and kind of disturbance, how often the simulated value
is more and less, and the mean ratio with its standard error. `parting` prints the first
transmission in which the two sequences part, as packetdrill would, with both senders' states.

The simulated side has the hosts' ACKs and bursts of Linux (`ack`, `tso_defer`), the recovery of
the kernel and its RED (`per_gap`); `reno` and `dctcp` count and restart as the kernel's. It needs
`paceline vm prepare`.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import drawn

import paceline
from paceline.errors import PacelineError

Side = Literal["sim", "vm"]
SIDES: tuple[Side, ...] = ("sim", "vm")
#: A bound on the difference, as a share, and an absolute one below which it is none: five packets,
#: or, for times, one round trip.
BOUNDS: dict[str, tuple[float, float]] = {
    "goodput_bps": (0.03, 0),
    "late_bps": (0.03, 0),
    "rtt_p50_ns": (0.05, 0),
    "rtt_p95_ns": (0.05, 0),
    "retransmitted": (0.10, 5),
    "back_ns": (0.10, math.nan),
}
#: Counted and shown, without a bound.
SHOWN = ("rtos", "tlps", "undos", "recovery_ns")
#: The end of a run that is late, in seconds.
LATE = 8
#: The interval of the grid on which both sides are measured, in nanoseconds.
STEP = 10_000_000
#: Values of t at 95 %, by degrees of freedom from 1.
T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)


def text_of(path: drawn.Drawn, side: str, *, packets: bool = False) -> str:
    """Return the scenario of one side."""
    text = path.toml()
    if side == "sim":
        hosts = 'recovery = "linux"\nstart_jitter = "10 ms"\ntso_defer = true\n'
        text = text.replace("tso_defer = true\n", hosts)
        text = text.replace("red = { ", "red = { per_gap = true, ")
        text = text.replace('cc = "reno"', 'cc = "reno-linux"')
        like = 'name = "dctcp", after_idle = "halve", abc_limit = 1000000, linux_rounding = true'
        text = text.replace('cc = "dctcp"', f"cc = {{ {like} }}")
    return text + ("[run.record]\npackets = true\n" if packets else "")


def measures(path: drawn.Drawn, run: paceline.Run) -> dict[str, float | None]:
    """Return the metrics of a run."""
    samples = run.samples
    flows = run.summary["flows"]
    last = samples.group_by("flow").last()
    each = [
        (group["t_ns"].to_list(), group["goodput_bytes"].to_list(), group["ca_state"].to_list())
        for _, group in samples.group_by("flow", maintain_order=True)
    ]
    bytes_ = on_grid([(times, delivered) for times, delivered, _ in each], path.duration)
    recovery = sum(
        after - time
        for times, _, states in each
        for time, after, state in zip(times, times[1:], states, strict=False)
        if state in {"Recovery", "Loss"}
    )
    kinds = run.events["kind"].to_list()
    tlps = run.emulation["tlp_count"] if run.emulation else run.flows["tlp_count"].sum()
    return {
        "goodput_bps": sum(flow["goodput_bps"] for flow in flows),
        "late_bps": 8 * (bytes_[-1] - bytes_[-1 - round(LATE * 1e9 / STEP)]) / LATE,
        "rtt_p50_ns": _mean(flow["rtt_p50_ns"] for flow in flows),
        "rtt_p95_ns": _mean(flow["rtt_p95_ns"] for flow in flows),
        "retransmitted": float(last["retransmitted_packets"].sum()),
        "back_ns": _back(path, bytes_),
        "rtos": float(sum(flow["rto_count"] for flow in flows)),
        "tlps": tlps,
        "undos": float(kinds.count("undo")),
        "recovery_ns": float(recovery),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def on_grid(flows: list[tuple[list[int], list[int]]], duration: float) -> list[float]:
    """Return the bytes that all flows have delivered, every STEP from zero to the end.

    The kernel's samples are off the grid by up to one step, and each flow's begin with it. So the
    bytes between two samples are interpolated.
    """
    total = [0.0] * (round(duration * 1e9 / STEP) + 1)
    for times, bytes_ in flows:
        at, after = 0, 0
        for i in range(len(total)):
            now = i * STEP
            while after < len(times) and times[after] <= now:
                at, after = after, after + 1
            if times[at] <= now:
                total[i] += bytes_[at]
                if after < len(times):
                    share = (now - times[at]) / (times[after] - times[at])
                    total[i] += share * (bytes_[after] - bytes_[at])
    return total


def _back(path: drawn.Drawn, bytes_: list[float]) -> float:
    """Return the time to 90 % of the rate, over ten round trips, summed over the disturbances.

    `bytes_` is on the grid. One that the flows do not return from counts until the next is over.
    """
    span = max(1, round(10 * path.rtt * 1e6 / STEP))
    total = 0.0
    for number, (at, rate) in enumerate(path.ends):
        following = path.ends[number + 1][0] if number + 1 < len(path.ends) else path.duration
        enough = 0.9 * rate * 1e6 / 8 * 1448 / 1500 * span * STEP / 1e9
        back = following
        for i in range(math.ceil(at * 1e9 / STEP), len(bytes_) - span):
            if i * STEP >= following * 1e9:
                break
            if bytes_[i + span] - bytes_[i] >= enough:
                back = i * STEP / 1e9
                break
        total += max(back - at, 0.0) * 1e9
    return total


class Results:
    """The runs so far, in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "runs.jsonl"
        self.rows: dict[tuple[int, str, int], dict[str, Any]] = {}
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["seed"], row["side"], row["start"]] = row

    def need(self, path: drawn.Drawn, side: Side, start: int) -> None:
        """Run it unless it was."""
        key = (path.seed, side, start)
        if key in self.rows:
            return
        row: dict[str, Any] = {"seed": path.seed, "side": side, "start": start}
        try:
            run = paceline.run(text_of(path, side), seed=start, backend=side)
            row["measures"] = measures(path, run)
        except PacelineError as error:
            row["error"] = str(error)
        self.rows[key] = row
        with self.file.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def values(self, seed: int, side: str, metric: str) -> list[float]:
        """Return a metric's values on a side, in the order of the starts."""
        rows = [row for (s, on, _), row in sorted(self.rows.items()) if (s, on) == (seed, side)]
        values = [row["measures"][metric] for row in rows if "measures" in row]
        return [value for value in values if value is not None]

    def agrees(self, path: drawn.Drawn, metric: str) -> bool:
        """Whether the two sides agree in a metric."""
        sides = [self.values(path.seed, side, metric) for side in SIDES]
        if not all(sides):
            return not any(sides)
        share, least = BOUNDS[metric]
        least = path.rtt * 1e6 if math.isnan(least) else least
        means = [statistics.fmean(values) for values in sides]
        if abs(means[0] - means[1]) <= max(share * means[1], least):
            return True
        if min(map(len, sides)) < 5:
            return False
        halves = [
            T95[min(len(values) - 1, 9) - 1] * statistics.stdev(values) / math.sqrt(len(values))
            for values in sides
        ]
        narrow = all(
            2 * half <= max(0.10 * mean, least) for half, mean in zip(halves, means, strict=True)
        )
        return narrow and abs(means[0] - means[1]) <= sum(halves)

    def differs(self, path: drawn.Drawn) -> list[str]:
        """Return the metrics in which the sides differ."""
        return [metric for metric in BOUNDS if not self.agrees(path, metric)]


def run(folder: Path, seeds: range, starts: int) -> None:
    """Run what is missing; where a pair differs, with all starts."""
    results = Results(folder)
    for seed in seeds:
        path = drawn.changes(seed)
        for side in SIDES:
            results.need(path, side, 1)
        apart = results.differs(path)
        if apart and starts > 1:
            for start in range(2, starts + 1):
                for side in SIDES:
                    results.need(path, side, start)
            apart = results.differs(path)
        print(seed, "agree" if not apart else "differ: " + ", ".join(apart), flush=True)


def ratio(results: Results, path: drawn.Drawn, metric: str) -> float | None:
    """Return the simulated mean over Linux's, or nothing if either is zero or unknown."""
    means = [_mean(results.values(path.seed, side, metric)) for side in SIDES]
    return means[0] / means[1] if means[0] and means[1] else None


def kinds_of(path: drawn.Drawn) -> set[str]:
    """Return a path's controllers, queue, number of flows and kinds of disturbance."""
    kinds = {re.search('"(.*?)"', flow)[1] for flow in path.flows}  # type: ignore[index]
    kinds.add("red" if "red" in path.queue else re.search('"(.*?)"', path.queue)[1])  # type: ignore[index]
    kinds.add(f"{len(path.flows)} flows")
    for event in path.events:
        key = "app" if "app =" in event else re.search(r"path\.(\w+)", event)[1]  # type: ignore[index]
        bursts = key == "loss" and "p =" in event
        kinds.add("outage" if "100 %" in event else "bursts" if bursts else key)
    return kinds


def summary(folder: Path, by: bool) -> None:
    """Print how many pairs agree in each metric, their median ratio, and those that do not."""
    results = Results(folder)
    seeds = sorted({seed for seed, _, _ in results.rows})
    paths = [drawn.changes(seed) for seed in seeds]
    print(f"{'metric':14}{'within':>8}{'of':>5}{'ratio':>9}{'above':>7}{'below':>7}")
    for metric in (*BOUNDS, *SHOWN):
        ratios = [ratio(results, path, metric) for path in paths]
        known = [value for value in ratios if value is not None]
        middle = f"{statistics.median(known):.4f}" if known else "none"
        if metric not in BOUNDS:
            print(f"{metric:14}{'':8}{len(known):5}{middle:>9}")
            continue
        outside = [r for r, p in zip(ratios, paths, strict=True) if not results.agrees(p, metric)]
        apart = [r for r in outside if r is not None]
        above, below = sum(r > 1 for r in apart), sum(r < 1 for r in apart)
        within = len(paths) - len(outside)
        print(f"{metric:14}{within:8}{len(paths):5}{middle:>9}{above:7}{below:7}")
    if by:
        _groups(results, paths)
    for path in paths:
        for metric in results.differs(path):
            means = [_mean(results.values(path.seed, side, metric)) for side in SIDES]
            count = len(results.values(path.seed, "vm", metric))
            texts = ["none" if mean is None else f"{mean:.4g}" for mean in means]
            print(f"  {path.seed} {metric}: simulated {texts[0]}, Linux {texts[1]}, {count} starts")
    for key, row in results.rows.items():
        if "error" in row:
            print("  error:", *key, row["error"].splitlines()[0])


def _groups(results: Results, paths: list[drawn.Drawn]) -> None:
    for metric in BOUNDS:
        print(f"{metric}: simulated over Linux")
        groups: dict[str, list[float]] = {}
        for path in paths:
            value = ratio(results, path, metric)
            if value is not None:
                for kind in kinds_of(path):
                    groups.setdefault(kind, []).append(math.log(value))
        for kind, logs in sorted(groups.items()):
            mean = statistics.fmean(logs)
            error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
            more, less = (sum(s * log > 0.01 for log in logs) for s in (1, -1))
            mark = " biased" if abs(mean) > 3 * error else ""
            print(
                f"  {kind:12}{len(logs):4} paths, more in {more:3}, less in {less:3},"
                f" mean {math.exp(mean):.3f} +- {error:.3f}{mark}"
            )


def parting(seed: int, start: int) -> None:
    """Print the first transmission in which the two sequences part."""
    path = drawn.changes(seed)
    sent: list[list[tuple[int, int, int, bool]]] = []
    runs = []
    for side in SIDES:
        run = paceline.run(text_of(path, side, packets=True), seed=start, backend=side)
        rows = run.packets.filter(run.packets["kind"].is_in(["send", "retransmit"]))
        columns = (rows[name].to_list() for name in ("t_ns", "seq_bytes", "len_bytes", "kind"))
        flow = rows["flow"].to_list()
        sent.append(
            [
                (t, seq, seq + length, kind == "retransmit")
                for t, seq, length, kind, f in zip(*columns, flow, strict=True)
                if f == 0
            ]
        )
        runs.append(run)
    at = next(
        (i for i, (a, b) in enumerate(zip(*sent, strict=False)) if a[1:] != b[1:]),
        min(map(len, sent)),
    )
    for side, transmissions, run in zip(SIDES, sent, runs, strict=True):
        print(f"{side}, from transmission {at - 3} on:")
        for i, (t, first, end, again) in enumerate(transmissions[at - 4 : at + 4], at - 4):
            mark = "*" if i == at else " "
            note = "  // again" if again else ""
            print(f" {mark} {t / 1e9:.6f} > . {first}:{end}({end - first}){note}")
        if at < len(transmissions):
            print("   state:", _state(run, transmissions[at][0]))


def _state(run: paceline.Run, at: int) -> str:
    rows = run.samples.filter((run.samples["flow"] == 0) & (run.samples["t_ns"] <= at))
    row = rows.row(rows.height - 1, named=True)
    names = ("ca_state", "cwnd_bytes", "ssthresh_bytes", "in_flight_bytes", "srtt_ns")
    return ", ".join(f"{name} {row.get(name)}" for name in names)


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("run")
    one.add_argument("folder", type=Path)
    one.add_argument("--seeds", default="1000-1199")
    one.add_argument("--starts", type=int, default=10)
    one = verbs.add_parser("summary")
    one.add_argument("folder", type=Path)
    one.add_argument("--by", action="store_true")
    one = verbs.add_parser("parting")
    one.add_argument("seed", type=int)
    one.add_argument("--start", type=int, default=1)
    options = parser.parse_args()
    match options.verb:
        case "run":
            first, _, last = options.seeds.partition("-")
            run(options.folder, range(int(first), int(last or first) + 1), options.starts)
        case "summary":
            summary(options.folder, options.by)
        case _:
            parting(options.seed, options.start)
    return 0


if __name__ == "__main__":
    sys.exit(main())
