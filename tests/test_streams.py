"""Output that cannot be written, locales, names that are no text: as a good Unix program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import SCENARIO

SHORT = SCENARIO.replace('"2 s"', '"0.3 s"')
COMMAND = [sys.executable, "-m", "paceline"]


def call(*arguments: str | bytes, cwd: Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
    environment |= options.pop("env", {})
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    command: list[str | bytes] = [*COMMAND, *arguments]
    result: subprocess.CompletedProcess[bytes] = subprocess.run(
        command, cwd=cwd, env=environment, check=False, timeout=120, **streams
    )
    return result


def shell(script: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    command = ["sh", "-c", script, "sh", *COMMAND, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, timeout=120)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "s.toml").write_text(SHORT)
    return tmp_path


COMMANDS = [
    ("list", "controllers"),
    ("list", "controllers", "--json"),
    ("run", "s.toml"),
    ("run", "s.toml", "--json"),
    ("check", "s.toml"),
    ("--help",),
    (),
]


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_stdout_that_is_full(arguments: tuple[str, ...], place: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        result = call(*arguments, cwd=place, stdout=full)
    assert result.returncode == 1, result
    assert result.stderr.decode().splitlines()[-1] == (
        "error: cannot write to stdout: No space left on device"
    )
    assert b"Traceback" not in result.stderr
    assert b"ignored" not in result.stderr


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_stdout_that_is_closed(arguments: tuple[str, ...], place: Path) -> None:
    result = shell('"$@" >&-', *arguments, cwd=place)
    assert result.returncode == 1, result
    assert result.stderr.decode().splitlines()[-1] == (
        "error: cannot write to stdout: Bad file descriptor"
    )
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize("redirect", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("list", "controllers"), 0), (("run", "s.toml"), 0), (("run", "none.toml"), 2)],
)
def test_a_stderr_that_cannot_be_written_changes_nothing(
    redirect: str, arguments: tuple[str, ...], code: int, place: Path
) -> None:
    assert shell(f'"$@" {redirect}', *arguments, cwd=place).returncode == code


@pytest.mark.parametrize("arguments", [("list", "metrics"), ("list", "metrics", "--json")])
def test_a_reader_that_leaves_early(arguments: tuple[str, ...], place: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        result = call(*arguments, cwd=place, stdout=gone)
    assert (result.returncode, result.stderr) == (1, b"")


LOCALES = [
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "ascii"},
]


@pytest.mark.parametrize("env", LOCALES)
def test_any_locale_shows_any_name(env: dict[str, str], place: Path) -> None:
    (place / "测试 é.toml").write_text(SHORT.replace("Two flows", "两个 🚀"), encoding="utf-8")
    for arguments in (("run",), ("run", "--json"), ("check",), ("check", "--json")):
        result = call(arguments[0], "测试 é.toml".encode(), *arguments[1:], cwd=place, env=env)
        assert b"Traceback" not in result.stderr
        if env.get("PYTHONUTF8") == "0" and arguments[0] == "run":
            # The folder of a run is called after its scenario, and this Python cannot name it.
            output = result.stdout if "--json" in arguments else result.stderr
            assert (result.returncode, b"LC_ALL=C.UTF-8" in output) == (2, True), result
            continue
        assert result.returncode == 0, result
        if "--json" in arguments:
            # JSON is ASCII or UTF-8, and says the same.
            # A run's is that of its record.
            assert json.loads(result.stdout)["schema"] == (2 if arguments[0] == "run" else 1)
        elif arguments == ("check",):
            assert "两个 🚀" in result.stdout.decode("utf-8")


def test_names_that_are_no_text(place: Path) -> None:
    name = b"bad\xff.toml"
    (place / os.fsdecode(name)).write_text(SHORT)
    for arguments in ((b"run", name), (b"run", name, b"--json"), (b"check", name)):
        result = call(*arguments, cwd=place)
        assert result.returncode == 0, result
    for arguments in ((b"run", b"no\xff.toml"), (b"list", b"no\xff"), (b"report", b"no\xff")):
        result = call(*arguments, cwd=place)
        assert result.returncode == 2, result
        assert b"Traceback" not in result.stderr
        assert b"no\\udcff" in result.stderr


@pytest.mark.parametrize("home", [None, "/nonexistent", "/dev/null"])
def test_a_home_that_cannot_be_written(home: str | None, place: Path) -> None:
    assert call("run", "s.toml", "--out", "one", cwd=place).returncode == 0
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "MPLCONFIGDIR")}
    environment |= {} if home is None else {"HOME": home}
    result = subprocess.run(
        [*COMMAND, "report", "one", "--format", "png"],
        cwd=place,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")


def test_ctrl_c_while_the_program_is_loaded(place: Path) -> None:
    # The signal comes while what reads the command line is loaded.
    script = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "cyclopts":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv[1:] = ["list", "controllers"]
from paceline.__main__ import main
sys.exit(main())
"""
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=place, capture_output=True, check=False
    )
    assert (result.returncode, result.stderr) == (130, b"")


@pytest.mark.parametrize(("code", "output"), [(0, b"first taken down"), (130, b"first ")])
def test_who_interrupts_does_not_wait_for_libraries_to_be_taken_down(
    code: int, output: bytes, place: Path
) -> None:
    script = f"""
import atexit, os, sys
from paceline.__main__ import main
import paceline.cli
class Library:
    def __del__(self):
        os.write(1, b"taken down")
def command():
    global library
    library = Library()
    atexit.register(lambda: os.write(1, b"first "))
    return {code}
paceline.cli.main = command
sys.exit(main())
"""
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=place, capture_output=True, check=False
    )
    assert (result.returncode, result.stdout) == (code, output)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_ctrl_c_while_a_command_runs(place: Path) -> None:
    long = SCENARIO.replace('"2 s"', '"100000 s"')
    (place / "long.toml").write_text(long)
    process = subprocess.Popen(
        [*COMMAND, "run", "long.toml", "--set", "run.duration=100000 s"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"long: ")
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in rest
