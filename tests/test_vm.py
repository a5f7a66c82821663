"""Runs in virtual time with a real kernel; the snapshot is that of the user."""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import polars as pl
import pytest

import paceline
from conftest import Command
from paceline import _paceline

TWO_FLOWS = """\
schema = 1
name = "vm"
run.duration = "2 s"
[path]
rate = "10 Mbit/s"
rtt = "20 ms"
queue.size = "1 bdp"
[[flows]]
cc = "cubic-linux"
[[flows]]
cc = "reno"
rtt = "40 ms"
start = "500 ms"
"""


@pytest.fixture(scope="module")
def snapshot() -> str:
    """Return the snapshot that runs use, or skip."""
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("there is no qemu-system-x86_64")
    if list(Path("/boot").glob("vmlinuz-*")):
        _paceline.vm_prepare(None, None, lambda _: None)
    report = json.loads(_paceline.doctor(True, lambda _: None))
    (check,) = (each for each in report["checks"] if each["name"] == "kernels in virtual time")
    if check["state"] != "good":
        pytest.skip(f"{check['found']}: {check['fix']}")
    return str(json.loads(_paceline.vm_images())[0]["hash"])


def _bytes(folder: Path) -> dict[str, str]:
    """Return a digest of each file of a run."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_bytes_beside_a_busy_processor(snapshot: str, tmp_path: Path) -> None:
    quiet, busy, other = (tmp_path / name for name in ("quiet", "busy", "other"))
    paceline.run(TWO_FLOWS, backend="vm").inner.write(quiet)
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        paceline.run(TWO_FLOWS, backend="vm").inner.write(busy)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert _bytes(quiet) == _bytes(busy)
    paceline.run(TWO_FLOWS, seed=2, backend="vm").inner.write(other)
    assert _bytes(other)["samples.parquet"] != _bytes(quiet)["samples.parquet"]


def test_what_a_kernel_measures_is_in_the_record(snapshot: str) -> None:
    run = paceline.run(TWO_FLOWS, backend="vm")
    assert run.emulation is not None
    assert run.emulation["snapshot"] == snapshot
    assert 0 < run.emulation["busy_ratio"] < run.emulation["busiest_second_ratio"] < 0.6
    # No round trip is shorter than its base: 20 and 40 ms, and the packet's own 1.2 ms.
    for flow, base in ((0, 20), (1, 40)):
        least = run.summary["flows"][flow]["rtt_p50_ns"]
        assert least >= base * 1e6
    # A link of 10 Mbit/s carries at most that, and what waits is at most the buffer of 25 kB.
    assert run.summary["metrics"]["utilisation_ratio"] <= 1
    assert run.summary["metrics"]["queue_max_bytes"] <= 25_000
    assert len(run.queue) == 201
    # Each flow has its totals, and they are those of its last sample.
    last = run.samples.group_by("flow", maintain_order=True).last()
    for column in ("goodput_bytes", "sent_packets", "retransmitted_packets"):
        assert run.flows[column].to_list() == last[column].to_list()
    assert run.flows["rto_count"].to_list() == [0, 0]


def test_bbr3_by_ebpf_in_the_guest(snapshot: str, tmp_path: Path) -> None:
    [image] = [each for each in json.loads(_paceline.vm_images()) if each["hash"] == snapshot]
    if "tcp_paceline_bbr3" not in image["modules"]:
        pytest.skip(f"Linux {image['kernel']} in the snapshot has no BBRv3: older than 6.10")
    scenario = TWO_FLOWS.replace("cubic-linux", "bbr3-linux")
    once, twice = tmp_path / "once", tmp_path / "twice"
    run = paceline.run(scenario, backend="vm")
    run.inner.write(once)
    paceline.run(scenario, backend="vm").inner.write(twice)
    assert _bytes(once) == _bytes(twice)
    assert run.emulation is not None
    flow = run.emulation["flows"][0]
    assert flow["kernel_cc"] == "paceline_bbr3"
    assert "tx_in_flight" in flow["derived_inputs"]
    # Alone for half a second, and then with the greater part of a link of 10 Mbit/s.
    assert run.summary["flows"][0]["goodput_bps"] > 5e6


def test_bbr3_with_options_in_the_guest(snapshot: str) -> None:
    [image] = [each for each in json.loads(_paceline.vm_images()) if each["hash"] == snapshot]
    if "tcp_paceline_bbr3" not in image["modules"]:
        pytest.skip(f"Linux {image['kernel']} in the snapshot has no BBRv3: older than 6.10")
    # The default, the same by its value, and half of it: Startup is slower.
    received = []
    for options in ("", ", startup_pacing_gain = 2.7734", ", startup_pacing_gain = 1.3867"):
        scenario = TWO_FLOWS.replace('"cubic-linux"', f'{{ name = "bbr3-linux"{options} }}')
        one, _ = scenario.replace('"2 s"', '"100 ms"').rsplit("[[flows]]", 1)
        run = paceline.run(one.replace('"10 Mbit/s"', '"50 Mbit/s"'), backend="vm")
        received.append(run.samples["goodput_bytes"].to_list())
    assert received[0] == received[1]
    assert 0 < received[2][-1] < 0.8 * received[0][-1]


def test_a_paced_window_in_the_guest(snapshot: str) -> None:
    burst = {}
    for pacing in ("false", "true"):
        cubic = f'{{ name = "cubic", pacing = {pacing} }}\ninitial_window = "40 packets"'
        one, _ = TWO_FLOWS.replace('"cubic-linux"', cubic).rsplit("[[flows]]", 1)
        text = one.replace('"2 s"', '"180 ms"').replace('"20 ms"', '"100 ms"')
        burst[pacing] = max(paceline.run(text, backend="vm").queue["backlog_bytes"].to_list())
    # 40 packets at once; or ten at once, which Linux does not pace, and the rest at twice the
    # window in a round trip, 9.6 Mbit/s.
    assert burst["false"] > 50_000
    assert burst["true"] < 20_000


@pytest.mark.parametrize(("cc", "folder"), [("bbr1", "v1"), ("dctcp", "dctcp")])
def test_a_traced_controller_passes(
    snapshot: str, cc: str, folder: str, cli: Command, tmp_path: Path
) -> None:
    [image] = [each for each in json.loads(_paceline.vm_images()) if each["hash"] == snapshot]
    if "tcp_paceline_bbr3" not in image["modules"]:
        pytest.skip(f"Linux {image['kernel']} in the snapshot is not traced: older than 6.10")
    scenario = tmp_path / "one.toml"
    one, _ = TWO_FLOWS.replace("cubic-linux", cc).rsplit("[[flows]]", 1)
    scenario.write_text(one.replace('"2 s"', '"500 ms"', 1))
    (tmp_path / folder).mkdir()
    traces = [tmp_path / folder / name for name in ("once.txt", "twice.txt")]
    for trace in traces:
        ended = cli("vm", "trace", str(scenario), "--out", str(trace))
        assert ended.returncode == 0, ended.stderr
    assert traces[0].read_bytes() == traces[1].read_bytes()
    assert traces[0].read_text().count("\n") > 200
    ended = cli("conformance", "--traces", str(tmp_path))
    assert ended.returncode == 0, ended.stdout


def test_a_controller_that_is_not_traced_is_refused(
    snapshot: str, cli: Command, tmp_path: Path
) -> None:
    scenario = tmp_path / "one.toml"
    scenario.write_text(TWO_FLOWS.replace("cubic-linux", "bbr3-linux"))
    ended = cli("vm", "trace", str(scenario), "--out", "trace.txt")
    assert ended.returncode == 127
    assert "the kernel's paceline_bbr3 cannot be recorded" in ended.stderr
    assert "one of bbr, cubic, dctcp, reno" in ended.stderr
    assert not (tmp_path / "trace.txt").exists()


def test_a_killed_run_leaves_no_machine(snapshot: str, tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(TWO_FLOWS.replace('"2 s"', '"100 s"', 1))
    command = [sys.executable, "-m", "paceline", "run", str(path), "--backend", "vm"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{running.pid}/task")

    def machines() -> list[str]:
        listed = (each.read_text().split() for each in children.glob("*/children"))
        return [pid for pids in listed for pid in pids]

    while not (alive := machines()):
        assert running.poll() is None
        time.sleep(0.05)
    running.kill()
    running.wait()
    for pid in alive:
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("cc", "message"),
    [
        ('name = "bbr3-linux", prr_bound = true', "BBRv3 in the kernel has no such option"),
        ('name = "bbr3-linux", startup_pacing_gain = 9', "takes a number from 1 to 3.996"),
        ('name = "bbr1", high_gain = 2.77', "a kernel's controller takes no options"),
        ('name = "bbr1", pacing_margin_percent = 2', "a kernel's controller takes no options"),
        ('name = "cubic", pacing = 3', "takes true or false"),
    ],
)
def test_options_that_a_kernel_does_not_take(
    cc: str, message: str, cli: Command, tmp_path: Path
) -> None:
    path = tmp_path / "refused.toml"
    path.write_text(TWO_FLOWS.replace('"cubic-linux"', f"{{ {cc} }}"))
    ended = cli("run", str(path), "--backend", "vm")
    assert ended.returncode == 2
    assert message in ended.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('reorder = { probability = "1 %", delay = "5 ms" }', "netem does this otherwise"),
        (
            'queue.red = { min = "20 kB", max = "60 kB", weight = "0.2 %" }',
            "the nearest is 0.1953 %",
        ),
        (
            'queue.red = { min = "20 packets", max = "60 packets", weight = "0.1953 %" }',
            'say it in bytes, such as "30 kB"',
        ),
        (
            'queue.red = { min = "1 MB", max = "4.2 MB", weight = "0.1953 %" }',
            "at most 4194303 bytes, or a larger weight",
        ),
        (
            'queue.red = { min = "20 kB", max = "60 kB", weight = "0.1953 %", gentle = true }',
            "the kernel's RED is not gentle",
        ),
        (
            'queue.mark = { threshold = "1 ms" }',
            "the machine has no such early signal",
        ),
        ('return = { ack_thinning = "4 packets" }', "netem does this otherwise, or not at all"),
        ('ack_filter = "cake"', "the machine filters ACKs only where no data goes"),
        (
            'return = { rate = "1 Mbit/s", queue = { kind = "codel", size = "9 kB" }, '
            'ack_filter = "cake" }',
            "the machine filters ACKs in droptail or fq_codel",
        ),
        (
            'return = { rate = "1 Mbit/s", ack_filter = "cake", '
            'queue = { kind = "fq_codel", size = "9 kB", quantum = "3000 B" } }',
            "Linux's cake, which filters here, has this fixed",
        ),
        (
            'return = { rate = "1 Mbit/s", queue = { kind = "dualpi2", size = "9 kB" } }',
            "the machine has no such queue",
        ),
        (
            'return = { rate = "1 Gbit/s", queue.size = "9 kB" }',
            "the machine runs no faster than 400 Mbit/s",
        ),
        (
            'return = { rate = "9 kbit/s", queue.size = "9 kB" }',
            "the machine runs no slower than 10 kbit/s",
        ),
    ],
)
def test_what_queues_of_a_kernel_cannot_do_is_refused(
    given: str, message: str, cli: Command, tmp_path: Path
) -> None:
    path = tmp_path / "refused.toml"
    path.write_text(TWO_FLOWS.replace('rtt = "20 ms"', f'rtt = "20 ms"\n{given}', 1))
    ended = cli("run", str(path), "--backend", "vm")
    assert ended.returncode == 2
    assert message in ended.stderr


ONE_FLOW = """\
schema = 1
[run]
duration = "4 s"
record.packets = true
[path]
rate = "10 Mbit/s"
rtt = "20 ms"
queue.size = "8 bdp"
[[flows]]
cc = "cubic-linux"
"""


def test_jitter_of_a_kernel_keeps_the_order(snapshot: str) -> None:
    # A window of five packets fills no queue, so that round trips are the path's: 20 to 30 ms,
    # and up to two packets that one ACK covers, 1.2 ms each.
    text = ONE_FLOW.replace('20 ms"', '20 ms"\njitter = "10 ms"') + 'receive_window = "7500 B"\n'
    run = paceline.run(text, backend="vm")
    trips = run.samples["rtt_ns"].drop_nulls() / 1e6
    assert 20 < float(trips.quantile(0.02) or 0) < 23.5
    assert 28 < float(trips.quantile(0.98) or 0) < 34
    assert run.packets is not None
    for kind in ("send", "deliver"):
        rows = run.packets.filter(pl.col("kind") == kind)
        assert len(rows) > 500
        assert rows["seq_bytes"].is_sorted()


def test_a_burst_leaves_at_the_rate_of_the_link(snapshot: str) -> None:
    # Ten packets of 1500 bytes at 10 Mbit/s, 1.2 ms each, within the guest's own work.
    run = paceline.run(ONE_FLOW.replace('"4 s"', '"60 ms"'), backend="vm")
    assert run.packets is not None
    times = run.packets.filter(pl.col("kind") == "deliver")["t_ns"].head(10)
    gaps = times.diff().drop_nulls()
    assert len(gaps) == 9
    assert gaps.is_between(1_195_000, 1_205_000).all()


def _lost(run: paceline.Run) -> list[int]:
    """Return which packets with data were lost on a path that keeps the order, by their number."""
    assert run.packets is not None
    rows = run.packets.filter(pl.col("len_bytes") > 0).sort("t_ns", maintain_order=True)
    sent = rows.filter(pl.col("kind").is_in(["send", "retransmit"]))["seq_bytes"]
    arrived = iter([*rows.filter(pl.col("kind") == "deliver")["seq_bytes"], None])
    lost, next_ = [], next(arrived)
    for number, packet in enumerate(sent):
        if packet == next_:
            next_ = next(arrived)
        else:
            lost.append(number)
    return lost


@pytest.mark.parametrize(
    "loss",
    ['"1 %"', '{ p = "1 %", r = "30 %", bad = "60 %", good = "0 %" }'],
    ids=["single", "bursts"],
)
def test_a_kernel_loses_the_packets_that_the_simulator_loses(snapshot: str, loss: str) -> None:
    text = ONE_FLOW.replace('rtt = "20 ms"', f'rtt = "20 ms"\nloss = {loss}')
    text = text.replace("cubic-linux", "bbr1") + 'ack = "linux"\n'
    simulated, linux = _lost(paceline.run(text)), _lost(paceline.run(text, backend="vm"))
    # Those still on their way at the end look lost.
    count = len([number for number in simulated if number < 2500])
    assert count > 15
    assert linux[:count] == simulated[:count]


def test_a_kernel_loses_more_after_a_change(snapshot: str) -> None:
    change = '[[events]]\nwhen = "2 s"\npath.loss = "10 %"\n'
    text = ONE_FLOW.replace("cubic-linux", "bbr1") + 'ack = "linux"\n' + change
    run = paceline.run(text, backend="vm")
    assert run.packets is not None
    rows = run.packets.filter(pl.col("len_bytes") > 0)
    # Within the packets on their way at both ends.
    for at, least, most in ((0, -0.02, 0.02), (2, 0.07, 0.13)):
        times = pl.col("t_ns").is_between(at * 10**9 + 50_000_000, at * 10**9 + 1_950_000_000)
        kinds = dict(rows.filter(times).group_by("kind").len().iter_rows())
        sent = kinds["send"] + kinds.get("retransmit", 0)
        assert least <= 1 - kinds["deliver"] / sent <= most


RETURN = '[path.return]\nrate = "100 kbit/s"\nqueue.size = "20 packets"\n'


def test_acks_wait_on_the_return_path_of_a_kernel(snapshot: str) -> None:
    # 52 bytes at 100 kbit/s: an ACK each 4.16 ms, and 21 of them are in the queue or in service.
    text = ONE_FLOW.replace("[[flows]]", f"{RETURN}[[flows]]")
    run = paceline.run(text, backend="vm")
    assert run.packets is not None
    acks = run.packets.filter((pl.col("kind") == "ack") & (pl.col("t_ns") > 2_000_000_000))
    gaps = acks["t_ns"].unique().sort().diff().drop_nulls()
    assert 4.1e6 < statistics.median(gaps.to_list()) < 4.2e6
    back = run.queue.filter(pl.col("link") == 1)
    assert back["backlog_packets"].max() == 20
    assert back["dropped_packets"].to_list()[-1] > 100
    assert set(back["rate_bps"]) == {100_000}
    sent, lost, filtered = _acks(run)
    offered, dropped = (back[f"{what}_packets"].to_list()[-1] for what in ("offered", "dropped"))
    # Those at the end of the run are not known to be lost.
    assert offered == pytest.approx(sent, abs=2)
    assert dropped - 60 < lost <= dropped
    assert filtered == 0
    likely = run.samples.filter(pl.col("t_ns") > 3_000_000_000)["rtt_ns"].median()
    assert isinstance(likely, float)
    assert likely > 20e6 + 20 * 4.16e6


def test_a_kernel_loses_the_acks_that_the_simulator_loses(snapshot: str) -> None:
    # Without a rate nothing waits there. The ACK of the handshake has no row, but counts.
    text = ONE_FLOW.replace("[[flows]]", '[path.return]\nloss = "30 %"\n[[flows]]')
    text = text.replace("cubic-linux", "bbr1") + 'ack = "linux"\n'
    backends: tuple[Literal["sim", "vm"], ...] = ("sim", "vm")
    for backend in backends:
        run = paceline.run(text, backend=backend)
        row = run.queue.filter(pl.col("link") == 1)[-1]
        sent, lost, _ = _acks(run)
        assert row["offered_packets"][0] == pytest.approx(sent, abs=2)
        assert row["dropped_packets"][0] == pytest.approx(lost, abs=15)
        share = row["dropped_packets"][0] / row["offered_packets"][0]
        assert 0.26 < share < 0.34, backend
        assert row["rate_bps"][0] is None


def _acks(run: paceline.Run) -> tuple[int, ...]:
    """Return how many ACKs receivers sent, and how many links lost and filtered."""
    return tuple(
        int(run.flows[f"ack_{what}_packets"].sum()) for what in ("sent", "lost", "filtered")
    )


@pytest.mark.parametrize("kind", ["droptail", "fq_codel"])
@pytest.mark.parametrize("filtering", ["cake", "cake-aggressive"])
def test_a_kernel_filters_acks_as_the_simulator_does(
    snapshot: str, kind: str, filtering: str
) -> None:
    back = RETURN.replace("\n", f'\nack_filter = "{filtering}"\nloss = "5 %"\n', 1)
    text = ONE_FLOW.replace("[[flows]]", f'{back}queue.kind = "{kind}"\n[[flows]]')
    text = text.replace("cubic-linux", "bbr1") + 'ack = "linux"\n'
    simulated, linux = paceline.run(text), paceline.run(text, backend="vm")
    goodput = linux.metrics["goodput_bps"]
    assert goodput == pytest.approx(simulated.metrics["goodput_bps"], rel=0.02)
    (sent, lost, filtered), theirs = _acks(linux), _acks(simulated)
    assert filtered / sent == pytest.approx(theirs[2] / theirs[0], abs=0.03)
    assert filtered / sent > 0.3
    assert 0.03 < lost / (sent - filtered) < 0.07
    dropped = linux.queue.filter(pl.col("link") == 1)["dropped_packets"].to_list()[-1]
    assert 0 <= dropped - lost - filtered < 40


def test_acks_of_an_upload_are_filtered_on_the_way_there(snapshot: str) -> None:
    back = '[path.return]\nrate = "10 Mbit/s"\nqueue.size = "8 bdp"\n'
    text = ONE_FLOW.replace('"10 Mbit/s"', '"100 kbit/s"\nack_filter = "cake"')
    text = text.replace('"8 bdp"', '"20 packets"').replace("[[flows]]", f"{back}[[flows]]")
    run = paceline.run(text + 'direction = "up"\n', backend="vm")
    sent, lost, filtered = _acks(run)
    assert lost == 0
    assert 0.3 < filtered / sent < 0.6
    assert (run.metrics["goodput_bps"] or 0) > 8e6


def test_a_queue_that_cake_would_limit_otherwise(snapshot: str) -> None:
    back = RETURN.replace("20 packets", "2 packets") + 'ack_filter = "cake"\n'
    text = ONE_FLOW.replace("[[flows]]", f"{back}[[flows]]") + "count = 4\n"
    with pytest.raises(paceline.RunError, match=r"more waited than path\.return\.queue\.size"):
        paceline.run(text, backend="vm")


def test_an_upload_shares_the_return_path_of_a_kernel_with_acks(snapshot: str) -> None:
    # An upload of a kernel alone fills the link up; beside a download both lose some.
    back = RETURN.replace("100 kbit", "2 Mbit")
    up = '[[flows]]\ncc = "reno"\ndirection = "up"\n'
    text = ONE_FLOW.replace("[[flows]]", f"{back}[[flows]]")
    for alone in (True, False):
        here = text.split("[[flows]]")[0] + up if alone else text + up
        run = paceline.run(here, backend="vm")
        flow = run.summary["flows"][-1]
        assert flow["goodput_bps"] > (1.7e6 if alone else 0.5e6)
        assert flow["rtt_p50_ns"] > 40e6
        assert run.packets is not None
        rows = run.packets.filter(pl.col("flow") == len(run.summary["flows"]) - 1)
        kinds = dict(rows.group_by("kind").len().iter_rows())
        assert 0 <= kinds["send"] + kinds.get("retransmit", 0) - kinds["deliver"] < 60
        assert kinds["ack"] > 100


def test_a_kernel_serves_packets_of_two_sizes_as_a_link_does(snapshot: str) -> None:
    # A download's ACKs of 52 bytes and an upload's packets of 1500 share 1 Mbit/s, where a full one
    # takes 12 ms. A token bucket takes a packet out of CoDel up to one such time before it leaves.
    path = """
schema = 1
run.duration = "8 s"
[path]
rate = "10 Mbit/s"
rtt = "40 ms"
queue.size = "1 bdp"
[path.return]
rate = "1 Mbit/s"
queue = { kind = "fq_codel", size = "100 packets" }
"""
    hosts = {"sim": 'ack = "linux"\nrecovery = "linux"\ntso_defer = true\n', "vm": ""}
    values: dict[str, list[float]] = {}
    backends: tuple[Literal["sim", "vm"], ...] = ("sim", "vm")
    for backend in backends:
        flow = f'[[flows]]\ncc = "reno-linux"\n{hosts[backend]}'
        run = paceline.run(f'{path}{flow}{flow}direction = "up"\n', backend=backend)
        both = run.summary["flows"]
        values[backend] = [one[key] for one in both for key in ("goodput_bps", "rtt_p50_ns")]
    assert values["vm"] == pytest.approx(values["sim"], rel=0.03)


def test_red_of_a_kernel_drops_before_its_queue_is_full(snapshot: str) -> None:
    red = 'red = { min = "6 kB", max = "30 kB", weight = "1.5625 %", ecn = false }'
    text = ONE_FLOW.replace('queue.size = "8 bdp"', f'queue = {{ size = "200 kB", {red} }}')
    metrics = paceline.run(text, backend="vm").summary["metrics"]
    assert metrics["loss_ratio"] > 0
    assert 6_000 < metrics["queue_max_bytes"] < 100_000


def test_a_file_that_is_no_kernel(cli: Command, tmp_path: Path) -> None:
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("there is no qemu-system-x86_64")
    path = tmp_path / "kernel"
    path.write_text("not a kernel")
    ended = cli("vm", "prepare", "--kernel", str(path))
    assert ended.returncode == 127
    assert "is not a bzImage of Linux" in ended.stderr
    ended = cli("vm", "remove", "zz")
    assert ended.returncode == 2
    assert "0 snapshots are zz" in ended.stderr


def test_without_qemu(cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = cli("vm", "prepare")
    assert ended.returncode == 127
    assert "there is no qemu-system-x86_64" in ended.stderr
    assert "apt install" in ended.stderr
