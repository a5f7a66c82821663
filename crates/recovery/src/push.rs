//! The PSH flag as Linux sets it: on the last packet of each segmentation-offload burst
//! (`__tcp_transmit_skb`, `tcp_tso_autosize`).

use paceline_units::{Bytes, Duration, Instant};

/// The minimum burst.
const LEAST: u32 = 2;

/// Without a pacer, the data of this much time is sent at once: 1/1024 s (`sk_pacing_shift`).
pub(crate) const BURST: Duration = Duration::from_nanos(976_562);

/// Counts the packets of a burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bursts {
    at: Instant,
    packets: u32,
}

impl Bursts {
    /// A new segment of `mss` bytes is sent, as part of a burst of at most `size`; `more` may
    /// follow it. Returns whether it ends a burst of two or more.
    pub(crate) fn on_send(&mut self, now: Instant, size: Bytes, mss: u32, more: bool) -> bool {
        let limit = u32::try_from(size.get() / u64::from(mss.max(1))).unwrap_or(u32::MAX);
        if self.at != now {
            (self.at, self.packets) = (now, 0);
        }
        self.packets += 1;
        let ends = self.packets >= limit.max(LEAST) || !more;
        let pushed = ends && self.packets > 1;
        if ends {
            self.packets = 0;
        }
        pushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Of this many sent at the same time, those with the flag.
    fn pushed(bursts: &mut Bursts, now: Instant, count: u32, size: u64) -> Vec<u32> {
        let mut last = |n| bursts.on_send(now, Bytes::new(size), MSS, n < count);
        (1..=count).filter(|n| last(*n)).collect()
    }

    #[test]
    fn the_last_of_each_two_or_more_carries_it() {
        let mut bursts = Bursts::default();
        assert!(pushed(&mut bursts, at(1), 1, 0).is_empty());
        assert_eq!(pushed(&mut bursts, at(2), 2, 0), [2]);
        // The third is sent alone.
        assert_eq!(pushed(&mut bursts, at(3), 3, 2999), [2]);
        assert_eq!(pushed(&mut bursts, at(4), 5, 2999), [2, 4]);
        assert_eq!(pushed(&mut bursts, at(5), 5, 3000), [3, 5]);
        assert_eq!(pushed(&mut bursts, at(6), 5, u64::MAX), [5]);
    }

    #[test]
    fn a_later_packet_does_not_end_an_earlier_burst() {
        let mut bursts = Bursts::default();
        assert!(!bursts.on_send(at(1), Bytes::new(9000), MSS, true));
        assert!(!bursts.on_send(at(2), Bytes::new(9000), MSS, false));
    }
}
