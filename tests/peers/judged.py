"""How often `paceline conformance` is wrong: on right flows, and on seeded defects.

    nice python tests/peers/judged.py right [--cc bbr3] [--seeds 1-500] [--backend vm] [--later -1]
    nice python tests/peers/judged.py defects [--rules]

`right` draws paths from seeds (1 to 200 Mbit/s, 2 to 300 ms, a quarter of a BDP to 16, losses to
2 %, jitter, aggregation, pauses of the application, one to four flows), runs a controller on each
and judges its packets by its own shadow: each broken check is a false one. With `--backend vm` it
is Linux's own controller (bbr, cubic, reno), as captured in its guest; with `--later`, its ACKs are
so many milliseconds later. `defects` changes one option of `bbr3` at a time and judges it on the
draft's baselines: on which its packets differ from the right flow's, and what is broken there. With
`--rules` it builds an engine that can leave out a rule of the draft, and leaves out one at a time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

import paceline
from paceline.answers import Backend
from paceline.errors import PacelineError
from paceline.study.conformance.drawn import draw
from paceline.study.conformance.packets import judge

BASELINES = sorted(
    (Path(__file__).parents[2] / "data/conformance/draft-ietf-ccwg-bbr").glob("b?-*.toml")
)
#: What a kernel's controller is.
LINUX = {"bbr": "bbr1", "cubic": "cubic-linux", "reno": "reno-linux"}
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
#: The controller's sources.
BBR3 = "crates/congestion/src/bbr3"
#: Rules of the draft: the file, what stands there, and what leaves the rule out.
RULES = {
    "round counting": (
        "model.rs",
        "ack.sample.prior_delivered >= self.next_round_delivered;",
        "LEFT_OUT || ack.sample.prior_delivered >= self.next_round_delivered;",
    ),
    "the maximum of the bandwidth": (
        "model.rs",
        "rate > Rate::ZERO && (rate >= self.max_bw",
        "rate > Rate::ZERO && (LEFT_OUT || rate >= self.max_bw",
    ),
    "the filter's advance": (
        "model.rs",
        "if self.max_bw_filter[1] > Rate::ZERO {",
        "if self.max_bw_filter[1] > Rate::ZERO && !LEFT_OUT {",
    ),
    "the response to loss": (
        "model.rs",
        "if !self.state.is_probing() && self.is_loss_in_round {",
        "if !self.state.is_probing() && self.is_loss_in_round && !LEFT_OUT {",
    ),
    "extra_acked": (
        "model.rs",
        "let extra = (self.extra_acked_delivered - expected).min(self.cwnd);",
        "let extra = if LEFT_OUT { Bytes::ZERO } else {"
        " (self.extra_acked_delivered - expected).min(self.cwnd) };",
    ),
    "the quantum": (
        "control.rs",
        ".max(self.smss() * 2)",
        ".max(self.smss() * if LEFT_OUT { 40 } else { 2 })",
    ),
    "the pace that Startup keeps": (
        "control.rs",
        "let applies = self.full_bw_reached ||",
        "let applies = LEFT_OUT || self.full_bw_reached ||",
    ),
    "the short-term model's reset": (
        "probe_bw.rs",
        "self.reset_short_term_model();",
        "if !LEFT_OUT { self.reset_short_term_model(); }",
    ),
    "inflight_longterm's growth": (
        "probe_bw.rs",
        "if !ack.cwnd_limited || self.cwnd",
        "if LEFT_OUT || !ack.cwnd_limited || self.cwnd",
    ),
    "one round of REFILL": (
        "probe_bw.rs",
        "State::Refill if self.round_start =>",
        "State::Refill if LEFT_OUT || self.round_start =>",
    ),
    "DOWN's end by what is in flight": (
        "probe_bw.rs",
        "State::Down if self.is_time_to_cruise(ack.in_flight)",
        "State::Down if LEFT_OUT || self.is_time_to_cruise(ack.in_flight)",
    ),
    "inflight_longterm's cut": (
        "loss.rs",
        "if !app_limited {",
        "if !app_limited && !LEFT_OUT {",
    ),
    "Startup's end by losses": (
        "loss.rs",
        "self.loss_ranges_in_round = self.loss_ranges_in_round.saturating_add(1);",
        "self.loss_ranges_in_round += u32::from(!LEFT_OUT);",
    ),
    "the window's restoration after recovery": (
        "loss.rs",
        "self.cwnd = self.cwnd.max(self.prior_cwnd);",
        "if !(LEFT_OUT && self.state != State::ProbeRtt) {"
        " self.cwnd = self.cwnd.max(self.prior_cwnd); }",
    ),
    "the window's restoration after ProbeRTT": (
        "probe_rtt.rs",
        "self.restore_cwnd();",
        "if !LEFT_OUT { self.restore_cwnd(); }",
    ),
    "ProbeRTT's round": (
        "probe_rtt.rs",
        "self.probe_rtt_round_done = false;",
        "self.probe_rtt_round_done = LEFT_OUT;",
    ),
    "the restart from idle": (
        "probe_rtt.rs",
        "if sent.in_flight > Bytes::ZERO || !sent.app_limited {",
        "if LEFT_OUT || sent.in_flight > Bytes::ZERO || !sent.app_limited {",
    ),
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
            listed = ", ".join(f"{check['id']} {check['measured']:.4g}" for check in broken)
            print(seed, kind, f"{judged.likeness:.3f}", listed, flush=True)
    for alone in (True, False):
        of = {verdict: n for (is_alone, verdict), n in counts.items() if is_alone == alone}
        every = sum(of.values()) or 1
        listed = ", ".join(
            f"{verdict} {100 * n / every:.1f} %" for verdict, n in sorted(of.items())
        )
        print("alone, no losses:" if alone else "others:", listed)
        for (is_alone, why), n in untold.most_common():
            if is_alone == alone and n > every / 200:
                print(f"  {100 * n / every:.1f} % {why}")
    print(f"{false} of {done} right flows have a broken check")
    return false


def defects(rules: bool) -> None:
    """Judge flows with one option changed, or with one rule of the draft left out."""
    texts = {path.stem[:2]: path.read_text() for path in BASELINES}
    own = {name: _volumes(_run(text)) for name, text in texts.items()}
    visible = detected = 0
    for defect, runs in _without_rules(texts) if rules else _with_options(texts):
        differs, broken = [], {}
        for name, run in runs.items():
            mine, theirs = own[name], _volumes(run)
            longer = max(len(mine), len(theirs))
            mine, theirs = np.resize(mine, longer), np.resize(theirs, longer)
            if np.mean(abs(mine - theirs) > 0.05 * np.maximum(mine, 1)) > DIFFERS:
                differs.append(name)
            (judged,) = judge(run, 0, ("bbr3",))
            if checks := judged.having("broken"):
                broken[name] = [check["id"] for check in checks]
        visible += bool(differs)
        detected += bool(differs) and bool(broken)
        print(defect, "differs on", differs, "broken:", broken, flush=True)
    print(f"{detected} of {visible} defects that packets show are found")


Flawed = Iterator[tuple[str, dict[str, paceline.Run]]]


def _with_options(texts: dict[str, str]) -> Flawed:
    for option, values in DEFECTS.items():
        for value in values:
            written = f'"{value}"' if isinstance(value, str) else value
            changed = f'cc = {{ name = "bbr3", {option} = {written} }}'
            flawed = {n: text.replace('cc = "bbr3"', changed, 1) for n, text in texts.items()}
            yield f"{option} {value}", {name: _run(text) for name, text in flawed.items()}


def _without_rules(texts: dict[str, str]) -> Flawed:
    """Build an engine whose `bbr3` leaves out the rule that an environment variable names."""
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["git", "clone", "-q", root, place], check=True)
        library = Path(place, "crates/congestion/src/lib.rs")
        library.write_text(library.read_text().replace("#![no_std]\n", ""))
        for rule, (name, old, new) in RULES.items():
            source = Path(place, BBR3, name)
            text = source.read_text()
            if text.count(old) != 1:
                sys.exit(f"{name} has {text.count(old)} of what {rule} replaces: {old}")
            guard = f'(std::env::var("LEFT_OUT").as_deref() == Ok("{rule}"))'
            source.write_text(text.replace(old, new.replace("LEFT_OUT", guard)))
        target = str(root / "target/judged")
        build = ["cargo", "build", "--release", "--quiet", "-p", "paceline-python", "--target-dir"]
        subprocess.run([*build, target], cwd=place, check=True)
        module = f"{place}/python/paceline/_paceline.abi3.so"
        shutil.copy(f"{target}/release/lib_paceline.so", module)
        for rule in RULES:
            runs = {}
            for name, text in texts.items():
                file, out = f"{place}/{name}.toml", f"{place}/{rule}/{name}"
                Path(file).write_text(text)
                command = [sys.executable, "-m", "paceline", "run", file, "--out", out, "--quiet"]
                subprocess.run(
                    [*command, "--set", "run.record.packets=true"],
                    env=os.environ | {"LEFT_OUT": rule, "PYTHONPATH": f"{place}/python"},
                    stdout=subprocess.DEVNULL,
                )
                runs[name] = paceline.Run.read(out)
            yield rule, runs


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
    verbs.add_parser("defects").add_argument("--rules", action="store_true")
    options = parser.parse_args()
    if options.verb == "defects":
        defects(options.rules)
        return 0
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    return min(right(options.cc, seeds, options.backend, options.later), 1)


if __name__ == "__main__":
    sys.exit(main())
