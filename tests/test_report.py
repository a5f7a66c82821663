"""What the report draws, and that it needs nothing else."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import browser
import paceline
from conftest import SCENARIO, Command
from paceline.quantities import quantity
from paceline.show import packets, path
from paceline.show.joint import Joint, write_page
from paceline.show.page import render
from paceline.show.palette import flow_style
from paceline.show.panels import Sketch, envelope


class Page(HTMLParser):
    """Collects what a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.links: set[str] = set()
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name in ("src", "href", "action", "data", "poster") and value:
                if value.startswith("#"):
                    self.links.add(value[1:])
                elif value != "data:,":
                    self.outside.append(value)


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'id="data">([^<]*)<', page)
    assert match is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(match[1])))
    return data


def test_the_page_needs_nothing_else(run: paceline.Run) -> None:
    text = render(run)
    page = Page()
    page.feed(text)
    assert page.outside == []
    assert page.links <= page.ids
    # The only address is a comment in uPlot that names its origin.
    assert re.findall(r"https?://[^\s\"')]+", text) == ["https://github.com/leeoniya/uPlot"]
    assert "@import" not in text
    assert "fetch(" not in text


def test_every_number_leads_to_its_definition(run: paceline.Run) -> None:
    page = Page()
    page.feed(render(run))
    defined = {f"run-{name}" for name, value in run.metrics.items() if value is not None}
    assert defined <= page.ids
    assert {link for link in page.links if link.startswith(("run-", "flow-"))} <= page.ids
    assert len(defined & page.links) >= 6


def test_the_tables_stand_without_scripts(run: paceline.Run) -> None:
    text = render(run).split("<script")[0]
    for name, value in run.metrics.items():
        assert (f"<code>{name}</code>" in text.partition("Of a flow")[0]) == (value is not None)
    assert "duration = " in text


def test_text_is_escaped() -> None:
    hostile = SCENARIO.replace("Two flows", "</pre><script>alert(1)</script>")
    run = paceline.run(hostile, overrides={"run.duration": "300 ms"})
    assert "<script>alert" not in render(run)


def test_the_data_is_what_was_recorded(run: paceline.Run) -> None:
    data = data_of(render(run))
    throughput, rtt, queue, _ = data["overview"]
    assert throughput["unit"] == "Mbit/s"
    assert rtt["unit"] == "ms"
    assert (queue["unit"], queue["unitRight"]) == ("kB", "ms")
    for panel in data["overview"]:
        assert all(len(s["values"]) == len(panel["times"]) for s in panel["series"])
    # The bins add up to what was delivered.
    for index, series in enumerate(throughput["series"]):
        got = sum(series["values"]) * 1e6 * 0.1 / 8
        delivered = run.samples.filter(flow=index)["delivered_bytes"][-1]
        assert abs(got - delivered) < 0.001 * delivered
    peak = max(v for v in queue["series"][0]["values"] if v is not None)
    assert abs(peak * 1e3 - float(run.queue["peak_bytes"].max() or 0)) <= 0.001 * peak * 1e3  # type: ignore[arg-type]


def test_lines_are_compared_with_what_the_path_can_do(run: paceline.Run) -> None:
    throughput, rtt, queue, drops = Sketch(run).overview()
    levels = {s.label: s.values for panel in (throughput, rtt, queue) for s in panel.references}
    # 10 Mbit/s and 20 ms, a queue of one BDP: 25 kB, which take 20 ms.
    assert levels["link rate"] == [10.0] * 20
    # The second flow starts at 0.2 s.
    assert levels["fair share"] == [10.0] * 2 + [5.0] * 18
    assert set(levels["base RTT"]) == {20.0}
    assert set(levels["base RTT and a full queue"]) == {40.0}
    assert set(levels["queue limit"]) == {25.0}
    # Each drop is in one bin.
    (dropped,) = drops.series
    assert sum(v or 0 for v in dropped.values) == run.queue["dropped_packets"].max()
    window, _ = Sketch(run).detail(0).panels
    assert [(s.label, set(s.values)) for s in window.references] == [("1 BDP", {25.0})]


def test_a_change_of_the_path_is_marked_and_told(run: paceline.Run) -> None:
    text = SCENARIO + '[[events]]\nwhen = "1 s"\npath.rate = "5 Mbit/s"\n'
    slower = Sketch(paceline.run(text))
    marks = [(mark["t"], mark["flow"], mark["text"]) for mark in slower.marks()]
    assert marks == [(1.0, None, "rate 10.00 Mbit/s to 5.000 Mbit/s")]
    capacity = slower.overview()[0].references[0].values
    assert capacity == [10.0] * 10 + [5.0] * 10
    texts = [event["text"] for event in slower.happenings() if event["flow"] == 0]
    assert texts[0] == "start"
    assert "state Startup to Drain" in texts
    assert "rate 10.00 Mbit/s to 5.000 Mbit/s" in {event["text"] for event in slower.happenings()}


def test_what_limits_a_flow_is_told_without_gaps(run: paceline.Run) -> None:
    limits = Sketch(run).detail(0).limits
    for span, following in pairwise(limits):
        assert span["end"] == following["start"]
        assert span["state"] != following["state"]
    assert {span["state"] for span in limits} >= {"pacing rate", "congestion window"}
    idle = SCENARIO.replace('cc = "bbr3"', 'cc = "bbr3"\napp = { rate = "1 Mbit/s" }')
    quiet = Sketch(paceline.run(idle)).detail(0).limits
    longest = max(quiet, key=lambda span: span["end"] - span["start"])
    assert longest["state"] == "application"
    lost = Sketch(run).detail(0).lost
    assert lost == sorted(lost)
    assert lost[-1] == run.samples.filter(flow=0)["lost_packets"].max()


def test_expectations_are_judged_in_units() -> None:
    text = SCENARIO + '[expect]\nutilisation_ratio = ">= 50 %"\nrtt_p95_ns = "< 1 ms"\n'
    page = render(paceline.run(text))
    assert "1 of 2 expectations failed" in page
    assert re.search(r"<b>held</b> .*Link used</a> 9\d\.\d\d % <span>\(at least 50.00 %", page)
    assert re.search(r"<b>failed</b> .*RTT, 95th.*ms <span>\(less than 1.000 ms expected", page)


def test_the_return_direction_has_panels_and_a_place_in_the_sketch() -> None:
    text = """schema = 1
[run]
duration = "3 s"
[path]
rate = "20 Mbit/s"
rtt = "40 ms"
queue.size = "1 bdp"
[path.return]
rate = "100 kbit/s"
queue.size = "5 packets"
[[flows]]
cc = "reno"
"""
    run = paceline.run(text)
    assert run.returns == [None, 0]
    titles = [panel.title for panel in Sketch(run).overview()]
    assert titles[-2] == "Queue in the return direction"
    assert titles[-1].startswith("Packets dropped in the return direction")
    delay = Sketch(run).overview()[-2].series[1]
    # Five packets and one in transmission, of 52 to 88 bytes (four SACK blocks): 4.16 to 7.04 ms.
    assert 20 < max(value or 0 for value in delay.values) <= 42.24
    _, link, _ = path.boxes(text)
    assert link.lines[-2:] == ["return: 100 kbit/s", "return: droptail queue 5 packets"]


def test_the_path_is_drawn_from_sender_to_receiver() -> None:
    links = (
        '[[links]]\nname = "access"\nrate = "100 Mbit/s"\ndelay = "3 ms"\n'
        'queue = { kind = "codel", size = "100 packets" }\nloss = "1 %"\n'
    )
    text = paceline.check(SCENARIO + links, overrides={"path.jitter": "2 ms"})
    boxes = path.boxes(text)
    assert [box.title for box in boxes] == ["2 senders", "bottleneck", "access", "2 receivers"]
    assert boxes[0].lines == ["bbr3", "reno"]
    assert {"10 Mbit/s", "jitter 2 ms"} <= set(boxes[1].lines)
    assert {"100 Mbit/s", "delay 3 ms", "codel queue 100 packets", "loss 1 %"} <= set(
        boxes[2].lines
    )
    assert path.boxes("not = [toml") == path.boxes("")


needs_browser = pytest.mark.skipif(browser.executable() is None, reason="needs Chromium")
AXE = Path(__file__).parent.parent / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[browser.Browser]:
    page = browser.Browser(tmp_path / "profile")
    judged = paceline.run(SCENARIO + '[expect]\nutilisation_ratio = ">= 50 %"\n')
    page.open(judged.report(tmp_path / "report.html").as_uri())
    page.wait("document.body.dataset.drawn")
    yield page
    page.close()
    assert page.errors == []


@needs_browser
def test_a_click_says_what_limited_each_flow(shown: browser.Browser) -> None:
    shown.evaluate("""(() => {
      const over = document.querySelectorAll('.u-over')[1];
      const box = over.getBoundingClientRect();
      const at = { bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + 9 };
      for (const type of ['mousedown', 'mouseup', 'click'])
        over.dispatchEvent(new MouseEvent(type, at));
    })()""")
    # The middle, to the pixel.
    heading = shown.evaluate("why.querySelector('h3').textContent")
    assert heading in ("At 0.999 s", "At 1.000 s", "At 1.001 s")
    rows = shown.evaluate("[...why.querySelectorAll('tbody tr')].map((row) => row.innerText)")
    assert len(rows) == 2
    assert all("pacing rate" in row or "congestion window" in row for row in rows)
    assert shown.evaluate("`At ${moment.value} s`") == heading
    # The keyboard reaches any moment; its digits do not zoom.
    shown.evaluate("moment.focus(); moment.select()")
    shown.type("0.5")
    assert shown.evaluate("why.querySelector('h3').textContent") == "At 0.500 s"
    assert shown.evaluate("location.hash") == ""


@needs_browser
def test_keys_and_buttons_zoom_and_the_address_keeps_it(shown: browser.Browser) -> None:
    press = "plots.dispatchEvent(new KeyboardEvent('keydown', {{ key: {!r}, bubbles: true }}))"
    shown.evaluate(press.format("+"))
    assert shown.evaluate("location.hash") == "#zoom=0.5000-1.5000"
    shown.evaluate("document.getElementById('later').click()")
    assert shown.evaluate("document.getElementById('window').textContent") == "0.750 s to 1.750 s"
    shown.open(shown.evaluate("location.href"))
    shown.wait("document.body.dataset.drawn")
    assert shown.evaluate("document.getElementById('window').textContent") == "0.750 s to 1.750 s"
    shown.evaluate(press.format("0"))
    assert shown.evaluate("location.hash") == ""


@needs_browser
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_fits_and_axe_finds_nothing(
    shown: browser.Browser, width: int, scheme: str
) -> None:
    shown.prefer(scheme)
    shown.resize(width, 900)
    shown.wait(f"document.documentElement.scrollWidth <= {width}")
    if AXE.exists():
        assert shown.axe(AXE) == []


@needs_browser
def test_paper_is_light_and_has_no_buttons(shown: browser.Browser) -> None:
    shown.prefer("dark", "print")
    colours = "['--ink', '--grid'].map((n) => getComputedStyle(document.body).getPropertyValue(n))"
    assert shown.evaluate(colours) == ["#000", "#e8e8e8"]
    assert shown.evaluate(
        "[...document.querySelectorAll('button')].every((b) => !b.checkVisibility())"
    )


@pytest.fixture(scope="module")
def with_packets() -> paceline.Run:
    return paceline.run(SCENARIO, overrides={"run.record.packets": "true"})


def test_the_packets_are_those_that_were_recorded(
    with_packets: paceline.Run, run: paceline.Run
) -> None:
    data = data_of(render(with_packets))
    kinds = packets.KINDS
    for flow in data["details"]:
        shown = flow["packets"]
        last = dict.fromkeys(range(len(kinds)), 0)
        rows, t = [], 0
        for step, kind, start, length in zip(
            shown["t_us"], shown["kind"], shown["seq_bytes"], shown["len_bytes"], strict=True
        ):
            t += step
            last[kind] += start
            rows.append((t, shown["kinds"][kind], last[kind], length))
        recorded = with_packets.packets.filter(
            (pl.col("flow") == flow["flow"]) & pl.col("kind").is_in(kinds)
        )
        assert rows == [
            ((t_ns + 500) // 1000, kind, start, length)
            for t_ns, kind, start, length in recorded.select(
                "t_ns", pl.col("kind").cast(pl.String), "seq_bytes", "len_bytes"
            ).rows()
        ]
    assert "drop" in {row[1] for row in rows}
    assert all(flow["packets"] is None for flow in data_of(render(run))["details"])


def test_of_too_many_packets_the_first_are_told(
    with_packets: paceline.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packets, "MOST", 1000)
    flows = packets.of_flows(with_packets, [0, 1])
    assert 900 < sum(len(flow["t_us"]) for flow in flows.values()) <= 1000
    until = flows[0]["until"]
    assert until is not None
    assert 0 < until < 2
    assert all(sum(flow["t_us"]) <= until * 1e6 for flow in flows.values())


@needs_browser
def test_zoomed_in_each_packet_is_drawn(with_packets: paceline.Run, tmp_path: Path) -> None:
    page = browser.Browser(tmp_path / "profile")
    file = with_packets.report(tmp_path / "report.html").as_uri()
    page.open(f"{file}#zoom=1.0000-1.0100")
    page.wait("document.body.dataset.drawn")
    page.evaluate("document.querySelector('#packets').scrollIntoView()")
    flow = with_packets.packets.filter(
        (pl.col("flow") == 0)
        & pl.col("kind").is_in(packets.KINDS)
        & ((pl.col("t_ns") + 500) // 1000).is_between(1_000_000, 1_010_000, closed="left")
    )
    assert flow.height > 0
    page.wait(f"document.querySelector('#packets').dataset.visible === '{flow.height}'")
    note = "document.querySelector('#packets .note').innerText"
    assert page.evaluate(note).startswith(f"Each of {flow.height} packets in view is drawn.")
    page.evaluate("plots.dispatchEvent(new KeyboardEvent('keydown', { key: '0', bubbles: true }))")
    page.wait(f"document.querySelector('#packets').dataset.visible !== '{flow.height}'")
    assert "drawn as their outline" in page.evaluate(note)
    assert page.errors == []
    page.close()


def test_bands_cover_a_flow_without_gaps(run: paceline.Run) -> None:
    bands = Sketch(run).detail(0).bands
    assert bands[0]["state"] == "Startup"
    assert len(bands) > 2
    for band, following in pairwise(bands):
        assert band["end"] == following["start"]
        assert band["state"] != following["state"]
    assert bands[-1]["end"] == 2.0


def test_a_flow_looks_the_same_everywhere(run: paceline.Run) -> None:
    overview = Sketch(run).overview()
    for index in range(2):
        assert overview[0].series[index].style == overview[1].series[index].style
    styles = [flow_style(index) for index in range(28)]
    assert len(set(styles)) == 28


def joined(*runs: tuple[str, paceline.Run]) -> Joint:
    together = Joint()
    for nth, (side, run) in enumerate(runs):
        together.add(f"{side}/seed-{nth}", side, run)
    return together


def test_a_joint_report_has_the_means_of_each_controller(run: paceline.Run, tmp_path: Path) -> None:
    other = paceline.run(SCENARIO, overrides={"run.duration": "1 s", "path.rate": "20 Mbit/s"})
    together = joined(("reno", run), ("reno", other), ("cubic", other))
    rows = {row["name"]: [cell["value"] for cell in row["cells"]] for row in together.rows()}
    values = [float(r.metrics["goodput_bps"] or 0) for r in (run, other)]
    mean, own = sum(values) / 2, values[1]
    assert rows["goodput_bps"] == [quantity("_bps", mean), quantity("_bps", own)]
    throughput, _, _ = together.panels()
    assert [series.label for series in throughput.series] == ["reno", "cubic"]
    # The bins of a run add up to what was delivered, and beyond its end it counts no more.
    reno, cubic = (series.values for series in throughput.series)
    delivered = [sum(r.samples.group_by("flow").last()["delivered_bytes"]) for r in (run, other)]
    assert sum(v or 0 for v in cubic) * 1e6 * 0.1 / 8 == pytest.approx(delivered[1], rel=0.001)
    first = sum(v or 0 for v in reno[:10]) * 2 + sum(v or 0 for v in reno[10:])
    assert first * 1e6 * 0.1 / 8 == pytest.approx(sum(delivered), rel=0.001)
    assert cubic[10:] == [None] * 10
    page = Page()
    text = write_page(together, tmp_path / "x.html", ["cubic/seed-2"]).read_text()
    page.feed(text)
    assert page.outside == ["cubic/seed-2/report.html"]
    assert page.links <= page.ids
    assert data_of(text)["overview"][0]["title"] == "Throughput of all flows"


def test_repeats_of_one_controller_are_drawn_one_by_one(run: paceline.Run) -> None:
    throughput, *_ = joined(("", run), ("", run)).panels()
    first, second = throughput.series
    assert (first.label, first.values) == (second.label, second.values)
    assert first.style != second.style


def test_a_folder_of_several_runs_has_one_report(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(SCENARIO.replace("2 s", "500 ms"))
    compared = ("--set", 'run.compare=["bbr3", "reno"]', "--repeats", 2, "--out", "g")
    assert cli("run", "x.toml", *compared).returncode == 0
    for form in ("html", "svg"):
        result = cli("report", "g", "--format", form)
        assert (result.returncode, result.stdout) == (0, f"g/report.{form}\n"), result.stderr
    text = (tmp_path / "g" / "report.html").read_text()
    assert "4 runs of 2 controllers" in text
    assert [place for place in ("bbr3/seed-3", "reno/seed-4") if place not in text] == []
    wrong = cli("report", "g", "--flow", 1)
    assert (wrong.returncode, "g/bbr3/seed-3 --flow 1 --format pdf`" in wrong.stderr) == (2, True)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 999), st.one_of(st.none(), st.integers(-(10**6), 10**6))),
        max_size=60,
    ),
    count=st.integers(1, 20),
)
def test_no_peak_is_lost(rows: list[tuple[int, int | None]], count: int) -> None:
    rows.sort(key=lambda row: row[0])
    schema = {"t_ns": pl.Int64, "v": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    width = -(-1000 // count)
    values = envelope(frame, "v", width, count)
    assert len(values) == 2 * count
    for bucket in range(count):
        inside = [v for t, v in rows if v is not None and t // width == bucket]
        kept = values[2 * bucket : 2 * bucket + 2]
        assert kept == [None, None] if not inside else set(kept) == {min(inside), max(inside)}


def test_many_flows_are_drawn_as_the_largest_and_the_rest() -> None:
    changes = {"run.duration": "500 ms", "flows.0.count": 20}
    run = paceline.run(SCENARIO, overrides=changes)
    data = data_of(render(run))
    throughput, rtt, *_ = data["overview"]
    assert len(data["details"]) == len(rtt["series"]) == 12
    assert throughput["series"][-1]["label"] == "9 other flows"
    total = sum(sum(series["values"]) for series in throughput["series"]) * 1e6 * 0.1 / 8
    delivered = int(run.samples.filter(t_ns=500_000_000)["delivered_bytes"].sum())
    assert abs(total - delivered) < 0.005 * delivered


@pytest.mark.parametrize(
    "text",
    ["path = 3\nflows = 4\nlinks = 5", "flows = [1, {cc = 3, count = 'x'}]", "a = " + "[" * 9999],
)
def test_the_scenario_of_a_record_may_be_anything(text: str) -> None:
    assert [box.kind for box in path.boxes(text)] == ["host", "link", "host"]
