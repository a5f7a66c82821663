"""``paceline vm``: kernels for runs in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from paceline import _paceline, store
from paceline.cli import console, files
from paceline.cli.app import FILE, Hushed, Json, Quiet, examples, part, parted
from paceline.cli.failure import Exit, Failure, failing
from paceline.errors import RunError
from paceline.kernel import stock
from paceline.quantities import quantity
from paceline.reading import json_value
from paceline.runs import named_scenario


@parted(
    help_epilogue=examples(
        "vm prepare",
        "vm prepare --kernel linux/arch/x86/boot/bzImage --modules out/lib/modules/6.12.0",
        "vm list --json",
        "vm remove 9a19b151",
        "vm trace scenarios/first-flow.toml --out trace.txt",
    )
)
def vm() -> None:
    """Prepare kernels for `run --backend vm`, list them, remove one, or trace a controller in one.

    You can use an unmodified kernel of your distribution, or one that you built. `vm prepare` boots
    it and saves a snapshot, from which each run starts. Nothing is downloaded.
    """


@contextmanager
def _explained() -> Iterator[None]:
    """Explain what the machine lacks, and why a run failed."""
    with files.running("vm"), failing(RunError, "vm-failed", code=Exit.RUN_FAILED):
        yield


def images() -> list[dict[str, Any]]:
    """Return the snapshots; the one that runs use comes first."""
    available: list[dict[str, Any]] = json_value(_paceline.vm_images())
    return available


def _print(value: dict[str, Any], available: list[dict[str, Any]]) -> None:
    table = console.table("Snapshot", "Kernel", "Size", "QEMU", left=4)
    for image in available:
        size = quantity("_bytes", image["size_bytes"])
        table.add_row(image["hash"][:12], image["kernel"], size, image["qemu"])
    none = "There are no snapshots; `paceline vm prepare` creates one."
    console.answer(value, table if available else none)


@part(vm)
@_explained()
def prepare(
    *,
    kernel: Annotated[
        Path | None,
        Parameter(help="A bzImage of Linux. Default: the newest readable bzImage in /boot."),
    ] = None,
    modules: Annotated[
        Path | None,
        Parameter(
            help="Folder of the kernel's modules. Default: next to the kernel, or /lib/modules."
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Boot a kernel once, and save a snapshot of the machine, from which every run starts.

    The kernel boots in QEMU, together with Paceline's own program. If you prepare a kernel that
    already has a snapshot, runs use that snapshot from then on.
    """
    err = console.stderr()
    last = ""

    def step(what: str) -> None:
        nonlocal last
        if what != last and not (quiet or json):
            err.print(f"{what} ...")
        last = what

    if kernel is not None and kernel.exists() and not kernel.is_file():
        hint = "a kernel is a bzImage, such as /boot/vmlinuz"
        raise Failure("unreadable", f"{kernel} is not a regular file", hint=hint, file=str(kernel))
    image: dict[str, Any] = json_value(_paceline.vm_prepare(kernel, modules, step))
    _print(image, [image])


@part(vm, "list")
@_explained()
def list_(*, json: Json = False, _quiet: Hushed = False) -> None:
    """List the snapshots. Runs use the first one in the list."""
    known = images()
    _print({"snapshots": known}, known)


@part(vm)
@_explained()
def remove(
    name: Annotated[str | None, Parameter(help="The snapshot's hash, or a prefix of it.")] = None,
    /,
    *,
    json: Json = False,
    _quiet: Hushed = False,
) -> None:
    """Remove a snapshot."""
    known = images()
    fitting = [image for image in known if name and image["hash"].startswith(name)]
    if len(fitting) != 1:
        what = "name the snapshot to remove" if not name else f"{len(fitting)} snapshots are {name}"
        names = ", ".join(f"{image['hash'][:12]} ({image['kernel']})" for image in known)
        raise Failure("usage", what, hint=f"there are {names}" if names else "there are none")
    _paceline.vm_remove(fitting[0]["hash"])
    _print(fitting[0], fitting)


@part(vm)
@_explained()
def trace(
    scenario: Annotated[str | None, Parameter(help="A scenario file.")] = None,
    /,
    *,
    out: Annotated[
        Path | None, FILE, Parameter(help="The file to write, which must not exist yet.")
    ] = None,
    seed: Annotated[
        int | None, Parameter(help="Seed of the run. Default: the scenario's seed.")
    ] = None,
    json: Json = False,
    _quiet: Hushed = False,
) -> None:
    """Run a scenario, and write the inputs and decisions of the first flow's kernel controller.

    The controller is reno, cubic, bbr or dctcp. The file is a golden trace: it contains every
    event, and `paceline conformance --traces` can replay it.
    """
    if scenario is None or out is None:
        what = "`vm trace` needs a scenario and --out FILE"
        raise Failure("usage", what, hint="paceline vm trace SCENARIO --out trace.txt")
    store.check(out, force=None)
    text, path = named_scenario(scenario)
    kernel, controller, receiver, calls = _paceline.vm_trace(text, path, seed)
    store.write(out, stock.trace(controller, receiver, calls))
    value = {"file": str(out), "kernel": kernel, "controller": controller}
    console.answer(value, f"{out}: {controller} of Linux {kernel}")
