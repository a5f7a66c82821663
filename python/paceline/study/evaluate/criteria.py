"""Criteria: claims with a placeholder for the controller."""

from __future__ import annotations

from pathlib import Path

from paceline.reading import read_text
from paceline.study.claims.claim import Claim
from paceline.study.claims.reader import parse
from paceline.study.claims.where import ClaimError

#: Name of the file in the suite's folder.
FILE = "rfc9743.toml"

#: The placeholder for the controller.
_PLACE = "{cc}"


def criteria(folder: Path, controller: str) -> list[Claim]:
    """Return the criteria for a controller, in the order of their sections."""
    path = folder / FILE
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ClaimError(f"{path}: {error}") from error
    return sorted(parse(text.replace(_PLACE, controller), path), key=lambda claim: claim.id)
