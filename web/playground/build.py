"""Build the playground: one page that contains the simulator and opens from disk or any web server.

Usage: build.py WASM FOLDER. Writes FOLDER/index.html. The lessons run natively, so that the page
can say whether its own results are the same.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import paceline
from paceline import _paceline, shipped

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
#: Limit of the compressed page, in bytes.
MOST = 2_000_000


def lessons() -> list[dict[str, Any]]:
    """Return the lessons, each with its scenario before and after its change."""
    made = []
    for name, lesson in shipped.lessons().items():
        text = (ROOT / "data" / "scenarios" / "lessons" / f"{name}.toml").read_text("utf-8")
        old, new = lesson.pop("change")
        if old not in text:
            raise ValueError(f"lesson {name}: its scenario has no {old!r}")
        lesson = {key: said for key, said in lesson.items() if key not in {"shows", "set"}}
        texts = {"toml": text, "changed": text.replace(old, new)}
        digests = [paceline.run(one).digest for one in texts.values()]
        made.append({"id": name, **texts, "digests": digests, **lesson})
    return made


def controllers() -> list[str]:
    """Return the names of the controllers, from the reference."""
    text = (ROOT / "docs" / "reference" / "controllers.md").read_text("utf-8")
    return re.findall(r"^## `([^`]+)`$", text, re.M)


def page(wasm: bytes) -> str:
    """Return the page."""
    version = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text("utf-8"), re.M)
    if version is None:
        raise ValueError("Cargo.toml has no version")
    web = ROOT / "python" / "paceline" / "web"
    data = {
        "wasm": base64.b64encode(gzip.compress(wasm, 9, mtime=0)).decode(),
        "worker": (HERE / "worker.js").read_text("utf-8"),
        "built": {
            "lessons": lessons(),
            "controllers": controllers(),
            "version": version[1],
            "labels": {
                metric["name"]: metric["label"]
                for metric in _paceline.metrics()
                if metric["scope"] == "run"
            },
            "schema": json.loads(paceline.schema()),
            "template": (HERE / "controller.js").read_text("utf-8"),
        },
    }
    parts = {
        "style": (web / "uPlot.min.css").read_text("utf-8")
        + (HERE / "style.css").read_text("utf-8")
        + (web / "editor.css").read_text("utf-8"),
        "uplot": (web / "uPlot.iife.min.js").read_text("utf-8"),
        # What ends a script must not be in one.
        "data": json.dumps(data).replace("</", "<\\/"),
        "script": (HERE / "playground.js").read_text("utf-8"),
        "version": version[1],
    }
    text = (HERE / "index.html").read_text("utf-8")
    return re.sub(r"\{\{ (\w+) \}\}", lambda match: parts[match[1]], text)


def main() -> None:
    """Write the page."""
    wasm, folder = map(Path, sys.argv[1:])
    made = page(wasm.read_bytes()).encode()
    size = len(gzip.compress(made, 9, mtime=0))
    if size > MOST:
        sys.exit(f"error: the page has {size:,} bytes compressed, more than {MOST:,}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_bytes(made)
    print(f"{folder / 'index.html'}: {len(made):,} bytes, {size:,} compressed")


if __name__ == "__main__":
    main()
