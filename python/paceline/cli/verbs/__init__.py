"""The verbs of the command, a file each: how it is called, and what it then does.

A file is found by its name, which is that of its verb. What takes long to load is loaded for the
verb that is asked for; the list of all of them loads all.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from importlib import import_module

#: The modules by the names of their verbs; a name that is a Python keyword ends in `_`.
VERBS = {module.name.rstrip("_"): module.name for module in pkgutil.iter_modules(__path__)}


def load(tokens: Sequence[str] = ()) -> None:
    """Add the verb of the command line to the command, or else all of them."""
    asked = [token for token in tokens[:1] if token in VERBS]
    for verb in asked or VERBS:
        import_module(f"{__name__}.{VERBS[verb]}")
