"""``paceline evaluate``: RFC 9743's criteria and controllers in pairs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from conftest import SCENARIO, Command
from paceline.cli.verbs import evaluate
from paceline.quantities import NONE
from paceline.study.claims import Campaign
from paceline.study.claims.jobs import Pool
from paceline.study.evaluate import Matrix, Pairs, criteria
from paceline.study.evaluate.matrix import MEASURES, harm

ROOT = Path(__file__).parent.parent


def test_harm_by_hand() -> None:
    # Alone 10, beside another 4: it loses 60 %.
    assert harm(10, 4, more_is_better=True) == pytest.approx(0.6)
    # A delay of 40 that becomes 100 is harmed by 60 % as well; one that shrinks is not harmed.
    assert harm(40, 100, more_is_better=False) == pytest.approx(0.6)
    assert harm(100, 80, more_is_better=False) == pytest.approx(-0.25)
    assert harm(0, 0, more_is_better=False) == 0


def test_what_could_not_be_run_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    cells = {measure: [[math.nan, 0.25], [0.5, 0.5]] for measure in MEASURES}
    evaluate._show("mine", [], Matrix(("mine", "reno"), cells, 1))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["mine", *4 * [NONE]] in rows
    assert ["reno", *4 * ["25", "%"]] in rows


def test_every_criterion_can_be_run_for_every_controller() -> None:
    for controller in ("bbr3", "ledbat++", "reno"):
        claims = criteria(ROOT / "data" / "evaluation", controller)
        assert len(claims) >= 10
        assert Campaign(claims, seeds=1).errors() == {}
        assert not any("{cc}" in text for claim in claims for text in (claim.published, claim.id))


def test_a_matrix_has_the_victims_in_its_columns(tmp_path: Path) -> None:
    scenarios = {
        "one.toml": SCENARIO.partition('\n[[flows]]\ncc = "reno"')[0],
        "pair.toml": SCENARIO,
    }
    for name, text in scenarios.items():
        (tmp_path / name).write_text(text)
    pool = Pool()
    pairs = Pairs(pool, tmp_path, ["bbr3", "ledbat"], seeds=2, duration="10 s")
    pool.run()
    matrix = pairs.matrix()
    share = matrix.cells["share"]
    # LEDBAT gives way to BBR.
    assert share[0][1] < 0.4 < 0.6 < share[1][0]
    assert share[0][1] + share[1][0] == pytest.approx(1, abs=0.1)
    goodput = matrix.cells["goodput"]
    assert goodput[0][1] > 0.5 > goodput[1][0]


SUITE = """
[[claims]]
id = "1"
topic = "alone"
source = "RFC 9743"
published = "it has a high rate"
measured = "mean(one.goodput_bps)"
accept = ["mean(one.goodput_bps) >= {bound}"]
seeds = 1
[claims.cases.one]
scenario = "../one.toml"
set = {{ "flows.0.cc" = "{{cc}}" }}
"""


@pytest.mark.parametrize(("bound", "code", "verdict"), [(1, 0, "met"), (1e9, 3, "not met")])
def test_the_command_judges_and_writes_a_report(
    cli: Command, tmp_path: Path, bound: float, code: int, verdict: str
) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "rfc9743.toml").write_text(SUITE.format(bound=bound))
    for name in ("one.toml", "pair.toml"):
        (tmp_path / name).write_text(SCENARIO)
    result = cli(
        *("evaluate", "cubic", "--quick", "--suite", "suite", "--scenarios", "."),
        *("--against", "reno", "--seeds", 1, "--out", "out", "--json"),
    )
    assert result.returncode == code, result.stderr
    value = json.loads(result.stdout)
    assert [row["verdict"] for row in value["criteria"]] == [verdict]
    assert value["matrix"]["controllers"] == ["cubic", "reno"]
    page = (tmp_path / "out" / "evaluation.html").read_text()
    assert "it has a high rate" in page
    assert (tmp_path / "out" / "matrix.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text())["controller"] == "cubic"


def test_no_criterion_is_not_all_criteria_met(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "rfc9743.toml").write_text("")
    result = cli("evaluate", "cubic", "--quick", "--suite", "suite", "--against", "reno")
    assert (result.returncode, result.stdout) == (2, "")
    assert "rfc9743.toml: no criterion" in result.stderr


def test_an_unknown_controller_is_bad_input(cli: Command) -> None:
    result = cli("evaluate", "cubci")
    assert result.returncode == 2
    assert "cubic" in result.stderr
