"""The playground: its lessons natively, and the built page in a browser where there is one."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import socket
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import browser
import paceline
from conftest import Command
from paceline import shipped

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "target" / "playground" / "index.html"
BUILT = ROOT / "target" / "playground-build" / "wasm32-unknown-unknown" / "release"
WASM = BUILT / "paceline_wasm.wasm"
LESSONS = [{"scenario": name} | lesson for name, lesson in shipped.lessons().items()]

needs_page = pytest.mark.skipif(
    not PAGE.exists() or browser.executable() is None,
    reason="needs Chromium and the page that `make playground` builds",
)
needs_node = pytest.mark.skipif(
    not WASM.exists() or shutil.which("node") is None,
    reason="needs Node.js and the simulator that `make playground` builds",
)


def texts(lesson: dict[str, Any]) -> tuple[str, str]:
    """Return a lesson's scenario before and after its change."""
    text = (ROOT / "data" / "scenarios" / "lessons" / f"{lesson['scenario']}.toml").read_text(
        "utf-8"
    )
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


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson["scenario"] for lesson in LESSONS])
def test_the_options_of_a_lesson_make_its_change(lesson: dict[str, Any]) -> None:
    before, after = texts(lesson)
    overrides = dict(one.split("=", 1) for one in lesson["set"])
    assert paceline.check(before, overrides=overrides) == paceline.check(after)


def test_a_lesson_run_on_the_command_line_says_what_to_change_and_to_compare(
    cli: Command,
) -> None:
    output = cli("run", "lessons/4-startup").stderr
    assert "Change: Set the gain to 1.5." in output
    assert "--set flows.0.cc.startup_pacing_gain=1.5\n" in output
    assert "Question: What does a smaller gain cost? Nothing / Time until" in output
    assert "Compare: full rate, here 840.0 ms" in output
    assert "Compare: goodput of flow 0, here " in cli("run", "lessons/7-with-cubic").stderr
    listed = cli("list", "scenarios", "lessons/7-with-cubic").stdout
    assert """--set 'path.queue.size="8 bdp"'""" in listed
    assert "Question" not in cli("run", "lessons/4-startup", "--quiet").stderr


def test_there_are_eleven_lessons_and_each_scenario_is_in_one() -> None:
    files = {path.stem for path in (ROOT / "data" / "scenarios" / "lessons").glob("*.toml")}
    assert sorted(files) == sorted(lesson["scenario"] for lesson in LESSONS)
    assert len(LESSONS) == 11


@needs_node
def test_wasm_gives_what_the_native_simulator_gives() -> None:
    path = ROOT / "web" / "playground" / "native.py"
    spec = importlib.util.spec_from_file_location("native", path)
    assert spec is not None
    assert spec.loader is not None
    native = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(native)
    files = sorted((ROOT / "data" / "scenarios" / "lessons").glob("*.toml"))
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
    page.evaluate(f"document.querySelector({selector!r}).click()")


def ran(page: browser.Browser) -> None:
    page.wait("document.body.dataset.state === 'done'")


EDITOR = "document.querySelector('#toml')"


def type_in(page: browser.Browser, text: str) -> None:
    page.evaluate(f"{EDITOR}.value = {text!r}; {EDITOR}.dispatchEvent(new Event('input'))")


@needs_page
def test_each_lesson_runs_in_the_page_with_the_native_numbers(page: browser.Browser) -> None:
    for nth, lesson in enumerate(LESSONS):
        click(page, f"#lessons li:nth-child({nth + 1}) button")
        for step, text in ((1, texts(lesson)[0]), (3, texts(lesson)[1])):
            page.evaluate("document.body.dataset.state = ''")
            click(page, f"#lesson li:nth-child({step}) button")
            ran(page)
            assert page.evaluate("document.body.dataset.digest") == paceline.run(text).digest
            assert page.evaluate("document.body.dataset.native") == "equal"
        click(page, f"#lesson li:nth-child(2) button:nth-of-type({lesson['right'] + 1})")
        status = page.evaluate("document.querySelector('#lesson [role=status]').textContent")
        assert status.startswith("Right."), status
        # The picture compares with the previous run.
        assert "previous run" in page.evaluate("document.querySelector('#numbers').textContent")
        assert page.evaluate("document.querySelectorAll('#plots canvas').length") == 4


@needs_page
def test_sliders_and_text_follow_each_other(page: browser.Browser) -> None:
    page.evaluate("""(() => {
      const rate = document.querySelector('#slide-rate');
      rate.value = 6;
      rate.dispatchEvent(new Event('input'));
    })()""")
    assert 'rate = "100 Mbit/s"' in page.evaluate(f"{EDITOR}.value")
    type_in(page, page.evaluate(f"{EDITOR}.value").replace('"100 Mbit/s"', '"500 kbit/s"'))
    assert page.evaluate("document.querySelector('#value-rate').textContent") == "0.5 Mbit/s"
    page.evaluate("""(() => {
      const loss = document.querySelector('#slide-loss');
      loss.value = 4;
      loss.dispatchEvent(new Event('input'));
      const choice = document.querySelector('#controllers select');
      choice.value = 'cubic';
      choice.dispatchEvent(new Event('change'));
    })()""")
    text = page.evaluate(f"{EDITOR}.value")
    assert 'loss = "1 %"' in text
    assert 'cc = "cubic"' in text
    paceline.check(text)


@needs_page
def test_the_editor_completes_keys_and_words(page: browser.Browser) -> None:
    def options(text: str) -> list[str]:
        page.evaluate(f"{EDITOR}.value = {text!r}; {EDITOR}.focus()")
        page.evaluate(f"{EDITOR}.setSelectionRange({len(text)}, {len(text)})")
        page.evaluate(f"{EDITOR}.dispatchEvent(new Event('input'))")
        completions: list[str] = page.evaluate(
            "[...document.querySelectorAll('#completions li b')].map((e) => e.textContent)"
        )
        return completions

    assert options("[pa") == ["path"]
    assert options("[run.rec") == ["record"]
    assert options("[path]\nrt") == ["rtt"]
    assert options("[path]\nqueue = { ki") == ["kind"]
    assert "codel" in options('[path]\nqueue = { kind = "c')
    assert options('[[flows]]\ncc = "bbr2') == []
    assert "bbr3-linux" in options('[[flows]]\ncc = "bbr3')
    assert "mine" in options('[[flows]]\ncc = { name = "m')
    assert options("# ra") == []
    # Down, Enter.
    first, second, *_ = options("[path]\nr")
    assert first != second
    for key in ("ArrowDown", "Enter"):
        page.evaluate(f"{EDITOR}.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}' }}))")
    assert page.evaluate(f"{EDITOR}.value") == f"[path]\n{second}"
    assert page.evaluate("document.querySelector('#completions').hidden")


AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"


@needs_page
@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: npm --prefix web ci")
@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_nothing(page: browser.Browser, width: int) -> None:
    page.resize(width, 900)
    page.open(PAGE.as_uri())
    page.wait("document.body.dataset.ready")
    page.evaluate("document.querySelector('#code').open = true")
    click(page, "#run")
    ran(page)
    assert page.axe(AXE) == []


@needs_page
def test_a_problem_is_shown_with_its_line_and_the_page_stays_alive(page: browser.Browser) -> None:
    good = page.evaluate(f"{EDITOR}.value")
    type_in(page, good.replace('cc = "bbr3"', 'cc = "bbr9"'))
    page.wait("document.body.dataset.problems === '1'")
    problems = page.evaluate("document.querySelector('#problems').textContent")
    assert problems.startswith("line "), problems
    assert "bbr9" in problems
    click(page, "#problems button")
    assert "bbr9" in page.evaluate("getSelection().toString()")
    # Too large for a page: said before anything runs.
    type_in(page, good.replace('"5 s"', '"40000 min"'))
    page.wait("document.querySelector('#problems').textContent.includes('a page may take 500 MB')")
    click(page, "#run")
    page.wait("document.body.dataset.state === 'failed'")
    # A run that takes long ends on request.
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
    text = page.evaluate(f"{EDITOR}.value") + "# mine: <b>é</b>\n"
    type_in(page, text)
    click(page, "#share")
    page.wait("location.hash.startsWith('#scenario=')")
    link = page.evaluate("location.href")
    page.open(link)
    page.wait("document.body.dataset.ready")
    assert page.evaluate(f"{EDITOR}.value") == text
    assert page.evaluate("document.body.dataset.state") is None
    # 100 MB of zeros, compressed to a link of 130 kB.
    bomb = page.evaluate("""(async () => {
      const stream = new Blob([new Uint8Array(1e8)]).stream();
      const small = stream.pipeThrough(new CompressionStream('deflate-raw'));
      const octets = new Uint8Array(await new Response(small).arrayBuffer());
      return btoa(Array.from(octets, (octet) => String.fromCharCode(octet)).join(''));
    })()""")
    letters = bomb.replace("+", "-").replace("/", "_").replace("=", "")
    for address in (link[: len(link) // 2], f"{PAGE.as_uri()}#scenario=!!", "#scenario=" + letters):
        page.open(address if address.startswith("file") else PAGE.as_uri() + address)
        page.wait("document.body.dataset.ready")
        page.wait("document.querySelector('#problems').textContent.includes('cannot be read')")
        assert page.evaluate("document.body.dataset.state") is None


@needs_page
def test_the_page_fits_a_phone_and_the_keyboard_reaches_everything(page: browser.Browser) -> None:
    page.resize(390, 844)
    page.open(PAGE.as_uri())
    page.wait("document.body.dataset.ready")
    page.evaluate(f"{EDITOR}.focus()")
    page.evaluate(
        f"{EDITOR}.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter', ctrlKey: true }}))"
    )
    ran(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    unnamed = page.evaluate("""[...document.querySelectorAll('button, input, select, textarea')]
      .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).length""")
    assert unnamed == 0


TWO = """
schema = 1
[run]
duration = "10 s"
[path]
rate = "20 Mbit/s"
rtt = "40 ms"
queue = { kind = "droptail", size = "1 bdp" }
[[flows]]
cc = { name = "mine", beta = 0.7 }
[[flows]]
cc = "bbr3"
"""


class Mine(paceline.Controller):
    """The playground's template."""

    phases = ("slow_start", "avoidance")

    def __init__(self, config: paceline.Config, beta: float = 0.5) -> None:
        self.mss = config.mss_bytes
        self.beta = beta
        self.phase = "slow_start"

    def on_ack(self, ack: paceline.Ack) -> None:
        if not ack.cwnd_limited or ack.ca_state != "Open":
            return
        if self.phase == "slow_start":
            self.cwnd_bytes += ack.newly_acked_bytes
        else:
            self.cwnd_bytes += (ack.newly_acked_bytes * self.mss) / self.cwnd_bytes
        if ack.srtt_ns:
            self.pacing_bps = (1.2 * 8e9 * self.cwnd_bytes) / ack.srtt_ns

    def on_recovery_enter(self, now_ns: int, in_flight_bytes: int) -> None:
        self.phase = "avoidance"
        self.cwnd_bytes = max(self.beta * self.cwnd_bytes, 2 * self.mss)

    def on_timeout(self, now_ns: int, in_flight_bytes: int) -> None:
        self.cwnd_bytes = self.mss

    def state(self) -> dict[str, float | None]:
        return {"half_bytes": self.cwnd_bytes / 2}


OWN = "document.querySelector('#own')"


def run_own(page: browser.Browser, code: str) -> str:
    """Run a controller of the page and return the page's problems."""
    code = textwrap.dedent(code).strip()
    page.evaluate(f"{OWN}.value = {json.dumps(code)}; document.body.dataset.state = ''")
    click(page, "#run")
    page.wait("['done', 'failed'].includes(document.body.dataset.state)")
    return str(page.evaluate("document.querySelector('#problems').textContent"))


@needs_page
def test_a_controller_in_javascript_decides_as_the_same_one_in_python(
    page: browser.Browser,
) -> None:
    type_in(page, TWO)
    assert run_own(page, page.evaluate(f"{OWN}.value")) == ""
    native = paceline.run(TWO, controllers={"mine": Mine})
    assert page.evaluate("document.body.dataset.digest") == native.digest


@needs_page
def test_what_is_wrong_with_a_controller_is_said_with_its_line(page: browser.Browser) -> None:
    type_in(page, TWO)
    for code, message in (
        (
            """
            export default class {
              on_ack(ack) {
                this.estimate();
              }
            }""",
            "this.estimate is not a function (line 3 of the controller)",
        ),
        ("export default class { on_ack() { this.cwnd_bytes = '1'; } }", 'cwnd_bytes is "1"'),
        ("export default class { on_ack() { this.cwnd_bytes = -1; } }", "cwnd_bytes to -1"),
        ("export default class { on_ack() { Math.random(); } }", "Math.random() makes runs differ"),
        ("export default class { on_ack( }", "the controller cannot be loaded: SyntaxError"),
        ("export const beta = 0.5;", "export default class"),
    ):
        assert message in run_own(page, code), code
    # One that loops is stopped, and the page is as before.
    page.evaluate(f"{OWN}.value = 'export default class {{ on_ack() {{ for (;;); }} }}'")
    click(page, "#run")
    page.wait("!document.querySelector('#stop').hidden")
    click(page, "#stop")
    page.wait("document.body.dataset.state === 'stopped'")
    assert run_own(page, "export default class {}") == ""


@needs_page
def test_a_controller_reaches_no_network(page: browser.Browser) -> None:
    type_in(page, TWO)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(1)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        code = f"""
            fetch("http://{address}/").catch(() => undefined);
            try {{ new WebSocket("ws://{address}/"); }} catch {{}}
            try {{ importScripts("http://{address}/a.js"); }} catch {{}}
            import("http://{address}/b.js").catch(() => undefined);
            export default class {{}}"""
        assert run_own(page, code) == ""
        with pytest.raises(TimeoutError):
            server.accept()


@needs_page
def test_code_of_a_link_runs_only_when_asked(page: browser.Browser) -> None:
    type_in(page, TWO)
    page.evaluate(f"{OWN}.value = 'export default class {{ on_ack() {{ for (;;); }} }}'")
    click(page, "#share")
    page.wait("location.hash.includes('controller=')")
    link = page.evaluate("location.href")
    page.open(link)
    page.wait("document.body.dataset.ready")
    page.wait(f"{OWN}.value.includes('for (;;)')")
    # The worker answers, so the loop does not run: the check finds what is wrong.
    type_in(page, TWO.replace("20 Mbit/s", "20 Mbit"))
    page.wait("document.body.dataset.problems === '1'")
    assert page.evaluate("document.body.dataset.state") is None


@needs_page
def test_plots_fill_while_a_run_goes_on(page: browser.Browser) -> None:
    text, _ = texts(LESSONS[0])
    type_in(page, re.sub('duration = "[^"]*"', 'duration = "600 s"', text))
    page.evaluate("""(() => {
      window.seen = [];
      new MutationObserver(() => {
        const drawn = document.querySelectorAll('#plots canvas').length;
        if (document.body.dataset.state === 'running' && drawn) window.seen.push(drawn);
      }).observe(document.body, { attributes: true, attributeFilter: ['data-grown'] });
    })()""")
    click(page, "#run")
    ran(page)
    assert len(page.evaluate("window.seen")) >= 2
    assert set(page.evaluate("window.seen")) == {4}


@needs_page
def test_zooming_one_plot_zooms_all_and_is_part_of_the_link(page: browser.Browser) -> None:
    click(page, "#run")
    ran(page)
    page.evaluate("""(() => {
      const over = document.querySelectorAll('.u-over')[1];
      const { left, top, width } = over.getBoundingClientRect();
      const send = (target, type, part) => target.dispatchEvent(new MouseEvent(type, {
        bubbles: true, clientX: left + part * width, clientY: top + 9, movementX: 9 }));
      send(over, 'mousemove', 0.2);
      send(over, 'mousedown', 0.2);
      send(over, 'mousemove', 0.4);
      send(document, 'mouseup', 0.4);
    })()""")
    click(page, "#share")
    page.wait("location.hash.includes('zoom=')")
    low, high = page.evaluate("location.hash.split('zoom=')[1]").split("-")
    assert float(low) == pytest.approx(1, abs=0.02)
    assert float(high) == pytest.approx(2, abs=0.02)
