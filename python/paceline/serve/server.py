"""The server: only this machine can reach it, and only with the printed address.

That address has a secret, which the first request exchanges for a cookie. The server answers to its
own address only, so that no page from elsewhere can reach it through a name that points here, and
only its own page. It takes no path: what a request names is looked up among the known entries.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import math
import re
import secrets
import socket
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from polars.exceptions import PolarsError
from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler

from paceline import _paceline, guests, pages, shipped
from paceline.errors import NotARunError, PacelineError, ScenarioError
from paceline.reading import json_value, read_text
from paceline.serve import limits
from paceline.serve.catalogue import BACKENDS, Catalogue, Missing
from paceline.serve.jobs import Busy, Job, Jobs
from paceline.serve.series import QUANTITIES, InMemory, Tables, series
from paceline.show.page import render
from paceline.show.path import about

_ASSETS = {
    "serve.js": "text/javascript",
    "serve.css": "text/css",
    "report.js": "text/javascript",
    "report.css": "text/css",
    "editor.css": "text/css",
    "uPlot.iife.min.js": "text/javascript",
    "uPlot.min.css": "text/css",
}

#: Scripts and styles come from the package's files, never from within a page.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
#: A picture is drawn with styles of its own, and runs nothing.
_PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"

#: The start of a new scenario.
_TEMPLATE = shipped.folder("templates") / "scenario.toml"

#: Seconds between two checks of a job, and between two messages if nothing happens.
_LOOK_S, _BEAT_S = 0.05, 2.0

#: Maximum seconds of a time in a request.
_TIME_S = 1e9

Answer = TypeVar("Answer")


class Wrong(HTTPError):  # noqa: N818 - it is a response
    """A request that is refused, and why."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(status)
        self.message = message


class Server:
    """Serves a folder of runs on the loopback address."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self._socket = socket.create_server(("127.0.0.1", port), backlog=limits.CONNECTIONS)
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])
        #: Whoever knows it may send requests.
        self.token = secrets.token_urlsafe(32)
        self.catalogue = Catalogue(folder)
        self.jobs = Jobs(folder)
        #: Threads that read files and make pages.
        self.pool = ThreadPoolExecutor(limits.THREADS)
        self.stopping = False
        #: The number of open connections.
        self.connections = 0

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """The address of the page; a secret."""
        return f"{self.origin}/?{urlencode({'token': self.token})}"

    @property
    def cookie(self) -> str:
        """Name of the cookie: browsers separate cookies by host, not by port."""
        return f"paceline-{self.port}"

    def hosts(self) -> set[str]:
        """Return the host names that it accepts."""
        return {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}

    def serve(self) -> None:
        """Serve until `stop` or Ctrl-C."""
        # Malformed requests and closed connections must not fill the terminal.
        logging.getLogger("tornado.general").setLevel(logging.CRITICAL)
        try:
            asyncio.run(self._serve())
        finally:
            self.close()

    async def _serve(self) -> None:
        application = Application(
            [(path, handler, {"server": self}) for path, handler in _ROUTES],
            default_handler_class=_Nothing,
            default_handler_args={"server": self},
            log_function=lambda _: None,
        )
        http = _Listener(
            application,
            server=self,
            max_header_size=limits.HEADER_BYTES,
            max_body_size=limits.BODY_BYTES,
            max_buffer_size=limits.HEADER_BYTES + limits.BODY_BYTES,
            idle_connection_timeout=limits.HEADER_S,
            body_timeout=limits.BODY_S,
        )
        http.add_socket(self._socket)
        try:
            while not self.stopping:
                await asyncio.sleep(_LOOK_S)
        finally:
            self.stopping = True
            http.stop()
            with suppress(TimeoutError):
                await asyncio.wait_for(http.close_all_connections(), 2)

    def stop(self) -> None:
        """End `serve`, from any thread."""
        self.stopping = True

    def close(self) -> None:
        """Close the port and stop all jobs."""
        self.stopping = True
        self._socket.close()
        self.jobs.close()
        self.pool.shutdown(cancel_futures=True)


class _Listener(HTTPServer):
    """Limits the number of connections."""

    def initialize(self, *arguments: Any, server: Server, **settings: Any) -> None:  # type: ignore[override]
        super().initialize(*arguments, **settings)
        self._server = server

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        if self._server.connections >= limits.CONNECTIONS:
            stream.close()
            return
        self._server.connections += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        self._server.connections -= 1
        super().on_close(server_conn)


class _Handler(RequestHandler):
    """The base of all handlers."""

    def initialize(self, server: Server) -> None:
        self.server = server
        self.has_gone = False

    def set_default_headers(self) -> None:
        for name, value in (
            ("Server", "paceline"),
            ("Content-Security-Policy", _POLICY),
            ("Cache-Control", "no-store"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.set_header(name, value)

    def prepare(self) -> None:
        headers = self.request.headers
        if headers.get("Host") not in self.server.hosts():
            raise _refusal("wrong Host header")
        origin = headers.get("Origin")
        if origin is not None and origin not in {f"http://{h}" for h in self.server.hosts()}:
            raise _refusal("only this page may send requests")
        self.let_in()

    def let_in(self) -> None:
        """Accept requests that have the cookie and do not come from another page."""
        if self.request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise _refusal("only this page may send requests")
        if not self.knows(self.get_cookie(self.server.cookie)):
            raise _refusal("open the address that `paceline serve` printed")

    def knows(self, secret: str | None) -> bool:
        """Return whether a request has the secret, in constant time."""
        return hmac.compare_digest((secret or "").encode(), self.server.token.encode())

    async def work(self, work: Callable[[], Answer]) -> Answer:
        """Do slow work in a thread, and turn its errors into answers."""
        loop = asyncio.get_running_loop()

        def guarded() -> Answer:
            try:
                return work()
            except Exception:
                raise
            except BaseException as error:
                # A panic in a library of another language must not end the server.
                raise RuntimeError("a library failed") from error

        try:
            return await loop.run_in_executor(self.server.pool, guarded)
        except (Missing, NotARunError) as error:
            raise Wrong(HTTPStatus.NOT_FOUND, str(error)) from None
        except Busy as error:
            raise Wrong(HTTPStatus.TOO_MANY_REQUESTS, str(error)) from None
        except PacelineError as error:
            raise Wrong(HTTPStatus.BAD_REQUEST, str(error)) from None
        except UnicodeError:
            raise _bad("not valid UTF-8") from None
        except OSError:
            raise Wrong(HTTPStatus.NOT_FOUND, "the folder of runs cannot be read") from None

    def one(self, name: str) -> str:
        """Return a parameter."""
        values = self.get_query_arguments(name, strip=False)
        if len(values) != 1:
            raise _bad(f"{name} must be given once")
        return values[0]

    def number(self, name: str) -> int:
        """Return a parameter that is a number."""
        text = self.one(name)
        if re.fullmatch("[0-9]{1,19}", text) is None:
            raise _bad(f"{name} must be a whole number")
        return int(text)

    def job(self, number: str) -> Job:
        """Return a job by its number."""
        try:
            return self.server.jobs.get(int(number))
        except KeyError:
            raise Wrong(HTTPStatus.NOT_FOUND, f"there is no job {number}") from None

    async def send(self, kind: str, data: bytes) -> None:
        """Answer."""
        text = kind.startswith("text/") or kind == "application/json"
        self.set_header("Content-Type", f"{kind}; charset=utf-8" if text else kind)
        self.write(data)
        await self.bring(self.finish())

    async def bring(self, sent: Any) -> None:
        """Wait until the client has read the data, up to a time limit."""
        try:
            await asyncio.wait_for(sent, limits.WRITE_S)
        except TimeoutError:
            cast(HTTP1Connection, self.request.connection).close()
            self.has_gone = True
        except StreamClosedError:
            self.has_gone = True

    async def send_json(self, value: Any) -> None:
        """Answer a value."""
        # Escaped: a lone surrogate is valid in a file's JSON, but not in UTF-8.
        await self.send("application/json", json.dumps(value, separators=(",", ":")).encode())

    def write_error(self, status_code: int, **about: Any) -> None:
        """Answer what is wrong."""
        error = about["exc_info"][1] if "exc_info" in about else None
        phrase = HTTPStatus(status_code).phrase.lower()
        message = error.message if isinstance(error, Wrong) else phrase
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps({"error": message}))

    def on_connection_close(self) -> None:
        self.has_gone = True


def _refusal(message: str) -> Wrong:
    return Wrong(HTTPStatus.FORBIDDEN, message)


def _bad(message: str) -> Wrong:
    return Wrong(HTTPStatus.BAD_REQUEST, message)


class _Nothing(_Handler):
    """Answers every unknown path."""

    def prepare(self) -> None:
        super().prepare()
        raise Wrong(HTTPStatus.NOT_FOUND, "not found")


class _Page(_Handler):
    def let_in(self) -> None:
        # A request with the printed address exchanges its secret for a cookie.
        if self.get_query_arguments("token"):
            if not self.knows(self.one("token")):
                raise _refusal("wrong token: open the address that the server printed")
            name, secret = self.server.cookie, self.server.token
            self.set_cookie(name, secret, None, httponly=True, samesite="Strict")
            self.redirect("/", status=HTTPStatus.SEE_OTHER)
        elif self.request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            # A browser withholds the cookie after a link on another page, not after our refresh.
            self.set_header("Refresh", "0; url=/")
            self.finish()
        else:
            super().let_in()

    async def get(self) -> None:
        await self.send("text/html", _asset("serve.html"))


class _Asset(_Handler):
    async def get(self, name: str) -> None:
        if name not in _ASSETS:
            raise Wrong(HTTPStatus.NOT_FOUND, "not found")
        await self.send(_ASSETS[name], _asset(name))


class _Computed(_Handler):
    """Answers with a value that takes time to compute."""

    @abstractmethod
    def compute(self) -> Any:
        """Return the value, on another thread."""

    async def get(self) -> None:
        await self.send_json(await self.work(self.compute))


class _Runs(_Computed):
    def compute(self) -> Any:
        entries = self.server.catalogue.entries()
        labels = {d["name"]: d["label"] for d in _paceline.metrics() if d["scope"] == "run"}
        return {"runs": entries, "quantities": QUANTITIES, "labels": labels}


class _Basis(_Computed):
    def compute(self) -> pages.Basis:
        scenarios: list[pages.Shipped] = [
            {"name": name, "about": about(read_text(path))}
            for name, path in shipped.scenarios().items()
        ]
        return {
            "scenarios": scenarios,
            "controllers": [c["name"] for c in _paceline.controllers()],
            "schema": json.loads(_paceline.schema()),
        }


class _Scenario(_Computed):
    def compute(self) -> pages.Scenario:
        if self.get_query_arguments("id"):
            return self.server.catalogue.order(self.one("id"))
        if self.get_query_arguments("sweep"):
            name, point, seed = self.one("sweep"), self.number("point"), self.number("seed")
            with _damage():
                return self.server.catalogue.at(name, point, seed)
        name = self.one("shipped")
        path = shipped.scenarios().get(name) if name else _TEMPLATE
        if path is None:
            raise Missing("no scenario has that name")
        return {"text": read_text(path), "seed": None, "backend": "sim"}


class _Points(_Computed):
    def compute(self) -> pages.Points:
        name, metric = self.one("id"), self.get_query_argument("metric", "")
        with _damage():
            return self.server.catalogue.points(name, metric)


class _Compare(_Computed):
    def compute(self) -> pages.Between:
        return self.server.catalogue.compare(self.one("old"), self.one("new"))


class _Side(_Computed):
    def compute(self) -> pages.Side:
        repeats = bool(self.get_query_arguments("repeats"))
        return self.server.catalogue.side(self.one("id"), repeats=repeats)


class _Series(_Computed):
    def compute(self) -> pages.Series:
        quantity, names = self.one("quantity"), self.get_query_arguments("id", strip=False)
        if quantity not in QUANTITIES:
            raise _bad("unknown quantity")
        if len(names) > limits.OVERLAID:
            raise _bad(f"more than {limits.OVERLAID} runs in a plot")
        start, end = self.time("from"), self.time("to")
        with _damage():
            return series({name: self.tables(name) for name in names}, quantity, start, end)

    def time(self, name: str) -> int | None:
        """Return a time in nanoseconds, if one is given."""
        if not self.get_query_arguments(name):
            return None
        try:
            seconds = float(self.one(name))
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds <= _TIME_S:
            raise _bad(f"{name} is a time in seconds from 0 to {_TIME_S:g}")
        return int(seconds * 1e9)

    def tables(self, name: str) -> Tables:
        """Return the tables of a run in the folder, or of a job so far: `job:3`."""
        if re.fullmatch("job:[0-9]{1,9}", name) is None:
            return self.server.catalogue.tables(name)
        job = self.job(name.removeprefix("job:"))
        if (run := job.run) is not None:
            return InMemory(run)
        if job.path is None:
            raise Missing("that job has no results yet")
        return self.server.catalogue.tables(job.path)


class _Report(_Handler):
    async def get(self) -> None:
        name = self.one("id")

        def draw() -> bytes:
            with _damage():
                return render(self.server.catalogue.run(name), served=True).encode()

        await self.send("text/html", await self.work(draw))


class _Picture(_Handler):
    async def get(self) -> None:
        run, name = self.one("id"), self.one("name")
        kind, data = await self.work(lambda: self.server.catalogue.picture(run, name))
        self.set_header("Content-Security-Policy", _PICTURE_POLICY)
        await self.send(kind, data)


class _Events(_Handler):
    async def get(self, number: str) -> None:
        job = self.job(number)
        self.set_header("Content-Type", "text/event-stream")
        last: pages.JobState | None = None
        waited = 0.0
        while not (self.has_gone or self.server.stopping):
            now = job.as_json()
            if now != last or waited >= _BEAT_S:
                last, waited = now, 0.0
                self.write(f"data: {json.dumps(last)}\n\n")
                await self.bring(self.flush())
            if last["state"] != "running":
                break
            await asyncio.sleep(_LOOK_S)
            waited += _LOOK_S
        if not self.has_gone:
            await self.bring(self.finish())


class _Posted(_Handler):
    def order(self) -> dict[str, Any]:
        """Return the request's body."""
        # Other pages cannot send this type without a preflight request, which nothing answers.
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip()
        if kind != "application/json":
            raise _bad("request body must be JSON")
        if _depth(self.request.body) > limits.DEPTH:
            raise _bad(f"more than {limits.DEPTH} nested brackets")
        try:
            value = json_value(self.request.body or b"{}")
        except ValueError:
            raise _bad("request body is not valid JSON") from None
        if not isinstance(value, dict):
            raise _bad("request body must be a JSON object")
        return value

    def scenario(self, body: dict[str, Any]) -> str:
        """Return the scenario of a request."""
        match body:
            case {"scenario": str(text)}:
                # A lone surrogate is not valid text.
                if text.encode(errors="replace").decode() == text:
                    return text
        raise _bad("request body needs `scenario`, a string")

    def texts(self, *names: str) -> list[str]:
        """Return the texts of a request's body with these names."""
        body = self.order()
        values = [value for value in map(body.get, names) if isinstance(value, str)]
        if len(values) < len(names):
            raise _bad(f"request body has {' and '.join(names)}")
        return values


class _Start(_Posted):
    async def post(self) -> None:
        body = self.order()
        seed, backend = body.get("seed"), body.get("backend", "sim")
        if seed is not None and (type(seed) is not int or not 0 <= seed < 1 << 63):
            raise _bad("seed must be a whole number from 0 to 2^63 - 1")
        if backend not in BACKENDS:
            raise _bad(f"backend must be one of {', '.join(BACKENDS)}")
        text, name = self.scenario(body), body.get("name", "")
        if not isinstance(name, str):
            raise _bad("name must be a string")
        job = await self.work(lambda: self.server.jobs.start(text, seed, backend, name))
        await self.send_json(job.as_json())


class _Check(_Posted):
    async def post(self) -> None:
        text = self.scenario(self.order())

        def check() -> pages.Problems:
            problems: list[pages.Trouble] = []
            try:
                guests.check(text, "scenario.toml", (), False, "sim", files=False)
            except ScenarioError as error:
                for one in error.diagnostics:
                    problems.append({"message": one.message, "line": one.line, "hint": one.hint})
            return {"problems": problems}

        await self.send_json(await self.work(check))


class _Delete(_Posted):
    async def post(self) -> None:
        (name,) = self.texts("id")
        await self.work(lambda: self.server.catalogue.delete(name))
        await self.send_json({})


class _Rename(_Posted):
    async def post(self) -> None:
        name, new = self.texts("id", "name")
        await self.send_json(await self.work(lambda: self.server.catalogue.rename(name, new)))


class _Stop(_Posted):
    async def post(self, number: str) -> None:
        self.order()
        self.job(number).stop()
        await self.send_json({})


@contextmanager
def _damage() -> Iterator[None]:
    """Report a damaged table as such."""
    try:
        yield
    except Missing:
        raise
    except (PolarsError, ArithmeticError, LookupError, TypeError, ValueError):
        why = "a table of that run is damaged: run `paceline report` to see why"
        raise NotARunError(why) from None


def _depth(text: bytes) -> int:
    """Return the maximum nesting depth of brackets; those within strings count too."""
    depth = deepest = 0
    for at in re.finditer(rb"[\[{]|[\]}]", text):
        depth += 1 if at[0] in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _asset(name: str) -> bytes:
    return (files("paceline") / "web" / name).read_bytes()


_ROUTES: tuple[tuple[str, type[_Handler]], ...] = (
    ("/", _Page),
    ("/assets/([A-Za-z.]+)", _Asset),
    ("/api/runs", _Runs),
    ("/api/series", _Series),
    ("/api/basis", _Basis),
    ("/api/scenario", _Scenario),
    ("/api/check", _Check),
    ("/api/compare", _Compare),
    ("/api/points", _Points),
    ("/api/side", _Side),
    ("/api/delete", _Delete),
    ("/api/rename", _Rename),
    ("/api/run", _Start),
    ("/api/jobs/([0-9]{1,9})/events", _Events),
    ("/api/jobs/([0-9]{1,9})/stop", _Stop),
    ("/report", _Report),
    ("/picture", _Picture),
)
