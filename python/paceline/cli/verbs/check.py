"""``paceline check``: a scenario with every default written out, and the memory of a run."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from paceline.cli import console, files
from paceline.cli.app import Json, Memory, Set, app, examples
from paceline.reading import toml


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
    memory: Memory = None,
    json: Json = False,
) -> None:
    """Check a scenario, print it with every default written out, and estimate the memory of a run.

    The estimate is a range: from the memory of a run whose flows barely send to that of a run
    whose links are always full.
    """
    text, file = files.scenario(file)
    plan = files.plan(text, file, files.parse_overrides(set_))
    value = {"name": plan.name, "file": file, "resolved": toml(plan.toml)}
    takes = files.memory_of(plan, file)
    console.answer(
        {**value, "toml": plan.toml, "sweep": plan.sweep, "memory": takes},
        lambda: files.tell_memory(plan, file, always=True),
        lambda: files.tell_sweep(plan, file),
        lambda: console.say_file(plan.toml),
    )
