"""Verdicts of claims: bounds and who set them, choices, variants, findings and mutants."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from conftest import SCENARIO, Command
from paceline.study.claims import ClaimError, load
from paceline.study.claims.reader import parse
from paceline.study.claims.results import tally
from paceline.study.claims.where import lines

ROOT = Path(__file__).parent.parent

CLAIM = """\
[[claims]]
id = "V1"
topic = "test"
source = "none"
published = "the queue is short"
measures = "largest queue"
measured = "median(a.queue_max_bytes)"
accept = [
  {{ that = "the queue is short", is = "{stat}(a.queue_max_bytes) < {most}", by = "ours", reason = "why not", corrected = "it was 1: a guess" }},
  {{ that = "the link is used", is = "median(a.utilisation_ratio) > 0.1", by = "source" }},
]
seeds = 3
{more}
[claims.cases.a]
scenario = "../small.toml"
set = {{ "path.queue.size" = "0.5 bdp" }}
[claims.cases.deep]
scenario = "../small.toml"
set = {{ "path.queue.size" = "4 bdp", "flows.0.cc" = "cubic" }}
"""  # noqa: E501


@pytest.fixture
def run_claim(cli: Command, tmp_path: Path) -> Any:
    (tmp_path / "small.toml").write_text(SCENARIO)
    (tmp_path / "claims").mkdir()

    def run(
        most: int, more: str, *options: str, stat: str = "median"
    ) -> tuple[dict[str, Any], int]:
        text = CLAIM.format(most=most, more=more, stat=stat)
        (tmp_path / "claims" / "v.toml").write_text(text)
        result = cli("claims", "--json", "--quiet", *options)
        return json.loads(result.stdout), result.returncode

    return run


def test_each_bound_says_who_set_it(run_claim: Any, cli: Command, tmp_path: Path) -> None:
    value, code = run_claim(10**9, "")
    first, second = value["claims"][0]["accept"]
    assert (first["by"], first["reason"]) == ("ours", "why not")
    assert (second["by"], second["reason"], second["corrected"]) == ("source", "", "")
    assert value["claims"][0]["verdict"] == "reproduced"
    assert code == 0
    printed = cli("claims", "--out", "page").stdout
    assert (
        "V1: corrected: the queue is short. Old bound: it was 1; changed because a guess" in printed
    )
    page = (tmp_path / "page" / "claims.html").read_text()
    assert "bound of ours: why not. Old bound: it was 1; changed because a guess" in page
    assert "bound of the source" in page


def test_a_choice_is_said_with_what_the_others_give(run_claim: Any) -> None:
    more = """
choice = "the buffer, half a BDP"
[claims.choices]
"4 bdp" = { that = "four BDP", set = { "path.queue.size" = "4 bdp" }, cases = ["a"] }
there = { that = "four BDP and CUBIC", measured = "median(deep.queue_max_bytes)" }
"""
    value, code = run_claim(20_000, more)
    (claim,) = value["claims"]
    assert (claim["verdict"], code) == ("reproduced by choice", 0)
    run, beside = claim["choices"]
    assert run["measured"] > claim["measured"]
    assert not run["held"]
    assert "the queue is short" in run["found"]
    assert beside["measured"] > claim["measured"]


def test_a_cause_is_shown_by_a_variant(run_claim: Any) -> None:
    more = """
why = "The buffer is too deep."
[claims.variants]
shallow = { that = "no buffer", set = { "path.queue.size" = "0.1 bdp" }, cases = ["a"] }
half = { that = "a fifth", set = { "path.queue.size" = "0.1 bdp" }, halves = "median(a.queue_max_bytes)", seeds = 4 }
none = { that = "CUBIC", set = { "flows.0.cc" = "cubic" }, halves = "median(a.queue_max_bytes)" }
"""  # noqa: E501
    value, code = run_claim(4_000, more)
    (claim,) = value["claims"]
    assert (claim["verdict"], code) == ("not reproduced", 3)
    shallow, half, none = claim["variants"]
    assert shallow["held"]
    assert shallow["found"] == "every bound holds"
    assert half["held"]
    assert half["found"].startswith("the gap is ")
    assert not none["held"]


def test_a_finding_has_no_publication_to_agree_with(run_claim: Any) -> None:
    value, code = run_claim(10**9, "finding = true")
    assert (value["claims"][0]["verdict"], code) == ("finding", 0)
    # A finding that no longer holds is detected.
    value, code = run_claim(1, "finding = true")
    assert (value["claims"][0]["verdict"], code) == ("finding", 3)
    assert "fails: the queue is short" in value["claims"][0]["why"]


MUTANTS = """
[claims.mutants]
deep = { that = "without the small buffer", set = { "path.queue.size" = "4 bdp" } }
cubic = { that = "CUBIC in its place", swap = { a = "deep" } }
same = { that = "another seed of nothing", set = { "path.loss" = "0 %" } }
broken = { that = "a key that does not exist", set = { "path.quee.size" = "4 bdp" } }
"""


def test_a_mutant_must_fail_at_the_same_seeds(run_claim: Any, cli: Command) -> None:
    value, code = run_claim(20_000, MUTANTS, "--mutants")
    by_name = {mutant["mutant"]: mutant for mutant in value["mutants"]}
    assert code == 3
    assert [by_name[name]["outcome"] for name in ("deep", "cubic", "same", "broken")] == [
        "fails",
        "fails",
        "survives",
        "error",
    ]
    assert (by_name["deep"]["draws"], by_name["deep"]["of"]) == (3, 3)
    assert "the queue is short" in by_name["deep"]["found"]
    printed = cli("claims", "--mutants").stdout
    assert "4 mutants: 1 error, 2 fails, 1 survives (each must fail)" in printed


def test_mutants_of_a_claim_that_does_not_hold_are_not_judged(run_claim: Any) -> None:
    value, code = run_claim(1, MUTANTS, "--mutants", "--quick")
    assert {mutant["outcome"] for mutant in value["mutants"]} == {"not judged"}
    assert (value["quick"], code) == (True, 0)


def test_most_of_the_draws_must_agree(run_claim: Any) -> None:
    """A bound that one seed decides does not distinguish a claim from its mutant."""
    more = """
[claims.mutants]
one = { that = "the buffer of one seed", swap = { a = "odd" } }
[claims.cases.odd]
scenario = "../small.toml"
vary = { "path.queue.size" = ["4 bdp", "0.5 bdp", "0.5 bdp"] }
"""
    (one,) = run_claim(20_000, more, "--mutants", stat="mean")[0]["mutants"]
    assert "(42.50 kB)" in one["found"]
    assert (one["outcome"], one["draws"], one["of"]) == ("survives", 2, 3)
    # The short form has too few seeds to leave one out.
    (one,) = run_claim(20_000, more, "--mutants", "--quick", stat="mean")[0]["mutants"]
    assert (one["outcome"], one["draws"], one["of"]) == ("fails", 0, 0)
    more = more.replace("swap", 'long = "two seeds are too few", swap', 1)
    value, code = run_claim(20_000, more, "--mutants", "--quick", stat="mean")
    assert (value["error"]["kind"], code) == ("no-mutants", 2)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("seeds = 3", "seds = 3", 12, "did you mean 'seeds'"),
        ('by = "source"', 'by = "them"', 10, "'by' is source or ours, not 'them'"),
        (' reason = "why not",', "", 9, "needs a 'reason'"),
        ('that = "the link', 'tht = "the link', 10, "did you mean 'that'"),
        ("set = {", "sett = {", 16, "did you mean 'set'"),
        ("seeds = 3", "seeds = 3\nfinding = 1", 13, "'finding' is true or false"),
        ("seeds = 3", 'seeds = 3\nmutants.x = { that = "x" }', 13, "changes nothing"),
        ("seeds = 3", "seeds = 3\nmutants.x = { set = {} }", 13, "that = SENTENCE"),
        (
            "seeds = 3",
            'seeds = 3\nmutants.x = { that = "x", conformance = "bbr2" }',
            13,
            "'conformance' is",
        ),
        (
            "seeds = 3",
            'seeds = 3\nmutants.x = { that = "x", swap = { a = "dep" } }',
            13,
            "did you mean 'deep'",
        ),
        (
            "seeds = 3",
            'seeds = 3\nchoices.x = { that = "x", swap = { a = "deep" } }',
            13,
            "'choices' needs a 'choice'",
        ),
        (
            "seeds = 3",
            'seeds = 3\nvariants.x = { that = "x", sets = { } }',
            13,
            "did you mean 'set'",
        ),
    ],
)
def test_a_wrong_claim_is_said_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    text = CLAIM.format(most=1, more="", stat="median")
    assert old in text
    with pytest.raises(ClaimError, match=message) as error:
        parse(text.replace(old, new, 1), tmp_path / "v.toml")
    assert str(error.value).startswith(f"{tmp_path / 'v.toml'}:{line}: V1")
    assert (error.value.file, error.value.line) == (tmp_path / "v.toml", line)


def test_the_line_reaches_the_command(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    text = CLAIM.format(most=1, more="", stat="median").replace("seeds = 3", "seds = 3")
    (tmp_path / "claims" / "v.toml").write_text(text)
    result = cli("claims", "--json")
    assert result.returncode == 2
    error = json.loads(result.stdout)["error"]
    assert (error["line"], Path(error["file"]).name) == (12, "v.toml")


def test_lines_of_claims() -> None:
    text = (
        '[[claims]]\nid = """\nx = 1\n"""\n[claims.a."b c"]\nd = [\n  "e",\n]\n[[claims]]\nf.g = 1'
    )
    numbers = lines(text)
    assert numbers[0, "id"] == 2
    assert (0, "x") not in numbers
    assert numbers[0, "a", "b c"] == 5
    assert numbers[0, "a", "b c", "d", 0] == 7
    assert numbers[1, "f", "g"] == 10


def test_verdicts_are_counted() -> None:
    verdicts = ["reproduced", "reproduced by choice", "not reproduced", "finding", "error"]
    assert (
        tally(verdicts)
        == "2 of 4 claims reproduced, 1 of them under a stated assumption; 1 finding"
    )
    assert tally(["reproduced"]) == "1 of 1 claims reproduced"


def test_shipped_bounds_say_who_set_them() -> None:
    """What a source states and what is ours are distinguished in each file."""
    for path in sorted((ROOT / "data" / "claims").glob("*.toml")):
        if path.name == "emulation.toml":
            continue
        for claim in load_one(path):
            for number, bound in enumerate(claim["accept"]):
                by = bound.get("by", claim.get("by"))
                assert by in ("source", "ours"), f"{path.name}: {claim['id']}, bound {number}"


#: Claims of each kind whose short form and mutants together send few packets: half a minute of
#: processor time.
SHORT = (
    *("A4", "A6", "B1", "B1-leave", "B3-changes", "B4-v1", "C6", "C12", "D4", "D10-rtt"),
    *("E1-random", "H1", "Q3"),
)


def test_mutants_of_shipped_claims_fail(cli: Command) -> None:
    """Those of `SHORT`; `make ci-full` runs all that have a short form that holds."""
    some = () if os.environ.get("PACELINE_FULL") else SHORT
    result = cli(
        "claims", *some, "--claims", ROOT / "data" / "claims", "--mutants", "--quick", "--json"
    )
    outcomes = {
        (m["claim"], m["mutant"]): m["outcome"] for m in json.loads(result.stdout)["mutants"]
    }
    judged = {name: outcome for name, outcome in outcomes.items() if outcome != "not judged"}
    assert {claim for claim, _ in judged} >= set(SHORT)
    assert set(judged.values()) == {"fails"}, outcomes
    assert result.returncode == 0


def load_one(path: Path) -> list[dict[str, Any]]:
    import tomllib

    return tomllib.loads(path.read_text())["claims"]  # type: ignore[no-any-return]


def test_shipped_claims_carry_mutants() -> None:
    """A claim that is reproduced shows that it can fail."""
    without = {
        claim.id
        for claim in load(ROOT / "data" / "claims")
        if claim.backend == "sim" and not claim.mutants and not claim.finding and not claim.why
    }
    # The derivation and its simulator have no scenario in which anything could be taken away: their
    # unit tests compare every digit.
    assert without <= {"A1", "A2", "A3"}
