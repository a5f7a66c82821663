"""Modules that take long to load, loaded when something of them is first used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["numpy", "polars"]


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy
    import polars
else:
    numpy, polars = _Later("numpy"), _Later("polars")
