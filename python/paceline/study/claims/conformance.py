"""The quantities of claims about conformance."""

from __future__ import annotations

from pathlib import Path

from paceline.errors import RunError
from paceline.study.conformance.case import CaseError, load
from paceline.study.conformance.draft import Cases


def conformance_values(folder: Path, cc: str = "bbr3") -> dict[str, float]:
    """Run the cases of a folder with `bbr3` and return the number of each verdict.

    `cc` is what it is in them, as `flows.cc` takes it.
    """
    try:
        verdicts = [result.verdict for result in Cases(load(folder), "bbr3", cc).run()]
    except CaseError as error:
        raise RunError(str(error)) from error
    return {
        "cases_count": len(verdicts),
        "cases_passed": verdicts.count("pass"),
        "cases_excused": verdicts.count("expected fail"),
        "cases_failed": verdicts.count("fail"),
    }
