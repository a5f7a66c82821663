"""Jobs, and what those who do them have to do with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from paceline import _paceline
from paceline.grid import Overrides
from paceline.runs import Engine, Run


class Job(NamedTuple):
    """One run: a scenario's text, what is set in it, a seed and an engine."""

    text: str
    overrides: Overrides = ()
    seed: int = 1
    backend: _paceline.Backend = "sim"
    #: What errors call the scenario.
    file: str = "scenario.toml"
    #: How long it is, for who watches.
    duration_ns: int = 0


class Task(NamedTuple):
    """A job, and its number in the batch."""

    number: int
    job: Job


class Outcome(NamedTuple):
    """What became of a job."""

    #: What is kept of its run.
    kept: Any = None
    #: Why there is no run.
    error: str | None = None
    engine: Engine = Engine(0, 0, 0)


#: What is kept of the run of a job, of which this is the number.
Keep = Callable[[int, Job, Run], Any]


class Hear(Protocol):
    """Who hears of what is done. What it raises stops the jobs that are left."""

    #: Whether a run that stops before its end is an outcome; otherwise it raises.
    collects: bool

    @property
    def broken(self) -> Callable[[Task, Run], object] | None:
        """Receives the partial run that a user-defined controller has ended."""

    def ended(self, task: Task, outcome: Outcome) -> None:
        """Hear of a job that has ended."""

    def seen(self, simulated_ns: int, packets: int, events: int) -> None:
        """Hear how far the jobs are that have not ended."""


#: Does jobs, and takes them only as it begins them.
Executor = Callable[[Iterator[Task], Keep, Hear], None]
