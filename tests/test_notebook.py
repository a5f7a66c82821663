"""The example notebooks: each cell runs, and what it ends with can be shown."""

from __future__ import annotations

import ast
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from PIL import Image

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[str]:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    # What a cell gave on some machine, some day, is not kept.
    assert all(cell["outputs"] == [] for cell in code)
    return ["".join(cell["source"]) for cell in code]


def execute(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does, and return the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    names: dict[str, Any] = {}
    shown = [execute(source, names) for source in cells(path)]
    html = [text for v in shown if (text := getattr(v, "_repr_html_", lambda: None)())]
    assert all("<table" in text for text in html)
    pictures = [png for v in shown if (png := getattr(v, "_repr_png_", lambda: None)())]
    assert (len(html), len(pictures)) == SHOWN[path.stem]
    for png in pictures:
        with Image.open(BytesIO(png)) as image:
            colours = image.convert("RGB").getcolors(1 << 24)
            assert colours is not None
            assert len(colours) > 20
    for name in ("figure-1.pdf", "runs.csv") if path.stem == "paper-figure" else ():
        assert (tmp_path / name).stat().st_size > 1_000


#: How many tables and pictures each shows.
SHOWN = {"first-look": (4, 3), "my-controller": (2, 3), "paper-figure": (4, 2)}


def test_a_notebook_is_linked() -> None:
    assert {path.stem for path in NOTEBOOKS} == {*SHOWN}
    docs = Path(__file__).parents[1] / "docs"
    assert "docs/notebooks/first-look.ipynb" in (docs.parent / "README.md").read_text()
    for page in ("index.md", "reference/python.md", "guide/sweeps.md"):
        for name in SHOWN:
            assert f"notebooks/{name}.ipynb" in (docs / page).read_text(), page
