"""The name that someone may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped one is nearest to, if one is near."""
    by_form = {form.casefold(): form for form in sorted(known)}
    near = difflib.get_close_matches(name.casefold(), by_form, n=1, cutoff=0.5)
    return by_form[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for a name that is not known."""
    near = nearest(name, known)
    return f"did you mean {near}?" if near else otherwise
