"""Sweeps: a grid of experiments, run in parallel, that can be stopped and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from paceline import batch, store
from paceline.batch import Executor, Watch, ledger
from paceline.batch.ledger import Ledger, LedgerError
from paceline.study.sweep import dataset, result
from paceline.study.sweep.plan import NoSweepError, Plan
from paceline.study.sweep.result import Sweep
from paceline.study.sweep.work import Book, Keeps

__all__ = ["LedgerError", "NoSweepError", "Plan", "Sweep", "execute"]


def execute(
    plan: Plan,
    folder: Path,
    *,
    executor: Executor | None = None,
    watch: Watch | None = None,
    resumed: Callable[[Iterable[dict[str, Any]]], object] | None = None,
    fresh: bool = False,
) -> Sweep:
    """Run a sweep into a folder; an unfinished one resumes where it stopped.

    With `fresh`, or over another sweep, it starts over; files of other origin stay. `resumed` is
    called with the records that already exist. After Ctrl-C, which raises, or a crash, finished
    runs are kept. Raises `StoreError` if the folder holds anything else.
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
        if book.records and resumed is not None:
            resumed(book.records.values())
        batch.execute(
            plan.jobs(),
            Keeps(plan.tables),
            executor=executor,
            store=Book(plan, folder, book),
            failures="collect",
            watch=watch,
            total_ns=plan.total_ns,
        )
        whole = result.write(plan, folder, book.records)
        book.close(remove=True)
    finally:
        book.close()
    return whole
