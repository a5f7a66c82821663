"""Runs of a sweep on a Ray cluster. Ray is imported only here, and only when asked for.

A task of Ray is a chunk of runs, large enough that what Ray costs is small beside it. A worker or
a node that dies loses the chunks that it was at, and Ray gives them to others: a run is the same
whoever does it, and however often.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from paceline import memory
from paceline.errors import PacelineError
from paceline.grid import Overrides
from paceline.study.sweep.plan import Plan, Task
from paceline.study.sweep.work import Outcome, Watch, Work

#: Seconds that a chunk is to take.
_CHUNK_S = 1.0
#: Runs of a chunk, at most.
_CHUNK = 500
#: Chunks that wait for each core, so that none is idle while results travel.
_AHEAD = 2
#: How often a chunk whose worker died is done again.
_RETRIES = 5
#: Seconds between two looks at how many cores there are.
_LOOK_S = 5.0


class ClusterError(PacelineError):
    """Ray is not there, or its cluster cannot be reached or does not work."""


def on_cluster(
    plan: Plan,
    tasks: Iterable[Task],
    watch: Watch,
    *,
    address: str | None = None,
    cores: int | None = None,
) -> None:
    """Do the runs on the cluster at `address`, or on one that is started here with some cores."""
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
        _Cluster(ray, plan, watch).run(iter(tasks))
    except ray.exceptions.RayError as error:
        raise ClusterError(f"Ray: {error}") from error
    finally:
        if ours:
            ray.shutdown()


def _chunk(
    work: Work, tasks: list[tuple[int, Overrides, int]], limit: int | None
) -> tuple[float, list[tuple[Any, ...]]]:
    """Do a chunk of runs; this is what a worker executes, beside others of its machine."""
    begin = time.perf_counter()
    outcomes: list[tuple[Any, ...]] = []
    memory.choose(limit)
    share = os.cpu_count() or 1
    work.do(tasks, lambda outcome: outcomes.append(tuple(outcome)), threads=1, share=share)
    return time.perf_counter() - begin, outcomes


class _Cluster:
    """Chunks at work on a cluster."""

    def __init__(self, ray: Any, plan: Plan, watch: Watch) -> None:
        self._ray = ray
        self._watch = watch
        self._work = ray.put(Work.of(plan))
        self._remote = ray.remote(max_retries=_RETRIES)(_chunk)
        #: What all runs of a machine may take, unless it is half of what is free there.
        self._limit = memory.chosen()
        #: Runs of the next chunk.
        self._size = 1
        self._cores = 1
        self._looked = -_LOOK_S

    def run(self, tasks: Iterator[Task]) -> None:
        pending: set[Any] = set()
        left = True
        while left or pending:
            while left and len(pending) < _AHEAD * self._look():
                chunk = [tuple(task) for task in islice(tasks, self._size)]
                left = len(chunk) == self._size
                if chunk:
                    pending.add(self._remote.remote(self._work, chunk, self._limit))
            if pending:
                # Each second Python sees whether Ctrl-C was pressed.
                ready, _ = self._ray.wait(list(pending), num_returns=1, timeout=1.0)
                for reference in ready:
                    pending.discard(reference)
                    self._collect(*self._ray.get(reference))

    def _look(self) -> int:
        """Return how many cores the cluster has just now."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_S:
            self._looked = now
            self._cores = max(int(self._ray.cluster_resources().get("CPU", 1)), 1)
        return self._cores

    def _collect(self, seconds: float, outcomes: list[tuple[Any, ...]]) -> None:
        for outcome in outcomes:
            self._watch.finished(Outcome(*outcome))
        each = max(seconds / max(len(outcomes), 1), 1e-6)
        # It grows by steps: the first runs may be the short ones.
        self._size = max(1, min(int(_CHUNK_S / each), 4 * self._size, _CHUNK))
