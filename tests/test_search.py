"""`paceline search`: a seeded defect is found, made small, and written as a scenario that fails."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from conftest import Command
from paceline import batch
from paceline.errors import ArgumentError, ScenarioError
from paceline.grid import document
from paceline.reading import toml
from paceline.runs import Run
from paceline.study.search import Genome, Goal, NoSpaceError, Search, Space, TimeSeries

SPACE = """
schema = 1
run.duration = "16 s"
[path]
rate = "3 Mbit/s"
rtt = "40 ms"
queue.size = "1 bdp"
[[flows]]
cc = "reno"
[[flows]]
cc = "reno"
start = "1 s"
[[events]]
when = "3 s"
for = "300 ms"
path.loss = "100 %"
[[events]]
when = "4 s"
path.rtt = "60 ms"
[sweep]
draws = 50
[sweep.over]
path.rate = { draw = "loguniform", from = "1 Mbit/s", to = "4 Mbit/s" }
path.queue.size = ["1 bdp", "2 bdp"]
events.0.when = { draw = "uniform", from = "2 s", to = "4 s" }
events.0.for = { draw = "loguniform", from = "50 ms", to = "1000 ms" }
"""
#: After a timeout it does not grow again.
MINE = """
import paceline

class Mine(paceline.Controller):
    def __init__(self, config):
        self.mss, self.stuck = config.mss_bytes, False
    def on_ack(self, ack):
        if not self.stuck and ack.ca_state != "Recovery":
            self.cwnd_bytes += self.mss * ack.newly_acked_bytes / self.cwnd_bytes
    def on_recovery_enter(self, now_ns, in_flight_bytes):
        self.cwnd_bytes = max(self.cwnd_bytes / 2, 2 * self.mss)
    def on_timeout(self, now_ns, in_flight_bytes):
        self.cwnd_bytes, self.stuck = self.mss, True
"""
SLOW = "goodput_bps < 2 Mbit/s"


def searched(goal: str, runs: int, threads: int = 1, seed: int = 1) -> Search:
    space = Space.read(SPACE, "space.toml")
    search = Search(space, Goal.read(goal), seed, batch.locally(threads))
    search.explore(lambda done: runs - done)
    search.reduce()
    return search


def test_a_seeded_defect_is_found_and_made_small(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text(SPACE)
    (tmp_path / "mine.py").write_text(MINE)
    mine = ("--controller", "mine=mine.py")
    call = ("search", "space.toml", "--goal", "starves", *mine, "--budget", "32 runs", "--out", "s")
    result = cli(*call, "--json", "--quiet")
    assert result.returncode == 3, result.stderr
    answer = json.loads(result.stdout)
    assert answer["explored"] == 32
    first = answer["finds"][0]
    assert min(first["offsets_ratio"], first["changes_ratio"]) >= 0.1
    text = Path(first["file"]).read_text()
    tables = toml(text)
    # An outage is what it needs, and nothing else.
    assert [event["path"] for event in tables["events"]] == [{"loss": "100 %"}]
    assert tables["flows"] == [{"cc": "mine"}]
    assert len(text.splitlines()) <= 24
    assert Path(first["file"]).with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    assert cli("run", first["file"], *mine, "--out", "r").returncode == 3
    # The controller that has not the defect fails on no such path.
    assert cli("run", first["file"], "--set", "flows.0.cc=reno", "--out", "q").returncode == 0
    # It is known by now, and not to a search that found nothing.
    assert cli(*call, "--against", "s", "--quiet").returncode == 0
    none = tmp_path / "none"
    none.mkdir()
    (none / "search.json").write_text('{"finds": []}')
    assert cli(*call, "--against", "none", "--quiet").returncode == 4


def test_a_search_gives_the_same_bytes_on_any_number_of_threads() -> None:
    one, two, other = searched(SLOW, 50), searched(SLOW, 50, threads=2), searched(SLOW, 50, seed=2)
    assert one.explored == two.explored == 50
    texts = [[find.toml() for find in search.finds] for search in (one, two)]
    assert texts[0] == texts[1] != []
    assert [c.tables for c in one.failing] == [c.tables for c in two.failing]
    assert [c.tables for c in one.failing] != [c.tables for c in other.failing]


def test_what_is_left_out_takes_its_keys_along() -> None:
    space = Space.read(SPACE, "space.toml", (("flows.0.cc.abc_limit", "3"),))
    assert space.parts == (("events", 0), ("events", 1), ("flows", 1))
    full = space.at(Genome((0.0, 0.0, 0.0, 0.0), (True, True, True)))
    assert full["path"]["queue"] == {"size": "1 bdp"}
    assert full["flows"][0]["cc"] == {"name": "reno", "abc_limit": 3}
    few = space.at(Genome((1.0, 1.0, 1.0, 1.0), (False, True, False)))
    assert (len(few["flows"]), few["path"]["queue"]) == (1, {"size": "2 bdp"})
    assert few["events"] == [{"when": "4 s", "path": {"rtt": "60 ms"}}]
    assert "events" not in space.at(Genome((0.5, 0.5, 0.5, 0.5), (False, False, False)))
    # From the least draw to the greatest: what is near on the scale is alike.
    scales = [[settings[0][1] for settings in gene] for gene in space.genes]
    rates = next(scale for scale in scales if "bit/s" in scale[0])
    assert [float(rate.split()[0]) for rate in rates] == sorted(float(r.split()[0]) for r in rates)
    rng = random.Random(1)
    drawn = [space.drawn(rng) for _ in range(50)]
    assert {sum(genome.has) for genome in drawn} == {0, 1, 2, 3}
    same = space.child(rng, drawn[0], drawn[0])
    assert len(same.at) == len(space.genes)


def time_series(text: str) -> TimeSeries:
    runs: list[Run] = []
    job = batch.Job(text, (("run.sample_interval", "100 ms"),), duration_ns=1)
    batch.execute([job], lambda _, __, run: runs.append(run))
    return TimeSeries(runs[0], text)


def test_a_path_is_clean_between_its_changes() -> None:
    series = time_series(document(Space.read(SPACE, "space.toml").base))
    bad = {round(t, 1) for t, unclean in zip(series.t, series.unclean, strict=True) if unclean}
    assert {3.1, 3.2, 3.3, 4.0} <= bad | {3.0}
    assert max(bad) <= 4.1
    assert min(bad) >= 3.0
    first, last = series.windows(5.0, series.unclean)
    assert all(series.t[first] >= 4.0)
    assert all((series.t[last] - series.t[first]).round(3) == 5.0)
    # Two flows have half of 3 Mbit/s each, less headers: 8 s of it are 1.448 MB.
    at = [int(np.argmin(abs(series.t - time))) for time in (5.0, 13.0)]
    assert series.fair[at[1]] - series.fair[at[0]] == pytest.approx(1.5e6 * 1448 / 1500, rel=1e-3)
    lossy = time_series(SPACE.partition("[sweep]")[0].replace("[path]", '[path]\nloss = "0.1 %"'))
    assert lossy.unclean.all()


def test_goals_are_read_or_say_what_is_right() -> None:
    assert Goal.read("slower:cubic:0.5").factor == 0.5
    assert Goal.read("slower:noq:cubic").other == "noq:cubic"
    assert Goal.read("goodput < 0.5 * flows[0].goodput + 1").compared is not None
    for wrong, hint in (
        ("starve", "did you mean starves"),
        ("slower:cubik:0.5", "did you mean cubic"),
        ("slower:cubic:2", "from 0 to 1"),
        ("differs:/no/such", "name the other"),
        ("godput < 1 Mbit/s", "did you mean goodput_bps"),
        ("goodput < import", "a number with its unit"),
        ("goodput < 1 Mbit/h", "a number with its unit"),
    ):
        with pytest.raises(ArgumentError) as error:
            Goal.read(wrong)
        assert hint in error.value.hint, wrong


def test_a_flow_is_slower_than_another_controller() -> None:
    goal = Goal.read("slower:cubic:0.9")
    text = document(Space.read(SPACE, "space.toml").base)
    search = Search(Space.read(SPACE, "space.toml"), goal, 1, batch.locally(1))
    (verdict,) = search.verdicts([(text, ())])
    assert verdict is not None
    assert search.runs == 2
    own, other = (time_series(t) for t in (text, text.replace('cc = "reno"', 'cc = "cubic"', 1)))
    rates = [one.run.flow_metrics[0]["goodput_bps"] for one in (own, other)]
    assert verdict.value == pytest.approx(rates[0] / (0.9 * rates[1]))


def test_bad_spaces_and_options_are_refused(cli: Command, tmp_path: Path) -> None:
    with pytest.raises(NoSpaceError):
        Space.read(SPACE.partition('[[flows]]\ncc = "reno"\nstart')[0], "x.toml")
    with pytest.raises(ScenarioError, match=r"path\.rate"):
        Space.read(SPACE.replace('to = "4 Mbit/s"', 'to = "4 ms"'), "x.toml")
    (tmp_path / "space.toml").write_text(SPACE)
    for options, message in (
        (("--goal", "starvs"), "no goal is called 'starvs'"),
        (("--goal", "starves", "--budget", "soon"), "--budget takes runs or a time"),
        (("--goal", "starves", "--set", "path.rat=1"), "path.rat"),
        (("--goal", "starves", "--against", "none"), "none is no search"),
    ):
        result = cli("search", "space.toml", *options)
        assert (result.returncode, message in result.stderr) == (2, True), result
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_keeps_what_is_done(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text(SPACE)
    import paceline.study.search as study

    with pytest.MonkeyPatch.context() as patch:

        def stop(self: Search) -> None:
            raise KeyboardInterrupt

        patch.setattr(study.Search, "reduce", stop)
        result = cli("search", "space.toml", "--goal", SLOW, "--budget", "32 runs", "--out", "s")
    assert result.returncode == 130, result.stderr
    assert "finds are kept in s" in result.stderr
    assert "expect" in toml((tmp_path / "s" / "find-1.toml").read_text())
    assert "search.json" not in os.listdir(tmp_path / "s")
