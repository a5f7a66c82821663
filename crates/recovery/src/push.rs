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
    granted_at: Instant,
    granted: u64,
}

/// What decides whether new data waits for a larger burst; all in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// What both windows allow now.
    pub(crate) limit: u64,
    /// The smaller window.
    pub(crate) window: u64,
    /// The largest burst.
    pub(crate) burst: u64,
    /// The rest of the buffer that is sent from.
    pub(crate) rest: u64,
}

/// Full segments in a buffer: as many as fit into 64 kB with their headers.
pub(crate) const BUFFER: u64 = 45;

/// Data waits for an ACK that is due within this time, or half the smoothed RTT if that is shorter.
/// Kernels before the end of 2025 (6.1.158, 6.12.55, 6.18) compare with half the smoothed RTT only.
pub(crate) const SOON: Duration = Duration::from_millis(1);

/// After a pause of this length nothing waits.
const PAUSE: Duration = Duration::from_millis(1);

impl Bursts {
    /// Takes a segment of `len` bytes from the burst that has been granted, if it is part of one.
    pub(crate) fn take(&mut self, now: Instant, len: u64) -> bool {
        let rest = self.granted.checked_sub(len);
        let part = rest.filter(|_| self.granted_at == now);
        self.granted = part.unwrap_or(0);
        part.is_some()
    }

    /// Whether new data waits: there is room neither for a full burst, nor for a third of the window
    /// (`tcp_tso_win_divisor`), nor for the rest of a buffer. Otherwise what there is room for is
    /// granted.
    pub(crate) fn waits(&mut self, now: Instant, sent: Option<Instant>, room: Room) -> bool {
        let recent = sent.is_some_and(|sent| now.since(sent) <= PAUSE);
        let waits = recent && room.limit < room.burst.min(room.window / 3).min(room.rest);
        if !waits {
            (self.granted_at, self.granted) = (now, room.limit.min(room.burst).min(room.rest));
        }
        waits
    }

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
    fn new_data_waits_for_a_burst_or_a_third_of_the_window() {
        let mut bursts = Bursts::default();
        let room = |limit, window| Room {
            limit,
            window,
            burst: 8000,
            rest: 65_000,
        };
        // A burst of eight, though the window is large; a third of a small one.
        assert!(bursts.waits(at(1), Some(at(1)), room(7999, 90_000)));
        assert!(!bursts.waits(at(1), Some(at(1)), room(9000, 90_000)));
        assert!(bursts.waits(at(1), Some(at(1)), room(3999, 12_000)));
        assert!(!bursts.waits(at(1), Some(at(1)), room(4000, 12_000)));
        // All four of them leave, at that time only.
        assert!((0..3).all(|_| bursts.take(at(1), 1000)));
        assert!(!bursts.take(at(2), 1000));
        // The last two segments of a buffer, and no more.
        let rest = 2000;
        assert!(!bursts.waits(
            at(2),
            Some(at(2)),
            Room {
                rest,
                ..room(3000, 90_000)
            }
        ));
        assert!(bursts.take(at(2), 1000) && bursts.take(at(2), 1000));
        assert!(!bursts.take(at(2), 1000));
        // After a pause, or at the start, whatever there is room for leaves.
        assert!(!bursts.waits(at(3), Some(at(1)), room(1000, 90_000)));
        assert!(!bursts.waits(at(3), None, room(1000, 90_000)));
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
