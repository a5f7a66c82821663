"""The pages beside the report, in a browser: several runs together, claims, an evaluation."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import browser
from conftest import SCENARIO

pytestmark = pytest.mark.skipif(browser.executable() is None, reason="needs Chromium")

AXE = Path(__file__).parent.parent / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return each page, made by its command."""
    from paceline.cli import main

    place = tmp_path_factory.mktemp("pages")
    (place / "two.toml").write_text(SCENARIO)
    repeats = str(place / "repeats")
    for arguments in (
        ("run", str(place / "two.toml"), "--repeats", "3", "--out", repeats, "--quiet"),
        ("report", repeats, "--out", str(place / "joint.html")),
        ("claims", "A1", "B1", "--quick", "--quiet", "--out", str(place / "claims")),
        ("evaluate", "reno", "--quick", "--quiet", "--out", str(place / "evaluation")),
    ):
        assert main(arguments) in (0, 3), arguments
    names = {"joint": "joint.html", "claims": "claims/claims.html"}
    names["evaluation"] = "evaluation/evaluation.html"
    places = {page: place / name for page, name in names.items()}
    assert all(path.is_file() for path in places.values())
    return places


@pytest.fixture(params=["joint", "claims", "evaluation"])
def shown(
    request: pytest.FixtureRequest, pages: dict[str, Path], tmp_path: Path
) -> Iterator[browser.Browser]:
    page = browser.Browser(tmp_path / "profile")
    page.open(pages[request.param].as_uri())
    page.wait("document.readyState === 'complete'")
    yield page
    page.close()
    shutil.rmtree(tmp_path / "profile", ignore_errors=True)
    assert page.errors == []


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_and_axe_finds_nothing(shown: browser.Browser, width: int, scheme: str) -> None:
    shown.prefer(scheme)
    shown.resize(width, 900)
    shown.wait(f"document.documentElement.scrollWidth <= {width}")
    if AXE.exists():
        assert shown.axe(AXE) == []
    assert shown.evaluate("document.querySelector('h1').innerText.length") > 0
    assert shown.evaluate(
        "[...document.images].every((image) => image.complete && image.naturalWidth)"
    )
    if "claims" in shown.evaluate("location.href"):
        # Pictures of claims are not cut: they are as wide as the page at most.
        most = shown.evaluate("Math.max(...[...document.images].map((image) => image.offsetWidth))")
        assert most <= shown.evaluate("document.querySelector('main').clientWidth")
