"""The page's scripts are what ``web/`` builds, and its types are what the server says."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

import paceline
from conftest import SCENARIO
from described import wrong
from paceline import pages
from paceline.serve.catalogue import Catalogue
from paceline.serve.jobs import Job
from paceline.serve.series import QUANTITIES, InMemory, series
from paceline.show.packets import of_flows
from paceline.show.page import drawn
from paceline.show.panels import Sketch
from paceline.study.sweep import Plan, execute

ROOT = Path(__file__).parent.parent
WEB = ROOT / "web"
SHIPPED = ROOT / "python" / "paceline" / "web"


def sources() -> str:
    """Return the hash that `web/build.mjs` writes into what it builds."""
    names = ["build.mjs", "package-lock.json", "tsconfig.json"]
    names += [f"src/{path.name}" for path in (WEB / "src").iterdir()]
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(name.encode() + b"\0" + (WEB / name).read_bytes() + b"\0")
    return digest.hexdigest()


@pytest.mark.parametrize("name", ["report.js", "serve.js"])
def test_what_is_shipped_says_that_it_was_built_from_these_sources(name: str) -> None:
    first = (SHIPPED / name).read_text(encoding="utf-8").partition("\n")[0]
    assert first.endswith(f"sha256 {sources()}"), "stale: make web"


def test_the_lock_names_no_host() -> None:
    lock = (WEB / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in lock
    assert '"resolved"' not in lock


def npm(*arguments: str, inside: Path) -> subprocess.CompletedProcess[str]:
    command = ["npm", "--silent", *arguments]
    return subprocess.run(command, cwd=inside, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder to build in: the tree's if it has its tools, or a copy with them."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not on PATH")
    if (WEB / "node_modules").is_dir():
        return WEB
    copy = tmp_path_factory.mktemp("tree") / "web"
    shutil.copytree(WEB, copy)
    shutil.copytree(SHIPPED, copy.parent / "python" / "paceline" / "web")
    installed = npm("ci", inside=copy)
    if installed.returncode != 0:
        pytest.skip(f"npm cannot install the tools: {installed.stderr or installed.stdout}")
    return copy


def test_what_is_shipped_is_what_the_sources_build(tools: Path) -> None:
    """Types are checked, and what is built is the same byte for byte."""
    result = npm("run", "check", inside=tools)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_page_is_told_what_is_described(run: paceline.Run, tmp_path: Path) -> None:
    run.write(tmp_path / "run")
    over = '[sweep.over]\npath.rtt = ["10 ms", "20 ms"]\n'
    execute(Plan.read(SCENARIO + over, "grid.toml"), tmp_path / "sweep")
    listing = {"runs": Catalogue(tmp_path).entries(), "quantities": QUANTITIES, "labels": {}}
    assert len(listing["runs"]) == 2
    assert wrong(listing, pages.Listing) == []
    assert wrong(series({"r": InMemory(run)}, "rtt_ns"), pages.Series) == []
    assert wrong(Job(1, "", 1, "sim").as_json(), pages.JobState) == []
    sketch = Sketch(run)
    packets = of_flows(paceline.run(SCENARIO, overrides={"run.record.packets": "true"}), [0])
    assert packets
    assert wrong(drawn(sketch, [sketch.detail(0)], packets), pages.Drawn) == []
