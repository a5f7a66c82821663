#!/usr/bin/env python3
"""Records what the queues of a Linux kernel do with given packets, in a virtual machine.

    record.py --image linux-image.deb --out ../tests/kernel [case ...]

The image is Debian's package of a kernel that has the queues as modules; the machine is QEMU's,
which counts instructions instead of time (-icount), so that the speed of the host does not matter.
Two recordings differ by microseconds all the same, and so by a few packets.
Needs qemu-system-x86_64, busybox (static), tc with its libraries, a C compiler, dpkg-deb, xz, zstd.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent

# 1514 bytes each millisecond: 1500 behind an Ethernet header, which the queues count.
SHAPER = "rate 12112kbit burst 1600 limit 20mb"

Line = tuple[int, ...]
"""When in us, bytes, flow, ECN field; of TCP also flags (256 for an option that nobody knows), the
acknowledgment number, the timestamp and its echo, and the SACK blocks."""


def stream(
    rng: random.Random,
    begin: int,
    end: int,
    load: float,
    flow: int = 1,
    ecn: int = 0,
    sizes: tuple[int, ...] = (1514,),
) -> list[Line]:
    """Packets from `begin` to `end` ms that offer `load` times the rate, unevenly spaced."""
    lines: list[Line] = []
    at = begin * 1000.0
    while at < end * 1000:
        size = rng.choice(sizes)
        lines.append((int(at), size, flow, ecn))
        at += size / 1514 * 1000 / load * rng.uniform(0.3, 1.7)
    return lines


def codel(ecn: bool) -> list[Line]:
    """Overload until the drops are as many, a lull, a soon return, a rest, a late return."""
    rng = random.Random(8289)
    lines: list[Line] = []
    fields = ((0, 0.5), (2, 0.3), (1, 0.27)) if ecn else ((0, 1.07),)
    for begin, end in ((0, 1300), (1360, 2000), (2100, 2500), (4700, 5200)):
        for flow, (field_, load) in enumerate(fields):
            sizes = (1514, 1514, 1514, 590)
            lines += stream(rng, begin, end, load, flow, field_, sizes)
    return lines


def fq_codel() -> list[Line]:
    """Two greedy flows, one of them of small packets, one of ECN, a sparse one."""
    rng = random.Random(8290)
    lines = stream(rng, 0, 1800, 0.5, 1)
    lines += stream(rng, 100, 1800, 0.4, 2, 0, (90, 590, 1514))
    lines += stream(rng, 200, 1800, 0.4, 3, 2)
    lines += stream(rng, 300, 2900, 0.01, 4, 0, (90,))
    lines += stream(rng, 2000, 2900, 1.15, 1)
    return lines


def fq_codel_full() -> list[Line]:
    """More than the queue may hold, in bursts."""
    rng = random.Random(64)
    lines: list[Line] = []
    for begin in range(0, 600, 150):
        lines += stream(rng, begin, begin + 60, 1.5, 1)
        lines += stream(rng, begin, begin + 60, 2.5, 2)
        lines += stream(rng, begin, begin + 60, 0.2, 3)
    return lines


def pie(ecn: bool) -> list[Line]:
    """Overload that the controller finds the probability for, other loads, and rests.

    Marks ease nothing, and above 10 % there are none: with ECN the loads are smaller.
    """
    rng = random.Random(8033)
    lines: list[Line] = []
    if ecn:
        for begin, end, load in ((0, 4500, 1.025), (5000, 6000, 1.04)):
            lines += stream(rng, begin, end, load / 2, 1, 0)
            lines += stream(rng, begin, end, load / 2, 2, 2)
        return lines
    for begin, end, load in (
        (0, 1500, 1.1),
        (1500, 2500, 1.3),
        (2500, 3500, 1.05),
        (4200, 5000, 1.2),
    ):
        lines += stream(rng, begin, end, load)
    return lines


def red() -> list[Line]:
    """Around the thresholds and beyond the upper one, half of it ECN-capable."""
    rng = random.Random(1993)
    lines: list[Line] = []
    for begin, end, load in (
        (0, 2500, 1.03),
        (2500, 3200, 0.9),
        (3700, 6500, 1.04),
        (6500, 6700, 1.6),
    ):
        lines += stream(rng, begin, end, load / 2, 1, 0)
        lines += stream(rng, begin, end, load / 2, 2, 2)
    return lines


def acks(share: float) -> list[Line]:
    """Three connections whose ACKs overload the link, with everything that a filter looks at."""
    rng = random.Random(3449)
    lines: list[Line] = []
    syn, fin, psh, ack, ece, cwr, other = 2, 1, 8, 16, 64, 128, 256
    for flow in range(3):
        at, number, stamp, marks, blocks = 0.0, 100_000, 100, 0, []
        while at < 1_500_000:
            # Bursts of up to 20, then a rest.
            for _ in range(rng.randint(1, 20)):
                at += rng.uniform(100, 2500)
                if rng.random() < 0.7:
                    number += rng.randint(0, 2) * 1448
                if rng.random() < share:
                    marks = rng.choice((0, 0, ece, ece, cwr))
                start = number + rng.randint(1, 6) * 1448
                match rng.randint(0, 9):
                    case 0 | 1:
                        blocks = [(start, start + 1448), *blocks][:3]
                    case 2 if blocks:
                        blocks[0] = (blocks[0][0], blocks[0][1] + 1448)
                    case 3 | 4 | 5:
                        blocks = []
                sacks = [(low, high) for low, high in blocks if low > number]
                if rng.random() < share:
                    sacks = [(number - 1448, number), *sacks][:3]
                flags = ack | marks
                if rng.random() < share:
                    flags = rng.choice((syn, fin | ack, psh | ack, ack | other, syn | ack))
                stamp += rng.randint(0, 3)
                value = stamp - (10 if rng.random() < share / 2 else 0)
                echo = value - 50 + (20 if rng.random() < share / 2 else 0)
                words = [word for block in sacks for word in block]
                option = 4 if flags & other else 0
                size = 14 + 20 + 20 + 12 + (4 + 4 * len(words) if words else 0) + option
                if rng.random() < share:
                    size += 100
                lines.append((int(at), size, flow, 0, flags, number, value, echo, *words))
            at += rng.uniform(0, 12_000)
    return lines


@dataclass
class Case:
    """A queue as `tc` is told of it, what comes, and the functions that are watched."""

    qdisc: str
    schedule: list[Line]
    enqueue: str
    dequeue: str
    more: list[str] = field(default_factory=list)
    refused: tuple[str, ...] = ("1",)
    """What the enqueue function returns for a packet that it dropped."""
    shaper: str = SHAPER

    def probes(self) -> str:
        """Return the probes in the kernel's notation."""
        lines = [
            f"p:enq {self.enqueue} id=skb->mark",
            f"r:enqret {self.enqueue} ret=$retval:s32",
            f"r:deq {self.dequeue} skb=$retval:x64 id=$retval->mark tos=+15($retval->data):u8",
            *self.more,
        ]
        return "".join(line + "\n" for line in lines)


CODEL = ("codel_qdisc_enqueue", "__codel_qdisc_dequeue")
FQ_CODEL = ("fq_codel_enqueue", "__fq_codel_dequeue")
PIE = ("pie_qdisc_enqueue", "pie_qdisc_dequeue")
RED = ("red_enqueue", "red_dequeue")
# After a 4 ms jiffy's rounding 15 ms would be 16.
PIE_OPTIONS = "pie limit 1000 target 15ms tupdate 16ms alpha 2 beta 20"
PIE_PROBE = (
    "p:upd pie_calculate_probability prob=vars->prob qdelay=vars->qdelay accu=vars->accu_prob"
)
CAKE = ("cake_enqueue", "cake_dequeue")
# With its AQM out of the way. An ACK of 66 bytes takes a millisecond.
CAKE_OPTIONS = "cake unlimited besteffort rtt 100s"
CAKE_SHAPER = "rate 528kbit burst 1600 limit 20mb"
CASES = {
    "cake": Case(f"{CAKE_OPTIONS} flows ack-filter", acks(0.05), *CAKE, shaper=CAKE_SHAPER),
    # All connections in one queue.
    "cake-blind": Case(
        f"{CAKE_OPTIONS} flowblind ack-filter-aggressive", acks(0.02), *CAKE, shaper=CAKE_SHAPER
    ),
    "codel": Case("codel limit 1000 target 5ms interval 100ms noecn", codel(False), *CODEL),
    "codel-ecn": Case("codel limit 1000 target 5ms interval 100ms ecn", codel(True), *CODEL),
    "fq-codel": Case(
        "fq_codel limit 1000 flows 1024 quantum 1514 target 5ms interval 100ms ecn",
        fq_codel(),
        *FQ_CODEL,
    ),
    "fq-codel-full": Case(
        # With CoDel out of the way.
        "fq_codel limit 60 flows 1024 quantum 1514 target 1s interval 10s noecn",
        fq_codel_full(),
        *FQ_CODEL,
    ),
    "pie": Case(f"{PIE_OPTIONS} noecn", pie(False), *PIE, [PIE_PROBE]),
    "pie-ecn": Case(f"{PIE_OPTIONS} ecn", pie(True), *PIE, [PIE_PROBE]),
    "red": Case(
        "red limit 400000 min 30280 max 90840 avpkt 1514 burst 34 probability 0.1 "
        "bandwidth 12112kbit ecn harddrop",
        red(),
        *RED,
        refused=("1", "2"),
    ),
}

MODULES = ("veth", "sch_tbf", "sch_codel", "sch_pie", "sch_red", "sch_cake")


def run(*command: str | Path) -> bytes:
    """Return what a command prints; it must succeed."""
    return subprocess.run(
        [str(part) for part in command], check=True, stdout=subprocess.PIPE
    ).stdout


def install(root: Path, program: str) -> None:
    """Copy a program and the libraries that it is linked with."""
    source = shutil.which(program)
    if source is None:
        sys.exit(f"{program} is not installed")
    target = root / "iproute" / program
    shutil.copy(source, target)
    libraries = re.findall(r"(/\S+) \(0x", run("ldd", source).decode())
    for library in libraries:
        copy = root / library.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, copy)


def initramfs(work: Path, image: Path, cases: dict[str, Case]) -> Path:
    """Pack the guest: programs, modules, and a folder for each queue."""
    root = work / "root"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "iproute", "proc", "sys", "dev", "modules", "cases"):
        (root / name).mkdir(parents=True)
    busybox = shutil.which("busybox") or sys.exit("busybox is not installed")
    shutil.copy(busybox, root / "bin/busybox")
    for program in ("tc", "ip"):
        install(root, program)
    run("cc", "-O2", "-Wall", "-static", "-o", root / "bin/send", HERE / "send.c")
    for module in MODULES:
        (path,) = image.glob(f"lib/modules/*/kernel/**/{module}.ko.xz")
        (root / "modules" / f"{module}.ko").write_bytes(run("xz", "-dc", path))
    (root / "modules/order").write_text("".join(f"{module}.ko\n" for module in MODULES))
    for name, case in cases.items():
        folder = root / "cases" / name
        folder.mkdir()
        (folder / "qdisc").write_text(case.qdisc + "\n")
        (folder / "shaper").write_text(case.shaper + "\n")
        (folder / "probes").write_text(case.probes())
        lines = [" ".join(map(str, line)) + "\n" for line in sorted(case.schedule)]
        (folder / "schedule").write_text("".join(lines))
    shutil.copy(HERE / "init", root / "init")
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = work / "initramfs"
    packed = subprocess.run(
        [root / "bin/busybox", "cpio", "-o", "-H", "newc"],
        input=names.encode(),
        cwd=root,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    archive.write_bytes(packed.stdout)
    return archive


def boot(image: Path, archive: Path) -> str:
    """Return everything that the guest writes to its console."""
    (kernel,) = image.glob("boot/vmlinuz-*")
    command = [
        *("qemu-system-x86_64", "-accel", "tcg", "-icount", "shift=0,sleep=off"),
        *("-cpu", "qemu64", "-smp", "1", "-m", "512", "-nodefaults", "-display", "none"),
        *("-no-reboot", "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(archive)),
        *("-append", "console=ttyS0 quiet ipv6.disable=1 nokaslr panic=-1 mitigations=off"),
    ]
    return run(*command).decode(errors="replace").replace("\r", "")


EVENT = re.compile(r"\s(\d+)\.(\d{6}): (enq|enqret|deq|upd): \(.*?\)(.*)")


def trace(log: str, name: str, case: Case, kernel: str) -> str:
    """Return what was seen of one queue, a line an event, each with the time since the last in us.

    `+ dt [bytes flow ecn ...]` comes, with the words of its line of the schedule, like the one
    before it if no more is said, and `x` follows if it was refused. `- dt [number[*]]` goes: the one after the last if no number is said, marked if
    there is a star; number 0 is an empty queue. `p dt probability delay accumulated` is PIE about
    to work out its probability, in its own units.
    """
    found = re.search(
        rf"^begin {name}\n(.*?)^end sent (\d+)\n(.*?)(?=^begin |^all done)", log, re.S | re.M
    )
    if found is None:
        sys.exit(f"the log has no whole {name}:\n{log[-2000:]}")
    events, sent, summary = found.groups()
    schedule = sorted(case.schedule)
    if int(sent) != len(schedule):
        sys.exit(f"{name}: sent {sent} of {len(schedule)}")
    dropped = re.search(
        r"^qdisc \S+ 10:.*?^ Sent \d+ bytes (\d+) pkt \(dropped (\d+)", summary, re.S | re.M
    )
    if dropped is None:
        sys.exit(f"{name}: no summary in {summary}")
    out = [
        f"# Linux {kernel}; tbf {case.shaper}; {case.qdisc}",
        f"# sent {sent}, passed {dropped[1]}, dropped {dropped[2]}",
    ]
    last: int | None = None
    packet: Line = ()
    gone = 0
    empty = False
    for line in events.splitlines():
        event = EVENT.search(line)
        if event is None or (last is None and event[3] != "enq"):
            continue
        at = int(event[1]) * 1_000_000 + int(event[2])
        values = dict(re.findall(r"(\w+)=(\S+)", event[4]))
        # What a null pointer is said to point at depends on what is mapped there.
        number = 0 if values.get("skb") == "0x0" else int(values.get("id", 0))
        if event[3] == "enqret" and values["ret"] not in case.refused:
            continue
        # Nothing is found twice in what has become empty: no more is to be learnt from that.
        if event[3] == "deq" and empty and not number:
            continue
        since = 0 if last is None else at - last
        last = at
        if event[3] == "enq":
            before, packet = packet, schedule[number - 1]
            same = packet[1:] == before[1:]
            kind = "" if same else "".join(f" {word}" for word in packet[1:])
            out.append(f"+ {since}{kind}")
            empty = False
        elif event[3] == "enqret":
            out.append("x")
            last -= since
        elif event[3] == "deq" and not number:
            out.append(f"- {since} 0")
            empty = True
        elif event[3] == "deq":
            marked = int(values["tos"]) & 3 == 3 and schedule[number - 1][3] != 3
            label = f" {number}{'*' if marked else ''}" if marked or number != gone + 1 else ""
            out.append(f"- {since}{label}")
            gone = number
        else:
            out.append(f"p {since} {values['prob']} {values['qdelay']} {values['accu']}")
    return "".join(line + "\n" for line in out)


def main() -> None:
    """Boot once, and write a trace for each queue."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--image", type=Path, required=True, help="Debian's linux-image package")
    parser.add_argument("--out", type=Path, required=True, help="where the traces go")
    parser.add_argument("--work", type=Path, default=Path("build"), help="a scratch folder")
    parser.add_argument("case", nargs="*", choices=[[], *CASES], help="which; all unless named")
    options = parser.parse_args()
    cases = {name: CASES[name] for name in options.case or CASES}
    options.work.mkdir(parents=True, exist_ok=True)
    image = options.work / "image"
    if not image.exists():
        run("dpkg-deb", "-x", options.image, image)
    log = boot(image, initramfs(options.work, image, cases))
    (options.work / "console.log").write_text(log)
    version = re.search(r"^kernel (\S+)$", log, re.M)
    if version is None:
        sys.exit(f"the guest did not get far:\n{log[-2000:]}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name, case in cases.items():
        out = options.out / f"{name}.txt.zst"
        text = trace(log, name, case, version[1])
        subprocess.run(["zstd", "-q", "-19", "-f", "-o", out], input=text, text=True, check=True)


if __name__ == "__main__":
    main()
