"""``paceline serve``: what it answers, whom it answers, and the page in a real browser."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlsplit

import polars as pl
import pytest

import browser
import described
import paceline
from conftest import SCENARIO, Command
from paceline import _paceline, memory, pages, store
from paceline.cli.verbs.serve import leading_to
from paceline.errors import StoreError
from paceline.grid import Axis, Grid, Point
from paceline.serve import limits
from paceline.serve.points import points
from paceline.serve.series import InMemory, OnDisk, series
from paceline.serve.server import Server
from paceline.show.panels import rates
from paceline.study.compare import compare, read
from paceline.study.sweep import Plan, Sweep, execute


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outside = tmp_path_factory.mktemp("above")
    paceline.run(SCENARIO).write(outside / "secret")
    (outside / "secret" / "x.png").write_bytes(b"")
    root = outside / "runs"
    root.mkdir()
    paceline.run(SCENARIO).write(root / "one-3")
    paceline.run(SCENARIO, overrides={"flows.0.cc": "cubic"}).write(root / "group" / "two-3")
    over = '[sweep.over]\npath.rtt = ["10 ms", "20 ms"]\n'
    sweep = execute(Plan.read(SCENARIO + over, "grid.toml"), root / "grid-sweep")
    sweep.plot().savefig(sweep.folder / "utilisation_ratio.png")
    sweep.plot().savefig(sweep.folder / "utilisation_ratio.svg")
    return root


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    thread = Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with serving(folder) as server:
        yield server


def ask(
    server: Server, path: str, order: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    answer, data = call(server, path, order, cookie(server) | (headers or {}))
    kind = answer.headers.get_content_type()
    return answer.status, json.loads(data) if kind == "application/json" else data


def order(settings: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """Return a request for a run of the scenario with these settings."""
    return {"scenario": paceline.check(SCENARIO, overrides=settings or {}), **more}


def cookie(server: Server) -> dict[str, str]:
    return {"Cookie": f"{server.cookie}={server.token}"}


def call(
    server: Server, path: str, order: Any = None, headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    sent = {"Content-Type": "application/json"} if order is not None else {}
    body = order if order is None or isinstance(order, bytes) else json.dumps(order)
    method = "GET" if order is None else "POST"
    connection.request(method, path, body=body, headers=sent | (headers or {}))
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


def test_it_lists_runs_and_sweeps(server: Server) -> None:
    _, value = ask(server, "/api/runs")
    entries = {entry["id"]: entry for entry in value["runs"]}
    assert entries.keys() == {"one-3", "group/two-3", "grid-sweep"}
    assert entries["group/two-3"]["controllers"] == ["cubic", "reno"]
    assert entries["one-3"]["metrics"]["goodput_bps"].endswith(" Mbit/s")
    assert entries["grid-sweep"]["axes"] == ["path.rtt"]
    status, image = ask(server, "/picture?id=grid-sweep&name=utilisation_ratio.png")
    assert status == 200
    assert image.startswith(b"\x89PNG")
    assert b"uPlot" in ask(server, "/report?id=one-3")[1]


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
    assert ask(server, path)[0] == status


def test_a_damaged_run_says_so_and_what_is_not_finished_is_not_there(tmp_path: Path) -> None:
    run = paceline.run(SCENARIO)
    for name in ("good", "cut", "bent", ".half.partial-1"):
        run.write(tmp_path / name)
    for table in (tmp_path / "cut").glob("*.parquet"):
        table.write_bytes(table.read_bytes()[:100])
    (tmp_path / "bent" / "run.json").write_text('{"scenario": [')
    with serving(tmp_path) as server:
        entries = {entry["id"] for entry in ask(server, "/api/runs")[1]["runs"]}
        assert entries == {"good", "cut"}
        for path in ("/api/series?quantity=rtt_ns&id=", "/report?id="):
            assert ask(server, path + "good")[0] == 200
        for path in ("/api/series?quantity=rtt_ns&id=", "/report?id="):
            status, answer = ask(server, path + "cut")
            assert status == 404, path
            assert answer["error"].startswith("cut: "), answer
        assert ask(server, "/report?id=bent")[0] == 404


def test_it_answers_this_machine_and_its_own_page_only(server: Server) -> None:
    # A name of somebody else's that points here.
    assert ask(server, "/api/runs", headers={"Host": "evil.example"})[0] == 403
    wish = order({"run.duration": "1 s"})
    for path in ("/api/run", "/api/check", "/api/delete"):
        assert ask(server, path, wish, {"Origin": "http://evil.example"})[0] == 403
        assert ask(server, path, wish, {"Origin": "null"})[0] == 403
    assert ask(server, "/api/runs", headers={"Origin": "http://evil.example"})[0] == 403
    for site in ("cross-site", "same-site"):
        assert ask(server, "/api/runs", headers={"Sec-Fetch-Site": site})[0] == 403
    assert ask(server, "/api/run", wish, {"Content-Type": "text/plain"})[0] == 400
    assert ask(server, "/api/run", {"id": "one-3"})[0] == 400
    wrong = wish["scenario"].replace("\nrate =", "\nrat =", 1)
    status, value = ask(server, "/api/run", {"scenario": wrong})
    assert status == 400
    assert "did you mean `rate`?" in value["error"]
    problems = ask(server, "/api/check", {"scenario": wrong})[1]["problems"]
    line = wrong.splitlines().index(next(li for li in wrong.splitlines() if li.startswith("rat ")))
    assert problems[0]["line"] == line + 1
    assert problems[0]["hint"].startswith("did you mean `rate`?")
    assert ask(server, "/api/check", wish)[1] == {"problems": []}


def test_a_changed_run_fills_in_and_is_kept(server: Server, folder: Path) -> None:
    origin = {"Origin": server.origin}
    wish = order({"path.rate": "5 Mbit/s"}, seed=9)
    status, job = ask(server, "/api/run", wish, origin)
    assert status == 200
    text = ask(server, f"/api/jobs/{job['job']}/events")[1].decode()
    messages = [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line]
    assert [message["version"] for message in messages] == sorted(m["version"] for m in messages)
    last = messages[-1]
    assert last["backend"] == "sim"
    # A sixteenth ends before the second flow starts, and is no scenario: a quarter, all, kept.
    assert (last["state"], last["version"]) == ("done", 3)
    assert ask(server, f"/api/series?quantity=rtt_ns&id=job:{job['job']}")[1]["end"] == 2
    # It is in the folder, and no longer in memory.
    assert server.jobs.get(job["job"]).run is None
    kept = paceline.read(folder / last["id"])
    same = paceline.run(SCENARIO, seed=9, overrides={"path.rate": "5 Mbit/s"})
    assert kept.metrics == same.metrics


def test_scenarios_to_start_from(server: Server) -> None:
    basis = ask(server, "/api/basis")[1]
    assert {"bbr3", "cubic"} <= set(basis["controllers"])
    assert "path" in basis["schema"]["properties"]
    names = [scenario["name"] for scenario in basis["scenarios"]]
    assert "bbr3/four-flows-50M-40ms-1bdp" in names
    first = ask(server, "/api/scenario?shipped=" + quote(names[0]))[1]
    assert (first["seed"], first["backend"]) == (None, "sim")
    assert ask(server, "/api/check", {"scenario": first["text"]})[1] == {"problems": []}
    template = ask(server, "/api/scenario?shipped=")[1]["text"]
    assert ask(server, "/api/check", {"scenario": template})[1] == {"problems": []}


def test_two_runs_are_compared_by_name(server: Server) -> None:
    between = ask(server, "/api/compare?old=one-3&new=" + quote("group/two-3"))[1]
    assert [each["key"] for each in between["settings"]] == ["flows.cc"]
    named = {each["name"]: each for each in between["metrics"]}
    assert named["goodput_bps"]["old"].endswith("Mbit/s")
    same = ask(server, "/api/compare?old=one-3&new=one-3")[1]
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
        between = ask(server, f"/api/compare?old={old}&new={new}")[1]
        again = ask(server, f"/api/compare?old={old}&new={quote('bbr3/seed-3', safe='')}")[1]
    assert described.wrong(between, pages.Between) == []
    assert between["runs"] == [6, 6]
    sides = [read(tmp_path / "bbr3"), read(tmp_path / "cubic")]
    del sides[1].points[""][7]
    for told, found in zip(between["metrics"], compare(sides[0], sides[1]), strict=True):
        assert (told["name"], told["p"], told["verdict"]) == (found.metric, found.p, found.verdict)
        assert (told["interval"] is None) == (
            found.difference is None or found.difference.low is None
        )
    assert {told["verdict"] for told in between["metrics"]} & {"better", "worse"}
    # Two repeats of one scenario are compared as two runs.
    assert again["runs"] == [1, 1]
    assert {told["p"] for told in again["metrics"]} == {None}


def test_a_point_of_a_sweep_leads_to_its_run(server: Server, folder: Path) -> None:
    found = ask(server, "/api/points?id=grid-sweep")[1]
    assert described.wrong(found, pages.Points) == []
    assert [point["place"] for point in found["points"]] == [["10 ms"], ["20 ms"]]
    sweep = Sweep.read(folder / "grid-sweep")
    metric = "queue_p95_ns"
    found = ask(server, f"/api/points?id=grid-sweep&metric={metric}")[1]
    assert [point["mean"] for point in found["points"]] == sweep.runs[metric].to_list()
    path = f"/api/scenario?sweep=grid-sweep&point=1&seed={sweep.grid.seeds[0]}"
    scenario = ask(server, path)[1]
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
        }
        for n in range(1, 7)
    ]
    frame = pl.DataFrame(rows, schema_overrides={"low": pl.Float64, "high": pl.Float64})
    sweep = Sweep(folder, "s", grid, ("goodput_bps",), 0, ())
    found = points(sweep, frame, "goodput_bps")
    assert found["total"] == 7
    picture = found["picture"]
    assert picture is not None
    assert [(mark["point"], mark["x"], mark["y"]) for mark in picture["marks"]] == [
        (1, 2.0, 6.0),
        (0, 5.0, 1.0),
    ]
    assert picture["across"] == "path.rtt (ms)"
    drawn = Grid((Axis(("path.rtt",), grid.axes[0].points, drawn=True),), (1,))
    found = points(Sweep(folder, "s", drawn, ("goodput_bps",), 0, ()), frame, "goodput_bps")
    picture = found["picture"]
    assert picture is not None
    # The lowest and the highest of six that are defined.
    assert [(mark["x"], mark["y"]) for mark in picture["marks"]] == [(1.0, 1 / 6), (6.0, 1.0)]
    assert [(point["point"], point["mean"]) for point in found["points"]] == [(4, 1.0), (1, 6.0)]


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
            status, answer = ask(server, "/api/delete", {"id": name})
            assert (status, "left unchanged" in answer["error"]) == (400, True), answer
            assert str(tmp_path) not in answer["error"]
        for name in ("link", "..", "nothing", "ours/../ours"):
            assert ask(server, "/api/delete", {"id": name})[0] == 404
        assert ask(server, "/api/delete", {"id": "ours"})[0] == 200
        left = {entry["id"] for entry in ask(server, "/api/runs")[1]["runs"]}
    assert left == {"with-notes", "changed", "with-folder", "with-link", "by-hand"}
    assert {path.name for path in tmp_path.iterdir()} == left | {"link"}


def test_what_was_emulated_is_emulated_again(tmp_path: Path) -> None:
    report = json.loads(_paceline.doctor(True, lambda _: None))
    missing = [check["found"] for check in report["checks"] if check["state"] == "missing"]
    if missing:
        pytest.skip(f"this machine cannot emulate: {'; '.join(missing)}")
    loose = '[run]\nemulation = { lateness_p99 = "1 s", added_delay = "1 s", rate_error = "100 %" }'
    text = SCENARIO.replace("[run]", loose).replace("bbr3", "cubic").replace('"2 s"', '"500 ms"')
    paceline.run(text, backend="emu").write(tmp_path / "emulated")
    with serving(tmp_path) as server:
        # What only the simulator does is said to be so.
        found = ask(server, "/api/scenario?id=emulated")[1]
        assert (found["seed"], found["backend"]) == (3, "emu")
        wish = {"scenario": found["text"].replace('"cubic"', '"bbr3"'), "backend": "emu"}
        status, value = ask(server, "/api/run", wish)
        assert status == 400
        assert "bbr3" in value["error"]
        settings = {"path.rate": "5 Mbit/s", "run.duration": "1 s"}
        slow = {"scenario": paceline.check(found["text"], overrides=settings), "backend": "emu"}
        status, job = ask(server, "/api/run", slow)
        assert (status, job["backend"]) == (200, "emu")
        text = ask(server, f"/api/jobs/{job['job']}/events")[1].decode()
        last = json.loads(text.strip().split("\n\n")[-1].removeprefix("data: "))
        # It is run once: no part of it is shown before.
        assert (last["state"], last["version"]) == ("done", 2), last
        again = paceline.read(tmp_path / last["id"])
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
        found = [series({"r": each}, "rtt_ns", start, end) for each in tables]
        assert found[0] == found[1]
        inside = run.samples.filter(pl.col("t_ns").is_between(start or 0, end or 10**18))
        for flow, line in enumerate(found[0]["lines"]):
            rtts = inside.filter(flow=flow)["rtt_ns"].drop_nulls()
            values = [value for value in line["values"] if value is not None]
            size = {"ms": 1e6, "µs": 1e3, "s": 1e9}[found[0]["unit"]]
            most, least = rtts.max(), rtts.min()
            assert isinstance(most, int)
            assert isinstance(least, int)
            assert max(values) == pytest.approx(most / size, rel=1e-4)
            assert min(values) == pytest.approx(least / size, rel=1e-4)
            # There are no holes, however narrow the buckets would be.
            first, last = (values_at(line["values"])[end] for end in (0, -1))
            assert None not in line["values"][first:last]
        times = found[0]["times"]
        assert times == sorted(times)
        assert (start or 0) / 1e9 <= times[0] < times[-1] < (end or 2.1e9) / 1e9 + 0.02


def test_throughput_of_uneven_samples_is_not_beyond_what_arrived() -> None:
    """An emulation's samples come late now and then, and stand on no edge of a bin."""
    late = [0, 7_000_000, 1_000_000, 9_000_000]
    times = [n * 10_000_000 + late[n % 4] for n in range(200)]
    # 8 Mbit/s exactly: a byte a microsecond.
    frame = pl.DataFrame({"flow": 3, "t_ns": times, "delivered_bytes": [t // 1000 for t in times]})
    (line,) = rates(frame, 50_000_000, 30, 300_000_000).values()
    assert line == pytest.approx([8e6] * 30)
    assert rates(frame, 50_000_000, 4)[3] == pytest.approx([8e6] * 4)


def test_throughput_of_a_window_is_what_arrived_in_it(run: paceline.Run) -> None:
    start, end = 600_000_000, 1_600_000_000
    found = series({"r": InMemory(run)}, "throughput_bps", start, end)
    width = found["times"][1] - found["times"][0]
    scale = {"Mbit/s": 1e6, "kbit/s": 1e3}[found["unit"]]
    for flow, line in enumerate(found["lines"]):
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
        wish = order({"run.duration": "100000 s"})
        connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=60)
        connection.request("POST", "/api/run", json.dumps(wish), headers)
        # A run is at work, and someone listens to it.
        assert connection.getresponse().read().startswith(b'{"job":1')
        connection.request("GET", "/api/jobs/1/events", headers=headers)
        connection.getresponse().readline()
        process.send_signal(getattr(signal, number))
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    connection.close()
    assert (process.returncode, said) == (code, "")


# What attacks it


def raw(server: Server, text: bytes) -> bytes:
    """Send bytes, and return what comes until the server closes."""
    with socket.socket() as connection:
        connection.settimeout(30)
        connection.connect(("127.0.0.1", server.port))
        with suppress(ConnectionError):
            connection.sendall(text)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
        return b""


def request(server: Server, path: str, *headers: str, method: str = "GET") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


SECRET = "root:*:20228:0:99999:7:::"

ROUTES = (
    "/",
    "/assets/serve.js",
    "/api/runs",
    "/api/series?quantity=rtt_ns&id=one-3",
    "/report?id=one-3",
    "/picture?id=grid-sweep&name=utilisation_ratio.png",
    "/api/jobs/1/events",
    "/nothing",
)


@pytest.mark.parametrize("path", ROUTES)
def test_nothing_is_answered_without_the_token(server: Server, path: str) -> None:
    said = {call(server, path, headers=headers)[1] for headers in ({}, wrong(server))}
    assert said == {b'{"error": "open the address that `paceline serve` printed"}'}
    for headers in ({}, wrong(server)):
        assert call(server, path, headers=headers)[0].status == 403
    wish = order()
    for way in ("/api/run", "/api/check", "/api/delete", "/api/jobs/1/stop"):
        assert call(server, way, wish, wrong(server))[0].status == 403


def wrong(server: Server) -> dict[str, str]:
    return {"Cookie": f"{server.cookie}={server.token[:-1]}"}


def test_the_token_becomes_a_cookie(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(server.token) >= 43
    answer, data = call(server, server.address.removeprefix(server.origin))
    assert (answer.status, answer.headers["Location"], data) == (303, "/", b"")
    parts = {part.strip() for part in answer.headers["Set-Cookie"].split(";")}
    assert parts == {f"{server.cookie}={server.token}", "HttpOnly", "SameSite=Strict", "Path=/"}
    for token in ("wrong", server.token[:-1], server.token + "x", "%C3%A9"):
        answer, _ = call(server, f"/?token={token}")
        assert answer.status == 403
        assert "Set-Cookie" not in answer.headers
    # Elsewhere it opens nothing.
    assert call(server, f"/api/runs?token={server.token}")[0].status == 403
    with serving(Path()) as other:
        assert other.token != server.token
    # It is compared so that time says nothing of it.
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((one, two))
        return False

    monkeypatch.setattr("paceline.serve.server.hmac.compare_digest", compare)
    assert ask(server, "/")[0] == 403
    assert compared == [(server.token.encode(), server.token.encode())]


def test_a_browser_that_withholds_the_cookie_is_led_here_again(server: Server) -> None:
    """It withholds it from the request that another page, or a file, led to."""
    for site in ("cross-site", "same-site"):
        answer, data = call(server, "/", headers={"Sec-Fetch-Site": site})
        assert (answer.status, answer.headers["Refresh"], data) == (200, "0; url=/", b"")
    assert call(server, "/", headers={"Sec-Fetch-Site": "same-origin"})[0].status == 403


@pytest.mark.parametrize("path", [*ROUTES, "/api/series?quantity=rtt_ns&from=inf"])
def test_every_answer_states_the_policy(server: Server, path: str) -> None:
    for headers in ({}, cookie(server)):
        answer, data = call(server, path, headers=headers)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy or "script-src" not in policy
        assert ("unsafe" in policy) == (answer.headers.get_content_type() == "image/png")
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        if answer.headers.get_content_type() == "text/html" and headers:
            page = data.decode()
            assert "<style" not in page
            assert " style=" not in page
            assert not re.search(r"\son\w+=", page.partition("<script")[0])
            kinds = re.findall(r"<script([^>]*)>", page)
            assert kinds
            assert all("src=" in kind or "application/gzip" in kind for kind in kinds)


def test_what_is_half_sent_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEADER_S", 0.2)
    monkeypatch.setattr(limits, "BODY_S", 0.2)
    with serving(folder) as server:
        whole = request(server, "/api/runs", f"Cookie: {cookie(server)['Cookie']}")
        assert raw(server, b"") == b""
        assert raw(server, whole[:30]) == b""
        # The first is answered; the next does not come.
        assert raw(server, whole).startswith(b"HTTP/1.1 200")
        length = ("Content-Type: application/json", "Content-Length: 100")
        assert raw(server, request(server, "/api/run", *length, method="POST") + b"{") == b""
        assert ask(server, "/api/runs")[0] == 200


def test_what_nobody_takes_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 16 << 20
    big = folder / "grid-sweep" / "big.png"
    big.write_bytes(bytes(size))
    monkeypatch.setattr(limits, "WRITE_S", 0.2)
    try:
        with serving(folder) as server, socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(60)
            connection.connect(("127.0.0.1", server.port))
            path = "/picture?id=grid-sweep&name=big.png"
            connection.sendall(request(server, path, f"Cookie: {cookie(server)['Cookie']}"))
            assert connection.recv(12) == b"HTTP/1.1 200"
            wait_until(lambda: server.connections == 0)
            taken = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            assert len(taken) < size
    finally:
        big.unlink()


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(6000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


def test_connections_and_threads_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 20)
    with serving(folder) as server:
        ask(server, "/api/runs")
        wait_until(lambda: server.connections == 0)
        before = threading.active_count()
        held = []
        for _ in range(20):
            held.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            held[-1].sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: server.connections == 20)
        assert raw(server, request(server, "/")) == b""
        assert threading.active_count() <= before + limits.THREADS
        for connection in held:
            connection.close()
        wait_until(lambda: server.connections == 0)
        assert ask(server, "/api/runs")[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 400_000,
        b'{"scenario": ""' + b" " * 300_000 + b"}",
        b'{"scenario": "", "x": ' + b"[" * 16 + b"]" * 16 + b"}",
        b"[" * 1000,
        b'{"scenario": "", "seed": ' + b"[" * 1000 + b"]" * 1000 + b"}",
        b"{",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b'{"scenario": 1}',
        b'{"scenario": ["one-3"]}',
        b'{"scenario": "[run"}',
        b'{"scenario": "\\ud800"}',
        b'{"scenario": "a = ' + b"9" * 20_000 + b'"}',
        b'{"scenario": "schema = 1", "seed": -1}',
        b'{"scenario": "schema = 1", "seed": 1.5}',
        b'{"scenario": "schema = 1", "seed": true}',
        b'{"scenario": "schema = 1", "seed": 9223372036854775808}',
        b'{"scenario": "schema = 1", "seed": 1e999}',
        b'{"scenario": "schema = 1", "backend": "root"}',
        b'{"scenario": "schema = 1", "backend": ["sim"]}',
        b'{"scenario": "schema = 1", "backend": {}}',
    ],
)
def test_orders_that_are_none(server: Server, body: bytes) -> None:
    try:
        status = ask(server, "/api/run", body)[0]
    except ConnectionError:
        # What is too long may be refused before all of it is sent.
        assert len(body) > limits.BODY_BYTES
    else:
        assert status in (400, 404), status
    assert server.jobs.running() == 0
    assert ask(server, "/api/runs")[0] == 200


def test_a_page_cannot_name_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    root = tmp_path / "runs"
    run = paceline.run(SCENARIO)
    for name in ("plain", "traced"):
        run.write(root / name)
    text = (root / "traced" / "scenario.toml").read_text()
    traced, count = re.subn(r"(?m)^rate = .*$", f"rate = {{ trace = '{secret}' }}", text, count=1)
    assert count == 1
    (root / "traced" / "scenario.toml").write_text(traced)
    with serving(root) as server:
        for text in (traced, traced.replace(str(secret), "/dev/zero")):
            for way in ("/api/run", "/api/check"):
                status, answer = ask(server, way, {"scenario": text})
                assert status == (400 if way == "/api/run" else 200), answer
                assert "20228" not in json.dumps(answer)
                assert "files are not read here" in json.dumps(answer)
        assert server.jobs.running() == 0


def test_links_and_fifos_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    run = paceline.run(SCENARIO)
    run.write(outside / "run")
    (outside / "x.png").write_text(SECRET)
    root = tmp_path / "runs"
    run.write(root / "good")
    shutil.copytree(folder_of_sweep(tmp_path), root / "sweep")
    (root / "link").symlink_to(outside / "run")
    (root / "up").symlink_to(tmp_path)
    (root / "sweep" / "x.png").symlink_to(outside / "x.png")
    os.mkfifo(root / "sweep" / "y.png")
    for name in ("run.json", "scenario.toml", "flows.parquet", "samples.parquet"):
        for kind in ("link", "fifo"):
            place = root / f"{kind}-{name}"
            run.write(place)
            (place / name).unlink()
            if kind == "link":
                (place / name).symlink_to(outside / "run" / name)
            else:
                os.mkfifo(place / name)
    with serving(root) as server:
        entries = {entry["id"]: entry for entry in ask(server, "/api/runs")[1]["runs"]}
        odd = {f"{kind}-{name}" for kind in ("link", "fifo") for name in TOUCHED}
        assert entries.keys() == {"good", "sweep"} | odd
        for name in ("x.png", "y.png"):
            assert ask(server, f"/picture?id=sweep&name={name}")[0] == 404
        for name in ("link", "up", "up/outside/run", *odd, "link-run.json", "fifo-run.json"):
            assert ask(server, f"/report?id={quote(name)}")[0] == 404, name
        for name in ("link-samples.parquet", "fifo-flows.parquet"):
            assert ask(server, f"/api/series?quantity=rtt_ns&id={name}")[0] == 404
        for name in ("link-scenario.toml", "fifo-scenario.toml", "link"):
            assert ask(server, f"/api/scenario?id={name}")[0] == 404
        assert ask(server, "/report?id=good")[0] == 200


TOUCHED = ("scenario.toml", "flows.parquet", "samples.parquet")


def folder_of_sweep(tmp_path: Path) -> Path:
    over = '[sweep.over]\npath.rtt = ["10 ms", "20 ms"]\n'
    return execute(Plan.read(SCENARIO + over, "grid.toml"), tmp_path / "grid").folder


def test_odd_names_and_files_break_nothing(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    for name in ("good", "a[1]", "a1", "*", "käse", "\udcff"):
        paceline.run(SCENARIO).write(tmp_path / "made")
        (tmp_path / "made").rename(root / name)
    said = json.loads((root / "good" / "run.json").read_text())
    axis = {"keys": ["path.rtt"], "points": [{"name": "x", "values": ["1 ms"]}] * 1000}
    files = {
        "deep": "[" * 200_000,
        "halves": json.dumps(said | {"scenario": "\ud800"}),
        "leak": SECRET,
        "list": "[]",
        "metrics": json.dumps(said | {"metrics": {"goodput_bps": [SECRET]}}),
        "flows": json.dumps(said | {"flows": 5}),
        "seed": json.dumps(said | {"seed": "x"}),
        "many": json.dumps(said | {"seed": 10**30}),
        "beyond": json.dumps(said | {"emulation": 7}),
    }
    for name, text in files.items():
        shutil.copytree(root / "good", root / name)
        (root / name / "run.json").write_text(text)
    (root / "grid").mkdir()
    grid = {"schema": 1, "scenario": "x", "axes": [axis] * 12, "seeds": [1], "metrics": []}
    (root / "grid" / "sweep.json").write_text(json.dumps(grid | {"failed": 0, "overrides": []}))
    with serving(root) as server:
        status, value = ask(server, "/api/runs")
        entries = {entry["id"] for entry in value["runs"]}
        assert status == 200
        assert {"good", "a[1]", "a1", "*", "käse", "halves"} <= entries
        assert entries.isdisjoint(
            {"deep", "leak", "list", "metrics", "flows", "seed", "beyond", "\udcff"}
        )
        assert ask(server, f"/report?id={quote('a[1]')}")[0] == 200
        for name in ("a[1]", "*", "käse"):
            assert ask(server, f"/api/series?quantity=rtt_ns&id={quote(name)}")[0] == 200, name
        for name in files:
            for path in ("/report?id=", "/api/series?quantity=rtt_ns&id="):
                status, answer = ask(server, path + name)
                assert status in (200, 404), (path, name, answer)
                assert status == 200 or SECRET[:6] not in json.dumps(answer)
                assert status == 200 or str(tmp_path) not in json.dumps(answer)


def test_a_table_of_other_columns_or_too_many_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("text", "none", "good"):
        paceline.run(SCENARIO).write(tmp_path / name)
    samples = pl.read_parquet(tmp_path / "text" / "samples.parquet")
    text = samples.with_columns(pl.col("t_ns").cast(pl.String), pl.col("flow").cast(pl.String))
    text.write_parquet(tmp_path / "text" / "samples.parquet")
    samples.select(x=pl.lit(1)).write_parquet(tmp_path / "none" / "samples.parquet")
    with serving(tmp_path) as server:
        for name in ("text", "none"):
            assert ask(server, f"/api/series?quantity=rtt_ns&id={name}")[0] == 404, name
            assert ask(server, f"/report?id={name}")[0] == 404, name
        assert ask(server, "/report?id=good")[0] == 200
        monkeypatch.setattr(limits, "ROWS", samples.height - 1)
        status, answer = ask(server, "/report?id=good")
        assert (status, f"{samples.height:,} rows, some" in answer["error"]) == (404, True)
        monkeypatch.undo()
        assert ask(server, "/report?id=good")[0] == 200
        monkeypatch.setattr(memory, "limit", lambda: 10_000)
        status, answer = ask(server, "/report?id=good")
        assert (status, "10.00 kB are read" in answer["error"]) == (404, True), answer


def test_a_job_that_takes_too_long_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOB_S", 0.2)
    before = set(folder.iterdir())
    long = order({"run.duration": "100000 s"}, seed=4)
    with serving(folder) as server:
        number = ask(server, "/api/run", long)[1]["job"]
        text = ask(server, f"/api/jobs/{number}/events")[1].decode()
    last = json.loads(text.strip().split("\n\n")[-1].removeprefix("data: "))
    assert last["state"] == "failed"
    assert last["message"].startswith("it took longer than 0 s"), last
    assert set(folder.iterdir()) == before


def test_jobs_are_bounded_and_can_be_given_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JOBS", 2)
    monkeypatch.setattr(limits, "ENDED", 1)
    before = set(folder.iterdir())
    long = order({"run.duration": "100000 s"}, seed=4)
    with serving(folder) as server:
        running, waiting = (ask(server, "/api/run", long)[1]["job"] for _ in range(2))
        status, answer = ask(server, "/api/run", long)
        assert (status, answer["error"][:14]) == (429, "2 runs are alr")
        assert server.jobs.running() == 2
        for number in (waiting, running):
            assert ask(server, f"/api/jobs/{number}/stop", {})[0] == 200
            text = ask(server, f"/api/jobs/{number}/events")[1].decode()
            assert json.loads(text.strip().rpartition("data: ")[2])["state"] == "stopped"
        # A third begins, and of those that have ended only one is kept.
        third = ask(server, "/api/run", long)[1]["job"]
        assert [
            ask(server, f"/api/jobs/{number}/stop", {})[0] for number in (running, waiting)
        ] == [404, 200]
        # It is at work when the server ends.
        assert server.jobs.get(third).state == "running"
    assert server.jobs.get(third).state == "stopped"
    assert set(folder.iterdir()) == before


def test_a_run_that_cannot_be_kept_names_no_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Path:
        raise StoreError("write-failed", f"cannot write {folder}", hint="", file=str(folder))

    monkeypatch.setattr("paceline.serve.jobs.store.keep_anew", refuse)
    with serving(folder) as server:
        job = ask(server, "/api/run", order({"run.duration": "0.5 s"}))[1]["job"]
        text = ask(server, f"/api/jobs/{job}/events")[1].decode()
    last = json.loads(text.strip().rpartition("data: ")[2])
    assert (last["state"], last["message"]) == (
        "failed",
        "the run could not be saved: see the terminal",
    )


def test_a_port_that_is_taken_says_so(folder: Path, cli: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = cli("serve", folder, "--port", port, "--no-browser")
    assert result.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in result.stderr
    assert "--port" in result.stderr
    assert cli("serve", folder, "--port", 70_000).returncode == 2


def test_help_states_the_limits(cli: Command) -> None:
    said = " ".join(cli("serve", "--help").stdout.split())
    for limit in ("64 connections", "4 threads", "256 KiB of body", "8 jobs waiting or running"):
        assert limit in said, said


@pytest.fixture
def page(tmp_path: Path) -> Iterator[browser.Browser]:
    page = browser.Browser(tmp_path / "profile")
    yield page
    page.close()
    assert page.errors == []


AXE = Path(__file__).parent.parent / "web" / "node_modules" / "axe-core" / "axe.min.js"

needs_browser = pytest.mark.skipif(browser.found() is None, reason="needs Chromium")

#: What the page has asked for of its lines so far.
ASKED = """performance.getEntriesByType('resource').map((r) => r.name)
    .filter((name) => name.includes('/api/series'))"""


def pick(page: browser.Browser, name: str) -> None:
    """Choose a run of the list."""
    page.ask(
        f"[...document.querySelectorAll('#runs b')].find((b) => b.textContent === {name!r}).click()"
    )


@needs_browser
def test_zooming_fetches_finer_data_and_nothing_twice(
    server: Server, page: browser.Browser
) -> None:
    page.open(f"{server.address}#run=one-3&show=rtt_ns")
    page.wait("document.body.dataset.ready === 'yes'")
    # Time for whatever else it would ask for.
    page.ask("new Promise((done) => setTimeout(done, 300))")
    (first,) = page.ask(ASKED)
    assert "from=" not in first
    turn = int(page.ask("document.body.dataset.drawn"))
    page.ask("""(() => {
      const over = document.querySelector('.u-over');
      const box = over.getBoundingClientRect();
      const at = { clientX: box.left + box.width / 2, clientY: box.top + 20, bubbles: true };
      for (let i = 0; i < 10; i++)
        over.dispatchEvent(new WheelEvent('wheel', { ...at, deltaY: -1, cancelable: true }));
    })()""")
    page.wait(f"Number(document.body.dataset.drawn) > {turn}")
    page.ask("new Promise((done) => setTimeout(done, 500))")
    asked = page.ask(ASKED)
    # Ten times 0.8 of the 2 s round their middle, and half of that on both sides.
    start, end = (float(part.partition("=")[2]) for part in asked[-1].split("&")[-2:])
    shown = 2 * 0.8**10
    assert end - start == pytest.approx(2 * shown, rel=0.02)
    assert (start + end) / 2 == pytest.approx(1, abs=0.02)
    assert len(asked) == len(set(asked)) <= 11


@needs_browser
def test_a_run_that_is_not_to_be_trusted_says_so(
    server: Server, folder: Path, page: browser.Browser, tmp_path: Path
) -> None:
    place = folder / "late"
    shutil.copytree(folder / "one-3", place)
    try:
        said = json.loads((place / "run.json").read_text())
        said |= {"backend": "emu", "emulation": {"beyond": [{"message": "packets left late"}]}}
        (place / "run.json").write_text(json.dumps(said))
        page.open(f"{server.address}#run=one-3&show=rtt_ns")
        page.wait("document.body.dataset.ready === 'yes'")
        assert page.ask("untrusted.hidden && getComputedStyle(untrusted).display === 'none'")
        page.open(f"{server.address}#run=one-3&run=late&show=rtt_ns")
        page.wait("document.body.dataset.ready === 'yes'")
        assert page.ask("untrusted.checkVisibility()")
        assert page.ask("untrusted.innerText").endswith("late: packets left late")
        marks = "[...document.querySelectorAll('em')].map((mark) => mark.title)"
        assert page.ask(marks) == ["packets left late"] * 2
        page.screenshot(tmp_path / "untrusted.png")
    finally:
        shutil.rmtree(place)


@needs_browser
def test_the_page_in_a_browser(server: Server, page: browser.Browser, tmp_path: Path) -> None:
    page.open(server.address)
    page.wait("document.body.dataset.ready === 'yes'")
    count = int(page.ask("document.querySelectorAll('#runs li').length"))
    page.ask("filter.value = 'cubic'; filter.dispatchEvent(new Event('input'))")
    left = page.ask("[...document.querySelectorAll('#runs b')].map((b) => b.textContent)")
    assert left == ["group/two-3"]
    page.ask("filter.value = ''; filter.dispatchEvent(new Event('input'))")
    # What is there already is shown.
    assert len(page.ask("[...document.querySelectorAll('#runs .chosen b')]")) == 1
    pick(page, "one-3")
    page.ask("document.querySelector('[aria-label=\"lay over: group/two-3\"]').click()")
    # The focus stays where it was.
    titles = "[...document.querySelectorAll('.u-title')].map((t) => t.textContent)"
    columns = "document.querySelectorAll('#table tr:first-child th').length"
    page.wait(f"{titles}.length === 3 && {columns} === 3")
    assert page.ask(titles)[:2] == ["Throughput", "Round-trip time"]
    # The plots hold ink of both runs' colours.
    ink = """(() => {
      const canvas = document.querySelectorAll('.plot canvas')[1];
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const near = (i, c) => c.every((v, k) => Math.abs(data[i + k] - v) < 40);
      let blue = 0, orange = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (near(i, [0, 0x72, 0xb2])) blue++;
        if (near(i, [0xe6, 0x9f, 0])) orange++;
      }
      return [blue, orange];
    })()"""
    assert min(page.ask(ink)) > 100
    page.screenshot(tmp_path / "laid-over.png")

    # What differs is named.
    page.wait("!differences.hidden")
    assert "flows.cc: bbr3, reno to cubic, reno" in page.ask("differences.innerText")

    # One run is changed and run again; what is wrong is said at its line.
    pick(page, "one-3")
    page.wait("!document.getElementById('manage').hidden")
    page.ask("document.getElementById('change').click()")
    page.wait("toml.value.includes('share a small')")
    type_ = "toml.value = toml.value.replace(/{}/, '{}'); toml.dispatchEvent(new Event('input'))"
    page.ask(type_.format(r"\nrate = ", r"\nrat = "))
    page.wait("!problems.hidden")
    assert "did you mean `rate`?" in page.ask("problems.innerText")
    page.ask("document.getElementById('run').click()")
    page.wait("document.body.dataset.job === 'failed'")
    page.ask(type_.format(r"\nrat = ", r"\nrate = "))
    page.wait("problems.hidden")
    page.ask(type_.format('duration = "[^"]*"', 'duration = "20 s"'))
    page.ask("document.getElementById('run').click()")
    page.wait("document.body.dataset.job === 'done'")
    assert page.ask("document.querySelectorAll('#runs li').length") == count + 1
    page.wait(f"{columns} === 3")
    # It is deleted when that is asked for, and nothing else is.
    pick(page, page.ask("state.textContent").removeprefix("done: "))
    page.wait("!document.getElementById('manage').hidden")
    page.ask("window.confirm = () => true; document.getElementById('delete').click()")
    page.wait(f"document.querySelectorAll('#runs li').length === {count}")

    page.open(f"{server.address}#run=grid-sweep")
    links = "[...document.querySelectorAll('#pictures a')]"
    page.wait(f"{links}.length === 2")
    loads = f"{links}.map((link) => fetch(link.href).then(({{ ok }}) => ok))"
    assert page.ask(f"Promise.all({loads})") == [True, True]


@needs_browser
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_cell_of_a_sweep_shows_its_run(
    folder: Path, tmp_path: Path, page: browser.Browser, width: int, scheme: str
) -> None:
    shutil.copytree(folder / "grid-sweep", tmp_path / "runs" / "grid-sweep")
    with serving(tmp_path / "runs") as server:
        page.resize(width, 900)
        page.prefer(scheme)
        page.open(server.address)
        page.wait("document.body.dataset.ready === 'yes'")
        cells = "[...document.querySelectorAll('.grid tbody button')]"
        page.wait(f"{cells}.length === 2")
        if width == 390:
            page.ask(f"{cells}[1].click()")
        else:
            # The same with the keyboard, in the picture: Tab reaches one mark, arrows the others.
            key = (
                "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: '{}'}}))"
            )
            page.ask("document.querySelector('.mark[tabindex=\"0\"]').focus()")
            page.ask(key.format("ArrowRight"))
            page.ask(key.format("Enter"))
        assert "path.rtt = 20 ms: " in page.ask("document.querySelector('.seeds').innerText")
        page.wait(f"document.documentElement.scrollWidth <= {width}")
        if AXE.exists():
            assert page.axe(AXE) == []
        page.ask("document.querySelector('.seeds button').click()")
        page.wait("document.body.dataset.job === 'done'")
        page.wait("document.querySelectorAll('#table th').length > 2")
        assert page.ask("toml.value.includes('rtt = \"20 ms\"')")
        assert len(page.ask("[...document.querySelectorAll('#runs li')].map(String)")) == 2


@needs_browser
def test_what_the_command_opens_leads_to_the_page_and_its_report(
    server: Server, page: browser.Browser
) -> None:
    page.resize(390, 800)
    with leading_to(server.address) as file:
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
        page.open(file.as_uri())
        page.wait("document.body.dataset.ready === 'yes'")
    assert server.token not in page.ask("location.href")
    assert page.ask("document.cookie") == ""
    pick(page, "one-3")
    page.wait("document.querySelectorAll('.u-title').length === 3")
    narrow = "document.documentElement.scrollWidth <= 390"
    assert page.ask(narrow)
    page.open(f"{server.origin}/report?id=one-3")
    page.wait("document.querySelectorAll('.u-title').length > 3")
    assert page.ask(narrow)
    colour = "getComputedStyle(document.querySelector('.key rect')).fill"
    assert page.ask(colour) == "rgb(0, 114, 178)"
