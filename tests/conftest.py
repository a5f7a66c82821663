"""Short scenarios, and the command as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import settings

import paceline
from paceline import _paceline, guests
from paceline.cli import main

if TYPE_CHECKING:
    from paceline.serve.server import Server

# Under nohup, commands that tests start would ignore the hang-up that tests send them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# pytest-xdist gives its workers a width, and commands write as widely as COLUMNS says.
os.environ.pop("COLUMNS", None)
# And readline, which pytest loads, passes it to the processes that tests start.
os.unsetenv("COLUMNS")

# A test does not judge how busy the machine is.
settings.register_profile("paceline", deadline=None)
settings.load_profile("paceline")

SCENARIO = """\
schema = 1
about = "Two flows share a small bottleneck"

[run]
duration = "2 s"
seed = 3

[path]
rate = "10 Mbit/s"
rtt = "20 ms"
queue = { kind = "droptail", size = "1 bdp" }

[[flows]]
cc = "bbr3"

[[flows]]
cc = "reno"
start = "200 ms"
"""


def lacking(controllers: tuple[str, ...] = ()) -> str:
    """Return why nothing can be emulated here."""
    report = json.loads(_paceline.doctor(True, lambda _: None))
    missing = [c["found"] for c in report["checks"] if c["state"] == "missing"]
    missing += [f"no {name}" for name in controllers if name not in report["controllers"]]
    return "; ".join(missing)


def until(true: Callable[[], object], seconds: float = 30) -> bool:
    """Return whether something becomes true in some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.02)
    return False


class Result(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Result]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let what this machine lacks be a failure where nothing may be skipped: `make ci-full`."""
    report = yield
    if report.skipped and os.environ.get("PACELINE_FULL"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"not run, and nothing may be left out here: {why}"
    return report


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="session")
def run() -> paceline.Run:
    return paceline.run(SCENARIO)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and a sweep, to serve."""
    import served

    return served.fill(tmp_path_factory.mktemp("above"))


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    """Serve these."""
    import served

    with served.serving(folder) as server:
        yield server


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Run ``paceline`` in an empty folder; its controllers are not those of the next test."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Result:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    yield call
    guests.choose(())
