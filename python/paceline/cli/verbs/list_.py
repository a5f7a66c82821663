"""``paceline list``: controllers, metrics, scenarios and more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from paceline import _paceline, guests, shipped
from paceline.cli import console
from paceline.cli.app import Controllers, Json, app, examples
from paceline.cli.failure import Failure
from paceline.names import did_you_mean, meant
from paceline.reading import json_value, read_toml

SIZES = '"1 bdp", "165 packets", "250 kB", "40 ms"'

#: Columns that are tables of their own.
_PARTS = ("options", "state", "columns")

#: Lists of a line for each: what it shows, of which the last may be long.
_LINES = {
    "metrics": ("name", "scope", "better", "label"),
    "scenarios": ("name", "about"),
    "claims": ("name", "topic", "published"),
}

#: The files written by their own verbs: format, summary, command.
_OWN = (
    ("parquet", "the tables of a run, in its folder", "run"),
    ("latex", "a sweep as a table for a paper", "export"),
    ("html", "one self-contained page", "report"),
    *((form, "the plots as a figure", f"report --format {form}") for form in ("png", "svg", "pdf")),
    ("sequence", "a time-sequence diagram of each packet, as png, svg or pdf", "sequence"),
)


def _stacks() -> list[dict[str, Any]]:
    return [
        {
            "name": stack.name,
            "version": stack.version,
            "controllers": ", ".join(f"{stack.name}:{name}" for name in stack.controllers),
            "summary": stack.summary,
            "library": stack.path,
            "options": [
                {"name": name, "default": None, "range": None, "doc": doc}
                for name, doc in stack.options
            ],
        }
        for stack in guests.stacks()
    ]


def _queues() -> list[dict[str, Any]]:
    summaries = dict(_paceline.queues())
    defs = json_value(_paceline.schema())["$defs"]
    rows = []
    for form in defs["Queue"]["anyOf"]:
        properties = form["properties"]
        name = properties.pop("kind")["const"]
        del properties["size"]
        options = [_option(key, value, defs) for key, value in properties.items()]
        rows.append({"name": name, "summary": summaries[name], "sizes": SIZES, "options": options})
    return rows


def _option(name: str, schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, str]:
    """Return a key of the schema in the form of controllers' options."""
    for reference in [schema, *schema.get("allOf", [])]:
        if "$ref" in reference:
            schema = defs[reference["$ref"].rsplit("/", 1)[1]] | schema
    default = schema.get("default", "unset")
    return {
        "name": name,
        "default": str(default).lower() if isinstance(default, bool) else str(default),
        "range": f"as {schema['examples'][0]}" if "pattern" in schema else schema["type"],
        "doc": schema["description"],
    }


def _scenarios() -> list[dict[str, Any]]:
    rows = []
    for name, path in shipped.scenario_files():
        head = _head(path)
        about = {k: head.get(k) for k in ("about", "source")}
        rows.append({"name": name, **about, **shipped.lesson(path)})
    return rows


def _claims() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in sorted(shipped.nearest_folder("claims").rglob("*.toml")):
        entries = _head(path).get("claims", [])
        rows += [
            {"name": entry.get("id"), **{k: entry.get(k) for k in ("topic", "published")}}
            for entry in entries
            if isinstance(entry, dict)
        ]
    return rows


def _exports() -> list[dict[str, Any]]:
    from paceline.exchange import EXPORTS

    formats = ((one.name, one.summary, f"export --format {one.name}") for one in EXPORTS.values())
    keys = ("name", "summary", "command")
    return [dict(zip(keys, row, strict=True)) for row in (*_OWN, *formats)]


def _imports() -> list[dict[str, Any]]:
    from paceline.exchange import IMPORTS, RECORDS

    made = [(one.name, one.summary, "scenario") for one in IMPORTS.values()]
    read = [(one.name, one.summary, "record") for one in RECORDS.values()]
    return [dict(zip(("name", "summary", "gives"), row, strict=True)) for row in [*made, *read]]


#: What can be listed: what it is, and the entries.
LISTS: dict[str, tuple[str, Callable[[], Iterable[Mapping[str, Any]]]]] = {
    "controllers": ("congestion controllers, and the options of each", _paceline.controllers),
    "stacks": ("transports of a flow, and the controllers that each brings", _stacks),
    "queues": ("queues of a path", _queues),
    "metrics": ("metrics and their definitions", _paceline.metrics),
    "columns": ("tables of a record, and the columns of each", _paceline.tables),
    "scenarios": ("scenarios below ./scenarios, or those shipped with the program", _scenarios),
    "claims": ("published claims below ./claims, or those shipped with the program", _claims),
    "exports": ("formats to export a run to", _exports),
    "imports": ("formats to import a scenario from", _imports),
}

if TYPE_CHECKING:
    What = str
else:
    What = Literal[tuple(LISTS)]

#: The folder of `make guests`, in a checkout.
_BUILT = Path("target/guests")


def _head(path: Path) -> dict[str, Any]:
    """Return a TOML file; an empty one if it cannot be read: a listing must not fail for that."""
    try:
        return read_toml(path)
    except (OSError, ValueError):
        return {}


@app.command(
    name="list",
    help_epilogue=examples(
        "list controllers",
        "list controllers bbr3",
        "list metrics convergence_ns",
        "list stacks --controller mine=./libmine.so",
    ),
)
def list_(
    what: Annotated[
        What | None, Parameter(show_choices=False, help=f"What to list: {', '.join(LISTS)}.")
    ] = None,
    name: Annotated[str | None, Parameter(help="Show only this entry, in detail.")] = None,
    /,
    *,
    controllers: Controllers = None,
    json: Json = False,
) -> None:
    """List controllers with their options, metrics with their definitions, and more."""
    if what is None:
        table = console.table("paceline list ...", "What it lists", left=2)
        topics = [{"name": topic, "summary": LISTS[topic][0]} for topic in LISTS]
        for topic in topics:
            table.add_row(*topic.values())
        console.answer({"lists": topics}, table)
        return
    rows = list(map(dict, LISTS[what][1]()))
    if name is not None:
        rows = _named(what, name, rows)
    console.answer({what: rows}, lambda: _show(what, rows, one_by_one=name is not None))


def _show(what: str, rows: list[dict[str, Any]], *, one_by_one: bool) -> None:
    if not rows:
        console.stderr().print(f"no {what} found below ./{what}")
    elif not one_by_one:
        _show_rows(what, rows)
        if what == "stacks":
            _print_built(rows)
    else:
        for row in rows:
            _show_one(row)


def _print_built(rows: list[dict[str, Any]]) -> None:
    """Say which stacks `make guests` has built here that the command was not given."""
    given = {row["library"] for row in rows}
    built = [file for file in sorted(_BUILT.glob("*.so")) if str(file.resolve()) not in given]
    if built:
        names = ", ".join(file.stem for file in built)
        console.note(f"--controller {_BUILT} brings those that are built there: {names}")


def _named(what: str, name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = list(dict.fromkeys(str(row["name"]) for row in rows))
    matches = meant(name, names)
    if matches or what != "columns":
        rows = [row for row in rows if row["name"] in matches]
    else:
        # A column, which several tables may have.
        matches = meant(name, sorted({c["name"] for row in rows for c in row["columns"]}))
        for row in rows:
            row["columns"] = [column for column in row["columns"] if column["name"] in matches]
        rows = [row for row in rows if row["columns"]]
    if len(matches) == 1:
        return rows
    if matches:
        message = f"{name!r} may be {' or '.join(matches)}"
        raise Failure("unknown-name", message, hint="write it with its unit")
    hint = did_you_mean(name, names, f"`paceline list {what}` shows them all")
    raise Failure("unknown-name", f"no {what.removesuffix('s')} is called {name!r}", hint=hint)


def _show_rows(what: str, rows: list[dict[str, Any]]) -> None:
    if shown := _LINES.get(what):
        cells = [[str(row[name] or "") for name in shown] for row in rows]
        console.print_list(tuple(name.capitalize() for name in shown), cells)
        return
    names = [key for key in rows[0] if key not in _PARTS and any(row[key] for row in rows)]
    table = console.table(*(n.capitalize() for n in names), left=len(names))
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*(str(row[n] or "") for n in names))
    console.stdout().print(table)


def _show_one(row: dict[str, Any]) -> None:
    for key, value in row.items():
        if key not in _PARTS and value is not None:
            console.show(f"{key:<8} {value}")
    if row.get("options"):
        table = console.table("Option", "Default", "Takes", "What it does", left=4)
        for option in row["options"]:
            table.add_row(*(option[key] for key in ("name", "default", "range", "doc")))
        console.show(table)
    if row.get("state"):
        console.show(f"{'samples':<8} {', '.join(row['state'])}")
    if row.get("columns"):
        table = console.table("Column", "Unit", "Type", "What it says", left=4)
        for column in row["columns"]:
            kind = column["type"] + " or null" * column["nullable"]
            table.add_row(column["name"], column["unit"] or "", kind, column["doc"])
        console.show(table)
