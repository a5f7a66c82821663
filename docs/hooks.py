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


def on_post_build(config: Any, **_: Any) -> None:
    """Write the search index as a script: a page opened from a file cannot fetch JSON."""
    folder = Path(config["site_dir"], "search")
    docs = json.loads((folder / "search_index.json").read_text("utf-8"))["docs"]
    for old in folder.iterdir():
        old.unlink()
    text = json.dumps([{**doc, "text": " ".join(doc["text"].split())} for doc in docs])
    (folder / "index.js").write_text(f"const INDEX = {text};\n", "utf-8")
