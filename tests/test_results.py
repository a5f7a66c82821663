"""Results are not lost: whatever is run over whatever, killed at any moment, on a full disk."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import paceline
from conftest import SCENARIO, Command, Result

SWEEP = """
[sweep]
seeds = [1, 2, 3]
metrics = ["utilisation_ratio"]

[sweep.over]
path.rate = ["5 Mbit/s", "10 Mbit/s"]
"""


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def ran(result: Any) -> dict[str, Any]:
    assert result.returncode == 0, result.stderr + result.stdout
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def assert_refused(result: Any, message: str = "is left unchanged") -> None:
    assert result.returncode == 2, result.stdout
    assert message in result.stderr
    assert "hint: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no simulation begin."""

    def begin(*_: object) -> None:
        raise AssertionError("a run was begun")

    monkeypatch.setattr("paceline._paceline.simulate", begin)


# One run over another


def test_another_setting_is_another_folder(cli: Command, scenario: Path, tmp_path: Path) -> None:
    first = ran(cli("run", scenario, "--report", "--json"))
    out = tmp_path / first["out"]
    (out / "notes.txt").write_text("mine")
    before = tree(out)
    other = ran(cli("run", scenario, "--set", "path.queue.size=4 bdp", "--json"))
    assert other["out"].startswith("runs/small+queue.size=4bdp-3-")
    assert not (tmp_path / other["out"] / "report.html").exists()
    assert tree(out) == before
    # A setting that changes nothing gives the same run.
    same = ran(cli("run", scenario, "--set", "path.queue.size=1 bdp", "--json"))
    assert same["out"] == first["out"]
    # The file itself changes.
    scenario.write_text(SCENARIO.replace("20 ms", "30 ms"))
    changed = ran(cli("run", scenario, "--json"))
    assert changed["out"].startswith("runs/small-3-")
    assert changed["out"] != first["out"]
    assert tree(out) == before
    assert len(list((tmp_path / "runs").iterdir())) == 3


def test_the_same_run_is_shown_and_not_run(
    cli: Command, scenario: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    first = ran(cli("run", scenario, "--json"))
    before = tree(tmp_path / "runs")
    plain = cli("run", scenario)
    request.getfixturevalue("no_engine")
    again = ran(cli("run", scenario, "--json"))
    assert again.pop("reused") is True
    again["engine"] = first["engine"]
    assert again == first
    result = cli("run", scenario)
    assert result.stdout == plain.stdout
    assert "already exists" in result.stderr
    assert tree(tmp_path / "runs") == before
    # A bound is compared with the existing result.
    assert ran(cli("run", scenario, "--report", "--json"))["reports"]
    assert (tmp_path / first["out"] / "report.html").exists()


def test_a_trace_that_has_changed_is_another_run(
    cli: Command, scenario: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    scenario.write_text(SCENARIO.replace('rate = "10 Mbit/s"', 'rate = { trace = "trace" }'))
    scenario.write_text(scenario.read_text().replace('"1 bdp"', '"20 packets"'))
    outs = set()
    for text in ("1\n2\n", "1\n2\n3\n"):
        trace.write_text(text)
        outs.add(ran(cli("run", scenario, "--json"))["out"])
    assert len(outs) == 2


def test_force_compares_and_writes_beside(cli: Command, scenario: Path, tmp_path: Path) -> None:
    for options in ((), ("--repeats", 2)):
        out = tmp_path / ran(cli("run", scenario, *options, "--json"))["out"]
        equal = cli("run", scenario, *options, "--force")
        assert (equal.returncode, "the same bytes" in equal.stderr) == (0, True)
        place = out / "seed-4" if options else out
        table = place / "samples.parquet"
        table.write_bytes(table.read_bytes()[:-1] + b"!")
        before = tree(out)
        other = cli("run", scenario, *options, "--force")
        assert other.returncode == 1
        assert "samples.parquet of" in other.stderr
        assert tree(out) == before
        rival = out.with_name(out.name + "-2") / place.relative_to(out)
        assert paceline.Run.read(rival).seed == (4 if options else 3)


def test_a_damaged_record_is_told_before_anything_is_run(
    cli: Command, scenario: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for options in ((), ("--repeats", 2)):
        out = tmp_path / ran(cli("run", scenario, *options, "--json"))["out"]
        record = (out / "seed-4" if options else out) / "run.json"
        record.write_bytes(record.read_bytes()[:100])
    request.getfixturevalue("no_engine")
    for options in ((), ("--repeats", 2)):
        assert_refused(cli("run", scenario, *options), "run.json")
        assert "--force" in cli("run", scenario, *options).stderr


def test_out_onto_something_else_refuses_before_any_work(
    cli: Command, scenario: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(SCENARIO + SWEEP)
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter.tex").write_text("years of work")
    ran(cli("run", scenario, "--out", "thesis/data", "--json"))
    (thesis / "data" / "notes.txt").write_text("mine")
    ran(cli("run", scenario, "--repeats", 2, "--out", "set", "--json"))
    ran(cli("sweep", grid, "--out", "grid", "--json"))
    before = tree(tmp_path)
    request.getfixturevalue("no_engine")
    for place in ("thesis", ".", "thesis/data", "set", "set/seed-3", "grid", "grid/runs"):
        for command in (
            ("run", scenario, "--seed", 9),
            ("run", scenario, "--repeats", 3),
            ("run", scenario, "--repeats", 3, "--force"),
            ("sweep", grid, "--set", "path.rtt=30 ms"),
            ("claims", "B1"),
        ):
            result = cli(*command, "--out", place)
            assert result.returncode == 2, (place, command)
        if place != "grid":
            assert_refused(cli("sweep", grid, "--fresh", "--out", place))
    assert tree(tmp_path) == before
    # The same run is there, and so are the notes.
    assert ran(cli("run", scenario, "--out", "thesis/data", "--json"))["reused"] is True


def test_a_group_takes_no_folder_that_it_has_not_made(
    cli: Command, scenario: Path, tmp_path: Path
) -> None:
    """What was deleted with an earlier group: every folder with a run in it."""
    ran(cli("run", scenario, "--repeats", 2, "--out", "r", "--json"))
    ran(cli("run", scenario, "--seed", 7, "--out", "r/mine", "--json"))
    (tmp_path / "r" / "mine" / "notes.txt").write_text("mine")
    before = tree(tmp_path)
    assert ran(cli("run", scenario, "--repeats", 2, "--out", "r", "--json"))["reused"]
    assert_refused(cli("run", scenario, "--repeats", 3, "--out", "r"))
    assert tree(tmp_path) == before


def test_names_of_every_script_stay_apart(cli: Command, tmp_path: Path) -> None:
    outs = []
    for name in ("四流收敛", "测试", "a b", "a-b", "a/b", "ü", "u\u0308"):
        file = tmp_path / "file.toml"
        file.write_text(SCENARIO.replace("schema = 1", f'schema = 1\nname = "{name}"'))
        outs.append(ran(cli("run", file, "--json"))["out"])
    assert len(set(outs)) == len(outs)
    assert outs[0].startswith("runs/四流收敛-3-")
    assert [out[:10] for out in outs[2:5]] == ["runs/a-b-3"] * 3


def test_controllers_whose_names_differ_in_a_sign_have_a_folder_each(
    cli: Command, scenario: Path, tmp_path: Path
) -> None:
    text = SCENARIO.replace("seed = 3", 'seed = 3\ncompare = ["ledbat", "ledbat++"]')
    scenario.write_text(text)
    value = ran(cli("run", scenario, "--json"))
    records = [json.loads((tmp_path / c["out"] / "run.json").read_text()) for c in value["compare"]]
    assert [run["flows"][0]["cc"] for run in records] == ["ledbat", "ledbat++"]
    assert ran(cli("run", scenario, "--json"))["reused"] is True


@pytest.mark.parametrize("letter", ["x", "ж"])
def test_a_long_name_is_no_obstacle(cli: Command, tmp_path: Path, letter: str) -> None:
    file = tmp_path / "long.toml"
    file.write_text(SCENARIO.replace("schema = 1", f'schema = 1\nname = "{letter * 300}"') + SWEEP)
    out = ran(cli("run", file, "--report", "--json", "--quiet"))["out"]
    assert (tmp_path / out / "report.html").is_file()
    assert ran(cli("sweep", file, "--json"))["failed"] == 0


def test_a_name_that_no_file_system_takes_is_told_before_the_work(
    cli: Command, scenario: Path, tmp_path: Path, no_engine: None
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(SCENARIO + SWEEP)
    for command in (("run", scenario), ("sweep", grid), ("claims", "B1")):
        result = cli(*command, "--out", "x" * 300)
        assert result.returncode in (1, 2)
        assert "too long" in result.stderr or command[0] == "claims"


def test_a_folder_with_odd_signs_is_a_folder(cli: Command, tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(SCENARIO + SWEEP)
    for name in ("swb[1]", "a*b", "a=b", "what?", "sp ace", "ни"):
        out = tmp_path / name
        assert ran(cli("sweep", grid, "--out", out, "--table", "queue", "--json"))["failed"] == 0
        assert ran(cli("sweep", grid, "--out", out, "--table", "queue", "--json"))["runs"] == 6
        assert cli("compare", out, out).returncode == 0
        ran(cli("run", grid, "--out", out / "r[1]", "--quiet", "--json"))
        assert cli("report", out / "r[1]").returncode == 0


# The names of points leave a picture little room.
@pytest.mark.filterwarnings("ignore:constrained_layout")
def test_values_of_a_sweep_may_be_long(cli: Command, tmp_path: Path) -> None:
    names = ["ж" * 60 + str(n) for n in range(2)]
    for name in names:
        (tmp_path / name).write_text("1\n2\n")
    text = SCENARIO.replace('rate = "10 Mbit/s"', f'rate = {{ trace = "{names[0]}" }}')
    text = text.replace('"1 bdp"', '"20 packets"').replace('"2 s"', '"0.5 s"')
    file = tmp_path / "grid.toml"
    file.write_text(f"{text}\n[sweep.over]\npath.rate.trace = {json.dumps(names)}\n")
    assert ran(cli("sweep", file, "--out", "s", "--json"))["runs"] == 2


def test_fresh_gives_up_the_sweep_and_nothing_else(
    cli: Command, scenario: Path, tmp_path: Path
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(SCENARIO + SWEEP)
    run = ran(cli("run", scenario, "--json"))["out"]
    before = tree(tmp_path)
    assert_refused(cli("sweep", grid, "--out", ".", "--fresh"))
    assert_refused(cli("sweep", grid, "--out", "runs", "--fresh"))
    assert_refused(cli("sweep", grid, "--out", run, "--fresh"))
    assert tree(tmp_path) == before
    ran(cli("sweep", grid, "--out", "s", "--table", "queue", "--json"))
    mine = ["notes.txt", "runs/notes.txt", "samples/mine.parquet", "runs/path.rate=5 Mbit%2Fs/x"]
    for name in mine:
        (tmp_path / "s" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "s" / name).write_text("mine")
    ran(cli("sweep", grid, "--out", "s", "--set", "path.rtt=30 ms", "--fresh", "--json"))
    for name in mine:
        assert (tmp_path / "s" / name).read_text() == "mine"
    assert not (tmp_path / "s" / "queue").exists()


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"null",
        b'{"run": "x"}',
        b'{"run": 99, "metrics": {}}',
        b"\xff",
        b'{"run": 1}',
        b"[" * 99999,
    ],
)
def test_a_ledger_with_a_damaged_line_is_gone_on_with(
    cli: Command, tmp_path: Path, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(SCENARIO + SWEEP)
    with monkeypatch.context() as patch:
        patch.setattr("paceline.study.sweep.result.write", interrupt)
        assert cli("sweep", grid, "--out", "s").returncode == 130
    ledger = tmp_path / "s" / "ledger.jsonl"
    lines = ledger.read_bytes().split(b"\n")
    lines[2] = line
    ledger.write_bytes(b"\n".join(lines))
    result = cli("sweep", grid, "--out", "s")
    assert result.returncode == 0, result.stderr
    assert "5 of 6 runs already exist" in result.stderr
    cli("sweep", grid, "--out", "whole")
    assert tree(tmp_path / "s") == tree(tmp_path / "whole")


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


# Files


def test_files_of_the_user_are_not_written_over(
    cli: Command, scenario: Path, tmp_path: Path, run: paceline.Run
) -> None:
    run.write(tmp_path / "r")
    (tmp_path / "flow.trace").write_text("1\n2\n3\n")
    trace = ("import", "flow.trace", "--rtt", "40 ms", "--queue", "100 packets")
    for command, name in (
        (trace, "mine.toml"),
        (("report", "r"), "mine.html"),
        (("report", "r", "--format", "svg"), "mine.svg"),
        (("export", "r", "--format", "flent"), "mine.gz"),
        (("export", "r", "--format", "csv"), "mine.csv"),
        (("startup", "2.77"), "mine.png"),
    ):
        option = "--plot" if command[0] == "startup" else "--out"
        place = tmp_path / name
        place.write_text("mine")
        assert_refused(cli(*command, option, name))
        assert place.read_text() == "mine"
        if "csv" not in command:
            assert cli(*command, option, name, "--force").returncode == 0
            assert place.read_bytes() != b"mine"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "flows.csv").write_text("mine")
    assert_refused(cli("export", "r", "--format", "csv", "--out", "mine"))
    assert cli("export", "r", "--format", "csv", "--out", "mine", "--force").returncode == 0
    # In its own folder a report may be renewed, unless somebody has worked on it.
    for _ in range(2):
        for verb in (("report", "r"), ("export", "r", "--format", "csv")):
            assert cli(*verb).returncode == 0
    (tmp_path / "r" / "report.html").write_text("with my notes")
    assert_refused(cli("report", "r"))
    assert cli("report", "r", "--force").returncode == 0


def test_an_import_of_several_writes_all_or_says_so_before(cli: Command, tmp_path: Path) -> None:
    """Nothing is written if one of the places is taken."""
    (tmp_path / "flow.trace").write_text("1\n2\n3\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "flow.toml").write_text("mine")
    arguments = ("import", "flow.trace", "--rtt", "40 ms", "--queue", "100 packets", "--out", "out")
    assert_refused(cli(*arguments))
    assert tree(tmp_path / "out") == {"flow.toml": b"mine"}


def test_a_folder_of_files_appears_whole(
    cli: Command, tmp_path: Path, run: paceline.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.write(tmp_path / "r")
    export = ("export", "r", "--format", "csv", "--out")
    assert cli(*export, "whole").returncode == 0
    for stop in range(100):
        left = iter(range(stop))

        def sync(_: Path, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

        monkeypatch.setattr("paceline.store._sync", sync)
        code = cli(*export, f"out-{stop}").returncode
        if (tmp_path / f"out-{stop}").exists():
            assert tree(tmp_path / f"out-{stop}") == tree(tmp_path / "whole")
        if code == 0:
            break
    assert stop > 2
    assert code == 0


# A full disk

#: Runs commands, each with a bound on the size of any file: one start for all of them.
_BOUND = """
import contextlib, io, json, os, resource, sys
from paceline.cli import main
import matplotlib.figure, polars
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for line in sys.stdin:
    folder, size, arguments = json.loads(line)
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = main(arguments)
    os.chdir("/")
    print(json.dumps([code, errors.getvalue()]), flush=True)
"""

Bounded = Callable[..., Result]


@pytest.fixture
def bounded() -> Iterator[Bounded]:
    """Run commands in a folder, with a bound on the size of any file."""
    with subprocess.Popen(
        [sys.executable, "-c", _BOUND],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def call(folder: Path, size: int, *arguments: object) -> Result:
            line = json.dumps([str(folder), size, [str(argument) for argument in arguments]])
            print(line, file=stdin, flush=True)
            code, output = json.loads(stdout.readline())
            return Result(code, "", output)

        yield call


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


@pytest.mark.parametrize("size", [0, 200])
def test_a_file_that_is_cut_off_has_no_name(
    scenario: Path, tmp_path: Path, run: paceline.Run, bounded: Bounded, size: int
) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    grid = tmp_path / "grid.toml"
    grid.write_text(SCENARIO + SWEEP)
    run.write(tmp_path / "r")
    (tmp_path / "flow.trace").write_text("1\n2\n3\n")
    before = tree(tmp_path)
    for command in (
        ("run", scenario, "--out", "new"),
        ("run", scenario, "--report", "--out", "new"),
        ("report", "r"),
        ("report", "r", "--format", "png"),
        ("export", "r", "--format", "flent"),
        ("export", "r", "--format", "csv"),
        ("startup", "2.77", "--plot", "startup.svg"),
    ):
        result = bounded(tmp_path, size, *command)
        assert result.returncode == 1, (command, result)
        assert "cannot write" in result.stderr
        assert "Traceback" not in result.stderr
        assert tree(tmp_path) == before, command
    result = bounded(tmp_path, size, "sweep", grid, "--out", "s")
    assert result.returncode == 1, result
    assert "Traceback" not in result.stderr
    # There is room again.
    assert bounded(tmp_path, 1 << 30, "sweep", grid, "--out", "s").returncode == 0
    assert bounded(tmp_path, 1 << 30, "sweep", grid, "--out", "t").returncode == 0
    assert tree(tmp_path / "s") == tree(tmp_path / "t")


# Ends at any moment


def start(folder: Path, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "paceline", *map(str, arguments)],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def end(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=120)
    return process.returncode, output.decode()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_repeats_that_were_stopped_go_on(
    cli: Command, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    file = tmp_path / "small.toml"
    # Long enough that most are still to come when the fifth is there.
    text = SCENARIO.replace("seed = 3", 'seed = 3\ncompare = ["reno", "cubic"]')
    file.write_text(re.sub(r'duration = "[^"]*"', 'duration = "100 s"', text))
    arguments = ("run", file, "--repeats", 20, "--jobs", 1)
    process = start(tmp_path, *arguments)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("runs/*/reno/seed-*/run.json"))) < 5:
        assert process.poll() is None, end(process)
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    ended, output = end(process)
    assert ended == code, output
    assert "finished runs are kept" in output
    assert "Traceback" not in output
    (out,) = (tmp_path / "runs").iterdir()
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("run.json")}
    assert 5 <= len(kept) < 40
    assert not (out / "summary.json").exists()
    result = cli(*arguments, "--json")
    value = ran(result)
    assert f"{len(kept)} of 40 runs already exist" in result.stderr
    assert "reused" not in value
    assert all(path.stat().st_mtime_ns == at for path, at in kept.items())
    assert [len(case["repeats"]["seed"]) for case in value["compare"]] == [20, 20]
    whole = ran(cli(*arguments, "--out", "whole", "--json"))
    assert tree(tmp_path / "whole") == tree(out)
    assert whole["compare"][0]["metrics"] == value["compare"][0]["metrics"]


def test_two_that_run_the_same_at_once_both_end_well(scenario: Path, tmp_path: Path) -> None:
    processes = [start(tmp_path, "run", scenario, "--repeats", "20") for _ in range(2)]
    for process in processes:
        code, output = end(process)
        assert code == 0, output
    (out,) = (tmp_path / "runs").iterdir()
    assert len(list(out.glob("seed-*"))) == 20
