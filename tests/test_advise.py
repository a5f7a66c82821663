"""``paceline advise``: what recordings show, and a ranking that carries their doubt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import paceline
from captures import Capture
from conftest import Command
from paceline import batch
from paceline.cli.verbs import advise as verb
from paceline.reading import toml
from paceline.study import advise

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
    given = advise.Asked(CONTROLLERS, paths=10)
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
    found = read(captured(tmp_path, text, end=end))
    assert what in (found.limits.sentence or "")
    # No path is fitted for what no controller changes.
    assert found.fitted is None


@pytest.mark.parametrize("cc", CONTROLLERS)
@pytest.mark.parametrize("loss", ["", ', loss = "0.5 %"'])
def test_a_path_that_is_the_limit_is_not_blamed_on_an_end(
    tmp_path: Path, cc: str, loss: str
) -> None:
    text = UPLOAD.replace(', loss = "0.5 %"', loss).replace('"cubic"', f'"{cc}"')
    found = read(captured(tmp_path, text))
    assert found.limits.application == found.limits.window == 0
    assert cc in found.senders


def test_the_limit_comes_first_and_nothing_is_recommended(cli: Command, tmp_path: Path) -> None:
    text = UPLOAD.replace(', loss = "0.5 %"', "") + 'app = { rate = "1 Mbit/s" }\n'
    captured(tmp_path, text)
    told = cli("advise", "up.pcap")
    assert told.returncode == 0, told.stderr
    assert "no controller will help" in told.stdout.splitlines()[0]
    answer = json.loads(cli("advise", "up.pcap", "--json").stdout)
    assert answer["limited"]
    assert answer["recommended"] is None
    assert answer["ranking"] == []
    assert "sysctl" not in " ".join(answer["commands"])


def test_one_path_gives_one_ranking_whoever_sent(tmp_path: Path) -> None:
    for cc in ("cubic", "bbr3"):
        found = read(captured(tmp_path, UPLOAD.replace('"cubic"', f'"{cc}"')))
        best = ranked(found).best("throughput")
        assert best[0] == "bbr1"
        assert not {"reno", "cubic"} & set(best)


def test_a_receivers_capture_is_ranked_without_a_sender(tmp_path: Path) -> None:
    found = read(captured(tmp_path, end="receiver"))
    assert found.senders == []
    assert "a controller that its packets do not show" in " ".join(found.sentences)
    assert "cubic" not in ranked(found).best("throughput")


def test_a_capture_that_is_cut_is_used_as_far_as_it_goes(cli: Command, tmp_path: Path) -> None:
    place = captured(tmp_path, opened=False)
    place.write_bytes(place.read_bytes()[: place.stat().st_size * 2 // 3])
    asked = ("--cc", "cubic", "bbr1", "--paths", "10")
    answer = json.loads(cli("advise", "up.pcap", *asked, "--json").stdout)
    assert answer["recommended"] == "bbr1"
    assert any("ends" in line or "cut" in line for line in answer["unknown"]), answer["unknown"]


def test_all_flows_of_a_recording_get_the_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = UPLOAD + '[[flows]]\ncc = "cubic"\nstart = "1 s"\n'
    found = read(captured(tmp_path, text))
    assert sum("sent" in line for line in found.sentences) == 2
    case = advise.Case(found.scenario, "bbr1", (("cubic", 2),), 1, 0)
    run = paceline.run(case.job().text, overrides=case.job().overrides)
    assert run.flows["cc"].to_list() == ["bbr1", "bbr1", "cubic", "cubic"]
    measured = case.measure(run)
    own = run.flows["goodput_bytes"].to_list()[:2]
    assert measured["goodput_bps"] == pytest.approx(sum(own) * 8 / 10, rel=0.02)
    beside = [flow["goodput_bps"] for flow in run.flow_metrics[2:]]
    assert measured["neighbour_bps"] == pytest.approx(sum(beside) / 2, rel=0.01)
    given = verb.Options(sender="cubic", controllers=["mine=own.py"])
    assert verb._commands(given, [found], "bbr1")[:2] == [
        "paceline fit up.pcap --cc cubic --controller mine=own.py --out up-fitted.toml",
        "paceline run up-fitted.toml --set flows.0.cc=bbr1 --set flows.1.cc=bbr1 "
        "--controller mine=own.py --repeats 10",
    ]


def test_a_neighbour_counts_only_while_a_transfer_lasts() -> None:
    text = UPLOAD.replace('10 s"', '400 s"').replace(', loss = "0.5 %"', "") + "app.size = '1 MB'\n"
    job = advise.Case(text, "cubic", (("cubic", 1),), 1, 0).job()
    # Three times as long, in a form that a scenario takes.
    assert job.overrides == (("flows.0.cc", "cubic"), ("run.duration", "1200 s"))
    run = paceline.run(job.text, overrides={"run.duration": "20 s"})
    found = advise.Case(text, "cubic", (("cubic", 1),), 1, 0).measure(run)
    assert run.flows["finish_ns"][0] < 5e9
    # Then it has the 8 Mbit/s for itself.
    assert found["neighbour_bps"] < 5e6 < 6.5e6 < run.flow_metrics[1]["goodput_bps"]


def test_a_turn_in_losses_is_a_condition_and_no_chance() -> None:
    turn = advise.Turn("loss_ratio", 0.000274, None, "bbr3", 0.17)
    assert turn.sentence == "if 0.0274 % of packets are lost at random, bbr3 is ahead by 17 %."


def test_only_a_controller_that_all_flows_have_is_kept() -> None:
    text = UPLOAD.replace("10 s", "2 s")
    found = advise.Recording("mine", paceline.run(text + '[[flows]]\ncc = "bbr1"\n'))
    assert found.senders == ["cubic", "bbr1"]
    assert found.shared == []
    own = advise.Recording("mine", paceline.run(text))
    assert own.shared == ["cubic"]
    other = advise.Recording("other", paceline.run(text.replace('"cubic"', '"bbr3"')))
    assert other.shared == ["bbr3"]
    assert verb._shared([own, own]) == ["cubic"]
    assert verb._shared([own, other]) == verb._shared([other, own]) == []


def test_limits_that_are_enough_together_are_both_named() -> None:
    assert advise.Limits(0.31, 0.30).sentence == (
        "For 31 % of the time the application, or its send buffer, is the limit, and for 30 % of "
        "the time the receive window is the limit, and not the path: no controller will help."
    )
    assert advise.Limits(0.3, 0.29).sentence is None


def test_a_runs_receive_window_is_the_limit_as_a_captures_is() -> None:
    window = UPLOAD.replace(', loss = "0.5 %"', "") + 'receive_window = "32 KiB"\n'
    found = advise.read("mine", paceline.run(window))
    assert "the receive window is the limit" in (found.limits.sentence or "")


def test_a_fit_takes_the_threads_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    run = paceline.run(UPLOAD.replace("10 s", "4 s"))
    asked: list[int | None] = []
    real = batch.locally

    def locally(count: int | None) -> batch.Executor:
        asked.append(count)
        return real(count)

    monkeypatch.setattr(batch, "locally", locally)
    monkeypatch.delattr("paceline.batch.work.locally")
    advise.read("mine", run, paths=10, threads=1)
    assert set(asked) == {1}


def test_flows_beside_with_one_name_are_added_up() -> None:
    given = verb.Options(beside=["cubic:2", "reno", "cubic:3", "reno"])
    assert verb._asked(given).beside == (("cubic", 5), ("reno", 2))


def test_an_included_scenario_is_a_path_too() -> None:
    found = verb._opened("four-flows")
    assert isinstance(found, advise.Recording)
    assert toml(found.text)["flows"]


def test_files_are_checked_before_any_work(cli: Command, tmp_path: Path) -> None:
    # Nothing can be fitted: without a check, that comes first.
    late = UPLOAD + 'start = "9.99 s"\n'
    paceline.run(late).write(tmp_path / "late")
    assert "no flow of it has both data" in cli("advise", "late").stderr
    assert "no such file or folder: gone.pcap" in cli("advise", "late", "gone.pcap").stderr
    assert "cannot write" in cli("advise", "late", "--out", "none/page.html").stderr
    (tmp_path / "late-advice.html").write_text("mine")
    assert "exists" in cli("advise", "late").stderr


def test_the_ensemble_is_of_paths_that_the_recording_allows(tmp_path: Path) -> None:
    found = read(captured(tmp_path, UPLOAD.replace("cubic", "bbr3")))
    assert len(set(found.paths)) == advise.PATHS
    paths = [toml(path)["path"] for path in found.paths]
    rates = [float(path["rate"].split()[0]) for path in paths]
    assert len(set(rates)) > advise.PATHS // 2
    assert all(7 < rate < 9 for rate in rates)
    losses = [float(path["loss"].split()[0]) for path in paths if "loss" in path]
    assert min(losses) < 0.5 < max(losses)
    assert found.fitted is not None
    assert found.fitted.allowed(advise.PATHS) == found.paths


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
    asked = ("advise", "up.pcap", "--cc", "cubic", "bbr1", "--beside", "cubic:2", "--paths", "10")
    answer = json.loads(cli(*asked, "--for", "throughput", "--json").stdout)
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
    # The same again is the same, and what a user has there is left.
    assert cli(*asked, "--for", "throughput").returncode == 0
    (tmp_path / "up-advice.html").write_text("mine")
    assert cli(*asked).returncode == 2
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
    told = cli("advise", "path.toml", "--cc", "cubic", "bbr1", "--for", "throughput")
    assert told.returncode == 0, told.stderr
    assert "its path is known" in told.stdout
    assert "To repeat it, and to set it:" in told.stdout


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--cc", "cubic", "bbr9"), "no controller is called 'bbr9'"),
        (("--cc", "cubic"), "--cc needs two controllers"),
        (("--beside", "cubic:many"), "--beside takes NAME:COUNT, not 'cubic:many'"),
        (("--paths", "3"), "from 10 to 1000"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    cli: Command, tmp_path: Path, given: tuple[str, ...], message: str
) -> None:
    (tmp_path / "path.toml").write_text(UPLOAD)
    told = cli("advise", "path.toml", *given)
    assert told.returncode == 2
    assert message in told.stderr


def test_fit_and_report_take_a_capture_and_give_one_goodput(cli: Command, tmp_path: Path) -> None:
    captured(tmp_path, UPLOAD + 'start = "2 s"\n')
    flow = json.loads(cli("import", "up.pcap", "--json").stdout)["record"]["flows"][0]
    told = json.loads(cli("fit", "up.pcap", "--json").stdout)
    assert told["measured"]["goodput_bps"] == pytest.approx(flow["goodput_bps"], rel=1e-3)
    text = (tmp_path / "up-fitted.toml").read_text()
    assert ' ns"' not in text
    # A recording begins with its flow.
    assert "start" not in text
    again = json.loads(cli("run", "up-fitted.toml", "--json").stdout)
    assert again["metrics"]["goodput_bps"] == pytest.approx(told["fitted"]["goodput_bps"], rel=0.02)
    assert cli("report", "up.pcap").stdout.strip() == "up-report.html"
    assert (tmp_path / "up-report.html").is_file()
