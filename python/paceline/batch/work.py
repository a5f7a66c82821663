"""The work on a batch of jobs: what is known already, what runs, and who watches it."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol

from paceline.batch.emulated import Emulated, Room, emulate
from paceline.batch.job import Executor, Job, Keep, Outcome, Task
from paceline.batch.locally import locally
from paceline.errors import RunError
from paceline.runs import Progress, Run

#: Seconds between two updates of a bar.
_PERIOD_S = 0.2


class Store(Protocol):
    """Where outcomes are stored, so that no job is done twice."""

    def has(self, number: int) -> bool:
        """Return whether a job is already done."""

    def add(self, number: int, outcome: Outcome) -> None:
        """Store an outcome; once this returns, a crash does not lose it."""


class Watch:
    """Watches a batch in progress. An exception in it stops the remaining jobs."""

    #: The number of repeated emulations.
    repeats = Emulated()

    def finished(self, number: int, outcome: Outcome) -> None:
        """Handle the end of a job."""

    def progress(self, state: Progress) -> None:
        """Report the progress of all jobs."""

    def note(self, text: str) -> None:
        """Report a message for the user."""

    def emulated(self, emulated: Emulated) -> None:
        """Report at the end how many emulations were repeated."""
        self.repeats = emulated

    def resumed(self, known: int) -> None:
        """Report how many runs are known from earlier attempts."""


def in_notebook() -> bool:
    """Return whether this runs in a notebook, which shows more than text."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class Bar(Watch):
    """A bar in a notebook."""

    def __init__(self, name: str, count: int) -> None:
        self._name, self._count = name, count
        self._state = Progress(0, 1, 0, 0, 0)
        self._last = time.monotonic()
        self._shown = import_module("IPython.display").display(self, display_id=True)

    def progress(self, state: Progress) -> None:
        """Show it, some times a second."""
        self._state = state
        if time.monotonic() - self._last > _PERIOD_S or state.simulated_ns >= state.total_ns:
            self._last = time.monotonic()
            self._shown.update(self)

    def __repr__(self) -> str:
        state = self._state
        runs = f"{state.finished} of {self._count} runs, " if self._count > 1 else ""
        return f"{self._name}: {runs}{state.far}"

    def _repr_html_(self) -> str:
        share = self._state.simulated_ns / max(self._state.total_ns, 1)
        return f'<progress value="{share:.4f}"></progress> {html.escape(repr(self))}'


@dataclass
class _Course:
    """The progress of a batch."""

    collects: bool
    broken: Callable[[Task, Run], object] | None
    store: Store | None
    watch: Watch
    total_ns: int
    done_ns: int = 0
    packets: int = 0
    events: int = 0
    count: int = 0

    def known(self, job: Job) -> None:
        self.done_ns += job.duration_ns
        self.count += 1

    def ended(self, task: Task, outcome: Outcome) -> None:
        if outcome.error is not None and not self.collects:
            raise RunError(f"{task.job.file}, seed {task.job.seed}: {outcome.error}")
        if self.store is not None:
            if self.store.has(task.number):
                return  # from a worker that was presumed dead
            self.store.add(task.number, outcome)
        self.known(task.job)
        self.packets += outcome.engine.packets
        self.events += outcome.engine.events
        self.watch.finished(task.number, outcome)

    def progress(self, simulated_ns: int, packets: int, events: int) -> None:
        done = min(self.done_ns + simulated_ns, self.total_ns)
        packets, events = self.packets + packets, self.events + events
        self.watch.progress(Progress(done, self.total_ns, packets, events, self.count))


def execute(
    jobs: Iterable[Job],
    keep: Keep,
    *,
    executor: Executor | None = None,
    store: Store | None = None,
    failures: Literal["stop", "collect"] = "stop",
    watch: Watch | None = None,
    total_ns: int | None = None,
    room: Room | None = None,
    distrusted: Literal["keep", "fail"] = "fail",
    broken: Callable[[Task, Run], object] | None = None,
) -> None:
    """Do jobs in parallel, and keep `keep(number, job, run)` of each run.

    They are taken as they are begun, so that any number of them takes no memory; `total_ns` is how
    long they are together, which is worked out from a list. Those that the store has are not done
    again. A run that stops before its end stops the others and raises, unless failures are
    collected: then it is an outcome with an error. What is emulated comes last, as many as there is
    room for, and nothing is simulated then; a run beyond its bounds is repeated, and one that stays
    beyond them is kept or fails, as `distrusted` says. `broken` is given what there is of a run
    that a controller of one's own has ended. After Ctrl-C, which raises, what the watch and the
    store have heard of is complete.
    """
    if total_ns is None:
        jobs = list(jobs)
        total_ns = sum(job.duration_ns for job in jobs)
    course = _Course(failures == "collect", broken, store, watch or Watch(), total_ns)
    emulated: list[Task] = []

    def simulated() -> Iterator[Task]:
        for number, job in enumerate(jobs):
            if store is not None and store.has(number):
                course.known(job)
            elif job.backend == "emu":
                emulated.append(Task(number, job))
            else:
                yield Task(number, job)

    (executor or locally())(simulated(), keep, course)
    if emulated:
        note, ended = course.watch.note, course.watch.emulated
        keeps = distrusted == "keep"
        emulate(emulated, keep, course, room or Room.here(), note=note, ended=ended, keeps=keeps)


def outcomes(
    jobs: Sequence[Job],
    keep: Keep,
    *,
    threads: int | None = None,
    executor: Executor | None = None,
    failures: Literal["stop", "collect"] = "stop",
    room: Room | None = None,
    distrusted: Literal["keep", "fail"] = "fail",
    progress: Callable[[Progress], object] | None = None,
    ended: Callable[[int, Outcome], object] | None = None,
) -> list[Outcome]:
    """Do jobs as `execute` does, and return the outcome of each; `progress` and `ended` watch."""
    outcomes: dict[int, Outcome] = {}

    class Collector(Watch):
        def finished(self, number: int, outcome: Outcome) -> None:
            outcomes[number] = outcome
            if ended is not None:
                ended(number, outcome)

        def progress(self, state: Progress) -> None:
            if progress is not None:
                progress(state)

    execute(
        jobs,
        keep,
        executor=executor or locally(threads),
        failures=failures,
        watch=Collector(),
        room=room,
        distrusted=distrusted,
    )
    return [outcomes[number] for number in range(len(jobs))]
