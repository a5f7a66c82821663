"""The plan of a sweep: a grid of points, each with some seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline import guests, store
from paceline.batch import Job
from paceline.errors import ArgumentError
from paceline.grid import Axis, Grid, Overrides, crossed
from paceline.measures import all_named
from paceline.runs import HEADLINES

#: The tables of a run that a sweep may keep, beside its own of flows.
TABLES = ("samples", "queue", "events", "packets")


class NoSweepError(ArgumentError):
    """A scenario that varies nothing."""


@dataclass(frozen=True)
class Plan:
    """A checked sweep: every point can be run."""

    #: Text of the scenario, and its name in errors.
    text: str
    file: str
    #: Settings of every point, before the point's own.
    overrides: Overrides
    scenario: str
    grid: Grid
    #: The metrics to compare and draw; the first decides which point is best.
    metrics: tuple[str, ...]
    #: Tables of each run that are stored in addition to the metrics.
    tables: tuple[str, ...]
    #: The duration of a run at each point.
    durations_ns: tuple[int, ...]
    #: The capacity traces that its points read.
    traces: tuple[str, ...]
    #: The maximum number of flows of a run.
    flow_count: int
    #: Whether the axes and the seeds are those of the scenario's text.
    own: bool = True

    @classmethod
    def read(
        cls,
        text: str,
        file: str,
        overrides: Sequence[tuple[str, str]] = (),
        *,
        axes: tuple[Axis, ...] = (),
        repeats: int | None = None,
        metrics: Sequence[str] = (),
        tables: Sequence[str] = (),
    ) -> Plan:
        """Read the sweep of a scenario, or plan one over other axes, or with other seeds.

        Raises `ScenarioError` if a point cannot be run.
        """
        for table in tables:
            if table not in TABLES:
                hint = f"a run has {', '.join(TABLES)}"
                raise ArgumentError(f"no table is called {table!r}", hint=hint)
        scenario = guests.check(text, file, overrides, sweep=not axes)
        sweep, own = scenario.sweep, not axes and repeats is None
        if sweep is None and not axes:
            hint = 'say what to vary: {"path.rtt": ["10 ms", "40 ms"]}, or write a [sweep]'
            raise NoSweepError(f"{file} has no [sweep]", hint=hint)
        axes = axes or tuple(map(Axis.of, sweep["axes"] if sweep else ()))
        seeds = tuple(sweep["seeds"] if sweep else [scenario.seed])
        if repeats is not None:
            seeds = tuple(range(seeds[0], seeds[0] + repeats))
        given = tuple(overrides)
        durations_ns, traces, flow_count = [], set[str](), 0
        for point in crossed(axes):
            checked = guests.check(text, file, (*given, *point), sweep=False)
            durations_ns.append(checked.duration_ns)
            flow_count = max(flow_count, checked.flow_count)
            traces.update(map(str, checked.traces))
        chosen = metrics or (sweep and sweep["metrics"]) or HEADLINES
        return cls(
            text=text,
            file=file,
            overrides=given,
            scenario=scenario.name,
            grid=Grid(axes, seeds),
            metrics=tuple(all_named(chosen, flow_count)),
            tables=tuple(tables),
            durations_ns=tuple(durations_ns),
            traces=tuple(sorted(traces)),
            flow_count=flow_count,
            own=own,
        )

    def jobs(self) -> Iterator[Job]:
        """Yield every run, the seeds of a point one after another."""
        for point, duration_ns in zip(self.grid.points, self.durations_ns, strict=True):
            given = (*self.overrides, *point)
            for seed in self.grid.seeds:
                yield Job(self.text, given, seed, "sim", self.file, duration_ns)

    @property
    def place(self) -> Path:
        """The default folder; what its scenario does not say of a sweep is in a hash."""
        name = store.sweep_name(self.scenario, self.overrides)
        return Path("runs", name if self.own else f"{name}-{self.key()[:6]}")

    @property
    def total_ns(self) -> int:
        """The total duration of all runs."""
        return sum(self.durations_ns) * len(self.grid.seeds)

    def key(self) -> str:
        """Return a key that distinguishes this sweep, run by this engine, from every other.

        The metrics are not part of it: a sweep keeps all of them.
        """
        content: list[object] = [self.text, self.scenario, self.overrides, self.grid.seeds]
        # Data drawn from a file is not part of the text.
        content += [axis.as_json() for axis in self.grid.axes if axis.drawn or not self.own]
        inputs = (store.digest(Path(trace)) for trace in self.traces)
        return store.key([*content, self.tables], inputs=inputs)
