"""iperf3: the JSON of ``--json`` and ``--json-stream``."""

from __future__ import annotations

from paceline.exchange.declared import Record

RECORD = Record("iperf3", "a result of iperf3 (--json, --json-stream): a flow per stream")
