"""``run --backend emu`` and ``doctor``: real time, TCP and QUIC, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import paceline
from conftest import Command, lacking, until

ROOT = Path(__file__).parents[1]

#: Loose bounds: whether this machine is quiet is not what is tested.
SCENARIO = """\
schema = 1

[run]
duration = "2.5 s"

[run.emulation]
lateness_p99 = "1 s"
added_delay = "1 s"
rate_error = "100 %"
stalled = "100 %"
answer_max = "60 s"

[path]
rate = "10 Mbit/s"
rtt = "40 ms"
queue = { size = "1 bdp" }

[[flows]]
cc = "cubic"

[[flows]]
cc = "reno"
rtt = "60 ms"
start = "300 ms"
app = { size = "100 kB" }

[[events]]
when = "1.5 s"
path.rate = "5 Mbit/s"
"""


@pytest.fixture(scope="module", autouse=True)
def _able() -> None:
    if why := lacking(("cubic", "reno")):
        pytest.skip(f"this machine cannot emulate: {why}")


@pytest.fixture(scope="module")
def emulated() -> paceline.Run:
    return paceline.run(SCENARIO, backend="emu")


def test_bytes_flow_and_the_base_rtt_is_not_below_what_was_asked(emulated: paceline.Run) -> None:
    assert emulated.backend == "emu"
    assert [flow["cc"] for flow in emulated.flow_metrics] == ["cubic", "reno"]
    base = [40e6, 60e6]
    for flow, rtt in zip(emulated.flows.iter_rows(named=True), base, strict=True):
        assert flow["goodput_bytes"] >= 100_000
        rows = emulated.samples.filter(flow=flow["flow"])
        assert min(_column(rows, "rtt_ns")) >= rtt
        assert min(_column(rows, "min_rtt_ns")) >= rtt
        # Of full segments. How far it grows depends on the machine's load.
        assert all(window > 0 and window % 1448 == 0 for window in _column(rows, "cwnd_bytes"))
    reno = emulated.flows.row(1, named=True)
    assert reno["goodput_bytes"] == 100_000
    assert reno["finish_ns"] > 300_000_000
    rates = emulated.queue["rate_bps"].unique(maintain_order=True).to_list()
    assert rates == [10_000_000, 5_000_000]
    delivered = max(_column(emulated.queue, "delivered_bytes"))
    # Neither more nor faster than the link lets through.
    assert delivered <= 1.01 * max(_column(emulated.queue, "capacity_bytes"))
    # The queue holds one BDP behind the packet in transmission.
    assert max(_column(emulated.queue, "peak_bytes")) <= 50_000 + 1500


def test_the_tables_are_those_of_the_simulator(emulated: paceline.Run) -> None:
    simulated = paceline.run(SCENARIO)
    for name in ("flows", "queue", "events"):
        assert getattr(emulated, name).schema == getattr(simulated, name).schema
    ours, theirs = emulated.samples.schema, simulated.samples.schema
    own = ["ssthresh_bytes"]
    common = {k: v for k, v in theirs.items() if k in ours}
    assert {k: v for k, v in ours.items() if k in theirs} == common
    assert set(common) >= {*theirs.names()[:17], *own}
    assert emulated.metrics.keys() == simulated.metrics.keys()
    kinds = set(emulated.events["kind"].cast(str))
    assert kinds >= {"start", "established", "state", "finish", "change"}
    assert "rate" in set(emulated.events["key"].cast(str))
    assert emulated.flows["tlp_count"].null_count() == emulated.flows.height


def test_it_knows_its_own_error_also_when_read_back(emulated: paceline.Run, tmp_path: Path) -> None:
    emulation = emulated.emulation
    assert emulation is not None
    assert emulation["trusted"]
    assert emulation["lateness"]["count"] > 100
    assert emulation["ingest"]["count"] > 0
    assert 0 < emulation["lateness"]["p50_ns"] <= emulation["lateness"]["max_ns"]
    assert emulation["rate_achieved_bps"] > 0
    emulated.write(tmp_path / "run")
    assert paceline.Run.read(tmp_path / "run").emulation == emulation
    assert "Do not trust this run" not in emulated.report(tmp_path / "report.html").read_text()


@pytest.mark.parametrize("window", ["64 kB", "200 kB"])
def test_a_flow_is_limited_by_its_receivers_window(window: str) -> None:
    # Linux forgets the window that a program asks for as the buffer grows; 200 kB were 262 kB.
    overrides = {
        "path.rate": "20 Mbit/s",
        "path.rtt": "200 ms",
        "flows": f'[{{ cc = "reno", receive_window = "{window}" }}]',
        "events": "[]",
    }
    emulated = paceline.run(SCENARIO, backend="emu", overrides=overrides)
    simulated = paceline.run(SCENARIO, overrides=overrides)
    most = max(_column(simulated.samples, "in_flight_bytes"))
    assert max(_column(emulated.samples, "in_flight_bytes")) == pytest.approx(most, abs=1448)
    assert emulated.metrics["goodput_bps"] == pytest.approx(
        simulated.metrics["goodput_bps"], rel=0.1
    )


def test_packets_are_recorded_where_they_enter_and_leave_the_path() -> None:
    overrides = {"run.record.packets": True, "run.duration": "2 s"}
    run = paceline.run(SCENARIO, backend="emu", overrides=overrides)
    packets = run.packets.filter(flow=1)
    sent = packets.filter(kind="send")
    assert _column(sent, "seq_bytes") == sorted(_column(sent, "seq_bytes"))
    assert sum(_column(sent, "len_bytes")) == 100_000
    first = min(_column(sent, "t_ns"))
    assert max(_column(packets.filter(kind="ack"), "seq_bytes")) >= 100_000
    assert first <= min(_column(packets.filter(kind="deliver"), "t_ns")) - 20_000_000


def test_marks_take_the_place_of_drops_where_flows_ask_for_ecn() -> None:
    marking = {"path.queue.mark": '{ threshold = "20 kB" }', "path.queue.size": '"1 MB"'}
    ecn = {"flows.0.cc": '{ name = "cubic", ecn = true }', "flows.0.ecn": "classic"}
    overrides = {**marking, **ecn, "run.duration": "2 s", "events": "[]"}
    run = paceline.run(SCENARIO, backend="emu", overrides=overrides)
    assert max(_column(run.queue, "marked_packets")) > 0
    assert max(_column(run.queue, "dropped_packets")) == 0
    kinds = _column(run.events.filter(flow=0, kind="recovery"), "detail")
    assert "CWR" in kinds


#: A bulk flow of a QUIC stack for 2 s, one that sends 100 kB from 0.5 s on, and TCP beside them.
STACKS = """[
    { stack = "STACK", cc = "bbr3", stop = "2 s" },
    { stack = "STACK", cc = "STACK:cubic", app.size = "100 kB", start = "0.5 s", rtt = "60 ms" },
    { cc = "cubic", start = "1 s" },
]"""


def test_acks_cross_the_return_direction_and_are_counted() -> None:
    """In both engines the link carries what receivers send, less what it loses."""
    back = '[path.return]\nrate = "1 Mbit/s"\nqueue.size = "20 packets"\nloss = "20 %"\n'
    back += 'aggregation = "5 ms"\n'
    text = SCENARIO.replace("[[flows]]", back + "[[flows]]", 1)
    for backend in ("sim", "emu"):
        run = paceline.run(text, backend=backend)
        assert set(run.queue["link"]) == {0, 1}
        sent, lost, filtered = (
            int(run.flows[f"ack_{what}_packets"].sum()) for what in ("sent", "lost", "filtered")
        )
        offered = run.queue.filter(link=1)["offered_packets"].to_list()
        assert (offered[-1], filtered) == (sent, 0)
        assert 0.1 < lost / sent < 0.35
        goodput = run.metrics["goodput_bps"]
        assert goodput is not None
        assert goodput > 1e6


def test_acks_are_filtered_by_their_headers_and_have_their_fate() -> None:
    back = '[path.return]\nrate = "50 kbit/s"\nqueue.size = "20 packets"\nack_filter = "cake"\n'
    text = SCENARIO.replace("[[flows]]", f'{back}loss = "5 %"\n[[flows]]', 1)
    run = paceline.run(text, backend="emu", overrides={"run.record.packets": True})
    sent, lost, filtered = (
        int(run.flows[f"ack_{what}_packets"].sum()) for what in ("sent", "lost", "filtered")
    )
    assert 0.2 < filtered / sent < 0.9
    for kind, count in (("ack-drop", lost), ("ack-filter", filtered)):
        # A SYN-ACK is no ACK.
        missing = count - run.packets.filter(kind=kind).height
        assert 0 <= missing <= run.flows.height, kind


def test_an_upload_takes_the_return_direction() -> None:
    text = SCENARIO.replace(
        "[[flows]]", '[path.return]\nrate = "2 Mbit/s"\nqueue.size = "1 bdp"\n[[flows]]', 1
    )
    run = paceline.run(
        text.replace('cc = "cubic"\n', 'cc = "cubic"\ndirection = "up"\n'), backend="emu"
    )
    assert 0.5e6 < run.flow_metrics[0]["goodput_bps"] < 2e6


@pytest.mark.parametrize("stack", ["quinn", "noq"])
def test_quic_stacks_run_over_sockets_and_fill_the_tables_of_the_simulator(
    stack: str, tmp_path: Path
) -> None:
    record = {"run.record.packets": True, "run.record.qlog": True}
    overrides = {"flows": STACKS.replace("STACK", stack), **record}
    emulated = paceline.run(SCENARIO, backend="emu", overrides=overrides)
    simulated = paceline.run(SCENARIO, overrides=overrides)
    for name in ("flows", "queue", "events"):
        assert getattr(emulated, name).schema == getattr(simulated, name).schema

    quic, theirs = emulated.samples.filter(flow=0), simulated.samples.filter(flow=0)
    empty = {name for name in theirs.columns if theirs[name].null_count() == theirs.height}
    known = [name for name in theirs.columns if name not in empty]
    assert set(known) >= {"cwnd_bytes", "rtt_ns", "pacing_bps", "delivery_bps", "phase"}
    assert all(_column(quic, name) for name in known)
    assert min(_column(quic, "rtt_ns")) >= 40e6
    assert min(_column(emulated.samples.filter(flow=1), "min_rtt_ns")) >= 60e6
    phases = _column(quic, "phase")
    assert phases[0] == "Startup"
    assert phases[-1].startswith("ProbeBW_")

    bulk, sized, tcp = emulated.flows.iter_rows(named=True)
    assert bulk["goodput_bytes"] > 500_000
    assert bulk["sent_packets"] * 1472 > bulk["goodput_bytes"]
    assert bulk["rto_count"] is None
    assert tcp["rto_count"] is not None
    assert sized["goodput_bytes"] == 100_000
    assert sized["finish_ns"] > 620e6
    kinds = [_column(run.events.filter(flow=1), "kind") for run in (emulated, simulated)]
    assert kinds == [["start", "finish"]] * 2
    assert "stop" in _column(emulated.events.filter(flow=0), "kind")
    assert emulated.emulation is not None
    assert [f["kernel_cc"] for f in emulated.emulation["flows"]] == [None, None, "cubic"]

    # Each datagram by its number, all but the last on their way delivered or dropped.
    packets = emulated.packets.filter(flow=1)
    sent, delivered = (_column(packets.filter(kind=k), "seq_bytes") for k in ("send", "deliver"))
    assert sent == list(range(len(sent)))
    assert set(delivered) <= set(sent)
    assert set(_column(packets.filter(kind="send"), "len_bytes")) <= set(range(1, 1473))

    # The stacks' own logs, as in the simulator: one for each flow of theirs.
    logs = []
    for run, name in ((emulated, "emulated"), (simulated, "simulated")):
        run.write(tmp_path / name)
        logs.append({file.name: file for file in (tmp_path / name).glob("*.sqlog")})
    assert set(logs[0]) == set(logs[1]) == {"stack-0.sqlog", "stack-1.sqlog"}
    for number, flow in ((0, bulk), (1, sized)):
        read = paceline.Run.capture(logs[0][f"stack-{number}.sqlog"])
        (logged,) = read.flows.iter_rows(named=True)
        assert logged["sent_packets"] == pytest.approx(flow["sent_packets"], rel=0.05, abs=5)


def test_a_stack_of_a_library_runs_over_sockets_with_its_options(
    cli: Command, tmp_path: Path
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library, source = tmp_path / "libfixed.so", ROOT / "examples" / "transport-c" / "fixed.c"
    flags = ["-O2", "-fPIC", "-shared", "-I", str(ROOT / "crates" / "capi" / "include")]
    subprocess.run([compiler, *flags, source, "-o", library], check=True)
    file = tmp_path / "own.toml"
    head = SCENARIO.partition("[[flows]]")[0]
    file.write_text(f'{head}[[flows]]\ncc = {{ name = "x:any", window = 20 }}\n')
    goodput = {}
    for backend in ("sim", "emu"):
        out = tmp_path / backend
        brought = ("--controller", f"x={library}", "--backend", backend)
        done = cli("run", file, *brought, "--out", out, "--json")
        assert done.returncode == 0, done.stderr
        run = json.loads((out / "run.json").read_text())
        assert [guest["file"] for guest in run["guests"]] == ["libfixed.so"]
        goodput[backend] = run["flows"][0]["goodput_bps"]
    # 20 datagrams in a round trip, which a busy machine makes longer; its default window of 64
    # would fill the link.
    assert goodput["sim"] == pytest.approx(20 * 1472 * 8 / 0.04, rel=0.15)
    assert 0 < goodput["emu"] < 1.1 * goodput["sim"]


def test_a_quic_stack_hears_of_marks_over_sockets() -> None:
    flow = '{ stack = "quinn", cc = { name = "cubic", ecn = true } }'
    marking = {"path.queue.mark": '{ threshold = "20 kB" }', "path.queue.size": '"1 MB"'}
    overrides = {**marking, "flows": f"[{flow}]", "run.duration": "2 s", "events": "[]"}
    run = paceline.run(SCENARIO, backend="emu", overrides=overrides)
    assert max(_column(run.queue, "marked_packets")) > 0
    assert max(_column(run.queue, "dropped_packets")) == 0
    # It was never notified of a loss, and keeps the queue near where marks begin.
    assert _column(run.flows, "lost_packets") == [0]
    assert max(_column(run.queue, "backlog_bytes")[-20:]) < 120_000


def test_beyond_the_bounds_the_record_is_kept_and_the_exit_code_says_so(
    cli: Command, tmp_path: Path
) -> None:
    file = tmp_path / "tight.toml"
    file.write_text(SCENARIO.replace('lateness_p99 = "1 s"', 'lateness_p99 = "1 ns"'))
    options = ("--backend", "emu", "--set", "run.duration=1 s", "--report", "--out", "kept")
    result = cli("run", file, *options, "--set", "events=[]", "--json")
    assert result.returncode == 1
    assert "exceeded its bounds" in result.stderr
    answer = json.loads(result.stdout)
    assert answer["backend"] == "emu"
    assert [b["figure"] for b in answer["emulation"]["beyond"]] == ["lateness_p99_ns"]
    assert paceline.Run.read(tmp_path / "kept").emulation == answer["emulation"]
    assert "Do not trust this run" in (tmp_path / "kept" / "report.html").read_text()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("flows[0].recovery=newreno", "recovers from loss"),
        ('flows[0].recovery={ kind = "linux", undo = false }', "recovers from loss"),
        ("flows[0].cc.hystart=true", "takes no options"),
        ('flows[0].cc={ name = "cubic", ecn = true }', "RFC 3168"),
        ("flows[0].max_burst=3 kB", "sends at once"),
        ("path.rate=2 Gbit/s", "no faster than"),
        ('events[0].when={ flow = 0, enters = "Recovery" }', "soon enough"),
        ("run.record.rounds=true", "its rounds"),
        ("flows[0].ack.comp_sack_delay=2 ms", "acknowledges"),
        ('flows[0]={ stack = "noq", cc = "cubic", header = "40 B" }', "IPv4 and UDP"),
        ('flows[0]={ stack = "quinn", cc = "quinn:cubik" }', "has no controller"),
        ('flows[0]={ stack = "quinn", cc = "noq:bbr3" }', "on flows of noq alone"),
    ],
)
def test_what_cannot_be_emulated_is_said_before_the_run(
    cli: Command, tmp_path: Path, setting: str, message: str
) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(SCENARIO)
    result = cli("run", file, "--backend", "emu", "--set", setting, "--json")
    assert result.returncode == 2, result.stdout
    error = json.loads(result.stdout)["error"]
    assert error["hint"]
    assert message in error["message"]
    assert not (tmp_path / "runs").exists()


def test_a_controller_that_the_kernel_lacks_is_unavailable(cli: Command, tmp_path: Path) -> None:
    file = tmp_path / "ledbat.toml"
    file.write_text(SCENARIO)
    result = cli("run", file, "--backend", "emu", "--set", "flows[0].cc=ledbat++", "--json")
    assert result.returncode == 127
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "unavailable"
    assert "`ledbat++`" in error["message"]
    assert "`cubic`" in error["message"]


def test_doctor_finds_what_this_machine_has(cli: Command) -> None:
    result = cli("doctor", "--quick", "--json")
    assert result.returncode == 0
    report = json.loads(result.stdout)
    assert report["able"]
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["kernel"]["found"] == os.uname().release
    assert checks["TUN devices"]["state"] == "good"
    assert all((c["fix"] is None) == (c["state"] == "good") for c in report["checks"])
    assert "rates" not in report


def _processes(tag: str) -> Iterator[Path]:
    """Yield the processes whose command line has `tag`: the command's, and its child's."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_text(errors="replace")
            if tag in line and process.name != str(os.getpid()):
                yield process
        except OSError:
            continue


def _namespaces(tag: str) -> set[str]:
    """Return the network namespaces of the threads and the descriptors of those processes."""
    namespaces = set()
    for process in _processes(tag):
        for link in [*process.glob("task/*/ns/net"), *process.glob("fd/*")]:
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("net:"):
                namespaces.add(target)
    return namespaces - {os.readlink("/proc/self/ns/net")}


def _machine() -> dict[str, Any]:
    """Return all of the machine's own that an emulated run might have changed."""
    settings = {}
    for path in sorted(Path("/proc/sys/net").rglob("*")):
        try:
            settings[str(path)] = path.read_text() if path.is_file() else ""
        except OSError:
            continue
    # These change by themselves, or when a test beside this one loads a controller.
    own = ("nf_conntrack_count", "_congestion_control")
    settings = {k: v for k, v in settings.items() if not any(word in k for word in own)}
    netns = Path("/run/netns")
    return {
        "links": [line.split(":")[0] for line in Path("/proc/net/dev").read_text().splitlines()],
        "routes": Path("/proc/net/route").read_text(),
        "mounts": [
            line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "nsfs" in line
        ],
        "netns": sorted(os.listdir(netns)) if netns.is_dir() else [],
        "settings": settings,
    }


def _column(frame: pl.DataFrame, name: str) -> list[Any]:
    """Return what stands in a column, but for what is absent."""
    return frame[name].drop_nulls().to_list()


def _children() -> list[str]:
    """Return the children of this process, whichever of its threads began them."""
    return [
        pid
        for each in Path("/proc/self/task").glob("*/children")
        for pid in each.read_text().split()
    ]


@pytest.mark.parametrize("how", ["success", "error", "SIGINT", "SIGTERM", "SIGKILL"])
def test_nothing_is_left_behind(tmp_path: Path, how: str) -> None:
    file = tmp_path / "run.toml"
    duration = "1 s" if how in ("success", "error") else "60 s"
    tight = '"1 ns"' if how == "error" else '"1 s"'
    text = SCENARIO.replace('"2.5 s"', f'"{duration}"').replace(
        'lateness_p99 = "1 s"', f"lateness_p99 = {tight}"
    )
    file.write_text(text.partition("[[events]]")[0])
    before = _machine()
    command = [sys.executable, "-m", "paceline", "run", str(file), "--backend", "emu"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    tag = str(file)
    assert until(lambda: len(_namespaces(tag)) == 2), "the hosts' namespaces were not seen"
    if how.startswith("SIG"):
        # As a terminal would: Ctrl-C goes to all, the others to the command alone.
        number = signal.Signals[how]
        (os.killpg if how == "SIGINT" else os.kill)(process.pid, number)
    expected = {"success": 0, "error": 1, "SIGINT": 130, "SIGTERM": 143, "SIGKILL": -9}
    assert process.wait(timeout=60) == expected[how]
    assert until(lambda: not list(_processes(tag))), "a process was left behind"
    assert _namespaces(tag) == set()
    assert _machine() == before


#: Run by root, as a user without any rights, who may be unable to read the packages: a first run
#: loads what runs need. The process stays one that may be looked at, as a user's own is.
AS_NOBODY = """
import ctypes, json, os, sys
import paceline.runs
# Nobody may read no more modules: all are loaded before.
run = paceline.run(sys.argv[1], backend="emu", overrides={"run.duration": "1 s"})
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
run = paceline.run(sys.argv[1], backend="emu", overrides={"run.duration": "1 s"})
print(json.dumps([os.getuid(), run.metrics["goodput_bps"], run.emulation]))
"""


def test_it_needs_no_root(emulated: paceline.Run) -> None:
    if os.getuid() != 0:
        # All the other tests have shown it.
        assert emulated.emulation
        assert emulated.emulation["user_namespace"]
        return
    if not os.stat("/dev/net/tun").st_mode & 0o002:
        pytest.skip("/dev/net/tun is for root alone on this machine")
    text = SCENARIO.partition("[[events]]")[0]
    process = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, text], capture_output=True, text=True, check=True
    )
    uid, goodput, interfaces = json.loads(process.stdout)
    assert (uid, interfaces["user_namespace"], interfaces["real_time"]) == (65534, True, False)
    assert goodput > 1e6


def test_time_does_not_pass_while_the_path_cannot_run(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    text = SCENARIO.replace('"2.5 s"', '"1.5 s"').partition("[[events]]")[0]
    file.write_text(text.replace('stalled = "100 %"', 'stalled = "1 %"'))
    with (tmp_path / "said.json").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "paceline", "run", str(file), "--backend", "emu", "--json"],
            cwd=tmp_path,
            stdout=output,
            start_new_session=True,
        )
    # A run that is not to be trusted is repeated: each one is delayed.
    held_up = {process.pid}
    while process.poll() is None:
        ready = len(_namespaces(str(file))) == 2
        paths = {int(p.name) for p in _processes(str(file))} - held_up if ready else set()
        for path in paths:
            held_up.add(path)
            time.sleep(0.5)
            os.kill(path, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(path, signal.SIGCONT)
        time.sleep(0.02)
    assert len(held_up) == 5, "the run itself, three repeats, and who asked for them"
    figures = json.loads((tmp_path / "said.json").read_text())["emulation"]
    # Loose, as the machine may be busy: most of the stop was no time of the run.
    assert figures["stalls"]["max_ns"] > 0.2e9
    assert figures["stalls"]["total_ns"] >= figures["stalls"]["max_ns"]
    assert "stalled_ratio" in [b["figure"] for b in figures["beyond"]]
    assert process.returncode == 1


CLAIM = """
[[claims]]
id = "X1"
topic = "t"
source = "s"
published = "p"
measured = "mean(real.goodput_bps)"
accept = ["mean(real.goodput_bps) > 1000000"]
seeds = 3
cases.real = { scenario = "../run.toml", backend = "emu" }
"""


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    """Return a folder of claims with a claim of three emulated runs."""
    (tmp_path / "run.toml").write_text(SCENARIO)
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "x.toml").write_text(CLAIM)
    return tmp_path / "claims"


def test_claims_are_emulated_side_by_side(cli: Command, claims: Path) -> None:
    result = cli("claims", "--backend", "emu", "--json", "--quiet")
    answer = json.loads(result.stdout)
    assert answer["emulated"] == {"runs": 3, "repeated": 0, "broken": {}}
    assert answer["claims"][0]["verdict"] == "reproduced"


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_nothing_is_left_of_several(claims: Path, how: str) -> None:
    file = claims.parent / "run.toml"
    file.write_text(SCENARIO.replace('"2.5 s"', '"60 s"'))
    command = [sys.executable, "-m", "paceline", "claims", "--backend", "emu", "--jobs", "3"]
    process = subprocess.Popen(
        [*command, "--claims", str(claims)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    tag = str(claims)
    assert until(lambda: len(_namespaces(tag)) == 6), "the namespaces of three were not seen"
    number = signal.Signals[how]
    (os.killpg if how == "SIGINT" else os.kill)(process.pid, number)
    assert process.wait(timeout=60) == (130 if how == "SIGINT" else -9)
    assert until(lambda: not list(_processes(tag))), "a process was left behind"
    assert _namespaces(tag) == set()


@pytest.mark.parametrize("stack", ["quinn", "noq"])
def test_no_round_trip_is_shorter_than_its_path_on_a_machine_that_stands_still(stack: str) -> None:
    def stop(_: paceline.Progress) -> None:
        # Often for each report: a busy machine has few reports. The child may end meanwhile.
        for each, pid in ((each, int(pid)) for pid in _children() for each in range(12)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.008)
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.003 * (each % 4))

    overrides = {"flows": STACKS.replace("STACK", stack)}
    run = paceline.run(SCENARIO, backend="emu", overrides=overrides, progress=stop)
    assert run.emulation is not None
    assert run.emulation["stalls"]["count"] > 20
    for flow, least in ((0, 40e6), (1, 60e6)):
        samples = run.samples.filter(flow=flow).drop_nulls("rtt_ns")
        assert min(_column(samples, "rtt_ns")) >= least
        assert min(_column(samples, "min_rtt_ns")) >= least


def test_from_python_an_interrupt_ends_the_child_at_once() -> None:
    def stop(state: paceline.Progress) -> None:
        if state.simulated_ns > 200_000_000:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        paceline.run(SCENARIO, backend="emu", overrides={"run.duration": "60 s"}, progress=stop)
    states = [
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in _children()
    ]
    assert "Z" not in states


def test_recovery_scripts_are_played_to_the_kernel(cli: Command, tmp_path: Path) -> None:
    """What the kernel sends is what it sent when the traces were recorded."""
    folder = Path(__file__).parent.parent / "data" / "conformance" / "linux-recovery"
    names = [f"recovery/{name}" for name in ("loss-one", "tail-one", "newreno-one")]
    played = tmp_path / "played"
    result = cli(
        "conformance",
        "--case",
        *names,
        "--recovery",
        folder,
        "--live",
        "--record",
        played,
        "--json",
    )
    cases = json.loads(result.stdout)["cases"]
    assert [case["verdict"] for case in cases] == ["pass", "pass", "pass"]
    assert result.returncode == 0
    assert {trace.name for trace in played.iterdir()} == {"loss.txt", "tail.txt", "newreno.txt"}
    for trace in played.iterdir():
        head, _, *lines = trace.read_text().splitlines()
        recorded = (folder / trace.name).read_text().partition(f"{head}\n")[2].partition("\n[")[0]
        expected = recorded.splitlines()[1:]
        assert [line.split()[1] for line in lines] == [line.split()[1] for line in expected]
