"""BBRv3 by eBPF for half an hour: 200 short and 20 long flows at a time, and nothing that grows.

    sudo nice python tests/peers/kernel_soak.py [--minutes 30] [--rate 20mbit]

It needs root, and `ip` and `tc` of iproute2. The flows cross a token bucket on a loopback of their
own, so that packets queue and are lost. Each minute it prints how many connections there were, the
BPF maps and programs of this kernel, and the memory that the kernel has and no list accounts for: a
connection takes 33 kB of it, so that thousands which leak are seen. It exits with 1 if something
has grown, if the kernel has warned, or if something is left when the controller is unloaded.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import errno
import selectors
import signal
import socket
import subprocess
import sys
import time

from paceline.kernel import bpf, controller

LONG, SHORT = 20, 200
#: What a short flow carries, in bytes.
LENGTH = 20_000
#: More memory than this is a leak: what 5 000 connections take.
MOST_GROWTH = 5_000 * 33_000
#: Parts of /proc/meminfo that account for memory, in kB.
ACCOUNTED = (
    *("MemFree", "Buffers", "Cached", "SwapCached", "AnonPages", "Slab"),
    *("PageTables", "SecPageTables", "KernelStack", "Percpu"),
)
CLONE_NEWNET = 0x40000000


def unaccounted() -> int:
    """Return the bytes that the kernel uses and says nothing more of."""
    with open("/proc/meminfo") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in file}
    return 1024 * (sizes["MemTotal"] - sum(sizes.get(name, 0) for name in ACCOUNTED))


def warnings() -> list[str]:
    """Return what the kernel has warned of."""
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout
    return [line for line in log.splitlines() if "WARNING:" in line or "BUG:" in line]


class Flows:
    """Connections that send, each with a receiver that drops what comes."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.server = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.server.setblocking(False)
        self.selector.register(self.server, selectors.EVENT_READ, None)
        #: What each sender has to send yet; none: it never ends.
        self.left: dict[socket.socket, int | None] = {}
        self.count = 0
        #: Connections that the crowd broke.
        self.broken: collections.Counter[str] = collections.Counter()

    def start(self, length: int | None) -> None:
        """Start a flow."""
        sender = socket.socket()
        sender.setblocking(False)
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller.NAME.encode())
        with contextlib.suppress(BlockingIOError):
            sender.connect(self.server.getsockname())
        self.left[sender] = length
        self.count += 1
        self.selector.register(sender, selectors.EVENT_WRITE, None)

    def step(self) -> None:
        """Send and receive what there is."""
        for key, events in self.selector.select(0.05):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            if one is self.server:
                with contextlib.suppress(BlockingIOError):
                    receiver, _ = one.accept()
                    receiver.setblocking(False)
                    self.selector.register(receiver, selectors.EVENT_READ, None)
                continue
            try:
                if events & selectors.EVENT_WRITE:
                    self.send(one)
                elif not one.recv(1 << 16):
                    # A receiver has all, or a sender's receiver has closed.
                    self.left.pop(one, None)
                    self.end(one)
            except OSError as error:
                self.broken[errno.errorcode.get(error.errno or 0, "?")] += 1
                if self.left.pop(one, 0) is None:
                    self.start(None)
                self.end(one)

    def send(self, sender: socket.socket) -> None:
        """Send what a flow has, and then wait until its receiver has it."""
        left = self.left[sender]
        with contextlib.suppress(BlockingIOError):
            sent = sender.send(bytes(16_384 if left is None else min(left, 16_384)))
            if left is not None:
                self.left[sender] = left - sent
        if self.left[sender] == 0:
            sender.shutdown(socket.SHUT_WR)
            self.selector.modify(sender, selectors.EVENT_READ, None)

    def end(self, one: socket.socket) -> None:
        """Close an end."""
        self.selector.unregister(one)
        one.close()


def soak(minutes: float, rate: str) -> bool:
    """Run the flows; whether nothing grew."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    limit = f"tc qdisc add dev lo root tbf rate {rate} burst 20kb limit 1mb"
    for command in ("ip link set lo up mtu 1500", limit):
        subprocess.run(command.split(), check=True)
    flows = Flows()
    for _ in range(LONG):
        flows.start(None)
    begin = time.monotonic()
    first: tuple[int, int, int] | None = None
    good, minute = True, 0
    while (passed := time.monotonic() - begin) < 60 * minutes:
        while len(flows.left) < LONG + SHORT:
            flows.start(LENGTH)
        flows.step()
        if passed >= 60 * minute:
            minute += 1
            now = (sum(1 for _ in bpf.maps()), sum(1 for _ in bpf.programs()), unaccounted())
            # The first minute fills what stays.
            first = now if first is None or minute == 2 else first
            grown = now[2] - first[2]
            good &= now[:2] == first[:2] and grown < MOST_GROWTH
            sys.stdout.write(
                f"{minute - 1:3} min: {flows.count} connections, {now[0]} maps, {now[1]} programs, "
                f"unaccounted {now[2] / 1e6:.0f} MB ({grown / 1e6:+.0f}), "
                f"broken {dict(flows.broken)}\n"
            )
            sys.stdout.flush()
    # Receivers, too: a sender whose data nobody takes stays.
    for key in [*flows.selector.get_map().values()]:
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
    return good


def main() -> int:
    """Load, soak, unload, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", default="20mbit")
    options = parser.parse_args()
    before, warned = sorted(map_.id for map_ in bpf.maps()), warnings()
    # However it ends, the controller goes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    controller.load({})
    try:
        good = soak(options.minutes, options.rate)
    finally:
        is_in_use = controller.unload()
    until = time.monotonic() + 60
    while (after := sorted(map_.id for map_ in bpf.maps())) != before and time.monotonic() < until:
        time.sleep(0.5)
    new = warnings()[len(warned) :]
    left = len(set(after) - set(before))
    sys.stdout.write(f"left: {left} maps (held at the end: {is_in_use}); warnings: {new}\n")
    return 0 if good and after == before and not new else 1


if __name__ == "__main__":
    sys.exit(main())
