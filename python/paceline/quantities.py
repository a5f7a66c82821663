"""Numbers with their units, for people: ``49.8 Mbit/s`` rather than ``49801234``.

The unit of a value follows from the end of its name (``_ns``, ``_bps``, ``_bytes``, ``_ratio``),
as everywhere in a record.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from paceline import _paceline

# Ratios that people read in per cent; the others (Jain's index) stay plain numbers.
_PERCENT = ("loss", "retransmit", "utilisation", "share", "spurious", "mark", "idle")


#: What stands for a value that there is none of.
NONE = "\N{EN DASH}"


class Scale(NamedTuple):
    """A unit, and how many base units are in one of it."""

    unit: str
    size: float


_SCALES = {
    "_ns": (Scale("s", 1e9), Scale("ms", 1e6), Scale("µs", 1e3), Scale("ns", 1.0)),
    "_bps": (
        Scale("Gbit/s", 1e9),
        Scale("Mbit/s", 1e6),
        Scale("kbit/s", 1e3),
        Scale("bit/s", 1.0),
    ),
    "_bytes": (Scale("GB", 1e9), Scale("MB", 1e6), Scale("kB", 1e3), Scale("bytes", 1.0)),
}


def scale_of(name: str, reference: float | None) -> Scale:
    """Return the unit in which a quantity called `name`, of about `reference`, reads best."""
    for suffix, scales in _SCALES.items():
        if name.endswith(suffix):
            magnitude = abs(reference or 0.0)
            return next((s for s in scales if magnitude >= s.size), scales[-1])
    if name.endswith("_ratio"):
        return Scale("%", 0.01) if any(word in name for word in _PERCENT) else Scale("ratio", 1.0)
    return Scale("count", 1.0)


def number(value: float | None, scale: Scale) -> str:
    """Write `value` in `scale` with four significant digits, and what is undefined as a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NONE
    scaled = value / scale.size
    if float(scaled).is_integer() and scale.size == 1.0:
        return f"{int(scaled):,}"
    if scaled == 0:
        return "0"
    # A number that would round up to the next power of ten takes a digit fewer.
    exponent = math.floor(math.log10(abs(float(f"{scaled:.3e}"))))
    return f"{scaled:,.{min(max(3 - exponent, 0), 6)}f}"


def quantity(name: str, value: float | None) -> str:
    """Write `value` with its unit: ``quantity("rtt_p50_ns", 40_000_000)`` is ``40.00 ms``."""
    scale = scale_of(name, value)
    text = number(value, scale)
    return text if text == NONE or scale.unit in ("ratio", "count") else f"{text} {scale.unit}"


_SUFFIXES = ("_ratio", "_bps", "_ns", "_bytes", "_count")


def plain(name: str) -> str:
    """Return a metric's name without its unit, in words: ``rtt_p50_ns`` is ``rtt p50``."""
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def size_bytes(text: str) -> int:
    """Read a volume with its unit: ``size_bytes("1.5 GB")`` is 1 500 000 000.

    Raises `ValueError` with what would be right.
    """
    return _paceline.parse_quantity("volume", text)


def duration_ns(text: str) -> int:
    """Read a time with its unit, as in a scenario: ``duration_ns("0.5 s")`` is 500 000 000.

    Raises `ValueError` with what would be right.
    """
    return _paceline.parse_quantity("time", text)


def rate_bps(text: str) -> int:
    """Read a rate with its unit: ``rate_bps("50 Mbit/s")`` is 50 000 000; raises `ValueError`."""
    return _paceline.parse_quantity("rate", text)
