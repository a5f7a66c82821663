"""A folder of runs, its server, and requests to it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import paceline
from conftest import SCENARIO
from paceline.serve.server import Server
from paceline.study.sweep import Plan, execute


def fill(outside: Path) -> Path:
    """Write runs and a sweep into a folder, and a run beside that; return the folder."""
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
    """Serve a folder."""
    server = Server(folder)
    thread = Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def fetch(
    server: Server, path: str, order: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Send a request with the cookie; return the status and the answer."""
    answer, data = call(server, path, order, cookie(server) | (headers or {}))
    kind = answer.headers.get_content_type()
    return answer.status, json.loads(data) if kind == "application/json" else data


def order(settings: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """Return a request for a run of the scenario with these settings."""
    return {"scenario": paceline.check(SCENARIO, overrides=settings or {}), **more}


def cookie(server: Server) -> dict[str, str]:
    """Return the header that the page sends."""
    return {"Cookie": f"{server.cookie}={server.token}"}


def call(
    server: Server, path: str, order: Any = None, headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    """Send a request; return the response and its body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    sent = {"Content-Type": "application/json"} if order is not None else {}
    body = order if order is None or isinstance(order, bytes) else json.dumps(order)
    method = "GET" if order is None else "POST"
    connection.request(method, path, body=body, headers=sent | (headers or {}))
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data
