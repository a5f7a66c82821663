"""Exports, read back by other programs where there is one for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import dpkt
import polars as pl
import pytest
from flent import resultset

import paceline
from conftest import SCENARIO, Command
from paceline.exchange import EXPORTS, export

Json = dict[str, Any]


@pytest.fixture(scope="module")
def recorded() -> paceline.Run:
    return paceline.run(SCENARIO, overrides={"run.record.packets": True})


def of_kind(run: paceline.Run, *kinds: str, flow: int = 0) -> pl.DataFrame:
    return run.packets.filter(pl.col("kind").cast(pl.String).is_in(kinds), pl.col("flow") == flow)


def test_csv_is_the_tables(recorded: paceline.Run, tmp_path: Path) -> None:
    written = export([recorded], "csv", tmp_path / "csv")
    assert [path.name for path in written] == [
        "flows.csv", "samples.csv", "queue.csv", "events.csv", "packets.csv",
    ]  # fmt: skip
    for path in written:
        table: pl.DataFrame = getattr(recorded, path.stem)
        back = pl.read_csv(
            path, schema_overrides=dict(table.cast({pl.Categorical: pl.String}).schema)
        )
        assert back.equals(table.cast({pl.Categorical: pl.String})), path.name
    only = export([recorded], "csv", tmp_path / "one", flow=1)
    assert set(pl.read_csv(only[1])["flow"]) == {1}


class Programs(paceline.Run):
    """A run whose flows are those of programs: its scenario has none."""

    @property
    def scenario_toml(self) -> str:
        return "flows = []\n" + super().scenario_toml.partition("[[flows]]")[0]


def test_the_flows_of_programs_are_exported_too(recorded: paceline.Run, tmp_path: Path) -> None:
    run = Programs(recorded.inner, recorded.engine)
    (path,) = export([run], "pcapng", tmp_path / "run.pcapng")
    moved = recorded.flows["goodput_bytes"].to_list()
    goodputs = paceline.Run.capture(path).flows["goodput_bytes"].to_list()
    # At the sender what was acknowledged counts.
    assert goodputs == pytest.approx(moved, rel=0.02)
    assert len(export([run], "qlog", tmp_path / "qlog")) == len(moved)


class Captured:
    """A capture, as dpkt reads it: by flow, what the sender sent and what came back."""

    def __init__(self, path: Path) -> None:
        self.sent: dict[int, list[tuple[int, dpkt.tcp.TCP, int]]] = {}
        self.came: dict[int, list[tuple[int, dpkt.tcp.TCP, int]]] = {}
        with path.open("rb") as file:
            reader = dpkt.pcapng.Reader(file)
            assert reader.datalink() == 101  # LINKTYPE_RAW
            for t, data in reader:
                ip = dpkt.ip.IP(data)
                tcp = ip.data
                ours = ip.src == bytes([192, 0, 2, 1])
                flow = (tcp.sport if ours else tcp.dport) - 10_000
                payload = ip.len - 20 - tcp.off * 4
                side = self.sent if ours else self.came
                side.setdefault(flow, []).append((round(t * 1e9), tcp, payload))
                # Checksums hold for a payload of zeros.
                whole = bytes(data) + bytes(payload)
                assert dpkt.in_cksum(whole[:20]) == 0
                pseudo = whole[12:20] + bytes([0, 6]) + (len(whole) - 20).to_bytes(2, "big")
                assert dpkt.in_cksum(pseudo + whole[20:]) == 0


def sacks(tcp: dpkt.tcp.TCP) -> list[tuple[int, int]]:
    for kind, value in dpkt.tcp.parse_opts(tcp.opts):
        if kind == dpkt.tcp.TCP_OPT_SACK:
            numbers = [int.from_bytes(value[n : n + 4], "big") for n in range(0, len(value), 4)]
            return list(zip(numbers[::2], numbers[1::2], strict=True))
    return []


def test_pcapng_is_what_the_sender_saw(recorded: paceline.Run, tmp_path: Path) -> None:
    (path,) = export([recorded], "pcapng", tmp_path / "run.pcapng")
    captured = Captured(path)
    for flow in (0, 1):
        syn, _, *data = captured.sent[flow]
        answer, *acks = captured.came[flow]
        assert syn[1].flags == dpkt.tcp.TH_SYN
        assert answer[1].flags == dpkt.tcp.TH_SYN | dpkt.tcp.TH_ACK
        assert answer[1].win == 0xFFFF
        kinds = [kind for kind, _ in dpkt.tcp.parse_opts(syn[1].opts)]
        assert {dpkt.tcp.TCP_OPT_SACKOK, dpkt.tcp.TCP_OPT_WSCALE} <= set(kinds)
        rows = of_kind(recorded, "send", "retransmit", flow=flow)
        assert [(tcp.seq - 1, length) for _, tcp, length in data] == list(
            rows.select("seq_bytes", "len_bytes").iter_rows()
        )
        # dpkt's times are floats.
        assert all(abs(a[0] - b) < 1000 for a, b in zip(data, rows["t_ns"], strict=True))
        rows = of_kind(recorded, "ack", flow=flow)
        assert [tcp.ack - 1 for _, tcp, _ in acks] == rows["seq_bytes"].to_list()
        assert acks[0][1].win << 14 == pytest.approx(2**30, abs=2**14)
        blocks = [block for _, tcp, _ in acks for block in sacks(tcp)]
        rows = of_kind(recorded, "sack", flow=flow)
        ends = rows["seq_bytes"] + rows["len_bytes"]
        assert len(blocks) > 10
        assert [(a - 1, b - 1) for a, b in blocks] == list(
            zip(rows["seq_bytes"], ends, strict=True)
        )
    dropped = recorded.packets.filter(pl.col("kind").cast(pl.String) == "drop").height
    assert path.read_bytes().count(b"dropped on the path") == dropped > 0
    again = sum(of_kind(recorded, "retransmit", flow=flow).height for flow in (0, 1))
    assert path.read_bytes().count(b"retransmission") == again > 0
    # On the wire: 52 bytes of headers, as the scenario says.
    _, tcp, length = data[0]
    assert 20 + tcp.off * 4 + length == 52 + 1448


def test_a_capture_has_the_window_and_the_end_of_a_flow(tmp_path: Path) -> None:
    flow = 'app = { size = "100 kB" }\nreceive_window = "64 kB"\n'
    run = paceline.run(
        'schema = 1\nrun = { duration = "5 s", record = { packets = true } }\n'
        'path = { rate = "50 Mbit/s", rtt = "80 ms", queue = { size = "1 bdp" } }\n'
        f'[[flows]]\ncc = "cubic"\n{flow}'
    )
    (path,) = export([run], "pcapng", tmp_path / "run.pcapng")
    captured = Captured(path)
    data, acks = captured.sent[0][2:], captured.came[0][1:]
    # A window below 64 KiB needs no scale, so none of it is lost.
    assert {tcp.win for _, tcp, _ in acks} == {64_000}
    assert [tcp.flags & dpkt.tcp.TH_FIN for _, tcp, _ in data] == [0] * (len(data) - 1) + [1]
    # The FIN has a number of its own.
    assert acks[-1][1].ack == 1 + 100_000 + 1
    again = paceline.Run.capture(path)
    # Its sender learns of the end half an RTT later.
    finished = run.flows["finish_ns"][0] + 40e6
    assert again.flows["finish_ns"][0] == pytest.approx(finished, abs=1e6)


@pytest.mark.skipif(shutil.which("tcptrace") is None, reason="needs tcptrace")
def test_tcptrace_counts_the_same(recorded: paceline.Run, tmp_path: Path) -> None:
    (path,) = export([recorded], "pcapng", tmp_path / "run.pcapng")
    result = subprocess.run(
        ["tcptrace", "-n", "-l", path], capture_output=True, text=True, check=True
    )
    # Of both directions of each connection, the sender's comes first.
    counts = {
        name: [int(n) for n in re.findall(rf"{name}: +(\d+)", result.stdout)[::2]]
        for name in ("rexmt data pkts", "rexmt data bytes")
    }
    flows = recorded.flows.sort("flow")
    assert counts["rexmt data pkts"] == flows["retransmitted_packets"].to_list()
    again = [of_kind(recorded, "retransmit", flow=flow)["len_bytes"].sum() for flow in (0, 1)]
    assert counts["rexmt data bytes"] == again


def test_a_capture_says_which_packet_a_queue_dropped_late(tmp_path: Path) -> None:
    """CoDel drops at the head, when many more have been sent."""
    codel = SCENARIO.replace('"droptail", size = "1 bdp"', '"codel", size = "1 MB"')
    run = paceline.run(codel, overrides={"run.record.packets": True})
    (path,) = export([run], "pcapng", tmp_path / "run.pcapng", flow=0)
    drops = of_kind(run, "drop")
    assert drops.height > 3
    data = path.read_bytes()
    comments = []
    for part in data.split(b"dropped on the path")[:-1]:
        # The comment follows its packet: the last of ours before it.
        at = part.rindex(bytes([192, 0, 2, 1, 198, 51, 100, 1]))
        comments.append(int.from_bytes(part[at + 12 : at + 16], "big") - 1)
    assert sorted(comments) == sorted(drops["seq_bytes"])
    _, *events = records(export([run], "qlog", tmp_path / "qlog", flow=0)[0])
    sent = [e["data"]["frames"][0]["offset"] for e in events if e["name"] == "quic:packet_sent"]
    marks = [e["data"] for e in events if e["data"].get("type") == "drop"]
    assert [sent[int(mark["message"].split()[1])] for mark in marks] == drops["seq_bytes"].to_list()


def records(path: Path) -> Iterator[Json]:
    """Read a JSON text sequence (RFC 7464)."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("\x1e")
    for part in text.split("\x1e")[1:]:
        assert part.endswith("\n")
        yield json.loads(part)


def test_qlog_in_the_current_names(recorded: paceline.Run, tmp_path: Path) -> None:
    written = export([recorded], "qlog", tmp_path / "qlog")
    assert [path.name for path in written] == ["flow-0.sqlog", "flow-1.sqlog"]
    head, *events = records(written[0])
    assert head["file_schema"] == "urn:ietf:params:qlog:file:sequential"
    assert head["serialization_format"] == "application/qlog+json-seq"
    assert "urn:ietf:params:qlog:events:quic-13" in head["trace"]["event_schemas"]
    assert all(event.keys() == {"time", "name", "data"} for event in events)
    times = [event["time"] for event in events]
    assert times == sorted(times)
    by_name: dict[str, list[Json]] = {}
    for event in events:
        by_name.setdefault(event["name"], []).append(event)
    assert by_name.keys() == {
        "simulation:scenario",
        "simulation:marker",
        "quic:recovery_metrics_updated",
        "quic:congestion_state_updated",
        "quic:packet_sent",
        "quic:packet_received",
        "paceline:controller_updated",
    }
    # What changes, put together, is what was sampled.
    metrics: Json = {}
    for event in by_name["quic:recovery_metrics_updated"]:
        metrics |= event["data"]
    last = recorded.samples.filter(flow=0).row(-1, named=True)
    assert metrics["congestion_window"] == last["cwnd_bytes"]
    assert metrics["smoothed_rtt"] == pytest.approx(last["srtt_ns"] / 1e6)
    assert metrics["pacing_rate"] == last["pacing_bps"]
    changes = by_name["quic:congestion_state_updated"]
    assert changes[0]["data"] == {"new": "Startup"}
    for before, after in pairwise(changes):
        assert before["data"]["new"] == after["data"]["old"]
    sent = by_name["quic:packet_sent"]
    assert [event["data"]["header"]["packet_number"] for event in sent] == list(range(len(sent)))
    rows = of_kind(recorded, "send", "retransmit")
    assert [event["data"]["frames"][0]["offset"] for event in sent] == rows["seq_bytes"].to_list()
    assert sent[0]["data"]["raw"] == {"length": 1500, "payload_length": 1448}
    came = by_name["quic:packet_received"]
    assert len(came) == of_kind(recorded, "ack").height
    acked = [
        number
        for event in came
        for frame in event["data"].get("frames", [])
        for first, last in frame["acked_ranges"]
        for number in range(first, last + 1)
    ]
    assert len(acked) == len(set(acked))
    # What is acknowledged is what the receiver has, less what is on its way; of every range that
    # was sent again, one transmission.
    ranges = rows.select("seq_bytes", "len_bytes").rows()
    total = of_kind(recorded, "ack")["seq_bytes"].max()
    assert {ranges[number] for number in acked} >= {r for r in ranges if sum(r) <= total}
    delivered = set(of_kind(recorded, "deliver").select("seq_bytes", "len_bytes").iter_rows())
    assert {ranges[number] for number in acked} <= delivered
    dropped = [
        int(event["data"]["message"].split()[1])
        for event in by_name["simulation:marker"]
        if event["data"]["type"] == "drop"
    ]
    assert len(dropped) == of_kind(recorded, "drop").height > 0
    assert not set(dropped) & set(acked)


def test_qlog_for_qvis(recorded: paceline.Run, run: paceline.Run, tmp_path: Path) -> None:
    (path,) = export([recorded], "qlog", tmp_path / "run.qlog", dialect="0.3")
    text = path.read_text()
    # qvis looks for it near the beginning.
    assert "qlog_version" in text[:1000]
    document = json.loads(text)
    assert (document["qlog_version"], document["qlog_format"]) == ("0.3", "JSON")
    assert len(document["traces"]) == 2
    names = Counter(event["name"] for event in document["traces"][0]["events"])
    assert not any(name.startswith("quic:") for name in names)
    assert names["recovery:metrics_updated"] > 100
    assert names["transport:packet_sent"] == of_kind(recorded, "send", "retransmit").height
    assert names["transport:packet_received"] == of_kind(recorded, "ack").height
    # Without a record of packets there is all the rest.
    export([run], "qlog", tmp_path / "less.qlog", dialect="0.3")
    less = json.loads((tmp_path / "less.qlog").read_text())
    assert {event["name"] for event in less["traces"][0]["events"]} == names.keys() - {
        "transport:packet_sent",
        "transport:packet_received",
    }


def test_flent_reads_it(recorded: paceline.Run, tmp_path: Path) -> None:
    (path,) = export([recorded], "flent", tmp_path / "run.flent.gz")
    results = resultset.load(str(path))
    assert results.meta("NAME") == "tcp_nup"
    assert results.x_values == pytest.approx([0.2 * n for n in range(11)])
    assert results.series_names == [
        "TCP upload::1", "TCP upload::2", "TCP upload sum", "TCP upload avg", "Ping (ms) ICMP",
    ]  # fmt: skip
    for flow in (0, 1):
        rates = [rate for rate in results.series(f"TCP upload::{flow + 1}") if rate is not None]
        delivered = recorded.samples.filter(flow=flow)["delivered_bytes"][-1]
        assert sum(rates) * 0.2 * 1e6 / 8 == pytest.approx(delivered)
    # The path has 20 ms, and its queue at most as much again.
    pings = [ping for ping in results.series("Ping (ms) ICMP") if ping is not None]
    assert 20 <= min(pings) <= max(pings) <= 41
    assert max(pings) > 25
    assert len(list(results.raw_series("TCP upload::1", absolute=True))) > 8


@pytest.mark.parametrize("plot", ["totals", "upload_with_ping", "ping"])
def test_flent_plots_it(recorded: paceline.Run, tmp_path: Path, plot: str) -> None:
    (path,) = export([recorded], "flent", tmp_path / "run.flent.gz")
    picture = tmp_path / "plot.png"
    command = [sys.executable, "-c", "from flent import run_flent; run_flent()"]
    result = subprocess.run(
        [*command, "-i", path, "-p", plot, "-o", picture],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"MPLBACKEND": "agg"},
    )
    assert result.returncode == 0, result.stderr
    # Only Flent's greeting, no warning of a series that is not there.
    assert "WARNING" not in result.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def points(path: Path) -> Iterator[tuple[str, list[str]]]:
    lines = iter(path.read_text(encoding="ascii").splitlines())
    assert next(lines) == "timeval unsigned"
    for name in ("title", "xlabel", "ylabel"):
        assert next(lines) == name
        assert next(lines)
    colour = ""
    for line in lines:
        words = line.split()
        if line == "go":
            assert next(lines, None) is None
            return
        if len(words) == 1:
            colour = line
        elif words[0] in ("atext", "rtext"):
            yield next(lines), words[1:]
        else:
            yield f"{colour} {words[0]}", words[1:]
    pytest.fail("it has no end")


def recorded_with_window() -> paceline.Run:
    window = {"flows.0.receive_window": "30 kB", "run.record.packets": True}
    return paceline.run(SCENARIO, overrides=window)


def test_xplot_has_every_packet(recorded: paceline.Run, tmp_path: Path) -> None:
    (path,) = export([recorded], "xplot", tmp_path / "run.xpl", flow=0)
    counts = Counter(name for name, _ in points(path))
    assert counts["white darrow"] == counts["white uarrow"] == of_kind(recorded, "send").height
    assert counts["R"] == of_kind(recorded, "retransmit").height > 0
    assert counts["red diamond"] == of_kind(recorded, "drop").height > 0
    assert counts["purple line"] == of_kind(recorded, "sack").height > 0
    # The window is drawn where it is near: else it is all that there is to see.
    assert not counts["yellow line"]
    near = recorded_with_window()
    (path_near,) = export([near], "xplot", tmp_path / "near.xpl", flow=0)
    yellow = [values for name, values in points(path_near) if name == "yellow line"]
    assert len(yellow) > 100
    # The lines of the ACKs go on where they stopped, up to the last.
    green = [[float(v) for v in values] for name, values in points(path) if name == "green line"]
    for before, after in pairwise(green):
        assert before[2:] == after[:2]
    assert green[-1][3] == of_kind(recorded, "ack")["seq_bytes"].max()
    sent = of_kind(recorded, "send").row(0, named=True)
    first = next(values for name, values in points(path) if name == "white line")
    assert [float(v) for v in first] == pytest.approx(
        [sent["t_ns"] / 1e9, 0, sent["t_ns"] / 1e9, sent["len_bytes"]], abs=1e-6
    )
    (both,) = export([recorded, recorded], "xplot", tmp_path / "both.xpl")
    labels = [name for name, _ in points(both) if "(" in name]
    assert len(set(labels)) == 4


@pytest.mark.parametrize("format_", EXPORTS)
def test_the_command(
    cli: Command, recorded: paceline.Run, run: paceline.Run, tmp_path: Path, format_: Any
) -> None:
    recorded.write(tmp_path / "r")
    run.write(tmp_path / "without")
    result = cli("export", "r", "--format", format_)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "r" / EXPORTS[format_].place_of("current")).exists()
    value = json.loads(cli("export", "r", "--format", format_, "--out", "again", "--json").stdout)
    assert (value["schema"], value["format"], value["runs"]) == (1, format_, ["r"])
    # The same bytes every time; only Flent's file says its own name.
    if format_ != "flent":
        first = [Path(line).read_bytes() for line in result.stdout.splitlines()]
        assert first == [Path(file).read_bytes() for file in value["files"]]
    without = cli("export", "without", "--format", format_)
    if format_ in ("pcapng", "xplot"):
        assert without.returncode == 2
        assert "record.packets=true" in without.stderr
    else:
        assert without.returncode == 0
    assert cli("export", "r", "--format", format_, "--flow", 9).returncode == 2
    assert cli("export", "r", "--format", format_, "--out", "r/run.json/x").returncode == 1
    several = cli("export", "r", "r", "--format", format_)
    assert several.returncode == (0 if format_ == "xplot" else 2)


def dissected(path: Path, *fields: str) -> list[list[list[str]]]:
    """Return what Wireshark's dissectors find: of each frame and field, its values."""
    command = ["tshark", "-r", str(path), "-o", "tcp.relative_sequence_numbers:FALSE"]
    command += ["-T", "fields", "-E", "separator=|", "-E", "occurrence=a"]
    for field in fields:
        command += ["-e", field]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return [
        [field.split(",") if field else [] for field in line.split("|")]
        for line in result.stdout.splitlines()
    ]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_wireshark_dissects_it(recorded: paceline.Run, tmp_path: Path) -> None:
    (path,) = export([recorded], "pcapng", tmp_path / "run.pcapng", flow=0)
    frames = dissected(
        path, "frame.time_epoch", "frame.len", "ip.version", "tcp.seq", "tcp.ack", "tcp.srcport",
        "tcp.options.sack_le", "tcp.options.sack_re", "tcp.window_size", "tcp.options.mss_val",
        "tcp.options.wscale.shift", "_ws.malformed", "_ws.expert.severity", "tcp.analysis.flags",
    )  # fmt: skip
    rows = of_kind(recorded, "send", "retransmit", "ack")
    opening, frames = frames[:3], frames[3:]
    assert len(frames) == rows.height
    # Payload of a full packet; window scaling by 2^14.
    assert [(frame[9], frame[10]) for frame in opening] == [(["1448"], ["14"])] * 2 + [([], [])]
    assert all(frame[2] == ["4"] and not frame[11] for frame in frames)
    # To the nanosecond, where a float would not do.
    times = [int(frame[0][0].replace(".", "")) for frame in frames]
    assert times == rows["t_ns"].to_list()
    columns = ("kind", "seq_bytes", "len_bytes", "window_bytes")
    for frame, (kind, seq, length, window) in zip(
        frames, rows.select(columns).iter_rows(), strict=True
    ):
        if kind == "ack":
            assert frame[5] == ["5001"]
            assert int(frame[4][0]) == seq + 1
            assert int(frame[8][0]) == min(window >> 14, 0xFFFF) << 14
        else:
            assert (int(frame[3][0]), frame[1]) == (seq + 1, [str(length + 52)])
    blocks = [
        (int(a) - 1, int(b) - int(a))
        for frame in frames
        for a, b in zip(frame[6], frame[7], strict=True)
    ]
    sacks = of_kind(recorded, "sack").select("seq_bytes", "len_bytes")
    assert blocks == list(sacks.iter_rows())
    assert len(blocks) > 10


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_wireshark_finds_the_retransmissions(recorded: paceline.Run, tmp_path: Path) -> None:
    (path,) = export([recorded], "pcapng", tmp_path / "run.pcapng")
    # What comes soon after newer data is out of order to Wireshark, which does not know at which
    # end it was captured.
    flags = ["retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order"]
    frames = dissected(path, "frame.comment", *(f"tcp.analysis.{flag}" for flag in flags))
    expected = [bool(comment) and "retransmission" in comment[0] for comment, *_ in frames]
    assert [any(marks) for _, *marks in frames] == expected
    assert sum(expected) == recorded.flows["retransmitted_packets"].sum() > 20
    # Nothing is missing from the capture, and ACKs are of data that it has.
    missing = ("lost_segment", "ack_lost_segment", "zero_window", "window_full")
    missed = dissected(path, *(f"tcp.analysis.{flag}" for flag in missing))
    assert not any(marks for frame in missed for marks in frame)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_wireshark_finds_ets_and_timestamps(tmp_path: Path) -> None:
    changed = {"flows.0.ets": True, "flows.0.header": "56 B", "run.record.packets": True}
    run = paceline.run(SCENARIO, overrides=changed)
    (path,) = export([run], "pcapng", tmp_path / "run.pcapng", flow=0)
    names = (
        "ip.src",
        "tcp.option_kind",
        "tcp.options.experimental.exid",
        "tcp.options",
        "tcp.hdr_len",
    )
    frames = dissected(path, *names)
    assert all("254" in kinds and exid == ["0x4554"] for _, kinds, exid, *_ in frames)
    assert all(frame[4] == ["36"] for frame in frames[2:] if frame[0] == ["192.0.2.1"])
    # On SYNs two octets more, for the longest ACK delay: 40 ms.
    for _, _, _, (octets,), _ in frames[:2]:
        assert octets[octets.index("fe104554") :].endswith(f"{40_000:04x}")
    options_ = [
        options[0][options[0].index("fe0e4554") + 8 :][:20] for *_, options, _ in frames[2:]
    ]
    words = [(int(o[:8], 16), int(o[8:16], 16), int(o[16:], 16)) for o in options_]
    rows = of_kind(run, "send", "retransmit", "ack").to_dicts()
    newest = 0
    for (sent, echoed, delay), row in zip(words[1:], rows, strict=True):
        if row["kind"] == "ack":
            times = (row["departed_ns"], row["echoed_ns"], row["held_ns"])
            assert (sent, echoed) == (times[0] // 1000, times[1] // 1000)
            micros = times[2] // 1000
            assert delay == (micros << 1 if micros < 8192 else 1 << 14 | -(-micros // 1000) << 1)
            newest = sent
        else:
            assert sent == row["t_ns"] // 1000
            assert newest in (0, echoed)
    assert {delay >> 14 for _, _, delay in words} == {0, 1}

    (path,) = export([run], "pcapng", tmp_path / "other.pcapng", flow=1)
    frames = dissected(
        path, "tcp.options.timestamp.tsval", "tcp.options.timestamp.tsecr", "tcp.options.sack_le"
    )
    rows = of_kind(run, "send", "retransmit", "ack", flow=1).to_dicts()
    for (value, echo, blocks), row in zip(frames[3:], rows, strict=True):
        if row["kind"] != "ack":
            assert value == [str(row["t_ns"] // 10**6)]
        elif len(blocks) < 4:
            assert (value, echo) == (
                [str(row["departed_ns"] // 10**6)],
                [str(row["echoed_ns"] // 10**6)],
            )


def test_a_record_without_times_has_none_in_its_capture(tmp_path: Path) -> None:
    run = paceline.run(SCENARIO, overrides={"run.record.packets": True})
    times = pl.lit(None, pl.Int64).alias
    names = ("departed_ns", "echoed_ns", "held_ns")
    run.packets = run.packets.with_columns(times(name) for name in names)
    (path,) = export([run], "pcapng", tmp_path / "run.pcapng")
    captured = Captured(path)
    kinds = {
        kind
        for flow in captured.sent
        for _, tcp, _ in captured.sent[flow] + captured.came[flow]
        for kind, _ in dpkt.tcp.parse_opts(tcp.opts)
    }
    assert dpkt.tcp.TCP_OPT_TIMESTAMP not in kinds
    assert 254 not in kinds
