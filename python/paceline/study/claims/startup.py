"""The quantities of claims about the start-up gain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from paceline import _paceline

#: Precision of the search for the smallest doubling gain.
_TOLERANCE = 1e-4


def startup_values(
    rows: Mapping[str, Sequence[Sequence[str]]], used: Collection[str]
) -> dict[str, float]:
    """Return those of the names used that are about the start-up gain, with their values."""
    gains: Any = _paceline.startup_derivation()
    values: dict[str, float] = dict(gains)
    if "least_doubling_gain" in used:
        values["least_doubling_gain"] = _paceline.least_doubling_gain(_TOLERANCE)
    if rows:
        values["rows_equal"], values["rows_published"] = _equal_rows(rows)
    return values


def _equal_rows(published: Mapping[str, Sequence[Sequence[str]]]) -> tuple[int, int]:
    """Count the printed rows that the simulator reproduces digit by digit, and all rows."""
    equal = 0
    for gain, rows in published.items():
        simulated = _paceline.startup(float(gain), len(rows))
        for row, (growth, t, number, cwnd, pif, bw) in zip(simulated, rows, strict=False):
            equal += (
                f"{row['growth']:.3f}" == growth
                and f"{row['t']:.6f}" == t
                and (str(row["round"]), str(row["cwnd"]), str(row["pif"])) == (number, cwnd, pif)
                # The published lines are cut at column 77, within the last figure.
                and f"{row['bw']:.6f}".startswith(bw)
            )
    return equal, sum(map(len, published.values()))
