"""``paceline check``, ``list``, ``report`` and the help."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import paceline
from conftest import Command


def test_check_prints_the_resolved_scenario(cli: Command, scenario: Path, tmp_path: Path) -> None:
    result = cli("check", scenario, "--set", "run.duration=5 s")
    assert result.returncode == 0, result.stderr
    assert tomllib.loads(result.stdout)["run"]["duration"] == "5 s"
    # What it prints is a scenario, and stays as it is.
    resolved = tmp_path / "resolved.toml"
    resolved.write_text(result.stdout)
    assert cli("check", resolved).stdout == result.stdout
    value = json.loads(cli("check", scenario, "--json").stdout)
    assert value["schema"] == 1
    assert value["resolved"]["flows"][1]["cc"] is not None


def test_check_runs_nothing(cli: Command, scenario: Path, tmp_path: Path) -> None:
    assert cli("check", scenario).returncode == 0
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("what", ["controllers", "queues", "metrics", "exports"])
def test_lists(cli: Command, what: str) -> None:
    result = cli("list", what)
    assert result.returncode == 0, result.stderr
    value = json.loads(cli("list", what, "--json").stdout)
    assert value["schema"] == 1
    assert value[what]
    for entry in value[what]:
        assert entry["name"] in result.stdout


@pytest.mark.parametrize(
    ("what", "name"),
    [("controllers", "bbr3")]
    + [("queues", kind) for kind in ("droptail", "codel", "fq_codel", "pie", "dualpi2")],
)
def test_options_have_defaults_ranges_and_a_word(cli: Command, what: str, name: str) -> None:
    value = json.loads(cli("list", what, name, "--json").stdout)
    (entry,) = value[what]
    assert entry["options"]
    for option in entry["options"]:
        assert option.keys() == {"name", "default", "range", "doc"}
        assert all(option.values()), option
    assert entry["options"][0]["name"] in cli("list", what, name).stdout


def test_scenarios_are_those_below(cli: Command, scenario: Path, tmp_path: Path) -> None:
    assert "bbr3/cellular" in cli("list", "scenarios").stdout
    (tmp_path / "scenarios").mkdir()
    scenario.rename(tmp_path / "scenarios" / "small.toml")
    said = cli("list", "scenarios").stdout
    assert "Two flows share" in said
    assert "bbr3/cellular" not in said


def test_every_command_has_help_with_examples(cli: Command) -> None:
    assert cli().stdout == cli("--help").stdout
    for command in ("run", "check", "list", "report"):
        assert command in cli("--help").stdout
        result = cli(command, "--help")
        assert result.returncode == 0
        assert "Examples:" in result.stdout
        assert f"paceline {command} " in result.stdout


def test_version(cli: Command) -> None:
    assert cli("--version").stdout.strip() == paceline.__version__


@pytest.mark.parametrize("format_", ["html", "png", "svg", "pdf"])
def test_reports_are_the_same_bytes_every_time(
    cli: Command, run: paceline.Run, tmp_path: Path, format_: str
) -> None:
    run.write(tmp_path / "r")
    result = cli("report", "r", "--format", format_)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == f"r/report.{format_}"
    assert cli("report", "r", "--format", format_, "--out", "again").returncode == 0
    assert (tmp_path / "r" / f"report.{format_}").read_bytes() == (tmp_path / "again").read_bytes()


def test_report_refuses_what_it_cannot_draw(
    cli: Command, run: paceline.Run, scenario: Path, tmp_path: Path
) -> None:
    run.write(tmp_path / "r")
    assert cli("report", "r", "--format", "png", "--flow", 7).returncode == 2
    assert cli("report", "r", "--out", "no/such/folder.html").returncode == 1
    assert cli("report", scenario).returncode == 2
    assert cli("report", tmp_path).returncode == 2
    (tmp_path / "r" / "samples.parquet").write_bytes(b"PAR1")
    broken = cli("report", "r")
    assert broken.returncode == 2
    assert "Traceback" not in broken.stderr
