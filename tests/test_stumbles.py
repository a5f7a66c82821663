"""What a new user stumbles over: each says what is wrong and what would be right, or just works."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from conftest import SCENARIO, Command
from paceline.cli import console
from paceline.errors import ArgumentError
from paceline.measures import alike, named
from paceline.names import meant
from paceline.runs import Run
from paceline.study.compare import compare
from paceline.study.compare.subjects import split
from paceline.study.sweep import Plan, Sweep, execute

SWEEP = (
    SCENARIO
    + """
[sweep]
seeds = 2
[sweep.over]
flows.0.cc = ["bbr3", "reno"]
path.queue.size = ["1 bdp", "2 bdp", "4 bdp"]
"""
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.toml"
    path.write_text(SWEEP)
    return path


def test_a_metric_of_no_name_is_said_before_anything_runs(
    cli: Command, file: Path, tmp_path: Path
) -> None:
    for metric, near in (
        ("godput_bps", "goodput_bps"),
        ("flows[0].godput_bps", "flows[0].goodput_bps"),
    ):
        result = cli("sweep", file, "--metric", metric)
        assert result.returncode == 2
        assert f"no metric is called {metric!r}" in result.stderr
        assert f"did you mean {near}?" in result.stderr
    result = cli("sweep", file, "--metric", "flows[2].goodput_bps")
    assert result.returncode == 2
    assert "is of flow 2, and a run has flows 0 to 1" in result.stderr
    assert not (tmp_path / "runs").exists()


def test_the_unit_of_a_name_may_be_left_out(cli: Command, file: Path) -> None:
    for given, full in (
        ("jain", "jain_ratio"),
        ("rtt p50", "rtt_p50_ns"),
        ("goodput_bps", "goodput_bps"),
        ("flows[1].goodput", "flows[1].goodput_bps"),
        ("flows.0.share", "flows.0.share_ratio"),
    ):
        assert named(given) == full
    for wrong in ("goodput_ns", "jain_", "ratio", "flows[0].jain", "flow.goodput", ""):
        with pytest.raises(ArgumentError, match="no metric is called"):
            named(wrong)
    result = cli(
        "sweep", file, "--out", "s", "--metric", "jain", "--metric", "jain_ratio", "--json"
    )
    assert json.loads(result.stdout)["metrics"] == ["jain_ratio"], result
    assert Sweep.read("s").values("flows[0].goodput") == Sweep.read("s").values(
        "flows[0].goodput_bps"
    )
    compared = ("compare", "s", "s", "--json", "--metric")
    assert cli(*compared, "flows[1].rtt_p50").stdout == cli(*compared, "flows[1].rtt_p50_ns").stdout
    assert "Jain's index" in cli("list", "metrics", "jain").stdout
    text = SCENARIO + '[expect]\ngoodput = ">= 1 Mbit/s"\n'
    Path("expect.toml").write_text(text)
    expected = json.loads(cli("run", "expect.toml", "--json").stdout)["expect"]
    assert [(one["metric"], one["held"]) for one in expected] == [("goodput_bps", True)]


def test_a_name_that_may_be_two_is_refused_with_both(cli: Command) -> None:
    assert meant("backlog", ["backlog_bytes", "backlog_packets", "delay_ns"]) == [
        "backlog_bytes",
        "backlog_packets",
    ]
    result = cli("list", "columns", "backlog")
    assert result.returncode == 2
    assert "'backlog' may be backlog_bytes or backlog_packets" in result.stderr
    one = json.loads(cli("list", "columns", "delay", "--json").stdout)["columns"]
    assert [(t["name"], [c["name"] for c in t["columns"]]) for t in one] == [
        ("queue", ["delay_ns"])
    ]


def test_a_finished_sweep_shows_another_metric_without_running(
    cli: Command, file: Path, tmp_path: Path
) -> None:
    assert cli("sweep", file, "--out", "s").returncode == 0
    changed = (tmp_path / "s" / "sweep.json").stat().st_mtime_ns
    result = cli("sweep", file, "--out", "s", "--metric", "rtt_p99_ns", "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert "engine" not in answer
    assert answer["metrics"] == ["rtt_p99_ns"]
    assert (tmp_path / "s" / "rtt_p99_ns.png").exists()
    assert (tmp_path / "s" / "sweep.json").stat().st_mtime_ns == changed


def test_which_is_better_is_asked_of_one_sweep(cli: Command, file: Path, tmp_path: Path) -> None:
    assert cli("sweep", file, "--out", "s").returncode == 0
    result = cli("compare", "s", "--by", "flows.0.cc", "--metric", "goodput_bps", "--all")
    assert result.returncode == 0, result.stderr
    first, second, *_ = result.stdout.splitlines()
    assert first.startswith("reno against bbr3, over 3 pairs: ")
    assert first.count(".") >= 1
    assert second == "Picture: s/flows.0.cc-reno-against-bbr3.png"
    assert (tmp_path / "s" / "flows.0.cc-reno-against-bbr3.png").read_bytes()[:4] == b"\x89PNG"
    answer = json.loads(cli("compare", "s", "--by", "flows.0.cc", "--json").stdout)
    assert answer["comparisons"][0]["new"] == "reno"
    wrong = cli("compare", "s", "--by", "flows.0.c")
    assert (wrong.returncode, "did you mean flows.0.cc?" in wrong.stderr) == (2, True)
    assert cli("compare", "s").returncode == 2
    assert cli("compare", "s", "s", "--by", "flows.0.cc").returncode == 2


def test_pairs_are_points_with_the_mean_of_their_seeds(file: Path, tmp_path: Path) -> None:
    sweep = execute(Plan.read(file.read_text(), str(file)), tmp_path / "s")
    sides = split(sweep, "flows.0.cc")
    assert list(sides) == ["bbr3", "reno"]
    (units,) = sides["bbr3"].points.values()
    assert list(units) == [("1 bdp",), ("2 bdp",), ("4 bdp",)]
    rows = sweep.runs.filter(sweep.runs["flows.0.cc"] == "bbr3")
    by_hand = rows.filter(rows["path.queue.size"] == "2 bdp")["goodput_bps"].mean()
    assert units[("2 bdp",)]["metrics"]["goodput_bps"] == by_hand
    (finding,) = compare(sides["bbr3"], sides["reno"], ["goodput_bps"])
    assert (finding.counts, finding.paired) == ((3, 3), True)
    # With nothing else that is varied, the seeds pair.
    alone = Plan.read(file.read_text(), "x.toml", axes=sweep.grid.axes[:1], repeats=2)
    one = split(execute(alone, tmp_path / "t"), "flows.0.cc")
    assert [list(units) for units in one["bbr3"].points.values()] == [list(alone.grid.seeds)]


def test_a_scenario_where_a_run_is_wanted_is_named(cli: Command, file: Path) -> None:
    for verb in ("report", "sequence"):
        result = cli(verb, file)
        assert result.returncode == 2
        assert f"{file} is a scenario, not a run" in result.stderr
        assert f"`paceline run {file}` makes a run" in result.stderr
    result = cli("compare", file, "runs")
    assert result.returncode == 2
    assert f"{file} is a scenario, not a run" in result.stderr
    result = cli("report", "/dev/null")
    assert "/dev/null is a file, not a run" in result.stderr


def test_a_sweep_where_a_run_is_wanted_is_named(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "sweep.json").write_text("{}")
    result = cli("sequence", "s")
    assert result.returncode == 2
    assert "s is a sweep, not a run" in result.stderr
    assert "`paceline compare s --by KEY`" in result.stderr


def test_a_metric_that_no_run_has_is_not_said_to_be_the_same_in_all() -> None:
    assert alike({"a": [1, 1], "b": [None, None]})
    assert not alike({"b": [None, None]})


def test_a_scenario_that_is_imported_is_named(cli: Command, file: Path) -> None:
    result = cli("import", file)
    assert result.returncode == 2
    assert f"{file} is already a scenario" in result.stderr
    assert f"`paceline run {file}` runs it" in result.stderr


def test_a_pulse_is_one_event(cli: Command, file: Path) -> None:
    file.write_text(SCENARIO + '[[events]]\nwhen = "1 s"\nfor = "500 ms"\npath.rate = "1 Mbit/s"\n')
    assert 'for = "500 ms"' in cli("check", file).stdout
    out = json.loads(cli("run", file, "--json").stdout)["out"]
    events = pl.DataFrame(Run.read(file.parent / out).table("events"))
    changes = events.filter(events["kind"] == "change").select("t_ns", "key", "value").rows()
    assert changes == [(1_000_000_000, "rate", 1e6), (1_500_000_000, "rate", 1e7)]
    assert "`events[0]` ends at" in cli("run", file, "--set", "events.0.for=60 s").stderr


def test_comparisons_of_controllers_do_not_have_the_name_of_a_run(cli: Command, file: Path) -> None:
    file.write_text(SCENARIO)
    one = json.loads(cli("run", file, "--json").stdout)["out"]
    compared = ("--set", 'run.compare=["bbr3", "reno"]')
    several = json.loads(cli("run", file, *compared, "--json").stdout)["out"]
    assert one.startswith("runs/x-3-")
    assert "x-compare" in several


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_word_of_a_table_is_broken_and_nothing_is_drawn_into_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    names = ["utilisation", "retransmitted", "Expectations", "draft-ietf-ccwg-bbr-06"]
    table = console.table("Metric", *names[:3], title="A title", left=1)
    table.add_row("goodput variation", *names[1:])
    console.stdout().print(table)
    output = capsys.readouterr().out
    assert all(name in output for name in names)
    assert max(map(len, output.splitlines())) <= width
    assert not any("\u2500" <= character <= "\u257f" for character in output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "y.toml"), "did you mean x.toml?"),
        (("run", "x.toml", "--repeats", "ten"), '--repeats takes a whole number, not "ten".'),
        (("claims", "--seeds", "1.5"), '--seeds takes a whole number, not "1.5".'),
        (("run", "x.toml", "--seed", "0x10"), '--seed takes a whole number, not "0x10".'),
        (("startup", "2", "--rounds", "\u0663"), '--rounds takes a whole number, not "\u0663".'),
        (("run", "x.toml", "--repeats", "0"), '--repeats must be from 1 to 100,000. It is "0".'),
        (("run",), "`paceline run` needs FILE."),
        (("run", "x.toml", "--controller", "m.py"), "for example --controller mine=m.py"),
        (("report", "runs/x-12"), "did you mean runs/x-1?"),
        (("compare", "x.toml", "x.toml"), "x.toml is a scenario, not a run"),
        (("evaluate", "mine"), "--controller mine=FILE adds your own"),
        (("conformance", "99"), "name a capture, a qlog"),
        (("conformance", "--case", "99"), "known are 01-startup"),
    ],
)
def test_a_mistyped_call_says_what_to_do(
    cli: Command, file: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "m.py").write_text("")
    (tmp_path / "runs" / "x-1").mkdir(parents=True)
    result = cli(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.split())


def test_a_controller_that_no_flow_uses_is_reported(
    cli: Command, file: Path, tmp_path: Path
) -> None:
    assert cli("init", "--controller", "m.py").returncode == 0
    message = "no flow uses the controller `mine`"
    short = ("run", file, "--controller", "mine=m.py", "--set", "run.duration=1 s")
    assert message in cli(*short).stderr
    assert message not in cli(*short, "--set", "flows.0.cc=mine").stderr
