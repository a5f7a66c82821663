"""Jobs on this machine: on threads, or in processes if user-defined controllers may crash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paceline import guests
from paceline.batch.job import Executor, Job, Keep, Listener, Outcome, Task
from paceline.batch.threads import on_threads
from paceline.runs import Run


def locally(count: int | None = None) -> Executor:
    """Return a worker for jobs here, this many at a time; one per core by default."""
    chosen = guests.chosen()
    if not chosen:
        return on_threads(count)
    if any(guest.given for guest in chosen):
        # A class of this process cannot leave it, and one lock is for all threads.
        return on_threads(1)

    # Most runs need neither.
    import tempfile

    from paceline.batch.processes import on_processes

    def do(tasks: Iterator[Task], keep: Keep, listener: Listener) -> None:
        with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
            spool = _Spool(folder)
            on_processes(count)(tasks, spool, _Reader(spool, keep, listener))

    return do


@dataclass(frozen=True)
class _Spool:
    """Writes runs for another process to read."""

    folder: str

    def place(self, number: int) -> Path:
        return Path(self.folder) / str(number)

    def __call__(self, number: int, _: Job, run: Run) -> None:
        # A process that is killed here leaves nothing that is taken for a run.
        fresh = self.place(number).with_suffix(".fresh")
        run.inner.write(fresh)
        fresh.rename(self.place(number))


@dataclass
class _Reader:
    """Reads the runs that other processes have written, and keeps the required data."""

    spool: _Spool
    keep: Keep
    listener: Listener
    #: It decides itself which outcomes to report.
    collects: bool = True
    broken: None = None

    def progress(self, simulated_ns: int, packets: int, events: int) -> None:
        self.listener.progress(simulated_ns, packets, events)

    def ended(self, task: Task, outcome: Outcome) -> None:
        place = self.spool.place(task.number)
        run = Run.read(place) if (place / "run.json").is_file() else None
        if run is not None:
            run.engine = outcome.engine
            for file in place.rglob("*"):
                file.unlink()
        if outcome.error is None and run is not None:
            outcome = outcome._replace(kept=self.keep(*task, run))
        elif run is not None and self.listener.broken is not None:
            self.listener.broken(task, run)
        self.listener.ended(task, outcome)
