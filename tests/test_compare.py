"""``paceline compare``: statistics by hand, verdicts, forms."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from conftest import SCENARIO, Command
from paceline.statistics import quantile
from paceline.study.compare import compare
from paceline.study.compare.statistics import (
    benjamini_hochberg,
    decidable,
    hedges,
    holm,
    paired,
    ratios,
    survival,
    tail,
    unpaired,
)
from paceline.study.compare.subjects import Subject, read


def test_tails_of_t_as_the_tables_have_them() -> None:
    # Two-sided 5 % and 1 % points, from any table of Student's t.
    for freedom, five, one in ((1, 12.706, 63.657), (4, 2.776, 4.604), (30, 2.042, 2.750)):
        assert tail(five, freedom) == pytest.approx(0.05, abs=5e-5)
        assert tail(one, freedom) == pytest.approx(0.01, abs=5e-5)
        assert quantile(freedom) == pytest.approx(five, abs=6e-4)
    # One degree of freedom: 1 - 2 atan(t) / pi. Two: 1 - t / sqrt(2 + t^2).
    assert tail(1, 1) == pytest.approx(0.5)
    assert tail(2, 2) == pytest.approx(1 - 2 / math.sqrt(6))
    assert tail(0, 7) == 1


@given(st.floats(0, 50), st.floats(0.5, 500))
def test_a_tail_is_a_probability_and_falls(t: float, freedom: float) -> None:
    assert 0 <= tail(t + 1, freedom) <= tail(t, freedom) <= 1 + 1e-12


def test_pairs_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, s = 1, error 1/sqrt(3), t = 2 sqrt(3) with 2 degrees of freedom.
    difference = paired([10, 20, 30], [11, 22, 33])
    assert (difference.mean, difference.test, difference.signs) == (2, "t", (3, 0))
    t = 2 * math.sqrt(3)
    assert difference.p == pytest.approx(1 - t / math.sqrt(2 + t * t))
    # Of fewer than five no interval is given. Of five, s = sqrt(2.5), and 2.776445 with 4 degrees.
    assert (difference.low, difference.high) == (None, None)
    five = paired([10, 20, 30, 40, 50], [11, 22, 33, 44, 55])
    reach = 2.776445 * math.sqrt(2.5 / 5)
    assert (five.low, five.high) == pytest.approx((3 - reach, 3 + reach), abs=1e-5)
    # One of two that hold together: 1.25 % on each side, 3.495406 with 4 degrees.
    two = five.corrected(2)
    assert two.high == pytest.approx(3 + 3.495406 * math.sqrt(2.5 / 5), abs=1e-5)
    # Pooled variance (100 + 121) / 2, and the correction 1 - 3 / (4 x 4 - 1) = 0.8.
    assert difference.effect == pytest.approx(2 / math.sqrt(110.5) * 0.8)


def test_two_samples_by_hand() -> None:
    # Means 2 and 6, variances 1 and 4 over 3 each: error sqrt(5/3), and by Welch and Satterthwaite
    # (5/3)^2 / ((1/3)^2 / 2 + (4/3)^2 / 2) = 50/17 degrees of freedom.
    difference = unpaired([1, 2, 3], [4, 6, 8])
    assert (difference.mean, difference.test) == (4, "t")
    # The density of t, integrated by Simpson's rule.
    assert difference.p == pytest.approx(0.0548, abs=1e-4)
    assert difference.p == pytest.approx(tail(4 / math.sqrt(5 / 3), 50 / 17))
    assert hedges([1, 2, 3], [3, 5, 7]) == pytest.approx(3 / math.sqrt(2.5) * 0.8)


def test_few_values_are_never_certain() -> None:
    """Equal values on a side have no variance, and say nothing of how far others would be."""
    assert paired([1, 1, 1], [1, 1, 1]).p == 1
    # Of the 20 ways to deal six values, two part them as much; of the 6 of four, two.
    assert paired([1, 1, 1], [2, 2, 2]).p == unpaired([1, 1, 1], [2, 2, 2]).p == pytest.approx(0.1)
    assert unpaired([1, 1], [2, 2]).p == pytest.approx(1 / 3)
    # Ways to deal 2 ones and 6 zeros to two sides: 70, and 15 give both to one of them: 30/70.
    dealt = unpaired([0, 0, 0, 0], [1, 0, 1, 0])
    assert (dealt.p, dealt.least) == pytest.approx((30 / 70, 30 / 70))
    # Two modes that hardly vary are no more: in 2 of 4^n samples all are of another mode.
    assert unpaired([1, 1.0001, 1.0002], [2, 2.0001, 2.0002]).p == pytest.approx(0.1)
    assert unpaired([1, 1.01, 1.02], [2, 2.01, 2.02]).p == pytest.approx(2 / 4**3)
    assert paired([10, 20, 30], [11, 21.01, 31.02]).p == pytest.approx(2 / 4**3)
    # Three of thirty are no variance either: of the 5456 ways, one puts all twos on that side.
    values = [1.0 + n / 100 for n in range(30)]
    assert (unpaired([2, 2.1, 2.2], values).p or 0) >= 1 / 5456
    alone = paired([1], [2])
    assert (alone.mean, alone.p, alone.low) == (1, None, None)


def test_pairs_of_other_paths_by_hand() -> None:
    # Twice as much on two paths and four times on the third: ln 2, ln 2, ln 4.
    difference = ratios([1, 10, 100], [2, 20, 400])
    assert difference.mean == pytest.approx(4 / 3 * math.log(2))
    # Two ratios are equal, so the signs are changed: 2 of 8 ways are as far.
    assert (difference.test, difference.p, difference.signs) == ("sign flips", 0.25, (3, 0))
    nine = ratios([10.0**n for n in range(9)], [10.0**n * (2 + n / 10) for n in range(9)])
    assert (nine.test, nine.signs) == ("t", (9, 0))
    assert (nine.p or 1) < 0.001


def test_times_longer_than_their_run_by_hand() -> None:
    """By the log-rank test: deaths at 1, 2, 3 of six at risk; the others outlive 4."""
    short, long = [(1.0, True), (2.0, True), (3.0, True)], [(4.0, False)] * 3
    difference = survival(short, long)
    # Hazards 1/6, 1/6 + 1/5, 1/6 + 1/5 + 1/4: no other way of 20 parts the scores as much but one.
    assert (difference.test, difference.mean) == ("log rank", None)
    assert difference.p == pytest.approx(0.1)
    assert (difference.effect or 0) > 0
    assert (survival(long, short).effect or 0) < 0
    # The same censored times say nothing.
    assert survival(long, long).p == 1


def test_only_what_can_be_sure_is_corrected_for() -> None:
    # One of two can reach 5 % at all: it is not corrected for the other.
    assert decidable([0.03, 0.4], 0.05) == [0]
    # Two that reach 3 % cannot both reach 2.5 %; one that reaches 2 % can beside one of 3 %.
    assert decidable([0.03, 0.03], 0.05) == []
    assert decidable([0.03, 0.02], 0.05) == [1]
    assert decidable([], 0.05) == []


def test_corrections_by_hand() -> None:
    ps = [0.01, 0.04, 0.03, 0.005]
    # Holm, in order: 4 x 0.005, 3 x 0.01, 2 x 0.03, then 0.04 not below the one before.
    assert holm(ps) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # Benjamini-Hochberg: 0.005 x 4/1, 0.01 x 4/2, 0.03 x 4/3, 0.04 x 4/4.
    assert benjamini_hochberg(ps) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert holm([]) == benjamini_hochberg([]) == []
    assert holm([0.6, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_corrections_only_raise(ps: list[float]) -> None:
    for raw, bh, strict in zip(ps, benjamini_hochberg(ps), holm(ps), strict=True):
        assert raw <= bh + 1e-12
        assert bh <= strict + 1e-12
        assert strict <= 1


def subject(name: str, metric: str, *values: float | None) -> Subject:
    # Another metric says that the seed matters.
    runs: dict[int, dict[str, Any]] = {
        seed: {"metrics": {metric: value, "rtt_p50_ns": seed}, "flows": []}
        for seed, value in enumerate(values)
    }
    return Subject(name, {"": runs})


@pytest.mark.parametrize(
    ("metric", "old", "new", "verdict"),
    [
        ("utilisation_ratio", (0.9, 0.91, 0.92), (0.8, 0.81, 0.82), "worse"),
        ("utilisation_ratio", (0.8, 0.81, 0.82), (0.9, 0.91, 0.92), "better"),
        ("queue_p95_ns", (80, 81, 82), (90, 91, 92), "worse"),
        ("queue_p95_ns", (90, 91, 92), (80, 81, 82), "better"),
        ("queue_p95_ns", (1000, 1001, 1002), (1004, 1005, 1006), "same"),
        ("queue_p95_ns", (10, 90, 50), (91, 20, 70), "unclear"),
        # Seeds differ much, and each of them is worse by as much: only pairs show it.
        ("queue_p95_ns", (100, 200, 300), (110, 211, 309), "worse"),
        # One run per side has a size and no certainty.
        ("queue_p95_ns", (100,), (102,), "untested"),
        ("queue_p95_ns", (100,), (102, 103, 104), "untested"),
        ("queue_p95_ns", (100,), (100.5,), "same"),
        # Equal values, of three runs a side: 2 of 20 ways to deal them. Of five, 2 of 252.
        ("retransmit_ratio", (0, 0, 0), (0.1, 0.1, 0.1), "untested"),
        ("retransmit_ratio", (0, 0), (0.1, 0.1), "untested"),
        ("retransmit_ratio", (0,) * 5, (0.1,) * 5, "worse"),
        ("convergence_ns", (1, 2, 3), (None, None, None), "lost"),
        ("convergence_ns", (None,), (5,), "gained"),
        ("convergence_ns", (10, 11, None), (1, None, 2), "untested"),
        # Never in eight runs, and in four of eight: their times are not missing.
        ("convergence_ns", (1, 2, 3, 4, 5, 6, 7, 8), (None,) * 7 + (9,), "worse"),
        (
            "convergence_ns",
            (1, 2, 3, 4, None, None, None, None),
            (9, 9, 9, 9, 9, 9, 9, 9),
            "unclear",
        ),
        ("convergence_ns", (None,) * 7 + (1,), (2, 3, 4, 5, 6, 7, 8, 9), "better"),
    ],
)
def test_verdicts(
    metric: str, old: tuple[float | None, ...], new: tuple[float | None, ...], verdict: str
) -> None:
    (finding,) = compare(subject("a", metric, *old), subject("b", metric, *new), [metric])
    assert finding.verdict == verdict


def test_many_tests_at_once_are_minded() -> None:
    """Of two hundred points that differ by chance alone, none is called worse."""
    import random

    source = random.Random(1)
    sides = [Subject(name, {}) for name in "ab"]
    for point in range(200):
        for side in sides:
            side.points[str(point)] = {
                seed: {"metrics": {"goodput_bps": source.gauss(100, 20)}, "flows": []}
                for seed in range(10)
            }
    findings = compare(sides[0], sides[1])
    assert {f.verdict for f in findings} <= {"same", "unclear"}
    raw = [f.difference.p for f in findings if f.difference and f.difference.p is not None]
    assert sum(p < 0.05 for p in raw) > 3


def test_a_regression_gives_4(cli: Command, scenario: Path) -> None:
    for name, size in (("a", "1 bdp"), ("b", "1 bdp"), ("c", "8 bdp")):
        settings = ["--set", f"path.queue.size={size}", "--set", "path.loss=0.5 %"]
        settings += ["--repeats", "6", "--out", name]
        assert cli("run", scenario, *settings).returncode == 0
    same = cli("compare", "a", "b")
    assert same.returncode == 0
    assert "worse" not in same.stdout
    worse = cli("compare", "a", "c", "--json")
    assert worse.returncode == 4
    value = json.loads(worse.stdout)
    assert value["verdict"] == "worse"
    by_metric = {f["metric"]: f for f in value["findings"]}
    queue = by_metric["queue_p95_ns"]
    assert queue["verdict"] == "worse"
    assert queue["paired"]
    assert queue["counts"] == queue["runs"] == [6, 6]
    assert 0 < queue["low"] < queue["difference"] < queue["high"]
    assert not any("Too few" in note for note in value["notes"])
    assert value["differing"] == ["path.queue"]
    markdown = cli("compare", "a", "c", "--markdown", "--metric", "queue_p95_ns")
    assert "| queue p95 |" in markdown.stdout
    assert "**worse**" in markdown.stdout
    assert cli("compare", "c", "a", "--metric", "queue_p95_ns").returncode == 0


def test_sweeps_are_compared_point_by_point(cli: Command, tmp_path: Path) -> None:
    over = '[sweep]\nseeds = 2\n[sweep.over]\npath.rtt = ["10 ms", "20 ms"]\n'
    file = tmp_path / "grid.toml"
    file.write_text(SCENARIO + over)
    assert cli("sweep", file, "--out", "a").returncode == 0
    assert cli("sweep", file, "--out", "b", "--set", "path.loss=5 %").returncode == 0
    value = json.loads(
        cli("compare", "a", "b", "--metric", "flows[1].goodput_bps", "--json").stdout
    )
    points = [finding["point"] for finding in value["findings"]]
    assert points == ["path.rtt = 10 ms", "path.rtt = 20 ms"]
    file.write_text(SCENARIO + over.replace('"20 ms"', '"30 ms"'))
    assert cli("sweep", file, "--out", "c").returncode == 0
    value = json.loads(cli("compare", "a", "c", "--json").stdout)
    assert value["only_old"] == ["path.rtt = 20 ms"]
    assert value["only_new"] == ["path.rtt = 30 ms"]
    assert value["verdict"] == "same"


def test_points_that_are_not_alike_are_compared_by_their_ratios() -> None:
    """Nine paths from 1 to 256 Mbit/s, twice the queue on each: the largest does not hide eight."""
    paths = {(f"{2**n} Mbit/s",): 2.0**n for n in range(9)}
    sides = [
        Subject(
            name,
            {
                "": {
                    path: {"metrics": {"queue_p95_ns": factor(v)}, "flows": []}
                    for path, v in paths.items()
                }
            },
        )
        for name, factor in (("a", float), ("b", lambda v: v * (2 + 0.1 * math.sin(v))))
    ]
    (finding,) = compare(sides[0], sides[1])
    assert finding.verdict == "worse"
    assert finding.change == pytest.approx(1, abs=0.05)
    answer = finding.as_json()
    assert (answer["higher"], answer["lower"], answer["low"]) == (9, 0, None)
    assert 0.9 < (answer["change_low_ratio"] or 0) < 1 < (answer["change_high_ratio"] or 0) + 0.05


def test_intervals_are_corrected_as_probabilities_are() -> None:
    """Of two metrics, the surer has twice its probability, and the interval of 97.5 %."""
    old = {seed: {"queue_p95_ns": 10.0 * seed, "rtt_p50_ns": 9.0 * seed} for seed in range(1, 6)}
    new = {
        seed: {"queue_p95_ns": 11.0 * seed, "rtt_p50_ns": 9.0 * seed + (-0.9) ** seed}
        for seed in old
    }
    sides = [
        Subject(name, {"": {seed: {"metrics": m, "flows": []} for seed, m in side.items()}})
        for name, side in (("a", old), ("b", new))
    ]
    finding = {f.metric: f for f in compare(sides[0], sides[1])}["queue_p95_ns"]
    plain = paired([10, 20, 30, 40, 50], [11, 22, 33, 44, 55])
    assert plain.p is not None
    assert finding.p == pytest.approx(2 * plain.p)
    assert finding.difference is not None
    assert finding.difference.low == pytest.approx(plain.corrected(2).low)
    # 1.25 % on each side: t = 3.495406 with 4 degrees of freedom.
    assert finding.difference.low == pytest.approx(3 - 3.495406 * math.sqrt(2.5 / 5), abs=1e-5)


def test_times_longer_than_a_run_are_counted(cli: Command, tmp_path: Path) -> None:
    """Some seeds do not converge in their run: that is said, and is better than none."""
    text = """
schema = 1
[run]
duration = "8 s"
[path]
rate = "5 Mbit/s"
rtt = "30 ms"
loss = "1 %"
queue.size = "0.3 bdp"
[[flows]]
cc = "bbr3"
count = 2
start_jitter = "100 ms"
stagger = "1 s"
"""
    (tmp_path / "s.toml").write_text(text)
    value = json.loads(cli("run", "s.toml", "--repeats", "6", "--out", "a", "--json").stdout)
    metric = value["metrics"]["convergence_ns"]
    ended = [
        json.loads(path.read_text()).get("censored", {}) for path in Path("a").rglob("run.json")
    ]
    limits = [limit["convergence_ns"] for limit in ended if "convergence_ns" in limit]
    # Six whole bins after the last start, so the last five of them begin after 1 s.
    assert set(limits) <= {1_000_000_000}
    if metric is None:
        assert len(limits) == 6
    else:
        assert (metric["count"], metric["runs"], metric["censored"]) == (
            6 - len(limits),
            6,
            len(limits),
        )


def test_bad_input(cli: Command, scenario: Path, tmp_path: Path) -> None:
    assert cli("run", scenario, "--out", "a").returncode == 0
    (tmp_path / "empty").mkdir()
    for arguments, word in (
        (("a", "nowhere"), "no such folder"),
        (("a", "empty"), "no run"),
        (("a", "a", "--metric", "godput_bps"), "goodput_bps"),
    ):
        result = cli("compare", *arguments)
        assert result.returncode == 2
        assert word in result.stderr


def test_points_have_the_names_of_scenarios_whatever_their_folders_end_in(
    run: paceline.Run, tmp_path: Path
) -> None:
    names = ("one-3-4f2a9c", "two+rtt=1ms-3to5-4f2a9c-2/seed-3", "three-3", "four-3-0a0a0a/reno")
    for name in names:
        run.write(tmp_path / name)
    assert list(read(tmp_path).points) == ["four/reno", "one", "three", "two+rtt=1ms"]
    run.write(tmp_path / "one-3-bbbbbb")
    assert list(read(tmp_path).points) == [
        "four/reno",
        "one",
        "one-3-bbbbbb",
        "three",
        "two+rtt=1ms",
    ]


def test_repeats_that_the_seed_does_not_change_are_one_run() -> None:
    def side(name: str, goodput: float) -> Subject:
        runs = {seed: {"metrics": {"goodput_bps": goodput}, "flows": []} for seed in range(10)}
        return Subject(name, {"": runs})

    (finding,) = compare(side("a", 100.0), side("b", 90.0))
    assert (finding.verdict, finding.p, finding.counts) == ("untested", None, (10, 10))


def test_one_run_a_side_is_untested_and_no_regression(cli: Command, scenario: Path) -> None:
    assert cli("run", scenario, "--out", "a").returncode == 0
    changes = ("--set", "path.rate=5 Mbit/s", "--set", "flows.0.cc=cubic", "--seed", "2")
    assert cli("run", scenario, *changes, "--out", "b").returncode == 0
    result = cli("compare", "a", "b")
    assert result.returncode == 0
    assert "worse" not in result.stdout
    assert "better" not in result.stdout
    assert "One run per side" in result.stdout
    assert "not tested, and may be chance or not (the largest: " in result.stdout
    assert "differ in 2 settings, any of which may be the cause: path.rate, flows.cc" in (
        result.stdout
    )
    value = json.loads(cli("compare", "a", "b", "--json").stdout)
    assert value["verdict"] == "untested"
    assert value["counts"]["untested"] > 5
    assert value["differing"] == ["path.rate", "flows.cc"]
    assert "differ in 2 settings" in cli("compare", "a", "b", "--markdown").stdout


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("schema", "999", "schema 999, but this version of Paceline reads schema 2"),
        ("schema", "1", "schema 1, but this version of Paceline reads schema 2"),
        ("schema", '"2"', "schema 2, but this version"),
        ("schema", "true", "schema True, but this version"),
        ("seed", "1" + "0" * 400, "a number of 401 digits"),
        ("seed", "1e999", "the number 1e999 is too large"),
        ("seed", "NaN", "NaN is not a number"),
        ("metrics", '{"goodput_bps": 1' + "0" * 400 + "}", "a number of 401 digits"),
        ("metrics", '{"goodput_bps": Infinity}', "Infinity is not a number"),
        ("metrics", "[" * 100_000, ""),
    ],
)
def test_a_record_that_is_not_ours_is_refused(
    key: str, value: str, message: str, cli: Command, scenario: Path
) -> None:
    assert cli("run", scenario, "--set", "run.duration=0.3 s", "--out", "a").returncode == 0
    path = Path("a/run.json")
    text = json.dumps(json.loads(path.read_text()) | {key: "HERE"})
    path.write_text(text.replace('"HERE"', value))
    for arguments in (("compare", "a", "a"), ("report", "a")):
        result = cli(*arguments)
        assert result.returncode == 2, (arguments, result)
        assert "hint: " in result.stderr
    assert message in cli("compare", "a", "a").stderr


def test_a_sweep_of_another_schema_is_refused(cli: Command, tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(SCENARIO + '[sweep.over]\npath.rtt = ["10 ms", "20 ms"]\n')
    assert cli("sweep", file, "--out", "a").returncode == 0
    path = Path("a/sweep.json")
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
    result = cli("compare", "a", "a")
    assert result.returncode == 2
    assert "schema 2" in result.stderr


def test_a_run_is_compared_with_a_case_of_the_draft(cli: Command, tmp_path: Path) -> None:
    """Linux's BBRv3 leaves Startup at the same time or earlier; the order does not matter."""
    case = (
        Path(__file__).parent.parent / "data/conformance/draft-ietf-ccwg-bbr/03-drain-inflight.toml"
    )
    mine = tmp_path / "mine"
    cli("run", case, "--set", "flows.0.cc=bbr3-linux", "--out", mine, "--quiet")
    one = json.loads(cli("compare", mine, "reference:03", "--json").stdout)
    other = json.loads(cli("compare", "reference:03", mine, "--json").stdout)
    assert one == other
    assert (one["old"], one["new"]) == ("reference:03", str(mine))
    first = one["states"][0]
    assert (first["old"], first["new"]) == ("Startup", "Startup")
    assert one["departs"].startswith("leaves Startup, state 1, 2.1 RTTs sooner: ")
    same = tmp_path / "same"
    packets = ("--set", "run.record.packets=true")
    cli("run", case, "--set", "flows.0.cc=bbr3", *packets, "--out", same, "--quiet")
    answer = json.loads(cli("compare", same, "reference:03-drain-inflight", "--json").stdout)
    assert (
        answer["departs"]
        == f"the first {len(answer['states'])} states are the same, each within one RTT"
    )
    assert set(answer["counts"].items()) >= {("untested", 0), ("worse", 0)}
    # A qlog has no queue, and the states of the stack.
    cli("export", same, "--format", "qlog", "--out", tmp_path / "q.qlog")
    cli("import", tmp_path / "q.qlog" / "flow-0.sqlog", "--out", tmp_path / "read")
    table = cli("compare", tmp_path / "read", "reference:03").stdout
    assert "ProbeBW_CRUISE" in table
    reno = tmp_path / "reno"
    cli("run", case, "--set", "flows.0.cc=reno", "--out", reno, "--quiet")
    output = cli("compare", reno, "reference:03").stdout
    assert "Departure: the record has no BBR states; by its packets, " in output
    assert "SlowStart" in output


def test_a_reference_that_there_is_not_is_told(cli: Command, scenario: Path) -> None:
    result = cli("compare", scenario, "reference:03-drain-inflite")
    assert result.returncode == 2
    assert "did you mean 03-drain-inflight?" in result.stderr


@pytest.mark.parametrize("flow", ["2", "007", "99999999999999999999", "\u0661", "-1"])
def test_a_metric_of_a_flow_that_no_run_has_is_refused(flow: str, cli: Command) -> None:
    text = SCENARIO.replace("duration = ", 'duration = "0.4 s" # ')
    paceline.run(text, seed=1).write("one")
    paceline.run(text, seed=2).write("two")
    assert cli("compare", "one", "two", "--metric", "flows[1].goodput_bps").returncode == 0
    metric = f"flows[{flow}].goodput_bps"
    result = cli("compare", "one", "two", "--metric", metric)
    assert result.returncode == 2
    assert repr(metric) in result.stderr


def test_a_sweep_that_is_none_is_refused(cli: Command, tmp_path: Path) -> None:
    text = SCENARIO.replace("duration = ", 'duration = "0.4 s" # ')
    (tmp_path / "s.toml").write_text(f"{text}[sweep.over]\npath.rtt = ['10 ms', '20 ms']\n")
    assert cli("sweep", "s.toml", "--out", "sweep", "--quiet").returncode == 0
    good = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    wide = good["axes"][0] | {"points": good["axes"][0]["points"] * 600}
    other = json.loads(json.dumps(wide).replace("path.rtt", "path.rate"))
    changes: tuple[dict[str, Any], ...] = (
        {"axes": []},
        {"axes": good["axes"] * 2},
        {"axes": [wide, other]},
        {"seeds": []},
        {"seeds": ["x"]},
        {"metrics": []},
        {"metrics": ["nothing"]},
        {"failed": "x"},
        {"overrides": 5},
    )
    for wrong in changes:
        (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(good | wrong))
        for command in (("sweep", "--by", "path.rtt"), ("sweep", "sweep")):
            result = cli("compare", *command)
            assert result.returncode == 2, wrong
            assert "is not a sweep" in result.stderr
    # Seeds that are not those of its rows: the sides have no point.
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(good | {"seeds": list(range(9))}))
    assert cli("compare", "sweep", "--by", "path.rtt").returncode in (0, 2)
