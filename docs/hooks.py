"""What MkDocs does beyond its own for the site: a search from files, tables that scroll."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def on_page_content(html: str, **_: Any) -> str:
    """Make what may be wider than the page scroll, with the keyboard too."""
    html = re.sub("<table.*?>", '<div class="wide" tabindex="0">\\g<0>', html)
    html = html.replace("</table>", "</table></div>").replace("<th></th>", "<td></td>")
    return html.replace("<pre>", '<pre tabindex="0">')


#: Pages that a program has written, of which a search finds hundreds of sections.
_GENERATED = (
    "reference/",
    "stacks",
    "soak",
    "concepts/emulation-grid",
    "concepts/virtual-time-grid",
)


def weight(location: str) -> float:
    """Return how much a section counts in a search: pages for readers come first."""
    return 0.05 if location.startswith(_GENERATED) else 1.0


def on_post_build(config: Any, **_: Any) -> None:
    """Write the search index as a script: a page opened from a file cannot fetch JSON."""
    folder = Path(config["site_dir"], "search")
    docs = json.loads((folder / "search_index.json").read_text("utf-8"))["docs"]
    for old in folder.iterdir():
        old.unlink()
    text = json.dumps(
        [
            {**doc, "text": " ".join(doc["text"].split()), "weight": weight(doc["location"])}
            for doc in docs
        ]
    )
    (folder / "index.js").write_text(f"const INDEX = {text};\n", "utf-8")
