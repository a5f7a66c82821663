"""The verdict of `conformance` on flows, as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from paceline import pages
from paceline.quantities import quantity, scale_of
from paceline.show import page
from paceline.show.palette import quantity_style, reference_style, state_colour
from paceline.show.panels import BUCKETS, Panel, Series, Values, bands_of, scaled, top
from paceline.study.conformance.packets import reported
from paceline.study.conformance.verdict import Flow, bounds, measured

if TYPE_CHECKING:
    from paceline.study.conformance.packets import Judged

#: Of many flows the first are drawn, broken ones before others.
DRAWN = 12


def write_page(flows: Sequence[Flow], file: Path) -> Path:
    """Write the page of judged flows."""
    drawn = sorted(flows, key=lambda flow: flow.nearest.verdict != "broken")[:DRAWN]
    several = len({flow.target for flow in flows}) > 1
    details = [
        detail for nth, flow in enumerate(drawn) for detail in _details(nth, flow, named=several)
    ]
    states = dict.fromkeys(band["state"] for detail in details for band in detail["bands"])
    text = page.filled(
        "verdict.html.j2",
        {
            "end": max(int(flow.nearest.moments["t_ns"][-1]) for flow in drawn) / 1e9,
            "overview": [],
            "details": details,
            "tints": {state: state_colour(state) for state in states},
            "marks": [],
            "happenings": [one for nth, flow in enumerate(drawn) for one in _broken(nth, flow)],
        },
        flows=flows,
        details=details,
        left_out=len(flows) - len(drawn),
        rows={flow.name: [_row(check) for check in flow.nearest.checks] for flow in flows},
    )
    file.write_text(text, encoding="utf-8")
    return file


def _row(check: dict[str, Any]) -> dict[str, Any]:
    since = check["t_ns"]
    return {
        **check,
        "measured": "" if check["measured"] is None else measured(check),
        "allowed": bounds(check),
        "since": "" if since is None else quantity("_ns", since),
    }


def _broken(nth: int, flow: Flow) -> list[pages.Happening]:
    """Return when each check was first broken."""
    checks = [check for check in flow.nearest.having("broken") if check["t_ns"] is not None]
    marks = [(check["t_ns"] / 1e9, f"{check['id']} is broken") for check in checks]
    return [{"t": at, "flow": nth, "kind": "broken", "text": text} for at, text in sorted(marks)]


def _details(nth: int, flow: Flow, *, named: bool) -> list[pages.Detail]:
    """Return the plots of a flow beside its shadow, and the states that it reported itself."""
    frame = flow.nearest.moments
    place = flow.path.partition("-")[0] if flow.path else str(flow.flow)
    place = f"{place} {flow.target}" if named else place
    detail: pages.Detail = {
        "flow": nth,
        "label": place,
        "panels": [page.as_json(panel) for panel in _panels(flow.nearest)],
        "bands": bands_of(frame, "phase", frame["t_ns"][-1]),
        "limits": [],
        "lost": [],
        "packets": None,
    }
    own = reported(flow.run, flow.flow)
    if own.is_empty():
        return [detail]
    return [
        detail,
        {**detail, "label": f"{place} own", "bands": bands_of(own, "phase", own["t_ns"][-1])},
    ]


def _panels(judged: Judged) -> list[Panel]:
    """Return what the flow did, and what the shadow allowed, in equal spans of time."""
    frame = judged.moments
    first, last = int(frame["t_ns"][0]), int(frame["t_ns"][-1])
    count = min(BUCKETS, max(frame.height // 4, 1))
    width = (last - first) // count + 1
    spans = (
        frame.with_columns(span=(pl.col("t_ns") - first) // width)
        .group_by("span")
        .agg(
            pl.col("pace_bps").mean(),
            pl.col("in_flight_bytes").max(),
            pl.col("window_bytes").max(),
            pl.col("t_ns").last(),
            pl.col("sent_bytes").last(),
        )
        .sort("span")
        .with_columns(own_bps=pl.col("sent_bytes").diff() * 8e9 / pl.col("t_ns").diff())
    )
    times = [(first + (int(span) + 0.5) * width) / 1e9 for span in spans["span"]]
    flight, window = (spans[f"{name}_bytes"].to_list() for name in ("in_flight", "window"))
    pace, own = spans["pace_bps"].to_list(), spans["own_bps"].to_list()
    panels = [
        _pair(
            "window", "In flight, and the window", "_bytes", times, ("in flight", flight), window
        ),
        _pair("rates", "Pace", "_bps", times, ("pace", own), pace),
        _ratio("In flight over the window", times, flight, window),
    ]
    if any(value is not None for value in pace):
        panels.append(_ratio("Pace over what is allowed", times, own, pace))
    return panels


def _pair(
    name: str, title: str, suffix: str, times: list[float], own: tuple[str, Values], allowed: Values
) -> Panel:
    label, values = own
    scale = scale_of(suffix, max(top(values), top(allowed)))
    series = [Series(label, quantity_style(0), scaled(values, scale))]
    if any(value is not None for value in allowed):
        series.append(Series("allowed", quantity_style(1), scaled(allowed, scale)))
    return Panel(name, title, scale.unit, times, series)


def _ratio(title: str, times: list[float], own: Values, allowed: Values) -> Panel:
    values: Values = [
        min(a / b, 3.0) if a is not None and b else None for a, b in zip(own, allowed, strict=True)
    ]
    line = [Series("as allowed", reference_style(0), [1.0] * len(times))]
    own_line = [Series("ratio", quantity_style(0), values)]
    return Panel("ratio", title, "", times, own_line, references=line)
