"""Short scenarios, and the command as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import paceline
import pytest

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

Result = subprocess.CompletedProcess[str]
Command = Callable[..., Result]


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="session")
def run() -> paceline.Run:
    return paceline.run(SCENARIO)


@pytest.fixture
def cli(tmp_path: Path) -> Command:
    """Run ``paceline`` in an empty folder."""

    def call(*arguments: object, **environment: str) -> Result:
        return subprocess.run(
            [sys.executable, "-m", "paceline", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "100", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return call
