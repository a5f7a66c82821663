"""The controllers as a C library: built, linked and driven as a program of somebody else would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "controller-c"
CC = os.environ.get("CC", "cc")
STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]


def call(
    *command: str | Path, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result


@pytest.fixture(scope="module")
def library() -> Path:
    """Return the folder with `include` and `lib`."""
    return ROOT / call("make", "--no-print-directory", "capi").stdout.split()[-1]


@pytest.fixture(scope="module")
def drive(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the example that drives one of our controllers, with the checks of the compiler on."""
    program = tmp_path_factory.mktemp("capi") / "drive"
    include, static = f"-I{library / 'include'}", library / "lib" / "libpaceline.a"
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]
    system = ["-lpthread", "-lm", "-ldl"]
    source = EXAMPLE / "drive.c"
    call(CC, "-std=c11", "-O1", *STRICT, *checks, include, source, static, *system, "-o", program)
    return program


def test_the_example_drives_every_controller(drive: Path) -> None:
    listed = call(drive, "?", code=2).stderr.split("there are", 1)[1].split()
    assert {"bbr3", "cubic", "reno", "ledbat++"} <= set(listed)
    # The example has no marks and no clock of its receiver, and says so.
    lacks = {"dctcp": "mark_counts", "prague": "mark_counts", "ledbat": "one_way_delay"}
    for name in listed:
        if name in lacks:
            assert lacks[name] in call(drive, name, code=2).stderr
            continue
        lines = call(drive, name).stdout.splitlines()
        assert len(lines) == 11, name
        # `swift` aims at delays inside a data centre; the others fill the link.
        least = {"swift": 0, "ledbat++": 30}.get(name, 45)
        assert least <= float(lines[-1].split()[1]) <= 50.1, lines[-1]


def test_options_are_read_as_a_scenario_writes_them(drive: Path) -> None:
    usual, other = (call(drive, "bbr3", *options).stdout for options in ([], ["cwnd_gain=1.5"]))
    assert usual != other
    error = call(drive, "bbr3", "startup_pacing_gain=2,89", code=2).stderr
    assert error == "error: `startup_pacing_gain` is a number from 1.001 to 10, not `2,89`\n"


@pytest.fixture(scope="module")
def loop(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the example that drives both ends of our transport, likewise checked."""
    program = tmp_path_factory.mktemp("capi") / "loop"
    include, static = f"-I{library / 'include'}", library / "lib" / "libpaceline.a"
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]
    system = ["-lpthread", "-lm", "-ldl"]
    source = ROOT / "examples" / "transport-c" / "loop.c"
    call(CC, "-std=c11", "-O1", *STRICT, *checks, include, source, static, *system, "-o", program)
    return program


def test_both_ends_of_our_transport_fill_a_link_in_c(loop: Path) -> None:
    for name in ("bbr3", "cubic"):
        lines = call(loop, name).stdout.splitlines()
        assert len(lines) == 10
        rates = [float(line.split()[2]) for line in lines]
        # 1448 of the 1500 bytes of a packet are payload; nothing is delivered twice.
        assert 45 <= rates[-1] <= 50 * 1448 / 1500 + 0.1, lines[-1]
    assert call(loop, "bbr3").stdout != call(loop, "bbr3", "startup_pacing_gain=2").stdout


def test_our_transport_says_why_it_refuses(loop: Path) -> None:
    error = call(loop, "bbr4", code=2).stderr
    assert error == "error: no controller is called `bbr4`\n"
    error = call(loop, "bbr3", "startup_pacing_gain=2,89", code=2).stderr
    assert error == "error: `startup_pacing_gain` is a number from 1.001 to 10, not `2,89`\n"


def test_the_guide_runs_as_it_is_written() -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    text = (ROOT / "docs" / "guide" / "c.md").read_text()
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    shown = [call("bash", "-euc", block).stdout for block in blocks]
    assert "ProbeBW" in shown[0]


def test_no_byte_is_lost_or_read_before_it_is_written(library: Path, tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    program = tmp_path / "drive"
    include, static = f"-I{library / 'include'}", library / "lib" / "libpaceline.a"
    system = ["-lpthread", "-lm", "-ldl"]
    call(CC, "-std=c11", "-O1", "-g", include, EXAMPLE / "drive.c", static, *system, "-o", program)
    command = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full"]
    call(*command, program, "bbr3")


@pytest.mark.parametrize("language", [["-std=c99", "-x", "c"], ["-std=c++17", "-x", "c++"]])
def test_the_headers_are_for_c_and_c_plus_plus(language: list[str], tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text('#include "paceline_endpoint.h"\nint main(void) { return 0; }\n')
    include = ROOT / "crates" / "capi" / "include"
    call(CC, *STRICT, "-pedantic", f"-I{include}", *language, "-fsyntax-only", source)
