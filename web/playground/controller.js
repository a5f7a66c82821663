// Additive increase, multiplicative decrease, paced.
// Volumes are in bytes, times in nanoseconds, rates in bit/s.
// Options: cc = { name = "mine", beta = 0.7 }
export default class {
  static phases = ["slow_start", "avoidance"];

  constructor(config, { beta = 0.5 } = {}) {
    this.mss = config.mss_bytes;
    this.beta = beta;
    this.cwnd_bytes = config.initial_window_bytes;
    this.phase = "slow_start";
  }

  on_ack(ack) {
    if (!ack.cwnd_limited || ack.ca_state !== "Open") return;
    if (this.phase === "slow_start") this.cwnd_bytes += ack.newly_acked_bytes;
    else this.cwnd_bytes += (ack.newly_acked_bytes * this.mss) / this.cwnd_bytes;
    if (ack.srtt_ns) this.pacing_bps = (1.2 * 8e9 * this.cwnd_bytes) / ack.srtt_ns;
  }

  on_recovery_enter(now_ns, in_flight_bytes) {
    this.phase = "avoidance";
    this.cwnd_bytes = Math.max(this.beta * this.cwnd_bytes, 2 * this.mss);
  }

  on_timeout() {
    this.cwnd_bytes = this.mss;
  }

  // Columns of the record.
  state() {
    return { half_bytes: this.cwnd_bytes / 2 };
  }
}
