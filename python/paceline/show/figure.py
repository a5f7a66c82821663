"""A run as a figure for a paper: the page's plots, with identical bytes every time."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from paceline import pages
from paceline.errors import ArgumentError, of_file
from paceline.names import did_you_mean, visible
from paceline.reading import read_text
from paceline.show.palette import Style, state_colour
from paceline.show.panels import Panel, Sketch

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
    # Text stays text, which can be searched and edited.
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    # The seed of SVG element ids, which are random otherwise.
    "svg.hashsalt": "paceline",
}

#: The look of labels below a picture that have no room side by side.
TURNED: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}

#: The place of a legend right of its picture.
BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0}

#: The widths of a paper's columns in inches, as in IEEE's and ACM's templates.
COLUMNS = {"one-column": 3.5, "two-column": 7.16}

_SIZE = re.compile(r"([0-9.]+)(?: *x *([0-9.]+))? *(in|cm|mm)")
_INCH = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4}


class Size(NamedTuple):
    """The size of a figure in inches; without a height, what is drawn decides it."""

    width: float
    height: float | None = None


def size_of(text: str) -> Size:
    """Read a size: ``3.5x2.4in``, ``88 mm``, or a paper's column; raises `ArgumentError`."""
    if text in COLUMNS:
        return Size(COLUMNS[text])
    try:
        width, height, unit = _SIZE.fullmatch(text.strip()).groups()  # type: ignore[union-attr]
        sides = [float(side) * _INCH[unit] for side in (width, height) if side]
        if all(1 <= side <= 50 for side in sides):
            return Size(*sides)
    except (AttributeError, ValueError):
        pass
    hint = f"for example 3.5x2.4in, 88mm, {', '.join(COLUMNS)}; each side from 1 to 50 in"
    raise ArgumentError(f"{text!r} is not the size of a figure", hint=hint)


@dataclass(frozen=True)
class Theme:
    """What a user chooses of the look of a figure: its size, and settings of matplotlib."""

    size: Size | None = None
    settings: Mapping[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, style: str | PathLike[str] | None, size: str | None) -> Theme:
        """Read a style file and a size; raises `ArgumentError`, and `FileError` for the file."""
        settings = _style(style) if style else {}
        if not size and "figure.figsize" in settings:
            size = "{}x{}in".format(*settings["figure.figsize"])
        return cls(size_of(size) if size else None, settings)

    @property
    def colours(self) -> Sequence[str] | None:
        """The colours of lines that a style declares."""
        cycle = self.settings.get("axes.prop_cycle")
        return None if cycle is None else cycle.by_key().get("color")


def _style(path: str | PathLike[str]) -> dict[Any, Any]:
    with of_file(path):
        lines = read_text(path).splitlines()
    known = {key for key in mpl.rcParams if not key.startswith("backend")}
    for number, line in enumerate(lines, 1):
        key = line.partition("#")[0].partition(":")[0].strip()
        if key and key not in known:
            hint = did_you_mean(key, known, "a style has lines such as `font.size: 8`")
            raise ArgumentError(f"{path}:{number}: a style has no setting {key!r}", hint=hint)
    try:
        return dict(mpl.rc_params_from_file(path, fail_on_error=True, use_default_template=False))
    except ValueError as error:
        message = str(error).strip().partition("\n")[0]
        raise ArgumentError(f"{path}: {message}", hint="correct this line of the style") from None


@contextmanager
def styled(theme: Theme | None = None, **settings: Any) -> Iterator[None]:
    """Draw in the style of every figure, whatever this machine's is.

    A script's own settings (`matplotlib.rc_context`, `matplotlib.style`) hold, and then a style's.
    """
    own = {
        key: value
        for key, value in mpl.rcParams.items()
        if not key.startswith(("backend", "figure.")) and value != mpl.rcParamsOrig[key]
    }
    with mpl.rc_context():
        mpl.rcdefaults()
        chosen: dict[Any, Any] = {**SETTINGS, **settings, **own}
        mpl.rcParams.update(chosen | dict(theme.settings if theme else {}))
        yield


class Drawing(Figure):
    """A figure that a notebook shows; it is saved with the settings with which it was drawn."""

    #: Whether somebody chose its size.
    is_sized = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        FigureCanvasAgg(self)
        self.settings = {k: v for k, v in mpl.rcParams.items() if not k.startswith("backend")}

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save it, the same bytes each time."""
        suffix = Path(fname).suffix[1:] if isinstance(fname, str | PathLike) else "png"
        options.setdefault("metadata", _METADATA.get(options.get("format") or suffix))
        with _saving(self.settings, is_sized=self.is_sized):
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        return saved(self, "png")


def canvas(width: float, height: float, title: str, theme: Theme | None = None) -> Drawing:
    """Return an empty figure with a title, its size in inches.

    A figure of a chosen size is for a paper: its caption has the title.
    """
    size = None if theme is None else theme.size
    if size is not None:
        width, height = size.width, size.height or height
    figure = Drawing(figsize=(width, height), layout="constrained", dpi=150)
    figure.is_sized = size is not None
    if title and not figure.is_sized:
        figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    return figure


F = TypeVar("F", bound=Figure)

#: The opacity of a state's colour behind lines.
_PALE = 0.4

#: Maximum number of entries in a legend; the rest is counted.
_LEGEND = 14


def draw(
    run: Run, flow: int | None = None, names: Sequence[str] = (), theme: Theme | None = None
) -> Drawing:
    """Draw a run, or the panels of it that are named.

    `flow` chooses the flow of the detailed panels, the first if not given. Raises `ArgumentError`
    for a flow or a panel that the run does not have.
    """
    sketch = Sketch(run)
    numbers = [int(n) for n in sketch.flows["flow"]]
    if flow is not None and flow not in numbers:
        hint = f"its flows are {numbers[0]} to {numbers[-1]}"
        raise ArgumentError(f"the run has no flow {flow}", hint=hint)
    detail = sketch.detail(numbers[0] if flow is None else flow)
    panels = [(panel, list[pages.Band]()) for panel in sketch.overview()]
    panels += [(panel, detail.bands) for panel in detail.panels]
    shown = chosen(panels, names)
    return sheet(f"{run.scenario}, seed {run.seed}", shown, sketch.end_ns / 1e9, theme)


def chosen(
    panels: list[tuple[Panel, list[pages.Band]]], names: Sequence[str]
) -> list[tuple[Panel, list[pages.Band]]]:
    """Return the panels that are named, or all; raises `ArgumentError`."""
    known = {panel.name: (panel, bands) for panel, bands in panels}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known, f"its panels are {', '.join(known)}")
            raise ArgumentError(f"the run has no panel {name!r}", hint=hint)
    return [known[name] for name in names] or panels


def sheet(
    title: str, panels: list[tuple[Panel, list[pages.Band]]], end: float, theme: Theme | None = None
) -> Drawing:
    """Draw panels one below the other, with their backgrounds, up to a time in seconds."""
    paper = theme is not None and theme.size is not None
    with styled(theme):
        figure = canvas(9, (1.4 if paper else 2.0) * len(panels) + 0.6, title, theme)
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        shown: list[str] = []
        for ax, (panel, bands) in zip(axes, panels, strict=True):
            handles = _panel(ax, panel, bands, (theme or Theme()).colours)
            labels = [str(handle.get_label()) for handle in handles]
            if not paper:
                ax.set_title(panel.title)
                beside: Any = {"loc": "upper left", "bbox_to_anchor": (1.06, 1)}
                ax.legend(handles=handles, borderaxespad=0, **beside)
            elif labels != shown:
                # Above the panel; the same lines are named once.
                columns = max(1, int(figure.get_figwidth() / (0.45 + 0.06 * max(map(len, labels)))))
                place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1)}
                ax.legend(handles=handles, ncols=columns, borderaxespad=0.2, **place)
                shown = labels
        axes[-1].set_xlabel("Time (s)")
        axes[-1].set_xlim(0, end)
    return literal(figure)


def plain(name: str) -> str:
    """Return a name escaped for matplotlib, which reads text between $ as a formula."""
    return re.sub(r"(?<!\\)\$", r"\\$", visible(name))


def literal(figure: F) -> F:
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
    is_sized = getattr(figure, "is_sized", False)
    with _saving(getattr(figure, "settings", SETTINGS), is_sized=is_sized):
        figure.savefig(out, format=format, metadata=_METADATA[format])
    return out.getvalue()


@contextmanager
def _saving(settings: Mapping[Any, Any], *, is_sized: bool = False) -> Iterator[None]:
    """Save with settings; raises `ArgumentError` if this machine lacks something for them."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(dict(settings))
        # For a name in a script that no font here has, the picture shows boxes.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font")
        # A chosen size may be too small; at its own, a long label may be cut.
        action: Literal["error", "ignore"] = "error" if is_sized else "ignore"
        warnings.filterwarnings(action, "constrained_layout not applied")
        try:
            yield
        except UserWarning:
            hint = "give a larger size, or draw less"
            raise ArgumentError("the figure is too small for what it shows", hint=hint) from None
        except RuntimeError as error:
            message = str(error).strip().partition("\n")[0]
            hint = "leave `text.usetex` out of the style, or install LaTeX"
            raise ArgumentError(f"the figure cannot be drawn: {message}", hint=hint) from None


def _line(style: Style) -> dict[str, Any]:
    return {"color": style.colour, "linestyle": style.line}


def _panel(
    ax: Axes, panel: Panel, bands: list[pages.Band], chosen: Sequence[str] | None
) -> list[Line2D | Patch]:
    """Draw a panel, its lines in chosen colours, and return what its legend explains."""
    ax.set_ylabel(panel.label)
    if chosen:
        panel = replace(
            panel,
            series=[
                replace(s, style=s.style._replace(colour=chosen[nth % len(chosen)]))
                for nth, s in enumerate(panel.series)
            ],
        )
    handles: list[Line2D | Patch] = []
    if panel.stacked:
        rows = [[v or 0.0 for v in s.values] for s in panel.series]
        colours = [s.style.colour for s in panel.series]
        if rows:
            edge: Any = {"edgecolor": "white", "linewidth": 0.3}
            ax.stackplot(panel.times, *rows, colors=colours, alpha=0.75, **edge)
        handles += [Patch(color=s.style.colour, alpha=0.75, label=s.label) for s in panel.series]
    else:
        right = ax.twinx() if panel.unit_right else None
        if right is not None:
            right.set_ylabel(f"Delay ({panel.unit_right})")
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
    states = list(dict.fromkeys(band["state"] for band in bands))
    for band in bands:
        span, colour = (band["start"], band["end"]), state_colour(band["state"])
        ax.axvspan(*span, color=colour, alpha=_PALE, linewidth=0, zorder=0)
    handles += [Patch(color=state_colour(s), alpha=_PALE, label=s) for s in states]
    if len(handles) > _LEGEND:
        more = Line2D([], [], linestyle="none", label=f"and {len(handles) - _LEGEND} more")
        handles = [*handles[:_LEGEND], more]
    return handles
