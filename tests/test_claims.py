"""Claims, the start-up simulator and the golden traces, by their commands."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from conftest import SCENARIO, Command
from paceline import _paceline, runs
from paceline.batch import Watch, threads
from paceline.cli import console
from paceline.grid import overrides_of
from paceline.query import Query
from paceline.runs import Progress
from paceline.study.claims import Campaign, ClaimError, find, load, runner, tables
from paceline.study.claims.drawing import _laid_over, lines
from paceline.study.claims.expressions import Expression, ExpressionError, Flows, Names
from paceline.study.claims.pictures import Picture, PictureError
from paceline.study.claims.quantity import Quantity
from paceline.study.claims.reader import parse

ROOT = Path(__file__).parent.parent


class Table:
    """A case with the points 1, 2 and 4 and two seeds: the value is 10 x point + seed."""

    def quantity(self, points: Sequence[slice | str], flows: Flows | None, name: str) -> Quantity:
        if points:
            assert points == ("2",)
            return Quantity((), ((20.0,) * 4 + (25.0,) if name == "five" else (21.0, 22.0),), True)
        if name == "sometimes":
            return Quantity((), ((1.0, math.nan),), seeded=True)
        if name == "never":
            return Quantity((), ((math.nan, math.nan),), seeded=True)
        rows: tuple[tuple[float, ...], ...] = ((11.0, 12.0), (21.0, 22.0), (41.0, 42.0))
        if name == "five":
            rows = tuple((low,) * 4 + (low + 5,) for low in (10.0, 20.0, 40.0))
        return Quantity((("1", "2", "4"),), rows, seeded=True)


NAMES: Names = {
    "a": Table(),
    "gain": Quantity.number(2.0),
    "known": Quantity.numbers([11.5, 20.5, 41.5]),
    "wide": Quantity.trials([[17.0, 18.0, 19.0], [21.0, 22.0], [41.0, 42.0]]),
    "single": Quantity((("1",),), ((1.0,),), seeded=True),
    "trials": Quantity.trials([[11.0, 12.0, 13.0], [41.0, 42.0], [41.0, 43.0]]),
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("median(a['2'].x)", 21.5),
        ("mean(a['2'].x * gain - 1)", 42.0),
        ("low(a['2'].x) >= 21 and not high(a['2'].x) > 22", True),
        ("gain > 3 or gain > 1", True),
        ("0.9 < gain <= 1.94", False),
        ("gain > 1 and gain > 3", False),
        ("abs(-gain) / 2 + 1", 2.0),
        ("all(mean(a.x) > 11)", True),
        ("all(mean(a.x) > 12)", False),
        ("any(mean(a.x) > 41)", True),
        ("count(mean(a.x) > 12)", 2),
        ("mean(sum(a.x))", 74.5),
        ("min(mean(a.x)) + max(mean(a.x))", 53.0),
        ("spread(mean(a.x))", 30.0),
        ("average(mean(a.x) - known)", 1 / 3),
        ("max(abs(mean(a.x) - [11.5, 20.5, 41.5]))", 1.0),
        # Paired, the difference of a thing and itself has no spread.
        ("high(a['2'].x - a['2'].x) - low(a['2'].x - a['2'].x)", 0.0),
        ("mean(a['2'].x > 21.5)", 0.5),
        ("defined(a.sometimes)", 0.5),
        ("mean(a.sometimes)", 1.0),
        # The same means; 20 apart, less 9.925 (t of two degrees, 1 %) x 0.7071.
        ("count(gap(a.x, trials) > 0)", 1),
        ("max(gap(a.x, trials))", 20 - 9.92484 * math.sqrt(0.5)),
        # Another scatter and number of trials: means of 11.5 and 18, t of three degrees.
        (
            "max(gap(a.x, wide))",
            6.5 - 5.84091 * math.sqrt(2.5 / 3 * 5 / 6),
        ),
        ("rising(a.x) and not falling(a.x)", True),
        ("falling(-a.x)", True),
        ("rising(-a.x, 29)", False),
        ("rising(-a.x, 30)", True),
    ],
)
def test_expressions_by_hand(text: str, value: float) -> None:
    assert Expression(text).value(NAMES) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "b.x",
        "median(b.x)",
        "__import__('os')",
        "gain.real",
        "1 if 1 else 2",
        "1 / 0",
        "True",
        "open('x')",
        "a.x",  # a value for each point
        "mean(a.x)",
        "a['2'].x",  # a value for each seed
        "mean(gain)",
        "max(gain)",
        "all(mean(a.x))",
        "mean(a.x) + [1, 2]",
        "gain > gain > gain + (gain > 1)",
        "mean(a.never) > 1",
        "a.flows['x'].y",
        "a.cc[0].y",
        "rising(mean(a.x))",
        "rising(a['2'].x)",
        "rising(single)",
        "low(single) >= 0",
        "max(gap(a.x, known))",
        "max(gap(a['2'].x, trials))",
        "gap(a.x, trials) > 0",
        "all(gap(a.never, trials) < 1)",
        "gain == 2",
        "a[lambda: 0].x",
        "-" * 10_000 + "1",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text).value(NAMES)


def test_several_keys_are_set_at_once() -> None:
    table = {"flows.0.cc, flows.1.cc": "reno", "path.rtt": "5 ms", "a, b": ["1 s", "2 s"]}
    assert overrides_of(table) == (
        ("flows.0.cc", "reno"),
        ("flows.1.cc", "reno"),
        ("path.rtt", "5 ms"),
        ("a", "1 s"),
        ("b", "2 s"),
    )
    with pytest.raises(ValueError, match="sets 2 keys, and its list has 3 values"):
        overrides_of({"a, b": [1, 2, 3]})


def test_published_trials_are_tabled_and_drawn_one_by_one() -> None:
    table = {"columns": {"ours": "mean(a.x)", "theirs": "mean(trials)"}, "axes": ["buffer"]}
    filled = tables.Table.read({**table, "off": "gap(a.x, trials)", "bound": 0.1}).filled(NAMES)
    assert [row[0] for row in filled.texts()] == ["1", "2", "4"]
    assert filled.summary() == "2 of 3 within 0.1; beyond: 2 (12.98)"
    picture = Picture.read({"kind": "sweep", "y": {"x": "a.x"}, "published": {"t": "trials"}})
    published = lines(picture, NAMES)[1]
    assert published.points == ("1", "2", "4")
    assert published.values[0].mean == 12.0
    assert published.values[0].trials == (11.0, 12.0, 13.0)


def test_what_cannot_be_read_is_refused_at_once() -> None:
    with pytest.raises(ExpressionError):
        Expression("median(a.x")


def test_the_interval_belongs_to_a_plain_statistic() -> None:
    # Mean 21, variance 5 over 5 values: t = 2.776445 with 4 degrees of freedom, times 1.
    ends = Expression("mean(a['2'].five)").estimate(NAMES)[1:]
    assert ends == pytest.approx((21 - 2.776445, 21 + 2.776445), abs=1e-5)
    assert Expression("median(a['2'].five)").estimate(NAMES)[1:] == (20.0, 25.0)
    # Mean 73, variance 45.
    ends = Expression("mean(sum(a.five))").estimate(NAMES)[1:]
    assert ends == pytest.approx((73 - 3 * 2.776445, 73 + 3 * 2.776445), abs=1e-5)
    assert Expression("median(a['2'].five) / 2").estimate(NAMES)[1:] == (None, None)
    # Of two seeds there is none.
    assert Expression("median(a['2'].x)").estimate(NAMES)[1:] == (None, None)
    assert Expression("mean(sum(a.x))").estimate(NAMES)[1:] == (None, None)


def test_what_was_found_is_said_where_it_fails() -> None:
    assert Expression("all(mean(a.x) > 12)").measured(NAMES) == "11.5 at '1'"
    # A metric has its unit, unless something else is made of it.
    assert Expression("all(mean(a.x_ns) > 12)").measured(NAMES) == "11.50 ns at '1'"
    assert Expression("max(mean(a.x_bps)) < 2").measured(NAMES) == "41.50 bit/s"
    assert Expression("all(mean(a.x_ns) / 2 > 6)").measured(NAMES) == "5.75 at '1'"
    assert Expression("count(mean(a.x_ns) > 12) > 2").measured(NAMES) == "2"
    assert Expression("gain > 3").measured(NAMES) == "2"
    # Of the end of an interval both, and of a share the runs.
    assert Expression("high(a['2'].x) < low(a['2'].y)").measured(NAMES) == "21 to 22, 21 to 22"
    assert Expression("defined(a.sometimes) < 1").measured(NAMES) == "1 of 2 runs"
    assert Expression("falling(a.x)").measured(NAMES).startswith("+10 from '1' to '2'")


@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2
    )
)
def test_pairs_go_seed_by_seed(rows: list[tuple[float, float, float]]) -> None:
    class Rows:
        def quantity(self, points: object, flows: object, name: str) -> Quantity:
            columns = tuple(zip(*rows, strict=True))
            return Quantity((("p", "q", "r"),), columns, seeded=True)

    names: Names = {"a": Rows(), "half": Quantity.number(0.5)}

    def value(text: str) -> float:
        return Expression(text).value(names)

    assert value("all(low(a.x - half) <= mean(a.x - half))")
    assert value("all(mean(a.x - half) <= high(a.x - half))")
    assert value("max(high(a.x - a.x))") == 0
    assert value("rising(a.x)") == value("falling(-a.x)")
    assert value("rising(a.x, 2000001)")
    total = sum(map(sum, rows)) / len(rows)
    assert value("mean(sum(a.x))") == pytest.approx(total, abs=1e-3)


CLAIM = """
[[claims]]
id = "S1"
topic = "sweep"
source = "none"
published = "a deeper buffer holds a longer queue"
measured = "mean(deep['2 bdp'].early_bytes)"
accept = [
  "rising(deep.queue_max_bytes)",
  "all(high(deep['1 bdp':].queue_max_bytes - deep['1 bdp':].early_bytes) >= 0)",
  "abs(mean(deep['1 bdp'].cc['bbr3'].share_ratio + deep['1 bdp'].flows[1].share_ratio) - 1) < 1e-9",
  "abs(mean(deep['1 bdp'].flows[0:2].share_ratio) - 1) < 1e-9",
  "all(mean(deep.flows[0:2].goodput_bps - deep.flows[0].goodput_bps) > 0)",
  "spread(median(grid['20 ms', :].utilisation_ratio)) >= 0",
]
seeds = 2
[claims.cases.deep]
scenario = "../small.toml"
sweep = { "path.queue.size" = ["0.5 bdp", "1 bdp", "2 bdp"] }
[claims.cases.grid]
scenario = "../small.toml"
set = { "path.loss" = "0.1 %" }
vary = { "flows.0.start, flows.1.start" = [["0 s", "1 s"], ["1 s", "0 s"]] }
[claims.cases.grid.sweep]
"path.rtt" = ["20 ms", "40 ms"]
"path.rate, path.queue.size" = [["5 Mbit/s", "1 bdp"], ["10 Mbit/s", "2 bdp"]]
[claims.cases.traced]
scenario = "../small.toml"
set = { "run.record.packets" = true, "run.duration" = "1 s" }
seeds = 1
[claims.values]
early_bytes = "SELECT (MAX(peak_bytes) - 0.5) + 0.5 FROM queue WHERE t_ns <= 1000000000"
[claims.figures]
known = [0.5, 0.6, nan]
[claims.beside]
"never" = "mean(deep['1 bdp'].nothing_ns)"
[[claims.pictures]]
kind = "sweep"
title = "Shares"
log = "x"
y = { "BBRv3" = "deep.flows[0].share_ratio" }
published = { "BBRv3, published" = "known" }
[[claims.pictures]]
kind = "bars"
y = { "one" = "deep['1 bdp'].jain_ratio", "two" = "deep['2 bdp'].jain_ratio" }
published = { "one" = "0.9" }
[[claims.pictures]]
kind = "bars"
y = { "grid" = "grid[:, '5 Mbit/s, 1 bdp'].jain_ratio" }
[[claims.pictures]]
kind = "sweep"
points = ["20", "40"]
y = { "grid" = "grid.jain_ratio" }
[[claims.pictures]]
kind = "time"
cases = ["deep['1 bdp']", "grid['20 ms', '5 Mbit/s, 1 bdp']"]
queries = ["SELECT t_ns / 1e9 AS \\"time (s)\\", rtt_ns / 1e6 AS \\"RTT (ms)\\", flow FROM samples"]
[[claims.pictures]]
kind = "startup"
gains = [2.77]
[[claims.pictures]]
kind = "sequence"
cases = ["traced"]
rounds = 5

[[claims]]
id = "S2"
topic = "sweep"
source = "none"
published = "the same runs"
measured = "mean(deep['1 bdp'].utilisation_ratio)"
accept = ["mean(deep['1 bdp'].utilisation_ratio) > 0.1"]
seeds = 2
quick = { seeds = 1, set = { "run.duration" = "1 s" } }
cases.deep = { scenario = "../small.toml", sweep = { "path.queue.size" = ["1 bdp", "2 bdp"] } }
"""
NOTHING = 'nothing_ns = "SELECT MAX(rtt_ns) FROM samples WHERE t_ns < 0"\n'


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(SCENARIO)
    folder = tmp_path / "claims"
    folder.mkdir()
    text = CLAIM.replace("[claims.figures]", NOTHING + "[claims.figures]", 1)
    (folder / "s.toml").write_text(text)
    return folder


def test_a_sweep_is_measured_and_drawn(cli: Command, claims: Path, tmp_path: Path) -> None:
    result = cli("claims", "S1", "--json", "--quiet", "--out", "a", "--jobs", 1)
    claim = json.loads(result.stdout)["claims"][0]
    assert claim["verdict"] == "reproduced", claim["why"]
    assert claim["measured"] > 0
    # There is no interval of two seeds.
    assert (claim["low"], claim["high"]) == (None, None)
    assert claim["beside"] == [{"name": "never", "measured": None, "low": None, "high": None}]
    assert [point["point"] for point in claim["pictures"][0]["lines"][0]["points"]] == [
        "0.5 bdp",
        "1 bdp",
        "2 bdp",
    ]
    assert claim["pictures"][0]["lines"][1]["points"][2]["mean"] is None
    lines = claim["pictures"][3]["lines"]
    assert [[point["point"] for point in line["points"]] for line in lines] == [["20", "40"]] * 2
    # Any number of threads gives the same bytes.
    again = cli("claims", "S1", "--json", "--quiet", "--out", "b", "--jobs", 3)
    assert again.stdout.replace('"b/', '"a/') == result.stdout
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names[:3] == ["S1-1.png", "S1-1.svg", "S1-2.png"]
    assert names[-3:] == ["claims.html", "claims.json", "paceline.json"]
    assert len(names) == 17
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    page = (tmp_path / "a" / "claims.html").read_text()
    assert "reproduced" in page
    assert "not drawn" not in page
    assert page.count("data:image/png") == 7


def test_each_point_and_seed_is_its_own_run(cli: Command, claims: Path, tmp_path: Path) -> None:
    measured = {
        "P1": "mean(grid['40 ms', '5 Mbit/s, 1 bdp'].queue_mean_ns)",
        "P2": "sum(mean(grid['20 ms':'20 ms', :].queue_mean_ns))",
        "P3": "count(mean(deep['1 bdp':].queue_mean_ns) > 0)",
        "P4": "count(mean(deep[:'1 bdp'].queue_mean_ns) > 0)",
        "P5": "mean(deep['2 bdp'].queue_mean_ns)",
    }
    text = (claims / "s.toml").read_text().partition("[[claims.pictures]]")[0]
    head, accept, rest = text.partition("accept = [")
    rest = rest.partition("]\nseeds")[2]
    for name, expression in measured.items():
        own = head.replace("S1", name).replace("mean(deep['2 bdp'].early_bytes)", expression)
        (claims / f"{name}.toml").write_text(f"{own}{accept}'1 > 0']\nseeds{rest}")
    result = json.loads(cli("claims", *measured, "--json", "--quiet").stdout)
    by_id = {claim["id"]: claim["measured"] for claim in result["claims"]}

    def alone(seed: int, **overrides: str) -> float:
        late = {f"flows.{2 - seed}.start": "1 s", f"flows.{seed - 1}.start": "0 s"}
        if "path.rtt" not in overrides:
            late = {}
        run = paceline.run(tmp_path / "small.toml", seed=seed, overrides={**late, **overrides})
        return float(run.metrics["queue_mean_ns"] or 0)

    def grid(rtt: str, rate: str, size: str) -> float:
        keys = {"path.loss": "0.1 %", "path.rtt": rtt, "path.rate": rate, "path.queue.size": size}
        return (alone(1, **keys) + alone(2, **keys)) / 2

    deep = [alone(seed, **{"path.queue.size": "2 bdp"}) for seed in (1, 2)]
    assert by_id["P1"] == pytest.approx(grid("40 ms", "5 Mbit/s", "1 bdp"))
    rows = grid("20 ms", "5 Mbit/s", "1 bdp") + grid("20 ms", "10 Mbit/s", "2 bdp")
    assert by_id["P2"] == pytest.approx(rows)
    assert (by_id["P3"], by_id["P4"]) == (2, 2)
    assert by_id["P5"] == pytest.approx(sum(deep) / 2)


def test_a_job_is_run_once_for_all_that_ask(claims: Path) -> None:
    both = load(claims)
    assert len(Campaign(both[:1])) == 3 * 2 + 4 * 2 + 1
    assert len(Campaign(both)) == len(Campaign(both[:1]))
    assert len(Campaign(both[1:], quick=True)) == 2


def test_the_short_form(cli: Command, claims: Path) -> None:
    result = json.loads(cli("claims", "S2", "--quick", "--json", "--quiet").stdout)
    assert result["quick"] is True
    whole = json.loads(cli("claims", "S2", "--json", "--quiet").stdout)
    assert result["claims"][0]["measured"] != whole["claims"][0]["measured"]
    assert "do not quote its verdicts" in cli("claims", "S2", "--quick", "--quiet").stdout


def test_an_interrupt_keeps_what_is_finished(
    cli: Command, claims: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (claims / "s.toml").read_text()
    slow = '"path.loss" = "0.1 %", "run.duration" = "1000 s"'
    text = text.replace('"path.loss" = "0.1 %"', slow, 1)
    # In the order of ids the quick claim comes first.
    (claims / "s.toml").write_text(text.replace('id = "S1"', 'id = "S3"', 1))

    class Stop(Watch):
        def progress(self, state: Progress) -> None:
            if state.finished >= 4:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(console, "progress", lambda *_, **__: nullcontext(Stop()))
        result = cli("claims", "--json", "--jobs", 1, "--out", "report")
    assert result.returncode == 130
    # Drawing takes longer than a user waits.
    assert not Path("report").exists()
    finished = json.loads(result.stdout)["claims"]
    assert [(claim["id"], claim["verdict"]) for claim in finished] == [("S2", "reproduced")]
    assert "not finished: S3" in result.stderr


COMPUTED = """
[[claims]]
id = "{name}"
topic = "no runs"
source = "none"
published = "2.77"
measured = "{measured}"
accept = ["1 > 0"]
{more}
"""


def test_after_an_interrupt_nothing_is_begun(
    claims: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What needs no run is judged before the runs, and cases of conformance not at all."""
    (tmp_path / "cases").mkdir()
    cases = COMPUTED.format(name="X2", measured="cases_count", more='conformance = "cases"')
    computed = COMPUTED.format(name="X1", measured="pacing_gain", more="")
    (claims / "s.toml").write_text((claims / "s.toml").read_text() + computed + cases)
    done: list[str] = []
    judged = runner.judged

    def judge(plan: Any, pool: Any) -> Any:
        done.append(plan.claim.id)
        return judged(plan, pool)

    def interrupted(*_: Any, **__: Any) -> None:
        done.append("interrupted")
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "judged", judge)
    monkeypatch.setattr(threads, "simulate", interrupted)
    verdicts = Campaign(load(claims)).verify()
    assert done == ["X1", "interrupted"]
    assert [result.claim.id for result in verdicts.results] == ["X1"]
    assert [claim.id for claim in verdicts.unfinished] == ["S1", "S2", "X2"]


def test_an_interrupt_while_claims_are_judged_keeps_those_that_are(
    claims: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = runner.judged
    calls: list[str] = []

    def judge(plan: Any, pool: Any) -> Any:
        calls.append(plan.claim.id)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return judged(plan, pool)

    monkeypatch.setattr(runner, "judged", judge)
    verdicts = Campaign(load(claims)).verify()
    # The one that was interrupted is finished: its runs are there.
    assert calls == ["S1", "S2", "S2"]
    assert [result.verdict for result in verdicts.results] == ["reproduced"] * 2
    assert not verdicts.unfinished


def test_a_run_that_stops_is_its_claims_error(
    claims: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulate(pool: Any, finished: Any, *, failed: Any, **_: Any) -> None:
        runs.simulate(pool[:-1], finished)
        failed(len(pool) - 1, "no time passes")

    monkeypatch.setattr(threads, "simulate", simulate)
    results = Campaign(load(claims)[::-1]).verify().results
    assert [result.verdict for result in results] == ["reproduced", "error"]
    assert results[1].why == "small.toml, seed 1: no time passes"


def test_an_error_stays_with_its_claim(cli: Command, claims: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.trace").write_text("not a number\n")
    wrong = {
        "W1": ("measured", "mean(deep['1 bdp'].utilization_ratio)", "did you mean"),
        "W2": ("measured", "mean(deap['1 bdp'].utilisation_ratio)", "did you mean 'deep'"),
        "W3": ("measured", "mean(deep['3 bdp'].utilisation_ratio)", "there is no point '3 bdp'"),
        "W4": ("measured", "mean(deep['1 bdp'].flows[7].share_ratio)", "no flow 7"),
        "W5": ("measured", "mean(deep['1 bdp'].cc['vegas'].share_ratio)", "bbr3, reno"),
        "W6": ("scenario", "../nowhere.toml", "nowhere.toml"),
        "W7": ("sweep", '{ "path.quee.size" = ["1 bdp", "2 bdp"] }', "quee"),
        "W8": ("sweep", '{ "path.rate.trace" = ["1 bdp", "bad.trace"] }', "trace"),
        "W9": ("value", "SELECT MAX(no_such) FROM queue", "no_such"),
        "W10": ("value", "SELECT t_ns FROM queue", "not one number"),
        "W11": ("value", "SELECT MAX(phase) FROM samples", ""),
    }
    text = ""
    for name, (key, value, _) in wrong.items():
        measured = "mean(deep['1 bdp'].utilisation_ratio)"
        scenario, sweep, query = "../small.toml", '{ "path.queue.size" = ["1 bdp", "2 bdp"] }', ""
        if key == "measured":
            measured = value
        elif key == "scenario":
            scenario = value
        elif key == "sweep":
            sweep = value
        else:
            measured, query = "mean(deep['1 bdp'].own_count)", f'own_count = "{value}"'
        text += f"""
[[claims]]
id = "{name}"
topic = "wrong"
source = "none"
published = "nothing"
measured = "{measured}"
accept = ["1 > 0"]
seeds = 1
cases.deep = {{ scenario = "{scenario}", sweep = {sweep} }}
values = {{ {query} }}
"""
    (claims / "w.toml").write_text(text)
    result = cli("claims", "--json", "--quiet")
    by_id = {claim["id"]: claim for claim in json.loads(result.stdout)["claims"]}
    assert result.returncode == 3
    assert by_id["S2"]["verdict"] == "reproduced"
    for name, (_, _, message) in wrong.items():
        assert by_id[name]["verdict"] == "error", name
        assert message in by_id[name]["why"], (name, by_id[name]["why"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = 2", "seeds = 0", "seeds"),
        ("accept = [\"mean(deep['1 bdp'].utilisation_ratio) > 0.1\"]", "accept = []", "no bound"),
        ("accept = [", "acept = [", "accept"),
        ("accept = [", 'accept = [{ that = "x" },', "has no 'is'"),
        ("accept = [", 'accept = [{ is = "1 > 0" },', "has no 'that'"),
        ("accept = [", 'accept = [{ tht = "x" },', "did you mean 'that'"),
        ("accept = [", "accept = [2,", "'accept' must be a string"),
        ('topic = "sweep"', 'topic = "sweep"\nmesured = "1"', "did you mean 'measured'"),
        ("set = {", "sett = {", "did you mean 'set'"),
        ('kind = "bars"', 'kind = "bar"', "sweep, bars"),
        ('["0.5 bdp", "1 bdp"', '["1 bdp", "1 bdp"', "twice"),
        ('["5 Mbit/s", "1 bdp"]', '["5 Mbit/s"]', "sets 2 keys"),
        ('"SELECT (MAX(peak', '"DROP (MAX(peak', "SELECT"),
        ("known = [0.5", 'known = ["x"', "number"),
        ("known = [0.5", "known = [[0.5]", "the trials at each point"),
        ('id = "S2"', 'id = "S1"', "already"),
        ('measured = "mean(deep', 'measured = "mean((deep', "never closed"),
        ('measured = "mean(deep', f'measured = "{"(" * 9000}mean(deep', "too many nested"),
    ],
)
def test_a_wrong_file_is_said_where(
    cli: Command, claims: Path, old: str, new: str, message: str
) -> None:
    text = (claims / "s.toml").read_text()
    assert old in text
    (claims / "s.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(ClaimError) as error:
        load(claims)
    assert "s.toml" in str(error.value)
    assert message in str(error.value)
    assert len(str(error.value)) < 1000
    assert cli("claims").returncode == 2


def test_a_mistyped_id_gets_the_nearest(cli: Command, claims: Path) -> None:
    result = cli("claims", "s3")
    assert result.returncode == 2
    assert "did you mean S" in result.stderr


def test_startup_claims_are_reproduced(cli: Command) -> None:
    result = cli("claims", "startup", "--claims", ROOT / "data" / "claims", "--json", "--quiet")
    claims = json.loads(result.stdout)["claims"]
    assert [(claim["id"], claim["verdict"]) for claim in claims] == [
        ("A1", "reproduced"),
        ("A2", "reproduced"),
        ("A3", "reproduced"),
        ("A4", "reproduced"),
        ("A5", "reproduced"),
        ("A6", "reproduced"),
        ("A7", "reproduced"),
    ]
    assert result.returncode == 0


def test_bounds_of_ours_are_sentences() -> None:
    for claim in load(ROOT / "data" / "claims"):
        assert claim.measures, claim.id
        for bound in claim.accept:
            assert bound.that != bound.expression.text, f"{claim.id}: {bound.that}"


def test_a_claim_that_does_not_hold_says_why(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SCENARIO)
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "x.toml").write_text(
        """
[[claims]]
id = "X1"
topic = "test"
source = "none"
published = "more than everything"
measured = "median(a.utilisation_ratio)"
measures = "utilisation"
accept = [
  { that = "the link is used twice", is = "median(a.utilisation_ratio) > 2" },
  { that = "the link is used", is = "median(a.utilisation_ratio) > 0" },
  "median(a.utilisation_ratio) > 3",
]
seeds = 5
why = "Nothing is."
cases.a = { scenario = "../small.toml", set = { "flows.0.cc" = "cubic" } }
"""
    )
    result = cli("claims", "--json", "--quiet")
    first = json.loads(result.stdout)["claims"][0]
    assert first["verdict"] == "not reproduced"
    assert first["low"] <= first["measured"] <= first["high"]
    assert first["accept"][0]["held"] is False
    used = f"{first['measured']:.4g}"
    fails = f"fails: the link is used twice ({used})"
    assert first["why"] == (
        f"{fails}; fails: median(a.utilisation_ratio) > 3 ({used}). Nothing is."
    )
    assert result.returncode == 3
    printed = cli("claims").stdout
    assert f"X1: utilisation: {used} [" in printed
    assert f"], 5 seeds\nX1: holds: the link is used ({used})\n" in printed
    assert f"X1: {fails}; " in printed
    assert "X1" in cli("claims", "--list").stdout
    (tmp_path / "path.toml").write_text('[[flows]]\ncc = "cubic"\n')
    assert "`paceline run path.toml` runs" in cli("claims", "--claims", "path.toml").stderr


def test_a_broken_file_of_claims_is_named(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "bad.toml").write_text('[[claims]]\nid = "B"\n')
    result = cli("claims")
    assert result.returncode == 2
    assert "bad.toml" in result.stderr
    assert "topic" in result.stderr


def test_every_committed_claim_can_be_planned() -> None:
    claims = load(ROOT / "data" / "claims")
    assert len(claims) >= 14
    campaign = Campaign(claims, quick=True)
    assert len(campaign) > 0
    assert campaign.errors() == {}


def test_what_a_claim_needs_and_the_machine_lacks_is_said_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    claims = [claim for claim in load(ROOT / "data" / "claims") if claim.id in ("A1", "F2-vm")]
    campaign = Campaign(claims, quick=True)
    assert campaign.errors() == {}

    class Nothing(Watch):
        def finished(self, number: int, outcome: object) -> None:
            pytest.fail(f"job {number} ran")

    with pytest.raises(paceline.UnavailableError, match="qemu-system-x86_64"):
        campaign.verify(watch=Nothing())


def test_startup_prints_the_rows(cli: Command) -> None:
    result = cli("startup", "2.77", "--json")
    rows = json.loads(result.stdout)["rows"]
    assert len(rows) == 15
    assert (rows[14]["cwnd"], rows[14]["pif"], rows[14]["bw"]) == (146616, 146437, 732540.0)
    assert cli("startup", "2.77", "--plot", "a.png").returncode == 0
    assert cli("startup", "-1").returncode == 2
    # The first two rounds have no estimate to compare with.
    printed = cli("startup", "2.77", "--rounds", "3").stdout.splitlines()
    assert [line.split()[1] for line in printed[1:]] == ["\N{EN DASH}"] * 2 + ["2.000x"]


def test_find_gives_the_smallest_gain_that_reaches_the_growth_it_names(cli: Command) -> None:
    printed = cli("startup", "--find").stdout
    assert printed.endswith("with growth >= 1.9995 in each of rounds 10 to 15: 2.7787\n")
    least = json.loads(cli("startup", "--find", "--json").stdout)["least_doubling_gain"]

    def reached(gain: float) -> bool:
        rows = _paceline.startup(gain, 15)
        return min(row["growth"] for row in rows if row["round"] >= 10) >= 1.9995

    assert reached(least)
    # Bisection assumes that every larger gain reaches it too. Those of the help do not, but no
    # smaller gain does.
    assert not any(map(reached, [*(2 + n / 50 for n in range(39)), least - 1e-4]))
    assert [reached(gain) for gain in (2.818, 2.82, 2.822)] == [True, False, True]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--rounds", "3"], "--rounds needs a gain", "startup 2.77 --rounds N"),
        (["--find", "--rounds", "3"], "--rounds needs a gain", "startup 2.77 --rounds N"),
        (["--plot", "a.png"], "--plot needs a gain", "startup 2.77 --plot FILE"),
        (["2.77", "--rounds", "21"], "--rounds must be from 1 to 20", "--help"),
        (["2,77"], 'takes a number, not "2,77"', "write a decimal point: 2.77"),
        (["2.77", "--plot", "s.pdf"], "cannot draw a .pdf file", ".png or .svg"),
        (["2.77", "--plot", "s"], "without an extension", ".png or .svg"),
        (["2.77", "--plot", "/"], "takes the name of a file", "--help"),
        (["2.77", "--plot", ""], "takes the name of a file", "--help"),
        (["2.77", "--plot", "new.svg/"], "takes the name of a file", "--help"),
        (["2.77", "--plot", "none/s.svg"], "cannot write none/s.svg", "`mkdir -p none`"),
        (["2.77", "--plot", "full.svg"], "takes the name of a file", "--help"),
        (["2.77", "--plot", "empty.svg"], "takes the name of a file", "--help"),
    ],
)
def test_startup_says_what_is_wrong_and_what_to_write(
    cli: Command, tmp_path: Path, words: list[str], message: str, hint: str
) -> None:
    (tmp_path / "empty.svg").mkdir()
    (tmp_path / "full.svg").mkdir()
    (tmp_path / "full.svg" / "own").touch()
    result = cli("startup", *words)
    problem, _, hinted = result.stderr.partition("hint: ")
    assert message in problem
    assert hint in hinted
    assert result.returncode == 2
    assert sorted(path.name for path in tmp_path.rglob("*.svg")) == ["empty.svg", "full.svg"]


def test_golden_traces_pass_and_a_changed_one_fails(cli: Command, tmp_path: Path) -> None:
    folder = ROOT / "data" / "conformance" / "linux-bbr" / "v3"
    (tmp_path / "traces" / "v3").mkdir(parents=True)
    copy = tmp_path / "traces" / "v3" / "startup_loss_then_undo.txt.zst"
    copy.write_bytes((folder / copy.name).read_bytes())
    result = cli("conformance", "--traces", "traces", "--json")
    assert [case["verdict"] for case in json.loads(result.stdout)["cases"]] == ["pass"]
    # The same events are another algorithm's: its state differs.
    (tmp_path / "traces" / "v3").rename(tmp_path / "traces" / "v2")
    result = cli("conformance", "--traces", "traces")
    assert result.returncode == 3
    assert "FAIL" in result.stdout
    assert cli("conformance", "--traces", "nowhere").returncode == 2


def test_backends_choose_claims(tmp_path: Path) -> None:
    text = """
[[claims]]
id = "{id}"
topic = "t"
source = "s"
published = "p"
measured = "mean(one.jain_ratio)"
accept = ["mean(one.jain_ratio) >= 0"]
cases.one = {{ scenario = "x.toml", backend = "{backend}" }}
"""
    for name, backend in (("S", "sim"), ("E", "emu")):
        (tmp_path / f"{name}.toml").write_text(text.format(id=name, backend=backend))
    claims = load(tmp_path)

    def ids(names: list[str], backend: Literal["sim", "emu"] | None = None) -> list[str]:
        return [claim.id for claim in find(claims, names, backend)]

    assert ids([]) == ["E", "S"]
    assert ids([], "sim") == ["S"]
    assert ids(["t"], "emu") == ["E"]
    assert ids(["E"], "sim") == ["E"]
    with pytest.raises(ClaimError, match="'backend' is sim, emu or vm"):
        parse(text.format(id="X", backend="real"), tmp_path / "x.toml")


def test_no_claim_is_not_all_claims_reproduced(cli: Command, claims: Path, tmp_path: Path) -> None:
    result = cli("claims", "--backend", "emu", "--quiet")
    assert (result.returncode, result.stdout) == (2, "")
    assert "no claim of these is for the backend emu" in result.stderr
    result = cli("claims", "--mutants", "--quiet")
    assert (result.returncode, result.stdout) == (2, "")
    assert "none of these claims has a mutant" in result.stderr


def test_a_short_form_that_leaves_no_point_is_an_error(cli: Command, claims: Path) -> None:
    """Its points are those of another case's sweep over the same key."""
    text = COMPUTED.format(name="X1", measured="1", more="seeds = 1").replace(
        '["1 > 0"]', '["all(mean(b.jain_ratio) > 2)"]'
    )
    text += """quick = { points = { "path.rtt" = ["20 ms"] } }
cases.a = { scenario = "../small.toml", sweep = { "path.rtt" = ["10 ms", "20 ms"] } }
cases.b = { scenario = "../small.toml", sweep = { "path.rtt" = ["30 ms", "40 ms"] } }
"""
    (claims / "s.toml").write_text(text)
    result = cli("claims", "--quick", "--json", "--quiet")
    assert result.returncode == 3, result.stderr
    (claim,) = json.loads(result.stdout)["claims"]
    assert claim["verdict"] == "error"
    assert "keeps no point of a sweep" in claim["why"]


def test_cases_are_laid_over_each_other() -> None:
    frame = pl.DataFrame({"x": [1, 2], "y": [3, 4]})
    query = Query.read("SELECT x, y FROM flows")
    laid = _laid_over({"a": {query: frame}, "b": {query: frame.cast(pl.Float64)}}, query)
    assert laid.columns == ["x", "y", "case"]
    assert laid["case"].to_list() == ["a", "a", "b", "b"]
    three = frame.with_columns(z=1)
    with pytest.raises(PictureError, match="x and y alone"):
        _laid_over({"a": {query: three}}, query)


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        ("1e999", "beyond the largest"),
        ("1" + "0" * 400, "beyond the largest"),
        ("1e308 * 10", "is infinite"),
        ("1e308 * 10 - 1e308 * 10", "is undefined"),
    ],
)
def test_what_is_measured_is_a_number(cli: Command, claims: Path, measured: str, why: str) -> None:
    (claims / "s.toml").write_text(COMPUTED.format(name="X1", measured=measured, more=""))
    result = cli("claims", "--json", "--quiet")
    assert result.returncode == 3
    (claim,) = json.loads(result.stdout)["claims"]
    assert claim["verdict"] == "error"
    assert why in claim["why"]
