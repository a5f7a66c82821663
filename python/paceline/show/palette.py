"""Colours and dashes: the same for the same flow everywhere, and safe for colour-blind readers.

Colours are those of Okabe and Ito, "Color Universal Design" (2008), without the yellow, which is
too pale for lines on white. A flow past the seventh has a colour again, but another dash.
"""

from __future__ import annotations

from typing import NamedTuple

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_DASHES: tuple[tuple[int, ...], ...] = ((), (8, 3), (2, 2), (8, 3, 2, 3))

#: For lines that belong to no flow: capacity, limits.
NEUTRAL = "#666666"

#: For several quantities of one flow.
QUANTITIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")

_TINTS = ("#D6E6F2", "#F8E3C4", "#CFEBE0", "#F3DFEA", "#E3E3E3", "#F6D3BD", "#E0F0FA", "#FBF7CC")


class Style(NamedTuple):
    """How a line looks."""

    colour: str
    dash: tuple[int, ...]


def flow_style(index: int) -> Style:
    """Return the style of the flow at `index`; neighbours differ in colour and in dash."""
    return Style(_COLOURS[index % len(_COLOURS)], _DASHES[index % len(_DASHES)])


def quantity_style(index: int) -> Style:
    """Return the style of the `index`-th quantity in a panel about one flow."""
    return Style(QUANTITIES[index % len(QUANTITIES)], _DASHES[index % len(_DASHES)])


def tints(states: list[str]) -> dict[str, str]:
    """Return a pale colour for each state of a controller."""
    return {state: _TINTS[i % len(_TINTS)] for i, state in enumerate(states)}
