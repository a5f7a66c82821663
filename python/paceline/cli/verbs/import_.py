"""``paceline import``: an experiment of another tool, as a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from paceline import answers, store
from paceline.cli import console, files
from paceline.cli.app import Force, Json, app, examples
from paceline.cli.failure import Exit, Failure
from paceline.exchange import IMPORTS
from paceline.exchange.declared import Asked, ImportFailedError

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal[("auto", *sorted(IMPORTS, reverse=True))]


@app.command(
    name="import",
    help_epilogue=examples(
        "import 4bbr2_50M_40ms_BDP.py > four-flows.toml",
        "import sample.py --out scenarios/mine",
        'import verizon.trace --rtt "40 ms" --queue "300 packets" --cc bbr3',
    ),
)
def import_(
    file: Annotated[str, Parameter(help="A transperf configuration or a mahimahi trace.")],
    /,
    *,
    format: Annotated[Format, Parameter(help="Format of the file.")] = "auto",  # noqa: A002
    out: Annotated[
        Path | None, Parameter(help="A scenario file (.toml) or a folder. Default: stdout.")
    ] = None,
    rtt: Annotated[str | None, Parameter(help="Round-trip time for a trace.")] = None,
    queue: Annotated[str | None, Parameter(help="Queue size for a trace.")] = None,
    cc: Annotated[str, Parameter(help="Controller of the flow for a trace.")] = "bbr3",
    ignore_commands: Annotated[
        bool, Parameter(negative="", help="Skip commands that transperf would run as root.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> Exit:
    """Convert an experiment of another tool into a scenario.

    A configuration is parsed and never executed. What a scenario cannot express is an error with
    its line; approximations are noted.
    """
    text = files.read_scenario(file)
    path = Path(file)
    known = [name for name, one in IMPORTS.items() if one.looks_like(text, path)]
    if format == "auto" and not known:
        what, hint = (
            f"{file} has no known format",
            f"name the format with --format: {', '.join(IMPORTS)}",
        )
        if path.suffix == ".toml":
            what = f"{file} is already a scenario, by its name"
            hint = f"`paceline run {file}` runs it; for another format, name it with --format"
        raise Failure("import", what, hint=hint, file=file)
    kind = known[0] if format == "auto" else format
    asked = Asked(path, _place(out, path.stem).parent, rtt, queue, cc, ignore_commands)
    try:
        made = IMPORTS[kind].read(text, asked)
    except ImportFailedError as error:
        raise Failure("import", str(error), hint=error.hint, file=file, line=error.line) from None
    if len(made) > 1 and (out is None or out.suffix == ".toml"):
        raise Failure(
            "several",
            f"{file} holds {len(made)} experiments",
            hint="--out FOLDER writes a scenario for each",
            file=file,
        )
    places = [_place(out, one.name) for one in made]
    for one, place in zip(made, places, strict=True):
        if out is not None:
            store.check(place, force=force)
            with store.errors(place):
                place.parent.mkdir(parents=True, exist_ok=True)
        # What is written can be run.
        files.plan(one.toml, str(place), [])
    if out is not None:
        for one, place in zip(made, places, strict=True):
            with store.writing(place, force=force) as fresh:
                fresh.write_text(one.toml, encoding="utf-8")
    written: list[Path | None] = [place if out else None for place in places]
    if json:
        answer: answers.Import = {
            "format": kind,
            "scenarios": [
                {
                    "name": one.name,
                    "file": None if place is None else str(place),
                    "toml": one.toml,
                    "notes": [{"line": note.line, "text": note.text} for note in one.notes],
                }
                for one, place in zip(made, written, strict=True)
            ],
        }
        console.say_json(answer)
        return Exit.OK
    for note in dict.fromkeys(note for one in made for note in one.notes):
        where = f"{file}:{note.line}" if note.line else file
        console.stderr().print(f"note: {where}: {note.text}", soft_wrap=True)
    for one, file_ in zip(made, written, strict=True):
        console.say_file(one.toml if file_ is None else f"{file_}\n")
    return Exit.OK


def _place(out: Path | None, name: str) -> Path:
    if out is not None and out.suffix == ".toml":
        return out
    return (out or Path()) / f"{name}.toml"
