"""``paceline check``, ``list``, ``report``, ``playground``, verbs with parts, and the help."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import paceline
from conftest import Command
from paceline.cli import verbs
from paceline.cli.app import app
from paceline.cli.verbs import playground


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
    output = cli("list", "scenarios").stdout
    assert "Two flows share" in output
    assert "bbr3/cellular" not in output


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
    assert cli("report", "r", "--out", "no/such/folder.html").returncode == 2
    assert cli("report", scenario).returncode == 2
    assert cli("report", tmp_path).returncode == 2
    (tmp_path / "r" / "samples.parquet").write_bytes(b"PAR1")
    broken = cli("report", "r")
    assert broken.returncode == 2
    assert "Traceback" not in broken.stderr


# Verbs with parts: each part has its own options, examples and help.


def parts() -> Iterator[tuple[str, str]]:
    """Yield the verbs that have parts, and each part."""
    verbs.load()
    for verb in verbs.VERBS:
        yield from ((verb, name) for name in app[verb] if not name.startswith("-"))


def options(text: str) -> set[str]:
    return set(re.findall("--[a-z][a-z-]+", text))


def test_a_part_of_a_verb_shows_only_its_own_options(cli: Command) -> None:
    for verb, own, others in (
        ("vm prepare", {"--kernel", "--modules", "--quiet"}, {"--out", "--seed"}),
        ("vm trace", {"--out", "--seed"}, {"--kernel", "--quiet"}),
        ("kernel load", {"--set"}, {"--duration", "--out"}),
        ("kernel record", {"--duration", "--out", "--memory"}, {"--set"}),
        ("perf server", {"--once", "--max-time"}, {"--token", "--cc"}),
        ("perf client", {"--token", "--cc", "--streams"}, {"--once", "--max-time"}),
        ("reference list", {"--json"}, {"--packets", "--out"}),
        ("reference export", {"--packets", "--out"}, set()),
    ):
        help_text = cli(*verb.split(), "--help").stdout
        assert own <= options(help_text), verb
        assert options(help_text).isdisjoint(others), verb
        assert "For `" not in help_text
    known = set(parts())
    assert {verb for verb, _ in known} == {"kernel", "perf", "reference", "vm"}
    for verb, name in known:
        help_text = cli(verb, name, "--help").stdout
        examples = [
            line.split() for line in help_text.splitlines() if line.startswith(" paceline ")
        ]
        assert examples, (verb, name)
        assert all(words[1:3] == [verb, name] for words in examples)


def test_a_verb_with_parts_says_which(cli: Command) -> None:
    for words, message in (
        (("vm",), "`paceline vm` needs a part"),
        (("vm", "lst"), "`paceline vm` has no part 'lst' hint: did you mean list?"),
        (("kernel", "list", "--set", "a=1"), "`paceline kernel load` has it"),
        (("perf", "client", "--once"), "`paceline perf server` has it"),
        (("reference", "list", "--kernel", "x"), "`paceline reference list` has no option"),
        (("vm", "list", "x"), "`paceline vm list` takes no argument, and 'x' is too much"),
    ):
        result = cli(*words)
        assert result.returncode == 2
        assert message in " ".join(result.stderr.split()), result


def test_an_option_may_come_before_the_part(cli: Command) -> None:
    after = cli("reference", "list", "b1", "--json")
    assert after.returncode == 0
    assert cli("reference", "--json", "list", "b1") == after


# ``paceline playground``: the page in a wheel, that of a checkout, and neither.


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    package = tmp_path / "python" / "paceline"
    (package / "web").mkdir(parents=True)
    addresses: list[str] = []
    monkeypatch.setattr(playground, "_PACKAGE", package)
    monkeypatch.setattr("webbrowser.open", addresses.append)
    return addresses


def test_the_page_of_the_package_is_opened_first(
    cli: Command, opened: list[str], tmp_path: Path
) -> None:
    built = tmp_path / "target" / "playground" / "index.html"
    built.parent.mkdir(parents=True)
    built.write_text("built")
    assert cli("playground").stdout == f"{built}\n"
    shipped = tmp_path / "python" / "paceline" / "web" / "playground.html"
    shipped.write_text("shipped")
    assert cli("playground").stdout == f"{shipped}\n"
    assert opened == [built.as_uri(), shipped.as_uri()]
    assert cli("playground", "--no-browser").stdout == f"{shipped}\n"
    assert len(opened) == 2


def test_without_the_page_it_says_what_to_install(cli: Command, opened: list[str]) -> None:
    result = cli("playground")
    assert (result.returncode, result.stdout, opened) == (127, "", [])
    assert "`rustup target add wasm32-unknown-unknown`" in result.stderr
    assert "`make playground`" in result.stderr


def test_wheels_hold_the_page_where_the_command_looks_for_it() -> None:
    root = Path(__file__).parents[1]
    steps = (root / ".github" / "workflows" / "wheels.yml").read_text()
    place = "python/paceline/web"
    assert f"name: playground\n          path: {place}\n" in steps
    assert steps.index("make playground") < steps.index("maturin build")
    assert f"/{place}/playground.html" in (root / ".gitignore").read_text()
    assert f'path = "{place}/**/*"' in (root / "pyproject.toml").read_text()
