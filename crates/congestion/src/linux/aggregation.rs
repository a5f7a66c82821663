//! How many more packets ACKs deliver in a burst than the bandwidth explains.

use super::arithmetic::{BBR_SCALE, elapsed, packets_in};
use super::{RateSample, Socket};

/// The maximum count of an epoch (20 bits).
const MAX_EPOCH_ACKED: u32 = 0xf_ffff;
/// A bonus is at most the data that the bandwidth delivers in this time, in microseconds.
const EXTRA_ACKED_MAX_US: u64 = 100_000;

/// The windowed maximum of data acknowledged beyond expectation: two
/// slots of some rounds each.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckAggregation {
    epoch_mstamp: u64,
    epoch_acked: u32,
    extra_acked: [u16; 2],
    win_rtts: u8,
    second_slot: bool,
}

impl AckAggregation {
    /// Starts an epoch now.
    pub fn restart(&mut self, now: u64) {
        self.epoch_mstamp = now;
        self.epoch_acked = 0;
    }

    /// The maximum of both slots, in packets.
    pub fn extra_acked(&self) -> u32 {
        u32::from(self.extra_acked[0].max(self.extra_acked[1]))
    }

    /// Its addition to the window, in packets.
    pub fn cwnd_bonus(&self, bw: u32, gain: u32) -> u32 {
        (gain.wrapping_mul(self.extra_acked()) >> BBR_SCALE).min(packets_in(bw, EXTRA_ACKED_MAX_US))
    }

    /// Processes an ACK; a slot lasts `slot_rtts` rounds.
    pub fn update(
        &mut self,
        sk: &Socket,
        rs: &RateSample,
        bw: u32,
        round_start: bool,
        slot_rtts: u8,
    ) {
        if rs.acked_sacked == 0 || rs.delivered < 0 || rs.interval_us <= 0 {
            return;
        }
        if round_start {
            self.win_rtts = (self.win_rtts + 1).min(31);
            if self.win_rtts >= slot_rtts {
                self.win_rtts = 0;
                self.second_slot = !self.second_slot;
                *self.slot() = 0;
            }
        }
        let epoch = elapsed(sk.delivered_mstamp, self.epoch_mstamp);
        let mut expected = packets_in(bw, u64::from(epoch));
        let acked = self.epoch_acked.wrapping_add(rs.acked_sacked);
        if self.epoch_acked <= expected || acked > MAX_EPOCH_ACKED {
            self.restart(sk.delivered_mstamp);
            expected = 0;
        }
        self.epoch_acked = self
            .epoch_acked
            .wrapping_add(rs.acked_sacked)
            .min(MAX_EPOCH_ACKED);
        let extra = self.epoch_acked.wrapping_sub(expected).min(sk.cwnd);
        let slot = self.slot();
        if extra > u32::from(*slot) {
            *slot = extra as u16;
        }
    }

    fn slot(&mut self) -> &mut u16 {
        let [first, second] = &mut self.extra_acked;
        if self.second_slot { second } else { first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_beyond_the_bandwidth_counts() {
        let mut aggregation = AckAggregation::default();
        let bw = 1 << 14; // a packet each 1024 us
        let mut sk = Socket {
            cwnd: 100,
            delivered_mstamp: 1_000_000,
            ..Socket::default()
        };
        let rs = RateSample {
            acked_sacked: 8,
            delivered: 8,
            interval_us: 8_192,
            ..RateSample::default()
        };
        aggregation.update(&sk, &rs, bw, false, 5);
        assert_eq!(aggregation.extra_acked(), 8);
        sk.delivered_mstamp += 1_024;
        aggregation.update(&sk, &rs, bw, false, 5);
        assert_eq!(aggregation.extra_acked(), 15);
        assert_eq!(aggregation.cwnd_bonus(bw, 256), 15);
        // Ten rounds with no aggregation empty both slots.
        for _ in 0..10 {
            sk.delivered_mstamp += 10_000_000;
            let one = RateSample {
                acked_sacked: 1,
                ..rs
            };
            aggregation.update(&sk, &one, bw, true, 5);
        }
        assert_eq!(aggregation.extra_acked(), 1);
    }
}
