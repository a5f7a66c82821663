"""Writes docs/stacks/reference.md: the BBR of each QUIC stack beside the reference traces.

`make stacks` runs it after the sweeps, `make stacks-reference` alone, in a minute. Libraries in
target/guests are stacks, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from generate import table as markdown
from matplotlib.patches import Patch
from PIL import Image
from small import small
from stacks import NOTES, ROOT, libraries

import paceline
from paceline import _paceline, guests
from paceline.cli.guests import bring
from paceline.quantities import scale_of
from paceline.reading import read_toml
from paceline.show.figure import canvas, styled, write
from paceline.show.palette import NEUTRAL, QUANTITIES, state_colour
from paceline.study.conformance.departure import (
    Round,
    packets_departure,
    rounds,
    states_departure,
    stays,
)
from paceline.study.conformance.reference import Reference, references
from paceline.study.conformance.reference import run as run_reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CASES = ROOT / "data" / "conformance" / "draft-ietf-ccwg-bbr"
PAGE = NOTES / "reference.md"
#: What explains the main departure of a controller.
CAUSES = {
    "quinn:bbr": "reports.md#quinn-bbr-is-not-paced-at-its-rate",
    "noq:bbr3": "reports.md#noq-bbr3-loses-its-bandwidth-estimate-in-cruise",
    "s2n:bbr": "reports.md#s2n-quic-bbr-keeps-a-standing-queue",
    "ngtcp2:bbr": "reports.md#ngtcp2-bbr-does-not-leave-startup-on-loss",
    "picoquic:bbr": "reports.md#picoquic-bbr-never-probes-for-reno-coexistence",
    "quiche:bbr2": "reports.md#quiche-bbr2-keeps-a-standing-queue",
    "tquic:bbr3": "reports.md#tquic-bbr3-takes-every-round-for-a-round-with-loss",
}
#: The stacks that take our controllers; a library has its own.
BUILT_IN = {name for name, *_ in _paceline.stacks()}


@dataclass(frozen=True)
class Subject:
    """What is laid beside the reference."""

    title: str
    about: str
    #: Keys of each flow.
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def picture(self) -> str:
        """The name of its picture."""
        return f"reference-{self.title.replace(':', '-').replace(' ', '-')}.png"


def subjects() -> list[Subject]:
    """Return Linux's BBRv3, the BBR of each stack, and ours over that stack."""
    known = [
        Subject(
            "bbr3-linux",
            "Linux's BBRv3 over our transport.",
            {"cc": "bbr3-linux"},
        )
    ]
    for stack in guests.stacks():
        for name in (name for name in stack.controllers if "bbr" in name):
            cc = f"{stack.name}:{name}"
            cause = f" [Why]({CAUSES[cc]})." if cc in CAUSES else ""
            known.append(Subject(cc, f"Version: {stack.version}.{cause}", {"cc": cc}))
        if stack.name in BUILT_IN:
            about = (
                f"Our `bbr3` in place of {stack.name}'s own BBR: what the transport alone changes."
            )
            known.append(
                Subject(f"bbr3 over {stack.name}", about, {"cc": "bbr3", "stack": stack.name})
            )
    return known


def beside(subject: Subject, reference: Reference) -> paceline.Run:
    """Run a subject on the path of a reference."""
    flows = range(len(read_toml(reference.scenario)["flows"]))
    given = {
        f"flows.{flow}.{key}": value for flow in flows for key, value in subject.settings.items()
    }
    return paceline.run(reference.scenario, overrides=given)


def section(subject: Subject, runs: Sequence[tuple[Reference, paceline.Run]]) -> str:
    """Compare a subject with each reference, and draw it."""
    ours = [run for _, run in runs]
    theirs = [beside(subject, reference) for reference, _ in runs]
    rows = []
    for (reference, run), other in zip(runs, theirs, strict=True):
        states = states_departure(run, other)
        known = [] if states is None else [states]
        rows.append([f"`{reference.id}`", *known, packets_departure(run, other)])
    columns, about = ["baseline", "by its states", "by its packets"], subject.about
    if len(rows[0]) < len(columns):
        columns.remove("by its states")
        about += " It tells no state, so its packets are compared."
    draw(subject, [one for one, _ in runs], ours, theirs)
    return (
        f"## {subject.title}\n\n{about}\n\n"
        f"![States, rate and RTT of {subject.title} beside the reference]({subject.picture})\n\n"
        + markdown(columns, rows)
    )


#: The strips of states above a panel, and the panel, as heights.
HEIGHTS = (0.13, 0.13, 1.0)


def draw(
    subject: Subject,
    cases: Sequence[Reference],
    ours: Sequence[paceline.Run],
    theirs: Sequence[paceline.Run],
) -> None:
    """Draw a row for each baseline: strips of states, delivery rate and RTT by round."""
    with styled(None, **{"font.size": 7, "axes.titlesize": 7, "savefig.dpi": 100}):
        figure = canvas(9, 1.75 * len(cases) + 0.5, "")
        grid = figure.add_gridspec(
            len(HEIGHTS) * len(cases), 2, height_ratios=HEIGHTS * len(cases), hspace=0.0
        )
        states: dict[str, None] = {}
        for row, (case, one, other) in enumerate(zip(cases, ours, theirs, strict=True)):
            base = int(one.flows["base_rtt_ns"][0])
            end = max(float(run.samples["t_ns"].max()) for run in (one, other)) / 1e9  # type: ignore[arg-type]
            (began, old), (begun, new) = (rounds(run, base) for run in (one, other))
            for column in range(2):
                places = [figure.add_subplot(grid[3 * row + nth, column]) for nth in range(3)]
                for place, run, name in zip(places, (one, other), ("ref.", "run"), strict=False):
                    states |= strip(place, run, name, end)
                axis = places[2]
                axis.set_xlim(0, end)
                if column == 0:
                    places[0].set_title(case.id)
                    lines(axis, "_bps", [(began, old), (begun, new)])
                else:
                    lines(axis, "_ns", [(began, old), (begun, new)])
                if row == len(cases) - 1:
                    axis.set_xlabel("time (s)")
        handles = [Patch(color=state_colour(state), label=state) for state in states]
        handles += [
            Patch(color=NEUTRAL, label="reference"),
            Patch(color=QUANTITIES[0], label=subject.title),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=5)
        write(figure, PAGE.with_name(subject.picture), "png")
        # Otherwise states of few pixels share a colour: Drain looks like ProbeRTT.
        small(PAGE.with_name(subject.picture), Image.Quantize.MAXCOVERAGE)


def strip(axis: Axes, run: paceline.Run, name: str, end: float) -> dict[str, None]:
    """Draw the states of the first flow as bands, and return them."""
    axis.set_xlim(0, end)
    axis.set_yticks([0.5], [name])
    axis.tick_params(length=0, labelbottom=False)
    axis.grid(visible=False)
    for side in axis.spines.values():
        side.set_visible(False)
    visits = stays(run)
    for stay in visits:
        begin = stay.enter_ns / 1e9
        lasts = end - begin if stay.lasts_ns is None else stay.lasts_ns / 1e9
        axis.axvspan(begin, begin + lasts, color=state_colour(stay.state), linewidth=0)
    axis.set_ylim(0, 1)
    if not visits:
        axis.text(end / 2, 0.5, "no states known", ha="center", va="center", color=NEUTRAL)
    return dict.fromkeys(stay.state for stay in visits)


def lines(axis: Axes, suffix: str, both: Sequence[tuple[int, Sequence[Round]]]) -> None:
    """Draw a quantity of the rounds of both runs, the reference in grey."""
    values = [
        [one.delivery_bps if suffix == "_bps" else one.rtt_ns for one in rows] for _, rows in both
    ]
    most = max((v for side in values for v in side if v is not None), default=1.0)
    scale = scale_of(suffix, most)
    for (start, rows), side, colour in zip(both, values, (NEUTRAL, QUANTITIES[0]), strict=True):
        times = [(start + one.begin_ns) / 1e9 for one in rows]
        shown = [float("nan") if v is None else v / scale.size for v in side]
        axis.plot(times, shown, color=colour)
    axis.set_ylim(bottom=0)
    axis.set_ylabel(f"{'delivered' if suffix == '_bps' else 'RTT'} ({scale.unit})")


def page() -> None:
    """Run each subject on each baseline, and write the page."""
    os.environ.setdefault("COLUMNS", "100")
    bring(libraries())
    cases = [one for one in references(CASES) if one.section is None]
    runs = [(one, run_reference(one)) for one in cases]
    parts = [(NOTES / "beside.txt").read_text().rstrip()]
    rows = [[f"`{one.id}`", one.about] for one in cases]
    parts.append(markdown(["baseline", "what the reference shows"], rows).rstrip())
    parts += [section(subject, runs).rstrip() for subject in subjects()]
    made = f"Run on {datetime.now(UTC):%Y-%m-%d} with Paceline {paceline.__version__}."
    PAGE.write_text(
        "<!-- Written by docs/beside.py; edit docs/stacks/beside.txt. -->\n\n"
        + "\n\n".join(parts)
        + f"\n\n{made}\n"
    )


if __name__ == "__main__":
    page()
