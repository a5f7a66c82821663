"""Finds which function carries out which section of a source, and which test holds it.

Code names the section of its source in a comment: the source in full (`RFC 8985 7.4.2`,
`draft-ietf-ccwg-bbr-06 4.1.2.3, 4.1.2.4`), or its number alone, in brackets, after `section` or
before a colon, which is then of the file's own source: the first one that the file's first comment
names, or that of its folder. `docs/sources.txt` holds what sections there are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = Path(__file__).parent / "sources.txt"
CRATES = ("congestion", "recovery")

NUMBER = r"(?:[A-Z]\.)?\d+(?:\.\d+)*"
NUMBERS = rf"{NUMBER}(?:(?:, | to | and |, and ){NUMBER})*"
DOTTED = r"[1-9]\d*(?:\.\d+)+"
SOURCE = r"(RFC \d{4}|draft-[a-z]+(?:-[a-z]+)*(?:-\d\d)?)"
NAMED = re.compile(rf"{SOURCE},?(?: sections?)? ({NUMBERS})(?![\w-])")
OF = re.compile(rf"[Ss]ections? ({NUMBERS}) of {SOURCE}")
ALONE = re.compile(
    rf"(?:\(|; |[Ss]ections? ){DOTTED}(?:(?:, | to | and ){DOTTED})*(?=[):;,.]|$|\s)"
    rf"|^{DOTTED}(?:(?:, | and ){DOTTED})*:"
)
COMMENT = re.compile(r"^\s*//[/!]?\s?(.*)$")
ITEM = re.compile(r"^\s*(?:pub(?:\([a-z]+\))? )?(?:const )?(fn|struct|enum) (\w+)")
FIELD = re.compile(r"^\s*(?:pub(?:\([a-z]+\))? )?(\w+)(?:: |,$| = )")


@dataclass(frozen=True)
class Mention:
    """A place in the code that names a section."""

    source: str
    number: str
    file: str
    line: int
    item: str
    is_test: bool


def sources() -> dict[str, tuple[str, dict[str, str]]]:
    """Read the sources: the title of each, and those of its sections by their numbers."""
    read = {}
    for block in SOURCES.read_text().split("\n\n"):
        first, *lines = block.strip().splitlines()
        name, title = first.split(": ", 1)
        read[name] = title, dict(line.split(" ", 1) for line in lines)
    return read


def own_source(path: Path) -> str:
    """Find the source of a file, or of its folder."""
    for near in (path, path.parent / "mod.rs", path.parent.with_suffix(".rs")):
        if near.is_file():
            head = "\n".join(x for x in near.read_text().splitlines() if x.startswith("//!"))
            if named := re.search(SOURCE, head.replace("\n//!", "")):
                return named[1]
    at_root = path.parent.parent.name == "crates" or path.parent == path
    return "" if at_root else own_source(path.parent)


def mentions() -> list[Mention]:
    """Collect every section that the code names."""
    every = []
    for crate in CRATES:
        for path in sorted((ROOT / "crates" / crate).rglob("*.rs")):
            every += in_file(path)
    return every


def in_file(path: Path) -> list[Mention]:
    """Collect the sections that a file names, each with the item it stands in or before."""
    own, lines = own_source(path), path.read_text().splitlines()
    tests = "tests" in path.parts or path.stem == "tests"
    name, every = path.as_posix().removeprefix(f"{ROOT}/"), []
    item, waiting = "", []

    def settle(kind: str) -> None:
        for source, number, line in waiting:
            every.append(Mention(source, number, name, line, kind, tests))
        waiting.clear()

    for at, text in enumerate(lines, 1):
        tests = tests or text.startswith("mod tests {")
        if comment := COMMENT.match(text):
            for source, number in named(comment[1].strip(), own):
                waiting.append((source, number, at))
            continue
        if here := ITEM.match(text):
            item = here[2]
            settle(item)
        elif waiting and (field := FIELD.match(text)) and not text.strip().startswith("let "):
            settle(f"{item}.{field[1]}" if lines[at - 2].strip().startswith("///") else item)
        elif text.strip() and not text.strip().startswith("#["):
            settle(item)
    return every


def named(text: str, own: str) -> list[tuple[str, str]]:
    """Find the sections that a line names."""
    pairs = []
    for whole in NAMED.finditer(text):
        pairs += [(whole[1], number) for number in re.findall(NUMBER, whole[2])]
    for whole in OF.finditer(text):
        pairs += [(whole[2], number) for number in re.findall(NUMBER, whole[1])]
    rest = OF.sub(" ", NAMED.sub(" ", text))
    if own:
        for alone in ALONE.finditer(rest):
            pairs += [(own, number) for number in re.findall(DOTTED, alone[0])]
    return pairs


def unknown(every: list[Mention]) -> list[Mention]:
    """Find those of sections that their source, if it is known here, does not have."""
    known = sources()
    return [m for m in every if m.source in known and m.number not in known[m.source][1]]


def page() -> str:
    """Write the page: for each source its sections, with functions and tests."""
    by: dict[tuple[str, str], list[Mention]] = defaultdict(list)
    every, known = mentions(), sources()
    for mention in every:
        by[mention.source, mention.number].append(mention)
    others = sorted({mention.source for mention in every} - known.keys())
    parts = [HEAD + f"\nNamed in the code, without a list here: {', '.join(others)}.\n"]
    for source, (about, sections) in known.items():
        rows = []
        for number, title in sections.items():
            there = by[source, number]
            code = sorted({f"`{m.item}`" for m in there if not m.is_test and m.item})
            tests = sorted({f"`{m.item}`" for m in there if m.is_test and m.item})
            rows.append(f"| {number} | {title} | {', '.join(code)} | {', '.join(tests)} |")
        head = f"## {source}: {about}\n\n| section | title | code | tests that name it |\n"
        parts.append(head + "|---|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


HEAD = """<!-- Written by docs/generate.py. -->

# Sections of the sources

Where each section of a source is carried out: the functions, types and fields whose comments name
it, and the tests that do. A section without either says what things are for, or has nothing to be
carried out here, or is [left out](../divergences.md). A test holds every number that the code names
against the source's own list (`docs/sources.txt`).
"""
