"""Metrics by their names: of a run (`jain_ratio`), or of a flow (`flows[0].goodput_bps`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, KeysView, Mapping, Sequence
from functools import cache
from typing import Any

from paceline import _paceline
from paceline.errors import ArgumentError
from paceline.names import meant, nearest
from paceline.quantities import Scale, scale_of

_OF_FLOW = re.compile(r"flows(?:\[([0-9]{1,9})\]|\.([0-9]{1,9}))\.(\w+)")


@cache
def _defined() -> dict[tuple[str, str], _paceline.MetricDefinition]:
    return {(d["scope"], d["name"]): d for d in _paceline.metrics()}


def of_flow(name: str) -> tuple[int, str] | None:
    """Return the flow and its metric, if a name has that form."""
    match = _OF_FLOW.fullmatch(name)
    return (int(match[1] or match[2]), match[3]) if match else None


def named(name: str) -> str:
    """Return a metric's name in full: its unit may be left out (`jain`, `flows[0].goodput`).

    Raises `ArgumentError` with the names that come nearest, if there is no such metric.
    """
    word = "_".join(name.split())
    head, _, metric = word.rpartition(".")
    known = names("flow" if head else "run")
    matches = meant(metric, known) if not head or of_flow(word) else []
    of = f"{head}." if head else ""
    if len(matches) == 1:
        return of + matches[0]
    if matches:
        message = f"{name!r} may be {' or '.join(of + one for one in matches)}"
        raise ArgumentError(message, hint="write it with its unit")
    near, hint = nearest(metric, known), "`paceline list metrics` lists them"
    if near and near != metric:
        hint = f"did you mean {of}{near}? {hint}"
    raise ArgumentError(f"no metric is called {name!r}", hint=hint)


def all_named(names: Iterable[str], flows: int | None = None) -> list[str]:
    """Return metrics' names in full, each once; raises `ArgumentError` also for a missing flow.

    A text may have several, separated by commas.
    """
    parts = (part.strip() for name in names for part in name.split(","))
    metrics = list(dict.fromkeys(map(named, parts)))
    for name in metrics:
        of = of_flow(name)
        if flows is not None and of is not None and of[0] >= flows:
            message = f"{name!r} is of flow {of[0]}, and a run has flows 0 to {flows - 1}"
            raise ArgumentError(message, hint="flows are numbered from 0")
    return metrics


def scoped(name: str) -> tuple[str, str]:
    """Return what a metric is of, `run` or `flow`, and its name there."""
    flow = of_flow(name)
    return ("flow", flow[1]) if flow else ("run", name)


def label(name: str) -> str:
    """Return what people call a metric: ``Share of flow 0``."""
    flow = of_flow(name)
    definition = _defined().get(scoped(name))
    text = name if definition is None else definition["label"]
    return f"{text} of flow {flow[0]}" if flow else text


#: The metrics that matter most. One flow has no fairness: another metric takes its place.
_FIRST = (
    *("utilisation_ratio", "goodput_bps", "rtt_p50_ns", "queue_p95_ns", "retransmit_ratio"),
    *("jain_last_half_ratio", "rtt_p95_ns", "loss_ratio"),
)


def foremost(metrics: Mapping[str, float | None], flows: int) -> list[str]:
    """Return the metrics that are defined in a run of so many flows, those that matter most first.

    Of one flow the fairness is left to the end.
    """
    first = [name for name in _FIRST if flows > 1 or not name.startswith("jain")]
    return [name for name in dict.fromkeys([*first, *metrics]) if metrics.get(name) is not None]


def labelled(name: str, values: Iterable[float]) -> tuple[str, Scale]:
    """Return the label of a metric with the unit that suits its values, and the scale of that."""
    scale = scale_of(scoped(name)[1], max(map(abs, values), default=None))
    unit = "" if scale.unit in ("ratio", "count") else f" ({scale.unit})"
    return label(name) + unit, scale


def higher_is_better(name: str) -> bool:
    """Return the direction in which a metric is better; `KeyError` if there is no such metric."""
    return _defined()[scoped(name)]["better"] == "higher"


def unknown(names: Iterable[str]) -> list[str]:
    """Return the names that are not metrics."""
    return [name for name in names if scoped(name) not in _defined()]


def value(summary: Mapping[str, Any], name: str) -> float | None:
    """Return a metric from a run's JSON; `None` where it is undefined."""
    holder, metric = _holder(summary, name)
    number = (summary["metrics"] if holder is summary else holder).get(metric)
    return None if number is None else float(number)


def limit(summary: Mapping[str, Any], name: str) -> float | None:
    """Return what a time is longer than, if its run ended before it."""
    holder, metric = _holder(summary, name)
    number = (holder.get("censored") or {}).get(metric)
    return None if number is None else float(number)


def _holder(summary: Mapping[str, Any], name: str) -> tuple[Mapping[str, Any], str]:
    """Return the JSON of a run, or of a flow (empty if there is none), and the metric there."""
    flow = of_flow(name)
    if flow is None:
        return summary, name
    flows = summary["flows"]
    return flows[flow[0]] if flow[0] < len(flows) else {}, flow[1]


@cache
def times(scope: str) -> tuple[str, ...]:
    """Return the metrics of a run or of a flow that are times which a run may end before."""
    return tuple(n for n in names(scope) if _defined()[scope, n]["censored"] is not None)


@cache
def names(scope: str) -> KeysView[str]:
    """Return the names of the metrics of a run or of a flow, in the order of their definitions."""
    return dict.fromkeys(name for of, name in _defined() if of == scope).keys()


def alike(repeats: Mapping[Any, Sequence[float | None]]) -> bool:
    """Return whether all repeats gave equal values, not all null: then the seed has no effect."""
    distinct = [set(values) for values in repeats.values()]
    are_equal = all(len(values) == 1 for values in distinct)
    return are_equal and any(values != {None} for values in distinct)
