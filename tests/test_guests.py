"""Controllers of one's own: their input, their decisions, and how they fail."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import paceline
from conftest import Command
from paceline import guests
from paceline.batch import processes

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "controller-python" / "aimd.py"
IN_C = ROOT / "examples" / "controller-c" / "aimd.c"
STACK = ROOT / "examples" / "transport-c" / "fixed.c"
IN_RUST = ROOT / "examples" / "controller-rust" / "src" / "lib.rs"

SCENARIO = """\
schema = 1
run.duration = "6 s"

[path]
rate = "20 Mbit/s"
rtt = "30 ms"
loss = "0.05 %"
queue.size = "1 bdp"

[[flows]]
cc = "mine"

[[flows]]
cc = "cubic"
start = "1 s"
"""


#: A claim about the goodput of the first flow.
CLAIM = """
[[claims]]
id = "X1"
topic = "x"
source = "none"
published = "4 Mbit/s or more"
measured = "mean(base.flows[0].goodput_bps)"
accept = ["mean(base.flows[0].goodput_bps) >= 4000000"]

[claims.cases.base]
scenario = "{scenario}"
"""

#: A library for an interface that is yet to come.
NEWER = """
#include <string.h>
#include "paceline_controller.h"
uint32_t paceline_controller_get(size_t index, struct paceline_controller *out, size_t size) {
    static const struct paceline_controller NEWER = {.abi_version = 99, .table_size = sizeof NEWER};
    memcpy(out, &NEWER, size < sizeof NEWER ? size : sizeof NEWER);
    return index == 0 ? PACELINE_OK : PACELINE_NOT_FOUND;
}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    """Let no test bring a controller to the next."""
    guests.choose(())
    yield
    guests.choose(())


def written(folder: Path, body: str, name: str = "mine.py") -> Path:
    """Write a controller whose methods are `body`."""
    path = folder / name
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    path.write_text(f"import paceline\n\n\nclass Mine(paceline.Controller):\n{lines}\n")
    return path


def compiled(source: Path, path: Path, *more: str) -> Path:
    """Return what the system's C compiler makes of a source."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    include = ["-I", str(ROOT / "crates" / "capi" / "include")]
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    subprocess.run([compiler, *strict, *more, *include, source, "-o", path], check=True)
    return path


def shared(source: Path, path: Path) -> Path:
    return compiled(source, path, "-O2", "-fPIC", "-shared")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared(IN_C, tmp_path_factory.mktemp("lib") / "libaimd.so")


@pytest.fixture(scope="session")
def in_rust() -> Path:
    """Return the example in Rust, built beside the rest."""
    if shutil.which("cargo") is None:
        pytest.skip("there is no cargo")
    target = ROOT / "target" / "controller-rust"
    manifest = IN_RUST.parents[1] / "Cargo.toml"
    command = ["cargo", "build", "--quiet", "--locked", "--manifest-path", str(manifest)]
    subprocess.run(command, check=True, env=os.environ | {"CARGO_TARGET_DIR": str(target)})
    return target / "debug" / "libaimd.so"


def test_the_same_controller_in_three_languages_leaves_the_same_bytes(
    cli: Command, own: Path, library: Path, in_rust: Path, tmp_path: Path
) -> None:
    own.write_text(SCENARIO.replace('"mine"', '{ name = "mine", beta_percent = 70 }'))
    given = {"python": EXAMPLE, "c": library, "rust": in_rust}
    for name, code in given.items():
        out = str(tmp_path / name)
        done = cli("run", str(own), "--controller", f"mine={code}", "--out", out, "--report")
        assert done.returncode == 0, done.stderr
        # It is named wherever its run is shown.
        line = f"mine: {code.name}, {'python' if name == 'python' else 'c'}, SHA-256 "
        line += hashlib.sha256(code.read_bytes()).hexdigest()[:16]
        assert f"Controller {line}" in done.stdout
        assert f"controller {line}" in (tmp_path / name / "report.html").read_text()
    for table in ("samples", "flows", "events", "queue"):
        name = f"{table}.parquet"
        first, *others = [(tmp_path / folder / name).read_bytes() for folder in given]
        assert [other == first for other in others] == [True, True], table
    run = json.loads((tmp_path / "python" / "run.json").read_text())
    assert run["guests"][0]["name"] == "mine"
    assert run["guests"][0]["file"] == "aimd.py"
    assert run["guests"][0]["sha256"] == hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()


def test_a_library_brings_a_stack(cli: Command, own: Path, tmp_path: Path) -> None:
    brought = f"--controller=x={shared(STACK, tmp_path / 'libfixed.so')}"
    stacks = json.loads(cli("list", "stacks", "--json", brought).stdout)["stacks"]
    assert [stack["name"] for stack in stacks] == ["quinn", "noq", "x"]
    own.write_text(SCENARIO.replace('"mine"', '"x:any"'))
    digests = []
    for name in ("one", "two"):
        out = tmp_path / name
        done = cli("run", str(own), brought, "--out", str(out), "--json")
        assert done.returncode == 0, done.stderr
        record = json.loads((out / "run.json").read_text())
        assert record["guests"][0]["file"] == "libfixed.so"
        assert record["flows"][0]["goodput_bps"] > 1e6
        digests.append(hashlib.sha256((out / "samples.parquet").read_bytes()).hexdigest())
    assert digests[0] == digests[1]
    # Nobody brings it.
    done = cli("run", str(own))
    assert (done.returncode, "--controller x=FILE" in done.stderr) == (2, True), done.stderr
    done = cli("run", str(own), brought, "--backend", "vm")
    assert (done.returncode, "the machine's TCP runs" in done.stderr) == (2, True), done.stderr


#: The guests of `make guests`, and a controller of each.
BUILT = {"ngtcp2": "bbr", "picoquic": "bbr", "quiche": "bbr2"}


@pytest.mark.parametrize("name", BUILT)
def test_a_guest_leaves_the_same_bytes_twice(cli: Command, tmp_path: Path, name: str) -> None:
    library = ROOT / "target" / "guests" / f"{name}.so"
    if not library.exists():
        pytest.skip(f"it is not built: make guests GUESTS={name}")
    text = SCENARIO.replace('loss = "0.05 %"\n', "").replace('"mine"', f'"{name}:{BUILT[name]}"')
    (tmp_path / "one.toml").write_text(text)
    digests = []
    for out in ("one", "two"):
        run = ("run", "one.toml", "--controller", f"{name}={library}", "--out", out, "--json")
        done = cli(*run)
        assert done.returncode == 0, done.stderr
        record = json.loads((tmp_path / out / "run.json").read_text())
        digests.append(hashlib.sha256((tmp_path / out / "samples.parquet").read_bytes()))
        assert record["flows"][0]["goodput_bps"] > 4e6
    assert digests[0].digest() == digests[1].digest()
    samples = paceline.Run.read(tmp_path / "one").samples.filter(pl.col("flow") == 0)
    for column in ("cwnd_bytes", "srtt_ns", "min_rtt_ns", "delivered_bytes"):
        assert samples[column][-1] > 0, column
    assert samples["min_rtt_ns"][-1] >= 30e6
    unknown = cli("run", "one.toml", "--set", f"flows.0.cc={name}:none", "--controller", run[3])
    assert (unknown.returncode, "no controller" in unknown.stderr) == (2, True), unknown.stderr


def test_prague_of_a_guest_sends_ect1_and_hears_its_marks(cli: Command, tmp_path: Path) -> None:
    library = ROOT / "target" / "guests" / "picoquic.so"
    if not library.exists():
        pytest.skip("it is not built: make guests GUESTS=picoquic")
    text = SCENARIO.split("[[flows]]")[0].replace('loss = "0.05 %"\n', "")
    text = text.replace('queue.size = "1 bdp"', 'queue = { kind = "dualpi2", size = "2 bdp" }')
    (tmp_path / "one.toml").write_text(text + '[[flows]]\ncc = "picoquic:prague"\n')
    given = ("--controller", f"picoquic={library}")
    done = cli("run", "one.toml", *given, "--out", "one")
    assert done.returncode == 0, done.stderr
    queue = paceline.Run.read(tmp_path / "one").queue
    assert queue["marked_packets"][-1] > 0
    assert queue["dropped_packets"][-1] == 0
    done = cli("run", "one.toml", *given, "--set", "flows.0.cc=picoquic:cubic", "--out", "two")
    assert done.returncode == 0, done.stderr
    # A queue of the Classic kind is filled to its target of 15 ms; one of the L4S kind to 1 ms.
    runs = [paceline.Run.read(tmp_path / name) for name in ("one", "two")]
    delays = [run.metrics["queue_p50_ns"] for run in runs]
    assert (delays[0] or 0) < 1e6 < (delays[1] or 0)


def test_examples_are_short() -> None:
    for source in (EXAMPLE, IN_C, IN_RUST):
        assert len(source.read_text().splitlines()) < 80, source


@pytest.mark.parametrize("watched", ["address", "valgrind"])
def test_the_example_in_c_touches_nothing_but_its_own(tmp_path: Path, watched: str) -> None:
    if watched == "valgrind" and shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program, driver = tmp_path / "drive", str(ROOT / "tests" / "drive_guest.c")
    try:
        compiled(IN_C, program, "-g", "-O1", driver, *(checks if watched == "address" else []))
    except subprocess.CalledProcessError:
        assert watched == "address"
        pytest.skip("the C compiler has no address sanitizer")
    command = [] if watched == "address" else ["valgrind", "--quiet", "--error-exitcode=9"]
    done = subprocess.run([*command, program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "Aimd 1\n"), done.stderr


def test_verbs_that_judge_take_it(cli: Command, tmp_path: Path) -> None:
    body = "def on_ack(self, ack):\n    self.cwnd_bytes += ack.newly_acked_bytes / 10\n"
    body += "def on_recovery_enter(self, now_ns, in_flight_bytes):\n    self.cwnd_bytes *= 0.7\n"
    # Names that the draft's queries use for something else.
    body += 'def state(self):\n    return {"base_rtt_ns": 1, "visit": 2, "cwnd_bytes": 3}'
    mine = f"mine={written(tmp_path, body)}"
    case_id = "07a-app-limited-never-exits-startup"
    done = cli("conformance", "--case", case_id, "--controller", mine, "--json")
    case = json.loads(done.stdout)["cases"][0]
    assert (case["controller"], case["verdict"]) == ("mine", "pass"), done.stderr
    criteria = tmp_path / "criteria"
    criteria.mkdir()
    one = CLAIM.format(scenario=ROOT / "data" / "scenarios" / "evaluate" / "one.toml")
    (criteria / "rfc9743.toml").write_text(one + 'set = { "flows.0.cc" = "{cc}" }\n')
    judged = ("evaluate", "mine", "--quick", "--suite", criteria, "--against", "reno", "--json")
    done = cli(*judged, "--controller", mine)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    matrix = json.loads(done.stdout)["matrix"]
    assert matrix["controllers"] == ["mine", "reno"]
    assert 0 < matrix["share"][0][1] < 1
    assert matrix["share"][0][1] + matrix["share"][1][0] == pytest.approx(1)


def test_it_takes_the_place_of_ours_in_claims(cli: Command, tmp_path: Path) -> None:
    alone = SCENARIO.rpartition("[[flows]]")[0].replace('loss = "0.05 %"\n', "")
    (tmp_path / "one.toml").write_text(alone.replace('"mine"', '"bbr3"'))
    (tmp_path / "claims").mkdir()
    claim = CLAIM.format(scenario=tmp_path / "one.toml")
    (tmp_path / "claims" / "x.toml").write_text(claim)
    path = written(tmp_path, "def on_ack(self, ack):\n    self.cwnd_bytes = 4 * 1448")
    measured = []
    for more in ((), ("--controller", f"bbr3={path}")):
        done = cli("claims", "--claims", tmp_path / "claims", "--json", *more)
        measured.append(json.loads(done.stdout)["claims"][0]["measured"] / 1e6)
    # Four packets of 1,448 bytes, two to an ACK, in 31.2 ms are 1.49 Mbit/s.
    assert measured[0] > 4
    assert measured[1] == pytest.approx(1.49, abs=0.1)


def test_aimd_is_as_good_as_reno() -> None:
    """RFC 5681 without its refinements: within 1 % of reno's goodput where both fill the path."""
    text = SCENARIO.split("[[flows]]")[0].replace('loss = "0.05 %"\n', "")
    text = text.replace('"6 s"', '"30 s"') + '[[flows]]\ncc = "mine"\n'
    example = guests.Guest.parse(f"mine={EXAMPLE}")._class()
    mine = paceline.run(text, controllers={"mine": example})
    reno = paceline.run(text, overrides={"flows.0.cc": "reno"})
    ratio = (mine.metrics["goodput_bps"] or 0) / (reno.metrics["goodput_bps"] or 1)
    assert 0.99 < ratio < 1.01


def test_a_class_hears_each_event_and_sets_each_output() -> None:
    calls: dict[str, int] = {}

    class Mine(paceline.Controller):
        phases = ("Up", "Down")
        ecn = "ect0"

        def __init__(self, config: paceline.Config, gain: float = 1.0, name: str = "x") -> None:
            assert config.mss_bytes == 1448
            assert config.initial_window_bytes == 14_480
            assert (gain, name) == (1.5, "y")
            self.phase = "Up"
            self.config = config
            self.rounds = 0

        def count(self, event: str) -> None:
            calls[event] = calls.get(event, 0) + 1

        def on_ack(self, ack: paceline.Ack) -> None:
            self.count("ack")
            self.rounds += ack.round_start
            assert self.rounds == ack.round_count
            assert ack.delivered_bytes >= ack.newly_acked_bytes
            if ack.rtt_ns is not None:
                assert ack.rtt_ns >= ack.min_rtt_ns >= 30_000_000
            self.cwnd_bytes = min(self.cwnd_bytes + ack.newly_acked_bytes / 2, 400_000.5)
            self.pacing_bps = 25e6

        def on_loss(self, loss: paceline.Loss) -> None:
            self.count("loss")
            assert loss.sent_ns < loss.now_ns
            assert loss.size_bytes <= 1448

        def on_recovery_enter(self, now_ns: int, in_flight_bytes: int) -> None:
            self.count("enter")
            self.phase = "Down"

        def on_recovery_exit(self, now_ns: int) -> None:
            self.count("exit")
            self.phase = "Up"

        def on_send(self, sent: paceline.Sent) -> None:
            self.count("send")

        def state(self) -> dict[str, float | None]:
            return {"rounds": self.rounds, "half_bytes": self.cwnd_bytes / 2, "last_ns": None}

    text = SCENARIO.replace('cc = "mine"', 'cc = { name = "mine", gain = 1.5, name_ = "y" }')
    with pytest.raises(paceline.ScenarioError, match="has no option `name_`"):
        paceline.run(text, controllers={"mine": Mine})
    text = SCENARIO.replace("run.duration", "# two flows\nrun.duration")
    text = text.replace('cc = "mine"', 'cc = { name = "mine", gain = "fast" }')
    with pytest.raises(paceline.ScenarioError, match="`gain` of `mine` takes a number"):
        paceline.run(text, controllers={"mine": Mine})

    class Named(Mine):
        def __init__(self, config: paceline.Config, gain: float = 1.5) -> None:
            super().__init__(config, gain, "y")

    run = paceline.run(SCENARIO, controllers={"mine": Named})
    first = run.samples.filter(pl.col("flow") == 0)
    assert set(calls) == {"ack", "loss", "enter", "exit", "send"}
    assert calls["enter"] == calls["exit"] or calls["enter"] == calls["exit"] + 1
    assert first["cwnd_bytes"].max() == 400_000
    assert first["half_bytes"].max() == 200_000
    assert first["rounds"].is_sorted()
    assert first["rounds"].dtype == pl.Float64
    assert first["last_ns"].null_count() == first.height
    assert first["pacing_bps"].max() == 25_000_000
    assert set(first["phase"].unique()) == {"Up", "Down"}
    # What is declared can be waited for.
    text = SCENARIO + '[[events]]\nwhen = { flow = 0, enters = "Sideways" }\npath.rtt = "40 ms"\n'
    with pytest.raises(paceline.ScenarioError, match="no state `Sideways`; it has `Up`, `Down`"):
        paceline.run(text, controllers={"mine": Named})


BROKEN = {
    "def on_loss(self, loss):\n    pass": "has no on_ack",
    "def on_ack(self, ack):\n    1 / 0": "ZeroDivisionError",
    "def on_ack(self, ack):\n    self.cwnd_bytes = float('nan')": "set cwnd_bytes to nan in on_ack",
    "def on_ack(self, ack):\n    self.cwnd_bytes = -1": "set cwnd_bytes to -1",
    "def on_ack(self, ack):\n    self.cwnd_bytes = 1e30": "set cwnd_bytes to 1e+30",
    "def on_ack(self, ack):\n    self.cwnd_bytes = 'big'": "set cwnd_bytes to 'big'",
    "def on_ack(self, ack):\n    self.ecn = 'ect2'": "set ecn to ect2",
    "def on_ack(self, ack):\n    self.phase = 'Up'": 'set phase to "Up"',
    "def __init__(self, config, gain):\n    pass\ndef on_ack(self, ack):\n    pass": "no default",
    "def __init__(self, config):\n    gone()\ndef on_ack(self, ack):\n    pass": "NameError",
    "def on_ack(self, ack):\n    import os\n    os.kill(os.getpid(), 11)": "signal 11 (SIGSEGV)",
    "def on_ack(self, ack):\n    import os\n    self.cwnd_bytes = 15000 + os.urandom(2)[0] * 256": (
        "decides differently on the same events: cwnd_bytes is first"
    ),
    "def on_ack(self, ack:\n    pass": "SyntaxError",
}


@pytest.mark.parametrize("body", BROKEN)
def test_what_is_wrong_with_a_controller_is_said_before_any_run(
    cli: Command, own: Path, tmp_path: Path, body: str
) -> None:
    path = written(tmp_path, body)
    done = cli("run", str(own), "--controller", f"mine={path}")
    assert done.returncode == 2, done.stderr
    assert BROKEN[body] in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("mine", "takes NAME=FILE"),
        ("mine=nothing.py", "no such file"),
        ("a b=x.py", "takes NAME=FILE"),
        ("mine=text.so", "cannot use the controller"),
        ("mine=empty.py", "no class that is a controller"),
        ("mine=two.py", "has the controllers A, B"),
        ("mine=two.py:C", "has no class C; it has A, B"),
        ("mine=plain.py:Plain", "does not derive from paceline.Controller"),
        ("mine=newer.so", "built for version 99 of the interface"),
        ("mine=other.so", "does not define `paceline_controller_get`"),
    ],
)
def test_what_is_no_controller_is_said(
    cli: Command, own: Path, tmp_path: Path, given: str, message: str
) -> None:
    (tmp_path / "text.so").write_text("no library")
    (tmp_path / "empty.py").write_text("")
    one = "class {}(paceline.Controller):\n    def on_ack(self, ack): pass\n"
    (tmp_path / "two.py").write_text("import paceline\n" + one.format("A") + one.format("B"))
    (tmp_path / "plain.py").write_text("class Plain:\n    def on_ack(self, ack): pass\n")
    if given.endswith(("newer.so", "other.so")):
        (tmp_path / "newer.c").write_text(NEWER)
        (tmp_path / "other.c").write_text("int nothing;\n")
        name = given.removeprefix("mine=")
        shared((tmp_path / name).with_suffix(".c"), tmp_path / name)
    done = cli("run", str(own), "--controller", given)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr


def test_what_fails_later_keeps_the_record_up_to_there(
    cli: Command, own: Path, tmp_path: Path
) -> None:
    path = written(
        tmp_path, "def on_ack(self, ack):\n    if ack.now_ns > 4_000_000_000:\n        [][7]"
    )
    done = cli("run", str(own), "--controller", f"mine={path}", "--out", str(tmp_path / "o"))
    assert done.returncode == 1, done.stderr
    assert "IndexError" in done.stderr
    assert "mine.py" in done.stderr
    run = paceline.Run.read(tmp_path / "o-incomplete")
    assert "IndexError" in (run.incomplete or "")
    last = run.samples["t_ns"].max()
    assert isinstance(last, int)
    assert 4_000_000_000 < last < 4_200_000_000
    assert not (tmp_path / "o").exists()
    # The next attempt replaces it, unless somebody has put something there.
    for limit, name in ((3_600_000_000, "o-incomplete"), (3_200_000_000, "o-incomplete-2")):
        path.write_text(re.sub(r"now_ns > [\d_]+", f"now_ns > {limit}", path.read_text()))
        done = cli("run", str(own), "--controller", f"mine={path}", "--out", str(tmp_path / "o"))
        assert f"the partial run is in {tmp_path / name}" in " ".join(done.stderr.split())
        last = paceline.Run.read(tmp_path / name).samples["t_ns"].max()
        assert isinstance(last, int)
        assert limit < last < limit + 200_000_000
        (tmp_path / "o-incomplete" / "notes.txt").write_text("mine")
    with pytest.raises(paceline.RunError, match="IndexError"):
        paceline.run(SCENARIO, controllers={"mine": guests.Guest.parse(f"mine={path}")._class()})


def test_a_sweep_names_what_failed_and_goes_on(cli: Command, own: Path, tmp_path: Path) -> None:
    own.write_text(
        SCENARIO.replace('"6 s"', '"5 s"')
        + '[sweep.over]\n"path.rtt" = ["10 ms", "30 ms", "50 ms"]\n'
    )
    crash = "import os\nif 29e6 < ack.min_rtt_ns < 31e6 and ack.now_ns > 4e9:\n    os.abort()"
    body = "def on_ack(self, ack):\n" + "\n".join(f"    {line}" for line in crash.splitlines())
    path = written(tmp_path, body)
    done = cli("sweep", str(own), "--controller", f"mine={path}", "--json")
    assert done.returncode == 1, done.stderr
    message = (
        f"1 of 3 runs failed, the first (path.rtt 30 ms, seed 1): the controller `mine` ({path})"
    )
    assert f"{message} crashed: signal 6 (SIGABRT)" in " ".join(done.stderr.split())


#: By the RTT of a cell, in ms, what a controller in C does wrong after 3.5 s of it.
WRONG = """
#include <signal.h>
#include <stdlib.h>
#include <time.h>
static char *volatile kept;
static void misbehave(const struct paceline_ack *ack, uint64_t *window) {
    uint64_t rtt_ms = ack->min_rtt_ns / 1000000;
    if (ack->now_ns < 3500000000u)
        return;
    if (rtt_ms / 10 == 2)
        raise(SIGSEGV);
    /* Not for ever, so that the test ends if nothing else ends them. */
    static int spins = 1, grows = 2000;
    for (time_t begin = time(NULL); rtt_ms / 10 == 3 && spins; spins = time(NULL) - begin < 30) {
    }
    for (; rtt_ms / 10 == 4 && grows > 0; grows--) {
        memset(kept = malloc(1 << 20), 1, 1 << 20);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    if (rtt_ms / 10 == 5)
        *window = (uint64_t)1 << 50;
}
"""


def test_what_a_library_does_wrong_costs_its_own_cell(
    cli: Command, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that crashes, spins, grows or answers nonsense has its own message; the rest go on."""
    text = IN_C.read_text().replace("static void on_ack(", f"{WRONG}\nstatic void on_ack(")
    text = text.replace(
        "    if (ack->ca_state ==", "    misbehave(ack, &aimd->window);\n    if (ack->ca_state =="
    )
    source = tmp_path / "wrong.c"
    source.write_text(f"#define _POSIX_C_SOURCE 200809L\n{text}")
    rtts = ", ".join(f'"{rtt} ms"' for rtt in (10, 20, 30, 40, 50, 60))
    own.write_text(SCENARIO.replace('"6 s"', '"4 s"') + f'[sweep.over]\n"path.rtt" = [{rtts}]\n')
    code = shared(source, tmp_path / "wrong.so")
    monkeypatch.setattr(processes, "_STUCK", 5.0)
    monkeypatch.setattr(processes, "_OWN", 300 << 20)
    given = ("--controller", f"mine={code}", "--memory", "300 MB", "--jobs", 2)
    done = cli("sweep", str(own), *given, "--out", "s")
    assert done.returncode == 1, done.stderr
    sweep = paceline.Sweep.read("s")
    errors = dict(sweep.runs.select("path.rtt", "error").rows())
    library = f"the library `mine` ({code})"
    assert [rtt for rtt, error in errors.items() if error is None] == ["10 ms", "60 ms"]
    assert errors["20 ms"] == f"{library} crashed: signal 11 (SIGSEGV)"
    # The time of the last event before it.
    stuck, at = errors["30 ms"].removeprefix(f"{library} did not return for ").split(", ")
    assert (stuck, 3.4 < float(at.split()[0]) < 3.6) == ("5 s of CPU time", True)
    assert errors["40 ms"].startswith(f"{library} took ")
    assert errors["40 ms"].endswith(" of its process; see --memory")
    assert errors["50 ms"].startswith("`mine` has set cwnd_bytes to 1125899906842624: ")


def test_an_endless_loop_hears_ctrl_c(own: Path, tmp_path: Path) -> None:
    body = "def on_ack(self, ack):\n    while ack.now_ns > 4_000_000_000:\n        pass"
    path = written(tmp_path, body)
    command = [sys.executable, "-m", "paceline", "run", str(own), "--controller", f"mine={path}"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    time.sleep(6)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in output


def test_an_endless_loop_in_a_class_hears_ctrl_c_too(own: Path, tmp_path: Path) -> None:
    code = f"""
import os, signal, threading, paceline
class Mine(paceline.Controller):
    def on_ack(self, ack):
        if ack.now_ns > 1_000_000_000:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            while True:
                pass
try:
    paceline.run({str(own)!r}, controllers={{"mine": Mine}})
except KeyboardInterrupt:
    print("heard")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "heard\n"), done.stderr


def test_other_code_is_another_run(cli: Command, own: Path, tmp_path: Path) -> None:
    grow = "def on_ack(self, ack):\n    self.cwnd_bytes = {}"
    folders = []
    for window in (40_000, 50_000):
        path = written(tmp_path, grow.format(window))
        done = cli("run", str(own), "--controller", f"mine={path}", "--json")
        assert done.returncode == 0, done.stderr
        folders.append(json.loads(done.stdout)["out"])
    assert folders[0] != folders[1]
    # Without it the name says nothing.
    done = cli("run", str(own))
    assert done.returncode == 2
    assert "--controller mine=FILE adds your own" in done.stderr
