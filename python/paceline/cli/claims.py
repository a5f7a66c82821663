"""``paceline claims``: published | measured | verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from paceline.claims import Claim, ClaimError, Result, find, load, verify
from paceline.cli import console
from paceline.cli.failure import Exit, Failure


def chosen(names: Sequence[str], folder: Path) -> list[Claim]:
    """Return the claims of a folder with these ids or topics."""
    if not folder.is_dir():
        raise Failure("no-claims", f"there is no folder {folder}", hint="--claims DIR names one")
    try:
        claims = load(folder)
    except ClaimError as error:
        raise Failure("bad-claim", str(error)) from error
    try:
        return find(claims, names)
    except KeyError as error:
        hint = "`paceline claims --list` shows ids and topics"
        raise Failure("unknown-name", f"no claim or topic {error}", hint=hint) from error


def list_claims(claims: Sequence[Claim], *, as_json: bool) -> Exit:
    """Print what is claimed, without running it."""
    keys = ("id", "topic", "source", "published")
    rows = [{key: str(getattr(claim, key)) for key in keys} for claim in claims]
    if as_json:
        console.say_json({"claims": rows})
        return Exit.OK
    table = console.table("Claim", "Topic", "Source", "Published", left=4)
    for row in rows:
        table.add_row(*(escape(row[key]) for key in keys))
    console.stdout().print(table)
    return Exit.OK


def run_claims(
    claims: Sequence[Claim], *, seeds: int | None, jobs: int | None, as_json: bool, quiet: bool
) -> Exit:
    """Run claims and print a verdict for each; exit code 3 if one is not reproduced."""
    results = []
    for claim in claims:
        with console.progress(claim.id, seeds or claim.seeds, quiet=quiet) as reporter:
            results.append(verify(claim, seeds=seeds, threads=jobs, progress=reporter))
    if as_json:
        console.say_json({"claims": [result.as_json() for result in results]})
    else:
        _show(results)
    held = all(result.verdict == "reproduced" for result in results)
    return Exit.OK if held else Exit.EXPECTATION_FAILED


def _show(results: Sequence[Result]) -> None:
    out = console.stdout()
    table = console.table("Claim", "Published", "Measured", "Verdict", left=2)
    for result in results:
        table.add_row(
            result.claim.id, escape(result.claim.published), _measured(result), result.verdict
        )
    out.print(table)
    for result in results:
        if result.why:
            out.print(f"{result.claim.id}: {result.why}", markup=False, soft_wrap=True)
    reproduced = sum(result.verdict == "reproduced" for result in results)
    out.print(f"{reproduced} of {len(results)} claims reproduced", markup=False)


def _measured(result: Result) -> str:
    if result.measured is None:
        return "-"
    text = f"{result.measured:.7g}"
    if result.low is not None and result.high is not None:
        text += f"\n[{result.low:.4g}, {result.high:.4g}]".replace("[", "\\[")
    return text
