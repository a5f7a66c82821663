"""Metrics by their names: of a run (`jain_ratio`), or of a flow (`flows[0].goodput_bps`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from paceline import _paceline

#: The minimum number of values for an interval: with fewer, it is little more than their minimum
#: and maximum.
FEWEST = 5

_OF_FLOW = re.compile(r"flows(?:\[([0-9]{1,9})\]|\.([0-9]{1,9}))\.(\w+)")


@cache
def _better() -> dict[tuple[str, str], str]:
    return {(d["scope"], d["name"]): d["better"] for d in _paceline.metrics()}


def of_flow(name: str) -> tuple[int, str] | None:
    """Return the flow and its metric, if a name has that form."""
    found = _OF_FLOW.fullmatch(name)
    return (int(found[1] or found[2]), found[3]) if found else None


def higher_is_better(name: str) -> bool:
    """Return the direction in which a metric is better; `KeyError` if there is no such metric."""
    flow = of_flow(name)
    return _better()[("flow", flow[1]) if flow else ("run", name)] == "higher"


def unknown(names: Iterable[str]) -> list[str]:
    """Return the names that are not metrics."""
    split = ((name, of_flow(name)) for name in names)
    return [n for n, flow in split if (("flow", flow[1]) if flow else ("run", n)) not in _better()]


def value(summary: Mapping[str, Any], name: str) -> float | None:
    """Return a metric from a run's JSON; `None` where it is undefined."""
    flow = of_flow(name)
    if flow is None:
        found = summary["metrics"].get(name)
    else:
        flows = summary["flows"]
        found = flows[flow[0]].get(flow[1]) if flow[0] < len(flows) else None
    return None if found is None else float(found)


def aggregate(rows: Sequence[Sequence[float]]) -> list[_paceline.Aggregate | None]:
    """Return the statistics of each row's values; no intervals with fewer than five values."""
    found = _paceline.aggregate(rows)
    for one in found:
        if one is not None and one["count"] < FEWEST:
            one |= {"low": None, "high": None, "median_low": None, "median_high": None}
    return found


def alike(repeats: Mapping[Any, Sequence[float | None]]) -> bool:
    """Return whether all repeats gave equal values, not all null: then the seed has no effect."""
    found = [set(values) for values in repeats.values()]
    return all(len(values) == 1 for values in found) and any(values != {None} for values in found)
