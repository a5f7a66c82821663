"""LEDBAT++ beside BBR: what the modified target changes, and what it must not."""

from __future__ import annotations

from pathlib import Path

import pytest

import paceline

ROOT = Path(__file__).parent.parent
SCENARIO = ROOT / "scenarios/bbr-vs-ledbat/bbr-with-ledbat.toml"
TABLES = ("flows", "samples", "queue", "events")


def tables(folder: Path, rule: str, rtt: str) -> dict[str, bytes]:
    overrides = {
        "run.duration": "40 s",
        "path.rtt": rtt,
        "flows.1.cc.name": "ledbat++",
        "flows.1.cc.target_rule": rule,
    }
    run = folder / f"{rule} {rtt}"
    paceline.run(SCENARIO, seed=1, overrides=overrides).write(run)
    return {table: (run / f"{table}.parquet").read_bytes() for table in TABLES}


@pytest.mark.parametrize("rtt", ["60 ms", "61 ms", "100 ms"])
def test_the_modified_target_changes_nothing_from_60_ms_on(rtt: str, tmp_path: Path) -> None:
    assert tables(tmp_path, "min-base-rtt", rtt) == tables(tmp_path, "fixed", rtt)


def test_the_modified_target_changes_the_record_below_60_ms(tmp_path: Path) -> None:
    # A packet's time on the link, 0.6 ms, counts to the base RTT.
    modified, fixed = (tables(tmp_path, rule, "58 ms") for rule in ("min-base-rtt", "fixed"))
    assert modified["samples"] != fixed["samples"]
