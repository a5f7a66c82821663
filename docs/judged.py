"""Writes docs/stacks/packets.txt, a part of docs/stacks.md: each BBR, judged by its packets.

`make stacks` runs it before it writes that page. Libraries in target/guests are stacks, too.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from typing import Any

from generate import table as markdown
from stacks import NOTES, libraries

from paceline import guests
from paceline.cli import main
from paceline.cli.guests import bring

PART = NOTES / "packets.txt"
#: Ours, to compare with.
OURS = ("bbr3", "bbr1")
#: What a stack says that its `bbr` is.
VERSIONS = {"quinn:bbr": "bbr1", "s2n:bbr": "bbr2", "tquic:bbr": "bbr1"}


def judged(controller: str, given: list[str]) -> list[dict[str, Any]]:
    """Return what the command says of a controller's flows."""
    words = ["conformance", controller, "--json", "--quiet"]
    if controller in VERSIONS:
        words += ["--as", VERSIONS[controller]]
    for library in given:
        if library.startswith(f"{controller.partition(':')[0]}="):
            words += ["--controller", library]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        main(words)
    flows: list[dict[str, Any]] = json.loads(out.getvalue())["flows"]
    return flows


def column(flows: list[dict[str, Any]]) -> dict[str, str]:
    """Return each check's cell: on how many paths it held, and on how many it is broken."""
    cells: dict[str, Counter[str]] = {}
    for flow in flows:
        for check in flow["checks"]:
            cells.setdefault(check["id"], Counter())[check["verdict"]] += 1
    shown = {id_: f"{of['held']} · {of['broken']}" for id_, of in cells.items()}
    told = [flow["states_share"] for flow in flows if flow["states_share"] is not None]
    shown["states"] = f"{100 * sum(told) / len(told):.0f} %" if told else "not told"
    return shown


def part() -> None:
    """Run the command on each BBR, and write the part."""
    given = libraries()
    bring(given)
    names = [f"{stack.name}:{name}" for stack in guests.stacks() for name in stack.controllers]
    names = [*OURS, *(name for name in names if "bbr" in name)]
    found = {name: judged(name, given) for name in names}
    columns = {name: column(flows) for name, flows in found.items()}
    rows = list(dict.fromkeys(id_ for shown in columns.values() for id_ in shown))
    rows.sort(key=lambda id_: id_ == "states")
    heads = [f"`{name}` as {flows[0]['judged_as']}" for name, flows in found.items()]
    lines = [[f"`{row}`", *(columns[name].get(row, "") for name in names)] for row in rows]
    PART.write_text(
        "## Judged by their packets\n\n"
        "`paceline conformance NAME` runs a controller on the draft's six baselines and twelve "
        "drawn paths, and a shadow of the algorithm beside each\n"
        "([Is it BBR?](guide/is-it-bbr.md)). A cell has the number of paths on which a check held "
        "· is broken; on the others it is not seen\nor cannot be told. `states`: the share of "
        "reported states that the shadow was in.\n\n"
        f"{markdown(['check', *heads], lines)}"
    )


if __name__ == "__main__":
    part()
