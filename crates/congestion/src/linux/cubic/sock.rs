//! The interface between Linux's stack and CUBIC.

/// No threshold (`TCP_INFINITE_SSTHRESH`).
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The fields of Linux's socket that CUBIC reads and writes.
///
/// Counts are in packets and wrap at 2^32.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sock {
    /// The time in microseconds, modulo 2^32 (`tcp_mstamp`).
    pub now: u32,
    /// The time in ticks of the kernel's clock (`tcp_jiffies32`).
    pub jiffies: u32,
    /// When data was last sent, in jiffies (`lsndtime`).
    pub lsndtime: u32,
    /// Congestion window (`snd_cwnd`).
    pub cwnd: u32,
    /// Packets acknowledged towards the next growth of the window (`snd_cwnd_cnt`).
    pub cwnd_cnt: u32,
    /// Slow-start threshold (`snd_ssthresh`).
    pub ssthresh: u32,
    /// The window before the last reduction (`prior_cwnd`).
    pub prior_cwnd: u32,
    /// The cumulative acknowledgment, a sequence number (`snd_una`).
    pub snd_una: u32,
    /// The next sequence number to send (`snd_nxt`).
    pub snd_nxt: u32,
    /// Bytes per second at which the stack would pace (`sk_pacing_rate`).
    pub pacing_rate: u64,
    /// Whether something paces at that rate (`sk_pacing_status`).
    pub is_paced: bool,
    /// Whether the window limits the sender (`tcp_is_cwnd_limited`).
    pub is_cwnd_limited: bool,
}

impl Sock {
    /// `tcp_in_slow_start`.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The stack reduces the window: `ssthresh` is the value that the algorithm has returned
    /// (`tcp_init_cwnd_reduction`, `tcp_enter_loss`).
    pub fn begin_reduction(&mut self, ssthresh: u32) {
        self.prior_cwnd = self.cwnd;
        self.ssthresh = ssthresh;
        self.cwnd_cnt = 0;
    }

    /// The window after a reduction that was spurious (`tcp_reno_undo_cwnd`).
    pub fn undo_cwnd(&self) -> u32 {
        self.cwnd.max(self.prior_cwnd)
    }

    /// Slow start; returns the packets that are left for congestion avoidance (`tcp_slow_start`).
    pub(super) fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }

    /// One more packet for each `cnt` acknowledged (`tcp_cong_avoid_ai`).
    pub(super) fn avoid_congestion(&mut self, cnt: u32, acked: u32) {
        let cnt = cnt.max(1);
        // Credit gathered while growth was slower counts for one packet, not more.
        if self.cwnd_cnt >= cnt {
            self.cwnd_cnt = 0;
            self.cwnd = self.cwnd.saturating_add(1);
        }
        self.cwnd_cnt = self.cwnd_cnt.saturating_add(acked);
        let growth = self.cwnd_cnt / cnt;
        self.cwnd_cnt -= growth * cnt;
        self.cwnd = self.cwnd.saturating_add(growth);
    }
}
