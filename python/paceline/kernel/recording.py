"""A record of live connections, from the events that the controller reports for each ACK."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from paceline import _paceline, memory
from paceline.errors import RunError
from paceline.kernel import bpf, controller
from paceline.kernel.controller import NAME, Loaded

#: How often the ring buffer is emptied, in seconds: it has room for about 10 000 ACKs.
_PERIOD_S = 0.01
#: How long the program continues after the reader's last update: a killed reader costs at most
#: that.
_LEASE_NS = 3_000_000_000


def record(name: str, port: int | None = None, duration_ns: int | None = None) -> _paceline.Run:
    """Record the connections of the controller, or those with a given port at either end.

    It ends after `duration_ns`, or when it is interrupted.
    Raises `CaptureError` if there was no connection.
    """
    running = controller.loaded()
    if not running:
        raise RunError(f"{NAME} is not loaded; run `paceline kernel load`")
    with _reading(running[0]) as (variables, take):
        types = running[0].types
        entry = types.structure("traced")
        layout = {field: (at, size) for field, at, size in types.places(entry)}
        begin, before = time.monotonic_ns(), variables.read("missed")
        made = _paceline.KernelRecord(layout, types.size(entry), begin, port, memory.limit())
        end = None if duration_ns is None else begin + duration_ns
        incomplete = None
        try:
            while end is None or time.monotonic_ns() < end:
                variables.write("recording_until", time.monotonic_ns() + _LEASE_NS)
                if not made.take(take()):
                    break
                time.sleep(_PERIOD_S)
        except KeyboardInterrupt:
            # Without a duration it ends like this.
            incomplete = None if end is None else "interrupted"
        at = time.monotonic_ns()
        variables.write("recording_until", 0)
        made.take(take())
        missed = variables.read("missed") - before
        return made.finish(name, min(at, end or at), missed, os.uname().release, incomplete)


@contextmanager
def _reading(running: Loaded) -> Iterator[tuple[bpf.Variables, Callable[[], bytes]]]:
    """Open the event stream of a controller; it allows only one reader."""
    bss = bpf.map_info(running.maps["bss"])
    with (
        bpf.opened(bpf.open_map(running.maps["bss"])) as own,
        bpf.opened(bpf.open_map(running.maps["traces"])) as traces,
        closing(bpf.Variables(own, running.types, ".bss", bss.value_size)) as variables,
    ):
        try:
            lease = variables.read("recording_until")
        except KeyError:
            raise RunError(
                f"the kernel has another version of {NAME}; "
                "run `paceline kernel unload`, then `paceline kernel load`"
            ) from None
        if lease > time.monotonic_ns():
            raise RunError("another `paceline kernel record` is reading; wait until it ends")
        with bpf.ring(traces) as take:
            # Events left by a killed reader.
            take()
            try:
                yield variables, take
            finally:
                variables.write("recording_until", 0)
