//! The growth of Linux's receive window (`tcp_grow_window`, `tcp_rcv_space_adjust`). Here it only
//! affects acknowledgments: a segment that lets the window grow is acknowledged at once. In slow
//! start those are three quarters of all segments or more, so ACKs come twice as often.

use paceline_units::{Duration, Instant};

use crate::Segment;

/// The window at the start, and its limit then: half of `tcp_rmem[1]`.
const INITIAL: u64 = 65_536;
/// The segments that a round is expected to have (`TCP_INIT_CWND`).
const ROUND: u64 = 10;
/// Shorter segments do not let the window grow.
const SHORTEST: u32 = 128;

/// A receive window that grows, and its limit, which follows the data of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveWindow {
    /// `rcv_ssthresh` and `window_clamp`, in bytes.
    window: u64,
    limit: u64,
    /// `rcvq_space`: the bytes of the largest round so far, and where and when this one began.
    space: Option<u64>,
    from: u64,
    since: Instant,
    /// The smoothed RTT, and the shortest way of a segment.
    rtt: Option<Duration>,
    shortest: Duration,
}

impl Default for ReceiveWindow {
    fn default() -> Self {
        Self {
            window: INITIAL,
            limit: INITIAL,
            space: None,
            from: 0,
            since: Instant::ZERO,
            rtt: None,
            shortest: Duration::MAX,
        }
    }
}

impl ReceiveWindow {
    /// A segment arrived, and everything below `read` has been read. Returns whether the window
    /// grew.
    pub(crate) fn on_segment(&mut self, now: Instant, segment: &Segment, read: u64) -> bool {
        self.measure(now, segment);
        let room = self.limit.saturating_sub(self.window);
        let grows = room > 0 && segment.len >= SHORTEST;
        if grows {
            self.window += room.min(2 * u64::from(segment.len));
        }
        self.adjust(now, u64::from(segment.len), read);
        grows
    }

    /// `tcp_rcv_rtt_measure_ts`. The timestamp option tells a receiver when the ACK was sent that
    /// released the segment; here the way of an ACK takes as long as the shortest of a segment.
    fn measure(&mut self, now: Instant, segment: &Segment) {
        let way = now.since(segment.sent);
        self.shortest = self.shortest.min(way);
        let sample = way + self.shortest;
        self.rtt = Some(self.rtt.map_or(sample, |rtt| rtt - rtt / 8 + sample / 8));
    }

    /// `tcp_rcv_space_adjust`: the limit is twice what arrived in a round, and more while that
    /// grows.
    fn adjust(&mut self, now: Instant, mss: u64, read: u64) {
        if self.rtt.is_none_or(|rtt| now.since(self.since) < rtt) {
            return;
        }
        let space = self.space.unwrap_or(ROUND * mss).max(1);
        let copied = read.saturating_sub(self.from);
        if copied > space {
            let least = 2 * copied + 16 * mss;
            let more = u128::from(least) * u128::from(copied - space) / u128::from(space);
            let more = u64::try_from(more).unwrap_or(u64::MAX);
            let limit = least.saturating_add(more.saturating_mul(2));
            self.limit = self.limit.max(limit);
            self.space = Some(copied);
        }
        (self.from, self.since) = (read, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_congestion::Ecn;

    const MSS: u32 = 1000;

    fn segment(number: u64, sent: u64) -> Segment {
        Segment {
            seq: number * u64::from(MSS),
            len: MSS,
            ecn: Ecn::NotEct,
            cwr: false,
            push: false,
            sent: at(sent),
            retransmission: false,
        }
    }

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// How many of each round's segments let the window grow; a round takes 100 ms.
    fn rounds(counts: &[u64]) -> Vec<u64> {
        let mut window = ReceiveWindow::default();
        let mut number = 0;
        let mut grown = Vec::new();
        for (round, &count) in (1..).zip(counts) {
            let mut grew = 0;
            for _ in 0..count {
                let arrived = segment(number, round * 100 - 50);
                number += 1;
                let read = number * u64::from(MSS);
                grew += u64::from(window.on_segment(at(round * 100), &arrived, read));
            }
            grown.push(grew);
        }
        grown
    }

    /// By hand, in thousands of bytes. A round ends with the first segment of the next.
    ///
    /// 1, 2: ten were read in the first round, no more than expected.
    /// 3: twenty were: a limit of (40 + 16) (1 + 2 * 10 / 10) = 168; the 39 after the first grow.
    /// 4: the first grows, to 145.5; forty: (80 + 16) (1 + 2) = 288, 72 more.
    /// 5: eighty: (160 + 16) (1 + 2) = 528; the 79 after the first grow, to 446.
    /// 6: the rest, 41. No round is larger than that of eighty.
    #[test]
    fn it_grows_in_slow_start_and_stops() {
        let grew = rounds(&[10, 20, 40, 80, 80, 80, 80]);
        assert_eq!(grew, [0, 0, 39, 73, 79, 41, 0]);
    }
}
