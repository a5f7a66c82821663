"""The page of ``paceline serve`` in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import browser
import paceline
from conftest import SCENARIO
from paceline.cli.verbs.serve import leading_to
from paceline.serve.server import Server
from served import serving


@pytest.fixture
def page(tmp_path: Path) -> Iterator[browser.Browser]:
    page = browser.Browser(tmp_path / "profile")
    yield page
    page.close()
    assert page.errors == []


AXE = Path(__file__).parent.parent / "web" / "node_modules" / "axe-core" / "axe.min.js"

needs_browser = pytest.mark.skipif(browser.executable() is None, reason="needs Chromium")

#: The requests of the page for its lines so far.
FETCHED = """performance.getEntriesByType('resource').map((r) => r.name)
    .filter((name) => name.includes('/api/series'))"""


def pick(page: browser.Browser, name: str) -> None:
    """Choose a run of the list."""
    page.evaluate(
        f"[...document.querySelectorAll('#runs b')].find((b) => b.textContent === {name!r}).click()"
    )


@needs_browser
def test_zooming_fetches_finer_data_and_nothing_twice(
    server: Server, page: browser.Browser
) -> None:
    page.open(f"{server.address}#run=one-3&show=rtt_ns")
    page.wait("document.body.dataset.ready === 'yes'")
    # Time for whatever else it would ask for.
    page.evaluate("new Promise((done) => setTimeout(done, 300))")
    (first,) = page.evaluate(FETCHED)
    assert "from=" not in first
    turn = int(page.evaluate("document.body.dataset.drawn"))
    page.evaluate("""(() => {
      const over = document.querySelector('.u-over');
      const box = over.getBoundingClientRect();
      const at = { clientX: box.left + box.width / 2, clientY: box.top + 20, bubbles: true };
      for (let i = 0; i < 10; i++)
        over.dispatchEvent(new WheelEvent('wheel', { ...at, deltaY: -1, cancelable: true }));
    })()""")
    page.wait(f"Number(document.body.dataset.drawn) > {turn}")
    page.evaluate("new Promise((done) => setTimeout(done, 500))")
    fetched = page.evaluate(FETCHED)
    # Ten times 0.8 of the 2 s round their middle, and half of that on both sides.
    start, end = (float(part.partition("=")[2]) for part in fetched[-1].split("&")[-2:])
    shown = 2 * 0.8**10
    assert end - start == pytest.approx(2 * shown, rel=0.02)
    assert (start + end) / 2 == pytest.approx(1, abs=0.02)
    assert len(fetched) == len(set(fetched)) <= 11


@needs_browser
def test_a_run_that_is_not_to_be_trusted_says_so(
    server: Server, folder: Path, page: browser.Browser, tmp_path: Path
) -> None:
    place = folder / "late"
    shutil.copytree(folder / "one-3", place)
    try:
        record = json.loads((place / "run.json").read_text())
        record |= {"backend": "emu", "emulation": {"beyond": [{"message": "packets left late"}]}}
        (place / "run.json").write_text(json.dumps(record))
        page.open(f"{server.address}#run=one-3&show=rtt_ns")
        page.wait("document.body.dataset.ready === 'yes'")
        assert page.evaluate("untrusted.hidden && getComputedStyle(untrusted).display === 'none'")
        page.open(f"{server.address}#run=one-3&run=late&show=rtt_ns")
        page.wait("document.body.dataset.ready === 'yes'")
        assert page.evaluate("untrusted.checkVisibility()")
        assert page.evaluate("untrusted.innerText").endswith("late: packets left late")
        marks = "[...document.querySelectorAll('em')].map((mark) => mark.title)"
        assert page.evaluate(marks) == ["packets left late"] * 2
        page.screenshot(tmp_path / "untrusted.png")
    finally:
        shutil.rmtree(place)


@needs_browser
def test_the_page_in_a_browser(server: Server, page: browser.Browser, tmp_path: Path) -> None:
    page.open(server.address)
    page.wait("document.body.dataset.ready === 'yes'")
    count = int(page.evaluate("document.querySelectorAll('#runs li').length"))
    page.evaluate("filter.value = 'cubic'; filter.dispatchEvent(new Event('input'))")
    left = page.evaluate("[...document.querySelectorAll('#runs b')].map((b) => b.textContent)")
    assert left == ["group/two-3"]
    page.evaluate("filter.value = ''; filter.dispatchEvent(new Event('input'))")
    # What is there already is shown.
    assert len(page.evaluate("[...document.querySelectorAll('#runs .chosen b')]")) == 1
    pick(page, "one-3")
    page.evaluate("document.querySelector('[aria-label=\"lay over: group/two-3\"]').click()")
    # The focus stays where it was.
    titles = "[...document.querySelectorAll('.u-title')].map((t) => t.textContent)"
    columns = "document.querySelectorAll('#table tr:first-child th').length"
    page.wait(f"{titles}.length === 3 && {columns} === 4")
    assert page.evaluate(titles)[:2] == ["Throughput", "Round-trip time"]
    # The plots hold ink of both runs' colours.
    ink = """(() => {
      const canvas = document.querySelectorAll('.plot canvas')[1];
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const near = (i, c) => c.every((v, k) => Math.abs(data[i + k] - v) < 40);
      let blue = 0, orange = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (near(i, [0, 0x72, 0xb2])) blue++;
        if (near(i, [0xe6, 0x9f, 0])) orange++;
      }
      return [blue, orange];
    })()"""
    assert min(page.evaluate(ink)) > 100
    page.screenshot(tmp_path / "laid-over.png")

    # What differs is named.
    page.wait("verdict.textContent")
    assert "Settings that differ: flows.cc: bbr3, reno to cubic, reno." in page.evaluate(
        "verdict.textContent"
    )
    assert page.evaluate("document.querySelector('#table tr').innerText").endswith("Change")

    # One run is changed and run again; what is wrong is said at its line.
    pick(page, "one-3")
    page.wait("!document.getElementById('manage').hidden")
    page.evaluate("document.getElementById('change').click()")
    page.wait("toml.value.includes('share a small')")
    type_ = "toml.value = toml.value.replace(/{}/, '{}'); toml.dispatchEvent(new Event('input'))"
    page.evaluate(type_.format(r"\nrate = ", r"\nrat = "))
    page.wait("!problems.hidden")
    assert "did you mean `rate`?" in page.evaluate("problems.innerText")
    if AXE.exists():
        assert page.axe(AXE) == []
    page.evaluate("document.getElementById('run').click()")
    page.wait("document.body.dataset.job === 'failed'")
    page.evaluate(type_.format(r"\nrat = ", r"\nrate = "))
    page.wait("problems.hidden")
    page.evaluate(type_.format('duration = "[^"]*"', 'duration = "20 s"'))
    page.evaluate("document.getElementById('run').click()")
    page.wait("document.body.dataset.job === 'done'")
    assert page.evaluate("document.querySelectorAll('#runs li').length") == count + 1
    page.wait(f"{columns} === 4")
    # It is deleted on request, and nothing else is.
    pick(page, page.evaluate("state.textContent").removeprefix("done: "))
    page.wait("!document.getElementById('manage').hidden")
    page.evaluate("window.confirm = () => true; document.getElementById('delete').click()")
    page.wait(f"document.querySelectorAll('#runs li').length === {count}")

    page.open(f"{server.address}#run=grid-sweep")
    links = "[...document.querySelectorAll('#pictures a')]"
    page.wait(f"{links}.length === 2")
    loads = f"{links}.map((link) => fetch(link.href).then(({{ ok }}) => ok))"
    assert page.evaluate(f"Promise.all({loads})") == [True, True]


@needs_browser
def test_repeats_are_together_and_six_metrics_come_first(
    tmp_path: Path, page: browser.Browser
) -> None:
    for run in paceline.run_many(SCENARIO, [11, 9, 10], overrides={"run.duration": "1 s"}):
        run.write(tmp_path / "ten" / f"seed-{run.seed}")
    paceline.run(SCENARIO).write(tmp_path / "one-3")
    with serving(tmp_path) as server:
        page.open(f"{server.address}#run=ten%2Fseed-10")
        page.wait("document.body.dataset.ready === 'yes'")
        page.wait("document.querySelectorAll('#table td').length > 6")
        names = "[...document.querySelectorAll('#runs details b')].map((b) => b.textContent)"
        assert page.evaluate(names) == ["ten/seed-9", "ten/seed-10", "ten/seed-11"]
        listed = "[...document.querySelectorAll('#runs > li > button')].map((b) => b.innerText)"
        assert page.evaluate(listed) == [
            "one-3\nbbr3, reno · 2 flows · seed 3",
            "ten\n3 repeats · bbr3, reno · 2 flows",
        ]
        assert page.evaluate("document.querySelector('#runs details').open")
        shown = (
            "[...document.querySelectorAll('#table tr')].filter((row) => row.offsetHeight > 0)"
            ".map((row) => row.cells[0].textContent)"
        )
        assert page.evaluate(shown) == [
            "Link used",
            "Goodput",
            "Median RTT",
            "Queue delay, 95th percentile",
            "Packets retransmitted",
            "Jain's index, second half",
        ]
        assert re.fullmatch(r"All \d+ metrics", page.evaluate("more.textContent"))
        page.evaluate("more.click()")
        assert len(page.evaluate(shown)) == int(page.evaluate("more.textContent").split()[1])
        assert page.evaluate("more.getAttribute('aria-expanded')") == "true"
        if AXE.exists():
            assert page.axe(AXE) == []
        assert page.errors == []


@needs_browser
@pytest.mark.parametrize("width", [390, 1400, 2000])
def test_plots_come_first_and_nothing_is_cut(
    tmp_path: Path, page: browser.Browser, width: int
) -> None:
    drawn = {"run.duration": "1 s", "path.jitter": "1 ms"}
    for run in paceline.run_many(SCENARIO, range(5), overrides=drawn):
        run.write(tmp_path / "five" / f"seed-{run.seed}")
    long = tmp_path / "a-scenario+with.settings=in.its.name-3-0123ab"
    paceline.run(SCENARIO).write(long)
    with serving(tmp_path) as server:
        page.resize(width, 900)
        page.open(server.address)
        page.wait("document.body.dataset.ready === 'yes'")
        pick(page, "five")
        page.wait("title.textContent === 'five (5 repeats)' && verdict.textContent")
        assert re.match(
            "bbr3 and reno: [0-9.]+ % of the link used", page.evaluate("verdict.innerText")
        )
        spread = "document.querySelector('#table td').innerText"
        page.wait(f"{spread}.includes(' to ')")
        tops = "['verdict', 'plots', 'metrics'].map((id) => window[id].offsetTop)"
        heights = page.evaluate(tops)
        assert heights == sorted(heights)
        # Beside it a run, whose name is without its hash; each run has its plots, to one scale.
        page.evaluate(
            "document.querySelector('[aria-label=\"lay over: "
            "a-scenario+with.settings=in.its.name\"]').click()"
        )
        page.wait("document.querySelectorAll('#table tr:first-child th').length === 4")
        page.evaluate("apart.click()")
        page.wait("document.querySelectorAll('.plot').length === 18")
        page.evaluate("new Promise((done) => setTimeout(done, 100))")
        cut = """[...document.querySelectorAll('main *')].filter((e) =>
            e.getBoundingClientRect().right > document.documentElement.clientWidth + 1
            || e.scrollWidth > e.clientWidth + 1
                && /auto|scroll/.test(getComputedStyle(e).overflowX))
            .map((e) => e.outerHTML.slice(0, 80))"""
        assert page.evaluate(cut) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if AXE.exists():
            assert page.axe(AXE) == []


@needs_browser
def test_a_person_names_runs(tmp_path: Path, page: browser.Browser) -> None:
    for run in paceline.run_many(SCENARIO, [1, 2], overrides={"run.duration": "1 s"}):
        run.write(tmp_path / "long-1to2-0123ab" / f"seed-{run.seed}")
    with serving(tmp_path) as server:
        page.open(server.address)
        page.wait("document.body.dataset.ready === 'yes'")
        pick(page, "long")
        page.wait("title.textContent === 'long (2 repeats)'")
        page.evaluate("window.prompt = (_, now) => `${now}er/one`; rename.click()")
        page.wait("title.textContent === 'longer-one (2 repeats)'")
        assert (tmp_path / "longer-one" / "seed-1" / "run.json").exists()
        assert not (tmp_path / "long-1to2-0123ab").exists()
        # The next run is beside it, by the name in the form.
        page.evaluate(
            "document.getElementById('new').click(); document.getElementById('change').click()"
        )
        page.wait("toml.value.includes('share a small')")
        page.evaluate(
            "document.querySelector('#name').value = 'mine'; document.getElementById('run').click()"
        )
        page.wait("document.body.dataset.job === 'done'")
        assert page.evaluate("title.textContent") == "longer-one (2 repeats) and mine"
        assert (tmp_path / "mine" / "run.json").exists()


@needs_browser
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_cell_of_a_sweep_shows_its_run(
    folder: Path, tmp_path: Path, page: browser.Browser, width: int, scheme: str
) -> None:
    shutil.copytree(folder / "grid-sweep", tmp_path / "runs" / "grid-sweep")
    with serving(tmp_path / "runs") as server:
        page.resize(width, 900)
        page.prefer(scheme)
        page.open(server.address)
        page.wait("document.body.dataset.ready === 'yes'")
        cells = "[...document.querySelectorAll('.grid tbody button')]"
        page.wait(f"{cells}.length === 2")
        if width == 390:
            page.evaluate(f"{cells}[1].click()")
        else:
            # The same with the keyboard, in the picture: Tab reaches one mark, arrows the others.
            key = (
                "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: '{}'}}))"
            )
            page.evaluate("document.querySelector('.mark[tabindex=\"0\"]').focus()")
            page.evaluate(key.format("ArrowRight"))
            page.evaluate(key.format("Enter"))
        assert "RTT = 20 ms: " in page.evaluate("document.querySelector('.seeds').innerText")
        page.wait(f"document.documentElement.scrollWidth <= {width}")
        if AXE.exists():
            assert page.axe(AXE) == []
        page.evaluate("document.querySelector('.seeds button').click()")
        page.wait("document.body.dataset.job === 'done'")
        page.wait("document.querySelectorAll('#table th').length > 2")
        assert page.evaluate("toml.value.includes('rtt = \"20 ms\"')")
        assert len(page.evaluate("[...document.querySelectorAll('#runs li')].map(String)")) == 2


@needs_browser
def test_what_the_command_opens_leads_to_the_page_and_its_report(
    server: Server, page: browser.Browser
) -> None:
    page.resize(390, 800)
    with leading_to(server.address) as file:
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
        page.open(file.as_uri())
        page.wait("document.body.dataset.ready === 'yes'")
    assert server.token not in page.evaluate("location.href")
    assert page.evaluate("document.cookie") == ""
    pick(page, "one-3")
    page.wait("document.querySelectorAll('.u-title').length === 3")
    narrow = "document.documentElement.scrollWidth <= 390"
    assert page.evaluate(narrow)
    page.open(f"{server.origin}/report?id=one-3")
    page.wait("document.querySelectorAll('.u-title').length > 3")
    assert page.evaluate(narrow)
    colour = "getComputedStyle(document.querySelector('.key rect')).fill"
    assert page.evaluate(colour) == "rgb(0, 114, 178)"
