"""Names: the one that someone may have meant, and how they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from paceline import _paceline


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped one is nearest to, if one is near."""
    # A name from the command line may hold bytes that are no text.
    text = name.encode("utf-8", "replace").decode()
    return _paceline.nearest(text, sorted(known))


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for a name that is not known."""
    near = nearest(name, known)
    return f"did you mean {near}?" if near else otherwise


#: What a terminal obeys or hides: control characters, marks of direction, halves of pairs.
UNSEEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return a text with what a terminal would obey written out."""
    return UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)
