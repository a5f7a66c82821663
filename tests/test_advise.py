"""``paceline advise``: what recordings show, and a ranking that carries their doubt."""

from __future__ import annotations

import json
import math
import random
import re
import shlex
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import paceline
from captures import Capture
from conftest import Command
from paceline import batch
from paceline.cli.failure import Failure
from paceline.cli.verbs import advise as verb
from paceline.quantities import duration_ns
from paceline.reading import toml
from paceline.study import advise, fit
from paceline.study.fit.estimates import Estimate
from paceline.study.fit.models import Model

#: Losses that CUBIC takes for congestion, and BBR does not.
UPLOAD = """\
schema = 1
run = { duration = "10 s", record = { packets = true } }
path = { rate = "8 Mbit/s", rtt = "60 ms", queue = { size = "1 bdp" }, loss = "0.5 %" }
[[flows]]
cc = "cubic"
"""
CONTROLLERS = ("reno", "cubic", "bbr1", "bbr3")


def captured(folder: Path, text: str = UPLOAD, name: str = "up.pcap", **how: Any) -> Path:
    place = folder / name
    Capture(**how).write(paceline.run(text), place)
    return place


def read(place: Path) -> advise.Recording:
    return advise.read(place.name, paceline.Run.capture(place))


def ranked(recording: advise.Recording) -> advise.Advice:
    given = advise.StudyOptions(CONTROLLERS, paths=10)
    return advise.Study([recording], given, "throughput").run(batch.Watch())


@pytest.mark.parametrize("end", ["sender", "receiver"])
@pytest.mark.parametrize("cc", ["cubic", "bbr3"])
@pytest.mark.parametrize(
    ("flow", "what"),
    [
        ('app = { rate = "2 Mbit/s" }', "the application, or its send buffer, is the limit"),
        ('app = { on = "0.2 s", off = "1 s" }', "the application, or its send buffer, is the"),
        ('receive_window = "32 KiB"', "the receive window is the limit"),
    ],
)
def test_an_end_that_is_the_limit_is_named(
    tmp_path: Path, flow: str, what: str, cc: str, end: str
) -> None:
    text = UPLOAD.replace(', loss = "0.5 %"', "").replace('cc = "cubic"', f'cc = "{cc}"\n{flow}')
    recording = read(captured(tmp_path, text, end=end))
    assert what in (recording.limits.sentence or "")
    # No path is fitted for what no controller changes.
    assert recording.fitted is None


@pytest.mark.parametrize("cc", CONTROLLERS)
@pytest.mark.parametrize("loss", ["", ', loss = "0.5 %"'])
def test_a_path_that_is_the_limit_is_not_blamed_on_an_end(
    tmp_path: Path, cc: str, loss: str
) -> None:
    text = UPLOAD.replace(', loss = "0.5 %"', loss).replace('"cubic"', f'"{cc}"')
    recording = read(captured(tmp_path, text))
    assert recording.limits.application == recording.limits.window == 0
    assert cc in recording.senders


def test_the_limit_comes_first_and_nothing_is_recommended(cli: Command, tmp_path: Path) -> None:
    text = UPLOAD.replace(', loss = "0.5 %"', "") + 'app = { rate = "1 Mbit/s" }\n'
    captured(tmp_path, text)
    result = cli("advise", "up.pcap")
    assert result.returncode == 0, result.stderr
    assert "no controller will help" in result.stdout.splitlines()[0]
    answer = json.loads(cli("advise", "up.pcap", "--json").stdout)
    assert answer["limited"]
    assert answer["recommended"] is None
    assert answer["ranking"] == []
    assert "sysctl" not in " ".join(answer["commands"])


def test_one_path_gives_one_ranking_whoever_sent(tmp_path: Path) -> None:
    for cc in ("cubic", "bbr3"):
        recording = read(captured(tmp_path, UPLOAD.replace('"cubic"', f'"{cc}"')))
        best = ranked(recording).best("throughput")
        assert best[0] == "bbr1"
        assert not {"reno", "cubic"} & set(best)


def test_a_receivers_capture_is_ranked_without_a_sender(tmp_path: Path) -> None:
    recording = read(captured(tmp_path, end="receiver"))
    assert recording.senders == []
    assert "sent with a controller that its packets do not show" in " ".join(recording.sentences)
    assert "cubic" not in ranked(recording).best("throughput")


def test_a_capture_that_is_cut_is_used_as_far_as_it_goes(cli: Command, tmp_path: Path) -> None:
    # Of so few random losses chance decides whether a model is near: with those of seed 2 three
    # are, and on a third of the paths CUBIC is as good.
    place = tmp_path / "up.pcap"
    Capture(opened=False).write(paceline.run(UPLOAD, seed=2), place)
    place.write_bytes(place.read_bytes()[: place.stat().st_size * 2 // 3])
    options = ("--cc", "cubic", "bbr1", "--paths", "20")
    answer = json.loads(cli("advise", "up.pcap", *options, "--json").stdout)
    assert answer["recommended"] == "bbr1"
    assert any("ends" in line or "cut" in line for line in answer["unknown"]), answer["unknown"]


def test_packets_that_a_capture_lacks_do_not_look_like_a_fast_link(tmp_path: Path) -> None:
    place = captured(tmp_path, UPLOAD.replace("8 Mbit/s", "20 Mbit/s"))
    octets, at, kept = place.read_bytes(), 24, [place.read_bytes()[:24]]
    while at < len(octets):
        seconds, size = struct.unpack_from("<I4xI", octets, at)
        # What was captured from 4 to 6 s is gone.
        kept += [octets[at : at + 16 + size]] if not 4 <= seconds < 6 else []
        at += 16 + size
    place.write_bytes(b"".join(kept))
    run = paceline.Run.capture(place)
    observed, path = fit.ends(run)
    at_once = np.diff(np.interp(np.arange(4.0, 6.6, 0.1), observed.grid, observed.delivered))
    assert max(at_once) * 8 / 0.1 < 20e6
    assert all((one.rate.low or 0.0) < 20e6 for one in path.stretches)
    # It says so.
    unknown = verb._unknown([advise.Recording("up.pcap", run)], None)
    assert any("acknowledged bytes that are not in the capture" in line for line in unknown)


def test_all_flows_of_a_recording_get_the_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = UPLOAD + '[[flows]]\ncc = "cubic"\nstart = "1 s"\n'
    recording = read(captured(tmp_path, text))
    assert sum("sent with" in line for line in recording.sentences) == 2
    case = advise.Case(recording.scenario, "bbr1", (("cubic", 2),), 1, 0)
    run = paceline.run(case.job().text, overrides=case.job().overrides)
    assert run.flows["cc"].to_list() == ["bbr1", "bbr1", "cubic", "cubic"]
    measured = case.measure(run)
    own = run.flows["goodput_bytes"].to_list()[:2]
    assert measured["goodput_bps"] == pytest.approx(sum(own) * 8 / 10, rel=0.02)
    beside = [flow["goodput_bps"] for flow in run.flow_metrics[2:]]
    assert measured["neighbour_bps"] == pytest.approx(sum(beside) / 2, rel=0.02)
    # On a path that draws nothing, seeds differ in when flows meet: within two RTTs.
    starts = {
        toml(replace(case, seed=seed).job().text)["flows"][-1]["start"] for seed in range(1, 6)
    }
    assert len(starts) == 5
    assert all(0 <= duration_ns(start) <= 120e6 for start in starts)
    given = verb.Options(sender="cubic", controllers=["mine=own.py"])
    assert verb._commands(given, None, [case], Path("up-paths"))[0] == (
        "for n in $(seq 1); do paceline run up-paths/$n.toml --set flows.0.cc=bbr1 "
        "--set flows.1.cc=bbr1 --controller mine=own.py --seed $n; done"
    )


def test_a_neighbour_counts_only_while_a_transfer_lasts() -> None:
    text = UPLOAD.replace('10 s"', '400 s"').replace(', loss = "0.5 %"', "") + "app.size = '1 MB'\n"
    job = advise.Case(text, "cubic", (("cubic", 1),), 1, 0).job()
    # Three times as long, in a form that a scenario takes.
    assert job.overrides == (("flows.0.cc", "cubic"), ("run.duration", "1200 s"))
    run = paceline.run(job.text, overrides={"run.duration": "20 s"})
    metrics = advise.Case(text, "cubic", (("cubic", 1),), 1, 0).measure(run)
    assert run.flows["finish_ns"][0] < 5e9
    # Then it has the 8 Mbit/s for itself.
    assert metrics["neighbour_bps"] < 5e6 < 6.5e6 < run.flow_metrics[1]["goodput_bps"]


def ranking(
    goodputs: dict[str, float],
    harm: dict[str, float] | None = None,
    *,
    shared: Sequence[str] = (),
    senders: Sequence[str] = (),
    **alike: float,
) -> advise.Advice:
    """Rank controllers by their goodput on a path, on others by what `alike` says of each."""
    options = advise.StudyOptions(tuple(goodputs))
    study = advise.Study([advise.Recording("up.toml", text=UPLOAD)], options, "throughput")
    values: advise.Values = {}
    for case in study._cases:
        # On each path by another factor, and within 3 % of the controller's own.
        own = goodputs.get(case.cc, 1.0) * (1 + case.path / 10)
        if case.path % 3 == 0:
            own = alike.get(case.cc, own)
        metrics = {"goodput_bps": 1e6 * own * (1 + 0.03 * math.sin(case.path + len(case.cc)))}
        if case.company:
            metrics["neighbour_bps"] = 1e6 * (1 - (harm or {}).get(case.cc, 0.0))
        values.setdefault((case.cc, case.company), {})[case.path] = metrics
    return replace(study.ranked(values), shared=shared, senders=senders)


def test_controllers_that_are_worse_do_not_change_the_recommendation() -> None:
    alike, harm = {"bbr1": 3.0, "bbr3": 2.95}, {"bbr1": 0.4, "bbr3": 0.3}
    assert ranking(alike, harm).recommended == "bbr3"
    assert ranking({**alike, "cubic": 1.0}, harm).recommended == "bbr3"
    assert ranking({**alike, "cubic": 1.0, "reno": 0.9, "swift": 0.8}, harm).recommended == "bbr3"
    assert ranking({"bbr1": 3.0, "cubic": 1.0}, shared=["cubic"]).recommended == "bbr1"
    # The range of a difference that is certain has one sign.
    advice = ranking({"bbr1": 3.0, "cubic": 1.0})
    low, high = advice.against(advice.rows[-1]) or (0.0, 0.0)
    assert advice.rows[-1].findings["throughput"].verdict == "worse"  # type: ignore[union-attr]
    assert low < high < 0


def test_of_controllers_without_a_difference_a_harm_that_does_not_count_does_not_decide() -> None:
    alike, harm = {"cubic": 3.0, "bbr1": 2.99, "reno": 2.9}, {"cubic": 0.02, "bbr1": 0.5}
    advice = ranking(alike, harm)
    assert advice.sentence("throughput") == (
        "For throughput: the controllers do not differ by more than 5 %."
    )
    assert advice.recommended == "cubic"
    assert advice.reason == "use cubic: no other is better, and it harms others least."
    # One of several flows has it already.
    advice = ranking(alike, harm, senders=["bbr1", "reno"])
    assert advice.recommended == "reno"
    assert advice.reason.endswith("it harms others least and is in use already.")


def test_a_controller_that_is_as_good_on_some_paths_and_worse_on_the_others_is_worse() -> None:
    # On a third of the paths both have the same, but for 3 % of chance.
    advice = ranking({"bbr1": 3.0, "cubic": 1.0}, bbr1=1.0, cubic=1.0)
    assert advice.best("throughput") == ["bbr1"]
    # Where it is better on a third of the paths, it is not.
    advice = ranking({"bbr1": 3.0, "cubic": 1.0}, bbr1=1.0, cubic=2.0)
    assert advice.best("throughput") == ["bbr1", "cubic"]


def test_a_difference_that_is_near_the_tolerance_on_every_path_is_certain() -> None:
    # By 3 to 9 % on each path: chance of 3 % hides it on half of them.
    advice = ranking({"bbr1": 3.0, "cubic": 2.82, "reno": 2.92})
    assert advice.best("throughput") == ["bbr1", "reno"]


def test_a_paths_value_is_the_mean_over_its_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    known = advise.Recording("up.pcap", paths=[UPLOAD, UPLOAD + "\n"])
    study = advise.Study([known], advise.StudyOptions(("cubic", "bbr1"), paths=10), "throughput")
    # Which of two is ahead on a path is chance in each run; the third run has a metric more.
    measured = []
    for case in study._cases:
        swing = (1.5, 0.5, 1.0)[(case.path + len(case.cc) + (case.seed - 1) // 10) % 3]
        metrics = {"goodput_bps": 1e6 * swing * (1 + case.path), "neighbour_bps": 1e6}
        if case.seed > 20:
            metrics["completion_ns"] = 1e9
        measured.append(SimpleNamespace(kept=metrics))
    monkeypatch.setattr(batch, "outcomes", lambda *_, **__: measured)
    advice = study.run(batch.Watch())
    for row in advice.rows:
        assert row.values["goodput_bps"] == pytest.approx([1e6 * n for n in range(1, 11)])
        assert "completion_ns" not in row.values
    assert advice.best("throughput") == ["cubic", "bbr1"]


@pytest.mark.parametrize("end", ["sender", "receiver"])
@pytest.mark.parametrize("cc", ["cubic", "bbr1"])
@pytest.mark.parametrize("acks", ["linux", "delayed"])
def test_company_is_acknowledged_as_the_recorded_flows_are(
    tmp_path: Path, acks: str, cc: str, end: str
) -> None:
    text = UPLOAD.replace('cc = "cubic"', f'cc = "{cc}"\nack = "{acks}"')
    recording = read(captured(tmp_path, text, end=end))
    table = toml(advise.Case(recording.scenario, "reno", (("cubic", 1),), 1, 0).job().text)
    own, beside = (flow["ack"] for flow in table["flows"])
    assert own == beside
    assert own.get("pushed", False) is (acks == "linux")


def test_a_cause_of_the_losses_that_decides_is_told() -> None:
    policed = UPLOAD.replace('loss = "0.5 %"', 'policer = { rate = "2 Mbit/s", burst = "30 kB" }')
    known = advise.Recording("up.pcap", paths=[UPLOAD, policed])
    study = advise.Study([known], advise.StudyOptions(("cubic", "bbr1"), paths=10), "throughput")
    values: advise.Values = {}
    for case in study._cases:
        # Where packets are lost at random, BBR is ahead.
        goodput = 3e6 if case.cc == "bbr1" and "policer" not in case.text else 1e6
        metrics = {"goodput_bps": goodput, "neighbour_bps": 1e6}
        values.setdefault((case.cc, case.company), {})[case.path] = metrics
    advice = replace(study.ranked(values), shared=["cubic"])
    assert advice.recommended == "cubic"
    (turn,) = study._causes(advice)
    assert turn.sentence() == "if packets are lost at random, bbr1 is ahead by 200 %."
    assert turn.as_json()["value"] is None
    # On one of three seeds it is behind: that is chance.
    each = {"cubic": [1e6, 1e6, 1e6], "bbr1": [3e6, 3e6, 0.9e6]}
    assert study._turn(advice, "size_bytes", 5e4, each) is None
    each["bbr1"][2] = 2e6
    turn = study._turn(advice, "size_bytes", 5e4, each) or turn
    assert turn.sentence() == "with a queue of 50.00 kB bbr1 is ahead by 167 %."
    # What is recommended anyway is no turn.
    assert list(study._causes(replace(advice, shared=["bbr1"]))) == []


def test_the_table_has_ranges_and_says_what_does_not_differ() -> None:
    advice = ranking({"bbr1": 3.0, "cubic": 1.0, "reno": 2.97})
    cells = {row.name: verb._cells(row, advice) for row in advice.rows}
    assert re.fullmatch(r"3\.\d+ to 6\.\d+ Mbit/s", cells["bbr1"][1])
    assert cells["bbr1"][-1] == "the best"
    assert cells["reno"][-1] == "no difference"
    assert re.fullmatch(r"-6\d to -6\d %", cells["cubic"][-1])
    # Of a path that is known, there is one value.
    alike = advise.Row("cubic", {"goodput_bps": [1e6, 1.01e6] * 6}, None, {"throughput": None})
    assert verb._goodput(alike) == "1.005 Mbit/s"


def test_a_recording_that_allows_few_paths_is_ranked_with_more_seeds() -> None:
    few = advise.Recording("up.pcap", paths=[UPLOAD, UPLOAD + "\n"])
    study = advise.Study([few], advise.StudyOptions(CONTROLLERS, paths=10), "throughput")
    cases = study.cases("reno")
    assert [case.seed for case in cases] == list(range(1, 31))
    assert {case.text for case in cases} == set(few.paths)


def test_the_range_of_a_certain_difference_does_not_contain_zero() -> None:
    # On one of twelve paths the other one is ahead.
    one = advise.Row("cubic", {"goodput_bps": [0.6] * 11 + [1.3]}, None, {"throughput": None})
    first = advise.Row("bbr1", {"goodput_bps": [1.0] * 12}, None, {"throughput": None})
    ends = advise.Advice([first, one], (), [], "throughput", "cubic").against(one)
    assert ends == pytest.approx((-0.4, -0.4))


def test_data_after_a_flow_has_stopped_is_not_goodput() -> None:
    # A queue of 2 s is still full when the flow stops.
    text = UPLOAD.replace('"1 bdp"', '"2 s"').replace(', loss = "0.5 %"', "") + 'stop = "3 s"\n'
    run = paceline.run(text)
    assert run.flows["goodput_bytes"][0] * 8 / 3 > 8e6
    goodput = advise.Case(text, "cubic", (), 1, 0).measure(run)["goodput_bps"]
    assert goodput == pytest.approx(run.flow_metrics[0]["goodput_bps"])
    assert goodput < 8e6


def test_a_turn_in_losses_is_a_condition_and_no_chance() -> None:
    turn = advise.Turn("loss_ratio", 0.000274, None, "bbr3", 0.17)
    assert turn.sentence() == "if 0.0274 % of packets are lost at random, bbr3 is ahead by 17 %."
    cause = advise.Turn("a policer causes the losses", None, None, "reno", 0.2)
    queues = [advise.Turn("size_bytes", 1000.0 * n, 0.1 * n, "bbr1", 0.1 * n) for n in (1, 2, 4)]
    advice = replace(ranking({"bbr1": 3.0, "cubic": 1.0}), turns=[cause, *queues, turn])
    assert advice.conditions == [
        "if a policer causes the losses, reno is ahead by 20 %.",
        "with a queue of 1.000 kB to 4.000 kB (0.1 to 0.4 BDP) bbr1 is ahead by 10 to 40 %.",
        turn.sentence(),
    ]


def test_only_a_controller_that_all_flows_have_is_kept() -> None:
    text = UPLOAD.replace("10 s", "2 s")
    recording = advise.Recording("mine", paceline.run(text + '[[flows]]\ncc = "bbr1"\n'))
    assert recording.senders == ["cubic", "bbr1"]
    assert recording.shared == []
    own = advise.Recording("mine", paceline.run(text))
    assert own.shared == ["cubic"]
    other = advise.Recording("other", paceline.run(text.replace('"cubic"', '"bbr3"')))
    assert other.shared == ["bbr3"]
    options = advise.StudyOptions(("cubic", "bbr3"))
    paths = {"paths": [UPLOAD]}
    for two, shared in (([own, own], ["cubic"]), ([own, other], []), ([other, own], [])):
        both = advise.Study([replace(one, **paths) for one in two], options, "throughput")  # type: ignore[arg-type]
        assert both._shared == shared


def test_limits_that_are_enough_together_are_both_named() -> None:
    assert advise.Limits(0.31, 0.30).sentence == (
        "For 31 % of the time the application, or its send buffer, is the limit, and for 30 % of "
        "the time the receive window is the limit, and not the path: no controller will help."
    )
    assert advise.Limits(0.3, 0.29).sentence is None


def test_a_runs_receive_window_is_the_limit_as_a_captures_is() -> None:
    window = UPLOAD.replace(', loss = "0.5 %"', "") + 'receive_window = "32 KiB"\n'
    recording = advise.read("mine", paceline.run(window))
    assert "the receive window is the limit" in (recording.limits.sentence or "")


def test_a_fit_takes_the_threads_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    run = paceline.run(UPLOAD.replace("10 s", "4 s"))
    counts: list[int | None] = []
    real = batch.locally

    def locally(count: int | None) -> batch.Executor:
        counts.append(count)
        return real(count)

    monkeypatch.setattr(batch, "locally", locally)
    monkeypatch.setattr("paceline.batch.work.locally", locally)
    advise.read("mine", run, paths=10, threads=1)
    assert set(counts) == {1}


def test_no_end_is_blamed_while_the_window_is_not_known(tmp_path: Path) -> None:
    text = UPLOAD.replace(', loss = "0.5 %"', "") + 'app = { rate = "2 Mbit/s" }\n'
    # Without its scale, which the handshake has, the window looks smaller than what is in flight.
    text += 'receive_window = "4 MB"\n'
    limits = _limited(read(captured(tmp_path, text, opened=False)))
    assert limits.application is limits.window is None
    assert "Whether it is the application, its send buffer or the receive window is" in (
        limits.sentence or ""
    )
    assert "begins before the connection" in (limits.sentence or "")
    assert "the application, or its send buffer, is the limit" in (
        _limited(read(captured(tmp_path, text))).sentence or ""
    )


def _limited(recording: advise.Recording) -> advise.Limits:
    assert recording.fitted is None
    return recording.limits


def test_the_sender_that_the_user_names_is_not_called_unknown(tmp_path: Path) -> None:
    run = paceline.Run.capture(captured(tmp_path, UPLOAD.replace("10 s", "3 s")))
    observed, path = fit.ends(run)
    recording = advise.Recording("up.pcap", run, observed=observed, path=path, given="bbr3-linux")
    assert "with bbr3-linux, as --sender says." in recording.sentences[0]
    assert recording.shared == ["bbr3-linux"]
    # It is set already.
    kept = ranking({"bbr3-linux": 3.0, "cubic": 1.0}, shared=recording.shared)
    assert verb._commands(verb.Options(), kept, [], tmp_path) == []
    best = ranking({"bbr1": 3.0, "cubic": 1.0})
    assert len(verb._commands(verb.Options(), best, [], tmp_path)) == 2
    assert "that is swift" in verb._unknown([], ranking({"swift": 3.0, "cubic": 1.0}))[0]


def test_recordings_of_two_paths_are_refused_and_a_changed_rate_is_told(tmp_path: Path) -> None:
    def ended(name: str, text: str) -> advise.Recording:
        run = paceline.Run.capture(captured(tmp_path, text.replace("10 s", "5 s"), name))
        observed, path = fit.ends(run)
        return advise.Recording(name, run, observed=observed, path=path)

    calm = UPLOAD.replace(', loss = "0.5 %"', "")
    one = ended("one.pcap", calm)
    assert verb._one_path([one, ended("two.pcap", calm.replace('"cubic"', '"bbr3"'))]) == []
    far = ended("far.pcap", calm.replace("60 ms", "150 ms"))
    with pytest.raises(Failure, match=r"far\.pcap differs from one\.pcap in base RTT \(15"):
        verb._one_path([one, far])
    assert one.run is not None
    label = pl.lit("192.0.2.9:1 to 198.51.100.9:2")
    moved = replace(one, name="moved.pcap", run=_Labelled(one.run, label))
    with pytest.raises(Failure, match=r"in addresses \(192\.0\.2\.9 and 198"):
        verb._one_path([one, moved])

    def fitted(rate: float) -> advise.Recording:
        known = Estimate(rate, 0.98 * rate, 1.02 * rate)
        return replace(one, fitted=SimpleNamespace(rate=known))  # type: ignore[arg-type]

    assert verb._one_path([fitted(8e6), fitted(8.2e6)]) == []
    (change,) = verb._one_path([fitted(8e6), fitted(4e6)])
    assert "in rate (3.920 Mbit/s to 4.080 Mbit/s instead of 7.840 Mbit/s to" in change


class _Labelled(paceline.Run):
    """A run whose flows have another label."""

    def __init__(self, run: paceline.Run, label: pl.Expr) -> None:
        super().__init__(run.inner, run.engine)
        self._label = label

    @property
    def flows(self) -> pl.DataFrame:
        return super().flows.with_columns(label=self._label)


def test_flows_beside_with_one_name_are_added_up() -> None:
    given = verb.Options(beside=["cubic:2", "reno", "cubic:3", "reno"])
    assert verb._study_options(given).beside == (("cubic", 5), ("reno", 2))


def test_an_included_scenario_is_a_path_too() -> None:
    recording = verb._opened("four-flows")
    assert isinstance(recording, advise.Recording)
    assert toml(recording.text)["flows"]


def test_files_are_checked_before_any_work(cli: Command, tmp_path: Path) -> None:
    # Nothing can be fitted: without a check, that comes first.
    late = UPLOAD + 'start = "9.99 s"\n'
    paceline.run(late).write(tmp_path / "late")
    assert "no flow of it has both data" in cli("advise", "late").stderr
    assert "no such file or folder: gone.pcap" in cli("advise", "late", "gone.pcap").stderr
    assert "cannot write" in cli("advise", "late", "--out", "none/page.html").stderr
    (tmp_path / "mine.html").write_text("mine")
    assert "exists" in cli("advise", "late", "--out", "mine.html").stderr


def test_the_ensemble_is_of_paths_that_the_recording_allows(tmp_path: Path) -> None:
    recording = read(captured(tmp_path, UPLOAD.replace("cubic", "bbr3")))
    assert len(set(recording.paths)) == advise.PATHS
    paths = [toml(path)["path"] for path in recording.paths]
    rates = [float(path["rate"].split()[0]) for path in paths]
    assert len(set(rates)) > advise.PATHS // 2
    assert all(7 < rate < 9 for rate in rates)
    losses = [float(path["loss"].split()[0]) for path in paths if "loss" in path]
    assert min(losses) < 0.5 < max(losses)
    assert recording.fitted is not None
    assert recording.fitted.allowed(advise.PATHS) == recording.paths


def test_each_model_that_explains_a_recording_has_as_many_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = read(captured(tmp_path, UPLOAD.replace("cubic", "bbr3"))).fitted
    assert fitted is not None
    model, known = fitted.near[0]
    assert "target_s" not in known
    target = {"size_bytes": model.parameters["size_bytes"], "target_s": 0.005}
    codel = Model("codel", target), known | {"target_s": Estimate(0.005, 0.001, 0.02)}

    def outcomes(jobs: Sequence[batch.Job], *_: Any, **__: Any) -> list[SimpleNamespace]:
        # The target is known less well: of its paths one in four is near.
        far = [n % 4 > 0 and "codel" in job.text for n, job in enumerate(jobs)]
        return [SimpleNamespace(kept=9.0 if one else 0.0) for one in far]

    monkeypatch.setattr(batch, "outcomes", outcomes)
    paths = replace(fitted, near=[(model, known), codel]).allowed(12)
    assert sum("codel" in path for path in paths) == 6


def test_a_link_that_was_never_busy_has_a_rate_that_is_drawn_once() -> None:
    text = UPLOAD.replace("8 Mbit/s", "40 Mbit/s").replace("10 s", "6 s").replace("0.5 %", "2 %")
    fitted = fit.fit(paceline.run(text))
    assert fitted.rate.high is None
    highest = max(
        fit.span(*fitted.unsure(model, known)["link_bps"])[1] / model.kept
        for model, known in fitted.near
    )
    rng = random.Random(1)
    rates = [float(toml(fitted.drawn(rng)[0])["path"]["rate"].split()[0]) for _ in range(40)]
    assert max(rates) * 1e6 <= 1.01 * highest
    # The rate is swept once, too: its bound is another value of the same.
    known = advise.Recording("up.pcap", fitted=fitted, paths=[fitted.text])
    study = advise.Study([known], advise.StudyOptions(CONTROLLERS, paths=10), "throughput")
    assert "rate_bps" not in {name for name, _, _ in study._around()}


def test_what_no_model_reproduces_gives_no_recommendation(cli: Command, tmp_path: Path) -> None:
    captured(
        tmp_path,
        UPLOAD.replace('loss = "0.5 %"', 'reorder = { probability = "5 %", delay = "50 ms" }'),
    )
    answer = json.loads(cli("advise", "up.pcap", "--cc", "cubic", "bbr1", "--json").stdout)
    assert answer["recommended"] is None
    assert answer["ranking"] == []
    assert any("No model reproduces" in line for line in answer["sentences"])


def test_a_ranking_says_who_is_harmed_and_how_it_is_set(cli: Command, tmp_path: Path) -> None:
    captured(tmp_path)
    command = ("advise", "up.pcap", "--cc", "cubic", "bbr1", "--beside", "cubic:2", "--paths", "10")
    answer = json.loads(cli(*command, "--for", "throughput", "--json").stdout)
    assert answer["recommended"] == "bbr1"
    assert answer["best"] == {"throughput": ["bbr1"]}
    rows = {row["cc"]: row for row in answer["ranking"]}
    assert rows["cubic"]["harm_ratio"] == 0
    assert rows["bbr1"]["harm_low_ratio"] <= rows["bbr1"]["harm_ratio"]
    assert rows["bbr1"]["metrics"]["goodput_bps"] > rows["cubic"]["metrics"]["goodput_bps"]
    assert answer["commands"][-1] == "sudo sysctl -w net.ipv4.tcp_congestion_control=bbr"
    page = (tmp_path / "up-advice.html").read_text()
    assert "For throughput: use bbr1." in page
    assert "http" not in page.replace("http://www.w3.org", "")
    # The command that is printed repeats the row.
    own = re.fullmatch(r"for n in \$\(seq 30\); do paceline (.*); done", answer["commands"][1])
    assert own is not None
    lines = [
        json.loads(cli(*shlex.split(own[1].replace("$n", str(n))), "--json").stdout)["flows"][0]
        for n in range(1, 31)
    ]
    for name in ("goodput_bps", "rtt_p95_ns", "retransmit_ratio"):
        mean = sum(flow[name] for flow in lines) / len(lines)
        assert mean == pytest.approx(rows["bbr1"]["metrics"][name]), name
    # The same again is the same, and what a user has there is left.
    assert cli(*command, "--for", "throughput").returncode == 0
    (tmp_path / "up-advice.html").write_text("mine")
    answer = json.loads(cli(*command, "--json").stdout)
    assert answer["page"] == "up-advice-2.html"
    assert (tmp_path / "up-advice-2.html").is_file()
    assert (tmp_path / "up-advice.html").read_text() == "mine"


def test_a_controller_of_ones_own_is_ranked(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "path.toml").write_text(UPLOAD.replace("10 s", "2 s"))
    cli("init", "--controller", "own.py")
    own = ("--controller", "mine=own.py", "--cc", "mine", "cubic")
    answer = json.loads(cli("advise", "path.toml", *own, "--json").stdout)
    assert {row["cc"] for row in answer["ranking"]} == {"mine", "cubic"}
    assert answer["commands"][0].endswith("--cc mine cubic --controller mine=own.py")
    # A record of a run with it is a recording too.
    assert (
        cli("run", "path.toml", "--set", "flows.0.cc=mine", *own[:2], "--out", "run").returncode
        == 0
    )
    answer = json.loads(cli("advise", "run", *own, "--paths", "10", "--json").stdout)
    assert answer["recordings"][0]["senders"] == ["mine"]
    assert cli("fit", "run", *own[:2]).returncode == 0


def test_a_scenario_is_a_path_that_is_known(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "path.toml").write_text(UPLOAD)
    result = cli("advise", "path.toml", "--cc", "cubic", "bbr1", "--for", "throughput")
    assert result.returncode == 0, result.stderr
    assert "its path is known" in result.stdout
    assert "To repeat it, and to set it:" in result.stdout


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--cc", "cubic", "bbr9"), "no controller is called 'bbr9'"),
        (("--cc", "cubic"), "--cc needs two controllers"),
        (("--beside", "cubic:many"), "--beside takes NAME:COUNT, not 'cubic:many'"),
        (("--paths", "3"), "from 10 to 1000"),
        (("--cc",), "--cc needs a value"),
        (("--cc", "cubic", "path.toml"), "path.toml is a file, not a controller"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    cli: Command, tmp_path: Path, given: tuple[str, ...], message: str
) -> None:
    (tmp_path / "path.toml").write_text(UPLOAD)
    result = cli("advise", "path.toml", *given)
    assert result.returncode == 2
    assert message in result.stderr


def test_a_recording_that_is_missing_has_a_hint(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "upload.pcap").write_bytes(b"")
    result = cli("advise", "--cc", "cubic", "bbr1", "upload.pcap")
    assert result.returncode == 2
    assert "write it before --cc, which takes all that follows" in " ".join(result.stderr.split())
    assert "did you mean upload.pcap" in cli("advise", "uploda.pcap").stderr
    assert "name a file that exists" in cli("advise", "other.pcap").stderr


def test_fit_and_report_take_a_capture_and_give_one_goodput(cli: Command, tmp_path: Path) -> None:
    captured(tmp_path, UPLOAD + 'start = "2 s"\n')
    flow = json.loads(cli("import", "up.pcap", "--json").stdout)["record"]["flows"][0]
    answer = json.loads(cli("fit", "up.pcap", "--json").stdout)
    assert answer["measured"]["goodput_bps"] == pytest.approx(flow["goodput_bps"], rel=1e-3)
    text = (tmp_path / "up-fitted.toml").read_text()
    assert ' ns"' not in text
    # A recording begins with its flow.
    assert "start" not in text
    again = json.loads(cli("run", "up-fitted.toml", "--json").stdout)
    assert again["metrics"]["goodput_bps"] == pytest.approx(
        answer["fitted"]["goodput_bps"], rel=0.02
    )
    assert cli("report", "up.pcap").stdout.strip() == "up-report.html"
    assert (tmp_path / "up-report.html").is_file()
