"""Compare the simulator in wasm with the native one: equal digests of all tables (needs Node.js).

Usage: native.py WASM SCENARIO...; exits with 1 if any differs. A scenario that both refuse is
equal. Flows of QUIC stacks run only natively: such scenarios are counted apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import paceline

ENGINE = Path(__file__).with_name("engine.mjs")


def native(file: Path) -> str:
    """Return the digest of a run of the native simulator; empty if the scenario is refused."""
    try:
        return paceline.run(file).digest
    except paceline.ScenarioError:
        return ""


def compare(wasm: Path, files: list[Path]) -> tuple[list[str], int]:
    """Return a line for each scenario that differs, and how many need QUIC stacks."""
    told = subprocess.run(
        ["node", ENGINE, wasm, *files], check=True, capture_output=True, text=True
    ).stdout
    different, apart = [], 0
    for line in told.splitlines():
        answer = json.loads(line)
        if any("no QUIC stacks" in problem["message"] for problem in answer["problems"]):
            apart += 1
            continue
        expected = native(Path(answer["file"]))
        if answer["digest"] != expected:
            why = "; ".join(problem["message"] for problem in answer["problems"])
            different.append(
                f"{answer['file']}: {why or answer['digest']}, native {expected or 'refuses it'}"
            )
    return different, apart


def main() -> None:
    """Compare the scenarios of the command line."""
    wasm, *files = map(Path, sys.argv[1:])
    different, apart = compare(wasm, files)
    equal = len(files) - len(different) - apart
    print("\n".join([*different, f"{equal} of {len(files)} equal, {apart} need QUIC stacks"]))
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
