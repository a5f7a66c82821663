"""How often `paceline conformance` is wrong: on right flows, and on seeded defects.

    nice python tests/peers/judged.py right [--cc bbr3] [--seeds 1-500] [--backend vm] [--later -1]
    nice python tests/peers/judged.py defects

`right` draws paths from seeds (1 to 200 Mbit/s, 2 to 300 ms, a quarter of a BDP to 16, losses to
2 %, jitter, aggregation, pauses of the application, one to four flows), runs a controller on each
and judges its packets by its own shadow: each broken check is a false one. With `--backend vm` it
is Linux's own controller (bbr, cubic, reno), as captured in its guest; with `--later`, its ACKs are
so many milliseconds later. `defects` changes one option of `bbr3` at a time and judges it on the
draft's baselines: on which its packets differ from the right flow's, and what is broken there.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

import paceline
from paceline.answers import Backend
from paceline.errors import PacelineError
from paceline.study.conformance.drawn import draw
from paceline.study.conformance.packets import judge

BASELINES = sorted(
    (Path(__file__).parents[2] / "conformance/draft-ietf-ccwg-bbr").glob("b?-*.toml")
)
#: What a kernel's controller is.
LINUX = {"bbr": "bbr1", "cubic": "cubic-linux", "reno": "reno"}
#: Values of each option, below and above the draft's.
DEFECTS: dict[str, tuple[float | str, ...]] = {
    "startup_pacing_gain": (2.0, 2.885, 3.5),
    "startup_cwnd_gain": (1.5, 3.0),
    "drain_pacing_gain": (0.35, 0.75),
    "probe_down_pacing_gain": (0.75, 0.95),
    "probe_cruise_pacing_gain": (0.9, 1.05),
    "probe_refill_pacing_gain": (0.9, 1.1),
    "probe_up_pacing_gain": (1.1, 1.4),
    "cwnd_gain": (1.5, 3.0),
    "probe_up_cwnd_gain": (2.0, 3.0),
    "probe_rtt_cwnd_gain": (0.25, 0.75),
    "pacing_margin": ("0 %", "3 %"),
    "loss_threshold": ("1 %", "5 %"),
    "beta": (0.5, 0.9),
    "headroom": ("0 %", "30 %"),
    "full_bw_growth": (1.1, 1.5),
    "full_bw_rounds": (2, 6),
    "startup_full_loss_count": (2, 20),
    "max_drain_rounds": (1, 10),
    "extra_acked_filter_rounds": (1, 30),
    "min_pipe_packets": (2, 10),
    "reno_rounds": (20, 200),
    "min_rtt_filter": ("3 s", "30 s"),
    "probe_rtt_interval": ("2 s", "10 s"),
    "probe_rtt_duration": ("100 ms", "400 ms"),
    "probe_wait": ("500 ms", "5 s"),
    "probe_wait_random": ("0 s", "4 s"),
}
#: Packets differ if this share of tenths of a second has another volume, by more than 5 %.
DIFFERS = 0.05


def right(cc: str, seeds: range, backend: Backend, later_ms: float) -> int:
    """Judge right flows; return how many are called broken."""
    counts: Counter[tuple[bool, str]] = Counter()
    untold: Counter[tuple[bool, str]] = Counter()
    false = done = 0
    for seed in seeds:
        kind, text = draw(seed, cc)
        try:
            run = paceline.run(text, seed=seed, backend=backend)
            names = (LINUX[cc] if backend == "vm" else cc,)
            (judged,) = judge(run, 0, names, int(later_ms * 1e6))
        except PacelineError as error:
            print(seed, kind, "left out:", str(error).partition("\n")[0], flush=True)
            continue
        done += 1
        alone = kind in ("plain", "slots")
        for check in judged.checks:
            counts[alone, check["verdict"]] += 1
            if check["verdict"] in ("not seen", "cannot be told"):
                untold[alone, check["why"] or check["id"]] += 1
        if broken := judged.having("broken"):
            false += 1
            told = ", ".join(f"{check['id']} {check['measured']:.4g}" for check in broken)
            print(seed, kind, f"{judged.likeness:.3f}", told, flush=True)
    for alone in (True, False):
        of = {verdict: n for (is_alone, verdict), n in counts.items() if is_alone == alone}
        every = sum(of.values()) or 1
        told = ", ".join(f"{verdict} {100 * n / every:.1f} %" for verdict, n in sorted(of.items()))
        print("alone, no losses:" if alone else "others:", told)
        for (is_alone, why), n in untold.most_common():
            if is_alone == alone and n > every / 200:
                print(f"  {100 * n / every:.1f} % {why}")
    print(f"{false} of {done} right flows have a broken check")
    return false


def defects() -> None:
    """Judge flows with one option changed."""
    texts = {path.stem[:2]: path.read_text() for path in BASELINES}
    own = {name: _volumes(_run(text)) for name, text in texts.items()}
    seen = found = 0
    for option, values in DEFECTS.items():
        for value in values:
            differs, broken = [], {}
            for name, text in texts.items():
                written = f'"{value}"' if isinstance(value, str) else value
                changed = f'cc = {{ name = "bbr3", {option} = {written} }}'
                run = _run(text.replace('cc = "bbr3"', changed, 1))
                mine, theirs = own[name], _volumes(run)
                longer = max(len(mine), len(theirs))
                mine, theirs = np.resize(mine, longer), np.resize(theirs, longer)
                if np.mean(abs(mine - theirs) > 0.05 * np.maximum(mine, 1)) > DIFFERS:
                    differs.append(name)
                (judged,) = judge(run, 0, ("bbr3",))
                if checks := judged.having("broken"):
                    broken[name] = [check["id"] for check in checks]
            seen += bool(differs)
            found += bool(differs) and bool(broken)
            print(option, value, "differs on", differs, "broken:", broken, flush=True)
    print(f"{found} of {seen} defects that packets show are found")


def _run(text: str) -> paceline.Run:
    return paceline.run(text, overrides={"run.record.packets": True})


def _volumes(run: paceline.Run) -> np.ndarray:
    """Return the bytes that the first flow sent in each tenth of a second."""
    sent = run.packets.filter(
        (pl.col("flow") == 0) & pl.col("kind").cast(pl.String).is_in(["send", "retransmit"])
    )
    bins = (sent["t_ns"] // 100_000_000).to_numpy()
    return np.bincount(bins, weights=sent["len_bytes"].to_numpy())


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("right")
    one.add_argument("--cc", default="bbr3")
    one.add_argument("--seeds", default="1-500")
    one.add_argument("--backend", choices=("sim", "vm"), default="sim")
    one.add_argument("--later", type=float, default=0.0, metavar="MS")
    verbs.add_parser("defects")
    asked = parser.parse_args()
    if asked.verb == "defects":
        defects()
        return 0
    first, _, last = asked.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    return min(right(asked.cc, seeds, asked.backend, asked.later), 1)


if __name__ == "__main__":
    sys.exit(main())
