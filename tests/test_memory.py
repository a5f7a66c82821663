"""What runs and readers may take in memory: shared, enforced, and never an abort."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

import paceline
from conftest import SCENARIO, Command
from paceline import memory, runs
from paceline.errors import MemoryLimitError, ScenarioError
from paceline.quantities import size_bytes

MB = 10**6

PACKETS = """\
schema = 1
run = { duration = "600 s", record.packets = true }
path = { rate = "10 Gbit/s", rtt = "40 ms", queue = { kind = "droptail", size = "1 bdp" } }
flows = [{ cc = "reno" }]
"""


@pytest.fixture(autouse=True)
def _unset() -> Iterator[None]:
    yield
    memory.choose(None)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1.5 GB", 1_500_000_000), ("64MiB", 64 << 20), ("7 B", 7), ("2 TB", 2 * 10**12)],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "4", "4 gb", "-1 GB", "GB", "1e3 MB", "0 MB"])
def test_a_size_without_sense_is_refused(text: str, scenario: Path, cli: Command) -> None:
    result = cli("run", scenario, "--memory", text)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_every_verb_that_runs_or_reads_takes_a_limit(cli: Command) -> None:
    verbs = "run sweep claims conformance evaluate report sequence export import compare serve"
    for verb in (*verbs.split(), "reference export"):
        help_text = " ".join(cli(*verb.split(), "--help").stdout.split())
        assert "--memory" in help_text, verb
        assert "half of the available memory" in help_text, verb


def test_check_counts_the_rows_of_a_run(tmp_path: Path, cli: Command) -> None:
    text = PACKETS.replace('cc = "reno"', 'cc = "reno", count = 20')
    (tmp_path / "packets.toml").write_text(text)
    result = cli("check", "packets.toml")
    assert result.returncode == 0
    # 20 flows for 600 s: a row of each every 12 ms, since 10 ms would be more than a million.
    assert "a run has 1,000,000 rows of samples" in result.stderr
    assert json.loads(cli("check", "packets.toml", "--json").stdout)["sample_rows"] == 1_000_000


def test_a_run_beyond_its_limit_ends_and_leaves_nothing(tmp_path: Path, cli: Command) -> None:
    text = PACKETS.replace("10 Gbit/s", "50 Mbit/s").replace("600 s", "20 s")
    (tmp_path / "packets.toml").write_text(text)
    result = cli("run", "packets.toml", "--memory", "5 MB", "--quiet")
    assert result.returncode == 1, result
    errors = " ".join(result.stderr.split())
    # 4167 packets a second, two rows and a half of 69 bytes each.
    assert "after 6." in errors, errors
    assert "of it for `packets`, and may take 5.0 MB" in errors
    assert "choose run.record.packets = false" in errors
    assert not list(tmp_path.rglob("run.json"))
    result = cli("run", "packets.toml", "--memory", "5 MB", "--quiet", "--json")
    assert json.loads(result.stdout)["error"]["kind"] == "memory"
    # With enough it is whole.
    result = cli("run", "packets.toml", "--memory", "100 MB", "--quiet", "--json")
    assert result.returncode == 0, result


def test_what_cannot_begin_within_its_limit_is_not_built(tmp_path: Path, cli: Command) -> None:
    text = PACKETS.replace('cc = "reno"', 'cc = "reno", count = 20_000')
    (tmp_path / "many.toml").write_text(text)
    result = cli("run", "many.toml", "--memory", "100 MB", "--quiet")
    assert result.returncode == 1
    errors = " ".join(result.stderr.split())
    assert "after 0 s the run takes 160 MB of memory, 160 MB of it for `scenario`" in errors
    assert not list(tmp_path.rglob("run.json"))


def test_runs_side_by_side_share_what_there_is() -> None:
    job = (SCENARIO, "scenario.toml", (), 1)
    ended: list[int] = []
    # The limit at which a run ends well, to a tenth.
    needed = 20_000
    while not ended:
        needed = needed * 11 // 10
        memory.choose(needed)
        with suppress(MemoryLimitError):
            runs.simulate([job], lambda index, *_: ended.append(index), threads=4)
    assert ended == [0]
    # Two at a time, and a share for one that has ended.
    memory.choose(needed * 5 // 2)
    with pytest.raises(MemoryLimitError, match="s the run takes") as raised:
        runs.simulate([job] * 3, lambda index, *_: ended.append(index), threads=2)
    assert "--memory" in str(raised.value.hint)
    memory.choose(3 * needed)
    runs.simulate([job] * 3, lambda index, *_: ended.append(index), threads=2)
    assert sorted(ended[1:]) == [0, 1, 2]
    # One that is too large does not end the others of a sweep.
    messages: list[str] = []
    large = (SCENARIO, "scenario.toml", (("run.sample_interval", "0.01 ms"),), 1)
    runs.simulate(
        [large, job], lambda *_: None, threads=1, failed=lambda _, message: messages.append(message)
    )
    assert len(messages) == 1
    assert "run.sample_interval" in messages[0]


def test_scenarios_are_read_one_at_a_time_and_as_their_turn_comes() -> None:
    ended: list[int] = []
    wrong = SCENARIO.replace("bbr3", "bbr33")
    jobs = [(text, "scenario.toml", (), 1) for text in (SCENARIO, SCENARIO, wrong)]
    with pytest.raises(ScenarioError, match="bbr33"):
        runs.simulate(
            jobs,
            lambda index, *_: ended.append(index),
            threads=1,
            failed=lambda *_: pytest.fail("a wrong scenario is no failed run"),
        )
    assert ended == [0, 1]


#: 15,000 events take some 12 MB as they are read: all of the jobs' at once would take 500 MB.
LARGE = """
import resource, sys
from paceline import runs
event = '[[events]]\\nwhen = "{} us"\\npath.rate = "10 Mbit/s"\\n'
text = sys.stdin.read() + "".join(event.format(n) for n in range(15_000))
jobs = [(text, "x.toml", (), seed) for seed in range(40)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = []
runs.simulate(jobs, lambda index, *_: count.append(index), threads=2)
print(len(count), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_repeats_of_a_large_scenario_read_it_once() -> None:
    text = SCENARIO.replace("2 s", "0.3 s")
    command = [sys.executable, "-c", LARGE]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    count, grown = map(int, result.stdout.split())
    assert count == 40
    assert grown < 200_000, f"{grown} kB"


def test_a_run_without_its_tables_is_what_was_measured(run: paceline.Run) -> None:
    measured = run.measured()
    assert measured.summary == run.summary
    assert repr(measured) == repr(run)
    with pytest.raises(KeyError):
        measured.table("samples")


def test_rows_that_are_all_alike_are_not_read(tmp_path: Path, cli: Command) -> None:
    short = {"run.duration": '"0.3 s"'}
    paceline.run(SCENARIO, overrides=short).write(tmp_path / "run")
    file = tmp_path / "run" / "samples.parquet"
    row = pl.read_parquet(file).head(1)
    row.select(pl.all().repeat_by(300_000).explode()).write_parquet(file)
    assert file.stat().st_size < 100_000
    for verb in (("report",), ("export", "--format", "csv")):
        result = cli(verb[0], "run", *verb[1:], "--memory", "60 MB")
        assert result.returncode == 2, result
        errors = " ".join(result.stderr.replace("\n", "").split())
        assert "has 300000 rows" in errors, errors
        assert "may be read" in errors
        assert "--memory" in errors


def test_containers_say_how_much_is_left(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    root = tmp_path / "fs"
    inner = root / "outer" / "inner"
    inner.mkdir(parents=True)

    def left() -> list[int]:
        return list(memory._container(root, own))

    own.write_text("0::/outer/inner\n")
    assert left() == []
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("500\n")
    (inner.parent / "memory.max").write_text("1000\n")
    (inner.parent / "memory.current").write_text("700\n")
    (inner.parent / "memory.stat").write_text("anon 600\ninactive_file 50\n")
    assert left() == [350]
    # The path of another place, as containers see it; version 1.
    own.write_text("4:cpu,memory:/docker/abc\n1:cpu:/\n")
    (root / "memory").mkdir()
    (root / "memory" / "memory.limit_in_bytes").write_text("4000\n")
    (root / "memory" / "memory.usage_in_bytes").write_text("4500\n")
    assert left() == [0]


def test_half_of_what_is_free_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_machine", lambda: iter([8000 * MB]))
    monkeypatch.setattr(memory, "_container", lambda: iter([3000 * MB, 5000 * MB]))
    monkeypatch.setattr(memory, "_process", lambda: iter([]))
    assert memory.limit() == 1500 * MB
    memory.choose(7)
    assert (memory.limit(), memory.chosen()) == (7, 7)
