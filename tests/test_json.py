"""The names that `--json` prints: scripts of others rely on them. Add to them, never change one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import SCENARIO, Command
from described import hold, wrong
from paceline import answers

ROOT = Path(__file__).parents[1]

RUN = {"schema", "scenario", "seed", "backend", "out", "metrics", "flows", "engine", "expect"}
METRICS = {
    "utilisation_ratio",
    "goodput_bps",
    "jain_ratio",
    "jain_last_half_ratio",
    "convergence_ns",
    "rtt_p50_ns",
    "rtt_p95_ns",
    "rtt_p99_ns",
    "queue_p50_ns",
    "queue_p95_ns",
    "queue_max_bytes",
    "loss_ratio",
    "retransmit_ratio",
}
FLOW = {"flow", "cc", "goodput_bps", "rtt_p50_ns", "retransmit_ratio", "rto_count", "share_ratio"}
ENGINE = {"wall_ns", "packets", "events"}
EXPECT = {"metric", "bound", "value", "held"}
STATISTICS = {"mean", "median", "low", "high"}
CLAIM = {"id", "topic", "source", "published", "measured", "low", "high", "verdict", "why"}
CASE = {"id", "suite", "controller", "verdict", "evidence"}
ROW = {"growth", "t", "round", "cwnd", "pif", "bw"}
ERROR = {"kind", "message", "file", "line", "column", "hint"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.toml"
    path.write_text(SCENARIO + '\n[expect]\ngoodput_bps = ">= 1 Mbit/s"\n')
    return path


def answer_of(cli: Command, *arguments: Any, code: int = 0) -> dict[str, Any]:
    result = cli(*arguments, "--json", "--quiet")
    assert result.returncode == code, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    hold(arguments[0], value)
    return value


def test_run(cli: Command, file: Path) -> None:
    value = answer_of(cli, "run", file)
    assert value.keys() >= RUN
    assert value["metrics"].keys() >= METRICS
    assert all(flow.keys() >= FLOW for flow in value["flows"])
    assert value["engine"].keys() >= ENGINE
    assert all(outcome.keys() >= EXPECT for outcome in value["expect"])


def test_repeats(cli: Command, file: Path) -> None:
    value = answer_of(cli, "run", file, "--repeats", 2)
    assert value.keys() >= RUN | {"repeats"}
    assert value["metrics"]["goodput_bps"].keys() >= STATISTICS
    assert value["repeats"].keys() >= METRICS | {"seed"}


def test_claims(cli: Command, file: Path, tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "x.toml").write_text("""
[[claims]]
id = "X1"
topic = "t"
source = "s"
published = "p"
measured = "mean(one.goodput_bps)"
accept = ["mean(one.goodput_bps) > 0"]
seeds = 1
cases.one = { scenario = "../x.toml" }
""")
    (claim,) = answer_of(cli, "claims")["claims"]
    assert claim.keys() >= CLAIM
    assert claim["verdict"] in {"reproduced", "not reproduced", "error"}


def test_reference(cli: Command) -> None:
    listed = answer_of(cli, "reference", "list", "b1", "03")
    assert [row.keys() for row in listed["references"]] == 2 * [{"id", "about", "section", "path"}]
    pack = answer_of(cli, "reference", "export", "03", "--out", "pack")
    assert pack.keys() >= {"draft", "out", "references"}
    assert pack["references"][0].keys() == {"id", "seed", "files"}


def test_conformance(cli: Command) -> None:
    cases = ROOT / "data" / "conformance" / "draft-ietf-ccwg-bbr"
    rows = answer_of(cli, "conformance", "--case", "16", "--cases", cases)["cases"]
    assert rows
    assert all(case.keys() >= CASE for case in rows)
    assert {case["verdict"] for case in rows} <= {"pass", "fail", "expected fail"}


def test_startup(cli: Command) -> None:
    value = json.loads(cli("startup", "2.77", "--json").stdout)
    assert all(row.keys() == ROW for row in value["rows"])


def test_errors(cli: Command, file: Path) -> None:
    file.write_text(SCENARIO.replace("10 Mbit/s", "10 Mbps"))
    for arguments in (("run", file), ("check", file), ("sweep", file), ("run", "none.toml")):
        result = cli(*arguments, "--json")
        assert result.returncode == 2
        value = json.loads(result.stdout)
        assert value["error"].keys() >= ERROR
        hold("run", value)


def test_every_other_command_says_what_is_described(
    cli: Command, file: Path, tmp_path: Path
) -> None:
    def hears(*arguments: Any) -> None:
        result = cli(*arguments, "--json")
        assert result.returncode in (0, 4, 127), result.stderr
        hold(arguments[0], json.loads(result.stdout))

    grid = tmp_path / "grid.toml"
    grid.write_text(SCENARIO + '[sweep.over]\nflows.0.cc = ["bbr3", "reno"]\n')
    (tmp_path / "t.trace").write_text("0\n1\n2\n5\n")
    cli("run", file, "--out", "a")
    hears("run", file, grid, "--out", "b")
    hears("run", file, "--set", 'run.compare=["bbr3", "reno"]', "--out", "c", "--report")
    hears("check", grid)
    hears("sweep", grid, "--out", "s")
    hears("compare", "a", "c/reno")
    hears("compare", "s", "--by", "flows.0.cc")
    hears("report", "a")
    hears("export", "a", "--format", "csv")
    hears("import", "t.trace", "--rtt", "40 ms", "--queue", "100 packets")
    hears("fit", "a", "--out", "fitted.toml")
    hears("advise", "a", "--cc", "cubic", "reno", "--paths", "10")
    hears("startup", "2.77")
    hears("init", "new.toml")
    hears("list")
    hears("doctor", "--quick")
    hears("vm", "list")


def test_the_description_has_the_names_that_scripts_rely_on() -> None:
    for shape, names in (
        (answers.Run, RUN - {"schema"}),
        (answers.Engine, ENGINE),
        (answers.Expectation, EXPECT),
        (answers.Statistics, STATISTICS),
        (answers.Claim, CLAIM),
        (answers.Case, CASE),
        (answers.StartupRow, ROW),
        (answers.Error, ERROR),
    ):
        assert names <= shape.__annotations__.keys()


def test_what_is_not_as_described_is_found() -> None:
    good = {"wall_ns": 1, "packets": 2, "events": 3}
    assert wrong(good, answers.Engine) == []
    assert wrong(good | {"more": 1}, answers.Engine) == [".more is not described"]
    assert wrong({"wall_ns": 1, "packets": 2}, answers.Engine) == [".events is not there"]
    assert wrong(good | {"events": "3"}, answers.Engine) == [".events is '3', not <class 'int'>"]
