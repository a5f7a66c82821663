"""Additive increase, multiplicative decrease: the controller of examples/controller-c in Python.

RFC 5681's shape, without slow start's refinements; the decrease is an option:

    paceline run FILE --controller mine=examples/controller-python/aimd.py
"""

from __future__ import annotations

import paceline


class Aimd(paceline.Controller):
    """Grows by a packet a round trip, and keeps `beta_percent` of the window after a loss."""

    phases = ("SlowStart", "CongestionAvoidance")

    def __init__(self, config: paceline.Config, beta_percent: int = 50) -> None:
        self.mss = config.mss_bytes
        self.beta_percent = beta_percent
        self.acked = 0
        self.send_quantum_bytes = 2 * self.mss
        self.phase = "SlowStart"

    def on_ack(self, ack: paceline.Ack) -> None:
        if ack.ca_state == "Recovery" or not ack.cwnd_limited:
            return
        if self.phase == "SlowStart":
            self.cwnd_bytes += ack.newly_acked_bytes
            self._settle()
            return
        self.acked += ack.newly_acked_bytes
        if self.acked >= self.cwnd_bytes:
            self.acked -= int(self.cwnd_bytes)
            self.cwnd_bytes += self.mss

    def on_recovery_enter(self, now_ns: int, in_flight_bytes: int) -> None:
        self._reduce()
        self.cwnd_bytes = self.ssthresh_bytes or 0
        self._settle()

    def on_timeout(self, now_ns: int, in_flight_bytes: int) -> None:
        self._reduce()
        self.cwnd_bytes = self.mss
        self._settle()

    def on_mss(self, mss_bytes: int) -> None:
        self.mss = mss_bytes

    def state(self) -> dict[str, float | None]:
        return {"acked_bytes": self.acked}

    def _reduce(self) -> None:
        reduced = int(self.cwnd_bytes) * self.beta_percent // 100
        self.ssthresh_bytes = max(reduced, 2 * self.mss)
        self.acked = 0

    def _settle(self) -> None:
        below = self.ssthresh_bytes is None or self.cwnd_bytes < self.ssthresh_bytes
        self.phase = "SlowStart" if below else "CongestionAvoidance"
