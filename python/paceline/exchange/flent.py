"""Flent: a run as the data file of its test ``tcp_nup``, which flent and flent-gui plot; its data.

Rates are of what arrived, in steps of 200 ms. The ping is what one would have measured: the first
flow's round trip without queues, and the time in the bottleneck's queue.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from paceline.exchange.declared import Export, Record
from paceline.later import polars as pl
from paceline.runs import Run

#: Version of the file format.
_VERSION = 4
_STEP_NS = 200_000_000
#: A simulation has no date, and a file must be identical every time.
_EPOCH = "1970-01-01T00:00:00.000000Z"


def write(runs: Sequence[Run], path: Path, flow: int | None, _: str) -> list[Path]:
    """Write the rates of a run's flows and the delay, compressed."""
    (run,) = runs
    flows = run.flows.sort("flow")
    if flow is not None:
        flows = flows.filter(pl.col("flow") == flow)
    end = max(int(run.samples["t_ns"].max() or 0), _STEP_NS)  # type: ignore[arg-type]
    times = list(range(0, end + 1, _STEP_NS))
    results: dict[str, list[float | None]] = {}
    meta: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(flows.iter_rows(named=True), 1):
        name = f"TCP upload::{number}"
        results[name] = _rates(run.samples.filter(pl.col("flow") == row["flow"]), times)
        meta[name] = {"UNITS": "Mbits/s", "CONG_CONTROL": str(row["cc"]), "LABEL": row["label"]}
    streams = list(results.values())
    known = [[v for v in values if v is not None] for values in zip(*streams, strict=True)]
    results["TCP upload sum"] = [sum(values) if values else None for values in known]
    # As Flent's own: of the streams that have a value.
    results["TCP upload avg"] = [sum(values) / len(values) if values else None for values in known]
    waits = _at(run.queue.filter(pl.col("link") == 0), "delay_ns", times)
    base = int(flows["base_rtt_ns"][0])
    results["Ping (ms) ICMP"] = [None if wait is None else (base + wait) / 1e6 for wait in waits]
    meta |= {name: {"UNITS": "Mbits/s"} for name in ("TCP upload sum", "TCP upload avg")}
    meta["Ping (ms) ICMP"] = {"UNITS": "ms"}
    seconds = [t / 1e9 for t in times]
    raw = {
        name: [{"t": t, "val": v} for t, v in zip(seconds, values, strict=True) if v is not None]
        for name, values in results.items()
        if not name.startswith(("TCP upload s", "TCP upload a"))
    }
    document = {
        "version": _VERSION,
        "metadata": _metadata(run, path, len(streams), end, meta),
        "x_values": seconds,
        "results": results,
        "raw_values": raw,
    }
    text = json.dumps(document, ensure_ascii=False).encode()
    # Neither a time nor a name: the same bytes every time.
    with path.open("wb") as packed, gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as file:
        file.write(text)
    return [path]


def _metadata(
    run: Run, path: Path, streams: int, end: int, series: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    return {
        "NAME": "tcp_nup",
        "TITLE": f"{run.scenario}, seed {run.seed}",
        "HOST": "receiver",
        "HOSTS": ["receiver"],
        "LOCAL_HOST": f"sender, {'emulated' if run.backend == 'emu' else 'simulated'}",
        "TIME": _EPOCH,
        "T0": _EPOCH,
        "LENGTH": end / 1e9,
        "TOTAL_LENGTH": end / 1e9,
        "STEP_SIZE": _STEP_NS / 1e9,
        "TEST_PARAMETERS": {"upload_streams": str(streams)},
        "IP_VERSION": 4,
        "DATA_FILENAME": path.name,
        "SERIES_META": series,
    }


def _rates(samples: pl.DataFrame, times: list[int]) -> list[float | None]:
    """Return Mbit/s in the step that ends at each time; nothing before the flow starts."""
    totals = pairwise(_at(samples, "delivered_bytes", times))
    grown = [None if now is None else now - (before or 0) for before, now in totals]
    return [None, *(None if bytes_ is None else bytes_ * 8e3 / _STEP_NS for bytes_ in grown)]


def _at(rows: pl.DataFrame, column: str, times: list[int]) -> list[int | None]:
    """Return a column's value in the last row at or before each time."""
    known = rows.select("t_ns", column).sort("t_ns")
    return pl.DataFrame({"t_ns": times}).join_asof(known, on="t_ns")[column].to_list()


EXPORT = Export("flent", "rates and delay, for flent and flent-gui", "run.flent.gz", write)
RECORD = Record("flent", "data of Flent (.flent, .flent.gz): a flow per series of rates")
