"""Draws the picture of README, and those of docs/claims.md, from their own runs.

`make pictures` draws that of README. Of claims there is a picture for each source:
`make claims-pictures` draws them, and `python docs/pictures.py ledbat` one. A panel names a claim
and some of its cases; their runs have the claim's settings and seeds. The files are the same, byte
by byte, each time.
"""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from matplotlib.ticker import LogFormatter
from small import small

import paceline
from paceline.query import Query
from paceline.show.figure import Drawing, canvas, literal, styled, write
from paceline.show.palette import NEUTRAL, QUANTITIES
from paceline.study.claims import Campaign, Claim, Result, find, load
from paceline.study.claims.drawing import COLOURS, Line, lines, whiskers
from paceline.study.claims.expressions import Expression, Place
from paceline.study.claims.measured import Measured
from paceline.study.claims.pictures import Picture
from paceline.study.claims.results import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "claims"
SETTINGS = {"font.size": 9, "axes.titlesize": 10, "legend.fontsize": 9, "lines.linewidth": 1.3}
#: Inches: on a phone, where a picture is 390 pixels wide, a letter still has 9 of them.
WIDTH, HEIGHT = 5.6, 2.75
MARKS = "osD^v"


@dataclass(frozen=True)
class Panel:
    """A panel: of which claim, what of it, and the labels of its axes."""

    claim: str
    title: str
    xlabel: str
    ylabel: str
    #: Lines over the points of a sweep, by label: a ratio, as an expression over the claim's cases.
    sweep: tuple[tuple[str, str], ...] = ()
    #: The points of an axis that are enough, by its keys; and what they are called.
    kept: dict[str, tuple[str, ...]] = field(default_factory=dict)
    points: tuple[float, ...] = ()
    #: Names of points that are no numbers: no line joins them. And the highest value.
    names: tuple[str, ...] = ()
    top: float = 1
    #: Lines over the time of seed 1, by label: a case, and the query that gives x and y.
    time: tuple[tuple[str, str], ...] = ()
    query: str = ""
    log: bool = False
    #: What else is drawn: theory, limits. `figures` of the runs are in the result's `beside`.
    more: Callable[[Axes, Result], None] = lambda axes, result: None
    figures: tuple[str, ...] = ()

    def with_queries(self, claim: Claim) -> Claim:
        """Return the claim with only the runs that this panel needs."""
        picture = Picture(
            kind="time" if self.time else "sweep",
            y={label: Expression(text) for label, text in self.sweep},
            cases=tuple(Place.read(place) for _, place in self.time),
            queries=(Query.read(self.query),) if self.query else (),
        )
        figures = {text: Expression(text) for text in self.figures}
        used = {name for each in (*picture.y.values(), *figures.values()) for name in each.names()}
        used |= {place.case for place in picture.cases}
        return replace(
            claim,
            cases={
                name: case.kept(self.kept) for name, case in claim.cases.items() if name in used
            },
            seeds=claim.seeds if self.sweep else 1,
            measured=Expression("1"),
            accept=(),
            beside=figures,
            tables=(),
            pictures=(picture,),
            choices=(),
            variants=(),
        )

    def draw(self, axes: Axes, result: Result) -> None:
        """Draw it."""
        (picture,) = result.claim.pictures
        spare = iter(QUANTITIES)
        labels = [label for label, _ in (*self.sweep, *self.time)]
        taken = {COLOURS[label] for label in labels if label in COLOURS}
        colours = {
            label: COLOURS.get(label) or next(c for c in spare if c not in taken)
            for label in labels
        }
        if self.sweep:
            for index, line in enumerate(lines(picture, result.names)):
                self._line(axes, line, colours[line.label], index)
        for (label, _), place in zip(self.time, picture.cases, strict=True):
            frame = _answer(result, place, picture.queries[0])
            x, y, *split = frame.columns
            parts = frame.partition_by(split) if split else [frame]
            for index, part in enumerate(parts):
                colour = QUANTITIES[index] if split else colours[label]
                name = f"{split[0]} {index + 1}" if split else label
                axes.plot(part[x].to_list(), part[y].to_list(), color=colour, label=name)
        axes.set_title(self.title)
        axes.set_xlabel(self.xlabel)
        axes.set_ylabel(self.ylabel)
        if self.log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(LogFormatter())
        else:
            axes.set_ylim(0, self.top if self.sweep else None)
        if self.names:
            axes.set_xticks(range(len(self.names)), self.names)
            axes.set_xlim(-0.5, len(self.names) - 0.5)
            axes.minorticks_off()
        self.more(axes, result)

    def _line(self, axes: Axes, line: Line, colour: str, index: int) -> None:
        count = len(self.sweep)
        if self.names:
            xs = [at + (index - (count - 1) / 2) * 0.12 for at in range(len(self.names))]
        else:
            xs = list(self.points) or [float(point.split()[0]) for point in line.points]
        means = [value.mean for value in line.values]
        line_style: dict[str, Any] = {"marker": MARKS[index], "markersize": 4, "capsize": 2.5}
        joined = "solid" if index < 3 else (0, (2, 2))
        line_style |= {"color": colour, "linestyle": "none" if self.names else joined}
        axes.errorbar(xs, means, yerr=whiskers(line.values), label=line.label, **line_style)


def _answer(result: Result, place: Place, query: Query) -> pl.DataFrame:
    case = result.names[place.case]
    assert isinstance(case, Measured)
    record = case.records(place.points)[0][0]
    assert record is not None
    answer = record.results[query]
    assert isinstance(answer, pl.DataFrame), answer
    return answer.drop_nulls()


def _at(level: float, name: str) -> Callable[[Axes, Result], None]:
    """Return what draws a level, with its name beside the panel."""

    def draw(axes: Axes, _: Result) -> None:
        axes.axhline(level, color=NEUTRAL, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        text_style: dict[str, Any] = {"color": NEUTRAL, "fontsize": 9, "va": "center"}
        axes.text(1.01, level, name, transform=axes.get_yaxis_transform(), **text_style)

    return draw


def growth(gain: float) -> float:
    """Return by how much a round grows the rate, if a sender paces at `gain` times its estimate.

    The estimate is the mean rate of the round before the last: 1 = gain (1/r - 1/r^2) / ln r. For
    r = 2 the gain is 4 ln 2.
    """
    low, high = 1.01, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        grows = gain * (1 / middle - 1 / middle**2) > math.log(middle)
        low, high = (middle, high) if grows else (low, middle)
    return low


def _theory(axes: Axes, result: Result) -> None:
    """Draw the growth in a round over the gain: the derivation's, and that of two flows."""
    gains = [2.5 + 0.01 * step for step in range(61)]
    axes.plot(gains, [growth(gain) for gain in gains], color=NEUTRAL, label="derivation")
    for colour, gain, run in zip(QUANTITIES, (2.77, 2.89), result.beside, strict=False):
        assert run.measured is not None
        label = f"a BBR flow with {gain}"
        axes.plot([gain], [run.measured], "o", color=colour, markersize=6, label=label)
    _at(2, "double")(axes, result)
    axes.set_ylim(1.8, 2.2)


#: The responses to ECN, and Linux's rules for marks with one of them changed, by their cases.
RESPONSES = {"none": "none", "alpha": "alpha", "loss": "loss", "linux": "BBRv3 (Linux)"}
RULES = {
    "linux": "BBRv3 (Linux)",
    "quiet": "no probe at a mark",
    "early": "UP ends at 2 % of marks",
    "both": "both",
}


def _beside(peer: str, cases: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the lines of cases beside a flow."""
    return tuple((label, f"{case}_{peer}.share_ratio") for case, label in cases.items())


#: Of the cells of fair-share pacing, every second spread of RTTs, at 125 Mbit/s.
SPREADS = {
    "path.rate": ("125 Mbit/s",),
    "path.rtt, flows.0.rtt, flows.1.rtt, flows.2.rtt, flows.3.rtt, flows.4.rtt": (
        "75 ms, 50 ms, 62.5 ms, 75 ms, 87.5 ms, 100 ms",
        "125 ms, 50 ms, 87.5 ms, 125 ms, 162.5 ms, 200 ms",
        "175 ms, 50 ms, 112.5 ms, 175 ms, 237.5 ms, 300 ms",
        "225 ms, 50 ms, 137.5 ms, 225 ms, 312.5 ms, 400 ms",
        "275 ms, 50 ms, 162.5 ms, 275 ms, 387.5 ms, 500 ms",
    ),
}

#: By source: its panels, one below the other.
SHEETS: dict[str, tuple[Panel, ...]] = {
    "startup": (
        Panel(
            claim="A6",
            title="The gain decides little: growth of the rate in a round",
            xlabel="pacing gain",
            ylabel="factor per round trip",
            more=_theory,
            figures=("mean(derived.pacing_growth_ratio)", "mean(original.pacing_growth_ratio)"),
        ),
        Panel(
            claim="A7",
            title="The first rounds decide: STARTUP at 1 Gbit/s, 100 ms",
            xlabel="time (s)",
            ylabel="in flight (kB)",
            time=(
                ("BBR 2.77, IW32", "iw32"),
                ("CUBIC, IW10", "cubic"),
                ("BBR 2.89, IW10", "original"),
                ("BBR 2.77, IW10", "slowest"),
            ),
            query="SELECT t_ns / 1e9 AS x, in_flight_bytes / 1e3 AS y FROM samples "
            "WHERE in_flight_bytes > 0 AND t_ns <= 1300000000",
            log=True,
        ),
    ),
    "bbr3": tuple(
        Panel(
            claim="B1",
            title=title,
            xlabel="time (s)",
            ylabel="goodput (Mbit/s)",
            time=((case, case),),
            query="SELECT t_ns / 1e9 AS x, (goodput_bytes - LAG(goodput_bytes, 1) OVER "
            "(PARTITION BY flow ORDER BY t_ns)) * 4e-6 AS y, flow "
            "FROM samples WHERE t_ns % 2000000000 = 0 ORDER BY flow, t_ns",
            more=_at(12.5, "fair\nshare"),
        )
        for case, title in (
            ("v2", "BBRv2: four flows keep what they started with"),
            ("v3", "BBRv3: the same flows converge"),
        )
    ),
    "ledbat": (
        Panel(
            claim="D6",
            title="Share of a BBR flow beside LEDBAT++, target 60 ms",
            xlabel="base RTT (ms)",
            ylabel="share of the link",
            sweep=tuple(
                (label, f"{case}.flows[0].share_ratio")
                for label, case in (("BBRv1", "v1"), ("BBRv2", "v2"), ("BBRv3", "v3"))
            ),
            more=_at(0.5, "half"),
        ),
        Panel(
            claim="D7",
            title="Share of a BBRv1 flow, by the target of LEDBAT++",
            xlabel="base RTT (ms)",
            ylabel="share of the link",
            sweep=(
                ("60 ms", "fixed.flows[0].share_ratio"),
                ("min(60 ms, base RTT)", "lower.flows[0].share_ratio"),
            ),
            more=_at(0.5, "half"),
        ),
    ),
    "fair-share": (
        Panel(
            claim="E1-parts",
            title="Losses as the signal: the margin does nearly all",
            xlabel="longest RTT over the shortest",
            ylabel="Jain's index",
            sweep=(
                ("BBRv1", "base[:, '125 Mbit/s'].jain_ratio"),
                ("the proposal", "full[:, '125 Mbit/s'].jain_ratio"),
                ("margin alone", "margin[:, '125 Mbit/s'].jain_ratio"),
                ("conservation alone", "conservation[:, '125 Mbit/s'].jain_ratio"),
            ),
            kept=SPREADS,
            points=(2, 4, 6, 8, 10),
        ),
        Panel(
            claim="E1-red",
            title="RED as the signal: marks instead of drops",
            xlabel="longest RTT over the shortest",
            ylabel="Jain's index",
            sweep=(
                ("BBRv1", "base[:, '125 Mbit/s'].jain_ratio"),
                ("the proposal, marked", "marked[:, '125 Mbit/s'].jain_ratio"),
                ("the proposal, dropped", "dropped[:, '125 Mbit/s'].jain_ratio"),
            ),
            kept=SPREADS,
            points=(2, 4, 6, 8, 10),
        ),
    ),
    "data-centre": (
        Panel(
            claim="C12",
            title="Queue of 2000 flows at 50 Gbit/s; half of them start at 0.2 s",
            xlabel="time (s)",
            ylabel="queue (µs)",
            time=(("DCTCP", "dctcp"), ("DCTCP, 250 flows", "few"), ("BBR.Swift", "swift")),
            query="SELECT t_ns / 1e9 AS x, delay_ns / 1e3 AS y FROM queue WHERE link = 0",
            more=_at(80, "marks\nabove"),
        ),
        Panel(
            claim="C4-hang",
            title="The rate falls from 1 Gbit/s to 1 Mbit/s at 0 s, RTT 40 ms",
            xlabel="time (s)",
            ylabel="in flight (packets)",
            time=(
                ("BBRv1", "bbr1['1 Mbit/s, 5 kB']"),
                ("BBRv2", "bbr2['1 Mbit/s, 5 kB']"),
                ("Reno, RACK", "rack['1 Mbit/s, 5 kB']"),
                ("Reno, RACK and PRR", "prr['1 Mbit/s, 5 kB']"),
            ),
            query="WITH c AS (SELECT MAX(t_ns) AS t0 FROM events "
            "WHERE CAST(key AS VARCHAR) = 'rate') "
            "SELECT (s.t_ns - c.t0) / 1e9 AS x, s.in_flight_bytes / 1448 AS y "
            "FROM samples s CROSS JOIN c WHERE s.in_flight_bytes > 0 "
            "AND s.t_ns >= c.t0 - 200000000 AND s.t_ns <= c.t0 + 2500000000 ORDER BY x",
            log=True,
        ),
    ),
    "questions": (
        Panel(
            claim="H1",
            title="36 Mbit/s fall to 2 at 5 s; 40 ms, 1000 packets of buffer",
            xlabel="time (s)",
            ylabel="RTT (ms)",
            time=(("BBRv3", "v3"), ("BBRv3, pull request 5", "down"), ("BBRv1", "v1")),
            query="SELECT t_ns / 1e9 AS x, rtt_ns / 1e6 AS y FROM samples "
            "WHERE rtt_ns > 0 AND t_ns % 500000000 = 0",
            log=True,
        ),
        Panel(
            claim="H1-map",
            title="Where BBRv3 keeps its old max_bw, by base RTT; 36 Mbit/s before",
            xlabel="standing RTT: two old BDPs at the new rate (s)",
            ylabel="share of 20 offsets",
            sweep=tuple(
                (label, f"{case}.stale_ratio")
                for label, case in (
                    ("10 ms", "r10"),
                    ("20 ms", "r20"),
                    ("40 ms", "r40"),
                    ("80 ms", "r80"),
                    ("40 ms, min_rtt stays", "r40a"),
                )
            ),
            points=(0.18, 0.22, 0.26, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7),
        ),
    ),
    "filter": (
        Panel(
            claim="H1-cost",
            title="One BBRv3 flow beside one CUBIC; 10 Mbit/s, 40 ms",
            xlabel="buffer (BDP)",
            ylabel="share of BBRv3",
            sweep=(
                ("draft", "cubic_base.flows[0].share_ratio"),
                ("on entering DOWN", "cubic_down.flows[0].share_ratio"),
            ),
            names=("1", "2", "8", "32"),
        ),
    ),
    "probe-rtt": (
        Panel(
            claim="H3",
            title="Eight BBRv3 flows; 50 Mbit/s, 30 BDP of buffer",
            xlabel="base RTT",
            ylabel="share with inflated min_rtt",
            sweep=(
                ("5 s, 10 s", "draft['8', :, '30 bdp'].inflated_ratio"),
                ("5 s, 20 s", "twenty['8', :, '30 bdp'].inflated_ratio"),
                ("10 s, 10 s", "equal['8', :, '30 bdp'].inflated_ratio"),
                ("10 s, 10 s, min_rtt before", "prior['8', :, '30 bdp'].inflated_ratio"),
            ),
            kept={"flows.0.count": ("8",), "path.queue.size": ("30 bdp",)},
            names=("10 ms", "40 ms", "100 ms"),
            top=1.6,
        ),
    ),
    "gain": (
        Panel(
            claim="B2-gain",
            title="Four flows of Linux's BBRv3, cwnd gain 2; 50 Mbit/s, 40 ms, 100 BDP",
            xlabel="pacing gain of ProbeBW_DOWN",
            ylabel="runs that converge",
            sweep=(("20 seeds", "defined(g.convergence_ns)"),),
            names=(".75", ".8", ".85", ".9", ".95"),
            top=1.05,
        ),
    ),
    "spurious-loss": (
        Panel(
            claim="H4",
            title="max_bw after packets were held; 20 Mbit/s, 40 ms, 2 BDP of buffer",
            xlabel="packets held, and for how long",
            ylabel="max_bw over the link's rate",
            sweep=(
                ("draft", "draft.over_ratio"),
                ("pull request 56", "pr.over_ratio"),
                ("draft, no undo", "blind.over_ratio"),
                ("pull request 56, no undo", "blind_pr.over_ratio"),
            ),
            names=("10\n60 ms", "30\n60 ms", "130\n60 ms", "130\n600 ms", "all\n600 ms"),
            top=2.2,
        ),
    ),
    "ecn": tuple(
        Panel(
            claim=claim,
            title=f"Beside {peer}; 20 Mbit/s, 40 ms, 4 BDP of buffer",
            xlabel="queue",
            ylabel="share of the link",
            sweep=sweep,
            names=("CoDel", "RED", "step"),
            top=1.05,
        )
        for claim, peer, sweep in (
            ("H5", "CUBIC with ECN", _beside("cubic", RESPONSES)),
            ("H5", "DCTCP", _beside("dctcp", RESPONSES)),
            ("H5-linux", "DCTCP, Linux's rules changed", _beside("dctcp", RULES)),
        )
    ),
}


def sheet(panels: tuple[Panel, ...], results: list[Result]) -> Drawing:
    """Draw panels one below the other."""
    with styled(None, **SETTINGS):
        figure = canvas(WIDTH, HEIGHT * len(panels), "")
        for axes, panel, result in zip(
            figure.subplots(len(panels), squeeze=False)[:, 0], panels, results, strict=True
        ):
            panel.draw(axes, result)
            axes.legend(loc="best", handlelength=1.6)
        return literal(figure)


def readme() -> Drawing:
    """Draw the picture of README: four flows share a link."""
    run = paceline.run(ROOT / "data" / "scenarios" / "bbr3" / "four-flows-50M-40ms-1bdp.toml")
    return run.plot("throughput", "rtt", "queue", "window")


def example(result: Result) -> None:
    """Write the example at the top of the page, from a full run of its claim."""
    value, *interval = result.shown().replace(" [", "\n[").splitlines()
    cells = [
        ["Claim", result.claim.id],
        ["Published", "... BBRv2 misses its fair share, BBRv3 ..."],
        ["Measured", value, *interval],
        ["Verdict", *textwrap.wrap(in_words(result.verdict), 18)],
    ]
    lines = [f"{a:8}{b:47}{c:18}{d}".rstrip() for a, b, c, d in zip_longest(*cells, fillvalue="")]
    page = ROOT / "docs" / "claims.md"
    before, _, after = page.read_text("utf-8").split("```\n", 2)
    page.write_text("```\n".join([before, "\n".join([*lines, ""]), after]), "utf-8")


def main(names: list[str]) -> None:
    """Run what the pictures of these sources need, or of all, and write them."""
    if names == ["readme"]:
        path = ROOT / "docs" / "four-flows.png"
        write(readme(), path, "png")
        small(path)
        return
    known = load(ROOT / "data" / "claims")
    OUT.mkdir(exist_ok=True)
    for name in names or SHEETS:
        claims = [panel.with_queries(find(known, [panel.claim])[0]) for panel in SHEETS[name]]
        results = Campaign(claims).verify().results
        path = OUT / f"{name}.svg"
        write(sheet(SHEETS[name], results), path, "svg")
        small(path)
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    if not names:
        example(Campaign(find(known, ["B1"])).verify().results[0])


if __name__ == "__main__":
    main(sys.argv[1:])
