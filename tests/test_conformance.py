"""The draft's test cases: their files, their verdicts, and the command."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import paceline
from conftest import SCENARIO, Command
from paceline import guests
from paceline.study.conformance.case import CaseError, load
from paceline.study.conformance.draft import Cases, judge

ROOT = Path(__file__).parent.parent
DRAFT = ROOT / "data" / "conformance" / "draft-ietf-ccwg-bbr"

STEPS = """\
title = "A flow starts"

[[steps]]
number = 1
says = "it starts in STARTUP"
query = "SELECT phase = 'Startup' AS holds, phase FROM visits WHERE visit = 0"
"""


def case_of(folder: Path, steps: str) -> Path:
    (folder / "1-start.toml").write_text(SCENARIO)
    (folder / "1-start.steps.toml").write_text(steps)
    return folder


def verdict_of(folder: Path, controller: str = "bbr3") -> tuple[str, tuple[str, ...]]:
    [case] = load(folder)
    result = Cases([case], controller).run()[0]
    return result.verdict, result.evidence


def test_a_step_that_holds_passes_and_shows_what_was_found(tmp_path: Path) -> None:
    verdict, [line] = verdict_of(case_of(tmp_path, STEPS))
    assert verdict == "pass"
    assert line == "step 1 holds: it starts in STARTUP; phase Startup"


def test_a_step_that_does_not_hold_fails(tmp_path: Path) -> None:
    verdict, [line] = verdict_of(case_of(tmp_path, STEPS), "reno")
    assert verdict == "fail"
    assert line == "step 1 does not hold: it starts in STARTUP; phase SlowStart"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT phase = 'Nowhere' AS holds FROM visits WHERE phase = 'Nowhere'", "never reached"),
        ("SELECT MIN(nothing_bps) > 0 AS holds FROM samples", "not recorded"),
        ("SELECT NULL AS holds", "does not hold"),
        # No row breaks a rule where there is none, or where none has what the rule asks for.
        (
            "SELECT COUNT(*) FILTER (WHERE app_limited) = 0 AS holds, COUNT(*) AS samples_count "
            "FROM samples WHERE t_ns > 9000000000",
            "samples_count 0; nothing was measured",
        ),
        (
            "SELECT COUNT(*) FILTER (WHERE inflight_longterm_bytes < 0) = 0 AS holds "
            "FROM samples WHERE phase = 'Startup'",
            "nothing was measured",
        ),
        # Nothing is later than an event that did not happen.
        (
            "SELECT COUNT(*) = 0 AS holds FROM visits "
            "WHERE enter_ns > (SELECT t_ns FROM events WHERE key = 'rate')",
            "nothing was measured",
        ),
        # 0 of 0 packets are not more than 2 %.
        (
            "SELECT (MAX(lost_packets) - MIN(lost_packets)) / (MAX(t_ns) - MIN(t_ns)) > 0.02 "
            "AS holds FROM samples WHERE t_ns = 2000000000",
            "does not hold",
        ),
    ],
)
def test_what_is_not_there_does_not_hold(tmp_path: Path, query: str, message: str) -> None:
    before, _, _ = STEPS.partition("query")
    verdict, [line] = verdict_of(case_of(tmp_path, f'{before}query = "{query}"\n'))
    assert verdict == "fail"
    assert message in line


def test_what_is_measured_decides(tmp_path: Path) -> None:
    before, _, _ = STEPS.partition("query")
    for query, expected in (
        ("SELECT COUNT(*) FILTER (WHERE t_ns > 2000000000) = 0 AS holds FROM samples", "pass"),
        ("SELECT COUNT(*) FILTER (WHERE t_ns > 1000000000) = 0 AS holds FROM samples", "fail"),
        ("SELECT COUNT(*) = 0 AS holds FROM visits WHERE phase = 'Nowhere'", "pass"),
    ):
        assert verdict_of(case_of(tmp_path, f'{before}query = "{query}"\n'))[0] == expected


def test_a_record_without_states_of_bbr_is_not_judged_by_them(tmp_path: Path) -> None:
    cubic = paceline.run(SCENARIO, overrides={"flows.0.cc": "cubic"})
    bbr = paceline.run(SCENARIO)
    for case in load(DRAFT):
        result = judge(case, cubic)
        assert (result.verdict, result.judged) == ("not applicable", 0), case.id
        assert result.evidence == ("the record has no BBR states",)
    # It has states, and does not stay in Startup.
    [case] = [case for case in load(DRAFT) if case.id.startswith("07a")]
    assert judge(case, bbr).verdict == "fail"


def test_a_run_with_another_path_is_not_judged_by_a_case(cli: Command, tmp_path: Path) -> None:
    scenario = DRAFT / "01-startup-bandwidth-plateau.toml"
    paceline.run(scenario).write(tmp_path / "own")
    paceline.run(scenario, overrides={"path.rtt": "50 ms"}).write(tmp_path / "other")
    for name, verdict in (("own", "pass"), ("other", "not applicable")):
        [case] = json.loads(cli("conformance", name, "--case", "01", "--json").stdout)["cases"]
        assert case["verdict"] == verdict
    assert "other has another path" in case["evidence"]


def test_a_case_of_behaviour_is_judged_without_states(tmp_path: Path) -> None:
    before, _, _ = STEPS.partition("query")
    [case] = load(case_of(tmp_path, f'{before}query = "SELECT COUNT(*) > 0 AS holds FROM samples"'))
    assert judge(case, paceline.run(SCENARIO, overrides={"flows.0.cc": "cubic"})).verdict == "pass"


def test_an_expected_failure_is_told_apart_and_has_to_happen(tmp_path: Path) -> None:
    expected = '[expected.reno]\n1 = "it has slow start instead"\n'
    folder = case_of(tmp_path, f"{STEPS}\n{expected}")
    verdict, [line] = verdict_of(folder, "reno")
    assert verdict == "expected fail"
    assert line.endswith("[expected: it has slow start instead]")
    assert verdict_of(folder, "bbr3")[0] == "pass"
    case_of(tmp_path, f"{STEPS}\n{expected.replace('reno', 'bbr3')}")
    verdict, [_, line] = verdict_of(folder, "bbr3")
    assert verdict == "fail"
    assert "expected to fail" in line


def test_variants_set_values_and_are_judged_each(tmp_path: Path) -> None:
    variant = """
[[variants]]
name = "slow"
set = { "path.rate" = "1 Mbit/s" }
expected = { 2 = "the path is slow" }
"""
    step = """
[[steps]]
number = 2
says = "the path is fast"
query = "SELECT link_bps = 10000000 AS holds, link_bps FROM path"
"""
    verdict, lines = verdict_of(case_of(tmp_path, STEPS + step + variant))
    assert verdict == "expected fail"
    assert [line.split(":")[0] for line in lines] == [
        "step 1 holds",
        "step 2 holds",
        "step 1 (slow) holds",
        "step 2 (slow) does not hold",
    ]
    assert "link_bps 1.000 Mbit/s" in lines[3]
    # A reason that no longer holds is reported.
    verdict, lines = verdict_of(
        case_of(tmp_path, STEPS + step + variant.replace("1 Mbit/s", "10 Mbit/s"))
    )
    assert verdict == "fail"
    assert "expected to fail: the path is slow" in lines[3]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("title = 'x'", "no [[steps]]"),
        (STEPS.replace("title", "titel"), "unknown key 'titel'"),
        (STEPS.replace("number = 1", "number = 'one'"), "number"),
        (STEPS.replace("says", "say"), "unknown key 'say'"),
        (STEPS.replace("SELECT", "SELEC"), "step 1: its query is a query"),
        (STEPS.replace("FROM visits", "FROM read_csv('/etc/passwd')"), "step 1: its query may not"),
        (f"{STEPS}[expected.bbr3]\n7 = 'x'\n", "no step has that number"),
        ("title = ", "steps.toml"),
    ],
)
def test_a_broken_file_of_steps_is_named(tmp_path: Path, steps: str, message: str) -> None:
    with pytest.raises(CaseError, match="1-start") as error:
        load(case_of(tmp_path, steps))
    assert message in str(error.value)


def test_a_query_that_cannot_be_asked_is_an_error(tmp_path: Path) -> None:
    for query in ("SELECT 1 AS other", "SELECT t_ns > 0 AS holds FROM samples"):
        before, _, _ = STEPS.partition("query")
        [case] = load(case_of(tmp_path, f'{before}query = "{query}"\n'))
        with pytest.raises(CaseError, match="1-start, step 1"):
            Cases([case], "bbr3").run()


def test_all_of_the_drafts_cases_are_there() -> None:
    # Case 7 is of two states, and has two files.
    numbers = {case.id.split("-")[0].rstrip("ab") for case in load(DRAFT)}
    assert numbers == {f"{number:02}" for number in range(1, 23)}


@pytest.mark.parametrize("controller", ["bbr3", "bbr3-linux"])
def test_the_drafts_cases(cli: Command, controller: str) -> None:
    result = cli("conformance", controller, "--cases", DRAFT, "--json")
    cases = json.loads(result.stdout)["cases"]
    assert [case["id"] for case in cases if case["verdict"] == "fail"] == []
    assert result.returncode == 0
    assert {case["controller"] for case in cases} == {controller}


def test_only_the_traces_that_were_asked_for_are_replayed() -> None:
    replayed: list[str] = []

    def is_wanted(id_: str) -> bool:
        replayed.append(id_)
        return len(replayed) == 2

    rows = paceline._paceline.golden_traces(ROOT / "data" / "conformance" / "linux-bbr", is_wanted)
    assert [row["id"] for row in rows] == [replayed[1]]
    assert len(replayed) == 31


def test_the_command_names_what_it_does_not_know(cli: Command, tmp_path: Path) -> None:
    folder = case_of(tmp_path, STEPS)
    result = cli("conformance", "bbr4", "--cases", folder)
    assert result.returncode == 2
    assert "did you mean bbr" in result.stderr
    result = cli("conformance", "--case", "2-start", "--cases", folder)
    assert result.returncode == 2
    assert "did you mean 1-start" in result.stderr
    assert cli("conformance", "--cases", tmp_path / "nowhere").returncode == 2
    result = cli("conformance", "--case", "1", "--cases", folder)
    assert result.returncode == 0
    assert "step 1 holds" in result.stdout
    assert cli("conformance", "reno", "--cases", folder).returncode == 3


RECOVERY = ROOT / "data" / "conformance" / "linux-recovery"

SCRIPT = """\
[loss]
about = "One segment is lost"
writes = [{ segments = 40 }]
drop = ["15"]
"""


def scripts_of(folder: Path, script: str = SCRIPT, trace: str | None = None) -> Path:
    (folder / "loss.toml").write_text(script)
    if trace is not None:
        (folder / "loss.txt").write_text(f"[other]\n# Linux\n[loss]\n{trace}")
    return folder


def test_recovery_is_compared_with_linux(cli: Command) -> None:
    result = cli("conformance", "--recovery", RECOVERY, "--case", "recovery", "--json")
    cases = json.loads(result.stdout)["cases"]
    assert result.returncode == 0
    names = [name for file in RECOVERY.glob("*.toml") for name in tomllib.loads(file.read_text())]
    assert sorted(case["id"] for case in cases) == sorted(f"recovery/{name}" for name in names)
    assert {case["suite"] for case in cases} == {"linux-recovery"}
    result = cli("conformance", "--recovery", RECOVERY, "--case", "recovery/loss-one")
    assert "Linux 6.18" in result.stdout
    assert "1 of them again" in result.stdout


def test_a_sender_that_does_otherwise_is_shown(cli: Command, tmp_path: Path) -> None:
    trace = "# Linux\n" + "".join(f"0.0 {number}#1\n" for number in range(1, 11)) + "90.0 12#1\n"
    result = cli("conformance", "--recovery", scripts_of(tmp_path, trace=trace))
    assert result.returncode == 3
    assert "transmission 11: Linux sends 90.0 ms 12#1, we 100.0 ms 11#1" in result.stdout
    # A reason makes it expected, and has to be needed.
    scripts_of(tmp_path, f'{SCRIPT}differs = "a test"\nlinux_differs = "a test"\n')
    result = cli("conformance", "--recovery", tmp_path, "--json")
    [case] = json.loads(result.stdout)["cases"]
    assert (result.returncode, case["verdict"]) == (0, "expected fail")
    assert "[expected: a test]" in case["evidence"]


@pytest.mark.parametrize(
    ("script", "trace", "message"),
    [
        (SCRIPT, None, "loss.txt"),
        (SCRIPT, "# Linux\nx\n", "line 5 is none of a trace"),
        (SCRIPT.replace("[loss]", "[last]"), "# Linux\n", "no [last]"),
    ],
)
def test_a_script_without_a_trace_fails(
    cli: Command, tmp_path: Path, script: str, trace: str | None, message: str
) -> None:
    result = cli("conformance", "--recovery", scripts_of(tmp_path, script, trace), "--json")
    assert result.returncode == 3
    assert message in result.stdout


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("about = 1", "loss.toml"),
        (f"{SCRIPT}drops = []", "drops"),
        (SCRIPT.replace("15", "x"), "picks nothing"),
        (SCRIPT.replace("40", "0"), "nothing is written"),
    ],
)
def test_a_broken_script_is_named(cli: Command, tmp_path: Path, script: str, message: str) -> None:
    result = cli("conformance", "--recovery", scripts_of(tmp_path, script))
    assert result.returncode == 2
    assert message in result.stderr
    assert cli("conformance", "--recovery", tmp_path / "nowhere").returncode == 2


def test_only_a_kernel_is_recorded(cli: Command, tmp_path: Path) -> None:
    result = cli("conformance", "--recovery", RECOVERY, "--record", tmp_path / "new")
    assert result.returncode == 2
    assert "--live" in result.stderr
    result = cli("conformance", "--recovery", RECOVERY, "--live", "--record", tmp_path)
    assert result.returncode == 2
    assert "nothing is overwritten" in result.stderr


#: A transport with a fixed window that goes through these states, 200 ms each, and reports them.
STATES_IN_C = """
#include <string.h>
#define paceline_stack_get fixed_stack_get
#include "{fixed}"
#undef paceline_stack_get
static paceline_string phase(const void *state) {{
    static const char *const NAMES[] = {{{names}}};
    const struct end *end = state;
    size_t number = (size_t)(end->now / 200000000);
    size_t count = sizeof NAMES / sizeof *NAMES;
    const char *name = NAMES[number < count ? number : count - 1];
    return (paceline_string){{name, strlen(name)}};
}}
uint32_t paceline_stack_get(size_t index, struct paceline_stack *out, size_t out_size) {{
    static struct paceline_stack table;
    uint32_t status = fixed_stack_get(index, &table, sizeof table);
    table.phase = phase;
    table.controllers = (paceline_string){{"any", 3}};
    memcpy(out, &table, out_size < sizeof table ? out_size : sizeof table);
    return status;
}}
"""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Bring a stack whose controller enters these states; return the controller's name."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")

    def brought(*names: str) -> str:
        quoted = ", ".join(f'"{name}"' for name in names)
        fixed = ROOT / "examples" / "transport-c" / "fixed.c"
        source, library = tmp_path / "states.c", tmp_path / "states.so"
        source.write_text(STATES_IN_C.format(fixed=fixed, names=quoted))
        include = ["-I", str(ROOT / "crates" / "capi" / "include")]
        command = [compiler, "-O1", "-fPIC", "-shared", *include, str(source), "-o", str(library)]
        subprocess.run(command, check=True)
        guests.choose([guests.Guest.parse(f"states={library}")])
        return "states:any"

    yield brought
    guests.choose(())


def test_a_stack_that_reports_the_states_is_judged_by_them(
    stack: Callable[..., str], tmp_path: Path
) -> None:
    folder = case_of(tmp_path, STEPS)
    assert verdict_of(folder, stack("Startup", "Drain"))[0] == "pass"
    assert verdict_of(folder, stack("Drain", "Startup"))[0] == "fail"


@pytest.mark.parametrize(
    ("states", "why"),
    [
        (("",), "the record has no BBR states"),
        (("SlowStart",), "the record has no BBR states"),
        (("Startup", "ProbeBW"), "its PROBE_BW is not divided, as in BBRv1"),
    ],
)
def test_a_stack_without_the_states_is_not_judged_by_them(
    stack: Callable[..., str], tmp_path: Path, states: tuple[str, ...], why: str
) -> None:
    verdict, [line] = verdict_of(case_of(tmp_path, STEPS), stack(*states))
    assert (verdict, why in line) == ("not applicable", True), line


def test_a_stack_that_never_says_that_it_is_limited_is_not_judged_by_that(
    stack: Callable[..., str], tmp_path: Path
) -> None:
    before, _, _ = STEPS.partition("query")
    query = "SELECT COUNT(*) FILTER (WHERE NOT app_limited) = 0 AS holds FROM samples"
    verdict, [line] = verdict_of(
        case_of(tmp_path, f'{before}query = "{query}"\n'), stack("Startup")
    )
    assert verdict == "not applicable"
    assert "it never says that the application limits it" in line


def test_a_stack_is_not_judged_by_a_loss_recovery_that_it_does_not_report(
    stack: Callable[..., str], tmp_path: Path
) -> None:
    before, _, _ = STEPS.partition("query")
    query = "SELECT COUNT(*) > 0 AS holds FROM events WHERE kind = 'recovery'"
    folder = case_of(tmp_path, f'{before}query = "{query}"\n')
    verdict, [line] = verdict_of(folder, stack("Startup"))
    assert verdict == "not applicable"
    assert "it does not say when it enters, leaves or undoes a loss recovery" in line


def test_a_folder_of_stacks_brings_several_targets(
    cli: Command, stack: Callable[..., str], tmp_path: Path
) -> None:
    stack("Startup", "Drain")
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("one.so", "two.so"):
        shutil.copy(tmp_path / "states.so", libraries / name)
    targets = ("one:any", "two:any")
    cases = ("--cases", case_of(tmp_path, STEPS))
    result = cli("conformance", *targets, "--controller", libraries, *cases, "--json")
    verdicts = [
        (case["controller"], case["verdict"]) for case in json.loads(result.stdout)["cases"]
    ]
    assert verdicts == [(target, "pass") for target in targets]
    result = cli("conformance", "one:any", "--controller", tmp_path / "none", *cases)
    assert "loads NAME=FILE or a folder of stacks" in result.stderr


def test_a_stack_may_pass_a_step_that_is_expected_to_fail(
    stack: Callable[..., str], tmp_path: Path
) -> None:
    variant = '[[variants]]\nname = "slow"\nset = { "path.rate" = "5 Mbit/s" }\n'
    folder = case_of(tmp_path, f'{STEPS}\n{variant}expected = {{ 1 = "the draft\'s" }}\n')
    assert verdict_of(folder, stack("Startup"))[0] == "pass"
