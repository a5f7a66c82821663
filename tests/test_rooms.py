"""Who may use whom among the modules of Python: nothing imports upward."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "python" / "paceline"

#: The rooms from the ground up, each with those that may use each other in it. A module that is not
#: named is in the room of its folder.
ROOMS = [
    {"answers", "later", "pages", "errors", "names", "quantities", "memory", "reading", "measures"}
    | {"query", "statistics"}
    | {"grid", "store", "controller", "guests", "shipped", "kernel"},
    {"runs", "show"},
    {"batch", "gym"},
    {"exchange"},
    {"study.template"},
    {"study.sweep"},
    {"study.compare"},
    {"study.conformance"},
    {"study.claims"},
    {"study.evaluate"},
    {"study.fit"},
    {"study.advise"},
    {"study.search"},
    {"serve"},
    {"interface"},
    {"cli"},
]


def floor(module: str) -> int | None:
    """Return how high the room of a module is; none of what is no room, such as `paceline`."""
    named = module.removeprefix("paceline.")
    for height, room in enumerate(ROOMS):
        if any(named == name or named.startswith(f"{name}.") for name in room):
            return height
    return None


def modules() -> dict[str, Path]:
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imported(path: Path) -> Iterator[str]:
    """Yield what a file imports, wherever in it, and whether it runs or is for types alone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_module_is_in_a_room() -> None:
    outside = [name for name in modules() if floor(name) is None]
    assert outside == ["paceline", "paceline.__main__", "paceline.study"]


def test_nothing_imports_upward() -> None:
    upward = []
    for name, path in modules().items():
        here = floor(name)
        for other in imported(path):
            there = floor(other) if other.startswith("paceline.") else None
            if here is not None and there is not None and there > here:
                upward.append(f"{name} -> {other}")
    assert upward == []


def test_modules_of_the_ground_make_no_circle() -> None:
    ground = {
        name: {".".join(o.split(".")[:2]) for o in imported(path)}
        for name, path in modules().items()
        if floor(name) == 0
    }
    left = {name: uses & ground.keys() for name, uses in ground.items()}
    while free := [name for name, uses in left.items() if not uses & left.keys()]:
        for name in free:
            del left[name]
    assert left == {}
