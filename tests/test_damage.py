"""Runs that someone else kept, or that a disk has spoiled: read, or refused with a clear error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import paceline
from conftest import SCENARIO, Command

#: What a run's folder has.
FILES = (
    "run.json",
    "scenario.toml",
    "flows.parquet",
    "samples.parquet",
    "queue.parquet",
    "events.parquet",
    "packets.parquet",
)

#: Each command that reads a run's folder, without the folder.
READERS = (
    ("report",),
    ("compare", "../whole"),
    ("sequence",),
    ("export", "--format", "csv"),
    ("export", "--format", "qlog"),
    ("export", "--format", "pcapng"),
    ("export", "--format", "flent"),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    short = {"run.duration": '"0.3 s"', "run.record.packets": True}
    paceline.run(SCENARIO, overrides=short).write(folder)
    return folder


@pytest.fixture
def refusals(whole: Path, cli: Command, tmp_path: Path) -> Callable[[str, bytes | None], list[str]]:
    """Give a file other contents, or none, and return which commands refuse the run."""

    def spoil(name: str, contents: bytes | None) -> list[str]:
        refusing = []
        for command in READERS:
            folder = tmp_path / "run"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(whole, folder)
            (folder / name).unlink()
            if contents is not None:
                (folder / name).write_bytes(contents)
            extra = [whole if part == "../whole" else part for part in command[1:]]
            result = cli(command[0], folder, *extra)
            assert result.returncode in (0, 2, 4), (command, result)
            if result.returncode == 2:
                assert "hint: " in result.stderr
                assert str(folder) in result.stderr or contents is None, (command, result.stderr)
                refusing.append(command[-1])
        return refusing

    return spoil


ALL = ["report", "../whole", "sequence", "csv", "qlog", "pcapng", "flent"]
NOT_COMPARE = [name for name in ALL if name != "../whole"]


@pytest.mark.parametrize("name", FILES)
def test_a_run_without_a_file(name: str, refusals: Any) -> None:
    expected = {
        "run.json": ALL,
        # They are optional, and what needs them says so.
        "packets.parquet": ["sequence", "pcapng"],
    }
    assert refusals(name, None) == expected.get(name, NOT_COMPARE)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("keep", [0, 1, 2, 3])
def test_a_file_of_which_the_end_is_lost(name: str, keep: int, whole: Path, refusals: Any) -> None:
    contents = (whole / name).read_bytes()
    messages = refusals(name, contents[: len(contents) * keep // 4])
    if name == "scenario.toml":
        # Only the headers of packets are taken from it, and their size.
        assert set(messages) <= {"pcapng", "qlog"}
    else:
        assert messages == (ALL if name == "run.json" else NOT_COMPARE)


def test_a_scenario_that_is_not_text(refusals: Any) -> None:
    assert refusals("scenario.toml", b"\xff\xfe") == NOT_COMPARE


@pytest.mark.parametrize("value", [None, -1, 1 << 64, 1e300, "x", [], {}, [7], {"a": []}, True])
@pytest.mark.parametrize("key", ["schema", "seed", "duration_ns", "links", "metrics", "flows"])
def test_a_key_of_another_kind(key: str, value: Any, whole: Path, cli: Command) -> None:
    folder = Path("run")
    shutil.copytree(whole, folder)
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {key: value}))
    for arguments in (("report", folder), ("compare", whole, folder), ("compare", folder, whole)):
        result = cli(*arguments)
        assert result.returncode in (0, 2, 4)
        assert result.returncode != 2 or "hint: " in result.stderr


@pytest.mark.parametrize(
    ("metrics", "message"),
    [({"goodput_bps": "much"}, "goodput_bps is not a number"), ({"goodput_bps": None}, None)],
)
def test_a_metric_that_is_no_number(
    metrics: dict[str, Any], message: str | None, whole: Path, cli: Command
) -> None:
    folder = Path("run")
    shutil.copytree(whole, folder)
    record = json.loads((folder / "run.json").read_text())
    record["metrics"] |= metrics
    (folder / "run.json").write_text(json.dumps(record))
    result = cli("compare", whole, folder)
    if message is None:
        assert result.returncode in (0, 4)
    else:
        assert (result.returncode, message in result.stderr) == (2, True)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), data=st.data())
def test_any_octets_are_read_or_refused(name: str, data: st.DataObject, whole: Path) -> None:
    folder = whole.parent / "spoiled"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    contents = bytearray((whole / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        # The structure of a Parquet file is at its end.
        behind = data.draw(st.integers(0, min(len(contents), 2000) - 1) | st.integers(0, 8))
        contents[-1 - behind % len(contents)] = data.draw(st.integers(0, 255))
    (folder / name).write_bytes(contents)
    try:
        run = paceline.Run.read(folder)
    except (paceline.NotARunError, OSError):
        return
    # What is read can be looked at.
    assert run.flows.height == 2
    assert repr(run).startswith("<Run ")
    assert run.flow_metrics[1]["flow"] == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("emulation", "x"),
        ("emulation", {"beyond": 5}),
        ("emulation", {"beyond": [5]}),
        ("source", 5),
        ("source", {"file": "x", "format": "pcap", "notes": [1]}),
        ("source", {"notes": []}),
    ],
)
def test_what_an_engine_tells_of_itself_has_a_form(
    key: str, value: object, whole: Path, cli: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {key: value}))
    result = cli("report", folder)
    assert result.returncode == 2
    assert f"`{key}` has another form" in result.stderr


def test_an_emulation_without_its_figures_and_another_engine_are_shown(
    whole: Path, cli: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    record = json.loads((folder / "run.json").read_text())
    record |= {"backend": "<b>other", "emulation": {"beyond": [], "lateness": 5, "flows": [1]}}
    (folder / "run.json").write_text(json.dumps(record))
    result = cli("report", folder, "--out", tmp_path / "report.html")
    assert result.returncode == 0, result
    assert "&lt;b&gt;other" in (tmp_path / "report.html").read_text()


def test_what_a_killed_process_left_is_not_compared(whole: Path, cli: Command) -> None:
    group = Path("group")
    shutil.copytree(whole, group / "one-3")
    shutil.copytree(whole, group / ".paceline-1-0")
    value = json.loads(cli("compare", "group", "group", "--json").stdout)
    assert {finding["point"] for finding in value["findings"]} == {"one"}
