"""Files of public repositories: captures, logs and results that others wrote, and their figures.

`public_files.csv` names each by repository, path and SHA-256. Most figures were compared with those
of another reader: tcptrace, or a count of the segments and bytes of each direction. The files are
not part of this repository: PACELINE_PUBLIC_FILES names a folder with OWNER/NAME/PATH.
"""

from __future__ import annotations

import csv
import hashlib
import os
from pathlib import Path

import pytest

import paceline
from paceline.errors import CaptureError
from paceline.exchange import mahimahi

_HERE = os.environ.get("PACELINE_PUBLIC_FILES")
with (Path(__file__).parent / "public_files.csv").open(encoding="utf-8", newline="") as _file:
    _ROWS = list(csv.DictReader(_file))


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: f"{row['repository']}/{row['path']}")
def test_a_public_file(row: dict[str, str]) -> None:
    file = Path(_HERE or "") / row["repository"] / row["path"]
    if _HERE is None or not file.is_file():
        pytest.skip("PACELINE_PUBLIC_FILES names no folder with this file")
    if hashlib.sha256(file.read_bytes()).hexdigest() != row["sha256"]:
        pytest.skip("it is another version of the file")
    if row["format"] == "mahimahi":
        count, last = mahimahi.opportunities(file.read_text().splitlines())
        assert (count, last) == (int(row["sent_packets"]), int(row["goodput_bytes"]))
        return
    if row["error"]:
        with pytest.raises(CaptureError) as caught:
            paceline.Run.capture(file)
        assert str(caught.value) == row["error"]
        return
    run = paceline.Run.capture(file)
    assert run.backend == row["format"]
    for name in ("goodput_bytes", "sent_packets", "retransmitted_packets"):
        known = run.flows[name].drop_nulls()
        assert (str(known.sum()) if len(known) else "") == row[name], name
    assert run.flows.height == int(row["flows"])
