"""What is killed, or finds the disk full, is completed by the same command; all else stays."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path

import pytest

import paceline
from conftest import SCENARIO
from paceline.cli.verbs import VERBS
from verbs import READERS, WRITERS, Processes, begin, prepare, small_disk, tree

#: Rounds for each verb; `make soak` asks for more.
KILLS = int(os.environ.get("PACELINE_KILLS", "5"))
#: Where the moments start; printed by a test that fails.
SEED = int(os.environ.get("PACELINE_SEED", "1"))

#: What a folder has while its results are not complete.
BEGUN = re.compile(
    r"(.*/)?\.paceline-\d+-\d+(/.*)?|r/(.*/)?(paceline\.json|ledger\.jsonl)"
    r"|runs/\.unfinished/\w+-[0-9a-f]{16}\.jsonl"
)


def test_every_verb_is_in_the_table() -> None:
    assert {arguments[0] for arguments in WRITERS.values()} | READERS == set(VERBS)


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
    assert ended.code == 0, ended.said
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
        left = {name: data for name, data in tree(place).items() if not BEGUN.fullmatch(name)}
        # Whatever has its name is whole.
        assert left.items() <= complete.items(), (SEED, nth, left.keys() - complete.keys())
        assert foreign.items() <= left.items(), (SEED, nth)
        ended = processes.run(verb, place)
        done = ended.code == 2 and "exists" in ended.said
        assert ended.code == 0 or done, (SEED, nth, ended)
        assert tree(place) == complete, (SEED, nth)


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
        for nth, share in enumerate((0.0, chance.uniform(0.0, 0.9))):
            place = small / f"full-{nth}"
            prepare(place, record)
            begin(verb, place)
            filled = free(small) - int(share * needed)
            (small / "full").write_bytes(b"x" * filled)
            ended = processes.run(verb, place)
            assert ended.code == 1, (SEED, share, ended)
            assert "cannot write" in ended.said or "No space left" in ended.said, ended.said
            assert "Traceback" not in ended.said
            left = {name: data for name, data in tree(place).items() if not BEGUN.fullmatch(name)}
            assert left.items() <= complete.items(), (SEED, share, left.keys() - complete.keys())
            assert foreign.items() <= left.items(), (SEED, share)
            (small / "full").unlink()
            assert processes.run(verb, place).code == 0
            assert tree(place) == complete


def free(folder: Path) -> int:
    """Return the bytes that a disk has left."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_bsize
