"""Where results are written, and which files there may be changed.

Every rule on this is here. A run's folder says what the run is: scenario, settings that differ from
the file, seed, and a hash of all that decides its bytes. Whatever is written is written beside its
place, brought to the disk and then moved there: it is complete or absent. What Paceline wrote into
a folder is listed in the folder's `paceline.json`; nothing else is ever replaced or deleted.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from paceline import _paceline, guests, memory
from paceline.errors import NotARunError, PacelineError, StoreError, is_interrupted
from paceline.reading import open_regular, read_json

if TYPE_CHECKING:
    import polars as pl

#: The manifest of a folder that we wrote: what the folder is, and which names in it are ours.
MANIFEST = "paceline.json"
#: The summary of several runs in a folder.
GROUP = "summary.json"
#: Version of the manifest; also part of every key, because a folder's content depends on it.
SCHEMA = 1

# Names

#: Characters with a meaning in shells, globs and file systems.
_SPECIAL = frozenset(r"""/\:*?"<>|[]{}()$&;'`!#~^""")


def readable(text: str, limit: int = 96) -> str:
    """Return a name as a part of a file name, of at most `limit` bytes.

    Letters and digits of every script stay; separators, control characters and what needs quoting
    become hyphens.
    """

    def kept(c: str) -> str:
        return "\0" if c in _SPECIAL or unicodedata.category(c)[0] in "ZC" else c

    plain = "".join(map(kept, unicodedata.normalize("NFC", text)))
    plain = re.sub("\0+", "-", plain).strip(".-")
    return plain.encode()[:limit].decode(errors="ignore").rstrip(".-") or "run"


def run_name(scenario: str, settings: Iterable[tuple[str, str]], seeds: str, key: str) -> str:
    """Return the name of a run's folder, such as ``small+queue.size=4bdp-1-4f2a9c``."""
    return f"{_with_settings(scenario, settings)}-{seeds}-{key[:6]}"


def sweep_name(scenario: str, settings: Iterable[tuple[str, str]]) -> str:
    """Return the name of a sweep's folder."""
    return f"{_with_settings(scenario, settings)}-sweep"


def _with_settings(scenario: str, settings: Iterable[tuple[str, str]]) -> str:
    # Brackets and quotation marks would each become a hyphen.
    short = (
        key.removeprefix("path.").removeprefix("run.") + "=" + re.sub(r'[\s\[\]{}"]', "", value)
        for key, value in settings
    )
    suffix = "+".join(short)
    return readable(scenario) + (f"+{readable(suffix, 64)}" if suffix else "")


# Keys


def key(content: object, backend: str = "sim", inputs: Iterable[str] = ()) -> str:
    """Return the hash of everything that determines the output: the scenario and the engine.

    `content` is the scenario with its seeds; `inputs` are the digests of files that it reads.
    """
    engine: list[object] = [SCHEMA, backend, _paceline.__version__, _paceline.__build__]
    if code := guests.key():
        engine.append(code)
    return hashlib.sha256(json.dumps([engine, content, list(inputs)]).encode()).hexdigest()


def digest(path: Path) -> str:
    """Return the hash of a file's bytes."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


# Manifests


@dataclass
class Manifest:
    """The manifest of a folder that we wrote."""

    #: `run`, `runs`, `sweep`, or of what it is the page.
    kind: str
    #: What distinguishes it from others of its kind.
    key: str = ""
    #: The names that we wrote. With a hash, or two while one of ours is replaced, a file is ours as
    #: long as it is as we wrote it.
    files: dict[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Manifest | None:
        """Return the manifest of a folder; `None` if the folder is not ours."""
        if not _is_file(folder / MANIFEST):
            return None
        try:
            value = read_json(folder / MANIFEST)
            checksums = {str(name): checksums for name, checksums in value["files"].items()}
            files = {name: None if sums is None else str(sums) for name, sums in checksums.items()}
            return cls(str(value["kind"]), str(value["key"]), files)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def owns(self, folder: Path, name: str) -> bool:
        """Return whether a file in the folder is unchanged since we wrote it."""
        if name not in self.files or not _inside(folder, name):
            return False
        checksums, path = self.files[name], folder / name
        return checksums is None or (_is_file(path) and digest(path) in checksums.split())

    def write(self, folder: Path) -> None:
        """Write it into the folder."""
        replace(folder / MANIFEST, self.text())

    def text(self) -> str:
        """Return it in its written form."""
        value = {"schema": SCHEMA, "kind": self.kind, "key": self.key, "files": self.files}
        return json.dumps(value, indent=1, sort_keys=True) + "\n"


def _is_file(path: Path) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _is_special(path: Path) -> bool:
    """Return whether the path is a device or a pipe."""
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def _inside(folder: Path, name: str) -> bool:
    """Return whether a name in a manifest is a path in its folder, not behind a link."""
    root = folder.resolve()
    return (root / name).parent.resolve().is_relative_to(root) and Path(name).name not in ("", "..")


def _owner(place: Path) -> tuple[Path, str, Manifest] | None:
    """Return the folder of ours that contains a path, its name there, and the manifest."""
    place = Path(os.path.abspath(place))
    for folder in list(place.parents)[:2]:
        manifest = Manifest.of(folder)
        if manifest is not None:
            return folder, place.relative_to(folder).as_posix(), manifest
    return None


def begin(folder: Path, kind: str, key: str, names: Iterable[str] = ()) -> None:
    """Mark a folder as ours before anything is written into it; `names` will be."""
    there = Manifest.of(folder) or Manifest(kind, key)
    _begin(folder, there, Manifest(kind, key, there.files | dict.fromkeys(names)))


def renew(folder: Path, kind: str, key: str, names: Iterable[str] = ()) -> None:
    """Remove the files that we wrote into a folder, and mark it as ours for another purpose."""
    there = Manifest.of(folder) or Manifest(kind)
    if there.kind != kind:
        word = _WORDS.get(there.kind, "result")
        raise _taken(folder, f"holds a {word}, and is left unchanged", kind)
    with errors(folder):
        below = {path for name in there.files for path in Path(name).parents if path.name}
        for name in there.files:
            if os.path.lexists(folder / name) and there.owns(folder, name):
                (folder / name).unlink()
        for path in sorted(below, key=lambda path: -len(path.parts)):
            with suppress(OSError):
                tidy(folder / path)
                (folder / path).rmdir()
    _begin(folder, Manifest(kind), Manifest(kind, key, dict.fromkeys(names)))


def _begin(folder: Path, there: Manifest, new: Manifest) -> None:
    for name in new.files.keys() - there.files.keys():
        check(folder / name)
    with errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if Manifest.of(folder) != new:
            new.write(folder)


# Places


def claim(place: Path, kind: str, key: str | None) -> bool:
    """Check, before any work, that results may be written to a folder.

    Returns whether they, or with no key others of their kind, are there already, complete or begun.
    Raises `StoreError` if there is something else, or if nothing can be written there.
    """
    _writable(place)
    if is_free(place):
        return False
    manifest = Manifest.of(place)
    if manifest is None:
        known = any((place / name).is_file() for name in ("run.json", GROUP, "sweep.json"))
        what = f"another {_WORDS[kind]}" if known else f"not a {_WORDS[kind]}"
        raise _taken(place, f"{'holds' if known else 'is'} {what}, and is left unchanged", kind)
    if manifest.kind != kind or key not in (None, manifest.key):
        article = "another" if manifest.kind == kind else "a"
        word = _WORDS.get(manifest.kind, "result")
        raise _taken(place, f"holds {article} {word}, and is left unchanged", kind)
    return True


def claim_page(place: Path, what: str) -> None:
    """Check, before any work, that a report of several files may be written to a folder."""
    manifest = Manifest.of(place) if claim(place, "page", what) else None
    for name in manifest.files if manifest is not None else ():
        check(place / name)


#: The description of each kind of folder.
_WORDS = {
    "run": "run",
    "runs": "set of runs",
    "sweep": "sweep",
    "page": "report",
    "search": "search",
}


def _taken(place: Path, message: str, kind: str) -> StoreError:
    sweep = kind in ("sweep", "search")
    hint = "choose another folder with --out" + (", or discard it with --fresh" if sweep else "")
    word = f"another-{kind}" if sweep else "not-a-run"
    return StoreError(word, f"{place} {message}", hint=hint, file=str(place))


def is_free(place: Path) -> bool:
    """Return whether a folder does not exist, or is empty."""
    try:
        return all(_DRAFT.fullmatch(name) for name in os.listdir(place))
    except FileNotFoundError:
        return True
    except OSError as error:
        raise _failure(place, error) from None


def _writable(place: Path) -> None:
    if os.path.exists(place) and not os.path.isdir(place):
        message = f"{place} is a file"
        raise StoreError("not-a-run", message, hint="choose a folder with --out", file=str(place))
    real = Path(os.path.realpath(place))
    parent = real
    while not os.path.exists(parent):
        parent = parent.parent
    # An empty folder is replaced as a whole, so its parent must be writable.
    around = parent.parent if parent == real and is_free(real) else parent
    reason = None
    if not around.is_dir() or not os.access(around, os.W_OK | os.X_OK):
        reason = f"{around} is not a folder you can write to"
    elif around != parent and os.path.ismount(real):
        reason = "it is a mount point; name a folder in it"
    elif any(len(os.fsencode(part)) > _limit(around, "PC_NAME_MAX", 255) for part in real.parts):
        reason = "its name is too long"
    elif len(os.fsencode(real)) + _ROOM > _limit(around, "PC_PATH_MAX", 4096):
        reason = "its path is too long"
    if reason is not None:
        message = f"cannot write to {place}: {reason}"
        hint = "choose another folder with --out"
        raise StoreError("unwritable", message, hint=hint, file=str(place), failed=True)


#: Maximum bytes of a path that names in a folder of ours add.
_ROOM = 100


def _limit(folder: Path, name: str, otherwise: int) -> int:
    try:
        return os.pathconf(folder, name)
    except (OSError, ValueError):
        return otherwise


def find(base: Path, kind: str, key: str, *, anew: bool = False) -> tuple[Path, bool]:
    """Return the path for results without another name, and whether they already exist.

    It is `base`, or if that holds something else, `base` with a number. Results that are never the
    same twice (`anew`) are always numbered, and only those that were begun are there.
    """
    for place in numbered(base, 1) if anew else itertools.chain([base], numbered(base, 2)):
        try:
            there = claim(place, kind, key)
        except StoreError as error:
            if error.failed:
                raise
        else:
            if not (anew and there and is_complete(place)):
                return place, there
    raise AssertionError


def is_complete(place: Path) -> bool:
    """Return whether existing results are complete; a run is complete, or does not exist."""
    manifest = Manifest.of(place)
    return manifest is None or manifest.kind != "runs" or (place / GROUP).exists()


def numbered(place: Path, first: int) -> Iterator[Path]:
    """Yield a path with numbers from the first one on."""
    for number in itertools.count(first):
        yield place.with_name(f"{place.name}-{number}")


# Writing


def keep(
    place: Path, write: Callable[[Path], object], key: str = "", rivals: Iterable[Path] = ()
) -> tuple[Path, list[str]]:
    """Write a run to its path or, if that is taken, to the first free rival.

    If the place holds the run of this key, its files are compared. Returns where the run is, and
    which of its files are other bytes in its place: none if it is the run that was there.
    """
    with _fresh(place, write, key) as fresh:
        if _placed(fresh, place):
            return place, []
        other, there = differing(fresh, place), Manifest.of(place)
        if not other and (not key or (there is not None and there.key == key)):
            return place, []
        for rival in rivals:
            if _placed(fresh, rival):
                return rival, other
    message = f"{place} holds something else, and is left unchanged"
    raise StoreError("not-a-run", message, hint="choose another folder", file=str(place))


def keep_anew(places: Iterable[Path], write: Callable[[Path], object]) -> Path:
    """Write a run to the first free path."""
    places = iter(places)
    first = next(places)
    with _fresh(first, write, "") as fresh:
        return next(place for place in itertools.chain([first], places) if _placed(fresh, place))


def incomplete(place: Path) -> Path:
    """Return the path for the part of a run that did not reach its end."""
    return place.with_name(f"{place.name}-incomplete")


@contextmanager
def streaming(place: Path) -> Iterator[Callable[[Path], str | None]]:
    """Yield what returns the path of a run's stream, given its folder: `place`, or one below it.

    The streams are in a temporary folder beside `place`. If this process is killed, `tidy` makes
    runs of them. Where there can be no such folder, there are no streams.
    """
    real = Path(os.path.realpath(place))
    with ExitStack() as stack:
        root = None
        with suppress(OSError):
            for path in reversed([path for path in real.parents if not path.exists()]):
                path.mkdir(exist_ok=True)
                stack.callback(_remove_empty, path)
            root = stack.enter_context(_beside(real, _STREAMS))

        def stream(folder: Path) -> str | None:
            if root is None:
                return None
            path = root / incomplete(real).name / folder.relative_to(place)
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
            return f"{path}{_STREAM}"

        yield stream


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def path_of_run(place: Path) -> Path:
    """Return the path of a run: if it does not exist, of the part that a killed process has left.

    That of the latest, if there are several; `place` if there is none.
    """
    latest = place
    if not os.path.lexists(place):
        with suppress(OSError):
            _tidy(place.parent)
        part = incomplete(place)
        parts = itertools.chain([part], numbered(part, 2))
        while not os.path.lexists(place) and os.path.lexists(part := next(parts)):
            latest = part
    return latest


@contextmanager
def _fresh(place: Path, write: Callable[[Path], object], key: str) -> Iterator[Path]:
    """Yield a run's folder that has been written under a temporary name."""
    real = Path(os.path.realpath(place))
    with errors(place):
        real.parent.mkdir(parents=True, exist_ok=True)
        with _beside(real, "run") as fresh:
            write(fresh)
            manifest = Manifest("run", key, _contents(fresh))
            (fresh / MANIFEST).write_text(manifest.text(), encoding="utf-8")
            yield fresh


def _placed(fresh: Path, place: Path) -> bool:
    """Rename a folder to a path if that is free."""
    real = Path(os.path.realpath(place))
    real.parent.mkdir(parents=True, exist_ok=True)
    try:
        _put(fresh, real, replace=False)
    except FileExistsError:
        return False
    return True


def _contents(folder: Path) -> dict[str, str | None]:
    """Return the names in a folder with their hashes, except tables: they are never replaced."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): None if path.suffix == ".parquet" else digest(path)
        for path in files
    }


def differing(one: Path, other: Path) -> list[str]:
    """Return the names in a folder whose files differ from those in another."""
    import filecmp  # only --force needs it

    names = sorted(path.name for path in one.iterdir() if path.name != MANIFEST)
    _, unequal, missing = filecmp.cmpfiles(one, other, names, shallow=False)
    return sorted(unequal + missing)


def check(place: Path, *, force: bool | None = False) -> None:
    """Check, before any work, that a file may be written: no file of the user is replaced.

    With `None` there is no `--force` to replace it with.
    """
    if force or not os.path.lexists(place) or _is_special(place):
        return
    owner = _owner(place)
    if place.is_dir():
        below = [] if owner is None else _below(*owner)
        if not any(place.iterdir()) or (
            owner is not None and below and all(owner[2].owns(owner[0], name) for name in below)
        ):
            return
    elif owner is not None and owner[2].owns(*owner[:2]):
        return
    # A process that was killed after the rename has left a draft next to the file.
    with suppress(OSError):
        tidy(place.parent)
    raise StoreError(
        "exists",
        f"{place} exists, and is left unchanged",
        hint="choose another place with --out"
        + (", or replace it with --force" if force is not None else ""),
        file=str(place),
    )


def _below(folder: Path, name: str, manifest: Manifest) -> list[str]:
    there = (known for known in manifest.files if known.startswith(f"{name}/"))
    return [known for known in there if os.path.lexists(folder / known)]


def delete(folder: Path) -> None:
    """Delete a run's folder; `StoreError` if it contains anything that we did not write."""
    manifest = Manifest.of(folder)
    what = ""
    if manifest is None or manifest.kind != "run":
        what = "is not a run that Paceline wrote"
    else:
        # A run has no folders, and no links.
        others = [name for name in sorted(os.listdir(folder)) if name != MANIFEST]
        others = [n for n in others if not (_is_file(folder / n) and manifest.owns(folder, n))]
        if others:
            what = f"contains {others[0]}, which Paceline did not write"
    if what:
        message = f"{folder.name} {what}, and is left unchanged"
        raise StoreError("exists", message, hint="delete the folder yourself", file=str(folder))
    # Rename it first: a half-deleted run is never mistaken for a run.
    with errors(folder), _beside(folder, "deleted") as draft:
        folder.rename(draft)


@contextmanager
def writing(place: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a path to write a file or a folder of files to; it becomes `place` when complete.

    Replaces what is there only if it is as we wrote it, or with `force`. What is written into a
    folder of ours is put on its list.
    """
    check(place, force=force)
    with errors(place):
        if _is_special(place):
            yield from _into(place)
            return
        # For a folder, resolve links.
        real = Path(os.path.realpath(place)) if place.is_dir() else place
        with _beside(real, place.name) as fresh:
            yield fresh
            files = [fresh] if fresh.is_file() else [p for p in fresh.rglob("*") if p.is_file()]
            written = [place / file.relative_to(fresh) for file in files]
            for target in written:
                check(target, force=force)
            _list(place, zip(written, files, strict=True))
            # A folder at once: a process killed here leaves no part of it.
            if fresh.is_file():
                _put(fresh, place, replace=os.path.lexists(place))
            elif not os.path.lexists(place):
                _put(fresh, place, replace=False)
            else:
                _swap(fresh, real)


def write(place: Path, content: str | bytes, *, force: bool = False) -> None:
    """Write a file as `writing` does."""
    with writing(place, force=force) as fresh:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """Yield a path to write a file that is ours by its name, whatever exists there."""
    with errors(place), _beside(place) as fresh:
        yield fresh
        _put(fresh, place, replace=True)


def replace(place: Path, content: str | bytes) -> None:
    """Write a file as `replacing` does."""
    with replacing(place) as fresh:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)


def parquet(frame: pl.DataFrame) -> bytes:
    """Return a table as Parquet: in memory first, because polars does not report a full disk."""
    octets = io.BytesIO()
    frame.write_parquet(octets)
    return octets.getvalue()


def _into(place: Path) -> Iterator[Path]:
    """Yield a path whose contents are then written to a device or a pipe."""
    import tempfile  # only this needs it

    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / place.name
        yield fresh
        place.write_bytes(fresh.read_bytes())


def _list(place: Path, coming: Iterable[tuple[Path, Path]]) -> None:
    """Add names to the manifest of their folder before the files exist.

    What stops in between leaves no file that is not ours. One of ours that is to be replaced is
    ours until then.
    """
    owner = _owner(place)
    if owner is None:
        return
    with _locked(owner[0]):
        manifest = Manifest.of(owner[0]) or owner[2]
        listed = {}
        for target, file in coming:
            name = Path(os.path.abspath(target)).relative_to(owner[0]).as_posix()
            listed[name] = new = digest(file)
            if manifest.owns(owner[0], name) and _is_file(target) and digest(target) != new:
                listed[name] = f"{digest(target)} {new}"
        if not listed.items() <= manifest.files.items():
            manifest.files |= listed
            manifest.write(owner[0])


@contextmanager
def errors(place: Path) -> Iterator[None]:
    """Explain clearly why something cannot be written."""
    try:
        yield
    except (OSError, NotARunError) as error:
        if is_interrupted(error):
            raise KeyboardInterrupt from None
        raise _failure(place, error) from None


def _failure(place: Path, error: OSError | NotARunError) -> StoreError:
    hints = {
        errno.EACCES: "check its permissions and its owner",
        errno.EPERM: "check its permissions and its owner",
        errno.ENOSPC: "free some space, or choose another place with --out",
        errno.EDQUOT: "free some space, or choose another place with --out",
    }
    code = error.errno if isinstance(error, OSError) else None
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    hint = hints.get(code or 0, "choose another place with --out")
    misnamed = code == errno.ENOENT and not place.parent.exists()
    if misnamed:
        hint = f"create the folder first: `mkdir -p {place.parent}`"
    message = f"cannot write {place}: {reason}"
    return StoreError("write-failed", message, hint=hint, file=str(place), failed=not misnamed)


# Temporary folders


#: A folder in which one process writes files that are then moved out of it.
_DRAFT = re.compile(r"\.paceline-\d+-\d+")
_count = itertools.count()


@contextmanager
def _beside(place: Path, name: str | None = None) -> Iterator[Path]:
    """Yield a temporary path, on the file system of `place` and visible to nobody else."""
    tidy(place.parent)
    own: list[tuple[Path, int]] = []
    try:
        yield _draft(place.parent, own) / (name or place.name)
    finally:
        for draft, lock in own:
            shutil.rmtree(draft, ignore_errors=True)
            os.close(lock)


#: How often a temporary folder is tried for: each failure is another process in the same instant.
_TRIES = 1000


def _draft(parent: Path, own: list[tuple[Path, int]]) -> Path:
    """Create a folder, lock it and put both into `own`; a signal leaves no unlocked folder."""
    for _ in range(_TRIES):
        draft = parent / f".paceline-{os.getpid()}-{next(_count)}"
        try:
            draft.mkdir()
            if (lock := _open_locked(draft)) is not None:
                own.append((draft, lock))
                return draft
        except FileExistsError:
            continue  # of a process with the same number, dead or in another container
        except BaseException:
            with suppress(OSError):
                draft.rmdir()
            raise
    raise OSError(errno.EBUSY, "other processes remove its temporary folders", str(parent))


def _open_locked(draft: Path) -> int | None:
    """Open and lock a new folder; `None` if a process has taken it for left behind."""
    try:
        lock = os.open(draft, os.O_RDONLY)
    except FileNotFoundError:
        return None
    if not _is_locked(lock) and os.path.exists(draft):
        return lock
    os.close(lock)
    return None


def _is_locked(lock: int) -> bool:
    """Lock an open folder, and return whether another process holds its lock."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # Some file systems cannot: then nothing is ever considered left behind.
    return False


#: The runs that this process has made of the streams of killed ones.
recovered: list[Path] = []


@cache
def tidy(parent: Path) -> None:
    """Remove the remains of killed processes in a folder; each process checks once.

    Runs that they were simulating become runs that are marked incomplete.
    """
    _tidy(parent)


def _tidy(parent: Path) -> None:
    for name in filter(_DRAFT.fullmatch, os.listdir(parent) if parent.is_dir() else []):
        with suppress(OSError), _locked(parent / name, wait=False):
            waiting = parent / name / _OLD
            for old in waiting.iterdir() if _is_folder(waiting) else ():
                # Killed after the old folder was removed and before the new one was in place.
                if not os.path.lexists(parent / old.name):
                    old.rename(parent / old.name)
            _recover(parent / name)
            if not _streams(parent / name):
                shutil.rmtree(parent / name, ignore_errors=True)


#: In a draft: the streams of runs, each at the path that its run is to have beside the draft.
_STREAMS = ".paceline-streams"
_STREAM = ".stream"


def _streams(draft: Path) -> list[Path]:
    root = draft / _STREAMS
    return sorted(root.rglob(f"*{_STREAM}")) if _is_folder(root) else []


def _recover(draft: Path) -> None:
    """Make runs of the streams in a draft; what cannot be read stays."""
    for stream in _streams(draft):
        place = draft.parent / stream.relative_to(draft / _STREAMS).with_suffix("")
        with suppress(OSError, PacelineError):
            if not _is_beneath(draft.parent, place):
                continue
            run = _paceline.Run.unfinished(draft, stream.relative_to(draft), memory.limit())
            if run is not None:
                # Killed before the stream is deleted, it is the same run again.
                rivals = (other for other in numbered(place, 2) if not other.is_symlink())
                recovered.append(keep(place, run.write, rivals=rivals)[0])
            stream.unlink()


def _is_beneath(folder: Path, place: Path) -> bool:
    """Return whether a path is below a folder, and no link leads out of it: data has chosen it."""
    return not place.is_symlink() and _inside(folder, place.relative_to(folder).as_posix())


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(lock)


def _put(fresh: Path, place: Path, *, replace: bool) -> None:
    """Sync a file or a folder to disk, then rename it to its place."""
    if fresh.is_dir():
        for path in (*fresh.rglob("*"), fresh):
            _sync(path)
        try:
            fresh.rename(place)
        except OSError as error:
            # The path exists, and is not just an empty folder.
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise FileExistsError(errno.EEXIST, "it exists", str(place)) from None
            raise
    else:
        _sync(fresh)
        if replace:
            fresh.replace(place)
        else:
            _link(fresh, place)
    _sync(place.parent)


#: The old folder's temporary place, in the draft of the new one.
_OLD = ".paceline-old"


def _swap(fresh: Path, place: Path) -> None:
    """Replace a folder by another, and keep the other files of the old one."""
    shutil.copystat(place, fresh)
    for path in sorted(place.rglob("*")):
        kept = fresh / path.relative_to(place)
        if path.is_dir() and not path.is_symlink():
            kept.mkdir(exist_ok=True)
        elif not os.path.lexists(kept):
            os.link(path, kept, follow_symlinks=False)
    for path in (*fresh.rglob("*"), fresh):
        if path.is_dir() or _is_file(path):
            _sync(path)
    old = fresh.parent / _OLD / place.name
    old.parent.mkdir()
    place.rename(old)
    try:
        fresh.rename(place)
    except BaseException:
        old.rename(place)
        raise
    _sync(place.parent)


def _link(fresh: Path, place: Path) -> None:
    try:
        os.link(fresh, place)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no links.
        if os.path.lexists(place):
            raise FileExistsError(errno.EEXIST, "it exists", str(place)) from None
        fresh.rename(place)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
