"""The memory limit of runs: from the command line, or half of the available memory."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

#: Free memory is divided by this: the rest is for results made from runs.
_SHARE = 2
#: If the free memory is not known.
_UNKNOWN = 4 << 30
#: The minimum limit: a machine that is full for a moment does not refuse a small run.
_LEAST = 256 << 20

_CGROUPS = Path("/sys/fs/cgroup")

_chosen: int | None = None


def choose(limit: int | None) -> None:
    """Set the limit of all runs of this process, in bytes; `None` is half of what is available."""
    global _chosen
    _chosen = limit


def chosen() -> int | None:
    """Return the limit that was set, if any."""
    return _chosen


def limit() -> int:
    """Return the limit of all runs together, in bytes."""
    return max(free() // _SHARE, _LEAST) if _chosen is None else _chosen


def free() -> int:
    """Return the bytes that this process may still use, by its machine and its container."""
    return min([*_machine(), *_container(), *_process()], default=_UNKNOWN)


def _machine() -> Iterator[int]:
    available = _fields(Path("/proc/meminfo")).get("MemAvailable:")
    if available is not None:
        yield available * 1024


def _container(root: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """Yield the remaining memory of each cgroup of this process, of version 2 and version 1."""
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
        # The limit of a group applies to its children. Inside a container the path is different.
        for group in (folder, *folder.parents):
            if group == root.parent:
                break
            yield from _left(group, *names)


def _left(group: Path, most: str, used: str, cache: str) -> Iterator[int]:
    numbers = [_number(group / name) for name in (most, used)]
    if numbers[0] is not None and numbers[1] is not None:
        # The inactive file cache can be freed.
        yield max(numbers[0] - numbers[1] + _fields(group / "memory.stat").get(cache, 0), 0)


def _process() -> Iterator[int]:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        pages = next(iter(_lines(Path("/proc/self/statm"))), "0").split()[0]
        yield max(most - int(pages) * os.sysconf("SC_PAGE_SIZE"), 0)


def _number(path: Path) -> int | None:
    text = next(iter(_lines(path)), "")
    return int(text) if text.isdigit() else None


def _fields(path: Path) -> dict[str, int]:
    """Return the numbers in a file of lines with a name and a number."""
    rows = [line.split() for line in _lines(path)]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
