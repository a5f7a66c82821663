"""Your own congestion controller.

    paceline run SCENARIO --controller mine=THIS_FILE --set flows.0.cc=mine

`python -m pydoc paceline.Controller` says what else it can hear and set; `paceline.Ack` and
`paceline.Loss` list what it is told. Volumes are in bytes, times in nanoseconds, rates in bit/s.
"""

import paceline


class Mine(paceline.Controller):
    """Grows by a packet a round trip, and gives way when a queue builds up or data is lost."""

    # Options are keyword arguments with defaults: cc = { name = "mine", target_ms = 10 }
    def __init__(self, config, beta=0.7, target_ms=20.0):
        self.mss = config.mss_bytes
        self.beta = beta
        self.target_ns = target_ms * 1e6
        self.slow_start = True
        # self.cwnd_bytes is the initial window already.

    def on_ack(self, ack):
        # In recovery the transport sets the window itself; an idle application proves nothing.
        if ack.ca_state == "Recovery" or not ack.cwnd_limited:
            return
        queueing_ns = (ack.rtt_ns or ack.min_rtt_ns) - ack.min_rtt_ns
        if self.slow_start and queueing_ns < self.target_ns:
            self.cwnd_bytes += ack.newly_acked_bytes
            return
        self.slow_start = False
        if queueing_ns < self.target_ns:
            self.cwnd_bytes += self.mss * ack.newly_acked_bytes / self.cwnd_bytes
        elif ack.round_start:
            self._reduce(0.95)
        # To pace: self.pacing_bps = 8e9 * self.cwnd_bytes / ack.srtt_ns

    def on_recovery_enter(self, now_ns, in_flight_bytes):
        self.slow_start = False
        self._reduce(self.beta)

    def on_timeout(self, now_ns, in_flight_bytes):
        self.slow_start = True
        self.cwnd_bytes = self.mss

    def state(self):
        # Columns of the record's table `samples`; a name ends in the unit of its number.
        return {"target_ns": self.target_ns, "slow_start": self.slow_start}

    def _reduce(self, factor):
        self.cwnd_bytes = max(factor * self.cwnd_bytes, 2 * self.mss)
