"""Jobs, and the interfaces of their workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from paceline import _paceline
from paceline.grid import Overrides
from paceline.runs import Engine, Run


class Job(NamedTuple):
    """One run: a scenario's text, overrides, a seed and an engine."""

    text: str
    overrides: Overrides = ()
    seed: int = 1
    backend: _paceline.Backend = "sim"
    #: The scenario's name in errors.
    file: str = "scenario.toml"
    #: Its length, for progress.
    duration_ns: int = 0
    #: The path to which its rows are written while it is simulated, if any.
    stream: str | None = None


class Task(NamedTuple):
    """A job, and its number in the batch."""

    number: int
    job: Job


class Outcome(NamedTuple):
    """The outcome of a job."""

    #: The data kept of its run.
    kept: Any = None
    #: Why there is no run.
    error: str | None = None
    engine: Engine = Engine(0, 0, 0)


#: Returns the data to keep of a job's run, given the job's number.
Keep = Callable[[int, Job, Run], Any]


class Listener(Protocol):
    """Watches the work. An exception in it stops the remaining jobs."""

    #: Whether a run that stops early is an outcome; otherwise it raises.
    collects: bool

    @property
    def broken(self) -> Callable[[Task, Run], object] | None:
        """Receives the partial run that a user-defined controller has ended."""

    def ended(self, task: Task, outcome: Outcome) -> None:
        """Handle the end of a job."""

    def progress(self, simulated_ns: int, packets: int, events: int) -> None:
        """Report the progress of the jobs that have not ended."""


#: Does jobs, and takes each only when it starts it.
Executor = Callable[[Iterator[Task], Keep, Listener], None]
