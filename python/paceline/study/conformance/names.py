"""The names of the draft's states and variables in other implementations of BBRv3."""

from __future__ import annotations

from dataclasses import dataclass, field

#: The draft's names of BBR's states.
STATES = (
    *("Startup", "Drain", "ProbeRTT"),
    *("ProbeBW_DOWN", "ProbeBW_CRUISE", "ProbeBW_REFILL", "ProbeBW_UP"),
)


@dataclass(frozen=True)
class Names:
    """A controller's own names, and the draft's."""

    #: States, from the draft's name.
    states: dict[str, str] = field(default_factory=dict)
    #: Columns of the record, to the draft's name.
    columns: dict[str, str] = field(default_factory=dict)
    #: Columns of `bbr3` that it lacks, and what it does instead.
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def drafts(self) -> dict[str, str]:
        """The draft's states, from its own names."""
        return {own: draft for draft, own in self.states.items()}


_LINUX = Names(
    states={state: state.replace("Probe", "Probe_").upper() for state in STATES},
    columns={
        "inflight_hi_bytes": "inflight_longterm_bytes",
        "inflight_lo_bytes": "inflight_shortterm_bytes",
        "bw_lo_bps": "bw_shortterm_bps",
        "full_bw_cnt": "full_bw_count",
        "loss_in_round": "is_loss_in_round",
        "stopped_risky_probe": "prev_probe_precautionary",
        "probe_wait_ns": "bw_probe_wait_ns",
    },
    absent={
        "round_count": "Linux marks the start of rounds but does not count them",
        "drain_start_round": "Linux's DRAIN ends on inflight alone",
        "cycle_count": "Linux advances its max filter without a counter",
        "bdp_bytes": "Linux computes the BDP on use and does not store it",
        "inflight_at_bw_bytes": "Linux computes the BDP on use and does not store it",
        "inflight_at_max_bw_bytes": "Linux computes the BDP on use and does not store it",
        "inflight_with_headroom_bytes": "Linux computes headroom on use and does not store it",
        "max_inflight_bytes": "Linux computes its target window and does not store it",
        "probe_rtt_min_stamp_ns": "Linux's timestamp is in jiffies and not in the record",
        "probe_up_acked_per_inc_bytes": "Linux counts in packets: bw_probe_up_cnt",
        "undo_bw_shortterm_bps": "Linux's undo_bw_lo is not in the record",
        "undo_inflight_shortterm_bytes": "Linux's undo_inflight_lo is not in the record",
        "undo_inflight_longterm_bytes": "Linux's undo_inflight_hi is not in the record",
        "undo_state": "Linux restores the values but not the previous state",
    },
)

#: By controller; one without an entry uses the draft's names.
NAMES = {"bbr3-linux": _LINUX}
