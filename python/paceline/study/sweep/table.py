"""A sweep as a table: a row for each run, or for each point."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from paceline import grid, store
from paceline.measures import labelled
from paceline.quantities import number
from paceline.statistics import of_count

if TYPE_CHECKING:
    from paceline.study.sweep.result import Sweep

Format = Literal["csv", "parquet", "latex"]

#: The end of a file's name.
ENDS: dict[Format, str] = {"csv": "csv", "parquet": "parquet", "latex": "tex"}

#: What LaTeX takes for a command.
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def write(
    sweep: Sweep, form: Format, place: Path, metrics: Sequence[str] = (), *, mean: bool = False
) -> None:
    """Write a row for each run, or with `mean` for each point: means with their 95 % intervals.

    Columns are those of `Sweep.frame` and `Sweep.mean`; a table for a paper has the metrics alone.
    """
    if form == "latex":
        place.write_text(_latex(sweep, metrics or sweep.metrics, mean=mean), encoding="utf-8")
        return
    frame = sweep.mean(*metrics) if mean else sweep.frame
    if form == "csv":
        frame.write_csv(place)
    else:
        place.write_bytes(store.parquet(frame))


def _latex(sweep: Sweep, metrics: Sequence[str], *, mean: bool) -> str:
    alone = sweep.flow_count < 2
    heads = [grid.heading(axis.name, alone=alone) for axis in sweep.grid.axes]
    rows = [[*map(grid.shown, sweep.grid.place(point))] for point in range(len(sweep.grid.points))]
    left, sure = len(heads), False
    if not mean:
        heads.append("Seed")
        rows = [[*row, str(seed)] for row in rows for seed in sweep.grid.seeds]
    for metric in metrics:
        values = [[v for v in point if v is not None] for point in sweep.values(metric)]
        head, scale = labelled(metric, [v for point in values for v in point])
        heads.append(head)
        if mean:
            cells = []
            for estimate in sweep.statistics(metric):
                cell = number(None if estimate is None else estimate["mean"], scale)
                if estimate is not None and estimate["low"] is not None:
                    sure = True
                    low, high = number(estimate["low"], scale), number(estimate["high"], scale)
                    cell += f" [{low}, {high}]"
                some = of_count(estimate)
                cells.append(cell + f" ({some})" * bool(some))
        else:
            cells = [number(v, scale) for point in sweep.values(metric) for v in point]
        rows = [[*row, cell] for row, cell in zip(rows, cells, strict=True)]
    columns = "l" * left + "r" * (len(heads) - left)
    lines = [" & ".join(map(_escaped, row)) + r" \\" for row in (heads, *rows)]
    # The end of the row before would take these for its options.
    lines = ["{}" + line if line[0] in "[*" else line for line in lines]
    intervals = ", with 95 % intervals" * sure
    means = f"Means of {len(sweep.grid.seeds)} runs{intervals}. " if mean else ""
    start = [f"% {means}Needs the package booktabs.", rf"\begin{{tabular}}{{{columns}}}"]
    table = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*start, *table, ""])


def _escaped(text: str) -> str:
    special = re.compile(r"[\\~^&%$#_{}]")
    return " ".join(special.sub(lambda c: _SPECIAL.get(c[0], "\\" + c[0]), text).split())
