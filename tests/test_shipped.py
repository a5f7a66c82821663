"""What comes with the package, files to begin with, and what shipped scenarios show."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import paceline
from conftest import Command
from paceline import shipped

ROOT = Path(__file__).parent.parent


def test_a_scenario_is_found_by_its_name() -> None:
    paths = {
        "bbr3/cellular": "bbr3/cellular.toml",
        "cellular": "bbr3/cellular.toml",
        "scenarios/bbr3/cellular.toml": "bbr3/cellular.toml",
        "four-flows": "bbr3/four-flows-50M-40ms-1bdp.toml",
        "four-flows-50M-40ms-100bdp": "bbr3/four-flows-50M-40ms-100bdp.toml",
        "transperf/four-flows": "transperf/four-flows-50M-40ms-1bdp.toml",
    }
    root = shipped.folder("scenarios")
    for name, path in paths.items():
        assert shipped.scenario(name) == root / path, name
    for name in ("four-fl", "", "cellular/", "kernel", "../bbr3/cellular"):
        assert shipped.scenario(name) is None, name


def test_what_comes_with_the_package_can_be_run_from_anywhere(cli: Command) -> None:
    names = [
        row["name"] for row in json.loads(cli("list", "scenarios", "--json").stdout)["scenarios"]
    ]
    assert "bbr3/four-flows-50M-40ms-1bdp" in names
    done = cli("run", "startup-50M", "--set", 'run.duration="1 s"', "--json")
    assert done.returncode in (0, 3), done.stderr
    assert json.loads(done.stdout)["scenario"] == "startup-50M-40ms"
    assert cli("check", "cellular").returncode == 0
    claims = [row["name"] for row in json.loads(cli("list", "claims", "--json").stdout)["claims"]]
    assert "A1" in claims
    assert cli("claims", "A1", "--quick").returncode == 0
    done = cli("conformance", "--quick", "--case", "01", "--json")
    assert [case["verdict"] for case in json.loads(done.stdout)["cases"]] == ["pass"]
    # What is here goes before what comes with the package.
    Path("scenarios").mkdir()
    Path("scenarios/own.toml").write_text('schema = 1\nabout = "mine"\n')
    names = [
        row["name"] for row in json.loads(cli("list", "scenarios", "--json").stdout)["scenarios"]
    ]
    assert names == ["scenarios/own.toml"]


def test_what_init_writes_can_be_run_as_it_is(cli: Command) -> None:
    answer = json.loads(cli("init", "--json").stdout)
    assert answer == {"schema": answer["schema"], "file": "scenario.toml", "then": answer["then"]}
    done = cli(*answer["then"].split()[1:], "--set", 'run.duration="4 s"')
    assert done.returncode == 0, done.stderr
    answer = json.loads(cli("init", "--controller", "own.py", "--json").stdout)
    assert "own.py" in Path("own.py").read_text()
    done = cli(*answer["then"].split()[1:], "--set", 'run.duration="10 s"')
    assert done.returncode == 0, done.stderr + done.stdout
    answer = json.loads(cli("init", "--controller", "own.c", "--json").stdout)
    assert Path("paceline_controller.h").is_file()
    compiler, run = answer["then"].split(" && ")
    if shutil.which("cc") is not None:
        subprocess.run(compiler.split(), check=True)
        done = cli(*run.split()[1:], "--set", 'run.duration="10 s"')
        assert done.returncode == 0, done.stderr + done.stdout
    written = Path("scenario.toml").read_bytes()
    done = cli("init")
    assert done.returncode == 2
    assert "exists" in done.stderr
    assert Path("scenario.toml").read_bytes() == written


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_takes_its_completion(cli: Command, tmp_path: Path, shell: str) -> None:
    script = cli("completion", shell).stdout
    for word in ("sweep", "conformance", "--controller"):
        assert word in script
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell}")
    path = tmp_path / "script"
    path.write_text(script)
    # It is read without being executed.
    done = subprocess.run(
        [program, "-n", path], capture_output=True, text=True, env=dict(os.environ)
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_controller_of_ones_own_is_judged_by_behaviour(cli: Command) -> None:
    cli("init", "--controller", "own.py")
    names = ("07a", "07b", "12", "01")
    done = cli(
        "conformance", "mine", "--quick", "--case", *names, "--controller", "mine=own.py", "--json"
    )
    cases = json.loads(done.stdout)["cases"]
    assert {case["id"][:3]: case["verdict"] for case in cases} == {
        "01-": "not applicable",
        "07a": "pass",
        "07b": "not applicable",
        "12-": "pass",
    }
    evidence = {case["id"][:3]: case["evidence"] for case in cases}
    assert "`mine` has no state `ProbeBW_UP`" in evidence["07b"]
    assert "steps 3, 4 ask for variables of bbr3" in evidence["12-"]
    assert "the record has no BBR states" in evidence["12-"]
    assert all(case["controller"] == "mine" for case in cases)


#: What recovery reports to controllers is decided by the sources' text.
_DECIDED = (
    "recovery/without-sack.toml",
    "recovery/after-idle.toml",
    "data-centre/receivers-take-300us.toml",
)


@pytest.mark.parametrize("name", _DECIDED)
def test_expectations_hold(name: str, cli: Command) -> None:
    result = cli("run", str(ROOT / "data" / "scenarios" / name), "--json")
    assert '"held"' in result.stdout
    assert result.returncode == 0, result.stdout


#: LEDBAT++ beside BBR.
LEDBAT = ROOT / "data/scenarios/bbr-vs-ledbat/bbr-with-ledbat.toml"
TABLES = ("flows", "samples", "queue", "events")


def tables(folder: Path, rule: str, rtt: str) -> dict[str, bytes]:
    overrides = {
        "run.duration": "40 s",
        "path.rtt": rtt,
        "flows.1.cc.name": "ledbat++",
        "flows.1.cc.target_rule": rule,
    }
    run = folder / f"{rule} {rtt}"
    paceline.run(LEDBAT, seed=1, overrides=overrides).write(run)
    return {table: (run / f"{table}.parquet").read_bytes() for table in TABLES}


@pytest.mark.parametrize("rtt", ["60 ms", "61 ms", "100 ms"])
def test_the_modified_target_changes_nothing_from_60_ms_on(rtt: str, tmp_path: Path) -> None:
    assert tables(tmp_path, "min-base-rtt", rtt) == tables(tmp_path, "fixed", rtt)


def test_the_modified_target_changes_the_record_below_60_ms(tmp_path: Path) -> None:
    # A packet's time on the link, 0.6 ms, counts to the base RTT.
    modified, fixed = (tables(tmp_path, rule, "58 ms") for rule in ("min-base-rtt", "fixed"))
    assert modified["samples"] != fixed["samples"]


# A parking lot: Google's fluid model of BBR, and the packets of ours.


SCENARIO = Path(__file__).parent.parent / "data" / "scenarios" / "topology" / "parking-lot.toml"
GAINS = (1.25, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
RATE = 10.0


def fluid(phases: int) -> list[list[float]]:
    """Return the three flows' bandwidth estimates after each phase.

    Each sends at its gain times the largest of its last ten receive rates; a link is full and is
    shared in proportion to what comes in. The first flow crosses both links.
    """
    filters = [[0.0] * 9 + [RATE / 2] for _ in range(3)]
    table = []
    for phase in range(phases):
        long, first, second = (
            GAINS[(phase + offset) % len(GAINS)] * max(rates)
            for offset, rates in zip((0, 2, 4), filters, strict=True)
        )
        between = RATE * long / (long + first)
        received = (
            RATE * between / (between + second),
            RATE * first / (long + first),
            RATE * second / (between + second),
        )
        for rates, rate in zip(filters, received, strict=True):
            rates[phase % len(rates)] = rate
        table.append([max(rates) for rates in filters])
    return table


def test_the_fluid_model_gives_what_google_printed() -> None:
    rates = fluid(500)
    assert rates[0] == pytest.approx([5.263, 5.000, 5.000], abs=5e-4)
    assert rates[99] == pytest.approx([3.266, 7.319, 7.467], abs=5e-4)
    assert rates[499] == pytest.approx([2.962, 7.630, 7.763], abs=5e-4)


def test_packets_go_where_the_fluid_says() -> None:
    run = paceline.run(SCENARIO)
    long, first, second = (flow["goodput_bps"] / 1e6 for flow in run.flow_metrics)
    model = fluid(500)[-1]
    # Packets are dropped on either link where the fluid is only thinned.
    assert 0.1 * RATE < long < model[0]
    assert first == pytest.approx(model[1], rel=0.1)
    assert second == pytest.approx(model[2], rel=0.1)
    assert long + first > 0.93 * RATE
    assert long + second > 0.93 * RATE
