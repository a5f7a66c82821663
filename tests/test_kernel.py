"""BBRv3 for a stock kernel: the C against golden traces, and the eBPF in this kernel."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import paceline
from conftest import Command
from paceline import controllers
from paceline.kernel import bpf, controller

ROOT = Path(__file__).parent.parent
TRACES = sorted((ROOT / "data" / "conformance" / "linux-bbr" / "v3").glob("*.txt.zst"))
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-function")


def compiled(source: Path, program: Path) -> Path:
    """Compiles the replay of golden traces."""
    undefined = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    files = ("-o", str(program), str(source / "replay.c"))
    subprocess.run(["cc", "-std=c11", "-O1", *WARNINGS, *undefined, *files], check=True)
    return program


def replayed(program: Path, trace: bytes) -> list[bytes]:
    """A trace with the states that the algorithm in C has."""
    return subprocess.run([program], input=trace, capture_output=True, check=True).stdout.split(
        b"\n"
    )


def text_of(trace: Path) -> bytes:
    """A trace, decompressed."""
    with pa.input_stream(trace, compression="zstd") as stream:
        return bytes(stream.read())


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(ROOT / "linux" / "kernel", tmp_path_factory.mktemp("kernel") / "replay")


def test_there_are_traces() -> None:
    assert len(TRACES) == 12


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name.removesuffix(".txt.zst"))
def test_every_state_of_a_trace_is_equal(replay: Path, trace: Path) -> None:
    text = text_of(trace)
    for line, (expected, got) in enumerate(
        zip(text.split(b"\n"), replayed(replay, text), strict=True), 1
    ):
        assert got == expected, f"line {line} differs"


@pytest.mark.parametrize(
    ("file", "number", "other"),
    [
        ("options.h", "beta, gain, 0, 255, 76", "beta, gain, 0, 255, 77"),
        (
            "probe_bw.h",
            "least(b->bw_probe_up_rounds + 1, 30)",
            "least(b->bw_probe_up_rounds + 1, 2)",
        ),
        ("startup.h", "full_bw_count >= options", "full_bw_count > options"),
    ],
)
def test_another_number_is_seen(tmp_path: Path, file: str, number: str, other: str) -> None:
    kernel = tmp_path / "kernel"
    shutil.copytree(ROOT / "linux" / "kernel", kernel)
    header = kernel / "bbr3" / file
    text = header.read_text()
    assert number in text
    header.write_text(text.replace(number, other))
    program = compiled(kernel, tmp_path / "replay")
    assert any(replayed(program, text) != text.split(b"\n") for text in map(text_of, TRACES))


# The object, and this kernel


def clang() -> str | None:
    """Return the version of clang, if there is one."""
    if shutil.which("clang") is None or shutil.which("llvm-strip") is None:
        return None
    result = subprocess.run(["clang", "--version"], capture_output=True, text=True, check=True)
    match = re.search(r"version (\d+)", result.stdout)
    return match and match[1]


@pytest.mark.skipif(clang() != "14", reason="the committed objects are of clang 14")
def test_the_objects_are_those_of_the_source(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "linux" / "kernel", tmp_path / "linux" / "kernel")
    shutil.copy(ROOT / "Makefile", tmp_path)
    subprocess.run(["make", "-s", "kernel", f"KERNEL={tmp_path}"], cwd=tmp_path, check=True)
    for name in ("paceline_bbr3.o", "paceline_stock.o"):
        committed = ROOT / "python" / "paceline" / "kernel" / name
        assert (tmp_path / name).read_bytes() == committed.read_bytes(), "run make kernel"


def test_the_options_are_those_of_the_simulated_controller() -> None:
    text = (ROOT / "linux" / "kernel" / "bbr3" / "options.h").read_text()
    row = r"OPTION\((\w+), (gain|count|us|ms|flag), (\d+), (\d+), (\d+)\)"
    declared = {name: (kind, int(value)) for name, kind, _, _, value in re.findall(row, text)}
    [options] = [each["options"] for each in controllers() if each["name"] == "bbr3-linux"]
    simulated = {option["name"]: option["default"] for option in options}
    del simulated["bw_probe_pif_gain"]  # of v2 only
    del simulated["prr_bound"]  # Linux has no such bound
    assert declared.keys() == simulated.keys()
    for name, (kind, value) in declared.items():
        units = {"us": 1e-6, "ms": 1e-3}
        if kind == "gain":
            assert float(simulated[name]) == pytest.approx(value / 256, abs=1e-6), name
        elif kind in units:
            number, unit = simulated[name].split()
            scale = {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]
            assert float(number) * scale == pytest.approx(value * units[kind]), name
        else:
            assert simulated[name] == {"flag": ("false", "true")[value & 1]}.get(kind, str(value))


def maps() -> list[tuple[int, str]]:
    return [(map_.id, map_.name.decode()) for map_ in bpf.maps()]


@pytest.fixture
def kernel() -> Iterator[None]:
    """Hold this kernel alone, and see that a test leaves it as it was."""
    for what, _ in controller.lacking():
        pytest.skip(f"needs a kernel that takes it: {what}")
    with (Path(tempfile.gettempdir()) / "paceline-kernel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if controller.NAME in controller.available():
            pytest.skip(f"{controller.NAME} is registered already")
        before = controller.available(), maps()
        try:
            yield
        finally:
            if controller.NAME in controller.available():
                controller.unload()
        until = time.monotonic() + 5
        while (controller.available(), maps()) != before and time.monotonic() < until:
            time.sleep(0.05)
        assert (controller.available(), maps()) == before


class Traffic:
    """A connection over loopback that uses the controller."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
            self.sender = socket.socket()
            name = controller.NAME.encode()
            self.sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
            self.sender.connect(server.getsockname())
            self.receiver, _ = server.accept()

    def carry(self, count: int) -> None:
        for _ in range(count):
            self.sender.sendall(bytes(65536))
            left = 65536
            while left:
                left -= len(self.receiver.recv(left))

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


@pytest.mark.usefixtures("kernel")
def test_it_is_loaded_chosen_shown_and_unloaded(cli: Command) -> None:
    assert cli("kernel", "load", "--set", "startup_pacing_gain=2.89", "--json").returncode == 0
    [loaded] = json.loads(cli("kernel", "list", "--json").stdout)["controllers"]
    assert loaded["registered"]
    assert loaded["options"]["startup_pacing_gain"] == "2.88672"  # 739/256
    assert loaded["options"]["drain_gain"] == "0.34375"
    traffic = Traffic()
    traffic.carry(200)
    [flow] = json.loads(cli("kernel", "show", traffic.port, "--json").stdout)["connections"][:1]
    assert flow["cwnd_bytes"] > 0
    assert flow["max_bw_bps"] > 0
    assert flow["min_rtt_ns"] > 0
    traffic.close()
    assert json.loads(cli("kernel", "unload", "--json").stdout)["held"] is False
    assert controller.NAME not in controller.available()


@pytest.mark.usefixtures("kernel")
def test_unloaded_while_in_use_it_ends_with_its_last_connection(cli: Command) -> None:
    cli("kernel", "load")
    traffic = Traffic()
    traffic.carry(10)
    assert json.loads(cli("kernel", "unload", "--json").stdout)["held"] is True
    [controller] = json.loads(cli("kernel", "list", "--json").stdout)["controllers"]
    assert not controller["registered"]
    traffic.carry(10)
    traffic.close()


@pytest.mark.usefixtures("kernel")
def test_a_second_registration_is_refused(cli: Command) -> None:
    assert cli("kernel", "load").returncode == 0
    second = cli("kernel", "load")
    assert second.returncode == 1
    assert "is registered already; `paceline kernel unload` takes it out" in second.stderr


@pytest.mark.usefixtures("kernel")
def test_nothing_to_unload(cli: Command) -> None:
    assert cli("kernel", "unload").returncode == 1


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("verb", ["load", "unload"])
def test_a_kill_leaves_all_or_nothing(verb: str) -> None:
    call = {"load": "load({})", "unload": "unload()"}[verb]
    act = f"from paceline.kernel import controller; print('go', flush=True); controller.{call}"
    for delay in (0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.6):
        if verb == "unload" and controller.NAME not in controller.available():
            controller.load({})
        with subprocess.Popen([sys.executable, "-c", act], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        if verb == "load" and controller.NAME in controller.available():
            assert not controller.unload()


@pytest.mark.usefixtures("kernel")
def test_of_two_that_load_at_once_one_is_refused() -> None:
    act = """
from paceline.errors import RunError
from paceline.kernel import controller
input()
try:
    controller.load({})
except RunError as error:
    print(error)
"""
    loaders = [
        subprocess.Popen(
            [sys.executable, "-c", act], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for loader in loaders:
        assert loader.stdin is not None
        loader.stdin.write("\n")
        loader.stdin.flush()
    outputs = sorted(loader.communicate()[0] for loader in loaders)
    assert [loader.returncode for loader in loaders] == [0, 0]
    assert outputs[0] == ""
    assert outputs[1].startswith("paceline_bbr3 is registered already; `paceline kernel unload`")


@pytest.mark.usefixtures("kernel")
def test_another_user_chooses_it_and_cannot_unload_it() -> None:
    controller.load({})
    choose = f"""
import os, socket
os.setgroups([]), os.setgid(65534), os.setuid(65534)
socket.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, {controller.NAME.encode()!r})
from paceline.errors import UnavailableError
from paceline.kernel import controller
try:
    controller.unload()
except UnavailableError as error:
    print(error)
"""
    path = ":".join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path = {path.split(':')!r}\n{choose}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Permission" in done.stderr or "ModuleNotFound" in done.stderr:
        pytest.skip("another user cannot read this package")
    assert "lacks CAP_NET_ADMIN" in done.stdout, done.stderr
    assert controller.NAME in controller.available()


# A record


def recording(*arguments: str) -> subprocess.Popen[str]:
    """Start to record, and wait until the program reports ACKs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline", "kernel", "record", "--json", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    [running] = controller.loaded()
    with bpf.opened(bpf.open_map(running.maps["bss"])) as fd:
        size = bpf.map_info(running.maps["bss"]).value_size
        variables = bpf.Variables(fd, running.types, ".bss", size)
        while not variables.read("recording_until"):
            assert process.poll() is None, process.stderr
            time.sleep(0.01)
        variables.close()
    return process


@pytest.mark.usefixtures("kernel")
def test_a_record_of_live_connections_is_a_run(cli: Command, tmp_path: Path) -> None:
    controller.load({})
    before = Traffic()
    before.carry(10)
    out = tmp_path / "live"
    process = recording("--duration", "3 s", "--out", str(out))
    before.carry(10)
    traffic = Traffic()
    traffic.carry(100)
    traffic.close()
    [output, error] = process.communicate()
    assert process.returncode == 0, error
    record = json.loads(output)["record"]
    assert record["incomplete"] is None
    assert record["run"] == str(out)
    run = paceline.Run.read(out)
    labels = {flow["label"]: flow for flow in run.flow_metrics}
    [new] = [flow for label, flow in labels.items() if label.endswith(f":{traffic.port}")]
    flows = run.flows.filter(pl.col("label") == new["label"])
    carried = 100 * 65536
    assert carried <= flows["goodput_bytes"][0] <= carried + 2
    assert flows["finish_ns"][0] is not None
    assert new["cc"] == "bbr3-linux"
    [old] = [flow for label, flow in labels.items() if label.endswith(f":{before.port}")]
    assert old["goodput_bps"] > 0
    assert any("were open before" in note for note in record["notes"])
    rows = run.samples.filter(pl.col("flow") == new["flow"])
    assert rows["bw_bps"].drop_nulls().len() > 0
    probing = {f"PROBE_BW_{phase}" for phase in ("UP", "DOWN", "CRUISE", "REFILL")}
    assert set(rows["phase"]) <= {"STARTUP", "DRAIN", "PROBE_RTT"} | probing
    assert run.source is not None
    assert run.source["kernel"]["missed"] == 0
    page = tmp_path / "page.html"
    assert cli("report", out, "--out", page).returncode == 0
    assert page.stat().st_size > 10_000
    before.close()


@pytest.mark.usefixtures("kernel")
def test_a_killed_recorder_is_forgotten(cli: Command, tmp_path: Path) -> None:
    controller.load({})
    first = recording()
    result = cli("kernel", "record", "--duration", "1 s", "--out", tmp_path / "b")
    assert result.returncode == 1
    assert "another `paceline kernel record` is reading" in result.stderr
    first.kill()
    first.communicate()
    [running] = controller.loaded()
    with bpf.opened(bpf.open_map(running.maps["bss"])) as fd:
        size = bpf.map_info(running.maps["bss"]).value_size
        variables = bpf.Variables(fd, running.types, ".bss", size)
        until = variables.read("recording_until")
        while time.monotonic_ns() <= until:
            time.sleep(0.05)
        traffic = Traffic()
        traffic.carry(1)
        # The first ACK beyond its time has cleared it.
        assert variables.read("recording_until") == 0
        variables.close()
    traffic.close()


@pytest.mark.usefixtures("kernel")
def test_an_interrupt_keeps_the_record(tmp_path: Path) -> None:
    controller.load({})
    process = recording("--out", str(tmp_path / "a"))
    traffic = Traffic()
    traffic.carry(10)
    traffic.close()
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0]
    assert process.returncode == 0
    assert paceline.Run.read(tmp_path / "a").incomplete is None


@pytest.mark.usefixtures("kernel")
def test_nothing_to_record(cli: Command, tmp_path: Path) -> None:
    not_loaded = cli("kernel", "record", "--duration", "0.1 s")
    assert not_loaded.returncode == 1
    assert "is not loaded" in not_loaded.stderr
    controller.load({})
    silent = cli("kernel", "record", "--duration", "0.1 s", "--out", tmp_path / "a")
    assert silent.returncode == 1
    assert "no connection" in silent.stderr
    assert not (tmp_path / "a").exists()
    for bad in (["--duration", "0 s"], ["--duration", "soon"], ["70000"]):
        assert cli("kernel", "record", *bad).returncode == 2


def test_without_privilege_it_says_what_is_missing(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "_effective", lambda: 0)
    for call in (["load"], ["unload"], ["list"], ["show", "1"], ["record"]):
        result = cli("kernel", *call)
        assert result.returncode == 127
        assert "lacks CAP_" in result.stderr or "Linux" in result.stderr


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("betta=0.1", "did you mean beta?"),
        ("beta=7", "beta is from 0 to 0.996094, not 7"),
        ("beta=nan", "beta is from"),
        ("full_bw_cnt=many", "full_bw_cnt is from 1 to 3, not 'many'"),
        ("beta", "--set takes OPTION=VALUE"),
    ],
)
def test_a_bad_option_is_refused(cli: Command, option: str, message: str) -> None:
    result = cli("kernel", "load", "--set", option)
    assert result.returncode == 2
    assert message in result.stderr
