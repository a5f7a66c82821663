"""The example test cases of the BBR draft.

A case is two files side by side: ``NN-name.toml``, a scenario like any other, and
``NN-name.steps.toml``, the draft's numbered steps, each with a query over what the run recorded.
"""

from paceline.study.conformance.case import DRAFT, Case, CaseError, Step, Variant, load, named
from paceline.study.conformance.draft import Cases, Result, is_of, judge

__all__ = [
    "DRAFT",
    "Case",
    "CaseError",
    "Cases",
    "Result",
    "Step",
    "Variant",
    "is_of",
    "judge",
    "load",
    "named",
]
