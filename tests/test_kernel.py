"""BBRv3 for a stock kernel: the algorithm in C against the golden traces."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

ROOT = Path(__file__).parent.parent
TRACES = sorted((ROOT / "conformance" / "linux-bbr" / "v3").glob("*.txt.zst"))
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-function")


def compiled(source: Path, program: Path) -> Path:
    """Compiles the replay of golden traces."""
    undefined = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    files = ("-o", str(program), str(source / "replay.c"))
    subprocess.run(["cc", "-std=c11", "-O1", *WARNINGS, *undefined, *files], check=True)
    return program


def replayed(program: Path, trace: bytes) -> list[bytes]:
    """A trace with the states that the algorithm in C has."""
    return subprocess.run([program], input=trace, capture_output=True, check=True).stdout.split(
        b"\n"
    )


def text_of(trace: Path) -> bytes:
    """A trace, decompressed."""
    with pa.input_stream(trace, compression="zstd") as stream:
        return bytes(stream.read())


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(ROOT / "kernel", tmp_path_factory.mktemp("kernel") / "replay")


def test_there_are_traces() -> None:
    assert len(TRACES) == 17


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name.removesuffix(".txt.zst"))
def test_every_state_of_a_trace_is_equal(replay: Path, trace: Path) -> None:
    text = text_of(trace)
    for line, (expected, got) in enumerate(
        zip(text.split(b"\n"), replayed(replay, text), strict=True), 1
    ):
        assert got == expected, f"line {line} differs"


@pytest.mark.parametrize(
    ("file", "number", "other"),
    [
        ("options.h", "beta, GAIN, 0, 255, 76", "beta, GAIN, 0, 255, 77"),
        (
            "probe_bw.h",
            "least(b->bw_probe_up_rounds + 1, 30)",
            "least(b->bw_probe_up_rounds + 1, 2)",
        ),
        ("startup.h", "full_bw_count >= options", "full_bw_count > options"),
    ],
)
def test_another_number_is_seen(tmp_path: Path, file: str, number: str, other: str) -> None:
    kernel = tmp_path / "kernel"
    shutil.copytree(ROOT / "kernel", kernel)
    header = kernel / "bbr3" / file
    text = header.read_text()
    assert number in text
    header.write_text(text.replace(number, other))
    program = compiled(kernel, tmp_path / "replay")
    assert any(replayed(program, text) != text.split(b"\n") for text in map(text_of, TRACES))
