"""Writes the pages of docs/reference, and the types of the web app, that come from the program.

`make reference` runs it after a change of options or keys. A test holds
the pages equal to what it writes.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import derived
import sections
import shapes

import paceline
from paceline.cli import main, verbs
from paceline.cli.app import app
from paceline.study.claims import load

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
HEAD = "<!-- Written by docs/generate.py. -->\n\n"


def cell(text: str) -> str:
    """Text of a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: list[str], rows: list[list[str]]) -> str:
    """Write a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(cell, line)) + " |\n" for line in lines)


def listed(what: str) -> list[dict[str, Any]]:
    """Read what `paceline list` says."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main(["list", what, "--json"])
    items: list[dict[str, Any]] = json.loads(output.getvalue())[what]
    return items


def options(items: list[dict[str, Any]]) -> str:
    """Write a section for each thing, with its options."""
    parts = []
    for item in items:
        parts.append(f"## `{item['name']}`\n\n{item['summary']}. Source: {item['source']}.\n")
        rows = [
            [f"`{o['name']}`", f"`{o['default']}`", o["range"], o["doc"]]
            for o in item.get("options", [])
        ]
        if rows:
            parts.append(table(["option", "default", "takes", "what it does"], rows))
        if state := item.get("state"):
            parts.append(f"In `samples`: {', '.join(f'`{column}`' for column in state)}.\n")
    return "\n".join(parts)


def controllers() -> str:
    """Write the page of controllers."""
    intro = (
        "# Controllers\n\nBy name in `cc`, or with options: "
        '`cc = { name = "bbr3", startup_pacing_gain = 2.89 }`.\n\n'
    )
    return HEAD + intro + options(listed("controllers"))


def shape(schema: dict[str, Any]) -> str:
    """Say what a value may be, in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(shape(one) for one in schema[several]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return "list of " + shape(schema.get("items", {}))
    if isinstance(kind, list):
        return " or ".join(str(one) for one in kind if one != "null")
    return "nothing" if kind == "null" else str(kind or "any")


def keys(schema: dict[str, Any]) -> str:
    """Write a table of an object's keys."""
    required = schema.get("required", [])
    rows = []
    for name, value in schema.get("properties", {}).items():
        default = f"`{json.dumps(value['default'])}`" if "default" in value else ""
        must = "required" if name in required else default
        rows.append([f"`{name}`", shape(value), must, value.get("description", "")])
    return table(["key", "takes", "default", "what it is"], rows) if rows else ""


def scenario() -> str:
    """Write the page of a scenario's keys."""
    schema = json.loads((REFERENCE / "scenario.schema.json").read_text())
    parts = [
        HEAD + "# Scenario keys\n\nFrom the JSON Schema beside this page, which editors can use.\n",
        keys(schema),
    ]
    for name, part in sorted(schema.get("$defs", {}).items()):
        parts.append(f"## {name}\n\n{part.get('description', '')}\n")
        forms = [
            form for form in part.get("anyOf", []) if {"properties", "description"} <= form.keys()
        ]
        if len(forms) > 1:
            # A table whose keys depend on its kind.
            for form in forms:
                parts.append(f"{form['description']}\n\n{keys(form)}")
        else:
            parts.append(keys(part) or f"{shape(part)}\n")
    return "\n".join(parts)


def record() -> str:
    """Write the page of a record's tables."""
    parts = [HEAD + RECORD]
    for item in listed("columns"):
        parts.append(f"## `{item['name']}`\n\n{item['doc']}\n")
        columns = item["columns"]
        rows = [
            [
                f"`{c['name']}`",
                c["unit"] or "",
                c["type"] + " or null" * c["nullable"],
                c["doc"] + f" (since schema {c['since']})" * (c["since"] > 1),
            ]
            for c in columns
        ]
        parts.append(table(["column", "unit", "type", "what it says"], rows))
        for column in columns:
            if column["words"]:
                parts.append(f"`{column['name']}` is one of:\n")
                words = [[f"`{word}`", doc] for word, doc in column["words"]]
                parts.append(table(["word", "what it says"], words))
    return "\n".join(parts)


RECORD = """# Tables of a record

A run is a folder: the resolved `scenario.toml`, `run.json`, and a Parquet file for each table
below. `paceline list columns TABLE` says the same.

- Names end in their unit. A quantity is a whole number in it; what is infinite, or not there, is
  null.
- Every column of a run is there from its first row on. The controllers' own fields follow the
  columns of `samples`; `paceline list controllers NAME` names them. If that name is taken, the
  column is prefixed with `cc_`.
- `run.json` has `guests` where a flow's controller is not part of the program: its `name`,
  `language`, `file` and that file's `sha256`; and `incomplete`, why the run stopped, where it did
  before its end.
- A return direction of a link is a link of its own, with rows of `queue` as any other: `return_of`
  in `run.json` is the position of the link whose direction it is. Other links have no `return_of`.
- `schema` in `run.json` and in each table is 2. A record whose `run.json` has another is refused.
- A change that the scenario asks for is a row of `events` of kind `change` for each of its keys:
  `key` is the scenario's (`rate`, `rtt`, `loss`, `loss.p`, `hold.packets`, `policer.rate`,
  `app.rate`), `link` the link or `flow` the flow, and `value` in `unit`, or a word in `detail`
  (`pause`, `resume`, `bulk`, `off`), what holds from then on.
"""


def published() -> str:
    """Return every claim, with its bounds and who set them."""
    text = (
        HEAD + "# All claims\n\nWhat was published, and the bounds of a reproduction. [How to read "
    )
    text += "them](../guide/claims.md).\n"
    for claim in load(ROOT / "data" / "claims"):
        text += f"\n## {claim.id}\n\n"
        text += f"{claim.published} ({claim.source}).\n\n"
        if claim.finding:
            text += "A question of our own.\n\n"
        if claim.choice:
            text += f"Chosen: {claim.choice}\n\n"
        rows = []
        for bound in claim.accept:
            by = "the source" if bound.by == "source" else f"ours: {bound.reason}"
            rows.append([bound.that, by, bound.corrected])
        text += table(["bound", "set by", "corrected"], rows)
        for name, changes in (("Variants", claim.variants), ("Mutants", claim.mutants)):
            if changes:
                text += f"\n{name}: {'; '.join(change.that for change in changes)}.\n"
    return text


def commands() -> str:
    """Return the page of the command line: what each verb's help says."""
    verbs.load()
    # The usage lines have the name of the running program.
    with patch.object(sys, "argv", ["paceline"]):
        page: str = app.generate_docs(output_format="markdown")
    # A description of several lines is one line of a list.
    page = re.sub(r"\n {8}(?=\S)", " ", page)
    # The site and GitHub have a table of contents already.
    head, rest = page.split("## Table of Contents", 1)
    # The verbs come in the order in which this process loaded them.
    listed, *each = rest[rest.index("**Commands**") :].rstrip().split("\n## ")
    head = head.replace("# paceline", "# Command line", 1)
    return HEAD + head + "\n## ".join([listed, *(verb.rstrip() + "\n" for verb in sorted(each))])


PYTHON = """# Python

```python
import paceline as pl

run = pl.run("four-flows")  # a file, an included name, TOML, or pl.scenario(...)
run.samples  # each flow over time, a polars data frame

sizes = {"flows.0.cc": ["bbr3", "cubic"], "path.queue.size": pl.bdp(1, 2, 4)}
sweep = pl.sweep("single/bbr3-100M-40ms-1bdp", sizes, repeats=10)
sweep.frame  # a row a run
sweep.mean("goodput")  # a row a point, with 95 % intervals
sweep.plot("goodput", size="one-column")
```

The verbs of the command line are functions: `run`, `sweep`, `compare`, `fit`, `claims`,
`reference`, and `read` for their folders. In a notebook, runs, sweeps and figures show themselves.
Names end in the unit; times are in nanoseconds.

Notebooks: [a first look](../notebooks/first-look.ipynb), [a paper's
figure](../notebooks/paper-figure.ipynb) from a sweep to PDF, [my
controller](../notebooks/my-controller.ipynb).
"""


def python() -> str:
    """Return the page of the Python API: signatures and docstrings of what it exports."""
    text = HEAD + PYTHON
    for name in paceline.__all__:
        thing = getattr(paceline, name)
        if isinstance(thing, str):
            continue
        text += f"\n## `{name}`\n\n{_signature(name, thing)}{_documentation(thing)}"
        if not inspect.isclass(thing):
            continue
        rows = []
        for member, value in vars(thing).items():
            if member.startswith("_") or not (doc := inspect.getdoc(getattr(thing, member))):
                continue
            if callable(value) or isinstance(value, classmethod | staticmethod):
                text += f"\n### `{name}.{member}`\n\n"
                text += _signature(member, getattr(thing, member)) + f"{doc}\n"
            elif isinstance(value, property | cached_property) or inspect.isdatadescriptor(value):
                rows.append([f"`{member}`", doc])
        # A native class gives its attributes in no order.
        text += "\n" + table(["attribute", "what"], sorted(rows)) if rows else ""
    return text


def _documentation(thing: object) -> str:
    return f"{inspect.getdoc(thing) or ''}\n"


def _signature(name: str, thing: Any) -> str:
    """Write how something is called; nothing of what is not called."""
    if inspect.isclass(thing) and not (
        inspect.isfunction(thing.__init__) and issubclass(thing, paceline.Controller)
    ):
        return ""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    return f"```text\n{name}{signature}\n```\n\n"


PAGES = {
    "docs/reference/commands.md": commands,
    "docs/reference/python.md": python,
    "docs/reference/published.md": published,
    "docs/reference/controllers.md": controllers,
    "docs/reference/json.md": lambda: HEAD + shapes.page(table),
    "docs/reference/kernel-inputs.md": lambda: HEAD + derived.page(table),
    "docs/reference/record.md": record,
    "docs/reference/scenario.md": scenario,
    "docs/reference/sections.md": sections.page,
    "web/src/api.ts": shapes.script,
}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (ROOT / page).write_text(write())
