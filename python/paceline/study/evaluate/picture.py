"""A matrix of controllers as a picture: a panel for each measure."""

from __future__ import annotations

import math

import matplotlib as mpl
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure

from paceline.show.figure import TURNED, canvas, literal, plain, styled
from paceline.study.evaluate.matrix import MEASURES, Matrix


def draw(matrix: Matrix) -> Figure:
    """Draw a matrix: rows cause the effect, columns suffer it."""
    names = matrix.controllers
    side = 0.42 * len(names) + 1.5
    with styled():
        seeds = f"{matrix.seeds} seed{'s' * (matrix.seeds > 1)}"
        title = f"Share and harm of the column's controller against the row's; mean of {seeds}"
        figure = canvas(2 * side + 1.0, 2 * side + 0.4, title)
        panels = figure.subplots(2, 2)
        for (measure, words), axes in zip(MEASURES.items(), panels.flat, strict=True):
            cells = matrix.cells[measure]
            # Half of the link is fair; zero harm is none.
            share = measure == "share"
            norm: Normalize = TwoSlopeNorm(0.5, 0, 1) if share else TwoSlopeNorm(0, -1, 1)
            # Purple is good for the column, orange is bad.
            colours = mpl.colormaps["PuOr" if share else "PuOr_r"].with_extremes(bad="#eeeeee")
            image = axes.imshow(cells, cmap=colours, norm=norm, aspect="equal")
            axes.set_title(words)
            axes.grid(visible=False)
            axes.spines[:].set_visible(False)
            axes.set_xticks(range(len(names)), map(plain, names), fontsize=6.5, **TURNED)
            axes.set_yticks(range(len(names)), map(plain, names), fontsize=6.5)
            for y, row in enumerate(cells):
                for x, value in enumerate(row):
                    if math.isnan(value):
                        continue
                    strong = abs(value - 0.5) > 0.35 if share else abs(value) > 0.7
                    text, colour = str(round(100 * value)), "white" if strong else "black"
                    axes.text(x, y, text, ha="center", va="center", fontsize=5.5, color=colour)
            figure.colorbar(image, ax=axes, shrink=0.75, format=lambda v, _: f"{100 * v:.0f} %")
    return literal(figure)
