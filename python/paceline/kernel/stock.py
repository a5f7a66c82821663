"""Golden traces of a kernel's own controllers, from the calls that the recorder logged.

A trace has the format of `data/conformance/linux-bbr` or `data/conformance/linux-cubic`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import resources
from itertools import dropwhile
from typing import NamedTuple

from paceline.errors import RunError
from paceline.kernel import bpf

#: The recorder's object.
OBJECT = "paceline_stock.o"
#: `enum function` of `linux/kernel/stock.h`.
_FUNCTIONS = (
    *("init", "main", "ssthresh", "undo", "state"),
    *("event", "avoid", "acked", "alpha", "stack"),
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
        call = _derived(call)
        if not call["after"]:
            begun.append(call)
        elif not begun or begun[-1]["function"] != call["function"]:
            raise RunError(f"call {number} of the recorder ends without a beginning")
        else:
            yield _Pair(_FUNCTIONS[call["function"]], begun.pop(), call)


def _derived(call: Call) -> Call:
    """Return a call with what the stack and the traces compute of its fields."""
    # tcp_is_cwnd_limited(): in slow start, twice the data in flight is enough.
    slow_start = call["snd_cwnd"] < call["snd_ssthresh"]
    limited = slow_start and call["snd_cwnd"] < 2 * call["max_packets_out"]
    return call | {
        "j": call["jiffies"] & _U32,
        "srtt": call["srtt_us"] >> 3,
        "cwl": int(call["is_cwnd_limited"] != 0 or limited),
        "paced": int(call["sk_pacing_status"] != _UNPACED),
    }


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
    measured = (last["jiffies"] - first["jiffies"]) / max(seconds, 1e-9)
    return min((100, 250, 300, 1000), key=lambda hz: abs(hz - measured))


def _state(form: str, name: str, t: int, call: Call) -> str:
    """Return the state of a window after an event."""
    slow_start = call["snd_cwnd"] < call["snd_ssthresh"]
    mode = "SLOW_START" if slow_start else "CONGESTION_AVOIDANCE"
    return form.format_map(call | {"ev": name, "t": t, "mode": mode})


#: By function, the event of BBR and its line.
_BBR = {
    "init": (
        "init",
        "I t={tcp_mstamp} j={j} hz={hz} d={delivered} cwnd={snd_cwnd} mss={mss_cache} srtt={srtt} "
        "minrtt={rtt_min} ecn_flags=0",
    ),
    "main": (
        "ack",
        "A t={tcp_mstamp} j={j} d={delivered} dce={delivered_ce} dmst={delivered_mstamp} "
        "lost={lost} pout={packets_out} lout={lost_out} sout={sacked_out} rout={retrans_out} "
        "cwl={is_cwnd_limited} ca={ca_state} wst={tcp_wstamp_ns} srtt={srtt} mrtt={rtt_min} "
        "apl={app_limited} rs.del={rs_delivered} rs.int={rs_interval_us} "
        "rs.pdel={rs_prior_delivered} rs.txif=0 rs.lost=0 rs.rtt={rs_rtt_us} "
        "rs.acked={rs_acked_sacked} rs.losses={rs_losses} rs.pif={rs_prior_in_flight} "
        "rs.dce={rs_delivered_ce} rs.app={rs_is_app_limited} rs.ece=0 "
        "rs.ackdel={rs_is_ack_delayed} rs.tlp=0",
    ),
    "ssthresh": ("ssthresh", "H t={tcp_mstamp} j={j}"),
    "state": ("castate", "C t={tcp_mstamp} j={j} ca={argument} cwnd={snd_cwnd}"),
    "undo": ("undo", "U t={tcp_mstamp} j={j}"),
    "event": ("txstart", "X t={tcp_mstamp} j={j} apl={app_limited}"),
}
_BBR_STATE = (
    "S ev={ev} t={t} mode={mode} cwnd={snd_cwnd} pacing={sk_pacing_rate} pg={bbr_pacing_gain} "
    "cg={bbr_cwnd_gain} bw={bw} maxbw={bbr_bw} minrtt={bbr_min_rtt_us} rstart={bbr_round_start} "
    "fullbw={bbr_full_bw} cnt={bbr_full_bw_cnt} full={bbr_full_bw_reached} "
    "prior_cwnd={bbr_prior_cwnd} xacked={xacked} idle={bbr_idle_restart} rtt_cnt={bbr_rtt_cnt} "
    "lt_use={bbr_lt_use_bw} lt_bw={bbr_lt_bw} lt_rtt={bbr_lt_rtt_cnt} "
    "pktcons={bbr_packet_conservation}"
)


def _bbr(pairs: list[_Pair]) -> Iterator[str]:
    shown, hz = False, _hz(pairs)
    for function, before, after in pairs:
        if function not in _BBR or (function == "event" and before["argument"] != _TX_START):
            continue
        name, line = _BBR[function]
        shown = shown or function == "main"
        yield line.format(**before, hz=hz)
        mode = after["bbr_mode"]
        if mode == 2 != before["bbr_mode"]:
            # The phase is drawn, then advanced (bbr_reset_probe_bw_mode).
            yield f"R below={_CYCLE - 1} drew={-after['bbr_cycle_idx'] % _CYCLE}"
        if not shown:
            # The ACK of the SYN has set the gains, which the first ACK of data sets again.
            continue
        phase = after["bbr_cycle_idx"] if mode == 2 else 0
        shown_state = {
            "ev": name,
            "t": before["tcp_mstamp"],
            "mode": f"{_BBR_MODES[mode]}/{phase}",
            "bw": after["bbr_lt_bw"] if after["bbr_lt_use_bw"] else after["bbr_bw"],
            "xacked": max(after["bbr_extra_acked_0"], after["bbr_extra_acked_1"]),
        }
        yield _BBR_STATE.format_map(after | shown_state)


#: Fields that the stack sets between calls.
_STACK = ("snd_cwnd", "snd_ssthresh", "snd_cwnd_cnt")
_STACK_SETS = "t={tcp_mstamp} j={j} cwnd={snd_cwnd} ssthresh={snd_ssthresh} cnt={snd_cwnd_cnt}"

_CUBIC = {
    "init": (
        "init",
        "i t={tcp_mstamp} j={j} hz={hz} cwnd={snd_cwnd} una={snd_una} nxt={snd_nxt} paced={paced} "
        "hystart=1 detect=3 low=16 delta=2000 fast=1 beta=717 scale=41 friendly=1 issthresh=0",
    ),
    "acked": (
        "acked",
        "a t={tcp_mstamp} j={j} una={snd_una} nxt={snd_nxt} rate={sk_pacing_rate} rtt={rtt_us}",
    ),
    "avoid": ("grow", "g t={tcp_mstamp} j={j} acked={argument} cwl={cwl}"),
    "ssthresh": ("reduce", "h t={tcp_mstamp} j={j}"),
    "undo": ("undo", "u t={tcp_mstamp} j={j}"),
    "state": ("loss", "l t={tcp_mstamp} j={j} nxt={snd_nxt}"),
    "event": ("txstart", "x t={tcp_mstamp} j={j} lsnd={lsndtime}"),
}
_CUBIC_STATE = (
    "S ev={ev} t={t} mode={mode} cnt={cubic_cnt} last_max_cwnd={cubic_last_max_cwnd} "
    "last_cwnd={cubic_last_cwnd} last_time={cubic_last_time} "
    "bic_origin_point={cubic_bic_origin_point} bic_k={cubic_bic_K} delay_min={cubic_delay_min} "
    "epoch_start={cubic_epoch_start} ack_cnt={cubic_ack_cnt} tcp_cwnd={cubic_tcp_cwnd} "
    "sample_cnt={cubic_sample_cnt} found={cubic_found} round_start={cubic_round_start} "
    "end_seq={cubic_end_seq} last_ack={cubic_last_ack} curr_rtt={cubic_curr_rtt} cwnd={snd_cwnd} "
    "cwnd_cnt={snd_cwnd_cnt} ssthresh={snd_ssthresh} prior_cwnd={prior_cwnd}"
)


def _cubic(pairs: list[_Pair]) -> Iterator[str]:
    last: Call = {}
    hz = _hz(pairs)
    needed = {"state": _LOSS, "event": _TX_START}
    for function, before, after in pairs:
        t = before["tcp_mstamp"]
        if last and any(before[name] != last[name] for name in _STACK):
            yield f"s {_STACK_SETS}".format_map(before)
            stack = last | {name: before[name] for name in _STACK}
            yield _state(_CUBIC_STATE, "stack", t, stack)
            last = before
        if function not in _CUBIC or before["argument"] != needed.get(function, before["argument"]):
            continue
        name, line = _CUBIC[function]
        if function == "avoid" and after["cubic_last_time"] != before["cubic_last_time"]:
            # A jiffy may end within a call: this is the one that it has read.
            before = before | {"j": after["cubic_last_time"]}
        yield line.format(**before, hz=hz)
        last = after | _results(function, after)
        yield _state(_CUBIC_STATE, name, t, last)


def _results(function: str, after: Call) -> Call:
    """Return what the stack takes from the result of a call."""
    if function == "ssthresh":
        # And it forgets the packets counted.
        return {"snd_ssthresh": after["result"], "snd_cwnd_cnt": 0}
    return {"snd_cwnd": after["result"]} if function == "undo" else {}


_WINDOW = {
    "avoid": ("grow", "w t={tcp_mstamp} j={j} acked={argument} cwl={cwl} ca={ca_state}"),
    "ssthresh": ("reduce", "r t={tcp_mstamp} j={j} ca={ca} alpha={dctcp_dctcp_alpha}"),
    "undo": ("undo", "v t={tcp_mstamp} j={j}"),
    "alpha": (
        "alpha",
        "d t={tcp_mstamp} j={j} from={dctcp_dctcp_alpha} to={to} delivered={since} marked={marked}",
    ),
}
_WINDOW_STATE = "S ev={ev} t={t} mode={mode} cwnd={snd_cwnd} ssthresh={snd_ssthresh}"


def _window(pairs: list[_Pair], *, dctcp: bool) -> Iterator[str]:
    """Yield the lines of Reno or DCTCP."""
    form = _WINDOW_STATE
    if not dctcp:
        form = form.replace("ssthresh=", "cwnd_cnt={snd_cwnd_cnt} ssthresh=")
    last = pairs[0].before
    opened = "n t={tcp_mstamp} j={j} cwnd={snd_cwnd} ssthresh={snd_ssthresh} mss={mss_cache}"
    yield opened.format_map(last)
    yield _state(form, "init", last["tcp_mstamp"], last)
    for at, (function, before, after) in enumerate(pairs):
        t, state = before["tcp_mstamp"], before["argument"]
        if any(before[name] != last[name] for name in _STACK):
            yield f"k {_STACK_SETS} ca={{ca_state}}".format_map(before)
            yield _state(form, "stack", t, before)
            last = before
        name, line = _WINDOW.get(function, _WINDOW["ssthresh"])
        more: Call = {}
        after = after | _results(function, after)
        match function:
            case "ssthresh":
                # The stack takes the result as the threshold, then changes its state.
                later = (p.before["argument"] for p in pairs[at:] if p.function == "stack")
                more["ca"] = next(later, _UNKNOWN)
                if more["ca"] == _UNKNOWN or (dctcp and more["ca"] != _CWR):
                    # What follows a loss replaces it.
                    continue
            case "state" if state == _RECOVERY and before["ca_state"] != _RECOVERY:
                more["ca"] = _RECOVERY
            case "event" if state == _LOSS_EVENT:
                more["ca"] = _LOSS
                after["snd_cwnd_cnt"] = 0
            case "alpha" if after["dctcp_next_seq"] != before["dctcp_next_seq"]:
                more["to"] = after["dctcp_dctcp_alpha"]
                more["since"] = before["delivered"] - before["dctcp_old_delivered"] & _U32
                more["marked"] = before["delivered_ce"] - before["dctcp_old_delivered_ce"] & _U32
            case "avoid" | "undo":
                pass
            case _:
                continue
        yield line.format_map(before | more)
        yield _state(form, name, t, after)
        last = after


_CONVERT: dict[str, Callable[[list[_Pair]], Iterator[str]]] = {
    "bbr": _bbr,
    "cubic": _cubic,
    "reno": partial(_window, dctcp=False),
    "dctcp": partial(_window, dctcp=True),
}
