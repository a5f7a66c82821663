"""Where text goes: data to stdout, messages to stderr."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from paceline.cli import streams
from paceline.cli.failure import Failure
from paceline.names import UNSEEN, visible

if TYPE_CHECKING:
    from paceline.batch import Watch

#: Version of what ``--json`` prints.
SCHEMA = 1

#: Width of a table that does not go to a terminal.
WIDTH = 120


def styled(text: str, style: str) -> Text:
    """Return a text in a style."""
    return Text(visible(text), style)


def _text(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else visible(str(cell))


def _records(heads: list[str], rows: list[tuple[Any, ...]]) -> Iterator[Text]:
    """Yield the rows of a table one below the other: each cell after its column's name."""
    wide = max(map(len, heads))
    for row in rows:
        for head, cell in zip(heads, row, strict=True):
            yield Text(f"{head:<{wide}}  {' '.join(_text(cell).split())}", overflow="fold")
        yield Text("")


class _Plain(Console):
    """A console that prints every text literally: no markup, no emoji, no control codes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        objects = tuple(self._fitted(o) if isinstance(o, Table) else o for o in objects)
        if not self.stderr:
            with streams.output():
                super().print(*objects, **options)
            return
        # If stderr is closed, the work continues, and the exit code reports the result.
        with suppress(OSError):
            super().print(*objects, **options)

    def _fitted(self, table: Table) -> Any:
        """Return a table, without lines if no person reads it, and as a list if it is too wide."""
        if not self.is_terminal:
            table.box = None
        heads = [_text(column.header) for column in table.columns]
        rows = list(zip(*(list(column.cells) for column in table.columns), strict=True))
        widths = [
            max(len(word) for cell in cells for word in (_text(cell).split() or [""]))
            for cells in zip(heads, *rows, strict=True)
        ]
        if sum(widths) + 2 * len(widths) <= self.width or not rows:
            return table
        # A word split over lines cannot be read, nor searched for.
        return Group(*([table.title] if table.title else []), *_records(heads, rows))

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def stdout() -> Console:
    """Return a console for data. Without a terminal it is as wide as COLUMNS, or the default."""
    console = _Plain()
    if console.is_terminal:
        return console
    said = os.environ.get("COLUMNS", "")
    return _Plain(width=int(said) if said.isdecimal() and int(said) > 0 else WIDTH)


def stderr() -> Console:
    """Return a console for messages."""
    return _Plain(stderr=True, soft_wrap=True)


def say_json(value: Mapping[str, object]) -> None:
    """Print one JSON object on stdout."""
    plain = not _is_unicode()
    text = json.dumps({"schema": SCHEMA, **value}, indent=2, ensure_ascii=plain)
    with streams.output():
        print(UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))  # noqa: T201


def say_file(text: str) -> None:
    """Print data that may go into a file: unchanged, but harmless on a terminal."""
    if not _is_unicode() and isinstance(sys.stdout, io.TextIOWrapper):
        # A scenario is UTF-8, whatever the locale.
        sys.stdout.reconfigure(encoding="utf-8")
    with streams.output():
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def say_failure(failure: Failure, *, as_json: bool) -> None:
    """Print an error, and how to fix it."""
    if as_json:
        say_json({"error": failure.as_json()})
        return
    console = stderr()
    if failure.rendered is not None:
        console.print(failure.rendered)
        return
    console.print(styled("error:", "bold red"), failure.message)
    if failure.file and failure.line:
        console.print(f"  --> {failure.file}:{failure.line}")
    if failure.hint:
        console.print(styled("hint:", "bold"), failure.hint)


def say_distrust(reasons: list[str]) -> None:
    """Print why emulated runs, which are kept, are not reliable."""
    console = stderr()
    message = "the emulation exceeded its bounds; the record is kept"
    console.print(styled("error:", "bold red"), message)
    for reason in dict.fromkeys(reasons):
        console.print(f"  {reason}")
    hint = (
        "run it on a quieter machine or at a lower rate; `paceline doctor` says "
        "what this one holds. The bounds are those of [run.emulation]"
    )
    console.print(styled("hint:", "bold"), hint)


def table(*columns: str, title: str | Text | None = None, left: int = 1) -> Table:
    """Return a table whose first `left` columns are names and whose others are numbers."""
    result = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for index, column in enumerate(columns):
        result.add_column(column, justify="left" if index < left else "right", overflow="fold")
    return result


#: This is true of every batch that was stopped.
GOES_ON = "Finished runs are kept; run the same command again to resume"


def resumed(name: str, count: int, *, quiet: bool) -> Callable[[int], object]:
    """Return a message with the number of runs known from earlier attempts."""

    def say(known: int) -> None:
        if not quiet:
            stderr().print(f"{name}: {known} of {count} runs already exist")

    return say


@contextmanager
def progress(name: str, count: int, *, quiet: bool) -> Iterator[Watch]:
    """Show progress on stderr: a bar in a terminal, elsewhere a line every few seconds."""
    # Only what runs something needs it.
    from paceline.cli.progress import watching

    with watching(name, count, stderr(), quiet=quiet) as watch:
        yield watch
