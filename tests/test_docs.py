"""The guide's commands and snippets run as they are written, and the reference is of today."""

from __future__ import annotations

import html
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from PIL import Image

import browser
from conftest import Command
from paceline import _paceline
from paceline.show.figure import saved
from paceline.study.claims import load as load_claims

ROOT = Path(__file__).parent.parent
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return load("generate")


@pytest.fixture(scope="module")
def sections() -> ModuleType:
    return load("sections")


def load(name: str) -> ModuleType:
    folder = str(ROOT / "docs")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def test_sections_are_those_of_their_sources(sections: ModuleType) -> None:
    mentions = sections.mentions()
    assert len(mentions) > 200
    assert not sections.unknown(mentions)


def test_a_section_that_its_source_has_not_is_found(sections: ModuleType, tmp_path: Path) -> None:
    code = tmp_path / "code.rs"
    code.write_text(
        "//! RACK (RFC 8985).\n"
        "/// RFC 5681 4.1, and what 7.4.2 does not (7.9.1);\n"
        "/// section 3.1 of RFC 3465, and section 7.2.\n"
        "fn probe() {}\n"
    )
    mentions = sections.in_file(code)
    assert {(m.source, m.number, m.item) for m in mentions} == {
        ("RFC 5681", "4.1", "probe"),
        ("RFC 8985", "7.9.1", "probe"),
        ("RFC 3465", "3.1", "probe"),
        ("RFC 8985", "7.2", "probe"),
    }
    assert [m.number for m in sections.unknown(mentions)] == ["7.9.1"]


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_snippets_run(page: Path, cli: Command, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    for kind, text in BLOCK.findall(page.read_text()):
        if kind == "toml":
            name = re.match(r"# (\S+\.toml)\n", text)
            assert name is not None, f"{page.name}: a TOML block has no name"
            (tmp_path / name.group(1)).write_text(text)
        elif kind == "python":
            exec(compile(text, page.name, "exec"), {})
        elif kind == "sh":
            for line in text.splitlines():
                command, *arguments = shlex.split(line, comments=True)
                assert command == "paceline", line
                result = cli(*arguments)
                assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"


@pytest.mark.skipif("PACELINE_FULL" not in os.environ, reason="half a minute; in make ci-full")
def test_what_a_stock_kernel_lacks_is_derived_within_two_packets() -> None:
    paths = load("derived").measure()["paths"].inputs
    assert paths["rs.txif"].count == 41252
    assert paths["rs.txif"].most <= 2
    assert paths["rs.lost"].equal == paths["rs.lost"].count


def test_reference_is_of_today(generate: ModuleType) -> None:
    for page, write in generate.PAGES.items():
        assert (ROOT / page).read_text() == write(), f"{page} is stale: make reference"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a dead link fails the build."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    result = subprocess.run(
        [*build, "--config-file", ROOT / "mkdocs.yml", "--site-dir", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_a_menu_shows_every_page_of_the_site(site: Path) -> None:
    assert (site / "index.html").is_file()
    pages = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    nav = (ROOT / "mkdocs.yml").read_text()
    assert not [page for page in pages if f"- {page}\n" not in nav], "pages that no menu shows"
    first = nav[nav.index("nav:") : nav.index("- Guides:")]
    assert first.count(".md\n") <= 10


def test_generated_pages_come_last_in_a_search(site: Path) -> None:
    text = (site / "search" / "index.js").read_text("utf-8")
    index = json.loads(text.removeprefix("const INDEX = ").rstrip(";\n"))
    weights = {each["location"].partition("#")[0]: each["weight"] for each in index}
    assert weights["guide/fit.html"] == 1.0
    generated = {page.stem for page in (ROOT / "docs" / "reference").glob("*.md")}
    assert generated
    assert all(weights[f"reference/{name}.html"] < 0.1 for name in generated)
    assert weights["stacks.html"] < 0.1
    assert "weight *" in (site / "find.js").read_text()
    words = ("slow", "upload")
    titles = [each["location"] for each in index if all(w in each["title"].lower() for w in words)]
    assert titles[0].startswith("guide/advise.html")


@pytest.mark.skipif(browser.executable() is None, reason="needs Chromium")
def test_code_is_highlighted_and_copied(site: Path, tmp_path: Path) -> None:
    page = browser.Browser(tmp_path / "profile")
    try:
        page.open((site / "index.html").as_uri())
        page.wait("document.querySelectorAll('.codehilite button').length > 2")
        assert page.evaluate("document.querySelectorAll('.codehilite').length") == page.evaluate(
            "document.querySelectorAll('.codehilite button').length"
        )
        page.evaluate(
            "Object.defineProperty(navigator, 'clipboard', { value: "
            "{ writeText: async (text) => { window.taken = text; } } })"
        )
        page.evaluate("document.querySelector('.codehilite button').click()")
        page.wait("window.taken !== undefined")
        taken = page.evaluate("window.taken")
        assert taken.startswith("paceline run single/bbr3-100M-40ms-1bdp")
        assert taken.splitlines()[-1] == "paceline conformance runs/mine  # exit code 3"
        assert "BROKEN" not in taken
        page.open((site / "guide" / "sweeps.html").as_uri())
        page.wait("document.querySelectorAll('.codehilite button').length > 2")
        kinds = "[...document.querySelectorAll('.codehilite span')].map((span) => span.className)"
        assert {"n", "kn", "s2", "c1"} <= {*page.evaluate(kinds)}
        assert page.errors == []
        if AXE.exists():
            assert page.axe(AXE) == []
    finally:
        page.close()


def test_the_first_page_has_the_cards_of_the_readme() -> None:
    index, readme = ((ROOT / name).read_text() for name in ("docs/index.md", "README.md"))
    cards = readme[readme.index("## Is my BBR right?") : readme.index("## Next steps")]
    assert cards.replace("](docs/", "](") in index


@pytest.mark.skipif(browser.executable() is None, reason="needs Chromium")
def test_the_search_finds_sections_in_pages_opened_as_files(site: Path, tmp_path: Path) -> None:
    page = browser.Browser(tmp_path / "profile")
    try:
        page.open((site / "guide" / "first-run.html").as_uri())
        page.wait("document.readyState === 'complete'")
        page.evaluate(
            "{ const box = document.getElementById('find'); box.value = 'packet probe RACK-TLP';"
            " box.dispatchEvent(new Event('input')); }"
        )
        links = page.evaluate("[...document.querySelectorAll('#found a')].map((a) => a.href)")
        assert links
        for link in links:
            assert Path(unquote(urlsplit(link).path)).is_file()
        for words, first in (
            ("slow upload", "guide/advise.html"),
            ("CSV", "guide/sweeps.html"),
            ("notebook", "guide/sweeps.html"),
        ):
            page.evaluate(
                f"{{ const box = document.getElementById('find'); box.value = '{words}';"
                " box.dispatchEvent(new Event('input')); }"
            )
            target = page.evaluate("document.querySelector('#found a').getAttribute('href')")
            assert target.partition("#")[0].endswith(first), words
        if AXE.exists():
            assert page.axe(AXE) == []
        assert page.errors == []
    finally:
        page.close()


def test_the_readme_prints_what_its_commands_print(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line of a ``console`` block is printed by the command above it; ``...`` skips some."""
    monkeypatch.setenv("COLUMNS", "100")
    readme = (ROOT / "README.md").read_text().replace("\\\n", "")
    blocks = [text for kind, text in BLOCK.findall(readme) if kind == "console"]
    assert len(blocks) == 4
    # A transfer of CUBIC, as a capture.
    path = ("--set", "path.rate=20 Mbit/s", "--set", "path.loss=0.05 %")
    length = ("--set", "run.duration=20 s", "--set", "run.record.packets=true")
    cli("run", "single/cubic-100M-40ms-1bdp", *path, *length, "--out", "sent")
    assert cli("export", "sent", "--format", "pcapng", "--out", "home.pcapng").returncode == 0
    for entry in "".join(blocks).removeprefix("$ ").split("\n$ "):
        line, *shown = entry.splitlines()
        command, *arguments = shlex.split(line, comments=True)
        assert command == "paceline", line
        result = cli(*arguments)
        (expected,) = re.findall(r"# exit code (\d+)", line) or ["0"]
        assert result.returncode == int(expected), f"{line}\n{result.stdout}{result.stderr}"
        printed = iter([" ".join(text.split()) for text in result.stdout.splitlines()])
        for text in shown:
            assert text == "..." or " ".join(text.split()) in printed, f"{line}: {text}"


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 700


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in LINK.findall((ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target


def test_the_page_of_stacks_is_of_the_stacks_of_today() -> None:
    page = (ROOT / "docs" / "stacks.md").read_text()
    for name, controllers, version, _ in _paceline.stacks():
        assert f"| {name} | {version} |" in page, "make stacks"
        for controller in controllers:
            assert f"`{name}:{controller}`" in page, "make stacks"


def test_each_bbr_of_a_stack_is_beside_the_reference() -> None:
    folder = ROOT / "docs" / "stacks"
    page = (folder / "reference.md").read_text()
    for name, controllers, version, _ in _paceline.stacks():
        assert version in page, "make stacks-reference"
        for controller in controllers:
            if "bbr" in controller:
                assert f"## {name}:{controller}\n" in page, "make stacks-reference"
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", page):
        assert (folder / picture).is_file()


def test_pictures_are_small() -> None:
    small = load("small")
    pictures = [path for end in ("png", "svg") for path in (ROOT / "docs").rglob(f"*.{end}")]
    assert len(pictures) > 20
    for path in pictures:
        octets = path.read_bytes()
        again = small.png(octets) if path.suffix == ".png" else small.svg(octets.decode()).encode()
        assert again == octets, f"python docs/small.py {path}"


def test_the_picture_of_readme_is_whole_and_of_today() -> None:
    figure = load("pictures").readme()
    drawn = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_ylabel() for ax in drawn] == [
        "Throughput (Mbit/s)",
        "RTT (ms)",
        "Backlog (kB)",
        "Window (kB)",
        "Delay (ms)",
    ]
    assert drawn[3].get_xlabel() == "Time (s)"
    assert all(tick.get_text() for tick in drawn[3].get_xticklabels())
    small = load("small")
    shown = (ROOT / "docs" / "four-flows.png").read_bytes(), small.png(saved(figure, "png"))
    committed, again = (np.asarray(Image.open(BytesIO(png)).convert("RGB"), float) for png in shown)
    assert committed.shape == again.shape, "make pictures"
    # Another version of a library moves a letter; another picture differs everywhere.
    assert np.abs(committed - again).mean() < 2, "make pictures"
    assert np.abs(committed - again[::-1]).mean() > 10


def test_small_keeps_what_is_drawn() -> None:
    """A line's points are relative, in tenths; a name and a style are kept where they are used."""
    drawn = """<svg><defs><style type="text/css">*{a: b}</style></defs><!-- 0 -->
<g id="unused"><path id="m1" d="M 0 0
L 1.26 3.5
L -2 3.04
z
" style="fill: none"/></g><use href="#m1" x="4.96" y="-0.01"/></svg>"""
    assert load("small").svg(drawn) == (
        "<svg>\n<defs>\n<style>*{a: b}.s0{fill: none}</style>\n</defs>\n"
        '<path id="_0" d="M0 0l1.3 3.5-3.3-0.5z" class="s0"/><use href="#_0" x="5" y="0"/>\n'
        "</svg>\n"
    )


def test_the_page_of_claims_or_of_a_question_shows_each_picture() -> None:
    pictures = load("pictures")
    page = (ROOT / "docs" / "claims.md").read_text()
    questions = [path.read_text() for path in (ROOT / "docs" / "questions").glob("*.md")]
    known = {claim.id: claim for claim in load_claims(ROOT / "data" / "claims")}
    verdict = "reproduced under a stated assumption" if known["B1"].choice else "reproduced"
    drawn, table = page.split("```\n")[1], page.split("\n| B1 |")[1].splitlines()[0]
    assert " ".join(line[73:] for line in drawn.splitlines()[1:]) == verdict
    assert table.endswith(f"| {verdict} |")
    for name, panels in pictures.SHEETS.items():
        assert any(f"claims/{name}.svg)" in text for text in (page, *questions))
        svg = (ROOT / "docs" / "claims" / f"{name}.svg").read_text()
        texts = {html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)}
        for panel in panels:
            assert {panel.xlabel, panel.ylabel} <= texts, "make claims-pictures"
            needed = panel.with_queries(known[panel.claim])
            named = {case for each in needed.expressions() for case in each.names()}
            named |= {place.case for picture in needed.pictures for place in picture.cases}
            assert named
            assert named == set(needed.cases)
            for axis in (axis for case in needed.cases.values() for axis in case.sweep):
                assert axis.points, f"{name}: {panel.title}: {axis.name}"
