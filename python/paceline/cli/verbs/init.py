"""``paceline init``: a file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline import answers, shipped, store
from paceline.cli import console
from paceline.cli.app import FILE, Force, Json, app, examples

#: The header that a controller in C includes.
_HEADER = "paceline_controller.h"


@app.command(
    help_epilogue=examples(
        "init", "init mine.toml", "init --controller mine.py", "init --controller mine.c"
    )
)
def init(
    file: Annotated[
        Path | None,
        FILE,
        Parameter(help="File to write. Default: scenario.toml, or controller.py."),
    ] = None,
    /,
    *,
    controller: Annotated[
        bool,
        Parameter(
            help="Write a controller instead: in Python or, if FILE ends in `.c`, in C with its "
            "header."
        ),
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a commented scenario, or a commented controller, that you can run as it is."""
    in_c = controller and file is not None and file.suffix == ".c"
    template = "controller.c" if in_c else "controller.py" if controller else "scenario.toml"
    path = file or Path(template)
    templates = {path: shipped.folder("templates") / template}
    if in_c:
        templates[path.with_name(_HEADER)] = shipped.folder("include") / _HEADER
    for place, source in templates.items():
        text = source.read_text(encoding="utf-8").replace("THIS_FILE", str(path))
        if place == path or not place.exists():
            store.write(place, text, force=force)
    code, then = path, ""
    if in_c:
        code = path.with_suffix(".so")
        then = f"cc -O2 -fPIC -shared -o {code} {path} && "
    run = f"reno-100M --controller mine={code} --set flows.0.cc=mine" if controller else str(path)
    then += f"paceline run {run}"
    answer: answers.Init = {"file": str(path), "then": then}
    console.answer(answer, f"wrote {path}; to run it:\n    {then}")
