"""The interface of a run for pages and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import polars as pl

    from paceline._paceline import Outcome


class Recorded(Protocol):
    """A run with its tables and results; `paceline.Run` is one."""

    @property
    def scenario(self) -> str:
        """Name of the scenario."""

    @property
    def scenario_toml(self) -> str:
        """The scenario with every default written."""

    @property
    def outcomes(self) -> list[Outcome]:
        """The results of the scenario's ``[expect]``."""

    @property
    def links(self) -> list[tuple[str, int, int | None]]:
        """Each link's name, its capacity at the start in bit/s and its queue's limit in bytes."""

    @property
    def seed(self) -> int:
        """Seed of all randomness."""

    @property
    def metrics(self) -> dict[str, float | None]:
        """The run's metrics by name."""

    @property
    def censored(self) -> dict[str, float]:
        """The times that the run ended before: what they are longer than, by metric."""

    @property
    def flow_metrics(self) -> list[dict[str, Any]]:
        """The metrics of each flow."""

    @property
    def guests(self) -> list[dict[str, str]]:
        """The user-defined controllers of the run."""

    @property
    def emulation(self) -> dict[str, Any] | None:
        """The emulator's measurements of itself."""

    @property
    def source(self) -> dict[str, Any] | None:
        """The file of another program that it was read from."""

    @property
    def flows(self) -> pl.DataFrame:
        """One row for each flow."""

    @property
    def samples(self) -> pl.DataFrame:
        """Each flow over time."""

    @property
    def queue(self) -> pl.DataFrame:
        """Each link's queue over time."""

    @property
    def events(self) -> pl.DataFrame:
        """Events, in order."""

    @property
    def packets(self) -> pl.DataFrame:
        """Each packet; `KeyError` if they were not recorded."""
