"""What continuous integration promises: no test is left out unseen, and stages are timed."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

import soak

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "lab" / "simulator" / "benches" / "instructions.txt"

SKIPPED = """
import pytest

def test_one():
    pytest.skip("no tshark")

@pytest.mark.skipif(True, reason="no browser")
def test_other():
    pass

def test_third():
    pass
"""


@pytest.mark.parametrize(
    ("full", "message"), [(None, "1 passed, 2 skipped"), ("1", "1 failed, 1 passed, 1 error")]
)
def test_what_is_skipped_fails_where_nothing_may_be(
    full: str | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "test_three.py").write_text(SKIPPED)
    environment = {name: text for name, text in os.environ.items() if name != "PACELINE_FULL"}
    environment |= {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    environment |= {} if full is None else {"PACELINE_FULL": full}
    options = ["-p", "conftest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_three.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert message in result.stdout, result.stdout + result.stderr
    assert full is None or "no tshark" in result.stdout
    assert full is None or "no browser" in result.stdout


def test_a_stage_says_what_it_took_and_fails_as_its_command_does(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    stage = shutil.copy(ROOT / ".ci" / "stage", tmp_path / ".ci" / "stage")

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([stage, *arguments], capture_output=True, text=True, check=False)

    assert call("--begin").returncode == 0
    one = call("one", "true")
    assert re.fullmatch(r"stage one +0 min 0\d s +0 % of 25 min\n", one.stdout), one
    two = call("two", "sh", "-c", "seq 30; echo 'what went wrong' >&2; exit 7")
    assert two.returncode == 7
    assert "stage two failed with exit code 7; its last lines:\n  12\n" in two.stderr
    assert "  what went wrong\nhint: to repeat it: sh -c seq" in two.stderr
    (tmp_path / "target" / "stages").write_text("600 one\n1000 two\n")
    lines = call("--sum").stdout.splitlines()
    assert " ".join(lines[2].split()) == "stage all 26 min 40 s 106 % of 25 min"
    assert lines[3].startswith("note: the stages took 100 s more than their budget")


def instructions(tmp_path: Path, counted: int, *, full: bool = False) -> tuple[int, str]:
    """Run .ci/instructions with tools that say what they are made to say."""
    root, tools = tmp_path / "root", tmp_path / "tools"
    for folder in (root / ".ci", root / "lab" / "simulator" / "benches", tools):
        folder.mkdir(parents=True, exist_ok=True)
    script = shutil.copy(ROOT / ".ci" / "instructions", root / ".ci" / "instructions")
    shutil.copy(TABLE, root / TABLE.relative_to(ROOT))
    compiler = TABLE.read_text().splitlines()[0].removeprefix("# ")
    counts = {
        "rustc": f"echo '{compiler} (of a day)'",
        "cargo": """echo '{"executable":"bench"}'""",
        # A packet a second: the name and the time of the run come last.
        "valgrind": f'for at; do :; done; awk "BEGIN {{ print 1000 * $at }}";'
        f' awk "BEGIN {{ printf \\"==1== I   refs: %d\\\\n\\", {counted} * 1000 * $at }}" >&2',
    }
    for name, text in counts.items():
        (tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    environment["PACELINE_FULL"] = "1" if full else ""
    result = subprocess.run([script], env=environment, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def test_instructions_that_rise_fail(tmp_path: Path) -> None:
    rows = [line.split(": ") for line in TABLE.read_text().splitlines()[1:]]
    least = min(int(count) for _, count in rows)
    assert instructions(tmp_path, least)[0] == 0
    code, output = instructions(tmp_path, least + least // 40)
    assert code == 1
    assert "has risen by more than 2 %" in output
    assert output.count("in the table") == len(rows)


def test_instructions_of_another_compiler_are_not_compared(tmp_path: Path) -> None:
    instructions(tmp_path, 1)
    table = tmp_path / "root" / TABLE.relative_to(ROOT)
    rustc = tmp_path / "tools" / "rustc"
    assert table.is_file()
    for full, expected in ((False, 0), (True, 1)):
        rustc.write_text("#!/bin/bash\necho rustc 0.1.0\n")
        environment = {**os.environ, "PATH": f"{rustc.parent}:{os.environ['PATH']}"}
        environment["PACELINE_FULL"] = "1" if full else ""
        script = tmp_path / "root" / ".ci" / "instructions"
        result = subprocess.run(
            [script], env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == expected, result
        assert "instructions are not compared: the table is of rustc" in result.stderr


def test_ci_runs_what_the_readme_says_on_what_it_asks_for() -> None:
    (command,) = re.findall(r"^exec (.*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert command == ".ci/fresh make test"
    assert "\nmake test " in (ROOT / "README.md").read_text()


def test_a_tool_that_a_machine_happens_to_have_is_not_found(tmp_path: Path) -> None:
    root, tools = tmp_path / "root", tmp_path / "tools"
    (root / ".ci").mkdir(parents=True)
    tools.mkdir()
    script = shutil.copy(ROOT / ".ci" / "fresh", root / ".ci" / "fresh")
    (root / "left").write_text("not committed")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x", "-C", str(root)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", ".ci"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "x"], check=True)
    (tools / "qemu-system-x86_64").write_text("#!/bin/sh\n")
    (tools / "qemu-system-x86_64").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    given_here = ("XDG_CACHE_HOME", "PYTHONDONTWRITEBYTECODE")
    environment |= dict.fromkeys(given_here, "/x")
    probe = (
        "cargo --version >/dev/null && command -v make >/dev/null &&"
        " command -v qemu-system-x86_64; ls -A ~ .;"
        ' echo "${XDG_CACHE_HOME-unset} ${PYTHONDONTWRITEBYTECODE-unset}"; exit 5'
    )

    def call(*options: str) -> subprocess.CompletedProcess[str]:
        command = [script, *options, "sh", "-c", probe]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    fresh, given = call(), call("--with", "qemu-system-x86_64")
    assert (fresh.returncode, fresh.stderr) == (5, "")
    assert "qemu" not in fresh.stdout
    assert "qemu" in given.stdout
    folders = fresh.stdout.split()
    assert folders[:3] == [".:", ".ci", ".git"]
    assert folders[3].endswith("/home:"), "and nothing in it"
    assert folders[4:] == ["unset", "unset"]
    assert call("--with", "no-such-tool").returncode == 127


def test_a_build_says_how_far_it_is(tmp_path: Path) -> None:
    progress = ROOT / ".ci" / "progress"
    known: dict[str, object] = runpy.run_path(str(progress))
    passed = cast("Callable[[float], float]", known["passed"])
    shares = [passed(each / 100) for each in range(101)]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert 0.9 < shares[-1] <= 1

    def call(code: int) -> subprocess.CompletedProcess[str]:
        text = f"echo '   Compiling a v1' >&2; echo 'error: no' >&2; exit {code}"
        command = [sys.executable, str(progress), "paceline-units", "sh", "-c", text]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert re.search(r"\nbuilt in \d+ s\n$", call(0).stderr)
    failed = call(3)
    assert failed.returncode == 3
    assert failed.stderr.endswith("\nerror: no\n")


def test_a_mutant_that_survives_needs_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = tmp_path / "missed.txt"
    known = "crates/recovery/src/rack.rs: replace > with >= in Rack::on_delivered"
    fresh = "crates/path/src/queue/red.rs: replace < with <= in RedState::chance"
    missed.write_text("\n".join(m.replace(".rs:", ".rs:68:23:") for m in (known, fresh)))
    assert soak.unplaced(missed) - soak.survivors() == {fresh}
    # What a part has found replaces what it had found before, and the reasons stay.
    page = tmp_path / "soak.md"
    page.write_text(soak.PAGE.read_text())
    monkeypatch.setattr(soak, "PAGE", page)
    before = soak.survivors()
    for _ in range(2):
        soak.record("kills", ["| kills | today | 1 | a kill | well | 1 s |"])
    assert page.read_text().count("\n| kills |") == 1
    assert soak.survivors() == before
    assert all(f"| `{reader}`, " in page.read_text() for reader in soak.FUZZ)


def test_the_oldest_rust_and_python_run_all_tests() -> None:
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest = f'{{ rust: "{rust}", python: "{python.removeprefix(">=")}" }}'
    assert oldest in (ROOT / ".github" / "workflows" / "tests.yml").read_text()
