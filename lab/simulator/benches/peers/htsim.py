#!/usr/bin/env python3
"""The cost of a packet beside csg-htsim's, whole processes in turn.

    make bench HTSIM=PATH
    lab/simulator/benches/peers/htsim.py PATH [PAIRS]

PATH is the folder `sim` of a csg-htsim whose library is built (`make libhtsim.a`). The driver,
htsim.cpp, is built into target/peers. `benches/engine.rs` runs our side, with its record.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
BUILD = ROOT / "target" / "peers"
#: Workload, seconds of virtual time, our controllers, and the other side's.
WORK = [
    ("W1", "300", ("reno", "bbr3"), "NewReno"),
    ("W2", "300", ("bbr3",), "NewReno"),
    ("W3", "0.2", ("reno", "bbr3", "dctcp"), "DCTCP"),
]


def bench() -> str:
    """Build the benchmark, and return its path."""
    # The package of the Python module gives shared crates the features they have in the wheel.
    command = "cargo bench --quiet --profile dist --bench engine --no-run"
    command += " -p paceline-simulator -p paceline-python"
    said = subprocess.run(
        [*command.split(), "--message-format=json"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    built = [json.loads(line).get("executable") for line in said.stdout.splitlines()]
    return [path for path in built if path][-1]


def driver(htsim: Path) -> str:
    """Build the driver, and return its path."""
    BUILD.mkdir(parents=True, exist_ok=True)
    out = BUILD / "htsim"
    flags = ["-std=c++17", "-O3", "-w", "-I", str(htsim)]
    source = [str(HERE / "htsim.cpp"), str(htsim / "libhtsim.a")]
    subprocess.run(["g++", *flags, *source, "-o", str(out)], check=True)
    return str(out)


def cost(command: list[str]) -> tuple[float, int]:
    """Run a command, and return its CPU seconds and the packets that it prints."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    packets = int(child.stdout.read())
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"error: {command} ended with status {status}")
    return used.ru_utime + used.ru_stime, packets


def main() -> None:
    """Print a row for each workload and controller."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    htsim, pairs = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 7
    if not (htsim / "libhtsim.a").is_file():
        sys.exit(f"error: {htsim} has no libhtsim.a\nhint: make -C {htsim} libhtsim.a")
    ours, theirs = bench(), driver(htsim)
    print(f"CPU of the whole process, medians of {pairs} pairs in turn; packets sent")
    print(f"{'workload':<10}{'ours':>20}{'csg-htsim':>20}  a packet, ours over csg-htsim (range)")
    for kind, seconds, controllers, other in WORK:
        for cc in controllers:
            found = [
                (cost([ours, "--once", f"{kind} {cc}", seconds]), cost([theirs, kind, seconds]))
                for _ in range(pairs)
            ]
            ratios = sorted((a / m) / (b / n) for (a, m), (b, n) in found)
            left, right = (
                f"{statistics.median(pair[side][0] for pair in found):.3f} s, "
                f"{found[0][side][1] / 1e6:.3f} M"
                for side in (0, 1)
            )
            print(
                f"{kind} {cc:<7}{left:>20}{right:>20}  {statistics.median(ratios):.2f} "
                f"({ratios[0]:.2f} to {ratios[-1]:.2f}), {other}"
            )


if __name__ == "__main__":
    main()
