"""The names that `--json` prints: scripts of others rely on them. Add to them, never change one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import SCENARIO, Command

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


def said(cli: Command, *arguments: Any, code: int = 0) -> dict[str, Any]:
    result = cli(*arguments, "--json", "--quiet")
    assert result.returncode == code, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    assert isinstance(value["schema"], int)
    return value


def test_run(cli: Command, file: Path) -> None:
    value = said(cli, "run", file)
    assert value.keys() >= RUN
    assert value["metrics"].keys() >= METRICS
    assert all(flow.keys() >= FLOW for flow in value["flows"])
    assert value["engine"].keys() >= ENGINE
    assert all(outcome.keys() >= EXPECT for outcome in value["expect"])


def test_repeats(cli: Command, file: Path) -> None:
    value = said(cli, "run", file, "--repeats", 2)
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
    (claim,) = said(cli, "claims")["claims"]
    assert claim.keys() >= CLAIM
    assert claim["verdict"] in {"reproduced", "not reproduced", "error"}


def test_conformance(cli: Command) -> None:
    cases = ROOT / "conformance" / "draft-ietf-ccwg-bbr"
    found = said(cli, "conformance", "16", "--cases", cases)["cases"]
    assert found
    assert all(case.keys() >= CASE for case in found)
    assert {case["verdict"] for case in found} <= {"pass", "fail", "expected fail"}


def test_startup(cli: Command) -> None:
    value = json.loads(cli("startup", "2.77", "--json").stdout)
    assert all(row.keys() == ROW for row in value["rows"])


def test_errors(cli: Command, file: Path) -> None:
    file.write_text(SCENARIO.replace("10 Mbit/s", "10 Mbps"))
    for arguments in (("run", file), ("check", file), ("sweep", file), ("run", "none.toml")):
        result = cli(*arguments, "--json")
        assert result.returncode == 2
        assert json.loads(result.stdout)["error"].keys() >= ERROR
