"""``paceline perf``: a bulk transfer over real QUIC, on a real path."""

from __future__ import annotations

import json as text_json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from paceline import _paceline, answers, store
from paceline.cli import console
from paceline.cli.app import Json, examples, part, parted, positive
from paceline.cli.failure import Exit, Failure, failing
from paceline.quantities import duration_ns, quantity, size_bytes
from paceline.runs import Run

#: Default address of a server.
_HOST, _PORT = "127.0.0.1", 4433
#: Where a client's token may be instead of on the command line, which other users can read.
_VARIABLE = "PACELINE_TOKEN"
_SECOND = 1_000_000_000

_HINTS = {
    "token": "the server prints its token when it starts; each start has a new one",
    "address": "`paceline perf client --help` shows how addresses are written",
    "controller": "`paceline list controllers` shows which need more than quinn tells",
    "limit": "the server's --max-time and --max-bytes set what it allows",
    "busy": "a server runs one test at a time",
    "vanished": "check that the server runs, and that UDP reaches it",
}


@Parameter(name="*")
@dataclass(frozen=True)
class Client:
    """The options of a client."""

    token: Annotated[
        str | None,
        Parameter(help=f"The server's token. Default: the environment variable {_VARIABLE}."),
    ] = None
    cc: str | None = None
    """The sender's controller: one that `paceline list controllers` lists, or `quinn:bbr`,
    `quinn:cubic` or `quinn:newreno`. Default: bbr3."""
    time: str | None = None
    """Duration of the transfer. Default: "10 s", unless --bytes is given."""
    bytes: str | None = None
    """Amount of data to send, such as "1 GB". The test ends when all of it is acknowledged."""
    reverse: bool = False
    """Let the server send instead of the client."""
    streams: Annotated[int | None, Parameter(validator=positive)] = None
    """Number of streams, at most 128. Default: 1."""
    out: Path | None = None
    """Folder for a record, which `paceline report` and `paceline compare` can read."""


@Parameter(name="*")
@dataclass(frozen=True)
class Server:
    """The options of a server."""

    max_time: str | None = None
    """Maximum duration of a test. Default: "60 min"."""
    max_bytes: str | None = None
    """Maximum amount of data per test. Default: "1 TB"."""
    once: bool = False
    """Stop the server after one test."""


@parted(
    help_epilogue=examples(
        "perf server",
        "perf server 0.0.0.0:4433 --once --json",
        "perf client 127.0.0.1:4433 --token TOKEN --cc bbr3 --out runs/perf",
        'perf client host.example:4433 --token TOKEN --reverse --cc quinn:cubic --bytes "1 GB"',
    )
)
def perf() -> None:
    """Transfer data over real QUIC between two machines, with a controller of your choice.

    The QUIC stack is quinn with TLS 1.3. With one of Paceline's controllers, packets are sent at
    the controller's pacing rate; quinn's own controllers use quinn's pacer.
    """


@part(perf, "server")
def server_(
    address: Annotated[
        str | None, Parameter(help=f"HOST:PORT to listen on. Default: {_HOST}:{_PORT}.")
    ] = None,
    /,
    *,
    options: Server = Server(),
    json: Json = False,
) -> None:
    """Serve tests, one at a time, until you stop the server.

    The server prints a token, which contains a secret and the fingerprint of the server's
    certificate. The server refuses a client without the token. The server listens on the loopback
    interface unless you give another address. With --json, it prints one JSON object per line; the
    first object has `address` and `token`.
    """
    place = _resolved(address)
    longest = _parsed("--max-time", options.max_time, duration_ns) or 3600 * _SECOND
    most = _parsed("--max-bytes", options.max_bytes, size_bytes) or 10**12
    serving = _paceline.perf_server(place, longest, most, options.once)
    try:
        for line in serving:
            news = text_json.loads(line)
            if json:
                console.print_line({"schema": console.SCHEMA, **news})
            else:
                console.stdout().print(_news(news), soft_wrap=True)
    except KeyboardInterrupt:
        serving.stop()
        return
    if serving.failed is not None:
        raise _failure(serving.failed)


@part(perf, "client")
def client_(
    address: Annotated[
        str | None, Parameter(help=f"HOST:PORT of the server. Default: {_HOST}:{_PORT}.")
    ] = None,
    /,
    *,
    options: Client = Client(),
    json: Json = False,
) -> Exit:
    """Run a test against a server.

    The client prints a line each second, with the data received and the goodput. If the client is
    the sender, each line also has the RTT, the window and the losses. With --json, the client
    prints one object at the end.
    """
    place = _resolved(address)
    token = options.token or os.environ.get(_VARIABLE)
    if not token:
        hint = f"--token TOKEN, or the variable {_VARIABLE}; {_HINTS['token']}"
        raise Failure("perf-token", "a server accepts only clients with its token", hint=hint)
    size = _parsed("--bytes", options.bytes, size_bytes)
    time = _parsed("--time", options.time, duration_ns)
    if time is None and size is None:
        time = 10 * _SECOND
    if options.out is not None:
        store.check(options.out, force=None)
    streams_, cc = options.streams or 1, options.cc or "bbr3"
    try:
        what = (time, size, options.reverse, streams_, _SECOND)
        testing = _paceline.perf_client(place, token, cc, *what)
    except ValueError as error:
        raise _failure(("token", str(error), True)) from None
    except OverflowError:
        raise Failure("bad-value", "--streams must be at most 128") from None
    parts: list[answers.PerfPart] = []
    interrupted = False
    try:
        for line in testing:
            part = text_json.loads(line)
            parts.append(part)
            if not json:
                console.stdout().print(_line(part), soft_wrap=True)
    except KeyboardInterrupt:
        interrupted = True
        testing.stop()
    failure = None if testing.failed is None else _failure(testing.failed)
    if interrupted:
        failure = Failure.interrupted()
    if testing.outcome is None:
        raise failure or Failure("perf-peer", "the test did not begin", code=Exit.RUN_FAILED)
    total, handshake, inner = testing.outcome
    end: answers.PerfPart = text_json.loads(total)
    kept = None
    if options.out is not None:
        kept, _ = store.keep(options.out, inner.write)
    if json:
        answer: answers.Perf = {
            "start": {
                "server": place,
                "cc": cc,
                "time_ns": time,
                "bytes": size,
                "reverse": options.reverse,
                "streams": streams_,
                "handshake_ns": handshake,
            },
            "intervals": parts,
            "end": end,
            "run": None if kept is None else str(kept),
            "metrics": Run(inner).metrics,
            "failed": None if failure is None else failure.as_json(),
        }
        console.print_json(answer)
    else:
        console.stdout().print(f"in all  {_line(end)}", soft_wrap=True)
        if failure is not None:
            console.print_failure(failure, as_json=False)
        if kept is not None:
            console.stderr().print(f"record: {kept}", soft_wrap=True)
    return Exit.OK if failure is None else failure.code


def _resolved(address: str | None) -> str:
    """Return an address and a port, as numbers."""
    host, port = _HOST, str(_PORT)
    if address is not None and address.isdecimal():
        port = address
    elif address is not None:
        head, colon, tail = address.rpartition(":")
        is_host = not colon or address.endswith("]") or (":" in head and not head.endswith("]"))
        host, port = (address, port) if is_host else (head or host, tail)
    host = host.removeprefix("[").removesuffix("]")
    hint = "HOST:PORT, such as 127.0.0.1:4433 or [::1]:4433"
    if not port.isdecimal() or int(port) > 65535:
        raise Failure("bad-value", f"`{port}` is not a port from 0 to 65535", hint=hint)
    what = f"the host `{host}` is not found"
    with failing((OSError, UnicodeError), "bad-value", hint, what=what):
        addresses = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)
    family, _, _, _, place = addresses[0]
    number = str(place[0])
    return f"[{number}]:{port}" if family == socket.AF_INET6 else f"{number}:{port}"


def _parsed(option: str, text: str | None, read: Any) -> int | None:
    """Return an option's value, if it is given."""
    if text is None:
        return None
    with failing(ValueError, "bad-value", what=option):
        value: int = read(text)
    if value < 1:
        raise Failure("bad-value", f"{option} must be more than 0")
    return value


def _failure(failed: tuple[str, str, bool]) -> Failure:
    kind, message, is_input = failed
    code = Exit.BAD_INPUT if is_input else Exit.RUN_FAILED
    return Failure(f"perf-{kind}", message, hint=_HINTS.get(kind), code=code)


def _news(news: dict[str, Any]) -> str:
    match news["event"]:
        case "listening":
            # It is copied: a line break inside it would end the command.
            call = f"paceline perf client {news['address']} \\\n  --token={news['token']}"
            return f"listening on {news['address']}\n{call}"
        case "started":
            way = "to" if news["reverse"] else "from"
            return f"{news['client']}: a test with {news['cc']}, data {way} the client"
        case "ended":
            size = quantity("_bytes", news["bytes"])
            text = f"{news['client']}: {size} in {quantity('_ns', news['time_ns'])}"
            return text if news["failed"] is None else f"{text}; {news['failed']}"
        case _:
            return f"{news['client']}: refused: {news['why']}"


def _line(part: answers.PerfPart) -> str:
    """Return the results of a part of a test, as text."""
    begins, ends = part["start_ns"] / _SECOND, part["end_ns"] / _SECOND
    cells = [
        f"{begins:6.2f} to {ends:6.2f} s",
        f"{quantity('_bytes', part['bytes']):>11}",
        f"{quantity('_bps', part['goodput_bps']):>13}",
    ]
    if part["rtt_ns"] is not None:
        cells.append(f"RTT {quantity('_ns', part['rtt_ns'])}")
    if part["cwnd_bytes"] is not None:
        cells.append(f"window {quantity('_bytes', part['cwnd_bytes'])}")
    if part["lost_packets"] is not None:
        cells.append(f"lost {part['lost_packets']}")
    return "  ".join(cells)
