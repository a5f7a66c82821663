"""``paceline import``: experiments of other tools become scenarios, recordings become records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from paceline import _paceline, answers, store
from paceline.cli import console, files
from paceline.cli.app import Force, Json, Memory, app, examples
from paceline.cli.failure import Failure, failing
from paceline.cli.tables import keep_record, record_answer, show_record
from paceline.errors import CaptureError, FileError, of_file
from paceline.exchange import IMPORTS, RECORDS
from paceline.exchange.declared import ImportFailedError, ImportOptions
from paceline.reading import read_text
from paceline.runs import Run

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal[("auto", *sorted(IMPORTS, reverse=True), *sorted(RECORDS))]

_FORMATS = [*IMPORTS, *RECORDS]


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    format: Format = "auto"
    """Format of the file."""
    out: Path | None = None
    """For a scenario, a file (.toml) or a folder (default: stdout). For a run, a folder
    (default: runs/NAME)."""
    rtt: str | None = None
    """For a trace or a table: the RTT of the path."""
    queue: str | None = None
    """For a trace or a table: the size of the queue."""
    cc: str = "bbr3"
    """For a trace or a table: the controller of the flow."""
    time: str | None = None
    """For a table: the column with the times, and its unit ("t ms")."""
    rate: str | None = None
    """For a table: the column with the rates, and its unit ("down Mbit/s")."""
    ignore_commands: bool = False
    """Skip commands that transperf would run as root."""
    force: Force = False
    memory: Memory = None
    json: Json = False


@app.command(
    name="import",
    help_epilogue=examples(
        "import 4bbr2_50M_40ms_BDP.py > four-flows.toml",
        'import verizon.trace --rtt "40 ms" --queue "300 packets" --cc bbr3',
        'import link.csv --time "t ms" --rate "down Mbit/s" --rtt "40 ms" --queue "300 packets"',
        "import capture.pcapng",
        "import server.sqlog.gz --out runs/quinn",
        "import iperf3.json --json",
    ),
)
def import_(
    file: Annotated[
        str,
        Parameter(
            help="An experiment (a transperf configuration, a mahimahi trace or a table of rates), "
            "or a recording (a capture, a qlog, iperf3's JSON or Flent's data)."
        ),
    ],
    /,
    *,
    options: Options = Options(),
) -> None:
    """Convert a file from another tool: an experiment into a scenario, or a recording into a run.

    The command parses a transperf configuration, but never executes it. If a scenario cannot
    express a part of the configuration, the command prints an error with the line. If a scenario
    can express a part only approximately, the command prints a note.

    The command converts a recording into a run, which `paceline report`, `paceline compare` and
    `paceline sequence` can read. A recording is a pcap or pcapng of TCP, a qlog of any version,
    iperf3's JSON or Flent's data. The file may be compressed with gzip or zstd. The command prints
    notes on missing data, and stores them in the run.
    """
    form, out = options.format, options.out
    if form in RECORDS or (form == "auto" and _recorded(file)):
        _record(file, None if form == "auto" else form, out)
        return
    text = _text(file)
    path = Path(file)
    known = [name for name, one in IMPORTS.items() if one.looks_like(text, path)]
    if form == "auto" and not known:
        what = f"{file} has no known format"
        hint = f"name the format with --format: {', '.join(_FORMATS)}"
        if path.suffix == ".toml":
            what = f"{file} is already a scenario, by its name"
            hint = f"`paceline run {file}` runs it; for another format, name it with --format"
        raise Failure("import", what, hint=hint, file=file)
    kind = known[0] if form == "auto" else form
    names = ("rtt", "queue", "cc", "time", "rate", "ignore_commands")
    given = {name: getattr(options, name) for name in names}
    import_options = ImportOptions(path, _place(out, path.stem).parent, **given)
    try:
        made = IMPORTS[kind].read(text, import_options)
    except ImportFailedError as error:
        raise Failure("import", str(error), hint=error.hint, file=file, line=error.line) from None
    if len(made) > 1 and (out is None or out.suffix == ".toml"):
        hint = "--out FOLDER writes a scenario for each"
        raise Failure("several", f"{file} holds {len(made)} experiments", hint=hint, file=file)
    places = [_place(out, one.name) for one in made]
    for one, place in zip(made, places, strict=True):
        if out is not None:
            store.check(place, force=options.force)
            with store.errors(place):
                place.parent.mkdir(parents=True, exist_ok=True)
        # The written scenario can be run.
        files.plan(one.toml, str(place), [])
    if out is not None:
        for one, place in zip(made, places, strict=True):
            store.write(place, one.toml, force=options.force)
    written: list[Path | None] = [place if out else None for place in places]
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

    def show() -> None:
        for note in dict.fromkeys(note for one in made for note in one.notes):
            where = f"{file}:{note.line}" if note.line else file
            console.stderr().print(f"note: {where}: {note.text}")
        for one, place in zip(made, written, strict=True):
            console.print_file(one.toml if place is None else f"{place}\n")

    console.answer(answer, show)


def _text(file: str) -> str:
    """Return the text of an experiment; say what is read if it is none."""
    try:
        with of_file(file):
            return read_text(file)
    except FileError as error:
        if error.kind != "not-text":
            raise
        hint = (
            f"formats: {', '.join(_FORMATS)}; `editcap -F pcap {file} OUT.pcap` converts other "
            "captures (snoop, ERF, Network Monitor)"
        )
        raise FileError("not-text", f"{file} has no known format", hint=hint, file=file) from None


def _place(out: Path | None, name: str) -> Path:
    if out is not None and out.suffix == ".toml":
        return out
    return (out or Path()) / f"{name}.toml"


def _recorded(file: str) -> bool:
    """Return whether a file begins like a recording."""
    try:
        return _paceline.capture_format(file) is not None
    except OSError:
        # The parser of scenarios has a better message.
        return False


def _record(file: str, format: str | None, out: Path | None) -> None:  # noqa: A002
    """Read a recording, store it as a run, and print its content."""
    if out is not None:
        store.check(out)
    with failing(CaptureError, "import", what=file, file=file):
        run = Run.capture(file, format)
    kept = keep_record(run, out, Path(file).name.split(".", 1)[0] or "capture")
    answer: answers.Import = {"format": run.backend, "record": record_answer(run, kept)}
    console.answer(answer, lambda: show_record(run, kept))
