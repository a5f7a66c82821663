"""What takes long, and is stopped by a signal at once: the end of a run as well as its middle."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import paceline
from conftest import Command

#: Over a million rows, which take some tenths of a second to write.
ROWS = """
schema = 1
[run]
duration = "16 s"
sample_interval = "1 ms"
[path]
rate = "5 Mbit/s"
rtt = "40 ms"
queue = { kind = "droptail", size = "100 packets" }
[[flows]]
cc = "reno"
count = 400
"""


@pytest.fixture
def soon() -> Iterator[None]:
    """Interrupt this process in a moment."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("soon")
def test_writing_hears_a_signal_and_leaves_what_was_there(tmp_path: Path) -> None:
    run = paceline.run(ROWS)
    assert run.samples.height > 1_000_000
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  It may come at once.
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        run.write(tmp_path / "run")
    run.write(tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.usefixtures("soon")
def test_golden_traces_hear_a_signal_between_one_and_the_next(cli: Command) -> None:
    """Python runs no handler within one call of the extension, unless that asks for it."""
    root = Path(__file__).parent.parent / "conformance" / "linux-bbr"
    heard = []

    def interrupt(*_: object) -> None:
        heard.append(True)
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    replayed = None
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  It may come at once.
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        replayed = paceline._paceline.golden_traces(root, lambda _: True)
    assert heard
    assert replayed is None
