"""Files from outside: regular files, of bounded size, with valid numbers."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NoReturn

from paceline import _paceline, memory
from paceline.errors import FileError, MemoryLimitError, of_file
from paceline.quantities import quantity

if TYPE_CHECKING:
    import polars as pl

#: The maximum size of a text file: a scenario, a claim, a run's JSON.
TEXT = 64 << 20

#: The range of TOML's integers.
_LARGEST = 1 << 63


#: The modes in which files are opened: for reading, or for reading and appending.
_FLAGS = {"rb": os.O_RDONLY, "a+b": os.O_RDWR | os.O_APPEND | os.O_CREAT}


def open_regular(
    path: str | os.PathLike[str], beneath: int | None = None, mode: Literal["rb", "a+b"] = "rb"
) -> BinaryIO:
    """Open a regular file; raises `OSError` for any other.

    Opening a FIFO does not wait for a writer, and nothing is read of a device. In a folder that is
    open, `beneath`, a name that is a link is refused.
    """
    flags = _FLAGS[mode] | os.O_NONBLOCK | os.O_CLOEXEC
    if beneath is not None:
        flags |= os.O_NOFOLLOW
    file = os.open(path, flags, 0o666, dir_fd=beneath)
    try:
        kind = os.fstat(file).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return open(file, mode)
    except BaseException:
        os.close(file)
        raise


def read_bytes(
    path: str | os.PathLike[str], limit: int = TEXT, beneath: int | None = None
) -> bytes:
    """Read a regular file of at most `limit` bytes, opened as `open_regular` does."""
    with open_regular(path, beneath) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit:,} bytes", str(path))
    return content


def read_parquet(path: Path, **options: Any) -> pl.DataFrame:
    """Read a table; raises `MemoryLimitError` if its rows take more memory than runs may.

    Rows that are all alike take next to nothing in the file, however many they are.
    """
    import polars as pl

    with of_file(path):
        rows, size = _paceline.parquet_size(path)
    most = memory.limit()
    if size > most:
        what = f"{path} has {rows:,} rows, which take some {quantity('_bytes', size)} of memory"
        what += f"; at most {quantity('_bytes', most)} may be read"
        raise MemoryLimitError([what, "raise --memory"])
    try:
        return pl.read_parquet(path, glob=False, hive_partitioning=False, **options)
    except pl.exceptions.PolarsError as error:
        message, hint = f"{path} is not a table: {error}", "write it again"
        raise FileError("unreadable", message, hint=hint, file=str(path)) from None


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a text in UTF-8 with normalised line ends; raises `ValueError` if it is not text."""
    return read_bytes(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def toml(text: str) -> dict[str, Any]:
    """Read a document; raises `ValueError`, also for integers beyond TOML's range."""
    import tomllib  # commands that read no TOML start without it

    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    parts: list[Any] = [document]
    while parts:
        part = parts.pop()
        if isinstance(part, dict | list):
            parts += part.values() if isinstance(part, dict) else part
        elif isinstance(part, int) and not -_LARGEST <= part < _LARGEST:
            raise ValueError("a whole number of more than 64 bits")
    return document


def json_value(text: str | bytes) -> Any:
    """Read a value; raises `ValueError`, also for numbers that no computer represents."""
    try:
        return json.loads(text, parse_int=_whole, parse_float=_real, parse_constant=_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file as `toml`."""
    return toml(read_text(path))


def read_json(path: Path) -> Any:
    """Read a file as `json_value`."""
    return json_value(read_text(path))


def _whole(digits: str) -> int:
    if len(digits) > 40:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _real(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
