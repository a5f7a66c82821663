"""`make soak`: what takes hours. It says what it ran, with seeds, and writes `docs/soak.md`.

make soak                                 everything
make soak SOAK="generator kills"          some parts
make soak SOAK="generator --scale 0.1"    less of them
make soak SOAK="generator --seed 7"       from the same seed again
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "soak.md"
FUZZ = ("capture", "ets", "golden", "packet", "record", "run", "scenario", "trace")
#: Inputs for each reader in Rust: together 10^8.
BENDS = {
    "ets": 6e7,
    "packet": 3e7,
    "trace": 6e6,
    "capture": 1e6,
    "scenario": 1.5e6,
    "golden": 1e6,
    "run": 4e5,
    "record": 1e5,
}
#: What mutants are made of: files, and packages whose tests may kill them, their own first.
MUTANTS = (
    ("crates/congestion/src/**", ("paceline-congestion", "paceline-conformance")),
    ("crates/recovery/src/**", ("paceline-recovery",)),
    ("crates/path/src/queue/**", ("paceline-path",)),
    ("lab/record/src/{metrics,fairness,rounds}.rs", ("paceline-record",)),
)
#: Parts in which mutants are tried: each once, until the code changes.
SHARDS = 64


class LackingError(Exception):
    """A tool that this machine does not have."""


@dataclass
class Done:
    """The output of a command, and its exit code."""

    code: int
    output: str

    @property
    def last(self) -> str:
        """The last line that is not empty."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def call(*command: str, **environment: str) -> Done:
    """Run a command at low priority, show what it says, and return it."""
    if shutil.which(command[0]) is None:
        raise LackingError(command[0])
    print("$", *(f"{key}={value}" for key, value in environment.items()), *command, flush=True)
    process = subprocess.Popen(
        ["nice", "-n", "19", *command],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    output = []
    for line in process.stdout:
        print(line, end="", flush=True)
        output.append(line)
    return Done(process.wait(), "".join(output))


def many(count: float, scale: float) -> str:
    """Return a number as a part of itself, at least one."""
    return str(max(1, round(count * scale)))


Row = tuple[str, str, bool]


def soak(*arguments: str) -> Done:
    """Call the generator."""
    return call("cargo", "run", "--quiet", "--release", "-p", "paceline-soak", "--", *arguments)


def generator(seed: int, scale: float) -> Iterator[Row]:
    """Random scenarios, and some of them on one thread and on all."""
    count = many(10_000, scale)
    done = soak("--seed", str(seed), "--count", count)
    yield f"{count} random scenarios", done.last, done.code == 0
    few = ("--seed", str(seed), "--count", many(500, scale))
    digests = {
        re.sub(r".*digest ", "", soak(*few, "--threads", threads).last) for threads in ("1", "4")
    }
    same = len(digests) == 1
    text = "the same bytes" if same else "different bytes"
    yield f"{few[3]} of them on one thread and on four", text, same


def emulated(seed: int, scale: float) -> Iterator[Row]:
    """Random scenarios in real time."""
    count = many(20, scale)
    done = soak("--emulated", "--seed", str(seed), "--count", count)
    yield f"{count} random scenarios, emulated", done.last, done.code == 0


def kills(seed: int, scale: float) -> Iterator[Row]:
    """Every verb that writes, killed and on a full disk."""
    count = many(100, scale)
    tests = (sys.executable, "-m", "pytest", "tests/test_kill.py")
    done = call(*tests, PACELINE_KILLS=count, PACELINE_SEED=str(seed % 2**32))
    yield f"each verb that writes, killed {count} times", done.last, done.code == 0


def readers(seed: int, scale: float) -> Iterator[Row]:
    """The readers in Python, with corrupted inputs."""
    count = many(100_000, scale)
    tests = (sys.executable, "-m", "pytest", "tests/test_fuzz.py")
    done = call(*tests, PACELINE_FUZZ=count, PACELINE_SEED=str(seed % 2**32))
    yield f"each reader in Python, {count} corrupted inputs", done.last, done.code == 0


def bends(seed: int, scale: float) -> Iterator[Row]:
    """The readers in Rust, with corrupted inputs."""
    for reader, count in BENDS.items():
        done = soak("--bend", reader, "--seed", str(seed), "--count", many(count, scale))
        yield f"`{reader}`, corrupted inputs", done.last, done.code == 0


def fuzzers(seed: int, scale: float) -> Iterator[Row]:
    """The readers in Rust, with libFuzzer."""
    if shutil.which("cargo-fuzz") is None:
        raise LackingError("cargo-fuzz")
    limits = (
        f"-seed={seed % 2**32}",
        f"-max_total_time={many(1800, scale)}",
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
    )
    for name in ("seeds", "found"):
        with tarfile.open(ROOT / "tests" / "fuzz" / f"{name}.tar.gz") as archive:
            archive.extractall(ROOT / "tests" / "fuzz", filter="data")
    for target in FUZZ:
        seeds = {"run": "tests/fuzz/seeds/scenario", "packet": "tests/fuzz/seeds/ets"}
        seeded = seeds.get(target, f"tests/fuzz/seeds/{target}")
        folders = [f"tests/fuzz/corpus/{target}", f"tests/fuzz/found/{target}", seeded]
        (ROOT / folders[0]).mkdir(parents=True, exist_ok=True)
        folders = [folder for folder in folders if (ROOT / folder).is_dir()]
        cargo = ("cargo", "+nightly", "fuzz", "run", "--fuzz-dir", "tests/fuzz")
        fuzz = (*cargo, "--sanitizer", "none", target, *folders)
        done = call(*fuzz, "--", *limits)
        ran = re.findall(r"Done (\d+) runs in (\d+) second", done.output)
        text = f"{ran[-1][0]} executions in {ran[-1][1]} s" if ran else done.last
        yield f"`{target}`, libFuzzer", text, done.code == 0


def mutants(seed: int, scale: float) -> Iterator[Row]:
    """Mutants of controllers, recovery, queues and metrics, part by part."""
    if shutil.which("cargo-mutants") is None:
        raise LackingError("cargo-mutants")
    accepted = survivors()
    for files, packages in MUTANTS:
        missed, tried, well = set(), 0, True
        shards = range(max(1, round(SHARDS * min(scale, 1.0))))
        for shard in ((seed + nth) % SHARDS for nth in shards):
            out = ROOT / "target" / "mutants" / packages[0] / str(shard)
            if not is_done(out):
                well &= mutate(files, packages, shard, out)
            missed |= unplaced(out / "mutants.out" / "missed.txt")
            tried += len(json.loads((out / "mutants.out" / "mutants.json").read_text()))
        fresh = sorted(missed - accepted)
        text = f"{tried} tried in {len(shards)} of {SHARDS} parts, {len(missed)} survived"
        if fresh:
            text += f"; without a reason below: {', '.join(f'`{each}`' for each in fresh)}"
        yield f"mutants of `{files}`", text, well and not fresh


def mutate(files: str, packages: tuple[str, ...], shard: int, out: Path) -> bool:
    """Try a part of the mutants of some files."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tests = (option for package in packages for option in ("--test-package", package))
    done = call(
        *("cargo", "mutants", "--package", packages[0], "--file", files, *tests),
        *("--shard", f"{shard}/{SHARDS}", "--sharding", "round-robin"),
        *("--minimum-test-timeout", "120", "--output", str(out), "--colors", "never"),
    )
    # Survivors and time-outs are results.
    if done.code in (0, 2, 3):
        (out / "done").write_text(head())
    return done.code in (0, 2, 3)


def is_done(out: Path) -> bool:
    """Whether a part of the mutants has been tried with the code as it is."""
    done = out / "done"
    return done.is_file() and done.read_text() == head()


def head() -> str:
    """Return what identifies a state of the crates."""
    command = ("git", "rev-parse", "HEAD:crates")
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def unplaced(file: Path) -> set[str]:
    """Return mutants as `crates/.../sums.rs: replace < with <= in add_repeatedly`: lines move."""
    return {re.sub(r":\d+:\d+:", ":", line.strip()) for line in file.read_text().splitlines()}


def survivors() -> set[str]:
    """Return the mutants that may survive; the page has a row with the reason of each."""
    rows = re.findall(r"^\| `(crates/[^`]+)` \| .+ \|$", PAGE.read_text(), re.MULTILINE)
    return {row.replace("\\|", "|") for row in rows}


PARTS: dict[str, Callable[[int, float], Iterator[Row]]] = {
    "generator": generator,
    "emulated": emulated,
    "kills": kills,
    "readers": readers,
    "bends": bends,
    "fuzzers": fuzzers,
    "mutants": mutants,
}

HEAD = """\
# Soak: last result

`make soak` writes this page. It draws random scenarios and judges each run, kills every verb that
writes, feeds corrupted input to every reader, and mutates the code under its tests. Repeat a part
from its seed with `make soak SOAK="PART --seed SEED"`. A part keeps its result until it runs again.

| part | date | seed | what | result | took |
|---|---|---|---|---|---|
"""


def record(part: str, rows: list[str]) -> None:
    """Replace what the page says of a part."""
    text = PAGE.read_text() if PAGE.exists() else HEAD
    results, _, tail = text.partition("\n\n## ")
    known = [line for line in results.splitlines() if line.startswith("| ")][1:]
    kept = [line for line in known if not line.startswith(f"| {part} |")] + rows
    kept.sort(key=lambda line: list(PARTS).index(line.split(" | ")[0].removeprefix("| ")))
    PAGE.write_text(HEAD + "\n".join(kept) + "\n" + (f"\n## {tail}" if tail else ""))


def main() -> int:
    """Run the parts, and return 1 if one has failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all of them")
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1000)
    parser.add_argument("--scale", type=float, default=1.0, help="0.1: a tenth of it")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}")
    failed = []
    for part in given.parts or PARTS:
        print(f"{part}: seed {given.seed}", flush=True)
        rows, began = [], time.monotonic()
        try:
            for what, text, well in PARTS[part](given.seed, given.scale):
                took = round(time.monotonic() - began)
                date = datetime.date.today().isoformat()
                text = text if well else f"**failed**: {text}"
                rows.append(f"| {part} | {date} | {given.seed} | {what} | {text} | {took} s |")
                if not well:
                    failed.append(part)
                began = time.monotonic()
        except LackingError as lacking:
            print(f"{part}: not run: {lacking} is not on PATH", flush=True)
            failed.append(part)
            continue
        record(part, rows)
        print("\n".join(rows), flush=True)
    print(f"failed or not run: {', '.join(failed)}" if failed else "all passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
