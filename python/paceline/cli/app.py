"""The command as a whole, and the options that several of its verbs share."""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from cyclopts import App, CoercionError, Parameter, Token, convert

from paceline._paceline import __version__
from paceline.cli.failure import Failure
from paceline.names import did_you_mean
from paceline.quantities import size_bytes

_DEMO = "scenarios/bbr3/four-flows-50M-40ms-1bdp.toml"


#: What a command line calls.
F = TypeVar("F", bound=Callable[..., object])


def examples(*lines: str) -> str:
    """Return the end of a help text: examples of the command."""
    return "Examples:\n\n" + "\n".join(f"    paceline {line}" for line in lines)


def _converted(kind: Any, tokens: Sequence[Token]) -> Any:
    """Convert words as the parser does, but for a whole number take only digits, not 1.5 as 2."""
    if int in (kind, *get_args(kind)):
        for token in tokens:
            if re.fullmatch("[+-]?[0-9]{1,40}", token.value) is None:
                raise CoercionError(token=token, target_type=int)
    return convert(kind, tokens)


def _file(kind: Any, tokens: Sequence[Token]) -> Any:
    """Convert the name of a file to write; `Path` would drop the slash of a folder's name."""
    for token in tokens:
        if token.value == "" or token.value.endswith("/") or os.path.isdir(token.value):
            raise CoercionError(token=token, target_type=Path)
    return convert(kind, tokens)


#: Of an option that names one file to write.
FILE = Parameter(converter=_file)

app = App(
    name="paceline",
    # No option is undone by another one, unless it says so.
    default_parameter=Parameter(converter=_converted, negative=""),
    version=__version__,
    help="A congestion-control laboratory: one file describes an experiment, one command runs it."
    "\n\nData goes to stdout, and messages go to stderr. Exit codes:"
    "\n\n- 0: success\n- 1: a run failed\n- 2: bad input\n- 3: an expectation failed"
    "\n- 4: a regression was found\n- 127: the machine lacks something that the command needs"
    "\n- 129, 130, 143: SIGHUP, SIGINT (Ctrl-C) or SIGTERM stopped the command",
    help_epilogue=examples(f"run {_DEMO}", "list controllers bbr3", "report runs/NAME"),
    help_format="markdown",
    version_flags=["--version"],
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
    end_of_options_delimiter="--",
)


def parted(*, help_epilogue: str) -> Callable[[Callable[[], None]], App]:
    """Return a decorator for a verb that has parts, each with its own options and help.

    What it decorates has the verb's name and help; `part` adds a part.
    """

    def made(verb: Callable[[], None]) -> App:
        parts = App(name=verb.__name__, help=inspect.getdoc(verb), help_epilogue=help_epilogue)
        parts.default_parameter = app.default_parameter

        @parts.default
        def default(*words: Annotated[str, Parameter(show=False)]) -> None:
            named = f"`paceline {verb.__name__}`"
            names = [name for name in parts if not name.startswith("-")]
            near = did_you_mean(words[0], names, "") if words else ""
            what = f"{named} has no part {words[0]!r}" if words else f"{named} needs a part"
            raise Failure("usage", what, hint=f"{near} its parts are {', '.join(names)}".strip())

        app.command(parts)
        return parts

    return made


def part(verb: App, name: str | None = None) -> Callable[[F], F]:
    """Return a decorator for a part of a verb, whose help has the examples of it."""

    def made(function: F) -> F:
        called = name or function.__name__
        start = f"    paceline {' '.join([*verb.name, called])}"
        lines = [line for line in (verb.help_epilogue or "").splitlines() if line.startswith(start)]
        epilogue = examples(*(line.removeprefix("    paceline ") for line in lines))
        verb.command(function, name=called, help_epilogue=epilogue)
        return function

    return made


def bounded(least: float, most: float, bounds: str) -> Callable[[object, float | None], None]:
    """Return what refuses a number outside these bounds, which the words name."""

    def refuse(_: object, value: float | None) -> None:
        if value is not None and not least <= value <= most:
            raise ValueError(f"must be {bounds}.")

    return refuse


positive = bounded(1, math.inf, "1 or more")
not_negative = bounded(0, math.inf, "0 or more")
#: As many repeats, or seeds, as a scenario may ask for.
at_most_repeats = bounded(1, 100_000, "from 1 to 100,000")


def _size(_: object, value: str | None) -> None:
    if value is not None and size_bytes(value) < 1:
        raise ValueError("must be more than 0.")


#: Options that several commands share. `paceline.cli` lets those of any verb take effect.
Controllers = Annotated[
    list[str] | None,
    Parameter(
        name="--controller",
        help="NAME=FILE[:CLASS]: load your own controller from a Python file or a shared library. "
        "Scenarios can then use it as NAME. If FILE is a library with a QUIC stack, scenarios can "
        "use its controllers as NAME:CONTROLLER. If you name a folder, Paceline loads all stacks "
        "in it. Can be repeated. Paceline executes the code in FILE.",
    ),
]
Memory = Annotated[
    str | None,
    Parameter(
        validator=_size,
        help='Total memory for runs, such as "4 GB". Default: half of the available memory.',
    ),
]
Json = Annotated[bool, Parameter(name="--json", help="Print one JSON object.")]
Quiet = Annotated[bool, Parameter(name=["--quiet", "-q"], help="Show no progress.")]
#: Of what shows no progress: accepted wherever others take it.
Hushed = Annotated[bool, Parameter(name=["--quiet", "-q"], show=False)]
Jobs = Annotated[
    int | None, Parameter(validator=positive, help="Number of threads. Default: one per core.")
]
Set = Annotated[
    list[str] | None,
    Parameter(name="--set", help="KEY=VALUE: change a value of the scenario. Can be repeated."),
]
Force = Annotated[bool, Parameter(help="Overwrite existing files.")]
Seeds = Annotated[
    int | None, Parameter(validator=at_most_repeats, help="Run each scenario with seeds 1 to N.")
]
Flow = Annotated[
    int | None, Parameter(validator=not_negative, help="Use only this flow of each run.")
]
Backend = Literal["sim", "emu", "vm"]
Image = Literal["png", "svg", "pdf"]
Browser = Annotated[bool, Parameter(negative="--no-browser", help="Open the page in a browser.")]
