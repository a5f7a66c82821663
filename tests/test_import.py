"""``paceline import``: transperf's configurations and mahimahi's traces as scenarios."""

from __future__ import annotations

import json
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from conftest import Command
from paceline import _paceline
from paceline.exchange import csv, mahimahi, transperf_scenario
from paceline.exchange.declared import ImportFailedError, ImportOptions
from paceline.exchange.transperf import BUILDERS, NAMES

FOUR = """\
'''Four flows on two senders.'''
from transperf import *

conn = conns(
    conn('bbr2', sender=0, start=0), conn('bbr2', sender=0, start=0),
    conn('bbr2', num=2, sender=1, start=0.5),
)
bw = 50
rtt = 40
buf = bdp(1)
dur = 60
check = check_with_scores({'tput': 80, 'rtt_med': 40, 'loss_avoid': 99, 'fairness': 70})
"""


def one(text: str, **options: Any) -> dict[str, Any]:
    (made,) = transperf_scenario.scenarios(text, "x", **options)
    _paceline.check(made.toml, "x.toml")
    return tomllib.loads(made.toml)


def wrong(text: str) -> ImportFailedError:
    with pytest.raises(ImportFailedError) as caught:
        transperf_scenario.scenarios(text, "x")
    return caught.value


BASE = "conn = 'cubic'\nbw = 10\nrtt = 20\nbuf = 100\n"


def test_the_shipped_four_flows() -> None:
    scenario = one(FOUR)
    assert scenario["run"] == {"duration": "60 s"}
    # 50 Mbit/s x 40 ms are 250 000 B, 165.1 frames of 1514 B.
    assert scenario["path"] == {
        "rate": "50 Mbit/s",
        "rtt": "40 ms",
        "queue": {"kind": "droptail", "size": "165 packets"},
    }
    assert scenario["flows"] == [
        {"cc": "bbr2"},
        {"cc": "bbr2"},
        {"cc": "bbr2", "count": 2, "start": "0.5 s"},
    ]
    assert scenario["expect"] == {
        "goodput_bps": ">= 40 Mbit/s",
        "rtt_p50_ns": "<= 100 ms",
        "retransmit_ratio": "<= 1 %",
    }
    (made,) = transperf_scenario.scenarios(FOUR, "x")
    assert [(note.line, "fairness" in note.text) for note in made.notes] == [(12, True)]


def test_a_hundred_bdp_is_counted_in_frames() -> None:
    scenario = one(FOUR.replace("bdp(1)", "bdp(100)"))
    assert scenario["path"]["queue"]["size"] == "16512 packets"


def test_lists_multiply_in_order() -> None:
    made = transperf_scenario.scenarios(
        "conn = ['cubic', 'bbr']\nbw = [10, 20]\nrtt = 20\nbuf = lambda exp: exp.bw * 5\n", "x"
    )
    assert [m.name for m in made] == ["x-1", "x-2", "x-3", "x-4"]
    scenarios = [tomllib.loads(m.toml) for m in made]
    assert [f["flows"][0]["cc"] for f in scenarios] == ["cubic", "cubic", "bbr1", "bbr1"]
    assert [f["path"]["rate"] for f in scenarios] == [
        "10 Mbit/s", "20 Mbit/s", "10 Mbit/s", "20 Mbit/s"
    ]  # fmt: skip
    assert [f["path"]["queue"]["size"] for f in scenarios][:2] == ["50 packets", "100 packets"]


def test_what_varies_is_events() -> None:
    scenario = one(
        BASE
        + "bw = var_bw(bw(10, dur=5), bw(20), bw(5))\n"
        + "policer = var_policer(policer(8, 0.1, dur=7), policer(4, 0.2))\n"
    )
    assert scenario["path"]["rate"] == "10 Mbit/s"
    assert scenario["path"]["policer"] == {"rate": "8 Mbit/s", "burst": "0.1 MB"}
    assert scenario["events"] == [
        {"when": "5 s", "path": {"rate": "20 Mbit/s"}},
        {"when": "7 s", "path": {"policer": {"rate": "4 Mbit/s", "burst": "0.2 MB"}}},
        {"when": "15 s", "path": {"rate": "5 Mbit/s"}},
    ]


def test_round_trips_by_sender_sizes_and_stops() -> None:
    scenario = one(
        "conn = conns(conn('reno', sender=1, size=1000000), conn('cubic', start=1, dur=4))\n"
        "bw = 10\nbuf = 2 * 50\nloss = 0.5\nrtt = mixed_rtt(rtt(30), rtt(50, sender=1))\n"
    )
    assert scenario["path"]["rtt"] == "50 ms"
    assert scenario["path"]["loss"] == "0.5 %"
    assert scenario["flows"] == [
        {"cc": "reno", "app": {"size": "1000000 B"}, "rtt": "50 ms"},
        {"cc": "cubic", "start": "1 s", "stop": "5 s", "rtt": "30 ms"},
    ]


def test_a_variance_is_jitter_that_keeps_the_mean() -> None:
    scenario = one(BASE.replace("rtt = 20", "rtt = rtt(20, var=4)"))
    assert (scenario["path"]["rtt"], scenario["path"]["jitter"]) == ("16 ms", "8 ms")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (BASE + "out_loss = 1\n", 5, "out_loss"),
        (BASE + "slot = slot(3)\n", 5, "slot"),
        (BASE + "cmd = 'reboot'\n", 5, "runs a command"),
        (BASE + "machine_cmd = machine_cmd('x')\n", 5, "runs a command"),
        (BASE.replace("'cubic'", "conn('cubic', burst=burst(1, 1))"), 1, "burst"),
        (BASE.replace("'cubic'", "conn('cubic', upload=True)"), 1, "upload"),
        (BASE.replace("'cubic'", "'vegas'"), 1, "vegas"),
        (BASE.replace("'cubic'", "conn('cubic', flavour=1)"), 1, "flavour"),
        (BASE.replace("bw = 10", "bw = 0"), 2, "no limit"),
        (BASE.replace("buf = 100", "buf = 0"), 4, "buf"),
        (BASE + "import os\nos.system('x')\n", 6, "cannot read"),
        (BASE + "dur = __import__('os').getpid()\n", 5, "cannot call"),
        (BASE + "dur = open('x').read()\n", 5, "cannot call"),
        (BASE + "dur = 'x'.__class__\n", 5, "cannot read"),
        (BASE + "dur = lambda exp: exp.__class__\n", 5, "has no `__class__`"),
        (BASE + "dur = 1 / 0\n", 5, "division"),
        (BASE + "for i in x: pass\n", 5, "cannot read"),
        (BASE + "dur = [\n", 5, "not Python"),
        ("x = 1\n", None, "`bw` is not set"),
    ],
)
def test_what_cannot_be_expressed_is_told_with_its_line(
    text: str, line: int | None, message: str
) -> None:
    error = wrong(text)
    assert message in str(error)
    assert error.line == line


def test_commands_are_left_out_if_asked() -> None:
    assert one(BASE + "cmd = 'sysctl x'\n", ignore_commands=True)["flows"] == [{"cc": "cubic"}]


def test_too_many_experiments_are_refused() -> None:
    axis = str(list(range(1, 101)))
    assert "1000 experiments" in str(wrong(f"conn = 'cubic'\nbw = {axis}\nrtt = {axis}\nbuf = 9\n"))


def test_nothing_is_executed(tmp_path: Path, cli: Command) -> None:
    proof = tmp_path / "executed"
    file = tmp_path / "c.py"
    file.write_text(f"open({str(proof)!r}, 'w')\nconn = 'cubic'\n")
    result = cli("import", file, "--json")
    assert result.returncode == 2
    error = json.loads(result.stdout)["error"]
    assert (error["kind"], error["line"]) == ("import", 1)
    assert not proof.exists()


def test_pythons_advice_on_style_is_not_shown() -> None:
    """Which is a warning by default, and an error here."""
    transperf_scenario.scenarios(FOUR + "\nloss = 0if True else 1\n", "x", ignore_commands=True)


def test_the_command_writes_a_scenario_that_runs(tmp_path: Path, cli: Command) -> None:
    file = tmp_path / "small.py"
    file.write_text(BASE + "dur = 1\n")
    assert cli("import", file).stdout.startswith("schema = 1\n")
    out = tmp_path / "small.toml"
    assert cli("import", file, "--out", out).stdout == f"{out}\n"
    assert cli("run", out).returncode == 0


def test_several_experiments_need_a_folder(tmp_path: Path, cli: Command) -> None:
    file = tmp_path / "two.py"
    file.write_text(BASE.replace("'cubic'", "['cubic', 'reno']"))
    result = cli("import", file)
    assert result.returncode == 2
    assert "--out FOLDER" in result.stderr
    assert cli("import", file, "--out", tmp_path / "made").returncode == 0
    assert sorted(p.name for p in (tmp_path / "made").iterdir()) == ["two-1.toml", "two-2.toml"]


def test_a_trace_becomes_a_scenario_that_runs(tmp_path: Path, cli: Command) -> None:
    trace = tmp_path / "lte.down"
    trace.write_text("".join(f"{n}\n" for n in range(1, 1001)))
    result = cli("import", trace)
    assert result.returncode == 2
    assert "--rtt" in result.stderr
    out = tmp_path / "sub" / "lte.toml"
    arguments = ("--rtt", "40 ms", "--queue", "100 packets", "--out", out)
    assert cli("import", trace, *arguments).returncode == 0
    scenario = tomllib.loads(out.read_text())
    assert scenario["path"]["rate"] == {"trace": "../lte.down"}
    assert scenario["run"]["duration"] == "1000 ms"
    assert "12 Mbit/s" in scenario["about"]
    assert cli("run", out).returncode == 0


def test_a_short_trace_runs_for_some_seconds(tmp_path: Path, cli: Command) -> None:
    trace = tmp_path / "one.trace"
    trace.write_text("1\n")
    out = tmp_path / "one.toml"
    result = cli("import", trace, "--rtt", "40 ms", "--queue", "100 packets", "--out", out)
    assert "repeats" in result.stderr
    assert tomllib.loads(out.read_text())["run"]["duration"] == "10 s"
    # 1500 bytes each millisecond are 12 Mbit/s.
    assert (paceline.run(out).metrics["goodput_bps"] or 0) > 10e6


TABLE = "\ufefft;down [Mbit/s];up\n1700000000.5;0;1\n"
TABLE += "1700000001;8;1\n1700000002;2.5;1\n1700000002.5;2.5;1\n1700000003;0;1\n"


def test_a_table_of_rates_becomes_a_link(tmp_path: Path, cli: Command) -> None:
    (tmp_path / "link.csv").write_text(TABLE)
    result = cli("import", "link.csv")
    assert result.returncode == 2
    assert "t, down [Mbit/s], up" in result.stderr
    options = ("--rtt", "40 ms", "--queue", "100 packets", "--out", "link.toml")
    columns = ("--time", "t s", "--rate", "down [Mbit/s] Mbit/s")
    result = cli("import", "link.csv", *columns, *options)
    assert result.returncode == 0, result.stderr
    made = tomllib.loads((tmp_path / "link.toml").read_text())
    assert made["path"]["rate"] == "8000000 bit/s"
    assert made["run"]["duration"] == "3000000000 ns"
    changes = [(event["when"], event["path"]["rate"]) for event in made["events"]]
    assert changes == [
        ("0 ns", "0 bit/s"),
        ("500000000 ns", "8000000 bit/s"),
        ("1500000000 ns", "2500000 bit/s"),
        ("2500000000 ns", "0 bit/s"),
    ]
    # 8 Mbit/s for 1 s and 2.5 for another, of 3 s.
    assert "3.5 Mbit/s" in made["about"]
    assert cli("run", "link.toml").returncode == 0


@pytest.mark.parametrize(
    ("table", "time", "rate", "message"),
    [
        ("t,r\n0,1\n0,2\n", "t s", "r Mbit/s", "does not come after"),
        ("t,r\n0,1\n1,x\n", "t s", "r Mbit/s", "is not a number"),
        ("t,r\n0,1\n1\n", "t s", "r Mbit/s", "is not a number"),
        ("t,r\n0,-1\n", "t s", "r Mbit/s", "is no rate"),
        ("t,r\n0,0\n", "t s", "r Mbit/s", "no row with a rate"),
        ("t,r\n", "t s", "r Mbit/s", "no row with a rate"),
        ("t,r\n0,1\n", "t", "r Mbit/s", "no name of a column and its unit"),
        ("t,r\n0,1\n", "t s", "r ms", "no name of a column and its unit"),
        ("t,r\n0,1\n", "u s", "r Mbit/s", "no column `u`"),
        ("t,r\n0,1\n1e15,1\n", "t s", "r Mbit/s", "longer than"),
        ("t,r\n1e999999,1\n", "t s", "r Mbit/s", "is not a number"),
    ],
)
def test_a_spoiled_table_is_told(table: str, time: str, rate: str, message: str) -> None:
    options = ImportOptions(Path("x.csv"), rtt="40 ms", queue="9 packets", time=time, rate=rate)
    with pytest.raises(ImportFailedError, match=message):
        csv.read(table, options)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1\n2\nx\n", 3, "not a whole number"),
        ("5\n4\n", 2, "comes after"),
        ("9" * 30, 1, "later than"),
        ("# nothing\n", None, "no delivery"),
        ("0\n0\n", None, "ends at 0"),
    ],
)
def test_a_spoiled_trace_is_told_with_its_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(ImportFailedError) as caught:
        mahimahi.opportunities(text.splitlines())
    assert message in str(caught.value)
    assert caught.value.line == line


# Fuzzing: whatever is written, it is imported as a scenario that can be read, or refused.

_VALUES = st.recursive(
    st.one_of(
        st.integers(-3, 200).map(str),
        st.floats(allow_nan=True).map(repr),
        st.sampled_from(
            ["None", "True", "'cubic'", "'bbr'", "lambda exp: exp.bw", "x", "1e999", "9" * 400]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({' '.join(t)})"),
        st.tuples(st.sampled_from(sorted(BUILDERS)), st.lists(inner, max_size=3)).map(
            lambda t: f"{t[0]}({', '.join(t[1])})"
        ),
    ),
    max_leaves=6,
)

_LINES = st.lists(st.tuples(st.sampled_from(NAMES), _VALUES), max_size=6)


@given(_LINES, st.booleans())
def test_any_configuration_is_imported_or_refused(
    lines: list[tuple[str, str]], whole: bool
) -> None:
    text = (BASE if whole else "") + "".join(f"{name} = {value}\n" for name, value in lines)
    try:
        made = transperf_scenario.scenarios(text, "x", ignore_commands=True)
    except ImportFailedError:
        return
    for m in made:
        tomllib.loads(m.toml)


@given(st.text())
def test_any_text_is_imported_or_refused(text: str) -> None:
    with suppress(ImportFailedError):
        transperf_scenario.scenarios(text, "x")
    with suppress(ImportFailedError):
        mahimahi.opportunities(text.splitlines())


@given(st.text(alphabet='0123456789.,;"\n -etrx', max_size=200), st.sampled_from(["s", "ns"]))
def test_any_table_is_imported_or_refused(text: str, unit: str) -> None:
    options = ImportOptions(
        Path("x.csv"), rtt="40 ms", queue="9 packets", time=f"t {unit}", rate="r kbit/s"
    )
    with suppress(ImportFailedError):
        for made in csv.read(f"t,r\n{text}", options):
            _paceline.check(made.toml, "x.toml")


@given(st.text(alphabet="0123456789\n #-", max_size=200), st.text(max_size=20))
def test_an_accepted_trace_makes_a_scenario_that_can_be_read(text: str, name: str) -> None:
    try:
        made = mahimahi.scenario(
            text, name="x", trace=name, rtt="40 ms", queue="9 packets", cc="reno"
        )
    except ImportFailedError:
        return
    assert tomllib.loads(made.toml)["path"]["rate"] == {"trace": name}


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        # Squared sixty times: the number would have more digits than there is memory.
        ("a = 10\n" + "a = a * a\n" * 60, "a number above 1e+15", 5),
        ("dur = lambda exp: exp.bw * 1000000 * 1000000 * 1000000\n" + BASE, "a number above", 1),
        ("bw = 0x" + "f" * 5000, "a number above", 1),
        ("bw = 1e999", "a number above", 1),
        ("bw = " + "9" * 5000, "not Python", 1),
        ("bw = " + "+".join("1" * 20_000), "", None),
        ("bw = " + "+".join("1" * 300), "more than 100 nested expressions", 1),
        ("bw = " + "(" * 250 + "1" + ")" * 250, "not Python", 1),
        ("bw = " + "-" * 3000 + "1", "", None),
        ("bw = " + "[" * 90_000, "not Python", None),
        ("bw = " + "-" * 50_000 + "1", "nested too deeply", None),
        ("dur = lambda exp: " + "+".join("1" * 300) + "\n" + BASE, "nested expressions", 1),
        ("x.y" + ".y" * 300 + " = 1", "nested expressions", 1),
        ("bw = [" + "1," * 1_000_000 + "]", "longer than", None),
        # 900 experiments, each with a function of 2000 terms.
        (
            "bw = [" + "1," * 30 + "]\nrtt = [" + "1," * 30 + "]\n"
            "dur = lambda exp: [" + "1," * 2000 + "]\n",
            "more than 1000000 evaluation steps",
            3,
        ),
        # 900 experiments of 1000 flows each.
        (
            "bw = [" + "1," * 30 + "]\nrtt = [" + "1," * 30 + "]\nbuf = 9\n"
            "conn = conns(" + "conn('cubic', start=1)," * 2000 + ")\n",
            "the scenarios have more than",
            None,
        ),
    ],
)
def test_what_would_take_for_ever_is_refused(text: str, message: str, line: int | None) -> None:
    error = wrong(text)
    assert message in str(error)
    assert len(str(error)) < 200
    assert line is None or error.line == line
