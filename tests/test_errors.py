"""What Python and the system say of a bad input is an error of ours: what, where, what to do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import paceline
from conftest import SCENARIO, Command
from paceline.cli import _fitted
from paceline.cli.verbs import load
from paceline.study.sweep import Plan, execute


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SCENARIO)
    Path("bytes").write_bytes(b"\xff\xfe\x00")
    Path("folder").mkdir()
    Path("folder", "inside.toml").write_text(SCENARIO)
    return tmp_path


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda: paceline.run("smal.toml"), "no such file: smal.toml", "did you mean small.toml?"),
        (lambda: paceline.check("folder"), "folder is a folder", "it has folder/inside.toml"),
        (lambda: paceline.run("bytes"), "bytes is not a text file", "TOML in UTF-8"),
        (lambda: paceline.run("a\0b"), "no such file", "scenario"),
        (lambda: paceline.run("a" * 300), "no such file", "scenario"),
        (lambda: paceline.run_many("nowhere/x.toml", [1]), "no such file", "scenario"),
        (lambda: paceline.Run.read("small.toml"), "no such file: small.toml/run.json", "folder"),
        (lambda: paceline.Run.capture("x.pcap"), "no such file: x.pcap", "check the name"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_of_ours(
    folder: Path, call: Callable[[], object], message: str, hint: str
) -> None:
    with pytest.raises(paceline.FileError) as caught:
        call()
    assert message in str(caught.value)
    assert hint in caught.value.hint
    # Who catches Python's own error still does.
    assert isinstance(caught.value, OSError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.hint) == (str(caught.value), caught.value.hint)


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda: paceline.run(SCENARIO, seed=-1), "seed is -1", "from 0 to 9223372036854775807"),
        (lambda: paceline.run(SCENARIO, seed=2**64), "seed is 18446744073709551616", "from 0 to"),
        (lambda: paceline.run_many(SCENARIO, [1], threads=0), "threads is 0", "from 1 to"),
    ],
)
def test_a_number_that_cannot_be_used_is_an_error_of_ours(
    call: Callable[[], object], message: str, hint: str
) -> None:
    with pytest.raises(paceline.ArgumentError) as caught:
        call()
    assert str(caught.value) == message
    assert hint in caught.value.hint


def test_a_table_that_is_not_there_says_how_to_record_it(run: paceline.Run) -> None:
    with pytest.raises(paceline.NoTableError) as caught:
        _ = run.packets
    assert str(caught.value) == "this run has no table 'packets'"
    assert "record.packets = true" in caught.value.hint
    assert isinstance(caught.value, KeyError)


def test_a_sweep_that_is_damaged_or_asked_for_another_metric(tmp_path: Path) -> None:
    text = f'{SCENARIO}\n[sweep]\nseeds = 1\n[sweep.over]\n"path.rtt" = ["10 ms", "20 ms"]\n'
    sweep = execute(Plan.read(text, "x.toml"), tmp_path / "s")
    with pytest.raises(paceline.ArgumentError, match="no metric is called 'godput'") as caught:
        sweep.values("godput")
    assert caught.value.hint.startswith("did you mean goodput_bps?")
    (tmp_path / "s" / "points.parquet").write_bytes(b"PAR1")
    with pytest.raises(paceline.NotARunError, match=r"points\.parquet"):
        _ = paceline.Sweep.read(tmp_path / "s").points
    (tmp_path / "s" / "points.parquet").unlink()
    with pytest.raises(paceline.FileError, match=r"points\.parquet"):
        _ = paceline.Sweep.read(tmp_path / "s").points


def test_one_typo_is_reported_once_for_all_points(folder: Path, cli: Command) -> None:
    over = '[sweep]\nseeds = 2\n[sweep.over]\n"{}" = {}\n'
    for key, values, count in (
        ("flows.0.cc.betta", "[0.5, 0.6, 0.7]", 1),
        ("flows.0.app", '[{ ratee = "1 Mbit/s" }, { ratee = "2 Mbit/s" }]', 1),
        # All values of a range are in one place.
        ("flows.0.start", '{ from = "5 s", to = "9 s", count = 5 }', 1),
        # These are two.
        ("flows.0.cc", '["brb3", "cubci"]', 2),
    ):
        Path("s.toml").write_text(f"{SCENARIO}\n{over.format(key, values)}")
        with pytest.raises(paceline.ScenarioError) as caught:
            paceline.check("s.toml")
        assert len(caught.value.diagnostics) == count, caught.value
        assert str(caught.value).count("error: ") == count
        assert cli("sweep", "s.toml").stderr.count("error: ") == count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "r", "s"), "`paceline report` takes FOLDER, and 's' is too much"),
        (("doctor", "x", "y"), "`paceline doctor` takes no argument, and 'x', 'y' is too much"),
        (
            ("check", "small.toml", "--judge", "a"),
            "`paceline check` has no option --judge hint: `pa",
        ),
        (("run", "small.toml", "--sed=3"), "no option --sed hint: did you mean --seed?"),
    ],
)
def test_a_wrong_call_is_in_plain_words(
    folder: Path, cli: Command, arguments: tuple[str, ...], message: str
) -> None:
    result = cli(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.split())
    assert "Tokens" not in result.stderr


def test_a_hint_names_no_option_of_another_command() -> None:
    for verb in ("check", "run", "import"):
        load([verb])
    assert _fitted("free some space, or choose another place with --out", ["check"]) == (
        "free some space"
    )
    assert _fitted("choose another folder with --out, or discard it with --fresh", ["run"]) == (
        "choose another folder with --out"
    )
    assert _fitted("raise --memory", ["check"]) is None
    assert _fitted("raise --memory", ["run"]) == "raise --memory"
    kept = "`paceline run --set run.record.packets=true` makes one; name it"
    assert _fitted(kept, ["import"]) == kept


def test_an_error_that_nobody_explained_is_a_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from paceline import cli

    def broken(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(cli, "_ordered", broken)
    assert cli.main(["doctor"]) == 1
    output = capsys.readouterr().err
    assert "error: a fault of Paceline: KeyError: 'lost'" in output
    assert "Traceback" in output


def test_the_package_shows_its_public_names() -> None:
    assert dir(paceline) == sorted(paceline.__all__)
    with pytest.raises(AttributeError):
        _ = paceline.import_module
