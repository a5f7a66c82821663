"""The progress of what a verb runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from paceline.batch import Watch
from paceline.names import visible
from paceline.runs import Progress as State

if TYPE_CHECKING:
    from rich.progress import Progress

#: Seconds between two lines of progress where there is no terminal.
PERIOD = 5.0


class _Shown(Watch):
    def __init__(self, console: Console, name: str, count: int) -> None:
        self._console = console
        self._name = name
        self._count = count

    def resumed(self, known: int) -> None:
        self._console.print(f"{self._name}: {known} of {self._count} runs already exist")


class _Bar(_Shown):
    def __init__(self, bars: Progress, console: Console, name: str, count: int) -> None:
        super().__init__(console, name, count)
        self._bars = bars
        self._task = bars.add_task(visible(name), total=None, detail="", note="")

    def note(self, text: str) -> None:
        self._bars.update(self._task, note=visible(text))

    def progress(self, state: State) -> None:
        runs = f"{state.finished}/{self._count} runs, " if self._count > 1 else ""
        detail = f"{runs}{state.far}, {state.packets:,} packets"
        total, done = state.total_ns, state.simulated_ns
        self._bars.update(self._task, total=total, completed=done, detail=detail)


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 10:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


class _Lines(_Shown):
    def __init__(self, console: Console, name: str, count: int) -> None:
        super().__init__(console, name, count)
        self._last = time.monotonic()
        self._first: tuple[float, int] | None = None
        self._note = ""

    def note(self, text: str) -> None:
        self._note = text

    def progress(self, state: State) -> None:
        now = time.monotonic()
        # Runs of an earlier attempt at a resumed sweep took no time now.
        since, done = self._first = self._first or (now, state.simulated_ns)
        if now - self._last < PERIOD:
            return
        self._last = now
        share = 100 * state.simulated_ns / max(state.total_ns, 1)
        # The first report may already be late, so it gives no rate.
        rate = (state.simulated_ns - done) / (now - since) if now > since else 0.0
        left = f", {_span((state.total_ns - state.simulated_ns) / rate)} left" if rate > 0 else ""
        note = f"; {self._note}" if self._note else ""
        self._console.print(
            f"{self._name}: {share:.0f} %, {state.far}, {state.packets:,} packets{left}{note}"
        )


@contextmanager
def watching(name: str, count: int, console: Console, *, quiet: bool) -> Iterator[Watch]:
    """Show progress on a console: a bar in a terminal, elsewhere a line every few seconds."""
    if quiet:
        yield Watch()
    elif console.is_terminal:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        with Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[detail]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            transient=True,
        ) as bars:
            yield _Bar(bars, console, name, count)
    else:
        yield _Lines(console, name, count)
