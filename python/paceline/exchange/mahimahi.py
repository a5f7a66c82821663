"""Capacity traces in mahimahi's format: one delivery opportunity of 1500 bytes per line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from paceline.exchange.declared import Import, Imported, ImportFailedError, ImportOptions, Note

#: A trace repeats: a scenario over a shorter one runs for longer, in milliseconds.
SHORT_MS, LONG_MS = 1000, 10_000

#: The longest period that a trace may have: 30 days.
LIMIT_MS = 30 * 24 * 3600 * 1000


def looks_like(text: str) -> bool:
    """Return whether the first significant line is a number."""
    for line in text.splitlines():
        word = line.strip()
        if word and not word.startswith("#"):
            return word.isascii() and word.isdigit()
    return False


def opportunities(lines: Iterable[str]) -> tuple[int, int]:
    """Return the number of opportunities, and the time of the last in milliseconds."""
    count, last = 0, 0
    for number, line in enumerate(lines, 1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        if not (word.isascii() and word.isdigit()):
            message = f"`{word[:20]}` is not a whole number of milliseconds"
            hint = "a trace has the time of one delivery opportunity per line"
            raise ImportFailedError(message, number, hint)
        # Nothing near the limit has more digits, and long numbers take long to parse.
        time = int(word) if len(word) < 20 else LIMIT_MS + 1
        if time > LIMIT_MS:
            raise ImportFailedError(f"{word[:20]} ms is later than {LIMIT_MS} ms", number)
        if time < last:
            message = f"{time} ms comes after {last} ms"
            raise ImportFailedError(message, number, "times do not decrease")
        count, last = count + 1, time
    if count == 0:
        raise ImportFailedError("the trace has no delivery opportunity")
    if last == 0:
        raise ImportFailedError("the trace ends at 0 ms, so it cannot be repeated")
    return count, last


def read(text: str, options: ImportOptions) -> list[Imported]:
    """Return the scenario of a trace; ask for what the trace does not specify."""
    path = options.file
    if options.rtt is None or options.queue is None:
        hint = f'paceline import {path} --rtt "40 ms" --queue "100 packets"'
        raise ImportFailedError("a trace has neither a round-trip time nor a queue size", hint=hint)
    # A scenario's trace is relative to its own folder.
    trace = Path(os.path.relpath(path.absolute(), options.folder.absolute())).as_posix()
    given = {"rtt": options.rtt, "queue": options.queue, "cc": options.cc}
    return [scenario(text, name=path.stem, trace=trace, **given)]


def scenario(text: str, *, name: str, trace: str, rtt: str, queue: str, cc: str) -> Imported:
    """Return a scenario of one flow over the trace, as long as the trace if it is not short."""
    count, last = opportunities(text.splitlines())
    notes = []
    duration = f"{last} ms"
    if last < SHORT_MS:
        duration = f"{LONG_MS // 1000} s"
        notes.append(Note(None, f"the trace lasts {last} ms and repeats for {duration}"))
    rate = count * 1500 * 8 / last / 1000
    link = f"{{ trace = {quote(trace)} }}"
    return Imported(name, one_flow(rate, duration, link, rtt, queue, cc), notes)


def one_flow(mbps: float, duration: str, link: str, rtt: str, queue: str, cc: str) -> str:
    """Return a scenario of one flow over a recorded link, whose rate is `link` in TOML."""
    return f"""\
schema = 1
about = {quote(f"One flow over a recorded link of {mbps:.3g} Mbit/s on average.")}

[run]
duration = "{duration}"

[path]
rate = {link}
rtt = {quote(rtt)}
queue = {{ kind = "droptail", size = {quote(queue)} }}

[[flows]]
cc = {quote(cc)}\n"""


def quote(text: str) -> str:
    """Return a text as TOML."""
    escaped = "".join(
        f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else "\\" + c if c in '"\\' else c
        for c in text
    )
    return f'"{escaped}"'


IMPORT = Import(
    "mahimahi",
    "the recorded capacity of a link: the time of one delivery opportunity per line",
    lambda text, path: path.suffix != ".py" and looks_like(text),
    read,
)
