"""``paceline sequence``: time-sequence diagrams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.cli import console, files
from paceline.cli.failure import Exit, Failure
from paceline.report import sequence

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def show(
    folders: Sequence[str],
    *,
    out: Path | None,
    format: str | None,  # noqa: A002
    flow: int | None,
    span: tuple[str | None, str | None],
    rounds: int | None,
    as_json: bool,
) -> Exit:
    """Draw the connections of runs over each other and write the picture."""
    runs = [files.read_run(folder) for folder in folders]
    try:
        found = sequence.connections(runs, flow)
    except sequence.NoPacketsError as error:
        raise Failure("no-packets", str(error), hint="[run] record.packets = true") from error
    if not found:
        raise Failure("unknown-flow", f"no run has a flow {flow}", hint="flows count from 0")
    if len(found) > sequence.MOST:
        raise Failure(
            "too-many-flows",
            f"{len(found)} connections are too many for one picture; {sequence.MOST} are the most",
            hint="--flow N draws one of each run",
        )
    start = _seconds(span[0], "--from") if span[0] else 0.0
    end = _end(found, span[1], rounds)
    if end <= start:
        raise Failure("usage", f"the picture would end at {end:g} s and begin at {start:g} s")
    format = format or _format(out)  # noqa: A001
    out = out or Path(folders[0]) / f"sequence.{'xpl' if format == 'xplot' else format}"
    title = runs[0].scenario if len(runs) == 1 else f"{len(found)} connections"
    try:
        if format == "xplot":
            out.write_text(sequence.xplot(found, title, start, end), encoding="utf-8")
        else:
            sequence.save(sequence.draw(found, title, start, end), out, format)
    except OSError as error:
        raise Failure("cannot-write", f"{out}: {error.strerror}") from error
    value: dict[str, Any] = {"sequence": str(out), "format": format, "from_ns": round(start * 1e9)}
    if as_json:
        labels = [connection.label for connection in found]
        console.say_json({**value, "to_ns": round(end * 1e9), "connections": labels})
    else:
        console.stdout().print(str(out), markup=False, soft_wrap=True)
    return Exit.OK


def _end(found: Sequence[sequence.Connection], to: str | None, rounds: int | None) -> float:
    if to is not None:
        return _seconds(to, "--to")
    if rounds is not None:
        return sequence.first_rounds(found, rounds)
    return max(float(c.packets["t"][-1]) if c.packets.height else 0.0 for c in found)


def _format(out: Path | None) -> str:
    formats = {".png": "png", ".svg": "svg", ".xpl": "xplot"}
    if out is None:
        return "png"
    if out.suffix not in formats:
        raise Failure("usage", f"{out}: what format?", hint="--out FILE.png, FILE.svg or FILE.xpl")
    return formats[out.suffix]


def _seconds(text: str, option: str) -> float:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|ms|us|µs|ns)\s*", text)
    if match is None:
        raise Failure("usage", f"{option} {text!r} is not a time", hint='such as "600 ms" or "2 s"')
    return float(match[1]) * _UNITS[match[2]]
