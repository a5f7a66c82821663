"""What recovery tells controllers, by scenarios that the sources' text decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Command

SCENARIOS = Path(__file__).parent.parent / "scenarios"
FILES = (
    "recovery/without-sack.toml",
    "recovery/after-idle.toml",
    "data-centre/receivers-take-300us.toml",
)


@pytest.mark.parametrize("name", FILES)
def test_expectations_hold(name: str, cli: Command) -> None:
    result = cli("run", str(SCENARIOS / name), "--json")
    assert '"held"' in result.stdout
    assert result.returncode == 0, result.stdout
