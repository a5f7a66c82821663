"""Runs and judges the draft's test cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from paceline import _paceline, batch, guests, quantities, store
from paceline.batch import Job, Outcome, Watch, locally
from paceline.batch.ledger import Remembered
from paceline.errors import ScenarioError
from paceline.later import polars as pl
from paceline.reading import read_toml, toml
from paceline.runs import Run, load
from paceline.study.conformance.case import Case, CaseError
from paceline.study.conformance.names import NAMES, STATES, Names


@dataclass(frozen=True)
class Result:
    """The result of one case with one controller."""

    case: Case
    controller: str
    verdict: str
    #: The number of judged steps, in all variants.
    judged: int
    #: The number that hold.
    holding: int
    #: A line for each of them.
    evidence: tuple[str, ...]
    #: The lines of those with an unexpected result.
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


#: The draft's names, beyond the columns of `bbr3`, that need a controller with BBR's states.
_STATES = frozenset({"phase", "visit", "visits", "nth"})

#: Events of our transport's loss recovery, which stacks do not report.
_RECOVERY = frozenset({"recovery", "rto", "undo"})

#: The beginning of the evidence of a step that uses a missing column.
_ABSENT = "; not recorded: "

#: The beginning of the evidence of a step about something that a controller does not report.
_APART = "; not reported: "

#: The remark about a controller whose samples are never application-limited.
_NO_LIMIT = "it never says that the application limits it"

#: The remark about a stack and a step about loss recovery.
_NO_RECOVERY = "it does not say when it enters, leaves or undoes a loss recovery"

#: The remark about a step about a change of the path, which only our own records have.
_NO_CHANGES = "a recording does not have the changes of its path"

#: The end of the evidence of a step for which the record has nothing.
_NOTHING = "nothing was measured"

#: Of a step: whether it holds (none if it compares null, or comes from nothing), its number, the
#: evidence, and why it does not apply.
Judged = tuple[bool | None, int, str, str | None]


class Cases:
    """Cases with a controller, in every variant: all their runs form one batch."""

    def __init__(self, cases: Sequence[Case], controller: str, cc: str | None = None) -> None:
        self._controller = controller
        #: The controller in the form of `flows.cc`, with options if it has any.
        self._cc = cc or controller
        self._names = NAMES.get(controller, Names())
        self._cases = cases
        #: The errors in cases that cannot be run.
        self._errors: dict[str, str] = {}
        #: Why cases, or some of their steps, do not apply to the controller.
        self._beyond: dict[str, str] = {}
        self._jobs: list[Job] = []
        #: The case of each job.
        self._of: list[Case] = []
        self._is_foreign = guests.is_foreign(controller)
        if self._is_foreign:
            self._cases = [self._without_columns(case) for case in cases]
        for case in self._cases:
            if case.steps:
                self._plan(case)

    def _without_columns(self, case: Case) -> Case:
        """Keep the steps of a case that apply to a controller without `bbr3`'s columns."""
        (bbr3,) = (c for c in _paceline.controllers() if c["name"] == "bbr3")
        columns = frozenset(bbr3["state"])
        steps = tuple(step for step in case.steps if not columns & step.query.names)
        left = {step.number for step in case.steps} - {step.number for step in steps}
        if left:
            which = "each step asks" if not steps else f"steps {_listed(left)} ask"
            self._beyond[case.id] = f"{which} for variables of bbr3"
        variants = tuple(
            replace(v, expected={n: why for n, why in v.expected.items() if n not in left})
            for v in case.variants
        )
        return replace(case, steps=steps, variants=variants)

    def __len__(self) -> int:
        """Return how many runs there are."""
        return len(self._jobs)

    def _plan(self, case: Case) -> None:
        try:
            text, file = load(case.scenario)
            fixed = (("flows.0.cc", self._cc), *_states(case, self._names))
            for variant in case.variants:
                overrides = (*variant.overrides, *fixed)
                plan = guests.check(text, file, overrides)
                job = Job(text, overrides, plan.seed, "sim", file, plan.duration_ns)
                self._jobs.append(job)
                self._of.append(case)
        except (ScenarioError, OSError, ValueError) as error:
            if isinstance(error, ScenarioError) and self._is_foreign:
                self._beyond[case.id] = f"it does not run it: {error.diagnostics[0].message}"
            else:
                self._errors[case.id] = str(error)

    def run(self, *, threads: int | None = None, watch: Watch | None = None) -> list[Result]:
        """Run all cases that have not been run, and judge each.

        What has ended is kept until all has, and who asks the same again goes on there.
        """
        steps = [[(s.number, s.query.text) for s in case.steps] for case in self._of]
        key = store.key([self._jobs, steps])
        book = Remembered("conformance", key, len(self._jobs), _packed, _unpacked)
        with book:
            if book.recalled and watch is not None:
                watch.resumed(book.recalled)
            here = locally(threads)
            batch.execute(
                self._jobs, self._judged, executor=here, store=book, failures="collect", watch=watch
            )
        outcomes: dict[str, list[Outcome]] = {}
        for number, case in enumerate(self._of):
            outcomes.setdefault(case.id, []).append(book.outcomes[number])
        return [self._result(case, outcomes.get(case.id, [])) for case in self._cases]

    def _judged(self, number: int, _: Job, run: Run) -> list[Judged]:
        """Judge a run; that of a controller of others only by what it reports."""
        case = self._of[number]
        if not self._is_foreign:
            return list(_judge(case, run, self._names))
        apart: dict[int, str] = {}
        if (reason := _stateless(run, self._names)) is not None:
            waits = next(_states_awaited(case), None) is not None
            apart = {s.number: reason for s in case.steps if waits or _STATES & s.query.names}
        if not run.samples.filter(flow=0)["app_limited"].any():
            numbers = [s.number for s in case.steps if "app_limited" in s.query.names]
            apart = dict.fromkeys(numbers, _NO_LIMIT) | apart
        if ":" in self._controller:
            numbers = [s.number for s in case.steps if _RECOVERY & s.query.words]
            apart = dict.fromkeys(numbers, _NO_RECOVERY) | apart
        case = replace(case, steps=tuple(s for s in case.steps if s.number not in apart))
        left = [(None, number, f"{_APART}{why}", None) for number, why in sorted(apart.items())]
        return [*left, *_judge(case, run, self._names)]

    def _result(self, case: Case, outcomes: Sequence[Outcome]) -> Result:
        """Judge a case by the results of each variant."""
        errors = (outcome.error for outcome in outcomes if outcome.error is not None)
        error = self._errors.get(case.id) or next(errors, None)
        if error is not None:
            lines = (f"{case.scenario}: {error}",)
            return Result(case, self._controller, "fail", 0, 0, lines, lines)
        beyond = self._beyond.get(case.id)
        evidence = [f"not applicable: {beyond}"] if beyond else []
        if not case.steps or not outcomes:
            verdict, none = "not applicable", (0, 0)
            return Result(case, self._controller, verdict, *none, tuple(evidence), ())
        steps = {step.number: step for step in case.steps}
        notable: list[str] = []
        failed = excused = judged = holding = 0
        #: Steps that are expected to fail on some path, and did not.
        unseen = dict(case.expected.get(self._controller, {})) if case.on_all_paths else {}
        for variant, outcome in zip(case.variants, outcomes, strict=True):
            expected = case.expected.get(self._controller, {}) | variant.expected
            for does, number, text, absent in outcome.kept:
                holds = does is True
                where = f"{number} ({variant.name})" if variant.name else str(number)
                statement = steps[number].says
                if text.startswith(_APART):
                    unseen.pop(number, None)
                    evidence.append(f"step {where} not applicable: {statement}{text}")
                    continue
                line = f"step {where} {'holds' if holds else 'does not hold'}: {statement}{text}"
                reason = absent or expected.get(number)
                # What cannot hold for ours may hold for others.
                stale = holds and number in variant.expected and not self._is_foreign
                if not holds:
                    unseen.pop(number, None)
                    excused += reason is not None
                    line += f" [expected: {reason}]" if reason else ""
                elif stale:
                    line += f" [expected to fail: {reason}]"
                failed += stale or (not holds and reason is None)
                judged += 1
                holding += holds
                evidence.append(line)
                if stale or not holds:
                    notable.append(line)
        for number, reason in unseen.items():
            line = f"step {number} holds on every path [expected to fail on one: {reason}]"
            evidence.append(line)
            notable.append(line)
        verdict = "fail" if failed or unseen else "expected fail" if excused else "pass"
        if not judged:
            verdict = "not applicable"
        outcome_lines = tuple(evidence), tuple(notable)
        return Result(case, self._controller, verdict, judged, holding, *outcome_lines)


def judge(case: Case, run: Run) -> Result:
    """Judge a record by the steps of a case: one of ours, or one of another program.

    A step that asks for what the record does not have is not applicable, nor is a case about BBR's
    states where the record has none. Nothing says that the path was the case's.
    """
    controller = str(run.flows["cc"][0])
    names = names_of(run)
    evidence, failed, holding = [], [], 0
    left = 0
    if not has_states(run, names) and any(_STATES & step.query.names for step in case.steps):
        return Result(case, controller, "not applicable", 0, 0, (NO_STATES,), ())
    for does, number, text, absent in _judge(case, run, names):
        step = next(step for step in case.steps if step.number == number)
        statement = step.says
        if run.source is not None and "key" in step.query.names:
            does, text, absent = None, f"; {_NO_CHANGES}", None
        if does is None or text.startswith(_ABSENT):
            left += 1
            evidence.append(f"step {number} not applicable: {statement}{absent or text}")
            continue
        line = f"step {number} {'holds' if does else 'does not hold'}: {statement}{text}"
        evidence.append(line)
        holding += does
        if not does:
            failed.append(line)
    judged = len(evidence) - left
    verdict = "fail" if failed else "pass" if judged else "not applicable"
    return Result(case, controller, verdict, judged, holding, tuple(evidence), tuple(failed))


def is_of(case: Case, run: Run) -> bool:
    """Return whether a run has the path and the events of a case, on one of the case's paths.

    A recording does not say what path it had.
    """
    if run.source is not None:
        return True
    text, file = load(case.scenario)
    own, states = _path_of(run.scenario_toml), _states(case, names_of(run))
    plans = (guests.check(text, file, (*one.overrides, *states)) for one in case.variants)
    return any(_path_of(plan.toml) == own for plan in plans)


def _path_of(text: str) -> list[Any]:
    scenario = toml(text)
    return [scenario.get(section) for section in ("path", "links", "events")]


#: The remark about a record in which a flow enters no state of BBR.
NO_STATES = "the record has no BBR states"


def has_states(run: Run, names: Names) -> bool:
    """Return whether the first flow of a record enters a state of BBR.

    A qlog may have QUIC's states of congestion control instead, such as `slow_start`.
    """
    return any(phase in STATES for phase in visits_of(run, names)["phase"])


def _stateless(run: Run, names: Names) -> str | None:
    """Return why a record has none of the draft's states, if so."""
    phases = visits_of(run, names)["phase"]
    if any(plain(phase) == "probebw" for phase in phases.drop_nulls()):
        return "its PROBE_BW is not divided, as in BBRv1"
    return None if has_states(run, names) else NO_STATES


def names_of(run: Run) -> Names:
    """Return the names of the first flow's controller for the draft's states and variables."""
    names = NAMES.get(str(run.flows["cc"][0]), Names())
    if run.source is None:
        return names
    changes = run.events.filter(kind="state")
    words = {str(word) for name in ("from", "detail") for word in changes[name].drop_nulls()}
    words |= {str(word) for word in run.samples["phase"].drop_nulls().unique()}
    states = {plain(state): state for state in STATES}
    own = {states[plain(word)]: word for word in words if plain(word) in states}
    return replace(names, states={**names.states, **own})


def plain(state: str) -> str:
    """Return a state's letters: stacks write ProbeBwUp, PROBE_BW_UP and probe_bw_up."""
    return "".join(c for c in state.casefold() if c.isalnum())


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _packed(judged: list[Judged]) -> dict[str, Any]:
    return {"metrics": {}, "steps": judged}


def _unpacked(_: int, record: dict[str, Any]) -> list[Judged]:
    return [(holds, number, text, absent) for holds, number, text, absent in record["steps"]]


def _states_awaited(case: Case) -> Iterator[tuple[int, str]]:
    """Return each event of a scenario that waits for a state: its number, and the state."""
    for number, event in enumerate(read_toml(case.scenario).get("events", [])):
        when = event["when"]
        if isinstance(when, dict) and "enters" in when:
            yield number, when["enters"]


def _states(case: Case, names: Names) -> Iterator[tuple[str, str]]:
    """Return the settings that make a scenario's events wait for the controller's own states."""
    for number, state in _states_awaited(case):
        if state in names.states:
            yield f"events.{number}.when.enters", names.states[state]


def _judge(case: Case, run: Run, names: Names) -> Iterator[Judged]:
    """Judge each step in the record of a run."""
    from paceline.query import HOLDS, QueryError

    tables = tables_of(run, names)
    for step in case.steps:
        try:
            rows, measured = step.query.judge(tables)
        except pl.exceptions.ColumnNotFoundError as error:
            column = _column(error)
            yield False, step.number, f"{_ABSENT}{column}", names.absent.get(column)
            continue
        except QueryError as error:
            raise CaseError(f"{case.id}, step {step.number}: its query {error}") from error
        except pl.exceptions.PolarsError as error:
            raise CaseError(f"{case.id}, step {step.number}: {error}") from error
        if HOLDS not in rows.columns or rows.height > 1:
            raise CaseError(
                f"{case.id}, step {step.number}: a query must return one row with a column `holds`"
            )
        if rows.height == 0:
            yield False, step.number, "; it was never reached", None
            continue
        row = rows.row(0, named=True)
        holds = row.pop(HOLDS)
        if not measured:
            yield None, step.number, f"{_words(row)}; {_NOTHING}", None
            continue
        yield None if holds is None else holds == 1, step.number, _words(row), None


def _column(error: Exception) -> str:
    """Return the name in polars' message: unable to find column "name"; ..."""
    _, _, rest = str(error).partition('"')
    return rest.partition('"')[0]


def _words(row: Mapping[str, Any]) -> str:
    words = (
        f"{name} {value}" if isinstance(value, str | bool) else _number(name, value)
        for name, value in row.items()
    )
    text = ", ".join(words)
    return f"; {text}" if text else ""


def _number(name: str, value: float | Decimal | None) -> str:
    return f"{name} {quantities.quantity(name, None if value is None else float(value))}"


#: Columns of the other tables, which a query joins with `samples`.
_TAKEN = (
    *("link_bps", "goodput_bps", "base_rtt_ns", "pipe_bytes", "mss_bytes", "end_ns"),
    *("visit", "nth", "came_from", "went_to", "enter_ns", "leave_ns", "kind", "detail"),
)


def tables_of(run: Run, names: Names) -> dict[str, pl.DataFrame]:
    """Return the tables that a step's query may use.

    `samples`: the first flow's, with `visit` (which stay in a state this is, from 0) and `nth`
    (which stay in this state, from 1). `visits`: a row for each stay: `visit`, `phase`, `nth`,
    `came_from`, `enter_ns`, `leave_ns`, `went_to`; the last has neither end nor successor.
    `events` and `queue` as recorded. `path`: one row: `link_bps`, `goodput_bps` (less headers),
    `base_rtt_ns`, `pipe_bytes` (goodput times RTT), `mss_bytes`, all as at the start, and `end_ns`.
    """
    visits = visits_of(run, names)
    samples = run.samples.filter(pl.col("flow") == 0).sort("t_ns", maintain_order=True)
    # A user-defined controller's state need not have the meaning that the queries assume.
    samples = (
        samples.drop(_TAKEN, strict=False)
        .rename(names.columns, strict=False)
        .with_columns(pl.col("phase").cast(pl.Utf8).replace(names.drafts))
    )
    entered = visits.select("enter_ns", "visit", "nth")
    samples = samples.join_asof(entered, left_on="t_ns", right_on="enter_ns").drop("enter_ns")
    path = _path(run)
    return {
        "samples": samples,
        "visits": visits,
        "events": run.events.with_columns(
            pl.col("kind", "from", "detail", "key", "unit").cast(pl.Utf8)
        ),
        "queue": run.queue,
        "path": pl.DataFrame([path]),
    }


def _path(run: Run) -> dict[str, int]:
    """Return the known parameters of a record's path; fewer for recordings of other programs."""
    flow = run.flows.row(0, named=True)
    path = {"base_rtt_ns": flow["base_rtt_ns"], "mss_bytes": flow["mss_bytes"]}
    if run.queue.is_empty():
        return {**path, "end_ns": run.samples["t_ns"].max()}
    link = run.queue.row(0, named=True)
    header = toml(run.scenario_toml)["flows"][0]["header"]
    wire = flow["mss_bytes"] + quantities.size_bytes(header)
    goodput = link["rate_bps"] * flow["mss_bytes"] // wire
    return {
        **path,
        "link_bps": link["rate_bps"],
        "goodput_bps": goodput,
        "pipe_bytes": goodput * flow["base_rtt_ns"] // 8_000_000_000,
        "end_ns": run.queue["t_ns"].max(),
    }


def visits_of(run: Run, names: Names) -> pl.DataFrame:
    """Return the table `visits`: a row for each stay of the first flow in a state."""
    states = run.events.filter((pl.col("flow") == 0) & (pl.col("kind") == "state"))
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
        .with_columns(pl.col("phase", "came_from", "went_to").replace(names.drafts))
    )
