"""``paceline kernel``: BBRv3 in the running kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline import store
from paceline.cli import console, files
from paceline.cli.app import Json, Memory, examples, part, parted
from paceline.cli.failure import Exit, Failure, failing
from paceline.cli.tables import keep_record, record_answer, show_record
from paceline.errors import CaptureError, RunError
from paceline.kernel import bpf, controller
from paceline.quantities import duration_ns, quantity
from paceline.runs import Run

#: The columns of `show`, in addition to a connection's ends.
_SHOWN = {
    "phase": "Phase",
    "bw_bps": "Bandwidth",
    "min_rtt_ns": "Min RTT",
    "pacing_bps": "Pacing",
    "cwnd_bytes": "Window",
    "in_flight_bytes": "In flight",
    "inflight_longterm_bytes": "Long-term bound",
    "inflight_shortterm_bytes": "Short-term bound",
}


@parted(
    help_epilogue=examples(
        "kernel load",
        "kernel load --set startup_pacing_gain=2.89 --set full_bw_cnt=2",
        "kernel show 5201",
        'kernel record 5201 --duration "10 s" --out runs/live',
        "kernel list --json",
        "kernel unload",
    )
)
def kernel() -> None:
    """Load BBRv3 into the running kernel with eBPF, unload it, or watch its connections.

    The command needs root and Linux 6.10 or later. A stock kernel is enough.
    """


@contextmanager
def _explained() -> Iterator[None]:
    """Explain what the kernel refused, and what the machine lacks."""
    try:
        with files.running("kernel"):
            yield
    except ValueError as error:
        hint = "paceline list controllers bbr3-linux"
        raise Failure("usage", str(error), hint=hint) from None
    except CaptureError as error:
        hint = f"start a program that uses {controller.NAME} meanwhile: iperf3 -C {controller.NAME}"
        raise Failure("kernel-failed", str(error), hint=hint, code=Exit.RUN_FAILED) from None
    except bpf.RefusedError as error:
        lines = [line for line in error.log.splitlines() if line.strip()]
        text = "; ".join(lines[-3:])
        what = f"the kernel refused the controller: {error}" + (f" ({text})" if text else "")
        hint = "`paceline doctor --quick` shows what this kernel lacks"
        raise Failure("kernel-failed", what, hint=hint, code=Exit.RUN_FAILED) from None
    except (RunError, OSError) as error:
        raise Failure("kernel-failed", str(error), code=Exit.RUN_FAILED) from None


def _settings(texts: list[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise ValueError(f"--set takes OPTION=VALUE, not {text!r}")
        settings[name.strip()] = value.strip()
    return settings


def _print_loaded() -> None:
    loaded = controller.loaded()
    entries = [
        {
            "name": controller.NAME,
            "registered": one.registered,
            "user": one.user,
            "since_ns": int(one.since_s * 1e9),
            "options": {option.name: option.show(option.default) for option in one.options},
        }
        for one in loaded
    ]
    table = console.table("Controller", "State", "Loaded by", "Since", left=4)
    for one in loaded:
        state = "registered" if one.registered else "unloaded, still in use"
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.since_s))
        table.add_row(controller.NAME, state, one.user, since)
    none = "No controller of ours is in the kernel; run `paceline kernel load`."
    console.answer({"controllers": entries}, table if loaded else none)


@part(kernel)
@_explained()
def load(
    *,
    set_: Annotated[
        list[str] | None,
        Parameter(
            name="--set",
            help="OPTION=VALUE: set an option of `bbr3-linux` for every connection. Can be "
            "repeated. Write a time as a number in the kernel's unit for the option, which is "
            "microseconds or milliseconds.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Register the congestion control `paceline_bbr3`, which any program can then choose.

    For example, choose it with `iperf3 -C paceline_bbr3`, with `ip route ... congctl`, or with the
    sysctl `net.ipv4.tcp_congestion_control`.
    """
    controller.load(_settings(set_ or []))
    _print_loaded()


@part(kernel)
@_explained()
def unload(*, json: Json = False) -> None:
    """Unload the controller: new connections cannot choose it, but open connections keep it."""
    is_in_use = controller.unload()
    lines = [f"{controller.NAME} is unloaded; nothing new can choose it."]
    if is_in_use:
        lines.append("Connections still use it; the kernel frees it when the last of them ends.")
    console.answer({"unloaded": controller.NAME, "held": is_in_use}, *lines)


@part(kernel, "list")
@_explained()
def list_(*, json: Json = False) -> None:
    """List Paceline's controllers in the kernel."""
    _print_loaded()


@part(kernel)
@_explained()
def show(
    which: Annotated[int | None, Parameter(help="A process ID, or a local or remote port.")] = None,
    /,
    *,
    json: Json = False,
) -> None:
    """Show the state of the connections that use `paceline_bbr3`."""
    if which is None:
        hint = "paceline kernel show 5201"
        raise Failure("usage", "`kernel show` needs a process or a port", hint=hint)
    connections = controller.connections(which)
    entries = [{"pid": c.pid, "local": c.local, "remote": c.remote} | c.fields for c in connections]
    table = console.table("Process", "Local", "Remote", *_SHOWN.values(), left=4)
    for one in connections:
        cells = [
            str(one.fields[name]) if name == "phase" else quantity(name, one.fields[name])
            for name in _SHOWN
        ]
        table.add_row(str(one.pid), one.local, one.remote, *cells)
    none = f"No connection of process or port {which} uses {controller.NAME}."
    console.answer({"connections": entries}, table if connections else none)


@part(kernel)
@_explained()
def record(
    port: Annotated[
        int | None, Parameter(help="Record only connections with this local or remote port.")
    ] = None,
    /,
    *,
    duration: Annotated[
        str | None, Parameter(help='Duration, such as "10 s". Default: until Ctrl-C.')
    ] = None,
    out: Annotated[
        Path | None, Parameter(help="The folder to write. Default: runs/paceline_bbr3.")
    ] = None,
    memory: Memory = None,
    json: Json = False,
) -> None:
    """Record the connections that use `paceline_bbr3`; `paceline report` draws the record."""
    from paceline.kernel import recording

    if port is not None and not 0 < port < 1 << 16:
        hint = "paceline kernel record 5201"
        raise Failure("usage", f"{port} is not a port from 1 to 65535", hint=hint)
    with failing(ValueError, "usage", '--duration "10 s"', what="--duration"):
        length = None if duration is None else duration_ns(duration)
    if length == 0:
        raise Failure("usage", "--duration is more than 0", hint='--duration "10 s"')
    if out is not None:
        store.check(out)
    if length is None and not json:
        console.stderr().print("recording; Ctrl-C ends it and keeps the record")
    name = controller.NAME if out is None else out.name
    run = Run(recording.record(name, port, length))
    kept = keep_record(run, out, name)
    console.answer({"record": record_answer(run, kept)}, lambda: show_record(run, kept))
