"""``paceline fit``: paths drawn at random are found, and what cannot be known is not guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paceline
from conftest import Command
from fitting import draw, find
from paceline.study import fit as study

#: Each model, also with a change of the rate, on slow links; `tests/fitting.py` has many more.
SEEDS = (1, 3, 4, 13, 32, 205)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_path_that_was_drawn_is_found(seed: int) -> None:
    drawn = draw(seed)
    found = find(drawn, paceline.run(drawn.text, seed=seed))
    assert found.right, found
    assert found.rate is None or abs(found.rate) < 0.02
    assert abs(found.rtt) < 0.02
    assert found.size is None or abs(found.size) < 0.15


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


def test_what_a_record_does_not_say_is_a_bound() -> None:
    fitted = study.fit(paceline.run(QUIET))
    assert fitted.judged[0].model.name == "none"
    assert fitted.path.stretches[0].rate.high == float("inf")
    assert fitted.path.stretches[0].rate.low < 50e6
    assert fitted.size.high == float("inf")
    assert any("at least what it carried" in note for note in fitted.notes)
    assert any("Nothing was lost" in note for note in fitted.notes)


def test_what_is_written_runs_and_does_as_the_record_does(cli: Command, tmp_path: Path) -> None:
    drawn = draw(1)
    paceline.run(drawn.text).write(tmp_path / "runs" / "mine")
    told = cli("fit", "runs/mine")
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[-1] == "mine-fitted.toml"
    assert "droptail" in told.stdout
    answer = json.loads(cli("fit", "runs/mine", "--json").stdout)
    assert answer["loss"] == "droptail"
    assert answer["fitted"]["goodput_bps"] == pytest.approx(answer["measured"]["goodput_bps"], 0.02)
    again = paceline.run(tmp_path / "mine-fitted.toml")
    assert study.observe(again).metrics == pytest.approx(answer["fitted"])
    # What a user has there is left.
    (tmp_path / "mine-fitted.toml").write_text("mine")
    refused = cli("fit", "runs/mine")
    assert refused.returncode == 2
    assert (tmp_path / "mine-fitted.toml").read_text() == "mine"


def test_a_recording_takes_the_controller_that_one_names(cli: Command, tmp_path: Path) -> None:
    drawn = draw(1)
    run = paceline.run(drawn.text, overrides={"run.record.packets": True, "run.duration": "8 s"})
    run.write(tmp_path / "mine")
    cli("export", "mine", "--format", "pcapng", "--out", "mine.pcapng")
    cli("import", "mine.pcapng", "--out", "read")
    refused = cli("fit", "read")
    assert refused.returncode == 2
    assert "--cc" in refused.stderr
    told = json.loads(cli("fit", "read", "--cc", "bbr3", "--json").stdout)
    assert told["rates"][0]["rate_bps"] == pytest.approx(drawn.rates[0], 0.02)
    assert told["rtt_low_ns"] <= drawn.rtt * 1e9 * 1.02
    unknown = cli("fit", "read", "--cc", "bbr4")
    assert unknown.returncode == 2
    assert "did you mean" in unknown.stderr


def test_a_record_without_flows_is_refused(cli: Command, tmp_path: Path) -> None:
    late = QUIET + 'start = "4.99 s"\n'
    paceline.run(late).write(tmp_path / "late")
    refused = cli("fit", "late")
    assert refused.returncode == 2
    assert "no flow of it has both data and RTTs" in refused.stderr


def test_a_record_with_one_rtt_at_its_end_is_refused(cli: Command, tmp_path: Path) -> None:
    short = {"run.duration": '"60 ms"', "run.sample_interval": '"60 ms"'}
    paceline.run(QUIET, overrides=short).write(tmp_path / "short")
    refused = cli("fit", "short")
    assert refused.returncode == 2
    assert "no flow of it has both data and RTTs" in refused.stderr


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
    ("table", "column", "values", "said"),
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
    cli: Command, tmp_path: Path, table: str, column: str, values: object, said: str
) -> None:
    paceline.run(QUIET).write(tmp_path / "bad")
    _altered(tmp_path / "bad", table, column, values)
    refused = cli("fit", "bad", "--memory", "1 GB")
    assert refused.returncode in (1, 2)
    assert "Traceback" not in refused.stderr
    assert said in refused.stderr


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
    refused = cli("fit", "bad")
    assert refused.returncode == 2
    assert "its scenario.toml is not a scenario" in refused.stderr
