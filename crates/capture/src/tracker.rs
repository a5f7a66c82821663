//! A flow reconstructed from its packets: RTTs, and the fate of each packet.

use std::collections::VecDeque;

use paceline_record::{PacketKind, PacketRow};
use paceline_units::{Bytes, Duration, Instant};

use crate::tcp::Tcp;

/// A packet that has not been acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Its end in the stream.
    end: u64,
    at: Instant,
    /// Sent once and not yet acknowledged: its acknowledgment gives an RTT sample.
    measures: bool,
}

/// Follows one connection at the points where its packets enter and leave the path.
///
/// An RTT is measured from a packet's entry into the path to the exit of the first ACK, cumulative
/// or selective, that covers it; retransmitted packets give none (Karn). Positions count from the
/// first byte of the stream, in 64 bits.
#[derive(Debug, Default)]
pub struct Tracker {
    /// Sequence number of the first byte.
    first: Option<u32>,
    sent: VecDeque<Sent>,
    /// The end of what has been sent.
    highest: u64,
    acknowledged: u64,
    /// The ranges that recent ACKs have covered, latest first.
    covered: [(u64, u64); 4],
    window_shift: u8,
    rtt: Option<Duration>,
}

impl Tracker {
    /// The sender's packet enters the path; returns whether it is a retransmission.
    pub fn on_data(&mut self, now: Instant, tcp: &Tcp) -> bool {
        if tcp.syn {
            self.first = Some(tcp.seq.wrapping_add(1));
            return false;
        }
        let start = self.position(tcp.seq, self.highest);
        let end = start + u64::from(tcp.len);
        if tcp.len == 0 {
            return false;
        }
        if start >= self.highest {
            self.highest = end;
            let measures = true;
            self.sent.push_back(Sent {
                end,
                at: now,
                measures,
            });
            return false;
        }
        self.spoil(start, end);
        true
    }

    /// The receiver's packet leaves the path; returns the RTT sample.
    pub fn on_ack(&mut self, now: Instant, tcp: &Tcp) -> Option<Duration> {
        if tcp.syn {
            self.window_shift = tcp.window_shift.unwrap_or(0).min(14);
            return None;
        }
        let ack = self.ack_of(tcp).min(self.highest);
        let mut newest = None;
        while self.sent.front().is_some_and(|sent| sent.end <= ack) {
            let sent = self.sent.pop_front();
            newest = sent
                .filter(|sent| sent.measures)
                .map(|sent| sent.at)
                .or(newest);
        }
        self.acknowledged = self.acknowledged.max(ack);
        let mut seen = [(0, 0); 4];
        for (kept, block) in seen.iter_mut().zip(self.blocks(tcp)) {
            *kept = block;
            newest = newest.max(self.cover(block));
        }
        self.covered = seen;
        let rtt = newest.map(|at| now.since(at));
        self.rtt = rtt.or(self.rtt);
        rtt
    }

    /// The stream begins here, if its start is not known: the capture missed the SYN.
    pub fn begin(&mut self, seq: u32) {
        self.first.get_or_insert(seq);
    }

    /// Everything up to here has been sent, seen or not.
    pub fn skip_to(&mut self, end: u64) {
        self.highest = self.highest.max(end);
    }

    /// The end of what has been sent.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The cumulative acknowledgment.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Sent and not yet acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.highest.saturating_sub(self.acknowledged)
    }

    /// The latest round trip.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// The position of a packet in the stream.
    pub fn start_of(&self, tcp: &Tcp) -> u64 {
        self.position(tcp.seq, self.highest)
    }

    /// The position of an ACK in the stream.
    pub fn ack_of(&self, tcp: &Tcp) -> u64 {
        self.position(tcp.ack, self.acknowledged)
    }

    /// The window that it announces, in bytes.
    pub fn window_of(&self, tcp: &Tcp) -> u64 {
        u64::from(tcp.window) << self.window_shift
    }

    /// The selective ranges beyond it.
    pub fn blocks(&self, tcp: &Tcp) -> impl Iterator<Item = (u64, u64)> + use<> {
        let ack = self.ack_of(tcp);
        let (first, acknowledged) = (self.first.unwrap_or(0), self.acknowledged);
        let blocks = tcp.blocks.map(|(start, end)| {
            let start = near(start.wrapping_sub(first), acknowledged);
            (start, near(end.wrapping_sub(first), acknowledged))
        });
        // A range below the ACK reports a duplicate (RFC 2883).
        blocks
            .into_iter()
            .filter(move |(start, end)| start < end && *start >= ack)
    }

    /// The rows of an ACK that reaches the sender, if packets are recorded.
    pub fn ack_rows(
        &self,
        at: Instant,
        flow: u32,
        tcp: &Tcp,
    ) -> impl Iterator<Item = PacketRow> + use<> {
        let window_bytes = Bytes::new(self.window_of(tcp));
        let row = move |kind, seq, bytes| PacketRow {
            window_bytes,
            ..PacketRow::new(at, flow, kind, seq, bytes)
        };
        let sacks = self.blocks(tcp);
        let sacks = sacks.map(move |(start, end)| row(PacketKind::Sack, start, end - start));
        std::iter::once(row(PacketKind::Ack, self.ack_of(tcp), 0)).chain(sacks)
    }

    fn position(&self, seq: u32, hint: u64) -> u64 {
        near(seq.wrapping_sub(self.first.unwrap_or(0)), hint)
    }

    /// Packets in this range no longer give RTT samples.
    fn spoil(&mut self, start: u64, end: u64) -> Option<Instant> {
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
            Some(&(from, to)) => self.spoil(start, from).max(self.spoil(to, end)),
            None => self.spoil(start, end),
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
            ack,
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
        assert!(!tracker.on_data(at(0), &syn));
        tracker
    }

    #[test]
    fn the_newest_packet_that_an_ack_covers_measures() {
        let mut tracker = open();
        for n in 0..4 {
            assert!(!tracker.on_data(at(n), &data(1000 + n as u32 * 1000)));
        }
        tracker.on_ack(at(50), &ack(3000, &[]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(49)));
        // An ACK that covers nothing new gives no sample.
        tracker.on_ack(at(90), &ack(3000, &[]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(49)));
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
        assert!(tracker.on_data(at(700), &data(1000)));
        tracker.on_ack(at(800), &ack(7000, &[]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(595)));
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
        assert_eq!(tracker.highest, 1000);
        tracker.on_ack(at(10), &ack(999, &[]));
        assert_eq!(tracker.rtt(), Some(Duration::from_millis(10)));
    }
}
