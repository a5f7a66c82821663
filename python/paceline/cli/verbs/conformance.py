"""``paceline conformance``: golden traces and recovery of Linux, and the BBR draft's test cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from paceline import _paceline, guests, shipped
from paceline.cli import console, files
from paceline.cli.app import Jobs, Json, Memory, Quiet, app, examples
from paceline.cli.failure import Exit, Failure, failing
from paceline.cli.guests import bring
from paceline.names import did_you_mean
from paceline.study.conformance import DRAFT, Case, CaseError, Cases, judge, load, named

#: The suites, by the names of their folders.
GOLDEN = ("linux-bbr", "linux-cubic", "linux-stock")
RECOVERY = "linux-recovery"


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    traces: Path | None = None
    """Only replay this folder's golden traces (in v1, v2, v3, cubic, reno, dctcp)."""
    cases: Path | None = None
    """Only run the draft's cases in this folder."""
    recovery: Path | None = None
    """Only run the recovery scripts in this folder."""
    live: Annotated[bool, Parameter(negative="")] = False
    """Only run the recovery scripts against this machine's kernel (three times each)."""
    record: Path | None = None
    """With --live: a new folder for the segments that the kernel sent."""
    controller: Annotated[
        str | None,
        Parameter(
            help="The controller to test, such as noq:bbr3, or one of your own: NAME=FILE[:CLASS], "
            "or STACK:NAME=FILE. Default: bbr3."
        ),
    ] = None
    judge: Path | None = None
    """Judge this record by the named cases instead of running them."""
    quick: Annotated[bool, Parameter(negative="")] = False
    """A shorter form: no golden traces, and each case on one path."""
    jobs: Jobs = None
    memory: Memory = None
    json: Json = False
    quiet: Quiet = False

    def folders(self) -> tuple[list[Path], Path | None, Path | None]:
        """Return the folders of golden traces, recovery scripts and draft cases, if requested."""
        folder, draft = shipped.nearest_folder("conformance"), self.cases or self.controller
        everything = not (self.traces or self.recovery or self.live or draft)
        golden = [folder / name for name in GOLDEN if everything and not self.quick]
        # They are not included in the package.
        golden = [place for place in golden if place.is_dir()]
        scripts = folder / RECOVERY if everything or self.live else None
        cases = folder / DRAFT if everything or self.controller else None
        return (
            [self.traces] if self.traces else golden,
            self.recovery or scripts,
            self.cases or cases,
        )


@app.command(
    help_epilogue=examples(
        "conformance",
        "conformance --quick",
        "conformance 07b 16",
        "conformance --controller bbr3-linux",
        "conformance --controller noq:bbr3",
        "conformance --traces DIR --json",
        "conformance 01 03 --judge runs/quinn",
        "conformance recovery/tail --live",
        "conformance --recovery DIR --live --record traces",
    )
)
def conformance(
    names: Annotated[
        list[str] | None,
        Parameter(negative="", help="Cases, by id or prefix. Default: all."),
    ] = None,
    /,
    *,
    options: Options = Options(),
) -> Exit:
    """Run golden traces and loss recovery of Linux, and the BBR draft's test cases.

    A trace passes if, after every event, every state field equals that of Linux. A recovery script
    passes if our sender sends the same segments, in the same order and at about the same times, as
    the recorded kernel (with --live: this machine's kernel). A case of the draft passes if each of
    its numbered steps holds in the record of its run, on every path. A step that cannot hold is an
    expected failure, and the case gives the reason. Your own controller, or one of a QUIC stack, is
    judged by its behaviour: steps about BBR's states are not applicable to it. Exit code 3 if a
    trace, a script or a case fails.

    With --judge, the named cases judge an existing record, such as one that `import` made from a
    qlog. A step that needs data missing from the record is not applicable. The record must have the
    path and the events of the case; Paceline does not check this.
    """
    if options.judge is not None:
        return _judged(names or [], options)
    names, controller = names or [], options.controller or "bbr3"
    if "=" in controller:
        # A stack is brought as a whole, and judged with the controller named.
        controller, _, file = controller.partition("=")
        bring([f"{controller.partition(':')[0]}={file}"])
    elif controller not in (known := guests.names()):
        raise _unknown("controller", controller, known)
    if options.record is not None and not options.live:
        hint = "add --live: only what this machine's kernel sends can be recorded"
        raise Failure("bad-option", "--record without --live records nothing", hint=hint)
    traces, scripts, draft = options.folders()
    ids: list[str] = []

    def wanted(id_: str) -> bool:
        ids.append(id_)
        return _chosen(id_, names)

    rows = [row for folder in traces for row in _golden(folder, wanted)]
    if scripts is not None:
        rows += [row for row in _recovery(scripts) if wanted(row["id"])]
    cases = _cases(draft) if draft is not None else []
    if options.quick:
        cases = [replace(case, variants=case.variants[:1], on_all_paths=False) for case in cases]
    cases = [case for case in cases if wanted(case.id)]
    for name in names:
        if not any(named(id_, name) for id_ in ids):
            raise _unknown("case", name, ids)
    if options.live and scripts is not None:
        rows = _live(options, scripts, [row["id"] for row in rows])
    details: list[str] = []
    for row in rows:
        first, _, rest = row["evidence"].partition("\n")
        row["summary"] = first
        if rest:
            details.append(f"{row['id']}: {row['evidence']}")
    runs = Cases(cases, controller)
    with console.progress("conformance", len(runs)) as watch:
        resumed = console.resumed("conformance", len(runs))
        try:
            with failing(CaseError, "bad-case"):
                results = runs.run(threads=options.jobs, watch=watch, resumed=resumed)
        except KeyboardInterrupt:
            message, code = "interrupted", Exit.INTERRUPTED
            raise Failure("interrupted", message, hint=console.GOES_ON, code=code) from None
    for result in results:
        case, paths = result.case, len(result.case.variants)
        holding = f"{result.held} of {result.judged} checks hold"
        summary = f"{holding}, on {paths} path{'s' * (paths > 1)}"
        if result.verdict == "not applicable":
            summary = result.evidence[0].partition(": ")[2]
        rows.append({**result.as_json(), "summary": summary})
        told = result.evidence if names else result.notable
        details += [f"{case.id}: {line}" for line in told]
    return _ended(rows, details)


def _judged(names: list[str], options: Options) -> Exit:
    """Judge a record by the cases named."""
    if not names:
        hint = "name the case that the record is of, such as `conformance 01 --judge runs/mine`"
        raise Failure("usage", "--judge needs a case", hint=hint)
    known = _cases(options.cases or shipped.nearest_folder("conformance") / DRAFT)
    cases = [case for case in known if _chosen(case.id, names)]
    for name in names:
        if not any(named(case.id, name) for case in cases):
            raise _unknown("case", name, [case.id for case in known])
    run = files.read_run(str(options.judge))
    rows, details = [], []
    for case in cases:
        with failing(CaseError, "bad-case"):
            result = judge(case, run)
        summary = f"{result.held} of {result.judged} checks hold"
        if not result.judged:
            single = len(result.evidence) == 1
            summary = result.evidence[0] if single else "the record lacks what each step asks for"
        rows.append({**result.as_json(), "summary": summary})
        details += [f"{case.id}: {line}" for line in result.evidence]
    return _ended(rows, details)


def _golden(folder: Path, wanted: Callable[[str], bool]) -> list[dict[str, Any]]:
    hint = "a folder of traces holds v1, v2, v3, cubic, reno or dctcp, with *.txt[.zst] files"
    with failing(OSError, "no-traces", hint):
        return [dict(case) for case in _paceline.golden_traces(folder, wanted)]


def _recovery(folder: Path) -> list[dict[str, Any]]:
    hint = "a folder of scripts holds FILE.toml, and what a kernel sent in FILE.txt"
    with failing(OSError, "bad-script", hint):
        return [dict(case) for case in _paceline.recovery_scripts(folder)]


def _live(options: Options, folder: Path, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Play scripts to this machine's kernel, and store what it sends if requested."""
    if options.record is not None:
        try:
            options.record.mkdir(parents=True)
        except OSError as error:
            hint = "name a folder that does not exist; nothing is overwritten"
            raise Failure("bad-folder", f"{options.record}: {error}", hint=hint) from error
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
    hint = "--cases names a folder of cases; those of the draft are in conformance/ of the sources"
    with failing(CaseError, "bad-case", hint):
        return load(folder)


def _chosen(id_: str, names: Sequence[str]) -> bool:
    return not names or any(named(id_, name) for name in names)


def _unknown(what: str, name: str, known: Sequence[str]) -> Failure:
    # The cases of the draft first: there are fewer, and they have numbers.
    shown = sorted(known, key=lambda id_: "/" in id_)[:8]
    hint = did_you_mean(name, known, f"known are {', '.join(shown)}, ...")
    return Failure("unknown-name", f"no {what} is called {name!r}", hint=hint)


def _ended(rows: list[dict[str, Any]], details: list[str]) -> Exit:
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
    value = {"cases": [{k: row[k] for k in keys if k in row} for row in rows]}
    console.answer(value, table, *details, f"{len(rows)} cases: {', '.join(counts)}")
    failed = any(row["verdict"] == "fail" for row in rows)
    return Exit.EXPECTATION_FAILED if failed else Exit.OK
