"""Files that others name: FIFOs, devices, and what is too large or no text."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import SCENARIO, Command, Result
from paceline import reading
from paceline.batch.ledger import Ledger, LedgerError, see_idle

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")

#: What is no regular file, by what it is made of; a path that is there already for a device.
ODD = ("fifo", "/dev/zero", "/dev/tty", "folder")


def odd(path: Path, kind: str) -> None:
    """Put something odd there."""
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(kind)


@pytest.fixture
def patient(cli: Command) -> Iterator[Command]:
    """Call a command; end this process if it waits for ever, which no exception could do."""

    def call(*arguments: object) -> Result:
        signal.alarm(60)
        return cli(*arguments)

    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    yield call
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ODD)
def test_no_command_waits_for_what_is_no_file(kind: str, tmp_path: Path, patient: Command) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO.replace('"2 s"', '"0.3 s"'))
    assert patient("run", "s.toml", "--out", "one").returncode == 0
    odd(tmp_path / "odd.toml", kind)
    odd(tmp_path / "odd.py", kind)
    odd(tmp_path / "odd.trace", kind)
    for folder in ("claims", "conformance", "scenarios"):
        (tmp_path / folder).mkdir()
        odd(tmp_path / folder / "odd.toml", kind)
    odd(tmp_path / "conformance" / "odd.steps.toml", kind)
    for name in ("run.json", "scenario.toml", "samples.parquet"):
        shutil.copytree("one", f"bad-{name}")
        odd(tmp_path / f"bad-{name}" / name, kind)
    calls = [
        (("run", "odd.toml"), 2),
        (("check", "odd.toml"), 2),
        (("run", "s.toml", "--set", "path.rate={ trace = 'odd.trace' }"), 2),
        (("import", "odd.py"), 2),
        (("sweep", "odd.toml"), 2),
        (("claims",), 2),
        (("conformance", "--cases", "conformance"), 2),
        (("list", "scenarios"), 0),
        (("report", "bad-run.json"), 2),
        (("report", "bad-scenario.toml"), 2),
        (("report", "bad-samples.parquet"), 2),
        (("compare", "bad-run.json", "one"), 2),
    ]
    for arguments, code in calls:
        result = patient(*arguments)
        assert result.returncode == code, (arguments, result)
        assert "Traceback" not in result.stderr
        if code and kind == "fifo":
            assert "regular file" in result.stderr, (arguments, result)


def test_a_file_that_is_too_large_names_the_limit(tmp_path: Path, cli: Command) -> None:
    big = tmp_path / "big.toml"
    with big.open("wb") as file:
        file.truncate(reading.TEXT + 1)
    for arguments in (
        ("run", "big.toml"),
        ("import", "big.toml"),
    ):
        result = cli(*arguments)
        assert result.returncode == 2
        assert "larger than 67,108,864 bytes" in result.stderr
    (tmp_path / "s.toml").write_text(SCENARIO)
    result = cli("check", "s.toml", "--set", "path.rate={ trace = 'big.toml' }")
    assert result.returncode == 2
    assert "larger than 67108864 bytes" in result.stderr


def test_a_text_is_read_as_python_would(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes("é\r\na\rb\n".encode())
    assert reading.read_text(path) == path.read_text(encoding="utf-8")
    with pytest.raises(OSError, match="larger than 3 bytes"):
        reading.read_bytes(path, 3)


@pytest.mark.parametrize(
    "text", ["a = 1" + "0" * 30, "a = [{ b = -9223372036854775809 }]", "a = " + "[" * 5000, "a ="]
)
def test_a_document_that_toml_has_not(text: str) -> None:
    with pytest.raises(ValueError, match=r"64 bits|deep|Invalid"):
        reading.toml(text)
    assert reading.toml("a = 9223372036854775807") == {"a": (1 << 63) - 1}


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", "1e999", "1" * 41, "[" * 100_000, "{"])
def test_a_value_that_json_has_not(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        reading.json_value(text)


@pytest.mark.parametrize("seeds", ["1" + "0" * 400, "1" + "0" * 5000, "1e999"])
def test_a_number_without_end_in_a_claim(seeds: str, cli: Command, tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "c.toml").write_text(
        f'[[claims]]\nid = "A"\ntopic = "t"\nsource = "s"\npublished = "p"\nmeasured = "x"\n'
        f'figures.x = {seeds}\naccept = ["1 > 0"]\n'
    )
    result = cli("claims")
    assert result.returncode in (2, 3)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero"])
def test_our_own_files_may_be_odd_too(kind: str, tmp_path: Path, patient: Command) -> None:
    """A manifest and a ledger lie in folders that others may have written."""
    folder = tmp_path / "s-sweep"
    folder.mkdir()
    text = SCENARIO.replace('"2 s"', '"0.3 s"') + '[sweep.over]\npath.rtt = ["1 ms", "2 ms"]\n'
    (tmp_path / "s.toml").write_text(text)
    odd(folder / "paceline.json", kind)
    result = patient("sweep", "s.toml", "--out", "s-sweep")
    assert result.returncode == 2
    assert "is left unchanged" in result.stderr
    (folder / "paceline.json").unlink()
    odd(folder / "ledger.jsonl", kind)
    with pytest.raises(OSError, match="regular file"):
        see_idle(folder)
    with pytest.raises(OSError, match="regular file"):
        Ledger(folder, "key", 2)


def test_a_ledger_may_be_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def runs(*lines: str) -> set[int]:
        (tmp_path / "ledger.jsonl").write_text("".join(f"{line}\n" for line in lines))
        ledger = Ledger(tmp_path, "key", 3)
        ledger.close()
        return set(ledger.records)

    first, record = '{"sweep": "key"}', '{"run": 1, "error": "x"}'
    for damaged in ("[" * 100_000, '{"run": 2, "metrics": {"a": 1e999}}', "9" * 5000, "\x00"):
        assert runs(first, damaged, record) == {1}
    monkeypatch.setattr("paceline.batch.ledger.TEXT", 1000)
    with pytest.raises(LedgerError, match=r"a line of more than 1,000 bytes"):
        runs(first, " " * 2000, record)


def test_a_scenario_in_a_record_may_be_odd(tmp_path: Path, cli: Command) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO.replace('"2 s"', '"0.3 s"'))
    assert cli("run", "s.toml", "--out", "one", "--set", "run.record.packets=true").returncode == 0
    file = tmp_path / "one" / "scenario.toml"
    for text in ("x = " + "[" * 5000, "x = 1", "flows = 1", 'flows = [{ count = "x" }]'):
        file.write_text(text)
        result = cli("export", "one", "--format", "pcapng", "--out", "x.pcapng")
        assert (result.returncode, "is damaged" in result.stderr) == (2, True), (text, result)
    # There are as many flows as there are, whatever it says.
    many = "[[flows]]\ncount = 1000000000000\nheader = '60 B'\nack.delay = '1 ms'\n"
    file.write_text(many)
    assert cli("export", "one", "--format", "pcapng", "--out", "x.pcapng").returncode == 0


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_controllers_kernels_and_claims_are_regular_files(
    make: Any, cli: Command, tmp_path: Path
) -> None:
    make(tmp_path / "odd")
    for arguments in (
        ("run", "x.toml", "--controller", "mine=odd"),
        ("vm", "prepare", "--kernel", "odd"),
        ("claims", "--claims", "odd"),
    ):
        result = cli(*arguments)
        assert result.returncode == 2
        assert "not a regular file" in result.stderr


def test_a_folder_without_claims_is_refused(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    result = cli("claims", "--claims", "none")
    assert result.returncode == 2
    assert "none has no claims" in result.stderr
