"""Sweeps: a grid of experiments, run in parallel, that can be stopped and gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from paceline import store
from paceline.study.sweep import dataset, ledger, result
from paceline.study.sweep.ledger import Ledger, LedgerError
from paceline.study.sweep.plan import NoSweepError, Plan, Task
from paceline.study.sweep.result import Sweep
from paceline.study.sweep.work import Outcome, Watch, on_threads

__all__ = [
    "LedgerError",
    "NoSweepError",
    "Outcome",
    "Plan",
    "Sweep",
    "Watch",
    "execute",
    "on_threads",
]

#: Does runs and tells a watch: `on_threads`, or `cluster.on_cluster`.
Executor = Callable[[Plan, Iterable[Task], Watch], None]


class _Keeper(Watch):
    """Writes down what has ended, and passes it on."""

    def __init__(self, plan: Plan, folder: Path, book: Ledger, watch: Watch) -> None:
        self._plan = plan
        self._folder = folder
        self._book = book
        self._watch = watch

    def finished(self, outcome: Outcome) -> None:
        number = outcome.record["run"]
        if number in self._book.records:
            return
        for name, table in outcome.tables.items():
            place = self._folder / dataset.table(self._plan.grid, name, number)
            place.parent.mkdir(parents=True, exist_ok=True)
            with store.replacing(place) as fresh:
                fresh.write_bytes(table)
        self._book.add(outcome.record)
        self._watch.finished(outcome)

    def progress(self, simulated_ns: int) -> None:
        self._watch.progress(simulated_ns)


def execute(
    plan: Plan,
    folder: Path,
    *,
    executor: Executor = on_threads,
    watch: Watch | None = None,
    resumed: Callable[[Iterable[dict[str, Any]]], object] | None = None,
    fresh: bool = False,
) -> Sweep:
    """Run a sweep into a folder; one that was begun there goes on where it stopped.

    With `fresh` it begins anew, and so it does where there is another sweep; what is not of that
    stays. `resumed` hears of the records that were there already. After Ctrl-C, which raises, or a
    crash, the runs that had ended are kept. Raises `StoreError` if the folder holds anything else.
    """
    key = plan.key()
    names = [*dataset.names(plan.grid, plan.tables), *result.NAMES, ledger.NAME]
    store.claim(folder, "sweep", None if fresh else key)
    if fresh:
        ledger.see_idle(folder)
        store.renew(folder, "sweep", key, names)
    else:
        store.begin(folder, "sweep", key, names)
    (folder / result.NAME).unlink(missing_ok=True)
    book = Ledger(folder, key, len(plan.grid))
    try:
        done = set(book.records)
        if done and resumed is not None:
            resumed(book.records.values())
        left = (task for task in plan.tasks() if task.number not in done)
        executor(plan, left, _Keeper(plan, folder, book, watch or Watch()))
        whole = result.write(plan, folder, book.records)
        book.close(remove=True)
    finally:
        book.close()
    return whole
