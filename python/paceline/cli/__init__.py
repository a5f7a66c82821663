"""The command ``paceline``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts.exceptions import CycloptsError

from paceline.cli import console, experiments, judgements  # noqa: F401 - they add the commands
from paceline.cli.app import app
from paceline.cli.failure import Exit, Failure
from paceline.errors import NotARunError


def _usage(error: CycloptsError) -> Failure:
    # `str` gives the message as one text; the nearest name is part of it.
    message = " ".join(str(error).split())
    head, mean, tail = message.partition(" Did you mean ")
    chain = [word for word in (error.command_chain or ()) if not word.startswith("-")]
    command = " ".join(["paceline", *chain, "--help"])
    hint = (
        "did you mean {}".format(tail.replace('"', ""))
        if mean
        else f"`{command}` shows how it is used"
    )
    return Failure("usage", head, hint=hint)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in tokens
    try:
        if not tokens:
            app.help_print([], console=console.stdout())
            return Exit.OK
        code = app(tokens, console=console.stdout())
        sys.stdout.flush()
    except CycloptsError as error:
        failure = _usage(error)
    except Failure as error:
        failure = error
    except NotARunError as error:
        failure = Failure("not-a-run", str(error), hint="`paceline run` makes runs")
    except BrokenPipeError:
        # The reader has gone; nothing more is said, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.RUN_FAILED
    except KeyboardInterrupt:
        failure = Failure("interrupted", "interrupted", code=Exit.INTERRUPTED)
    else:
        return int(code) if isinstance(code, int) else Exit.OK
    try:
        console.say_failure(failure, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(failure.code)
