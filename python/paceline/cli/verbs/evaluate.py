"""``paceline evaluate``: the criteria of RFC 9743 for a controller, and controllers in pairs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from paceline import guests, shipped, store
from paceline.cli import console
from paceline.cli.app import Controllers, Jobs, Json, Memory, Quiet, Seeds, app, examples
from paceline.cli.failure import Exit, Failure, failing
from paceline.names import did_you_mean
from paceline.quantities import NONE
from paceline.study.claims import Campaign, ClaimError, Result
from paceline.study.claims.jobs import Pool
from paceline.study.evaluate import FILE, Matrix, Pairs, criteria
from paceline.study.evaluate.matrix import MEASURES

#: How the short form shortens a pair.
_QUICK = "20 s"
#: The controllers that the short form competes with.
_KNOWN = ("reno", "cubic")


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    against: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None
    """Controllers to run against. Default: all except those of QUIC stacks."""
    seeds: Seeds = None
    quick: bool = False
    """Run a shorter form: fewer seeds and pairs, and shorter runs."""
    out: Path | None = None
    """Folder for a report: a page, the matrix of pairs and the data."""
    suite: Path | None = None
    """Folder with the criteria. Default: ./evaluation, or the shipped criteria."""
    scenarios: Path | None = None
    """Folder with the scenarios for pairs. Default: ./scenarios/evaluate, or the shipped ones."""
    controllers: Controllers = None
    jobs: Jobs = None
    memory: Memory = None
    json: Json = False
    quiet: Quiet = False


@app.command(
    help_epilogue=examples(
        "evaluate bbr3 --out report",
        "evaluate bbr3 --quick",
        "evaluate cubic --against reno bbr3",
        "evaluate mine --controller mine=aimd.py --quick",
        "evaluate noq:bbr3 --against cubic bbr3 --quick",
    )
)
def evaluate(
    controller: Annotated[str, Parameter(help="The controller to judge.")],
    /,
    *,
    options: Options = Options(),
) -> Exit:
    """Judge a controller by the criteria of RFC 9743 that a machine can check.

    The command also runs the judged controller and those of --against in all possible pairs. For
    each controller of a pair, the output shows the controller's share of the link, and the harm
    that the other controller does to its goodput, delay and loss (as Ware et al. define harm). The
    exit code is 3 if the judged controller does not meet a criterion.
    """
    against = options.against or []
    known = guests.names()
    for name in (controller, *against):
        if name not in known:
            shown = "`paceline list controllers` lists them"
            hint = did_you_mean(name, known, f"{shown}; --controller {name}=FILE adds your own")
            raise Failure("unknown-controller", f"no controller is called {name!r}", hint=hint)
    pool = Pool("evaluate")
    with failing(ClaimError, "bad-suite", "name the folder of the criteria with --suite"):
        suite = options.suite or shipped.nearest_folder("evaluation")
        suite_criteria = criteria(suite, controller)
        if not suite_criteria:
            raise ClaimError(f"{suite / FILE}: no criterion")
        campaign = Campaign(suite_criteria, seeds=options.seeds, quick=options.quick, pool=pool)
    if options.out is not None:
        store.claim_page(options.out, "evaluation")
    others = against or (_KNOWN if options.quick else [name for name in known if ":" not in name])
    names = list(dict.fromkeys((controller, *others)))
    duration = _QUICK if options.quick else None
    scenarios = options.scenarios or shipped.nearest_folder("scenarios") / "evaluate"
    pairs = Pairs(pool, scenarios, names, seeds=options.seeds or 2, duration=duration)
    with console.progress(controller, len(pool)) as watch:
        verdicts = campaign.verify(threads=options.jobs, watch=watch)
    if verdicts.unfinished:
        raise Failure.interrupted(hint=console.GOES_ON)
    matrix = pairs.matrix()
    rows = [_row(result) for result in verdicts.results]
    value: dict[str, Any] = {
        "controller": controller,
        "quick": options.quick,
        "criteria": rows,
        "matrix": matrix.as_json(),
    }
    lines = []
    if options.out is not None:
        value["report"] = str(_write(value, matrix, options.out))
        lines = [value["report"]]
    console.answer(value, lambda: _show(controller, rows, matrix), *lines)
    return Exit.OK if all(row["verdict"] == "met" for row in rows) else Exit.EXPECTATION_FAILED


_VERDICTS = {
    "reproduced": "met",
    "reproduced by choice": "met",
    "not reproduced": "not met",
    "error": "error",
}


def _row(result: Result) -> dict[str, Any]:
    claim = result.claim
    return {
        "section": claim.id,
        "source": claim.source,
        "criterion": claim.published,
        **{key: getattr(claim, key) for key in ("about", "measures")},
        **{key: getattr(result, key) for key in ("measured", "low", "high")},
        "verdict": _VERDICTS.get(result.verdict, "met" if result.stands else "not met"),
        "why": result.why,
    }


def _show(controller: str, rows: list[dict[str, Any]], matrix: Matrix) -> None:
    title = f"{controller} by the criteria of RFC 9743; Paceline chose the bounds"
    heads = ("Section", "Criterion", "Measured", "Value", "Verdict")
    table = console.table(*heads, title=title, left=3)
    for row in rows:
        measured = "" if row["measured"] is None else f"{row['measured']:.3g}"
        colour = {"met": "green", "not met": "red"}.get(row["verdict"], "yellow")
        verdict = console.styled(row["verdict"], colour)
        table.add_row(row["section"], row["criterion"], row["measures"], measured, verdict)
    console.show(table, *(f"{row['section']}: {row['why']}" for row in rows if row["why"]))
    title = f"Against {controller}: share of the others, and the harm they suffer"
    table = console.table("Other", *(m.capitalize() for m in MEASURES), title=title)
    row_of = matrix.controllers.index(controller)
    for nth, name in enumerate(matrix.controllers):
        values = (matrix.cells[m][row_of][nth] for m in MEASURES)
        table.add_row(name, *(NONE if math.isnan(v) else f"{100 * v:.0f} %" for v in values))
    met = sum(row["verdict"] == "met" for row in rows)
    console.show(table, f"{met} of {len(rows)} criteria met")


def _write(value: dict[str, Any], matrix: Matrix, folder: Path) -> Path:
    from paceline.show.figure import saved
    from paceline.study import template
    from paceline.study.evaluate.picture import draw

    pictures = {f"matrix.{form}": saved(draw(matrix), form) for form in ("png", "svg")}
    picture = template.embedded(pictures["matrix.png"])
    text = json.dumps({"schema": console.SCHEMA, **value}, indent=2, ensure_ascii=False)
    page = template.page("evaluation.html.j2", value=value, picture=picture)
    contents = {"evaluation.json": f"{text}\n", "evaluation.html": page}
    store.begin(folder, "page", "evaluation")
    template.write(folder, {**pictures, **contents})
    return folder / "evaluation.html"
