"""A run and its tables, read from its folder or just made; and the interface to the engines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline import _paceline, guests, memory, shipped, store
from paceline.errors import ArgumentError, NoTableError, NotARunError, of_file
from paceline.grid import document, toml
from paceline.measures import label
from paceline.quantities import quantity
from paceline.reading import read_text
from paceline.reading import toml as toml_of

if TYPE_CHECKING:
    import polars as pl

    from paceline.show.figure import Drawing

#: A scenario: its file, the name of an included one, its TOML, or its sections.
Scenario = str | os.PathLike[str] | Mapping[str, Any]
Overrides = Mapping[str, object] | Iterable[tuple[str, object]]

#: The metrics of a run's short forms, in their order.
HEADLINES = ("utilisation_ratio", "jain_last_half_ratio", "queue_p95_ns", "retransmit_ratio")


@dataclass(frozen=True)
class Engine:
    """The cost of a run."""

    wall_ns: int
    packets: int
    events: int


@dataclass(frozen=True)
class Progress:
    """The progress of a batch of runs."""

    simulated_ns: int
    total_ns: int
    packets: int
    events: int
    finished: int

    @property
    def far(self) -> str:
        """How much is simulated, of how much: in seconds, or in hours if it is many."""
        size, unit = (1e9, "s") if self.total_ns < 36_000e9 else (3_600e9, "h")
        return f"{self.simulated_ns / size:,.1f} of {round(self.total_ns / size, 1):,g} {unit}"


class Run:
    """A run: its tables, its metrics, its scenario.

    Tables are polars data frames over the engine's own memory: nothing is copied. For another
    library, `table(name)` gives an object with the Arrow PyCapsule interface.
    """

    def __init__(self, inner: _paceline.Run, engine: Engine | None = None) -> None:
        #: The extension module's object.
        self.inner = inner
        #: The cost of the run; `None` for a run read from disk.
        self.engine = engine

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Run:
        """Read a run from its folder; raises `MemoryLimitError` if it exceeds the limit.

        If the folder does not exist, it reads the part of the run that a killed process has left.
        """
        place = store.path_of_run(Path(folder))
        incomplete = "name the folder of a run; an incomplete one has to be run again"
        with of_file(place, {"not-found": incomplete}):
            return cls(_paceline.Run.read(place, memory.limit()))._checked(place)

    @classmethod
    def capture(cls, file: str | os.PathLike[str], format: str | None = None) -> Run:  # noqa: A002
        """Read a recording of another program: a pcap, pcapng, qlog or JSON of iperf3.

        The file may be compressed with gzip or zstd. Raises `CaptureError` for what cannot be read
        as a record. `format` is ``pcap``, ``qlog`` or ``iperf3``; by default the beginning tells.
        """
        with of_file(file):
            return cls(_paceline.capture(os.fspath(file), format, memory.limit()))

    def measured(self) -> Run:
        """Return the run without its tables and its scenario: only the results."""
        return Run(self.inner.measured(), self.engine)

    @classmethod
    def read_beneath(cls, root: Path, path: str) -> Run:
        """Read a run from a folder below another one; no link below that is followed."""
        inner = _paceline.Run.read("" if path == "." else path, memory.limit(), root)
        return cls(inner)._checked(Path(path))

    def _checked(self, place: Path) -> Run:
        """Return the run; raises `NotARunError` if what an engine tells of itself has no such form.

        Its tables and its other results are checked where they are read.
        """
        for name, texts, lists in (
            ("emulation", (), "beyond"),
            ("source", ("file", "format"), "notes"),
        ):
            value = self.summary.get(name)
            if value is None:
                continue
            is_table = isinstance(value, dict) and all(isinstance(value.get(t), str) for t in texts)
            parts = value.get(lists) if is_table else None
            if name == "emulation" and isinstance(parts, list):
                parts = [part.get("message") if isinstance(part, dict) else None for part in parts]
            if not (isinstance(parts, list) and all(isinstance(part, str) for part in parts)):
                raise NotARunError(f"{place / 'run.json'}: `{name}` has another form")
        return self

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write the run as a folder; raises `StoreError` if the path holds anything but the run."""
        store.keep(Path(folder), self.inner.write)

    def table(self, name: str) -> _paceline.Table:
        """Return a table as an Arrow stream: `flows`, `samples`, `queue`, `events`, `packets`."""
        table = self.inner.table(name)
        if table is None:
            hint = "each run has flows, samples, queue, events; record.packets = true adds packets"
            raise NoTableError(f"this run has no table {name!r}", hint=hint)
        return table

    def _frame(self, name: str) -> pl.DataFrame:
        # It takes 0.2 s to load: commands that read no table do not need it.
        import polars as pl

        return pl.DataFrame(self.table(name))

    @cached_property
    def flows(self) -> pl.DataFrame:
        """One row for each flow."""
        return self._frame("flows")

    @cached_property
    def samples(self) -> pl.DataFrame:
        """Each flow over time."""
        return self._frame("samples")

    @cached_property
    def queue(self) -> pl.DataFrame:
        """Each link's queue over time."""
        return self._frame("queue")

    @cached_property
    def events(self) -> pl.DataFrame:
        """Events, in order."""
        return self._frame("events")

    @cached_property
    def packets(self) -> pl.DataFrame:
        """Each packet's sending, loss, delivery and ACK; `NoTableError` if not recorded."""
        return self._frame("packets")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The description and results of the run: the object that ``--json`` prints."""
        summary: dict[str, Any] = json.loads(self.inner.summary_json())
        return summary

    @property
    def metrics(self) -> dict[str, float | None]:
        """The run's metrics by name; `None` where one is undefined."""
        metrics: dict[str, float | None] = self.summary["metrics"]
        return metrics

    @property
    def censored(self) -> dict[str, float]:
        """The times that the run ended before: what they are longer than, by metric."""
        censored: dict[str, float] = self.summary.get("censored", {})
        return censored

    @property
    def flow_metrics(self) -> list[dict[str, Any]]:
        """The metrics of each flow."""
        flows: list[dict[str, Any]] = self.summary["flows"]
        return flows

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return str(self.summary["scenario"])

    @property
    def scenario_toml(self) -> str:
        """The scenario with every default written."""
        return self.inner.scenario_toml

    @cached_property
    def outcomes(self) -> list[_paceline.Outcome]:
        """The results of the scenario's ``[expect]``."""
        return self.inner.outcomes()

    @cached_property
    def links(self) -> list[tuple[str, int | None, int | None]]:
        """Each link's name, its capacity at the start in bit/s and its queue's limit in bytes.

        Either is None if it is unlimited.
        """
        return self.inner.links()

    @property
    def returns(self) -> list[int | None]:
        """For each link, the position of the link whose return direction it is, if it is one."""
        return self.inner.returns()

    @property
    def seed(self) -> int:
        """Seed of all randomness."""
        return int(self.summary["seed"])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the values of all tables, in hexadecimal: equal runs have equal digests."""
        return self.inner.digest()

    @property
    def backend(self) -> str:
        """The engine, ``sim``, ``emu`` or ``vm``; or the format of an imported recording."""
        return str(self.summary["backend"])

    @property
    def incomplete(self) -> str | None:
        """Why the run stopped early, if it did."""
        why: str | None = self.summary.get("incomplete")
        return why

    @property
    def guests(self) -> list[dict[str, str]]:
        """The user-defined controllers of the run: `name`, `language`, `file`, `sha256`."""
        guests: list[dict[str, str]] = self.summary.get("guests", [])
        return guests

    @property
    def emulation(self) -> dict[str, Any] | None:
        """The emulator's or the machine's measurements of itself; `None` for a simulated run."""
        emulation: dict[str, Any] | None = self.summary.get("emulation")
        return emulation

    @property
    def source(self) -> dict[str, Any] | None:
        """The imported file of another program, and the data that it lacks."""
        source: dict[str, Any] | None = self.summary.get("source")
        return source

    def plot(
        self,
        *panels: str,
        flow: int | None = None,
        style: str | os.PathLike[str] | None = None,
        size: str | None = None,
    ) -> Drawing:
        """Draw the run as in the report, or only some panels: ``plot("throughput", "rtt")``.

        `flow` selects the flow of the panels `window` and `rates`; `style` and `size` are those of
        `Sweep.plot`.
        """
        from paceline.show.figure import Theme, draw

        return draw(self, flow, panels, Theme.of(style, size))

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report, one self-contained HTML file, and return its path."""
        from paceline.show.page import write_page

        with store.errors(Path(path)):
            return write_page(self, Path(path))

    def _headlines(self) -> list[tuple[str, str]]:
        metrics = self.metrics
        names = [name for name in HEADLINES if name in metrics]
        return [(label(name), quantity(name, metrics[name])) for name in names]

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value}" for name, value in self._headlines())
        return f"<Run {self.scenario} seed {self.seed}: {figures}>"

    @cached_property
    def _picture(self) -> bytes | None:
        """The picture in a notebook; `None` for a run without its tables."""
        if self.inner.table("samples") is None:
            return None
        from paceline.show.figure import Size, Theme, draw

        names = ("throughput", "rtt") + ("queue",) * (self.queue.height > 0)
        return draw(self, None, names, Theme(Size(7.16)))._repr_png_()

    def _repr_png_(self) -> bytes | None:
        return self._picture

    def _repr_html_(self) -> str:
        # Only notebooks need these.
        import base64
        import html

        rows = "".join(f"<tr><td>{n}</td><td>{v}</td></tr>" for n, v in self._headlines())
        title = html.escape(f"{self.scenario}, seed {self.seed}")
        text = f"<table><caption>{title}</caption>{rows}</table>"
        if self._picture is not None:
            data, about = base64.b64encode(self._picture).decode(), "throughput, RTT and queue"
            text += f'<img src="data:image/png;base64,{data}" alt="{about}" width="716">'
        return text


def packets_of(run: Run) -> pl.DataFrame | None:
    """Return the packets of a run; none if they were not recorded."""
    return None if run.inner.table("packets") is None else run.packets


def pairs(overrides: Overrides) -> tuple[tuple[str, str], ...]:
    """Return overrides as the parser takes them: TOML values as text."""
    items = overrides.items() if isinstance(overrides, Mapping) else overrides
    return tuple((key, toml(value)) for key, value in items)


def load(scenario: Scenario) -> tuple[str, str]:
    """Return the text of a scenario and the name for its errors.

    A string with a line break or an ``=`` is the scenario itself, anything else a name or a path.
    """
    if isinstance(scenario, Mapping):
        return document(scenario), "scenario.toml"
    if isinstance(scenario, str) and ("\n" in scenario or "=" in scenario):
        return scenario, "scenario.toml"
    return named_scenario(scenario)


def named_scenario(name: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the text of a scenario and its path: a file, or the name of an included one."""
    path = os.fspath(name)
    with suppress(OSError, ValueError):
        if not Path(path).exists():
            path = str(shipped.scenario(path) or path)
    return read_scenario(path), path


def read_scenario(path: str | os.PathLike[str]) -> str:
    """Return the text of a scenario file; raises `FileError`."""
    file = Path(path)
    hints = {"not-text": "a scenario is TOML in UTF-8; for a run's folder use `paceline report`"}
    try:
        if not file.exists():
            hints["not-found"] = shipped.nearest_scenario(file)
        elif file.is_dir():
            inside = sorted(str(one) for one in file.glob("*.toml"))
            hints["directory"] = f"it has {inside[0]}" if inside else "name a scenario file (.toml)"
    except (OSError, ValueError):
        hints["not-found"] = "name a scenario file (.toml), or give the text of one"
    with of_file(path, hints):
        return read_text(file)


def scenario(**sections: Any) -> str:
    """Return a scenario as TOML: its sections and keys are keyword arguments.

    Values have their units, as in a file. A key that is a word of Python has an underscore at its
    end: ``return_``. What takes a scenario takes the sections as a dictionary, too.

    >>> text = scenario(
    ...     run={"duration": "10 s"},
    ...     path={"rate": "20 Mbit/s", "rtt": "40 ms", "queue": {"size": "1 bdp"}},
    ...     flows=[{"cc": "bbr3"}, {"cc": "cubic", "start": "1 s"}],
    ... )
    """
    return document(sections)


def scenarios() -> list[dict[str, str]]:
    """Return the scenarios that have a name: `name`, `about`.

    They are those below ``./scenarios``, or else the included ones. `run` takes a name, or how one
    begins: ``run("four-flows")``.
    """
    files = shipped.scenario_files()
    heads = [toml_of(read_scenario(path)) for _, path in files]
    rows = zip(files, heads, strict=True)
    return [{"name": name, "about": str(head.get("about", ""))} for (name, _), head in rows]


def bdp(*sizes: float) -> list[str]:
    """Return sizes of a queue in bandwidth-delay products: ``bdp(1, 2)`` is 1 BDP and 2 BDP."""
    for size in sizes:
        if not isinstance(size, int | float) or not 0 < size < float("inf"):
            raise ArgumentError(f"{size!r} is not a size in BDP", hint="for example bdp(0.5, 1, 2)")
    return [f"{size:g} bdp" for size in sizes]


def check(scenario: Scenario, *, overrides: Overrides = ()) -> str:
    """Check a scenario and return it as TOML with every default written.

    Raises `ScenarioError` with every problem.
    """
    text, name = load(scenario)
    return guests.check(text, name, pairs(overrides)).toml


def simulate(
    jobs: Sequence[tuple[str, str, Sequence[tuple[str, str]], int]],
    finished: Callable[[int, _paceline.Run, tuple[int, int, int]], object],
    *,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    failed: Callable[[int, str], object] | None = None,
    backend: _paceline.Backend = "sim",
    share: int = 1,
    broken: Callable[[int, _paceline.Run, str], object] | None = None,
    streams: Sequence[str | None] = (),
) -> None:
    """Run jobs (text, its name in errors, overrides, seed) in parallel, and keep nothing.

    A run that stops before its end stops the others, unless `failed` hears of it. So does one that
    takes more than its share of `memory.limit()`, of which this call takes one part in `share`. Of
    a run that a controller of one's own has ended `broken(index, run, message)` hears instead.
    """
    _paceline.simulate(
        jobs,
        threads or os.cpu_count() or 1,
        memory.limit() // share,
        finished,
        None if progress is None else lambda *state: progress(Progress(*state)),
        failed,
        backend,
        guests.loaded(),
        broken,
        streams,
    )
