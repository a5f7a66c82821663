"""How much memory runs may take: what the command line says, or half of what is free."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

#: What is free is divided by this: the rest is for what is made of runs.
_SHARE = 2
#: Where no one says how much is free.
_UNKNOWN = 4 << 30
#: What is never undercut: a machine that is full for a moment does not refuse a small run.
_LEAST = 256 << 20

_CGROUPS = Path("/sys/fs/cgroup")

_chosen: int | None = None


def choose(limit: int | None) -> None:
    """Set what runs of this process may take together, in bytes; `None` is half of what is free."""
    global _chosen
    _chosen = limit


def chosen() -> int | None:
    """Return what was set, if anything was."""
    return _chosen


def limit() -> int:
    """Return what runs may take together, in bytes."""
    return max(free() // _SHARE, _LEAST) if _chosen is None else _chosen


def free() -> int:
    """Return how many bytes this process may still take, as its machine and its container say."""
    found = [*_machine(), *_container(), *_process()]
    return min(found, default=_UNKNOWN)


def _machine() -> Iterator[int]:
    available = _fields(Path("/proc/meminfo")).get("MemAvailable:")
    if available is not None:
        yield available * 1024


def _container(root: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """Yield what each group that this process is in leaves, of version 2 and of version 1."""
    for line in _lines(own):
        _, controllers, path = line.split(":", 2)
        inside = path.strip("/")
        if controllers == "":
            place, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            place = root / "memory"
        else:
            continue
        folder = place / inside
        # The limit of a group holds for those in it. Inside a container the path is another's.
        for group in (folder, *folder.parents):
            if group == root.parent:
                break
            yield from _left(group, *names)


def _left(group: Path, most: str, used: str, cache: str) -> Iterator[int]:
    numbers = [_number(group / name) for name in (most, used)]
    if numbers[0] is not None and numbers[1] is not None:
        # What was read from files and is not in use makes room.
        spare = _fields(group / "memory.stat").get(cache, 0)
        yield max(numbers[0] - numbers[1] + spare, 0)


def _process() -> Iterator[int]:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        pages = next(iter(_lines(Path("/proc/self/statm"))), "0").split()[0]
        yield max(most - int(pages) * os.sysconf("SC_PAGE_SIZE"), 0)


def _number(path: Path) -> int | None:
    text = next(iter(_lines(path)), "")
    return int(text) if text.isdigit() else None


def _fields(path: Path) -> dict[str, int]:
    """Return the numbers of a file whose lines are a name and a number."""
    rows = [line.split() for line in _lines(path)]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
