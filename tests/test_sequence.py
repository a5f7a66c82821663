"""Time-sequence diagrams: what they show, and that nothing is lost on the way."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection

import paceline
from conftest import SCENARIO, Command
from paceline.quantities import duration_ns
from paceline.show import sequence
from paceline.show.sequence import SequenceError, Trace, View, marks, steps, strokes, traces
from paceline.show.sequence_figure import draw

STARTUP = Path(__file__).parents[1] / "data" / "scenarios" / "startup"
#: In the order in which they were published to end.
FIVE = [
    "bbr-2.77-iw32-1G-100ms",
    "cubic-iw10-1G-100ms",
    "cubic-paced-iw10-1G-100ms",
    "bbr-2.89-iw10-1G-100ms",
    "bbr-2.77-iw10-1G-100ms",
]
PACKETS = {"run.record.packets": True}


@pytest.fixture(scope="module")
def recorded() -> paceline.Run:
    return paceline.run(SCENARIO, overrides=PACKETS)


@pytest.fixture(scope="module")
def five() -> list[paceline.Run]:
    return [paceline.run(STARTUP / f"{name}.toml") for name in FIVE]


def frame(rows: list[tuple[int, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(
        rows, schema={"t_ns": pl.Int64, "seq": pl.Int64, "end": pl.Int64}, orient="row"
    )


def flow_of(sends: list[tuple[int, int, int]], acks: list[tuple[int, int, int]]) -> Trace:
    none = frame([])
    return Trace("x", frame(sends), none, none, none, frame(acks), none, none)


def test_a_trace_is_what_was_recorded(recorded: paceline.Run) -> None:
    for flow, trace in enumerate(traces([recorded])):
        rows = recorded.packets.filter(flow=flow)
        for kind, part in (
            ("send", trace.sends),
            ("retransmit", trace.retransmits),
            ("drop", trace.drops),
            ("sack", trace.sacks),
        ):
            mine = rows.filter(pl.col("kind").cast(pl.String) == kind)
            assert mine.height > 0, kind
            assert part["t_ns"].to_list() == mine["t_ns"].to_list()
            assert (part["end"] - part["seq"]).to_list() == mine["len_bytes"].to_list()
        acks = trace.acks["seq"].to_list()
        assert all(a <= b for a, b in pairwise(acks))
        assert trace.acks["end"][0] - acks[0] == 2**30


def test_acks_that_never_arrive_have_their_fate() -> None:
    back = '[path.return]\nrate = "200 kbit/s"\nqueue.size = "20 packets"\nloss = "5 %"\n'
    run = paceline.run(
        SCENARIO.replace("[[flows]]", f'{back}ack_filter = "cake"\n[[flows]]', 1), overrides=PACKETS
    )
    kind = run.packets["kind"].cast(pl.String)
    for outcome, column in (
        ("ack-drop", "ack_lost_packets"),
        ("ack-filter", "ack_filtered_packets"),
    ):
        # A SYN-ACK is no ACK.
        missing = int(run.flows[column].sum()) - int((kind == outcome).sum())
        assert 0 <= missing <= run.flows.height, outcome
        assert (kind == outcome).sum() > 10, outcome
    acks = run.packets.filter(kind.is_in(["ack", "ack-drop", "ack-filter"]))
    assert acks["departed_ns"].null_count() == 0
    assert (acks["t_ns"] >= acks["departed_ns"]).all()
    shown = [trace.ack_filters.height for trace in traces([run])]
    assert sum(shown) == (kind == "ack-filter").sum()
    (ax,) = draw([run], flow=0).axes
    legend = ax.get_legend()
    assert legend is not None
    names = {text.get_text() for text in legend.get_texts()}
    assert {"ACK dropped", "ACK filtered"} <= names


def test_rounds_by_hand() -> None:
    # Two packets at 0; the first ACK at 100 begins round 2, in which 300 bytes follow; the first
    # ACK of these comes at 210; what is sent at 210 is never acknowledged.
    trace = flow_of(
        [(0, 0, 100), (0, 100, 200), (100, 200, 400), (110, 400, 500), (210, 500, 600)],
        [(100, 100, 0), (110, 200, 0), (210, 400, 0), (220, 500, 0)],
    )
    assert [trace.round_end(n) for n in (1, 2, 3)] == [100, 210, 220]
    assert sequence.view_of([trace], rounds=2) == View(0, 210)


def test_the_rounds_are_those_of_the_slowest(five: list[paceline.Run]) -> None:
    shown = traces(five)
    ends = [trace.round_end(5) for trace in shown]
    assert sequence.view_of(shown, rounds=5) == View(min(t.start_ns for t in shown), max(ends))
    # Five round trips of 100 ms from 100 ms on, for all of them.
    assert all(590e6 < end < 660e6 for end in ends)


rows = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=200)


@given(rows=rows, few=st.integers(0, 50))
def test_no_mark_vanishes(rows: list[tuple[int, int]], few: int) -> None:
    points = frame(sorted((t, seq, seq + 100) for t, seq in rows))
    view = View(0, 10**6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "FEW", few)
        patch.setattr(sequence, "COLUMNS", 20)
        patch.setattr(sequence, "ROWS", 10)
        kept = marks(points, view)
    # Nothing is made up, and everything is within a cell of what is kept.
    columns = ("t_ns", "seq")
    assert set(kept.select(columns).iter_rows()) <= set(points.select(columns).iter_rows())
    span = max(seq for _, seq in rows) + 100 - min(seq for _, seq in rows)
    for t, seq in rows:
        assert any(
            abs(t - a) <= 50_000 and abs(seq - b) <= span / 10 + 1 for a, b, _ in kept.iter_rows()
        )


@given(gaps=st.lists(st.integers(0, 5000), min_size=1, max_size=300))
def test_strokes_cover_what_was_sent(gaps: list[int]) -> None:
    times = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    sent = frame([(t, 100 * n, 100 * n + 100) for n, t in enumerate(times)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "FEW", 10)
        patch.setattr(sequence, "COLUMNS", 20)
        drawn = strokes(sent, View(0, max(times[-1], 1)))
    assert drawn.height <= max(10, 21)
    assert drawn["seq"][0] == 0
    assert drawn["end"][-1] == 100 * len(gaps)
    for before, after in pairwise(drawn.iter_rows(named=True)):
        assert before["end"] == after["seq"]
        assert before["last_ns"] <= after["t_ns"]


def test_a_line_keeps_its_value_over_the_view() -> None:
    acks = frame([(10, 1, 0), (20, 2, 0), (30, 3, 0)])
    assert steps(acks, "seq", View(15, 25)) == ([15, 20, 25], [1, 2, 2])
    assert steps(acks, "seq", View(31, 40)) == ([31, 40], [3, 3])
    assert steps(acks, "seq", View(0, 9)) == ([], [])


def test_the_five_ways_to_start_end_in_the_published_order(five: list[paceline.Run]) -> None:
    ends = [run.flow_metrics[0]["completion_ns"] for run in five]
    assert ends == sorted(ends)
    assert len(set(ends)) == 5
    assert all(run.metrics["retransmit_ratio"] == 0 for run in five)


def test_five_runs_over_each_other(five: list[paceline.Run]) -> None:
    figure = draw(five)
    (ax,) = figure.axes
    legend = ax.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[:5] == [run.flows["label"][0] for run in five]
    assert labels[6:] == ["transmit", "ACK", "receive window"]
    assert ax.get_xlabel() == "Time (s)"
    assert ax.get_ylabel() == "Sequence number (MB)"
    thick = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert len({c.get_colors()[0].tobytes() for c in thick}) == 5  # type: ignore[union-attr]
    # Every flow ends at 50 MB.
    for drawn in thick:
        assert max(float(y) for s in drawn.get_segments() for y in s[:, 1]) == pytest.approx(50)
    zoomed = draw(five, rounds=5).axes[0]
    assert zoomed.get_xlim()[1] < 661
    assert zoomed.get_ylabel() == "Sequence number (MB)"


def test_losses_and_retransmissions_are_marked(recorded: paceline.Run) -> None:
    ax = draw([recorded], flow=0).axes[0]
    legend = ax.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == [
        "transmit", "retransmit", "drop", "ACK", "SACK block", "receive window (above)",
    ]  # fmt: skip
    trace = traces([recorded], 0)[0]
    drawn = {line.get_marker(): len(line.get_xdata()) for line in ax.lines}  # type: ignore[arg-type]
    assert drawn["^"] == trace.retransmits.height
    assert drawn["x"] == trace.drops.height


@pytest.mark.parametrize("format_", ["png", "svg", "pdf"])
def test_the_same_bytes_every_time(
    cli: Command, recorded: paceline.Run, tmp_path: Path, format_: str
) -> None:
    recorded.write(tmp_path / "r")
    result = cli("sequence", "r", "--format", format_)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == f"r/sequence.{format_}"
    assert cli("sequence", "r", "--format", format_, "--out", "again").returncode == 0
    first = (tmp_path / "r" / f"sequence.{format_}").read_bytes()
    assert first == (tmp_path / "again").read_bytes()
    value = json.loads(cli("sequence", "r", "r", "--format", format_, "--json").stdout)
    assert value == {
        "schema": 1,
        "sequence": f"r/sequence.{format_}",
        "format": format_,
        "runs": ["r", "r"],
    }


def test_what_cannot_be_drawn_is_told(
    cli: Command, recorded: paceline.Run, run: paceline.Run, tmp_path: Path
) -> None:
    run.write(tmp_path / "without")
    recorded.write(tmp_path / "with")
    result = cli("sequence", "without")
    assert result.returncode == 2
    assert "record.packets=true" in result.stderr
    for wrong in (
        ["--flow", 7],
        ["--from", "1 s", "--to", "1 s"],
        ["--from", "soon"],
        ["--to", "5"],
        ["--to", "1 s", "--rounds", 3],
        ["--rounds", 0],
    ):
        result = cli("sequence", "with", *wrong)
        assert result.returncode == 2, wrong
        assert "hint:" in result.stderr
    assert cli("sequence", "with", "--out", "no/such/folder.png").returncode == 2


def test_labels_tell_runs_apart(recorded: paceline.Run) -> None:
    labels = [trace.label for trace in traces([recorded, recorded])]
    assert len(set(labels)) == 4
    with pytest.raises(SequenceError):
        traces([recorded], 9)


@pytest.mark.parametrize(
    ("text", "value"), [("0 s", 0), ("0.5 s", 500_000_000), ("12ms", 12_000_000), ("1.5 us", 1500)]
)
def test_times(text: str, value: int) -> None:
    assert duration_ns(text) == value


@pytest.mark.parametrize("text", ["", "5", "s", "-1 s", "1 parsec", "1e3 s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="a number and a unit"):
        duration_ns(text)
