"""Every verb that writes, as one table; and processes that carry them out, to be killed.

A test holds the table against the command's own list of verbs.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import paceline
from conftest import SCENARIO

GRID = (
    SCENARIO.replace('"2 s"', '"1 s"')
    + """
[sweep]
seeds = 8
metrics = ["utilisation_ratio"]

[sweep.over]
path.rate = ["5 Mbit/s", "10 Mbit/s"]
"""
)

CLAIMS = """
[[claims]]
id = "{id}"
topic = "alone"
source = "RFC 9743"
published = "it has a high rate"
measured = "mean(one.goodput_bps)"
accept = ["mean(one.goodput_bps) >= 1"]
seeds = 2
[claims.cases.one]
scenario = "../one.toml"
set = {{ "flows.0.cc" = "{cc}" }}
"""

#: Every verb that writes: what is written by which call.
WRITERS: dict[str, tuple[str, ...]] = {
    "run": ("run", "grid.toml", "--repeats", "2", "--report", "--out", "r"),
    "run one": ("run", "one.toml", "--out", "r"),
    "sweep": ("sweep", "grid.toml", "--table", "queue", "--out", "r"),
    "report": ("report", "record", "--out", "r/page.html"),
    "report png": ("report", "record", "--format", "png", "--out", "r/figure.png"),
    "export csv": ("export", "record", "--format", "csv", "--out", "r/csv"),
    "export qlog": ("export", "record", "--format", "qlog", "--out", "r/qlog"),
    "export pcapng": ("export", "record", "--format", "pcapng", "--out", "r/one.pcapng"),
    "sequence": ("sequence", "record", "--out", "r/sequence.svg"),
    "import": (
        *("import", "flow.trace", "--rtt", "40 ms", "--queue", "99 packets"),
        *("--out", "r/a.toml"),
    ),
    "fit": ("fit", "record", "--out", "r/fitted.toml"),
    "advise": (
        *("advise", "one.toml", "--cc", "cubic", "reno", "--paths", "10"),
        *("--out", "r/advice.html"),
    ),
    "search": (
        *("search", "grid.toml", "--goal", "goodput_bps > 1 Gbit/s", "--budget", "8 runs"),
        *("--set", "sweep.seeds=1", "--out", "r"),
    ),
    "claims": ("claims", "--claims", "claims", "--out", "r"),
    "evaluate": (
        *("evaluate", "cubic", "--quick", "--suite", "suite", "--scenarios", "."),
        *("--against", "reno", "--seeds", "1", "--out", "r"),
    ),
    "reference": ("reference", "export", "03", "--out", "r"),
    "startup": ("startup", "2.77", "--plot", "r/startup.svg"),
    "init": ("init", "r/a.toml"),
}
#: Verbs that write no file. `serve` writes on request, and is killed in a test of its own.
#: `vm` needs a kernel and minutes; what it writes is under its own name only when it is complete.
READERS = {
    "check",
    "compare",
    "completion",
    "conformance",
    "doctor",
    "kernel",
    "list",
    "playground",
}
READERS |= {"serve"}
# `shell` writes one record, when its programs have ended; it has tests of its own.
READERS |= {"vm", "shell"}
# So does `perf`, when its test has ended.
READERS |= {"perf"}


def prepare(place: Path, run: paceline.Run) -> dict[str, bytes]:
    """Make a folder with all that the verbs read, and with what others have there."""
    (place / "notes").mkdir(parents=True)
    (place / "notes" / "mine.txt").write_text("mine")
    (place / ".paceline-mine").write_text("mine")
    (place / "grid.toml").write_text(GRID)
    for name in ("one.toml", "pair.toml"):
        (place / name).write_text(SCENARIO.replace('"2 s"', '"0.5 s"'))
    (place / "flow.trace").write_text("".join(f"{n}\n" for n in range(3000)))
    for file, text in (
        ("claims/s.toml", CLAIMS.format(id="S1", cc="cubic")),
        ("suite/rfc9743.toml", CLAIMS.format(id="1", cc="{cc}")),
    ):
        (place / file).parent.mkdir()
        (place / file).write_text(text)
    run.write(place / "record")
    return tree(place)


def tree(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def begin(verb: str, place: Path) -> None:
    """Make what a user would make first: the folder of a single file."""
    if "/" in WRITERS[verb][-1]:
        (place / "r").mkdir(exist_ok=True)


class Ended(NamedTuple):
    """How a process ended."""

    code: int | None
    output: str


def _carry_out(place: str, arguments: tuple[str, ...], output: str) -> None:
    from paceline.cli import main

    os.chdir(place)
    with open(output, "w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        sys.exit(main(list(arguments)))


class Processes:
    """Starts commands in processes of their own, in which everything is imported already."""

    def __init__(self, logs: Path) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["verbs", "paceline.cli", "matplotlib.figure"])
        self._logs, self._count = logs, 0

    def start(self, verb: str, place: Path) -> tuple[BaseProcess, Path]:
        """Start a verb in a folder."""
        self._count += 1
        output = self._logs / f"{self._count}.txt"
        output.touch()
        process = self._context.Process(
            target=_carry_out, args=(str(place), WRITERS[verb], str(output))
        )
        process.start()
        return process, output

    def run(self, verb: str, place: Path) -> Ended:
        """Run a verb to its end."""
        process, output = self.start(verb, place)
        process.join(120)
        return Ended(process.exitcode, output.read_text(errors="replace"))


@contextlib.contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[Path | None]:
    """Yield a folder on a disk of its own, as small as that; `None` if none can be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
