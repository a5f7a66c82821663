"""Carries out every recipe of CONTRIBUTING on one copy of the tree, builds it once, and sees each.

`make recipes` runs it. A recipe is a TOML file beside this one: what it writes (`file`), what it
inserts and where (`insert`), what it replaces (`replace`), and what shows that it works (`see`).
The section of CONTRIBUTING that it names says which files it touches, in a line `Touches: ...`;
touching another is a failure.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SKIPPED = {".git", ".venv", "target", "node_modules", "__pycache__", "runs"}


class RecipeError(Exception):
    """A recipe does not do what it says."""


def copy_tree(to: Path) -> None:
    """Copy the sources; equal files keep their time, so that little is built again."""
    shutil.rmtree(to / "runs", ignore_errors=True)
    tracked = set()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED]
        for name in names:
            source = Path(folder, name)
            if source.suffix in {".so", ".pyc"}:
                continue
            place = to / source.relative_to(ROOT)
            tracked.add(place)
            if not place.is_file() or place.read_bytes() != source.read_bytes():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, place)
    for place in [p for p in to.rglob("*") if p.is_file() and p not in tracked]:
        if "target" not in place.relative_to(to).parts:
            place.unlink()


def touches(title: str) -> set[str]:
    """Return the files that a section of CONTRIBUTING says it touches."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.M | re.S)
    if section is None:
        raise RecipeError(f"CONTRIBUTING has no section {title!r}")
    line = re.search(r"^Touches: (.*?)(?:\n\n|\Z)", section[1], re.M | re.S)
    if line is None:
        raise RecipeError(f"the section {title!r} does not say what it touches")
    return set(re.findall(r"`([^`]+)`", line[1]))


def carry_out(recipe: dict[str, Any], tree: Path) -> int:
    """Write and insert what a recipe says; return how many lines it adds to files that exist."""
    touched, added = set(), 0
    for file in recipe.get("file", []):
        place = tree / file["path"]
        if (ROOT / file["path"]).exists():
            raise RecipeError(f"{file['path']} exists already")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(file["text"], encoding="utf-8")
        touched.add(file["path"])
    for insert in recipe.get("insert", []):
        place = tree / insert["path"]
        text = place.read_text(encoding="utf-8")
        if text.count(insert["after"]) != 1:
            raise RecipeError(f"{insert['path']}: {insert['after']!r} is not there once")
        place.write_text(
            text.replace(insert["after"], insert["after"] + insert["text"]), encoding="utf-8"
        )
        touched.add(insert["path"])
        added += insert["text"].strip("\n").count("\n") + 1
    for change in recipe.get("replace", []):
        place = tree / change["path"]
        text = place.read_text(encoding="utf-8")
        if text.count(change["text"]) != 1:
            raise RecipeError(f"{change['path']}: {change['text']!r} is not there once")
        place.write_text(text.replace(change["text"], change["by"]), encoding="utf-8")
        touched.add(change["path"])
        added += 1
    files = touches(recipe["title"])
    own = {path.replace(recipe["name"], "NAME") for path in touched}
    if own != files:
        raise RecipeError(f"it touches {sorted(own)}, and says {sorted(files)}")
    return added


def build(tree: Path) -> None:
    """Build the extension, quickly rather than fast, with the tests' crates of others."""
    command = ["cargo", "build", "--quiet", "--package", "paceline-python"]
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(ROOT / "target"),
        "CARGO_PROFILE_DEV_OPT_LEVEL": "0",
        "CARGO_PROFILE_DEV_DEBUG": "0",
    }
    subprocess.run(command, cwd=tree, env=environment, check=True)
    library = ROOT / "target" / "debug" / "lib_paceline.so"
    shutil.copyfile(library, tree / "python" / "paceline" / "_paceline.abi3.so")


def see(recipe: dict[str, Any], tree: Path) -> None:
    """Run what shows that a recipe works."""
    environment = os.environ | {"PYTHONPATH": str(tree / "python"), "COLUMNS": "200"}
    for step in recipe["see"]:
        words = step.get("python")
        command = [sys.executable, "-m", "paceline", *step["run"]] if words is None else None
        command = command or [sys.executable, "-c", words]
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
        output = done.stdout + done.stderr
        if done.returncode != step.get("exit", 0) or step["says"] not in output:
            raise RecipeError(f"{command[2:]} ended with {done.returncode} and said\n{output}")


def main() -> int:
    """Carry out all recipes, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="recipes to show; all are carried out")
    names = parser.parse_args().names
    recipes = [tomllib.loads(path.read_text("utf-8")) for path in sorted(HERE.glob("*.toml"))]
    tree = ROOT / "target" / "recipes"
    try:
        copy_tree(tree)
        lines = {recipe["title"]: carry_out(recipe, tree) for recipe in recipes}
        build(tree)
        for recipe in recipes:
            if not names or recipe["name"] in names:
                see(recipe, tree)
                title = recipe["title"]
                files = len(touches(title))
                sys.stdout.write(f"{title:<36} {lines[title]:>3} lines in {files} files\n")
    except (RecipeError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
