"""Names of folders, and what may be written, replaced and deleted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline import store
from paceline.errors import StoreError


@pytest.mark.parametrize(
    ("name", "is_called"),
    [
        ("four-flows-50M-40ms-1bdp", "four-flows-50M-40ms-1bdp"),
        ("四流收敛", "四流收敛"),
        ("τέσσερις ροές", "τέσσερις-ροές"),
        ("Cafe\u0301", "Café"),
        ("हिन्दी", "हिन्दी"),
        ("🚀 launch", "🚀-launch"),
        ("ledbat++", "ledbat++"),
        ("a/b\\c:d", "a-b-c-d"),
        ("swb[1]*?", "swb-1"),
        ("two  words\tand\na line", "two-words-and-a-line"),
        ("\x1b[31mred\x07", "31mred"),
        ("..", "run"),
        (".hidden", "hidden"),
        ("--force", "force"),
        ("", "run"),
        ("\udcff", "run"),
    ],
)
def test_a_name_stays_readable(name: str, is_called: str) -> None:
    assert store.readable(name) == is_called


@given(name=st.text(max_size=400), limit=st.integers(8, 200))
def test_any_name_is_one_part_of_a_path(name: str, limit: int) -> None:
    readable = store.readable(name, limit)
    assert 0 < len(readable.encode()) <= limit
    assert readable == Path(readable).name
    assert readable not in (".", "..")
    assert not readable.startswith((".", "-"))
    assert not set(readable) & set("/\\*?[]\0\n ")
    assert unicodedata.is_normalized("NFC", readable)
    assert store.readable(readable, limit) == readable


@pytest.mark.parametrize("letter", ["x", "é", "四", "🚀"])
def test_a_long_name_is_cut_between_characters(letter: str, tmp_path: Path) -> None:
    settings = [("path.queue.size", letter * 300)]
    name = store.run_name(letter * 300, settings, "1to100", "4f2a9c00")
    assert len(name.encode()) < 255
    assert name.startswith(letter * 20)
    assert name.endswith("-1to100-4f2a9c")
    (tmp_path / name).mkdir()


def test_a_name_says_what_was_set() -> None:
    settings = [("path.queue.size", "4 bdp"), ("flows.0.cc", "cubic"), ("run.duration", "5 s")]
    assert (
        store.run_name("small", settings, "3", "4f2a9c00")
        == "small+queue.size=4bdp+flows.0.cc=cubic+duration=5s-3-4f2a9c"
    )
    assert store.run_name("small", [], "3to5", "4f2a9c00") == "small-3to5-4f2a9c"
    several = [("run.compare", '["bbr3", "cubic"]'), ("flows.0.label", "λ 1")]
    name = "small+compare=bbr3,cubic+flows.0.label=λ1-1-4f2a9c"
    assert store.run_name("small", several, "1", "4f2a9c00") == name
    assert store.sweep_name("small", settings[:1]) == "small+queue.size=4bdp-sweep"


def test_a_key_is_of_everything_that_decides_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [
        store.key(["a", [1]]),
        store.key(["a", [2]]),
        store.key(["b", [1]]),
        store.key(["a", [1]], "emu"),
        store.key(["a", [1]], inputs=["one"]),
        store.key(["a", [1]], inputs=["other"]),
    ]
    with monkeypatch.context() as patch:
        patch.setattr("paceline._paceline.__build__", "another engine")
        keys.append(store.key(["a", [1]]))
    assert len(set(keys)) == len(keys)
    assert store.key(["a", [1]]) == keys[0]


def ours(folder: Path, **files: str) -> Path:
    """Make a folder that was run into."""

    def write(fresh: Path) -> None:
        fresh.mkdir()
        for name, text in ({"run.json": "{}"} | files).items():
            (fresh / name).write_text(text)

    assert store.keep(folder, write, "key") == (folder, [])
    return folder


def test_only_its_own_folder_is_gone_on_with(tmp_path: Path) -> None:
    assert not store.claim(tmp_path / "new", "run", "key")
    (tmp_path / "empty").mkdir()
    assert not store.claim(tmp_path / "empty", "run", "key")
    folder = ours(tmp_path / "r")
    assert store.claim(folder, "run", "key")
    (folder / "notes.txt").write_text("mine")
    assert store.claim(folder, "run", "key")
    for kind, key in (("run", "other"), ("runs", "key"), ("sweep", "key")):
        with pytest.raises(StoreError, match="is left unchanged"):
            store.claim(folder, kind, key)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    with pytest.raises(StoreError, match="not a run"):
        store.claim(tmp_path / "thesis", "run", "key")


def test_a_place_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="its name is too long") as caught:
        store.claim(tmp_path / ("x" * 256), "run", "key")
    assert caught.value.failed
    deep = tmp_path.joinpath(*["x" * 200] * 21)
    with pytest.raises(StoreError, match="too long"):
        store.claim(deep, "run", "key")
    store.claim(tmp_path / ("x" * 255), "run", "key")


def test_a_run_is_never_put_over_another(tmp_path: Path) -> None:
    folder = ours(tmp_path / "r", note="a")

    def write(fresh: Path) -> None:
        fresh.mkdir()
        (fresh / "run.json").write_text("{}")
        (fresh / "note").write_text("b")

    with pytest.raises(StoreError):
        store.keep(folder, write, "key")
    where, other = store.keep(folder, write, "key", store.numbered(folder, 2))
    assert (where, other) == (tmp_path / "r-2", ["note"])
    assert (folder / "note").read_text() == "a"
    assert store.keep_anew(store.numbered(folder, 1), write) == tmp_path / "r-1"
    assert store.keep_anew(store.numbered(folder, 1), write) == tmp_path / "r-3"
    assert sorted(os.listdir(tmp_path)) == ["r", "r-1", "r-2", "r-3"]


def test_results_without_a_name_get_a_number_where_there_is_something_else(tmp_path: Path) -> None:
    base = tmp_path / "r"
    assert store.find(base, "run", "key") == (base, False)
    base.mkdir()
    (base / "notes.txt").write_text("mine")
    assert store.find(base, "run", "key") == (tmp_path / "r-2", False)
    ours(tmp_path / "r-2")
    assert store.find(base, "run", "key") == (tmp_path / "r-2", True)
    assert store.find(base, "run", "other") == (tmp_path / "r-3", False)
    # What is never the same twice is only gone on with.
    ours(tmp_path / "r-1")
    assert store.find(base, "run", "key", anew=True) == (tmp_path / "r-3", False)
    store.begin(tmp_path / "r-3", "runs", "key", ["summary.json"])
    assert store.find(base, "runs", "key", anew=True) == (tmp_path / "r-3", True)


def write(place: Path, text: str | Callable[[Path], str], *, force: bool = False) -> None:
    with store.writing(place, force=force) as fresh:
        fresh.write_text(text if isinstance(text, str) else text(fresh))


def write_into(place: Path, name: str, text: str) -> None:
    with store.writing(place) as fresh:
        fresh.mkdir()
        (fresh / name).write_text(text)


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    def stop(fresh: Path) -> str:
        fresh.write_text("half a pa")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "page", stop)
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "page", "all of it")
    assert os.listdir(tmp_path) == ["page"]


def test_a_file_of_the_user_is_replaced_only_by_force(tmp_path: Path) -> None:
    place = tmp_path / "figure.svg"
    place.write_text("mine")
    with pytest.raises(StoreError, match="exists") as caught:
        write(place, "ours")
    assert "--force" in caught.value.hint
    # One that came while the work was done, too.
    late = tmp_path / "late"

    def come(_: Path) -> str:
        late.write_text("mine")
        return "ours"

    with pytest.raises(StoreError):
        write(late, come)
    assert (place.read_text(), late.read_text()) == ("mine", "mine")
    write(place, "ours", force=True)
    assert place.read_text() == "ours"
    link = tmp_path / "link"
    link.symlink_to(late)
    with pytest.raises(StoreError):
        write(link, "ours")
    write(link, "ours", force=True)
    assert late.read_text() == "mine"


def test_what_we_wrote_into_our_own_folder_is_replaced_as_long_as_it_is_ours(
    tmp_path: Path,
) -> None:
    folder = ours(tmp_path / "r")
    write(folder / "report.html", "one")
    write(folder / "report.html", "two")
    write_into(folder / "csv", "a.csv", "1")
    write_into(folder / "csv", "a.csv", "2")
    assert (folder / "csv" / "a.csv").read_text() == "2"
    (folder / "csv" / "notes.txt").write_text("mine")
    (folder / "csv" / "b.csv").write_text("mine")
    with pytest.raises(StoreError):
        write_into(folder / "csv", "b.csv", "ours")
    (folder / "report.html").write_text("with my notes")
    with pytest.raises(StoreError):
        write(folder / "report.html", "three")
    assert (folder / "report.html").read_text() == "with my notes"
    assert (folder / "csv" / "b.csv").read_text() == "mine"


def test_a_device_takes_what_is_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write(tmp_path / "pipe", "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert os.listdir(tmp_path) == ["pipe"]


def test_only_names_on_the_list_are_deleted(tmp_path: Path) -> None:
    folder, other = tmp_path / "s", tmp_path / "elsewhere"
    other.mkdir()
    store.begin(folder, "sweep", "one", ["runs/a=1/part-0.parquet", "points.parquet"])
    for name in ("runs/a=1/part-0.parquet", "points.parquet", "runs/a=1/mine", "runs/mine"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    write(folder / "picture.png", "ours")
    (folder / "linked").symlink_to(other)
    (other / "part-0.parquet").write_text("mine")
    # A list is data: it may come from anyone.
    manifest = json.loads((folder / store.MANIFEST).read_text())
    for name in ("../elsewhere/part-0.parquet", "linked/part-0.parquet", str(other), "", "..", "."):
        manifest["files"][name] = None
    (folder / store.MANIFEST).write_text(json.dumps(manifest))
    store.renew(folder, "sweep", "two", ["points.parquet"])
    files = (path for path in folder.rglob("*") if path.is_file())
    left = sorted(str(path.relative_to(folder)) for path in files)
    assert left == ["paceline.json", "runs/a=1/mine", "runs/mine"]
    assert (other / "part-0.parquet").read_text() == "mine"
    # What someone put where we are about to write.
    (folder / "notes").write_text("mine")
    with pytest.raises(StoreError, match="exists"):
        store.renew(folder, "sweep", "three", ["notes"])
    assert (folder / "notes").read_text() == "mine"


def test_a_manifest_that_is_damaged_makes_nothing_ours(tmp_path: Path) -> None:
    folder = ours(tmp_path / "r")
    for text in ("", "{", "[]", "[" * 100_000, '{"files": [], "kind": 1, "key": 2}', "\udcff"):
        (folder / store.MANIFEST).write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(StoreError):
            store.claim(folder, "run", "key")
    (folder / store.MANIFEST).unlink()
    os.mkfifo(folder / store.MANIFEST)
    with pytest.raises(StoreError):
        store.claim(folder, "run", "key")
    other = tmp_path / "other"
    store.begin(other, "of another version", "key")
    for call in (store.claim, store.renew):
        with pytest.raises(StoreError, match="holds a result"):
            call(other, "sweep", "key")


def test_what_a_killed_process_left_is_removed_and_what_looks_like_it_is_not(
    tmp_path: Path,
) -> None:
    for name in (".paceline-1-0", ".paceline-mine", ".paceline-1-0-notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    (tmp_path / ".paceline-2-0").write_text("a file")
    with store.writing(tmp_path / "one") as fresh:
        fresh.write_text("1")
        # Of a process that is at work.
        store.tidy.cache_clear()
        store.tidy(tmp_path)
        assert fresh.exists()
    assert sorted(os.listdir(tmp_path)) == [
        ".paceline-1-0-notes",
        ".paceline-2-0",
        ".paceline-mine",
        "one",
    ]


def test_many_may_write_at_once_and_remove_nothing_of_each_other(tmp_path: Path) -> None:
    def write(fresh: Path) -> None:
        fresh.mkdir()
        (fresh / "run.json").write_text("{}")

    def keep(nth: int) -> tuple[Path, list[str]]:
        store._tidy(tmp_path)
        return store.keep(tmp_path / f"r-{nth % 3}", write)

    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(keep, range(100)))
    assert kept == [(tmp_path / f"r-{nth % 3}", []) for nth in range(100)]
    assert sorted(os.listdir(tmp_path)) == ["r-0", "r-1", "r-2"]


KILLED = """
import os, sys
from pathlib import Path
from paceline import store
place, left = Path(sys.argv[1]), int(sys.argv[2])
rename = Path.rename
def count(*arguments):
    global left
    if left == 0:
        os._exit(9)
    left -= 1
    return rename(*arguments)
Path.rename = count
with store.writing(place, force=True) as fresh:
    fresh.mkdir()
    for name in ("a", "b"):
        (fresh / name).write_text("new")
"""


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@pytest.mark.parametrize("kills", [0, 1, 2])
def test_a_folder_that_is_written_again_is_the_old_or_the_new_one(
    kills: int, tmp_path: Path
) -> None:
    place = tmp_path / "csv"
    (place / "more").mkdir(parents=True)
    for name in ("a", "b", "more/mine"):
        (place / name).write_text("old")
    (place / "link").symlink_to("more")
    old, new = contents(place), {"a": "new", "b": "new", "more/mine": "old"}
    result = subprocess.run([sys.executable, "-c", KILLED, place, str(kills)], check=False)
    assert result.returncode == (9 if kills < 2 else 0)
    # Whoever writes there next finds it; before, it may be hidden.
    assert not place.exists() or contents(place) == (new if kills == 2 else old)
    store.tidy.cache_clear()
    store.tidy(tmp_path)
    assert contents(place) == (new if kills == 2 else old)
    assert (place / "link").readlink() == Path("more")
    assert os.listdir(tmp_path) == ["csv"]


def test_a_folder_that_cannot_be_written_again_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "csv"
    place.mkdir()
    (place / "a").write_text("old")
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        # The second: the old one is away.
        if target == place and path.parent.name != store._OLD:
            raise KeyboardInterrupt
        return rename(path, target)

    def again() -> None:
        with store.writing(place, force=True) as fresh:
            fresh.mkdir()
            (fresh / "a").write_text("new")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(KeyboardInterrupt):
        again()
    assert contents(tmp_path) == {"csv/a": "old"}


def test_an_interrupt_while_a_draft_is_removed_is_no_failure_to_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    removing, close = shutil.rmtree, os.close

    def closed(descriptor: int) -> None:
        close(descriptor)
        monkeypatch.setattr(os, "close", close)
        raise KeyboardInterrupt

    def remove(folder: Path, **options: Any) -> None:
        monkeypatch.setattr(os, "close", closed)
        removing(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", remove)
    with pytest.raises(KeyboardInterrupt):
        ours(tmp_path / "r")
    assert (tmp_path / "r" / "run.json").read_text() == "{}"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and a trace that can be imported."""
    folder = tmp_path_factory.mktemp("kept")
    run = paceline.run(
        'schema = 1\n[run]\nduration = "50 ms"\n[path]\nrate = "1 Mbit/s"\nrtt = "10 ms"\n'
        'queue.size = "1 bdp"\n[[flows]]\ncc = "reno"\n'
    )
    run.write(folder / "run")
    (folder / "trace").write_text("1\n2\n3\n")
    return folder


@pytest.mark.parametrize("place", ["x", "/proc/x"])
@pytest.mark.parametrize(
    "verb",
    [
        "init PLACE.toml",
        "report RUN --out PLACE.html",
        "export RUN --format csv --out PLACE",
        "import TRACE --rtt '40 ms' --queue '9 packets' --out PLACE",
        "run SCENARIO --out PLACE",
    ],
)
def test_where_nothing_can_be_created_a_verb_ends(
    kept: Path, tmp_path: Path, verb: str, place: str
) -> None:
    """In a deleted folder, and in one whose files the kernel makes, mkdir gives ENOENT."""
    gone = tmp_path / "gone"
    gone.mkdir()
    words = {
        "PLACE": place,
        "RUN": str(kept / "run"),
        "TRACE": str(kept / "trace"),
        "SCENARIO": str(kept / "run" / "scenario.toml"),
    }
    for word, value in words.items():
        verb = verb.replace(word, value)
    command = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m paceline {verb}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=300)
    why = "No such file or directory"
    if place == "/proc/x" and verb.startswith("run") and os.geteuid() != 0:
        # Only root may write to /proc, and `run` says so before it runs.
        why = "/proc is not a folder you can write to"
    assert why in done.stderr, done.stderr
    # A file whose folder is missing is a wrong option.
    assert done.returncode == (2 if "mkdir -p" in done.stderr else 1)


def test_a_record_is_not_written_where_nothing_can_be_created(kept: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory"):
        paceline.Run.read(kept / "run").write("/proc/x")


def test_a_draft_that_others_always_remove_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(store, "_is_locked", lambda lock: True)
    monkeypatch.setattr(store, "_TRIES", 20)
    with pytest.raises(StoreError, match="other processes remove"), store.writing(tmp_path / "x"):
        pass


def test_a_link_to_a_folder_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "mine").write_text("old")
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "csv"
    link.symlink_to(tmp_path / "real")
    with store.writing(link, force=True) as fresh:
        fresh.mkdir()
        (fresh / "a").write_text("new")
    assert link.is_symlink()
    assert contents(tmp_path / "real") == {"a": "new", "mine": "old"}
    assert os.listdir(tmp_path / "other") == ["csv"]
