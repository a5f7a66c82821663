"""Licences of what is built in, and the oldest Rust that builds it."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


# The second needs a newer Rust than the first.
WORKSPACES = (ROOT, ROOT / "adapters" / "s2n")


@pytest.fixture(scope="module", params=WORKSPACES, ids=lambda folder: folder.name)
def workspace(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture(scope="module")
def packages(workspace: Path) -> list[dict[str, Any]]:
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    result = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(result.stdout)["packages"]
    return found


def allowed(licence: str, known: set[str]) -> bool:
    """Return whether an SPDX expression can be satisfied; `/` is an old way of writing OR."""
    tokens: list[str] = re.findall(r"\(|\)|[^\s()/]+|/", licence)
    place = 0

    def peek() -> str:
        return tokens[place] if place < len(tokens) else ""

    def take() -> str:
        nonlocal place
        place += 1
        return tokens[place - 1]

    def one() -> bool:
        if peek() == "(":
            take()
            inside = either()
            assert take() == ")", licence
            return inside
        name = take()
        if peek() == "WITH":
            name += f" {take()} {take()}"
        return name in known

    def both() -> bool:
        holds = one()
        while peek() == "AND":
            take()
            holds = one() and holds
        return holds

    def either() -> bool:
        holds = both()
        while peek() in ("OR", "/"):
            take()
            holds = both() or holds
        return holds

    holds = either()
    assert place == len(tokens), licence
    return holds


@pytest.mark.parametrize(
    ("licence", "holds"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("MIT OR GPL-3.0", True),
        ("MIT AND GPL-3.0", False),
        ("GPL-3.0/MIT", True),
        ("(GPL-3.0 OR MIT) AND Apache-2.0", True),
        ("(GPL-3.0 OR MIT) AND LGPL-2.1", False),
        ("Apache-2.0 WITH LLVM-exception", False),
        ("GPL-3.0 OR MIT AND Apache-2.0", True),
    ],
)
def test_licences_are_read(licence: str, holds: bool) -> None:
    assert allowed(licence, {"MIT", "Apache-2.0"}) is holds


def test_every_crate_has_a_licence_that_is_allowed(packages: list[dict[str, Any]]) -> None:
    licences = tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]
    known = set(licences["allow"])
    exceptions = {one["crate"]: known | set(one["allow"]) for one in licences["exceptions"]}
    assert len(packages) > 50
    wrong = [
        f"{package['name']} {package['version']}: {package['license']}"
        for package in packages
        if not (
            package["license"]
            and allowed(package["license"], exceptions.get(package["name"], known))
        )
    ]
    assert wrong == []


LOCKS = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "*Cargo.lock"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.skipif(not LOCKS, reason="not a git repository")
def test_every_lock_file_is_kept_up_to_date_and_has_no_banned_crate() -> None:
    updates = (ROOT / ".github" / "dependabot.yml").read_text()
    banned = {
        one["crate"] for one in tomllib.loads((ROOT / "deny.toml").read_text())["bans"]["deny"]
    }
    assert "atomic-polyfill" in banned
    for lock in LOCKS:
        folder = lock.parent.relative_to(ROOT).as_posix()
        assert f"      - /{'' if folder == '.' else folder}\n" in updates, lock
        names = {package["name"] for package in tomllib.loads(lock.read_text())["package"]}
        assert names.isdisjoint(banned), lock
    for ecosystem in ("pip", "npm", "github-actions"):
        assert f"package-ecosystem: {ecosystem}\n" in updates


def test_actions_are_pinned_by_commit() -> None:
    used = {
        (file.name, line.strip())
        for file in WORKFLOWS
        for line in file.read_text().splitlines()
        if "uses:" in line
    }
    assert len(used) >= 8
    pinned = re.compile(r"- uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [one for one in sorted(used) if not pinned.fullmatch(one[1])] == []


def test_a_workflow_checks_every_lock_file_with_cargo_deny() -> None:
    assert any("run: make deny\n" in file.read_text() for file in WORKFLOWS)


def test_no_crate_needs_a_newer_rust_than_is_stated(
    workspace: Path, packages: list[dict[str, Any]]
) -> None:
    def version(text: str) -> tuple[int, ...]:
        numbers = [int(part) for part in text.split(".")]
        return tuple(numbers + [0] * (3 - len(numbers)))

    manifest = tomllib.loads((workspace / "Cargo.toml").read_text())
    stated = manifest["workspace"]["package"]["rust-version"]
    newer = [
        f"{package['name']} needs {package['rust_version']}"
        for package in packages
        if package["rust_version"] and version(package["rust_version"]) > version(stated)
    ]
    assert newer == []
    # Said wherever it is said.
    files = ("README.md", "Makefile", "CONTRIBUTING.md") if workspace == ROOT else ("README.md",)
    for file in files:
        text = (workspace / file).read_text()
        assert set(re.findall(r"Rust (1\.\d+)", text)) == {stated}, file


def test_controllers_build_without_std() -> None:
    """`examples/bare` has a panic handler of its own, so that it cannot be linked with `std`."""
    example = ROOT / "examples" / "bare" / "Cargo.toml"
    command = ["cargo", "build", "--quiet", "--locked", "--manifest-path", str(example)]
    command += ["--target-dir", str(ROOT / "target" / "bare")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
