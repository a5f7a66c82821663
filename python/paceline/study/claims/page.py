"""The report of claims: one self-contained HTML file, with its pictures next to it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from paceline import store
from paceline._paceline import __version__
from paceline.show.figure import saved
from paceline.study.claims.drawing import draw, series
from paceline.study.claims.expressions import ExpressionError
from paceline.study.claims.pictures import PictureError
from paceline.study.claims.results import NOT_QUOTED, Result, in_words, tally

FORMATS = ("png", "svg")


def write_page(results: Sequence[Result], value: dict[str, Any], folder: Path) -> Path:
    """Write `claims.html`, `claims.json` and the pictures into a folder; return the page's path."""
    store.begin(folder, "page", "claims")
    rows = []

    def write(name: str, contents: bytes | str) -> Path:
        with store.writing(folder / name) as fresh:
            fresh.write_bytes(contents.encode() if isinstance(contents, str) else contents)
        return folder / name

    for result, entry in zip(results, value["claims"], strict=True):
        pictures = result.claim.pictures if result.names else ()
        drawn, behind = [], []
        for number, picture in enumerate(pictures, 1):
            try:
                figure = draw(result, picture)
            except (ExpressionError, PictureError) as error:
                drawn.append({"png": "", "text": f"not drawn: {error}"})
                continue
            if picture.y:
                behind.append(series(picture, result.names))
            name = result.claim.id + (f"-{number}" if len(pictures) > 1 else "")
            images = {form: saved(figure, form) for form in FORMATS}
            for form, image in images.items():
                write(f"{name}.{form}", image)
            text = picture.title or f"{result.claim.id}, picture {number}"
            drawn.append({"png": base64.b64encode(images["png"]).decode(), "text": text})
        for number, table in enumerate(result.tables, 1):
            name = result.claim.id + (f"-{number}" if len(result.tables) > 1 else "")
            write(f"{name}.csv", table.csv())
            write(f"{name}.md", table.markdown())
        entry["pictures"] = behind
        rows.append({"claim": result.claim, "result": result, "pictures": drawn})
    write("claims.json", json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    return write("claims.html", render(rows, quick=value["quick"]))


def render(rows: list[dict[str, Any]], *, quick: bool) -> str:
    """Return the page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    held = tally([row["result"].verdict for row in rows])
    return environment.from_string(_asset("claims.html.j2")).render(
        rows=rows,
        in_words=in_words,
        held=held,
        causes=any(row["result"].cause() for row in rows),
        quick=f"; {NOT_QUOTED}" if quick else "",
        version=__version__,
        style=_asset("report.css"),
    )


def _asset(name: str) -> str:
    return (files("paceline") / "web" / name).read_text(encoding="utf-8")
