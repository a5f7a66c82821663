"""Paceline: a congestion-control laboratory.

>>> import paceline as pl
>>> run = pl.run("four-flows")  # doctest: +SKIP
>>> run.samples.filter(flow=0)  # doctest: +SKIP
>>> sizes = {"path.queue.size": pl.bdp(1, 2, 4)}
>>> pl.sweep("four-flows", sizes, repeats=10).plot()  # doctest: +SKIP
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
    from paceline.interface import Comparison, claims, compare, fit, read, reference, sweep
    from paceline.runs import Engine, Progress, Run, bdp, check, scenario, scenarios
    from paceline.study.sweep import Sweep

__all__ = [
    "Ack",
    "ArgumentError",
    "Batch",
    "CaptureError",
    "Comparison",
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
    "bdp",
    "check",
    "claims",
    "compare",
    "controllers",
    "fit",
    "metrics",
    "read",
    "reference",
    "run",
    "run_jobs",
    "run_many",
    "scenario",
    "scenarios",
    "schema",
    "sweep",
]

_ROOMS = {
    "_paceline": ("__version__", "controllers", "metrics", "schema"),
    "runs": ("Engine", "Progress", "Run", "bdp", "check", "scenario", "scenarios"),
    "controller": ("Ack", "Config", "Controller", "Loss", "Sent"),
    "batch": ("Batch", "run", "run_jobs", "run_many"),
    "interface": ("Comparison", "claims", "compare", "fit", "read", "reference", "sweep"),
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
