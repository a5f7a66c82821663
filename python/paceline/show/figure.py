"""A run as a figure for a paper: the page's plots, with identical bytes every time."""

from __future__ import annotations

import math
import re
import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from paceline.names import visible
from paceline.show.palette import Style, state_colour
from paceline.show.panels import Band, Panel, Sketch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from paceline.runs import Run

#: The style of every figure.
SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 0.9,
    "legend.frameon": False,
    "legend.fontsize": 7,
    # The seed of SVG element ids, which are random otherwise.
    "svg.hashsalt": "paceline",
}

#: The opacity of a state's colour behind lines.
_PALE = 0.4

#: Maximum number of entries in a legend; the rest is counted.
_LEGEND = 14


def draw(run: Run, flow: int | None = None) -> Figure:
    """Draw a run; `flow` chooses the flow of the detailed panels, the first if not given."""
    sketch = Sketch(run)
    numbers = [int(n) for n in sketch.flows["flow"]]
    if flow is not None and flow not in numbers:
        raise ValueError(f"the run has no flow {flow}; its flows are {numbers[0]} to {numbers[-1]}")
    detail = sketch.detail(numbers[0] if flow is None else flow)
    panels = [(panel, list[Band]()) for panel in sketch.overview()]
    panels += [(panel, detail.bands) for panel in detail.panels]
    return sheet(f"{run.scenario}, seed {run.seed}", panels, sketch.end_ns / 1e9)


def sheet(title: str, panels: list[tuple[Panel, list[Band]]], end: float) -> Figure:
    """Draw panels one below the other, with their backgrounds, up to a time in seconds."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        figure = Figure(figsize=(9, 2.0 * len(panels) + 0.6), layout="constrained", dpi=150)
        FigureCanvasAgg(figure)
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for ax, (panel, bands) in zip(axes, panels, strict=True):
            _panel(ax, panel, bands)
        axes[-1].set_xlabel("time (s)")
        axes[-1].set_xlim(0, end)
    return literal(figure)


def plain(name: str) -> str:
    """Return a name escaped for matplotlib, which reads text between $ as a formula."""
    return re.sub(r"(?<!\\)\$", r"\\$", visible(name))


def literal(figure: Figure) -> Figure:
    """Return a figure that shows all its names literally, not as TeX markup.

    Tick labels are set later: the code that sets them calls `plain`.
    """
    for text in figure.findobj(Text):
        text.set_text(plain(text.get_text()))
    return figure


def write(figure: Figure, path: Path, format: str) -> None:  # noqa: A002
    """Write a figure as ``png``, ``svg`` or ``pdf``, the same bytes every time."""
    path.write_bytes(saved(figure, format))


#: No date, no version: nothing but the drawing.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def saved(figure: Figure, format: str) -> bytes:  # noqa: A002
    """Return a figure as ``png``, ``svg`` or ``pdf``, the same bytes every time."""
    out = BytesIO()
    # Type 42 keeps text in a PDF as text.
    with (
        mpl.rc_context({"svg.hashsalt": "paceline", "pdf.fonttype": 42}),
        warnings.catch_warnings(),
    ):
        # For a name in a script that no font here has, the picture shows boxes.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font")
        figure.savefig(out, format=format, metadata=_METADATA[format])
    return out.getvalue()


def _line(style: Style) -> dict[str, Any]:
    dash = (0, style.dash) if style.dash else "solid"
    return {"color": style.colour, "linestyle": dash}


def _panel(ax: Axes, panel: Panel, bands: list[Band]) -> None:
    ax.set_title(panel.title)
    ax.set_ylabel(panel.unit)
    handles: list[Line2D | Patch] = []
    if panel.stacked:
        rows = [[v or 0.0 for v in s.values] for s in panel.series]
        colours = [s.style.colour for s in panel.series]
        if rows:
            ax.stackplot(
                panel.times, *rows, colors=colours, alpha=0.75, edgecolor="white", linewidth=0.3
            )
        handles += [Patch(color=s.style.colour, alpha=0.75, label=s.label) for s in panel.series]
    else:
        right = ax.twinx() if panel.unit_right else None
        if right is not None:
            right.set_ylabel(panel.unit_right or "")
            right.grid(visible=False)
        for series in panel.series:
            target = right if series.right and right is not None else ax
            values = [math.nan if v is None else v for v in series.values]
            target.plot(panel.times, values, **_line(series.style))
            handles.append(Line2D([], [], label=series.label, **_line(series.style)))
        if right is not None:
            right.set_ylim(bottom=0)
    for series in panel.references:
        values = [math.nan if v is None else v for v in series.values]
        ax.plot(panel.times, values, **_line(series.style), linewidth=0.7)
        handles.append(Line2D([], [], label=series.label, **_line(series.style), linewidth=0.7))
    ax.set_ylim(bottom=0)
    states = list(dict.fromkeys(band.state for band in bands))
    for band in bands:
        ax.axvspan(
            band.start, band.end, color=state_colour(band.state), alpha=_PALE, linewidth=0, zorder=0
        )
    handles += [Patch(color=state_colour(s), alpha=_PALE, label=s) for s in states]
    if len(handles) > _LEGEND:
        more = Line2D([], [], linestyle="none", label=f"and {len(handles) - _LEGEND} more")
        handles = [*handles[:_LEGEND], more]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.06, 1.0), borderaxespad=0)
