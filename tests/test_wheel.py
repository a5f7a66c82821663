"""The wheel, installed where there is nothing else of ours."""

from __future__ import annotations

import json
import os
import re
import site
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import urljoin

import pytest

from conftest import SCENARIO

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel() -> Path:
    """Return what `make demo` has built and installed."""
    (built,) = (ROOT / ".venv" / "wheels").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an environment of its own, `venv`: our wheel, and what it depends on."""
    place = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    python = place / "venv" / "bin" / "python"
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run(install, check=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    result = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True)
    # What it depends on is taken from here, behind what is installed there.
    packages = Path(result.stdout.strip())
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    (place / "small.toml").write_text(SCENARIO)
    return place


def call(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = ("PATH", "HOME", "LANG")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    command = [str(place / "venv" / "bin" / arguments[0]), *arguments[1:]]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)


def test_one_wheel_serves_every_python(wheel: Path) -> None:
    assert re.fullmatch(r"paceline-[\d.]+-cp311-abi3-\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("paceline/")}
    assert "paceline/_paceline.abi3.so" in packed
    # All of the package, the page's built parts among them.
    files = [path for path in (ROOT / "python/paceline").rglob("*") if path.is_file()]
    kept = [path for path in files if "__pycache__" not in path.parts and path.suffix != ".so"]
    source = {path.relative_to(ROOT / "python").as_posix() for path in kept}
    assert len(source) > 50
    assert source <= packed


def test_the_command_works_away_from_the_source(clean: Path) -> None:
    where = call(clean, "python", "-c", "import paceline; print(paceline.__file__)")
    assert where.stdout.startswith(str(clean)), where
    ran = call(clean, "paceline", "run", "small.toml", "--out", "runs/one", "--report", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["metrics"]["goodput_bps"] > 1e6
    assert "uPlot" in (clean / "runs/one/report.html").read_text()
    listed = call(clean, "paceline", "list", "controllers", "--json")
    assert "bbr3" in listed.stdout
    for command in ("run", "claims", "evaluate", "serve", "sweep"):
        assert call(clean, "paceline", command, "--help").returncode == 0
    # Claims come with the package, and others can be named.
    shipped = call(clean, "paceline", "claims", "--list")
    assert (shipped.returncode, "BBRv3" in shipped.stdout) == (0, True), shipped
    given = call(clean, "paceline", "claims", "--claims", str(ROOT / "data" / "claims"), "--list")
    assert (given.returncode, "BBRv3" in given.stdout) == (0, True), given


def test_the_page_is_served_from_the_wheel(clean: Path) -> None:
    (clean / "runs").mkdir(exist_ok=True)
    command = [
        str(clean / "venv/bin/paceline"),
        "serve",
        "runs",
        "--port",
        "0",
        "--no-browser",
        "--json",
    ]
    environment = {"PATH": os.environ["PATH"]}
    with subprocess.Popen(
        command, cwd=clean, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            text = ""
            while not text.endswith("}\n"):
                line = process.stdout.readline()
                assert line, text
                text += line
            address = json.loads(text)["address"]
            # The address has a secret, which is changed for a cookie.
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with browser.open(address) as answer:
                page = answer.read().decode()
            parts = re.findall(r'(?:src|href)="(/?[\w./-]+\.(?:js|css))"', page)
            assert parts
            for part in parts:
                with browser.open(urljoin(address, part)) as answer:
                    assert len(answer.read()) > 100, part
        finally:
            process.kill()


def test_what_comes_with_it_runs_where_there_is_nothing_else(clean: Path) -> None:
    for arguments, output in (
        (("list", "scenarios"), "bbr3/four-flows-50M-40ms-1bdp"),
        (("run", "four-flows", "--set", 'run.duration="2 s"'), "utilisation"),
        (("claims", "A1"), "1 of 1 claims reproduced"),
        (("conformance", "--quick", "--case", "14"), "1 cases: 1 pass"),
        (("init", "--controller"), "wrote controller.py"),
        (
            ("run", "reno-100M", "--set", "flows.0.cc=mine", "--controller", "mine=controller.py"),
            "mine",
        ),
        (("completion", "bash"), "complete"),
    ):
        done = call(clean, "paceline", *arguments)
        assert done.returncode in (0, 3), done.stderr
        assert output in done.stdout
