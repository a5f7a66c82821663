"""What other programs recorded becomes a record: captures of TCP, qlog, iperf3's JSON."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import paceline
from conftest import Command
from paceline import _paceline
from paceline.errors import CaptureError
from paceline.exchange import export

#: Two flows that lose packets, one after the other, with packets recorded.
SCENARIO = """\
schema = 1

[run]
duration = "4 s"
seed = 3
record = { packets = true }

[path]
rate = "10 Mbit/s"
rtt = "30 ms"
queue = { kind = "droptail", size = "0.5 bdp" }

[[flows]]
cc = "cubic"

[[flows]]
cc = "bbr3"
start = "1 s"
"""


@pytest.fixture(scope="module")
def simulated() -> paceline.Run:
    return paceline.run(SCENARIO)


def at_end(run: paceline.Run, column: str) -> list[int]:
    last = run.samples.group_by("flow", maintain_order=True).last().sort("flow")
    return [int(value) for value in last[column]]


def test_a_capture_at_the_sender_says_what_the_sender_did(
    simulated: paceline.Run, tmp_path: Path
) -> None:
    (file,) = export([simulated], "pcapng", tmp_path / "run.pcapng")
    run = paceline.Run.capture(file)
    assert (run.backend, run.incomplete) == ("pcap", None)
    assert run.flows.height == 2
    # Sent again is sent again; all else is what ACKs say.
    for column in ("sent_packets", "retransmitted_packets", "delivered_bytes"):
        ends = at_end(run, column), at_end(simulated, column)
        assert ends[0] == pytest.approx(ends[1], rel=0.01, abs=2), column
    for read, known in zip(run.flow_metrics, simulated.flow_metrics, strict=True):
        assert read["goodput_bps"] == pytest.approx(known["goodput_bps"], rel=0.01)
        assert read["rtt_p50_ns"] == pytest.approx(known["rtt_p50_ns"], rel=0.02)
        assert read["rtt_p95_ns"] == pytest.approx(known["rtt_p95_ns"], rel=0.02)
    sent = run.packets.filter(kind="send").group_by("flow").len().sort("flow")
    first = simulated.packets.filter(kind="send").group_by("flow").len().sort("flow")
    assert sent["len"].to_list() == first["len"].to_list()


def test_it_reads_what_is_compressed_and_writes_what_is_read(
    simulated: paceline.Run, tmp_path: Path
) -> None:
    (file,) = export([simulated], "pcapng", tmp_path / "run.pcapng")
    packed = tmp_path / "run.pcapng.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    run = paceline.Run.capture(packed)
    assert run.digest == paceline.Run.capture(file).digest
    run.write(tmp_path / "kept")
    read = paceline.Run.read(tmp_path / "kept")
    assert (read.digest, read.source) == (run.digest, run.source)
    assert read.report(tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("dialect", ["current", "0.3"])
def test_a_qlog_says_what_the_sender_did(
    simulated: paceline.Run, tmp_path: Path, dialect: str
) -> None:
    files = export([simulated], "qlog", tmp_path / "run.qlog", dialect=dialect)
    runs = [paceline.Run.capture(file) for file in files]
    flows = [flow for run in runs for flow in run.flow_metrics]
    assert len(flows) == 2
    for read, known in zip(flows, simulated.flow_metrics, strict=True):
        # The qlog ends with its last event.
        assert read["goodput_bps"] == pytest.approx(known["goodput_bps"], rel=0.01)
        assert read["rtt_p50_ns"] == pytest.approx(known["rtt_p50_ns"], rel=0.01)
    states = {row for run in runs for row in run.samples["phase"].cast(str).unique()}
    assert {"ProbeBW_CRUISE", "Startup"} & states


# By hand.


def segment(
    seq: int,
    ack: int,
    length: int = 0,
    *,
    flags: int = 16,
    back: bool = False,
    options: bytes = b"",
    window: int = 1000,
    number: int = 0,
) -> bytes:
    """Return an IPv4 packet between 10.0.0.1:80 and 10.0.0.2:9, with this identification."""
    ends = bytes([10, 0, 0, 1, 10, 0, 0, 2]), struct.pack(">HH", 80, 9)
    if back:
        ends = bytes([10, 0, 0, 2, 10, 0, 0, 1]), struct.pack(">HH", 9, 80)
    words = (20 + len(options)) // 4
    tcp = ends[1] + struct.pack(">IIBBHHH", seq, ack, words << 4, flags, window, 0, 0) + options
    total = 20 + len(tcp) + length
    ip = struct.pack(">BBHHHBBH", 0x45, 0, total, number, 0, 64, 6, 0) + ends[0]
    # The payload was not captured.
    return ip + tcp


def pcap(packets: Sequence[tuple[float, bytes]], link: int = 101) -> bytes:
    """Return a capture; times are in milliseconds."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    rows = []
    for ms, frame in packets:
        seconds, micros = divmod(round(ms * 1000) + 1_700_000_000_000_000, 1_000_000)
        rows.append(struct.pack("<IIII", seconds, micros, len(frame), len(frame)) + frame)
    return head + b"".join(rows)


SYN, FIN, RST = 2, 17, 4

#: 5 segments of 1000 bytes; the second is lost after the capture, and sent again.
LOSS = [
    (0, segment(99, 0, flags=SYN)),
    (20, segment(499, 100, flags=SYN | 16, back=True)),
    (20.1, segment(100, 500)),
    *[(21 + n, segment(100 + 1000 * n, 500, 1000)) for n in range(5)],
    (41, segment(500, 1100, back=True)),
    (43, segment(500, 1100, back=True, options=struct.pack(">BBBBII", 1, 1, 5, 10, 2100, 3100))),
    (45, segment(500, 1100, back=True, options=struct.pack(">BBBBII", 1, 1, 5, 10, 2100, 5100))),
    (46, segment(1100, 500, 1000)),
    (66, segment(500, 5100, back=True)),
    (67, segment(5100, 500, flags=FIN)),
    (87, segment(500, 5101, back=True)),
]


def capture(tmp_path: Path, data: bytes, name: str = "file.pcap") -> paceline.Run:
    (tmp_path / name).write_bytes(data)
    return paceline.Run.capture(tmp_path / name)


def test_a_loss_by_hand(tmp_path: Path) -> None:
    run = capture(tmp_path, pcap(LOSS))
    (flow,) = run.flows.to_dicts()
    assert flow["label"] == "10.0.0.1:80 to 10.0.0.2:9"
    assert (flow["goodput_bytes"], flow["mss_bytes"]) == (5000, 1000)
    assert (flow["sent_packets"], flow["retransmitted_packets"]) == (6, 1)
    # The handshake takes 20.1 ms; segments 20 ms to their ACK.
    assert (flow["base_rtt_ns"], flow["finish_ns"]) == (20_000_000, 87_000_000)
    kinds = run.packets["kind"].cast(str).to_list()
    assert kinds.count("send") == 5
    assert kinds.count("retransmit") == 1
    assert kinds.count("sack") == 2
    rtts = run.samples["rtt_ns"].drop_nulls().unique().sort().to_list()
    # The fourth and fifth are covered by one block: 45 - 25 ms; the resent one does not measure.
    assert rtts == [20_000_000]


def test_a_capture_at_the_receiver_tells_the_whole_round_trip(tmp_path: Path) -> None:
    def stamped(value: int, echo: int) -> bytes:
        return struct.pack(">BBBBII", 1, 1, 8, 10, value, echo)

    rows = []
    # The sender is 30 ms away; the receiver answers after 0.1 ms.
    for n in range(20):
        at = 30.0 * n
        rows.append((at, segment(100 + 1000 * n, 500, 1000, options=stamped(n + 1, 1000 + n))))
        answer = segment(500, 1100 + 1000 * n, back=True, options=stamped(1001 + n, n + 1))
        rows.append((at + 0.1, answer))
    (flow,) = capture(tmp_path, pcap(rows)).flow_metrics
    assert flow["rtt_p50_ns"] == 30_000_000


def test_a_gap_that_fills_soon_is_reordering(tmp_path: Path) -> None:
    rows = LOSS[:4]
    # The third comes before the second, by 1 ms, and a lost one comes 40 ms later.
    rows += [(22, segment(2100, 500, 1000)), (23, segment(1100, 500, 1000))]
    rows += [(24, segment(4100, 500, 1000)), (41, segment(500, 3100, back=True))]
    rows += [(64, segment(3100, 500, 1000)), (84, segment(500, 5100, back=True))]
    run = capture(tmp_path, pcap(rows))
    assert run.flows["retransmitted_packets"].to_list() == [1]
    assert run.source is not None
    assert "packets out of order: 1" in run.source["notes"]


def test_what_a_capture_missed_is_said(tmp_path: Path) -> None:
    rows = [row for row in LOSS if row[0] not in (22, 23, 46)]
    run = capture(tmp_path, pcap([*rows[:7], (66, segment(500, 7100, back=True))]))
    assert run.source is not None
    assert "acknowledged bytes that are not in the capture: 4000" in run.source["notes"]
    assert run.flows["goodput_bytes"].to_list() == [7000]


def test_a_capture_that_begins_later_counts_from_there(tmp_path: Path) -> None:
    run = capture(tmp_path, pcap(LOSS[3:]))
    assert run.flows["goodput_bytes"].to_list() == [5000]
    assert run.source is not None
    assert any("open before the capture" in note for note in run.source["notes"])


def test_ports_that_are_used_again_are_another_flow(tmp_path: Path) -> None:
    later = [(1000 + ms, frame) for ms, frame in LOSS]
    # Its SYN has another number.
    later[0] = (1000, segment(98, 0, flags=SYN))
    run = capture(tmp_path, pcap([*LOSS, *later]))
    assert run.flows.height == 2


def test_a_capture_that_ends_within_a_packet_is_incomplete(tmp_path: Path) -> None:
    run = capture(tmp_path, pcap(LOSS)[:-7])
    assert run.incomplete == "the file ends within a packet"
    assert run.flows["goodput_bytes"].to_list() == [5000]


def notes(run: paceline.Run) -> list[str]:
    assert run.source is not None
    return list(run.source["notes"])


def test_a_reset_without_the_ack_flag_acknowledges_nothing(tmp_path: Path) -> None:
    first = 3_000_000_000
    rows = [
        (0, segment(first, 0, flags=SYN)),
        (20, segment(5000, first + 1, flags=SYN | 16, back=True)),
        (40, segment(first + 1, 5001)),
        (41, segment(first + 1, 5001, 500)),
        (61, segment(5001, first + 501, back=True)),
        (62, segment(5001, first + 501, 1000, back=True)),
        (63, segment(6001, first + 501, 1000, back=True)),
        (80, segment(first + 501, 7001)),
        # It also has 30 bytes of text, which are no data.
        (1000, segment(7001, 0, 30, flags=RST, back=True)),
    ]
    run = capture(tmp_path, pcap(rows))
    assert run.flows["goodput_bytes"].to_list() == [500, 2000]
    assert run.flows["sent_packets"].to_list() == [1, 2]
    assert not any("not in the capture" in note for note in notes(run))


#: Two segments, the second of which the capture has.
GAP = [
    *LOSS[:3],
    (21, segment(100, 500, 1000)),
    (23, segment(2100, 500, 1000)),
    (43, segment(500, 3100, back=True)),
    (60, segment(3100, 500, 1000)),
    (80, segment(500, 4100, back=True)),
]


def test_a_gap_within_the_data_is_told(tmp_path: Path) -> None:
    run = capture(tmp_path, pcap(GAP))
    assert "acknowledged bytes that are not in the capture: 1000" in notes(run)
    assert run.flows["goodput_bytes"].to_list() == [4000]
    # The ACK of 3100 may have waited for what is missing.
    assert run.samples["rtt_ns"].drop_nulls().unique().to_list() == [20_000_000]


def test_rtts_count_where_one_was_measured(tmp_path: Path) -> None:
    rows: list[tuple[float, bytes]] = [*LOSS[:3]]
    for n, (at, rtt) in enumerate([(41, 20), (62, 20), (83, 200), (10_000, 20)]):
        rows.append((at, segment(100 + 1000 * n, 500, 1000)))
        rows.append((at + rtt, segment(500, 1100 + 1000 * n, back=True)))
    (flow,) = capture(tmp_path, pcap(rows)).flow_metrics
    # Of 20, 20, 200, 20 ms, however long the flow was silent after the third.
    assert (flow["rtt_p50_ns"], flow["rtt_p95_ns"]) == (20_000_000, 200_000_000)
    assert flow["rtt_mean_ns"] == 65_000_000


@pytest.mark.parametrize("after", [[], [(3000, segment(500, 3100, back=True, flags=RST))]])
def test_a_flow_shorter_than_a_row_has_its_own_time(
    tmp_path: Path, after: list[tuple[float, bytes]]
) -> None:
    rows = [
        (0, segment(500, 2000, back=True)),
        (0.2, segment(500, 8000, back=True)),
        (1.0, segment(8000, 500, 1000)),
        (1.2, segment(9000, 500, 1000)),
        (1.3, segment(500, 9000, back=True)),
    ]
    (flow,) = capture(tmp_path, pcap([*rows, *after])).flow_metrics
    # 1000 bytes were acknowledged within 0.3 ms.
    assert flow["goodput_bps"] == pytest.approx(8e6 / 0.3, rel=1e-6)
    assert flow["rtt_p50_ns"] == 300_000


def test_probes_are_no_data_and_repacketised_data_is_split(tmp_path: Path) -> None:
    rows = [
        *LOSS[:3],
        (21, segment(100, 500, 1000)),
        (41, segment(500, 1100, back=True, window=0)),
        # The closed window is probed twice, with one byte.
        (241, segment(1100, 500, 1)),
        (261, segment(500, 1100, back=True, window=0)),
        (641, segment(1100, 500, 1)),
        (661, segment(500, 1100, back=True)),
        (662, segment(1100, 500, 1000)),
        # It is lost, and sent again with what follows it.
        (900, segment(1100, 500, 1460)),
        (920, segment(500, 2560, back=True)),
        # A keepalive.
        (60_000, segment(2559, 500, 1)),
        (60_020, segment(500, 2560, back=True)),
    ]
    run = capture(tmp_path, pcap(rows))
    (flow,) = run.flows.to_dicts()
    assert (flow["sent_packets"], flow["retransmitted_packets"]) == (3, 1)
    assert (flow["goodput_bytes"], flow["stop_ns"]) == (2460, 920_000_000)
    assert not any("not in the capture" in note for note in notes(run))
    rows_of = run.packets.filter(pl.col("kind").cast(str).is_in(["send", "retransmit"]))
    events = rows_of.select(pl.col("kind").cast(str), "seq_bytes", "len_bytes").rows()
    assert events[2:] == [("retransmit", 1000, 1000), ("send", 2000, 460)]


def test_a_probe_that_is_accepted_is_not_missing(tmp_path: Path) -> None:
    rows = [
        *LOSS[:3],
        (21, segment(100, 500, 1000)),
        (41, segment(500, 1100, back=True, window=0)),
        (241, segment(1100, 500, 1)),
        (261, segment(500, 1101, back=True)),
        (262, segment(1101, 500, 1000)),
        (282, segment(500, 2101, back=True)),
    ]
    run = capture(tmp_path, pcap(rows))
    assert run.flows["goodput_bytes"].to_list() == [2001]
    assert not any("not in the capture" in note for note in notes(run))
    assert not any("out of order" in note for note in notes(run))


SIZE = struct.pack(">BBH", 2, 4, 1460)


def offloaded(*, ids: bool) -> list[tuple[float, bytes]]:
    """Return 10 segments that left as one, of which the third and fourth are lost; and 2 more."""

    def number(n: int) -> int:
        return n if ids else 0

    blocks = struct.pack(">BBBBII", 1, 1, 5, 10, 100 + 4 * 1460, 14_700)
    return [
        (0, segment(99, 0, flags=SYN, options=SIZE, number=number(1))),
        (20, segment(499, 100, flags=SYN | 16, back=True, options=SIZE)),
        (20.1, segment(100, 500, number=number(2))),
        (21, segment(100, 500, 14_600, number=number(3))),
        (41, segment(500, 100 + 2 * 1460, back=True, number=number(8))),
        (41.5, segment(500, 100 + 2 * 1460, back=True, options=blocks, number=number(9))),
        (42, segment(100 + 2 * 1460, 500, 2 * 1460, number=number(13))),
        (62, segment(500, 14_700, back=True, number=number(10))),
        (63, segment(14_700, 500, 1000, number=number(15))),
        (83, segment(500, 15_700, back=True, number=number(11))),
    ]


def test_merged_segments_count_as_packets(tmp_path: Path) -> None:
    run = capture(tmp_path, pcap(offloaded(ids=True)))
    (flow,) = run.flows.to_dicts()
    # 10 + 2 + 1, although three segments were captured.
    assert (flow["sent_packets"], flow["retransmitted_packets"]) == (13, 2)
    assert flow["mss_bytes"] == 1460
    assert any(
        "offload merged" in note and note.endswith("SYNs announce: 2") for note in notes(run)
    )
    # Without a SYN, by the size that the segments are multiples of.
    run = capture(tmp_path, pcap(offloaded(ids=True)[2:]))
    (flow,) = run.flows.to_dicts()
    assert (flow["sent_packets"], flow["retransmitted_packets"]) == (13, 2)
    assert any("without a SYN: 2" in note for note in notes(run))


def split(frame: bytes) -> list[bytes]:
    """Return the packets that offload makes of a segment; identifications count up."""
    total, number = struct.unpack(">HH", frame[2:6])
    (seq,) = struct.unpack(">I", frame[24:28])
    parts = []
    for place, at in enumerate(range(0, total - 40, 1460)):
        length = min(1460, total - 40 - at)
        identity = struct.pack(">HH", 40 + length, number + place if number else 0)
        part = frame[:2] + identity + frame[6:24] + struct.pack(">I", seq + at) + frame[28:]
        parts.append(part)
    return parts


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("how", ["twice", "split later", "split before", "tagged"])
def test_what_is_captured_twice_counts_once(tmp_path: Path, how: str, *, ids: bool) -> None:
    rows = offloaded(ids=ids)
    doubled: list[tuple[float, bytes]] = []
    for at, frame in rows:
        whole = [frame] if len(frame) > 40 or frame[33] & 2 else split(frame) or [frame]
        copies = {
            "twice": [frame, frame],
            "tagged": [frame, frame],
            "split later": [frame, *whole],
            "split before": [*whole, frame],
        }[how]
        doubled += [(at + 0.001 * n, copy) for n, copy in enumerate(copies)]
    link = 101
    if how == "tagged":
        # The same packet, with and without a VLAN tag.
        tags = [b"\x08\0", b"\x81\0\0\7\x08\0"]
        doubled = [(at, bytes(12) + tags[n % 2] + frame) for n, (at, frame) in enumerate(doubled)]
        link = 1
    run, once = capture(tmp_path, pcap(doubled, link)), capture(tmp_path, pcap(rows), "once.pcap")
    assert run.flows["retransmitted_packets"].to_list() == [2]
    assert run.flows["sent_packets"].to_list() == [13]
    for name in ("goodput_bps", "rtt_p50_ns", "rtt_p95_ns"):
        assert run.flow_metrics[0][name] == pytest.approx(once.flow_metrics[0][name], rel=1e-3)
    repeated = [note for note in notes(run) if "captured more than once" in note]
    assert repeated == [
        f"packets captured more than once, of which the first counts: {len(doubled) - 10}"
    ] or (how == "split before" and len(repeated) == 1)


def test_a_retransmission_is_no_copy(tmp_path: Path) -> None:
    # An RTT of 0.2 ms; the second is sent again after 0.3 ms, with the same header.
    rows = [
        (0, segment(99, 0, flags=SYN)),
        (0.2, segment(499, 100, flags=SYN | 16, back=True)),
        (0.201, segment(100, 500)),
        *[(1 + n / 100, segment(100 + 1000 * n, 500, 1000)) for n in range(3)],
        (1.2, segment(500, 1100, back=True)),
        (1.31, segment(1100, 500, 1000)),
        (1.51, segment(500, 3100, back=True)),
    ]
    run = capture(tmp_path, pcap(rows))
    assert run.flows["retransmitted_packets"].to_list() == [1]
    # Soon, but with another identification.
    again = [(at, frame) for at, frame in rows if at != 1.31]
    numbered = [
        (at, frame[:4] + struct.pack(">H", 50 + n) + frame[6:])
        for n, (at, frame) in enumerate(again)
    ]
    numbered.append((1.021, segment(1100, 500, 1000, number=70)))
    run = capture(tmp_path, pcap(sorted(numbered)))
    assert run.flows["retransmitted_packets"].to_list() == [1]


def stamped(value: int, echo: int) -> bytes:
    return struct.pack(">BBBBII", 1, 1, 8, 10, value, echo)


def test_an_echo_that_waited_for_data_is_no_rtt(tmp_path: Path) -> None:
    rows: list[tuple[float, bytes]] = []
    at = 0.0
    # Near the receiver: an RTT of 30 ms; before the fifth segment the application waits for 45 s.
    for n in range(10):
        at += 45_000 if n == 5 else 30
        rows.append((at, segment(100 + 1000 * n, 500, 1000, options=stamped(n + 1, 1000 + n))))
        answer = segment(500, 1100 + 1000 * n, back=True, options=stamped(1001 + n, n + 1))
        rows.append((at + 0.1, answer))
    run = capture(tmp_path, pcap(rows))
    assert run.samples["rtt_ns"].drop_nulls().unique().to_list() == [30_000_000]
    assert "echoes of timestamps that may have waited for data, left out of RTTs: 1" in notes(run)


def test_reordering_is_told_by_timestamps_and_identifications(tmp_path: Path) -> None:
    def run(stamps: list[int] | None, ids: list[int] | None) -> int:
        rows: list[tuple[float, bytes]] = [*LOSS[:3]]
        # The sixth arrives 15 ms after the seventh: more than a quarter of the RTT.
        for place, n in enumerate([0, 1, 2, 3, 4, 6, 5]):
            options = stamped(stamps[place], 0) if stamps else b""
            number = ids[place] if ids else 0
            frame = segment(100 + 1000 * n, 500, 1000, options=options, number=number)
            rows.append((21 + place + 15 * (n == 5), frame))
        return int(capture(tmp_path, pcap(rows)).flows["retransmitted_packets"][0])

    assert run(None, None) == 1
    assert run([1, 2, 3, 4, 5, 7, 6], None) == 0
    assert run([1, 2, 3, 4, 5, 7, 9], None) == 1
    assert run(None, [1, 2, 3, 4, 5, 7, 6]) == 0
    assert run(None, [1, 2, 3, 4, 5, 7, 9]) == 1


def test_a_capture_without_acknowledgments_counts_what_it_has(tmp_path: Path) -> None:
    rows = [(n * 10, segment(100 + 1000 * n, 500, 1000)) for n in range(11)]
    run = capture(tmp_path, pcap(rows))
    assert run.flows["goodput_bytes"].to_list() == [11_000]
    assert any("without acknowledgments" in note for note in notes(run))


def test_a_file_out_of_order_is_sorted(tmp_path: Path) -> None:
    rows = list(LOSS)
    for n in range(3, len(rows) - 1, 2):
        rows[n], rows[n + 1] = rows[n + 1], rows[n]
    run, plain = capture(tmp_path, pcap(rows)), capture(tmp_path, pcap(LOSS), "plain.pcap")
    assert run.samples.equals(plain.samples)
    assert run.packets.equals(plain.packets)
    assert any("were sorted" in note for note in notes(run))


def block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


SECTION = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
INTERFACE = block(1, struct.pack("<HHI", 101, 0, 0))


def test_blocks_of_pcapng_are_read_or_named(tmp_path: Path) -> None:
    simple = b"".join(
        block(3, struct.pack("<I", len(frame)) + frame) for _, frame in LOSS if len(frame) % 4 == 0
    )
    with pytest.raises(CaptureError, match="15 simple packet blocks, which have no time"):
        capture(tmp_path, SECTION + INTERFACE + simple, "simple.pcapng")

    def obsolete(ms: float, frame: bytes) -> bytes:
        micros = round(ms * 1000)
        head = struct.pack(
            "<HHIIII", 0, 0, micros >> 32, micros & 0xFFFFFFFF, len(frame), len(frame)
        )
        return block(2, head + frame)

    rows = b"".join(obsolete(ms, frame) for ms, frame in LOSS)
    run = capture(tmp_path, SECTION + INTERFACE + rows + simple, "old.pcapng")
    assert run.flows["goodput_bytes"].to_list() == [5000]
    assert "simple packet blocks, which have no time: 15" in notes(run)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty"),
        (b"hello", "no capture, qlog, iperf3 output or Flent data that is known"),
        (pcap([]), "the capture has no packet"),
        (pcap(LOSS, link=147), "a kind of link that is not read"),
        (pcap([(0, segment(1, 1))]), "none of 1 packets is of TCP with data"),
        (b'{"qlog_version": "0.3", "traces": [', "it ends within its JSON"),
        (b'{"qlog_version": "0.3", "traces": []}', "none of 0 events"),
        (b'{"start": {}, "intervals": [], "end": {}}', "no interval of a stream"),
        (b'{"start": {}, "intervals": [], "error": "unable to connect"}', "unable to connect"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        capture(tmp_path, data, "file")


# qlog, as stacks write it.


def sent(number: int, offset: int, length: int = 1000) -> dict[str, Any]:
    frame = {"frame_type": "stream", "stream_id": 0, "offset": offset, "length": length}
    header = {"packet_type": "1RTT", "packet_number": number}
    return {"header": header, "raw": {"length": length + 50}, "frames": [frame]}


def acked(*ranges: list[int]) -> dict[str, Any]:
    frames = [{"frame_type": "ack", "acked_ranges": list(ranges)}]
    return {"header": {"packet_type": "1RTT", "packet_number": 0}, "frames": frames}


#: Packet 1 is lost, and its data goes out again as packet 4. Times are in milliseconds.
EVENTS: list[tuple[float, str, dict[str, Any]]] = [
    *[(float(n), "packet_sent", sent(n, 1000 * n)) for n in range(4)],
    (20.0, "packet_received", acked([0, 0], [2, 3])),
    (20.0, "metrics_updated", {"latest_rtt": 17.0, "min_rtt": 17.0, "congestion_window": 12000}),
    (21.0, "packet_lost", {"header": {"packet_type": "1RTT", "packet_number": 1}}),
    (22.0, "packet_sent", sent(4, 1000)),
    (40.0, "packet_received", acked([0, 0], [2, 4])),
]


def objects(prefix: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"time": t, "name": prefix.get(name, "transport:") + name, "data": data}
        for t, name, data in EVENTS
    ]


OLD = {"metrics_updated": "recovery:", "packet_lost": "recovery:"}
NEW = dict.fromkeys(["packet_sent", "packet_received", "packet_lost"], "quic:")


def sequence(separator: str) -> str:
    """Return events as texts; each time is from the event before."""
    common = {"time_format": "relative_to_previous_event"}
    head = {"qlog_version": "0.4", "trace": {"common_fields": common}}
    texts, last = [json.dumps(head)], 0.0
    for event in objects({**NEW, "metrics_updated": "quic:recovery_"}):
        texts.append(json.dumps({**event, "time": event["time"] - last}))
        last = event["time"]
    return "".join(f"{separator}{text}\n" for text in texts)


def arrays() -> str:
    """Return what picoquic writes: arrays, numbers as text, microseconds, names in capitals."""
    fields = ["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"]
    events = []
    for t, name, data in EVENTS:
        if name == "metrics_updated":
            data = {"cwnd": 12000, "latest_rtt": 17000, "min_rtt": 17000}
        elif "raw" in data:
            header = {"packet_size": 1050, "packet_number": str(data["header"]["packet_number"])}
            data = {"packet_type": "1RTT", "header": header, "frames": data["frames"]}
        category = "RECOVERY" if name in OLD else "TRANSPORT"
        events.append([str(round(t * 1000)), category, name.upper(), data])
    trace = {
        "event_fields": fields,
        "configuration": {"time_units": "us"},
        "common_fields": {"reference_time": "1700000000000000"},
        "events": events,
    }
    return json.dumps({"qlog_version": "draft-00", "traces": [trace]})


def whole() -> str:
    trace = {"vantage_point": {"type": "server"}, "events": objects(OLD)}
    return json.dumps({"qlog_version": "0.3", "traces": [trace]})


@pytest.mark.parametrize(
    "text",
    [whole(), sequence("\x1e"), sequence(""), arrays()],
    ids=["0.3", "json-seq", "lines", "draft-00"],
)
def test_every_dialect_says_the_same(tmp_path: Path, text: str) -> None:
    run = capture(tmp_path, text.encode(), "log.qlog")
    (flow,) = run.flows.to_dicts()
    assert flow["goodput_bytes"] == 4000
    assert (flow["sent_packets"], flow["retransmitted_packets"]) == (5, 1)
    assert flow["lost_packets"] == 1
    assert flow["base_rtt_ns"] == 17_000_000
    last = run.samples.row(-1, named=True)
    assert (last["cwnd_bytes"], last["rtt_ns"]) == (12_000, 17_000_000)
    assert last["goodput_bytes"] == 4000


def test_rows_are_of_their_time_however_far_events_are_apart(tmp_path: Path) -> None:
    # Another connection 30,000 years later, and nothing between.
    later = [{"time": t + 1e15, "name": f"transport:{n}", "data": d} for t, n, d in EVENTS[:5]]
    events = [*objects(OLD), *({**event, "group_id": "b"} for event in later)]
    text = json.dumps({"qlog_version": "0.3", "traces": [{"events": events}]})
    run = capture(tmp_path, text.encode(), "log.qlog")
    assert run.flows.height == 2
    rows = run.samples.filter(flow=0)
    # What is acknowledged at 20 and at 40 ms counts from then on.
    goodputs = dict(zip(rows["t_ns"], rows["goodput_bytes"], strict=True))
    assert [goodputs[ms * 10**6] for ms in (10, 20, 30, 40)] == [0, 3000, 3000, 4000]


def test_quinn_names_neither_frames_nor_acks_and_has_rtts_in_seconds(tmp_path: Path) -> None:
    def packet(kind: str, number: int) -> dict[str, Any]:
        return {"header": {"packet_type": kind, "packet_number": number, "length": 1000}}

    def metrics(**values: float) -> tuple[str, dict[str, Any]]:
        return "recovery:metrics_updated", values

    events: list[tuple[float, str, dict[str, Any]]] = [
        (0, "transport:packet_sent", packet("initial", 0)),
        (
            40,
            "transport:packet_received",
            {"header": {"packet_type": "initial", "packet_number": 0}},
        ),
        (40, *metrics(latest_rtt=0.04, min_rtt=0.04, bytes_in_flight=0)),
        *[(50 + n, "transport:packet_sent", packet("1RTT", n)) for n in range(5)],
        (54, *metrics(bytes_in_flight=5000)),
        (95, "transport:packet_received", {"header": {"packet_type": "1RTT", "packet_number": 0}}),
        (95, "recovery:packet_lost", packet("1RTT", 1)),
        (95, *metrics(latest_rtt=0.041, bytes_in_flight=1000)),
        (99, *metrics(latest_rtt=0.0412, bytes_in_flight=0)),
    ]
    head = {"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": {}}
    rows = [{"time": t, "name": name, "data": data} for t, name, data in events]
    text = "".join(f"\x1e{json.dumps(row)}\n" for row in [head, *rows])
    run = capture(tmp_path, text.encode(), "quinn.qlog")
    (flow,) = run.flows.to_dicts()
    # Six packets were sent, and one was lost.
    assert (flow["goodput_bytes"], flow["lost_packets"]) == (5000, 1)
    assert flow["base_rtt_ns"] == 40_000_000
    assert run.samples["rtt_ns"][-1] == 41_200_000
    assert run.source is not None
    assert any("RTTs in seconds" in note for note in run.source["notes"])


def test_a_sequence_that_is_cut_is_incomplete(tmp_path: Path) -> None:
    run = capture(tmp_path, sequence("\x1e")[:-20].encode(), "log.sqlog")
    assert run.incomplete == "the file ends within an event"
    assert run.flows["goodput_bytes"].to_list() == [3000]


def test_events_have_the_columns_that_the_file_lists(tmp_path: Path) -> None:
    text = json.loads(arrays())
    (trace,) = text["traces"]
    trace["event_fields"] = [
        "group_id",
        "relative_time",
        "CATEGORY",
        "EVENT_TYPE",
        "TRIGGER",
        "DATA",
    ]
    trace["events"] = [
        [7, time, kind, name, "x", data] for time, kind, name, data in trace["events"]
    ]
    run = capture(tmp_path, json.dumps(text).encode(), "log.qlog")
    assert run.flows["goodput_bytes"].to_list() == [4000]
    # Without a list, five columns are those of the first draft.
    del trace["event_fields"]
    trace["events"] = [event[1:] for event in trace["events"]]
    run = capture(tmp_path, json.dumps(text).encode(), "log.qlog")
    assert run.flows["goodput_bytes"].to_list() == [4000]


def test_datagrams_count_as_data(tmp_path: Path) -> None:
    def packet(number: int, frames: list[dict[str, Any]]) -> dict[str, Any]:
        header = {"packet_type": "1RTT", "packet_number": number}
        return {"header": header, "raw": {"length": 1250}, "frames": frames}

    datagram = {"frame_type": "datagram", "length": 1200}
    unnamed = {"frame_type": "unknown", "frame_type_bytes": 0x31, "raw": {"payload_length": 500}}
    events = [
        *[(float(n), "packet_sent", packet(n, [datagram])) for n in range(4)],
        (20.0, "packet_received", acked([0, 2])),
        (21.0, "packet_received", packet(9, [unnamed, datagram])),
    ]
    rows = [{"time": t, "name": f"transport:{name}", "data": data} for t, name, data in events]
    text = json.dumps({"qlog_version": "0.3", "traces": [{"events": rows}]})
    run = capture(tmp_path, text.encode(), "log.qlog")
    # Three of four arrived, and a packet with two came back.
    assert run.flows["goodput_bytes"].to_list() == [3600, 1700]
    assert any("DATAGRAM frames" in note and note.endswith(": 6500") for note in notes(run))


@pytest.mark.parametrize("packed", [False, True])
def test_one_text_that_ends_early_is_read_up_to_there(tmp_path: Path, *, packed: bool) -> None:
    text = whole().encode()
    # Within the last event, as a process that is killed leaves it.
    data = text[: text.rindex(b"acked_ranges")]
    if packed:
        data = gzip.compress(text)[:-30]
    run = capture(tmp_path, data, "log.qlog")
    assert run.incomplete == "the file ends within an event"
    assert run.flows["goodput_bytes"].to_list() == [3000]


def test_metrics_do_not_make_a_flow_longer(tmp_path: Path) -> None:
    metrics = [(1000.0 * n, "metrics_updated", {"bytes_in_flight": 0}) for n in range(1, 9)]
    later = [{"time": t, "name": f"recovery:{name}", "data": data} for t, name, data in metrics]
    text = json.dumps({"qlog_version": "0.3", "traces": [{"events": [*objects(OLD), *later]}]})
    run = capture(tmp_path, text.encode(), "log.qlog")
    assert run.flows["stop_ns"].to_list() == [40_000_000]
    # 4000 bytes in 40 ms.
    assert run.flow_metrics[0]["goodput_bps"] == 800_000


# iperf3.


def iperf3() -> dict[str, Any]:
    def row(n: int, **more: int) -> dict[str, Any]:
        stream = {"socket": 5, "start": float(n), "end": n + 1.0, "bytes": 1_250_000}
        return {**stream, "retransmits": n, "snd_cwnd": 60_000, "rtt": 20_000 + n, "sender": True}

    connected = {"socket": 5, "local_host": "10.0.0.1", "local_port": 40000}
    connected |= {"remote_host": "10.0.0.2", "remote_port": 5201}
    start = {"connected": [connected], "tcp_mss_default": 1448, "test_start": {"protocol": "TCP"}}
    total = {"sender": {"socket": 5, "bytes": 3_750_000, "retransmits": 3, "min_rtt": 19_500}}
    total["receiver"] = {"socket": 5, "bytes": 3_700_000}
    end = {"streams": [total], "sender_tcp_congestion": "bbr"}
    return {"start": start, "intervals": [{"streams": [row(n)]} for n in range(3)], "end": end}


def lines(result: dict[str, Any]) -> str:
    rows = [("start", result["start"]), *[("interval", one) for one in result["intervals"]]]
    rows.append(("end", result["end"]))
    return "".join(json.dumps({"event": name, "data": data}) + "\n" for name, data in rows)


@pytest.mark.parametrize("text", [json.dumps(iperf3()), lines(iperf3())], ids=["json", "stream"])
def test_a_result_of_iperf3(tmp_path: Path, text: str) -> None:
    run = capture(tmp_path, text.encode(), "iperf3.json")
    (flow,) = run.flows.to_dicts()
    assert flow["label"] == "10.0.0.1:40000 to 10.0.0.2:5201"
    assert (flow["cc"], flow["mss_bytes"]) == ("bbr", 1448)
    assert (flow["goodput_bytes"], flow["base_rtt_ns"]) == (3_700_000, 19_500_000)
    assert run.samples["t_ns"].to_list() == [0, 10**9, 2 * 10**9, 3 * 10**9]
    assert run.samples["goodput_bytes"].to_list() == [0, 1_250_000, 2_500_000, 3_700_000]
    assert run.samples["retransmitted_packets"].to_list() == [0, 0, 1, 3]


def udp(streams: int) -> dict[str, Any]:
    """Return a test of UDP at the sender: 1000 packets of 1000 bytes a stream, from 400 lost."""

    def row(socket: int, n: int) -> dict[str, Any]:
        stream = {"socket": socket, "start": float(n), "end": n + 1.0, "bytes": 500_000}
        return {**stream, "packets": 500, "sender": True}

    sockets = range(5, 5 + streams)
    totals = [
        {"udp": {"socket": s, "bytes": 10**6, "packets": 1000, "lost_packets": 400 + 200 * (s - 5)}}
        for s in sockets
    ]
    arrived = sum(1000 * (600 - 200 * n) for n in range(streams))
    end = {"streams": totals, "sum_received": {"start": 0, "end": 2.5, "bytes": arrived}}
    intervals = [{"streams": [row(s, n) for s in sockets]} for n in range(2)]
    return {"start": {"test_start": {"protocol": "UDP"}}, "intervals": intervals, "end": end}


def test_udp_counts_what_the_receiver_got(tmp_path: Path) -> None:
    run = capture(tmp_path, json.dumps(udp(1)).encode(), "udp.json")
    (flow,) = run.flows.to_dicts()
    assert (flow["goodput_bytes"], flow["sent_packets"], flow["lost_packets"]) == (
        600_000,
        1000,
        400,
    )
    # In the receiver's 2.5 s, and over time as it was sent.
    assert run.flow_metrics[0]["goodput_bps"] == 600_000 * 8 / 2.5
    assert run.samples["goodput_bytes"].to_list() == [0, 300_000, 600_000]
    assert not any("senders wrote" in note for note in notes(run))
    # The receiver reports a sum of all streams.
    run = capture(tmp_path, json.dumps(udp(2)).encode(), "udp.json")
    assert run.flows["goodput_bytes"].to_list() == [600_000, 400_000]


def test_each_test_of_a_file_is_read(tmp_path: Path, cli: Command) -> None:
    first, second = iperf3(), iperf3()
    first["start"]["timestamp"] = {"timesecs": 1_700_000_000}
    second["start"]["timestamp"] = {"timesecs": 1_700_000_010}
    text = f"Server listening on 5201\n{json.dumps(first, indent=1)}\n---\n{json.dumps(second)}\n"
    run = capture(tmp_path, text.encode(), "iperf3.json")
    assert run.flows["goodput_bytes"].to_list() == [3_700_000, 3_700_000]
    assert run.flows["start_ns"].to_list() == [0, 10_000_000_000]
    assert [label[:7] for label in run.flows["label"]] == ["test 1:", "test 2:"]
    # The count of retransmissions is shown, since iperf3 does not count packets.
    assert "3 packets" in cli("import", "iperf3.json").stdout
    # The last test is cut.
    run = capture(tmp_path, text[: text.rindex('"interval') + 60].encode(), "cut.json")
    assert run.incomplete is not None


def test_a_test_that_is_cut_within_one_text_is_read_up_to_there(tmp_path: Path) -> None:
    text = json.dumps(iperf3())
    run = capture(tmp_path, text[: text.rindex('"retransmits": 2')].encode(), "iperf3.json")
    assert run.incomplete is not None
    assert run.flows["goodput_bytes"].to_list() == [2_500_000]


def test_a_stream_of_iperf3_that_is_cut_is_incomplete(tmp_path: Path) -> None:
    run = capture(tmp_path, lines(iperf3())[:-40].encode(), "iperf3.json")
    assert run.incomplete is not None
    assert run.flows["goodput_bytes"].to_list() == [3_750_000]


# Flent.


def test_what_flent_gets_comes_back(simulated: paceline.Run, tmp_path: Path) -> None:
    (file,) = export([simulated], "flent", tmp_path / "run.flent.gz")
    data = json.loads(gzip.decompress(file.read_bytes()))
    first, second = (data["results"][f"TCP upload::{n}"] for n in (1, 2))
    average = data["results"]["TCP upload avg"]
    # Only the first flow is active in the first second.
    assert average[3] == first[3]
    assert average[12] == (first[12] + second[12]) / 2
    run = paceline.Run.capture(file)
    assert run.backend == "flent"
    assert run.flows["cc"].cast(str).to_list() == ["cubic", "bbr3"]
    for read, known in zip(run.flow_metrics, simulated.flow_metrics, strict=True):
        # To the step of 200 ms.
        assert read["goodput_bps"] == pytest.approx(known["goodput_bps"], rel=0.07)
        assert read["rtt_p50_ns"] == pytest.approx(known["rtt_p50_ns"], rel=0.1)
    assert any("ping" in note for note in notes(run))


def test_flents_series_by_hand(tmp_path: Path) -> None:
    meta = {
        "TCP download": {"UNITS": "Mbits/s", "CONG_CONTROL": "cubic"},
        "TCP avg": {"UNITS": "Mbits/s"},
    }
    results = {
        "TCP download": [None, None, 8.0, 4.0, None],
        "TCP avg": [None, None, 8.0, 4.0, None],
        "TCP download::tcp_rtt": [10.0, 10.0, 30.0, 20.0, 10.0],
    }
    data = {"metadata": {"SERIES_META": meta}, "x_values": [0, 1, 2, 3, 4], "results": results}
    run = capture(tmp_path, json.dumps(data).encode(), "x.flent")
    (flow,) = run.flows.to_dicts()
    # 1 MB in the second that ends at 2 s, half in the next.
    assert (flow["start_ns"], flow["goodput_bytes"], flow["cc"]) == (10**9, 1_500_000, "cubic")
    assert run.flow_metrics[0]["goodput_bps"] == 6_000_000
    assert "series that are no rates of a flow, left out: 2" in notes(run)
    spoiled: list[dict[str, Any]] = [{"x_values": [0, 0]}, {"results": {}}, {"results": 7}]
    for bad in spoiled:
        with pytest.raises(CaptureError):
            capture(tmp_path, json.dumps({**data, **bad}).encode(), "bad.flent")


# The command.


def test_a_file_of_no_known_format_gets_a_list_of_them(tmp_path: Path, cli: Command) -> None:
    (tmp_path / "x.bin").write_bytes(b"snoop\0\0\0\0\0\0\2\0\0\0\4\xff\xfe")
    result = cli("import", "x.bin")
    assert result.returncode == 2
    assert "has no known format" in result.stderr
    for name in ("pcap", "qlog", "iperf3", "flent", "mahimahi", "csv", "editcap"):
        assert name in result.stderr
    assert "TOML" not in result.stderr


def test_the_command_keeps_a_run_that_others_read(tmp_path: Path, cli: Command) -> None:
    (tmp_path / "web.pcap").write_bytes(pcap(LOSS))
    result = cli("import", "web.pcap")
    assert result.returncode == 0, result.stderr
    assert "runs/web" in result.stdout
    assert "note: " in result.stderr
    # The same file is the same run.
    assert "runs/web\n" in cli("import", "web.pcap").stdout
    assert cli("report", "runs/web").returncode == 0
    assert cli("sequence", "runs/web").returncode == 0
    answer = json.loads(cli("import", "web.pcap", "--json").stdout)
    assert answer["format"] == "pcap"
    assert answer["record"]["incomplete"] is None
    compared = cli("compare", "runs/web", "runs/web")
    assert compared.returncode == 0, compared.stderr


def test_the_command_tells_what_is_wrong(tmp_path: Path, cli: Command) -> None:
    (tmp_path / "cut.pcap").write_bytes(pcap(LOSS)[:20])
    result = cli("import", "cut.pcap")
    assert (result.returncode, result.stdout) == (2, "")
    assert "the capture ends within its header" in result.stderr
    (tmp_path / "web.pcap").write_bytes(pcap(LOSS))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note").write_text("mine")
    result = cli("import", "web.pcap", "--out", "mine")
    assert result.returncode == 2
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["note"]


def test_a_record_beyond_its_memory_ends_there(tmp_path: Path) -> None:
    rows = []
    for n in range(20_000):
        rows.append((n * 0.1, segment(100 + 1000 * n, 500, 1000)))
        rows.append((n * 0.1 + 20, segment(500, 1100 + 1000 * n, back=True)))
    rows.sort(key=lambda row: row[0])
    (tmp_path / "large.pcap").write_bytes(pcap(rows))
    inner = _paceline.capture(str(tmp_path / "large.pcap"), None, 1_000_000)
    run = paceline.Run(inner)
    assert run.incomplete is not None
    assert "--memory" in run.incomplete
    assert 0 < run.packets.height < 20_000


@pytest.mark.parametrize("dialect", ["current", "0.3"])
def test_a_draft_case_judges_a_qlog(tmp_path: Path, cli: Command, dialect: str) -> None:
    case = Path(paceline.__file__).parent / "shipped" / "conformance" / "draft-ietf-ccwg-bbr"
    packets = {"run.record.packets": True}
    run = paceline.run(case / "01-startup-bandwidth-plateau.toml", overrides=packets)
    run.write(tmp_path / "ours")
    (file,) = export([run], "qlog", tmp_path / "log.qlog", dialect=dialect)
    # Another stack's words.
    text = file.read_text().replace('"Startup"', '"startup"').replace("ProbeBW_", "probe_bw_")
    file.write_text(text)
    paceline.Run.capture(file).write(tmp_path / "theirs")
    ours = cli("conformance", "ours", "--case", "01", "--json")
    assert (ours.returncode, json.loads(ours.stdout)["cases"][0]["verdict"]) == (0, "pass")
    theirs = cli("conformance", "theirs", "--case", "01", "--json")
    assert theirs.returncode == 0, theirs.stdout
    evidence = json.loads(theirs.stdout)["cases"][0]["evidence"]
    assert "step 1 holds" in evidence
    assert "step 3 not applicable" in evidence
    # It leaves Startup at once.
    file.write_text(text.replace('"startup"', '"drain"'))
    paceline.Run.capture(file).write(tmp_path / "broken")
    broken = cli("conformance", "broken", "--case", "01")
    assert broken.returncode == 3
    assert "step 1 does not hold" in broken.stdout
