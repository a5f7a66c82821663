"""The report of a run as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import gzip
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from paceline import answers
from paceline._paceline import __version__, metrics
from paceline.quantities import number, quantity, scale_of
from paceline.show.palette import flow_style, tints
from paceline.show.panels import Detail, Panel, Sketch
from paceline.show.tables import emulation_rows, guest_lines

if TYPE_CHECKING:
    from paceline.show.recorded import Recorded


def write_page(run: Recorded, path: Path) -> Path:
    """Write the report of a run and return its path."""
    path.write_text(render(run), encoding="utf-8")
    return path


def render(run: Recorded, *, served: bool = False) -> str:
    """Return the page; one that is served has its scripts and styles as files beside it."""
    sketch = Sketch(run)
    details = [sketch.detail(flow) for flow in sketch.drawn]
    definitions = metrics()
    return filled(
        "report.html.j2",
        drawn(sketch, details),
        run=run,
        served=served,
        metrics=_rows(run.metrics),
        flows=_flows(run),
        flow_columns=[d["name"] for d in definitions if d["scope"] == "flow"],
        definitions=definitions,
        details=details,
        emulation=_emulation(run),
        guests=guest_lines(run.guests),
        left_out=sketch.flows.height - len(details),
    )


def filled(template: str, data: answers.Drawn, **values: Any) -> str:
    """Return a page with its plots' data, and with all that it needs."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(_asset(template)).render(
        version=__version__,
        style=_asset("uPlot.min.css") + _asset("report.css"),
        library=_asset("uPlot.iife.min.js"),
        licence=_asset("uPlot.LICENSE"),
        script=_asset("report.js"),
        data=_packed(data),
        **values,
    )


def _asset(name: str) -> str:
    return (files("paceline") / "web" / name).read_text(encoding="utf-8")


def _rows(values: dict[str, float | None]) -> list[dict[str, str]]:
    rows = []
    for name, value in values.items():
        scale = scale_of(name, value)
        rows.append({"name": name, "value": number(value, scale), "unit": scale.unit})
    return rows


def _emulation(run: Recorded) -> dict[str, Any] | None:
    """Return what the emulator measured of itself, and why it is not to be trusted."""
    if run.emulation is None:
        return None
    beyond = [bound["message"] for bound in run.emulation["beyond"]]
    return {"rows": emulation_rows(run.emulation), "beyond": beyond}


def _flows(run: Recorded) -> list[dict[str, Any]]:
    rows = []
    for index, flow in enumerate(run.flow_metrics):
        values = {k: quantity(k, v) for k, v in flow.items() if v is None or _is_number(v)}
        rows.append({**flow, "values": values, "colour": flow_style(index).colour})
    return rows


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def drawn(sketch: Sketch, details: list[Detail]) -> answers.Drawn:
    """Return what the page draws."""
    states = dict.fromkeys(band.state for detail in details for band in detail.bands)
    return {
        "end": sketch.end_ns / 1e9,
        "overview": [as_json(panel) for panel in sketch.overview()],
        "details": [
            {
                "flow": detail.flow,
                "panels": [as_json(panel) for panel in detail.panels],
                "bands": [{"start": b.start, "end": b.end, "state": b.state} for b in detail.bands],
            }
            for detail in details
        ],
        "tints": tints(list(states)),
    }


def _packed(data: answers.Drawn) -> str:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def as_json(panel: Panel) -> answers.Panel:
    """Return a plot as the page is told of it."""
    return {
        "title": panel.title,
        "unit": panel.unit,
        "unitRight": panel.unit_right,
        "stacked": panel.stacked,
        "times": [round(t, 6) for t in panel.times],
        "series": [
            {
                "label": series.label,
                "colour": series.style.colour,
                "dash": list(series.style.dash),
                "right": series.right,
                "values": series.values,
            }
            for series in panel.series
        ],
    }
