"""Bulk transfers over real QUIC: the command's two sides over the loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import paceline
from conftest import Command
from described import hold
from paceline.cli.failure import Failure
from paceline.cli.verbs.perf import _resolved


class Server(NamedTuple):
    """A server that runs."""

    address: str
    token: str
    process: subprocess.Popen[str]


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    """Run a server on a free port; its first line says how to reach it."""
    call = [sys.executable, "-m", "paceline", "perf", "server", "127.0.0.1:0", "--json", *options]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            first = json.loads(process.stdout.readline())
            hold("perf", first)
            assert first["event"] == "listening"
            yield Server(first["address"], first["token"], process)
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--max-bytes", "20 MB") as running:
        yield running


def carried(code: int, cli: Command, server: Server, *options: str) -> dict[str, Any]:
    result = cli("perf", "client", server.address, "--token", server.token, "--json", *options)
    assert result.returncode == code, result.stderr + result.stdout
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.mark.parametrize("way", [(), ("--reverse", "--streams", "2")])
def test_a_transfer_and_its_record(
    cli: Command, server: Server, tmp_path: Path, way: tuple[str, ...]
) -> None:
    out = tmp_path / "record"
    options = ("--bytes", "3 MB", "--cc", "bbr3", "--out", str(out), *way)
    answer = carried(0, cli, server, *options)
    hold("perf", answer)
    assert answer["end"]["bytes"] == 3_000_000
    assert answer["failed"] is None
    assert answer["start"]["reverse"] is bool(way)
    run = paceline.Run.read(out)
    assert run.flow_metrics[0]["cc"] == "bbr3"
    assert run.metrics == answer["metrics"]
    assert run.incomplete is None
    # It is a record as any other, and is not replaced.
    page = tmp_path / "page.html"
    assert cli("report", out, "--out", page).returncode == 0
    assert "bbr3" in page.read_text()
    assert cli("compare", out, out, "--metric", "goodput_bps").returncode == 0
    answer = carried(2, cli, server, *options)
    assert answer["error"]["kind"]


def test_what_is_wrong_in_a_call_is_said(cli: Command, server: Server) -> None:
    text = server.token
    wrong = ("0" if text[0] != "0" else "1") + text[1:]
    other = text[:-1] + ("0" if text[-1] != "0" else "1")
    for token, options, message in (
        (wrong, (), "the token is not this server's"),
        (other, (), "does not fit the token"),
        ("abc", (), "not the 96 hexadecimal digits"),
        (text, ("--cc", "dctcp"), "`mark_counts`"),
        (text, ("--cc", "bbr9"), "no controller `bbr9`"),
        (text, ("--cc", "noq:bbr3"), "quinn:bbr, quinn:cubic"),
        (text, ("--cc", "dctcp", "--reverse"), "`mark_counts`"),
        (text, ("--bytes", "21 MB"), "--max-bytes"),
        (text, ("--time", "120 min"), "--max-time"),
        (text, ("--time", "2"), "--time: "),
        (text, ("--streams", "129"), "1 to 128 streams"),
        (text, ("--once",), "`paceline perf client` has no option --once"),
    ):
        call = ("perf", "client", server.address, "--token", token, "--json", *options)
        result = cli(*call)
        assert result.returncode == 2, (options, result.stdout)
        assert message in json.loads(result.stdout)["error"]["message"], options
    result = cli("perf", "client", server.address)
    assert result.returncode == 2
    assert "PACELINE_TOKEN" in result.stderr
    result = cli("perf", "server", server.address)
    assert result.returncode == 2
    assert "another program uses this port" in result.stderr


def test_a_server_that_ends_leaves_what_was_measured(cli: Command, tmp_path: Path) -> None:
    out = tmp_path / "record"
    with serving("--max-bytes", "1 MB") as server:
        # By time: it is the server that ends it.
        options = ("--time", "20 s", "--cc", "cubic", "--out", str(out))
        answer = carried(2, cli, server, *options)
        hold("perf", answer)
    assert answer["failed"]["kind"] == "perf-limit"
    assert answer["run"] == str(out)
    assert "1000000 bytes" in (paceline.Run.read(out).incomplete or "")


def test_a_server_for_one_test_ends_after_it(cli: Command) -> None:
    with serving("--once") as server:
        carried(0, cli, server, "--bytes", "1 MB", "--cc", "quinn:cubic")
        assert server.process.stdout is not None
        lines = [json.loads(line) for line in server.process.stdout]
        assert server.process.wait() == 0
    for line in lines:
        hold("perf", line)
    assert [line["event"] for line in lines] == ["started", "ended"]
    assert lines[1]["bytes"] == 1_000_000
    assert lines[1]["failed"] is None


def test_addresses_are_read_as_people_write_them() -> None:
    assert _resolved(None) == "127.0.0.1:4433"
    assert _resolved("5000") == "127.0.0.1:5000"
    assert _resolved("127.0.0.1") == "127.0.0.1:4433"
    assert _resolved("127.0.0.2:1") == "127.0.0.2:1"
    assert _resolved("[::1]:9") == "[::1]:9"
    assert _resolved("::1") == "[::1]:4433"
    for wrong in ("127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:"):
        with pytest.raises(Failure):
            _resolved(wrong)
