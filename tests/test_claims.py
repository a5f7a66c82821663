"""Claims, the start-up simulator and the golden traces, by their commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import SCENARIO, Command
from paceline.claims.expressions import ExpressionError, evaluate, interval_of

ROOT = Path(__file__).parent.parent
CASES = {"v3": {"jain_ratio": {"mean": 0.9, "median": 0.95, "low": 0.9, "high": 0.99}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("median(v3.jain_ratio)", 0.95),
        ("high(v3.jain_ratio) - low(v3.jain_ratio) < 0.1", True),
        ("0.9 < median(v3.jain_ratio) <= 0.94", False),
        ("abs(-gain) / 2 + 1", 2.0),
    ],
)
def test_expressions_by_hand(text: str, value: float) -> None:
    assert evaluate(text, CASES, {"gain": 2.0}) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "median(v2.jain_ratio)",
        "median(v3.jian)",
        "__import__('os')",
        "gain.real",
        "1 if 1 else 2",
        "1 / 0",
        "median(v3.jain_ratio",
        "open('x')",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, CASES, {})


def test_the_interval_belongs_to_a_plain_statistic() -> None:
    assert interval_of("median(v3.jain_ratio)") == ("low(v3.jain_ratio)", "high(v3.jain_ratio)")
    assert interval_of("median(a.b) / median(c.d)") is None


def test_startup_claims_are_reproduced(cli: Command) -> None:
    result = cli("claims", "startup", "--claims", ROOT / "claims", "--json", "--quiet")
    claims = json.loads(result.stdout)["claims"]
    assert [(claim["id"], claim["verdict"]) for claim in claims] == [
        ("A1", "reproduced"),
        ("A2", "reproduced"),
        ("A3", "reproduced"),
    ]
    assert result.returncode == 0


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
accept = ["median(a.utilisation_ratio) > 2"]
seeds = 2
cases.a = { scenario = "../small.toml", set = { "flows.0.cc" = "cubic" } }
[[claims]]
id = "X2"
topic = "test"
source = "none"
published = "nothing"
measured = "median(a.no_such_metric)"
accept = []
seeds = 1
cases.a = { scenario = "../small.toml" }
"""
    )
    result = cli("claims", "--json", "--quiet")
    first, second = json.loads(result.stdout)["claims"]
    assert first["verdict"] == "not reproduced"
    assert first["low"] <= first["measured"] <= first["high"]
    assert "> 2" in first["why"]
    assert second["verdict"] == "error"
    assert "no_such_metric" in second["why"]
    assert result.returncode == 3
    assert cli("claims", "X3").returncode == 2
    assert "X1" in cli("claims", "--list").stdout


def test_a_broken_file_of_claims_is_named(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "bad.toml").write_text('[[claims]]\nid = "B"\n')
    result = cli("claims")
    assert result.returncode == 2
    assert "bad.toml" in result.stderr
    assert "topic" in result.stderr


def test_every_committed_claim_can_be_read(cli: Command) -> None:
    result = cli("claims", "--list", "--claims", ROOT / "claims", "--json")
    assert len(json.loads(result.stdout)["claims"]) >= 6


def test_startup_prints_the_rows(cli: Command) -> None:
    result = cli("startup", "2.77", "--json")
    rows = json.loads(result.stdout)["rows"]
    assert len(rows) == 15
    assert (rows[14]["cwnd"], rows[14]["pif"], rows[14]["bw"]) == (146616, 146437, 732540.0)
    assert cli("startup", "2.77", "--plot", "a.png").returncode == 0
    assert "2.778" in cli("startup", "--find").stdout
    assert cli("startup", "-1").returncode == 2
    assert cli("startup", "--plot", "a.png").returncode == 2


def test_golden_traces_pass_and_a_changed_one_fails(cli: Command, tmp_path: Path) -> None:
    folder = ROOT / "conformance" / "linux-bbr" / "v3"
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
