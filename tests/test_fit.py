"""``paceline fit``: paths drawn at random are found, and what cannot be known is not guessed."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paceline
from captures import Capture
from conftest import Command
from fitting import Compared, FitResult, capture, draw, find
from paceline.cli.verbs.fit import described
from paceline.quantities import duration_ns, exact_time, size_bytes
from paceline.reading import toml
from paceline.study import fit as study
from paceline.study.conformance import packets
from paceline.study.fit import estimates, observed, parameters
from paceline.study.fit.models import Model
from paceline.study.fit.returns import ack_interval

#: Each model, also with a change of the rate; `tests/fitting.py` has many more.
OWN = (1, 3, 4, 7, 9, 13, 30, 32)
#: Both ends, merged or not, with and without timestamps and handshakes.
CAPTURED = (8, 13, 20, 28, 29)


def test_paths_that_were_drawn_are_found_and_intervals_hold() -> None:
    results: list[FitResult] = []
    for seed in OWN:
        drawn = draw(seed)
        results.append(find(drawn, paceline.run(drawn.text, seed=seed)))
    for seed in CAPTURED:
        drawn = draw(seed, captured=True)
        captured = capture(seed, drawn)[0]
        assert ack_interval(captured) is None
        results.append(find(drawn, captured))
    assert sum(one.right for one in results) >= len(results) - 1, results
    compared = [each for one in results for each in one.compared]
    sure = [one for one in compared if one.is_interval]
    assert len(sure) > 2 * len(results)
    assert sum(one.holds for one in sure) >= 0.9 * len(sure), [str(o) for o in sure if not o.holds]
    # A bound is one.
    assert all(one.holds for one in compared if not one.is_interval), compared
    for name, most in (("rate", 0.03), ("rtt", 0.05)):
        widths = [one.width for one in sure if one.name == name]
        assert np.median(widths) < most


@pytest.mark.parametrize(
    ("seed", "is_captured", "of"),
    [
        # The rate changes, and what waited for the old one is not counted with the new one.
        (325, False, "queue"),
        (354, False, "queue"),
        # A queue that is full for less than a sample.
        (369, False, "queue"),
        # An ACK ends within a merged segment.
        (1006, True, "queue"),
        # The bucket was full between losses.
        (329, False, "police_bps"),
        (362, False, "police_bps"),
        # After the change it is the queue that loses packets.
        (380, True, "police_bps"),
        # Two ACKs in one tick of the timestamps' clock.
        (391, True, "rtt"),
        # The queue is never empty, and the first handshake is missing.
        (365, True, "rtt"),
        (450, True, "rtt"),
        (425, True, "rtt"),
    ],
)
def test_an_interval_that_once_was_wrong_holds(seed: int, is_captured: bool, of: str) -> None:
    drawn = draw(seed, captured=is_captured)
    run = capture(seed, drawn)[0] if is_captured else paceline.run(drawn.text, seed=seed)
    record = study.observe(run)
    path = estimates.estimate(record)
    policer = parameters.policer(record, path)
    estimated = {"rtt": (drawn.rtt, path.rtt), "queue": (drawn.size, path.backlog)}
    if policer is not None and drawn.kind == "policer":
        estimated["police_bps"] = (drawn.parameters["police_bps"], policer[0])
    compared = Compared(of, *estimated[of])
    assert compared.holds, str(compared)


@pytest.mark.parametrize("seed", [0, 1, 10, 11])
def test_the_end_of_a_capture_is_known_without_handshake_and_timestamps(
    seed: int, tmp_path: Path
) -> None:
    drawn = draw(seed, captured=True)
    run = paceline.run(drawn.text.replace("[[flows]]", '[[flows]]\nheader = "40 B"'), seed=seed)
    for end in ("sender", "receiver"):
        for merged in (False, True):
            Capture(end, merged, timestamps=False, opened=False).write(run, tmp_path / "one.pcap")
            read = paceline.Run.capture(tmp_path / "one.pcap")
            assert read.source is not None
            notes = [note for note in read.source["notes"] if "at their receiver" in note]
            assert bool(notes) == (end == "receiver"), read.source


def test_a_held_interval_is_what_it_says() -> None:
    estimate = study.Estimate(10.0, 9.0, 12.0)
    assert Compared("rate", 9.0, estimate).holds
    assert not Compared("rate", 8.9, estimate).holds
    assert not Compared("rate", 12.1, estimate).holds
    assert Compared("rate", 10.0, estimate).width == pytest.approx(0.3)
    assert Compared("rate", 1e9, study.Estimate(10.0, 9.0)).holds
    assert not Compared("rate", 1e9, study.Estimate(10.0, 9.0)).is_interval


UPLOAD = """\
schema = 1
[run]
duration = "20 s"
record = { packets = true }
[path]
rate = "6 Mbit/s"
rtt = "40 ms"
queue = { size = "1 bdp" }
loss = "0.3 %"
[[flows]]
cc = "cubic"
"""


def test_a_lossy_upload_that_was_captured_is_fitted_as_its_own_record(tmp_path: Path) -> None:
    run = paceline.run(UPLOAD)
    Capture().write(run, tmp_path / "up.pcap")
    own, captured = (
        study.fit(run),
        study.fit(paceline.Run.capture(tmp_path / "up.pcap"), cc="cubic"),
    )
    assert own.judged[0].model.name == captured.judged[0].model.name == "droptail+random"
    for fitted in (own, captured):
        rate, loss = fitted.stretches[0].rate, fitted.parameters["loss_ratio"]
        assert rate.value == pytest.approx(6e6, rel=0.003)
        assert rate.low is not None
        assert rate.high is not None
        assert rate.low <= 6e6 <= rate.high < 1.02 * rate.low
        assert loss.low is not None
        assert loss.high is not None
        assert loss.low <= 0.003 <= loss.high
        # 1 BDP is 30 kB.
        assert fitted.size.low is not None
        assert fitted.size.high is not None
        assert fitted.size.low <= 30e3 <= fitted.size.high
    assert captured.stretches[0].rate.value == pytest.approx(own.stretches[0].rate.value, rel=1e-3)


def test_times_of_a_scenario_are_exact(tmp_path: Path) -> None:
    times = {0: "0 ns", 7: "7 ns", 1_500_000: "1.5 ms", 1_100 * 10**9: "1100 s", 10**10 + 1: ""}
    for time, text in times.items():
        assert duration_ns(exact_time(time)) == time
        assert exact_time(time) == text or not text
    Capture().write(paceline.run(UPLOAD.replace("20 s", "3 s")), tmp_path / "up.pcap")
    fitted = study.fit(paceline.Run.capture(tmp_path / "up.pcap"), cc="cubic")
    length = toml(fitted.text)["run"]["duration"]
    assert duration_ns(length) == round(fitted.observed.duration * 1e9)
    assert len(length) > len("3.000 s")


def test_a_flow_that_breaks_a_check_is_not_called_alike() -> None:
    def judged(name: str, verdict: str) -> packets.Judged:
        return packets.Judged(name, 0.76, [{"id": "one", "verdict": verdict}], packets=None)  # type: ignore[arg-type]

    assert packets.alike([judged("bbr1", "broken"), judged("reno", "cannot be told")]) == ["reno"]


def test_controllers_are_guessed_if_the_one_of_the_packets_is_not_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = UPLOAD.replace('loss = "0.3 %"', "").replace("1 bdp", "4 bdp")
    Capture().write(paceline.run(text), tmp_path / "up.pcap")
    monkeypatch.setattr(packets, "alike", lambda _: ["bbr1"])
    fitted = study.fit(paceline.Run.capture(tmp_path / "up.pcap"))
    assert fitted.guess in ("cubic", "cubic-linux")
    assert any("With the controller that packets show, no" in note for note in fitted.notes)


def test_the_interval_of_a_share_is_wilsons_and_wider_for_bursts() -> None:
    # 26 of 3131 by hand: z = 1.96, the middle is (0.8304 % + 0.0613 %) / 1.001227 = 0.8907 %, and
    # the half 1.96 * sqrt(2.630e-6 + 0.098e-6) / 1.001227 = 0.3233 %.
    share = parameters._wilson(26, 3131)
    assert share.value == pytest.approx(0.008304, rel=1e-3)
    assert share.low == pytest.approx(0.005674, rel=2e-3)
    assert share.high == pytest.approx(0.012140, rel=2e-3)
    assert parameters._wilson(0, 1000).low == 0.0


def test_bytes_are_covered_once_by_cumulative_and_selective_acknowledgments() -> None:
    rows = [
        (1, "ack", 100, 0),  # 100
        (2, "ack", 100, 0),  # 200 to 300: 200
        (2, "sack", 200, 100),
        (3, "ack", 100, 0),  # 200 to 400, in two blocks of which one repeats: 300
        (3, "sack", 300, 100),
        (3, "sack", 200, 100),
        (4, "ack", 250, 0),  # up to 250, and 250 to 400: 400
        (5, "ack", 500, 0),
    ]
    packets = pl.DataFrame(
        rows, schema=["t_ns", "kind", "seq_bytes", "len_bytes"], orient="row"
    ).with_columns(pl.col("t_ns") * 1_000_000_000)
    times = np.array([0.5, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert list(observed.covered(packets, times)) == [0, 100, 200, 300, 400, 500]


IPERF3 = {
    "start": {
        "connected": [{"socket": 5, "local_host": "10.0.0.1", "local_port": 1}],
        "test_start": {"protocol": "TCP"},
        "tcp_mss_default": 1448,
    },
    "intervals": [
        {
            "streams": [
                {
                    "socket": 5,
                    "start": n,
                    "end": n + 1,
                    "bytes": 1_250_000,
                    "retransmits": int(n == 3),
                }
                | {"rtt": 40_000, "sender": True}
            ]
        }
        for n in range(9)
    ],
    "end": {"sender_tcp_congestion": "cubic"},
}


def test_packets_that_nobody_counted_are_not_zero(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(IPERF3))
    assert cli("import", "one.json", "--out", "read").returncode == 0
    result = cli("fit", "read", "--json")
    assert result.returncode == 0, result.stderr
    # 11.25 MB are 7769 packets; one was sent again.
    lost = json.loads(result.stdout)["measured"]["lost_ratio"]
    assert lost == pytest.approx(1 / 7770, rel=0.01)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("timestamps", [False, True])
def test_a_capture_at_the_receiver_gives_no_rtt_that_is_none(
    tmp_path: Path, merged: bool, timestamps: bool
) -> None:
    run = paceline.run(UPLOAD, overrides={"run.duration": "5 s"})
    Capture("receiver", merged, timestamps).write(run, tmp_path / "down.pcap")
    captured = paceline.Run.capture(tmp_path / "down.pcap")
    if not timestamps and captured.flows["base_rtt_ns"][0] == 0:
        with pytest.raises(study.UnfitError, match="RTT"):
            study.fit(captured, cc="cubic")
        return
    fitted = study.fit(captured, cc="cubic")
    assert fitted.rtt.value == pytest.approx(40e-3, rel=0.01)
    assert fitted.stretches[0].rate.value == pytest.approx(6e6, rel=0.01)


def test_a_flow_that_its_application_limits_does_not_cost_more_than_it_sent(tmp_path: Path) -> None:
    limited = UPLOAD.replace("6 Mbit/s", "100 Mbit/s") + 'app = { on = "0.1 s", off = "2 s" }\n'
    run = paceline.run(limited)
    Capture().write(run, tmp_path / "calls.pcap")
    fitted = study.fit(paceline.Run.capture(tmp_path / "calls.pcap"), cc="cubic")
    sent = float(run.flows["goodput_bytes"][0])
    for one in fitted.judged:
        assert float(one.observed.delivered[-1]) < 1.7 * sent


SLOW = """\
schema = 1
[run]
duration = "10 s"
record = { packets = true }
[path]
rate = "20 Mbit/s"
rtt = "40 ms"
queue.size = "1 bdp"
[path.return]
rate = "200 kbit/s"
queue.size = "50 packets"
[[flows]]
cc = "cubic"
"""


def test_a_slow_return_path_that_drops_acks_is_recognised(tmp_path: Path) -> None:
    run = paceline.run(SLOW)
    assert ack_interval(run) == pytest.approx(52 * 8 / 200e3, rel=0.01)
    Capture().write(run, tmp_path / "up.pcap")
    captured = paceline.Run.capture(tmp_path / "up.pcap")
    assert ack_interval(captured) == pytest.approx(52 * 8 / 200e3, rel=0.01)
    for recorded in (run, captured):
        fitted = study.fit(recorded)
        note = next(note for note in fitted.notes if "return path is slow" in note)
        assert "2.080 ms apart" in note
        assert "(200.0 kbit/s if" in note
        path = tomllib.loads(fitted.text)["path"]
        assert path["return"]["rate"] == "200.0 kbit/s"
        assert int(path["return"]["queue"]["size"].removesuffix(" packets")) in range(45, 60)
        assert fitted.rtt.value == pytest.approx(0.04, rel=0.02)
        assert fitted.judged[0].distance < 0.15
        answer = described("run", None, fitted)
        assert answer["return_rate_bps"] == pytest.approx(200e3, rel=0.01)
        assert f"{answer['return_queue_packets']} packets" == path["return"]["queue"]["size"]


def test_a_return_path_that_is_not_recognised_is_not_in_the_scenario() -> None:
    fitted = study.fit(paceline.run(SLOW, overrides={"flows.0.cc": "bbr3"}))
    assert fitted.path.back is None
    answer = described("run", None, fitted)
    assert (answer["return_rate_bps"], answer["return_queue_packets"]) == (None, None)
    assert "return" not in tomllib.loads(fitted.text)["path"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        # Without drops it is like a slow forward path.
        ("flows.0.cc", "bbr3"),
        ("path.return.rate", "10 Mbit/s"),
        ("path.return.ack_thinning", "4 packets"),
        ("path.return.aggregation", "3 ms"),
        ("path.loss", "1 %"),
        ("path.aggregation", "5 ms"),
        ("flows.0.count", 2),
    ],
)
def test_even_acks_of_another_cause_are_no_slow_return_path(key: str, value: object) -> None:
    fast = {} if key == "flows.0.cc" else {"path.return.rate": "10 Mbit/s"}
    assert ack_interval(paceline.run(SLOW, overrides={**fast, key: value})) is None


QUIET = """\
schema = 1
[run]
duration = "5 s"
[path]
rate = "50 Mbit/s"
rtt = "40 ms"
queue = { size = "1 bdp" }
[[flows]]
cc = "cubic"
app.size = "100 kB"
"""


def test_a_burst_of_which_only_a_bound_is_seen_is_searched() -> None:
    path = 'rate = "100 Mbit/s", rtt = "30 ms", queue = { size = "1 bdp" }'
    text = f"""
        schema = 1
        run = {{ duration = "20 s" }}
        path = {{ {path}, policer = {{ rate = "20 Mbit/s", burst = "60 kB" }} }}
        flows = [{{ cc = "cubic-linux" }}]
    """
    best = study.fit(paceline.run(text)).judged[0]
    assert best.model.name == "policer"
    assert best.is_near
    assert best.model.parameters["burst_bytes"] == pytest.approx(60e3, rel=0.1)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("cc", ["cubic", "bbr1"])
def test_at_a_receiver_a_short_queue_shows_the_rate(tmp_path: Path, cc: str, merged: bool) -> None:
    # It keeps the link busy for 9 ms, which is less than a sample.
    text = (
        'schema = 1\nrun = { duration = "10 s", record = { packets = true } }\n'
        'path = { rate = "4 Mbit/s", rtt = "13 ms", queue = { size = "3 packets" } }\n'
        f'[[flows]]\ncc = "{cc}"\n'
    )
    run = paceline.run(text)
    rates = {}
    for end in ("sender", "receiver"):
        place = tmp_path / f"{end}.pcap"
        Capture(end=end, merged=merged).write(run, place)
        (stretch,) = study.ends(paceline.Run.capture(place))[1].stretches
        rates[end] = stretch.rate
    # A sender spaces its packets itself.
    assert rates["sender"].high is None
    known = rates["receiver"]
    assert known.high is not None
    assert known.low is not None
    assert known.low <= 4e6 <= known.high < 1.02 * known.low


def test_losses_between_which_rates_differ_are_not_a_policers(tmp_path: Path) -> None:
    # Slow start overflows the queue; then random losses keep CUBIC below the rate.
    text = (
        'schema = 1\nrun = { duration = "10 s", record = { packets = true } }\n'
        'path = { rate = "35 Mbit/s", rtt = "27 ms", queue = { size = "55 kB" }, CAUSE }\n'
        '[[flows]]\ncc = "cubic"\n'
    )
    rates = {}
    causes = ('loss = "0.3 %"', 'policer = { rate = "14 Mbit/s", burst = "60 kB" }')
    for number, cause in enumerate(causes):
        place = tmp_path / f"{number}.pcap"
        Capture().write(paceline.run(text.replace("CAUSE", cause)), place)
        rates[cause] = parameters.policer(*study.ends(paceline.Run.capture(place)))
    assert rates[causes[0]] is None
    known = rates[causes[1]]
    assert known is not None
    assert known[0].value == pytest.approx(14e6, rel=0.03)


def test_a_size_that_rounds_to_the_next_unit_is_written_as_a_scenario_reads_it() -> None:
    settings = Model("droptail", {"size_bytes": 999_960.0}).settings
    assert size_bytes(settings["queue"]["size"]) == 1_000_000


def test_what_a_record_does_not_say_is_a_bound() -> None:
    fitted = study.fit(paceline.run(QUIET))
    assert fitted.judged[0].model.name == "none"
    (stretch,) = fitted.stretches
    assert stretch.rate.high is None
    assert stretch.rate.low is not None
    assert stretch.rate.low < 50e6
    assert fitted.size.high is None
    # A transmission time at a rate that is only a bound is not subtracted: that of the SYN is 8 us.
    assert fitted.rtt.value == pytest.approx(40e-3 + 52 * 8 / 50e6, rel=1e-6)
    assert fitted.rtt.low is not None
    assert fitted.rtt.low <= 40e-3
    assert any("the link was not busy for long enough" in note for note in fitted.notes)
    assert any("Nothing was lost" in note for note in fitted.notes)


def test_what_is_written_runs_and_does_as_the_record_does(cli: Command, tmp_path: Path) -> None:
    drawn = draw(1)
    paceline.run(drawn.text).write(tmp_path / "runs" / "mine")
    result = cli("fit", "runs/mine")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "mine-fitted.toml"
    assert "droptail" in result.stdout
    answer = json.loads(cli("fit", "runs/mine", "--json").stdout)
    assert answer["loss"] == "droptail"
    assert answer["fitted"]["goodput_bps"] == pytest.approx(answer["measured"]["goodput_bps"], 0.02)
    again = paceline.run(tmp_path / "mine-fitted.toml")
    assert study.observe(again).metrics == pytest.approx(answer["fitted"])
    # What a user has there is left.
    (tmp_path / "mine-fitted.toml").write_text("mine")
    failed = cli("fit", "runs/mine")
    assert failed.returncode == 2
    assert (tmp_path / "mine-fitted.toml").read_text() == "mine"


def test_a_recording_takes_the_controller_of_its_packets_or_the_one_named(
    cli: Command, tmp_path: Path
) -> None:
    drawn = draw(1)
    run = paceline.run(drawn.text, overrides={"run.record.packets": True, "run.duration": "8 s"})
    run.write(tmp_path / "mine")
    cli("export", "mine", "--format", "pcapng", "--out", "mine.pcapng")
    cli("import", "mine.pcapng", "--out", "read")
    for given in (("read",), ("mine.pcapng",), ("read", "--cc", "bbr3")):
        answer = json.loads(cli("fit", *given, "--json", "--force").stdout)
        assert answer["rates"][0]["rate_bps"] == pytest.approx(drawn.rates[0], 0.02)
        assert answer["rtt_low_ns"] <= drawn.rtt * 1e9 * 1.02
    unknown = cli("fit", "read", "--cc", "bbr4")
    assert unknown.returncode == 2
    assert "did you mean" in unknown.stderr


def test_a_record_without_flows_is_refused(cli: Command, tmp_path: Path) -> None:
    late = QUIET + 'start = "4.99 s"\n'
    paceline.run(late).write(tmp_path / "late")
    result = cli("fit", "late")
    assert result.returncode == 2
    assert "no flow of it has both data and RTTs" in result.stderr


def test_a_record_with_one_rtt_at_its_end_is_refused(cli: Command, tmp_path: Path) -> None:
    short = {"run.duration": '"60 ms"', "run.sample_interval": '"60 ms"'}
    paceline.run(QUIET, overrides=short).write(tmp_path / "short")
    result = cli("fit", "short")
    assert result.returncode == 2
    assert "no flow of it has both data and RTTs" in result.stderr


def _altered(folder: Path, table: str, column: str, values: object) -> None:
    """Give a column of a run's table other values; `values` is one, or a function of the old."""
    file = folder / f"{table}.parquet"
    rows = pq.read_table(file)
    at = rows.schema.names.index(column)
    old = rows.column(at).to_pylist()
    new = values(old) if callable(values) else [values] * len(old)
    column_ = pa.array(new, rows.schema.field(at).type)
    pq.write_table(rows.set_column(at, rows.schema.field(at), column_), file, compression="none")


@pytest.mark.parametrize(
    ("table", "column", "values", "message"),
    [
        ("flows", "mss_bytes", 0, "flow 0 has packets with 0 bytes of payload"),
        ("flows", "mss_bytes", 2**62, "bytes of payload"),
        ("samples", "t_ns", 5, "the samples of flow 0 have one time only"),
        ("samples", "t_ns", lambda old: [*old[:-1], 2**62], "of memory; at most 1.000 GB"),
        ("samples", "min_rtt_ns", 0, "flow 0 has an RTT of zero"),
        ("samples", "delivered_bytes", lambda old: old[::-1], "has delivered goes back"),
        ("samples", "delivered_bytes", 2**62, "no path carries what its flows did: `path.queue.si"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(
    cli: Command, tmp_path: Path, table: str, column: str, values: object, message: str
) -> None:
    paceline.run(QUIET).write(tmp_path / "bad")
    _altered(tmp_path / "bad", table, column, values)
    result = cli("fit", "bad", "--memory", "1 GB")
    assert result.returncode in (1, 2)
    assert "Traceback" not in result.stderr
    assert message in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        "[[[",
        "flows = 3\nrun = 4\n",
        "flows = [1, {count = 'x'}]\n",
        "flows = [{count = 1, cc = 'cubic'}]\nrun = 3\n",
        "flows = [{count = 1, cc = 'cubic'}]\nrun = {duration = '3 s'}\nevents = 3\n",
        "flows = [{count = 1, cc = {}}]\n",
    ],
)
def test_a_record_whose_scenario_is_none_is_refused(
    cli: Command, tmp_path: Path, text: str
) -> None:
    paceline.run(QUIET).write(tmp_path / "bad")
    (tmp_path / "bad" / "scenario.toml").write_text(text)
    result = cli("fit", "bad")
    assert result.returncode == 2
    assert "its scenario.toml is not a scenario" in result.stderr
