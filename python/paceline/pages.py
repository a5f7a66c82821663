"""The JSON of pages: the server's answers to `paceline serve`, and the data in a report.

`docs/reference/json.md` and `web/src/api.ts` are generated from here, as from `paceline.answers`.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict, is_typeddict

from paceline.answers import Backend, Verdict


class RunEntry(TypedDict):
    """A run in the served folder."""

    kind: Literal["run"]
    id: str
    changed_ns: int
    scenario: str
    seed: int
    backend: Backend
    beyond: list[str]
    """Why an emulated run is not reliable; empty if it is."""
    controllers: list[str]
    flows: int
    metrics: dict[str, str]
    """For people, with their units."""


class SweepEntry(TypedDict):
    """A sweep in the served folder."""

    kind: Literal["sweep"]
    id: str
    changed_ns: int
    scenario: str
    axes: list[str]
    runs: int
    pictures: list[str]


class Listing(TypedDict):
    """All runs and sweeps."""

    runs: list[RunEntry | SweepEntry]
    quantities: dict[str, str]
    """Titles by column, in the order of the plots."""
    labels: dict[str, str]
    """What people call each metric."""


class GridPoint(TypedDict):
    """A point of a sweep."""

    point: int
    """Its number in the grid."""
    place: list[str]
    """Its name along each axis."""
    mean: float | None
    text: str
    """The mean and its 95 % interval, with units."""


class Mark(TypedDict):
    """A point of a sweep in its picture."""

    point: int
    """Its place in `points`."""
    line: int
    """The line that it is on."""
    x: float
    y: float
    low: float | None
    """The 95 % interval."""
    high: float | None


class Track(TypedDict):
    """A line through marks."""

    label: str
    colour: str
    dash: list[int]


class Tick(TypedDict):
    """A position on an axis, and its label."""

    at: float
    text: str


class Picture(TypedDict):
    """A metric along one axis, or its distribution over a population."""

    across: str
    up: str
    ticks: list[Tick]
    """On the axis across; none where any number is."""
    log: bool
    """Whether the axis across is logarithmic."""
    joined: str
    """How marks are joined: `no`, `straight` or in `steps`."""
    lines: list[Track]
    marks: list[Mark]


class Points(TypedDict):
    """A metric over the points of a sweep."""

    scenario: str
    metric: str
    metrics: list[str]
    axes: list[str]
    seeds: list[int]
    total: int
    """How many points there are: of many, only some are in `points`."""
    points: list[GridPoint]
    picture: Picture | None
    """None over three axes and more, or for more than 12 lines."""


class Shipped(TypedDict):
    """A scenario included in the package."""

    name: str
    about: str


class Basis(TypedDict):
    """The starting points for a new scenario."""

    scenarios: list[Shipped]
    controllers: list[str]
    schema: dict[str, Any]
    """The JSON Schema of scenarios."""


class Scenario(TypedDict):
    """A scenario to edit."""

    text: str
    seed: int | None
    """That of the run that it is of."""
    backend: Backend


class Trouble(TypedDict):
    """An error in a scenario."""

    message: str
    line: int | None
    hint: str | None


class Problems(TypedDict):
    """The errors in a scenario; none if it can run."""

    problems: list[Trouble]


class Differing(TypedDict):
    """A setting in which two scenarios differ."""

    key: str
    old: str
    new: str


class Change(TypedDict):
    """A metric of two runs, for people."""

    name: str
    old: str
    """The mean of the runs, with its 95 % interval and how many they are."""
    new: str
    change_ratio: float | None
    """The change over the old value."""
    interval: str | None
    """The 95 % interval of the difference; null without repeats on both sides."""
    p: float | None
    """How likely chance gives as much, corrected for all metrics."""
    verdict: Verdict


class Between(TypedDict):
    """Two runs side by side."""

    settings: list[Differing]
    metrics: list[Change]
    runs: list[int]
    """How many runs are compared on each side: its repeats count."""


class Side(TypedDict):
    """A run, or all its repeats."""

    verdict: str
    """What came of it, in a sentence."""
    failed: bool
    """Whether an expectation failed."""
    runs: int
    metrics: dict[str, str]
    """Of repeats the means, with their 95 % intervals."""


class Line(TypedDict):
    """A line of a plot."""

    run: str
    label: str
    colour: str
    dash: list[int]
    values: list[float | None]


class Series(TypedDict):
    """A plot of some runs."""

    title: str
    unit: str
    end: float
    """When the longest of the runs ends, in seconds."""
    times: list[float]
    lines: list[Line]


class JobState(TypedDict):
    """A run requested by the page."""

    job: int
    backend: Backend
    state: Literal["running", "done", "failed", "stopped"]
    message: str
    id: str | None
    """The run that it produced."""
    simulated_ns: int
    total_ns: int
    version: int
    """Counts updates of its plots."""


class Shape(TypedDict):
    """A line of a report's plot."""

    label: str
    colour: str
    dash: list[int]
    right: bool
    """Whether it uses the right axis."""
    values: list[float | None]


class Panel(TypedDict):
    """A plot of a report."""

    title: str
    unit: str
    unitRight: str | None
    stacked: bool
    times: list[float]
    series: list[Shape]
    references: list[Shape]
    """What the lines are compared with, such as the link rate."""


class Band(TypedDict):
    """A span, in seconds, in which a flow was in one state."""

    start: float
    end: float
    state: str


class Packets(TypedDict):
    """The packets of a flow in order of time, as seen by its sender and its path."""

    kinds: list[str]
    """What a number in `kind` stands for."""
    until: float | None
    """In seconds: later ones are left out; null if none are."""
    t_us: list[int]
    """The first time, and the difference from each to the next."""
    kind: list[int]
    seq_bytes: list[int]
    """The first byte: its difference from the packet of the same kind before."""
    len_bytes: list[int]


class Detail(TypedDict):
    """The plotted data of one flow."""

    flow: int
    label: str
    panels: list[Panel]
    bands: list[Band]
    """The states of the controller."""
    limits: list[Band]
    """What bounded the sender."""
    lost: list[int]
    """Packets declared lost up to each time of the panels."""
    packets: Packets | None
    """Null if they were not recorded."""


class Happening(TypedDict):
    """An event, in words."""

    t: float
    """In seconds."""
    flow: int | None
    """To which flow; none for the path."""
    kind: str
    text: str


class Drawn(TypedDict):
    """The plotted data of a report."""

    end: float
    overview: list[Panel]
    details: list[Detail]
    tints: dict[str, str]
    """The colour of each state."""
    marks: list[Happening]
    """What the scenario changed, and convergence."""
    happenings: list[Happening]


#: All of them, in the order of the reference.
SHAPES: tuple[type, ...] = tuple(
    shape for shape in globals().values() if is_typeddict(shape) and shape.__module__ == __name__
)
