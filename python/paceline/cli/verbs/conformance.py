"""``paceline conformance``: recordings and controllers against BBR, and the project's suites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from paceline import _paceline, batch, guests, shipped, store
from paceline.cli import console, files, flows
from paceline.cli.app import FILE, Force, Jobs, Json, Memory, Quiet, app, examples
from paceline.cli.failure import Exit, Failure, failing
from paceline.cli.guests import bring
from paceline.names import did_you_mean
from paceline.study.conformance.case import DRAFT, Case, CaseError, load, named
from paceline.study.conformance.draft import Cases, is_of, judge
from paceline.study.conformance.drawn import SEEDS, draw
from paceline.study.conformance.packets import SHADOWS
from paceline.study.conformance.reference import references
from paceline.study.conformance.verdict import Flow

if TYPE_CHECKING:
    from paceline.runs import Run

#: The suites, by the names of their folders.
GOLDEN = ("linux-bbr", "linux-cubic", "linux-stock")
RECOVERY = "linux-recovery"
_EXAMPLES = "`paceline conformance --help` has examples"


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    as_: Annotated[
        str | None,
        Parameter(
            name="--as",
            help=f"The algorithm that the flows are meant to run: {', '.join(SHADOWS)}. Default: "
            "for a controller with the name of an algorithm, that algorithm; otherwise, the "
            "nearest algorithm.",
        ),
    ] = None
    flow: int | None = None
    """Judge only this flow of a recording."""
    case: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None
    """Use only test cases whose ids start with one of these prefixes."""
    controller: list[str] | None = None
    """NAME=FILE[:CLASS], STACK=FILE or a folder of stacks: load your own controllers or stacks,
    which you can then name as targets."""
    traces: Path | None = None
    """Replay only the golden traces in this folder (subfolders v1, v2, v3, cubic, reno, dctcp)."""
    cases: Path | None = None
    """Take the draft's test cases from this folder."""
    recovery: Path | None = None
    """Run only the recovery scripts in this folder."""
    live: bool = False
    """Run only the recovery scripts, against this machine's kernel (three times each)."""
    record: Path | None = None
    """With --live: write the segments that the kernel sent to this new folder."""
    junit: Annotated[Path | None, FILE] = None
    """Also write the results to this file, as JUnit XML."""
    report: Annotated[Path | None, FILE] = None
    """Also write a page with the flows' verdicts and plots to this file."""
    against: Path | None = None
    """An earlier output of --json. The exit code is 4 if a result is worse than in this file, and
    otherwise 0."""
    force: Force = False
    quick: bool = False
    """Run a shorter form: no golden traces, each case on one path, only one baseline scenario."""
    jobs: Jobs = None
    memory: Memory = None
    json: Json = False
    quiet: Quiet = False

    def folders(self, *, named: bool) -> tuple[list[Path], Path | None, Path | None]:
        """Return the folders of golden traces, recovery scripts and draft cases, if requested."""
        folder, draft = shipped.nearest_folder("conformance"), self.cases or named
        everything = not (self.traces or self.recovery or self.live or draft)
        golden = [folder / name for name in GOLDEN if everything and not self.quick]
        # They are not included in the package.
        golden = [place for place in golden if place.is_dir()]
        scripts = folder / RECOVERY if everything or self.live else None
        cases = folder / DRAFT if everything or named else None
        return (
            [self.traces] if self.traces else golden,
            self.recovery or scripts,
            self.cases or cases,
        )


@app.command(
    help_epilogue=examples(
        "conformance capture.pcapng",
        "conformance server.sqlog.gz --as bbr3",
        "conformance runs/mine --flow 1 --json",
        "conformance noq:bbr3 --junit bbr.xml",
        "conformance server.qlog --report verdict.html",
        "conformance server.qlog --against before.json",
        "conformance mine --controller mine=mine.py",
        "conformance ngtcp2:bbr picoquic:bbr --controller target/guests",
        "conformance runs/mine --case 01 03",
        "conformance --quick",
        "conformance --traces DIR --json",
        "conformance --case recovery/tail --live",
    )
)
def conformance(
    targets: Annotated[
        list[str] | None,
        Parameter(
            help="A capture, a qlog, a run's folder, or a controller such as noq:bbr3. Default: "
            "the project's own suites."
        ),
    ] = None,
    /,
    *,
    options: Options = Options(),
) -> Exit:
    """Check whether a flow or a controller is BBR, CUBIC or Reno, and which rules it breaks.

    The command judges a recording from its packets alone, and does not need to know the network
    path. It runs a shadow of each algorithm: the algorithm's controller, with the flow's own sends,
    ACKs and losses as its input. After each ACK, the shadow shows what the algorithm allows. The
    verdict of a check is "held", "broken", "not seen" (the situation did not occur) or "cannot be
    told". A recording must be taken at the sender: a capture (headers are enough), or a qlog with
    ACK frames. The checks test the rules of one algorithm: the one that --as names. Without --as, a
    controller with the name of an algorithm is tested by the rules of that algorithm, and any other
    target by the rules of the algorithm whose shadow is nearest to the flow.

    If a target is a controller, the command runs the test cases of the BBR draft with it, each on
    one or more paths. A case passes if each of its numbered steps holds in the record of every run.
    The controller also runs in six baseline scenarios of Paceline's own and on twelve random paths.
    There, the command judges the controller's packets in the same way as those of a recording. For
    a controller from another project, steps about BBR's states apply only if the controller reports
    its states, and steps about other variables of bbr3 do not apply. If a target is a run's folder,
    --case judges this run by a test case; the run must have the path and the events of the test
    case.

    Without a target, the command replays golden traces of Linux, runs scripts that test loss
    recovery, and runs the BBR draft's test cases with bbr3. A golden trace passes if, after every
    event, every state field has the same value as in Linux. A recovery script passes if Paceline's
    sender sends what the recorded kernel sent.

    The exit code is 3 if a golden trace, a script or a test case fails, or if a check has the
    verdict "broken". With --against, the exit code is never 3: it is 4 if a result is worse than in
    the earlier output, and 0 if none is. A result is worse if a check changes from "held" to
    "broken", if a test case that passed before now fails, or if a flow that fitted an algorithm is
    now nearest to another one.
    """
    if options.as_ is not None and options.as_ not in SHADOWS:
        hint = did_you_mean(options.as_, SHADOWS, f"known are {', '.join(SHADOWS)}")
        raise Failure("unknown-name", f"no shadow is called {options.as_!r}", hint=hint)
    if options.record is not None and not options.live:
        hint = "add --live: only what this machine's kernel sends can be recorded"
        raise Failure("bad-option", "--record without --live records nothing", hint=hint)
    for place in (options.junit, options.report):
        if place is not None:
            store.check(place, force=options.force)
    before = flows.Stored.read(options.against) if options.against is not None else None
    loaded = _load(options.controller or [])
    targets = targets or loaded
    # Who loads a controller means it, whatever files are here.
    controllers = [one for one in targets if one in loaded or not Path(one).exists()]
    known = guests.names()
    for name in controllers:
        if name not in known:
            raise _no_target(name, known)
    recordings = [target for target in targets if target not in controllers]
    _check_used(options, controllers, recordings)
    rows: list[dict[str, Any]] = []
    details: list[str] = []
    judged: list[Flow] = []
    for target in recordings:
        if options.case:
            _judge_by_cases(target, options, rows, details)
        else:
            judged += flows.recorded(target, options.flow, options.as_)
    if controllers or not targets:
        for name in controllers or ["bbr3"]:
            _suites(name, options, rows, details, named=bool(controllers))
    for name in controllers:
        if not (options.case or options.cases):
            judged += flows.of_runs(name, _paths(name, options), options.as_)
    return _ended(options, rows, details, judged, before)


def _load(controllers: list[str]) -> list[str]:
    """Load a person's own controllers; return their names, for a stack none."""
    for one in controllers:
        if "=" not in one and not Path(one).is_dir():
            hint = f"to test it, name it as a target: `paceline conformance {one}`"
            message = f"--controller loads NAME=FILE or a folder of stacks, not {one!r}"
            raise Failure("controller", message, hint=hint)
    if controllers:
        bring(controllers)
    return [guest.name for guest in guests.loaded() if guest.stack is None]


def _check_used(options: Options, controllers: list[str], recordings: list[str]) -> None:
    """Check that no option is ignored."""
    if options.controller and not controllers:
        hint = "name its controller as a target, such as STACK:NAME"
        raise Failure("controller", "what --controller loads is not tested", hint=hint)
    targets = controllers or recordings
    judges = bool(targets) and not (options.case or options.cases)
    suites = options.traces or options.recovery or options.live
    wrong = (
        ("--traces, --recovery and --live take no target", suites and targets),
        ("--as is of packets: of a recording, or a controller", options.as_ and not judges),
        (
            "--report shows judged flows: name a recording, or a controller",
            options.report and not judges,
        ),
        ("--flow is of a recording", options.flow is not None and not (judges and recordings)),
        ("--quick is of suites and controllers", options.quick and not controllers and recordings),
        ("--cases needs --case for a recording", options.cases and recordings and not options.case),
    )
    for message, is_so in wrong:
        if is_so:
            raise Failure("bad-option", message, hint=_EXAMPLES)


def _no_target(name: str, known: Sequence[str]) -> Failure:
    cases = shipped.nearest_folder("conformance") / DRAFT
    if any(named(case.id, name) for case in _cases(cases)):
        hint = f"for the draft's case: `paceline conformance --case {name}`"
        return Failure("not-found", f"no such file or controller: {name}", hint=hint)
    hint = did_you_mean(name, known, "name a capture, a qlog, a run's folder, or a controller")
    return Failure("not-found", f"no such file or controller: {name}", hint=hint, file=name)


def _suites(
    controller: str,
    options: Options,
    rows: list[dict[str, Any]],
    details: list[str],
    *,
    named: bool,
) -> None:
    """Run the suites that are wanted."""
    traces, scripts, draft = options.folders(named=named)
    names = options.case or []
    ids: list[str] = []

    def wanted(id_: str) -> bool:
        ids.append(id_)
        return _chosen(id_, names)

    case_rows = [row for folder in traces for row in _golden(folder, wanted)]
    if scripts is not None:
        case_rows += [row for row in _recovery(scripts) if wanted(row["id"])]
    cases = _cases(draft) if draft is not None else []
    if options.quick:
        cases = [replace(case, variants=case.variants[:1], on_all_paths=False) for case in cases]
    cases = [case for case in cases if wanted(case.id)]
    _check_known(names, ids)
    if options.live and scripts is not None:
        case_rows = _live(options, scripts, [row["id"] for row in case_rows])
    for row in case_rows:
        first, _, rest = row["evidence"].partition("\n")
        row["summary"] = first
        if rest:
            details.append(f"{row['id']}: {row['evidence']}")
    rows += case_rows
    runs = Cases(cases, controller)
    with console.progress("conformance", len(runs)) as watch:
        try:
            with failing(CaseError, "bad-case"):
                results = runs.run(threads=options.jobs, watch=watch)
        except KeyboardInterrupt:
            raise Failure.interrupted(hint=console.GOES_ON) from None
    for result in results:
        case, paths = result.case, len(result.case.variants)
        holding = f"{result.holding} of {result.judged} checks hold"
        summary = f"{holding}, on {paths} path{'s' * (paths > 1)}"
        if result.verdict == "not applicable":
            summary = result.evidence[0].partition(": ")[2]
        rows.append({**result.as_json(), "summary": summary})
        lines = result.evidence if names else result.notable
        details += [f"{case.id}: {line}" for line in lines]


def _paths(controller: str, options: Options) -> Iterator[tuple[str, Run]]:
    """Run a controller over baselines and drawn paths."""
    folder = shipped.nearest_folder("conformance") / DRAFT
    baselines = [one for one in references(folder) if one.section is None]
    scenarios: list[tuple[str, Path | str]] = [(one.id, one.scenario) for one in baselines]
    for seed in SEEDS:
        kind, text = draw(seed, controller)
        scenarios.append((f"d{seed}-{kind}", text))
    scenarios = scenarios[: 1 if options.quick else None]
    for done, (path, scenario) in enumerate(scenarios):
        settings = (("flows.0.cc", controller), ("run.record.packets", "true"))
        with files.running(path):
            yield path, batch.run(scenario, overrides=settings)
        console.note(f"judged {path}, {done + 1} of {len(scenarios)}", style="dim")


def _judge_by_cases(
    target: str, options: Options, rows: list[dict[str, Any]], details: list[str]
) -> None:
    """Judge a record by the cases named."""
    names = options.case or []
    known = _cases(options.cases or shipped.nearest_folder("conformance") / DRAFT)
    _check_known(names, [case.id for case in known])
    run = files.read_run(target)
    for case in known:
        if not _chosen(case.id, names):
            continue
        with failing(CaseError, "bad-case"):
            result = judge(case, run)
            if not is_of(case, run):
                why = f"{target} has another path or other events than {case.id}"
                result = replace(result, verdict="not applicable", judged=0, evidence=(why,))
        summary = f"{result.holding} of {result.judged} checks hold"
        if not result.judged:
            single = len(result.evidence) == 1
            summary = result.evidence[0] if single else "the record lacks what each step asks for"
        rows.append({**result.as_json(), "summary": summary})
        details += [f"{case.id}: {line}" for line in result.evidence]


def _golden(folder: Path, is_chosen: Callable[[str], bool]) -> list[dict[str, Any]]:
    hint = "a folder of traces holds v1, v2, v3, cubic, reno or dctcp, with *.txt[.zst] files"
    with failing(OSError, "no-traces", hint):
        return [dict(case) for case in _paceline.golden_traces(folder, is_chosen)]


def _recovery(folder: Path) -> list[dict[str, Any]]:
    hint = "a folder of scripts holds FILE.toml, and what a kernel sent in FILE.txt"
    with failing(OSError, "bad-script", hint):
        return [dict(case) for case in _paceline.recovery_scripts(folder)]


def _live(options: Options, folder: Path, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Play scripts to this machine's kernel, and store what it sends if requested."""
    if options.record is not None:
        hint = "name a folder that does not exist; nothing is overwritten"
        with failing(OSError, "bad-folder", hint, what=str(options.record)):
            options.record.mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    for case in _paceline.recovery_live(
        folder, ids, lambda id_: console.note(f"played {id_}", style="dim")
    ):
        if options.record is not None and case["trace"] is not None:
            name, text = case["trace"]
            with (options.record / name).open("a") as file:
                file.write(text)
        rows.append(dict(case))
    return rows


def _cases(folder: Path) -> list[Case]:
    hint = (
        "--cases names a folder of cases; those of the draft are in data/conformance of the sources"
    )
    with failing(CaseError, "bad-case", hint):
        return load(folder)


def _chosen(id_: str, names: Sequence[str]) -> bool:
    return not names or any(named(id_, name) for name in names)


def _check_known(names: Sequence[str], ids: Sequence[str]) -> None:
    for name in names:
        if not any(named(id_, name) for id_ in ids):
            # The cases of the draft first: there are fewer, and they have numbers.
            shown = sorted(ids, key=lambda id_: "/" in id_)[:8]
            hint = did_you_mean(name, ids, f"known are {', '.join(shown)}, ...")
            raise Failure("unknown-name", f"no case is called {name!r}", hint=hint)


def _ended(
    options: Options,
    rows: list[dict[str, Any]],
    details: list[str],
    judged: list[Flow],
    before: flows.Stored | None,
) -> Exit:
    """Print the results, and return the exit code."""
    table = console.table("Case", "Controller", "Verdict", "Evidence", left=4)
    for row in rows:
        table.add_row(row["id"], row["controller"], row["verdict"].upper(), row["summary"])
    counts = [
        f"{sum(row['verdict'] == verdict for row in rows)} {verdict}"
        for verdict in ("pass", "expected fail", "fail", "not applicable")
        if verdict != "not applicable" or any(row["verdict"] == verdict for row in rows)
    ]
    keys = ("id", "suite", "controller", "title", "verdict", "evidence")
    cases = [{k: row[k] for k in keys if k in row} for row in rows]
    if options.junit is not None:
        store.write(options.junit, flows.junit(rows, judged), force=options.force)
    if options.report is not None:
        from paceline.study.conformance.page import write_page

        with store.writing(options.report, force=options.force) as fresh:
            write_page(judged, fresh)
    worse = before.worse(cases, judged) if before is not None else []
    flows.annotate(judged, known=before is not None and not worse)
    total = f"{len(rows)} cases: {', '.join(counts)}"
    shown: list[Any] = [table, *details, total] if rows else []
    messages = [f"Held before, broken now: {', '.join(worse)}"] if worse else []

    def value() -> dict[str, object]:
        return {"cases": cases, "flows": [flow.as_json() for flow in judged], "worse": worse}

    console.answer(value, *shown, lambda: flows.show(judged), *messages)
    if before is not None:
        return Exit.REGRESSION if worse else Exit.OK
    failed = any(row["verdict"] == "fail" for row in rows)
    is_broken = any(flow.nearest.verdict == "broken" for flow in judged)
    return Exit.EXPECTATION_FAILED if failed or is_broken else Exit.OK
