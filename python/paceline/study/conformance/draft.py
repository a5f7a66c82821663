"""The draft's test cases, run and judged."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl

from paceline import _paceline, quantities
from paceline.errors import RunError, ScenarioError
from paceline.query import QueryError
from paceline.reading import read_toml
from paceline.runs import Progress, Run, load, run_jobs
from paceline.study.conformance.case import Case, CaseError, Step
from paceline.study.conformance.names import NAMES, Names


@dataclass(frozen=True)
class Result:
    """What became of one case with one controller."""

    case: Case
    controller: str
    verdict: str
    #: How many steps were judged, in all variants.
    judged: int
    #: How many of them hold.
    held: int
    #: A line for each of them.
    evidence: tuple[str, ...]
    #: The lines of those that do not do what is expected of them.
    notable: tuple[str, ...]

    def as_json(self) -> dict[str, str]:
        """Return the object that ``--json`` prints."""
        return {
            "id": self.case.id,
            "suite": "draft-ietf-ccwg-bbr",
            "controller": self.controller,
            "title": self.case.title,
            "verdict": self.verdict,
            "evidence": "\n".join(self.evidence),
        }


def run_case(
    case: Case,
    controller: str,
    *,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Result:
    """Run a case with a controller in every variant, side by side, and judge it."""
    names = NAMES.get(controller, Names())
    try:
        seed = _paceline.check(*load(case.scenario)).seed
        fixed = [("flows.0.cc", controller), *_states(case, names)]
        jobs = [([*variant.overrides, *fixed], seed) for variant in case.variants]
        runs = run_jobs(case.scenario, jobs, threads=threads, progress=progress)
    except (ScenarioError, RunError, OSError) as error:
        lines = (f"{case.scenario}: {error}",)
        return Result(case, controller, "fail", 0, 0, lines, lines)
    evidence: list[str] = []
    notable: list[str] = []
    failed = excused = judged = kept = 0
    #: Steps that are expected to fail with this controller on one path or another, and have not.
    unseen = dict(case.expected.get(controller, {}))
    for variant, run in zip(case.variants, runs, strict=True):
        expected = case.expected.get(controller, {}) | variant.expected
        for held, step, found, absent in _judge(case, run, names):
            where = f"{step.number} ({variant.name})" if variant.name else str(step.number)
            line = f"step {where} {'holds' if held else 'does not hold'}: {step.says}{found}"
            reason = absent or expected.get(step.number)
            stale = held and step.number in variant.expected
            if not held:
                unseen.pop(step.number, None)
                excused += reason is not None
                line += f" [expected: {reason}]" if reason else ""
            elif stale:
                line += f" [expected to fail: {reason}]"
            failed += stale or (not held and reason is None)
            judged += 1
            kept += held
            evidence.append(line)
            if stale or not held:
                notable.append(line)
    for number, reason in unseen.items():
        line = f"step {number} holds on every path [expected to fail on one: {reason}]"
        evidence.append(line)
        notable.append(line)
    verdict = "fail" if failed or unseen else "expected fail" if excused else "pass"
    return Result(case, controller, verdict, judged, kept, tuple(evidence), tuple(notable))


def _states(case: Case, names: Names) -> Iterator[tuple[str, str]]:
    """Return what sets the states that a scenario's events wait for to the controller's names."""
    document = read_toml(case.scenario)
    for number, event in enumerate(document.get("events", [])):
        when = event["when"]
        if isinstance(when, dict) and when.get("enters") in names.states:
            yield f"events.{number}.when.enters", names.states[when["enters"]]


def _judge(case: Case, run: Run, names: Names) -> Iterator[tuple[bool, Step, str, str | None]]:
    """Return for each step whether it holds, what was found, and why it cannot be asked."""
    tables = tables_of(run, names)
    for step in case.steps:
        try:
            rows = step.query.ask(tables)
        except pl.exceptions.ColumnNotFoundError as error:
            column = _column(error)
            yield False, step, f"; not recorded: {column}", names.absent.get(column)
            continue
        except QueryError as error:
            raise CaseError(f"{case.id}, step {step.number}: its query {error}") from error
        except pl.exceptions.PolarsError as error:
            raise CaseError(f"{case.id}, step {step.number}: {error}") from error
        if "holds" not in rows.columns or rows.height > 1:
            raise CaseError(
                f"{case.id}, step {step.number}: a query gives one row with a column `holds`"
            )
        if rows.height == 0:
            yield False, step, "; it never came to that", None
            continue
        row = rows.row(0, named=True)
        held = row.pop("holds")
        yield held is True or held == 1, step, _words(row), None


def _column(error: Exception) -> str:
    """Return the name in polars' message: unable to find column "name"; ..."""
    _, _, rest = str(error).partition('"')
    return rest.partition('"')[0]


def _words(row: Mapping[str, Any]) -> str:
    found = (
        f"{name} {value}" if isinstance(value, str | bool) else _number(name, value)
        for name, value in row.items()
    )
    text = ", ".join(found)
    return f"; {text}" if text else ""


def _number(name: str, value: float | Decimal | None) -> str:
    return f"{name} {quantities.quantity(name, None if value is None else float(value))}"


def tables_of(run: Run, names: Names) -> dict[str, pl.DataFrame]:
    """Return the tables that a step's query may ask.

    `samples`: the first flow's, with `visit` (which stay in a state this is, from 0) and `nth`
    (which stay in this state, from 1). `visits`: a row for each stay: `visit`, `phase`, `nth`,
    `came_from`, `enter_ns`, `leave_ns`, `went_to`; the last has neither end nor successor.
    `events` and `queue` as recorded. `path`: one row: `link_bps`, `goodput_bps` (less headers),
    `base_rtt_ns`, `pipe_bytes` (goodput times RTT), `mss_bytes`, all as at the start, and `end_ns`.
    """
    drafts = {own: drafts for drafts, own in names.states.items()}
    visits = _visits(run.events).with_columns(
        pl.col("phase", "came_from", "went_to").replace(drafts)
    )
    samples = run.samples.filter(pl.col("flow") == 0).sort("t_ns", maintain_order=True)
    samples = samples.rename(names.columns, strict=False).with_columns(
        pl.col("phase").cast(pl.Utf8).replace(drafts)
    )
    entered = visits.select("enter_ns", "visit", "nth")
    samples = samples.join_asof(entered, left_on="t_ns", right_on="enter_ns").drop("enter_ns")
    flow = run.flows.row(0, named=True)
    link = run.queue.row(0, named=True)
    header = tomllib.loads(run.scenario_toml)["flows"][0]["header"]
    wire = flow["mss_bytes"] + int(header.removesuffix(" B"))
    goodput = link["rate_bps"] * flow["mss_bytes"] // wire
    path = {
        "link_bps": link["rate_bps"],
        "goodput_bps": goodput,
        "base_rtt_ns": flow["base_rtt_ns"],
        "pipe_bytes": goodput * flow["base_rtt_ns"] // 8_000_000_000,
        "mss_bytes": flow["mss_bytes"],
        "end_ns": run.queue["t_ns"].max(),
    }
    return {
        "samples": samples,
        "visits": visits,
        "events": run.events.with_columns(
            pl.col("kind", "from", "detail", "key", "unit").cast(pl.Utf8)
        ),
        "queue": run.queue,
        "path": pl.DataFrame([path]),
    }


def _visits(events: pl.DataFrame) -> pl.DataFrame:
    states = events.filter((pl.col("flow") == 0) & (pl.col("kind") == "state"))
    return (
        states.select(
            pl.col("detail").cast(pl.Utf8).alias("phase"),
            pl.col("from").cast(pl.Utf8).alias("came_from"),
            pl.col("t_ns").alias("enter_ns"),
            pl.col("t_ns").shift(-1).alias("leave_ns"),
            pl.col("detail").cast(pl.Utf8).shift(-1).alias("went_to"),
        )
        .with_row_index("visit")
        .with_columns(pl.int_range(1, pl.len() + 1).over("phase").alias("nth"))
    )
