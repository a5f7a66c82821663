"""The command ``paceline``."""

from __future__ import annotations

import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from cyclopts import App, ArgumentCollection
from cyclopts.exceptions import (
    CycloptsError,
    MissingArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from paceline import memory
from paceline.cli import console, streams, verbs
from paceline.cli.app import app as root
from paceline.cli.failure import Exit, Failure
from paceline.errors import PacelineError, is_interrupted
from paceline.guests import choose as choose_guests
from paceline.names import nearest
from paceline.quantities import size_bytes

#: What an option of each type takes.
_KINDS = {"int": "a whole number", "float": "a number", "Path": "the name of a file"}
_UNABLE = r'^Invalid value for (\S+): unable to convert (".*") into '
#: Sentences of the parser, and what the reader needs to know.
_PLAIN = (
    *((rf"{_UNABLE}{kind}\.", rf"\1 takes {what}, not \2.") for kind, what in _KINDS.items()),
    (r'^Invalid value (".*") for (\S+)\. (must be .*)', r"\2 \3 It is \1."),
    (r'^Command ".*" parameter (--\S+) requires an argument\.', r"\1 needs a value."),
    (r'^Command "(.*)" parameter (\S+) requires an argument\.', r"`paceline \1` needs \2."),
)


def _usage(error: CycloptsError) -> Failure:
    # `str` returns the message as one text; the nearest name is part of it.
    message = " ".join(str(error).split())
    for pattern, plain in _PLAIN:
        message = re.sub(pattern, plain, message)
    head, mean, tail = message.partition(" Did you mean ")
    verb = " ".join(word for word in (error.command_chain or ()) if not word.startswith("-"))
    hint = f"`{f'paceline {verb}'.strip()} --help` shows how it is used"
    if point := re.search(r' takes a number, not "(\d+),(\d+)"', message):
        hint = f"write a decimal point: {point[1]}.{point[2]}"
    if isinstance(error, UnknownOptionError) and error.token is not None:
        option = (error.token.keyword or error.token.value).partition("=")[0]
        head = f"`paceline {verb}` has no option {option}"
        near = nearest(option, _options(verb))
        hint = f"did you mean {near}? {hint}" if near else hint
        first, _, part = verb.partition(" ")
        if others := [name for name in _parts(first) if part and option in _options(name)]:
            hint = f"{' and '.join(f'`paceline {name}`' for name in others)} has it"
    elif isinstance(error, UnusedCliTokensError):
        taken = " ".join(a.name for a in _arguments(verb) if a.index == 0)
        many = ", ".join(map(repr, error.unused_tokens or ()))
        head = f"`paceline {verb}` takes {taken or 'no argument'}, and {many} is too much"
    elif isinstance(error, MissingArgumentError) and (several := _several(verb, error)):
        hint = f"write it before {several}, which takes all that follows"
    elif mean:
        hint = "did you mean {}".format(tail.replace('"', ""))
    return Failure("usage", head, hint=hint)


def _several(verb: str, error: CycloptsError) -> str | None:
    """Return the option of a command line that takes all values that follow, if there is one."""
    several = [n for one in _arguments(verb) if one.parameter.consume_multiple for n in one.names]
    return next((token for token in (error.root_input_tokens or ()) if token in several), None)


def _app(verb: str) -> App:
    """Return the command of a verb, or of a part of one: `vm prepare`."""
    return reduce(App.__getitem__, verb.split(), root)


def _arguments(verb: str) -> ArgumentCollection:
    """Return the arguments and options of a verb."""
    return _app(verb).assemble_argument_collection(default_parameter=root.default_parameter)


def _called(tokens: Sequence[str]) -> str:
    """Return the verb of a command line, with its part if it has parts."""
    verb = tokens[0]
    return " ".join(tokens[:2]) if tokens[1:] and tokens[1] in _app(verb) else verb


def _parts(verb: str) -> list[str]:
    """Return the parts of a verb, each after its name; none of most verbs."""
    return [f"{verb} {name}" for name in _app(verb) if not name.startswith("-")]


def _ordered(tokens: list[str]) -> list[str]:
    """Return a command line with the part of its verb before all options."""
    verb = tokens[0]
    if verb not in verbs.VERBS or verb not in root:
        return tokens
    parts = [name.partition(" ")[2] for name in _parts(verb)]
    first = next((nth for nth, token in enumerate(tokens) if token in parts), 0)
    if first < 2 or not tokens[1].startswith("-"):
        return tokens
    return [verb, tokens[first], *tokens[1:first], *tokens[first + 1 :]]


def _options(verb: str) -> list[str]:
    """Return the options of a verb."""
    return [name for one in _arguments(verb) for name in one.names if name.startswith("--")]


def _fitted(hint: str | None, tokens: Sequence[str]) -> str | None:
    """Return a hint without what it says of options that the verb does not have.

    What is in backticks or brackets is another command, or another program.
    """
    if hint is None or "--" not in hint or not tokens or tokens[0] not in verbs.VERBS:
        return hint
    known = _options(_called(tokens))
    others = {"--fresh", "--force", "--memory", "--out", "--set"}.difference(known)
    # What is said, each with what joins it to the part before.
    parts = re.split(r"(, or |; )", hint)
    joined = ""
    for joint, part in zip(["", *parts[1::2]], parts[::2], strict=True):
        options = re.findall(r"--[a-z-]+", re.sub(r"`[^`]*`|\(.*?\)", "", part))
        if others.isdisjoint(options):
            joined += joint + part if joined else part
    return joined or None


def _ended(error: KeyboardInterrupt | OSError) -> Failure:
    if is_interrupted(error):
        return Failure.interrupted()
    assert isinstance(error, OSError)
    where = f"{error.filename}: " if error.filename else ""
    return Failure("system", f"{where}{error.strerror or error}", code=Exit.RUN_FAILED)


def _fault(error: Exception) -> Failure:
    """Return the failure for an error that no one has explained: a fault of Paceline."""
    traceback.print_exc()
    message = f"a fault of Paceline: {type(error).__name__}: {error}"
    hint = "please report it, with the lines above and the command"
    return Failure("internal", message, hint=hint, code=Exit.RUN_FAILED)


#: The exit code of an interrupted command; for one that serves until then, it is success.
_ENDED = (Exit.INTERRUPTED, Exit.OK)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    with _signals() as signals:
        code = _main(list(sys.argv[1:] if arguments is None else arguments))
    return 128 + signals[-1] if signals and code in _ENDED else code


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP end the command like Ctrl-C; yield the signals received."""
    received: list[int] = []

    def end(number: int, _: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    ours = []
    if threading.current_thread() is threading.main_thread():
        # A signal that is ignored, as under nohup, stays ignored.
        ours = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield received
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _obey(arguments: dict[str, Any], tokens: Sequence[str]) -> None:
    """Let the options that verbs share take effect, before the verb starts."""
    options = arguments.get("options")
    given = arguments if options is None else arguments | vars(options)
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if value == [] and flag in tokens:
            # The parser takes an option for several values without any.
            raise Failure("usage", f"{flag} needs a value")
    size, brought = given.get("memory"), given.get("controllers")
    memory.choose(None if size is None else size_bytes(size))
    choose_guests(())
    if brought:
        # Only what runs something needs it.
        from paceline.cli.guests import bring

        bring(brought)
    console.choose(json=given.get("json", False), quiet=given.get("quiet", False))


def _main(tokens: list[str]) -> int:
    as_json = "--json" in tokens
    try:
        tokens = tokens or ["--help"]
        verbs.load(tokens)
        tokens = _ordered(tokens)
        command, bound, _ = root.parse_args(tokens, console=console.stdout())
        _obey(bound.arguments, tokens)
        code = command(*bound.args, **bound.kwargs)
        with streams.output():
            sys.stdout.flush()
    except CycloptsError as error:
        failure = _usage(error)
    except Failure as error:
        failure = error
    except PacelineError as error:
        failure = Failure.of(error)
    except MemoryError:
        hint = "close other programs, or set a lower limit with --memory"
        failure = Failure("memory", "out of memory", hint=hint, code=Exit.RUN_FAILED)
    except BrokenPipeError:
        # The reader has closed the pipe.
        streams.abandon()
        return Exit.RUN_FAILED
    except (KeyboardInterrupt, OSError) as error:
        failure = _ended(error)
    except UnicodeEncodeError as error:
        # Without its UTF-8 mode Python cannot pass a file name from Rust, or from a file, to the
        # system.
        message = f"this locale cannot encode {error.object[error.start : error.end]!r}"
        failure = Failure("locale", message, hint="set LC_ALL=C.UTF-8")
    except Exception as error:
        failure = _fault(error)
    else:
        return int(code) if isinstance(code, int) else Exit.OK
    failure.hint = _fitted(failure.hint, tokens)
    try:
        console.print_failure(failure, as_json=as_json and failure.kind != "output")
        sys.stdout.flush()
    except OSError:
        streams.abandon()
    return int(failure.code)
