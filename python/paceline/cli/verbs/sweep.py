"""``paceline sweep``: a grid of parameters, in parallel, resumable."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from paceline import store
from paceline.batch import Outcome, Watch, ledger
from paceline.batch.cluster import ClusterError, executor
from paceline.cli import app as shared
from paceline.cli import console, files
from paceline.cli.app import app, examples
from paceline.cli.failure import Exit, Failure, failing
from paceline.errors import ArgumentError
from paceline.grid import read_axes
from paceline.measures import alike, value
from paceline.quantities import NONE, plain, quantity
from paceline.runs import Progress, named_scenario
from paceline.statistics import FEWEST, JITTER, remarks, text
from paceline.study.sweep import LedgerError, NoSweepError, Plan, Sweep, execute
from paceline.study.sweep.result import NAME, extremes
from paceline.study.sweep.work import record_of

#: Maximum number of points that are printed one by one; of more, the best and the worst.
_ROWS = 40
#: Seconds between two updates of the best and the worst so far.
_REPORT_S = 0.5


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    out: Path | None = None
    """Folder for the sweep. Default: runs/NAME+SETTINGS-sweep; --over and --repeats add a hash."""
    over: list[str] | None = None
    """KEY=VALUES: vary this key, instead of the keys in [sweep]. Can be repeated."""
    repeats: Annotated[int | None, Parameter(validator=shared.at_most_repeats)] = None
    """Run each point with this many consecutive seeds, starting with the first seed of the
    sweep."""
    overrides: shared.Set = None
    metrics: Annotated[list[str] | None, Parameter(name="--metric")] = None
    """A metric to compare and plot; the first metric determines the best point."""
    tables: Annotated[
        list[Literal["samples", "queue", "events", "packets"]] | None, Parameter(name="--table")
    ] = None
    """Also keep this table of each run. Can be repeated."""
    engine: Literal["threads", "processes", "ray"] = "threads"
    """Where runs execute: in threads, in processes (the sweep survives a crash of a run), or on a
    Ray cluster."""
    address: str | None = None
    """Address of the Ray cluster. Default: start one on this machine."""
    jobs: shared.Jobs = None
    controllers: shared.Controllers = None
    memory: shared.Memory = None
    format: shared.Image = "png"
    """Format of the plots."""
    fresh: bool = False
    """Discard existing results and start over."""
    json: shared.Json = False
    quiet: shared.Quiet = False


class _Live(Watch):
    """Prints the progress of a sweep, and the best and the worst so far."""

    def __init__(self, plan: Plan, out: Path, reporter: Watch) -> None:
        self._plan = plan
        self._out = out
        self._reporter = reporter
        self._metric = plan.metrics[0]
        count = len(plan.grid.points)
        self._sums = [0.0] * count
        self._counts = [0] * count
        self.ended = 0
        self._reported = 0.0
        self.engine = [0, 0, 0]

    def recalled(self, records: Iterable[dict[str, Any]]) -> None:
        """Take the runs of earlier attempts as done."""
        for record in records:
            self._count(record)
        console.note(f"{self._out}: {self.ended} of {len(self._plan.grid)} runs already exist")

    def finished(self, number: int, outcome: Outcome) -> None:
        self._count(record_of(number, outcome))
        engine = outcome.engine
        for nth, cost in enumerate((engine.wall_ns, engine.packets, engine.events)):
            self.engine[nth] += cost

    def _count(self, record: dict[str, Any]) -> None:
        point = self._plan.grid.point_of(record["run"])
        number = value(record, self._metric) if "metrics" in record else None
        if number is not None:
            self._sums[point] += number
            self._counts[point] += 1
        self.ended += 1

    def progress(self, state: Progress) -> None:
        now = time.monotonic()
        if now - self._reported > _REPORT_S:
            self._reported = now
            self._reporter.note(self._line())
            self._reporter.progress(state)

    def _line(self) -> str:
        pairs = zip(self._sums, self._counts, strict=True)
        means = [total / count if count else math.nan for total, count in pairs]
        ends = extremes(self._metric, means)
        if ends is None:
            return ""
        parts = [
            f"{word} {quantity(self._metric, means[end])} "
            f"at {', '.join(self._plan.grid.place(end))}"
            for word, end in zip(("best", "worst"), ends, strict=True)
        ]
        return f"{plain(self._metric)}: {'; '.join(parts)}"


@app.command(
    help_epilogue=examples(
        "sweep scenarios/sweeps/buffers.toml",
        'sweep FILE --over flows.0.cc=bbr3,cubic --over path.queue.size="1,2,4 bdp" --repeats 10',
        "sweep FILE --engine ray --address 127.0.0.1:6379",
        'sweep FILE --set run.duration="5 s" --metric jain_ratio --metric queue_p95_ns',
    )
)
def sweep(
    file: Annotated[str, Parameter(help="A scenario, with a [sweep] unless you give `--over`.")],
    /,
    *,
    options: Options = Options(),
) -> Exit:
    """Run all points of the parameter grid in a scenario's `[sweep]` or in `--over`, in parallel.

    After Ctrl-C or a crash, the same command resumes where it stopped. The output is one Parquet
    data set and a plot of each metric. The output is byte-identical on any number of threads or
    machines.
    """
    text, file = named_scenario(file)
    hint = 'say what to vary: --over path.rate="10,100 Mbit/s", or [sweep.over] in the scenario'
    with (
        failing(ArgumentError, "unknown-metric"),
        failing(NoSweepError, "no-sweep", hint, file=file),
    ):
        plan = Plan.read(
            text,
            file,
            files.parse_overrides(options.overrides),
            metrics=files.known_metrics(options.metrics),
            tables=options.tables or (),
            axes=read_axes(files.parse_over(options.over), "--over") if options.over else (),
            repeats=options.repeats,
        )
    files.afford_results(len(plan.grid), plan.flow_count, file)
    out = options.out or plan.place
    store.claim(out, "sweep", None if options.fresh else plan.key())
    whole = Sweep.read(out) if (out / NAME).is_file() and not options.fresh else None
    live = None
    if whole is not None:
        ledger.clear(out)
        # All metrics are stored, whichever were selected before.
        whole = replace(whole, metrics=plan.metrics)
    if whole is None:
        whole, live = _execute(plan, out, options)
    else:
        console.note(f"{out} is already complete; --fresh runs it again")
    return _show(whole, live, options)


def _execute(plan: Plan, out: Path, options: Options) -> tuple[Sweep, _Live]:
    runner = executor(options.engine, options.address, options.jobs)
    with console.progress(plan.scenario, len(plan.grid)) as reporter:
        live = _Live(plan, out, reporter)
        other = "choose another folder with --out, or discard it with --fresh"
        try:
            with (
                failing(LedgerError, "another-sweep", other, file=str(out)),
                failing(ClusterError, "no-cluster", code=Exit.RUN_FAILED),
            ):
                known, fresh = live.recalled, options.fresh
                done = execute(plan, out, executor=runner, watch=live, resumed=known, fresh=fresh)
                return done, live
        except KeyboardInterrupt:
            message = f"interrupted; {live.ended} of {len(plan.grid)} runs are kept in {out}"
            raise Failure.interrupted(message, "the same command resumes it") from None


def _show(sweep: Sweep, live: _Live | None, options: Options) -> Exit:
    pictures = [str(path) for path in _draw(sweep, options.format)]

    def result() -> dict[str, Any]:
        costs = ("wall_ns", "packets", "events")
        engine = {} if live is None else {"engine": dict(zip(costs, live.engine, strict=True))}
        return {**sweep.as_json(), **engine, "pictures": pictures}

    places = [f"Sweep:   {sweep.folder}", *(f"Picture: {path}" for path in pictures)]
    console.answer(result, lambda: _table(sweep), *places)
    if sweep.failed:
        first = sweep.runs.filter(sweep.runs["error"].is_not_null()).row(0, named=True)
        axes = [key for axis in sweep.grid.axes for key in axis.keys]
        place = ", ".join(f"{key} {first[key]}" for key in (*axes, "seed") if key in first)
        message = f"{sweep.failed} of {len(sweep.grid)} runs failed"
        message = f"{message}, the first ({place}): {first['error']}"
        console.stderr().print(message)
        return Exit.RUN_FAILED
    return Exit.OK


def _draw(sweep: Sweep, format: str) -> list[Path]:  # noqa: A002
    from paceline.show.figure import write

    paths = []
    for metric in sweep.metrics:
        # A bracket would be a pattern of a shell.
        name = metric.replace("[", ".").replace("]", "")
        path = sweep.folder / f"{name}.{format}"
        with store.writing(path) as fresh:
            write(sweep.plot(metric), fresh, format)
        paths.append(path)
    return paths


#: The quantiles of a population to print.
_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def _population(sweep: Sweep) -> None:
    """Print the quantiles of a population."""
    axes = [axis.name for axis in sweep.grid.axes if not axis.drawn]
    draws = math.prod(len(sweep.grid.axes[nth].points) for nth in sweep.grid.drawn)
    title = f"{sweep.scenario}, {draws} draws x {len(sweep.grid.seeds)} seeds"
    heads = [f"{100 * share:g} %" for share in _SHARES]
    table = console.table(*axes, "Metric", *heads, title=title, left=len(axes) + 1)
    for metric in sweep.metrics:
        for place, values in sweep.populations(metric).items():
            at = [math.ceil(share * len(values)) - 1 for share in _SHARES] if values else []
            cells = [quantity(metric, values[max(nth, 0)]) for nth in at]
            table.add_row(*place, plain(metric), *(cells or [NONE] * len(_SHARES)))
    console.stdout().print(table)


def _table(sweep: Sweep) -> None:
    if sweep.grid.drawn:
        _population(sweep)
        return
    out = console.stdout()
    statistics = {metric: sweep.statistics(metric) for metric in sweep.metrics}
    count = len(sweep.grid.points)
    rows = list(range(count))
    title = f"{sweep.scenario}, {count} points x {len(sweep.grid.seeds)} seeds"
    if count > _ROWS:
        first = statistics[sweep.metrics[0]]
        means = {nth: f["mean"] for nth, f in enumerate(first) if f is not None}
        ends = extremes(sweep.metrics[0], [means.get(nth, math.nan) for nth in rows])
        ordered = sorted(means, key=lambda nth: (means[nth], nth))
        if ends is not None and ends[0] != ordered[0]:
            ordered.reverse()
        rows = [*ordered[: _ROWS // 2], *ordered[-_ROWS // 2 :]]
        title += f"; the {_ROWS // 2} best and worst by {plain(sweep.metrics[0])}"
    names = [axis.name for axis in sweep.grid.axes]
    columns = [f"{plain(metric)}" for metric in sweep.metrics]
    table = console.table(*names, *columns, title=title, left=len(names))
    for nth in rows:
        cells = [text(metric, statistics[metric][nth], "\n") for metric in sweep.metrics]
        table.add_row(*sweep.grid.place(nth), *cells)
    out.print(table)
    seeds = len(sweep.grid.seeds)
    if 1 < seeds < FEWEST:
        out.print(f"Means of {seeds} seeds; intervals need at least {FEWEST}")
    if seeds > 1 and all(alike(dict(enumerate(sweep.values(m)))) for m in sweep.metrics):
        out.print(f"The seed has no effect here: all runs of a point are identical; {JITTER}")
    elif seeds > 1:
        shown = [statistics[metric][nth] for metric in sweep.metrics for nth in rows]
        console.show(*remarks(shown))
