"""Files below a folder, opened without following a link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def opened(root: Path, path: str = ".") -> Iterator[int]:
    """Yield a folder below another, open; raises `OSError` if a part of the path is a link."""
    folder = os.open(root, _FOLDER)
    try:
        for name in path.split("/") if path != "." else ():
            if name in ("", ".", ".."):
                raise FileNotFoundError(path)
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)
