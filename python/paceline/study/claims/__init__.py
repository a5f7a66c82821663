"""Published claims, re-run: what was published, what is measured, and the verdict.

A claim is data: its scenarios, its published figure with the source, and its acceptance as
expressions over what was measured. The files lie in ``claims/``.
"""

from paceline.study.claims.claim import Claim, ClaimError, find, load
from paceline.study.claims.runner import Campaign, Result, Verdicts

__all__ = ["Campaign", "Claim", "ClaimError", "Result", "Verdicts", "find", "load"]
