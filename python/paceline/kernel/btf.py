"""BPF Type Format: the type layouts in a BPF object (kernel.org, ``bpf/btf.html``)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

_INT, _ARRAY, _STRUCT, _UNION, _ENUM, _TYPEDEF = 1, 3, 4, 5, 6, 8
_VOLATILE, _CONST, _FUNC_PROTO, _VAR, _DATASEC, _DECL_TAG, _ENUM64 = 9, 10, 13, 14, 15, 17, 19
#: Bytes that follow a type: for itself, and for each of its parts.
_AFTER = {
    _INT: (4, 0),
    _ARRAY: (12, 0),
    _STRUCT: (0, 12),
    _UNION: (0, 12),
    _ENUM: (0, 8),
    _FUNC_PROTO: (0, 8),
    _VAR: (4, 0),
    _DATASEC: (0, 12),
    _DECL_TAG: (4, 0),
    _ENUM64: (0, 12),
}

#: A number, a list of values, or a dictionary of them by name.
Value = Any


class _Type(NamedTuple):
    kind: int
    name: str
    #: Its size, or the type that it refers to.
    size: int
    #: The words after it, in groups of three if it has parts.
    words: tuple[int, ...]


class Types:
    """The types of an object."""

    def __init__(self, raw: bytes) -> None:
        header, types, types_size, strings, strings_size = struct.unpack_from("<4xIIIII", raw)
        self._strings = raw[header + strings : header + strings + strings_size]
        at, end = header + types, header + types + types_size
        self._types = [_Type(0, "void", 0, ())]
        while at < end:
            name, info, size = struct.unpack_from("<III", raw, at)
            kind, parts = info >> 24 & 31, info & 0xFFFF
            own, each = _AFTER.get(kind, (0, 0))
            after = own + each * parts
            words = struct.unpack_from(f"<{after // 4}I", raw, at + 12)
            self._types.append(_Type(kind, self._text(name), size, words))
            at += 12 + after

    def variable(self, section: str, name: str) -> tuple[int, int]:
        """Return the offset of a variable in its section, and its type."""
        data_section = next(t for t in self._types if t.kind == _DATASEC and t.name == section)
        for number, offset, _ in _threes(data_section.words):
            if self._types[number].name == name:
                return offset, self._types[number].size
        raise KeyError(name)

    def structure(self, name: str) -> int:
        """Return a structure by its name."""
        return next(n for n, t in enumerate(self._types) if (t.kind, t.name) == (_STRUCT, name))

    def members(self, number: int) -> Iterator[tuple[str, int, int]]:
        """Yield a structure's members: name, offset in bytes, type."""
        for name, kind, bits in _threes(self._types[self._plain(number)].words):
            yield self._text(name), (bits & 0xFFFFFF) // 8, kind

    def size(self, number: int) -> int:
        """Return a type's size in bytes."""
        plain = self._types[self._plain(number)]
        if plain.kind == _ARRAY:
            kind, _, count = plain.words
            return count * self.size(kind)
        return plain.size

    def is_signed(self, number: int) -> bool:
        """Return whether a type is a signed integer."""
        plain = self._types[self._plain(number)]
        return plain.kind == _INT and bool(plain.words[0] >> 24 & 1)

    def places(self, number: int, at: int = 0, prefix: str = "") -> Iterator[tuple[str, int, int]]:
        """Yield a structure's fields, including those of nested structures: name, offset, size.

        An array of numbers is one field for each number, and one of its own name for all.
        """
        for name, place, kind in self.members(number):
            plain = self._types[self._plain(kind)]
            if plain.kind == _STRUCT:
                yield from self.places(kind, at + place, f"{prefix}{name}.")
                continue
            size = self.size(kind)
            yield f"{prefix}{name}", at + place, size
            if plain.kind == _ARRAY:
                each, _, count = plain.words
                one = self.size(each)
                for n in range(count):
                    yield f"{prefix}{name}[{n}]", at + place + n * one, one

    def name(self, number: int) -> str:
        """Return a type's name."""
        return self._types[number].name

    def decode(self, number: int, data: bytes, at: int = 0) -> Value:
        """Return the value of a type at an offset of the data."""
        plain = self._types[self._plain(number)]
        if plain.kind == _STRUCT:
            members = self.members(number)
            return {name: self.decode(kind, data, at + place) for name, place, kind in members}
        if plain.kind == _ARRAY:
            kind, _, count = plain.words
            size = self._types[self._plain(kind)].size
            return [self.decode(kind, data, at + n * size) for n in range(count)]
        if plain.kind not in (_INT, _ENUM):
            return 0
        return int.from_bytes(data[at : at + plain.size], "little", signed=self.is_signed(number))

    def _text(self, at: int) -> str:
        return self._strings[at : self._strings.index(0, at)].decode()

    def _plain(self, number: int) -> int:
        while self._types[number].kind in (_TYPEDEF, _VOLATILE, _CONST):
            number = self._types[number].size
        return number


def _threes(words: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    return zip(words[::3], words[1::3], words[2::3], strict=True)
