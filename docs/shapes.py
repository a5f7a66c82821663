"""What Paceline answers in JSON: a page of it, and the types of the web app."""

from __future__ import annotations

import ast
import inspect
import json
import types
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

from paceline import answers, pages

JSON_TYPES = {
    int: ("integer", "number"),
    float: ("number", "number"),
    str: ("text", "string"),
    bool: ("true or false", "boolean"),
    type(None): ("null", "null"),
    Any: ("any", "unknown"),
}


def fields(shape: type) -> Iterator[tuple[str, Any, str, bool]]:
    """Yield each key of an object: its type, what is said of it, and whether it is always there."""
    docs = described(shape)
    for name, hint in get_type_hints(shape, include_extras=True).items():
        always = get_origin(hint) is not NotRequired
        if not always:
            (hint,) = get_args(hint)
        yield name, hint, docs.get(name, ""), always


def described(shape: type) -> dict[str, str]:
    """Return what the source says of the keys of an object, in the text after each."""
    (definition,) = ast.parse(inspect.getsource(shape)).body
    assert isinstance(definition, ast.ClassDef)
    shapes = {}
    for key, text in pairwise(definition.body):
        match key, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=doc)):
                shapes[name] = " ".join(str(doc).split())
    return shapes


def is_shape(hint: Any) -> bool:
    """Return whether a type is an object of its own."""
    return isinstance(hint, type) and hasattr(hint, "__required_keys__")


def inside(hint: Any) -> Iterator[type]:
    """Yield the objects that a type has in it."""
    if is_shape(hint):
        yield hint
    for part in get_args(hint) if get_origin(hint) is not Literal else ():
        yield from inside(part)


def reached(shapes: tuple[type, ...]) -> dict[type, None]:
    """Return objects, each followed by those that it has in it, once."""
    reachable: dict[type, None] = {}
    for shape in shapes:
        if shape not in reachable:
            reachable[shape] = None
            parts = (part for _, hint, *_ in fields(shape) for part in inside(hint))
            reachable |= reached(tuple(part for part in parts if part not in reachable))
    return reachable


def in_words(hint: Any) -> str:
    """Write a type for a reader."""
    if is_shape(hint):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    arguments = get_args(hint)
    match get_origin(hint):
        case origin if origin is Literal:
            return ", ".join(f"`{str(word).lower()}`" for word in arguments)
        case origin if origin in (Union, types.UnionType):
            return " or ".join(map(in_words, arguments))
        case origin if origin is list:
            return f"list of {in_words(arguments[0])}"
        case origin if origin is dict:
            return f"object of {in_words(arguments[1])}"
    return JSON_TYPES[hint][0]


def in_script(hint: Any) -> str:
    """Write a type for TypeScript."""
    if is_shape(hint):
        return str(hint.__name__)
    arguments = get_args(hint)
    match get_origin(hint):
        case origin if origin is Literal:
            return " | ".join(json.dumps(word) for word in arguments)
        case origin if origin in (Union, types.UnionType):
            return " | ".join(map(in_script, arguments))
        case origin if origin is list:
            part = in_script(arguments[0])
            return f"({part})[]" if " | " in part else f"{part}[]"
        case origin if origin is dict:
            return f"Record<string, {in_script(arguments[1])}>"
    return JSON_TYPES[hint][1]


def summary(shape: type) -> str:
    """Return what an object is."""
    return " ".join((shape.__doc__ or "").split())


HEAD = """# What `--json` says

Every command prints one object. Its `schema` is 1, the version of what is described here; that of
a run is the version of its [record](record.md). A key may be added to an object; one that is there
keeps its name and its meaning. Quantities are in the unit that the end of their name says. Keys in
*italics* are not always there.

`run.json` in a run's folder has the keys of [Run](#run) that do not depend on where and how fast it
was run.
"""


def page(table: Any) -> str:
    """Write the page; `table` writes a table of Markdown."""
    rows = []
    for command, shapes in answers.COMMANDS.items():
        rows.append([f"`{command}`", " or ".join(in_words(shape) for shape in shapes)])
    rows.append(["any, when it fails", in_words(answers.Failed)])
    rows.append(["`list WHAT`", "object with a list by the name of what is listed"])
    parts = [HEAD, table(["command", "prints"], rows)]
    every = tuple(shape for shapes in answers.COMMANDS.values() for shape in shapes)
    for shape in sorted(reached((*every, answers.Failed)), key=lambda shape: shape.__name__):
        keys = [
            [f"`{name}`" if always else f"*`{name}`*", in_words(hint), doc]
            for name, hint, doc, always in fields(shape)
        ]
        parts.append(f"## {shape.__name__}\n\n{summary(shape)}\n")
        parts.append(table(["key", "type", "what it says"], keys))
    return "\n".join(parts)


def script() -> str:
    """Write the types that the web app is built with."""
    parts = ["/** The JSON of pages. Written by docs/generate.py. */\n"]
    for shape in pages.SHAPES:
        lines = [f"/** {summary(shape)} */", f"export interface {shape.__name__} {{"]
        for name, hint, doc, always in fields(shape):
            lines += [f"  /** {doc} */"] if doc else []
            lines.append(f"  {name}{'' if always else '?'}: {in_script(hint)};")
        parts.append("\n".join([*lines, "}\n"]))
    return "\n".join(parts)
