"""Nothing is loaded before it is needed: the modules that each verb loads."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import paceline
from conftest import SCENARIO
from paceline.cli import verbs
from paceline.cli.app import app

#: What takes long to load, and what it is for.
HEAVY = frozenset(
    {"polars", "numpy", "scipy", "matplotlib", "sqlglot", "tornado", "jinja2", "pandas", "ray"}
)
#: The parser and the output of the command.
SCREEN = frozenset({"cyclopts", "rich"})
#: What runs something.
ENGINE = "paceline.batch"

CODE = """
import runpy, sys
code = 0
try:
    runpy.run_module("paceline", run_name="__main__", alter_sys=True)
except SystemExit as end:
    code = end.code
print("\\n" + " ".join(sys.modules), file=sys.__stderr__)
sys.exit(code)
"""


def loaded(folder: Path, *arguments: str) -> set[str]:
    """Return the modules that a command has loaded."""
    path = str(Path(paceline.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    # What doctor finds on this machine is its own affair.
    assert done.returncode in ({0, 127} if "doctor" in arguments else {0}), done
    return set(done.stderr.splitlines()[-1].split())


#: Million instructions that a start may take: a tenth more than it took with Python 3.11.
STARTS = {"--version": 66, "--help": 780, "list": 650, "run small.toml --out run": 855}


@pytest.mark.parametrize("call", STARTS)
def test_a_start_takes_no_more_instructions(call: str, tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        assert "PACELINE_FULL" not in os.environ, "valgrind is not installed"
        pytest.skip("valgrind is not installed")
    for place in ("first", "second"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "small.toml").write_text(SCENARIO)
    loaded(tmp_path / "first", *call.split())  # Byte code is written once.
    counted = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    done = subprocess.run(
        ["valgrind", *counted, sys.executable, "-m", "paceline", *call.split()],
        cwd=tmp_path / "second",
        env={**os.environ, "PYTHONPATH": str(Path(paceline.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    refs = re.search(r"I +refs: +([0-9,]+)", done.stderr)
    assert refs is not None, done.stderr
    assert int(refs[1].replace(",", "")) <= STARTS[call] * 1_000_000


def test_the_version_needs_no_parser_and_no_screen(tmp_path: Path) -> None:
    modules = loaded(tmp_path, "--version")
    assert modules.isdisjoint(HEAVY | SCREEN)
    assert {name for name in modules if name.startswith("paceline.")} == {"paceline._paceline"}


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_the_help_loads_no_verb(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    modules = loaded(tmp_path, *arguments)
    assert modules.isdisjoint(HEAVY | {ENGINE, "rich.markdown"})
    assert not [name for name in modules if name.startswith("paceline.cli.verbs.")]


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "small.toml", "--out", "run"),
        ("check", "small.toml"),
        ("run", "--help"),
        ("list",),
        *(("list", what) for what in ("metrics", "scenarios", "claims", "exports", "imports")),
        ("list", "controllers", "bbr3"),
        ("claims", "--list"),
        ("report", "--help"),
        ("init", "new.toml"),
        ("doctor", "--quick"),
    ],
)
def test_what_reads_no_table_loads_no_library_for_tables(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "small.toml").write_text(SCENARIO)
    if arguments[0] == "doctor" and sys.platform != "linux":
        pytest.skip("doctor is for Linux")
    assert loaded(tmp_path, *arguments).isdisjoint(HEAVY)


PARTS = ("kernel record", "perf client", "reference export", "vm prepare")


@pytest.mark.parametrize("verb", [*verbs.VERBS, *PARTS])
def test_the_help_of_a_verb_loads_no_library_that_only_its_work_needs(
    tmp_path: Path, verb: str
) -> None:
    assert loaded(tmp_path, *verb.split(), "--help").isdisjoint(HEAVY)


def test_a_verb_loads_no_other(tmp_path: Path) -> None:
    modules = loaded(tmp_path, "list", "metrics")
    assert {name for name in modules if name.startswith("paceline.cli.verbs.")} == {
        "paceline.cli.verbs.list_"
    }


def test_the_list_of_verbs_has_the_first_line_of_each_help(tmp_path: Path) -> None:
    output = subprocess.run(
        [sys.executable, "-m", "paceline", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(paceline.__file__).parents[1]), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    verbs.load()
    for verb, module in verbs.VERBS.items():
        function = app[verb].default_command
        if not (text := app[verb].help):
            assert function is not None
            assert function.__module__ == import_module(f"paceline.cli.verbs.{module}").__name__
            text = inspect.getdoc(function) or ""
        first = text.splitlines()[0].replace("`", "")
        assert f" {verb} " in output
        assert first in output, verb
