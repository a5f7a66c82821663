"""Paceline: a congestion-control laboratory.

>>> import paceline
>>> run = paceline.run("scenario.toml")  # doctest: +SKIP
>>> run.samples.filter(flow=0)  # doctest: +SKIP
"""

# Names with an underscore: completion in a shell shows only the public ones.
from importlib import import_module as _import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paceline._paceline import __version__, controllers, metrics, schema
    from paceline.batch import Batch, run, run_jobs, run_many
    from paceline.controller import Ack, Config, Controller, Loss, Sent
    from paceline.errors import (
        ArgumentError,
        CaptureError,
        Diagnostic,
        FileError,
        NoTableError,
        NotARunError,
        PacelineError,
        RunError,
        ScenarioError,
        StoreError,
        UnavailableError,
    )
    from paceline.runs import Engine, Progress, Run, check, read
    from paceline.study.sweep import Sweep

__all__ = [
    "Ack",
    "ArgumentError",
    "Batch",
    "CaptureError",
    "Config",
    "Controller",
    "Diagnostic",
    "Engine",
    "FileError",
    "Loss",
    "NoTableError",
    "NotARunError",
    "PacelineError",
    "Progress",
    "Run",
    "RunError",
    "ScenarioError",
    "Sent",
    "StoreError",
    "Sweep",
    "UnavailableError",
    "__version__",
    "check",
    "controllers",
    "metrics",
    "read",
    "run",
    "run_jobs",
    "run_many",
    "schema",
]

_ROOMS = {
    "_paceline": ("__version__", "controllers", "metrics", "schema"),
    "runs": ("Engine", "Progress", "Run", "check", "read"),
    "controller": ("Ack", "Config", "Controller", "Loss", "Sent"),
    "batch": ("Batch", "run", "run_jobs", "run_many"),
    "study.sweep": ("Sweep",),
}


def __getattr__(name: str) -> "Any":
    """Load attributes on demand: tables take a while to load, and Ctrl-C must work before that."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = next((room for room, names in _ROOMS.items() if name in names), "errors")
    value = globals()[name] = getattr(_import_module(f"paceline.{room}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
