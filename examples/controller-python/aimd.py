"""Additive increase, multiplicative decrease: the controller of examples/controller-c in Python.

RFC 5681's shape, without its refinements; the decrease is an option:

    paceline run FILE --controller mine=examples/controller-python/aimd.py
"""

from __future__ import annotations

import math

import paceline


class Aimd(paceline.Controller):
    """Grows by a packet a round trip, and keeps `beta_percent` of the window after a loss."""

    phases = ("Aimd",)
    phase = "Aimd"

    def __init__(self, config: paceline.Config, beta_percent: int = 50) -> None:
        self.mss = config.mss_bytes
        self.beta_percent = beta_percent
        self.threshold = math.inf
        self.acked = 0
        self.send_quantum_bytes = 2 * self.mss

    def on_ack(self, ack: paceline.Ack) -> None:
        if ack.ca_state == "Recovery" or not ack.cwnd_limited:
            return
        if self.cwnd_bytes < self.threshold:
            self.cwnd_bytes += ack.newly_acked_bytes
            return
        self.acked += ack.newly_acked_bytes
        if self.acked >= self.cwnd_bytes:
            self.acked -= int(self.cwnd_bytes)
            self.cwnd_bytes += self.mss

    def on_recovery_enter(self, now_ns: int, in_flight_bytes: int) -> None:
        kept = int(self.cwnd_bytes) * self.beta_percent // 100
        self.cwnd_bytes = self.threshold = max(kept, 2 * self.mss)
        self.acked = 0

    def on_timeout(self, now_ns: int, in_flight_bytes: int) -> None:
        self.on_recovery_enter(now_ns, in_flight_bytes)
