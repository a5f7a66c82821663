"""The playground: its lessons natively, and the built page in a browser where there is one."""

from __future__ import annotations

import importlib.util
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import browser
import paceline

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "target" / "playground" / "index.html"
BUILT = ROOT / "target" / "playground-build" / "wasm32-unknown-unknown" / "release"
WASM = BUILT / "paceline_wasm.wasm"
LESSONS = tomllib.loads((ROOT / "web" / "lessons.toml").read_text("utf-8"))["lesson"]

needs_page = pytest.mark.skipif(
    not PAGE.exists() or browser.found() is None,
    reason="needs Chromium and the page that `make playground` builds",
)
needs_node = pytest.mark.skipif(
    not WASM.exists() or shutil.which("node") is None,
    reason="needs Node.js and the simulator that `make playground` builds",
)


def texts(lesson: dict[str, Any]) -> tuple[str, str]:
    """Return a lesson's scenario before and after its change."""
    text = (ROOT / "scenarios" / "lessons" / f"{lesson['scenario']}.toml").read_text("utf-8")
    old, new = lesson["change"]
    assert old in text
    return text, text.replace(old, new)


def metric(run: paceline.Run, name: str) -> float:
    """Return a metric of a run, or with `flows.N.` of a flow."""
    if name.startswith("flows."):
        _, flow, name = name.split(".")
        value = run.flow_metrics[int(flow)][name]
    else:
        value = run.metrics[name]
    assert value is not None
    return float(value)


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson["scenario"] for lesson in LESSONS])
def test_the_runs_of_a_lesson_show_its_answer(lesson: dict[str, Any]) -> None:
    shows = lesson["shows"]
    before, after = (metric(paceline.run(text), shows["metric"]) for text in texts(lesson))
    factor = {"larger": after / before, "smaller": before / after}[shows["becomes"]]
    assert factor >= shows["factor"], (before, after)
    assert 0 <= lesson["right"] < len(lesson["answers"]) == 3


def test_there_are_ten_lessons_and_each_scenario_is_in_one() -> None:
    files = {path.stem for path in (ROOT / "scenarios" / "lessons").glob("*.toml")}
    assert sorted(files) == sorted(lesson["scenario"] for lesson in LESSONS)
    assert len(LESSONS) == 10


@needs_node
def test_wasm_gives_what_the_native_simulator_gives() -> None:
    path = ROOT / "web" / "playground" / "native.py"
    spec = importlib.util.spec_from_file_location("native", path)
    assert spec is not None
    assert spec.loader is not None
    native = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(native)
    files = sorted((ROOT / "scenarios" / "lessons").glob("*.toml"))
    assert native.compare(WASM, files) == ([], 0)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[browser.Browser]:
    page = browser.Browser(tmp_path / "profile")
    page.open(PAGE.as_uri())
    page.wait("document.body.dataset.ready")
    yield page
    page.close()
    assert page.errors == []


def click(page: browser.Browser, selector: str) -> None:
    page.ask(f"document.querySelector({selector!r}).click()")


def ran(page: browser.Browser) -> None:
    page.wait("document.body.dataset.state === 'done'")


EDITOR = "document.querySelector('#toml')"


def type_in(page: browser.Browser, text: str) -> None:
    page.ask(f"{EDITOR}.value = {text!r}; {EDITOR}.dispatchEvent(new Event('input'))")


@needs_page
def test_each_lesson_runs_in_the_page_with_the_native_numbers(page: browser.Browser) -> None:
    for nth, lesson in enumerate(LESSONS):
        click(page, f"#lessons li:nth-child({nth + 1}) button")
        for step, text in ((1, texts(lesson)[0]), (3, texts(lesson)[1])):
            page.ask("document.body.dataset.state = ''")
            click(page, f"#lesson li:nth-child({step}) button")
            ran(page)
            assert page.ask("document.body.dataset.digest") == paceline.run(text).digest
            assert page.ask("document.body.dataset.native") == "equal"
        click(page, f"#lesson li:nth-child(2) button:nth-of-type({lesson['right'] + 1})")
        said = page.ask("document.querySelector('#lesson [role=status]').textContent")
        assert said.startswith("Right."), said
        # The picture compares with the previous run.
        assert "previous run" in page.ask("document.querySelector('#numbers').textContent")
        assert page.ask("document.querySelectorAll('#plots canvas').length") == 4


@needs_page
def test_sliders_and_text_follow_each_other(page: browser.Browser) -> None:
    page.ask("""(() => {
      const rate = document.querySelector('#slide-rate');
      rate.value = 6;
      rate.dispatchEvent(new Event('input'));
    })()""")
    assert 'rate = "100 Mbit/s"' in page.ask(f"{EDITOR}.value")
    type_in(page, page.ask(f"{EDITOR}.value").replace('"100 Mbit/s"', '"500 kbit/s"'))
    assert page.ask("document.querySelector('#value-rate').textContent") == "0.5 Mbit/s"
    page.ask("""(() => {
      const loss = document.querySelector('#slide-loss');
      loss.value = 4;
      loss.dispatchEvent(new Event('input'));
      const choice = document.querySelector('#controllers select');
      choice.value = 'cubic';
      choice.dispatchEvent(new Event('change'));
    })()""")
    text = page.ask(f"{EDITOR}.value")
    assert 'loss = "1 %"' in text
    assert 'cc = "cubic"' in text
    paceline.check(text)


@needs_page
def test_a_problem_is_shown_with_its_line_and_the_page_stays_alive(page: browser.Browser) -> None:
    good = page.ask(f"{EDITOR}.value")
    type_in(page, good.replace('cc = "bbr3"', 'cc = "bbr9"'))
    page.wait("document.body.dataset.problems === '1'")
    said = page.ask("document.querySelector('#problems').textContent")
    assert said.startswith("line "), said
    assert "bbr9" in said
    click(page, "#problems button")
    assert "bbr9" in page.ask("getSelection().toString()")
    # Too large for a page: said before anything runs.
    type_in(page, good.replace('"5 s"', '"40000 min"'))
    page.wait("document.querySelector('#problems').textContent.includes('a page may take 500 MB')")
    click(page, "#run")
    page.wait("document.body.dataset.state === 'not'")
    # A run that takes long ends when asked.
    long = good.replace('"5 s"', '"200 s"').replace('"20 Mbit/s"', '"2 Gbit/s"')
    type_in(page, long.replace('receive_window = "50 kB"', ""))
    click(page, "#run")
    page.wait("document.querySelector('#progress').value > 0")
    click(page, "#stop")
    page.wait("document.body.dataset.state === 'stopped'")
    type_in(page, good)
    click(page, "#run")
    ran(page)


@needs_page
def test_a_link_holds_the_scenario_and_a_hostile_one_runs_nothing(page: browser.Browser) -> None:
    text = page.ask(f"{EDITOR}.value") + "# mine: <b>é</b>\n"
    type_in(page, text)
    click(page, "#share")
    page.wait("location.hash.startsWith('#scenario=')")
    link = page.ask("location.href")
    page.open(link)
    page.wait("document.body.dataset.ready")
    assert page.ask(f"{EDITOR}.value") == text
    assert page.ask("document.body.dataset.state") is None
    # 100 MB of zeros, compressed to a link of 130 kB.
    bomb = page.ask("""(async () => {
      const stream = new Blob([new Uint8Array(1e8)]).stream();
      const small = stream.pipeThrough(new CompressionStream('deflate-raw'));
      const octets = new Uint8Array(await new Response(small).arrayBuffer());
      return btoa(Array.from(octets, (octet) => String.fromCharCode(octet)).join(''));
    })()""")
    letters = bomb.replace("+", "-").replace("/", "_").replace("=", "")
    for said in (link[: len(link) // 2], f"{PAGE.as_uri()}#scenario=!!", "#scenario=" + letters):
        page.open(said if said.startswith("file") else PAGE.as_uri() + said)
        page.wait("document.body.dataset.ready")
        page.wait("document.querySelector('#problems').textContent.includes('cannot be read')")
        assert page.ask("document.body.dataset.state") is None


@needs_page
def test_the_page_fits_a_phone_and_the_keyboard_reaches_everything(page: browser.Browser) -> None:
    page.resize(390, 844)
    page.open(PAGE.as_uri())
    page.wait("document.body.dataset.ready")
    page.ask(f"{EDITOR}.focus()")
    page.ask(
        f"{EDITOR}.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter', ctrlKey: true }}))"
    )
    ran(page)
    assert page.ask("document.documentElement.scrollWidth") <= 390
    unnamed = page.ask("""[...document.querySelectorAll('button, input, select, textarea')]
      .filter((e) => e.tabIndex < 0 || !(e.textContent.trim() || e.labels?.length)).length""")
    assert unnamed == 0
