"""Whether a flow is back after outages and heavy loss, or is pinned to a few packets.

    nice python tests/peers/back_after.py [--paths 400] [--from 1] [--cc NAME] [--recovery KIND]
    nice python tests/peers/back_after.py --any [--paths 400] [--from 1]

Draws paths (`drawn.outages`): 20 to 80 Mbit/s, 120 to 250 ms, three outages of 0.2 to 0.4 s, then
30 to 50 % loss for up to a second. From 20 to 40 s the path is clean. It prints how many flows have
less than a tenth and less than half of the rate there, and the worst. It exits with 1 if one is
pinned: less than a tenth.

With `--any` the paths have two to five disturbances of any kind, and one to four flows of one
controller (`drawn.changes`). The goodput of all flows over a second has to be at 80 % of what the
same flows have when they start with two packets as the last disturbance ends: within twice the
time that they need, a second, and five more for BBR's next ProbeRTT. It prints, for each
controller, how many are back in time, and what holds the others when they are due (`held_by`). It
exits with 1 if recovery does, or a window does not grow.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import drawn
import polars as pl

import paceline

#: The clean time, in seconds.
FROM, UNTIL = 20, 40
#: How long flows are watched after the last of any disturbances, in seconds.
AFTER = 61


def late(run: paceline.Run) -> float:
    """Return the goodput over the clean time, in Mbit/s."""
    one = run.samples.select("t_ns", "goodput_bytes")
    times, bytes_ = one["t_ns"].to_list(), one["goodput_bytes"].to_list()
    at = dict.fromkeys((FROM, UNTIL), 0)
    for time, count in zip(times, bytes_, strict=True):
        for edge in at:
            if time <= edge * 10**9:
                at[edge] = count
    return 8e-6 * (at[UNTIL] - at[FROM]) / (UNTIL - FROM)


def shares(
    seeds: range, cc: str, recovery: str | None = None, *, as_linux: bool = False
) -> dict[int, float]:
    """Return the share of the rate that each seed's flow has at the end."""
    by_seed = {}
    for seed in seeds:
        path = drawn.outages(seed, cc)
        text = path.toml()
        text += f'recovery = "{recovery}"\n' if recovery else ""
        text += 'ack = "linux"\ntso_defer = true\n' if as_linux else ""
        run = paceline.run(text, seed=1)
        by_seed[seed] = late(run) / path.rate
    return by_seed


def total(run: paceline.Run, since: float) -> list[float]:
    """Return the goodput of all flows in each tenth of a second, in Mbit/s, from `since` on."""
    grid = [round((since + step / 10) * 10**9) for step in range(10 * AFTER)]
    sums = [0] * len(grid)
    for [_], one in run.samples.group_by("flow"):
        rows = one.sort("t_ns").select("t_ns", "goodput_bytes").rows()
        at, have = 0, 0
        for step, time in enumerate(grid):
            while at < len(rows) and rows[at][0] <= time:
                have = rows[at][1]
                at += 1
            sums[step] += have
    return [80e-6 * (b - a) for a, b in itertools.pairwise(sums)]


def back(goodput: list[float], rate: float) -> float:
    """Return the time until a second has four fifths of the rate, in seconds."""
    for step in range(len(goodput) - 9):
        if sum(goodput[step : step + 10]) >= 0.8 * 10 * rate:
            return step / 10
    return math.inf


def held_by(run: paceline.Run, since: float, until: float, rate: float) -> str:
    """Return what holds the flows in a stretch of time, in seconds, if `rate` Mbit/s is right.

    `recovery`, if the flows are in Recovery or Loss for half of it: `timeout`, if for half of it
    they also send nothing (the timer is backed off), or `a round trip`, if it has less than three.
    Of BBR `max_bw too low` or `too high`, by a fifth, or `bounds`. Of a loss-based controller
    `avoidance`, its growth in Open, or `no growth`, if without a loss no window is larger at last.
    """
    part = run.samples.filter(pl.col("t_ns").is_between(since * 10**9, until * 10**9)).sort("t_ns")
    losing = pl.col("ca_state").is_in(["Recovery", "Loss"])
    if not part.height or part.select(losing.mean()).item() >= 0.5:
        sent = part.group_by("t_ns", maintain_order=True).agg(pl.col("sent_packets").sum())
        times = sent.filter(pl.col("sent_packets").diff() > 0)["t_ns"].to_list()
        edges = [since * 1e9, *times, until * 1e9]
        if 2 * max(b - a for a, b in itertools.pairwise(edges)) >= (until - since) * 1e9:
            return "timeout"
        rtt = part.select(pl.col("srtt_ns").median()).item() or 0
        return "recovery" if until - since >= 3e-9 * rtt else "a round trip"
    known = part["max_bw_bps"].drop_nulls() if "max_bw_bps" in part.columns else None
    if known is None or known.is_empty():
        first, last = pl.col("cwnd_bytes").first(), pl.col("cwnd_bytes").last()
        lost = pl.col("lost_packets").last() - pl.col("lost_packets").first()
        grew = part.group_by("flow", maintain_order=True).agg((last > first) | (lost > 0))
        return "avoidance" if grew["cwnd_bytes"].any() else "no growth"
    flows = part.group_by("flow").agg(pl.col("max_bw_bps").median())
    over = flows.select(pl.col("max_bw_bps").sum()).item() / 1e6 / rate
    return "max_bw too low" if over < 0.8 else "max_bw too high" if over > 1.2 else "bounds"


def any_change(seed: int) -> tuple[str, float, float, str]:
    """Return a drawn path's controller, the times until it is back, and what holds it if late."""
    path = drawn.changes(seed)
    cc = re.findall('cc = "(.*?)"', path.flows[0])[0]
    path.flows = [re.sub('cc = ".*?"', f'cc = "{cc}"', one) for one in path.flows]
    end = max(at for at, _ in path.ends)
    path.duration = round(end) + AFTER + 1
    run = paceline.run(path.toml(), seed=1)
    start = f'start = "{end:.3f} s"\ninitial_window = "2 packets"'
    path.flows = [re.sub('start = ".*?"', start, one) for one in path.flows]
    # A pause that is over before the flow starts is none.
    path.events = [one for one in path.events if "app =" not in one]
    fresh = total(paceline.run(path.toml(), seed=1), end)
    rate = sum(fresh[-300:]) / 300
    needed, least = back(total(run, end), rate), back(fresh, rate)
    due = 2 * least + (6 if cc.startswith("bbr") else 1)
    if needed <= due:
        return cc, needed, least, ""
    until = min(max(needed, due + 0.5), AFTER)
    return cc, needed, least, held_by(run, end + due, end + until, rate)


def any_changes(seeds: range) -> int:
    """Run drawn paths with any disturbance, and print how many are back in time."""
    changes: dict[str, Counter[str]] = {}
    with ProcessPoolExecutor() as pool:
        for seed, (cc, needed, fresh, cause) in zip(
            seeds, pool.map(any_change, seeds, chunksize=8), strict=True
        ):
            changes.setdefault(cc, Counter())[cause or "in time"] += 1
            if cause:
                late = f"{needed:.1f} s" if needed < math.inf else f"not within {AFTER} s"
                print(f"seed {seed}: {cc} {late}, fresh {fresh:.1f} s: {cause}", flush=True)
    for cc, counts in sorted(changes.items()):
        print(f"{cc}: {', '.join(f'{n} {how}' for how, n in counts.most_common())}")
    return 1 if any(counts["recovery"] + counts["no growth"] for counts in changes.values()) else 0


def main() -> int:
    """Run the paths, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--paths", type=int, default=400)
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--cc", default="cubic-linux")
    parser.add_argument("--recovery")
    parser.add_argument("--as-linux", action="store_true", help="the hosts' ACKs and bursts")
    parser.add_argument("--any", action="store_true", help="any disturbance, any controller")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.paths)
    if options.any:
        return any_changes(seeds)
    by_seed = shares(seeds, options.cc, options.recovery, as_linux=options.as_linux)
    worst = sorted(by_seed.items(), key=lambda one: one[1])
    pinned = [seed for seed, share in worst if share < 0.1]
    half = [seed for seed, share in worst if share < 0.5]
    print(f"{options.cc}: {len(pinned)} of {len(by_seed)} below a tenth, {len(half)} below half")
    print("worst:", ", ".join(f"{seed} {share:.3f}" for seed, share in worst[:6]))
    return 1 if pinned else 0


if __name__ == "__main__":
    sys.exit(main())
