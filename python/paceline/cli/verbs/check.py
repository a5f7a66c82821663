"""``paceline check``: a scenario with every default written out, and the rows of a run."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from paceline.cli import console, files
from paceline.cli.app import Json, Set, app, examples
from paceline.reading import toml
from paceline.runs import named_scenario


@app.command(
    help_epilogue=examples(
        "check scenarios/bbr3/four-flows-50M-40ms-1bdp.toml",
        'check FILE --set run.duration="5 s" > resolved.toml',
    )
)
def check(
    file: Annotated[str, Parameter(help="A scenario file.")],
    /,
    *,
    set_: Set = None,
    json: Json = False,
) -> None:
    """Check a scenario, and print it with every default written out.

    The command also prints how many rows a run would write to the `samples` table, which has one
    row per flow and sample interval.
    """
    text, file = named_scenario(file)
    plan = files.plan(text, file, files.parse_overrides(set_))
    value = {"name": plan.name, "file": file, "resolved": toml(plan.toml)}
    rows = plan.sample_rows
    console.answer(
        {**value, "toml": plan.toml, "sweep": plan.sweep, "sample_rows": rows},
        lambda: console.note(f"{file}: a run has {rows:,} rows of samples"),
        lambda: files.print_sweep(plan, file),
        lambda: console.print_file(plan.toml),
    )
