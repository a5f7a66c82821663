"""``paceline init``: a file to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline import shipped, store
from paceline.cli import console
from paceline.cli.app import Force, Json, app, examples
from paceline.cli.failure import Exit


@app.command(help_epilogue=examples("init", "init mine.toml", "init --controller mine.py"))
def init(
    file: Annotated[
        Path | None, Parameter(help="What to write. Default: scenario.toml, or controller.py.")
    ] = None,
    /,
    *,
    controller: Annotated[
        bool, Parameter(negative="", help="A controller of your own, in Python.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> Exit:
    """Write a commented scenario, or a commented controller, that can be run as it is."""
    template = "controller.py" if controller else "scenario.toml"
    path = file or Path(template)
    text = (shipped.folder("templates") / template).read_text(encoding="utf-8")
    with store.writing(path, force=force) as fresh:
        fresh.write_text(text.replace("THIS_FILE", str(path)), encoding="utf-8")
    run = "reno-100M --controller mine={} --set flows.0.cc=mine" if controller else "{}"
    then = f"paceline run {run.format(path)}"
    if json:
        console.say_json({"file": str(path), "then": then})
    else:
        console.stdout().print(
            f"wrote {path}; to run it:\n    {then}", soft_wrap=True, markup=False
        )
    return Exit.OK
