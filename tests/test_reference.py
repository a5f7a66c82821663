"""The reference pack: its list, its files, and where other runs depart from it."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

import paceline
from conftest import Command
from paceline import _paceline
from paceline.exchange import export
from paceline.study.conformance.departure import (
    Round,
    Stay,
    by_packets,
    by_states,
    departure,
    stays,
)
from paceline.study.conformance.reference import Reference, draft, references, run
from verbs import tree

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "data" / "conformance" / "draft-ietf-ccwg-bbr"
KNOWN = {one.id: one for one in references(FOLDER)}
BASELINES = {id_: one for id_, one in KNOWN.items() if one.section is None}


def named(beginning: str) -> Reference:
    return next(one for id_, one in KNOWN.items() if id_.startswith(f"{beginning}-"))


@pytest.fixture(scope="module")
def baselines() -> dict[str, paceline.Run]:
    return {id_.partition("-")[0]: run(one) for id_, one in BASELINES.items()}


def test_each_reference_is_of_the_draft_that_bbr3_follows() -> None:
    blocks = (ROOT / "docs" / "sources.txt").read_text().split("\n\n")
    (sections,) = [one.splitlines() for one in blocks if one.startswith(f"{draft()}: ")]
    named = [one.section for one in KNOWN.values() if one.section is not None]
    assert len(named) == 23
    assert [s for s in named if s.replace(",", "", 1) not in sections] == []
    assert list(BASELINES) == [id_ for id_ in KNOWN if id_.startswith("b")]
    assert len(BASELINES) == 6


def test_a_list_says_what_each_trace_shows(cli: Command) -> None:
    answer = json.loads(cli("reference", "list", "--json").stdout)
    assert answer["draft"] == "draft-ietf-ccwg-bbr-06"
    rows = {row["id"]: row for row in answer["references"]}
    assert list(rows) == list(KNOWN)
    assert rows["03-drain-inflight"]["section"] == "A.3, Exiting DRAIN Based on Inflight"
    for row in rows.values():
        assert row["about"]
        _paceline.check(Path(row["path"]).read_text(), row["path"])
    output = cli("reference", "list", "03", "b1").stdout
    assert "b1-20M-100ms" in output
    assert "A.3" in output
    assert "2 references" in output


def test_two_exports_give_equal_bytes_and_a_manifest_names_them(cli: Command) -> None:
    for name in ("one", "two"):
        done = cli("reference", "export", "03", "b6", "--out", name, "--json")
        assert done.returncode == 0, done.stderr
    assert tree(Path("one")) == tree(Path("two"))
    answer = json.loads(done.stdout)
    index = json.loads(Path("one/index.json").read_text())
    for entry, listed in zip(answer["references"], index["references"], strict=True):
        folder = Path("one", entry["id"])
        manifest = json.loads((folder / "manifest.json").read_text())
        assert entry["files"] == listed["files"] == manifest["files"]
        assert (manifest["draft"], manifest["seed"]) == ("draft-ietf-ccwg-bbr-06", 1)
        assert manifest["paceline"] == paceline.__version__
        assert {p.name for p in folder.iterdir()} == {*entry["files"], "manifest.json"}
        for name, digest in entry["files"].items():
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
        assert (folder / "scenario.toml").read_bytes() == KNOWN[entry["id"]].scenario.read_bytes()
    (two,) = (e for e in answer["references"] if e["id"].startswith("b6"))
    assert {"flow-0.sqlog", "flow-1.sqlog", "picture.svg"} < set(two["files"])
    assert "03-drain-inflight/picture.svg" in Path("one/README.md").read_text()


def test_a_trace_has_packets_on_request_and_can_then_be_read_back(cli: Command) -> None:
    assert cli("reference", "export", "03", "--packets", "--out", "p").returncode == 0
    trace = "p/03-drain-inflight/flow-0.sqlog"
    assert cli("import", trace, "--out", "read").returncode == 0
    answer = json.loads(cli("compare", "read", "reference:03", "--json").stdout)
    count = len(answer["states"])
    assert answer["departs"] == f"the first {count} states are the same, each within one RTT"
    assert cli("reference", "export", "03", "--qlog-dialect", "0.3", "--out", "o").returncode == 0
    old = json.loads(Path("o/03-drain-inflight/run.qlog").read_text())
    assert old["qlog_version"] == "0.3"
    manifest = json.loads(Path("o/03-drain-inflight/manifest.json").read_text())
    assert set(manifest["files"]) == {"scenario.toml", "run.qlog", "picture.svg"}


def test_an_existing_folder_is_left_unchanged(cli: Command) -> None:
    Path("mine").mkdir()
    Path("mine/notes").write_text("mine")
    done = cli("reference", "export", "03", "--out", "mine")
    assert done.returncode == 2
    assert "mine exists, and is left unchanged" in done.stderr
    assert "choose another place with --out" in done.stderr
    assert "--force" not in done.stderr
    assert tree(Path("mine")) == {"notes": b"mine"}


def test_a_mistyped_reference_is_told_the_nearest(cli: Command) -> None:
    for words in (("reference", "export"), ("reference", "list")):
        done = cli(*words, "b4-deep-bufer")
        assert done.returncode == 2
        assert "no reference is called 'b4-deep-bufer'" in done.stderr
        assert "did you mean b4-deep-buffer?" in done.stderr
    assert list(Path().iterdir()) == []


def test_a_scenario_that_is_wrong_is_explained(cli: Command, tmp_path: Path) -> None:
    path = tmp_path / "conformance" / FOLDER.name / "x.toml"
    path.parent.mkdir(parents=True)
    for text, message in ((b"about = 5\n", "`schema` is missing"), (b"\xff", "can't decode")):
        path.write_bytes(text)
        for words in (("reference", "export"), ("compare", "a", "reference:x")):
            done = cli(*words)
            assert done.returncode == 2
            assert message in done.stderr
            assert "x.toml" in done.stderr


def test_baselines_show_what_they_say(baselines: dict[str, paceline.Run]) -> None:
    """The figures in the `about` of each baseline."""
    entered = {
        name: [(stay.state, stay.enter_ns / 1e9) for stay in stays(one)]
        for name, one in baselines.items()
    }
    assert [state for state, _ in entered["b1"][:3]] == ["Startup", "Drain", "ProbeBW_CRUISE"]
    assert 5.0 < next(t for state, t in entered["b1"] if state == "ProbeRTT") < 5.3
    ups = [t for state, t in entered["b2"] if state == "ProbeBW_UP"][:4]
    assert all(0.75 < b - a < 0.85 for a, b in pairwise(ups))
    bound = baselines["b3"].samples["inflight_longterm_bytes"].drop_nulls()[0]
    # The rate less headers, times 40 ms.
    assert bound / (50e6 * 1448 / 1500 * 0.04 / 8) == pytest.approx(1.25, abs=0.01)
    assert baselines["b4"].flows["lost_packets"].sum() == 0
    assert baselines["b5"].metrics["utilisation_ratio"] == pytest.approx(0.77, abs=0.005)
    samples = baselines["b6"].samples
    for flow in (0, 1):
        second = pl.col("t_ns").floordiv(1_000_000_000)
        own = samples.filter((pl.col("flow") == flow) & second.is_between(9, 19))
        ends = own.group_by(second).agg(pl.col("delivered_bytes").last()).sort("t_ns")
        rates = (ends["delivered_bytes"].diff().drop_nulls() * 8 / 1e6).to_list()
        assert len(rates) == 10
        assert 18 < min(rates) < max(rates) < 29


def test_a_run_without_states_is_compared_by_its_packets(
    baselines: dict[str, paceline.Run], tmp_path: Path
) -> None:
    def without_states(*settings: tuple[str, str], rtt: bool = True) -> paceline.Run:
        given = {"run.record.packets": "true", "run.duration": "4 s", **dict(settings)}
        made = paceline.run(named("b4").scenario, overrides=given)
        (file,) = export([made], "qlog", tmp_path / "log", force=True)
        lines = file.read_text().splitlines(keepends=True)
        text = "".join(line for line in lines if "congestion_state" not in line)
        key = r', "latest_rtt": [^,}]*|"latest_rtt": [^,}]*, '
        file.write_text(text if rtt else re.sub(key, "", text))
        return paceline.Run.capture(file)

    reference = baselines["b4"]
    begin = "the record has no BBR states; by its packets, "
    same = departure(reference, without_states())
    assert same == f"{begin}rate, queue and loss are those of the reference"
    no_rtt = without_states(rtt=False)
    assert no_rtt.samples["rtt_ns"].is_null().all()
    assert departure(reference, no_rtt) == f"{begin}rate and loss are those of the reference"
    slow = departure(reference, without_states(("flows.0.cc.startup_pacing_gain", "1.5")))
    assert slow.startswith(f"{begin}it delivers 90 % of the reference's 47.7")
    assert " RTTs later: " in slow
    little = departure(reference, without_states(("flows.0.app", '{ rate = "30 Mbit/s" }')))
    assert little.endswith(" it delivers 30.00 Mbit/s, the reference 47.78 Mbit/s")
    never = departure(reference, without_states(("path.rate", "30 Mbit/s")))
    assert never == f"{begin}it never delivers 90 % of the reference's 47.78 Mbit/s"
    full = departure(reference, without_states(("flows.0.cc", "cubic")))
    assert "in the reference's ProbeBW_CRUISE, " in full
    assert " above the base RTT, the reference's " in full


RTT = 100_000_000
STEADY = [Stay("Startup", 0, RTT), Stay("ProbeBW_CRUISE", RTT, None)]


def flat(rate: float, count: int = 40) -> tuple[int, list[Round]]:
    return 0, [Round(nth * RTT, rate, RTT, 100, 0) for nth in range(count)]


def test_a_rate_that_falls_in_cruise_is_called_a_decay() -> None:
    decaying = [Round(nth * RTT, 1e7 * 0.99**nth, RTT) for nth in range(40)]
    (difference,) = by_packets(STEADY, flat(1e7), (0, decaying), RTT)
    assert difference.startswith(
        "in the reference's ProbeBW_CRUISE, 300.0 ms to 2.100 s, its rate decays"
    )
    assert difference.endswith("; the reference keeps 10.00 Mbit/s")
    assert by_packets(STEADY, flat(1e7), flat(1e7), RTT) == []
    # One that is lower, and stays so, does not decay.
    (lower,) = by_packets(STEADY, flat(1e7), flat(0.92e7), RTT)
    assert lower.endswith("it delivers 9.200 Mbit/s, the reference 10.00 Mbit/s")
    # Headers are no difference.
    assert by_packets(STEADY, flat(1e7), flat(1.03e7), RTT) == []
    # Where the reference falls as well, it is the path that falls.
    assert by_packets(STEADY, (0, decaying), (0, decaying), RTT) == []
    lossy = [Round(nth * RTT, 1e7, RTT, 100, 5) for nth in range(40)]
    (lost,) = by_packets(STEADY, flat(1e7), (0, lossy), RTT)
    assert lost.endswith("it loses 5.0 % of its packets, the reference 0.0 %")
    assert by_packets(STEADY, (0, lossy), (0, lossy), RTT) == []
    assert by_packets(STEADY, flat(1e7), flat(1e7, 3), RTT) == [
        "there are too few rounds to compare"
    ]
    # 30 rounds before the reference's state ends, and 3 in it.
    (short,) = by_packets(
        [Stay("ProbeBW_CRUISE", 30 * RTT, None)], flat(1e7, 60), flat(1e7, 35), RTT
    )
    assert short.startswith("there are too few rounds in the reference's ProbeBW_CRUISE, 3.200 s")
    # Unknown losses are no losses, and no difference.
    unknown = [Round(nth * RTT, 1e7, RTT) for nth in range(40)]
    assert by_packets(STEADY, (0, lossy), (0, unknown), RTT) == []


def test_a_first_flight_does_not_reach_a_rate() -> None:
    first = [1e7, 1e6, 2e6, 4e6, 8e6]
    rows = [Round(n * RTT, first[n] if n < len(first) else 1e7, RTT) for n in range(40)]
    (difference,) = by_packets(STEADY, flat(1e7), (0, rows), RTT)
    assert difference.startswith("it delivers 90 % of the reference's 10.00 Mbit/s 5.0 RTTs later")


def test_states_that_differ_by_a_draw_are_no_departure() -> None:
    def walk(cruise: float, *after: str) -> list[Stay]:
        cruise_ns, t = int(cruise * 1e9), int(0.5e9)
        steps = [("Startup", t), ("ProbeBW_CRUISE", cruise_ns), *((s, RTT) for s in after)]
        visits, at = [], 0
        for state, lasts in steps:
            visits.append(Stay(state, at, lasts))
            at += lasts
        return visits

    ours = walk(2.4, "ProbeBW_REFILL", "ProbeBW_UP", "ProbeRTT")
    # The end of a Cruise is drawn from a second.
    later = by_states(ours, walk(3.3, "ProbeBW_REFILL", "ProbeBW_UP", "ProbeRTT"), RTT)
    assert later == "the first 5 states are the same, each within one RTT"
    much = by_states(ours, walk(3.7, "ProbeBW_REFILL"), RTT)
    assert much == (
        "leaves ProbeBW_CRUISE, state 2, 13.0 RTTs later: after 3.700 s, the reference after "
        "2.400 s"
    )
    drawn = by_states(ours, walk(2.6, "ProbeRTT", "ProbeBW_CRUISE"), RTT)
    assert drawn.startswith("state 3 is ProbeRTT at 3.100 s; the reference enters ProbeBW_REFILL")
    assert drawn.endswith("as the drawn end of a Cruise may have it; until then they agree")
    # A ProbeRTT far from any of the reference is no draw.
    early = by_states(ours, walk(1.5, "ProbeRTT", "ProbeBW_CRUISE"), RTT)
    assert early.endswith("the reference enters ProbeBW_REFILL at 2.900 s")


def test_compare_takes_a_baseline(cli: Command) -> None:
    case = named("b3").scenario
    given = ("--set", "run.duration=2 s", "--quiet")
    assert cli("run", case, *given, "--out", "mine").returncode == 0
    answer = json.loads(cli("compare", "mine", "reference:b3", "--json").stdout)
    assert answer["old"] == "reference:b3"
    assert answer["departs"] == "the first 3 states are the same, each within one RTT"
    assert cli("run", case, *given, "--set", "flows.0.cc=quinn:bbr", "--out", "q").returncode == 0
    departures = json.loads(cli("compare", "q", "reference:b3", "--json").stdout)["departs"]
    assert departures.startswith("the record has no BBR states; by its packets, ")
