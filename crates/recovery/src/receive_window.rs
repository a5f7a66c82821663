//! The growth of Linux's receive window (`tcp_grow_window`, `tcp_rcv_space_adjust`). Here it only
//! affects acknowledgments: a segment that lets the window grow is acknowledged at once. In slow
//! start those are three quarters of all segments or more, so ACKs come twice as often.

use paceline_units::{Duration, Instant};

use crate::Segment;

/// The window at the start: 44 segments of 1460 bytes, half of `tcp_rmem[1]`.
const INITIAL: u64 = 64_240;
/// Its limit at the start: 160/256 of `tcp_rmem[1]` (`scaling_ratio`), as a packet's buffer takes 2304
/// bytes for 1448 of data.
const LIMIT: u64 = 81_920;
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
    since: Option<Instant>,
    way: Way,
}

/// How long segments take.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// When the first was sent, when the latest was, and when that arrived.
    first: Instant,
    sent: Instant,
    latest: Instant,
    smoothed: Duration,
    shortest: Duration,
    /// The least time between two arrivals: what the link takes to transmit one.
    spacing: Duration,
}

impl Default for ReceiveWindow {
    fn default() -> Self {
        Self {
            window: INITIAL,
            limit: LIMIT,
            space: None,
            from: 0,
            since: None,
            way: Way {
                first: Instant::ZERO,
                sent: Instant::ZERO,
                latest: Instant::ZERO,
                smoothed: Duration::ZERO,
                shortest: Duration::MAX,
                spacing: Duration::MAX,
            },
        }
    }
}

impl Way {
    fn on_segment(&mut self, now: Instant, sent: Instant) {
        let way = now.since(sent);
        if self.shortest == Duration::MAX {
            (self.first, self.sent, self.smoothed) = (sent, sent, way);
        } else {
            self.spacing = self.spacing.min(now.since(self.latest));
            // The others of the first flight, and of those that one ACK released, echo its time
            // again.
            if sent != self.sent && sent.since(self.first) >= self.rtt() {
                self.smoothed = self.smoothed - self.smoothed / 8 + way / 8;
            }
        }
        self.shortest = self.shortest.min(way);
        (self.latest, self.sent) = (now, sent);
    }

    /// How long an ACK takes: it is short, so it takes no time to transmit.
    fn back(&self) -> Duration {
        match self.spacing {
            Duration::MAX => self.shortest,
            spacing => self.shortest - spacing.min(self.shortest),
        }
    }

    /// `rcv_rtt_est`. The timestamp option tells a receiver when the ACK was sent that released a
    /// segment.
    fn rtt(&self) -> Duration {
        self.smoothed + self.back()
    }
}

impl ReceiveWindow {
    /// A segment arrived; if data is read then, it is everything below `read`. Returns whether the
    /// window grew.
    pub(crate) fn on_segment(
        &mut self,
        now: Instant,
        segment: &Segment,
        read: Option<u64>,
    ) -> bool {
        self.way.on_segment(now, segment.sent);
        let room = self.limit.saturating_sub(self.window);
        let grows = room > 0 && segment.len >= SHORTEST;
        if grows {
            self.window += room.min(2 * u64::from(segment.len));
        }
        if let Some(read) = read {
            self.adjust(now, u64::from(segment.len), read);
        }
        grows
    }

    /// `tcp_rcv_space_adjust`: the limit is twice what arrived in a round, and more while that
    /// grows.
    fn adjust(&mut self, now: Instant, mss: u64, read: u64) {
        // The first round begins with the handshake's ACK, just before the first segment.
        let since = self.since.unwrap_or(self.way.first + self.way.back());
        if now.since(since) < self.way.rtt() {
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
        (self.from, self.since) = (read, Some(now));
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
                let read = Some(number * u64::from(MSS));
                grew += u64::from(window.on_segment(at(round * 100), &arrived, read));
            }
            grown.push(grew);
        }
        grown
    }

    /// By hand, in thousands of bytes. A round ends with the first segment of the next.
    ///
    /// 1: nine grow, to the limit at the start, 81.9.
    /// 2: eleven were read: (22 + 16) (1 + 2 / 10) = 46, less than that.
    /// 3: twenty were: a limit of (40 + 16) (1 + 2 * 9 / 11) = 147.6, 33 more.
    /// 4: forty: (80 + 16) (1 + 2) = 288, 71 more.
    /// 5: eighty: (160 + 16) (1 + 2) = 528; the 79 after the first grow, to 446.
    /// 6: the rest, 41. No round is larger than that of eighty.
    #[test]
    fn it_grows_in_slow_start_and_stops() {
        let grew = rounds(&[10, 20, 40, 80, 80, 80, 80]);
        assert_eq!(grew, [9, 0, 33, 71, 79, 41, 0]);
    }
}
