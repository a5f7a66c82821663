"""``paceline conformance``: replay golden traces and say which are equal."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape

from paceline import _paceline
from paceline.cli import console
from paceline.cli.failure import Exit, Failure


def show(traces: Path, *, as_json: bool) -> Exit:
    """Replay the traces below a folder and print a row for each."""
    try:
        cases = _paceline.golden_traces(traces)
    except OSError as error:
        hint = "a folder of traces holds v1, v2 and v3, each with *.txt.zst or *.txt files"
        raise Failure("no-traces", str(error), hint=hint) from error
    failed = [case for case in cases if case["verdict"] == "fail"]
    if as_json:
        console.say_json({"cases": cases})
    else:
        out = console.stdout()
        table = console.table("Case", "Controller", "Verdict", "Evidence", left=4)
        for case in cases:
            first, _, _ = case["evidence"].partition("\n")
            table.add_row(
                escape(case["id"]), case["controller"], case["verdict"].upper(), escape(first)
            )
        out.print(table)
        for case in failed:
            out.print(f"{case['id']}: {case['evidence']}", markup=False, soft_wrap=True)
        passed = len(cases) - len(failed)
        out.print(f"{passed} of {len(cases)} traces are equal", markup=False)
    return Exit.EXPECTATION_FAILED if failed else Exit.OK
