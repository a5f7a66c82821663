"""``paceline shell``: programs at both ends of a path, their record, and nothing left behind."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import polars as pl
import pytest

import paceline
from conftest import Command, lacking, until


@pytest.fixture(scope="module", autouse=True)
def _able() -> None:
    if why := lacking():
        pytest.skip(f"this machine cannot emulate: {why}")


#: Sends so many bytes to whoever connects, and takes what comes.
SERVER = """
import socket
listener = socket.create_server(("0.0.0.0", 5000))
while True:
    connection, _ = listener.accept()
    connection.sendall(bytes(int(connection.recv(20))))
    connection.close()
"""

#: Asks for so many bytes, and counts them.
CLIENT = """
import os, socket, sys
assert socket.gethostbyname("server") == os.environ["PACELINE_SERVER"]
connection = socket.create_connection(("server", 5000))
connection.sendall(sys.argv[1].encode())
count = 0
while data := connection.recv(65536):
    count += len(data)
print(count)
"""


def path(tmp_path: Path, *arguments: object) -> list[str]:
    """Return the command with a path of 20 Mbit/s and 20 ms."""
    flags = ["--rate", "20 Mbit/s", "--delay", "10 ms", "--out", tmp_path / "record"]
    return ["shell", *map(str, [*flags, *arguments])]


def run(tmp_path: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", *path(tmp_path, *arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def python(tmp_path: Path, name: str, code: str, *arguments: object) -> list[str]:
    (tmp_path / name).write_text(code)
    return [sys.executable, str(tmp_path / name), *map(str, arguments)]


def test_a_transfer_takes_what_the_path_takes_and_is_recorded(tmp_path: Path) -> None:
    server = " ".join(python(tmp_path, "server.py", SERVER))
    client = python(tmp_path, "client.py", CLIENT, 3_000_000)
    result = run(tmp_path, "--server", server, "--", *client)
    assert (result.returncode, result.stdout) == (0, "3000000\n"), result.stderr
    record = paceline.Run.read(tmp_path / "record")
    assert [name for name, _, _ in record.links] == ["bottleneck", "bottleneck up"]
    (down,) = [flow for flow in record.flow_metrics if flow["label"].endswith(" down")]
    assert down["label"].startswith("tcp 5000-")
    # The last byte is that of the connection's end.
    assert record.flows["goodput_bytes"].max() in range(3_000_000, 3_000_002)
    assert down["rtt_p50_ns"] >= 20e6
    carried = record.queue.filter(link=0)["delivered_bytes"][-1]
    length = record.queue["t_ns"].max()
    assert isinstance(length, int)
    assert 3_000_000 < carried <= 20e6 / 8 * length / 1e9
    # Links account for what passed, up to the end.
    assert record.backend == "emu"
    assert 'duration = "60 min"' not in record.scenario_toml
    assert "record: " in result.stderr


def test_programs_have_a_loopback_and_nothing_else(tmp_path: Path) -> None:
    code = """
import pathlib, socket
listener = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listener.getsockname())
for outside in ("1.1.1.1", "10.2.0.1", "192.168.0.1"):
    try:
        socket.create_connection((outside, 80), timeout=2)
        print("reached", outside)
    except OSError as error:
        print(type(error).__name__)
print(pathlib.Path("/etc/resolv.conf").read_text().count("nameserver"))
"""
    result = run(tmp_path, "--", *python(tmp_path, "look.py", code))
    lines = result.stdout.splitlines()
    assert lines[-1] == "0", result.stderr
    assert not any(line.startswith("reached") for line in lines)


def test_programs_have_the_buffers_of_the_machine(tmp_path: Path) -> None:
    result = run(tmp_path, "--", "cat", "/proc/sys/net/ipv4/tcp_rmem")
    outside = Path("/proc/sys/net/ipv4/tcp_rmem").read_text().split()[2]
    assert int(result.stdout.split()[2]) >= max(int(outside), 1 << 20), result.stderr


@pytest.mark.parametrize(
    ("client", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["./there-is-none"], 127),
        (["/etc/hosts"], 126),
        (["true", "--looks-like-an-option"], 0),
    ],
)
def test_it_ends_as_its_client(tmp_path: Path, client: list[str], code: int) -> None:
    result = run(tmp_path, "--quiet", "--", *client)
    assert (result.returncode, result.stdout) == (code, ""), result.stderr


def test_a_client_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    result = run(tmp_path, "--time", "500 ms", "--", "sleep", "77.125")
    assert result.returncode == 124
    assert not left("77.125")
    assert paceline.Run.read(tmp_path / "record").queue.height > 0


def left(tag: str) -> list[str]:
    """Return the processes whose command line has this tag."""
    left_over = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if tag in line and int(process.name) != os.getpid():
            left_over.append(line)
    return left_over


@pytest.mark.parametrize("how", ["client", "SIGTERM", "SIGKILL"])
def test_whatever_forks_or_ignores_signals_is_gone(tmp_path: Path, how: str) -> None:
    # The server ignores SIGTERM, and its child has left its session.
    tag = f"{os.getpid()}{how}"
    stubborn = f"trap '' TERM; (setsid sleep 7777 {tag} &) ; while :; do sleep 1; : {tag}; done"
    stubborn = stubborn.replace("sleep 7777", "python3 -c 'import time; time.sleep(7777)'")
    end = "1" if how == "client" else "7777"
    command = [sys.executable, "-m", "paceline", *path(tmp_path, "--server", stubborn)]
    process = subprocess.Popen(
        [*command, "--", "sleep", end],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert until(lambda: any("-c import time" in line for line in left(tag)))
    if how != "client":
        os.kill(process.pid, signal.Signals[how])
    expected = {"client": 0, "SIGTERM": 143, "SIGKILL": -9}[how]
    assert process.wait(timeout=60) == expected
    assert until(lambda: not left(tag)), left(tag)


def test_flows_of_a_scenario_run_beside(tmp_path: Path) -> None:
    text = """
schema = 1
[run]
duration = "5 s"
[path]
rate = "10 Mbit/s"
rtt = "20 ms"
queue = { size = "2 bdp" }
[[flows]]
cc = "cubic"
[[events]]
when = "500 ms"
path.rate = "5 Mbit/s"
"""
    (tmp_path / "file.toml").write_text(text)
    command = [sys.executable, "-m", "paceline", "shell", str(tmp_path / "file.toml")]
    ran = subprocess.run(
        [*command, "--out", str(tmp_path / "record"), "--", "sleep", "4"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    record = paceline.Run.read(tmp_path / "record")
    assert [flow["cc"] for flow in record.flow_metrics] == ["cubic"]
    assert (record.metrics["goodput_bps"] or 0) > 1e6
    # What changes on the path changes both ways.
    for link in (0, 1):
        rates = record.queue.filter(link=link)["rate_bps"]
        assert (rates[0], rates[-1]) == (10_000_000, 5_000_000)


#: Takes what whoever connects sends, and answers at its end.
SINK = """
import socket
listener = socket.create_server(("0.0.0.0", 5000))
while True:
    connection, _ = listener.accept()
    while connection.recv(65536):
        pass
    connection.close()
"""

SOURCE = """
import socket
connection = socket.create_connection(("server", 5000))
connection.sendall(bytes(1_000_000))
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
"""


def uploaded(tmp_path: Path, setting: str) -> tuple[paceline.Run, str]:
    """Return the record of an upload at 4 Mbit/s, and the summary."""
    server = " ".join(python(tmp_path, "sink.py", SINK))
    client = python(tmp_path, "source.py", SOURCE)
    options = ["--rate-up", "4 Mbit/s", "--set", setting, "--json"]
    result = run(tmp_path, *options, "--server", server, "--", *client)
    assert result.returncode == 0, result.stderr
    return paceline.Run.read(tmp_path / "record"), result.stderr


def test_the_way_up_may_have_a_rate_of_its_own(tmp_path: Path) -> None:
    record, summary = uploaded(tmp_path, "run.record.packets=true")
    assert [rate for _, rate, _ in record.links] == [20_000_000, 4_000_000]
    # 1 MB takes 2.1 s at 4 Mbit/s with headers; half a second at 20.
    answer = json.loads(summary)
    (up,) = [flow for flow in answer["flows"] if flow["label"].endswith(" up")]
    assert 0 < up["goodput_bps"] < 4e6
    assert (answer["exit"], answer["run"]) == (0, str(tmp_path / "record"))
    # ACKs alone do not show how fast the link from the server is. A busy machine is late, never
    # early.
    error = answer["emulation"]["rate_error_ratio"]
    assert error is None or error < 0.02
    kinds = record.packets.group_by("kind").len()
    counts = dict(zip(kinds["kind"].cast(str), kinds["len"], strict=True))
    sent = record.flows["sent_packets"].sum()
    assert counts["send"] + counts.get("retransmit", 0) == sent
    assert counts["deliver"] == sent - counts.get("drop", 0)
    assert counts["ack"] > sent / 4
    assert set(record.packets["flow"]) == {0}


def test_a_return_direction_carries_the_client_s_data(tmp_path: Path) -> None:
    # 690 segments; a quarter of them and of their retransmissions is lost.
    record, _ = uploaded(tmp_path, "path.return.loss=25 %")
    assert [(name, rate) for name, rate, _ in record.links] == [
        ("bottleneck", 20_000_000),
        ("bottleneck return", 4_000_000),
    ]
    last = record.queue.group_by("link").last().sort("link")
    down, up = last["dropped_packets"].to_list()
    assert down == 0
    assert 80 < up < 1000
    # With one in the scenario, its rate is there; flows with RTTs of their own are refused.
    path = tmp_path / "path.toml"
    text = 'schema = 1\nrun.duration = "9 s"\n[path]\nrate = "9 Mbit/s"\nrtt = "9 ms"\n'
    text += 'queue.size = "1 bdp"\nreturn = { loss = "1 %" }\n[[flows]]\ncc = "reno"\n'
    for more, arguments, message in (
        ("", ["--rate-up", "1 Mbit/s"], "given twice"),
        ('rtt = "10 ms"\n', [], "leave out the flows' own rtt"),
    ):
        path.write_text(text + more)
        command = [sys.executable, "-m", "paceline", "shell", str(path), *arguments]
        failed = subprocess.run([*command, "--", "true"], capture_output=True, text=True)
        assert failed.returncode == 2
        assert message in failed.stderr


def test_the_kernel_tells_of_the_sockets_of_programs(tmp_path: Path) -> None:
    """Windows and states of the sender are its socket's, whatever has opened that."""
    code = SERVER.replace(
        "connection.sendall",
        "connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'reno')\n"
        "    connection.sendall",
        1,
    )
    # A socket of IPv6 with an address of IPv4, as most servers have.
    code = code.replace(
        'create_server(("0.0.0.0", 5000))',
        ('create_server(("::", 5000), family=socket.AF_INET6, dualstack_ipv6=True)'),
    )
    server = " ".join(python(tmp_path, "server.py", code))
    client = python(tmp_path, "client.py", CLIENT, 5_000_000)
    result = run(tmp_path, "--server", server, "--", *client)
    assert result.returncode == 0, result.stderr
    record = paceline.Run.read(tmp_path / "record")
    flows = {str(flow["label"]).rsplit(" ", 1)[1]: flow for flow in record.flow_metrics}
    assert flows["down"]["cc"] == "reno"
    rows = record.samples.filter(flow=int(flows["down"]["flow"])).filter(
        pl.col("sent_packets") > 50
    )
    known = rows.filter(pl.col("cwnd_bytes").is_not_null())
    # It has a round trip and a queue of one BDP to fill, in segments of less than the path's.
    assert 20e3 < known["cwnd_bytes"].max() < 1e6  # type: ignore[operator]
    assert known["srtt_ns"].min() >= 20_000_000  # type: ignore[operator]
    assert known["ssthresh_bytes"].drop_nulls().len() > 0
    assert {"SlowStart", "CongestionAvoidance"} <= set(known["phase"].cast(str))
    states = record.events.filter(kind="state")
    assert set(states["flow"]) >= {flows["down"]["flow"]}


def test_paths_nest(tmp_path: Path) -> None:
    """A session at the client's end of another leads to the server of that, through both paths."""
    server = " ".join(python(tmp_path, "server.py", SERVER))
    client = python(tmp_path, "client.py", CLIENT, 1_000_000)
    command = [sys.executable, "-m", "paceline", "shell", "--rate"]
    inner = [*command, "8 Mbit/s", "--delay", "15 ms", "--out", str(tmp_path / "inner"), "--"]
    middle = [*command, "40 Mbit/s", "--delay", "5 ms", "--out", str(tmp_path / "middle"), "--"]
    result = run(tmp_path, "--server", server, "--", *middle, *inner, *client)
    assert (result.returncode, result.stdout) == (0, "1000000\n"), result.stderr
    median = {}
    for name in ("record", "middle", "inner"):
        record = paceline.Run.read(tmp_path / name)
        (down,) = [flow for flow in record.flow_metrics if flow["label"].endswith(" down")]
        assert down["label"].startswith("tcp 5000-")
        # The innermost ends with its client: its last ACKs do not reach the others.
        fewest = 1_000_000 if name == "inner" else 950_000
        assert record.flows["goodput_bytes"].max() in range(fewest, 1_000_002)
        assert down["goodput_bps"] < 8e6
        median[name] = down["rtt_p50_ns"]
    # Each path sees itself and what lies on its client's side. The clock of one that the machine
    # does not run for a while stands still, and the others' do not.
    assert median["inner"] >= 30e6
    assert median["middle"] >= 36e6
    assert median["record"] >= 50e6


def test_paths_beside_each_other_lead_to_one_server(tmp_path: Path) -> None:
    server = " ".join(python(tmp_path, "server.py", SERVER))
    client = " ".join(python(tmp_path, "client.py", CLIENT, 300_000))
    line = f"{sys.executable} -m paceline shell --rate '4 Mbit/s' --quiet --out"
    both = f"{line} {tmp_path}/one -- {client} & {line} {tmp_path}/two -- {client}; wait"
    result = run(tmp_path, "--server", server, "--", "sh", "-c", both)
    assert result.stdout == "300000\n300000\n", result.stderr
    # One with a server of its own leads there.
    (tmp_path / "record").rename(tmp_path / "before")
    alone = f"{line} {tmp_path}/own --server '{server}' -- {client}"
    result = run(tmp_path, "--", "sh", "-c", alone)
    assert result.stdout == "300000\n", result.stderr


#: With headers as QUIC's: each sends the spin bit that it has received, the client its opposite.
SPIN_SERVER = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 4433))
while True:
    data, peer = s.recvfrom(2000)
    s.sendto(data, peer)
"""

SPIN_CLIENT = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("server", 4433))
s.send(bytes([0xC3, 0, 0, 0, 1, 8]) + bytes(1194))
s.recv(2000)
spin = 0
for _ in range(20):
    s.send(bytes([0x43 | spin]) + bytes(99))
    spin = ~s.recv(2000)[0] & 0x20
"""


def test_the_spin_bit_measures_the_round_trip_of_quic(tmp_path: Path) -> None:
    server = " ".join(python(tmp_path, "server.py", SPIN_SERVER))
    result = run(tmp_path, "--server", server, "--", *python(tmp_path, "client.py", SPIN_CLIENT))
    assert result.returncode == 0, result.stderr
    record = paceline.Run.read(tmp_path / "record")
    assert {flow["label"].split()[0] for flow in record.flow_metrics} == {"udp"}
    for flow in record.flow_metrics:
        assert flow["rtt_p50_ns"] >= 20e6


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_without_a_client_it_is_a_shell(tmp_path: Path, shell: str) -> None:
    """A shell with jobs takes the terminal, and its children are groups of their own."""
    command = [sys.executable, "-m", "paceline", *path(tmp_path)]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*command, "--server", "sleep 60"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "SHELL": f"/bin/{shell}", "HOME": str(tmp_path)},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    output = b""

    def until(word: bytes) -> None:
        nonlocal output
        while word not in output:
            output += os.read(ours, 4096)

    try:
        until(b"[20 Mbit/s, 10 ms] ")
        os.write(ours, b"echo one $((40 + 2)) $PACELINE_SERVER\n")
        until(b"one 42 10.")
        os.write(ours, b"sleep 60\n")
        time.sleep(0.5)
        os.write(ours, b"\x03")
        os.write(ours, b"exit 5\n")
        # What it prints has to be taken.
        until(b"record:")
        assert process.wait(timeout=20) == 5
    finally:
        process.kill()
        os.close(ours)
    assert (tmp_path / "record" / "run.json").exists()


def test_what_is_in_the_way_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    assert run(tmp_path, "--", "sh", "-c", "exit 3").returncode == 3
    assert paceline.Run.read(tmp_path / "record").queue.height > 0
    (tmp_path / "record" / "notes.txt").write_text("mine")
    again = run(tmp_path, "--", "touch", str(tmp_path / "ran"))
    assert (again.returncode, "left unchanged" in again.stderr) == (2, True), again.stderr
    assert "--force" not in again.stderr
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "record" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a scenario, or give --rate"),
        (["nothing.toml", "--", "true"], "no such file"),
        (["--rate", "10 Mbit/s"], "name a client"),
        (["--rate", "10 Mbit/s", "--rate-up", "slow", "--", "true"], "rate"),
        (["--rate", "fast", "--", "true"], "rate"),
        (["--rate", "10mbps", "--", "true"], "Mbit/s"),
        (["--rate", "10mbit", "--dealy", "10ms", "--", "true"], "unknown option: --dealy"),
        (["FILE", "--sever", "nc", "--", "true"], "no such file"),
        (["--rate", "10 Mbit/s", "--delay", "soon", "--", "true"], "--delay"),
        (["--rate", "10 Mbit/s", "--queue", "deep", "--", "true"], "size"),
        (["--rate", "10 Mbit/s", "--time", "0 s", "--", "true"], "duration"),
        (
            ["--rate", "10 Mbit/s", "--set", "path.return.rate=1 Gbit", "--", "true"],
            "path.return.rate",
        ),
    ],
)
def test_bad_input_is_told(cli: Command, arguments: list[str], message: str) -> None:
    result = cli("shell", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
