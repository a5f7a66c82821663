"""``paceline sweep``: grids, resuming, the data set, clusters."""

from __future__ import annotations

import html
import itertools
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import paceline
from conftest import SCENARIO, Command
from paceline import grid, measures
from paceline.batch import Outcome, Task, Watch
from paceline.batch.ledger import NAME as LEDGER
from paceline.batch.ledger import Ledger, LedgerError
from paceline.batch.threads import on_threads
from paceline.grid import Axis, Grid, Point
from paceline.show.figure import saved
from paceline.show.palette import MARKS, flow_style
from paceline.study.sweep import Plan, Sweep, dataset, execute, table
from paceline.study.sweep.result import extremes

SWEEP = """
[sweep]
seeds = [1, 2, 5]
metrics = ["utilisation_ratio", "flows[1].goodput_bps"]

[sweep.over]
path.rate = ["5 Mbit/s", "10 Mbit/s"]
path.queue.size = { from = "0.5 bdp", to = "2 bdp", count = 3, scale = "log" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(SCENARIO + SWEEP)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_point_of_a_sweep_is_what_run_says_of_it(
    cli: Command, file: Path, tmp_path: Path
) -> None:
    result = cli("sweep", file, "--json")
    assert result.returncode == 0, result.stderr
    value = json.loads(result.stdout)
    assert (value["runs"], value["seeds"], value["failed"]) == (18, [1, 2, 5], 0)
    assert len(value["points"]) == 6
    assert value["points"][4]["set"] == {"path.rate": "10 Mbit/s", "path.queue.size": "1 bdp"}
    sweep = Sweep.read(tmp_path / "runs" / "grid-sweep")
    alone = paceline.run(
        SCENARIO, seed=5, overrides={"path.rate": "10 Mbit/s", "path.queue.size": "1 bdp"}
    )
    row = sweep.runs.filter(run=4 * 3 + 2).to_dicts()[0]
    assert row["seed"] == 5
    assert (row["path.rate"], row["path.queue.size"]) == ("10 Mbit/s", "1 bdp")
    for name, measured in alone.metrics.items():
        assert row[name] == measured, name
    for name in value["metrics"]:
        statistics = value["points"][4]["metrics"][name]
        expected = measures.value(alone.summary, name)
        assert expected is not None
        assert (statistics["low"], statistics["high"]) == (None, None)
        assert sweep.values(name)[4][2] == expected
    points = sweep.points.filter(pl.col("metric") == "goodput_bps")
    assert points.height == 6
    assert points["mean"].to_list() == pytest.approx(
        sweep.runs.group_by(pl.col("run") // 3, maintain_order=True)
        .agg(pl.col("goodput_bps").mean())["goodput_bps"]
        .to_list()
    )
    assert "path.rate x path.queue.size, 2 x 3 points x 3 seeds" in repr(sweep)
    assert sweep._repr_html_().startswith("<table>")
    names = [Path(picture).name for picture in value["pictures"]]
    assert names == ["utilisation_ratio.png", "flows.1.goodput_bps.png"]
    for picture in value["pictures"]:
        assert (tmp_path / picture).stat().st_size > 5_000


def test_the_tables_lie_as_hive_lays_them_out(cli: Command, file: Path, tmp_path: Path) -> None:
    assert cli("sweep", file, "--out", "s", "--table", "queue").returncode == 0
    for name, rows in (("runs", 18), ("flows", 36)):
        frame = pl.read_parquet(tmp_path / "s" / name)
        assert frame.height == rows
        assert sorted(frame["path.rate"].unique()) == ["10 Mbit/s", "5 Mbit/s"]
    queue = pl.scan_parquet(tmp_path / "s" / "queue" / "**" / "*.parquet", hive_partitioning=True)
    slow = queue.filter(pl.col("path.rate") == "5 Mbit/s").collect()
    assert sorted(slow["run"].unique()) == list(range(9))


def test_a_folder_with_a_whole_sweep_is_shown_and_another_one_is_not_overwritten(
    cli: Command, file: Path, tmp_path: Path
) -> None:
    assert cli("sweep", file, "--out", "s").returncode == 0
    before = tree(tmp_path / "s")
    # A sweep that is killed at its very end leaves its ledger beside its results.
    (tmp_path / "s" / "ledger.jsonl").write_text('{"sweep":"of these results"}\n')
    again = cli("sweep", file, "--out", "s")
    assert again.returncode == 0
    assert "already complete" in again.stderr
    assert tree(tmp_path / "s") == before
    other = cli("sweep", file, "--out", "s", "--set", "path.rtt=30 ms", "--json")
    assert other.returncode == 2
    assert json.loads(other.stdout)["error"]["kind"] == "another-sweep"
    assert tree(tmp_path / "s") == before
    assert cli("run", file, "--out", "s").returncode == 2
    assert cli("sweep", file, "--out", "s", "--set", "path.rtt=30 ms", "--fresh").returncode == 0
    assert tree(tmp_path / "s")["points.parquet"] != before["points.parquet"]


def killed(file: Path, out: Path, number: signal.Signals, least: int) -> int:
    """Start a sweep, stop it once some runs are kept, and return how many are."""
    command = [sys.executable, "-m", "paceline", "sweep", str(file), "--out", str(out), "--quiet"]
    process = subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    ledger = out / LEDGER
    try:
        while process.poll() is None:
            if ledger.is_file() and ledger.read_bytes().count(b"\n") > least:
                process.send_signal(number)
                break
            time.sleep(0.005)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    expected = 130 if number == signal.SIGINT else -number
    assert process.returncode == expected, output
    return ledger.read_bytes().count(b"\n") - 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_was_stopped_goes_on_to_the_same_bytes(
    cli: Command, file: Path, tmp_path: Path, number: signal.Signals
) -> None:
    text = file.read_text().replace("[1, 2, 5]", "40").replace('"2 s"', '"6 s"')
    file.write_text(text)
    assert cli("sweep", file, "--out", "whole").returncode == 0
    kept = killed(file, tmp_path / "cut", number, 20)
    assert 20 <= kept < 240
    # The line that was being written when everything stopped.
    with (tmp_path / "cut" / LEDGER).open("ab") as ledger:
        ledger.write(b'{"run":7,"metr')
    result = cli("sweep", file, "--out", "cut")
    assert result.returncode == 0, result.stderr
    assert f"{kept} of 240 runs already exist" in result.stderr
    assert tree(tmp_path / "cut") == tree(tmp_path / "whole")


def test_no_run_is_done_twice(file: Path, tmp_path: Path) -> None:
    plan = Plan.read(file.read_text(), str(file))

    def some(tasks: Iterator[Task], keep: Any, listener: Any) -> None:
        on_threads()(islice(tasks, 11), keep, listener)
        raise KeyboardInterrupt

    done: list[int] = []

    def rest(tasks: Iterator[Task], keep: Any, listener: Any) -> None:
        left = list(tasks)
        done.extend(task.number for task in left)
        on_threads()(iter(left), keep, listener)

    with pytest.raises(KeyboardInterrupt):
        execute(plan, tmp_path / "s", executor=some)
    assert not (tmp_path / "s" / "sweep.json").exists()
    execute(plan, tmp_path / "s", executor=rest)
    assert done == list(range(11, 18))


def test_a_ledger_belongs_to_one_sweep_and_one_process(tmp_path: Path) -> None:
    book = Ledger(tmp_path, "one", 10)
    book.add({"run": 3, "metrics": {}})
    with pytest.raises(LedgerError, match="another process"):
        Ledger(tmp_path, "one", 10)
    book.close()
    with pytest.raises(LedgerError, match="another, unfinished sweep"):
        Ledger(tmp_path, "two", 10)
    again = Ledger(tmp_path, "one", 10)
    assert again.records == {3: {"run": 3, "metrics": {}}}
    again.close(remove=True)
    assert not (tmp_path / LEDGER).exists()


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    book = Ledger(tmp_path, "one", 10)
    book.add({"run": 3, "metrics": {}})
    book.close()
    with (tmp_path / LEDGER).open("ab") as file:
        file.write(b'{"run":7,"metr')
    for number in (7, 8):
        book = Ledger(tmp_path, "one", 10)
        assert sorted(book.records) == [3, 7][: number - 6]
        book.add({"run": number, "metrics": {}})
        book.close()
    book = Ledger(tmp_path, "one", 10)
    assert sorted(book.records) == [3, 7, 8]
    book.close()


def test_a_run_that_fails_is_told_and_the_others_are_kept(file: Path, tmp_path: Path) -> None:
    plan = Plan.read(file.read_text(), str(file))

    def failing(tasks: Iterator[Task], keep: Any, listener: Any) -> None:
        for task in tasks:
            if task.number == 4:
                listener.ended(task, Outcome(error="no memory"))
            else:
                on_threads()(iter([task]), keep, listener)

    sweep = execute(plan, tmp_path / "s", executor=failing)
    assert sweep.failed == 1
    assert sweep.runs.filter(run=4)["error"].to_list() == ["no memory"]
    statistics = sweep.statistics("goodput_bps")[1]
    assert statistics is not None
    assert statistics["count"] == 2


def test_wrong_points_and_metrics_are_shown_where_they_are_written(
    cli: Command, file: Path
) -> None:
    good = file.read_text()
    for wrong, place, hint in (
        (good.replace('"5 Mbit/s"', '"5 Mbps"'), "5 Mbps", "did you mean"),
        (good.replace("path.rate = [", "path.rat = ["), "path.rat ", "did you mean `rate`?"),
        (good.replace("utilisation_ratio", "utilization_ratio"), "utilization", "did you mean"),
        (good.replace("flows[1].goodput", "flows[2].goodput"), "flows[2]", "flows[0] to flows[1]"),
        (good + 'flows.0.cc = ["bbr3", "cubci"]\n', "cubci", "did you mean `cubic`?"),
    ):
        file.write_text(wrong)
        line = wrong[: wrong.index(place)].count("\n") + 1
        result = cli("sweep", file, "--json")
        assert result.returncode == 2
        error = json.loads(result.stdout)["error"]
        assert (error["file"], error["line"]) == (str(file), line)
        assert hint in error["hint"]


def test_run_and_check_say_that_they_leave_the_sweep_out(cli: Command, file: Path) -> None:
    for command in ("run", "check"):
        result = cli(command, file)
        assert result.returncode == 0, result.stderr
        assert "`paceline sweep" in result.stderr
        assert "18 runs" in result.stderr
    assert json.loads(cli("check", file, "--json").stdout)["sweep"]["seeds"] == [1, 2, 5]


def test_a_file_without_a_sweep_is_bad_input(cli: Command, scenario: Path) -> None:
    result = cli("sweep", scenario)
    assert result.returncode == 2
    assert "has no [sweep]" in result.stderr


def test_a_grid_numbers_its_runs() -> None:
    one = Axis(("a",), (Point("1", (("a", "1"),)), Point("2", (("a", "2"),))))
    names = ("x, y", "z")
    two = Axis(
        ("b", "c"),
        (
            Point(names[0], (("b", "x"), ("c", "y"))),
            Point(names[1], (("b", "z"), ("c", "z"))),
        ),
    )
    grid = Grid((one, two), (7, 8))
    assert len(grid) == 8
    assert grid.points[1] == (("a", "1"), ("b", "z"), ("c", "z"))
    assert [grid.place(nth) for nth in range(4)] == [
        ("1", "x, y"),
        ("1", "z"),
        ("2", "x, y"),
        ("2", "z"),
    ]
    assert (grid.point_of(5), grid.seed_of(5)) == (2, 8)
    assert dataset.keys(grid) == {"a": pl.Int64, "b": pl.String, "c": pl.String}
    assert [str(dataset.partition(grid, point)) for point in range(4)] == [
        "a=1",
        "a=1",
        "a=2",
        "a=2",
    ]


def test_best_and_worst_follow_the_metric() -> None:
    values = [0.5, float("nan"), 0.9, 0.1, 0.9]
    assert extremes("utilisation_ratio", values) == (2, 3)
    assert extremes("queue_p95_ns", values) == (3, 2)
    assert extremes("flows[0].goodput_bps", values) == (2, 3)
    assert extremes("jain_ratio", [float("nan")]) is None


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_a_picture_has_a_curve_for_each_line_of_the_grid(tmp_path: Path, axes: int) -> None:
    over = [
        'path.rate = ["5 Mbit/s", "10 Mbit/s", "20 Mbit/s"]',
        'flows.0.cc = ["bbr3", "cubic"]',
        'path.rtt = ["10 ms", "20 ms"]',
        'path.loss = ["0 %", "1 %"]',
    ]
    text = SCENARIO.replace('"2 s"', '"0.5 s"') + "[sweep.over]\n" + "\n".join(over[:axes])
    sweep = execute(Plan.read(text, "shape.toml"), tmp_path / "s")
    figure = sweep.plot("goodput_bps")
    assert len(figure.axes) == 2 ** max(axes - 2, 0)
    means = [row["mean"] / 1e6 for row in sweep.statistics("goodput_bps") if row is not None]
    shown: list[float] = []
    for ax in figure.axes:
        assert len(ax.lines) == (1 if axes == 1 else 2)
        assert ax.get_xscale() == "log"
        for line in ax.lines:
            assert np.asarray(line.get_xdata()).tolist() == [5, 10, 20]
            shown += np.asarray(line.get_ydata()).tolist()
    assert sorted(shown) == pytest.approx(sorted(means))
    texts = svg_texts(saved(figure, "svg"))
    assert {"Rate (Mbit/s)", "Goodput (Mbit/s)", "5", "10", "20"} <= texts
    if axes > 1:
        assert {"Controller of flow 0", "bbr3", "cubic"} <= texts
    if axes > 2:
        assert {"RTT: 10 ms", "RTT: 20 ms"} <= {part for t in texts for part in t.split("\n")}


def svg_texts(svg: bytes) -> set[str]:
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg.decode())
    return {html.unescape(text) for text in texts}


def test_curves_have_bands_and_the_axes_that_were_asked_for(tmp_path: Path) -> None:
    text = SCENARIO.replace('"2 s"', '"0.5 s"').replace("rtt =", 'jitter = "1 ms"\nrtt =')
    text += """[sweep]
seeds = 5
[sweep.over]
flows.0.cc = ["bbr3", "cubic"]
path.queue.size = ["1 bdp", "2 bdp", "3 bdp"]
"""
    sweep = execute(Plan.read(text, "bands.toml"), tmp_path / "s")
    statistics = sweep.statistics("rtt_p50_ns")
    (ax,) = sweep.plot("rtt_p50").axes
    assert ax.get_xscale() == "linear"
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--"]
    assert len({line.get_marker() for line in ax.lines}) == 2
    assert len(ax.collections) == 2
    path = np.asarray(ax.collections[1].get_paths()[0].vertices)
    ends = sorted(path[path[:, 0] == 3][:, 1].tolist())
    assert statistics[5] is not None
    low, high = statistics[5]["low"], statistics[5]["high"]
    assert low is not None
    assert high is not None
    assert (ends[0], ends[-1]) == pytest.approx((low / 1e6, high / 1e6))
    # Names are side by side, with whiskers, and no line joins them.
    both = sweep.plot(["rtt_p50", "goodput"], x="cc", hue="queue.size", size="3.5x4in")
    assert tuple(both.get_size_inches()) == (3.5, 4)
    assert [ax.get_xlabel() for ax in both.axes] == ["", "Controller of flow 0"]
    assert all(line.get_linestyle() == "None" for ax in both.axes for line in ax.lines)
    for wrong, what in (({"x": "rtt"}, "does not vary"), ({"x": "cc", "hue": "cc"}, "along")):
        with pytest.raises(paceline.ArgumentError, match=what):
            sweep.plot(**wrong)


def test_flows_are_lines_where_no_other_axis_is(tmp_path: Path) -> None:
    text = SCENARIO.replace('"2 s"', '"0.5 s"')
    sweep = paceline.sweep(text, {"path.queue.size": paceline.bdp(1, 2, 4)}, out=tmp_path / "s")
    both = ["flows[0].share", "flows[1].share", "rtt_p50", "flows[1].goodput"]
    figure = sweep.plot(both, size="one-column")
    assert [len(ax.lines) for ax in figure.axes] == [2, 1, 1]
    labels = [" ".join(ax.get_ylabel().split()) for ax in figure.axes]
    assert labels == ["Share (%)", "Median RTT (ms)", "Goodput of flow 1 (Mbit/s)"]
    colours = {line.get_color() for line in figure.axes[0].lines}
    assert figure.axes[1].lines[0].get_color() not in colours
    for flow, line in enumerate(figure.axes[0].lines):
        shares = [row["mean"] for row in sweep.statistics(f"flows[{flow}].share_ratio") if row]
        assert np.asarray(line.get_ydata()).tolist() == pytest.approx([100 * s for s in shares])
    # A flow has the same line in each panel.
    assert figure.axes[2].lines[0].get_color() == figure.axes[0].lines[1].get_color()
    assert {"bbr3 0", "reno 1"} <= svg_texts(saved(figure, "svg"))
    # An axis that changes a flow leaves it without that name.
    sweep = paceline.sweep(text, {"flows.0.cc": ["cubic", "bbr1"]}, out=tmp_path / "cc")
    shown = svg_texts(saved(sweep.plot(["flows[0].share", "flows[1].share"]), "svg"))
    assert {"flow 0", "reno 1"} <= shown


@pytest.mark.parametrize(
    ("points", "is_log"),
    [
        ([1, 2, 3, 4], False),
        ([1, 2, 4, 8, 16], True),
        ([10, 20, 50, 100, 200], True),
        ([0, 1, 10, 100], False),
        ([1, 10], False),
        ([1, 20], True),
        ([3], False),
    ],
)
def test_an_axis_has_the_scale_of_its_points(points: list[float], is_log: bool) -> None:
    assert grid.is_log(points) == is_log


@pytest.mark.parametrize(
    ("names", "places", "unit", "short"),
    [
        (("5 Mbit/s", "20 Mbit/s"), [5, 20], "Mbit/s", ["5", "20"]),
        (("500 kbit/s", "1 Mbit/s", "20 Mbit/s"), [0.5, 1, 20], "Mbit/s", ["0.5", "1", "20"]),
        (("500 us", "5 ms", "0.1 s"), [0.5, 5, 100], "ms", ["0.5", "5", "100"]),
        (("0.50 bdp", "1 bdp"), [0.5, 1], "bdp", ["0.50", "1"]),
        (("1", "2.5"), [1, 2.5], "", ["1", "2.5"]),
        (("1 packet", "10 packets"), [1, 10], "packets", ["1", "10"]),
        (("10 packets", "100 ms"), [0, 1], None, ["10 packets", "100 ms"]),
        (("4g-drive.csv",), [0], None, ["4g-drive.csv"]),
        (("5 Mbit/s, 10 ms",), [0], None, ["5 Mbit/s, 10 ms"]),
    ],
)
def test_the_places_of_points_are_their_values(
    names: tuple[str, ...], places: list[float], unit: str | None, short: list[str]
) -> None:
    at, parsed = grid.places(names)
    assert (list(at.values()), parsed) == (places, unit)
    assert [grid.short(name, place, parsed) for name, place in at.items()] == short
    # A file's name is not a number in a table.
    axis = Axis(("path.trace",), (Point("4g.csv", (("path.trace", "4g.csv"),)),))
    assert dataset.settings(Grid((axis,), (1,))) == {"path.trace": ["4g.csv"]}


def test_an_axis_is_found_by_the_end_of_a_key_of_its_own() -> None:
    def axis(*keys: str) -> Axis:
        return Axis(keys, tuple(Point(v, tuple((k, v) for k in keys)) for v in "ab"))

    both = Grid((axis("flows.0.cc", "flows.1.cc"), axis("path.rtt"), axis("return.path.rtt")), (1,))
    assert both.find("flows.0.cc, flows.1.cc") == (0, None)
    assert both.find("1.cc") == (0, "flows.1.cc")
    assert both.find("path.rtt") == (1, None)
    for name, what in (("cc", "flows.0.cc or flows.1.cc"), ("rate", "does not vary 'rate'")):
        with pytest.raises(paceline.ArgumentError, match=what):
            both.find(name)


def test_a_mean_of_some_runs_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SCENARIO.replace('"2 s"', '"0.5 s"')
    over = {"path.queue.size": paceline.bdp(1, 2)}
    sweep = paceline.sweep(text, over, repeats=5, out=tmp_path / "s")
    values: list[list[float | None]] = [[1e6, 2e6, 3e6, None, None], [1e6, 2e6, 3e6, 4e6, 5e6]]
    monkeypatch.setattr(Sweep, "values", lambda self, metric: values)
    (ax,) = sweep.plot("rtt_p50").axes
    assert [line.get_markerfacecolor() for line in ax.lines][1:] == ["white"]
    marks = np.asarray(ax.lines[1].get_ydata()).tolist()
    assert (marks[0], np.isnan(marks[1])) == (2, True)
    table.write(sweep, "latex", tmp_path / "t.tex", ["rtt_p50_ns"], mean=True)
    first, *_, one, two = (tmp_path / "t.tex").read_text().splitlines()[:-2]
    assert first.startswith("% Means of 5 runs, with 95 % intervals. ")
    assert one == r"1 BDP & 2.000 (3 of 5) \\"
    assert two.startswith("2 BDP & 3.000 [")
    values[1][0] = None
    table.write(sweep, "latex", tmp_path / "t.tex", ["rtt_p50_ns"], mean=True)
    assert "with 95 %" not in (tmp_path / "t.tex").read_text()
    # After the end of a row, LaTeX takes these for its options.
    (axis,) = sweep.grid.axes
    names = (replace(p, name=name) for p, name in zip(axis.points, ("*", "[1]"), strict=True))
    starred = replace(sweep, grid=Grid((replace(axis, points=tuple(names)),), sweep.grid.seeds))
    table.write(starred, "latex", tmp_path / "t.tex", ["rtt_p50_ns"], mean=True)
    rows = (tmp_path / "t.tex").read_text().splitlines()[-4:-2]
    assert [row[:5] for row in rows] == ["{}* &", "{}[1]"]


def test_a_sweep_is_a_paper_s_figure_and_table(cli: Command, file: Path, tmp_path: Path) -> None:
    assert cli("sweep", file, "--out", "s", "--set", "run.duration=0.5 s").returncode == 0
    chosen = ("--metric", "goodput", "--x", "queue.size", "--hue", "path.rate")
    style = tmp_path / "mine.mplstyle"
    colours = "axes.prop_cycle: cycler('color', ['ff0000', '00aa00'])\n"
    style.write_text(f"font.size: 7\nlines.linewidth: 0.4\n{colours}")
    size = ("--size", "one-column", "--style", style)
    answer = json.loads(cli("report", "s", *chosen, *size, "--format", "svg", "--json").stdout)
    assert (answer["report"], answer["format"]) == ("s/report.svg", "svg")
    svg = (tmp_path / "s" / "report.svg").read_text()
    assert {"Queue size (BDP)", "Goodput (Mbit/s)", "5 Mbit/s"} <= svg_texts(svg.encode())
    assert f'width="{3.5 * 72:g}pt"' in svg
    assert "#ff0000" in svg
    assert "stroke-width: 0.4" in svg
    # A paper's caption has the title, and the same command gives the same bytes.
    assert "mean of" not in svg
    for form in ("svg", "png", "pdf"):
        for out in ("one", "two"):
            done = cli("report", "s", *chosen, *size, "--format", form, "--out", f"{out}.{form}")
            assert done.returncode == 0, done
        one, two = ((tmp_path / f"{out}.{form}").read_bytes() for out in ("one", "two"))
        assert one == two
    assert b"/Type0" in (tmp_path / "one.pdf").read_bytes()

    sweep = Sweep.read("s")
    for form, end, read in (("csv", "csv", pl.read_csv), ("parquet", "parquet", pl.read_parquet)):
        assert cli("export", "s", "--format", form).stdout == f"s/runs.{end}\n"
        frame = read(tmp_path / "s" / f"runs.{end}")
        assert frame.columns == sweep.frame.columns
        assert frame["goodput_bps"].equals(sweep.frame["goodput_bps"])
        done = cli("export", "s", "--format", form, "--mean", "--metric", "jain")
        assert done.stdout == f"s/means.{end}\n"
        assert read(tmp_path / "s" / f"means.{end}").columns == sweep.mean("jain").columns
    assert cli("export", "s", "--format", "latex", "--mean", "--metric", "rtt_p50").returncode == 0
    lines = (tmp_path / "s" / "means.tex").read_text().splitlines()
    assert lines[1:5] == [
        r"\begin{tabular}{llr}",
        r"\toprule",
        r"Rate & Queue size & Median RTT (ms) \\",
        r"\midrule",
    ]
    row = sweep.statistics("rtt_p50_ns")[0]
    assert row is not None
    assert lines[5] == rf"5 Mbit/s & 0.5 BDP & {row['mean'] / 1e6:.2f} \\"
    assert len(lines) == 5 + 6 + 2
    assert cli("export", "s", "--format", "latex").returncode == 0
    assert len((tmp_path / "s" / "runs.tex").read_text().splitlines()) == 5 + 18 + 2
    assert table._escaped("50 % of_a {\\b}\n") == r"50 \% of\_a \{\textbackslash{}b\}"


def test_axes_are_options_too(cli: Command, file: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.toml"
    small.write_text(SCENARIO)
    over = ("--over", "path.rate=5,10 Mbit/s", "--over", 'path.queue.size=["0.5 bdp", "2 bdp"]')
    result = cli("sweep", small, *over, "--over", "flows.1.count=1,2", "--repeats", 2, "--json")
    assert result.returncode == 0, result
    value = json.loads(result.stdout)
    assert re.fullmatch(r"runs/small-sweep-[0-9a-f]{6}", value["out"])
    assert (value["runs"], value["seeds"]) == (16, [3, 4])
    assert value["points"][1]["set"] == {
        "path.rate": "5 Mbit/s",
        "path.queue.size": "0.5 bdp",
        "flows.1.count": "2",
    }
    # They take the place of those in the file, and seeds count up from its first.
    result = cli("sweep", file, "--over", "path.rtt=5 ms", "--repeats", 3, "--json")
    value = json.loads(result.stdout)
    assert (value["runs"], value["seeds"]) == (3, [1, 2, 3])
    more = json.loads(cli("sweep", file, "--repeats", 1, "--json").stdout)
    assert (more["runs"], more["seeds"]) == (6, [1])
    assert more["out"] != "runs/grid-sweep"
    for wrong, what in (
        (("--over", "x"), "--over takes KEY=VALUE, not 'x'"),
        (("--over", "path.rtt=[1,"), "--over path.rtt: "),
        (("--over", "path.rtt=1 ms", "--over", "path.rtt=2 ms"), "path.rtt is given twice"),
        (("--over", "path.speed=1,2"), "unknown key `speed`"),
        ((), "has no [sweep]"),
    ):
        done = cli("sweep", small, *wrong)
        assert done.returncode == 2
        assert what in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("report s --panel rtt", "a sweep has no option --panel"),
        ("report s --flow 0", "a sweep has no option --flow"),
        ("report s --format html", "a sweep has no HTML report"),
        ("report s --out figure.jpg", "a report is not written as .jpg"),
        ("report s --out figure.html", "a sweep has no HTML report"),
        ("report s --out figure.svg --format pdf", "figure.svg is not the name of a pdf"),
        ("report s --size 3", "is not the size of a figure"),
        ("report s --x path.rtt", "the sweep does not vary 'path.rtt'"),
        ("report s --metric fast", "no metric is called 'fast'"),
        ("report s --metric flows[2].share", "a run has flows 0 to 1"),
        ("report s --style tex", "the figure cannot be drawn: "),
        ("export s --format csv --mean --metric flows[2].share", "a run has flows 0 to 1"),
        ("report s --style none.mplstyle", "no such file: none.mplstyle"),
        ("report r --format png --hue x", "a run has no option --hue"),
        ("report r --size 3in", "the page has no option --size"),
        ("report r --flow 7", "the page has no option --flow"),
        ("report r --x path.rtt", "hint: leave it out"),
        ("report r --format png --size 1x1in", "the figure is too small"),
        ("report s --size 100x100in", "each side from 1 to 50 in"),
        ("compare s --by rtt", "the sweep does not vary 'rtt'"),
        ("export s --format csv --metric jain", "--metric is for --mean and latex"),
        ("export s --format csv --qlog-dialect 0.3", "csv has no --qlog-dialect"),
        ("report r --format png --panel rtt,speed", "the run has no panel 'speed'"),
        ("export s --format qlog", "it does not take --format qlog"),
        ("export s --format csv --flow 0", "it does not take --flow"),
        ("export s s --format csv", "it does not take 2 folders"),
        ("export r --format latex", "--format latex is for a sweep"),
        ("export r --format csv --mean", "--mean is for a sweep"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(
    call: str, what: str, cli: Command, small: Path
) -> None:
    words = [str(small / word) if word in ("r", "s", "tex") else word for word in call.split()]
    before = tree(small)
    done = cli(*words)
    assert done.returncode == 2, done
    assert what in " ".join(done.stderr.split())
    assert "hint: " in done.stderr
    assert tree(small) == before


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and a sweep."""
    folder = tmp_path_factory.mktemp("small")
    short = {"run.duration": "0.3 s"}
    paceline.run(SCENARIO, overrides=short).write(folder / "r")
    over = {"path.queue.size": paceline.bdp(1, 2)}
    paceline.sweep(SCENARIO, over, overrides=short, out=folder / "s")
    # Where there is LaTeX, it has no such font.
    (folder / "tex").write_text(
        "text.usetex: True\ntext.latex.preamble: \\usepackage{no-such-package}\n"
    )
    return folder


def test_a_run_s_figure_has_the_panels_that_are_named(cli: Command, small: Path) -> None:
    out = small.parent / "panels.svg"
    # The name of the file says its format.
    done = cli("report", small / "r", "--panel", "window,rtt", "--size", "3x4in", "--out", out)
    assert done.returncode == 0, done
    texts = svg_texts(out.read_bytes())
    assert {"Window (kB)", "RTT (ms)", "Time (s)"} <= texts
    assert not any("Throughput" in text for text in texts)


def test_what_is_undefined_in_all_runs_is_said(cli: Command, small: Path) -> None:
    out = small.parent / "undefined.svg"
    # Several metrics in one word, as several panels of a run.
    done = cli("report", small / "s", "--metric", "convergence, goodput", "--out", out)
    assert done.returncode == 0, done
    texts = svg_texts(out.read_bytes())
    assert {"undefined in all runs", "1", "2", "Goodput (Mbit/s)"} <= texts
    out = small.parent / "alone.svg"
    assert cli("report", small / "s", "--metric", "convergence", "--out", out).returncode == 0
    assert {"1", "2"} <= svg_texts(out.read_bytes())


def test_lines_differ_without_colour() -> None:
    assert len(set(MARKS)) == len(MARKS) > 7
    styles = [flow_style(nth) for nth in range(8)]
    for one, other in itertools.pairwise(styles):
        assert one.dash != other.dash
        assert one.colour != other.colour


def test_keys_are_shown_in_words() -> None:
    assert grid.words("path.queue.size") == "queue size"
    assert grid.words("flows.1.cc, path.rtt") == "controller of flow 1, RTT"
    assert grid.words("flows.0.cc.loss_threshold", alone=True) == "loss threshold"
    assert grid.words("links.2.rate") == "rate of link 2"
    assert grid.words("run.duration") == "duration"
    assert grid.words("about") == "about"
    assert [grid.shown(n) for n in ("1.5 bdp", "bdp", "bdpx")] == ["1.5 BDP", "BDP", "bdpx"]


def test_a_cluster_gives_the_same_bytes_and_survives_a_worker(file: Path, tmp_path: Path) -> None:
    """Two nodes of Ray; the one that is killed half-way takes only its own chunks with it."""
    import ray
    from ray.cluster_utils import Cluster

    from paceline.batch.cluster import on_cluster

    text = file.read_text().replace("[1, 2, 5]", "60")
    plan = Plan.read(text, str(file))
    whole = tree(execute(plan, tmp_path / "threads").folder)

    environment: Any = pytest.MonkeyPatch()
    environment.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
    small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}
    nodes = Cluster(initialize_head=True, head_node_args=small | {"include_dashboard": False})
    doomed = nodes.add_node(**small)
    try:
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)

        class Killer(Watch):
            ended = 0

            def finished(self, number: int, outcome: Any) -> None:
                self.ended += 1
                if self.ended == 40:
                    nodes.remove_node(doomed, allow_graceful=False)

        killer = Killer()
        execute(plan, tmp_path / "ray", executor=on_cluster(), watch=killer)
        assert killer.ended == 360
    finally:
        ray.shutdown()
        nodes.shutdown()  # type: ignore[no-untyped-call]
        environment.undo()
    assert tree(tmp_path / "ray") == whole


def test_metrics_in_a_file_may_lack_their_unit(file: Path) -> None:
    full = '["utilisation_ratio", "flows[1].goodput_bps"]'
    text = file.read_text()
    assert full in text
    short = text.replace(full, '["utilisation", "flows[1].goodput"]')
    assert Plan.read(short, str(file)).metrics == Plan.read(text, str(file)).metrics
    with pytest.raises(paceline.ScenarioError, match="no metric is called `utilization`"):
        Plan.read(text.replace(full, '["utilization"]'), str(file))
