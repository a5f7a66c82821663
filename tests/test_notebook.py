"""The example notebooks: each cell runs, and what it ends with can be shown."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

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
    assert len(html) >= 3
    assert all("<table" in text for text in html)
    assert sum(type(value).__name__ == "Figure" for value in shown) == 2


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS
