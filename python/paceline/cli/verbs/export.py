"""``paceline export``: runs as files of other programs."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from paceline.cli import console, files
from paceline.cli.failure import Failure
from paceline.export import Dialect, Format


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    format: Format
    out: Path | None = None
    flow: int | None = None
    dialect: Dialect = "current"
    force: bool = False
    as_json: bool = False


def show(folders: list[str], settings: Settings) -> None:
    """Write the runs, and say which files there are."""
    from paceline.export import default_name, export
    from paceline.report.sequence import SequenceError

    if len(folders) > 1 and settings.format != "xplot":
        raise Failure(
            "usage",
            f"{settings.format} takes one run, not {len(folders)}",
            hint="export them one by one; only xplot lays several over each other",
        )
    runs = [files.read_run(folder) for folder in folders]
    for run, folder in zip(runs, folders, strict=True):
        last = run.flows.height - 1
        if settings.flow is not None and settings.flow > last:
            message = f"{folder} has no flow {settings.flow}; its flows are 0 to {last}"
            raise Failure("bad-flow", message, hint="choose another with --flow")
    place = settings.out or Path(folders[0]) / default_name(settings.format, settings.dialect)
    try:
        written = export(
            runs,
            settings.format,
            place,
            flow=settings.flow,
            dialect=settings.dialect,
            force=settings.force,
        )
    except SequenceError as error:
        raise Failure("no-packets", str(error), hint=error.hint) from None
    except (ValueError, struct.error, OverflowError) as error:
        raise Failure(
            "damaged",
            f"{folders[0]} is damaged, {settings.format} cannot hold what it says: {error}",
            hint="run it again",
        ) from None
    except KeyError:
        raise Failure(
            "no-packets",
            f"{folders[0]} was run without a record of its packets",
            hint="run it again with --set run.record.packets=true",
        ) from None
    names = [str(path) for path in written]
    if settings.as_json:
        console.say_json({"files": names, "format": settings.format, "runs": folders})
    else:
        for name in names:
            console.stdout().print(name, soft_wrap=True)
