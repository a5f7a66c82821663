"""``paceline playground``: the page in a wheel, that of a checkout, and neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Command
from paceline.cli.verbs import playground


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    package = tmp_path / "python" / "paceline"
    (package / "web").mkdir(parents=True)
    addresses: list[str] = []
    monkeypatch.setattr(playground, "_PACKAGE", package)
    monkeypatch.setattr("webbrowser.open", addresses.append)
    return addresses


def test_the_page_of_the_package_is_opened_first(
    cli: Command, opened: list[str], tmp_path: Path
) -> None:
    built = tmp_path / "target" / "playground" / "index.html"
    built.parent.mkdir(parents=True)
    built.write_text("built")
    assert cli("playground").stdout == f"{built}\n"
    shipped = tmp_path / "python" / "paceline" / "web" / "playground.html"
    shipped.write_text("shipped")
    assert cli("playground").stdout == f"{shipped}\n"
    assert opened == [built.as_uri(), shipped.as_uri()]
    assert cli("playground", "--no-browser").stdout == f"{shipped}\n"
    assert len(opened) == 2


def test_without_the_page_it_says_what_to_install(cli: Command, opened: list[str]) -> None:
    result = cli("playground")
    assert (result.returncode, result.stdout, opened) == (127, "", [])
    assert "`rustup target add wasm32-unknown-unknown`" in result.stderr
    assert "`make playground`" in result.stderr


def test_wheels_hold_the_page_where_the_command_looks_for_it() -> None:
    root = Path(__file__).parents[1]
    steps = (root / ".github" / "workflows" / "wheels.yml").read_text()
    place = "python/paceline/web"
    assert f"name: playground\n          path: {place}\n" in steps
    assert steps.index("make playground") < steps.index("maturin build")
    assert f"/{place}/playground.html" in (root / ".gitignore").read_text()
    assert f'path = "{place}/**/*"' in (root / "pyproject.toml").read_text()
