"""The criteria of RFC 9743 that a machine can check, and controllers in pairs.

The criteria are claims about ``{cc}`` in a file of their own; what is measured and judged is what
claims do.
"""

from paceline.study.evaluate.criteria import FILE, criteria
from paceline.study.evaluate.matrix import Matrix, Pairs

__all__ = ["FILE", "Matrix", "Pairs", "criteria"]
