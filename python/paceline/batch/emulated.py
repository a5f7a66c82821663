"""Runs in real time, as many in parallel as the machine has capacity for."""

from __future__ import annotations

import math
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline import _paceline, guests
from paceline.batch.job import Job, Keep, Listener, Outcome, Task
from paceline.errors import RunError
from paceline.quantities import rate_bps
from paceline.reading import toml
from paceline.runs import Engine, Progress, Run, simulate

#: Total bits per second of emulations per core.
RATE_PER_CORE = 210_000_000
#: The cost of an emulation in addition to its rate, for probes and samples.
UPKEEP_BPS = 10_000_000
#: Maximum number of parallel emulations per core.
RUNS_PER_CORE = 4
#: Seconds between the main thread's checks for a stop request and its progress reports.
_PERIOD = 0.25


@dataclass(frozen=True)
class Load:
    """The load of an emulation on the machine."""

    #: Infinite if it is not known.
    rate_bps: float
    duration_s: float

    @classmethod
    def of(cls, plan: _paceline.CheckedScenario) -> Load:
        """Return the load of a scenario."""
        rate = toml(plan.toml)["path"].get("rate")
        bps = float(rate_bps(rate)) if isinstance(rate, str) else math.inf
        return cls(bps, plan.duration_ns / 1e9)

    @property
    def cost_bps(self) -> float:
        """Its share of the budget."""
        return self.rate_bps + UPKEEP_BPS

    def __str__(self) -> str:
        """Return its rate, for people."""
        return f"{self.rate_bps / 1e6:g} Mbit/s" if self.rate_bps < math.inf else "a trace"


@dataclass(frozen=True)
class Room:
    """The capacity for parallel emulations."""

    rate_bps: float
    runs: int

    @classmethod
    def here(cls, runs: int | None = None) -> Room:
        """Return the capacity of this machine, for at most this many runs."""
        cores = os.cpu_count() or 1
        return cls(cores * RATE_PER_CORE, runs or cores * RUNS_PER_CORE)

    @classmethod
    def alone(cls) -> Room:
        """Return capacity for one run at a time."""
        return cls(0.0, 1)

    def takes(self, load: Load, running: Sequence[Load]) -> bool:
        """Return whether one more may run; a run that exceeds the whole capacity runs alone."""
        used = sum(other.cost_bps for other in running)
        return not running or (len(running) < self.runs and used + load.cost_bps <= self.rate_bps)

    def order(self, loads: Sequence[Load]) -> list[int]:
        """Return the order in which to start them: the largest first."""
        return sorted(range(len(loads)), key=lambda i: (-loads[i].cost_bps, -loads[i].duration_s))

    def time_left(self, waiting: Sequence[Load], running: Sequence[tuple[Load, float]]) -> float:
        """Return the seconds until all have ended, given the remaining seconds of active runs."""
        # Most have the same load.
        left, now = Counter(waiting), 0.0
        ends = [(seconds, load) for load, seconds in running]
        while left or ends:
            for load in list(left):
                while left[load] and self.takes(load, [other for _, other in ends]):
                    left[load] -= 1
                    ends.append((now + load.duration_s, load))
            left = +left
            first = min(ends, key=lambda end: end[0])
            now = max(now, first[0])
            ends.remove(first)
        return now


def distrust(run: Run) -> str:
    """Return by how much an emulation exceeded its bounds; an empty text if it did not."""
    messages = [bound["message"] for bound in broken_bounds(run)]
    return f"emulated beyond its bounds: {'; '.join(messages)}" if messages else ""


def broken_bounds(run: Run) -> list[dict[str, Any]]:
    """Return the bounds that an emulation exceeded."""
    return [] if run.emulation is None else run.emulation["beyond"]


@dataclass
class Emulations:
    """Emulated runs. One that exceeds its bounds, or stops, is repeated when all have ended.

    Up to three times: a machine that is shared pauses when it likes. Once side by side with the
    others that are repeated, then alone.
    """

    jobs: Sequence[Job]
    loads: Sequence[Load]
    room: Room
    finished: Callable[[int, Run], object]
    failed: Callable[[int, str], object]
    progress: Callable[[Progress], object] = lambda _: None
    note: Callable[[str], object] = lambda _: None
    #: Whether a run that exceeds its bounds to the end is kept; otherwise it has failed.
    keeps: bool = False
    #: The runs that were repeated.
    repeated: list[int] = field(default_factory=list)
    #: How often each bound was exceeded, including in repeats.
    broken: Counter[str] = field(default_factory=Counter)
    _ended_runs: queue.SimpleQueue[tuple[int, Run | Exception | str]] = field(
        default_factory=queue.SimpleQueue
    )
    _stop: threading.Event = field(default_factory=threading.Event)
    _begun: dict[int, tuple[threading.Thread, float]] = field(default_factory=dict)
    _ended: int = 0
    _packets: dict[int, int] = field(default_factory=dict)
    _since: float = 0.0
    #: The estimated end of all runs, as of the latest start or end of a run.
    _until: float = 0.0
    _shown: str = ""

    def run(self) -> None:
        """Run all of them; an exception in any callback, and Ctrl-C, stops them."""
        self._since = time.monotonic()
        try:
            order = self.room.order(self.loads)
            # The order in which they end depends on the machine, but the order of repeats does not.
            self.repeated = sorted(self._all(order, self.room, last=False))
            again = sorted(self._all(self.repeated, self.room, last=False))
            alone = Room.alone()
            again = self._all(again, alone, last=False)
            self._all(again, alone, last=True)
        finally:
            self._stop.set()
            for thread, _ in self._begun.values():
                thread.join()

    def _all(self, waiting: list[int], room: Room, *, last: bool) -> list[int]:
        """Run them in this order, as capacity allows; return those to repeat."""
        waiting, again = list(waiting), list[int]()
        changed = True
        while waiting or self._begun:
            if changed:
                for index in list(waiting):
                    if room.takes(self.loads[index], [self.loads[i] for i in self._begun]):
                        waiting.remove(index)
                        self._begin(index)
                self._plan(waiting, room)
            self._report()
            changed = False
            try:
                index, outcome = self._ended_runs.get(timeout=_PERIOD)
            except queue.Empty:
                continue
            changed = True
            self._begun.pop(index)[0].join()
            if isinstance(outcome, Exception):
                raise outcome
            wrong = outcome if isinstance(outcome, str) else distrust(outcome)
            if not isinstance(outcome, str):
                self.broken.update(bound["figure"] for bound in broken_bounds(outcome))
            if wrong and not last:
                again.append(index)
                continue
            self._ended += 1
            if isinstance(outcome, str) or (wrong and not self.keeps):
                self.failed(index, wrong)
            else:
                self.finished(index, outcome)
        return again

    def _begin(self, index: int) -> None:
        thread = threading.Thread(target=self._one, args=(index,), name=f"emulation {index}")
        self._begun[index] = (thread, time.monotonic())
        thread.start()

    def _one(self, index: int) -> None:
        """Run one in its own thread: its process ends with the thread that started it."""
        outcome: list[Run | Exception | str] = []
        job = self.jobs[index]

        def report(progress: Progress) -> None:
            self._packets[index] = progress.packets
            if self._stop.is_set():
                raise InterruptedError

        try:
            simulate(
                [(job.text, job.file, job.overrides, job.seed)],
                lambda _, run, cost: outcome.append(Run(run, Engine(*cost))),
                threads=1,
                progress=report,
                failed=lambda _, message: outcome.append(message),
                backend="emu",
                share=max(min(self.room.runs, len(self.jobs)), 1),
            )
        except Exception as error:
            outcome.append(error)
        self._ended_runs.put((index, outcome[-1]))

    def _plan(self, waiting: Sequence[int], room: Room) -> None:
        now = time.monotonic()
        running = [
            (self.loads[index], max(self.loads[index].duration_s - (now - begun), 0.0))
            for index, (_, begun) in self._begun.items()
        ]
        self._until = now + room.time_left([self.loads[index] for index in waiting], running)
        rates = Counter(str(self.loads[index]) for index in self._begun)
        self._shown = ", ".join(f"{n} at {rate}" if n > 1 else rate for rate, n in rates.items())

    def _report(self) -> None:
        now = time.monotonic()
        passed, left = now - self._since, max(self._until - now, 0.0)
        self.note(f"emulating {self._shown}, {left:.0f} s to go")
        total = round(passed + left) * 1_000_000_000
        done = min(round(passed * 1e9), total)
        self.progress(Progress(done, total, sum(self._packets.values()), 0, self._ended))


@dataclass(frozen=True)
class Emulated:
    """How often emulations had to be repeated, and why."""

    runs: int = 0
    repeated: int = 0
    #: How often each bound was exceeded, by the figure's name.
    broken: Mapping[str, int] = field(default_factory=dict)


def emulate(
    tasks: Sequence[Task],
    keep: Keep,
    listener: Listener,
    room: Room,
    *,
    note: Callable[[str], object],
    ended: Callable[[Emulated], object],
    keeps: bool,
) -> None:
    """Do jobs in real time, as capacity allows, and repeat those that exceed their bounds."""
    loads: dict[tuple[object, ...], Load] = {}
    for _, job in tasks:
        if job[:2] not in loads:
            plan = guests.check(job.text, job.file, job.overrides, backend="emu")
            loads[job[:2]] = Load.of(plan)
    total_ns, ended_ns = sum(job.duration_ns for _, job in tasks), 0

    def end(index: int, outcome: Outcome) -> None:
        nonlocal ended_ns
        ended_ns += tasks[index].job.duration_ns
        listener.ended(tasks[index], outcome)

    def failed(index: int, message: str) -> None:
        if not listener.collects:
            raise RunError(message)
        end(index, Outcome(error=message))

    def finished(index: int, run: Run) -> None:
        engine = run.engine or Engine(0, 0, 0)
        end(index, Outcome(keep(*tasks[index], run), engine=engine))

    def progress(state: Progress) -> None:
        # Repeats take additional time: progress is the share of the total time.
        done = total_ns * state.simulated_ns // max(state.total_ns, 1)
        listener.progress(max(done - ended_ns, 0), 0, 0)

    jobs = [job for _, job in tasks]
    each = [loads[job[:2]] for job in jobs]
    emulations = Emulations(jobs, each, room, finished, failed, progress, note, keeps)
    try:
        emulations.run()
    finally:
        broken = dict(sorted(emulations.broken.items()))
        ended(Emulated(len(tasks), len(emulations.repeated), broken))
