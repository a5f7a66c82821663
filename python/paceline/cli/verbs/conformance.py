"""``paceline conformance``: golden traces of Linux, and the BBR draft's test cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline import _paceline
from paceline.cli import console
from paceline.cli.failure import Exit, Failure
from paceline.conformance import Case, CaseError, load, run_case
from paceline.names import did_you_mean

#: The suites, by the names of their folders.
GOLDEN, DRAFT = ("linux-bbr", "linux-cubic"), "draft-ietf-ccwg-bbr"


@dataclass(frozen=True)
class Settings:
    """What is asked of ``paceline conformance``."""

    names: Sequence[str]
    #: Folders of golden traces.
    traces: Sequence[Path]
    #: A folder of the draft's cases; none leaves them out.
    cases: Path | None
    controller: str
    jobs: int | None
    as_json: bool
    quiet: bool


def show(settings: Settings) -> Exit:
    """Run what is asked for and print a row for each case."""
    if settings.controller not in (known := [c["name"] for c in _paceline.controllers()]):
        raise _unknown("controller", settings.controller, known)
    rows = [row for folder in settings.traces for row in _golden(folder)]
    cases = _cases(settings.cases) if settings.cases is not None else []
    ids = [row["id"] for row in rows] + [case.id for case in cases]
    for name in settings.names:
        if not any(_named(id_, name) for id_ in ids):
            raise _unknown("case", name, ids)
    rows = [row for row in rows if _chosen(row["id"], settings.names)]
    cases = [case for case in cases if _chosen(case.id, settings.names)]
    details: list[str] = []
    for row in rows:
        first, _, rest = row["evidence"].partition("\n")
        row["summary"] = first
        if rest:
            details.append(f"{row['id']}: {row['evidence']}")
    for case in cases:
        with console.progress(case.id, len(case.variants), quiet=settings.quiet) as reporter:
            try:
                result = run_case(
                    case, settings.controller, threads=settings.jobs, progress=reporter
                )
            except CaseError as error:
                raise Failure("bad-case", str(error)) from error
        paths = len(case.variants)
        holding = f"{result.held} of {result.judged} checks hold"
        summary = f"{holding}, on {paths} path{'s' * (paths > 1)}"
        rows.append({**result.as_json(), "summary": summary})
        told = result.evidence if settings.names else result.notable
        details += [f"{case.id}: {line}" for line in told]
    _print(rows, details, as_json=settings.as_json)
    failed = any(row["verdict"] == "fail" for row in rows)
    return Exit.EXPECTATION_FAILED if failed else Exit.OK


def _golden(folder: Path) -> list[dict[str, Any]]:
    try:
        return [dict(case) for case in _paceline.golden_traces(folder)]
    except OSError as error:
        hint = "a folder of traces holds v1, v2, v3 or cubic, with *.txt.zst or *.txt files in it"
        raise Failure("no-traces", str(error), hint=hint) from error


def _cases(folder: Path) -> list[Case]:
    try:
        return load(folder)
    except CaseError as error:
        hint = (
            "--cases names a folder of cases; those of the draft are in conformance/ of the sources"
        )
        raise Failure("bad-case", str(error), hint=hint) from error


def _named(id_: str, name: str) -> bool:
    return id_ == name or id_.startswith((f"{name}-", f"{name}/"))


def _chosen(id_: str, names: Sequence[str]) -> bool:
    return not names or any(_named(id_, name) for name in names)


def _unknown(what: str, name: str, known: Sequence[str]) -> Failure:
    hint = did_you_mean(name, known, f"known are {', '.join(known[:8])}, ...")
    return Failure("unknown-name", f"no {what} is called {name!r}", hint=hint)


def _print(rows: list[dict[str, Any]], details: list[str], *, as_json: bool) -> None:
    if as_json:
        keys = ("id", "suite", "controller", "title", "verdict", "evidence")
        console.say_json({"cases": [{k: row[k] for k in keys if k in row} for row in rows]})
        return
    out = console.stdout()
    table = console.table("Case", "Controller", "Verdict", "Evidence", left=4)
    for row in rows:
        table.add_row(row["id"], row["controller"], row["verdict"].upper(), row["summary"])
    out.print(table)
    for line in details:
        out.print(line, soft_wrap=True)
    counts = [
        f"{sum(row['verdict'] == verdict for row in rows)} {verdict}"
        for verdict in ("pass", "expected fail", "fail")
    ]
    out.print(f"{len(rows)} cases: {', '.join(counts)}")
