//! Whether the window limited the sender (as Linux's `tcp_is_cwnd_limited`).

/// How much of the window was used over the last round.
///
/// A round lasts until the data sent before its start is acknowledged. It counts as limited if at
/// any time in it no further full segment fitted. It is judged when segments are sent, so the
/// acknowledgment that makes room does not change the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowUsage {
    limited: bool,
    max_in_flight: u64,
    /// The round ends when this is acknowledged.
    round: u64,
}

impl WindowUsage {
    /// A segment was sent: `in_flight` counts it, `next` is the next sequence.
    pub(crate) fn on_send(&mut self, una: u64, next: u64, in_flight: u64, cwnd: u64, mss: u32) {
        let full = in_flight.saturating_add(u64::from(mss)) > cwnd;
        self.judge(una, next, in_flight, full);
    }

    /// Data waits until the window has room for more of it.
    pub(crate) fn on_wait(&mut self, una: u64, next: u64, in_flight: u64) {
        self.judge(una, next, in_flight, true);
    }

    #[inline(always)]
    fn judge(&mut self, una: u64, next: u64, in_flight: u64, full: bool) {
        if full || una >= self.round || (!self.limited && in_flight > self.max_in_flight) {
            self.limited = full;
            self.max_in_flight = in_flight;
            self.round = next;
        }
    }

    /// In slow start a window that is more than half used counts as limiting,
    /// because the round may double it.
    pub(crate) fn is_limited(&self, cwnd: u64, ssthresh: Option<u64>) -> bool {
        let slow_start = ssthresh.is_some_and(|ssthresh| cwnd < ssthresh);
        self.limited || (slow_start && cwnd < self.max_in_flight.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_once_full_for_the_whole_round() {
        let mut usage = WindowUsage::default();
        usage.on_send(0, 100, 100, 300, 100);
        assert!(!usage.is_limited(300, None));
        usage.on_send(0, 300, 300, 300, 100);
        assert!(usage.is_limited(300, None));
        // Later in the round less is in flight: still limited.
        usage.on_send(200, 400, 200, 300, 100);
        assert!(usage.is_limited(300, None));
        // The round is over.
        usage.on_send(300, 500, 200, 300, 100);
        assert!(!usage.is_limited(300, None));
    }

    #[test]
    fn data_that_waits_for_room_is_limited() {
        let mut usage = WindowUsage::default();
        usage.on_send(0, 100, 100, 300, 100);
        usage.on_wait(0, 100, 100);
        assert!(usage.is_limited(300, None));
    }

    #[test]
    fn half_the_window_is_enough_in_slow_start() {
        let mut usage = WindowUsage::default();
        usage.on_send(0, 200, 200, 1000, 100);
        assert!(!usage.is_limited(1000, Some(u64::MAX)));
        usage.on_send(0, 600, 600, 1000, 100);
        assert!(usage.is_limited(1000, Some(u64::MAX)));
        assert!(!usage.is_limited(1000, Some(1000)));
    }
}
