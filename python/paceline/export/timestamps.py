"""Timestamps in TCP headers: RFC 7323's option in milliseconds, or ETS in microseconds.

What an ACK says is on record. What data echoes is the ACK that came before it. A record does not
say when the answer to a SYN left: it is taken to be under way as long as the fastest ACK.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

_WORD = 2**32
_UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
#: EcrDel has 13 bits, MaxACKDel 16 (draft-yang-tcpm-ets-00).
_MOST, _MOST_ACK_DELAY = 2**13 - 1, 2**16 - 1
_INVALID = 2 << 14


@dataclass(frozen=True)
class Times:
    """What a segment says, in nanoseconds: when it left, what it echoes, how long it held that."""

    departed: int
    echoed: int = 0
    held: int | None = None


def ets(times: Times, max_ack_delay: int | None = None) -> bytes:
    """Return the ETS option, padded; `max_ack_delay`, in nanoseconds, is for a SYN."""
    length = 14 if max_ack_delay is None else 16
    words = (_ticks(times.departed, 1000), _ticks(times.echoed, 1000), _held(times.held))
    option = struct.pack(">BBHIIH", 254, length, 0x4554, *words)
    if max_ack_delay is not None:
        option += struct.pack(">H", min(max_ack_delay // 1000, _MOST_ACK_DELAY))
    return b"\x01" * (-length % 4) + option


def classic(times: Times) -> bytes:
    """Return RFC 7323's option, padded."""
    words = (_ticks(time, 1_000_000) for time in (times.departed, times.echoed))
    return struct.pack(">BBBBII", 1, 1, 8, 10, *words)


def _ticks(nanoseconds: int, tick: int) -> int:
    return nanoseconds // tick % _WORD


def _held(nanoseconds: int | None) -> int:
    """Return EcrDelUnit and EcrDel: microseconds, milliseconds rounded up, or invalid."""
    if nanoseconds is None:
        return _INVALID
    micros = nanoseconds // 1000
    if micros <= _MOST:
        return micros << 1
    millis = -(-micros // 1000)
    return 1 << 14 | millis << 1 if millis <= _MOST else _INVALID


def nanoseconds(text: str) -> int:
    """Return a scenario's time, such as "40 ms"."""
    number, unit = re.fullmatch(r"([\d.]+)\s*(\w+)", text).groups()  # type: ignore[union-attr]
    return round(float(number) * _UNITS[unit])


@dataclass
class Clock:
    """The timestamps of a flow: which option, and what came last."""

    ets: bool
    max_ack_delay: int
    #: The least time that an ACK was under way.
    back: int = 0
    #: What the latest segment from the receiver said, and when it came.
    latest: tuple[int, int] = field(default=(0, 0))

    def syn(self, t: int) -> bytes:
        """Return what a SYN says."""
        return self._option(Times(t), self.max_ack_delay)

    def syn_ack(self, t: int, began: int) -> bytes:
        """Return what the answer to a SYN that left at `began` says; it came at `t`."""
        departed = max(t - self.back, began)
        self.latest = departed, t
        return self._option(Times(departed, began, 0), self.max_ack_delay)

    def data(self, t: int) -> bytes:
        """Return what data says that leaves at `t`."""
        echoed, came = self.latest
        return self._option(Times(t, echoed, t - came))

    def ack(self, t: int, times: Times) -> bytes:
        """Return what an ACK says that came at `t`."""
        self.latest = times.departed, t
        return self._option(times)

    def _option(self, times: Times, max_ack_delay: int | None = None) -> bytes:
        return ets(times, max_ack_delay) if self.ets else classic(times)
