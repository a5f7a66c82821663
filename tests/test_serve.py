"""``paceline serve``: what it answers."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import polars as pl
import pytest

import described
import paceline
from conftest import SCENARIO, lacking
from paceline import pages, store
from paceline.grid import Axis, Grid, Point
from paceline.serve import limits
from paceline.serve.points import points
from paceline.serve.series import InMemory, OnDisk, series
from paceline.serve.server import Server
from paceline.show.panels import rates
from paceline.study.compare import compare
from paceline.study.compare.subjects import read
from paceline.study.sweep import Sweep
from served import fetch, order, serving


def test_it_lists_runs_and_sweeps(server: Server) -> None:
    _, value = fetch(server, "/api/runs")
    entries = {entry["id"]: entry for entry in value["runs"]}
    assert entries.keys() == {"one-3", "group/two-3", "grid-sweep"}
    assert entries["group/two-3"]["controllers"] == ["cubic", "reno"]
    assert entries["one-3"]["metrics"]["goodput_bps"].endswith(" Mbit/s")
    assert entries["grid-sweep"]["axes"] == ["path.rtt"]
    status, image = fetch(server, "/picture?id=grid-sweep&name=utilisation_ratio.png")
    assert status == 200
    assert image.startswith(b"\x89PNG")
    assert b"uPlot" in fetch(server, "/report?id=one-3")[1]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/api/scenario?id=nothing", 404),
        ("/api/scenario?id=" + quote("../secret"), 404),
        ("/api/scenario?id=grid-sweep", 404),
        ("/api/scenario?shipped=nothing", 404),
        ("/api/scenario?shipped=" + quote("../../pyproject"), 404),
        ("/api/scenario", 400),
        ("/api/compare?old=one-3", 400),
        ("/api/compare?old=one-3&new=nothing", 404),
        ("/api/compare?old=one-3&new=" + quote("../secret"), 404),
        ("/api/compare?old=one-3&new=grid-sweep", 404),
        ("/api/points?id=nothing", 404),
        ("/api/points?id=one-3", 404),
        ("/api/points", 400),
        ("/api/scenario?sweep=grid-sweep&point=2&seed=3", 404),
        ("/api/scenario?sweep=grid-sweep&point=0&seed=4", 404),
        ("/api/scenario?sweep=grid-sweep&point=-1&seed=3", 400),
        ("/api/scenario?sweep=one-3&point=0&seed=3", 404),
        ("/api/check", 405),
        ("/api/delete", 405),
        ("/report?id=nothing", 404),
        ("/report?id=..", 404),
        ("/report?id=.", 404),
        ("/report?id=/etc", 404),
        ("/report?id=%00", 404),
        ("/report?id=%ff", 400),
        ("/report?id=" + quote("../secret"), 404),
        ("/report?id=grid-sweep", 404),
        ("/picture?id=one-3&name=run.json", 404),
        ("/report?id=" + quote("one-3/../../secret"), 404),
        ("/api/series?quantity=rtt_ns&id=" + quote("../secret"), 404),
        ("/picture?name=x.png&id=" + quote("../secret"), 404),
        ("/picture?id=one-3&name=samples.parquet", 404),
        ("/picture?id=grid-sweep&name=" + quote("../one-3/x.png"), 404),
        ("/assets/report.html.j2", 404),
        ("/api/series?quantity=nothing&id=one-3", 400),
        ("/api/series?quantity=rtt_ns&id=one-3&from=soon", 400),
        ("/api/series?quantity=rtt_ns&id=one-3&from=inf", 400),
        ("/api/series?quantity=rtt_ns&id=one-3&from=nan", 400),
        ("/api/series?quantity=rtt_ns&id=one-3&to=-1", 400),
        ("/api/series?quantity=rtt_ns&from=1e999", 400),
        ("/api/series?quantity=rtt_ns&id=job:7", 404),
        ("/api/series?quantity=rtt_ns" + "&id=one-3" * 41, 400),
        ("/report", 400),
        ("/report?id=one-3&id=one-3", 400),
        ("/api/run", 405),
        ("/api/jobs/7/events", 404),
    ],
)
def test_what_is_not_there(server: Server, path: str, status: int) -> None:
    assert fetch(server, path)[0] == status


def test_a_damaged_run_says_so_and_what_is_not_finished_is_not_there(tmp_path: Path) -> None:
    run = paceline.run(SCENARIO)
    for name in ("good", "cut", "bent", ".paceline-1-0"):
        run.write(tmp_path / name)
    for table in (tmp_path / "cut").glob("*.parquet"):
        table.write_bytes(table.read_bytes()[:100])
    (tmp_path / "bent" / "run.json").write_text('{"scenario": [')
    with serving(tmp_path) as server:
        entries = {entry["id"] for entry in fetch(server, "/api/runs")[1]["runs"]}
        assert entries == {"good", "cut"}
        for path in ("/api/series?quantity=rtt_ns&id=", "/report?id="):
            assert fetch(server, path + "good")[0] == 200
        for path in ("/api/series?quantity=rtt_ns&id=", "/report?id="):
            status, answer = fetch(server, path + "cut")
            assert status == 404, path
            assert answer["error"].startswith("cut: "), answer
        assert fetch(server, "/report?id=bent")[0] == 404


def test_it_answers_this_machine_and_its_own_page_only(server: Server) -> None:
    # A name of somebody else's that points here.
    assert fetch(server, "/api/runs", headers={"Host": "evil.example"})[0] == 403
    body = order({"run.duration": "1 s"})
    for path in ("/api/run", "/api/check", "/api/delete"):
        assert fetch(server, path, body, {"Origin": "http://evil.example"})[0] == 403
        assert fetch(server, path, body, {"Origin": "null"})[0] == 403
    assert fetch(server, "/api/runs", headers={"Origin": "http://evil.example"})[0] == 403
    for site in ("cross-site", "same-site"):
        assert fetch(server, "/api/runs", headers={"Sec-Fetch-Site": site})[0] == 403
    assert fetch(server, "/api/run", body, {"Content-Type": "text/plain"})[0] == 400
    assert fetch(server, "/api/run", {"id": "one-3"})[0] == 400
    wrong = body["scenario"].replace("\nrate =", "\nrat =", 1)
    status, value = fetch(server, "/api/run", {"scenario": wrong})
    assert status == 400
    assert "did you mean `rate`?" in value["error"]
    problems = fetch(server, "/api/check", {"scenario": wrong})[1]["problems"]
    line = wrong.splitlines().index(next(li for li in wrong.splitlines() if li.startswith("rat ")))
    assert problems[0]["line"] == line + 1
    assert problems[0]["hint"].startswith("did you mean `rate`?")
    assert fetch(server, "/api/check", body)[1] == {"problems": []}


def test_a_changed_run_fills_in_and_is_kept(server: Server, folder: Path) -> None:
    origin = {"Origin": server.origin}
    body = order({"path.rate": "5 Mbit/s"}, seed=9)
    status, job = fetch(server, "/api/run", body, origin)
    assert status == 200
    text = fetch(server, f"/api/jobs/{job['job']}/events")[1].decode()
    messages = [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line]
    assert [message["version"] for message in messages] == sorted(m["version"] for m in messages)
    last = messages[-1]
    assert last["backend"] == "sim"
    # A sixteenth ends before the second flow starts, and is no scenario: a quarter, all, kept.
    assert (last["state"], last["version"]) == ("done", 3)
    assert fetch(server, f"/api/series?quantity=rtt_ns&id=job:{job['job']}")[1]["end"] == 2
    # It is in the folder, and no longer in memory.
    assert server.jobs.get(job["job"]).run is None
    kept = paceline.Run.read(folder / last["id"])
    same = paceline.run(SCENARIO, seed=9, overrides={"path.rate": "5 Mbit/s"})
    assert kept.metrics == same.metrics


def test_scenarios_to_start_from(server: Server) -> None:
    basis = fetch(server, "/api/basis")[1]
    assert {"bbr3", "cubic"} <= set(basis["controllers"])
    assert "path" in basis["schema"]["properties"]
    names = [scenario["name"] for scenario in basis["scenarios"]]
    assert "bbr3/four-flows-50M-40ms-1bdp" in names
    first = fetch(server, "/api/scenario?shipped=" + quote(names[0]))[1]
    assert (first["seed"], first["backend"]) == (None, "sim")
    assert fetch(server, "/api/check", {"scenario": first["text"]})[1] == {"problems": []}
    template = fetch(server, "/api/scenario?shipped=")[1]["text"]
    assert fetch(server, "/api/check", {"scenario": template})[1] == {"problems": []}


def test_two_runs_are_compared_by_name(server: Server) -> None:
    between = fetch(server, "/api/compare?old=one-3&new=" + quote("group/two-3"))[1]
    assert [each["key"] for each in between["settings"]] == ["flows.cc"]
    named = {each["name"]: each for each in between["metrics"]}
    assert named["goodput_bps"]["old"].endswith("Mbit/s")
    same = fetch(server, "/api/compare?old=one-3&new=one-3")[1]
    assert same["settings"] == []
    assert {each["change_ratio"] for each in same["metrics"]} <= {0.0, None}


def test_repeats_beside_two_runs_say_how_sure_a_difference_is(tmp_path: Path) -> None:
    for cc in ("bbr3", "cubic"):
        for seed in range(1, 7):
            run = paceline.run(SCENARIO, seed=seed, overrides={"flows.0.cc": cc})
            run.write(tmp_path / cc / f"seed-{seed}")
    # Of another scenario, however it is called.
    other = paceline.run(SCENARIO, seed=7, overrides={"path.rate": "20 Mbit/s"})
    other.write(tmp_path / "cubic" / "seed-7")
    old, new = (quote(f"{cc}/seed-2", safe="") for cc in ("bbr3", "cubic"))
    with serving(tmp_path) as server:
        between = fetch(server, f"/api/compare?old={old}&new={new}")[1]
        again = fetch(server, f"/api/compare?old={old}&new={quote('bbr3/seed-3', safe='')}")[1]
    assert described.wrong(between, pages.Between) == []
    assert between["runs"] == [6, 6]
    sides = [read(tmp_path / "bbr3"), read(tmp_path / "cubic")]
    del sides[1].points[""][7]
    for row, finding in zip(between["metrics"], compare(sides[0], sides[1]), strict=True):
        assert (row["name"], row["p"], row["verdict"]) == (
            finding.metric,
            finding.p,
            finding.verdict,
        )
        assert (row["interval"] is None) == (
            finding.difference is None or finding.difference.low is None
        )
    assert {row["verdict"] for row in between["metrics"]} & {"better", "worse"}
    # Two repeats of one scenario are compared as two runs.
    assert again["runs"] == [1, 1]
    assert {row["p"] for row in again["metrics"]} == {None}


def test_a_run_and_its_repeats_have_a_verdict_in_a_sentence(tmp_path: Path) -> None:
    expect = '[expect]\nutilisation_ratio = ">= 0.1"\njain_ratio = ">= 0.999"\n'
    for seed in range(1, 7):
        run = paceline.run(SCENARIO + expect, seed=seed)
        run.write(tmp_path / "six" / f"seed-{seed}")
    with serving(tmp_path) as server:
        alone = fetch(server, "/api/side?id=six%2Fseed-1")[1]
        side = fetch(server, "/api/side?id=six%2Fseed-1&repeats=yes")[1]
        assert fetch(server, "/api/side?id=six")[0] == 404
    for answer in (alone, side):
        assert described.wrong(answer, pages.Side) == []
        assert answer["failed"]
        assert answer["verdict"].startswith("1 of 2 expectations failed: Jain's index 0.")
        assert "(at least 0.9990 expected). bbr3 and reno: " in answer["verdict"]
    assert (alone["runs"], side["runs"]) == (1, 6)
    goodput = read(tmp_path / "six").figure("", "goodput_bps")
    assert side["metrics"]["goodput_bps"] == goodput
    assert " to " in goodput


def test_a_folder_gets_another_name(tmp_path: Path) -> None:
    run = paceline.run(SCENARIO)
    for name in ("one", "two", "deep/er", "many/seed-1", "many/seed-2"):
        run.write(tmp_path / name)
    (tmp_path / "many" / store.MANIFEST).write_text("{}")
    (tmp_path / "mine.txt").touch()
    with serving(tmp_path) as server:

        def rename(name: str, new: str) -> tuple[int, Any]:
            return fetch(server, "/api/rename", {"id": name, "name": new})

        assert rename("one", "uno") == (200, "uno")
        assert rename("deep/er", "../../x") == (200, "deep/x")
        assert rename("many", "few") == (200, "few")
        for name, new in (("uno", "two"), ("two", "mine.txt"), ("few/seed-1", "first")):
            status, answer = rename(name, new)
            assert (status, "rename" in answer["error"] or "choose" in answer["error"]) == (400, 1)
        for name in ("one", "..", ".", "", "/", "fe", "nothing", "deep/../uno"):
            assert rename(name, "z")[0] == 404, name
        assert fetch(server, "/api/rename", {"id": "uno"})[0] == 400
        left = {entry["id"] for entry in fetch(server, "/api/runs")[1]["runs"]}
    assert left == {"uno", "two", "deep/x", "few/seed-1", "few/seed-2"}


def test_the_same_run_again_is_the_one_that_is_there(tmp_path: Path) -> None:
    changed = order({"run.duration": "1 s"}, seed=1, name="my/run")
    with serving(tmp_path) as server:
        ids = []
        for body in (changed, changed, order({"run.duration": "2 s"}, seed=1, name="my/run")):
            job = fetch(server, "/api/run", body)[1]
            events = fetch(server, f"/api/jobs/{job['job']}/events")[1].decode()
            ids.append(json.loads(events.strip().splitlines()[-1].removeprefix("data: "))["id"])
        assert fetch(server, "/api/run", changed | {"name": 3})[0] == 400
    assert ids == ["my-run", "my-run", "my-run-2"]


def test_a_shorter_run_has_no_throughput_after_its_end() -> None:
    runs = [paceline.run(SCENARIO, overrides={"run.duration": d}) for d in ("1 s", "3 s")]
    drawn = series({str(n): InMemory(run) for n, run in enumerate(runs)}, "throughput_bps")
    for line in drawn["lines"]:
        values = dict(zip(drawn["times"], line["values"], strict=True))
        after = [value for time, value in values.items() if time > 1.1]
        assert all((value is None) == (line["run"] == "0") for value in after)
        assert None not in [value for time, value in values.items() if time < 0.9]


def test_a_point_of_a_sweep_leads_to_its_run(server: Server, folder: Path) -> None:
    listed = fetch(server, "/api/points?id=grid-sweep")[1]
    assert described.wrong(listed, pages.Points) == []
    assert [point["place"] for point in listed["points"]] == [["10 ms"], ["20 ms"]]
    sweep = Sweep.read(folder / "grid-sweep")
    metric = "queue_p95_ns"
    listed = fetch(server, f"/api/points?id=grid-sweep&metric={metric}")[1]
    assert [point["mean"] for point in listed["points"]] == sweep.runs[metric].to_list()
    path = f"/api/scenario?sweep=grid-sweep&point=1&seed={sweep.grid.seeds[0]}"
    scenario = fetch(server, path)[1]
    again = paceline.run(scenario["text"], seed=scenario["seed"])
    assert again.scenario == sweep.scenario
    assert again.metrics[metric] == sweep.runs[metric][1]


def test_of_many_points_the_ends_are_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POINTS", 4)
    monkeypatch.setattr(limits, "POINTS_SHOWN", 2)
    grid = Grid(
        (
            Axis(
                ("path.rtt",),
                tuple(Point(f"{n} ms", (("path.rtt", f"{n} ms"),)) for n in range(1, 8)),
            ),
        ),
        (1,),
    )
    rows = [
        {
            "path.rtt": f"{n} ms",
            "metric": "goodput_bps",
            "mean": float(n * 3 % 7),
            "low": None,
            "high": None,
            "count": 1,
            "runs": 1,
            "censored": 0,
            "coverage_ratio": None,
        }
        for n in range(1, 7)
    ]
    frame = pl.DataFrame(rows, schema_overrides={"low": pl.Float64, "high": pl.Float64})
    sweep = Sweep(folder, "s", grid, ("goodput_bps",), 0, ())
    page = points(sweep, frame, "goodput_bps")
    assert page["total"] == 7
    picture = page["picture"]
    assert picture is not None
    assert [(mark["point"], mark["x"], mark["y"]) for mark in picture["marks"]] == [
        (1, 2.0, 6.0),
        (0, 5.0, 1.0),
    ]
    assert picture["across"] == "RTT (ms)"
    assert [line["label"] for line in picture["lines"]] == [""]
    assert picture["joined"] == "no"
    drawn = Grid((Axis(("path.rtt",), grid.axes[0].points, drawn=True),), (1,))
    page = points(Sweep(folder, "s", drawn, ("goodput_bps",), 0, ()), frame, "goodput_bps")
    picture = page["picture"]
    assert picture is not None
    # The lowest and the highest of six that are defined.
    assert [(mark["x"], mark["y"]) for mark in picture["marks"]] == [(1.0, 1 / 6), (6.0, 1.0)]
    assert [(point["point"], point["mean"]) for point in page["points"]] == [(4, 1.0), (1, 6.0)]


def test_two_axes_are_lines_and_three_a_table(tmp_path: Path) -> None:
    over = {"flows.0.cc": ["bbr3", "cubic"], "path.queue.size": paceline.bdp(1, 2, 4)}
    short = {"run.duration": "0.5 s"}
    sweep = paceline.sweep(SCENARIO, over, overrides=short, out=tmp_path / "s")
    picture = points(sweep, sweep.points, "goodput_bps")["picture"]
    assert picture is not None
    assert (picture["across"], picture["up"]) == ("Queue size (BDP)", "Goodput (Mbit/s)")
    assert [line["label"] for line in picture["lines"]] == ["bbr3", "cubic"]
    assert (picture["log"], picture["joined"]) == (True, "straight")
    means = [row["mean"] for row in sweep.statistics("goodput_bps") if row is not None]
    for line in (0, 1):
        marks = [mark for mark in picture["marks"] if mark["line"] == line]
        assert [mark["x"] for mark in marks] == [1, 2, 4]
        assert [mark["point"] for mark in marks] == [3 * line + nth for nth in range(3)]
        assert [mark["y"] * 1e6 for mark in marks] == pytest.approx(means[3 * line :][:3])
    three = paceline.sweep(
        SCENARIO, over | {"path.rtt": ["9 ms"]}, overrides=short, out=tmp_path / "t"
    )
    assert points(three, three.points, "goodput_bps")["picture"] is None


def test_only_what_a_command_wrote_is_deleted(tmp_path: Path) -> None:
    run = paceline.run(SCENARIO)
    for name in ("ours", "with-notes", "changed", "with-folder", "with-link"):
        store.keep(tmp_path / name, run.inner.write)
    run.write(tmp_path / "by-hand")
    (tmp_path / "by-hand" / "paceline.json").unlink()
    (tmp_path / "with-notes" / "notes.txt").write_text("mine")
    (tmp_path / "changed" / "scenario.toml").write_text("# mine")
    (tmp_path / "with-folder" / "mine").mkdir()
    (tmp_path / "with-link" / "samples.parquet").unlink()
    (tmp_path / "with-link" / "samples.parquet").symlink_to(tmp_path / "ours" / "samples.parquet")
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    with serving(tmp_path) as server:
        for name in ("with-notes", "changed", "with-folder", "with-link", "by-hand"):
            status, answer = fetch(server, "/api/delete", {"id": name})
            assert (status, "left unchanged" in answer["error"]) == (400, True), answer
            assert str(tmp_path) not in answer["error"]
        for name in ("link", "..", "nothing", "ours/../ours"):
            assert fetch(server, "/api/delete", {"id": name})[0] == 404
        assert fetch(server, "/api/delete", {"id": "ours"})[0] == 200
        left = {entry["id"] for entry in fetch(server, "/api/runs")[1]["runs"]}
    assert left == {"with-notes", "changed", "with-folder", "with-link", "by-hand"}
    assert {path.name for path in tmp_path.iterdir()} == left | {"link"}


def test_what_was_emulated_is_emulated_again(tmp_path: Path) -> None:
    if why := lacking():
        pytest.skip(f"this machine cannot emulate: {why}")
    loose = '[run]\nemulation = { lateness_p99 = "1 s", added_delay = "1 s", rate_error = "100 %" }'
    text = SCENARIO.replace("[run]", loose).replace("bbr3", "cubic").replace('"2 s"', '"500 ms"')
    paceline.run(text, backend="emu").write(tmp_path / "emulated")
    with serving(tmp_path) as server:
        # What only the simulator does is said to be so.
        scenario = fetch(server, "/api/scenario?id=emulated")[1]
        assert (scenario["seed"], scenario["backend"]) == (3, "emu")
        body = {"scenario": scenario["text"].replace('"cubic"', '"bbr3"'), "backend": "emu"}
        status, value = fetch(server, "/api/run", body)
        assert status == 400
        assert "bbr3" in value["error"]
        settings = {"path.rate": "5 Mbit/s", "run.duration": "1 s"}
        slow = {"scenario": paceline.check(scenario["text"], overrides=settings), "backend": "emu"}
        status, job = fetch(server, "/api/run", slow)
        assert (status, job["backend"]) == (200, "emu")
        text = fetch(server, f"/api/jobs/{job['job']}/events")[1].decode()
        last = json.loads(text.strip().split("\n\n")[-1].removeprefix("data: "))
        # It is run once: no part of it is shown before.
        assert (last["state"], last["version"]) == ("done", 2), last
        again = paceline.Run.read(tmp_path / last["id"])
        assert again.backend == "emu"
        assert 0.5e6 < (again.metrics["goodput_bps"] or 0) < 5e6


def test_a_shorter_run_is_the_beginning_of_the_longer_one() -> None:
    whole = paceline.run(SCENARIO).samples
    part = paceline.run(SCENARIO, overrides={"run.duration": "0.5 s"}).samples
    until = part["t_ns"].max()
    assert part.height > 50
    assert part.filter(pl.col("t_ns") < until).equals(whole.filter(pl.col("t_ns") < until))


def values_at(values: list[float | None]) -> list[int]:
    return [at for at, value in enumerate(values) if value is not None]


@pytest.mark.parametrize("buckets", [7, 600])
def test_no_peak_is_lost_at_any_zoom(
    run: paceline.Run, buckets: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Few, so that each holds many samples; more than there are samples.
    monkeypatch.setattr("paceline.serve.series.BUCKETS", buckets)
    run.write(tmp_path / "r")
    tables = (InMemory(run), OnDisk(tmp_path, "r"))
    for start, end in ((None, None), (500_000_000, 900_000_000), (1_000_000_000, 1_050_000_000)):
        drawn = [series({"r": each}, "rtt_ns", start, end) for each in tables]
        assert drawn[0] == drawn[1]
        inside = run.samples.filter(pl.col("t_ns").is_between(start or 0, end or 10**18))
        for flow, line in enumerate(drawn[0]["lines"]):
            rtts = inside.filter(flow=flow)["rtt_ns"].drop_nulls()
            values = [value for value in line["values"] if value is not None]
            size = {"ms": 1e6, "µs": 1e3, "s": 1e9}[drawn[0]["unit"]]
            most, least = rtts.max(), rtts.min()
            assert isinstance(most, int)
            assert isinstance(least, int)
            assert max(values) == pytest.approx(most / size, rel=1e-4)
            assert min(values) == pytest.approx(least / size, rel=1e-4)
            # There are no holes, however narrow the buckets would be.
            first, last = (values_at(line["values"])[end] for end in (0, -1))
            assert None not in line["values"][first:last]
        times = drawn[0]["times"]
        assert times == sorted(times)
        assert (start or 0) / 1e9 <= times[0] < times[-1] < (end or 2.1e9) / 1e9 + 0.02


def test_throughput_of_uneven_samples_is_not_beyond_what_arrived() -> None:
    """An emulation's samples come late now and then, and stand on no edge of a bin."""
    late = [0, 7_000_000, 1_000_000, 9_000_000]
    times = [n * 10_000_000 + late[n % 4] for n in range(200)]
    # 8 Mbit/s exactly: a byte a microsecond.
    frame = pl.DataFrame({"flow": 3, "t_ns": times, "delivered_bytes": [t // 1000 for t in times]})
    (line,) = rates(frame, 50_000_000, 30, 300_000_000).values()
    assert line.to_list() == pytest.approx([8e6] * 30)
    assert rates(frame, 50_000_000, 4)[3].to_list() == pytest.approx([8e6] * 4)


def test_throughput_of_a_window_is_what_arrived_in_it(run: paceline.Run) -> None:
    start, end = 600_000_000, 1_600_000_000
    drawn = series({"r": InMemory(run)}, "throughput_bps", start, end)
    width = drawn["times"][1] - drawn["times"][0]
    scale = {"Mbit/s": 1e6, "kbit/s": 1e3}[drawn["unit"]]
    for flow, line in enumerate(drawn["lines"]):
        rows = run.samples.filter(pl.col("flow") == flow).select("t_ns", "delivered_bytes")
        arrived = [
            rows.filter(pl.col("t_ns") <= at)["delivered_bytes"].to_list()[-1]
            for at in (start, end)
        ]
        bits = sum(value or 0.0 for value in line["values"]) * scale * width
        assert bits == pytest.approx(8 * (arrived[1] - arrived[0]), rel=0.02)


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 0), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_the_command_serves_until_it_is_ended(folder: Path, number: str, code: int) -> None:
    command = [sys.executable, "-m", "paceline", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--no-browser", "--json"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        value = json.loads("".join(lines))
        address = urlsplit(value["address"])
        assert (address.hostname, address.path) == ("127.0.0.1", "/")
        token = address.query.partition("=")[2]
        headers = {"Cookie": f"paceline-{address.port}={token}", "Content-Type": "application/json"}
        body = order({"run.duration": "100000 s"})
        connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=60)
        connection.request("POST", "/api/run", json.dumps(body), headers)
        # A run is at work, and someone listens to it.
        assert connection.getresponse().read().startswith(b'{"job":1')
        connection.request("GET", "/api/jobs/1/events", headers=headers)
        connection.getresponse().readline()
        process.send_signal(getattr(signal, number))
        _, output = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    connection.close()
    assert (process.returncode, output) == (code, "")
