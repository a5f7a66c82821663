"""What Python reads from outside, bent at random: read, or refused in words.

The readers in Rust have `tests/fuzz` and `tests/soak`. A find worth keeping is a file in
`seeds/NAME` of `tests/fuzz/seeds.tar.gz`; `make soak` bends more of them.
"""

from __future__ import annotations

import os
import random
import re
import socket
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

import paceline
from conftest import SCENARIO
from paceline import store
from paceline.batch.ledger import NAME, Ledger, LedgerError
from paceline.errors import NotARunError
from paceline.exchange import mahimahi, transperf_scenario
from paceline.exchange.declared import ImportFailedError
from paceline.serve import limits
from paceline.serve.server import Server
from paceline.study.claims import ClaimError, reader
from paceline.study.conformance import case

ROOT = Path(__file__).parent.parent
#: Inputs for each reader, where `make soak` asks for more than a reader takes in a second or two.
COUNT = int(os.environ.get("PACELINE_FUZZ", "0"))
#: Where the inputs start.
SEED = int(os.environ.get("PACELINE_SEED", "1"))

#: What is on an edge of what is allowed, or beyond it.
EDGES = (
    *(b"0", b"-1", b"1e400", b"18446744073709551616", b"nan", b"true", b"null", b"[]", b"{}"),
    *(b'"', b"'", b"\\", b"\n", b"\0", b"\xff", b"[" * 2000, b"9" * 5000, b"**", b"%", b"()"),
)


def bend(chance: random.Random, corpus: list[bytes]) -> bytes:
    """Return one of the corpus with some things done to it."""
    octets = bytearray(chance.choice(corpus))
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(octets))
        taken = chance.choice((0, 1, 2, 12))
        other = chance.choice(corpus)
        start = chance.randint(0, len(other))
        given = chance.choice(
            (
                chance.choice(EDGES),
                chance.randbytes(chance.randint(0, 4)),
                other[start : start + chance.randint(0, 60)],
            )
        )
        octets[at : at + taken] = given
    return bytes(octets)


def text(octets: bytes) -> str:
    return octets.decode(errors="replace")


def read_transperf(octets: bytes, _: Path) -> None:
    with suppress(ImportFailedError):
        transperf_scenario.scenarios(text(octets), "x", ignore_commands=True)


def read_mahimahi(octets: bytes, _: Path) -> None:
    with suppress(ImportFailedError):
        mahimahi.scenario(text(octets), name="x", trace="t", rtt="1 ms", queue="9 B", cc="reno")


def read_claim(octets: bytes, folder: Path) -> None:
    with suppress(ClaimError):
        reader.parse(text(octets), folder / "s.toml")


def read_case(octets: bytes, folder: Path) -> None:
    (folder / "a.steps.toml").write_bytes(octets)
    with suppress(case.CaseError):
        case.load(folder)


def read_ledger(octets: bytes, folder: Path) -> None:
    (folder / NAME).write_bytes(octets)
    with suppress(LedgerError):
        Ledger(folder, "key", 2).close()


def read_manifest(octets: bytes, folder: Path) -> None:
    (folder / store.MANIFEST).write_bytes(octets)
    manifest = store.Manifest.of(folder)
    for name in manifest.files if manifest is not None else ():
        if manifest is not None and manifest.owns(folder, name):
            assert (folder / name).parent.resolve().is_relative_to(folder.resolve())


def read_run(octets: bytes, folder: Path) -> None:
    """Spoil one file of a record, which the first octet chooses; the rest is the file."""
    names = sorted(path.name for path in WHOLE[0].iterdir())
    for name in names:
        with suppress(FileNotFoundError):
            (folder / name).unlink()
        (folder / name).symlink_to(WHOLE[0] / name)
    name = names[octets[0] % len(names)] if octets else names[0]
    (folder / name).unlink()
    (folder / name).write_bytes(octets[1:])
    with suppress(NotARunError, OSError, paceline.PacelineError):
        run = paceline.Run.read(folder)
        assert run.flow_metrics is not None


def read_http(octets: bytes, _: Path) -> None:
    """Send octets to the page's server, which answers or hangs up; its secret is in its place."""
    server = SERVER[0]
    octets = octets.replace(b"PORT", str(server.port).encode())
    octets = octets.replace(b"SECRET", server.token.encode())
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as stream:
        with suppress(ConnectionError):
            stream.sendall(octets)
            stream.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionError):
            while more := stream.recv(1 << 16):
                answer += more
    assert not re.search(rb"^HTTP/1.. 5[0-9][0-9]", answer, re.MULTILINE), answer


#: A record to be spoiled.
WHOLE: list[Path] = []
#: A server of the folder that it is in.
SERVER: list[Server] = []

#: The readers, each with the inputs that it takes in a second or two.
READERS: dict[str, tuple[Callable[[bytes, Path], None], int]] = {
    "transperf": (read_transperf, 10_000),
    "mahimahi": (read_mahimahi, 30_000),
    "claim": (read_claim, 150),
    "case": (read_case, 400),
    "ledger": (read_ledger, 2_000),
    "manifest": (read_manifest, 2_000),
    "run": (read_run, 300),
    "http": (read_http, 1_500),
}


@pytest.fixture(scope="module", autouse=True)
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with prepared(tmp_path_factory.mktemp("runs")):
        yield


@contextmanager
def prepared(folder: Path) -> Iterator[None]:
    """Make what readers need: a record, and a server of its folder."""
    short = {"run.duration": '"0.3 s"', "run.record.packets": True}
    paceline.run(SCENARIO, overrides=short).write(folder / "whole")
    WHOLE[:] = [folder / "whole"]
    longest, limits.JOB_S = limits.JOB_S, 0.1
    server = Server(folder)
    SERVER[:] = [server]
    thread = Thread(target=server.serve)
    thread.start()
    try:
        yield
    finally:
        server.stop()
        thread.join()
        limits.JOB_S = longest


def stored(name: str) -> list[bytes]:
    """Return the inputs in a folder of the stored seeds."""
    with tarfile.open(ROOT / "tests" / "fuzz" / "seeds.tar.gz") as archive:
        members = (member for member in archive if member.name.startswith(f"seeds/{name}/"))
        files = (archive.extractfile(member) for member in members)
        return [file.read() for file in files if file is not None]


def corpus(name: str) -> list[bytes]:
    if name == "run":
        whole = enumerate(sorted(WHOLE[0].iterdir()))
        return [bytes([nth]) + path.read_bytes() for nth, path in whole]
    files = {
        "claim": (ROOT / "data" / "claims").glob("*.toml"),
        "case": (ROOT / "data" / "conformance").rglob("*.steps.toml"),
    }.get(name)
    if files is not None:
        return [path.read_bytes() for path in sorted(files)]
    return stored("trace" if name == "mahimahi" else name)


@pytest.mark.parametrize("name", READERS)
def test_what_is_bent_is_read_or_refused(name: str, tmp_path: Path) -> None:
    read, count = READERS[name]
    seeds = corpus(name)
    assert seeds
    for octets in seeds:
        read(octets, tmp_path)
    for nth in range(COUNT or count):
        octets = bend(random.Random(f"{SEED} {name} {nth}"), seeds)
        try:
            read(octets, tmp_path)
        except Exception as error:
            found = tmp_path / "found"
            found.write_bytes(octets)
            raise AssertionError(f"{name}, input {nth} of seed {SEED}: {found}") from error


def test_the_loop_finds_what_is_wrong() -> None:
    """Text that is not UTF-8 comes within a few inputs, and so do several edges."""
    seeds = corpus("transperf")
    inputs = [bend(random.Random(nth), seeds) for nth in range(300)]
    assert any(text(octets).encode() != octets for octets in inputs)
    assert sum(any(edge in octets for edge in EDGES[-7:]) for octets in inputs) > 20
