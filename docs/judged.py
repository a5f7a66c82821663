"""Writes docs/stacks/packets.txt and cases.txt, parts of docs/stacks.md: each BBR, judged.

`make stacks` runs it before it writes that page. Libraries in target/guests are stacks, too.
docs/stacks/measured/judged.json keeps what the command says of a controller, by the version of its
stack and the draft's cases: only what is not there is run, and with --kept nothing is.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
from collections import Counter
from typing import Any

from generate import table as markdown
from stacks import KEPT, MEASURED, NOTES, ROOT, libraries, versions

from paceline.cli import main
from paceline.cli.guests import bring

DRAFT = ROOT / "data" / "conformance" / "draft-ietf-ccwg-bbr"
PACKETS, CASES, STORE = NOTES / "packets.txt", NOTES / "cases.txt", MEASURED / "judged.json"
#: Ours, to compare with.
OURS = ("bbr3", "bbr1")
#: What a stack says that its controller is.
ALGORITHMS = {
    "quinn:bbr": "bbr1",
    "s2n:bbr": "bbr2",
    "tquic:bbr": "bbr1",
    "ngtcp2:bbr": "bbr3",
    "picoquic:bbr": "bbr3",
    "picoquic:bbr1": "bbr1",
    "quiche:bbr2": "bbr2",
}


def judged(controller: str, given: list[str]) -> dict[str, Any]:
    """Return the verdicts of a controller's cases and checks, measured once.

    Either is empty if it was not measured; then it is run.
    """
    digest = hashlib.sha256()
    for file in sorted(DRAFT.iterdir()):
        digest.update(file.read_bytes())
    # A command forgets the libraries of the one before.
    bring(given)
    key = f"{controller} {versions()[controller]}, cases {digest.hexdigest()[:8]}"
    known = json.loads(STORE.read_text()) if STORE.is_file() else {}
    found = known.get(key, {"as": "", "checks": {}, "cases": {}})
    if not KEPT and not (found["checks"] and found["cases"]):
        words = ["conformance", controller, "--json", "--quiet"]
        if controller in ALGORITHMS:
            words += ["--as", ALGORITHMS[controller]]
        for library in given:
            if library.startswith(f"{controller.partition(':')[0]}="):
                words += ["--controller", library]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            main(words)
        verdict = json.loads(out.getvalue())
        found = known[key] = {
            "as": verdict["flows"][0]["judged_as"],
            "checks": column(verdict["flows"]),
            "cases": {one["id"]: cell(one["evidence"], one["verdict"]) for one in verdict["cases"]},
        }
        STORE.write_text(json.dumps(known, indent=1) + "\n")
    return dict(found)


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
    verdicts = {name: verdict for name, verdict in verdicts.items() if verdict["checks"]}
    columns = {name: verdict["checks"] for name, verdict in verdicts.items()}
    rows = list(dict.fromkeys(id_ for shown in columns.values() for id_ in shown))
    rows.sort(key=lambda id_: id_ == "states")
    heads = [f"`{name}` as {verdict['as']}" for name, verdict in verdicts.items()]
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
        for id_, shown in verdict["cases"].items():
            rows.setdefault(id_, {})[name] = shown
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
    theirs = [name for name in versions() if ":bbr" in name]
    verdicts = {name: judged(name, given) for name in (*OURS, *theirs)}
    PACKETS.write_text(packets(verdicts))
    CASES.write_text(cases({name: verdicts[name] for name in theirs}))


if __name__ == "__main__":
    parts()
