"""Modules that take long to load, loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self.__name__), name)
        setattr(self, name, found)
        return found


def later(name: str) -> Any:
    """Return what stands for a module, and loads it when something of it is used."""
    return _Later(name)
