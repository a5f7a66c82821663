"""Runs that the page requests, on a separate thread.

The plots fill in while a simulation is at work: its beginning is run first, a sixteenth of it, then
a quarter, then all. A shorter run of the same seed is the beginning of the longer one, and together
the two cost less than a third of the whole. An emulation is never the same twice, takes real time,
and wants the machine for itself: it is run once, whole, with no other job beside it.
"""

from __future__ import annotations

import itertools
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from paceline import _paceline, batch, guests, pages, store
from paceline.errors import NotARunError, PacelineError, ScenarioError, StoreError
from paceline.runs import Progress, Run
from paceline.serve import limits

#: The shares of a run that are shown on the way.
_SHARES = (16, 4, 1)

_log = logging.getLogger("paceline.serve")


class Busy(Exception):  # noqa: N818 - it is an answer
    """The maximum number of jobs is reached."""


class _Stopped(Exception):  # noqa: N818 - it is a request
    """The run was stopped."""


class _TooLong(Exception):  # noqa: N818 - it is a limit
    """The run took longer than its limit."""


@dataclass(eq=False)
class Job:
    """One run: its progress, and its results so far."""

    number: int
    text: str
    seed: int
    backend: _paceline.Backend
    #: The name of its folder, if one was given.
    name: str = ""
    #: Its results so far in memory: nothing once it is in the folder.
    run: Run | None = None
    state: Literal["running", "done", "failed", "stopped"] = "running"
    message: str = ""
    path: str | None = None
    simulated_ns: int = 0
    total_ns: int = 1
    #: Incremented whenever there is something new to see.
    version: int = 0
    stop_requested: bool = False
    future: Future[None] | None = None
    _lock: Any = field(default_factory=Lock)

    def update(self, **changes: Any) -> None:
        """Change several attributes atomically."""
        with self._lock:
            for name, value in changes.items():
                setattr(self, name, value)

    def stop(self) -> None:
        """Stop it."""
        self.stop_requested = True
        if self.future is not None and self.future.cancel():
            self.update(state="stopped")

    def as_json(self) -> pages.JobState:
        """Return the job's state for a page."""
        with self._lock:
            return {
                "job": self.number,
                "backend": self.backend,
                "state": self.state,
                "message": self.message,
                "id": self.path,
                "simulated_ns": self.simulated_ns,
                "total_ns": self.total_ns,
                "version": self.version,
            }


class _JobWatch(batch.Watch):
    """Reports a job's progress to a page, and stops it on request."""

    def __init__(self, job: Job, until: float) -> None:
        self._job = job
        self._until = until

    def finished(self, _: int, outcome: batch.Outcome) -> None:
        self._job.update(run=outcome.kept, version=self._job.version + 1)

    def progress(self, state: Progress) -> None:
        if self._job.stop_requested:
            raise _Stopped
        if time.monotonic() > self._until:
            raise _TooLong
        self._job.update(simulated_ns=max(state.simulated_ns, self._job.simulated_ns))


class Jobs:
    """Jobs, one after another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._numbers = itertools.count(1)
        self._lock = Lock()
        self._jobs: dict[int, Job] = {}

    def start(
        self, text: str, seed: int | None, backend: _paceline.Backend = "sim", name: str = ""
    ) -> Job:
        """Start a run of a scenario; `ScenarioError` also if it names a file, or `Busy`.

        Without a seed, that of the scenario is used.
        """
        plan = guests.check(text, "scenario.toml", (), False, backend, files=False)
        with self._lock:
            ended = [job for job in self._jobs.values() if job.state != "running"]
            if self.running() >= limits.JOBS:
                queued = f"{limits.JOBS} runs are already queued"
                raise Busy(f"{queued}: stop one, or wait until one ends")
            for job in ended[: -limits.ENDED]:
                del self._jobs[job.number]
            number = next(self._numbers)
            chosen = plan.seed if seed is None else seed
            job = self._jobs[number] = Job(number, text, chosen, backend, name)
            job.total_ns = plan.duration_ns
            job.future = self._pool.submit(self._work, job, plan.name)
        return job

    def running(self) -> int:
        """Return the number of jobs waiting or running."""
        return sum(job.state == "running" for job in list(self._jobs.values()))

    def get(self, number: int) -> Job:
        """Return a job by its number; raises `KeyError`."""
        return self._jobs[number]

    def close(self) -> None:
        """Stop the active job, and wait until it has ended."""
        for job in list(self._jobs.values()):
            job.stop()
        self._pool.shutdown(cancel_futures=True)

    def _work(self, job: Job, name: str) -> None:
        until = time.monotonic() + limits.JOB_S
        try:
            for share in _SHARES if job.backend == "sim" else (1,):
                self._part(job, share, until)
            path = self._write(job, name)
            job.update(path=path, run=None, state="done", version=job.version + 1)
        except _Stopped:
            job.update(state="stopped")
        except _TooLong:
            longer = f"it took longer than {limits.JOB_S:.0f} s"
            job.update(state="failed", message=f"{longer}: `paceline run` has no such limit")
        except (StoreError, OSError) as error:
            # Its text contains paths of this machine, which the page must not show.
            _log.error("%s", error)
            job.update(state="failed", message="the run could not be saved: see the terminal")
        except PacelineError as error:
            job.update(state="failed", message=str(error))
        except BaseException:
            job.update(state="failed", message="the program failed: see the terminal")
            _log.exception("job %d", job.number)

    def _part(self, job: Job, share: int, until: float) -> None:
        length = job.total_ns // share
        pairs = (("run.duration", f"{length} ns"),) if share > 1 else ()
        work = batch.Job(job.text, pairs, job.seed, job.backend, duration_ns=length)
        try:
            batch.execute(
                [work],
                lambda _, __, run: run,
                executor=batch.locally(1),
                watch=_JobWatch(job, until),
                room=batch.Room.alone(),
                distrusted="keep",
            )
        except ScenarioError:
            # An event after the end of a part makes the part invalid; the whole run is valid.
            if share == 1:
                raise

    def _write(self, job: Job, name: str) -> str:
        if job.run is None:
            raise NotARunError("nothing has run")
        name = job.name or f"{store.readable(name, 80)}-{job.seed}"
        base = self._folder / store.readable(name)
        # The same run again is the one that is there.
        return store.keep(base, job.run.inner.write, rivals=store.numbered(base, 2))[0].name
