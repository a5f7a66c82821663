"""Jobs in separate processes, for code that may crash: a dead process costs only its own job."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from paceline import guests, memory
from paceline.batch.job import Executor, Keep, Listener, Outcome, Task
from paceline.batch.threads import do_chunk
from paceline.quantities import quantity
from paceline.runs import Run

#: Seconds between the main process's checks for a stop request.
_PERIOD = 0.25
#: Seconds of CPU time without any event of the simulation after which code is in an endless loop,
#: whatever else the machine does.
_STUCK = 60.0
#: The same in real time, for code that waits.
_STANDSTILL = 1200.0
#: Bytes that a process may take beyond its share of the memory limit: the program, its libraries.
_OWN = 1 << 30
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")

#: The code of a worker, with the main process's module path.
_WORKER = """
import sys
number, *sys.path = sys.argv[1:]
from paceline.batch.processes import work
work(int(number))
"""


class _Progress(NamedTuple):
    """The progress of a job."""

    simulated_ns: int
    packets: int
    events: int


class _Worker:
    """A process that does one job at a time."""

    def __init__(self, keep: Keep, share: int) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", _WORKER, str(theirs.fileno()), *sys.path]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        self.link = Connection(ours.detach())
        self.link.send((keep, memory.chosen(), guests.chosen(), share))
        #: The most memory that it may take.
        self.most = memory.limit() // share + _OWN
        self.task: Task | None = None
        #: The progress of its job, and since when it is the same: in CPU time and in real time.
        self.progress = _Progress(0, 0, 0)
        self.since = (0.0, 0.0)

    def begin(self, task: Task) -> None:
        self.task = task
        self._moved(_Progress(0, 0, 0))
        # If it is already dead, the code that waits for it will notice.
        with suppress(OSError):
            self.link.send(task)

    def receive(self, *, is_ready: bool) -> Any:
        """Return the end of its job: an outcome, an exception, or why it has to be ended."""
        if not is_ready:
            return self._swollen()
        try:
            message = self.link.recv()
        except (EOFError, OSError):
            return self._end()
        if not isinstance(message, _Progress):
            return message
        if message != self.progress:
            self._moved(message)
            return self._swollen()
        computed, waited = (now - then for now, then in zip(self._spent(), self.since, strict=True))
        at = quantity("_ns", message.simulated_ns)
        if computed > _STUCK:
            return f"{_code()} did not return for {_STUCK:g} s of CPU time, {at} after the start"
        if waited > _STANDSTILL:
            return f"{_code()} did not return for {_STANDSTILL:g} s, {at} after the start"
        return self._swollen()

    def _moved(self, progress: _Progress) -> None:
        self.progress, self.since = progress, self._spent()

    def _spent(self) -> tuple[float, float]:
        """Return the seconds of CPU time that the process has used, and the time."""
        now = time.monotonic()
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return now, now  # it has ended, or this is not Linux
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / _TICKS, now

    def _swollen(self) -> str | None:
        """Return why the job has to end, if the process takes too much memory."""
        try:
            resident = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * _PAGE
        except (OSError, IndexError):
            return None  # it has ended, or this is not Linux
        if resident <= self.most:
            return None
        took, most = (quantity("_bytes", count) for count in (resident, self.most))
        return f"{_code()} took {took} of memory, more than the {most} of its process; see --memory"

    def _end(self) -> str:
        """Return the exit status of a process that has closed its end."""
        self.link.close()
        code = self.process.wait()
        if code < 0:
            return f"{_code()} crashed: signal {-code} ({signal.Signals(-code).name})"
        return f"{_code()} ended its process, with exit code {code}"

    def stop(self) -> None:
        self.link.close()
        self.process.kill()
        self.process.wait()


def _code() -> str:
    """Return the words for the code that may crash."""
    names = [
        f"the {'controller' if guest.is_python else 'library'} `{guest.name}` ({guest.path})"
        for guest in guests.chosen()
    ]
    return " or ".join(names) or "its process"


def on_processes(count: int | None = None) -> Executor:
    """Return a worker for jobs in this many processes; one per core by default.

    `keep` and what it returns travel between processes.
    """
    most = count or os.cpu_count() or 1

    def do(tasks: Iterator[Task], keep: Keep, listener: Listener) -> None:
        workers: list[_Worker] = []
        try:
            for task in tasks:
                if len(workers) < most:
                    workers.append(_Worker(keep, most))
                    workers[-1].begin(task)
                else:
                    _free_worker(workers, keep, most, listener).begin(task)
            while any(worker.task for worker in workers):
                _free_worker(workers, keep, most, listener)
        finally:
            for worker in workers:
                worker.stop()

    return do


def _free_worker(workers: list[_Worker], keep: Keep, most: int, listener: Listener) -> _Worker:
    """Return a free worker, after one has ended its job or died."""
    busy = [worker for worker in workers if worker.task]
    message: Any = None
    while message is None:
        ready = wait([worker.link for worker in busy], timeout=_PERIOD)
        listener.progress(
            *(sum(each) for each in zip(*(worker.progress for worker in workers), strict=True))
        )
        for worker in busy:
            message = worker.receive(is_ready=worker.link in ready)
            if message is not None:
                break
    if isinstance(message, str):
        worker.stop()
        workers.remove(worker)
        replacement = _Worker(keep, most)
        replacement.task = worker.task
        worker, message = replacement, Outcome(error=message)
        workers.append(worker)
    task, worker.task = worker.task, None
    worker.progress = _Progress(0, 0, 0)
    assert task is not None
    if isinstance(message, Exception):
        raise message
    listener.ended(task, message)
    return worker


class _Sender:
    """Forwards messages to the main process."""

    collects = True

    def __init__(self, link: Connection, keep: Keep) -> None:
        self.link = link
        self._keep = keep

    def broken(self, task: Task, run: Run) -> None:
        self._keep(*task, run)

    def ended(self, _: Task, outcome: Outcome) -> None:
        self.link.send(outcome)

    def progress(self, *progress: int) -> None:
        self.link.send(_Progress(*progress))


def work(socket_number: int) -> None:
    """Do jobs as they arrive, until no more can: this is the code of a process."""
    # Ctrl-C stops the main process, which stops this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = Connection(socket_number)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        keep, limit, chosen, share = link.recv()
        memory.choose(limit)
        guests.choose(chosen)
        while True:
            task: Task = link.recv()
            try:
                do_chunk([task], keep, _Sender(link, keep), 1, share)
            except OSError:
                raise
            except Exception as error:
                link.send(error)
