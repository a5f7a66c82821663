"""The report of claims: one self-contained HTML file, with its pictures next to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline import store
from paceline.show.figure import saved
from paceline.study import template
from paceline.study.claims.drawing import draw, series
from paceline.study.claims.expressions import ExpressionError
from paceline.study.claims.pictures import PictureError
from paceline.study.claims.results import NOT_QUOTED, Result, in_words, tally

FORMATS = ("png", "svg")


def write_page(results: Sequence[Result], value: dict[str, Any], folder: Path) -> Path:
    """Write `claims.html`, `claims.json` and the pictures into a folder; return the page's path."""
    store.begin(folder, "page", "claims")
    rows = []
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
            images = {f"{name}.{form}": saved(figure, form) for form in FORMATS}
            template.write(folder, images)
            text = picture.title or f"{result.claim.id}, picture {number}"
            drawn.append({"png": template.embedded(images[f"{name}.png"]), "text": text})
        for number, table in enumerate(result.tables, 1):
            name = result.claim.id + (f"-{number}" if len(result.tables) > 1 else "")
            template.write(folder, {f"{name}.csv": table.csv(), f"{name}.md": table.markdown()})
        entry["pictures"] = behind
        rows.append({"claim": result.claim, "result": result, "pictures": drawn})
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    template.write(folder, {"claims.json": text, "claims.html": render(rows, quick=value["quick"])})
    return folder / "claims.html"


def render(rows: list[dict[str, Any]], *, quick: bool) -> str:
    """Return the page."""
    return template.page(
        "claims.html.j2",
        rows=rows,
        in_words=in_words,
        held=tally([row["result"].verdict for row in rows]),
        causes=any(row["result"].cause() for row in rows),
        quick=f"; {NOT_QUOTED}" if quick else "",
    )
