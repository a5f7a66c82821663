"""Published claims, re-run: what was published, what is measured, and the verdict.

A claim is data: its scenarios, its published figure with the source, and its acceptance as
expressions over what was measured. The files lie in ``data/claims/``.
"""

from paceline.study.claims.claim import Claim
from paceline.study.claims.reader import find, load
from paceline.study.claims.results import Result
from paceline.study.claims.runner import Campaign, Verdicts
from paceline.study.claims.where import ClaimError

__all__ = ["Campaign", "Claim", "ClaimError", "Result", "Verdicts", "find", "load"]
