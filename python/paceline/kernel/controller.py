"""The controller in the kernel: load it, unload it, and watch it.

The kernel holds all of its state. A process that is killed at any point of loading leaves either a
registered controller or nothing: until the registration everything hangs on its file descriptors.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import re
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from paceline import names
from paceline.errors import RunError, UnavailableError
from paceline.kernel import bpf
from paceline.kernel.btf import Types

#: The name that programs choose.
NAME = "paceline_bbr3"
_OBJECT = f"{NAME}.o"
_REGISTERED = f"{NAME} is registered already; `paceline kernel unload` takes it out"
#: The program that every ACK runs, by the 15 letters that a kernel keeps.
_MAIN = b"paceline_cong_control"[:15]
#: How long the kernel may take to free programs that no connection holds, in seconds.
_FREED_S = 3.0
#: pidfd_getfd(2), the same number on every architecture.
_PIDFD_GETFD = 438
_UNSET = 0xFFFFFFFF
_STATES = ("Startup", "Drain", "ProbeBW", "ProbeRTT")
_PHASES = ("UP", "DOWN", "CRUISE", "REFILL")
#: The capabilities needed to load; CAP_SYS_ADMIN, to find programs that others loaded.
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38, "CAP_BPF": 39}


def lacking() -> list[tuple[str, str]]:
    """Return what this machine or process lacks, each with how to fix it."""
    if sys.platform != "linux":
        return [("this is not Linux", "use Linux 6.10 or later")]
    problems: list[tuple[str, str]] = []
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release is None or (int(release[1]), int(release[2])) < (6, 10):
        problems.append((f"Linux {os.uname().release} is older than 6.10", "use a newer kernel"))
    if not Path("/sys/kernel/btf/vmlinux").exists():
        hint = "use a kernel built with CONFIG_DEBUG_INFO_BTF, as those of distributions are"
        problems.append(("the kernel has no type information (/sys/kernel/btf/vmlinux)", hint))
    with suppress(OSError):
        if Path("/proc/sys/net/core/bpf_jit_enable").read_text().strip() == "0":
            hint = "sysctl net.core.bpf_jit_enable=1"
            problems.append(("the kernel's BPF compiler is off", hint))
    try:
        bpf.library()
    except UnavailableError as error:
        problems.append((str(error), error.hint or ""))
    missing = [name for name, bit in _CAPABILITIES.items() if not _effective() >> bit & 1]
    if missing:
        what = f"this process lacks {', '.join(missing)}"
        problems.append((what, "run it as root: sudo paceline kernel ..."))
    return problems


def _effective() -> int:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(line.split()[1], 16)


def require() -> None:
    """Raise an error if this machine cannot load it."""
    for what, hint in lacking():
        raise UnavailableError([what, hint])


def available() -> list[str]:
    """Return the congestion controls of the kernel."""
    try:
        return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    except OSError:  # it has no TCP, or is not Linux
        return []


@dataclass(frozen=True)
class Option:
    """An option of the controller, in the kernel's units."""

    name: str
    kind: str
    place: int
    default: int
    least: int
    most: int

    def parse(self, text: str) -> int:
        """Return a value in the kernel's units."""
        scale = 256 if self.kind == "gain" else 1
        words = {"false": "0", "true": "1"} if self.kind == "flag" else {}
        try:
            value = int(float(words.get(text, text)) * scale)
        except (ValueError, OverflowError):
            raise ValueError(f"{self.name} is {self._range()}, not {text!r}") from None
        if not self.least <= value <= self.most:
            raise ValueError(f"{self.name} is {self._range()}, not {text}")
        return value

    def show(self, value: int) -> str:
        """Return a value in the form that `parse` accepts."""
        if self.kind == "flag":
            return "true" if value else "false"
        return f"{value / 256:g}" if self.kind == "gain" else str(value)

    def _range(self) -> str:
        unit = {"us": " microseconds", "ms": " milliseconds"}.get(self.kind, "")
        return f"from {self.show(self.least)} to {self.show(self.most)}{unit}"


def _options(types: Types, constants: bytes) -> list[Option]:
    """Return the options of an object, or those with which one in the kernel runs."""
    place, kind = types.variable(".rodata", "options")
    low, high = (types.variable(".rodata", f"options_{end}")[0] for end in ("least", "most"))

    def number(at: int) -> int:
        return int.from_bytes(constants[at : at + 4], "little")

    return [
        Option(
            name,
            types.name(type_).removeprefix("option_"),
            *(place + at, number(place + at), number(low + at), number(high + at)),
        )
        for name, at, type_ in types.members(kind)
    ]


def load(settings: Mapping[str, str]) -> None:
    """Load the controller, with options other than its defaults."""
    require()
    data = (resources.files("paceline.kernel") / _OBJECT).read_bytes()
    if NAME in available():
        raise RunError(_REGISTERED)
    loading = bpf.Object(data, "paceline")
    try:
        constants = loading.constants()
        options = {option.name: option for option in _options(loading.types(), constants.raw)}
        for name, text in settings.items():
            if name not in options:
                near = names.nearest(name, options)
                mean = f"; did you mean {near}?" if near else ""
                raise ValueError(f"there is no option {name!r}{mean}")
            place, value = options[name].place, options[name].parse(text)
            ctypes.memmove(ctypes.addressof(constants) + place, value.to_bytes(4, "little"), 4)
        try:
            loading.register(NAME)
        except bpf.RefusedError as error:
            # Another call was faster.
            if error.errno == errno.EEXIST:
                raise RunError(_REGISTERED) from None
            raise
    finally:
        loading.close()


@dataclass(frozen=True)
class Loaded:
    """A controller in the kernel."""

    #: Whether it can be chosen; otherwise it was unloaded and connections still use it.
    registered: bool
    uid: int
    since_s: float
    maps: dict[str, int]
    types: Types
    options: list[Option]

    @property
    def user(self) -> str:
        """Return the name of the user who loaded it."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)


def loaded() -> list[Loaded]:
    """Return the controllers in the kernel, the newest first."""
    require()
    ages = [(info, maps) for info, maps in bpf.programs() if info.name == _MAIN]
    offset = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    controllers: list[Loaded] = []
    for info, maps in sorted(ages, key=lambda age: -age[0].load_time_ns):
        infos = [bpf.map_info(number) for number in maps]
        named = {map_.name.decode().rpartition(".")[2]: map_ for map_ in infos}
        types = bpf.types_of(named["flows"])
        with bpf.opened(bpf.open_map(named["rodata"].id)) as fd:
            constants = bpf.lookup(fd, 0, named["rodata"].value_size) or b""
        controllers.append(
            Loaded(
                registered=not controllers and NAME in available(),
                uid=info.uid,
                since_s=offset + info.load_time_ns / 1e9,
                maps={name: map_.id for name, map_ in named.items()},
                types=types,
                options=_options(types, constants),
            )
        )
    return controllers


def unload() -> bool:
    """Unload the controller. Return whether connections still hold it."""
    require()
    if NAME not in available():
        raise RunError(f"{NAME} is not registered")
    ours = [m.id for m in bpf.maps() if m.type == bpf.MAP_STRUCT_OPS and m.name.decode() == NAME]
    if not ours:
        raise RunError(f"{NAME} is registered, but not by eBPF: remove it with `rmmod`")
    parts = {number for one in loaded() for number in one.maps.values()} | set(ours)
    for number in ours:
        with suppress(OSError):  # an older one is already unloaded, and in use by connections
            bpf.unregister(number)
    if NAME in available():
        raise RunError(f"the kernel did not unregister {NAME}")
    # The kernel frees the programs and their maps once no processor is executing them.
    until = time.monotonic() + _FREED_S
    while is_in_use := not parts.isdisjoint(m.id for m in bpf.maps()):
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    return is_in_use


@dataclass(frozen=True)
class Connection:
    """A live connection that runs the controller."""

    pid: int
    local: str
    remote: str
    #: The fields of a sample, by the names of a record.
    fields: dict[str, Any]


def connections(which: int) -> list[Connection]:
    """Return the connections of a process, or of a local or remote port."""
    running = loaded()
    if not running:
        raise RunError(f"{NAME} is not loaded")
    if Path(f"/proc/{which}").exists():
        own = list(_of_process(running, which))
        if own:
            return own
    everywhere = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    flows = [flow for pid in everywhere for flow in _of_process(running, pid)]
    return [f for f in flows if which in (_port(f.local), _port(f.remote))]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _of_process(running: list[Loaded], pid: int) -> Iterator[Connection]:
    """Yield a process's connections: only the holder of a socket may read its storage."""
    try:
        descriptors = [int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()]
        process = os.pidfd_open(pid)
    except OSError:  # it ended
        return
    with bpf.opened(process):
        for number in descriptors:
            if (connection := _socket(process, number)) is None:
                continue
            with connection:
                for state in filter(None, (_state(one, connection.fileno()) for one in running)):
                    try:
                        ends = connection.getsockname(), connection.getpeername()
                    except OSError:  # it is no longer connected
                        continue
                    local, remote = map(_address, ends)
                    yield Connection(pid, local, remote, state)


def _socket(process: int, number: int) -> socket.socket | None:
    """Return a copy of another process's descriptor, if it is a socket."""
    copy = ctypes.CDLL(None).syscall(_PIDFD_GETFD, process, number, 0)
    if copy < 0:
        return None
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return None


def _address(name: Any) -> str:
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _state(running: Loaded, descriptor: int) -> dict[str, Any] | None:
    info = bpf.map_info(running.maps["flows"])
    with bpf.opened(bpf.open_map(info.id)) as fd:
        value = bpf.lookup(fd, descriptor, info.value_size)
    if value is None:
        return None
    types, needed = running.types, {"bbr", "connection"}
    members = types.members(types.structure("flow"))
    flow = {name: types.decode(kind, value, at) for name, at, kind in members if name in needed}
    return fields(flow["bbr"], flow["connection"])


def fields(bbr: Mapping[str, Any], connection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a sample, by the names of a record; unknown ones are none."""
    smss = connection["smss"]

    def volume(packets: int) -> int | None:
        return None if packets == _UNSET else packets * smss

    def rate(bandwidth: int) -> int | None:
        return None if bandwidth == _UNSET else bandwidth * smss * 8_000_000 >> 24

    max_bw = max(bbr["max_bw"])
    state = _STATES[bbr["state"]]
    return {
        "phase": f"{state}_{_PHASES[bbr['phase']]}" if state == "ProbeBW" else state,
        "cwnd_bytes": connection["cwnd"] * smss,
        "in_flight_bytes": connection["inflight"] * smss,
        "pacing_bps": connection["pacing_rate"] * 8,
        "bw_bps": rate(min(max_bw, bbr["bw_shortterm"])),
        "max_bw_bps": rate(max_bw),
        "min_rtt_ns": None if bbr["min_rtt_us"] == _UNSET else bbr["min_rtt_us"] * 1000,
        "bw_shortterm_bps": rate(bbr["bw_shortterm"]),
        "inflight_shortterm_bytes": volume(bbr["inflight_shortterm"]),
        "inflight_longterm_bytes": volume(bbr["inflight_longterm"]),
    }
