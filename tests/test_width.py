"""What the command prints for people fits 80 columns, and no word of it is broken."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

import paceline
from conftest import Command, lacking
from paceline.cli import _parts, console, verbs
from verbs import prepare

#: A call of each verb that prints text.
CALLS = (
    "advise one.toml --cc cubic reno --paths 10",
    "check one.toml",
    "claims --list",
    "claims A1 A2 --quick",
    "compare record record --all",
    "compare five five --all",
    "compare swept --by path.rate --all",
    "conformance --case 01",
    "doctor --quick",
    "evaluate cubic --quick --suite suite --scenarios . --against reno --seeds 1",
    "export record --format csv --out csv",
    "fit record --out fitted.toml",
    "import flow.trace --rtt 40ms --queue 99packets --out imported.toml",
    "init mine.toml",
    "kernel list",
    "list",
    *(f"list {what}" for what in ("controllers", "stacks", "queues", "metrics", "columns")),
    *(f"list {what}" for what in ("scenarios", "claims", "exports", "imports")),
    "list controllers bbr3",
    "list columns samples",
    "list metrics jain",
    "playground --no-browser",
    "reference list",
    "report record --format png",
    "run one.toml --out one",
    "run one.toml --out one --all",
    "run one.toml --out five --repeats 5",
    "run one.toml --out five --repeats 5 --all",
    'run one.toml --out both --set run.compare=["bbr3","bbr3-linux"]',
    "run one.toml --out failed --set expect.utilisation=<0 --set expect.jain_last_half=<0",
    "search search/general --goal starves --budget 4runs --out searched",
    "sequence packets --out sequence.svg",
    "startup",
    "startup 2.77",
    "sweep grid.toml --out swept",
    "vm list",
)
#: Tried below: what serves until it is stopped, or needs it.
SERVERS = {"perf", "serve", "shell"}
#: What prints lines for a program.
OTHERS = {"completion"}
#: What others have to be run for, and so run first.
FIRST = (
    "run one.toml --out five --repeats 5",
    "sweep grid.toml --out swept",
    "run one.toml --out packets --set run.record.packets=true",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, run: paceline.Run) -> Path:
    folder = tmp_path_factory.mktemp("width")
    prepare(folder, run)
    # Those that are shipped are longer.
    shutil.rmtree(folder / "claims")
    return folder


def test_each_verb_is_tried_at_80_columns() -> None:
    assert {call.split()[0] for call in CALLS} | SERVERS | OTHERS == set(verbs.VERBS)


@pytest.mark.parametrize("call", CALLS)
def test_no_line_is_longer_than_80_and_no_head_is_broken(
    call: str, cli: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "80")
    tables: list[Any] = []
    table = console.table

    def recorded(*columns: str, **options: Any) -> Any:
        tables.append(table(*columns, **options))
        return tables[-1]

    monkeypatch.setattr(console, "table", recorded)
    for first in FIRST:
        if not (place / first.split()[3]).exists():
            assert cli(*first.split()).returncode == 0
    tables.clear()
    result = cli(*call.split())
    assert result.returncode in (0, 3, 4, 127), result
    # A scenario is a file.
    assert call.startswith("check") or long(result.stdout) == []
    words = set(re.findall(r"\S+", result.stdout))
    if result.stdout:
        heads = [str(column.header) for shown in tables if shown.rows for column in shown.columns]
        assert {word for head in heads for word in head.split()} <= words
    assert "\u2013 ns" not in result.stdout
    assert not re.search("\u2013 +ns", result.stdout)


def long(text: str) -> list[str]:
    """Return the lines that are too long; a path, an address or a token cannot be broken."""
    return [line for line in text.splitlines() if " " in line.strip() and len(line) > 80]


@contextmanager
def serving(*arguments: str) -> Iterator[IO[str]]:
    """Start a command that serves at 80 columns; yield its output, which ends after that."""
    command = [sys.executable, "-m", "paceline", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "80"}
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.terminate()


def test_the_address_of_the_page_fits(place: Path) -> None:
    with serving("serve", str(place), "--port", "0", "--no-browser") as output:
        text = output.readline()
        while "http://" not in text:
            text += output.readline()
    assert long(text) == []


def test_both_sides_of_a_transfer_fit(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with serving("perf", "server", "127.0.0.1:0", "--once") as output:
        head, call, token = (output.readline() for _ in range(3))
        # It is copied, and a line break inside it would end it.
        copied = shlex.split(call.removesuffix("\\\n") + token)
        assert copied[:3] == ["paceline", "perf", "client"]
        result = cli(*copied[1:], "--bytes", "100 kB", "--out", tmp_path / "record")
        assert result.returncode == 0, result
        served = output.read()
    assert "100.0 kB" in served
    assert long(head + call + token + served + result.stdout + result.stderr) == []


def test_the_summary_of_programs_fits(
    cli: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := lacking():
        pytest.skip(f"this machine cannot emulate: {why}")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(place)
    client = "import urllib.request as u; u.urlopen('http://server/one.toml').read()"
    serve = f"{sys.executable} -m http.server 80"
    path = ("--rate", "20 Mbit/s", "--delay", "10 ms", "--out", "shell", "--server", serve)
    result = cli("shell", *path, "--", sys.executable, "-c", client)
    assert result.returncode == 0, result
    assert "bottleneck up" in result.stderr
    assert long(result.stderr) == []


@pytest.mark.parametrize("verb", verbs.VERBS)
def test_a_line_of_the_help_fits(verb: str, cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    help_text = cli(verb, "--help").stdout
    for part in _parts(verb):
        help_text += cli(*part.split(), "--help").stdout
    assert [line for line in help_text.splitlines() if len(line) > 80] == []


def test_a_sentence_is_folded_between_words_and_not_in_a_command() -> None:
    text = "  see `paceline list scenarios` for all of them, or /a/path/that/is/long"
    assert console.folded(text, 30).splitlines() == [
        "  see",
        "  `paceline list scenarios`",
        "  for all of them, or",
        "  /a/path/that/is/long",
    ]
    assert console.folded("short  and   aligned", 30) == "short  and   aligned"


def test_a_file_gets_each_line_whole(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = [line for line in cli("list", "scenarios").stdout.splitlines() if "..." in line[-3:]]
    assert cut == []
    monkeypatch.setenv("COLUMNS", "80")
    assert any(line.endswith("...") for line in cli("list", "scenarios").stdout.splitlines())
    assert len(cli("list", "scenarios").stdout.splitlines()) == 1 + len(paceline.scenarios())


def test_a_number_keeps_its_unit_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[int, list[str]] = {}
    for width in (80, 40, 34, 20):
        monkeypatch.setenv("COLUMNS", str(width))
        table = console.table("Metric", "Goodput", "Retransmits", left=1)
        table.add_row("mean of all flows", "49.80 Mbit/s", "0.06 %")
        out = console.stdout()
        out.file = io.StringIO()
        out.print(table)
        shown[width] = out.file.getvalue().splitlines()
    assert len(shown[80]) == 2
    assert any("49.80 Mbit/s" in line for line in shown[40])
    assert not any("49.80 Mbit/s" in line for line in shown[34])
    assert shown[20][0].rstrip() == "Metric       mean of"
