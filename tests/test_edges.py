"""What events, applications and records do at their edges."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import paceline
from conftest import Command
from paceline import guests
from paceline.errors import ScenarioError, UnavailableError

if TYPE_CHECKING:
    from paceline._paceline import Backend

HEAD = """schema = 1
[run]
duration = "3 s"
[path]
rate = "10 Mbit/s"
rtt = "20 ms"
queue.size = "2 bdp"
"""

#: Each workload, and one that an event sets.
APPS = {
    "bulk": '"bulk"',
    "size": '{ size = "20 MB" }',
    "rate": '{ rate = "2 Mbit/s" }',
    "on/off": '{ on = "300 ms", off = "200 ms" }',
    "on/off with a rate": '{ on = "300 ms", off = "200 ms", rate = "3 Mbit/s" }',
}
CHANGES = {"pause": '"pause"', "resume": '"resume"', **APPS, "size": '{ size = "100 kB" }'}
#: Each key of the path, with a change that every flow feels.
PATH = {
    "rate": 'rate = "1 Mbit/s"',
    "rtt": 'rtt = "60 ms"',
    "loss": 'loss = "30 %"',
    "drop": 'drop = "20 packets"',
    "hold": 'hold = { packets = 20, delay = "100 ms" }',
    "reorder": 'reorder = { probability = "30 %", delay = "30 ms" }',
    "duplicate": 'duplicate = "30 %"',
    "jitter": 'jitter = "30 ms"',
    "policer": 'policer = { rate = "500 kbit/s", burst = "3 kB" }',
    "aggregation": 'aggregation = "50 ms"',
    "grant_delay": 'grant_delay = "50 ms"',
    "ack_thinning": 'ack_thinning = "4 packets"',
    "ack_filter": 'ack_filter = "cake"',
}
#: The keys that the kernel in the virtual machine does not have.
ACKS_ALONE = {"ack_thinning", "ack_filter"}
NOT_IN_VM = {"drop", "hold", "reorder", "policer", "aggregation", "grant_delay"} | ACKS_ALONE
#: The keys that each engine does not have.
MISSING = {"sim": set[str](), "emu": set[str](), "vm": NOT_IN_VM}


def flows(app: str, more: str = "") -> str:
    # A kernel's TCP has classic marks, and headers of 52 bytes.
    return f'[[flows]]\ncc = "reno"\napp = {APPS[app]}\n{more}'


def event(what: str) -> str:
    return f'[[events]]\nwhen = "1 s"\n{what}\n'


def problem_keys(text: str, backend: Backend = "sim") -> list[str]:
    """Return the keys of what an engine refuses."""
    try:
        guests.check(text, "x.toml", [], backend=backend)
    except ScenarioError as error:
        return [str(problem.key) for problem in error.diagnostics]
    except UnavailableError:
        pass  # The machine lacks something, which is looked at last.
    return []


def tables(run: paceline.Run) -> dict[str, Any]:
    """Return the tables that depend on what the flows do, and not on which rows are recorded."""
    return {
        name: frame.to_dict(as_series=False)
        for name, frame in (("flows", run.flows), ("queue", run.queue))
    }


def test_the_table_has_every_key_of_events() -> None:
    schema = json.loads(paceline.schema())["$defs"]
    path = set(schema["PathChange"]["properties"]) - {"link", "return"}
    assert path == set(PATH)
    # A key of links is one in both directions.
    both = path - {"rtt"}
    assert set(schema["ReturnChange"]["properties"]) == both
    of_link = both - {"drop", "hold"} | {"queue"}
    assert set(schema["ReturnSection"]["properties"]) == of_link
    assert set(schema["FlowChange"]["properties"]) == {"flow", "app"}
    assert set(schema["Event"]["properties"]) == {"when", "for", "path", "flow"}


@pytest.mark.parametrize("backend", ["sim", "emu", "vm"])
@pytest.mark.parametrize("app", APPS)
def test_each_event_acts_or_is_refused(app: str, backend: Backend) -> None:
    """Refused before anything runs, whatever the engine; the next test shows that others act."""
    plain = HEAD + flows(app)
    assert problem_keys(plain, backend) == []
    for key, change in PATH.items():
        keys = problem_keys(plain + event(f"path = {{ {change} }}"), backend)
        missing = key in MISSING[backend]
        assert keys == ([f"events[0].path.{key}"] if missing else []), key
    for change, written in CHANGES.items():
        keys = problem_keys(plain + event(f"flow = {{ flow = 0, app = {written} }}"), backend)
        # All of its data is handed over when it starts.
        assert keys == (["events[0].flow.app"] if app == "size" else []), change


@pytest.mark.parametrize("app", APPS)
def test_each_event_that_is_accepted_changes_the_run(app: str) -> None:
    plain = HEAD.replace("[run]\n", "[run]\nrecord.packets = true\n") + flows(app)

    def packets(text: str) -> Any:
        return paceline.run(text).packets.to_dict(as_series=False)

    without = packets(plain)
    for key, change in PATH.items():
        if key in ACKS_ALONE:
            continue  # ACKs come back another way
        text = plain + event(f"path = {{ {change} }}")
        assert packets(text) != without, key
    for change, written in CHANGES.items():
        if app == "size" or change in ("resume", app):
            continue  # refused, or what the flow does already
        text = plain + event(f"flow = {{ flow = 0, app = {written} }}")
        assert packets(text) != without, change
    if app not in ("size", "rate"):
        # To stop for longer than the run is to stop.
        until = HEAD + flows(app) + event('flow = { flow = 0, app = "pause" }')
        paused = paceline.run(until).samples
        late = paused.filter(paused["t_ns"] >= 1_200_000_000)["goodput_bytes"]
        assert late.n_unique() == 1


def test_each_key_of_a_link_acts_on_its_return_direction() -> None:
    back = '[path.return]\nrate = "1 Mbit/s"\nqueue.size = "20 packets"\n'
    plain = HEAD.replace("[run]\n", "[run]\nrecord.packets = true\n") + back + flows("bulk")
    without = paceline.run(plain).packets.to_dict(as_series=False)
    for key, change in PATH.items():
        if key == "rtt":
            continue
        if key in ACKS_ALONE:
            change = f'{change}, rate = "100 kbit/s"'
        change = change.replace("1 Mbit/s", "100 kbit/s").replace("500 kbit", "50 kbit")
        run = paceline.run(plain + event(f"path.return = {{ {change} }}"))
        assert run.packets.to_dict(as_series=False) != without, key
        changes = run.events.filter(run.events["kind"].cast(str) == "change")
        assert set(changes["link"]) == {1}, key
        filtered = run.flows["ack_filtered_packets"].sum()
        assert (filtered > 0) == (key in ACKS_ALONE), key
        expected = ["events[0].path.return"]
        text = HEAD + flows("bulk") + event(f"path.return = {{ {change} }}")
        assert problem_keys(text) == expected
        keys = problem_keys(plain + event(f"path.return = {{ {change} }}"), "vm")
        beyond = key not in {"rate", "loss", "duplicate", "jitter"}
        assert keys == [f"events[0].path.return.{key}"] * beyond


@pytest.mark.parametrize("stack", ["quinn", "noq"])
def test_acks_of_quic_are_encrypted(stack: str) -> None:
    back = '[path.return]\nrate = "100 kbit/s"\nqueue.size = "20 packets"\n'
    text = HEAD + back + f'[[flows]]\ncc = "reno"\nstack = "{stack}"\n'
    plain = paceline.run(text)
    boxes = {"path.return.ack_filter": "cake", "path.return.ack_thinning": "4 packets"}
    filtered = paceline.run(text, overrides=boxes)
    assert tables(filtered) == tables(plain)
    assert int(plain.flows["ack_sent_packets"][0]) > 100
    assert int(filtered.flows["ack_filtered_packets"][0]) == 0


@pytest.mark.parametrize("stack", ["", 'stack = "quinn"\n', 'stack = "noq"\n'])
def test_a_size_after_bulk_data(stack: str) -> None:
    """Our own stack knows when the last of it is delivered; a QUIC stack does not report it."""
    text = (
        HEAD
        + f'[[flows]]\ncc = "reno"\n{stack}'
        + event('flow = { flow = 0, app = { size = "100 kB" } }')
    )
    if stack:
        assert problem_keys(text) == ["events[0].flow.app"]
        return
    run = paceline.run(text)
    finish = run.flows["finish_ns"][0]
    assert 1_000_000_000 < finish < 1_500_000_000
    # A size after a rate is known everywhere.
    assert problem_keys(text.replace('cc = "reno"\n', f'cc = "reno"\napp = {APPS["rate"]}\n')) == []


@pytest.mark.parametrize(
    ("flow", "events", "keys"),
    [
        # A download that is paused before it starts begins when it resumes.
        ('app = { size = "1 MB" }\nstart = "2 s"\n', ["pause"], []),
        ('app = { size = "1 MB" }\nstart = "1 s"\n', ["pause"], ["events[0].flow.app"]),
        ('stop = "1 s"\n', ["pause"], ["events[0].flow.app"]),
        ('stop = "1001 ms"\n', ["pause"], []),
        ("", [{"size": "1 MB"}, "pause"], ["events[1].flow.app"]),
        ("", ["pause", {"size": "1 MB"}, "resume"], []),
        ("", ["pause", {"size": "1 MB"}, "resume", "pause"], ["events[3].flow.app"]),
    ],
)
def test_changes_of_a_flow_that_cannot_act(flow: str, events: list[Any], keys: list[str]) -> None:
    text = HEAD + f'[[flows]]\ncc = "reno"\n{flow}'
    for number, app in enumerate(events):
        written = '{ size = "1 MB" }' if isinstance(app, dict) else f'"{app}"'
        text += f'[[events]]\nwhen = "{1000 + number} ms"\nflow = {{ flow = 0, app = {written} }}\n'
    assert problem_keys(text) == keys


def test_data_handed_over_for_a_while_cannot_be_taken_back() -> None:
    text = HEAD + '[[flows]]\ncc = "reno"\n[[events]]\nwhen = "1 s"\nfor = "1 s"\n'
    assert problem_keys(text + 'flow = { flow = 0, app = { size = "1 MB" } }\n') == [
        "events[0].flow.app"
    ]
    assert problem_keys(text + 'flow = { flow = 0, app = { rate = "1 Mbit/s" } }\n') == []


def test_a_round_trip_that_an_event_sets_keeps_the_rule_of_the_start() -> None:
    link = '[[links]]\nname = "b"\nrate = "10 Mbit/s"\ndelay = "8 ms"\nqueue.size = "1 bdp"\n'
    flow = '[[flows]]\ncc = "reno"\nroute = ["bottleneck", "b"]\n'
    for rtt, keys in [("15 ms", ["events[0].path.rtt"]), ("16 ms", [])]:
        assert problem_keys(HEAD + link + flow + event(f'path.rtt = "{rtt}"')) == keys
        # As from the start.
        there = bool(problem_keys((HEAD + link + flow).replace('rtt = "20 ms"', f'rtt = "{rtt}"')))
        assert there == bool(keys)
    own = '[[flows]]\ncc = "reno"\nrtt = "30 ms"\n'
    assert problem_keys(HEAD + own + event('path.rtt = "40 ms"')) == ["events[0].path.rtt"]
    assert problem_keys(HEAD + own + flows("bulk") + event('path.rtt = "40 ms"')) == []


def test_the_emulators_fastest_rate_holds_for_changes_in_percent() -> None:
    fast = HEAD.replace("10 Mbit/s", "600 Mbit/s") + flows("bulk")
    assert problem_keys(fast, "emu") == []
    assert problem_keys(fast + event('path.rate = "+900 %"'), "emu") == ["events[0].path.rate"]
    assert problem_keys(fast + event('path.rate = "-10 %"'), "emu") == []


def test_an_application_with_a_rate_in_its_on_phases_keeps_to_it() -> None:
    """64 kbit/s for 50 ms of each second are 400 bytes."""
    text = HEAD.replace('"3 s"', '"20 s"') + (
        '[[flows]]\ncc = "cubic"\napp = { on = "50 ms", off = "950 ms", rate = "64 kbit/s" }\n'
    )
    run = paceline.run(text)
    assert run.flows["goodput_bytes"][0] == 20 * 400


def ledger(text: str) -> dict[str, Any]:
    run = paceline.run(text)
    return {
        "metrics": run.metrics,
        "flows": [
            {name: value for name, value in flow.items() if name != "state_ns"}
            for flow in run.flow_metrics
        ],
        "tables": tables(run),
        "notes": run.summary.get("notes"),
    }


@pytest.mark.parametrize(
    "path",
    [
        # Rounds that fall on the rows at 10 ms, ACKs in slots, losses, and a queue that marks.
        'rate = "10 Mbit/s"\nrtt = "20 ms"\nqueue.size = "1 bdp"\naggregation = "20 ms"\n',
        'rate = "12 Mbit/s"\nrtt = "10 ms"\nqueue.size = "2 bdp"\nreturn.aggregation = "10 ms"\n',
        'rate = "20 Mbit/s"\nrtt = "33 ms"\nqueue = { kind = "codel", size = "4 bdp" }\n'
        'loss = "1 %"\n',
    ],
)
@pytest.mark.parametrize("interval", ["", 'sample_interval = "7 ms"\n'])
def test_what_is_recorded_changes_nothing_that_is_measured(path: str, interval: str) -> None:
    text = f"""schema = 1
[run]
duration = "4 s"
{interval}
[path]
{path}
[[flows]]
cc = "bbr1"
[[flows]]
cc = "cubic"
start = "330 ms"
stop = "3500 ms"
[[flows]]
cc = "bbr3"
start = "1015 ms"
app = {{ size = "200 kB" }}
[[flows]]
cc = "reno"
stack = "quinn"
start = "505 ms"
[[events]]
when = "2 s"
path.rate = "-50 %"
"""
    keys = json.loads(paceline.schema())["$defs"]["RecordSection"]["properties"]
    without = ledger(text)
    assert without["metrics"]["rtt_p50_ns"]
    assert without["metrics"]["full_rate_ns"]
    for count in range(1, len(keys) + 1):
        for chosen in itertools.combinations(sorted(keys), count):
            values = (f"{key} = {str(not keys[key].get('default')).lower()}" for key in chosen)
            record = f"record = {{ {', '.join(values)} }}\n"
            assert ledger(text.replace("[run]\n", f"[run]\n{record}")) == without, chosen


def test_how_often_rows_are_recorded_changes_nothing_that_happens() -> None:
    """Percentiles are over rows; totals and maxima are not."""
    exact = ["goodput_bps", "retransmit_ratio", "rto_count", "loss_ratio", "queue_max_bytes"]
    text = HEAD.replace("[path]\n", '[path]\nloss = "1 %"\n') + flows("bulk") + flows("size")
    digests = []
    for interval in ("10 ms", "7 ms", "1 ms", "1 s"):
        head = f'[run]\nsample_interval = "{interval}"\n'
        run = paceline.run(text.replace("[run]\n", head))
        metrics = {name: run.metrics[name] for name in exact}
        digests.append((run.flows.to_dict(as_series=False), metrics))
    assert all(one == digests[0] for one in digests)


def note(text: str) -> list[str]:
    notes: list[str] = paceline.run(text).summary.get("notes", [])
    return notes


def test_a_loss_in_the_ramp_of_ledbat_is_told_and_may_keep_the_window() -> None:
    """An outage of 2 s in the ramp after the first slowdown, at 20 Mbit/s and 264 ms."""
    text = """schema = 1
[run]
duration = "40 s"
[path]
rate = "20 Mbit/s"
rtt = "264 ms"
queue.size = "1 bdp"
[[flows]]
cc = "ledbat++"
[[events]]
when = "4 s"
for = "2 s"
path.loss = "100 %"
"""
    keeps = '{ name = "ledbat++", loss_in_slowdown = "threshold" }'
    lost, kept = paceline.run(text), paceline.run(text.replace('"ledbat++"', keeps))

    def late(run: paceline.Run) -> float:
        """Return the rate from 20 s on in Mbit/s."""
        goodput = run.samples.filter(run.samples["t_ns"] >= 20_000_000_000)["goodput_bytes"]
        return float(goodput[-1] - goodput[0]) * 8 / 20e6

    assert late(lost) < 3
    assert 8 < late(kept) < 10
    (message,) = lost.summary["notes"]
    assert 'cc.loss_in_slowdown = "threshold" halves the window before' in message
    assert "notes" not in kept.summary


def test_a_receiver_that_hands_over_nothing_is_told() -> None:
    """noq's receiver stops, while its link stays full."""
    text = """schema = 1
[run]
duration = "15 s"
[path]
rate = "50 Mbit/s"
rtt = "300 ms"
queue.size = "1 bdp"
[[flows]]
cc = "noq:cubic"
"""
    (message,) = note(text)
    assert message.startswith("The receiver of flow 0 (noq:cubic) hands over nothing from")
    assert note(text.replace("noq:cubic", "quinn:cubic")) == []


def test_a_flow_that_moves_nothing_is_told() -> None:
    """After an outage of 2.5 s the next retransmission timeout is a second away."""
    outage = '[[events]]\nwhen = "1 s"\nfor = "2500 ms"\npath.rate = "0 bit/s"\n'
    text = HEAD.replace('"3 s"', '"8 s"') + flows("bulk")
    assert note(text) == []
    lost = outage.replace('rate = "0 bit/s"', 'loss = "100 %"')
    (message,) = note(text + lost)
    assert message.startswith("Flow 0 (reno) moves nothing for ")
    assert "although it has data to send" in message
    # A pause, and a phase of silence, are the application's.
    assert note(text + event('flow = { flow = 0, app = "pause" }')) == []
    assert note(text.replace(APPS["bulk"], '{ on = "1 s", off = "3 s" }')) == []


def test_the_command_prints_notes_and_the_json_has_them(cli: Command, tmp_path: Path) -> None:
    text = HEAD.replace('"3 s"', '"8 s"') + flows("bulk")
    text += '[[events]]\nwhen = "1 s"\nfor = "2500 ms"\npath.loss = "100 %"\n'
    (tmp_path / "x.toml").write_text(text)
    shown = cli("run", "x.toml", "--out", "one").stdout
    assert "Flow 0 (reno) moves nothing for" in shown
    value = json.loads(cli("run", "x.toml", "--out", "one", "--json").stdout)
    assert len(value["notes"]) == 1
    assert json.loads((tmp_path / "one" / "run.json").read_text())["notes"] == value["notes"]
    twice = json.loads(cli("run", "x.toml", "--repeats", 2, "--out", "two", "--json").stdout)
    assert [note[:7] for note in twice["notes"]] == ["Seed 1:", "Seed 2:"]


#: Each key of flows with a value other than its default.
FLOW_KEYS = {
    "crypto": 'crypto = "tls"',
    "timer_slack": 'timer_slack = "2 ms"',
    "gso": "gso = true",
    "ack_frequency": 'ack_frequency = "10 packets"',
    "count": "count = 2",
    "start": 'start = "100 ms"',
    "start_jitter": 'start_jitter = "50 ms"',
    "stagger": 'stagger = "100 ms"',
    "stop": 'stop = "2 s"',
    "rtt": 'rtt = "30 ms"',
    "route": 'route = ["bottleneck", "b"]',
    "direction": 'direction = "up"',
    "return_route": 'return_route = ["b"]',
    "app": 'app = { rate = "1 Mbit/s" }',
    "initial_window": 'initial_window = "3 packets"',
    "ack": 'ack.every = "4 packets"',
    "recovery": 'recovery.kind = "newreno"',
    "host": 'host.send = "1 ms"',
    "ecn": 'ecn = "dctcp"',
    "receive_window": 'receive_window = "20 kB"',
    "header": 'header = "100 B"',
    "ets": "ets = true",
    "max_burst": 'max_burst = "1500 B"',
    "tso_defer": "tso_defer = true",
    "label": 'label = "x"',
}
#: Of a transport that a QUIC stack brings itself.
OWN = {"ack", "recovery", "ecn", "ets", "max_burst", "tso_defer"}
QUIC = {"crypto", "timer_slack", "gso", "ack_frequency"}
#: What flows run, and the keys that are refused there.
STACKS = {
    'cc = "reno"': QUIC | {"max_burst"},
    'cc = { name = "reno", pacing = true }': QUIC,
    'cc = "bbr3"': QUIC,
    'cc = "reno"\nstack = "quinn"': OWN,
    'cc = "quinn:cubic"': OWN | {"initial_window"},
    'cc = "noq:cubic"': OWN | {"initial_window"},
}
#: A name; protection, which takes no time; marks, whose report matters to controllers that ask for
#: marks; a clock, to those that ask for delays; a stagger, which needs several flows.
ACTS_ELSEWHERE = {"label", "crypto", "ecn", "ets", "stagger"}


@pytest.mark.parametrize("stack", STACKS)
def test_each_key_of_a_flow_acts_or_is_refused(stack: str) -> None:
    schema = json.loads(paceline.schema())["$defs"]["FlowGroup"]["properties"]
    assert schema.keys() - {"cc", "stack"} == FLOW_KEYS.keys()
    text = HEAD.replace("[run]\n", "[run]\nrecord.packets = true\n")
    # Fast enough for bursts.
    text = text.replace("10 Mbit/s", "100 Mbit/s").replace("[path]\n", '[path]\nloss = "0.01 %"\n')
    text += '[path.return]\nrate = "50 Mbit/s"\nqueue.size = "1 bdp"\n'
    text += '[[links]]\nname = "b"\nrate = "90 Mbit/s"\nqueue.size = "1 bdp"\n'
    text += f'return.jitter = "1 ms"\n[[flows]]\n{stack}\n'
    without = paceline.run(text).packets.to_dict(as_series=False)
    for key, written in FLOW_KEYS.items():
        # A nested key is refused by its section.
        keys = {
            name.removeprefix("flows[0].").split(".")[0] for name in problem_keys(text + written)
        }
        assert keys == ({key} if key in STACKS[stack] else set()), key
        # noq's pacer releases its packets one by one at this rate.
        alone = key == "gso" and "noq" in stack
        if not (keys or alone or key in ACTS_ELSEWHERE):
            changed = paceline.run(text + written).packets.to_dict(as_series=False)
            assert changed != without, key


def test_a_burst_of_zero_is_the_controllers() -> None:
    """So that a comparison of controllers may set it for some of them."""
    text = HEAD + '[[flows]]\ncc = "cubic"\n'
    assert paceline.run(text).digest == paceline.run(text + 'max_burst = "0 B"\n').digest
    assert problem_keys(text + 'max_burst = "1500 B"\n') == ["flows[0].max_burst"]
