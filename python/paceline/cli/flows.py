"""Flows that `conformance` judges by their packets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from paceline.cli import console, files
from paceline.cli.failure import Failure, failing
from paceline.errors import CaptureError, UnjudgeableError
from paceline.runs import Run
from paceline.study.conformance.packets import SHADOWS, Judged, causes, judge

#: A flow is no BBR if it does less than this share of the time what the nearest allows.
_NEAR = 0.3
#: Broken checks that a sentence names.
_TOLD = 3


@dataclass(frozen=True)
class Flow:
    """A judged flow."""

    target: str
    path: str | None
    flow: int
    judged: list[Judged]
    #: What `--as` claims it to be.
    said: str | None
    #: Options of `bbr3` that would explain it.
    causes: list[tuple[str, float]]

    @property
    def nearest(self) -> Judged:
        """The shadow that it is judged by."""
        return self.judged[0]

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        nearest, broken = self.nearest, self.nearest.having("broken")
        name = SHADOWS[nearest.name]
        where = f"{self.target}{f' on {self.path}' if self.path else f', flow {self.flow}'}"
        if nearest.verdict == "fits":
            held, untold = (len(nearest.having(one)) for one in ("held", "cannot be told"))
            told = f"nothing is broken, {held} checks held"
            return f"{where} is {name}: {told}{f', {untold} cannot be told' if untold else ''}"
        if nearest.verdict == "cannot be told":
            return f"{where}: these packets do not tell whether it is {name}"
        if self.said is None and nearest.likeness < _NEAR:
            return (
                f"{where} is no BBR: {name} is nearest, and {len(broken)} of its checks are broken"
            )
        told = "; ".join(_in_words(check) for check in broken[:_TOLD])
        more = f"; and {len(broken) - _TOLD} more" if len(broken) > _TOLD else ""
        things = "one thing" if len(broken) == 1 else f"{len(broken)} things"
        return f"{where} is {name} in all but {things}: {told}{more}"

    def as_json(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        return {
            "target": self.target,
            "path": self.path,
            "flow": self.flow,
            "judged_as": self.nearest.name,
            "verdict": self.nearest.verdict,
            "sentence": self.sentence,
            "likeness": {one.name: round(one.likeness, 4) for one in self.judged},
            "causes": [{"option": option, "value": value} for option, value in self.causes],
            "checks": self.nearest.checks,
        }


def _in_words(check: dict[str, Any]) -> str:
    return f"{check['id']} ({check['section']}) is {_value(check)}, allowed {_bounds(check)}"


def _value(check: dict[str, Any]) -> str:
    measured = check["measured"]
    return "unknown" if measured is None else f"{measured:.4g} {check['unit']}".strip()


def _bounds(check: dict[str, Any]) -> str:
    least, most = check["least"], check["most"]
    if least == most:
        return f"{least:.3g}"
    if most is None:
        return f"{least:.3g} or more"
    if least in (None, 0.0):
        return f"up to {most:.3g}"
    return f"{least:.3g} to {most:.3g}"


def _judged(run: Run, number: int, target: str, path: str | None, said: str | None) -> Flow:
    judged = judge(run, number, SHADOWS if said is None else (said,))
    nearest = judged[0]
    near = nearest.verdict == "broken" and (said is not None or nearest.likeness >= _NEAR)
    return Flow(target, path, number, judged, said, causes(nearest) if near else [])


def recorded(target: str, flow: int | None, said: str | None) -> list[Flow]:
    """Judge the flows of a recording: a run's folder, or a file of another program."""
    if Path(target).is_file():
        with failing(CaptureError, "not-a-recording", file=target):
            run = Run.capture(target)
    else:
        run = files.read_run(target)
    flows = run.flows["flow"].to_list()
    if not flows:
        hint = "record at the sender: a capture of TCP, or a qlog"
        raise Failure("unjudgeable", f"{target} has no flow", hint=hint, file=target)
    if flow is not None and flow not in flows:
        hint = f"its flows are {', '.join(map(str, flows[:9]))}{', ...' * (len(flows) > 9)}"
        raise Failure("no-flow", f"{target} has no flow {flow}", hint=hint, file=target)
    found: list[Flow] = []
    refused: list[UnjudgeableError] = []
    for number in flows if flow is None else [flow]:
        try:
            found.append(_judged(run, number, target, None, said))
        except UnjudgeableError as error:
            refused.append(error)
    if not found:
        first = refused[0]
        raise Failure("unjudgeable", f"{target}: {first}", hint=first.hint, file=target)
    for why in refused:
        console.note(f"{target}: {why}")
    return found


def of_run(run: Run, controller: str, path: str, said: str | None) -> list[Flow]:
    """Judge the first flow of a controller's run on a path, if it sent enough for that."""
    try:
        return [_judged(run, 0, controller, path, said)]
    except UnjudgeableError as error:
        console.note(f"{controller} on {path}: {error}")
        return []


def show(flows: Iterable[Flow]) -> None:
    """Print each flow's verdict, then its checks."""
    for flow in flows:
        table = console.table("Check", "Draft", "Measured", "Allowed", "Of", "Verdict", left=2)
        for check in flow.nearest.checks:
            verdict, since = check["verdict"], check["t_ns"]
            if verdict == "broken":
                verdict = "BROKEN" if since is None else f"BROKEN from {since / 1e9:.3f} s"
            table.add_row(
                check["id"],
                check["section"],
                "" if check["measured"] is None else _value(check),
                _bounds(check),
                f"{check['count']:,}",
                verdict,
            )
        console.stdout().print(table)
        for why in dict.fromkeys(check["why"] for check in flow.nearest.checks if check["why"]):
            hidden = [check["id"] for check in flow.nearest.checks if check["why"] == why]
            console.stdout().print(f"{', '.join(hidden)}: {why}", soft_wrap=True)
        others = ", ".join(f"{one.name} {100 * one.likeness:.1f} %" for one in flow.judged)
        console.stdout().print(f"Time as allowed by each: {others}", soft_wrap=True)
        console.stdout().print(flow.sentence, soft_wrap=True)
        for option, value in flow.causes:
            told = f"With {option} = {value:g} nothing is broken"
            console.stdout().print(told, soft_wrap=True)


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
            said = f"{check['requires']} ({check['section']}): {_value(check)}, {_bounds(check)}"
            _test(suite, check["id"], flow.target, check["verdict"], said)
    ET.indent(suites)
    return bytes(ET.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def _test(suite: ET.Element, name: str, group: str, verdict: str, said: str) -> None:
    case = ET.SubElement(suite, "testcase", name=name, classname=group)
    if verdict in ("fail", "broken"):
        ET.SubElement(case, "failure", message=said)
    elif verdict not in ("pass", "held"):
        ET.SubElement(case, "skipped", message=verdict)
