"""Figures as rows of names and values, for a page and for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from paceline.measures import label
from paceline.quantities import quantity

#: The figures of an emulation that are shown: key in the object, and label.
EMULATION = {
    ("lateness", "p50_ns"): "release lateness p50",
    ("lateness", "p99_ns"): "release lateness p99",
    ("lateness", "max_ns"): "release lateness max",
    ("ingest", "p50_ns"): "ingest lateness p50",
    ("ingest", "p99_ns"): "ingest lateness p99",
    ("added_delay_ns",): "added to a round trip",
    ("answers", "max_ns"): "slowest answer of a receiver",
    ("stalls", "total_ns"): "path stood still",
    ("stalls", "max_ns"): "longest standstill",
    ("rate_asked_bps",): "rate asked",
    ("rate_achieved_bps",): "rate achieved",
    ("queue_error_p99_bytes",): "queue error p99",
    ("device_drops",): "dropped by devices",
    ("emulator_cpu_ratio",): "CPU of the emulator",
    ("hosts_cpu_ratio",): "CPU of the hosts",
    ("machine_cpu_ratio",): "CPU of the machine",
}


def guest_lines(guests: Iterable[dict[str, str]]) -> list[str]:
    """Return the user-defined controllers of a run: name, file, language, hash of the file."""
    lines = []
    for guest in guests:
        digest = guest["sha256"] and f"SHA-256 {guest['sha256'][:16]}"
        parts = (guest["file"], guest["language"], digest)
        lines.append(f"{guest['name']}: {', '.join(part for part in parts if part)}")
    return lines


def emulation_rows(emulation: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the emulator's or the machine's measurements of itself, as names and values."""
    if "snapshot" in emulation:
        busiest = quantity("_ratio", _number(emulation, "busiest_second_ratio"))
        return [
            ("kernel", str(emulation.get("kernel"))),
            ("machine", str(emulation.get("qemu"))),
            ("snapshot", str(emulation["snapshot"])[:12]),
            ("guest's processor busy", quantity("_ratio", _number(emulation, "busy_ratio"))),
            ("in its busiest second", busiest),
        ]
    shown = EMULATION.items()
    rows = [(name, quantity(keys[-1], _number(emulation, *keys))) for keys, name in shown]
    flows = emulation.get("flows")
    for flow in flows if isinstance(flows, list) else []:
        value = _number(flow, "min_rtt_error_ns")
        if value is not None:
            name = f"least RTT of flow {flow.get('flow')} over its base"
            rows.append((name, ("-" if value < 0 else "+") + quantity("_ns", abs(value))))
    rows.append(("real-time scheduling", "yes" if emulation.get("real_time") else "no"))
    rows.append(("kernel", str(emulation.get("kernel"))))
    return rows


def _number(value: Any, *keys: str) -> float | None:
    """Return a number in nested tables; `None` if there is none: a record may come from anyone."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int | float) else None


def judged(outcomes: Sequence[Mapping[str, Any]]) -> str:
    """Return how many expectations held, in words; nothing if there are none."""
    failed = sum(not outcome["held"] for outcome in outcomes)
    if failed:
        return f"{failed} of {len(outcomes)} expectations failed"
    if len(outcomes) > 1:
        return f"All {len(outcomes)} expectations held"
    return "The expectation held" if outcomes else ""


def verdict(
    outcomes: Sequence[Mapping[str, Any]], figures: Mapping[str, float | None], ccs: Iterable[str]
) -> str:
    """Return what came of a run in one or two sentences: its expectations, and the link's use."""
    failed = [
        f"{label(o['metric'])} {quantity(o['metric'], o['value'])} ({bound_in_words(o)} expected)"
        for o in outcomes
        if not o["held"]
    ]
    expectations = judged(outcomes) + (f": {'; '.join(failed)}" if failed else "")
    rates = [
        words.format(quantity(name, figures[name]))
        for name, words in _SENTENCES.items()
        if figures.get(name) is not None
    ]
    used = f"{' and '.join(dict.fromkeys(ccs))}: {', '.join(rates)}" if rates else ""
    return "".join(f"{sentence}. " for sentence in (expectations, used) if sentence).rstrip()


#: The sentences of a verdict on every run.
_SENTENCES = {
    "utilisation_ratio": "{} of the link used",
    "rtt_p50_ns": "median RTT {}",
    "retransmit_ratio": "{} of the packets retransmitted",
}

_SIGNS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than", "==": "exactly"}


def bound_in_words(outcome: Mapping[str, Any]) -> str:
    """Return the bound of an expectation: ``<= 50000000`` of a time is ``at most 50.00 ms``."""
    sign, bound = outcome["bound"].split(" ", 1)
    return f"{_SIGNS.get(sign, sign)} {quantity(outcome['metric'], float(bound))}"
