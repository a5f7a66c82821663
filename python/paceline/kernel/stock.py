"""Golden traces of a kernel's own controllers, from the calls that the recorder saw.

A trace has the format of `conformance/linux-bbr` or `conformance/linux-cubic`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from importlib import resources
from itertools import dropwhile
from typing import NamedTuple

from paceline.errors import RunError
from paceline.kernel import bpf

#: The recorder's object.
OBJECT = "paceline_stock.o"
#: `enum function` of `kernel/stock.h`.
_FUNCTIONS = (
    "init",
    "main",
    "ssthresh",
    "undo",
    "state",
    "event",
    "avoid",
    "acked",
    "alpha",
    "stack",
)
_BBR_MODES = ("STARTUP", "DRAIN", "PROBE_BW", "PROBE_RTT")
#: Phases of the gain cycle (CYCLE_LEN of tcp_bbr.c).
_CYCLE = 8
#: `enum tcp_ca_event`.
_TX_START, _LOSS_EVENT = 0, 3
#: `enum tcp_ca_state`.
_CWR, _RECOVERY, _LOSS, _UNKNOWN = 2, 3, 4, -1
_UNPACED = 0
_U32 = 0xFFFF_FFFF

#: A call's fields.
Call = dict[str, int]


class _Pair(NamedTuple):
    """A call of a function: what was before it, and after it."""

    function: str
    before: Call
    after: Call


@cache
def _layout() -> tuple[struct.Struct, list[str]]:
    """Return how a call is packed, and its fields' names."""
    data = resources.files("paceline.kernel").joinpath(OBJECT).read_bytes()
    recorder = bpf.Object(data, "paceline_stock")
    types = recorder.types()
    call = types.structure("call")
    letters, names, at = "<", [], 0
    for name, place, kind in types.members(call):
        size = types.size(kind)
        letter = {4: "I", 8: "Q"}[size]
        letters += "x" * (place - at) + (letter.lower() if types.is_signed(kind) else letter)
        names.append(name)
        at = place + size
    letters += "x" * (types.size(call) - at)
    recorder.close()
    return struct.Struct(letters), names


def _calls(data: bytes, receiver: int) -> Iterator[_Pair]:
    """Yield the calls of a flow."""
    layout, names = _layout()
    begun: list[Call] = []
    for number, values in enumerate(layout.iter_unpack(data)):
        call = dict(zip(names, values, strict=True))
        if call["number"] != number:
            raise RunError(f"the recorder's buffer was full after {number} calls; lower the rate")
        if call["receiver"] != receiver:
            continue
        if not call["after"]:
            begun.append(call)
        elif not begun or begun[-1]["function"] != call["function"]:
            raise RunError(f"call {number} of the recorder ends without a beginning")
        else:
            yield _Pair(_FUNCTIONS[call["function"]], begun.pop(), call)


def trace(controller: str, receiver: int, data: bytes) -> str:
    """Return the trace of a flow, given the calls of a run."""
    pairs = list(_calls(data, receiver))
    if controller != "reno":
        # Before the connection is established the stack reports the ACK of its SYN to a controller
        # that has not been initialised yet. Reno has nothing to initialise.
        pairs = list(dropwhile(lambda pair: pair.function != "init", pairs))
    if not pairs:
        raise RunError("the flow was never established")
    if controller == "dctcp" and all(pair.function != "alpha" for pair in pairs):
        raise RunError("the kernel's dctcp has become Reno, because ECN was not negotiated")
    return "".join(f"{line}\n" for line in _CONVERT[controller](pairs))


def _hz(pairs: list[_Pair]) -> int:
    """Return the kernel's jiffies a second, one of those that it can be configured with."""
    first, last = pairs[0].before, pairs[-1].before
    seconds = (last["t_ns"] - first["t_ns"]) / 1e9
    found = (last["jiffies"] - first["jiffies"]) / max(seconds, 1e-9)
    return min((100, 250, 300, 1000), key=lambda hz: abs(hz - found))


def _line(letter: str, **values: int | str) -> str:
    return " ".join(
        [letter, *(f"{key.replace('__', '.')}={value}" for key, value in values.items())]
    )


def _bbr(pairs: list[_Pair]) -> Iterator[str]:
    shown = False
    for function, before, after in pairs:
        t, j = before["tcp_mstamp"], _jiffies(before)
        mode = after["bbr_mode"]
        match function:
            case "init":
                name, line = (
                    "init",
                    _line(
                        "I",
                        t=t,
                        j=j,
                        hz=_hz(pairs),
                        d=before["delivered"],
                        cwnd=before["snd_cwnd"],
                        mss=before["mss_cache"],
                        srtt=before["srtt_us"] >> 3,
                        minrtt=before["rtt_min"],
                        ecn_flags=0,
                    ),
                )
            case "main":
                name, line = "ack", _bbr_ack(t, j, before)
                shown = True
            case "ssthresh":
                name, line = "ssthresh", _line("H", t=t, j=j)
            case "state":
                name, line = (
                    "castate",
                    _line("C", t=t, j=j, ca=before["argument"], cwnd=before["snd_cwnd"]),
                )
            case "undo":
                name, line = "undo", _line("U", t=t, j=j)
            case "event" if before["argument"] == _TX_START:
                name, line = "txstart", _line("X", t=t, j=j, apl=before["app_limited"])
            case _:
                continue
        yield line
        if mode == 2 != before["bbr_mode"]:
            # The phase is drawn, then advanced (bbr_reset_probe_bw_mode).
            drew = -after["bbr_cycle_idx"] % _CYCLE
            yield _line("R", below=_CYCLE - 1, drew=drew)
        if not shown:
            # The ACK of the SYN has set the gains, which the first ACK of data sets again.
            continue
        bw = after["bbr_lt_bw"] if after["bbr_lt_use_bw"] else after["bbr_bw"]
        phase = after["bbr_cycle_idx"] if mode == 2 else 0
        yield _line(
            "S",
            ev=name,
            t=t,
            mode=f"{_BBR_MODES[mode]}/{phase}",
            cwnd=after["snd_cwnd"],
            pacing=after["sk_pacing_rate"],
            pg=after["bbr_pacing_gain"],
            cg=after["bbr_cwnd_gain"],
            bw=bw,
            maxbw=after["bbr_bw"],
            minrtt=after["bbr_min_rtt_us"],
            rstart=after["bbr_round_start"],
            fullbw=after["bbr_full_bw"],
            cnt=after["bbr_full_bw_cnt"],
            full=after["bbr_full_bw_reached"],
            prior_cwnd=after["bbr_prior_cwnd"],
            xacked=max(after["bbr_extra_acked_0"], after["bbr_extra_acked_1"]),
            idle=after["bbr_idle_restart"],
            rtt_cnt=after["bbr_rtt_cnt"],
            lt_use=after["bbr_lt_use_bw"],
            lt_bw=after["bbr_lt_bw"],
            lt_rtt=after["bbr_lt_rtt_cnt"],
            pktcons=after["bbr_packet_conservation"],
        )


def _bbr_ack(t: int, j: int, before: Call) -> str:
    return _line(
        "A",
        t=t,
        j=j,
        d=before["delivered"],
        dce=before["delivered_ce"],
        dmst=before["delivered_mstamp"],
        lost=before["lost"],
        pout=before["packets_out"],
        lout=before["lost_out"],
        sout=before["sacked_out"],
        rout=before["retrans_out"],
        cwl=before["is_cwnd_limited"],
        ca=before["ca_state"],
        wst=before["tcp_wstamp_ns"],
        srtt=before["srtt_us"] >> 3,
        mrtt=before["rtt_min"],
        apl=before["app_limited"],
        rs__del=before["rs_delivered"],
        rs__int=before["rs_interval_us"],
        rs__pdel=before["rs_prior_delivered"],
        rs__txif=0,
        rs__lost=0,
        rs__rtt=before["rs_rtt_us"],
        rs__acked=before["rs_acked_sacked"],
        rs__losses=before["rs_losses"],
        rs__pif=before["rs_prior_in_flight"],
        rs__dce=before["rs_delivered_ce"],
        rs__app=before["rs_is_app_limited"],
        rs__ece=0,
        rs__ackdel=before["rs_is_ack_delayed"],
        rs__tlp=0,
    )


def _jiffies(call: Call) -> int:
    """Return tcp_jiffies32."""
    return call["jiffies"] & _U32


#: Fields that the stack sets between calls.
_STACK = ("snd_cwnd", "snd_ssthresh", "snd_cwnd_cnt")


def _cubic(pairs: list[_Pair]) -> Iterator[str]:
    last: Call = {}
    for function, before, after in pairs:
        t, j = before["tcp_mstamp"], _jiffies(before)
        if last and any(before[name] != last[name] for name in _STACK):
            cwnd, ssthresh, cnt = (before[name] for name in _STACK)
            yield _line("s", t=t, j=j, cwnd=cwnd, ssthresh=ssthresh, cnt=cnt)
            yield _cubic_state("stack", t, last | {name: before[name] for name in _STACK})
            last = before
        match function:
            case "init":
                name, line = (
                    "init",
                    _line(
                        "i",
                        t=t,
                        j=j,
                        hz=_hz(pairs),
                        cwnd=before["snd_cwnd"],
                        una=before["snd_una"],
                        nxt=before["snd_nxt"],
                        paced=int(before["sk_pacing_status"] != _UNPACED),
                        hystart=1,
                        detect=3,
                        low=16,
                        delta=2000,
                        fast=1,
                        beta=717,
                        scale=41,
                        friendly=1,
                        issthresh=0,
                    ),
                )
            case "acked":
                name, line = (
                    "acked",
                    _line(
                        "a",
                        t=t,
                        j=j,
                        una=before["snd_una"],
                        nxt=before["snd_nxt"],
                        rate=before["sk_pacing_rate"],
                        rtt=before["rtt_us"],
                    ),
                )
            case "avoid":
                if after["cubic_last_time"] != before["cubic_last_time"]:
                    # A jiffy may end within a call: this is the one that it has read.
                    j = after["cubic_last_time"]
                name, line = (
                    "grow",
                    _line("g", t=t, j=j, acked=before["argument"], cwl=_is_cwnd_limited(before)),
                )
            case "ssthresh":
                name, line = "reduce", _line("h", t=t, j=j)
                # The stack takes the result as the threshold, and forgets the packets counted.
                after = after | {"snd_ssthresh": after["result"], "snd_cwnd_cnt": 0}
            case "undo":
                name, line = "undo", _line("u", t=t, j=j)
                after = after | {"snd_cwnd": after["result"]}
            case "state" if before["argument"] == _LOSS:
                name, line = "loss", _line("l", t=t, j=j, nxt=before["snd_nxt"])
            case "event" if before["argument"] == _TX_START:
                name, line = "txstart", _line("x", t=t, j=j, lsnd=before["lsndtime"])
            case _:
                continue
        yield line
        yield _cubic_state(name, t, after)
        last = after


def _is_cwnd_limited(call: Call) -> int:
    """Return tcp_is_cwnd_limited(): in slow start, twice the data in flight is enough."""
    if call["is_cwnd_limited"]:
        return 1
    slow_start = call["snd_cwnd"] < call["snd_ssthresh"]
    return int(slow_start and call["snd_cwnd"] < 2 * call["max_packets_out"])


def _cubic_state(name: str, t: int, call: Call) -> str:
    slow_start = call["snd_cwnd"] < call["snd_ssthresh"]
    return _line(
        "S",
        ev=name,
        t=t,
        mode="SLOW_START" if slow_start else "CONGESTION_AVOIDANCE",
        cnt=call["cubic_cnt"],
        last_max_cwnd=call["cubic_last_max_cwnd"],
        last_cwnd=call["cubic_last_cwnd"],
        last_time=call["cubic_last_time"],
        bic_origin_point=call["cubic_bic_origin_point"],
        bic_k=call["cubic_bic_K"],
        delay_min=call["cubic_delay_min"],
        epoch_start=call["cubic_epoch_start"],
        ack_cnt=call["cubic_ack_cnt"],
        tcp_cwnd=call["cubic_tcp_cwnd"],
        sample_cnt=call["cubic_sample_cnt"],
        found=call["cubic_found"],
        round_start=call["cubic_round_start"],
        end_seq=call["cubic_end_seq"],
        last_ack=call["cubic_last_ack"],
        curr_rtt=call["cubic_curr_rtt"],
        cwnd=call["snd_cwnd"],
        cwnd_cnt=call["snd_cwnd_cnt"],
        ssthresh=call["snd_ssthresh"],
        prior_cwnd=call["prior_cwnd"],
    )


def _reno(pairs: list[_Pair]) -> Iterator[str]:
    return _window(pairs, dctcp=False)


def _dctcp(pairs: list[_Pair]) -> Iterator[str]:
    return _window(pairs, dctcp=True)


def _window(pairs: list[_Pair], *, dctcp: bool) -> Iterator[str]:
    first = last = pairs[0].before
    t = first["tcp_mstamp"]
    yield _line(
        "n",
        t=t,
        j=_jiffies(first),
        cwnd=first["snd_cwnd"],
        ssthresh=first["snd_ssthresh"],
        mss=first["mss_cache"],
    )
    yield _window_state("init", t, first, dctcp=dctcp)
    for at, (function, before, after) in enumerate(pairs):
        t, j = before["tcp_mstamp"], _jiffies(before)
        if any(before[name] != last[name] for name in _STACK):
            cwnd, ssthresh, cnt = (before[name] for name in _STACK)
            ca = before["ca_state"]
            yield _line("k", t=t, j=j, cwnd=cwnd, ssthresh=ssthresh, cnt=cnt, ca=ca)
            yield _window_state("stack", t, before, dctcp=dctcp)
            last = before
        alpha = before["dctcp_dctcp_alpha"]
        state = before["argument"]
        match function:
            case "avoid":
                name, line = (
                    "grow",
                    _line(
                        "w",
                        t=t,
                        j=j,
                        acked=before["argument"],
                        cwl=_is_cwnd_limited(before),
                        ca=before["ca_state"],
                    ),
                )
            case "ssthresh":
                # The stack takes the result as the threshold, then changes its state.
                later = (p.before["argument"] for p in pairs[at:] if p.function == "stack")
                state = next(later, _UNKNOWN)
                if state == _UNKNOWN or (dctcp and state != _CWR):
                    # What follows a loss replaces it.
                    continue
                name, line = "reduce", _line("r", t=t, j=j, ca=state, alpha=alpha)
                after = after | {"snd_ssthresh": after["result"], "snd_cwnd_cnt": 0}
            case "state" if state == _RECOVERY and before["ca_state"] != _RECOVERY:
                name, line = "reduce", _line("r", t=t, j=j, ca=_RECOVERY, alpha=alpha)
            case "event" if state == _LOSS_EVENT:
                name, line = "reduce", _line("r", t=t, j=j, ca=_LOSS, alpha=alpha)
                after = after | {"snd_cwnd_cnt": 0}
            case "undo":
                name, line = "undo", _line("v", t=t, j=j)
                after = after | {"snd_cwnd": after["result"]}
            case "alpha" if after["dctcp_next_seq"] != before["dctcp_next_seq"]:
                delivered = before["delivered"] - before["dctcp_old_delivered"] & _U32
                marked = before["delivered_ce"] - before["dctcp_old_delivered_ce"] & _U32
                name, line = (
                    "alpha",
                    _line(
                        "d",
                        t=t,
                        j=j,
                        **{"from": alpha},
                        to=after["dctcp_dctcp_alpha"],
                        delivered=delivered,
                        marked=marked,
                    ),
                )
            case _:
                continue
        yield line
        yield _window_state(name, t, after, dctcp=dctcp)
        last = after


def _window_state(name: str, t: int, call: Call, *, dctcp: bool) -> str:
    slow_start = call["snd_cwnd"] < call["snd_ssthresh"]
    counted = {} if dctcp else {"cwnd_cnt": call["snd_cwnd_cnt"]}
    return _line(
        "S",
        ev=name,
        t=t,
        mode="SLOW_START" if slow_start else "CONGESTION_AVOIDANCE",
        cwnd=call["snd_cwnd"],
        **counted,
        ssthresh=call["snd_ssthresh"],
    )


_CONVERT = {"bbr": _bbr, "cubic": _cubic, "reno": _reno, "dctcp": _dctcp}
