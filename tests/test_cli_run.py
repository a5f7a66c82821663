"""``paceline run``: folders, numbers, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import paceline
from conftest import SCENARIO, Command


def folder(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_prints_tables_with_units_and_writes_the_default_folder(
    cli: Command, scenario: Path, tmp_path: Path
) -> None:
    result = cli("run", scenario)
    assert result.returncode == 0, result.stderr
    assert "Mbit/s" in result.stdout
    assert "Engine: " in result.stdout
    assert "packets/s" in result.stdout
    (out,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"small-3-[0-9a-f]{6}", out.name)
    assert (out / "run.json").is_file()
    assert not (out / "report.html").exists()


def test_the_same_seed_gives_the_same_bytes(cli: Command, scenario: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert cli("run", scenario, "--out", name, "--report").returncode == 0
    assert cli("run", scenario, "--out", "c", "--seed", 4).returncode == 0
    first = folder(tmp_path / "a")
    assert {"run.json", "samples.parquet", "scenario.toml", "report.html"} <= first.keys()
    assert first == folder(tmp_path / "b")
    assert first["run.json"] != folder(tmp_path / "c")["run.json"]


def test_json_says_what_scripts_rely_on(cli: Command, scenario: Path) -> None:
    result = cli("run", scenario, "--json", "--out", "r")
    value = json.loads(result.stdout)
    assert value["schema"] == 2
    assert (value["scenario"], value["seed"], value["backend"]) == ("small", 3, "sim")
    assert value["out"] == "r"
    assert {
        "utilisation_ratio",
        "goodput_bps",
        "jain_ratio",
        "jain_last_half_ratio",
        "convergence_ns",
        "rtt_p50_ns",
        "queue_p95_ns",
        "queue_max_bytes",
        "loss_ratio",
        "retransmit_ratio",
    } <= value["metrics"].keys()
    assert [flow["cc"] for flow in value["flows"]] == ["bbr3", "reno"]
    assert {"flow", "goodput_bps", "rtt_p50_ns", "share_ratio"} <= value["flows"][0].keys()
    assert value["engine"].keys() == {"wall_ns", "packets", "events"}
    assert value["engine"]["packets"] > 100
    assert value["expect"] == []


def test_json_has_the_digest_of_each_run(cli: Command, scenario: Path, tmp_path: Path) -> None:
    def digests(*more: str) -> list[str]:
        value = json.loads(cli("run", scenario, "--json", *more).stdout)
        return [one for case in value.get("compare", [value]) for one in case["digests"]]

    [one] = digests("--out", str(tmp_path / "one"))
    assert one == paceline.Run.read(tmp_path / "one").digest
    # The same if it is only read, and by every way to it.
    assert digests("--out", str(tmp_path / "one")) == [one]
    first, second = digests("--repeats", "2")
    assert first == one != second
    compared = digests("--set", 'run.compare=["bbr3", "reno"]')
    assert len(set(compared)) == 2


def test_repeats_are_told_together_and_one_by_one(
    cli: Command, scenario: Path, tmp_path: Path
) -> None:
    result = cli("run", scenario, "--repeats", 3, "--out", "r", "--json", "--jobs", 2)
    value = json.loads(result.stdout)
    goodput = value["metrics"]["goodput_bps"]
    assert {"mean", "median", "low", "high"} <= goodput.keys()
    # Of three repeats there is no interval.
    assert (goodput["low"], goodput["high"]) == (None, None)
    assert value["repeats"]["seed"] == [3, 4, 5]
    single = json.loads(cli("run", scenario, "--seed", 4, "--json").stdout)
    for name, metric in single["metrics"].items():
        assert value["repeats"][name][1] == metric
    assert (tmp_path / "r" / "seed-4" / "run.json").is_file()
    assert (tmp_path / "r" / "summary.json").is_file()
    assert folder(tmp_path / "r" / "seed-4") == folder(tmp_path / single["out"])
    table = cli("run", scenario, "--repeats", 2)
    assert table.returncode == 0
    assert "Low 95 %" in table.stdout
    assert "No 95 % intervals: they need at least 5 repeats" in table.stdout
    assert "Medians of 2 repeats" in table.stdout
    five = json.loads(cli("run", scenario, "--repeats", 5, "--json").stdout)
    goodput = five["metrics"]["goodput_bps"]
    assert goodput["low"] <= goodput["mean"] <= goodput["high"]


def test_a_seed_that_changes_nothing_is_told(cli: Command, scenario: Path) -> None:
    one = ("--set", "flows=[{ cc = 'cubic' }]", "--repeats", 5)
    same = cli("run", scenario, *one)
    assert same.returncode == 0, same.stderr
    assert "The seed has no effect here: all 5 repeats are identical" in same.stdout
    other = cli("run", scenario, *one, "--set", "path.loss=1 %")
    assert "The seed has no effect" not in other.stdout


def test_goodputs_over_own_times_are_told(cli: Command, scenario: Path) -> None:
    apart = ("--set", "flows.0.stop=1 s", "--set", "flows.1.start=1 s")
    result = cli("run", scenario, *apart)
    assert result.returncode == 0, result.stderr
    assert (
        "Flows are averaged over their lifetimes, so rows do not add up to the total of"
        in result.stdout
    )
    assert "over its own time" not in cli("run", scenario, "--set", "flows.1.start=0 s").stdout


def test_a_comparison_runs_each_controller(cli: Command, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("seed = 3", 'seed = 3\ncompare = ["reno", "cubic"]'))
    value = json.loads(cli("run", scenario, "--json").stdout)
    assert [case["cc"] for case in value["compare"]] == ["reno", "cubic"]
    for case in value["compare"]:
        assert {flow["cc"] for flow in case["flows"]} == {case["cc"]}
    table = cli("run", scenario).stdout
    assert "reno" in table
    assert "cubic" in table


def test_what_falls_short_is_told_and_gives_3(cli: Command, scenario: Path) -> None:
    scenario.write_text(
        SCENARIO + '\n[expect]\nutilisation_ratio = ">= 1 %"\nrtt_p50_ns = "<= 1 ms"\n'
    )
    result = cli("run", scenario)
    assert result.returncode == 3, result.stderr
    assert "1 of 2 expectations failed" in result.stdout
    assert "at most 1.000 ms" in result.stdout
    by_metric = {
        e["metric"]: e["held"] for e in json.loads(cli("run", scenario, "--json").stdout)["expect"]
    }
    assert sorted(by_metric.values()) == [False, True]


def test_overrides_change_the_run(cli: Command, scenario: Path) -> None:
    value = json.loads(
        cli("run", scenario, "--set", "flows.0.cc=cubic", "--set", "run.seed=9", "--json").stdout
    )
    assert value["seed"] == 9
    assert value["flows"][0]["cc"] == "cubic"


def test_several_files_give_several_results(cli: Command, scenario: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(SCENARIO)
    value = json.loads(cli("run", scenario, other, "--json", "--out", "all").stdout)
    assert [r["scenario"] for r in value["runs"]] == ["small", "other"]
    assert (tmp_path / "all" / "other-3" / "run.json").is_file()


def test_nothing_but_a_run_is_overwritten(cli: Command, scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    result = cli("run", scenario, "--out", "thesis")
    assert result.returncode == 2
    assert "not a run" in result.stderr
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"
    assert len(list((tmp_path / "thesis").iterdir())) == 1


def bad(cli: Command, *arguments: object) -> dict[str, Any]:
    """Return the JSON error, having checked that people get the same message."""
    plain = cli(*arguments)
    assert plain.stdout == ""
    result = cli(*arguments, "--json")
    assert result.stderr == ""
    assert result.returncode == plain.returncode
    value = json.loads(result.stdout)
    assert value.keys() == {"schema", "error"}
    error: dict[str, Any] = value["error"]
    assert {"kind", "message", "file", "line", "column", "hint"} <= error.keys()
    assert error["message"].split("\n")[0][:40] in plain.stderr.replace("\n", " ")
    assert "Traceback" not in plain.stderr
    return {**error, "code": result.returncode}


def test_a_missing_file_gets_a_neighbour(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "one-flow.toml").write_text(SCENARIO)
    error = bad(cli, "run", "one-flwo.toml")
    assert error["code"] == 2
    assert error["hint"] == "did you mean scenarios/one-flow.toml?"


def test_what_is_no_scenario_is_told_plainly(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00PAR1")
    (tmp_path / "empty.toml").write_text("")
    for name in (".", "binary.toml", "empty.toml"):
        assert bad(cli, "run", name)["code"] == 2


def test_a_wrong_key_is_shown_in_its_line(cli: Command, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("rate =", "rtae ="))
    error = bad(cli, "run", scenario)
    assert error["code"] == 2
    # The misspelled key is the one mistake; that `rate` is missing follows from it.
    assert (error["kind"], error["line"], error["column"]) == ("unknown-key", 9, 1)
    assert error["hint"].startswith("did you mean `rate`?")
    assert "all" not in error


def test_every_mistake_is_told(cli: Command, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("rtt = ", "colour = ").replace("2 s", "2"))
    error = bad(cli, "run", scenario)
    places = [(e["kind"], e["line"]) for e in error["all"]]
    assert ("bad-value", 5) in places
    assert ("missing-key", 8) in places
    assert ("unknown-key", 10) in places


def test_a_wrong_controller_is_located(cli: Command, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace('cc = "reno"', 'cc = "rneo"'))
    error = bad(cli, "run", scenario)
    assert error["line"] == 17
    assert "reno" in (error["hint"] or "")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["rnu", "x.toml"], "run"),
        (["run", "x.toml", "--repeat", "3"], "--repeats"),
        (["run", "x.toml", "--repeats", "0"], "--help"),
        (["run", "x.toml", "--seed", "-1"], "--help"),
        (["run", "x.toml", "--seed", "one"], "--help"),
        (["run"], "--help"),
        (["list", "controlers"], "did you mean controllers?"),
        (["list", "controllers", "bbr33"], "bbr3"),
        (["report", "nowhere"], "paceline run"),
    ],
)
def test_usage_errors_give_2(cli: Command, arguments: list[str], hint: str) -> None:
    error = bad(cli, *arguments)
    assert error["code"] == 2
    assert hint in error["hint"]


def test_an_override_without_value_is_refused(cli: Command, scenario: Path) -> None:
    error = bad(cli, "run", scenario, "--set", "run.seed")
    assert error["code"] == 2
    assert "KEY=VALUE" in error["message"]


def test_an_unwritable_folder_fails_before_the_run(
    cli: Command, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Said by the system's own answer, because a superuser may write anywhere.
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert bad(cli, "run", scenario, "--out", "locked/r")["code"] == 1


def test_a_file_in_the_way_is_told(cli: Command, scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    assert bad(cli, "run", scenario, "--out", "plain")["code"] == 2
    assert bad(cli, "run", scenario, "--out", "plain/below")["code"] == 1


def test_ctrl_c_keeps_what_is_finished(scenario: Path, tmp_path: Path) -> None:
    # The first of these ends at once, the others would take hours.
    command = [sys.executable, "-m", "paceline", "run", str(scenario), "--repeats", "10000"]
    process = subprocess.Popen(
        [*command, "--jobs", "1", "--out", "r"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "r" / "seed-3" / "run.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "finished runs are kept" in stderr
    assert "Traceback" not in stderr
    assert (tmp_path / "r" / "seed-3" / "samples.parquet").is_file()


def test_the_command_stands_alone(scenario: Path, tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("paceline")
    for extra in ({"NO_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}):
        result = subprocess.run(
            [str(command), "run", str(scenario), "--quiet"],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], **extra},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert "Mbit/s" in result.stdout
        # Bold is no colour.
        assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|9[0-7])m", result.stdout)
