"""Writes docs/stacks.md: the BBR and CUBIC of each QUIC stack beside ours, on the same paths.

`make stacks` runs it. It runs the sweeps of data/scenarios/stacks and lays out what they measured.
docs/stacks/measured keeps that by controller and version of its stack: only what is not there is
run, and sweeps resume where they were stopped. Libraries in target/guests are stacks, too.
With --kept it runs nothing, and lays out what is there.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import resource
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import polars as pl
from generate import table as markdown
from matplotlib.figure import Figure
from small import small

import paceline
from paceline import guests
from paceline._paceline import __build__
from paceline.cli import main
from paceline.cli.guests import bring
from paceline.errors import RunError
from paceline.show.figure import write
from paceline.show.palette import flow_style

ROOT = Path(__file__).parents[1]
FILES = ROOT / "data" / "scenarios" / "stacks"
WORK = ROOT / "target" / "stacks"
LIBRARIES = ROOT / "target" / "guests"
PAGE = ROOT / "docs" / "stacks.md"
NOTES = ROOT / "docs" / "stacks"
MEASURED = NOTES / "measured"
#: Whether what is missing there is left out, and not run.
KEPT = "--kept" in sys.argv

#: Of the page, in this order: docs/judged.py writes them, but for the causes.
PARTS = ("cases", "causes", "packets")
#: Ours, to compare with.
OURS = ("bbr3", "bbr3-linux", "bbr1", "cubic")
#: Controllers of a stack that are neither a BBR nor a CUBIC, or are a CUBIC for marks.
OTHERS = ("newreno", "reno", "copa", "fast", "dcubic", "prague", "c4")
PATH = ("path.rate", "path.rtt")
#: Of a row in docs/stacks/measured, before the keys of its point: whose it is, of which version of
#: the stack, and a digest of the sweep's file.
WHOSE = ("flows.0.cc", "version", "sweep")
BUFFERS = ("0.5 bdp", "1 bdp", "4 bdp")
#: Of the paths, in a picture.
MARKS = ("o", "s", "^", "v", "D", "x")


@dataclass(frozen=True)
class Measure:
    """A table: what it shows of a sweep, and how."""

    title: str
    sweep: str
    metric: str
    about: str
    show: Callable[[float], str]
    #: Which of the sweep's points: key and value.
    where: tuple[tuple[str, str], ...] = ()
    #: What differs between columns, and between the values of a cell.
    columns: tuple[str, ...] = PATH
    cases: tuple[str, ...] = ("path.queue.size",)
    #: The values that are not printed, each by keys of its point.
    apart: tuple[Mapping[str, str], ...] = ()
    #: The stacks whose controllers it is for; all if empty.
    only: tuple[str, ...] = ()


def percent(value: float) -> str:
    """Show a ratio as a percentage."""
    return f"{100 * value:.0f}" if value >= 0.1 else f"{100 * value:.1f}"


def millis(value: float) -> str:
    """Show nanoseconds in milliseconds."""
    return f"{value / 1e6:.1f}" if value < 1e8 else f"{value / 1e6:.0f}"


def index(value: float) -> str:
    """Show an index from 0 to 1."""
    return f"{value:.2f}"


#: What `quinn:bbr` and `noq:cubic` do here depends on tens of microseconds in the hosts, which the
#: simulator does not model: over sockets it differs (docs/stacks/sockets.md), so it is not printed.
QUINN_BBR = {"flows.0.cc": "quinn:bbr"}
NOQ_CUBIC = {"flows.0.cc": "noq:cubic", "path.rtt": "100 ms"}
#: In the cell of a run that the stack did not finish.
ENDS = "ends"
DASH = "A dash: over sockets it differs ([why](stacks/sockets.md))."
#: The cases of most tables.
EACH = "Buffers of 0.5 · 1 · 4 BDP."
CLEAN, LOSSY = (("path.loss", "0 %"),), (("path.loss", "1 %"),)
MEASURES = (
    Measure(
        "Link used, without random loss",
        "one-flow",
        "utilisation_ratio",
        f"One flow for 20 s, % of the link's rate. {EACH} {DASH}",
        percent,
        CLEAN,
        apart=(
            QUINN_BBR,
            {**NOQ_CUBIC, "path.rate": "400 Mbit/s"},
            {**NOQ_CUBIC, "path.rate": "100 Mbit/s", "path.queue.size": "4 bdp"},
        ),
    ),
    Measure(
        "Link used, 1 % random loss",
        "one-flow",
        "utilisation_ratio",
        f"One flow for 20 s, % of the link's rate. {EACH} {DASH}",
        percent,
        LOSSY,
        apart=(QUINN_BBR,),
    ),
    Measure(
        "Median queue delay",
        "one-flow",
        "queue_p50_ns",
        f"One flow for 20 s, without random loss, in ms. {EACH}",
        millis,
        CLEAN,
    ),
    Measure(
        "95th percentile of the queue delay",
        "one-flow",
        "queue_p95_ns",
        f"One flow for 20 s, without random loss, in ms. {EACH}",
        millis,
        CLEAN,
    ),
    Measure(
        "Packets lost",
        "one-flow",
        "loss_ratio",
        "One flow for 20 s, without random loss, % of the packets offered to the link. "
        f"{EACH} {DASH}",
        lambda value: f"{100 * value:.2f}",
        CLEAN,
        apart=(QUINN_BBR,),
    ),
    Measure(
        "Fairness of four flows",
        "four-alike",
        "jain_last_half_ratio",
        f"Four flows of the same controller for 30 s: Jain's index over the second half. {EACH}",
        index,
    ),
    Measure(
        "Share against CUBIC",
        "against-cubic",
        "flows[0].share_ratio",
        f"One flow beside one of our CUBIC for 30 s: % of what both get. {EACH}",
        percent,
    ),
    Measure(
        "Jitter and reordering",
        "jitter",
        "utilisation_ratio",
        "One flow for 20 s, % of the link's rate, one BDP of buffer: no jitter · up to 10 ms more "
        f"for each packet, in order · half of the packets 10 ms late and overtaken. {DASH}",
        percent,
        cases=("path.jitter", "path.reorder.probability"),
        apart=({**QUINN_BBR, "path.reorder.probability": "0 %"},),
    ),
    Measure(
        "A rate that falls and rises",
        "falls-and-rises",
        "rate_recovery_ns",
        "One flow for 45 s. The rate falls to a tenth at 10 s and rises again at 20 s: seconds "
        f"from the rise until the link is used to 90 % for 5 s. {EACH} A dash: not by 40 s.",
        lambda value: f"{value / 1e9:.1f}",
    ),
    Measure(
        "A slow application, then bulk",
        "limited-then-bulk",
        "utilisation_ratio",
        "One flow for 40 s. Its application sends 100 kbit/s, and from 4 s on all that it can: "
        f"% of the link's rate over the 40 s, at most 90. {EACH}",
        percent,
    ),
    Measure(
        "A slow uplink",
        "slow-uplink",
        "utilisation_ratio",
        "One flow for 30 s at 20 Mbit/s and 40 ms, one BDP of buffer, whose ACKs take an uplink of "
        "2, 0.667 or 0.2 Mbit/s with 100 packets of buffer: % of the link's rate without loss of "
        "ACKs · with 5 % of them lost.",
        percent,
        columns=("path.return.rate",),
        cases=("path.return.loss",),
    ),
    Measure(
        "A slow uplink, and fewer ACKs",
        "ack-frequency",
        "utilisation_ratio",
        "The same without loss of ACKs, where the receiver is asked for an ACK every 2 · 10 · 40 "
        "packets (`ack_frequency`): % of the link's rate. Other stacks have no such setting here.",
        percent,
        columns=("path.return.rate",),
        cases=("flows.0.ack_frequency",),
        only=("quinn", "noq"),
    ),
)


def libraries() -> list[str]:
    """Name the libraries of stacks as `--controller` takes them."""
    return [
        f"{path.stem.removeprefix('lib').removeprefix('paceline_')}={path}"
        for path in sorted(LIBRARIES.glob("*.so"))
    ]


def controllers() -> list[str]:
    """Return ours and every BBR and CUBIC of a stack."""
    theirs = [
        f"{stack.name}:{name}"
        for stack in guests.stacks()
        for name in stack.controllers
        if name not in OTHERS
    ]
    return [*OURS, *theirs]


def versions() -> dict[str, str]:
    """Return the version of each controller's stack, or of Paceline."""
    theirs = {f"{one.name}:{cc}": one.version for one in guests.stacks() for cc in one.controllers}
    return {**dict.fromkeys(OURS, paceline.__version__), **theirs}


def measured(name: str, given: Sequence[str], names: Sequence[str]) -> pl.DataFrame:
    """Return a row for each point of a sweep and each of these controllers; run what is missing.

    Each controller is a sweep of its own, so that one more costs its own runs only.
    """
    text = (FILES / f"{name}.toml").read_text()
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    # A command forgets the libraries of the one before.
    bring(given)
    wanted = versions()
    file = MEASURED / f"{name}.csv"
    parts = []
    if file.is_file():
        # Rows of other versions stay; those of another form of the sweep do not.
        kept = pl.read_csv(file, schema_overrides={"sweep": pl.String, "version": pl.String})
        parts = kept.filter(pl.col("sweep") == digest).partition_by(*WHOSE[:2], maintain_order=True)
    known = {part.select(WHOSE[:2]).row(0) for part in parts}
    for cc in names:
        if KEPT or (cc, wanted[cc]) in known:
            continue
        rows = swept(name, given, cc, text)
        whose = dict(zip(WHOSE, (cc, wanted[cc], digest), strict=True))
        parts.append(rows.select(*(pl.lit(value).alias(key) for key, value in whose.items()), "*"))
        MEASURED.mkdir(exist_ok=True)
        pl.concat(parts, how="diagonal_relaxed").write_csv(file)
    rows = pl.concat(parts, how="diagonal_relaxed")
    current = pl.DataFrame(list(wanted.items()), schema=list(WHOSE[:2]), orient="row")
    return rows.join(current, on=WHOSE[:2], how="semi", maintain_order="left")


def swept(name: str, given: Sequence[str], cc: str, text: str) -> pl.DataFrame:
    """Run a sweep of data/scenarios/stacks with one controller; return its keys and metrics."""
    WORK.mkdir(parents=True, exist_ok=True)
    lines = [
        f'flows.0.cc = ["{cc}"]' if line.startswith("flows.0.cc = ") else line
        for line in text.splitlines()
    ]
    expected = "\n".join(lines) + "\n"
    # One picture is enough: the page has its own.
    words = ["--format", "svg", "--metric", "utilisation_ratio"]
    content = hashlib.sha256((__build__ + expected).encode())
    for library in given:
        stack, _, path = library.partition("=")
        if cc.startswith(f"{stack}:"):
            content.update(Path(path).read_bytes())
            # It may crash.
            words += ["--controller", library, "--engine", "processes"]
    # Another form of the sweep, and another build of Paceline or of a stack, do not resume.
    called = f"{name}-{cc.replace(':', '-')}-{content.hexdigest()[:8]}"
    file, out = WORK / f"{called}.toml", WORK / called
    file.write_text(expected)
    words = ["sweep", str(file), "--out", str(out), *words]
    # Every cell is in the page; the summary is not needed.
    with contextlib.redirect_stdout(io.StringIO()):
        code = main(words)
    # A point may fail: a stack may end its connection.
    if code and not (out / "sweep.json").is_file():
        sys.exit(code)
    sweep = paceline.Sweep.read(out)
    keys = sweep.runs.columns[1 : sweep.runs.columns.index("seed")]
    # Where a library is says nothing of the stack.
    error = pl.col("error").str.replace_all(f"{LIBRARIES}/", "", literal=True)
    rows = sweep.runs.select(*keys, error)
    for metric in tomllib.loads(text)["sweep"]["metrics"]:
        rows = rows.with_columns(_values(sweep, metric).round_sig_figs(5).alias(metric))
    return rows.drop("flows.0.cc")


def _values(sweep: paceline.Sweep, metric: str) -> pl.Series:
    """Return a metric of each run of a sweep, or of one flow of each."""
    if not metric.startswith("flows["):
        return sweep.runs[metric]
    number, column = metric.removeprefix("flows[").split("].")
    flows = sweep.flows.filter(pl.col("flow") == int(number)).select("run", column)
    return sweep.runs.join(flows, on="run", how="left", maintain_order="left")[column]


def printed(measure: Measure, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table: those of its points, without those that are not printed."""
    rows = rows.with_columns(value=pl.col(measure.metric))
    for key, value in measure.where:
        rows = rows.filter(pl.col(key) == value)
    for one in measure.apart:
        rows = rows.remove(*(pl.col(key) == value for key, value in one.items()))
    return rows


def paths(rows: pl.DataFrame, columns: Sequence[str] = PATH) -> list[tuple[str, ...]]:
    """Return the paths of a sweep, in its order."""
    return [tuple(row) for row in rows.select(columns).unique(maintain_order=True).rows()]


def table(measure: Measure, rows: pl.DataFrame, names: Sequence[str]) -> str:
    """Write a table: a row for each controller, a column for each path, a value for each case."""
    rows = printed(measure, rows)
    columns = paths(rows, measure.columns)
    names = [cc for cc in names if cc in rows["flows.0.cc"]]
    keys = measure.cases
    cases = rows.select(keys).unique(maintain_order=True).rows()
    lines = [[f"`{cc}`"] for cc in names]
    for line, cc in zip(lines, names, strict=True):
        for path in columns:
            here = points(rows, cc, path, measure.columns).select(*keys, "value", "error").rows()
            values = {row[:-2]: ENDS if row[-1] else row[-2] for row in here}
            line.append(" · ".join(_shown(values.get(case), measure.show) for case in cases))
    head = ["controller", *(", ".join(path) for path in columns)]
    return f"## {measure.title}\n\n{measure.about}\n\n{markdown(head, lines)}"


def points(
    rows: pl.DataFrame, cc: str, path: tuple[str, ...], columns: Sequence[str] = PATH
) -> pl.DataFrame:
    """Return the rows of a controller on a path."""
    where = zip(("flows.0.cc", *columns), (cc, *path), strict=True)
    return rows.filter(*(pl.col(key) == value for key, value in where))


def _shown(value: float | str | None, show: Callable[[float], str]) -> str:
    if isinstance(value, str):
        return value
    return "-" if value is None else show(value)


#: Paths, and how long a run is.
COSTS = (("100 Mbit/s", "40 ms", "20 s"), ("1 Gbit/s", "100 ms", "4 s"))
#: Those with a hundred, a thousand and eight thousand full packets in a round trip.
FLIGHTS = (
    ("30 Mbit/s", "40 ms", "40 s"),
    ("300 Mbit/s", "40 ms", "8 s"),
    COSTS[1],
)


def costs(names: Sequence[str]) -> str:
    """Write what a data packet and a byte cost, measured once for each controller of a stack."""
    lines = []
    for cc in names:
        if cc in OURS:
            # A packet costs less than the noise of a process that starts.
            continue
        found = [_cost({"flows.0.cc": cc}, *path) for path in COSTS]
        if None not in found:
            lines.append([f"`{cc}`", *(str(cost) for cost in found)])
    body = markdown(["controller", *(f"{rate}, {rtt}" for rate, rtt, _ in COSTS)], lines)
    return (
        "## CPU\n\nOne flow, one BDP of buffer: microseconds of CPU for each data packet · data "
        "packets for each megabyte delivered · milliseconds of CPU for each megabyte. Both ends, "
        "recovery, controller, path and record together, without cryptography but for quiche and "
        "tquic. Least of two or three, on a machine that did other work. The cost of ours is "
        f"[measured in instructions](performance.md).\n\n{body}\n{_alone()}"
    )


def _alone() -> str:
    """Write what the BBRs of stacks that also run ours cost themselves."""
    lines = []
    for stack, cc in (("noq", "noq:bbr3"), ("quinn", "quinn:bbr")):
        line = [f"`{cc}`"]
        for path in FLIGHTS:
            theirs, ours = (
                _cost({"flows.0.cc": one, "flows.0.stack": stack}, *path) for one in (cc, "bbr3")
            )
            if theirs and ours:
                line.append(f"{2 * (theirs.cpu_us - ours.cpu_us):.1f}")
        if len(line) > len(FLIGHTS):
            lines.append(line)
    if not lines:
        return ""
    head = [f"{number} packets" for number in ("100", "1,000", "8,300")]
    return (
        "The controller alone, by the packets of one BDP: how many microseconds more an ACK of two "
        "packets costs than with our `bbr3` in the same stack, whose cost does not depend on the "
        f"packets in flight. Negative: less.\n\n{markdown(['controller', *head], lines)}"
    )


class Cost(NamedTuple):
    """What a flow costs."""

    #: CPU time of a data packet.
    cpu_us: float
    #: Data packets sent for each megabyte delivered.
    packets: float

    def __str__(self) -> str:
        """Show it, and the milliseconds of a megabyte."""
        byte = self.cpu_us * self.packets / 1e3
        shown = f"{self.cpu_us:.2f} · {self.packets:.0f} · {byte:.2f}"
        return ENDS if math.isnan(byte) else shown


def _cost(flow: Mapping[str, str], rate: str, rtt: str, duration: str) -> Cost | None:
    """Return what a flow costs: the least of two, measured once; none if it is not measured."""
    store = MEASURED / "costs.json"
    known = json.loads(store.read_text()) if store.is_file() else {}
    key = ", ".join((*flow.values(), versions()[flow["flows.0.cc"]], rate, rtt))
    if key not in known and not KEPT:
        path = {"path.rate": rate, "path.rtt": rtt}
        try:
            known[key] = _measured({**flow, **path}, duration)
        except RunError:
            known[key] = None
        store.write_text(json.dumps(known, indent=1) + "\n")
    if key not in known:
        return None
    return Cost(*(known[key] or (math.nan, math.nan)))


def _measured(settings: Mapping[str, str], duration: str) -> Cost:
    runs = [_run({**settings, "run.duration": duration}) for _ in range(3)]
    # Runs with a library are in a process of their own, which has to start.
    starts = [_run({**settings, "run.duration": "1 ms"}) for _ in range(3)]
    sent, delivered, _ = runs[0]
    spent = min(run[-1] for run in runs) - min(start[-1] for start in starts)
    return Cost(round(1e6 * spent / max(sent, 1), 3), round(1e6 * sent / max(delivered, 1), 1))


def _run(settings: Mapping[str, str]) -> tuple[int, int, float]:
    """Return the data packets and the bytes delivered of a run, and its CPU time in seconds."""
    text = (FILES / "one-flow.toml").read_text().split("[sweep]")[0]
    before = _cpu()
    run = paceline.run(text, overrides=tuple(settings.items()))
    flows = run.flows
    return int(flows["sent_packets"].sum()), int(flows["goodput_bytes"].sum()), _cpu() - before


def _cpu() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(sum(one[:2]) for one in used)


def picture(sweeps: Mapping[str, pl.DataFrame], names: Sequence[str], out: Path) -> None:
    """Draw a row of panels for each controller: use of the link, queue, share against CUBIC."""
    drawn = {(one.metric, *one.where): printed(one, sweeps[one.sweep]) for one in MEASURES}
    one, queue = (drawn[metric, *CLEAN] for metric in ("utilisation_ratio", "queue_p50_ns"))
    share = drawn[("flows[0].share_ratio",)]
    panels = (
        (one, "Link used (%)", 100.0, (0, 105)),
        (queue, "Median queue (RTTs)", None, (0, 4.2)),
        (share, "Share against CUBIC (%)", 100.0, (0, 105)),
    )
    with mpl.rc_context({"font.size": 8}):
        figure = Figure(figsize=(8.5, 1.35 * len(names) + 0.9), layout="constrained")
        axes = figure.subplots(len(names), len(panels), sharex=True, squeeze=False)
        for row, cc in zip(axes, names, strict=True):
            row[0].set_ylabel(cc)
            for axis, (rows, _, factor, limits) in zip(row, panels, strict=True):
                for nth, path in enumerate(paths(one)):
                    goodputs = dict(
                        points(rows, cc, path).select("path.queue.size", "value").rows()
                    )
                    scale = factor or 1e-6 / float(path[1].split()[0])
                    # A point that failed leaves a gap.
                    values = [goodputs.get(size) for size in BUFFERS]
                    shown = [math.nan if value is None else value * scale for value in values]
                    line_style = {
                        "color": flow_style(nth).colour,
                        "marker": MARKS[nth],
                        "linewidth": 1,
                    }
                    axis.plot([0.5, 1, 4], shown, markersize=3, label=", ".join(path), **line_style)
                axis.set_ylim(*limits)
                axis.set_xscale("log", base=2)
                axis.set_xticks([0.5, 1, 4], ["0.5", "1", "4"])
                axis.grid(visible=True, linewidth=0.3)
        for axis, (_, title, _, _) in zip(axes[0], panels, strict=True):
            axis.set_title(title)
        for axis in axes[-1]:
            axis.set_xlabel("Buffer (BDP)")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        write(figure, out, "svg")
        small(out)


def survey() -> str:
    """Write which stacks there are, and their versions."""
    lines = []
    for stack in guests.stacks():
        named = ", ".join(f"`{stack.name}:{name}`" for name in stack.controllers)
        lines.append([stack.name, stack.version, named])
    return markdown(["stack", "version", "controllers"], lines)


def page() -> None:
    """Run what has not been run, and write the page."""
    os.environ.setdefault("COLUMNS", "100")
    given = libraries()
    bring(given)
    names = controllers()
    sweeps = {
        name: measured(name, given, [cc for cc in names if not only or cc.split(":")[0] in only])
        for name, only in dict.fromkeys((measure.sweep, measure.only) for measure in MEASURES)
    }
    bring(given)
    drawn = [cc for cc in names if cc in sweeps["one-flow"]["flows.0.cc"]]
    picture(sweeps, drawn, PAGE.with_name("stacks.svg"))
    parts = [(NOTES / "head.txt").read_text().rstrip(), survey().rstrip()]
    parts.append((NOTES / "notes.txt").read_text().rstrip())
    parts.append("![Use of the link, queue and share of each controller](stacks.svg)")
    parts += [(NOTES / f"{part}.txt").read_text().rstrip() for part in PARTS]
    parts += [table(one, sweeps[one.sweep], names).rstrip() for one in MEASURES]
    parts.append(costs(names).rstrip())
    made = f"Measured on {datetime.now(UTC):%Y-%m-%d} with Paceline {paceline.__version__}."
    PAGE.write_text(
        "<!-- Written by docs/stacks.py; edit docs/stacks/head.txt and notes.txt. -->\n\n"
        + "\n\n".join(parts)
        + f"\n\n{made}\n"
    )


if __name__ == "__main__":
    page()
