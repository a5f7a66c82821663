"""The server: this machine only, nothing but the standard library.

It answers only those who call it by its own address, so that no page from elsewhere can reach it
through a name that points here, and takes no orders but from its own page.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from paceline import _paceline
from paceline.errors import NotARunError, PacelineError
from paceline.report.page import render
from paceline.runs import Run
from paceline.serve.catalogue import Catalogue, Missing
from paceline.serve.jobs import Job, Jobs
from paceline.serve.series import QUANTITIES, InMemory, Tables, series

#: The largest order that is read.
_LARGEST = 1_000_000

_ASSETS = {
    "serve.js": "text/javascript",
    "serve.css": "text/css",
    "report.css": "text/css",
    "uPlot.iife.min.js": "text/javascript",
    "uPlot.min.css": "text/css",
}

Query = dict[str, list[str]]


class BadRequest(ValueError):  # noqa: N818 - it is HTTP's name
    """What was asked makes no sense."""


class Server(ThreadingHTTPServer):
    """Serves a folder of runs on the loopback address."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.catalogue = Catalogue(folder)
        self.jobs = Jobs(folder)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_port}/"

    def hosts(self) -> set[str]:
        """Return the names that it answers to."""
        return {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}

    def server_close(self) -> None:
        """Stop, and give up what is at work."""
        self.jobs.close()
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing of each request."""

    def do_GET(self) -> None:
        """Answer a page, an asset or data."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Take an order."""
        self._answer(self._post)

    def _answer(self, answer: Callable[[str, Query], None]) -> None:
        parts = urlsplit(self.path)
        try:
            if self.headers.get("Host") not in self.server.hosts():
                self._error(HTTPStatus.FORBIDDEN, "not called by its own address")
                return
            answer(parts.path, parse_qs(parts.query))
        except NotARunError as error:
            self._error(HTTPStatus.NOT_FOUND, str(error))
        except (Missing, OSError) as error:
            if not isinstance(error, BrokenPipeError | ConnectionResetError):
                self._error(HTTPStatus.NOT_FOUND, f"there is no {error}")
        except PacelineError as error:
            self._error(HTTPStatus.BAD_REQUEST, str(error))
        except ValueError as error:
            self._error(HTTPStatus.BAD_REQUEST, str(error))

    def _get(self, path: str, query: Query) -> None:
        match path.strip("/").split("/"):
            case [""]:
                self._send("text/html", _asset("serve.html"))
            case ["assets", name] if name in _ASSETS:
                self._send(_ASSETS[name], _asset(name))
            case ["api", "runs"]:
                entries = self.server.catalogue.entries()
                self._json({"runs": entries, "quantities": QUANTITIES})
            case ["api", "run"]:
                run = self._run(_one(query, "id"))
                self._json({**run.summary, "toml": run.scenario_toml})
            case ["api", "series"]:
                self._series(query)
            case ["api", "jobs", number, "events"]:
                self._events(number)
            case ["report"]:
                self._send("text/html", render(self._run(_one(query, "id"))).encode())
            case ["picture"]:
                kind, data = self.server.catalogue.picture(_one(query, "id"), _one(query, "name"))
                self._send(kind, data)
            case _:
                raise Missing(path)

    def _series(self, query: Query) -> None:
        quantity = _one(query, "quantity")
        if quantity not in QUANTITIES:
            raise BadRequest(f"no quantity is called {quantity!r}")
        runs: dict[str, Tables] = {}
        for name in query.get("id", []):
            if name.startswith("job:"):
                runs[name] = InMemory(self._run(name))
            else:
                runs[name] = self.server.catalogue.tables(name)
        ends = (int(float(query[end][0]) * 1e9) if end in query else None for end in ("from", "to"))
        self._json(series(runs, quantity, *ends))

    def _run(self, name: str) -> Run:
        """Return a run of the folder, or what there is of a job: `job:3`."""
        if name.startswith("job:"):
            run = self._job(name.removeprefix("job:")).run
            if run is None:
                raise Missing(name)
            return run
        return self.server.catalogue.run(name)

    def _job(self, number: str) -> Job:
        try:
            return self.server.jobs.get(int(number))
        except (ValueError, KeyError):
            raise Missing(f"job {number}") from None

    def _events(self, number: str) -> None:
        job = self._job(number)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for message in job.messages():
            self.wfile.write(f"data: {json.dumps(message)}\n\n".encode())
            self.wfile.flush()

    def _post(self, path: str, _: Query) -> None:
        origin = self.headers.get("Origin")
        allowed = {f"http://{host}" for host in self.server.hosts()}
        if origin is not None and origin not in allowed:
            self._error(HTTPStatus.FORBIDDEN, "takes orders from its own page only")
            return
        # Other pages cannot send this type without asking first, and nobody answers them.
        if self.headers.get_content_type() != "application/json":
            raise BadRequest("an order is JSON")
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= _LARGEST:
            raise BadRequest("an order of that length is not read")
        body = json.loads(self.rfile.read(length) or b"{}")
        match path.strip("/").split("/"):
            case ["api", "run"]:
                self._start(body)
            case ["api", "jobs", number, "stop"]:
                self._job(number).wish_to_stop = True
                self._json({})
            case _:
                raise Missing(path)

    def _start(self, body: Any) -> None:
        try:
            run = self._run(str(body["id"]))
            pairs = [(str(key), str(value)) for key, value in body["set"]]
            seed = body.get("seed")
            seed = run.seed if seed is None else int(seed)
        except (KeyError, TypeError) as error:
            raise BadRequest(f"an order has id, set and seed: {error}") from None
        # What was emulated is emulated again.
        backend: _paceline.Backend = "emu" if run.backend == "emu" else "sim"
        self._json(self.server.jobs.start(run.scenario_toml, pairs, seed, backend).as_json())

    def _json(self, value: Any) -> None:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        self._send("application/json", text.encode())

    def _error(self, status: HTTPStatus, message: str) -> None:
        # What was not read of an order would be taken for the next one.
        self.close_connection = True
        self._send("application/json", json.dumps({"error": message}).encode(), status)

    def _send(self, kind: str, data: bytes, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        text = kind.startswith("text/") or kind == "application/json"
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if text else kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        self.wfile.write(data)


def _asset(name: str) -> bytes:
    return (files("paceline") / "web" / name).read_bytes()


def _one(query: Query, name: str) -> str:
    if name not in query:
        raise BadRequest(f"{name} is missing")
    return query[name][0]
