"""Which crate may use which, where `unsafe` is, and the oldest Rust that builds them."""

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
WORKSPACES = (ROOT, ROOT / "crates" / "s2n")


@pytest.fixture(scope="module", params=WORKSPACES, ids=lambda folder: folder.name)
def workspace(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture(scope="module")
def packages(workspace: Path) -> list[dict[str, Any]]:
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    result = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=True)
    entries: list[dict[str, Any]] = json.loads(result.stdout)["packages"]
    return entries


#: The crates from the ground up: each may use those below its layer, so engines do not use each
#: other; what those of Linux share is in `tcp`.
LAYERS = (
    ("units", "derive"),
    ("congestion", "path", "scenario", "record", "endpoint"),
    ("recovery", "adapter"),
    ("conformance", "capture", "quinn", "noq"),
    ("quic",),
    ("experiment", "perf", "capi"),
    ("tcp",),
    ("simulator", "emulator", "vm", "plugin"),
    ("python", "soak", "wasm"),
)
#: Lower crates that a crate still may not use.
NEVER = {
    "wasm": {"tcp", "emulator", "vm"},
    "capi": {"record", "scenario", "quic"},
}
#: What the crates that others use need from elsewhere: a public type can come from nowhere else.
FOREIGN: dict[str, set[str]] = {
    "units": {"duplicate", "libm", "schemars", "serde", "serde_json"},
    "congestion": set(),
    "endpoint": {"quinn-udp", "rustix"},
    "recovery": set(),
    "path": {"thiserror"},
    "adapter": set(),
    "quinn": {"quinn", "quinn-proto"},
    "noq": {"noq-proto"},
}
#: Crates with system calls, or functions that C or a web page calls.
UNSAFE = {"capi", "emulator", "plugin", "wasm"}


@pytest.fixture(scope="module")
def crates() -> dict[str, dict[str, Any]]:
    """The crates of the workspace by name; the examples are outside these rules."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--no-deps"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    packages: list[dict[str, Any]] = json.loads(result.stdout)["packages"]
    return {
        package["name"].removeprefix("paceline-"): package
        for package in packages
        if package["name"].startswith("paceline-")
    }


def used(crate: dict[str, Any]) -> set[str]:
    """Return what a crate depends on, tests aside."""
    return {need["name"] for need in crate["dependencies"] if need["kind"] != "dev"}


def test_crates_use_only_lower_ones(crates: dict[str, dict[str, Any]]) -> None:
    height = {name: nth for nth, layer in enumerate(LAYERS) for name in layer}
    assert height.keys() == crates.keys()
    upward = [
        f"{name} uses {other}"
        for name, crate in crates.items()
        for other in height
        if f"paceline-{other}" in used(crate)
        and (height[other] >= height[name] or other in NEVER.get(name, set()))
    ]
    assert upward == []


def test_public_types_come_from_allowed_crates(crates: dict[str, dict[str, Any]]) -> None:
    for name, allowed in FOREIGN.items():
        foreign = {need for need in used(crates[name]) if not need.startswith("paceline-")}
        assert foreign == allowed, name


def test_unsafe_code_is_where_it_may_be_and_says_why(crates: dict[str, dict[str, Any]]) -> None:
    lints = {
        name: tomllib.loads(Path(crate["manifest_path"]).read_text())["lints"]
        for name, crate in crates.items()
    }
    own = {name: levels for name, levels in lints.items() if levels != {"workspace": True}}
    assert own.keys() == UNSAFE
    assert all(levels["clippy"]["undocumented_unsafe_blocks"] == "deny" for levels in own.values())
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    assert workspace["lints"]["rust"]["unsafe_code"] == "forbid"
    # The guest of `vm` is a program of its own, outside the workspace's lints.
    for file in (ROOT / "linux" / "vm" / "guest").glob("*.rs"):
        lines = file.read_text().splitlines()
        for nth, line in enumerate(lines):
            if "unsafe {" in line.partition("//")[0]:
                assert file.name in ("sys.rs", "load.rs"), line
                assert any("// SAFETY:" in before for before in lines[max(0, nth - 5) : nth]), line


LOCKS = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "*Cargo.lock"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.skipif(not LOCKS, reason="not a git repository")
def test_every_lock_file_is_kept_up_to_date() -> None:
    updates = (ROOT / ".github" / "dependabot.yml").read_text()
    for lock in LOCKS:
        folder = lock.parent.relative_to(ROOT).as_posix()
        assert f"      - /{'' if folder == '.' else folder}\n" in updates, lock
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
