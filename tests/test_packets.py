"""`paceline conformance` by packets: right flows, seeded defects, other algorithms, recordings."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest

import paceline
from paceline.errors import UnjudgeableError
from paceline.exchange import export
from paceline.study.conformance.drawn import draw
from paceline.study.conformance.packets import (
    SHADOWS,
    Judged,
    _handshake,
    agreement,
    causes,
    judge,
    ordered,
)

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from judged import BBR3, RULES

if TYPE_CHECKING:
    from conftest import Command

ROOT = Path(__file__).parents[1]
DRAFT = ROOT / "data" / "conformance" / "draft-ietf-ccwg-bbr"
PLAIN = DRAFT / "b2-100M-10ms.toml"
#: At 20 Mbit/s and 100 ms the time identifies each packet.
SLOW = DRAFT / "b1-20M-100ms.toml"


def recorded(path: Path = PLAIN, cc: str = "bbr3", **options: object) -> paceline.Run:
    """Run a baseline with this controller, and record its packets."""
    own = {f"flows.0.cc.{option}": value for option, value in options.items()}
    return paceline.run(path, overrides={"run.record.packets": True, "flows.0.cc": cc, **own})


@pytest.fixture(scope="module")
def right() -> paceline.Run:
    return recorded()


@pytest.mark.parametrize("path", sorted(DRAFT.glob("b?-*.toml")), ids=lambda path: path.stem)
def test_the_drafts_bbr_keeps_to_what_its_shadow_allows(path: Path) -> None:
    """Also with losses, and beside another flow; and the shadow's states are the flow's own."""
    run = recorded(path)
    (judged,) = judge(run, 0, ["bbr3"])
    assert judged.having("broken") == []
    assert judged.verdict == "fits"
    assert (agreement(run, 0, judged) or 0) > 0.98


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_judged_leaves_out_is_in_the_source_once(rule: str) -> None:
    name, old, _ = RULES[rule]
    assert (ROOT / BBR3 / name).read_text().count(old) == 1


@pytest.mark.parametrize("cc", SHADOWS)
def test_each_algorithm_is_known_by_its_packets(cc: str) -> None:
    # Only an ACK for more than two packets tells Linux's Reno from the RFC's.
    stretched = {"path.return.ack_thinning": "3 packets"} if cc.startswith("reno") else {}
    overrides = {"run.record.packets": True, "flows.0.cc": cc, **stretched}
    first, *_ = judge(paceline.run(SLOW, overrides=overrides), 0)
    assert (first.name, first.verdict) == (cc, "fits")


@pytest.mark.parametrize("path", sorted(DRAFT.glob("b?-*.toml")), ids=lambda path: path.stem)
@pytest.mark.parametrize("cc", ["cubic", "cubic-linux", "reno", "reno-linux"])
def test_a_window_is_followed_through_losses(cc: str, path: Path) -> None:
    (judged,) = judge(recorded(path, cc), 0, [cc])
    assert judged.having("broken") == []
    assert judged.likeness > 0.99


@pytest.mark.parametrize(
    ("cc", "option", "value", "check"),
    [
        ("cubic", "beta", 0.5, "cut"),
        ("cubic", "beta", 0.85, "avoidance.most"),
        ("cubic", "c", 1.2, "avoidance.most"),
        ("reno", "beta", 0.8, "cut"),
    ],
)
def test_a_loss_based_defect_breaks_its_own_check(
    cc: str, option: str, value: float, check: str
) -> None:
    (judged,) = judge(recorded(SLOW, cc, **{option: value}), 0, [cc])
    assert check in [one["id"] for one in judged.having("broken")]


@pytest.mark.parametrize("cc", ["cubic", "reno", "bbr1", "bbr2"])
def test_what_is_not_the_drafts_bbr_breaks_it(cc: str) -> None:
    (judged,) = judge(recorded(SLOW, cc), 0, ["bbr3"])
    assert judged.verdict == "broken"
    assert len(judged.having("broken")) >= 3


@pytest.mark.parametrize(
    ("option", "value", "check"),
    [
        ("startup_pacing_gain", 2.0, "startup.pacing"),
        ("startup_cwnd_gain", 3.0, "startup.window"),
        ("drain_pacing_gain", 0.75, "drain.pacing"),
        ("probe_down_pacing_gain", 0.75, "down.pacing"),
        ("probe_cruise_pacing_gain", 0.9, "cruise.pacing"),
        ("probe_refill_pacing_gain", 1.1, "refill.pacing"),
        ("probe_up_pacing_gain", 1.4, "up.pacing"),
        ("pacing_margin", "0 %", "cruise.pacing"),
        ("probe_rtt_cwnd_gain", 0.75, "probe_rtt.window"),
        ("probe_rtt_cwnd_gain", 0.25, "probe_rtt.depth"),
        ("probe_rtt_duration", "400 ms", "probe_rtt.duration"),
        ("probe_rtt_interval", "2 s", "probe_rtt.interval"),
        ("reno_rounds", 200, "probe.deadline"),
        ("probe_wait_random", "0 s", "probe.random"),
    ],
)
def test_a_defect_breaks_its_own_check(option: str, value: float | str, check: str) -> None:
    # Three ProbeRTTs show their interval, and waits that no round ends the draws.
    path = SLOW if check in ("probe_rtt.interval", "probe.random") else PLAIN
    (judged,) = judge(recorded(path, "bbr3", **{option: value}), 0, ["bbr3"])
    assert check in [one["id"] for one in judged.having("broken")]


@pytest.mark.parametrize(("value", "check"), [("5 s", "interval"), ("20 s", "window")])
def test_bbr1_enters_probe_rtt_every_ten_seconds(value: str, check: str) -> None:
    (judged,) = judge(recorded(SLOW, "bbr1", min_rtt_win=value), 0, ["bbr1"])
    assert f"probe_rtt.{check}" in [one["id"] for one in judged.having("broken")]


@pytest.mark.parametrize(
    ("cc", "seed", "later_ms"),
    [
        # A full window hides when the flow probes: alone with aggregated ACKs, and in company.
        *[("bbr1", seed, 0) for seed in (46, 92, 135, 177)],
        *[("bbr2", seed, 0) for seed in (119, 155)],
        # Losses: a probe that begins later than due, and one that a loss or two end.
        *[("bbr1", 95, 0), ("bbr2", 128, 0), ("bbr3", 15, 0)],
        # ACKs recorded late.
        ("bbr3", 19, 1),
    ],
)
def test_a_right_flow_on_a_drawn_path_breaks_nothing(cc: str, seed: int, later_ms: int) -> None:
    _, text = draw(seed, cc)
    (judged,) = judge(paceline.run(text, seed=seed), 0, [cc], later_ms * 1_000_000)
    assert judged.having("broken") == []


@pytest.mark.parametrize(
    ("cc", "option", "value"),
    [
        ("bbr3", "probe_down_pacing_gain", 0.75),
        ("bbr3-linux", "probe_down_gain", 0.75),
        ("bbr2", "probe_up_gain", 1.5),
        ("bbr1", "probe_down_gain", 0.5),
    ],
)
def test_a_cause_is_an_option_of_the_shadow(cc: str, option: str, value: float) -> None:
    (judged,) = judge(recorded(SLOW, cc, **{option: value}), 0, [cc])
    assert causes([judged])[0] == (option, value)


def test_what_fits_has_no_cause(right: paceline.Run) -> None:
    (judged,) = judge(right, 0, ["bbr3"])
    assert causes([judged]) == []


@pytest.mark.parametrize(
    ("format_", "suffix", "path"), [("pcapng", "pcapng", PLAIN), ("qlog", "sqlog", SLOW)]
)
def test_a_capture_and_a_qlog_say_what_the_run_says(
    format_: str, suffix: str, path: Path, tmp_path: Path
) -> None:
    """In QUIC's numbers losses form other ranges, and Startup counts these: SLOW loses nothing."""
    run = recorded(path)
    (ours,) = judge(run, 0, ["bbr3"])
    (file,) = export([run], format_, tmp_path / f"log.{suffix}")
    (theirs,) = judge(paceline.Run.capture(file), 0, ["bbr3"])
    assert theirs.verdict == "fits"
    # Times are in microseconds: a window more or less.
    assert theirs.having("broken") == theirs.having("cannot be told") == []
    for mine, other in zip(ours.checks[:6], theirs.checks[:6], strict=True):
        assert other["measured"] == pytest.approx(mine["measured"], rel=0.003)


def test_the_command_names_what_a_file_shows(
    right: paceline.Run, tmp_path: Path, cli: Command
) -> None:
    export([right], "pcapng", tmp_path / "server.pcapng")
    done = cli("conformance", "server.pcapng")
    assert done.returncode == 0, done.stderr
    assert "server.pcapng, flow 0 is BBRv3 as the draft says" in done.stdout.replace("\n", " ")
    recorded(SLOW, probe_down_pacing_gain=0.75).write(tmp_path / "down")
    done = cli("conformance", "down", "--junit", "out.xml", "--json")
    assert done.returncode == 3
    (flow,) = json.loads(done.stdout)["flows"]
    assert (flow["judged_as"], flow["verdict"]) == ("bbr3", "broken")
    assert flow["causes"][0] == {"option": "probe_down_pacing_gain", "value": 0.75}
    (broken,) = (check for check in flow["checks"] if check["id"] == "down.pacing")
    assert broken["measured"] == pytest.approx(0.75, rel=0.01)
    failures = ET.parse(tmp_path / "out.xml").iter("failure")
    assert any("5.3.3.1" in failure.get("message", "") for failure in failures)
    done = cli("conformance", "down", "--junit", "out.xml")
    assert (done.returncode, "out.xml exists" in done.stderr) == (2, True)
    assert flow["departure"]["phase"] == "ProbeBW_DOWN"
    assert flow["states_share"] > 0.98
    done = cli("conformance", "down", "--as", "bbr1")
    assert done.returncode == 3
    assert "is not BBRv1 of Linux: " in done.stdout.replace("\n", " ")


def test_a_stored_verdict_says_what_is_worse(tmp_path: Path, cli: Command) -> None:
    recorded(SLOW).write(tmp_path / "good")
    recorded(SLOW, probe_down_pacing_gain=0.75).write(tmp_path / "bad")
    for name in ("good", "bad"):
        verdict = cli("conformance", name, "--as", "bbr3", "--json").stdout
        (tmp_path / f"{name}.json").write_text(verdict)
    done = cli("conformance", "bad", "--as", "bbr3", "--against", "good.json")
    assert done.returncode == 4
    # A recording alone is the one of before, whatever its name is.
    assert "down.pacing of bad, flow 0" in done.stdout.replace("\n", " ")
    (tmp_path / "good").rename(tmp_path / "other")
    assert cli("conformance", "other", "--as", "bbr3", "--against", "good.json").returncode == 0
    (tmp_path / "other").rename(tmp_path / "good")
    (tmp_path / "good").rename(tmp_path / "kept")
    (tmp_path / "bad").rename(tmp_path / "good")
    done = cli("conformance", "good", "--as", "bbr3", "--against", "good.json")
    assert done.returncode == 4
    assert "down.pacing of good, flow 0" in done.stdout.replace("\n", " ")
    (tmp_path / "good").rename(tmp_path / "bad")
    (tmp_path / "kept").rename(tmp_path / "good")
    # What was broken before is no regression.
    assert cli("conformance", "bad", "--as", "bbr3", "--against", "bad.json").returncode == 0
    # Beside another target it is still found; what became another algorithm is worse, too.
    done = cli("conformance", "good", "bad", "--as", "bbr3", "--against", "good.json")
    assert done.returncode == 0
    verdict = cli("conformance", "good", "bad", "--as", "bbr3", "--json").stdout
    (tmp_path / "both.json").write_text(verdict)
    done = cli("conformance", "good", "--as", "bbr3", "--against", "both.json")
    assert (done.returncode, "flow 0 of bad, which was not judged" in done.stderr) == (2, True)
    done = cli("conformance", "good", "--as", "bbr1", "--against", "good.json", "--json")
    assert json.loads(done.stdout)["worse"] == ["good, flow 0, which was bbr3"]
    for wrong, why in (("none.json", "No such file"), ("good/run.json", "is no verdict")):
        done = cli("conformance", "bad", "--against", wrong)
        assert (done.returncode, why in done.stderr) == (2, True)


def test_a_workflow_is_told_of_each_broken_check(
    tmp_path: Path, cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(SLOW, probe_down_pacing_gain=0.75).write(tmp_path / "bad")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines = cli("conformance", "bad", "--as", "bbr3").stderr.splitlines()
    assert any(line.startswith("::error title=down.pacing::bad, flow 0: ") for line in lines)


def test_the_action_of_a_workflow_judges_its_recordings(tmp_path: Path) -> None:
    """The last step of examples/ci/action.yml, with a name that a shell would take apart."""
    script = (ROOT / "examples" / "ci" / "action.yml").read_text().rpartition("run: |\n")[2]
    shim = tmp_path / "bin" / "paceline"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m paceline "$@"\n')
    shim.chmod(0o755)
    recorded(SLOW).write(tmp_path / "good; touch x")
    recorded(SLOW, probe_down_pacing_gain=0.75).write(tmp_path / "bad")

    def act(recordings: str, against: str = "") -> int:
        inputs = {"RECORDINGS": recordings, "AS": "bbr3", "AGAINST": against}
        env = {**os.environ, **inputs, "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}"}
        env["GITHUB_ACTIONS"] = "true"
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            env=env,
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.stderr.count("title=down.pacing::") == recordings.count("bad")
        return done.returncode

    assert act("good; touch x\n") == 0
    assert act("good; touch x\nbad\n") == 3
    assert (tmp_path / "verdict.xml").exists()
    assert (tmp_path / "verdict.html").exists()
    (tmp_path / "verdict.json").rename(tmp_path / "before.json")
    # What was broken before is no regression; a recording that is missing is an error.
    assert act("good; touch x\nbad\n", "before.json") == 0
    assert act("good; touch x\n", "before.json") == 2
    assert act("") == 2
    assert not (tmp_path / "x").exists()


def test_a_page_shows_the_shadow_beside_the_flow(tmp_path: Path, cli: Command) -> None:
    recorded(SLOW, probe_down_pacing_gain=0.75).write(tmp_path / "bad")
    assert cli("conformance", "bad", "--report", "verdict.html").returncode == 3
    page = (tmp_path / "verdict.html").read_text()
    assert "With probe_down_pacing_gain = 0.75 nothing is broken" in page
    packed = page.partition('id="data">')[2].partition("<")[0]
    data = json.loads(gzip.decompress(base64.b64decode(packed)))
    shadow, own = data["details"]
    assert [panel["title"] for panel in shadow["panels"]][2:] == [
        "In flight over the window",
        "Pace over what is allowed",
    ]
    # In DOWN it paces at .75 where .9 is allowed.
    (ratio,) = shadow["panels"][3]["series"]
    downs = [band for band in shadow["bands"] if band["state"] == "ProbeBW_DOWN"]
    down = max(downs, key=lambda band: band["end"] - band["start"])
    middle = (down["start"] + down["end"]) / 2
    times = shadow["panels"][3]["times"]
    at = min(range(len(times)), key=lambda nth: abs(times[nth] - middle))
    around = sorted(value for value in ratio["values"][at - 3 : at + 4] if value is not None)
    assert around[len(around) // 2] == pytest.approx(0.75 / 0.9, rel=0.08)
    assert {band["state"] for band in own["bands"]} == {band["state"] for band in shadow["bands"]}
    assert any(event["text"] == "down.pacing is broken" for event in data["happenings"])
    done = cli("conformance", "bad", "--report", "verdict.html")
    assert (done.returncode, "verdict.html exists" in done.stderr) == (2, True)


def test_a_stacks_controller_is_run_and_judged(cli: Command) -> None:
    """noq's bandwidth decays while a probe stops: it paces below what its samples allow."""
    done = cli("conformance", "noq:bbr3", "--quick", "--json", "--report", "noq.html")
    assert done.returncode == 3
    # noq reports no states.
    assert " own</option>" not in Path("noq.html").read_text()
    (flow,) = json.loads(done.stdout)["flows"]
    assert (flow["path"], flow["judged_as"]) == ("b1-20M-100ms", "bbr3")
    broken = {
        check["id"]: check["measured"] for check in flow["checks"] if check["verdict"] == "broken"
    }
    assert broken["cruise.pacing"] < 0.95


def test_it_says_what_to_record_instead(tmp_path: Path, cli: Command, scenario: Path) -> None:
    cli("run", scenario, "--out", "bare")
    done = cli("conformance", "bare")
    assert done.returncode == 2
    assert "record.packets = true" in done.stderr
    done = cli("conformance", "nothing.pcap")
    assert (done.returncode, "no such file or controller" in done.stderr) == (2, True)
    done = cli("conformance", "07a")
    assert "--case 07a" in done.stderr
    done = cli("conformance", "bare", "--as", "bbr4")
    assert "did you mean bbr" in done.stderr
    done = cli("conformance", "--controller", "noq:bbr3")
    assert "paceline conformance noq:bbr3" in done.stderr


def test_a_file_that_is_cut_says_so(right: paceline.Run, tmp_path: Path, cli: Command) -> None:
    """Also that its start alone does not identify it."""
    (file,) = export([right], "pcapng", tmp_path / "whole.pcapng")
    (tmp_path / "cut.pcapng").write_bytes(file.read_bytes()[:100_000])
    done = cli("conformance", "cut.pcapng")
    assert "warning: cut.pcapng: the file ends within a packet" in done.stderr
    output = done.stdout.replace("\n", " ")
    assert "do not tell whether it is BBRv3 as the draft says: they show only its start" in output
    assert "do not tell it from bbr" in output
    (drain,) = (line for line in done.stdout.splitlines() if "drain.pacing" in line)
    assert drain.split() == ["drain.pacing", "5.3.2", "0", "not", "seen"]
    assert "warning" not in cli("conformance", "whole.pcapng").stderr


def test_a_recording_of_the_middle_of_a_flow_breaks_nothing(
    right: paceline.Run, tmp_path: Path, cli: Command
) -> None:
    """The shadow begins in Startup, and the flow is beyond it."""
    (file,) = export([right], "pcapng", tmp_path / "whole.pcapng")
    blocks, data, at = [], file.read_bytes(), 0
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        blocks.append(data[at : at + length])
        at += length
    packets = [nth for nth, block in enumerate(blocks) if block[0] == 6]
    third = len(packets) // 3
    middle = blocks[: packets[0]] + blocks[packets[third] : packets[2 * third]]
    (tmp_path / "middle.pcapng").write_bytes(b"".join(middle))
    done = cli("conformance", "middle.pcapng", "--as", "bbr3")
    assert (done.returncode, "BROKEN" in done.stdout) == (0, False)
    output = done.stdout.replace("\n", " ")
    assert "the flow began before the recording: record it from its handshake on" in output


def test_a_folder_of_an_export_and_an_unknown_file_have_hints(
    right: paceline.Run, tmp_path: Path, cli: Command
) -> None:
    export([right], "qlog", tmp_path / "log")
    assert "name a file in it: log/flow-0.sqlog" in cli("conformance", "log").stderr
    (tmp_path / "x.txt").write_text("hi\n")
    assert "a capture (pcap, pcapng), a qlog" in cli("conformance", "x.txt").stderr
    assert "--flow needs a value" in cli("conformance", "log", "--flow").stderr


def test_slow_start_and_episodes_of_another_stack_are_followed(
    tmp_path: Path, cli: Command
) -> None:
    """quinn has no HyStart, and reduces once for what was sent before an episode, also after it."""
    path = {"path.rate": "20 Mbit/s", "path.rtt": "60 ms", "path.queue.size": "1 bdp"}
    packets = {"run.record.packets": True, "flows.0.cc": "quinn:cubic"}
    run = paceline.run(SLOW, overrides={**path, **packets})
    first, *_ = judge(run, 0)
    assert (first.name, first.verdict, first.likeness > 0.98) == ("cubic", "fits", True)
    # Its ACKs are encrypted: an export has none.
    export([run], "qlog", tmp_path / "log")
    done = cli("conformance", "log/flow-0.sqlog")
    assert (done.returncode, "packet_received with ACK frames" in done.stderr) == (2, True)


@pytest.mark.parametrize("cc", ["cubic", "newreno"])
def test_a_slow_start_that_is_paced_goes_on(cc: str) -> None:
    """noq has less in flight than its window from the start: that is its pacer, and not HyStart."""
    run = recorded(PLAIN, f"noq:{cc}")
    (judged,) = judge(run, 0, ["reno" if cc == "newreno" else cc])
    assert judged.verdict == "fits"
    assert judged.likeness > 0.98


def test_a_window_is_the_same_in_a_qlog(tmp_path: Path) -> None:
    run = recorded(SLOW, "cubic")
    (file,) = export([run], "qlog", tmp_path / "log")
    first, *_ = judge(paceline.Run.capture(file), 0)
    assert (first.name, first.verdict, first.likeness > 0.98) == ("cubic", "fits", True)


def test_a_shadow_under_which_nothing_is_broken_comes_first() -> None:
    """Also before one that the flow follows for longer; what breaks most checks is another."""

    def shadow(name: str, likeness: float, verdicts: str) -> Judged:
        words = {"h": "held", "b": "broken", "t": "cannot be told"}
        checks = [{"id": "drain.pacing", "verdict": words[one]} for one in verdicts]
        return Judged(name, likeness, checks, None)  # type: ignore[arg-type]

    linux, draft = shadow("bbr3-linux", 0.95, "hhhbh"), shadow("bbr3", 0.797, "hhhtt")
    assert [one.name for one in ordered([linux, draft])] == ["bbr3", "bbr3-linux"]
    # It is not like one that it follows less.
    assert ordered([linux, shadow("bbr2", 0.5, "hhhtt")])[0] is linux
    assert not linux.is_other
    assert shadow("bbr1", 0.53, "hhbbb").is_other
    assert shadow("bbr1", 0.29, "hhhhb").is_other


def test_a_recording_far_from_the_sender_is_refused(right: paceline.Run, tmp_path: Path) -> None:
    """At the receiver ACKs leave as data comes: nothing shows what the sender knew."""
    sent = right.packets.filter(pl.col("kind").cast(pl.String) == "deliver")
    assert sent.height > 0
    (file,) = export([right], "pcapng", tmp_path / "log.pcapng")
    run = paceline.Run.capture(file)
    judge(run, 0, ["bbr3"])

    class Far(paceline.Run):
        @property
        def flows(self) -> pl.DataFrame:
            return super().flows.with_columns(base_rtt_ns=pl.lit(30_000_000))

    with pytest.raises(UnjudgeableError, match="not recorded at its sender"):
        judge(Far(run.inner), 0, ["bbr3"])


def test_a_kernel_reports_the_round_trip_of_its_set_up() -> None:
    """It connects a while after its flow began: the record of a simulator has no such while."""
    flows = pl.DataFrame({"flow": [0], "start_ns": [0], "base_rtt_ns": [15_000_000]})
    events = pl.DataFrame({"flow": [0], "t_ns": [27_000_000], "kind": ["established"]})
    samples = pl.DataFrame({"flow": [0, 0], "t_ns": [27_000_000, 30_000_000], "srtt_ns": [16, 17]})
    kernel: Any = SimpleNamespace(events=events, samples=samples)
    assert _handshake(kernel, 0, flows) == 16
    simulated: Any = SimpleNamespace(events=events, samples=samples.tail(1))
    assert _handshake(simulated, 0, flows) == 27_000_000
    imported: Any = SimpleNamespace(events=events.clear(), samples=samples)
    assert _handshake(imported, 0, flows) == 15_000_000
