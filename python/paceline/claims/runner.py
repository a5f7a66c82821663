"""Claims, measured and judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paceline import _paceline
from paceline.claims.claim import Case, Claim
from paceline.claims.expressions import Cases, ExpressionError, evaluate, interval_of
from paceline.errors import RunError, ScenarioError
from paceline.runs import Progress, run_many

#: How closely the least doubling gain is searched.
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Result:
    """What was published, what was measured, and whether it was reproduced."""

    claim: Claim
    verdict: str
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        claim = self.claim
        return {
            "id": claim.id,
            "topic": claim.topic,
            "source": claim.source,
            "published": claim.published,
            "measured": self.measured,
            "low": self.low,
            "high": self.high,
            "verdict": self.verdict,
            "why": self.why,
        }


def verify(
    claim: Claim,
    *,
    seeds: int | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Result:
    """Run a claim's scenarios and judge it."""
    try:
        cases: Cases = {
            name: _statistics(case, seeds or claim.seeds, threads, progress)
            for name, case in claim.cases.items()
        }
        values = _startup_values(claim)
        measured = float(evaluate(claim.measured, cases, values))
        ends = interval_of(claim.measured)
        low, high = (None, None)
        if ends is not None:
            low, high = (float(evaluate(end, cases, values)) for end in ends)
        missed = [text for text in claim.accept if not evaluate(text, cases, values)]
    except (ExpressionError, ScenarioError, RunError, OSError) as error:
        return Result(claim, "error", why=str(error))
    if not missed:
        return Result(claim, "reproduced", measured, low, high)
    why = "; ".join(f"not {text}" for text in missed)
    if claim.why:
        why = f"{why}. {claim.why}"
    return Result(claim, "not reproduced", measured, low, high, why)


def _statistics(
    case: Case,
    seeds: int,
    threads: int | None,
    progress: Callable[[Progress], object] | None,
) -> dict[str, dict[str, float | None]]:
    runs = run_many(
        case.scenario,
        range(1, seeds + 1),
        overrides=case.overrides,
        threads=threads,
        progress=progress,
    )
    metrics: dict[str, dict[str, float | None] | None]
    metrics = json.loads(_paceline.repeats_json([run.inner for run in runs]))["metrics"]
    undefined: dict[str, float | None] = dict.fromkeys(("mean", "median", "low", "high"))
    return {name: value or undefined for name, value in metrics.items()}


def _startup_values(claim: Claim) -> dict[str, float]:
    """Return what claims about the start-up gain are stated in, where they use it."""
    used = " ".join([claim.measured, *claim.accept])
    values: dict[str, float] = {}
    if "_gain" in used:
        values |= {key: float(v) for key, v in dict(_paceline.startup_derivation()).items()}  # type: ignore[arg-type]
    if "least_doubling_gain" in used:
        values["least_doubling_gain"] = _paceline.least_doubling_gain(_TOLERANCE)
    if claim.startup_rows:
        values["rows_equal"], values["rows_published"] = _equal_rows(claim)
    return values


def _equal_rows(claim: Claim) -> tuple[int, int]:
    """Count the printed rows that the simulator gives figure by figure, and all of them."""
    equal = 0
    published = 0
    for gain, rows in claim.startup_rows.items():
        simulated = _paceline.startup(float(gain), len(rows))
        published += len(rows)
        for row, (growth, t, number, cwnd, pif, bw) in zip(simulated, rows, strict=False):
            equal += (
                f"{row['growth']:.3f}" == growth
                and f"{row['t']:.6f}" == t
                and (str(row["round"]), str(row["cwnd"]), str(row["pif"])) == (number, cwnd, pif)
                # The published lines are cut at column 77, within the last figure.
                and f"{row['bw']:.6f}".startswith(bw)
            )
    return equal, published
