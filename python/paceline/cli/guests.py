"""User-defined controllers and stacks from the command line."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from paceline import guests
from paceline.batch import Job, Outcome, Watch, execute, locally
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
        brought = [guests.Guest.parse(text) for text in controllers]
        names = [guest.name for guest in brought]
        for name in names:
            if names.count(name) > 1:
                raise Failure("controller", f"two controllers are called `{name}`")
        guests.choose(brought)
        _rehearse(brought)
        guests.loaded()
    except guests.GuestError as error:
        raise Failure("controller", str(error), hint=error.hint) from None


class _Ended(Watch):
    """Collects the results of rehearsals."""

    def __init__(self) -> None:
        self.outcomes: dict[int, Outcome] = {}

    def finished(self, number: int, outcome: Outcome) -> None:
        self.outcomes[number] = outcome


def _rehearse(brought: Sequence[guests.Guest]) -> None:
    """Run each controller twice in another process, which it may take down."""
    names = [guest.name for guest in brought]
    texts = [
        _REHEARSAL.format(guest.name, "guest" if guest.is_stack else "paceline")
        for guest in brought
    ]
    jobs = [Job(t, file=name) for name, t in zip(names, texts, strict=True) for _ in range(2)]
    heard = _Ended()
    try:
        execute(jobs, _digest, executor=locally(1), failures="collect", watch=heard)
    except ScenarioError as error:
        raise Failure("controller", error.diagnostics[0].message) from None
    for nth, name in enumerate(names):
        first, second = heard.outcomes[2 * nth], heard.outcomes[2 * nth + 1]
        if first.error is not None:
            message = first.error
            if f"`{name}`" not in message:
                message = f"the controller `{name}` ends its process: {message}"
            raise Failure("controller", message, code=Exit.BAD_INPUT)
        if first.kept != second.kept:
            raise Failure(
                "not-repeatable",
                f"the controller `{name}` decides differently on the same events",
                hint="draw from random.Random(config.seed), and take time from the events",
            )


def _digest(_: int, __: Job, run: Run) -> str:
    return hashlib.sha256(run.samples.write_csv().encode()).hexdigest()
