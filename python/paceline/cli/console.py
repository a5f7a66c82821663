"""Where text goes: data to stdout, messages to stderr."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
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

_json = False
_quiet = False


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


def _lines(cell: Any) -> list[str]:
    return _text(cell).split("\n")


def _words(cell: Any) -> list[str]:
    return _text(cell).split()


#: What a line does not break: a number and its unit; a word, in which what is in backticks can be
#: copied.
_UNIT = r"(?:%|[kMGT]?(?:bit/s|B)|[mun]?s|min)(?!\S)"
_WORD = re.compile(rf"\S*[0-9] {_UNIT}|(?:`[^`]*`|\S)+")


def _tokens(cell: Any) -> list[str]:
    return [match[0] for match in _WORD.finditer(_text(cell))]


def _shares(least: list[int], most: list[int], room: int) -> list[int]:
    """Return the widths of columns: from these to those, the narrow ones first, in this room."""
    for cap in range(max(most), 0, -1):
        widths = [max(low, min(high, cap)) for low, high in zip(least, most, strict=True)]
        if sum(widths) <= room:
            break
    return widths


def folded(text: str, width: int) -> str:
    """Return a text in lines of a width, broken between words."""
    lines = []
    for line in text.split("\n"):
        at = len(line) - len(line.lstrip())
        kept, start, end = line[:at], at, 0
        for word in _WORD.finditer(line):
            if end and word.end() - start + at > width:
                lines.append(kept.rstrip())
                kept, start, end = line[:at], word.start(), 0
            kept += line[end or word.start() : word.end()]
            end = word.end()
        lines.append(kept if len(line) > width else line)
    return "\n".join(lines)


class _Plain(Console):
    """A console that prints every text literally: no markup, no emoji, no control codes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        objects = tuple(self._fitted(o) if isinstance(o, Table) else o for o in objects)
        if options.get("soft_wrap", self.soft_wrap) and (width := self.read_at):
            objects = self._folded(objects, width)
        if not self.stderr:
            with streams.output():
                super().print(*objects, **options)
            return
        # If stderr is closed, the work continues, and the exit code reports the result.
        with suppress(OSError):
            super().print(*objects, **options)

    @property
    def read_at(self) -> int | None:
        """The width at which a person reads it; none of what goes into a file or a program."""
        return self.width if self.is_terminal or _columns() else None

    def _folded(self, objects: tuple[Any, ...], width: int) -> tuple[Any, ...]:
        if not objects or not all(isinstance(one, str | Text) for one in objects):
            return objects
        text = Text(folded(" ".join(map(_text, objects)), width))
        if isinstance(objects[0], Text):
            text.stylize(objects[0].style, 0, len(objects[0].plain))
        return (text,)

    def _fitted(self, table: Table) -> Any:
        """Return a table, without lines if no person reads it, and as a list if it is too wide.

        A word split over lines cannot be read, nor searched for; a number and its unit are split
        only if there is no room otherwise.
        """
        heads = [_text(column.header) for column in table.columns]
        rows = list(zip(*(list(column.cells) for column in table.columns), strict=True))
        columns = list(zip(*rows, strict=True)) or [() for _ in heads]

        def widest(of: Callable[[Any], list[str]], nth: int) -> int:
            return max((len(part) for cell in columns[nth] for part in of(cell)), default=0)

        names = [max(map(len, head.split() or [""])) for head in heads]
        words = [max(name, widest(_words, nth)) for nth, name in enumerate(names)]
        most = [max(len(head), widest(_lines, nth)) for nth, head in enumerate(heads)]
        tokens = [max(name, widest(_tokens, nth)) for nth, name in enumerate(names)]
        numbers = [
            max(name, widest(_lines, nth)) if column.justify == "right" else words[nth]
            for nth, (name, column) in enumerate(zip(names, table.columns, strict=True))
        ]
        room = self.width - 2 * len(heads)
        if not self.is_terminal or sum(most) + len(heads) + 1 > room:
            table.box = None
        # A narrow table would fold it.
        title, table.title = table.title, None
        above = [] if title is None else [Text(folded(_text(title), self.width), "bold")]
        if isinstance(title, Text):
            above = [title]
        if sum(most) <= room:
            return Group(*above, table)
        ways = (numbers, tokens, words)
        least = next((way for way in ways if sum(way) <= room), None if rows else words)
        if least is not None:
            for column, width in zip(table.columns, _shares(least, most, room), strict=True):
                column.width = width
                column._cells = [
                    folded(cell, width) if isinstance(cell, str) else cell for cell in column._cells
                ]
            return Group(*above, table)
        return Group(*above, *_records(heads, rows))

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def stdout() -> _Plain:
    """Return a console for data. Without a terminal it is as wide as COLUMNS, or the default."""
    console = _Plain()
    if console.is_terminal:
        return console
    return _Plain(width=_columns() or WIDTH)


def _columns() -> int | None:
    setting = os.environ.get("COLUMNS", "")
    return int(setting) if setting.isdecimal() and int(setting) > 0 else None


def stderr() -> Console:
    """Return a console for messages."""
    return _Plain(stderr=True, soft_wrap=True)


def choose(*, json: bool, quiet: bool) -> None:
    """Set what ``--json`` and ``--quiet`` say: answers are JSON, and no progress is shown."""
    global _json, _quiet
    _json, _quiet = json, quiet


def note(text: str, style: str | None = None) -> None:
    """Print a message about the progress, unless none is wanted."""
    if not _quiet:
        stderr().print(text, style=style)


def answer(
    value: Mapping[str, object] | Callable[[], Mapping[str, object]],
    *shown: str | Table | Callable[[], object],
) -> None:
    """Print the result of a command: the value as JSON if that is wanted, or else what shows it.

    A value that takes time is a function. A text is printed on lines of its own, and a function
    prints by itself.
    """
    if _json:
        print_json(value() if callable(value) else value)
    else:
        show(*shown)


def show(*shown: str | Table | Callable[[], object]) -> None:
    """Print each of some texts and tables on lines of its own; a function prints by itself."""
    for one in shown:
        if callable(one):
            one()
        else:
            stdout().print(one, soft_wrap=isinstance(one, str))


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON object on stdout."""
    text = json.dumps({"schema": SCHEMA, **value}, indent=2, ensure_ascii=not _is_unicode())
    with streams.output():
        print(UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text))  # noqa: T201


def print_line(value: Mapping[str, object]) -> None:
    """Print one JSON object as a line on stdout, at once."""
    with streams.output():
        sys.stdout.write(f"{json.dumps(value)}\n")
        sys.stdout.flush()


def print_file(text: str) -> None:
    """Print data that may go into a file: unchanged, but harmless on a terminal."""
    if not _is_unicode() and isinstance(sys.stdout, io.TextIOWrapper):
        # A scenario is UTF-8, whatever the locale.
        sys.stdout.reconfigure(encoding="utf-8")
    with streams.output():
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def print_failure(failure: Failure, *, as_json: bool) -> None:
    """Print an error, and how to fix it."""
    if as_json:
        print_json({"error": failure.as_json()})
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


def print_distrust(reasons: list[str]) -> None:
    """Print why emulated runs, which are kept, are not reliable."""
    message = "the emulation exceeded its bounds; the record is kept"
    hint = (
        "run it on a quieter machine or at a lower rate; `paceline doctor` says "
        "what this one holds. The bounds are those of [run.emulation]"
    )
    lines = [message, *(f"  {reason}" for reason in dict.fromkeys(reasons))]
    print_failure(Failure("distrusted", "\n".join(lines), hint=hint), as_json=False)


def table(*columns: str, title: str | Text | None = None, left: int = 1) -> Table:
    """Return a table whose first `left` columns are names and whose others are numbers."""
    result = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for index, column in enumerate(columns):
        result.add_column(column, justify="left" if index < left else "right", overflow="fold")
    return result


def print_list(columns: tuple[str, ...], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of a line each: where a person reads it, the last cell ends where the line does.

    In a file or a pipe it is complete, to be searched.
    """
    out = stdout()
    lines = [columns, *([" ".join(visible(cell).split()) for cell in row] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*(line[:-1] for line in lines), strict=True)]
    for nth, line in enumerate(lines):
        text = "  ".join([*map(str.ljust, line, widths), line[-1]])
        if out.read_at and len(text) > out.read_at:
            text = text[: out.read_at - 3].rstrip() + "..."
        out.print(styled(text, "" if nth else "bold"), soft_wrap=True)


#: This is true of every batch that was stopped.
GOES_ON = "Finished runs are kept; run the same command again to resume"


@contextmanager
def simulating(what: str = "") -> Iterator[Callable[[int], object] | None]:
    """Show how many paths have been simulated; yield what reports the number, if it is shown."""
    if _quiet or _json:
        yield None
        return
    with stderr().status(f"{what}simulating models of the path") as status:
        yield lambda count: status.update(f"{what}simulated {count} paths")


def progress(name: str, count: int) -> AbstractContextManager[Watch]:
    """Show progress on stderr: a bar in a terminal, elsewhere a line every few seconds."""
    # Only what runs something needs it.
    from paceline.cli.progress import watching

    return watching(name, count, stderr(), quiet=_quiet)
