"""Whether a flow is back after outages and heavy loss, or is pinned to a few packets.

    nice python tests/peers/back_after.py [--paths 400] [--from 1] [--cc NAME] [--recovery KIND]

Draws paths (`drawn.outages`): 20 to 80 Mbit/s, 120 to 250 ms, three outages of 0.2 to 0.4 s, then
30 to 50 % loss for up to a second. From 20 to 40 s the path is clean. It prints how many flows have
less than a tenth and less than half of the rate there, and the worst. It exits with 1 if one is
pinned: less than a tenth.
"""

from __future__ import annotations

import argparse
import sys

import drawn

import paceline

#: The clean time, in seconds.
FROM, UNTIL = 20, 40


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
    found = {}
    for seed in seeds:
        path = drawn.outages(seed, cc)
        text = path.toml()
        text += f'recovery = "{recovery}"\n' if recovery else ""
        text += 'ack = "linux"\ntso_defer = true\n' if as_linux else ""
        run = paceline.run(text, seed=1)
        found[seed] = late(run) / path.rate
    return found


def main() -> int:
    """Run the paths, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--paths", type=int, default=400)
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--cc", default="cubic-linux")
    parser.add_argument("--recovery")
    parser.add_argument("--as-linux", action="store_true", help="the hosts' ACKs and bursts")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.paths)
    found = shares(seeds, asked.cc, asked.recovery, as_linux=asked.as_linux)
    worst = sorted(found.items(), key=lambda one: one[1])
    pinned = [seed for seed, share in worst if share < 0.1]
    half = [seed for seed, share in worst if share < 0.5]
    print(f"{asked.cc}: {len(pinned)} of {len(found)} below a tenth, {len(half)} below half")
    print("worst:", ", ".join(f"{seed} {share:.3f}" for seed, share in worst[:6]))
    return 1 if pinned else 0


if __name__ == "__main__":
    sys.exit(main())
