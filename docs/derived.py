"""Writes how far BBRv3 for a stock kernel differs from golden traces of the BBRv3 kernel.

The algorithm in C (`replay stock`, linux/kernel/replay.c) replays each trace without the inputs
that a stock kernel does not give.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa

ROOT = Path(__file__).parents[1]
TRACES = sorted((ROOT / "data" / "conformance" / "linux-bbr" / "v3").glob("*.txt.zst"))
#: What is derived of an ACK and of a lost packet, and what that is.
OF_ACK = {
    "rs.txif": "in flight when the newest delivered packet was sent",
    "rs.lost": "lost since then",
}
OF_LOST = {
    "txif": "in flight when a lost packet was sent",
    "txlost": "lost when it was sent",
}
INTRO = """\
# What a stock kernel does not tell BBRv3

[BBRv3 in the running kernel](../guide/kernel.md) derives the inputs that a stock kernel does not
give. Here, the controller in C replays every golden trace of Linux's BBRv3 with these inputs
derived, and its state after each ACK is compared with the trace's. With all inputs of the BBRv3
kernel, every field is equal.

A trace has no sequence numbers. They are rebuilt from its counters for a path that keeps the
order, which overstates the differences where a loss is detected later. The `script_*` traces are
random events without a path, so nothing in their history explains what was in flight: they show
the worst case. Tail-loss probes are as in the trace.

"""

Line = dict[str, str]


def _fields(line: str) -> Line:
    return dict(re.findall(r"([\w.]+)=(\S+)", line))


def _lines(text: str, start: str) -> list[Line]:
    return [_fields(line) for line in text.split("\n") if line.startswith(start)]


class Share:
    """How many of several are equal, and the largest difference of numbers."""

    def __init__(self) -> None:
        self.count = self.equal = self.most = 0

    def add(self, expected: str, got: str | None) -> None:
        """Compare two values."""
        self.count += 1
        self.equal += expected == got
        if expected != got and got is not None and "/" not in expected:
            self.most = max(self.most, abs(int(expected) - int(got)))

    def __str__(self) -> str:
        """Never round a difference away."""
        if not self.count:
            return ""
        hundredths = self.equal * 10000 // self.count
        return "100 %" if self.equal == self.count else f"{hundredths / 100:.2f} %"


class Shares:
    """Shares by name, over some traces."""

    def __init__(self) -> None:
        self.inputs: dict[str, Share] = {}
        self.states: dict[str, Share] = {}

    def add(self, expected: str, got: str) -> None:
        """Compare a trace with its replay."""
        acks, derived = _lines(expected, "A "), _lines(got, "D rs.")
        for ack, ours in zip(acks, derived, strict=True):
            if int(ack["rs.int"]) > 0:
                for name in OF_ACK:
                    self.inputs.setdefault(name, Share()).add(ack[name], ours[name])
        reported = {line["lost"]: line for line in _lines(got, "D lost=")}
        for packet in _lines(expected, "L "):
            for name in OF_LOST:
                ours_of = reported.get(packet["lost"], {})
                self.inputs.setdefault(name, Share()).add(packet[name], ours_of.get(name))
        states = zip(_lines(expected, "S ev=ack"), _lines(got, "S ev=ack"), strict=True)
        for theirs, ours in states:
            for name in theirs.keys() - {"ev", "t"}:
                self.states.setdefault(name, Share()).add(theirs[name], ours[name])


@cache
def measure() -> dict[str, Shares]:
    """Replay every trace; the shares by kind of trace."""
    shares = {"paths": Shares(), "scripts": Shares()}
    with tempfile.TemporaryDirectory() as folder:
        replay, trace = Path(folder) / "replay", Path(folder) / "trace"
        source = ROOT / "linux" / "kernel" / "replay.c"
        subprocess.run(["cc", "-std=c11", "-O1", "-o", str(replay), str(source)], check=True)
        for path in TRACES:
            with pa.input_stream(path, compression="zstd") as stream:
                text = bytes(stream.read())
            trace.write_bytes(text)
            with trace.open("rb") as standard_input:
                got = subprocess.run(
                    [replay, "stock"], stdin=standard_input, capture_output=True, check=True
                ).stdout
            kind = "scripts" if path.name.startswith("script_") else "paths"
            shares[kind].add(text.decode(), got.decode())
    return shares


def page(table: Callable[[list[str], list[list[str]]], str]) -> str:
    """Write the page."""
    measured = measure()
    paths, scripts = measured["paths"], measured["scripts"]
    inputs = [
        [
            f"`{name}`",
            rule,
            str(paths.inputs[name].count),
            str(paths.inputs[name]),
            str(paths.inputs[name].most),
            str(scripts.inputs[name]),
        ]
        for name, rule in (OF_ACK | OF_LOST).items()
    ]
    acks = {kind: shares.states["cwnd"].count for kind, shares in measured.items()}
    states = []
    for name, share in sorted(paths.states.items()):
        other = scripts.states[name]
        both = Share()
        both.count, both.equal = share.count + other.count, share.equal + other.equal
        states.append([f"`{name}`", str(share), str(other), str(both)])
    counts = Counter("scripts" if t.name.startswith("script_") else "paths" for t in TRACES)
    return (
        INTRO
        + "## Inputs\n\n"
        + "A difference is in packets.\n\n"
        + table(
            ["field", "what", "values", "equal", "largest difference", "equal, scripts"], inputs
        )
        + "\n## State after an ACK\n\n"
        + f"Equal after {acks['paths']} ACKs on {counts['paths']} paths, and after "
        + f"{acks['scripts']} of {counts['scripts']} scripts. Fields as in "
        + "`data/conformance/linux-bbr/README.md`.\n\n"
        + table(["field", "paths", "scripts", "all"], states)
    )
