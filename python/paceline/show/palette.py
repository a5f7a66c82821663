"""Colours and dashes: the same for the same flow everywhere, and safe for colour-blind readers.

Colours are those of Okabe and Ito, "Color Universal Design" (2008), without the yellow, which is
too pale for lines on white. A flow past the seventh has a colour again, but another dash.
"""

from __future__ import annotations

from typing import NamedTuple


class Style(NamedTuple):
    """The style of a line."""

    colour: str
    dash: tuple[int, ...]

    @property
    def line(self) -> str | tuple[int, tuple[int, ...]]:
        """The dash as matplotlib takes it."""
        return (0, self.dash) if self.dash else "solid"


_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_DASHES: tuple[tuple[int, ...], ...] = ((), (8, 3), (2, 2), (8, 3, 2, 3))

#: For lines that belong to no flow: capacity, limits.
NEUTRAL = "#666666"

#: For several quantities of one flow.
QUANTITIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")

#: The colour of each state, the same in every report. They are those of Tol's scheme "light"
#: ("Colour schemes", 2021, section 2), made for black text on them.
_STATES = {
    "Startup": "#77AADD",
    "STARTUP": "#77AADD",
    "StartupLongRTT": "#77AADD",
    "SlowStart": "#77AADD",
    "Drain": "#EE8866",
    "DRAIN": "#EE8866",
    "ProbeBW_DOWN": "#FFAABB",
    "ProbeBW": "#DDDDDD",
    "ProbeBW_CRUISE": "#DDDDDD",
    "PROBE_BW": "#DDDDDD",
    "CongestionAvoidance": "#DDDDDD",
    "ProbeBW_REFILL": "#99DDFF",
    "ProbeBW_UP": "#44BB99",
    "ProbeRTT": "#EEDD88",
    "PROBE_RTT": "#EEDD88",
    "Recovery": "#BBCC33",
    "Loss": "#AAAA00",
}
_LIGHT = tuple(dict.fromkeys(_STATES.values()))


#: The marks of lines, so that they differ without colour too.
MARKS = "osD^v<>PX*"


def flow_style(index: int) -> Style:
    """Return the style of the flow at `index`; neighbours differ in colour and in dash."""
    return Style(_COLOURS[index % len(_COLOURS)], _DASHES[index % len(_DASHES)])


def quantity_style(index: int) -> Style:
    """Return the style of the `index`-th quantity in a panel about one flow."""
    return Style(QUANTITIES[index % len(QUANTITIES)], _DASHES[index % len(_DASHES)])


def reference_style(index: int) -> Style:
    """Return the style of the `index`-th reference line."""
    return Style(NEUTRAL, ((6, 4), (2, 3), (10, 3, 2, 3), (1, 2))[index % 4])


def state_colour(state: str) -> str:
    """Return the colour of a controller's state; for an unlisted one, by its name."""
    return _STATES.get(state) or _LIGHT[sum(state.encode()) % len(_LIGHT)]
