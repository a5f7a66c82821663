"""Self-contained pages of studies, from the templates in ``web/``."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from paceline import store
from paceline.show.page import asset, rendered

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def page(name: str, **values: Any) -> str:
    """Return the page of a template, with its style and the program's version."""
    return rendered(name, style=asset("report.css"), **values)


def embedded(image: bytes) -> str:
    """Return a picture as a page has it in itself."""
    return base64.b64encode(image).decode()


def write(folder: Path, contents: Mapping[str, bytes | str]) -> None:
    """Write files of ours into a folder."""
    for name, content in contents.items():
        store.write(folder / name, content)
