"""Golden traces of a kernel's own controllers, from the calls that the recorder logged."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

import pytest

from conftest import Command
from paceline.errors import RunError
from paceline.kernel import stock

needs_libbpf = pytest.mark.skipif(
    ctypes.util.find_library("bpf") is None, reason="the layout of a call is read by libbpf"
)
RECEIVER = 0x0100020A


def calls(*each: dict[str, int]) -> bytes:
    """Return calls as the recorder writes them, numbered."""
    layout, names = stock._layout()
    packed = [{"number": n, "receiver": RECEIVER} | call for n, call in enumerate(each)]
    return b"".join(layout.pack(*(call.get(name, 0) for name in names)) for call in packed)


def call(function: str, after: int, **fields: int) -> dict[str, int]:
    number = stock._FUNCTIONS.index(function)
    return {"function": number, "after": after, "tcp_mstamp": 7, "jiffies": 3 << 32 | 5} | fields


@needs_libbpf
def test_the_draw_of_a_phase_is_the_one_that_leads_to_it() -> None:
    opened = [call("init", n, snd_cwnd=10, mss_cache=1448) for n in (0, 1)]
    ack = call("main", 0, bbr_mode=1, rs_interval_us=-1, rs_delivered=-1)
    text = stock.trace("bbr", RECEIVER, calls(*opened, ack, ack | {"after": 1, "bbr_mode": 2}))
    init, event, draw, state = text.splitlines()
    assert init.startswith("I t=7 j=5 hz=100 d=0 cwnd=10 mss=1448 ")
    assert " rs.del=-1 rs.int=-1 " in event
    # Phase 7, advanced by one, is phase 0: 7 minus a draw of 0.
    assert draw == "R below=7 drew=0"
    assert state.startswith("S ev=ack t=7 mode=PROBE_BW/0 ")


@needs_libbpf
def test_a_reduction_has_the_state_that_follows_it() -> None:
    cwnd = {"snd_cwnd": 20, "snd_ssthresh": 30, "mss_cache": 1448}
    reduced = cwnd | {"snd_ssthresh": 10}
    text = stock.trace(
        "reno",
        RECEIVER,
        calls(
            call("ssthresh", 0, **cwnd),
            call("ssthresh", 1, result=10, **cwnd),
            call("stack", 0, argument=3, **reduced),
            call("stack", 1, argument=3, **reduced),
            # The stack ends its recovery.
            call("avoid", 0, argument=1, **reduced | {"snd_cwnd": 10}),
            call("avoid", 1, **reduced | {"snd_cwnd": 10, "snd_cwnd_cnt": 1}),
        ),
    )
    assert [line for line in text.splitlines() if line[0] != "S"] == [
        "n t=7 j=5 cwnd=20 ssthresh=30 mss=1448",
        "r t=7 j=5 ca=3 alpha=0",
        "k t=7 j=5 cwnd=10 ssthresh=10 cnt=0 ca=0",
        "w t=7 j=5 acked=1 cwl=0 ca=0",
    ]
    assert text.splitlines()[3].endswith(" cwnd=20 cwnd_cnt=0 ssthresh=10")


@needs_libbpf
def test_a_lost_call_is_noticed() -> None:
    data = calls(call("init", 0), call("init", 1))
    with pytest.raises(RunError, match="full after 0 calls"):
        stock.trace("bbr", RECEIVER, data[len(data) // 2 :])
    with pytest.raises(RunError, match="never established"):
        stock.trace("bbr", RECEIVER + 1, data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trace"], "needs a scenario and --out FILE"),
        (["trace", "x.toml"], "needs a scenario and --out FILE"),
        (["trace", "no.toml", "--out", "new.txt"], "no such file: no.toml"),
        (["trace", "x.toml", "--out", "x.toml"], "x.toml exists"),
        (["list", "--seed", "1"], "`paceline vm trace` has it"),
    ],
)
def test_a_trace_needs_its_arguments(
    cli: Command, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "x.toml").write_text("")
    ended = cli("vm", *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr
