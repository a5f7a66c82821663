"""Populations of paths: drawn, from a law or from rows of one's own, and compared draw by draw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import SCENARIO, Command
from paceline import _paceline
from paceline.errors import ArgumentError, ScenarioError
from paceline.grid import read_axes
from paceline.study.compare import compare
from paceline.study.compare.subjects import read
from paceline.study.sweep import Plan, Sweep, execute

HEAD = SCENARIO + "\n[sweep]\nseeds = 2\n"
DRAWN = """
draws = 8
[sweep.over]
path.rate = { draw = "lognormal", median = "10 Mbit/s", sigma = 0.5 }
path.queue.size = { draw = "choice", of = ["1 bdp", "2 bdp"] }
"""
ROWS = """
[sweep.over]
path.rate = { draw = "column", file = "paths.csv", column = "mbps", unit = "Mbit/s" }
path.rtt = { draw = "column", file = "paths.csv", column = "rtt" }
"""


def swept(folder: Path, text: str, *overrides: tuple[str, str]) -> Sweep:
    path = folder.parent / "x.toml"
    path.write_text(text)
    return execute(Plan.read(text, str(path), overrides), folder)


def test_a_population_is_one_axis_that_says_so(tmp_path: Path) -> None:
    sweep = swept(tmp_path / "s", HEAD + DRAWN)
    (axis,) = sweep.grid.axes
    assert (axis.drawn, axis.keys, len(axis.points)) == (
        True,
        ("path.rate", "path.queue.size"),
        8,
    )
    assert len(sweep.runs) == 16
    assert Sweep.read(tmp_path / "s").grid == sweep.grid
    # Each draw counts once.
    ((place, values),) = sweep.populations("goodput_bps").items()
    assert (place, len(values), values) == ((), 8, sorted(values))
    for named in ({"x": "path.rate"}, {"hue": "path.rate"}):
        with pytest.raises(ArgumentError, match="not drawn along an axis"):
            sweep.plot(**named)


def test_rows_of_a_file_stay_together_and_are_part_of_what_was_run(tmp_path: Path) -> None:
    (tmp_path / "paths.csv").write_text("name,mbps,rtt\nhome,10,20 ms\nfar,5,80 ms\n")
    sweep = swept(tmp_path / "s", HEAD + ROWS)
    rows = {tuple(value for _, value in point) for point in sweep.grid.points}
    assert rows == {("10 Mbit/s", "20 ms"), ("5 Mbit/s", "80 ms")}
    key = Plan.read(HEAD + ROWS, str(tmp_path / "x.toml")).key()
    (tmp_path / "paths.csv").write_text("name,mbps,rtt\nhome,10,20 ms\nfar,5,81 ms\n")
    assert Plan.read(HEAD + ROWS, str(tmp_path / "x.toml")).key() != key


def test_a_page_may_not_read_files_by_a_population(tmp_path: Path) -> None:
    (tmp_path / "paths.csv").write_text("mbps,rtt\n10,20 ms\n")
    with pytest.raises(ScenarioError, match="files are not read here"):
        _paceline.check(HEAD + ROWS, str(tmp_path / "x.toml"), (), True, "sim", files=False)


def test_populations_are_compared_draw_by_draw(tmp_path: Path) -> None:
    before = swept(tmp_path / "a", HEAD + DRAWN)
    after = swept(tmp_path / "b", HEAD + DRAWN, ("path.rtt", "80 ms"))
    (finding,) = compare(read(before.folder), read(after.folder), ["rtt_p50_ns"])
    # Eight pairs, not sixteen runs: two seeds of one path are not two paths.
    assert (finding.counts, finding.paired, finding.verdict) == ((8, 8), True, "worse")
    # Another population has nothing that belongs together.
    other = swept(tmp_path / "c", HEAD + "draw_seed = 2" + DRAWN)
    (finding,) = compare(read(before.folder), read(other.folder), ["goodput_bps"])
    assert (finding.counts, finding.paired) == ((8, 8), False)


def test_check_shows_what_is_drawn(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(HEAD + DRAWN)
    result = cli("check", "x.toml")
    assert "path.rate, 8 draws: " in result.stderr
    assert "path.queue.size, 8 draws: " in result.stderr
    one = cli("check", "x.toml", "--set", "sweep.draws=1")
    assert "path.rate, 1 draw: " in one.stderr
    answer = json.loads(cli("check", "x.toml", "--json").stdout)
    assert [axis["drawn"] for axis in answer["sweep"]["axes"]] == [True]
    swept = cli("sweep", "x.toml", "--out", "s")
    assert swept.returncode == 0, swept.stderr
    assert "8 draws x 2 seeds" in swept.stdout
    (tmp_path / "x.toml").write_text(HEAD + DRAWN.replace("draws = 8\n", ""))
    result = cli("sweep", "x.toml")
    assert result.returncode == 2
    assert "for example draws = 100 in [sweep]" in result.stderr


def test_keys_of_the_return_path_are_drawn_too(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
draws = 3
[sweep.over]
path.return.rate = { draw = "loguniform", from = "0.1 Mbit/s", to = "2 Mbit/s" }
path.return.queue.size = { draw = "choice", of = ["20 packets", "100 packets"] }
path.return.loss = { draw = "uniform", from = "0 %", to = "2 %" }
"""
    )
    sweep = swept(tmp_path / "s", text)
    (axis,) = sweep.grid.axes
    assert axis.keys == ("path.return.rate", "path.return.queue.size", "path.return.loss")
    rates = [dict(point)["path.return.rate"] for point in sweep.grid.points]
    assert len(set(rates)) == 3
    # Each draw has the link of its own: ACKs are lost on it.
    lost = sweep.populations("return_ack_loss_ratio")[()]
    assert len(set(lost)) == 3


def test_claims_have_the_axes_of_sweeps() -> None:
    table = {
        "path.rtt": {"from": "10 ms", "to": "30 ms", "step": "10 ms"},
        "path.rate, path.loss": [["1 Mbit/s", "0 %"], ["2 Mbit/s", "1 %"]],
        "flows.0.count": [1, 2],
    }
    rtt, rate, count = read_axes(table, "a claim")
    assert rtt.names == ("10 ms", "20 ms", "30 ms")
    assert rate.points[1].overrides == (("path.rate", "2 Mbit/s"), ("path.loss", "1 %"))
    assert count.names == ("1", "2")
    with pytest.raises(ScenarioError, match="twice"):
        read_axes({"path.rtt": ["1 ms", "1 ms"]}, "a claim")
    (axis,) = read_axes({"path.rtt": ["1 ms", "1 ms"]}, "a claim", twice=True)
    assert len(axis.points) == 2
    with pytest.raises(ScenarioError, match="a list or a range"):
        read_axes({"path.rtt": {"draw": "uniform", "from": "1 ms", "to": "2 ms"}}, "a claim")
