"""The packets of a run, small enough for a page that holds them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from paceline.runs import packets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paceline import pages
    from paceline.runs import Run

#: The packets that a page draws. Deliveries are left out: their acknowledgments are there.
KINDS = ("send", "retransmit", "drop", "mark", "ack", "sack")

#: Maximum number of packets on a page: a row takes about 3 bytes of it. Later ones are left out.
MOST = 300_000


def of_flows(run: Run, flows: Sequence[int]) -> dict[int, pages.Packets]:
    """Return the packets of each flow; nothing if the run did not record them."""
    frame = packets_of(run)
    if frame is None:
        return {}
    kinds = pl.DataFrame({"kind": KINDS, "code": range(len(KINDS))})
    rows = (
        frame.select("t_ns", "flow", pl.col("kind").cast(pl.String), "seq_bytes", "len_bytes")
        .filter(pl.col("flow").is_in(list(flows)))
        .join(kinds, on="kind", how="inner", maintain_order="left")
        .sort("t_ns", maintain_order=True)
    )
    until = None
    if rows.height > MOST:
        until = int(rows["t_ns"][MOST])
        rows = rows.filter(pl.col("t_ns") < until)
    parts = rows.partition_by("flow", as_dict=True)
    return {flow: _packed(parts.get((flow,), rows.clear()), until) for flow in flows}


def _packed(rows: pl.DataFrame, until: int | None) -> pages.Packets:
    """Return rows as differences, which compress to a fraction."""
    times = (rows["t_ns"] + 500) // 1000
    starts = rows.select(pl.col("seq_bytes").diff().over("code").fill_null(pl.col("seq_bytes")))
    return {
        "kinds": list(KINDS),
        "until": None if until is None else until / 1e9,
        "t_us": [*times.head(1), *times.diff().drop_nulls()],
        "kind": rows["code"].to_list(),
        "seq_bytes": starts["seq_bytes"].to_list(),
        "len_bytes": rows["len_bytes"].to_list(),
    }
