"""The module: runs, tables, errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paceline
from conftest import SCENARIO, Command
from paceline import interface
from paceline.batch import Outcome
from paceline.show.figure import saved


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
    back = paceline.Run.read(tmp_path / "r")
    assert back.metrics == run.metrics
    assert back.samples.equals(run.samples)
    assert back.scenario_toml == run.scenario_toml
    assert back.engine is None
    with pytest.raises(paceline.NotARunError):
        paceline.Run.read(tmp_path)


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
    states: list[paceline.Progress] = []
    run = paceline.run(SCENARIO, progress=states.append)
    assert run.engine is not None
    assert states[-1].simulated_ns == states[-1].total_ns == 2_000_000_000
    assert states[-1].packets == run.engine.packets
    assert states[-1].finished == 1


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
    # A notebook shows the summary and the picture; without tables there is no picture.
    png = run._repr_png_()
    assert png is not None
    assert png.startswith(b"\x89PNG")
    assert '<img src="data:image/png;base64,' in run._repr_html_()
    assert run.measured()._repr_png_() is None
    assert "<img" not in run.measured()._repr_html_()


def test_the_catalogue_is_whole(run: paceline.Run) -> None:
    defined = {(m["scope"], m["name"]) for m in paceline.metrics()}
    assert {("run", name) for name in run.metrics} <= defined
    assert {c["name"] for c in paceline.controllers()} >= {"bbr3", "cubic", "reno"}
    assert paceline.schema().startswith("{")


VERBS = ("run", "sweep", "compare", "fit", "claims", "read", "reference")


def test_the_module_offers_what_is_its_own() -> None:
    names = dir(paceline)
    assert {*VERBS, "controllers", "scenarios", "scenario", "bdp"} <= {*names}
    assert names == sorted({*paceline.__all__})
    for name in names:
        thing = getattr(paceline, name)
        assert getattr(thing, "__module__", "paceline").startswith("paceline"), name


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    code = f"""
import sys
import paceline
run = paceline.run({SCENARIO!r}, overrides={{"run.duration": "0.5 s"}})
repr(run), run.metrics, dir(paceline)
print({{"matplotlib", "scipy", "polars", "numpy", "IPython"}} & {{*sys.modules}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_scenario_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    short = {"run.duration": "1.1 s"}
    assert paceline.run("four-flows", overrides=short).scenario == "four-flows-50M-40ms-1bdp"
    assert paceline.check("bbr3/four-flows-50M-40ms-1bdp") == paceline.check("four-flows")
    known = {row["name"]: row["about"] for row in paceline.scenarios()}
    assert known["bbr3/four-flows-50M-40ms-1bdp"]


def test_a_scenario_is_built_of_keyword_arguments() -> None:
    back = {"rate": "5 Mbit/s", "queue": {"size": "1 bdp"}}
    sections: dict[str, Any] = {
        "run": {"duration": "1 s", "record": {"packets": True}},
        "path": {"rate": "10 Mbit/s", "rtt": "20 ms", "queue": {"size": "1 bdp"}, "return_": back},
        "flows": (
            {"cc": {"name": "bbr3", "cwnd_gain": 2.5}},
            {"cc": "reno", "count": 2},
        ),
    }
    text = paceline.scenario(name='a "name"', **sections)
    assert (
        text
        == """\
schema = 1
name = "a \\"name\\""
[run]
duration = "1 s"
record = { packets = true }
[path]
rate = "10 Mbit/s"
rtt = "20 ms"
queue = { size = "1 bdp" }
return = { rate = "5 Mbit/s", queue = { size = "1 bdp" } }
[[flows]]
cc = { name = "bbr3", cwnd_gain = 2.5 }
[[flows]]
cc = "reno"
count = 2
"""
    )
    assert paceline.check(text) == paceline.check({"name": 'a "name"'} | sections)
    assert paceline.run(sections).flows.height == 3
    for wrong in (None, object(), {1, 2}):
        with pytest.raises(paceline.ArgumentError, match="a scenario has no value"):
            paceline.scenario(run={"duration": wrong})
    with pytest.raises(paceline.ScenarioError, match="unknown key"):
        paceline.run(sections | {"path": {"speed": 1}})


OVER = {"flows.0.cc": ["bbr3", "cubic"], "path.queue.size": paceline.bdp(0.5, 1, 2)}


def test_a_sweep_is_that_of_the_command(cli: Command, tmp_path: Path) -> None:
    text = SCENARIO.replace("rtt =", 'jitter = "1 ms"\nrtt =')
    metrics = ["goodput", "flows[1].share"]
    sweep = paceline.sweep(text, OVER, repeats=5, metrics=metrics)
    assert re.fullmatch(r"runs/scenario-sweep-[0-9a-f]{6}", str(sweep.folder))
    over = "[sweep]\nseeds = 5\n[sweep.over]\n"
    over += 'flows.0.cc = ["bbr3", "cubic"]\npath.queue.size = ["0.5 bdp", "1 bdp", "2 bdp"]\n'
    (tmp_path / "scenario.toml").write_text(text + over)
    result = cli("sweep", "scenario.toml", "--out", "other", "--json")
    assert result.returncode == 0, result
    assert sweep.runs.equals(paceline.Sweep.read("other").runs)
    assert paceline.sweep(text + over, out="third").runs.equals(sweep.runs)

    frame = sweep.frame
    assert frame.columns[:4] == ["flows.0.cc", "path.queue.size_bdp", "seed", "error"]
    assert frame["path.queue.size_bdp"].to_list()[::5] == [0.5, 1, 2] * 2
    assert frame["seed"].to_list()[:5] == [3, 4, 5, 6, 7]
    assert frame["flows[1].share_ratio"].to_list()[5:10] == sweep.values("flows[1].share_ratio")[1]
    mean = sweep.mean()
    row = sweep.statistics("goodput_bps")[4]
    assert row is not None
    assert mean.select("goodput_bps", "goodput_bps_low", "goodput_bps_high").row(4) == (
        row["mean"],
        row["low"],
        row["high"],
    )
    assert mean["goodput_bps_count"].to_list() == [5] * 6
    assert "rtt_p50_ns_low" in sweep.mean("rtt_p50").columns

    # What is there is read, with the metrics that are wanted now.
    before = {path: path.stat().st_mtime_ns for path in sweep.folder.rglob("*")}
    again = paceline.sweep(text, OVER, repeats=5, metrics=["rtt_p50"])
    assert (again.folder, again.metrics) == (sweep.folder, ("rtt_p50_ns",))
    assert {path: path.stat().st_mtime_ns for path in sweep.folder.rglob("*")} == before
    read = paceline.read(sweep.folder)
    assert isinstance(read, paceline.Sweep)
    assert read.frame.equals(frame)
    # Other values are another sweep.
    assert paceline.sweep(text, {"path.rtt": ["5 ms"]}).folder != sweep.folder
    with pytest.raises(paceline.StoreError) as caught:
        paceline.sweep(text, {"path.rtt": ["6 ms"]}, out=sweep.folder)
    assert caught.value.hint == "choose another folder with out, or discard it with fresh"
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"tables": ["nope"]}, "no table is called 'nope'"),
        ({"metrics": ["flows[9].goodput"]}, "flows 0 to 1"),
    )
    for options, what in wrong:
        with pytest.raises(paceline.ArgumentError, match=what):
            paceline.sweep(text, {"path.rtt": ["6 ms"]}, **options)


def test_settings_are_columns_with_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    over = {
        "path.rate, path.rtt": [["5 Mbit/s", "10 ms"], ["1 Gbit/s", "0.5 s"]],
        "path.loss": ["0 %", "0.5 %"],
        "path.queue.size": ["10 packets", "100 ms"],
        "flows.1.count": [1, 2],
    }
    frame = paceline.sweep(SCENARIO, over, overrides={"run.duration": "0.3 s"}).frame
    assert frame.columns[:6] == [
        "path.rate_bps",
        "path.rtt_ns",
        "path.loss_ratio",
        "path.queue.size",
        "flows.1.count",
        "seed",
    ]
    first, last = frame.row(0)[:5], frame.row(-1)[:5]
    assert first == (5_000_000, 10_000_000, 0.0, "10 packets", 1)
    assert last == (1_000_000_000, 500_000_000, 0.005, "100 ms", 2)


def test_a_sweep_that_is_interrupted_keeps_what_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    over = {"path.rtt": ["5 ms", "10 ms"]}
    options: dict[str, Any] = {"repeats": 20, "overrides": {"run.duration": "0.3 s"}, "threads": 1}
    ended = interface._Ended.finished

    def finished(self: interface._Ended, number: int, outcome: Outcome) -> None:
        ended(self, number, outcome)
        if self.count == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(interface._Ended, "finished", finished)
    message = r"^\d of 40 runs are kept in part; the same call resumes$"
    with pytest.raises(KeyboardInterrupt, match=message):
        paceline.sweep(SCENARIO, over, out="part", **options)
    monkeypatch.setattr(interface._Ended, "finished", ended)
    states: list[paceline.Progress] = []
    whole = paceline.sweep(SCENARIO, over, out="part", progress=states.append, **options)
    other = paceline.sweep(SCENARIO, over, out="other", progress=states.append, **options)
    assert whole.runs.equals(other.runs)
    # The three did not run again.
    packets = [now.packets for now in states if now.simulated_ns == now.total_ns]
    assert 0 < packets[0] < packets[-1]


def test_results_are_compared_as_by_the_command(cli: Command, tmp_path: Path) -> None:
    sweep = paceline.sweep(SCENARIO, OVER, repeats=2)
    result = cli("compare", sweep.folder, "--by", "flows.0.cc", "--json")
    expected = json.loads(result.stdout)["comparisons"][0]["findings"]
    comparison = paceline.compare(sweep, by="flows.0.cc")
    ((old, new, findings),) = comparison.sides
    assert (old, new) == ("bbr3", "cubic")
    assert [finding.as_json() for finding in findings] == expected
    assert comparison.frame.height == len(expected)
    assert "<table" in comparison._repr_html_()
    assert saved(comparison.plot(), "svg").count(b"<text") > 5
    sides = [paceline.run_many(SCENARIO, range(3), overrides=o) for o in ({}, {"path.rtt": "9 ms"})]
    for nth, runs in enumerate(sides):
        for run in runs:
            run.write(tmp_path / f"{nth}" / f"seed-{run.seed}")
    one = paceline.compare(*sides).frame
    other = paceline.compare(tmp_path / "0", tmp_path / "1").frame
    assert one.drop("old_name", "new_name").equals(other.drop("old_name", "new_name"))
    assert paceline.compare(sweep, by="cc").sides == comparison.sides
    single = paceline.sweep(SCENARIO, {"path.rtt": ["5 ms"]}, out=tmp_path / "single")
    wrong: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
        ((sweep,), {"by": "path.rtt"}, "does not vary"),
        ((sweep,), {}, "takes two results"),
        ((single,), {"by": "path.rtt"}, "has one value of 'path.rtt'"),
        ((sides[0][0],), {"by": "path.rtt"}, "`by` is for a sweep"),
        ((["x"], sweep), {}, "the old side is not a result"),
        ((sweep, []), {}, "the new side is not a result"),
        ((sweep, sweep), {"metrics": ["flows[9].goodput"]}, "flows 0 to 1"),
    )
    for results, options, what in wrong:
        with pytest.raises(paceline.ArgumentError, match=what):
            paceline.compare(*results, **options)
    with pytest.raises(paceline.ArgumentError, match="flows 0 to 1"):
        sweep.plot("flows[9].goodput")
    assert len(sweep.plot([]).axes) == len(sweep.plot().axes)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: paceline.bdp("1"), "for example bdp(0.5, 1, 2)"),  # type: ignore[arg-type]
        (lambda: paceline.bdp(1, -1), "for example bdp(0.5, 1, 2)"),
        (lambda: paceline.read("no-such-folder"), "`paceline run`, `Run.write` or a sweep makes"),
        (lambda: paceline.sweep(SCENARIO, {}), 'say what to vary: {"path.rtt": '),
        (lambda: paceline.sweep(SCENARIO), 'say what to vary: {"path.rtt": '),
        (lambda: paceline.run(SCENARIO).plot("speed"), "its panels are throughput, "),
    ],
)
def test_a_traceback_says_what_to_do(call: Callable[[], object], hint: str) -> None:
    with pytest.raises(paceline.PacelineError) as caught:
        call()
    caught.value.add_note("while drawing figure 3")
    *_, message, noted = traceback.format_exception_only(caught.value)
    assert message.startswith(f"hint: {hint}")
    assert noted == "while drawing figure 3\n"


def test_the_other_verbs_are_functions(run: paceline.Run, tmp_path: Path) -> None:
    run.write(tmp_path / "r")
    assert paceline.fit(tmp_path / "r").text == paceline.fit(run).text
    assert paceline.reference("03").scenario == "03-drain-inflight"
    (result,) = paceline.claims("A1", quick=True)
    assert result.verdict == "reproduced"
    with pytest.raises(paceline.ArgumentError, match="seeds is 0"):
        paceline.claims("A1", seeds=0)
    with pytest.raises(paceline.ArgumentError, match="threads is 0"):
        paceline.claims("A1", threads=0)
    for verb in (paceline.reference, paceline.claims):
        with pytest.raises(paceline.ArgumentError) as caught:
            verb("zz")
        assert "zz" in str(caught.value)
        assert caught.value.hint


def test_a_notebook_shows_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, bar: Any) -> None:
            shown.append(bar._repr_html_())

    def display(bar: Any, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(bar._repr_html_())
        return Handle()

    display_module = SimpleNamespace(display=display)
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display_module)
    monkeypatch.chdir(tmp_path)
    paceline.run(SCENARIO)
    assert shown[0].startswith('<progress value="0.0000">')
    assert shown[-1] == '<progress value="1.0000"></progress> scenario.toml: 2.0 of 2 s'
    paceline.sweep(SCENARIO, {"path.rtt": ["5 ms", "9 ms"]})
    assert shown[-1] == '<progress value="1.0000"></progress> scenario: 2 of 2 runs, 4.0 of 4 s'
    paceline.Batch(SCENARIO, repeats=3).run(tmp_path / "three")
    assert shown[-1].endswith("</progress> scenario: 3 of 3 runs, 6.0 of 6 s")
    count = len(shown)
    paceline.run(SCENARIO, progress=lambda _: None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    paceline.run(SCENARIO)
    assert len(shown) == count


def test_a_figure_has_the_look_that_is_asked_for(run: paceline.Run, tmp_path: Path) -> None:
    figure = run.plot("throughput", "rtt", size="one-column")
    assert figure.get_figwidth() == 3.5
    assert [ax.get_ylabel() for ax in figure.axes] == ["Throughput (Mbit/s)", "RTT (ms)"]
    assert figure.axes[-1].get_xlabel() == "Time (s)"
    assert figure._repr_png_() == run.plot("throughput", "rtt", size="one-column")._repr_png_()
    assert run.plot(size="88x50mm").get_figheight() * 25.4 == 50
    svg = saved(figure, "svg").decode()
    assert ">Throughput (Mbit/s)</text>" in svg
    # A script saves the bytes that the command writes.
    figure.savefig(tmp_path / "one.pdf")
    with mpl.rc_context({"pdf.fonttype": 3, "savefig.dpi": 33, "font.size": 20}):
        figure.savefig(tmp_path / "two.pdf")
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "two.pdf").read_bytes()
    assert (tmp_path / "one.pdf").read_bytes() == saved(figure, "pdf")
    # The settings of a script hold, and those of a style file over them.
    with mpl.rc_context({"font.size": 13}):
        assert run.plot("rtt").axes[0].yaxis.label.get_fontsize() == 13
        style = tmp_path / "mine.mplstyle"
        style.write_text("font.size: 11  # points\naxes.grid: False\n")
        styled = run.plot("rtt", style=style)
        assert styled.axes[0].yaxis.label.get_fontsize() == 11
    assert run.plot("rtt").axes[0].yaxis.label.get_fontsize() == 8
    colours = "axes.prop_cycle: cycler('color', ['ff0000', '00aa00'])\n"
    style.write_text(f"lines.linewidth: 3\nfigure.figsize: 4, 3\n{colours}")
    styled = run.plot("rtt", style=style)
    assert tuple(styled.get_size_inches()) == (4, 3)
    lines = styled.axes[0].lines[:2]
    drawn = [(mpl.colors.to_hex(line.get_color()), line.get_linewidth()) for line in lines]
    assert drawn == [("#ff0000", 3), ("#00aa00", 3)]
    style.write_text("font.sizes: 11\n")
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"style": style}, "mine.mplstyle:1: a style has no setting 'font.sizes'"),
        ({"size": "3.5x2.4"}, "is not the size of a figure"),
        ({"size": "0.1in"}, "is not the size of a figure"),
        ({"flow": 7}, "the run has no flow 7"),
    )
    for options, what in wrong:
        with pytest.raises(paceline.ArgumentError, match=re.escape(what)):
            run.plot(**options)
    style.write_text("font.size: big\naxes.grid: maybe\n")
    with pytest.raises(paceline.ArgumentError, match=r"mine\.mplstyle"):
        run.plot(style=style)
    with pytest.raises(paceline.ArgumentError, match="no panel 'speed'"):
        run.plot("speed")


def test_a_class_without_source_is_known_by_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = set()
    for gain in (1, 2):
        names: dict[str, Any] = {"Controller": paceline.Controller}
        body = f"def on_ack(self, ack): self.cwnd_bytes += {gain}"
        exec(f"class Mine(Controller):\n    {body}", names)
        own = {"mine": names["Mine"]}
        over = {"flows.0.cc": ["mine"]}
        folders.add(paceline.sweep(SCENARIO, over, controllers=own).folder)
    assert len(folders) == 2
