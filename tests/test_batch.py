"""One batch: who does jobs, what is kept of each, and what is left when it is stopped."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import paceline
from conftest import SCENARIO, Command
from paceline import _paceline
from paceline.batch import Job, Outcome, Room, Watch, emulated, execute
from paceline.batch.ledger import UNFINISHED, Ledger, Remembered
from paceline.batch.processes import on_processes
from paceline.batch.threads import on_threads
from paceline.cli import console
from paceline.query import Query
from paceline.runs import Progress, Run
from paceline.study.claims.jobs import Record

SHORT = (("run.duration", "0.2 s"), ("flows.1.start", "0 s"))
DRAFT = Path(__file__).parents[1] / "data" / "conformance" / "draft-ietf-ccwg-bbr"


def jobs(count: int) -> list[Job]:
    return [Job(SCENARIO, SHORT, seed, duration_ns=200_000_000) for seed in range(1, count + 1)]


def goodput(_: int, job: Job, run: Run) -> tuple[int, float | None]:
    assert run.seed == job.seed
    return job.seed, run.metrics["goodput_bps"]


def crashing(number: int, job: Job, run: Run) -> Any:
    if number in (1, 3):
        os.abort()
    return goodput(number, job, run)


class Recorder(Watch):
    def __init__(self) -> None:
        self.outcomes: dict[int, Outcome] = {}
        self.states: list[Progress] = []

    def finished(self, number: int, outcome: Outcome) -> None:
        self.outcomes[number] = outcome

    def progress(self, state: Progress) -> None:
        self.states.append(state)


def missing(*_: Any) -> Any:
    raise LookupError("not there")


def test_equal_jobs_are_one() -> None:
    assert len({*jobs(3), *jobs(3)}) == 3


def test_a_batch_may_run_into_a_second_folder(tmp_path: Path) -> None:
    batch = paceline.Batch(SCENARIO, repeats=2, overrides=SHORT)
    first, again = batch.run(tmp_path / "one"), batch.run(tmp_path / "one")
    other = batch.run(tmp_path / "two")
    assert (batch.count, batch.reused) == (2, 0)
    assert first["metrics"] == again["metrics"] == other["metrics"]
    assert [part.get("reused", False) for part in (first, again, other)] == [False, True, False]
    with pytest.raises(ValueError, match="threads is 0"):
        batch.run(tmp_path / "one", threads=0)


def test_a_batch_runs_only_what_its_folder_lacks(tmp_path: Path) -> None:
    scenario = SCENARIO.replace("seed = 3", 'seed = 3\ncompare = ["reno", "cubic"]')

    def batch() -> paceline.Batch:
        return paceline.Batch(scenario, repeats=2, overrides=SHORT, report=True)

    first = batch().run(tmp_path / "runs")
    assert [case["cc"] for case in first["compare"]] == ["reno", "cubic"]
    given = {**dict(SHORT), "flows.0.cc": "cubic", "flows.1.cc": "cubic"}
    alone = [
        run.metrics["goodput_bps"] for run in paceline.run_many(scenario, [3, 4], overrides=given)
    ]
    assert first["compare"][1]["repeats"]["goodput_bps"] == alone
    assert all(Path(report).is_file() for report in first["reports"])

    removed = tmp_path / "runs" / "cubic" / "seed-4"
    kept = (removed / "run.json").read_bytes()
    shutil.rmtree(removed)
    again = batch()
    again.claim(tmp_path / "runs")
    assert (again.reused, again.count) == (3, 4)
    recorder = Recorder()
    again.execute(watch=recorder)
    assert len(recorder.outcomes) == 1
    assert (removed / "run.json").read_bytes() == kept
    assert again.finish()["compare"][1]["metrics"] == first["compare"][1]["metrics"]

    with pytest.raises(paceline.StoreError, match="another set of runs"):
        paceline.Batch(scenario, repeats=3, overrides=SHORT).claim(tmp_path / "runs")


@pytest.mark.parametrize("executor", [on_threads(2), on_processes(2)])
def test_whoever_does_them_the_same_is_kept(executor: Any) -> None:
    recorder = Recorder()
    execute(jobs(5), goodput, executor=executor, watch=recorder)
    expected = paceline.run_many(SCENARIO, range(1, 6), overrides=dict(SHORT))
    kept = {number: outcome.kept for number, outcome in recorder.outcomes.items()}
    assert kept == {n: (run.seed, run.metrics["goodput_bps"]) for n, run in enumerate(expected)}
    assert all(outcome.engine.packets > 0 for outcome in recorder.outcomes.values())


def test_a_process_that_crashes_costs_its_own_job() -> None:
    recorder = Recorder()
    execute(jobs(6), crashing, executor=on_processes(2), watch=recorder, failures="collect")
    errors = {number: outcome.error for number, outcome in recorder.outcomes.items()}
    crashed = "its process crashed: signal 6 (SIGABRT)"
    assert errors == {0: None, 1: crashed, 2: None, 3: crashed, 4: None, 5: None}
    with pytest.raises(
        paceline.RunError, match=r"seed 2: its process crashed: signal 6 \(SIGABRT\)"
    ):
        execute(jobs(2), crashing, executor=on_processes(2))


def test_what_keeps_may_fail_wherever_it_is() -> None:
    with pytest.raises(LookupError, match="not there"):
        execute(jobs(2), missing)
    # In another process it is the same.
    with pytest.raises(LookupError, match="not there"):
        execute(jobs(2), missing, executor=on_processes(1))


def test_jobs_are_taken_as_they_are_begun() -> None:
    taken, ahead = 0, 0

    def endless() -> Iterator[Job]:
        nonlocal taken
        for seed in range(1, 100_001):
            taken += 1
            yield Job(SCENARIO, (("run.duration", "1 ms"), SHORT[1]), seed)

    class Stop(Watch):
        def finished(self, number: int, _: Outcome) -> None:
            nonlocal ahead
            ahead = max(ahead, taken - number)
            if number > 1500:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(endless(), lambda *_: None, watch=Stop(), total_ns=1)
    assert ahead <= 1000
    assert taken <= 2000


class Some:
    """A store that has some jobs, and stops after so many others."""

    def __init__(self, known: set[int], most: int = 1000) -> None:
        self.known, self.most, self.added = known, most, list[int]()

    def has(self, number: int) -> bool:
        return number in self.known

    def add(self, number: int, outcome: Outcome) -> None:
        if len(self.added) == self.most:
            raise KeyboardInterrupt
        assert outcome.kept[0] == number + 1
        self.added.append(number)


def test_what_is_stored_is_not_done_again_and_counts_as_done() -> None:
    recorder, store = Recorder(), Some({0, 2})
    execute(jobs(5), goodput, store=store, watch=recorder)
    assert sorted(store.added) == sorted(recorder.outcomes) == [1, 3, 4]
    assert recorder.states[-1].finished == 5
    assert recorder.states[-1].simulated_ns == recorder.states[-1].total_ns == 1_000_000_000


def remembered(count: int, key: str = "0123456789abcdef") -> Remembered:
    return Remembered(
        "test", key, count, lambda kept: {"metrics": {}, "kept": kept}, lambda _, r: r["kept"]
    )


def test_a_batch_without_a_folder_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    class Stop(Watch):
        def finished(self, number: int, _: Outcome) -> None:
            if number == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), remembered(30) as book:
        execute(jobs(30), goodput, store=book, watch=Stop(), executor=on_threads(1))
    assert [path.name for path in UNFINISHED.iterdir()] == ["test-0123456789abcdef.jsonl"]
    # Another batch does not take it for its own.
    with remembered(30, "f" * 16) as other:
        assert other.recalled == 0
    recorder = Recorder()
    with remembered(30) as book:
        # What had ended when Ctrl-C came is handed over, too.
        assert 4 <= book.recalled < 10
        execute(jobs(30), goodput, store=book, watch=recorder)
    assert sorted(recorder.outcomes) == list(range(book.recalled, 30))
    assert [tuple(book.outcomes[n].kept) for n in range(30)] == [
        (run.seed, run.metrics["goodput_bps"])
        for run in paceline.run_many(SCENARIO, range(1, 31), overrides=dict(SHORT))
    ]
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_a_batch_is_done_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").write_text("a file of the user's")
    with remembered(2) as book:
        execute(jobs(2), goodput, store=book)
    assert len(book.outcomes) == 2
    assert (tmp_path / "runs").read_text() == "a file of the user's"
    (tmp_path / "runs").unlink()
    # So it is while another process is at the same.
    UNFINISHED.mkdir(parents=True)
    other = Ledger(UNFINISHED, "0123456789abcdef", 2, "test-0123456789abcdef.jsonl")
    with remembered(2) as book:
        execute(jobs(2), goodput, store=book)
    assert (book.recalled, len(book.outcomes)) == (0, 2)
    other.close(remove=True)


def stopped(monkeypatch: pytest.MonkeyPatch, after: int) -> Any:
    """Let Ctrl-C come when so many runs have ended."""

    class Stop(Watch):
        ended = 0

        def finished(self, number: int, _: Outcome) -> None:
            self.ended += 1
            if self.ended == after:
                raise KeyboardInterrupt

    patch = monkeypatch.context()
    patch.__enter__().setattr(console, "progress", lambda *_, **__: nullcontext(Stop()))
    return patch


def test_conformance_goes_on_where_it_was_stopped(
    cli: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = ("conformance", "--cases", DRAFT, "--case", "07b", "16", "--jobs", 1)
    patch = stopped(monkeypatch, 2)
    interrupted = cli(*command)
    patch.__exit__(None, None, None)
    assert interrupted.returncode == 130
    assert "run the same command again" in interrupted.stderr
    result = cli(*command, "--json")
    assert re.search(r"conformance: [2-4] of 5 runs already exist", result.stderr)
    assert json.loads(result.stdout) == json.loads(cli(*command, "--json").stdout)
    assert not list(tmp_path.rglob("*.jsonl"))


def test_claims_go_on_where_they_were_stopped(
    cli: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "small.toml").write_text(SCENARIO)
    (tmp_path / "claims" / "x.toml").write_text("""
[[claims]]
id = "X1"
topic = "t"
source = "s"
published = "p"
measured = "mean(one.most)"
accept = ["mean(one.goodput_bps) > 0"]
seeds = 30
values.most = "SELECT MAX(cwnd_bytes) AS v FROM samples"
cases.one = { scenario = "../small.toml", set = { "run.duration" = "5 s" } }
""")
    patch = stopped(monkeypatch, 4)
    interrupted = cli("claims", "--jobs", 1)
    patch.__exit__(None, None, None)
    assert interrupted.returncode == 130
    assert "not finished: X1" in interrupted.stderr
    result = cli("claims", "--json")
    assert re.search(r"claims: [0-9]+ of 30 runs already exist", result.stderr)
    again = cli("claims", "--json")
    assert "already there" not in again.stderr
    assert json.loads(result.stdout) == json.loads(again.stdout)


def test_an_emulated_run_beyond_its_bounds_is_repeated_and_then_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `run --backend emu` asks for it; a claim has no use for such a run."""
    attempts = 0

    def simulate(tasks: Any, finished: Callable[..., object], **_: Any) -> None:
        nonlocal attempts
        attempts += 1
        finished(0, paceline.run(SCENARIO, seed=1, overrides=dict(SHORT)).inner, (1, 2, 3))

    monkeypatch.setattr(emulated, "simulate", simulate)
    monkeypatch.setattr(emulated, "distrust", lambda _: "too late")
    check = SimpleNamespace(check=lambda *args, **_: _paceline.check(*args))
    monkeypatch.setattr(emulated, "guests", check)
    job = Job(SCENARIO, SHORT, 1, "emu", duration_ns=200_000_000)
    recorder = Recorder()
    execute([job], goodput, watch=recorder, room=Room.alone(), distrusted="keep")
    assert attempts == 4
    assert recorder.outcomes[0].error is None
    assert (recorder.repeats.runs, recorder.repeats.repeated) == (1, 1)
    with pytest.raises(paceline.RunError, match="too late"):
        execute([job], goodput, room=Room.alone())


def test_what_a_ledger_gives_back_of_an_answer_is_the_answer() -> None:
    frame = pl.DataFrame(
        {"n": [1, None], "x": [0.1, 1e300], "s": ["a", "\u00b5"], "b": [True, None]},
        schema_overrides={"n": pl.UInt32},
    )
    query = Query.read("SELECT 1 AS v FROM flows")
    record = Record({"goodput_bps": 1.0}, [], {query: frame})
    again = Record.of(json.loads(json.dumps(record.as_json())), [query])
    assert again.metrics == record.metrics
    answer = again.results[query]
    assert isinstance(answer, pl.DataFrame)
    assert answer.equals(frame)
    assert answer.schema == frame.schema
    # What JSON does not have is not written down, and run again.
    for odd in (pl.DataFrame({"x": [math.nan]}), pl.DataFrame({"c": ["a"]}, {"c": pl.Categorical})):
        assert Record({}, [], {query: odd}).as_json() is None
