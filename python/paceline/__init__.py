"""Paceline: a congestion-control laboratory.

>>> import paceline
>>> run = paceline.run("scenario.toml")  # doctest: +SKIP
>>> run.samples.filter(flow=0)  # doctest: +SKIP
"""

from paceline._paceline import __version__, controllers, metrics, schema
from paceline.errors import (
    Diagnostic,
    NotARunError,
    PacelineError,
    RunError,
    ScenarioError,
    UnavailableError,
)
from paceline.runs import Engine, Progress, Run, check, run, run_jobs, run_many
from paceline.sweep import Sweep

read = Run.read

__all__ = [
    "Diagnostic",
    "Engine",
    "NotARunError",
    "PacelineError",
    "Progress",
    "Run",
    "RunError",
    "ScenarioError",
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
