"""``paceline serve``: whom it answers, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest

import paceline
from conftest import SCENARIO, Command
from paceline import memory
from paceline.errors import StoreError
from paceline.serve import limits
from paceline.serve.server import Server
from paceline.study.sweep import Plan, execute
from served import call, cookie, fetch, order, serving


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
    answers = {call(server, path, headers=headers)[1] for headers in ({}, wrong(server))}
    assert answers == {b'{"error": "open the address that `paceline serve` printed"}'}
    for headers in ({}, wrong(server)):
        assert call(server, path, headers=headers)[0].status == 403
    body = order()
    for way in ("/api/run", "/api/check", "/api/delete", "/api/jobs/1/stop"):
        assert call(server, way, body, wrong(server))[0].status == 403


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
    assert fetch(server, "/")[0] == 403
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
        assert fetch(server, "/api/runs")[0] == 200


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
        fetch(server, "/api/runs")
        wait_until(lambda: server.connections == 0)
        before = threading.active_count()
        sockets = []
        for _ in range(20):
            sockets.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            sockets[-1].sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: server.connections == 20)
        assert raw(server, request(server, "/")) == b""
        assert threading.active_count() <= before + limits.THREADS
        for connection in sockets:
            connection.close()
        wait_until(lambda: server.connections == 0)
        assert fetch(server, "/api/runs")[0] == 200


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
        status = fetch(server, "/api/run", body)[0]
    except ConnectionError:
        # What is too long may be refused before all of it is sent.
        assert len(body) > limits.BODY_BYTES
    else:
        assert status in (400, 404), status
    assert server.jobs.running() == 0
    assert fetch(server, "/api/runs")[0] == 200


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
                status, answer = fetch(server, way, {"scenario": text})
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
        entries = {entry["id"]: entry for entry in fetch(server, "/api/runs")[1]["runs"]}
        odd = {f"{kind}-{name}" for kind in ("link", "fifo") for name in TOUCHED}
        assert entries.keys() == {"good", "sweep"} | odd
        for name in ("x.png", "y.png"):
            assert fetch(server, f"/picture?id=sweep&name={name}")[0] == 404
        for name in ("link", "up", "up/outside/run", *odd, "link-run.json", "fifo-run.json"):
            assert fetch(server, f"/report?id={quote(name)}")[0] == 404, name
        for name in ("link-samples.parquet", "fifo-flows.parquet"):
            assert fetch(server, f"/api/series?quantity=rtt_ns&id={name}")[0] == 404
        for name in ("link-scenario.toml", "fifo-scenario.toml", "link"):
            assert fetch(server, f"/api/scenario?id={name}")[0] == 404
        assert fetch(server, "/report?id=good")[0] == 200


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
    record = json.loads((root / "good" / "run.json").read_text())
    axis = {"keys": ["path.rtt"], "points": [{"name": "x", "values": ["1 ms"]}] * 1000}
    files = {
        "deep": "[" * 200_000,
        "halves": json.dumps(record | {"scenario": "\ud800"}),
        "leak": SECRET,
        "list": "[]",
        "metrics": json.dumps(record | {"metrics": {"goodput_bps": [SECRET]}}),
        "flows": json.dumps(record | {"flows": 5}),
        "seed": json.dumps(record | {"seed": "x"}),
        "many": json.dumps(record | {"seed": 10**30}),
        "beyond": json.dumps(record | {"emulation": 7}),
    }
    for name, text in files.items():
        shutil.copytree(root / "good", root / name)
        (root / name / "run.json").write_text(text)
    (root / "grid").mkdir()
    grid = {"schema": 1, "scenario": "x", "axes": [axis] * 12, "seeds": [1], "metrics": []}
    (root / "grid" / "sweep.json").write_text(json.dumps(grid | {"failed": 0, "overrides": []}))
    with serving(root) as server:
        status, value = fetch(server, "/api/runs")
        entries = {entry["id"] for entry in value["runs"]}
        assert status == 200
        assert {"good", "a[1]", "a1", "*", "käse", "halves"} <= entries
        assert entries.isdisjoint(
            {"deep", "leak", "list", "metrics", "flows", "seed", "beyond", "\udcff"}
        )
        assert fetch(server, f"/report?id={quote('a[1]')}")[0] == 200
        for name in ("a[1]", "*", "käse"):
            assert fetch(server, f"/api/series?quantity=rtt_ns&id={quote(name)}")[0] == 200, name
        for name in files:
            for path in ("/report?id=", "/api/series?quantity=rtt_ns&id="):
                status, answer = fetch(server, path + name)
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
            assert fetch(server, f"/api/series?quantity=rtt_ns&id={name}")[0] == 404, name
            assert fetch(server, f"/report?id={name}")[0] == 404, name
        assert fetch(server, "/report?id=good")[0] == 200
        monkeypatch.setattr(limits, "ROWS", samples.height - 1)
        status, answer = fetch(server, "/report?id=good")
        assert (status, f"{samples.height:,} rows, some" in answer["error"]) == (404, True)
        monkeypatch.undo()
        assert fetch(server, "/report?id=good")[0] == 200
        monkeypatch.setattr(memory, "limit", lambda: 10_000)
        status, answer = fetch(server, "/report?id=good")
        assert (status, "10.00 kB are read" in answer["error"]) == (404, True), answer


def test_a_job_that_takes_too_long_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOB_S", 0.2)
    before = set(folder.iterdir())
    long = order({"run.duration": "100000 s"}, seed=4)
    with serving(folder) as server:
        number = fetch(server, "/api/run", long)[1]["job"]
        text = fetch(server, f"/api/jobs/{number}/events")[1].decode()
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
        running, waiting = (fetch(server, "/api/run", long)[1]["job"] for _ in range(2))
        status, answer = fetch(server, "/api/run", long)
        assert (status, answer["error"][:14]) == (429, "2 runs are alr")
        assert server.jobs.running() == 2
        for number in (waiting, running):
            assert fetch(server, f"/api/jobs/{number}/stop", {})[0] == 200
            text = fetch(server, f"/api/jobs/{number}/events")[1].decode()
            assert json.loads(text.strip().rpartition("data: ")[2])["state"] == "stopped"
        # A third begins, and of those that have ended only one is kept.
        third = fetch(server, "/api/run", long)[1]["job"]
        assert [
            fetch(server, f"/api/jobs/{number}/stop", {})[0] for number in (running, waiting)
        ] == [404, 200]
        # It is at work when the server ends.
        assert server.jobs.get(third).state == "running"
    assert server.jobs.get(third).state == "stopped"
    assert set(folder.iterdir()) == before


def test_a_run_that_cannot_be_kept_names_no_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Path:
        raise StoreError("write-failed", f"cannot write {folder}", hint="", file=str(folder))

    monkeypatch.setattr("paceline.serve.jobs.store.keep", refuse)
    with serving(folder) as server:
        job = fetch(server, "/api/run", order({"run.duration": "0.5 s"}))[1]["job"]
        text = fetch(server, f"/api/jobs/{job}/events")[1].decode()
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
    help_text = " ".join(cli("serve", "--help").stdout.split())
    for limit in ("64 connections", "4 threads", "256 KiB of body", "8 jobs waiting or running"):
        assert limit in help_text, help_text
