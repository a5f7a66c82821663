"""``paceline import``: an experiment of another tool, as a scenario."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paceline import store
from paceline.cli import console, files
from paceline.cli.failure import Exit, Failure
from paceline.imports import Imported, ImportFailedError, mahimahi, transperf_scenario

Format = Literal["auto", "transperf", "mahimahi"]


@dataclass(frozen=True)
class Settings:
    """What a command line asks for."""

    format: Format
    out: Path | None
    rtt: str | None
    queue: str | None
    cc: str
    ignore_commands: bool
    force: bool
    as_json: bool


def import_file(file: str, settings: Settings) -> Exit:
    """Write the scenarios of a file to stdout, to a file or into a folder."""
    text = files.read_scenario(file)
    path = Path(file)
    kind = settings.format
    if kind == "auto":
        is_trace = path.suffix != ".py" and mahimahi.looks_like(text)
        kind = "mahimahi" if is_trace else "transperf"
    try:
        if kind == "mahimahi":
            made = [_trace(text, path, settings)]
        else:
            made = transperf_scenario.scenarios(
                text, path.stem, ignore_commands=settings.ignore_commands
            )
    except ImportFailedError as error:
        raise Failure("import", str(error), hint=error.hint, file=file, line=error.line) from None
    if len(made) > 1 and (settings.out is None or settings.out.suffix == ".toml"):
        raise Failure(
            "several",
            f"{file} holds {len(made)} experiments",
            hint="--out FOLDER writes a scenario for each",
            file=file,
        )
    places = [_place(settings.out, one.name) for one in made]
    for one, place in zip(made, places, strict=True):
        if settings.out is not None:
            store.check(place, force=settings.force)
            with store.errors(place):
                place.parent.mkdir(parents=True, exist_ok=True)
        # What is written can be run.
        files.plan(one.toml, str(place), [])
    if settings.out is not None:
        for one, place in zip(made, places, strict=True):
            with store.writing(place, force=settings.force) as fresh:
                fresh.write_text(one.toml, encoding="utf-8")
    written: list[Path | None] = [place if settings.out else None for place in places]
    if settings.as_json:
        console.say_json(
            {
                "format": kind,
                "scenarios": [
                    {
                        "name": one.name,
                        "file": place and str(place),
                        "toml": one.toml,
                        "notes": [{"line": note.line, "text": note.text} for note in one.notes],
                    }
                    for one, place in zip(made, written, strict=True)
                ],
            }
        )
        return Exit.OK
    for note in dict.fromkeys(note for one in made for note in one.notes):
        where = f"{file}:{note.line}" if note.line else file
        console.stderr().print(f"note: {where}: {note.text}", soft_wrap=True)
    for one, file_ in zip(made, written, strict=True):
        console.say_file(one.toml if file_ is None else f"{file_}\n")
    return Exit.OK


def _trace(text: str, path: Path, settings: Settings) -> Imported:
    if settings.rtt is None or settings.queue is None:
        raise Failure(
            "usage",
            "a trace says neither the round-trip time nor the size of the queue",
            hint=f'paceline import {path} --rtt "40 ms" --queue "100 packets"',
            file=str(path),
        )
    # A scenario looks for its trace from its own folder.
    folder = _place(settings.out, path.stem).parent
    trace = Path(os.path.relpath(path.absolute(), folder.absolute()))
    return mahimahi.scenario(
        text,
        name=path.stem,
        trace=trace.as_posix(),
        rtt=settings.rtt,
        queue=settings.queue,
        cc=settings.cc,
    )


def _place(out: Path | None, name: str) -> Path:
    if out is not None and out.suffix == ".toml":
        return out
    return (out or Path()) / f"{name}.toml"
