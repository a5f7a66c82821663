//! Proportional rate reduction (RFC 9937), also with the bounds of RFC 6937.

use paceline_units::Recovery;

/// The bound on sending once less is in flight than the reduced window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// RFC 9937: packet conservation, and slow start on a safe acknowledgment.
    SafeAck,
    /// RFC 6937 PRR-CRB: packet conservation.
    Conservative,
    /// RFC 6937 PRR-SSRB: slow start.
    SlowStart,
}

impl Bound {
    /// The bound of a recovery algorithm; none without proportional rate reduction.
    pub(crate) const fn of(recovery: Recovery) -> Option<Self> {
        match recovery {
            Recovery::RackPrr | Recovery::Linux | Recovery::NewRenoPrr => Some(Self::SafeAck),
            Recovery::RackPrrCrb => Some(Self::Conservative),
            Recovery::RackPrrSsrb => Some(Self::SlowStart),
            Recovery::Rack | Recovery::Sack | Recovery::NewReno => None,
        }
    }
}

/// One episode of fast recovery. Volumes in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prr {
    /// The window that the controller reduced to.
    ssthresh: u64,
    /// `RecoverFS`: the data that may be delivered over the episode.
    recover_fs: u64,
    /// `prr_delivered`.
    delivered: u64,
    /// `prr_out`.
    out: u64,
    /// `sndcnt`, less the data sent since it was computed.
    allowance: u64,
    mss: u64,
    bound: Bound,
}

impl Prr {
    /// Enters recovery. `recover_fs` is `SND.NXT - SND.UNA`, less the data SACKed before the
    /// acknowledgment that starts recovery, plus the data that this one acknowledged.
    pub(crate) fn new(bound: Bound, ssthresh: u64, recover_fs: u64, mss: u32) -> Self {
        Self {
            ssthresh,
            recover_fs: recover_fs.max(1),
            delivered: 0,
            out: 0,
            // The first fast retransmit is sent at once, also when a timer found the loss.
            allowance: u64::from(mss),
            mss: u64::from(mss.max(1)),
            bound,
        }
    }

    /// An acknowledgment delivered `delivered` bytes and left `in_flight`.
    /// `safe` is `SafeACK`: it advanced the cumulative point and revealed no loss.
    #[inline]
    pub(crate) fn on_ack(&mut self, delivered: u64, in_flight: u64, safe: bool) {
        if delivered == 0 {
            return;
        }
        self.delivered = self.delivered.saturating_add(delivered);
        let sndcnt = if in_flight > self.ssthresh {
            // Proportional rate reduction, rounded up to whole segments: segments are never split,
            // and the RFC's ceiling is meant for implementations that count segments.
            let share = (u128::from(self.delivered) * u128::from(self.ssthresh))
                .div_ceil(u128::from(self.recover_fs) * u128::from(self.mss));
            let share = u64::try_from(share)
                .unwrap_or(u64::MAX)
                .saturating_mul(self.mss);
            share.saturating_sub(self.out)
        } else {
            let conserved = self.delivered.saturating_sub(self.out);
            let limit = match self.bound {
                Bound::Conservative => conserved,
                Bound::SafeAck if !safe => conserved.max(delivered),
                Bound::SafeAck | Bound::SlowStart => {
                    conserved.max(delivered).saturating_add(self.mss)
                }
            };
            limit.min(self.ssthresh - in_flight)
        };
        // Force a fast retransmit upon entering recovery.
        self.allowance = if self.out == 0 {
            sndcnt.max(self.mss)
        } else {
            sndcnt
        };
    }

    pub(crate) fn on_send(&mut self, len: u32) {
        self.out = self.out.saturating_add(u64::from(len));
        self.allowance = self.allowance.saturating_sub(u64::from(len));
    }

    /// The window that the episode allows with `in_flight` outstanding.
    pub(crate) fn window(&self, in_flight: u64) -> u64 {
        in_flight.saturating_add(self.allowance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// Answers each of `acks` SACKs with as many segments as the window allows: the number sent on
    /// each, and the pipe after it.
    fn replay(prr: &mut Prr, mut pipe: u64, acks: u64, safe: bool) -> (Vec<u64>, u64) {
        let mut sent = Vec::new();
        for _ in 0..acks {
            pipe -= 1;
            prr.on_ack(MSS, pipe * MSS, safe);
            let mut count = 0;
            while pipe * MSS + MSS <= prr.window(pipe * MSS) {
                prr.on_send(1000);
                pipe += 1;
                count += 1;
            }
            sent.push(count);
        }
        (sent, pipe)
    }

    /// RFC 6937 section 3.1: 20 in flight, one lost, window halved.
    #[test]
    fn one_loss_of_twenty_sends_on_alternate_acks_and_ends_at_ten() {
        let mut prr = Prr::new(Bound::SafeAck, 10 * MSS, 20 * MSS, 1000);
        // 19 segments are delivered; the loss leaves 19 in the pipe.
        let (sent, pipe) = replay(&mut prr, 19, 19, false);
        // At the 17th ACK the pipe reaches its target of ten: from there one is sent for each that
        // leaves.
        let mut expected: Vec<u64> = (1..=16).map(|ack| ack % 2).collect();
        expected.extend([0, 1, 1]);
        assert_eq!(sent, expected);
        assert_eq!(pipe, 10);
    }

    /// RFC 6937 section 3.1: 20 in flight, the first 15 lost: the pipe falls to 5 at once.
    #[test]
    fn fifteen_losses_of_twenty_conserve_packets() {
        let mut prr = Prr::new(Bound::SafeAck, 10 * MSS, 20 * MSS, 1000);
        let (sent, pipe) = replay(&mut prr, 5, 5, false);
        assert_eq!(sent, [1; 5]);
        assert_eq!(pipe, 5);
    }

    /// The same, with acknowledgments which show that the retransmissions get through: two segments
    /// per ACK, up to the reduced window.
    #[test]
    fn fifteen_losses_of_twenty_slow_start_when_it_is_safe() {
        let mut prr = Prr::new(Bound::SafeAck, 10 * MSS, 20 * MSS, 1000);
        let (sent, pipe) = replay(&mut prr, 5, 7, true);
        assert_eq!(sent, [2, 2, 2, 2, 2, 1, 1]);
        assert_eq!(pipe, 10);
    }

    /// RFC 6937 section 3.1, the same burst: the conservative bound sends one for each delivered,
    /// the slow-start bound two, safe or not.
    #[test]
    fn the_bounds_of_rfc_6937_after_fifteen_losses_of_twenty() {
        for (bound, expected) in [(Bound::Conservative, 1), (Bound::SlowStart, 2)] {
            let mut prr = Prr::new(bound, 10 * MSS, 20 * MSS, 1000);
            let (sent, pipe) = replay(&mut prr, 5, 5, false);
            assert_eq!(sent, [expected; 5]);
            assert_eq!(pipe, 5 * expected);
        }
    }

    /// RFC 6937 section 3.1 with one loss is the same for every bound: bounds apply only while less
    /// is in flight than the reduced window.
    #[test]
    fn the_bounds_do_not_matter_above_the_reduced_window() {
        let sent = |bound| {
            replay(
                &mut Prr::new(bound, 10 * MSS, 20 * MSS, 1000),
                19,
                16,
                false,
            )
        };
        assert_eq!(sent(Bound::Conservative), sent(Bound::SafeAck));
        assert_eq!(sent(Bound::SlowStart), sent(Bound::SafeAck));
    }

    #[test]
    fn an_ack_that_delivers_nothing_allows_nothing_new() {
        let mut prr = Prr::new(Bound::SafeAck, 10 * MSS, 20 * MSS, 1000);
        prr.on_send(1000);
        prr.on_ack(0, 18 * MSS, true);
        assert_eq!(prr.window(18 * MSS), 18 * MSS);
    }

    #[test]
    fn the_first_retransmission_is_never_refused() {
        let mut prr = Prr::new(Bound::SafeAck, MSS, 100 * MSS, 1000);
        prr.on_ack(1, 99 * MSS, false);
        assert_eq!(prr.window(99 * MSS), 100 * MSS);
    }
}
