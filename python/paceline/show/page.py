"""The report of a run as one self-contained HTML file."""

from __future__ import annotations

import base64
import gzip
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from paceline import pages
from paceline._paceline import __version__, metrics
from paceline.measures import foremost, label
from paceline.quantities import quantity
from paceline.show import packets, path
from paceline.show.palette import flow_style, state_colour
from paceline.show.panels import Detail, Panel, Series, Sketch
from paceline.show.tables import bound_in_words, emulation_rows, guest_lines, judged

if TYPE_CHECKING:
    from paceline.runs import Run


def write_page(run: Run, file: Path) -> Path:
    """Write the report of a run and return its path."""
    file.write_text(render(run), encoding="utf-8")
    return file


def render(run: Run, *, served: bool = False) -> str:
    """Return the page; a served page has its scripts and styles as separate files."""
    sketch = Sketch(run)
    details = [sketch.detail(flow) for flow in sketch.drawn]
    recorded = packets.of_flows(run, sketch.drawn)
    definitions = metrics()
    return filled(
        "report.html.j2",
        drawn(sketch, details, recorded),
        run=run,
        served=served,
        about=path.about(run.scenario_toml),
        path=path.boxes(run.scenario_toml),
        expectations=_expectations(run),
        judged=judged(run.outcomes),
        headlines=_headlines(run),
        metrics=_rows(run.metrics),
        undefined=[label(name) for name, value in run.metrics.items() if value is None],
        flows=_flows(run),
        flow_columns=_flow_columns(run),
        spreads=_spreads(run),
        definitions=definitions,
        details=details,
        has_packets=bool(recorded),
        emulation=_emulation(run),
        guests=guest_lines(run.guests),
        left_out=sketch.flows.height - len(details),
    )


def _code(text: str) -> Markup:
    """Return a text with its parts in backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def filled(template: str, data: pages.Drawn, **values: Any) -> str:
    """Return a page with its plots' data and everything that it needs."""
    return rendered(
        template,
        style=asset("uPlot.min.css") + asset("report.css"),
        library=asset("uPlot.iife.min.js"),
        licence=asset("uPlot.LICENSE"),
        script=asset("report.js"),
        data=_packed(data),
        **values,
    )


def rendered(template: str, **values: Any) -> str:
    """Return a page with these values and the program's version."""
    environment = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["code"] = _code
    return environment.get_template(template).render(version=__version__, **values)


def asset(name: str) -> str:
    """Return a file of the pages."""
    return (files("paceline") / "web" / name).read_text(encoding="utf-8")


def _rows(values: dict[str, float | None]) -> list[dict[str, str]]:
    """Return the metrics that are defined."""
    return [
        {"name": name, "label": label(name), "value": quantity(name, value)}
        for name, value in values.items()
        if value is not None
    ]


def _headlines(run: Run) -> list[dict[str, str]]:
    """Return the six most important metrics, if they are defined."""
    names = foremost(run.metrics, len(run.flow_metrics))[:6]
    return _rows({name: run.metrics[name] for name in names})


def _expectations(run: Run) -> list[dict[str, Any]]:
    """Return the results of `[expect]`, with units."""
    return [
        {
            "label": label(outcome["metric"]),
            "name": outcome["metric"],
            "bound": bound_in_words(outcome),
            "value": quantity(outcome["metric"], outcome["value"]),
            "held": outcome["held"],
        }
        for outcome in run.outcomes
    ]


def _flow_columns(run: Run) -> list[dict[str, str]]:
    """Return the columns of the table of flows: metrics that a flow has."""
    return [
        {"name": d["name"], "label": d["label"]}
        for d in metrics()
        if d["scope"] == "flow" and any(f.get(d["name"]) is not None for f in run.flow_metrics)
    ]


def _spreads(run: Run) -> dict[str, str]:
    """Return each flow metric from its minimum to its maximum over the flows."""
    spreads = {}
    for name in (column["name"] for column in _flow_columns(run)):
        values = [flow[name] for flow in run.flow_metrics if flow.get(name) is not None]
        ends = dict.fromkeys(quantity(name, end) for end in (min(values), max(values)))
        spreads[name] = " to ".join(ends)
    return spreads


def _emulation(run: Run) -> dict[str, Any] | None:
    """Return the emulator's measurements of itself, and why it is not reliable."""
    if run.emulation is None:
        return None
    beyond = [bound["message"] for bound in run.emulation["beyond"]]
    return {"rows": emulation_rows(run.emulation), "beyond": beyond}


def _flows(run: Run) -> list[dict[str, Any]]:
    rows = []
    for index, flow in enumerate(run.flow_metrics):
        values = {
            k: quantity(k, v) for k, v in flow.items() if v is None or type(v) in (int, float)
        }
        rows.append({**flow, "values": values, "colour": flow_style(index).colour})
    return rows


def drawn(sketch: Sketch, details: list[Detail], recorded: dict[int, pages.Packets]) -> pages.Drawn:
    """Return the data that the page draws."""
    states = dict.fromkeys(band["state"] for detail in details for band in detail.bands)
    return {
        "end": sketch.end_ns / 1e9,
        "overview": [as_json(panel) for panel in sketch.overview()],
        "details": [
            {
                "flow": detail.flow,
                "label": detail.label,
                "panels": [as_json(panel) for panel in detail.panels],
                "bands": detail.bands,
                "limits": detail.limits,
                "lost": detail.lost,
                "packets": recorded.get(detail.flow),
            }
            for detail in details
        ],
        "tints": {state: state_colour(state) for state in states},
        "marks": sketch.marks(),
        "happenings": sketch.happenings(),
    }


def _packed(data: pages.Drawn) -> str:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def as_json(panel: Panel) -> pages.Panel:
    """Return a plot in the page's format."""
    return {
        "title": panel.title,
        "unit": panel.unit,
        "unitRight": panel.unit_right,
        "stacked": panel.stacked,
        "times": [round(t, 6) for t in panel.times],
        "series": [_shape(series) for series in panel.series],
        "references": [_shape(series) for series in panel.references],
    }


def _shape(series: Series) -> pages.Shape:
    return {
        "label": series.label,
        "colour": series.style.colour,
        "dash": list(series.style.dash),
        "right": series.right,
        "values": series.values,
    }
