"""``paceline sequence``: time-sequence diagrams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from paceline import store
from paceline.cli import console, files
from paceline.cli.failure import Failure
from paceline.quantities import duration_ns


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    format: str
    out: Path | None = None
    flow: int | None = None
    begin: str | None = None
    end: str | None = None
    rounds: int | None = None
    title: str | None = None
    force: bool = False
    as_json: bool = False


def _time(option: str, text: str | None) -> int | None:
    try:
        return None if text is None else duration_ns(text)
    except ValueError as error:
        raise Failure("bad-value", f"{option}: {error}", hint=f'{option} "0.5 s"') from None


def show(folders: list[str], settings: Settings) -> None:
    """Draw the runs over each other, and say where the picture is."""
    from paceline.report.sequence import SequenceError
    from paceline.report.sequence_figure import draw, save

    if settings.end is not None and settings.rounds is not None:
        raise Failure("usage", "--to and --rounds both say where to end", hint="give one of them")
    runs = [files.read_run(folder) for folder in folders]
    out = settings.out or Path(folders[0]) / f"sequence.{settings.format}"
    store.check(out, force=settings.force)
    try:
        figure = draw(
            runs,
            flow=settings.flow,
            from_ns=_time("--from", settings.begin),
            to_ns=_time("--to", settings.end),
            rounds=settings.rounds,
            title=settings.title,
        )
    except SequenceError as error:
        raise Failure("no-sequence", str(error), hint=error.hint) from None
    with store.writing(out, force=settings.force) as fresh:
        save(figure, fresh, settings.format)
    if settings.as_json:
        console.say_json({"sequence": str(out), "format": settings.format, "runs": folders})
    else:
        console.stdout().print(str(out), soft_wrap=True)
