//! A flow reconstructed from its packets: RTTs, and the fate of each packet.

use std::collections::VecDeque;

use paceline_record::{PacketKind, PacketRow};
use paceline_units::{Bytes, Duration, Instant};

use crate::ranges::Ranges;
use crate::tcp::Tcp;

/// Where the first byte is placed: without the SYN, bytes before it may follow.
const ORIGIN: u64 = 1 << 32;
/// A window is at most this large (RFC 7323 section 2.3): no number of a connection leaps further.
const LEAP: u64 = 1 << 30;
/// Maximum number of retransmissions that wait for their acknowledgment.
const RESENT: usize = 4096;

/// A packet that has not been acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Its place in the stream.
    start: u64,
    end: u64,
    at: Instant,
    /// Sent once and not yet acknowledged: its acknowledgment gives an RTT sample.
    measures: bool,
}

/// Follows one connection at the points where its packets enter and leave the path.
///
/// An RTT is measured from a packet's entry into the path to the exit of the first ACK, cumulative
/// or selective, that covers it, or of a merged segment a part. Retransmitted packets give none (Karn), nor does a cumulative ACK
/// that covers one, or a gap: it waited for them. Positions are in 64 bits; rows count them from
/// the first byte of the stream, or from the first that was mentioned.
#[derive(Debug, Default)]
pub struct Tracker {
    /// Sequence number of the byte at [`ORIGIN`].
    first: Option<u32>,
    /// Position of the first byte of the stream, or of the first that was mentioned.
    origin: u64,
    /// Whether its SYN was captured: there is nothing before the origin then.
    is_opened: bool,
    sent: VecDeque<Sent>,
    /// The bytes that have passed.
    passed: Ranges,
    /// Bytes that passed again, or late, and are not acknowledged.
    resent: Vec<(u64, u64)>,
    /// The end of what has been sent.
    highest: u64,
    acknowledged: u64,
    /// The bytes that have been acknowledged, cumulatively or selectively.
    delivered: Ranges,
    /// The ranges that recent ACKs have covered, latest first.
    covered: [(u64, u64); 4],
    window_shift: u8,
    /// Whether the sender's SYN offers to scale windows: both must (RFC 7323 section 2.2).
    scales: Option<bool>,
    rtt: Option<Duration>,
}

impl Tracker {
    /// The sender's packet enters the path; returns how many of its bytes have passed before.
    pub fn on_data(&mut self, now: Instant, tcp: &Tcp) -> u64 {
        if tcp.syn {
            self.open(tcp);
        }
        if tcp.len == 0 {
            return 0;
        }
        self.begin(tcp.seq);
        let (start, end) = self.span(tcp);
        if start >= end {
            return 0;
        }
        if start >= self.highest {
            let measures = true;
            self.sent.push_back(Sent {
                start,
                end,
                at: now,
                measures,
            });
        } else {
            self.spoil(start, end);
            if end > self.acknowledged && self.resent.len() < RESENT {
                self.resent.push((start, end));
            }
        }
        self.highest = self.highest.max(end);
        end - start - self.passed.add(start, end - start)
    }

    /// The receiver's packet leaves the path; returns the RTT sample.
    pub fn on_ack(&mut self, now: Instant, tcp: &Tcp) -> Option<Duration> {
        if tcp.syn {
            self.window_shift = tcp.window_shift.unwrap_or(0).min(14);
        }
        let ack = self.ack_of(tcp)?.min(self.highest);
        // It waited for what was sent again, and for what did not pass here, however often.
        let waited = self.resent.iter().any(|(start, _)| *start < ack)
            || !self.passed.has(self.acknowledged, ack);
        self.resent.retain(|(_, end)| *end > ack);
        let mut newest = None;
        while self.sent.front().is_some_and(|sent| sent.end <= ack) {
            let sent = self.sent.pop_front();
            newest = sent
                .filter(|sent| sent.measures && !waited)
                .map(|sent| sent.at)
                .or(newest);
        }
        // One that ends within a merged segment answers the packets of it that it covers.
        let partly = self.sent.front().filter(|sent| sent.start < ack);
        if let Some(sent) =
            partly.filter(|sent| sent.measures && !waited && ack > self.acknowledged)
        {
            newest = Some(sent.at);
        }
        if ack > self.acknowledged {
            self.delivered
                .add(self.acknowledged, ack - self.acknowledged);
            self.acknowledged = ack;
        }
        let mut passed = [(0, 0); 4];
        for (kept, block) in passed.iter_mut().zip(self.blocks(tcp)) {
            *kept = block;
            newest = newest.max(self.cover(block));
            // Below the first byte that was mentioned nothing is counted.
            let start = block.0.max(self.acknowledged).min(block.1);
            self.delivered.add(start, block.1 - start);
        }
        self.covered = passed;
        let rtt = newest.map(|at| now.since(at));
        self.rtt = rtt.or(self.rtt);
        rtt
    }

    /// The SYN shows where the stream begins. One with another number is another attempt.
    pub fn open(&mut self, tcp: &Tcp) {
        let first = tcp.seq.wrapping_add(1);
        self.scales = Some(tcp.window_shift.is_some());
        self.is_opened = true;
        if self.passed.total() == 0 && self.acknowledged == self.origin {
            self.first = None;
            self.begin(first);
        } else {
            // Packets of the connection overtook it.
            self.origin = self.position(first, self.origin);
        }
    }

    /// The stream begins here, if its start is not known: the capture missed the SYN.
    pub fn begin(&mut self, seq: u32) {
        if self.first.is_none() {
            self.first = Some(seq);
            (self.origin, self.highest, self.acknowledged) = (ORIGIN, ORIGIN, ORIGIN);
        }
    }

    /// Bytes that were not sent for their own sake were acknowledged.
    pub fn pass(&mut self, start: u64, end: u64) {
        self.passed.add(start, end - start);
        self.skip_to(end);
    }

    /// Whether the first byte is known to have this number.
    pub fn begins(&self, seq: u32) -> bool {
        self.first == Some(seq)
    }

    /// Everything up to here has been sent, captured or not.
    pub fn skip_to(&mut self, end: u64) {
        self.highest = self.highest.max(end);
    }

    /// The bytes that have passed.
    pub fn passed(&self) -> &Ranges {
        &self.passed
    }

    /// Position of the first byte of the stream, or of the first that was mentioned.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// The end of what has been sent.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The cumulative acknowledgment.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Bytes that were acknowledged, cumulatively or selectively.
    pub fn delivered(&self) -> u64 {
        self.delivered.total()
    }

    /// Bytes that were acknowledged selectively, beyond the cumulative acknowledgment.
    pub fn ahead(&self) -> u64 {
        let in_order = self.acknowledged.saturating_sub(self.origin);
        self.delivered.total().saturating_sub(in_order)
    }

    /// Sent and not yet acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.highest.saturating_sub(self.acknowledged)
    }

    /// The latest round trip.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// The place of a packet's data in the stream, from its first byte on.
    pub fn start_of(&self, tcp: &Tcp) -> u64 {
        self.span(tcp).0.saturating_sub(self.origin)
    }

    /// The positions of a packet's data.
    pub fn span(&self, tcp: &Tcp) -> (u64, u64) {
        // Data of a SYN follows it.
        let seq = tcp.seq.wrapping_add(u32::from(tcp.syn));
        let start = self.position(seq, self.highest);
        let end = start + u64::from(tcp.len);
        let least = if self.is_opened { self.origin } else { 0 };
        (start.max(least), end.max(least))
    }

    /// The position of an ACK; nothing if it has none, or none of this stream.
    pub fn ack_of(&self, tcp: &Tcp) -> Option<u64> {
        self.first?;
        let ack = self.position(tcp.ack?, self.acknowledged);
        (ack <= self.highest.saturating_add(LEAP)).then_some(ack)
    }

    /// How many bytes of the stream an ACK covers, of those that have been sent.
    pub fn covered_by(&self, tcp: &Tcp) -> Option<u64> {
        let ack = self.ack_of(tcp)?.min(self.highest);
        Some(ack.saturating_sub(self.origin))
    }

    /// The window that it announces, in bytes.
    pub fn window_of(&self, tcp: &Tcp) -> u64 {
        match (tcp.syn, self.scales) {
            (true, _) | (_, Some(false)) => tcp.window.into(),
            _ => u64::from(tcp.window) << self.window_shift,
        }
    }

    /// The selective ranges beyond it.
    pub fn blocks(&self, tcp: &Tcp) -> impl Iterator<Item = (u64, u64)> + use<> {
        let ack = self.ack_of(tcp);
        let most = self.highest.saturating_add(LEAP);
        let blocks = tcp.blocks.map(|(start, end)| {
            let place = |seq| self.position(seq, self.acknowledged);
            (place(start), place(end))
        });
        // A range below the ACK reports a duplicate (RFC 2883).
        blocks.into_iter().filter(move |(start, end)| {
            start < end && *end <= most && ack.is_some_and(|ack| *start >= ack)
        })
    }

    /// The rows of an ACK that reaches the sender, if packets are recorded; none of a reset, whose
    /// window means nothing.
    pub fn ack_rows(
        &self,
        at: Instant,
        flow: u32,
        tcp: &Tcp,
    ) -> impl Iterator<Item = PacketRow> + use<> {
        let ack = self.ack_row(at, flow, PacketKind::Ack, tcp);
        let origin = self.origin;
        let sacks = ack.map(|_| self.blocks(tcp)).into_iter().flatten();
        let sacks = sacks.filter_map(move |(start, end)| {
            Some(PacketRow {
                kind: PacketKind::Sack,
                seq_bytes: Bytes::new(start.saturating_sub(origin)),
                len_bytes: Bytes::new(end - start),
                ..ack?
            })
        });
        ack.into_iter().chain(sacks)
    }

    /// The row of an ACK's fate; none of a reset.
    pub fn ack_row(
        &self,
        at: Instant,
        flow: u32,
        kind: PacketKind,
        tcp: &Tcp,
    ) -> Option<PacketRow> {
        let ack = self.ack_of(tcp).filter(|_| !tcp.rst)?;
        Some(PacketRow {
            window_bytes: Bytes::new(self.window_of(tcp)),
            ..PacketRow::new(at, flow, kind, ack.saturating_sub(self.origin), 0)
        })
    }

    fn position(&self, seq: u32, hint: u64) -> u64 {
        let low = seq.wrapping_sub(self.first.unwrap_or(0));
        near(low.wrapping_add(ORIGIN as u32), hint)
    }

    /// Packets with data in this range no longer give RTT samples.
    fn spoil(&mut self, start: u64, end: u64) {
        let from = self.sent.partition_point(|sent| sent.end <= start);
        for sent in self.sent.range_mut(from..) {
            if sent.start >= end {
                break;
            }
            sent.measures = false;
        }
    }

    /// The latest transmission among the packets whose end lies in this range, which measure once.
    fn measure(&mut self, start: u64, end: u64) -> Option<Instant> {
        let from = self.sent.partition_point(|sent| sent.end <= start);
        let mut newest = None;
        for sent in self.sent.range_mut(from..) {
            if sent.end > end {
                break;
            }
            if std::mem::take(&mut sent.measures) {
                newest = Some(sent.at);
            }
        }
        newest
    }

    /// The latest transmission among those that a block newly covers.
    fn cover(&mut self, (start, end): (u64, u64)) -> Option<Instant> {
        // The range of an earlier block is already processed: a long block grows at its ends.
        let known = self.covered;
        let old = known
            .iter()
            .find(|(from, to)| from < to && start <= *from && *to <= end);
        match old {
            Some(&(from, to)) => self.measure(start, from).max(self.measure(to, end)),
            None => self.measure(start, end),
        }
    }
}

/// The 64-bit position whose lower 32 bits are these and that is nearest to `hint`.
fn near(low: u32, hint: u64) -> u64 {
    let difference = low.wrapping_sub(hint as u32).cast_signed();
    hint.saturating_add_signed(i64::from(difference))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn data(seq: u32) -> Tcp {
        Tcp {
            seq,
            len: 1000,
            ..Tcp::default()
        }
    }

    fn ack(ack: u32, blocks: &[(u32, u32)]) -> Tcp {
        let mut tcp = Tcp {
            ack: Some(ack),
            ..Tcp::default()
        };
        tcp.blocks[..blocks.len()].copy_from_slice(blocks);
        tcp
    }

    /// The first byte has the number 1000, so that positions are numbers less 1000.
    fn open() -> Tracker {
        let mut tracker = Tracker::default();
        let syn = Tcp {
            seq: 999,
            syn: true,
            ..Tcp::default()
        };
        assert_eq!(tracker.on_data(at(0), &syn), 0);
        tracker
    }

    #[test]
    fn the_newest_packet_that_an_ack_covers_measures() {
        let mut tracker = open();
        for n in 0..4 {
            assert_eq!(tracker.on_data(at(n), &data(1000 + n as u32 * 1000)), 0);
        }
        tracker.on_ack(at(50), &ack(3000, &[]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(49)));
        // An ACK that covers nothing new gives no sample.
        tracker.on_ack(at(90), &ack(3000, &[]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(49)));
    }

    #[test]
    fn an_ack_within_a_merged_segment_answers_its_first_part() {
        let mut tracker = open();
        for n in 0..2 {
            let mut merged = data(1000 + n * 2000);
            merged.len = 2000;
            tracker.on_data(at(u64::from(n) * 20), &merged);
        }
        // The second half of the first segment arrived long before the first half of the next.
        tracker.on_ack(at(50), &ack(2000, &[]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(50)));
        tracker.on_ack(at(70), &ack(4000, &[]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(50)));
        // A duplicate of it says nothing.
        assert_eq!(tracker.on_ack(at(90), &ack(4000, &[])), None);
        assert_eq!(
            tracker.on_ack(at(95), &ack(5000, &[])),
            Some(Duration::from_millis(75))
        );
    }

    #[test]
    fn a_packet_is_measured_when_it_is_first_covered() {
        let mut tracker = open();
        for n in 0..6 {
            tracker.on_data(at(n), &data(1000 + n as u32 * 1000));
        }
        // The first is lost; the others are covered one by one, in a growing block.
        for n in 2..=6 {
            tracker.on_ack(
                at(100 * u64::from(n)),
                &ack(1000, &[(2000, n * 1000 + 1000)]),
            );
            let sent = u64::from(n) - 1;
            let expected = Duration::from_millis(100 * u64::from(n) - sent);
            assert_eq!(tracker.rtt(), Some(expected));
        }
        // It is retransmitted, and its ACK gives no sample.
        assert_eq!(tracker.on_data(at(700), &data(1000)), 1000);
        tracker.on_ack(at(800), &ack(7000, &[]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(595)));
    }

    #[test]
    fn a_block_before_the_capture_is_not_counted() {
        let mut tracker = Tracker::default();
        tracker.on_data(at(0), &data(9000));
        tracker.on_ack(at(10), &ack(5000, &[(6000, 8000)]));
        assert_eq!(tracker.delivered(), 0);
        tracker.on_ack(at(20), &ack(10_000, &[]));
        assert_eq!(tracker.delivered(), 1000);
    }

    #[test]
    fn a_block_that_joins_two_covers_what_lay_between() {
        let mut tracker = open();
        for n in 0..6 {
            tracker.on_data(at(n), &data(1000 + n as u32 * 1000));
        }
        tracker.on_ack(at(100), &ack(1000, &[(2000, 3000)]));
        tracker.on_ack(at(110), &ack(1000, &[(4000, 5000), (2000, 3000)]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(107)));
        tracker.on_ack(at(120), &ack(1000, &[(2000, 5000)]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(118)));
    }

    #[test]
    fn an_ack_that_waited_for_a_retransmission_does_not_measure() {
        let mut tracker = open();
        for n in 0..4 {
            tracker.on_data(at(n), &data(1000 + n as u32 * 1000));
        }
        // No selective acknowledgment reports that the last three have arrived.
        tracker.on_data(at(200), &data(1000));
        assert_eq!(tracker.on_ack(at(240), &ack(5000, &[])), None);
        // A part of a packet that left as one of several segments.
        let merged = Tcp {
            len: 10_000,
            ..data(5000)
        };
        tracker.on_data(at(300), &merged);
        assert_eq!(tracker.on_data(at(400), &data(7000)), 1000);
        assert_eq!(tracker.on_ack(at(440), &ack(15_000, &[])), None);
        // Nothing of what follows waited.
        tracker.on_data(at(500), &data(15_000));
        let rtt = Some(Duration::from_millis(40));
        assert_eq!(tracker.on_ack(at(540), &ack(16_000, &[])), rtt);
    }

    #[test]
    fn an_ack_and_its_blocks_have_rows() {
        let mut tracker = open();
        for n in 1..4 {
            tracker.on_data(at(0), &data(n * 1000));
        }
        let acked = Tcp {
            window: 100,
            ..ack(2000, &[(3000, 4000)])
        };
        let row = |kind, seq, len| PacketRow {
            window_bytes: Bytes::new(100),
            ..PacketRow::new(at(1), 5, kind, seq, len)
        };
        let rows: Vec<_> = tracker.ack_rows(at(1), 5, &acked).collect();
        let (cumulative, block) = (
            row(PacketKind::Ack, 1000, 0),
            row(PacketKind::Sack, 2000, 1000),
        );
        assert_eq!(rows, [cumulative, block]);
        let lost = tracker.ack_row(at(1), 5, PacketKind::AckDrop, &acked);
        assert_eq!(lost, Some(row(PacketKind::AckDrop, 1000, 0)));
        let reset = Tcp { rst: true, ..acked };
        assert_eq!(tracker.ack_row(at(1), 5, PacketKind::AckDrop, &reset), None);
    }

    #[test]
    fn a_number_without_its_flag_or_beyond_any_window_acknowledges_nothing() {
        let mut tracker = open();
        tracker.on_data(at(0), &data(1000));
        for bad in [ack(3_000_000_000, &[]), ack(1_200_000_000, &[])] {
            assert_eq!(tracker.on_ack(at(1), &bad), None);
        }
        let none = Tcp {
            ack: None,
            ..ack(2000, &[])
        };
        assert_eq!(tracker.on_ack(at(1), &none), None);
        assert_eq!((tracker.in_flight(), tracker.delivered()), (1000, 0));
        assert_eq!(tracker.ack_rows(at(1), 0, &none).count(), 0);
        // A block counts once, in whatever order the bytes are acknowledged.
        tracker.on_data(at(2), &data(2000));
        tracker.on_ack(at(3), &ack(1000, &[(2000, 3000)]));
        assert_eq!((tracker.in_flight(), tracker.delivered()), (2000, 1000));
        tracker.on_ack(at(4), &ack(3000, &[]));
        assert_eq!((tracker.in_flight(), tracker.delivered()), (0, 2000));
    }

    #[test]
    fn data_may_pass_in_parts_and_with_others() {
        let mut tracker = open();
        tracker.on_data(at(0), &data(1000));
        tracker.on_data(at(0), &data(3000));
        // The one between passes with both neighbours' halves.
        let across = Tcp {
            len: 2000,
            ..data(1500)
        };
        assert_eq!(tracker.on_data(at(1), &across), 1000);
        // A keepalive before the first byte is no data.
        let before = Tcp {
            len: 1,
            ..data(999)
        };
        assert_eq!(tracker.on_data(at(2), &before), 0);
        assert_eq!(tracker.passed().total(), 3000);
    }

    #[test]
    fn without_a_syn_earlier_bytes_may_follow() {
        let mut tracker = Tracker::default();
        tracker.on_data(at(0), &data(5000));
        assert_eq!(tracker.on_data(at(1), &data(3000)), 0);
        assert_eq!(tracker.on_data(at(2), &data(3000)), 1000);
        assert_eq!(
            (tracker.passed().total(), tracker.in_flight()),
            (2000, 1000)
        );
    }

    #[test]
    fn positions_go_on_beyond_32_bits() {
        assert_eq!(near(5, 0xffff_fff0), 0x1_0000_0005);
        assert_eq!(near(0xffff_fff0, 0x1_0000_0005), 0xffff_fff0);
        let mut tracker = Tracker::default();
        let syn = Tcp {
            seq: u32::MAX - 1,
            syn: true,
            ..Tcp::default()
        };
        tracker.on_data(at(0), &syn);
        tracker.on_data(at(0), &data(u32::MAX));
        assert_eq!(tracker.in_flight(), 1000);
        tracker.on_ack(at(10), &ack(999, &[]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(10)));
    }
}
