"""What is killed, stopped by a signal, or finds the disk full is completed by the same command."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import urlsplit

import pytest

import paceline
from conftest import SCENARIO, Command
from paceline import _paceline, store
from paceline.cli.verbs import VERBS
from verbs import READERS, WRITERS, Processes, begin, prepare, small_disk, tree

#: Rounds for each verb; `make soak` asks for more.
KILLS = int(os.environ.get("PACELINE_KILLS", "1"))
#: Where the moments start; printed by a test that fails.
SEED = int(os.environ.get("PACELINE_SEED", "1"))

#: What a folder has while its results are not complete.
BEGUN = re.compile(
    r"(.*/)?\.paceline-\d+-\d+(/.*)?|r/(.*/)?(paceline\.json|ledger\.jsonl)"
    r"|runs/\.unfinished/\w+-[0-9a-f]{16}\.jsonl"
)


def test_every_verb_is_in_the_table() -> None:
    assert {arguments[0] for arguments in WRITERS.values()} | READERS == set(VERBS)


def of_names(place: Path) -> dict[str, bytes]:
    """Return what has its own name, without what was begun."""
    return {name: data for name, data in tree(place).items() if not BEGUN.fullmatch(name)}


@pytest.fixture(scope="module")
def record() -> paceline.Run:
    short = {"run.duration": '"0.3 s"', "run.record.packets": True}
    return paceline.run(SCENARIO, overrides=short)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Processes:
    return Processes(tmp_path_factory.mktemp("logs"))


@pytest.mark.parametrize("verb", WRITERS)
def test_what_is_killed_is_completed_by_the_same_command(
    verb: str, tmp_path: Path, record: paceline.Run, processes: Processes
) -> None:
    chance = random.Random(f"{SEED} {verb}")
    whole = tmp_path / "whole"
    foreign = prepare(whole, record)
    begin(verb, whole)
    began = time.monotonic()
    ended = processes.run(verb, whole)
    took = time.monotonic() - began
    assert ended.code == 0, ended.output
    complete = tree(whole)
    assert complete != foreign
    assert foreign.items() <= complete.items()
    for nth in range(KILLS):
        place = tmp_path / f"killed-{nth}"
        prepare(place, record)
        begin(verb, place)
        process, _ = processes.start(verb, place)
        time.sleep(chance.uniform(0.0, 1.1) * took)
        process.kill()
        process.join()
        left = of_names(place)
        # Whatever has its name is whole.
        assert left.items() <= complete.items(), (SEED, nth, left.keys() - complete.keys())
        assert foreign.items() <= left.items(), (SEED, nth)
        ended = processes.run(verb, place)
        done = ended.code == 2 and "exists" in ended.output
        assert ended.code == 0 or done, (SEED, nth, ended)
        assert tree(place) == complete, (SEED, nth)


def test_a_server_that_is_killed_leaves_runs_that_are_whole(
    tmp_path: Path, record: paceline.Run
) -> None:
    chance = random.Random(f"{SEED} serve")
    record.write(tmp_path / "whole" / "record")
    (tmp_path / "whole" / "mine.txt").write_text("mine")
    with served(tmp_path / "whole") as (_, fetch):
        began = time.monotonic()
        assert fetch()["state"] == "done"
        took = time.monotonic() - began
    complete = tree(tmp_path / "whole")
    kept = sum(file.startswith("scenario-9/") for file in complete)
    assert kept, sorted(complete)
    for nth in range(KILLS):
        place = tmp_path / f"killed-{nth}"
        record.write(place / "record")
        (place / "mine.txt").write_text("mine")
        with served(place) as (process, fetch):
            killer = Timer(chance.uniform(0.0, 1.1) * took, process.kill)
            killer.start()
            with suppress(OSError, HTTPException):
                fetch()
            killer.join()
        left = of_names(place)
        assert left.items() <= complete.items(), (SEED, nth, left.keys() - complete.keys())
        assert len(left) in (len(complete) - kept, len(complete)), (SEED, nth, sorted(left))
        with served(place) as (_, fetch):
            assert fetch()["state"] == "done"
        ended = tree(place)
        assert complete.items() <= ended.items(), (SEED, nth, complete.keys() - ended.keys())
        # Kept a second time if it was there.
        others = {file.partition("/")[0] for file in ended.keys() - complete.keys()}
        assert others <= {"scenario-9-2"}, (SEED, nth, others)


@contextmanager
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Callable[[], Any]]]:
    """Serve a folder in a process of its own, and yield what asks for a run and returns its end."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "paceline", "serve", str(folder), "--port", "0"),
            *("--no-browser", "--json"),
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    output = ""
    for line in process.stdout:
        output += line
        if line == "}\n":
            break
    address = urlsplit(json.loads(output)["address"])
    headers = {"Cookie": f"paceline-{address.port}={address.query.partition('=')[2]}"}

    def fetch() -> Any:
        text = paceline.check(SCENARIO, overrides={"run.duration": "0.5 s"})
        order = json.dumps({"scenario": text, "seed": 9})
        kind = {"Content-Type": "application/json"}
        with closing(HTTPConnection("127.0.0.1", address.port or 0, timeout=60)) as connection:
            connection.request("POST", "/api/run", order, headers | kind)
            with connection.getresponse() as answer:
                job = json.loads(answer.read())["job"]
            connection.request("GET", f"/api/jobs/{job}/events", headers=headers)
            with connection.getresponse() as answer:
                last = answer.read().decode().strip().split("\n\n")[-1]
        return json.loads(last.removeprefix("data: "))

    try:
        yield process, fetch
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("verb", WRITERS)
def test_a_full_disk_leaves_nothing_half(
    verb: str, tmp_path: Path, record: paceline.Run, processes: Processes
) -> None:
    chance = random.Random(f"{SEED} {verb}")
    with small_disk(tmp_path / "small", 16 << 10) as small:
        if small is None:
            pytest.skip("a small tmpfs cannot be mounted here")
        foreign = prepare(small, record)
        begin(verb, small)
        room = free(small)
        assert processes.run(verb, small).code == 0
        needed, complete = room - free(small), tree(small)
        # No room for anything, or room for a part.
        shares = [chance.choice((0.0, chance.uniform(0.0, 0.9))) for _ in range(KILLS)]
        for nth, share in enumerate(shares):
            place = small / f"full-{nth}"
            prepare(place, record)
            begin(verb, place)
            filled = free(small) - int(share * needed)
            (small / "full").write_bytes(b"x" * filled)
            ended = processes.run(verb, place)
            assert ended.code == 1, (SEED, share, ended)
            assert "cannot write" in ended.output or "No space left" in ended.output, ended.output
            assert "Traceback" not in ended.output
            left = of_names(place)
            assert left.items() <= complete.items(), (SEED, share, left.keys() - complete.keys())
            assert foreign.items() <= left.items(), (SEED, share)
            (small / "full").unlink()
            assert processes.run(verb, place).code == 0
            assert tree(place) == complete
            shutil.rmtree(place)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of `long.toml` to `r` that was killed when it had written rows."""
    place = tmp_path_factory.mktemp("killed")
    length = 'duration = "1000000 s"\nsample_interval = "10 s"\nrecord = { states = false }'
    (place / "long.toml").write_text(SCENARIO.replace('duration = "2 s"', length))
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline", "run", "long.toml", "--out", "r", "--quiet"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        cwd=place,
    )
    try:
        while not any(has_rows(stream) for stream in place.rglob("*.stream")):
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    return place


def has_rows(stream: Path) -> bool:
    return _paceline.Run.unfinished(stream.parent, stream.name, 1 << 30) is not None


@pytest.fixture
def left(killed: Path, cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, which is not that of `cli`: a copy of that folder."""
    shutil.copytree(killed, tmp_path / "left")
    monkeypatch.chdir(tmp_path / "left")
    return tmp_path / "left"


def test_a_run_that_is_killed_leaves_its_rows_to_report(left: Path, cli: Command) -> None:
    assert not [name for name in os.listdir(left) if name.startswith("r")]
    result = cli("report", "r")
    assert result.returncode == 0, result
    assert result.stdout == "r-incomplete/report.html\n"
    assert "r does not exist; a killed run left a partial record in r-incomplete" in (result.stderr)
    run = paceline.Run.read("r")
    why = re.fullmatch(
        r"the process that ran it was killed; the record ends at (\d+(\.\d+)?) s of 1000000 s",
        run.incomplete or "",
    )
    assert why is not None
    assert 0 < run.samples["t_ns"].to_list()[-1] <= float(why[1]) * 1e9 < 1e15
    assert run.metrics["utilisation_ratio"] is not None
    assert run.flows["goodput_bytes"].to_list()[0] > 0
    assert why[0] in (left / "r-incomplete" / "report.html").read_text()
    # Nothing else is left, and other verbs read it too.
    assert sorted(os.listdir(left)) == ["long.toml", "r-incomplete"]
    assert cli("export", "r", "--format", "csv").returncode == 0
    assert cli("compare", "r", "r-incomplete").returncode == 0


def test_after_a_kill_the_same_place_is_free(left: Path, cli: Command, scenario: Path) -> None:
    result = cli("run", scenario, "--out", "r")
    assert result.returncode == 0, result
    hint = "a killed run left a partial record: `paceline report"
    assert f"{hint} {left / 'r-incomplete'}`" in result.stderr
    assert (
        paceline.Run.read("r").incomplete,
        paceline.Run.read("r-incomplete").incomplete is None,
    ) == (
        None,
        False,
    )
    assert sorted(os.listdir(left)) == ["long.toml", "r", "r-incomplete"]


def test_what_a_user_has_is_kept(left: Path) -> None:
    for name in ("r", "r-incomplete"):
        (left / name).mkdir()
        (left / name / "mine.txt").write_text("mine")
    before = tree(left / "r") | tree(left / "r-incomplete")
    store.tidy(left)
    assert tree(left / "r") | tree(left / "r-incomplete") == before
    assert paceline.Run.read("r-incomplete-2").incomplete
    shutil.rmtree("r")
    assert store.path_of_run(Path("r")) == Path("r-incomplete-2")


def test_a_stream_that_is_read_twice_is_one_run(killed: Path, left: Path) -> None:
    store.tidy(left)
    first = tree(left)
    # A process may be killed after the run is made, and before the stream is deleted.
    shutil.copytree(killed, left, dirs_exist_ok=True)
    assert store.path_of_run(Path("r")) == Path("r-incomplete")
    assert tree(left) == first


@pytest.mark.parametrize("spoil", ["cut", "other", "link"])
def test_a_stream_that_cannot_be_read_is_no_run(spoil: str, left: Path, cli: Command) -> None:
    (stream,) = left.rglob("*.stream")
    content = stream.read_bytes()
    if spoil == "cut":
        stream.write_bytes(content[:100])
    elif spoil == "other":
        header = content[16 : 16 + int.from_bytes(content[:8], "little")]
        other = header.replace(b'"schema":2', b'"schema":9')
        checksum = hashlib.sha256(other).digest()[:8]
        stream.write_bytes(content[:8] + checksum + other + content[16 + len(header) :])
    else:
        stream.rename(left / "elsewhere")
        stream.symlink_to(left / "elsewhere")
    result = cli("report", "r")
    assert result.returncode == 2
    assert "no such folder: r" in result.stderr
    # Rows that a newer version wrote stay; what has no rows is removed.
    assert any(left.rglob("*.stream")) == (spoil != "cut")


def free(folder: Path) -> int:
    """Return the bytes that a disk has left."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_bsize


@pytest.mark.parametrize("link", ["parent", "place", "rival"])
def test_a_stream_is_no_run_beyond_its_folder(link: str, left: Path, tmp_path: Path) -> None:
    (stream,) = left.rglob("*.stream")
    outside = tmp_path / "outside"
    outside.mkdir()
    if link == "parent":
        (stream.parent / "a").mkdir()
        stream.rename(stream.parent / "a" / stream.name)
        (left / "a").symlink_to(outside)
    elif link == "place":
        (left / "r-incomplete").symlink_to(outside / "new")
    else:
        (left / "r-incomplete").mkdir()
        (left / "r-incomplete" / "mine.txt").write_text("mine")
        (left / "r-incomplete-2").symlink_to(outside / "new")
    store.tidy(left)
    assert os.listdir(outside) == []
    assert (left / "r-incomplete-3").exists() == (link == "rival")


@pytest.mark.parametrize("name", [".paceline-old", ".paceline-streams"])
def test_remains_that_are_links_are_not_followed(name: str, tmp_path: Path) -> None:
    home, shared = tmp_path / "home", tmp_path / "shared"
    for folder in (home, shared / ".paceline-99999-0"):
        folder.mkdir(parents=True)
    (home / "key").write_text("mine")
    (home / "a.stream").write_text("mine")
    (shared / ".paceline-99999-0" / name).symlink_to(home)
    store.tidy(shared)
    assert sorted(os.listdir(home)) == ["a.stream", "key"]
    assert os.listdir(shared) == []


# What takes long, and is stopped by a signal at once: the end of a run as well as its middle.


#: Over a million rows, which take some tenths of a second to write.
ROWS = """
schema = 1
[run]
duration = "16 s"
sample_interval = "1 ms"
[path]
rate = "5 Mbit/s"
rtt = "40 ms"
queue = { kind = "droptail", size = "100 packets" }
[[flows]]
cc = "reno"
count = 400
"""


@pytest.fixture
def soon() -> Iterator[None]:
    """Interrupt this process in a moment."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("soon")
def test_writing_hears_a_signal_and_leaves_what_was_there(tmp_path: Path) -> None:
    run = paceline.run(ROWS)
    assert run.samples.height > 1_000_000
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  It may come at once.
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        run.write(tmp_path / "run")
    run.write(tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.usefixtures("soon")
def test_golden_traces_hear_a_signal_between_one_and_the_next(cli: Command) -> None:
    """Python runs no handler within one call of the extension, unless that asks for it."""
    root = Path(__file__).parent.parent / "data" / "conformance" / "linux-bbr"
    received = []

    def interrupt(*_: object) -> None:
        received.append(True)
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    replayed = None
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  It may come at once.
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        replayed = paceline._paceline.golden_traces(root, lambda _: True)
    assert received
    assert replayed is None
