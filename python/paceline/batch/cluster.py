"""Jobs on a Ray cluster. Ray is imported only here, and only when asked for.

A task of Ray is a chunk of jobs, large enough that what Ray costs is small beside it. A worker or
a node that dies loses the chunks that it was at, and Ray gives them to others: a run is the same
whoever does it, and however often.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from paceline import guests, memory
from paceline.batch.job import Executor, Keep, Listener, Outcome, Task
from paceline.batch.locally import locally
from paceline.batch.processes import on_processes
from paceline.batch.threads import do_chunk
from paceline.errors import PacelineError

#: Target duration of a chunk in seconds.
_CHUNK_S = 1.0
#: Maximum number of jobs in a chunk.
_CHUNK = 500
#: Chunks queued per core, so that no core is idle while results travel.
_AHEAD = 2
#: How often a chunk is retried after its worker died.
_RETRIES = 5
#: Seconds between two checks of the number of cores.
_CHECK_S = 5.0


class ClusterError(PacelineError):
    """Ray is not installed, or its cluster is not reachable or does not work."""

    hint = 'pip install "paceline[ray]"; `ray start --head` starts a cluster'


def executor(engine: str, address: str | None, jobs: int | None) -> Executor:
    """Return a worker that runs jobs in threads, in processes or on Ray."""
    if engine == "threads":
        return locally(jobs)
    return on_processes(jobs) if engine == "processes" else on_cluster(address, jobs)


def on_cluster(address: str | None = None, cores: int | None = None) -> Executor:
    """Return a worker that runs jobs on the cluster at `address`, or on one started here.

    `keep` and what it returns travel between processes.
    """

    def do(tasks: Iterator[Task], keep: Keep, listener: Listener) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise ClusterError("Ray is not installed") from None
        ours = not ray.is_initialized()
        if ours:
            quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
            if address is None:
                quiet |= {"num_cpus": cores or os.cpu_count(), "include_dashboard": False}
            try:
                ray.init(address=address or "local", **quiet)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                where = address or "this machine"
                raise ClusterError(f"no Ray cluster at {where}: {error}") from error
        try:
            _Cluster(ray, keep, listener).run(tasks)
        except ray.exceptions.RayError as error:
            raise ClusterError(f"Ray: {error}") from error
        finally:
            if ours:
                ray.shutdown()

    return do


@dataclass
class _Collected:
    """The latest reports about a chunk."""

    outcomes: list[Outcome] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    collects: bool = True
    broken: None = None

    def ended(self, task: Task, outcome: Outcome) -> None:
        self.numbers.append(task.number)
        self.outcomes.append(outcome)

    def progress(self, *_: int) -> None:
        """Only the end counts."""


def _chunk(
    keep: Keep, tasks: list[Any], limit: int | None, chosen: tuple[guests.Guest, ...]
) -> tuple[float, list[int], list[Outcome]]:
    """Do a chunk of jobs: a worker executes this, in parallel with others on its machine."""
    begin = time.perf_counter()
    memory.choose(limit)
    guests.choose(chosen)
    listener = _Collected()
    do_chunk(tasks, keep, listener, threads=1, share=os.cpu_count() or 1)
    return time.perf_counter() - begin, listener.numbers, listener.outcomes


class _Cluster:
    """Chunks in progress on a cluster."""

    def __init__(self, ray: Any, keep: Keep, listener: Listener) -> None:
        self._ray = ray
        self._listener = listener
        self._keep = ray.put(keep)
        self._remote = ray.remote(max_retries=_RETRIES)(_chunk)
        #: Memory limit for all runs of a machine, if it is not half of its free memory.
        self._limit = memory.chosen()
        #: User-defined controllers are sent with their code, once.
        self._guests = ray.put(guests.chosen())
        #: Number of jobs in the next chunk.
        self._size = 1
        self._cores = 1
        self._checked = -_CHECK_S

    def run(self, tasks: Iterator[Task]) -> None:
        pending: dict[Any, list[Task]] = {}
        left = True
        while left or pending:
            while left and len(pending) < _AHEAD * self._core_count():
                chunk = list(islice(tasks, self._size))
                left = len(chunk) == self._size
                if chunk:
                    given = (self._keep, chunk, self._limit, self._guests)
                    pending[self._remote.remote(*given)] = chunk
            if pending:
                # Each second Python checks whether Ctrl-C was pressed.
                ready, _ = self._ray.wait(list(pending), num_returns=1, timeout=1.0)
                for reference in ready:
                    self._collect(pending.pop(reference), *self._ray.get(reference))

    def _core_count(self) -> int:
        """Return the current number of cores of the cluster."""
        now = time.monotonic()
        if now - self._checked >= _CHECK_S:
            self._checked = now
            self._cores = max(int(self._ray.cluster_resources().get("CPU", 1)), 1)
        return self._cores

    def _collect(
        self, tasks: list[Task], seconds: float, numbers: list[int], outcomes: list[Outcome]
    ) -> None:
        by_number = {task.number: task for task in tasks}
        for number, outcome in zip(numbers, outcomes, strict=True):
            self._listener.ended(by_number[number], outcome)
        self._listener.progress(0, 0, 0)
        each = max(seconds / max(len(outcomes), 1), 1e-6)
        # It grows by steps: the first jobs may be the short ones.
        self._size = max(1, min(int(_CHUNK_S / each), 4 * self._size, _CHUNK))
