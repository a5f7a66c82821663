"""What an ACK costs with BBRv3 by eBPF, in turn with Linux's own BBR, over a pair of veth devices.

    sudo python tests/peers/kernel_cost.py [--rounds 5] [--seconds 3] [--rate 10G] [--offload]

It needs root, `ip`, `unshare`, `taskset` and iperf3, and loads the controller by itself. Sender,
receiver and what the kernel does for them share one processor, so that the processes' own CPU time
has all of it, whatever else this machine does. Each packet is a segment, so that there is an ACK
for every two; `--offload` lets TSO make bursts, which leaves few ACKs. ACKs are those that reach
the sender's namespace. The programs' own time comes from the kernel's statistics of BPF, in rounds
of their own, since to count costs time; Linux's BBR is measured in the same way, called by a
struct_ops that does nothing else (`linux_bbr.bpf.c`, for which clang is needed).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from paceline.kernel import bpf, controller

PORT = "5401"
SENDER, RECEIVER = "198.18.0.1", "198.18.0.2"
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
#: Linux's BBR as a struct_ops.
LINUX = "linux_bbr"
#: The type of the programs of a controller.
_STRUCT_OPS = 27
#: Programs that run with every ACK, by the 15 letters that a kernel keeps.
PER_ACK = {
    controller.NAME: ("paceline_cong_c", "paceline_in_ack"),
    LINUX: ("linux_cong_cont",),
}


def run(*command: str, where: int | None = None) -> str:
    """Run a command, in the namespace of a process."""
    enter = [] if where is None else ["nsenter", "--net", "--target", str(where)]
    return subprocess.run([*enter, *command], check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def namespaces(*, offload: bool) -> Iterator[list[int]]:
    """Make a sender's and a receiver's host, each the namespace of a process that does nothing."""
    hosts = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in range(2)]
    try:
        for host in hosts:
            own = os.readlink("/proc/self/ns/net")
            while os.readlink(f"/proc/{host.pid}/ns/net") == own:
                pass
        sender, receiver = (host.pid for host in hosts)
        run(*f"ip link add v0 type veth peer name v1 netns {receiver}".split(), where=sender)
        for where, device, address in ((sender, "v0", SENDER), (receiver, "v1", RECEIVER)):
            run(*f"ip address add {address}/24 dev {device}".split(), where=where)
            run(*f"ip link set {device} up".split(), where=where)
        if not offload:
            run("ip", "link", "set", "v0", "gso_max_segs", "1", where=sender)
        yield [sender, receiver]
    finally:
        for host in hosts:
            host.kill()
            host.wait()


def acks(host: int) -> int:
    """Return how many segments a host has received."""
    lines = Path(f"/proc/{host}/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(values[names.index("InSegs")])


def transfer(hosts: list[int], cc: str, seconds: int, rate: str, cpu: int) -> dict[str, float]:
    """Send for some seconds, and return what it took."""
    sender, receiver = hosts
    pinned = ["taskset", "--cpu-list", str(cpu)]
    with tempfile.TemporaryFile("w+") as output:
        serve = ["iperf3", "--server", "--one-off", "--port", PORT]
        server = subprocess.Popen(
            ["nsenter", "--net", "--target", str(receiver), *pinned, *serve],
            stdout=subprocess.DEVNULL,
        )
        while (
            f":{int(PORT):04X} "
            not in Path(f"/proc/{receiver}/net/tcp").read_text()
            + Path(f"/proc/{receiver}/net/tcp6").read_text()
        ):
            pass
        before = acks(sender)
        send = ["iperf3", "--client", RECEIVER, "--port", PORT, "--congestion", cc, "--json"]
        send += ["--time", str(seconds), "--bitrate", rate]
        client = subprocess.Popen(
            ["nsenter", "--net", "--target", str(sender), *pinned, *send], stdout=output
        )
        used = 0.0
        for process in (client, server):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
            used += usage.ru_utime + usage.ru_stime
        output.seek(0)
        end = json.load(output)["end"]["sum_received"]
    count = acks(sender) - before
    return {
        "gbps": end["bits_per_second"] / 1e9,
        "cpu": used / end["seconds"],
        "acks": count,
        "ack_ns": used / count * 1e9,
        "packet_ns": used / (end["bytes"] / 1448) * 1e9,
    }


def programs() -> dict[str, tuple[int, int]]:
    """Return how long each of the controller's programs has run, and how often."""
    costs = {}
    for info, _ in bpf.programs():
        name = info.name.decode()
        if info.type == _STRUCT_OPS and name.startswith(("paceline_", "linux_")):
            with bpf.opened(bpf.library().bpf_prog_get_fd_by_id(info.id)) as fd:
                text = Path(f"/proc/self/fdinfo/{fd}").read_text()
            time, count = (
                int(re.findall(rf"{key}:\s*(\d+)", text)[0]) for key in ("run_time_ns", "run_cnt")
            )
            costs[name] = (time, count)
    return costs


def own_time(
    hosts: list[int], cc: str, seconds: int, rate: str, cpu: int
) -> dict[str, tuple[float, int]]:
    """Return the nanoseconds of each program, by the kernel's statistics, and how often it ran."""
    was = STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        before = programs()
        transfer(hosts, cc, seconds, rate, cpu)
        after = programs()
    finally:
        STATISTICS.write_text(was)
    spent = {name: (t - before[name][0], n - before[name][1]) for name, (t, n) in after.items()}
    return {name: (time / count, count) for name, (time, count) in spent.items() if count}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rate", default="0", help="of iperf3, such as 10G; default: all it can")
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--offload", action="store_true", help="let TSO make bursts")
    options = parser.parse_args()
    for tool in ("ip", "unshare", "nsenter", "taskset", "iperf3"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not installed")
    # However it ends, the controller goes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    controller.load({})
    try:
        with linux_bbr(), namespaces(offload=options.offload) as hosts:
            measure(hosts, options)
    finally:
        controller.unload()


@contextlib.contextmanager
def linux_bbr() -> Iterator[None]:
    """Register Linux's BBR as a struct_ops."""
    source = Path(__file__).parent / "linux_bbr.bpf.c"
    headers = Path(__file__).parents[2] / "linux" / "kernel"
    build = ["clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", f"-I{headers}", "-c", str(source)]
    built = subprocess.run([*build, "-o", "-"], check=True, capture_output=True).stdout
    bpf.Object(built, LINUX).register(LINUX)
    try:
        yield
    finally:
        for map_ in bpf.maps():
            if map_.type == bpf.MAP_STRUCT_OPS and map_.name.decode() == LINUX:
                bpf.unregister(map_.id)


def measure(hosts: list[int], options: argparse.Namespace) -> None:
    """Measure both controllers in turn."""
    results: dict[str, list[dict[str, float]]] = {"bbr": [], controller.NAME: []}
    own: dict[str, list[tuple[float, int]]] = {}
    rest = (options.seconds, options.rate, options.cpu)
    for _ in range(options.rounds):
        for cc, measured in results.items():
            measured.append(transfer(hosts, cc, *rest))
        for cc in PER_ACK:
            for name, spent in own_time(hosts, cc, *rest).items():
                own.setdefault(name, []).append(spent)
    write = sys.stdout.write
    write("controller     Gbit/s   CPU  ACKs     CPU an ACK  CPU a packet (medians)\n")
    for cc, measured in results.items():
        middle = {key: statistics.median(one[key] for one in measured) for key in measured[0]}
        write(
            f"{cc:13} {middle['gbps']:7.2f} {middle['cpu']:5.2f} {middle['acks']:7.0f} "
            f"{middle['ack_ns']:9.0f} ns {middle['packet_ns']:9.0f} ns\n"
        )
    write("program          each   least   runs (median, least of rounds)\n")
    for name, rows in own.items():
        times = [time for time, _ in rows]
        runs = sum(count for _, count in rows)
        write(f"{name:15} {statistics.median(times):5.0f} ns {min(times):5.0f} ns {runs:8}\n")
    for cc, names in PER_ACK.items():
        all_ = [sum(own[name][n][0] for name in names) for n in range(options.rounds)]
        write(f"an ACK, {cc:13} {statistics.median(all_):5.0f} ns {min(all_):5.0f} ns\n")


if __name__ == "__main__":
    main()
