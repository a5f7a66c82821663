"""Flows that `conformance` judges by their packets."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from paceline.cli import console, files
from paceline.cli.failure import Failure
from paceline.errors import UnjudgeableError
from paceline.runs import Run
from paceline.study.conformance.packets import SHADOWS, Judged, causes, judge
from paceline.study.conformance.verdict import Flow, bounds, in_words, measured

#: What a controller's name says that it is, where that is not a shadow's name. There is more than
#: one `bbr`.
_NAMES = {"newreno": "reno"}
#: Broken checks that a sentence names.
_LISTED = 3
#: Of more flows only what is broken is shown.
_FEW = 2


def recorded(target: str, flow: int | None, algorithm: str | None) -> list[Flow]:
    """Judge the flows of a recording: a run's folder, or a file of another program."""
    run = files.recording(target)
    flows = run.flows["flow"].to_list()
    if not flows:
        hint = "record at the sender: a capture of TCP, or a qlog"
        raise Failure("unjudgeable", f"{target} has no flow", hint=hint, file=target)
    if flow is not None and flow not in flows:
        hint = f"its flows are {', '.join(map(str, flows[:9]))}{', ...' * (len(flows) > 9)}"
        raise Failure("no-flow", f"{target} has no flow {flow}", hint=hint, file=target)
    if run.incomplete is not None:
        warning = f"warning: {target}: {run.incomplete}; only the flow up to there is judged"
        console.stderr().print(warning, soft_wrap=True, markup=False)
    judged_flows: list[Flow] = []
    errors: list[UnjudgeableError] = []
    for number in flows if flow is None else [flow]:
        try:
            judged = judge(run, number, SHADOWS if algorithm is None else (algorithm,))
        except UnjudgeableError as error:
            errors.append(error)
            continue
        broken = [judged[0]] if judged[0].verdict == "broken" else []
        judged_flows.append(Flow(run, target, None, number, judged, algorithm, causes(broken)))
    if not judged_flows:
        first = errors[0]
        raise Failure("unjudgeable", f"{target}: {first}", hint=first.hint, file=target)
    for why in errors:
        console.note(f"{target}: {why}")
    return judged_flows


def of_runs(controller: str, runs: Iterable[tuple[str, Run]], algorithm: str | None) -> list[Flow]:
    """Judge the first flow of a controller's run on each path, if it sent enough for that.

    All are judged by one algorithm: that which `algorithm` or its name gives, or else the one
    with the highest sum of likeness.
    """
    own = controller.rpartition(":")[2]
    own = _NAMES.get(own, own)
    algorithm = algorithm or (own if own in SHADOWS else None)
    names = (algorithm,) if algorithm else tuple(SHADOWS)
    results: list[tuple[str, Run, list[Judged]]] = []
    for path, run in runs:
        try:
            results.append((path, run, judge(run, 0, names)))
        except UnjudgeableError as error:
            console.note(f"{controller} on {path}: {error}")
            why = error
    if not results:
        raise Failure("unjudgeable", f"{controller}: {why}", hint=why.hint)
    total = dict.fromkeys(names, 0.0)
    for _, _, judged in results:
        for one in judged:
            total[one.name] += one.likeness
    nearest = max(total, key=lambda name: total[name])
    for _, _, judged in results:
        judged.sort(key=lambda one: one.name != nearest)
        # Another may have fitted it before this was judged thoroughly.
        judged[0] = judged[0].settled()
    broken = [judged[0] for _, _, judged in results if judged[0].verdict == "broken"]
    known = causes(broken)
    return [
        Flow(run, controller, path, 0, judged, algorithm, known if judged[0] in broken else [])
        for path, run, judged in results
    ]


def show(flows: Sequence[Flow]) -> None:
    """Print each flow's verdict, then its checks; of many flows, those that are broken."""
    if len(flows) > _FEW:
        console.show(_together(flows))
    for flow in flows:
        console.show(flow.sentence)
        checks = flow.nearest.checks if len(flows) <= _FEW else flow.nearest.having("broken")
        if checks:
            console.show(_table(checks))
        untold = flow.nearest.having("cannot be told") if len(flows) <= _FEW else []
        for why in dict.fromkeys(check["why"] for check in untold):
            hidden = [check["id"] for check in untold if check["why"] == why]
            console.show(f"{', '.join(hidden)}: {why}")
        if len(flows) <= _FEW:
            others = ", ".join(f"{one.name} {100 * one.likeness:.1f} %" for one in flow.judged)
            console.show(f"Time as allowed by each: {others}")
        console.show(*flow.remarks)


def _table(checks: Iterable[dict[str, Any]]) -> Any:
    table = console.table("Check", "Section", "Measured", "Allowed", "Of", "Verdict", left=2)
    for check in checks:
        verdict, since = check["verdict"], check["t_ns"]
        if verdict == "broken":
            verdict = "BROKEN" if since is None else f"BROKEN from {since / 1e9:.3f} s"
        value = "" if check["measured"] is None else measured(check)
        cells = (value, bounds(check), f"{check['count']:,}", verdict)
        table.add_row(check["id"], check["section"], *cells)
    return table


def _together(flows: Sequence[Flow]) -> str:
    """Return what holds of all of them."""
    verdicts = Counter(flow.nearest.verdict for flow in flows)
    counts = ", ".join(f"{verdict} {count}" for verdict, count in verdicts.most_common())
    broken = Counter(check["id"] for flow in flows for check in flow.nearest.having("broken"))
    names = ", ".join(f"{name} on {count}" for name, count in broken.most_common(_LISTED))
    of = {(flow.target, SHADOWS[flow.nearest.name]) for flow in flows}
    whose = " beside ".join(next(iter(of))) if len(of) == 1 else "recorded"
    return f"{len(flows)} flows, {whose}: {counts}{f'. Broken: {names}' if names else ''}"


@dataclass(frozen=True)
class Stored:
    """A verdict of before, as `--json` wrote it."""

    #: The verdict of each case, by controller and id.
    cases: dict[tuple[str, str], str]
    #: Flows by the name of their target, path and number.
    flows: dict[tuple[str, str | None, int], dict[str, Any]]

    @classmethod
    def read(cls, place: Path) -> Stored:
        """Read it from a file."""
        hint = "name a file that `paceline conformance TARGET --json` wrote"
        try:
            value = json.loads(place.read_text(encoding="utf-8"))
            cases = {
                (str(c["controller"]), str(c["id"])): str(c["verdict"]) for c in value["cases"]
            }
            flows = {
                (Path(flow["target"]).name, flow["path"], int(flow["flow"])): {
                    "judged_as": str(flow["judged_as"]),
                    "verdict": str(flow["verdict"]),
                    "checks": {str(one["id"]): str(one["verdict"]) for one in flow["checks"]},
                }
                for flow in value["flows"]
            }
        except OSError as error:
            message = f"{place}: {error.strerror}"
            raise Failure("not-found", message, hint=hint, file=str(place)) from error
        except (ValueError, KeyError, TypeError) as error:
            message = f"{place} is no verdict of `conformance`"
            raise Failure("not-a-verdict", message, hint=hint, file=str(place)) from error
        return cls(cases, flows)

    def _renamed(self, judged: Iterable[tuple[str, str | None, int]]) -> dict[str, str]:
        """Return the new name of a recording, if one has another name than before."""
        then, now = ({one[0] for one in of if one[1] is None} for of in (self.flows, judged))
        gone, new = then - now, now - then
        return dict(zip(gone, new, strict=True)) if len(gone) == len(new) == 1 else {}

    def worse(self, cases: list[dict[str, Any]], flows: Iterable[Flow]) -> list[str]:
        """Return what held then and is broken now, or is no longer there."""
        now = {(case["controller"], case["id"]): case["verdict"] for case in cases}
        good = ("pass", "expected fail")
        worse = [
            f"case {case} of {controller}"
            for (controller, case), then in self.cases.items()
            if then in good and now.get((controller, case), "fail") == "fail"
        ]
        judged = {(Path(flow.target).name, flow.path, flow.flow): flow for flow in flows}
        renamed = self._renamed(judged)
        for (target, path, number), then in self.flows.items():
            flow = judged.get((renamed.get(target, target), path, number))
            if flow is None and path is None:
                hint = "judge the same recordings again, or write a new verdict with --json"
                message = f"--against has flow {number} of {target}, which was not judged now"
                raise Failure("not-judged", message, hint=hint)
            if flow is None:
                if then["verdict"] == "fits":
                    worse.append(f"{target} on {path}, which was not judged now")
            elif flow.nearest.name != then["judged_as"]:
                if then["verdict"] == "fits":
                    worse.append(f"{flow.name}, which was {then['judged_as']}")
            else:
                broken = (check["id"] for check in flow.nearest.having("broken"))
                newly_broken = (name for name in broken if then["checks"].get(name) == "held")
                worse += [f"{name} of {flow.name}" for name in newly_broken]
        return worse


def annotate(flows: Iterable[Flow], *, known: bool) -> None:
    """Tell GitHub Actions, if they run this, of each broken check; of `known` ones as a warning."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    level = "warning" if known else "error"
    for flow in flows:
        for check in flow.nearest.having("broken"):
            text = f"{flow.name}: {in_words(check)}"
            text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
            console.stderr().print(f"::{level} title={check['id']}::{text}", soft_wrap=True)


def junit(cases: list[dict[str, Any]], flows: Iterable[Flow]) -> bytes:
    """Return the outcome as JUnit's XML, which continuous integration shows."""
    suites = ET.Element("testsuites", name="paceline conformance")
    if cases:
        suite = ET.SubElement(suites, "testsuite", name="cases", tests=str(len(cases)))
        for case in cases:
            _test(suite, case["id"], case["suite"], case["verdict"], case["summary"])
    for flow in flows:
        name = f"{flow.path or flow.target}, flow {flow.flow}, as {flow.nearest.name}"
        checks = flow.nearest.checks
        suite = ET.SubElement(suites, "testsuite", name=name, tests=str(len(checks)))
        for check in checks:
            text = f"{check['requires']} ({check['section']}): {measured(check)}, {bounds(check)}"
            _test(suite, check["id"], flow.target, check["verdict"], text)
    ET.indent(suites)
    return bytes(ET.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def _test(suite: ET.Element, name: str, group: str, verdict: str, message: str) -> None:
    case = ET.SubElement(suite, "testcase", name=name, classname=group)
    if verdict in ("fail", "broken"):
        ET.SubElement(case, "failure", message=message)
    elif verdict not in ("pass", "held"):
        ET.SubElement(case, "skipped", message=verdict)
