"""Names: the nearest known name, and safe display."""

from __future__ import annotations

import re
from collections.abc import Iterable

from paceline import _paceline

#: Characters that a terminal obeys or hides: control characters, direction marks, lone surrogates.
UNSEEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


#: Units, which names of metrics and columns end in.
_UNIT = re.compile("_(?:ns|bps|bytes|packets|ratio|count)$")


def meant(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that a name may mean: itself, or else those that add a unit to it.

    Its words may be written as tables show them: `rtt p50` is `rtt_p50_ns`.
    """
    word, names = "_".join(name.split()), list(known)
    return [word] if word in names else [one for one in names if _UNIT.sub("", one) == word]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped one is nearest to, if one is near."""
    # Names from the command line and of files may contain bytes that are not text.
    text = name.encode("utf-8", "replace").decode()
    return _paceline.nearest(text, sorted(one for one in known if not UNSEEN.search(one)))


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for a name that is not known."""
    near = nearest(name, known)
    return f"did you mean {near}?" if near else otherwise


def visible(text: str) -> str:
    """Return a text with escapes for characters that a terminal would obey."""
    return UNSEEN.sub(lambda match: ascii(match[0])[1:-1], text)
