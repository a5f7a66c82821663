"""The module: runs, tables, errors."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paceline
from conftest import SCENARIO


def test_a_run_from_text_and_from_a_path_are_one(run: paceline.Run, scenario: Path) -> None:
    other = paceline.run(scenario)
    assert other.samples.equals(run.samples)
    assert other.metrics == run.metrics
    assert paceline.run(SCENARIO, seed=3).samples.equals(run.samples)
    assert run.scenario == "scenario"
    assert other.scenario == "small"


def test_tables_come_without_a_copy(run: paceline.Run) -> None:
    table = run.table("samples")
    first, second = pa.table(table), pa.table(table)
    column = first["t_ns"].chunk(0)
    address = column.buffers()[1].address
    assert second["t_ns"].chunk(0).buffers()[1].address == address
    frame = pl.DataFrame(table)
    back = frame["t_ns"].to_arrow().buffers()[1].address
    assert back == address
    # The memory lives as long as somebody holds it.
    text = str(frame["phase"][0])
    del table, first, second, column
    assert str(frame["phase"][0]) == text


def test_the_files_of_tables_describe_their_columns(run: paceline.Run, tmp_path: Path) -> None:
    run.write(tmp_path / "run")
    for table in ("flows", "samples", "queue", "events"):
        described = pq.read_schema(tmp_path / "run" / f"{table}.parquet")
        assert described.equals(pa.table(run.table(table)).schema, check_metadata=True), table
        assert described.metadata[b"paceline.schema"] == b"2"


def test_other_libraries_take_the_tables(run: paceline.Run) -> None:
    frame = pa.table(run.table("flows")).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["cc"]) == ["bbr3", "reno"]
    assert run.flows["cc"].cast(pl.String).to_list() == ["bbr3", "reno"]
    assert len(run.table("samples")) == run.samples.height
    assert run.table("samples").columns == run.samples.columns


def test_tables_hold_what_happened(run: paceline.Run) -> None:
    assert run.samples["t_ns"].max() == 2_000_000_000
    assert run.queue.height > 10
    assert "Startup" in run.events["detail"].cast(pl.String).to_list()
    with pytest.raises(KeyError, match="packets"):
        run.table("packets")


def test_a_run_survives_its_folder(run: paceline.Run, tmp_path: Path) -> None:
    run.write(tmp_path / "r")
    back = paceline.read(tmp_path / "r")
    assert back.metrics == run.metrics
    assert back.samples.equals(run.samples)
    assert back.scenario_toml == run.scenario_toml
    assert back.engine is None
    with pytest.raises(paceline.NotARunError):
        paceline.read(tmp_path)


def test_many_seeds_come_in_their_order() -> None:
    runs = paceline.run_many(SCENARIO, [5, 3, 4], threads=2)
    assert [run.seed for run in runs] == [5, 3, 4]
    alone = paceline.run(SCENARIO, seed=4)
    assert runs[2].metrics == alone.metrics


def test_overrides() -> None:
    run = paceline.run(SCENARIO, overrides={"run.duration": "1 s", "flows.1.cc": "cubic"})
    assert run.samples["t_ns"].max() == 1_000_000_000
    assert run.flow_metrics[1]["cc"] == "cubic"


def test_progress_ends_at_the_end() -> None:
    seen: list[paceline.Progress] = []
    run = paceline.run(SCENARIO, progress=seen.append)
    assert run.engine is not None
    assert seen[-1].simulated_ns == seen[-1].total_ns == 2_000_000_000
    assert seen[-1].packets == run.engine.packets
    assert seen[-1].finished == 1


def test_what_a_callback_raises_comes_out() -> None:
    def stop(_: paceline.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        paceline.run(SCENARIO, overrides={"run.duration": "1000 s"}, progress=stop)


def test_a_wrong_scenario_says_where() -> None:
    with pytest.raises(paceline.ScenarioError) as caught:
        paceline.run(SCENARIO.replace("10 Mbit/s", "10 Mbits"))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.line, diagnostic.key) == (9, "path.rate")
    assert "scenario.toml:9:" in str(caught.value)
    with pytest.raises(paceline.ScenarioError):
        paceline.check(SCENARIO.replace("bbr3", "bbr9"))


def test_short_forms(run: paceline.Run) -> None:
    assert "\n" not in repr(run)
    assert "seed 3" in repr(run)
    assert run._repr_html_().startswith("<table>")


def test_the_catalogue_is_whole(run: paceline.Run) -> None:
    defined = {(m["scope"], m["name"]) for m in paceline.metrics()}
    assert {("run", name) for name in run.metrics} <= defined
    assert {c["name"] for c in paceline.controllers()} >= {"bbr3", "cubic", "reno"}
    assert paceline.schema().startswith("{")
