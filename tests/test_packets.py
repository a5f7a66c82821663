"""`paceline conformance` by packets: right flows, seeded defects, other algorithms, recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import polars as pl
import pytest

import paceline
from paceline.errors import UnjudgeableError
from paceline.exchange import export
from paceline.study.conformance.packets import SHADOWS, causes, judge

if TYPE_CHECKING:
    from conftest import Command

DRAFT = Path(__file__).parents[1] / "conformance" / "draft-ietf-ccwg-bbr"
PLAIN = DRAFT / "b2-100M-10ms.toml"
#: At 20 Mbit/s and 100 ms each packet's time tells.
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
    own = run.samples.filter(pl.col("flow") == 0).select(
        "t_ns", own=pl.col("phase").cast(pl.String)
    )
    beside = own.join_asof(judged.moments.select("t_ns", "phase"), on="t_ns").drop_nulls()
    same = beside.filter(pl.col("own") == pl.col("phase")).height
    assert same > 0.98 * beside.height


@pytest.mark.parametrize("cc", SHADOWS)
def test_each_algorithm_is_known_by_its_packets(cc: str) -> None:
    first, *_ = judge(recorded(SLOW, cc), 0)
    assert (first.name, first.verdict) == (cc, "fits")


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
    ],
)
def test_a_defect_breaks_its_own_check(option: str, value: float | str, check: str) -> None:
    # Three ProbeRTTs show their interval.
    path = SLOW if check == "probe_rtt.interval" else PLAIN
    (judged,) = judge(recorded(path, "bbr3", **{option: value}), 0, ["bbr3"])
    assert check in [one["id"] for one in judged.having("broken")]


def test_a_cause_is_named_if_it_explains_all(right: paceline.Run) -> None:
    run = recorded(SLOW, probe_down_pacing_gain=0.75)
    (judged,) = judge(run, 0, ["bbr3"])
    assert causes(judged)[0] == ("probe_down_pacing_gain", 0.75)
    (judged,) = judge(right, 0, ["bbr3"])
    assert causes(judged) == []


def test_a_capture_and_a_qlog_say_what_the_run_says(right: paceline.Run, tmp_path: Path) -> None:
    (ours,) = judge(right, 0, ["bbr3"])
    for format_, suffix in (("pcapng", "pcapng"), ("qlog", "sqlog")):
        (file,) = export([right], format_, tmp_path / f"log.{suffix}")
        (theirs,) = judge(paceline.Run.capture(file), 0, ["bbr3"])
        assert theirs.verdict == "fits", format_
        # Times are in microseconds: a window more or less.
        assert theirs.having("broken") == theirs.having("cannot be told") == []
        for mine, other in zip(ours.checks[:6], theirs.checks[:6], strict=True):
            assert other["measured"] == pytest.approx(mine["measured"], rel=0.003), format_


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
    done = cli("conformance", "down", "--as", "bbr1")
    assert done.returncode == 3
    assert "BBRv1 of Linux in all but" in done.stdout.replace("\n", " ")


def test_a_stacks_controller_is_run_and_judged(cli: Command) -> None:
    """noq's bandwidth decays while a probe stops: it paces below what its samples allow."""
    done = cli("conformance", "noq:bbr3", "--quick", "--json")
    assert done.returncode == 3
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
