"""The verbs of the command, a file each: how it is called, and what it then does.

A file is found by its name, which is that of its verb. Only the verb that is asked for is loaded:
the list of all of them takes the first line of each one's help from its file.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from paceline.cli.app import app
from paceline.cli.failure import Failure
from paceline.names import did_you_mean

#: The modules by the names of their verbs; a name that is a Python keyword ends in `_`.
VERBS = {module.name.rstrip("_"): module.name for module in pkgutil.iter_modules(__path__)}

#: The options that need no verb.
_ALONE = ("--help", "-h", "--version")

#: The first line of the help of a verb, in its file.
_SUMMARY = re.compile(
    r'^@(?:app\.command|parted)\b.*?^    """(.*?)(?:""")?$', re.DOTALL | re.MULTILINE
)


def load(tokens: Sequence[str] = ()) -> None:
    """Add the verb of a command line to the command, or else all of them."""
    first = tokens[0] if tokens else ""
    option = first.startswith("-")
    chosen = [token for token in tokens if token in VERBS][:1]
    if first and not option and first not in VERBS:
        shown = "`paceline --help` shows all commands"
        hint = f"{did_you_mean(first, VERBS, '')} {shown}".strip()
        raise Failure("usage", f"no command is called {first!r}", hint=hint)
    if option and not chosen:
        if first not in _ALONE:
            hint = "an option comes after the command; `paceline --help` shows all commands"
            raise Failure("usage", f"no command before {first}", hint=hint)
        # Their lines need no Markdown, whose library is a third of what loads.
        app.help_format = "plaintext"
        _list()
        return
    app.help_format = "markdown"
    for verb, module in VERBS.items():
        if f"{__name__}.{module}" not in sys.modules and verb in app:
            # The list of all has added it without its module, which adds itself, and may import
            # another verb's.
            del app[verb]
    for verb in chosen or VERBS:
        import_module(f"{__name__}.{VERBS[verb]}")


def _list() -> None:
    """Add every verb as far as the list of all of them shows it."""
    for verb, module in VERBS.items():
        match = _SUMMARY.search((Path(__path__[0]) / f"{module}.py").read_text("utf-8"))
        summary = match[1].replace("`", "") if match else ""
        if verb not in app:
            app.command(f"{__name__}.{module}:{module}", name=verb, help=summary)
