"""Numbers with their units, for people: ``49.8 Mbit/s`` rather than ``49801234``.

The unit of a value follows from the end of its name (``_ns``, ``_bps``, ``_bytes``, ``_ratio``),
as everywhere in a record.
"""

from __future__ import annotations

from typing import NamedTuple

from paceline import _paceline

#: Shown for an undefined value.
NONE = _paceline.number(None, 1.0)


class Scale(NamedTuple):
    """A unit, and how many base units are in one of it."""

    unit: str
    size: float


def scale_of(name: str, reference: float | None) -> Scale:
    """Return the unit that suits a quantity called `name` with values near `reference`."""
    return Scale(*_paceline.scale(name, reference or 0.0))


def number(value: float | None, scale: Scale) -> str:
    """Write `value` in `scale` with four significant digits, and an undefined one as a dash."""
    return _paceline.number(value, scale.size)


def quantity(name: str, value: float | None) -> str:
    """Write `value` with its unit: ``quantity("rtt_p50_ns", 40_000_000)`` is ``40.00 ms``."""
    return _paceline.quantity(name, value)


def setting(name: str, value: float) -> str:
    """Write `value` as `quantity` does, for a scenario: ``1000 kB`` and not ``1,000 kB``."""
    return quantity(name, value).replace(",", "")


def exact_time(ns: float) -> str:
    """Write a time for a scenario, to the nanosecond: ``exact_time(1.1e12)`` is ``1100 s``."""
    count, units = round(ns), (("s", 9), ("ms", 6), ("us", 3), ("ns", 0))
    unit, digits = next((one for one in units if count >= 10 ** one[1]), units[-1])
    whole, rest = divmod(count, 10**digits)
    return f"{whole}.{rest:0{digits}}".rstrip("0").rstrip(".") + f" {unit}"


def plain(name: str) -> str:
    """Return a metric's name without its unit, in words: ``rtt_p50_ns`` is ``rtt p50``."""
    return _paceline.plain(name)


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
