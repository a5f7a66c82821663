"""``paceline serve``: what it answers, whom it answers, and the page in a real browser."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

import browser
import paceline
from conftest import SCENARIO
from paceline import _paceline
from paceline.report.panels import rates
from paceline.serve import Server
from paceline.serve.series import InMemory, OnDisk, series
from paceline.sweep import Plan, execute


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
    return root


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with serving(folder) as server:
        yield server


def ask(
    server: Server, path: str, order: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    sent = {"Content-Type": "application/json"} if order is not None else {}
    body = None if order is None else json.dumps(order)
    method = "GET" if order is None else "POST"
    connection.request(method, path, body=body, headers=sent | (headers or {}))
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    kind = answer.headers.get_content_type()
    return answer.status, json.loads(data) if kind == "application/json" else data


def test_it_lists_runs_and_sweeps(server: Server) -> None:
    _, value = ask(server, "/api/runs")
    entries = {entry["id"]: entry for entry in value["runs"]}
    assert entries.keys() == {"one-3", "group/two-3", "grid-sweep"}
    assert entries["group/two-3"]["controllers"] == ["cubic", "reno"]
    assert entries["one-3"]["metrics"]["goodput_bps"] > 1e6
    assert entries["grid-sweep"]["axes"] == ["path.rtt"]
    status, image = ask(server, "/picture?id=grid-sweep&name=utilisation_ratio.png")
    assert status == 200
    assert image.startswith(b"\x89PNG")
    assert b"uPlot" in ask(server, "/report?id=one-3")[1]
    assert ask(server, "/api/run?id=one-3")[1]["scenario"] == "scenario"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/api/run?id=nothing", 404),
        ("/api/run?id=..", 404),
        ("/api/run?id=/etc", 404),
        ("/api/run?id=" + quote("../secret"), 404),
        ("/report?id=" + quote("one-3/../../secret"), 404),
        ("/api/series?quantity=rtt_ns&id=" + quote("../secret"), 404),
        ("/picture?name=x.png&id=" + quote("../secret"), 404),
        ("/picture?id=one-3&name=samples.parquet", 404),
        ("/picture?id=grid-sweep&name=" + quote("../one-3/x.png"), 404),
        ("/assets/report.html.j2", 404),
        ("/api/series?quantity=nothing&id=one-3", 400),
        ("/api/series?quantity=rtt_ns&id=one-3&from=soon", 400),
        ("/api/run", 400),
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
        for path in ("/api/run?id=", "/api/series?quantity=rtt_ns&id=", "/report?id="):
            assert ask(server, path + "good")[0] == 200
        for path in ("/api/series?quantity=rtt_ns&id=", "/report?id="):
            status, answer = ask(server, path + "cut")
            assert status in (400, 404, 422), path
            assert ".parquet: " in answer["error"], answer
        assert ask(server, "/api/run?id=bent")[0] == 404


def test_it_answers_this_machine_and_its_own_page_only(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    # A name of somebody else's that points here.
    assert ask(server, "/api/runs", headers={"Host": "evil.example"})[0] == 403
    order = {"id": "one-3", "set": [["run.duration", "1 s"]]}
    assert ask(server, "/api/run", order, {"Origin": "http://evil.example"})[0] == 403
    assert ask(server, "/api/run", order, {"Content-Type": "text/plain"})[0] == 400
    assert ask(server, "/api/run", {"id": "one-3"})[0] == 400
    status, value = ask(server, "/api/run", order | {"set": [["path.rat", "1 Mbit/s"]]})
    assert status == 400
    assert "did you mean `rate`?" in value["error"]


def test_a_changed_run_fills_in_and_is_kept(server: Server, folder: Path) -> None:
    origin = {"Origin": server.address.rstrip("/")}
    order = {"id": "one-3", "set": [["path.rate", "5 Mbit/s"]], "seed": 9}
    status, job = ask(server, "/api/run", order, origin)
    assert status == 200
    text = ask(server, f"/api/jobs/{job['job']}/events")[1].decode()
    messages = [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line]
    assert [message["version"] for message in messages] == sorted(m["version"] for m in messages)
    last = messages[-1]
    assert last["backend"] == "sim"
    # A sixteenth ends before the second flow starts, and is no scenario: a quarter, all, kept.
    assert (last["state"], last["version"]) == ("done", 3)
    assert ask(server, f"/api/series?quantity=rtt_ns&id=job:{job['job']}")[1]["end"] == 2
    kept = paceline.read(folder / last["id"])
    same = paceline.run(SCENARIO, seed=9, overrides={"path.rate": "5 Mbit/s"})
    assert kept.metrics == same.metrics


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
        order = {"id": "emulated", "set": [["flows.0.cc", "bbr3"]]}
        status, value = ask(server, "/api/run", order)
        assert status == 400
        assert "bbr3" in value["error"]
        order = {"id": "emulated", "set": [["path.rate", "5 Mbit/s"], ["run.duration", "1 s"]]}
        status, job = ask(server, "/api/run", order)
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
    tables = (InMemory(run), OnDisk(tmp_path / "r"))
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
        bits = sum(line["values"]) * scale * width
        assert bits == pytest.approx(8 * (arrived[1] - arrived[0]), rel=0.02)


def test_the_command_serves_until_it_is_interrupted(folder: Path) -> None:
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
        assert value["address"].startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, said) == (0, "")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[browser.Browser]:
    page = browser.Browser(tmp_path / "profile")
    yield page
    page.close()
    assert page.errors == []


needs_browser = pytest.mark.skipif(browser.found() is None, reason="needs Chromium")

#: What the page has asked for of its lines so far.
ASKED = """performance.getEntriesByType('resource').map((r) => r.name)
    .filter((name) => name.includes('/api/series'))"""


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
    for name in ("one-3", "group/two-3"):
        page.ask(f"document.querySelector('[aria-label=\"lay over: {name}\"]').click()")
    titles = "[...document.querySelectorAll('.u-title')].map((t) => t.textContent)"
    page.wait(f"{titles}.length === 3 && document.querySelectorAll('#table th').length === 3")
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

    page.ask("document.getElementById('set').value = 'run.duration = 20 s'")
    page.ask("document.getElementById('start').click()")
    page.wait("document.body.dataset.job === 'done'")
    page.wait("document.querySelectorAll('#table th').length === 4")
    assert page.ask("document.querySelectorAll('#runs li').length") == count + 1
    page.ask("document.getElementById('set').value = 'path.rat = 5'")
    page.ask("document.getElementById('start').click()")
    page.wait("!document.getElementById('failed').hidden")
    assert "did you mean `rate`?" in page.ask("document.getElementById('failed').textContent")

    page.open(f"{server.address}#run=grid-sweep")
    page.wait("document.querySelector('#pictures img')?.naturalWidth > 0")
