"""qlog: a flow's events at its sender, in the names of the current drafts or of version 0.3.

Current: draft-ietf-quic-qlog-main-schema-14 and quic-events-13, a JSON text sequence a flow. 0.3:
one file with a trace a flow, for viewers that know no other (qvis). A controller's own fields stand
in a namespace of their own, under the names of the record.

Each transmission has a packet number, as in QUIC. An ACK is of the numbers whose bytes it is the
first to acknowledge; of bytes that were sent again, of the latest.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from heapq import merge
from pathlib import Path
from typing import Any

from paceline._paceline import __version__
from paceline.exchange.declared import Export, Record
from paceline.exchange.pcapng import ack_bytes, headers
from paceline.later import polars as pl
from paceline.runs import Run, packets_of

Event = tuple[int, str, dict[str, Any]]
#: When it came, and what it covers: from the stream's start, and each block.
Ack = tuple[int, list[tuple[int, int]]]

#: Of private event schemas; the names are those of the record's columns.
_OWN = "urn:uuid:0d1a3f7e-5b43-5f0e-9c55-2b2a6c1f7c11#paceline"
_SCHEMAS = ["urn:ietf:params:qlog:events:quic-13", "urn:ietf:params:qlog:events:simulation", _OWN]

#: The metrics of `quic:recovery_metrics_updated`: their columns and units.
_METRICS = {
    "min_rtt": ("min_rtt_ns", 1e6),
    "smoothed_rtt": ("srtt_ns", 1e6),
    "latest_rtt": ("rtt_ns", 1e6),
    "congestion_window": ("cwnd_bytes", 1),
    "bytes_in_flight": ("in_flight_bytes", 1),
    "ssthresh": ("ssthresh_bytes", 1),
    "pacing_rate": ("pacing_bps", 1),
}

#: Columns that are not state of the controller.
_PLAIN = {"t_ns", "flow", "phase", "ca_state", *(column for column, _ in _METRICS.values())}

_OLD = {
    "quic:recovery_metrics_updated": "recovery:metrics_updated",
    "quic:congestion_state_updated": "recovery:congestion_state_updated",
    "quic:packet_sent": "transport:packet_sent",
    "quic:packet_received": "transport:packet_received",
}


def write(runs: Sequence[Run], place: Path, flow: int | None, dialect: str) -> list[Path]:
    """Write the traces of a run: a folder of files, or in the dialect 0.3 one file."""
    (run,) = runs
    rows = run.flows.sort("flow").iter_rows(named=True)
    chosen = [row for row in rows if flow is None or row["flow"] == flow]
    if dialect == "0.3":
        place.write_text(_old(run, chosen), encoding="utf-8")
        return [place]
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for row in chosen:
        path = place / f"flow-{row['flow']}.sqlog"
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for record in (_head(run, row), *_records(run, row)):
                file.write(f"\x1e{json.dumps(record, ensure_ascii=False)}\n")
        written.append(path)
    return written


def _head(run: Run, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": f"{run.scenario}, seed {run.seed}",
        "trace": {
            "title": str(row["label"]),
            "common_fields": {
                "group_id": f"flow-{row['flow']}",
                "time_format": "relative_to_epoch",
                "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
            },
            "vantage_point": {"name": f"paceline {__version__}", "type": "client"},
            "event_schemas": _SCHEMAS,
        },
    }


def _records(run: Run, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for t, name, data in _events(run, row):
        yield {"time": t / 1e6, "name": name, "data": data}


def _old(run: Run, rows: list[dict[str, Any]]) -> str:
    traces = [
        {
            "title": str(row["label"]),
            "vantage_point": {"type": "client"},
            "common_fields": {
                "group_id": f"flow-{row['flow']}",
                "time_format": "relative",
                "reference_time": 0,
            },
            "events": [
                {**record, "name": _OLD.get(record["name"], record["name"])}
                for record in _records(run, row)
            ],
        }
        for row in rows
    ]
    title = f"{run.scenario}, seed {run.seed}"
    head = {"qlog_version": "0.3", "qlog_format": "JSON", "title": title}
    return json.dumps({**head, "traces": traces}, ensure_ascii=False) + "\n"


def _events(run: Run, row: dict[str, Any]) -> Iterator[Event]:
    flow = row["flow"]
    details = {"cc": str(row["cc"]), "seed": run.seed, "flow": flow}
    yield 0, "simulation:scenario", {"name": run.scenario, "details": details}
    parts = [_states(run, flow), _metrics(run, flow)]
    if (packets := packets_of(run)) is not None:
        parts.append(_packets(packets.filter(pl.col("flow") == flow), headers(run)[flow]))
    yield from merge(*parts, key=lambda event: event[0])


def _states(run: Run, flow: int) -> Iterator[Event]:
    """Return changes of state, and the events of the flow and of the path."""
    rows = run.events.filter(pl.col("flow").is_null() | (pl.col("flow") == flow))
    for row in rows.iter_rows(named=True):
        kind, before, now = row["kind"], row["from"] or "", row["detail"]
        if kind == "change":
            kind, before = row["key"], before or _amount(row["before_value"], row["unit"])
            now = now or _amount(row["value"], row["unit"])
        if kind == "state":
            data = {"new": now} if not before else {"old": before, "new": now}
            yield row["t_ns"], "quic:congestion_state_updated", data
        else:
            data = {"type": kind, "message": f"{before} -> {now}" if before else now}
            yield row["t_ns"], "simulation:marker", data


def _amount(value: float | None, unit: str | None) -> str:
    """Return a value with its unit; nothing if there is none."""
    return "" if value is None else f"{value:.15g} {unit}".removesuffix(" 1")


def _metrics(run: Run, flow: int) -> Iterator[Event]:
    """Return the changes since the previous sample."""
    samples = run.samples.filter(pl.col("flow") == flow)
    columns = [c for c in samples.columns if samples[c].null_count() < samples.height]
    known = [(name, c, unit) for name, (c, unit) in _METRICS.items() if c in columns]
    own = [column for column in columns if column not in _PLAIN]
    last: dict[str, Any] = {}
    for row in samples.iter_rows(named=True):
        data = {}
        for name, column, unit in known:
            value = row[column]
            if value is not None and value != last.get(name):
                last[name], data[name] = value, value if unit == 1 else value / unit
        state = {c: row[c] for c in own if row[c] is not None and row[c] != last.get(c)}
        last |= state
        if data:
            yield row["t_ns"], "quic:recovery_metrics_updated", data
        if state:
            yield row["t_ns"], "paceline:controller_updated", state


def _packets(packets: pl.DataFrame, header: int) -> Iterator[Event]:
    """Return transmissions, drops on the path, and acknowledgments."""
    unacked = _Unacked()
    number = -1
    came = 0
    ack: Ack | None = None
    columns = ("t_ns", "kind", "seq_bytes", "len_bytes")
    for t, kind, seq, length in packets.select(columns).iter_rows():
        if kind == "sack" and ack is not None:
            ack[1].append((seq, seq + length))
            continue
        if ack is not None:
            yield _received(came, ack, unacked, header)
            came += 1
            ack = None
        if kind in ("send", "retransmit"):
            number += 1
            unacked.sent(number, seq, seq + length)
            stream = {"frame_type": "stream", "stream_id": 0, "offset": seq}
            data = {
                "header": {"packet_type": "1RTT", "packet_number": number},
                "raw": {"length": header + length, "payload_length": length},
                "frames": [{**stream, "raw": {"payload_length": length}}],
            }
            yield t, "quic:packet_sent", data
        elif kind == "drop":
            message = f"packet {unacked.number(seq)}"
            yield t, "simulation:marker", {"type": "drop", "message": message}
        elif kind == "ack":
            ack = t, [(0, seq)]
    if ack is not None:
        yield _received(came, ack, unacked, header)


def _received(number: int, ack: Ack, unacked: _Unacked, header: int) -> Event:
    t, (total, *blocks) = ack
    data: dict[str, Any] = {
        "header": {"packet_type": "1RTT", "packet_number": number},
        "raw": {"length": ack_bytes(header, len(blocks))},
    }
    if numbers := sorted(n for block in (total, *blocks) for n in unacked.acknowledge(*block)):
        data["frames"] = [{"frame_type": "ack", "acked_ranges": _ranges(numbers)}]
    return t, "quic:packet_received", data


class _Unacked:
    """The packets whose bytes are not acknowledged, in the order of the stream."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        #: A packet's number and its end, by its first byte.
        self._packets: dict[int, tuple[int, int]] = {}

    def sent(self, number: int, start: int, end: int) -> None:
        """Add a packet; it replaces one with the same first byte."""
        if start not in self._packets:
            insort(self._starts, start)
        self._packets[start] = number, end

    def number(self, start: int) -> int | None:
        """Return the number of the latest packet with this first byte."""
        return self._packets.get(start, (None, 0))[0]

    def acknowledge(self, start: int, end: int) -> list[int]:
        """Remove and return the numbers of packets between `start` and `end`."""
        first = bisect_left(self._starts, start)
        last = bisect_left(self._starts, end, first)
        if last > first and self._packets[self._starts[last - 1]][1] > end:
            last -= 1
        taken = [self._packets.pop(at)[0] for at in self._starts[first:last]]
        del self._starts[first:last]
        return taken


def _ranges(numbers: list[int]) -> list[list[int]]:
    """Return runs of successive numbers as first and last."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


EXPORT = Export(
    "qlog", "the sender's view, one file per flow", {"current": "qlog", "0.3": "run.qlog"}, write
)

RECORD = Record("qlog", "what an end of QUIC connections logged, in any version of qlog")
