//! The growth of Linux's receive window (`tcp_grow_window`, `tcp_rcv_space_adjust`). A segment that
//! lets it grow is acknowledged at once: in slow start those are three quarters of all segments or
//! more, so ACKs come twice as often. The window itself limits a sender that has to wait for
//! retransmissions.

use paceline_units::{Duration, Instant};

use crate::Segment;

/// The window at the start: 44 segments of 1460 bytes, half of `tcp_rmem[1]`.
const INITIAL: u64 = 64_240;
/// The share of the memory that the window may take, in 256ths (`scaling_ratio`): a packet takes
/// 2304 bytes for 1448 of data.
const RATIO: u64 = 160;
/// Its limit at the start, of `tcp_rmem[1]`.
const LIMIT: u64 = 131_072 * RATIO / 256;
/// The segments that a round is expected to have (`TCP_INIT_CWND`).
const ROUND: u64 = 10;
/// The timestamps count in these.
const TICK: Duration = Duration::from_millis(1);
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
    /// When the first was sent, and the latest that was measured.
    first: Instant,
    sent: Instant,
    /// When the latest arrived.
    latest: Instant,
    smoothed: Duration,
    shortest: Duration,
    /// The least time between two arrivals: what the link takes to transmit one.
    spacing: Duration,
    /// How long the latest ACK took, if that is known; zero otherwise.
    returned: Duration,
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
                returned: Duration::ZERO,
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
            // The others of the first flight, and those sent within a tick of the timestamps, echo a
            // time again.
            if sent.since(self.sent) >= TICK && sent.since(self.first) >= self.rtt() {
                let way = way + self.waited();
                self.smoothed = self.smoothed - self.smoothed / 8 + way / 8;
                self.sent = sent;
            }
        }
        self.shortest = self.shortest.min(way);
        self.latest = now;
    }

    /// How long an ACK takes that does not wait: it is short, so it takes no time to transmit.
    fn back(&self) -> Duration {
        match self.spacing {
            Duration::MAX => self.shortest,
            spacing => self.shortest - spacing.min(self.shortest),
        }
    }

    /// How much longer the latest ACK took.
    fn waited(&self) -> Duration {
        self.returned - self.back().min(self.returned)
    }

    /// `rcv_rtt_est`. The timestamp option tells a receiver when the ACK was sent that released a
    /// segment.
    fn rtt(&self) -> Duration {
        self.smoothed + self.back()
    }
}

impl ReceiveWindow {
    /// An ACK has reached the sender after so long.
    pub(crate) fn on_returned(&mut self, delay: Duration) {
        self.way.returned = delay;
    }

    /// The window with so many bytes held out of order. Their buffers share headers, so they take
    /// hardly more memory than the data.
    pub(crate) fn offers(&self, out_of_order: u64) -> u64 {
        self.window.min(self.space(out_of_order))
    }

    fn space(&self, out_of_order: u64) -> u64 {
        self.limit.saturating_sub(out_of_order * RATIO / 256)
    }

    /// A segment arrived while so many bytes were held; if data is read then, it is everything below
    /// `read`. Returns whether the window grew.
    pub(crate) fn on_segment(
        &mut self,
        now: Instant,
        segment: &Segment,
        out_of_order: u64,
        read: Option<u64>,
    ) -> bool {
        self.way.on_segment(now, segment.sent);
        let room = self.space(out_of_order).saturating_sub(self.window);
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
                grew += u64::from(window.on_segment(at(round * 100), &arrived, 0, read));
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

    /// By hand: 1448 bytes are held in 905 bytes of space.
    #[test]
    fn held_data_takes_memory() {
        let window = ReceiveWindow::default();
        assert_eq!(window.offers(0), 64_240);
        assert_eq!(window.offers(20 * 1448), 81_920 - 20 * 905);
        assert_eq!(window.offers(1 << 40), 0);
    }

    /// By hand: two packets 100 us apart, so an ACK takes 9.9 ms, and one takes 80 ms more. The
    /// smoothed 10 ms then go an eighth of the way to 10 + 80.
    #[test]
    fn the_rtt_has_the_wait_of_acks_in_it() {
        let mut way = ReceiveWindow::default().way;
        let micros = |micros: u64| Instant::from_nanos(micros * 1000);
        way.on_segment(micros(10_000), micros(0));
        way.on_segment(micros(10_100), micros(0));
        way.returned = Duration::from_micros(89_900);
        way.on_segment(micros(130_000), micros(120_000));
        assert_eq!(way.rtt(), Duration::from_micros(20_000 + 9_900));
    }

    /// The RTT is that of the first of a flight, and then of one in each millisecond.
    #[test]
    fn the_rtt_is_measured_once_a_tick() {
        let mut way = ReceiveWindow::default().way;
        let micros = |micros: u64| Instant::from_nanos(micros * 1000);
        // Two together, 100 us apart when they arrive: 10 ms, and 9.9 ms for an ACK.
        way.on_segment(micros(10_000), micros(0));
        way.on_segment(micros(10_100), micros(0));
        assert_eq!(way.rtt(), Duration::from_micros(19_900));
        // The same flight still.
        way.on_segment(micros(35_000), micros(19_800));
        assert_eq!(way.rtt(), Duration::from_micros(19_900));
        // An eighth of the difference of 8 ms; half a millisecond later nothing.
        way.on_segment(micros(38_000), micros(20_000));
        assert_eq!(way.rtt(), Duration::from_micros(20_900));
        way.on_segment(micros(46_500), micros(20_500));
        assert_eq!(way.rtt(), Duration::from_micros(20_900));
        way.on_segment(micros(47_000), micros(21_000));
        assert_eq!(way.rtt(), Duration::from_micros(22_775));
    }
}
