"""What `import paceline` offers beside runs: the verbs of the command, as functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from paceline import guests, shipped, store
from paceline.batch import Bar, Outcome, Watch, in_notebook, locally
from paceline.controller import Controller
from paceline.errors import ArgumentError, FileError, StoreError, within
from paceline.grid import read_axes
from paceline.later import polars as pl
from paceline.names import did_you_mean
from paceline.reading import toml
from paceline.runs import Overrides, Progress, Run, Scenario, load, pairs
from paceline.study.compare import Finding
from paceline.study.compare import compare as compared
from paceline.study.compare.subjects import Subject, split
from paceline.study.compare.subjects import read as read_subject
from paceline.study.sweep import Plan, Sweep, execute
from paceline.study.sweep.result import NAME

if TYPE_CHECKING:
    from paceline.show.figure import Drawing
    from paceline.study.claims import Result
    from paceline.study.fit import Fit

Folder = str | os.PathLike[str]


def read(folder: Folder) -> Run | Sweep:
    """Read a run or a sweep from its folder; raises `FileError` if there is none."""
    if not store.path_of_run(Path(folder)).exists():
        hint = "`paceline run`, `Run.write` or a sweep makes one"
        raise FileError("not-found", f"no such folder: {folder}", hint=hint, file=str(folder))
    return Sweep.read(folder) if Path(folder, NAME).is_file() else Run.read(folder)


class _Ended(Watch):
    """Counts the runs that have ended, and shows their progress."""

    def __init__(self, shown: Callable[[Progress], object] | None) -> None:
        self.count = 0
        self._progress = shown

    def recalled(self, records: Iterable[object]) -> None:
        self.count += len(list(records))

    def finished(self, number: int, outcome: Outcome) -> None:
        self.count += 1

    def progress(self, state: Progress) -> None:
        if self._progress is not None:
            self._progress(state)


def sweep(
    scenario: Scenario,
    over: Mapping[str, Any] | None = None,
    *,
    repeats: int | None = None,
    metrics: Sequence[str] = (),
    tables: Sequence[str] = (),
    overrides: Overrides = (),
    controllers: Mapping[str, type[Controller]] | None = None,
    out: Folder | None = None,
    fresh: bool = False,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Sweep:
    """Run a scenario with every combination of some values, in parallel.

    `over` has a key of the scenario for each axis, and its values as in ``[sweep.over]``: a list,
    `bdp(1, 2, 4)`, or a range such as ``{"from_": "1 ms", "to": "9 ms", "count": 5}``. Without it,
    the axes are those of the scenario's ``[sweep]``. `repeats` is the number of seeds of each
    point, counting up from the scenario's.

    The sweep is kept in a folder, by default one below ``runs``; the same sweep is read from there
    and not run again, unless it is `fresh`. After Ctrl-C the same call resumes: what had ended is
    kept. `metrics` are those to plot, `tables` those of each run that are kept too.

    >>> found = sweep(
    ...     "single/bbr3-100M-40ms-1bdp",
    ...     {"flows.0.cc": ["bbr3", "cubic"], "path.queue.size": bdp(1, 2, 4, 8, 16)},
    ...     repeats=10,
    ... )  # doctest: +SKIP
    >>> found.plot("goodput", size="one-column")  # doctest: +SKIP
    """
    within("repeats", repeats, 1, 100_000)
    within("threads", threads, 1, 2**16)
    text, file = load(scenario)
    with guests.using(controllers):
        axes = () if over is None else read_axes(over, "over")
        how: Any = {"metrics": metrics, "tables": tables, "repeats": repeats}
        plan = Plan.read(text, file, pairs(overrides), axes=axes, **how)
        folder = store.find(plan.place, "sweep", plan.key())[0] if out is None else Path(out)
        if out is not None:
            try:
                store.claim(folder, "sweep", None if fresh else plan.key())
            except StoreError as error:
                error.hint = error.hint.replace("--", "")  # arguments, not options
                raise
        if (folder / NAME).is_file() and not fresh:
            return replace(Sweep.read(folder), metrics=plan.metrics)
        if progress is None and in_notebook():
            progress = Bar(plan.scenario, len(plan.grid)).progress
        watch = _Ended(progress)
        given: Any = {"executor": locally(threads), "watch": watch, "fresh": fresh}
        try:
            return execute(plan, folder, resumed=watch.recalled, **given)
        except KeyboardInterrupt:
            kept = f"{watch.count} of {len(plan.grid)} runs are kept in {folder}"
            raise KeyboardInterrupt(f"{kept}; the same call resumes") from None


@dataclass(frozen=True)
class Comparison:
    """Results compared metric by metric: same, better or worse, and how certain that is."""

    #: For each pair, what the old and the new result are called, and what was found.
    sides: tuple[tuple[str, str, list[Finding]], ...]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """A row for each metric of a pair, as `paceline compare --json` gives them."""
        rows = [
            {"old_name": old, "new_name": new, **finding.as_json()}
            for old, new, findings in self.sides
            for finding in findings
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def plot(self) -> Drawing:
        """Draw the change of each metric of the last pair, with its 95 % interval."""
        from paceline.study.compare.picture import draw

        old, new, findings = self.sides[-1]
        return draw(f"{new} against {old}", findings)

    def _repr_html_(self) -> str:
        shown = ("old_name", "new_name", "metric", "old", "new", "change_ratio", "p", "verdict")
        html: str = self.frame.select(shown)._repr_html_()
        return html

    def __repr__(self) -> str:
        pairs = ", ".join(f"{new} against {old}" for old, new, _ in self.sides)
        return f"<Comparison {pairs}: {self.frame.height} metrics>"


def compare(
    old: Run | Sequence[Run] | Sweep | Folder,
    new: Run | Sequence[Run] | Sweep | Folder | None = None,
    *,
    by: str | None = None,
    metrics: Sequence[str] = (),
    tolerance: float = 0.01,
    correction: Literal["holm", "bh"] = "holm",
) -> Comparison:
    """Compare two results, as `paceline compare` does: runs, repeats, sweeps, or their folders.

    With `by` one sweep is enough: each value of that key is compared with its first. Differences
    of up to `tolerance`, a part of the old value, are ignored; probabilities are corrected for
    multiple testing.

    >>> compare(run_many("four-flows", range(5)), "runs/four-flows-cubic")  # doctest: +SKIP
    """
    if (new is None) == (by is None):
        hint = 'compare("runs/a", "runs/b") or compare(sweep, by="flows.0.cc")'
        raise ArgumentError("compare takes two results, or one sweep and `by`", hint=hint)
    if new is not None:
        pairs = [(_subject(old, "old"), _subject(new, "new"))]
    else:
        if not isinstance(old, Sweep | str | os.PathLike):
            raise ArgumentError("`by` is for a sweep", hint='compare(sweep, by="flows.0.cc")')
        swept = old if isinstance(old, Sweep) else Sweep.read(old)
        first, *others = split(swept, by or "").values()
        pairs = [(first, other) for other in others]
    sides = [
        (a.name, b.name, compared(a, b, metrics, tolerance=tolerance, correction=correction))
        for a, b in pairs
    ]
    return Comparison(tuple(sides))


def _subject(side: Run | Sequence[Run] | Sweep | Folder, name: str) -> Subject:
    if isinstance(side, Sweep):
        return read_subject(side.folder)
    if isinstance(side, str | os.PathLike):
        return read_subject(Path(side))
    runs = [side] if isinstance(side, Run) else list(side)
    if not runs or not all(isinstance(run, Run) for run in runs):
        hint = "give a run, a list of runs, a sweep, or the folder of one"
        raise ArgumentError(f"the {name} side is not a result", hint=hint)
    subject = Subject(name)
    for run in runs:
        one = Subject.alone(name, run.summary, toml(run.scenario_toml))
        subject.points.setdefault("", {}).update(one.points[""])
        subject.settings |= one.settings
    return subject


def fit(
    record: Run | Folder, *, cc: str | None = None, progress: Callable[[int], object] | None = None
) -> Fit:
    """Estimate the path on which a record was taken, as `paceline fit` does.

    A record is a run, its folder, or a file of another program (pcap, pcapng, qlog, iperf3). Its
    `text` is the scenario; `rtt`, `size`, `stretches` and `parameters` are the estimates. Flows
    whose controller is not known run with `cc`. `progress` hears of the number of simulated paths.
    """
    from paceline.study.fit import fit as fitted

    if not isinstance(record, Run):
        record = Run.capture(record) if Path(record).is_file() else Run.read(record)
    return fitted(record, cc=cc, progress=progress)


def claims(
    *names: str, quick: bool = False, seeds: int | None = None, threads: int | None = None
) -> list[Result]:
    """Run published claims again, by their ids or topics, and judge them: `paceline claims`.

    A result has `verdict`, `measured` with `low` and `high`, and `figure()`, a sentence. With
    `quick`, claims run in their short form; `seeds` is another number of seeds.

    >>> [result.verdict for result in claims("B1", quick=True)]  # doctest: +SKIP
    """
    from paceline.study import claims as study

    within("seeds", seeds, 1, 100_000)
    within("threads", threads, 1, 2**16)
    known = study.load(shipped.nearest_folder("claims"))
    try:
        chosen = study.find(known, names, None if names else "sim")
    except KeyError as error:
        ids = {claim.id for claim in known} | {claim.topic for claim in known}
        hint = did_you_mean(str(error.args[0]), ids, "`paceline claims --list` shows them")
        raise ArgumentError(f"no claim or topic {error.args[0]!r}", hint=hint) from None
    campaign = study.Campaign(chosen, seeds=seeds, quick=quick)
    watch = _Ended(Bar("claims", len(campaign)).progress if in_notebook() else None)
    verdicts = campaign.verify(threads=threads, watch=watch)
    if verdicts.unfinished:
        raise KeyboardInterrupt("finished runs are kept; the same call resumes")
    return verdicts.results


def reference(name: str) -> Run:
    """Run a reference: a test case of the BBR draft or a baseline, such as ``"03"``, with `bbr3`.

    `paceline reference list` shows them.
    """
    from paceline.study.conformance.reference import chosen, run

    return run(chosen([name])[0])
