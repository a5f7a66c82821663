"""libbpf, through its C interface: iproute2 installs it nearly everywhere; clang is not needed."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from typing import Any

from paceline.errors import RunError, UnavailableError
from paceline.kernel.btf import Types

MAP_STRUCT_OPS = 26


class _OpenOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("object_name", ctypes.c_char_p)]


class ProgramInfo(ctypes.Structure):
    """The used part of ``struct bpf_prog_info``."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("type", "id")),
        ("tag", ctypes.c_uint8 * 8),
        *((name, ctypes.c_uint32) for name in ("jited_len", "translated_len")),
        *((name, ctypes.c_uint64) for name in ("jited", "translated", "load_time_ns")),
        *((name, ctypes.c_uint32) for name in ("uid", "map_count")),
        ("maps", ctypes.c_uint64),
        ("name", ctypes.c_char * 16),
    ]


class MapInfo(ctypes.Structure):
    """The used part of ``struct bpf_map_info``."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("type", "id", "key_size", "value_size")),
        *((name, ctypes.c_uint32) for name in ("max_entries", "flags")),
        ("name", ctypes.c_char * 16),
        *((name, ctypes.c_uint32) for name in ("interface", "vmlinux_value_type")),
        *((name, ctypes.c_uint64) for name in ("device", "inode")),
        ("btf_id", ctypes.c_uint32),
    ]


@cache
def library() -> Any:
    """Return libbpf."""
    try:
        lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        what = "libbpf (libbpf.so.1) is not installed"
        hint = "on Debian and Ubuntu: apt install libbpf1; on Fedora: dnf install libbpf"
        raise UnavailableError([what, hint]) from None
    pointers = (
        "bpf_object__open_mem",
        "bpf_object__find_map_by_name",
        "bpf_map__initial_value",
        "bpf_map__attach_struct_ops",
        "bpf_object__btf",
        "btf__raw_data",
        "btf__load_from_kernel_by_id",
        "ring_buffer__new",
        "libbpf_set_print",
    )
    for name in pointers:
        getattr(lib, name).restype = ctypes.c_void_p
    return lib


def _check(result: Any, what: str) -> Any:
    """Return a result of libbpf, which is null or negative on failure."""
    if result is None or (isinstance(result, int) and result < 0):
        number = ctypes.get_errno() or (-result if result else 0)
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


@contextmanager
def _messages() -> Iterator[list[str]]:
    """Collect libbpf's messages instead of printing them on stderr."""
    messages: list[str] = []
    format_ = ctypes.CDLL(None).vsnprintf

    def keep(_level: int, text: bytes, values: int) -> int:
        buffer = ctypes.create_string_buffer(1 << 16)
        format_(buffer, ctypes.c_size_t(len(buffer)), text, ctypes.c_void_p(values))
        messages.append(buffer.value.decode(errors="replace"))
        return 0

    callback = _PRINT(keep)
    before = library().libbpf_set_print(callback)
    try:
        yield messages
    finally:
        library().libbpf_set_print(ctypes.c_void_p(before))


class Object:
    """A BPF object that is not in the kernel yet."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data, size = data, ctypes.c_size_t(len(data))
        options = _OpenOptions(ctypes.sizeof(_OpenOptions), name.encode())
        opened = library().bpf_object__open_mem(data, size, ctypes.byref(options))
        self._object = ctypes.c_void_p(_check(opened, "open the object"))

    def types(self) -> Types:
        """Return its types."""
        return _types(ctypes.c_void_p(library().bpf_object__btf(self._object)))

    def constants(self) -> ctypes.Array[ctypes.c_char]:
        """Return the initial bytes of its constants, to read and to write."""
        size = ctypes.c_size_t()
        map_ = self._map(".rodata")
        place = _check(library().bpf_map__initial_value(map_, ctypes.byref(size)), "constants")
        return (ctypes.c_char * size.value).from_address(place)

    def register(self, name: str) -> None:
        """Load it into the kernel and register its struct_ops, which outlives this process."""
        with _messages() as messages:
            try:
                _check(library().bpf_object__load(self._object), "load the programs")
                link = library().bpf_map__attach_struct_ops(self._map(name))
                link = ctypes.c_void_p(_check(link, f"register {name}"))
            except OSError as error:
                raise RefusedError(error, "".join(messages)) from None
        library().bpf_link__disconnect(link)
        library().bpf_link__destroy(link)

    def close(self) -> None:
        """Release it; the registration stays."""
        library().bpf_object__close(self._object)

    def _map(self, name: str) -> ctypes.c_void_p:
        fd = library().bpf_object__find_map_by_name(self._object, name.encode())
        return ctypes.c_void_p(_check(fd, f"find {name}"))


class RefusedError(RunError):
    """The kernel refused an object; `log` contains the messages of libbpf and the verifier."""

    def __init__(self, error: OSError, log: str) -> None:
        super().__init__(error.strerror)
        self.errno = error.errno
        self.log = log


def _types(btf: ctypes.c_void_p) -> Types:
    size = ctypes.c_uint32()
    raw = _check(library().btf__raw_data(btf, ctypes.byref(size)), "types")
    return Types(ctypes.string_at(raw, size.value))


def types_of(info: MapInfo) -> Types:
    """Return the types of a map in the kernel."""
    btf = library().btf__load_from_kernel_by_id(info.btf_id)
    btf = ctypes.c_void_p(_check(btf, "types of the kernel"))
    try:
        return _types(btf)
    finally:
        library().btf__free(btf)


def _ids(next_id: Callable[..., int]) -> Iterator[int]:
    number = ctypes.c_uint32(0)
    while next_id(number, ctypes.byref(number)) == 0:
        yield number.value
    if ctypes.get_errno() not in (0, errno.ENOENT):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def opened(fd: int) -> Iterator[int]:
    """Hold a file descriptor."""
    with closing(os.fdopen(fd, "rb", buffering=0)) as file:
        yield file.fileno()


def open_map(number: int) -> int:
    """Return a file descriptor of a map."""
    return int(_check(library().bpf_map_get_fd_by_id(number), "open a map"))


def map_info(number: int) -> MapInfo:
    """Return the kernel's information about a map."""
    info = MapInfo()
    with opened(open_map(number)) as fd:
        _inform(fd, info)
    return info


def maps() -> Iterator[MapInfo]:
    """Yield every map of the kernel."""
    for number in _ids(library().bpf_map_get_next_id):
        try:
            yield map_info(number)
        except FileNotFoundError:  # it ended in the meantime
            continue


def programs() -> Iterator[tuple[ProgramInfo, list[int]]]:
    """Yield every program of the kernel, with its maps."""
    for number in _ids(library().bpf_prog_get_next_id):
        fd = library().bpf_prog_get_fd_by_id(number)
        if fd < 0:
            continue
        with opened(fd):
            ids = (ctypes.c_uint32 * 64)()
            info = ProgramInfo(map_count=64, maps=ctypes.addressof(ids))
            _inform(fd, info)
        yield info, list(ids[: info.map_count])


def _inform(fd: int, info: ctypes.Structure) -> None:
    size = ctypes.c_uint32(ctypes.sizeof(info))
    got = library().bpf_obj_get_info_by_fd(fd, ctypes.byref(info), ctypes.byref(size))
    _check(got, "ask the kernel")


def unregister(number: int) -> None:
    """Unregister a struct_ops map."""
    key = ctypes.c_uint32(0)
    with opened(open_map(number)) as fd:
        _check(library().bpf_map_delete_elem(fd, ctypes.byref(key)), "unregister")


def lookup(fd: int, key: int, size: int) -> bytes | None:
    """Return the value of a key of a map; none if it has none."""
    value = ctypes.create_string_buffer(size)
    status = library().bpf_map_lookup_elem(fd, ctypes.byref(ctypes.c_uint32(key)), value)
    return value.raw if status == 0 else None


_SAMPLE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


@contextmanager
def ring(fd: int) -> Iterator[Callable[[], bytes]]:
    """Open a ring buffer; the function returned gives its entries, in one piece."""
    buffer = bytearray()

    def entry(_context: int, data: int, size: int) -> int:
        buffer.extend(ctypes.string_at(data, size))
        return 0

    callback = _SAMPLE(entry)
    opened_ = library().ring_buffer__new(fd, callback, None, None)
    opened_ = ctypes.c_void_p(_check(opened_, "read the ring buffer"))

    def take() -> bytes:
        _check(library().ring_buffer__consume(opened_), "read the ring buffer")
        taken = bytes(buffer)
        buffer.clear()
        return taken

    try:
        yield take
    finally:
        library().ring_buffer__free(opened_)


class Variables:
    """The variables of a program in the kernel, shared with it."""

    def __init__(self, fd: int, types: Types, section: str, size: int) -> None:
        self._memory = mmap.mmap(fd, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
        self._types = types
        self._section = section

    def read(self, name: str) -> int:
        """Return a variable."""
        at, size = self._place(name)
        return int.from_bytes(self._memory[at : at + size], "little")

    def write(self, name: str, value: int) -> None:
        """Set a variable."""
        at, size = self._place(name)
        self._memory[at : at + size] = value.to_bytes(size, "little")

    def close(self) -> None:
        """Release them."""
        self._memory.close()

    def _place(self, name: str) -> tuple[int, int]:
        at, kind = self._types.variable(self._section, name)
        return at, self._types.size(kind)
