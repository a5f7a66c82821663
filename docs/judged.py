"""Writes docs/stacks/packets.txt and cases.txt, parts of docs/stacks.md: each BBR, judged.

`make stacks` runs it before it writes that page. Libraries in target/guests are stacks, too. What
the command says of a controller is kept in target/stacks until it, the program or a case changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from generate import table as markdown
from stacks import NOTES, ROOT, WORK, libraries

from paceline import _paceline, guests
from paceline.cli import main
from paceline.cli.guests import bring

DRAFT = ROOT / "data" / "conformance" / "draft-ietf-ccwg-bbr"
PACKETS, CASES = NOTES / "packets.txt", NOTES / "cases.txt"
#: Ours, to compare with.
OURS = ("bbr3", "bbr1")
#: What a stack says that its `bbr` is.
VERSIONS = {"quinn:bbr": "bbr1", "s2n:bbr": "bbr2", "tquic:bbr": "bbr1"}


def judged(controller: str, given: list[str]) -> dict[str, Any]:
    """Return what the command says of a controller: its draft cases, and its flows."""
    words = ["conformance", controller, "--json", "--quiet"]
    if controller in VERSIONS:
        words += ["--as", VERSIONS[controller]]
    own = [one for one in given if one.startswith(f"{controller.partition(':')[0]}=")]
    for library in own:
        words += ["--controller", library]
    # Another build, library or case is judged anew.
    files = [*(Path(one.partition("=")[2]) for one in own), *sorted(DRAFT.iterdir())]
    known = hashlib.sha256(_paceline.__build__.encode())
    for part in (repr(words).encode(), *(file.read_bytes() for file in files)):
        known.update(part)
    kept = WORK / f"judged-{known.hexdigest()[:16]}.json"
    if kept.is_file():
        return dict(json.loads(kept.read_text()))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        main(words)
    WORK.mkdir(parents=True, exist_ok=True)
    kept.write_text(out.getvalue())
    return dict(json.loads(out.getvalue()))


def column(flows: list[dict[str, Any]]) -> dict[str, str]:
    """Return each check's cell: on how many paths it held, and on how many it is broken."""
    cells: dict[str, Counter[str]] = {}
    for flow in flows:
        for check in flow["checks"]:
            cells.setdefault(check["id"], Counter())[check["verdict"]] += 1
    shown = {id_: f"{of['held']} · {of['broken']}" for id_, of in cells.items()}
    shares = [flow["states_share"] for flow in flows if flow["states_share"] is not None]
    shown["states"] = f"{100 * sum(shares) / len(shares):.0f} %" if shares else "not told"
    return shown


def packets(verdicts: dict[str, Any]) -> str:
    """Write how each controller's packets were judged."""
    columns = {name: column(verdict["flows"]) for name, verdict in verdicts.items()}
    rows = list(dict.fromkeys(id_ for shown in columns.values() for id_ in shown))
    rows.sort(key=lambda id_: id_ == "states")
    heads = [
        f"`{name}` as {verdict['flows'][0]['judged_as']}" for name, verdict in verdicts.items()
    ]
    lines = [[f"`{row}`", *(columns[name].get(row, "") for name in verdicts)] for row in rows]
    return (
        "## Judged by their packets\n\n"
        "`paceline conformance NAME` runs a controller on the draft's six baselines and twelve "
        "drawn paths, and a shadow of the algorithm beside each\n"
        "([Is it BBR?](guide/is-it-bbr.md)). A cell has the number of paths on which a check held "
        "· is broken; on the others it is not seen\nor cannot be told. `states`: the share of "
        "reported states that the shadow was in.\n\n"
        f"{markdown(['check', *heads], lines)}"
    )


#: A step that a controller breaks, or that does not apply to it, in the evidence of a case.
STEP = re.compile(r"step (\d+)(?: \([^)]*\))? (does not hold|not applicable)")


def cell(evidence: str, verdict: str) -> str:
    """Return the verdict of a case, with the steps that decide it."""
    broken = {n for n, what in STEP.findall(evidence) if what == "does not hold"}
    which = ", ".join(sorted(broken)) or "the flow ends"
    return f"**fail** ({which})" if verdict == "fail" else verdict


def cases(verdicts: dict[str, Any]) -> str:
    """Write how each controller's draft cases ended."""
    rows: dict[str, dict[str, str]] = {}
    for name, verdict in verdicts.items():
        for case in verdict["cases"]:
            rows.setdefault(case["id"], {})[name] = cell(case["evidence"], case["verdict"])
    heads = ["case", *(f"`{name}`" for name in verdicts)]
    lines = [[id_, *(of.get(name, "") for name in verdicts)] for id_, of in rows.items()]
    return (
        "## The draft's test cases\n\n"
        "`paceline conformance NAME` runs the test cases of draft-ietf-ccwg-bbr-06, appendix A, on "
        "one to six paths each. A case passes if\nall of its steps hold that a controller's "
        "record can tell: a stack reports its states, and neither the other variables of\n`bbr3` "
        "nor its loss recoveries. In parentheses: the steps that fail.\n\n"
        f"{markdown(heads, lines)}"
    )


def parts() -> None:
    """Run the command on each BBR, and write the parts."""
    given = libraries()
    bring(given)
    names = [f"{stack.name}:{name}" for stack in guests.stacks() for name in stack.controllers]
    theirs = [name for name in names if "bbr" in name]
    verdicts = {name: judged(name, given) for name in (*OURS, *theirs)}
    PACKETS.write_text(packets(verdicts))
    CASES.write_text(cases({name: verdicts[name] for name in theirs}))


if __name__ == "__main__":
    parts()
