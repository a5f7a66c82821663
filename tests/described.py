"""Holds what is answered in JSON against its description."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

from paceline import answers


def wrong(value: Any, hint: Any, at: str = "") -> list[str]:
    """Return where a value is not of its type: keys that are lacking, or not described."""
    return list(_wrong(value, hint, at))


def _wrong(value: Any, hint: Any, at: str) -> Iterator[str]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is NotRequired:
        yield from _wrong(value, arguments[0], at)
    elif origin in (Union, UnionType):
        yield from min((wrong(value, one, at) for one in arguments), key=len)
    elif hasattr(hint, "__required_keys__") and isinstance(value, dict):
        hints = get_type_hints(hint, include_extras=True)
        always = {key for key, part in hints.items() if get_origin(part) is not NotRequired}
        yield from (f"{at}.{key} is not there" for key in sorted(always - value.keys()))
        for key, part in value.items():
            if key in hints:
                yield from _wrong(part, hints[key], f"{at}.{key}")
            else:
                yield f"{at}.{key} is not described"
    elif origin is list and isinstance(value, list):
        for nth, part in enumerate(value):
            yield from _wrong(part, arguments[0], f"{at}[{nth}]")
    elif origin is dict and isinstance(value, dict):
        for key, part in value.items():
            yield from _wrong(part, arguments[1], f"{at}.{key}")
    elif not (value in arguments if origin is Literal else _is(value, hint)):
        yield f"{at} is {value!r}, not {hint}"


def _is(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind in (bool, Any)
    return kind is Any or (
        isinstance(kind, type)
        and not hasattr(kind, "__required_keys__")
        and isinstance(value, (int, float) if kind is float else kind)
    )


def hold(command: str, value: dict[str, Any]) -> None:
    """See that what a command has printed is as it is described."""
    assert isinstance(value["schema"], int)
    parts = {key: part for key, part in value.items() if key != "schema" or command == "run"}
    shapes = (answers.Failed,) if "error" in parts else answers.COMMANDS[command]
    errors = [wrong(parts, shape, command) for shape in shapes]
    assert [] in errors, min(errors, key=len)
