"""Emulated claims side by side, their repeats, and the tables of claims."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from conftest import SCENARIO
from paceline import _paceline
from paceline.batch import Job
from paceline.batch import emulated as emulation
from paceline.batch.emulated import Emulations, Load, Room
from paceline.runs import Progress
from paceline.study.claims import Campaign, Claim, ClaimError, jobs
from paceline.study.claims.expressions import ExpressionError, Flows, Names
from paceline.study.claims.quantity import Quantity
from paceline.study.claims.reader import parse
from paceline.study.claims.tables import Table, TableError


def mega(rate: float, seconds: float = 10.0) -> Load:
    return Load(rate * 1e6, seconds)


def test_room_is_a_sum_of_rates_and_a_number_of_runs() -> None:
    room = Room(200e6, 3)
    assert room.takes(mega(50), [])
    # 60 with what an emulation costs besides.
    assert room.takes(mega(50), [mega(50), mega(50)])
    assert not room.takes(mega(10), [mega(10)] * 3)
    assert not room.takes(mega(140), [mega(50)])
    assert room.takes(mega(130), [mega(50)])
    # What is beyond all room runs, but alone.
    assert room.takes(mega(1000), [])
    assert not room.takes(Load(math.inf, 1.0), [mega(10)])
    assert room.takes(Load(math.inf, 1.0), [])
    assert not room.takes(mega(10), [Load(math.inf, 1.0)])


def test_the_time_that_is_left_by_hand() -> None:
    room = Room(200e6, 8)
    assert room.time_left([], []) == 0
    # Three at a time.
    assert room.time_left([mega(50)] * 4, []) == 20
    assert room.time_left([mega(50)] * 3, [(mega(50), 4.0)]) == 14
    # The short one fits beside; the next big one waits for the big one before.
    assert room.time_left([mega(170, 8), mega(170, 7), mega(1, 1)], []) == 15
    assert Room(0, 1).time_left([mega(5, 2), mega(5, 3)], []) == 5


@given(st.lists(st.tuples(st.sampled_from([1, 10, 50, 200]), st.integers(1, 20)), max_size=20))
def test_side_by_side_takes_no_longer_than_alone_and_no_less_than_one(
    given: list[tuple[int, int]],
) -> None:
    loads = [mega(rate, float(seconds)) for rate, seconds in given]
    room = Room(200e6, 4)
    ordered = [loads[index] for index in room.order(loads)]
    left = room.time_left(ordered, [])
    assert left <= sum(load.duration_s for load in loads)
    assert left >= max((load.duration_s for load in loads), default=0.0)


@pytest.mark.parametrize(
    ("rate", "bps"), [("0.5 Gbit/s", 500e6), ("1500 kbit/s", 1.5e6), ("10 bit/s", 10.0)]
)
def test_the_load_of_a_scenario(rate: str, bps: float) -> None:
    overrides = (("path.rate", rate), ("run.duration", "3 s"))
    plan = _paceline.check(SCENARIO, "x.toml", overrides)
    assert Load.of(plan) == Load(bps, 3.0)


BEYOND = {"trusted": False, "beyond": [{"figure": "answer_max_ns", "message": "too late"}]}


class Machine:
    """Stands for what runs emulations; says how each attempt goes, and what ran beside it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, outcome: Callable[[int, int], Any]) -> None:
        self.outcome = outcome
        self.attempts: dict[int, int] = {}
        self.running: set[int] = set()
        self.most = 0
        self.beside: dict[tuple[int, int], set[int]] = {}
        self.lock = threading.Lock()
        self.barrier = threading.Barrier(1)
        monkeypatch.setattr(emulation, "simulate", self.simulate)
        monkeypatch.setattr(emulation, "Run", lambda inner, _: inner)
        monkeypatch.setattr(emulation, "Engine", lambda *_: None)

    def simulate(
        self,
        tasks: Sequence[tuple[str, str, Any, int]],
        finished: Callable[[int, Any, object], object],
        *,
        threads: int,
        progress: Callable[[Progress], object],
        failed: Callable[[int, str], object],
        backend: str,
        share: int,
    ) -> None:
        assert (threads, backend, len(tasks)) == (1, "emu", 1)
        # What runs beside it has as much.
        assert share >= len(self.running)
        index = tasks[0][3]
        with self.lock:
            attempt = self.attempts[index] = self.attempts.get(index, 0) + 1
            self.running.add(index)
            self.most = max(self.most, len(self.running))
            for other in self.running:
                key = (other, self.attempts[other])
                self.beside.setdefault(key, set()).update(self.running - {other})
                self.beside.setdefault((index, attempt), set()).update(self.running - {index})
        progress(Progress(0, 1, 1, 0, 0))
        if attempt == 1:
            self.barrier.wait(timeout=60)
        outcome = self.outcome(index, attempt)
        with self.lock:
            self.running.remove(index)
        if isinstance(outcome, BaseException):
            raise outcome
        if isinstance(outcome, str):
            failed(0, outcome)
        else:
            finished(0, SimpleNamespace(emulation=outcome, index=index), ())


def emulated(count: int, room: Room, **more: Any) -> tuple[Emulations, dict[int, str]]:
    """Return so many runs of 50 Mbit/s, and what becomes of each."""
    ended: dict[int, str] = {}

    def failed(index: int, message: str) -> None:
        ended[index] = message

    def finished(index: int, run: Any) -> None:
        assert run.index == index
        ended[index] = "good"

    tasks = [Job("", (), index) for index in range(count)]
    return Emulations(tasks, [mega(50)] * count, room, finished, failed, **more), ended


def test_three_at_a_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, lambda *_: None)
    # Each waits until three are there: two at a time would never end, four never fit.
    machine.barrier = threading.Barrier(3)
    emulations, ended = emulated(9, Room(200e6, 8))
    emulations.run()
    assert ended == dict.fromkeys(range(9), "good")
    assert machine.most == 3
    assert emulations.repeated == []


def test_what_is_beyond_its_bounds_is_repeated_and_alone_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def outcome(index: int, attempt: int) -> object:
        if index == 5:
            return "its process has died"
        first = {1: 2, 2: 4}.get(index, 1)
        return BEYOND if index == 3 or attempt < first else {"trusted": True, "beyond": []}

    machine = Machine(monkeypatch, outcome)
    emulations, ended = emulated(6, Room(1e12, 8))
    emulations.run()
    assert emulations.repeated == [1, 2, 3, 5]
    assert emulations.broken == {"answer_max_ns": 1 + 3 + 4}
    assert ended == {
        **dict.fromkeys((0, 1, 2, 4), "good"),
        3: "emulated beyond its bounds: too late",
        5: "its process has died",
    }
    assert machine.attempts == {0: 1, 1: 2, 2: 4, 3: 4, 4: 1, 5: 4}
    assert all(machine.beside[index, turn] == set() for index in (2, 3, 5) for turn in (3, 4))
    # First side by side: only those that are repeated.
    assert all(machine.beside[index, 2] <= {1, 2, 3, 5} for index in (1, 2, 3, 5))


def test_what_stops_one_stops_all(monkeypatch: pytest.MonkeyPatch) -> None:
    error = paceline.RunError("no more")
    Machine(monkeypatch, lambda index, _: error if index == 2 else None)
    emulations, ended = emulated(50, Room(1e12, 4))
    with pytest.raises(paceline.RunError, match="no more"):
        emulations.run()
    assert len(ended) < 50
    assert not any(thread.name.startswith("emulation") for thread in threading.enumerate())


def test_an_interrupt_reaches_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = []

    def simulate(tasks: Any, *_: object, progress: Callable[[Progress], object], **__: Any) -> None:
        try:
            while True:
                progress(Progress(0, 1, 1, 0, 0))
        except InterruptedError:
            stopped.append(tasks[0][3])
            raise

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(emulation, "simulate", simulate)
    emulations, ended = emulated(3, Room(1e12, 8), progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        emulations.run()
    assert (sorted(stopped), ended) == ([0, 1, 2], {})


def test_it_says_what_runs_and_how_long_it_still_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, lambda *_: None)
    notes: list[str] = []
    states: list[Progress] = []
    emulations, _ = emulated(4, Room(200e6, 8), note=notes.append, progress=states.append)
    emulations.run()
    assert notes[0] == "emulating 3 at 50 Mbit/s, 20 s to go"
    assert states[0].total_ns == 20_000_000_000
    assert all(each.simulated_ns <= each.total_ns for each in states)


CLAIM = """
[[claims]]
id = "X1"
topic = "t"
source = "s"
published = "p"
measured = "average(mean(real.goodput_bps) / mean(simulated.goodput_bps))"
accept = ["all(mean(real.goodput_bps) > 0)"]
seeds = 3

[claims.quick]
seeds = 1
points = { "path.rtt, run.duration" = [["20 ms", "1 s"]] }

[[claims.tables]]
title = "both"
axes = ["RTT", "queue"]
off = "abs(mean(real.goodput_bps) / mean(simulated.goodput_bps) - 1)"
bound = 0.1
columns.simulated = "mean(simulated.goodput_bps)"
columns.real = "mean(real.goodput_bps)"

[claims.cases.simulated]
scenario = "small.toml"
sweep = { "path.rtt, run.duration" = [RTTS], "path.queue.size" = ["1 bdp", "2 bdp"] }

[claims.cases.real]
scenario = "small.toml"
sweep = { "path.rtt, run.duration" = [RTTS], "path.queue.size" = ["1 bdp", "2 bdp"] }
backend = "emu"
""".replace("RTTS", '["10 ms", "1 s"], ["20 ms", "1 s"]')


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Claim:
    """Return it, without a check of the kernel."""

    def check(text: str, file: str, overrides: Any, *_: Any, **__: Any) -> Any:
        return _paceline.check(text, file, overrides)

    for module in (jobs, emulation):
        monkeypatch.setattr(module, "guests", SimpleNamespace(check=check))
    (tmp_path / "small.toml").write_text(SCENARIO)
    (claim,) = parse(CLAIM, tmp_path / "x.toml")
    return claim


def test_a_short_form_keeps_some_points(claim: Claim, tmp_path: Path) -> None:
    assert len(Campaign([claim])) == 2 * 4 * 3
    assert len(Campaign([claim], quick=True)) == 2 * 2
    assert claim.short().cases["real"].axes == (("20 ms, 1 s",), ("1 bdp", "2 bdp"))
    for old, new in (
        ('[["20 ms", "1 s"]]', '[["30 ms", "1 s"]]'),
        ('points = { "path.rtt, ', 'points = { "path.loss, '),
    ):
        with pytest.raises(ClaimError, match=r"no sweep over .* has the point"):
            parse(CLAIM.replace(old, new, 1), tmp_path / "x.toml")


class Fails:
    """Stands for emulations, of which some fail; the others are simulated."""

    repeated: tuple[int, ...] = (0, 1)
    broken: Mapping[str, int] = MappingProxyType({"answer_max_ns": 3, "added_delay_ns": 1})

    def __init__(self, tasks: Any, loads: Any, room: Any, *ends: Any) -> None:
        self.tasks, (self.finished, self.failed) = tasks, ends[:2]

    def run(self) -> None:
        for index, (text, overrides, seed, *_) in enumerate(self.tasks):
            if self.fails(dict(overrides), seed):
                self.failed(index, "emulated beyond its bounds: too late")
            else:
                self.finished(index, paceline.run(text, seed=seed, overrides=overrides))

    def fails(self, overrides: dict[str, str], seed: int) -> bool:
        return (overrides["path.rtt"], overrides["path.queue.size"]) == ("10 ms", "1 bdp")


def test_one_run_that_failed_does_not_spoil_a_grid(
    claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailsOnce(Fails):
        def fails(self, overrides: dict[str, str], seed: int) -> bool:
            return seed == 2 and super().fails(overrides, seed)

    monkeypatch.setattr(emulation, "Emulations", FailsOnce)
    verdicts = Campaign([claim]).verify()
    (result,) = verdicts.results
    assert (verdicts.repeats.runs, verdicts.repeats.repeated) == (12, 2)
    assert list(verdicts.repeats.broken.items()) == [("added_delay_ns", 1), ("answer_max_ns", 3)]
    assert result.verdict == "reproduced"
    assert result.why == ("without 10 ms, 1 s, 1 bdp, seed 2: emulated beyond its bounds: too late")
    assert result.tables[0].summary() == "4 of 4 within 0.1"
    # With none of its runs a cell is undefined; the others are tabled still.
    monkeypatch.setattr(emulation, "Emulations", Fails)
    (result,) = Campaign([claim]).verify().results
    assert result.verdict == "error"
    assert "seed 3: emulated beyond" in result.why
    assert result.tables[0].beyond() == ["10 ms, 1 s, 1 bdp (\N{EN DASH})"]


class Cells:
    """A case with two axes and five seeds; one cell is undefined."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def quantity(self, points: object, flows: Flows | None, name: str) -> Quantity:
        assert not points
        rows = (
            (10e6,) * 4 + (15e6,),
            (20e6,) * 4 + (25e6,),
            (math.nan,) * 5,
            (40e6,) * 5,
        )
        factor = self.factor if name == "goodput_bps" else 1e-8
        scaled = tuple(tuple(value * factor for value in row) for row in rows)
        return Quantity((("a", "b|c"), ("1", "2")), scaled, seeded=True)


NAMES: Names = {"one": Cells(1.0), "other": Cells(0.75), "x": Quantity.number(1.0)}
COLUMNS = {
    "goodput": "mean(one.goodput_bps)",
    "lost": "mean(other.retransmit_ratio)",
    "ratio": "mean(other.goodput_bps) / mean(one.goodput_bps)",
}


def test_a_table_by_hand() -> None:
    off = "abs(mean(other.goodput_bps) - 8000000) / 8000000"
    read = {"title": "T", "axes": ["what", "how"], "columns": COLUMNS, "off": off, "bound": 0.5}
    table = Table.read(read).filled(NAMES)
    assert table.head == ["what", "how", "goodput", "lost", "ratio", "off"]
    dash = "\N{EN DASH}"
    assert list(table.texts()) == [
        ["a", "1", "11.00 [8.224, 13.78] Mbit/s", "11.00 [8.224, 13.78] %", "0.7500", "0.03125"],
        ["a", "2", "21.00 [18.22, 23.78] Mbit/s", "21.00 [18.22, 23.78] %", "0.7500", "0.9688"],
        ["b|c", "1", dash, dash, dash, dash],
        ["b|c", "2", "40.00 Mbit/s", "40.00 %", "0.7500", "2.750"],
    ]
    assert table.beyond() == ["a, 2 (0.9688)", f"b|c, 1 ({dash})", "b|c, 2 (2.750)"]
    assert table.summary().startswith("1 of 4 within 0.5; beyond: a, 2 (0.9688); ")
    written = table.as_json()
    assert (written["within"], len(written["beyond"])) == (1, 3)
    assert written["rows"][2]["values"][0] == {"value": None, "low": None, "high": None}
    lines = table.csv().splitlines()
    assert lines[0] == 'what,how,goodput,"goodput, low","goodput, high",lost,"lost, low",' + (
        '"lost, high",ratio,off'
    )
    assert lines[1].startswith("a,1,11000000.0,82235")
    assert lines[3] == "b|c,1,,,,,,,,"
    markdown = table.markdown().splitlines()
    assert markdown[:2] == ["## T", ""]
    assert markdown[5].startswith("| --- | --- |")
    assert markdown[8].startswith("| b\\|c | 1 |")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {}}, "a table has 'columns'"),
        ({"axis": ["a"]}, "unknown key 'axis'"),
        ({"axes": "what"}, "'axes' of a table is a list"),
        ({"off": "1 - 1"}, "needs a 'bound'"),
        ({"bound": 0.1}, "needs a 'bound'"),
        ({"axes": ["what"]}, "1 names for 2 axes"),
        ({"columns": {"a": "one.goodput_bps"}}, "has a value for each seed"),
        ({"columns": {"a": "x"}}, "do not have the same points"),
        ({"columns": {"a": "mean(one.x)", "b": "mean(sum(one.x))"}}, "do not have the same points"),
    ],
)
def test_a_wrong_table_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises((TableError, ExpressionError), match=message):
        Table.read({"title": "T", "columns": COLUMNS} | change).filled(NAMES)
