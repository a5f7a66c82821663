"""What comes from outside is text, which no terminal obeys; and numbers have units."""

from __future__ import annotations

import ast
import html
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from conftest import SCENARIO, Command
from paceline.cli import console
from paceline.names import visible
from paceline.quantities import quantity
from paceline.runs import Progress
from paceline.show.figure import literal, saved
from paceline.study.claims.drawing import Line, Value, _bars, _sweep
from paceline.study.claims.pictures import Picture
from paceline.study.sweep import Plan, execute

PACKAGE = Path(console.__file__).parents[1]

#: A tag that closes nothing, a style, an emoji, a link, and what clears a screen in two ways.
HOSTILE = "[/foo] [red]x :smile: [link=http://x]y \x1b[2Jz \x9b2J \u202eabc"
SHOWN = ("[/foo]", "[red]x", ":smile:", "[link=http://x]y", "\\x1b[2Jz", "\\x9b2J", "\\u202eabc")


def toml(text: str) -> str:
    """Return it as TOML, which takes no control characters as they are."""
    quoted = "".join(c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in text)
    return f'"{quoted}"'


def harmless(text: str) -> bool:
    return text == visible(text)


def words(text: str) -> str:
    """Return a text whose lines have been folded as one line."""
    return " ".join(text.split())


def test_a_text_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    for out in (console.stdout(), console.stderr()):
        table = console.table("Name", HOSTILE, title=HOSTILE)
        table.add_row(HOSTILE, console.styled(HOSTILE, "red"))
        out.print(table, soft_wrap=True)
        out.print(HOSTILE)
        captured = capsys.readouterr()
        text = captured.out + captured.err
        assert harmless(text)
        for part in SHOWN:
            assert words(text).count(part) >= 3, (part, text)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_hostile_name_is_shown_by_every_command(
    cli: Command, tmp_path: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    text = SCENARIO.replace("schema = 1\n", f"schema = 1\nname = {toml(HOSTILE)}\n")
    text = text.replace('about = "Two', f'about = {toml(HOSTILE)} #"')
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "s.toml").write_text(text)
    short = ("--set", "run.duration=0.3 s")
    sweep = text.replace('"2 s"', '"0.3 s"') + '\n[sweep]\n"path.rtt" = ["10 ms", "20 ms"]\n'
    (tmp_path / "sweep.toml").write_text(sweep)
    for command in (
        ("run", "scenarios/s.toml", *short, "--out", "one"),
        ("run", "scenarios/s.toml", *short, "--repeats", "2", "--out", "two"),
        ("list", "scenarios"),
        ("report", "one"),
        ("report", "one", "--format", "png"),
        ("compare", "one", "one"),
        ("export", "one", "--format", "csv"),
        ("sweep", "sweep.toml", "--out", "swept"),
        ("run", "scenarios/nowhere [/foo]\x1b[2J.toml"),
        ("compare", "[/foo]\x1b[2J", "one"),
        ("list", "controllers", "[/foo]\x1b[2J"),
        ("run", "scenarios/s.toml", "--set", "[/foo]\x1b[2J=1"),
    ):
        result = cli(*command)
        output = result.stdout + result.stderr
        assert result.returncode in (0, 2), (command, result)
        assert "Traceback" not in output
        for bad in ("\x1b[2J", "\x9b", "\u202e"):
            assert bad not in output, (command, output)
        if command[:2] == ("run", "scenarios/s.toml") and result.returncode == 0:
            assert "[/foo] [red]x :smile:" in words(output), output


def test_what_is_meant_for_a_file_is_kept_and_shown_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console.print_file(HOSTILE)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    console.print_file(HOSTILE)
    kept, shown = HOSTILE, visible(HOSTILE)
    assert capsys.readouterr().out == kept + shown


def test_a_name_may_have_dollars(cli: Command, tmp_path: Path) -> None:
    # Matplotlib would read a formula, and find it wrong.
    text = SCENARIO.replace("schema = 1\n", "schema = 1\nname = '$\\foo$'\n")
    (tmp_path / "s.toml").write_text(text)
    assert cli("run", "s.toml", "--set", "run.duration=0.3 s", "--out", "one").returncode == 0
    for format_ in ("png", "svg"):
        result = cli("report", "one", "--format", format_)
        assert result.returncode == 0, result


#: One that matplotlib would find wrong, one that it would draw in italics, and none.
FORMULAS = ["$\\foo$", "$a$ b", "5 $"]


def texts(svg: bytes) -> list[str]:
    """Return the texts of a picture."""
    return [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg.decode())]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_points_of_a_sweep_may_have_dollars(axes: int, tmp_path: Path) -> None:
    keys = ["flows.0.label", "flows.1.label", "about"][:axes]
    names = ", ".join(map(toml, FORMULAS))
    over = "".join(f"{key} = [{names}]\n" for key in keys)
    text = SCENARIO.replace('"2 s"', '"0.3 s"') + f"[sweep.over]\n{over}"
    sweep = execute(Plan.read(text, "s.toml"), tmp_path / "sweep")
    shown = " ".join(texts(saved(sweep.plot("utilisation_ratio"), "svg")))
    for name in FORMULAS:
        assert shown.count(name) >= axes, shown


def test_labels_of_a_claim_may_have_dollars() -> None:
    value = Value(1.0, 1.0, 1.0)
    lines = [Line(name, ("",), (value,)) for name in FORMULAS]
    groups = [Line("x", tuple(FORMULAS), (value,) * 3)]
    picture = Picture("bars")
    for draw, drawn in ((_bars, lines), (_bars, groups), (_sweep, groups)):
        figure = Figure()
        FigureCanvasAgg(figure)
        draw(figure.subplots(), picture, drawn)
        assert {*FORMULAS} <= {*texts(saved(literal(figure), "svg"))}, drawn


def test_json_says_the_same_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.print_json({"name": HOSTILE})
    text = capsys.readouterr().out
    assert harmless(text)
    assert json.loads(text)["name"] == HOSTILE


def test_a_hostile_claim_is_shown(cli: Command, tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    claims.mkdir()
    (claims / "h.toml").write_text(f"""
[[claims]]
id = {toml(HOSTILE)}
topic = {toml(HOSTILE)}
source = {toml(HOSTILE)}
published = {toml(HOSTILE)}
measured = "x"
figures.x = 1
beside.{toml(HOSTILE)} = "x"
accept = ["x > 2"]
why = {toml(HOSTILE)}
""")
    for arguments in (("--list",), (), ("[/foo]",)):
        result = cli("claims", *arguments)
        assert result.returncode in (0, 2, 3)
        assert harmless(result.stdout + result.stderr)
        assert "[/foo]" in result.stdout + result.stderr


def test_no_other_place_makes_a_console_or_reads_markup() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rich"):
                assert path.name in ("console.py", "progress.py"), path
            if isinstance(node, ast.keyword) and node.arg == "markup":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path
            if isinstance(node, ast.Attribute):
                assert node.attr != "from_markup", path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print" or path.name == "console.py", path


def test_the_first_progress_may_be_late(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cluster takes longer to start than two lines of progress are apart.
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with console.progress("x", 2) as reporter:
        for seconds, done in ((10, 0), (20, 500_000_000), (30, 1_000_000_000)):
            now[0] = 100.0 + seconds
            reporter.progress(Progress(done, 2_000_000_000, 0, 0, 0))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "x: 0 %, 0.0 of 2 s, 0 packets"
    assert lines[2] == "x: 50 %, 1.0 of 2 s, 0 packets, 20 s left"


# Numbers with units.


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("rtt_p50_ns", 40_000_000, "40.00 ms"),
        ("convergence_ns", None, "–"),  # noqa: RUF001
        ("convergence_ns", 12_500_000_000, "12.50 s"),
        ("goodput_bps", 48_123_456, "48.12 Mbit/s"),
        ("goodput_bps", 0, "0 bit/s"),
        ("queue_max_bytes", 250_000, "250.0 kB"),
        ("loss_ratio", 0.0123, "1.230 %"),
        ("jain_ratio", 0.98765, "0.9877"),
        ("jain_ratio", 0.99996, "1.000"),
        ("rto_count", 12_345, "12,345"),
        ("rtt_p50_ns", float("nan"), "–"),  # noqa: RUF001
    ],
)
def test_quantity(name: str, value: float | None, text: str) -> None:
    assert quantity(name, value) == text


@given(st.floats(1.0, 1e18))
def test_four_digits_are_kept(value: float) -> None:
    text, unit = quantity("goodput_bps", value).split()
    size = {"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}[unit]
    assert float(text.replace(",", "")) * size == pytest.approx(value, rel=1e-3)
