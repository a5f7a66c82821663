"""The canvas of a study's pictures: identical bytes every time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from paceline.show.figure import SETTINGS

#: The look of labels below a picture that have no room side by side.
TURNED: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of every figure, whatever this machine's is."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield


def canvas(width: float, height: float, title: str) -> Figure:
    """Return an empty figure with a title, its size in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    return figure
