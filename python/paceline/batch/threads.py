"""Jobs on threads of this process; the engine does not hold Python's lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from paceline import _paceline
from paceline.batch.job import Executor, Keep, Listener, Outcome, Task
from paceline.runs import Engine, Progress, Run, simulate

#: Number of jobs passed to the engine at a time.
CHUNK = 1000


def on_threads(threads: int | None = None) -> Executor:
    """Return a worker for jobs on this many threads; one per core by default."""

    def do(tasks: Iterator[Task], keep: Keep, listener: Listener) -> None:
        # A chunk has one engine.
        for _, alike in groupby(tasks, key=lambda task: task.job.backend):
            while chunk := list(islice(alike, CHUNK)):
                do_chunk(chunk, keep, listener, threads)

    return do


def do_chunk(
    tasks: Sequence[Task], keep: Keep, listener: Listener, threads: int | None, share: int = 1
) -> None:
    """Do jobs in parallel; they use one part in `share` of the memory limit for runs."""
    ended_ns = packets = events = 0

    def end(index: int, outcome: Outcome) -> None:
        nonlocal ended_ns, packets, events
        ended_ns += tasks[index].job.duration_ns
        packets += outcome.engine.packets
        events += outcome.engine.events
        listener.ended(tasks[index], outcome)

    def finished(index: int, inner: _paceline.Run, cost: tuple[int, int, int]) -> None:
        engine = Engine(*cost)
        end(index, Outcome(keep(*tasks[index], Run(inner, engine)), engine=engine))

    def failed(index: int, message: str) -> None:
        end(index, Outcome(error=message))

    def broken(index: int, inner: _paceline.Run, message: str) -> None:
        task = tasks[index]
        if listener.broken is not None:
            listener.broken(task, Run(inner))
        end(index, Outcome(error=message))

    def progress(state: Progress) -> None:
        left = max(state.simulated_ns - ended_ns, 0)
        listener.progress(left, max(state.packets - packets, 0), max(state.events - events, 0))

    simulate(
        [(job.text, job.file, job.overrides, job.seed) for _, job in tasks],
        finished,
        threads=threads,
        progress=progress,
        failed=failed if listener.collects else None,
        backend=tasks[0].job.backend,
        share=share,
        broken=broken,
        streams=[job.stream for _, job in tasks],
    )
