"""Positions in a file of claims: their lines, for messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path


class ClaimError(ValueError):
    """A file of claims is wrong."""

    def __init__(self, message: str, file: Path | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.file = file
        self.line = line


#: A position: the number of the claim, then keys.
Trail = tuple[int | str, ...]

_PART = r"(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')"
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEAD = re.compile(rf"\s*\[(\[?)\s*({_DOTTED})\s*\]?\]")
_ENTRY = re.compile(rf"\s*({_DOTTED})\s*=\s*(.*)")


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


def lines(text: str) -> dict[Trail, int]:
    """Return the line of each claim, table, key and entry of a list in a file of claims."""
    numbers: dict[Trail, int] = {}
    table: tuple[str, ...] = ()
    claim, quote, array, entry = -1, "", "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if quote:
            if quote in line:
                quote = ""
            continue
        if match := _HEAD.match(line):
            keys = _keys(match[2])
            array = ""
            if keys == ("claims",):
                claim += 1
            table = keys[1:]
            numbers.setdefault((claim, *table), number)
        elif match := _ENTRY.match(line):
            keys, value = _keys(match[1]), match[2]
            for end in range(1, len(keys) + 1):
                numbers.setdefault((claim, *table, *keys[:end]), number)
            array, entry = (keys[-1], 0) if value.rstrip() == "[" else ("", 0)
            for mark in ('"""', "'''"):
                if value.startswith(mark) and mark not in value[3:]:
                    quote = mark
        elif array and line.strip() and line.strip()[0] not in "#]":
            numbers.setdefault((claim, *table, array, entry), number)
            entry += 1
    return numbers


@dataclass(frozen=True)
class Where:
    """A position in a file of claims; as text, it is the beginning of a message."""

    path: Path
    lines: dict[Trail, int] = field(default_factory=dict, repr=False)
    trail: Trail = ()
    words: str = ""

    def at(self, *keys: int | str, words: str = "") -> Where:
        """Return a position in it, with the words that name it."""
        where = f"{self.words}: {words}" if words else self.words
        return replace(self, trail=(*self.trail, *keys), words=where)

    @property
    def line(self) -> int | None:
        """The line of the nearest enclosing element that has one."""
        known = (self.lines.get(self.trail[:end]) for end in range(len(self.trail), 0, -1))
        return next((line for line in known if line is not None), None)

    def __str__(self) -> str:
        line = self.line
        return f"{self.path}{'' if line is None else f':{line}'}{self.words}"

    def wrong(self, message: str, *keys: int | str) -> ClaimError:
        """Return the error about this position."""
        place = self.at(*keys)
        return ClaimError(f"{place}{message}", self.path, place.line)
