"""Compare the simulator in wasm with the native one: equal digests of all tables.

Usage: native.py WASM SCENARIO... in Node.js, native.py PAGE SCENARIO... in headless Chromium, where
PAGE is the playground's index.html; exits with 1 if any differs. A scenario that both refuse is
equal. Flows of QUIC stacks and traces from files run only natively: such scenarios are counted
apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paceline

#: What a page cannot run, as it says.
APART = ("no QUIC stacks", "cannot read the trace")

ENGINE = Path(__file__).with_name("engine.mjs")


def native(file: Path) -> str:
    """Return the digest of a run of the native simulator; empty if the scenario is refused."""
    try:
        return paceline.run(file).digest
    except paceline.ScenarioError:
        return ""


def in_node(wasm: Path, files: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield the file, the problems and the digest of each scenario in Node.js."""
    told = subprocess.run(
        ["node", ENGINE, wasm, *files], check=True, capture_output=True, text=True
    ).stdout
    yield from map(json.loads, told.splitlines())


def in_browser(page: Path, files: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield the same of the page in headless Chromium."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    from browser import Browser

    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(Path(profile))
        browser.open(page.resolve().as_uri())
        browser.wait("document.body.dataset.ready")
        for file in files:
            text = json.dumps(file.read_text("utf-8"))
            browser.evaluate(f"toml.value = {text}; document.body.dataset.digest = ''; run.click()")
            browser.wait("['done', 'failed'].includes(document.body.dataset.state)", 600)
            said = "[...problems.querySelectorAll('li')].map((item) => item.textContent)"
            yield {
                "file": str(file),
                "problems": [{"message": each} for each in browser.evaluate(said)],
                "digest": browser.evaluate("document.body.dataset.digest"),
            }
        browser.close()


def compare(engine: Path, files: list[Path]) -> tuple[list[str], int]:
    """Return a line for each scenario that differs, and how many run only natively."""
    answers = in_node if engine.suffix == ".wasm" else in_browser
    different, apart = [], 0
    for answer in answers(engine, files):
        if any(said in problem["message"] for problem in answer["problems"] for said in APART):
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
    engine, *files = map(Path, sys.argv[1:])
    different, apart = compare(engine, files)
    equal = len(files) - len(different) - apart
    print(
        "\n".join(
            [*different, f"{equal} of {len(files)} equal, {apart} need QUIC stacks or a file"]
        )
    )
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
