"""The example test cases of the BBR draft.

A case is two files side by side: ``NN-name.toml``, a scenario like any other, and
``NN-name.steps.toml``, the draft's numbered steps, each with a query over what the run recorded.
"""

from paceline.study.conformance.case import Case, CaseError, Step, Variant, load, named
from paceline.study.conformance.draft import Cases, Result, judge

#: The suite's name, and that of its folder.
DRAFT = "draft-ietf-ccwg-bbr"

__all__ = [
    "DRAFT",
    "Case",
    "CaseError",
    "Cases",
    "Result",
    "Step",
    "Variant",
    "judge",
    "load",
    "named",
]
