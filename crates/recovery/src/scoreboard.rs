//! The scoreboard: every segment sent and not yet acknowledged cumulatively.
//!
//! Segments are in a ring in sequence order, identified by an index that never repeats. First
//! transmissions are in time order as well as in sequence order, so a cursor finds the oldest in
//! flight. Retransmissions are in a queue in time order; an entry whose segment has since been
//! delivered, lost or retransmitted is stale and is dropped when it reaches the front. Every
//! segment and every transmission is thus visited a constant number of times, however many are in
//! flight.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use paceline_congestion::PacketState;
use paceline_units::Instant;

use crate::Block;
use crate::ranges::Ranges;

/// A segment and its latest transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outstanding {
    pub seq: u64,
    /// Number of the latest transmission.
    pub number: u64,
    pub packet: PacketState,
    pub sacked: bool,
    /// Declared lost, and neither delivered nor exonerated since.
    pub lost: bool,
    /// The latest transmission is believed to be in the network.
    pub out: bool,
    /// Sent more than once.
    pub retransmitted: bool,
}

impl Outstanding {
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.packet.size)
    }

    pub(crate) fn end(&self) -> u64 {
        self.seq.saturating_add(self.len())
    }

    /// Sent once, and in flight.
    fn is_original(&self) -> bool {
        self.out && !self.retransmitted
    }

    /// Lost, and not retransmitted yet.
    pub(crate) fn waits(&self) -> bool {
        self.lost && !self.out && !self.sacked
    }
}

/// A transmission just declared lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostTransmission {
    pub packet: PacketState,
    /// The segment before it in sequence is not marked lost.
    pub starts_range: bool,
    pub retransmission: bool,
    pub number: u64,
}

/// Segments delivered one after another that were sent only once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckedSpan {
    /// When the first was sent.
    pub earliest: Instant,
    pub last: Outstanding,
    pub bytes: u64,
}

/// A transmission in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    /// Its segment's index.
    pub index: u64,
    pub number: u64,
    pub sent: Instant,
}

impl InFlight {
    fn of(index: u64, segment: &Outstanding) -> Self {
        Self {
            index,
            number: segment.number,
            sent: segment.packet.send_time,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Outstanding>,
    /// Index of the first segment of the ring.
    first: u64,
    una: u64,
    nxt: u64,
    next_number: u64,
    /// No segment before this index is in flight by its first transmission.
    original: u64,
    /// Retransmissions in time order: segment index and number.
    again: VecDeque<(u64, u64)>,
    /// Indices of the segments that are SACKed.
    sacked: Ranges,
    /// Indices of the segments waiting for retransmission, including stale ones.
    waiting: BinaryHeap<Reverse<u64>>,
    in_flight: u64,
    /// Segments sent more than once.
    resent_count: u64,
    sacked_count: u64,
    sacked_bytes: u64,
    lost_count: u64,
    lost_bytes: u64,
    /// Without SACK: bytes that duplicate acknowledgments report as delivered, in unknown segments
    /// (Linux's `sacked_out`).
    duplicates: u64,
}

impl Scoreboard {
    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    pub(crate) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// `pipe`: bytes of transmissions neither delivered nor lost. A segment counts once, even while
    /// a probe repeats it.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight - self.duplicates
    }

    /// Bytes that duplicate acknowledgments account for.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    pub(crate) fn sacked_count(&self) -> u64 {
        self.sacked_count
    }

    pub(crate) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// Segments marked lost, retransmitted or not (Linux's `lost_out`).
    pub(crate) fn lost_count(&self) -> u64 {
        self.lost_count
    }

    /// Its memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.segments.capacity() * size_of::<Outstanding>()
            + self.again.capacity() * size_of::<(u64, u64)>()
            + self.waiting.capacity() * size_of::<u64>()
    }

    /// Segments not acknowledged cumulatively.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    fn offset(&self, index: u64) -> Option<usize> {
        usize::try_from(index.checked_sub(self.first)?).ok()
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Outstanding> {
        self.segments.get(self.offset(index)?)
    }

    fn get_mut(&mut self, index: u64) -> Option<&mut Outstanding> {
        let offset = self.offset(index)?;
        self.segments.get_mut(offset)
    }

    pub(crate) fn first_index(&self) -> u64 {
        self.first
    }

    /// The segment with the highest sequence number.
    pub(crate) fn last_index(&self) -> Option<u64> {
        (self.first + self.segments.len() as u64).checked_sub(1)
    }

    /// A new segment was sent; returns its sequence number.
    #[inline]
    pub(crate) fn send_new(&mut self, packet: PacketState) -> u64 {
        let seq = self.nxt;
        let number = self.number();
        self.segments.push_back(Outstanding {
            seq,
            number,
            packet,
            sacked: false,
            lost: false,
            out: true,
            retransmitted: false,
        });
        self.nxt = seq.saturating_add(u64::from(packet.size));
        self.in_flight += u64::from(packet.size);
        seq
    }

    /// Whether nothing waits for retransmission, and no duplicates are counted.
    pub(crate) fn is_calm(&self) -> bool {
        self.waiting.is_empty() && self.duplicates == 0
    }

    /// A segment was retransmitted; returns its sequence number.
    #[inline]
    pub(crate) fn send_again(&mut self, index: u64, packet: PacketState) -> Option<u64> {
        let number = self.number();
        self.again.push_back((index, number));
        let segment = self.get_mut(index)?;
        let was_out = std::mem::replace(&mut segment.out, true);
        segment.number = number;
        segment.packet = packet;
        let again = std::mem::replace(&mut segment.retransmitted, true);
        let seq = segment.seq;
        if !was_out {
            self.in_flight += u64::from(packet.size);
        }
        self.resent_count += u64::from(!again);
        self.drop_stale_waiting();
        Some(seq)
    }

    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Removes the segments that `ack` covers, up to the first that had not been SACKed. Returns
    /// that and its index.
    #[inline]
    pub(crate) fn pop_acked(&mut self, ack: u64) -> Option<(u64, Outstanding)> {
        loop {
            let segment = self.segments.front().filter(|s| s.end() <= ack)?;
            self.first += 1;
            self.una = segment.end();
            self.resent_count -= u64::from(segment.retransmitted);
            if !segment.sacked {
                break;
            }
            self.sacked_count -= 1;
            self.sacked_bytes -= segment.len();
            self.segments.pop_front();
        }
        let segment = self.segments.pop_front()?;
        self.leave(&segment);
        Some((self.first - 1, segment))
    }

    /// Whether every segment has been sent exactly once and is in flight.
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.sacked_count == 0 && self.lost_count == 0 && self.resent_count == 0
    }

    /// Removes the segments that `ack` covers, if it covers at least one, while all are
    /// [undisturbed ](Self::is_undisturbed).
    #[inline]
    pub(crate) fn pop_acked_span(&mut self, ack: u64) -> Option<AckedSpan> {
        let earliest = self.segments.front()?.packet.send_time;
        let prior_una = self.una;
        let mut covered = 0;
        while self.segments.get(covered).is_some_and(|s| s.end() <= ack) {
            covered += 1;
        }
        let last = *self.segments.get(covered.checked_sub(1)?)?;
        for _ in 0..covered {
            self.segments.pop_front();
        }
        self.first += covered as u64;
        self.una = last.end();
        let bytes = self.una - prior_una;
        self.in_flight -= bytes;
        // All remaining segments are in flight, and none was retransmitted.
        self.original = self.first;
        self.again.clear();
        Some(AckedSpan {
            earliest,
            last,
            bytes,
        })
    }

    /// A segment leaves the pipe because it was delivered.
    fn leave(&mut self, segment: &Outstanding) {
        if segment.out {
            self.in_flight -= segment.len();
        }
        if segment.lost {
            self.lost_count -= 1;
            self.lost_bytes -= segment.len();
        }
    }

    /// A duplicate acknowledgment: a segment of `len` bytes has arrived. Returns by how many bytes
    /// the known deliveries grow: at least one segment is missing, and so are those marked lost
    /// (Linux's `tcp_add_reno_sack`).
    pub(crate) fn add_duplicate(&mut self, len: u64) -> u64 {
        let before = self.duplicates;
        self.duplicates = before.saturating_add(len);
        self.limit_duplicates();
        self.duplicates.saturating_sub(before)
    }

    /// `acked` bytes have been acknowledged in order, the first `hole` of which were missing.
    /// Returns how many of the others duplicates had already reported (Linux's
    /// `tcp_remove_reno_sacks`).
    pub(crate) fn take_duplicates(&mut self, acked: u64, hole: u64) -> u64 {
        let reported = self.duplicates.min(acked.saturating_sub(hole));
        self.duplicates -= reported;
        self.limit_duplicates();
        reported
    }

    /// Duplicates account for no data that is still outstanding.
    pub(crate) fn forget_duplicates(&mut self) {
        self.duplicates = 0;
    }

    fn limit_duplicates(&mut self) {
        if self.duplicates > 0 {
            let first = self.segments.front().map_or(0, Outstanding::len);
            let holes = self.lost_bytes.max(first);
            let most = (self.nxt - self.una).saturating_sub(holes);
            self.duplicates = self.duplicates.min(most);
        }
    }

    /// Drops state below the cumulative point, after [`Self::pop_acked`] removed its segments.
    #[inline]
    pub(crate) fn trim(&mut self) {
        self.sacked.remove_below(self.first);
        self.drop_stale_waiting();
    }

    /// Adds to `fresh` the index ranges of whole segments that `block` newly covers. A block that
    /// extends beyond the data sent is ignored.
    #[inline]
    pub(crate) fn sack(&mut self, block: Block, fresh: &mut Vec<Block>) {
        if block.start >= block.end || block.end > self.nxt || block.end <= self.una {
            return;
        }
        let start = self.index_from(block.start.max(self.una));
        let end = self.index_from(block.end);
        // A block that ends inside a segment does not cover it.
        let end = if self.get(end).is_some_and(|segment| segment.seq > block.end)
            || (self.get(end).is_none() && block.end < self.nxt)
        {
            end.saturating_sub(1)
        } else {
            end
        };
        self.sacked
            .insert(Block { start, end }, |part| fresh.push(part));
    }

    /// The highest range that is SACKed grows by `part`, of segments that were sent once and are in
    /// flight: [`Self::sack`] and [`Self::mark_sacked`] in one. None, and nothing is done, for any other
    /// part.
    #[inline]
    pub(crate) fn sack_span(&mut self, part: Block) -> Option<AckedSpan> {
        let end = self.sacked.last()?.end;
        let offset = self.offset(end)?;
        let first = self.segments.get(offset)?;
        if part.end > self.nxt || part.start != first.seq {
            return None;
        }
        let earliest = first.packet.send_time;
        let mut count = 0;
        while let Some(segment) = self.segments.get(offset + count)
            && segment.end() <= part.end
        {
            if !segment.is_original() {
                return None;
            }
            count += 1;
        }
        let last = *self.segments.get(offset + count.checked_sub(1)?)?;
        for offset in offset..offset + count {
            if let Some(segment) = self.segments.get_mut(offset) {
                segment.sacked = true;
                segment.out = false;
            }
        }
        let bytes = last.end() - part.start;
        self.sacked.extend_last(end + count as u64);
        self.sacked_count += count as u64;
        self.sacked_bytes += bytes;
        self.in_flight -= bytes;
        Some(AckedSpan {
            earliest,
            last,
            bytes,
        })
    }

    /// The index of the first segment that begins at `seq` or later.
    #[inline]
    fn index_from(&self, seq: u64) -> u64 {
        // Segments all have one size unless the application ran out of data: guess, then search.
        let size = self
            .segments
            .front()
            .map_or(1, |segment| segment.len().max(1));
        let guess = usize::try_from(seq.saturating_sub(self.una) / size).unwrap_or(usize::MAX);
        let offset = match self.segments.get(guess) {
            Some(segment) if segment.seq == seq => guess,
            _ => self.segments.partition_point(|segment| segment.seq < seq),
        };
        self.first + offset as u64
    }

    /// A segment was SACKed; returns it as it was before.
    #[inline]
    pub(crate) fn mark_sacked(&mut self, index: u64) -> Option<Outstanding> {
        let segment = self.get_mut(index)?;
        let before = *segment;
        segment.sacked = true;
        segment.lost = false;
        segment.out = false;
        self.sacked_count += 1;
        self.sacked_bytes += before.len();
        self.leave(&before);
        Some(before)
    }

    /// The oldest transmission still in flight.
    #[inline]
    pub(crate) fn oldest(&mut self) -> Option<InFlight> {
        match (self.oldest_original(), self.oldest_again()) {
            (Some(original), Some(again)) if again.number < original.number => Some(again),
            (original, again) => original.or(again),
        }
    }

    /// The oldest first transmission still in flight.
    #[inline]
    fn oldest_original(&mut self) -> Option<InFlight> {
        self.original = self.original.max(self.first);
        while let Some(segment) = self.get(self.original) {
            if segment.is_original() {
                return Some(InFlight::of(self.original, segment));
            }
            self.original += 1;
        }
        None
    }

    /// The same for retransmissions.
    #[inline]
    fn oldest_again(&mut self) -> Option<InFlight> {
        while let Some(&(index, number)) = self.again.front() {
            let segment = self.get(index);
            if let Some(segment) = segment.filter(|segment| segment.out && segment.number == number)
            {
                return Some(InFlight::of(index, segment));
            }
            self.again.pop_front();
        }
        None
    }

    /// Declares the latest transmission of a segment lost, if it is in flight.
    #[inline]
    pub(crate) fn mark_lost(&mut self, index: u64) -> Option<LostTransmission> {
        let starts_range = !index
            .checked_sub(1)
            .and_then(|before| self.get(before))
            .is_some_and(|before| before.lost);
        let segment = self.get_mut(index).filter(|segment| segment.out)?;
        segment.out = false;
        let again = std::mem::replace(&mut segment.lost, true);
        let lost = LostTransmission {
            packet: segment.packet,
            starts_range,
            retransmission: segment.retransmitted,
            number: segment.number,
        };
        self.in_flight -= u64::from(lost.packet.size);
        if !again {
            self.lost_count += 1;
            self.lost_bytes += u64::from(lost.packet.size);
        }
        self.limit_duplicates();
        self.waiting.push(Reverse(index));
        Some(lost)
    }

    /// The lowest segment waiting for retransmission.
    pub(crate) fn first_waiting(&self) -> Option<u64> {
        // The top is never stale: see drop_stale_waiting.
        self.waiting.peek().map(|Reverse(index)| *index)
    }

    /// `IsLost` (RFC 6675 section 4): the index below which every segment that is not SACKed is
    /// lost, because `ranges` SACKed ranges or more than `bytes` SACKed bytes are above it.
    pub(crate) fn lost_below(&self, ranges: usize, bytes: u64) -> u64 {
        let mut above = 0_u64;
        for (count, range) in (1..).zip(self.sacked.descending()) {
            let start = self.get(range.start).map_or(self.una, |first| first.seq);
            let end = self.get(range.end - 1).map_or(start, Outstanding::end);
            above = above.saturating_add(end.saturating_sub(start));
            if count >= ranges || above > bytes {
                return range.start;
            }
        }
        self.first
    }

    /// The lowest segment from `from` on, below the highest SACKed one, that is not SACKed.
    pub(crate) fn first_hole(&self, from: u64) -> Option<u64> {
        let highest = self.sacked.descending().next()?.end;
        Some(self.sacked.first_gap(from.max(self.first))).filter(|index| *index < highest)
    }

    /// The highest segment that is not SACKed.
    pub(crate) fn last_hole(&self) -> Option<u64> {
        let last = self.last_index()?;
        match self.sacked.descending().next() {
            Some(range) if range.end > last => range.start.checked_sub(1),
            _ => Some(last),
        }
        .filter(|index| *index >= self.first)
    }

    /// The number of the next transmission.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// How many segments have been sent more than once.
    pub(crate) fn resent_count(&self) -> u64 {
        self.resent_count
    }

    /// Whether the first segment outstanding was last sent after `time`.
    pub(crate) fn first_sent_after(&self, time: Instant) -> bool {
        let first = self.segments.front();
        first.is_some_and(|first| first.packet.send_time > time)
    }

    /// The latest transmission time of the first segment.
    pub(crate) fn first_sent(&self) -> Option<Instant> {
        Some(self.segments.front()?.packet.send_time)
    }

    /// Whether a retransmission is in flight.
    pub(crate) fn has_retransmission_out(&self) -> bool {
        let mut segments = self.segments.iter();
        segments.any(|segment| segment.retransmitted && segment.out)
    }

    /// How many retransmissions are in flight (Linux's `retrans_out`).
    pub(crate) fn retransmissions_out(&self) -> u64 {
        let out = |segment: &&Outstanding| segment.retransmitted && segment.out;
        self.segments.iter().filter(out).count() as u64
    }

    /// When the last of the transmissions in flight before `number` was sent.
    pub(crate) fn sent_last_before(&self, number: u64) -> Option<Instant> {
        let before = self
            .segments
            .iter()
            .filter(|segment| segment.out && segment.number < number);
        before.map(|segment| segment.packet.send_time).max()
    }

    /// Whether the first segment was retransmitted.
    pub(crate) fn is_first_retransmitted(&self) -> bool {
        let first = self.segments.front();
        first.is_some_and(|first| first.retransmitted)
    }

    /// Whether a duplicate of the segment at `seq` can come from a retransmission: it was sent more
    /// than once, or is acknowledged and no longer known.
    pub(crate) fn may_be_duplicate(&self, seq: u64) -> bool {
        seq < self.una
            || self
                .get(self.index_from(seq))
                .is_some_and(|segment| segment.retransmitted)
    }

    #[inline]
    fn drop_stale_waiting(&mut self) {
        while let Some(&Reverse(index)) = self.waiting.peek() {
            if self.get(index).is_some_and(Outstanding::waits) {
                return;
            }
            self.waiting.pop();
        }
    }

    /// Removes every loss mark, and returns how many of those segments had not been retransmitted.
    /// They are in flight again, and may be declared lost again.
    pub(crate) fn exonerate(&mut self) -> u64 {
        let mut waiting = 0;
        for segment in &mut self.segments {
            if segment.waits() {
                segment.out = true;
                self.in_flight += segment.len();
                waiting += 1;
            }
            segment.lost = false;
        }
        self.lost_count = 0;
        self.lost_bytes = 0;
        self.waiting.clear();
        let mut again: Vec<(u64, u64)> = (self.first..)
            .zip(&self.segments)
            .filter(|(_, segment)| segment.out && segment.retransmitted)
            .map(|(index, segment)| (index, segment.number))
            .collect();
        again.sort_unstable_by_key(|&(_, number)| number);
        self.again = again.into();
        self.original = self.first;
        waiting
    }

    /// The receiver has discarded SACKed data (RFC 2018 section 8): nothing is SACKed any more, and
    /// everything that was waits for retransmission.
    pub(crate) fn renege(&mut self) {
        for (index, segment) in (self.first..).zip(&mut self.segments) {
            if segment.sacked {
                segment.sacked = false;
                segment.lost = true;
                self.lost_count += 1;
                self.lost_bytes += segment.len();
                self.waiting.push(Reverse(index));
            }
        }
        self.sacked.clear();
        self.sacked_count = 0;
        self.sacked_bytes = 0;
    }

    /// Recounts every counter; returns the name of one that does not agree.
    #[cfg(test)]
    pub(crate) fn audit(&self) -> Result<(), &'static str> {
        let sum = |pick: fn(&Outstanding) -> bool, of: fn(&Outstanding) -> u64| -> u64 {
            self.segments
                .iter()
                .filter(|segment| pick(segment))
                .map(of)
                .sum()
        };
        let checks = [
            (
                "in_flight",
                self.in_flight == sum(|s| s.out, Outstanding::len),
            ),
            ("out and sacked", sum(|s| s.out && s.sacked, |_| 1) == 0),
            ("lost and sacked", sum(|s| s.lost && s.sacked, |_| 1) == 0),
            (
                "nowhere",
                sum(|s| !s.out && !s.sacked && !s.lost, |_| 1) == 0,
            ),
            (
                "resent_count",
                self.resent_count == sum(|s| s.retransmitted, |_| 1),
            ),
            (
                "sacked_count",
                self.sacked_count == sum(|s| s.sacked, |_| 1),
            ),
            (
                "sacked_bytes",
                self.sacked_bytes == sum(|s| s.sacked, Outstanding::len),
            ),
            ("lost_count", self.lost_count == sum(|s| s.lost, |_| 1)),
            (
                "lost_bytes",
                self.lost_bytes == sum(|s| s.lost, Outstanding::len),
            ),
            (
                "duplicates",
                self.duplicates <= sum(|s| s.out && !s.lost, Outstanding::len),
            ),
            (
                "span",
                self.nxt - self.una == sum(|_| true, Outstanding::len),
            ),
            (
                "waiting",
                self.first_waiting()
                    == (self.first..)
                        .zip(&self.segments)
                        .find(|(_, segment)| segment.waits())
                        .map(|(index, _)| index),
            ),
            (
                "oldest",
                self.clone().oldest().map(|oldest| oldest.index)
                    == (self.first..)
                        .zip(&self.segments)
                        .filter(|(_, segment)| segment.out)
                        .min_by_key(|(_, segment)| segment.number)
                        .map(|(index, _)| index),
            ),
        ];
        checks
            .iter()
            .find(|(_, holds)| !holds)
            .map_or(Ok(()), |(name, _)| Err(*name))
    }
}

#[cfg(test)]
mod tests;
