"""User-defined controllers and stacks from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paceline import guests
from paceline.batch import Job, outcomes
from paceline.cli.failure import Exit, Failure
from paceline.errors import ScenarioError
from paceline.runs import Run

#: A short run with losses: every controller must survive it, with the same result twice.
_REHEARSAL = """
schema = 1
run.duration = "3 s"

[path]
rate = "12 Mbit/s"
rtt = "20 ms"
queue.size = "1 bdp"
loss = "0.2 %"

[[flows]]
cc = "{}"
stack = "{}"
"""


def bring(controllers: Sequence[str]) -> None:
    """Set the controllers of ``--controller``, after a rehearsal of each."""
    try:
        brought = [guest for text in controllers for guest in _read(text)]
        names = [guest.name for guest in brought]
        for name in names:
            if names.count(name) > 1:
                raise Failure("controller", f"two controllers are called `{name}`")
        guests.choose(brought)
        _rehearse(brought)
        guests.loaded()
    except guests.GuestError as error:
        raise Failure("controller", str(error), hint=error.hint) from None


def _read(text: str) -> list[guests.Guest]:
    """Return the controller of ``NAME=FILE``, or the stacks of a folder."""
    folder = Path(text)
    return guests.Guest.folder(folder) if folder.is_dir() else [guests.Guest.parse(text)]


def _rehearse(brought: Sequence[guests.Guest]) -> None:
    """Run each controller twice in another process, which it may take down."""
    names = [guest.name for guest in brought]
    texts = [
        _REHEARSAL.format(guest.name, "guest" if guest.is_stack else "paceline")
        for guest in brought
    ]
    jobs = [Job(t, file=name) for name, t in zip(names, texts, strict=True) for _ in range(2)]
    try:
        rehearsed = outcomes(jobs, _rows, threads=1, failures="collect")
    except ScenarioError as error:
        raise Failure("controller", error.diagnostics[0].message) from None
    for nth, name in enumerate(names):
        first, second = rehearsed[2 * nth : 2 * nth + 2]
        if first.error is not None:
            message = first.error
            if f"`{name}`" not in message:
                message = f"the controller `{name}` ends its process: {message}"
            raise Failure("controller", message, code=Exit.BAD_INPUT)
        if first.kept != second.kept:
            raise Failure(
                "not-repeatable",
                f"the controller `{name}` decides differently on the same events: "
                f"{_difference(first.kept, second.kept)}",
                hint="draw from random.Random(config.seed), and take time from the events",
            )


def _rows(_: int, __: Job, run: Run) -> str:
    return run.samples.write_csv()


def _difference(one: str, two: str) -> str:
    """Say where two tables of the same columns first differ."""
    names = one.splitlines()[0].split(",")
    for first, second in zip(one.splitlines(), two.splitlines(), strict=False):
        for name, a, b in zip(names, first.split(","), second.split(","), strict=False):
            if a != b:
                when = int(first.split(",")[names.index("t_ns")]) / 1e9
                return f"{name} is first {a or 'null'}, then {b or 'null'}, at {when:.3f} s"
    return "one run has more samples"
