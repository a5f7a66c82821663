"""Self-contained pages of studies, from the templates in ``web/``."""

from __future__ import annotations

import base64
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from paceline import store
from paceline._paceline import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def page(name: str, **values: Any) -> str:
    """Return the page of a template, with its style and the program's version."""
    web = files("paceline") / "web"
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string((web / name).read_text("utf-8"))
    style = (web / "report.css").read_text("utf-8")
    return template.render(style=style, version=__version__, **values)


def embedded(image: bytes) -> str:
    """Return a picture as a page has it in itself."""
    return base64.b64encode(image).decode()


def write(folder: Path, contents: Mapping[str, bytes | str]) -> None:
    """Write files of ours into a folder."""
    for name, content in contents.items():
        store.write(folder / name, content)
