//! The receiver: reassembly and acknowledgments.

use paceline_units::{Duration, Instant};

use crate::ecn::Echo;
use crate::ranges::Ranges;
use crate::receive_window::ReceiveWindow;
use crate::{Acknowledgment, Block, EcnFeedback, PlainAck, SackBlocks, Segment};

/// Out-of-order segments that one buffer holds (`MAX_SKB_FRAGS`).
const BUFFER: u64 = 17;

/// The acknowledgment policy of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// In-order segments per acknowledgment (RFC 5681 section 4.2: at most 2).
    pub ack_every: u32,
    /// The maximum delay of an acknowledgment.
    pub max_ack_delay: Duration,
    /// Receive buffer in bytes. The application reads in-order data at once.
    pub window: u64,
    /// The segments at the start of a connection that are acknowledged one by one, so that delayed
    /// ACKs do not slow the first rounds (as in Linux).
    pub quick_acks: u32,
    /// How long acknowledgments of out-of-order data are delayed, once three have reported the same
    /// gap, for up to 44 of them (Linux's `tcp_comp_sack_delay_ns`, `tcp_comp_sack_nr`); zero: not
    /// at all.
    pub sack_delay: Duration,
    /// Whether a segment with PSH is acknowledged at once, as in Linux when everything has been
    /// read.
    pub pushed: bool,
    /// Whether the receive window grows as in Linux, up to [`Self::window`], and a segment that lets it
    /// grow is acknowledged at once.
    pub window_growth: bool,
    /// The maximum number of SACK ranges in one acknowledgment: the other options leave this much
    /// room ([`crate::ets::SACK_BLOCKS`] with that option).
    pub sack_blocks: usize,
    /// How it reports congestion marks.
    pub ecn: EcnFeedback,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            ack_every: 2,
            max_ack_delay: Duration::from_millis(40),
            window: 1 << 30,
            quick_acks: 16,
            sack_delay: Duration::ZERO,
            pushed: false,
            window_growth: false,
            sack_blocks: SackBlocks::CAPACITY,
            ecn: EcnFeedback::Accurate,
        }
    }
}

/// Acknowledgments of the same gap that are compressed into one.
#[derive(Clone, Copy, Debug, Default)]
struct Compression {
    /// The gap's first byte, and the number of immediate ACKs that have reported it.
    gap: u64,
    reported: u32,
    /// The number waiting, and their deadline.
    waiting: u32,
    until: Option<Instant>,
}

impl Compression {
    /// A sender retransmits after this many (RFC 5681 section 3.2).
    const AT_ONCE: u32 = 3;
    const MOST: u32 = 44;

    /// Whether one more for the gap at `gap` waits.
    #[inline]
    fn holds(&mut self, now: Instant, gap: u64, delay: Duration) -> bool {
        if delay == Duration::ZERO || self.waiting >= Self::MOST {
            return false;
        }
        if self.gap != gap {
            (self.gap, self.reported) = (gap, 0);
        }
        if self.reported < Self::AT_ONCE {
            self.reported += 1;
            return false;
        }
        self.waiting += 1;
        self.until.get_or_insert(now + delay);
        true
    }

    /// One is sent for all that waited.
    fn end(&mut self) {
        (self.waiting, self.until) = (0, None);
    }
}

/// The receiving side of a connection.
///
/// Acknowledges at once if data is out of order (but see [`ReceiverConfig::sack_delay`]), fills a
/// gap or repeats data (with a DSACK, RFC 2883); otherwise every [`ReceiverConfig::ack_every`]
/// segments or when the timer expires.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    /// `RCV.NXT`.
    next: u64,
    /// Received out of order.
    out_of_order: Ranges,
    held_bytes: u64,
    /// The ranges of `out_of_order` that changed last, the latest first.
    recent: [Block; SackBlocks::CAPACITY],
    /// `Last.ACK.sent` and `TS.Recent` (RFC 7323 section 4.3).
    last_ack: u64,
    ts_recent: Instant,
    /// In-order segments not acknowledged, and when the first of them arrived.
    pending: u32,
    pending_since: Instant,
    quick_acks: u32,
    growth: Option<Box<ReceiveWindow>>,
    compression: Compression,
    /// The highest byte that the sender may send; it never moves back.
    edge: u64,
    marks: Echo,
    duplicate_bytes: u64,
}

impl Receiver {
    /// A receiver that expects byte 0.
    pub fn new(config: ReceiverConfig) -> Self {
        let growth = config.window_growth.then(Box::<ReceiveWindow>::default);
        let offered = growth.as_ref().map_or(u64::MAX, |growth| growth.offers(0));
        Self {
            config,
            next: 0,
            out_of_order: Ranges::default(),
            held_bytes: 0,
            recent: [Block::default(); SackBlocks::CAPACITY],
            last_ack: 0,
            ts_recent: Instant::ZERO,
            pending: 0,
            pending_since: Instant::ZERO,
            quick_acks: config.quick_acks,
            growth,
            compression: Compression::default(),
            edge: config.window.min(offered),
            marks: Echo::new(config.ecn),
            duplicate_bytes: 0,
        }
    }

    /// An acknowledgment has reached the sender `delay` after it was sent. A receiver reads that from
    /// the timestamps of later segments; the growth of the window needs it where acknowledgments
    /// wait.
    pub fn on_returned(&mut self, delay: Duration) {
        if let Some(growth) = &mut self.growth {
            growth.on_returned(delay);
        }
    }

    /// The acknowledgment to send before an arriving segment is processed. Where the segment ends a
    /// series of marked or unmarked ones, that series is acknowledged separately (RFC 8257 section
    /// 3.2); and a waiting acknowledgment is sent before the segment would push a range out of it.
    #[inline]
    pub fn before_segment(&mut self, now: Instant, segment: &Segment) -> Option<Acknowledgment> {
        let turns = self.pending > 0 && self.marks.turns(segment);
        let pushes = self.compression.until.is_some() && self.pushes(segment);
        (segment.len > 0 && (turns || pushes)).then(|| self.acknowledge(now, None))
    }

    /// Whether an out-of-order segment belongs to neither of the two ranges that changed last, if
    /// there are two (Linux's `TCP_SACK_BLOCKS_EXPECTED`).
    fn pushes(&self, segment: &Segment) -> bool {
        let ranges = self.recent.iter().filter(|block| block.start > self.next);
        let touches = |block: &Block| segment.seq <= block.end && block.start <= segment.end();
        segment.seq > self.next && ranges.clone().count() >= 2 && !ranges.take(2).any(touches)
    }

    /// A segment arrived. Returns the acknowledgment to send at once, if any.
    /// A segment beyond the window is dropped and answered.
    #[inline]
    pub fn on_segment(&mut self, now: Instant, segment: &Segment) -> Option<Acknowledgment> {
        if segment.len == 0 {
            return None;
        }
        let at_once = self.asks(now, segment);
        if self.is_next(segment) {
            let due = self.take_next(now, segment, at_once);
            return due.then(|| self.acknowledge(now, None));
        }
        self.take_other(now, segment, at_once)
    }

    /// The short form of [`Self::before_segment`] and [`Self::on_segment`]: the acknowledgment, if
    /// any, of the next segment in sequence where nothing is out of order. None, and nothing is
    /// done, for any other segment.
    // Always inlined: a call costs more than most of its work.
    #[inline(always)]
    pub fn on_next(&mut self, now: Instant, segment: &Segment) -> Option<Option<PlainAck>> {
        let turns = self.pending > 0 && self.marks.turns(segment);
        let calm = !turns && self.compression.until.is_none();
        if segment.len == 0 || !calm || !self.is_next(segment) {
            return None;
        }
        let at_once = self.asks(now, segment);
        let due = self.take_next(now, segment, at_once);
        Some(due.then(|| self.plain_ack(now)))
    }

    /// Whether a segment continues the data in order, and none is out of order.
    #[inline]
    fn is_next(&self, segment: &Segment) -> bool {
        segment.seq == self.next && segment.end() <= self.edge && self.out_of_order.is_empty()
    }

    /// Reads the header of a segment. Whether it asks for an acknowledgment at once.
    #[inline]
    fn asks(&mut self, now: Instant, segment: &Segment) -> bool {
        let told_at_once = self.marks.on_segment(segment);
        if segment.seq <= self.last_ack && segment.sent > self.ts_recent {
            self.ts_recent = segment.sent;
        }
        // A window that grows asks for one more (`quick |= 1`).
        if self.growth.is_some() && self.grows(now, segment) {
            self.quick_acks |= 1;
        }
        let quick = self.quick_acks > 0;
        self.quick_acks = self.quick_acks.saturating_sub(1);
        told_at_once || quick
    }

    /// Whether the segment lets the receive window grow.
    #[cold]
    #[inline(never)]
    fn grows(&mut self, now: Instant, segment: &Segment) -> bool {
        let in_order = segment.seq == self.next && segment.end() <= self.edge;
        // Data is read a buffer at a time, and only the first read of an instant counts: of a
        // segment that fills a gap and the data behind it, what one buffer holds.
        let filled = self.out_of_order.first_gap(segment.end());
        let buffer = BUFFER * u64::from(segment.len);
        let read = if filled - segment.seq <= buffer {
            filled
        } else {
            segment.end()
        };
        let read = in_order.then_some(read);
        let growth = self.growth.as_mut();
        growth.is_some_and(|growth| growth.on_segment(now, segment, self.held_bytes, read))
    }

    /// The segment continues the in-order data, and nothing is out of order. Whether it is
    /// acknowledged now: it asks for that, or enough wait.
    #[inline]
    fn take_next(&mut self, now: Instant, segment: &Segment, at_once: bool) -> bool {
        self.next = segment.end();
        if self.pending == 0 {
            self.pending_since = now;
        }
        self.pending += 1;
        let pushed = self.config.pushed && segment.push;
        at_once || pushed || self.pending >= self.config.ack_every
    }

    /// Any segment, anywhere in the sequence space.
    #[inline]
    fn take_other(
        &mut self,
        now: Instant,
        segment: &Segment,
        at_once: bool,
    ) -> Option<Acknowledgment> {
        let end = segment.end();
        if end <= self.next {
            self.duplicate_bytes += u64::from(segment.len);
            return Some(self.acknowledge(now, Some((segment.seq, end))));
        }
        if end > self.edge {
            return Some(self.acknowledge(now, None));
        }
        // Data below `next` was delivered before.
        let overlap = (segment.seq < self.next).then_some((segment.seq, self.next));
        self.duplicate_bytes += overlap.map_or(0, |(start, end)| end - start);
        let start = segment.seq.max(self.next);
        if start == self.next && self.out_of_order.is_empty() {
            let due = self.take_next(now, segment, at_once) || overlap.is_some();
            return due.then(|| self.acknowledge(now, overlap));
        }
        let mut fresh = 0;
        let merged = self
            .out_of_order
            .insert(Block { start, end }, |part| fresh += part.end - part.start);
        self.held_bytes += fresh;
        let again = end - start - fresh;
        self.duplicate_bytes += again;
        // Only whole segments repeat each other: a partial repetition is reported in full.
        let duplicate = overlap.or((again > 0).then_some((start, end)));
        if merged.start == self.next {
            // It fills the first gap.
            self.next = merged.end;
            self.held_bytes -= merged.end - merged.start;
            self.out_of_order.pop_first();
        } else {
            self.report_first(merged);
            let delay = self.config.sack_delay;
            let may_wait = duplicate.is_none() && !at_once;
            if may_wait && self.compression.holds(now, self.next, delay) {
                return None;
            }
        }
        Some(self.acknowledge(now, duplicate))
    }

    /// RFC 2018 section 4: the range that contains the latest segment is reported first.
    #[inline]
    fn report_first(&mut self, merged: Block) {
        let inside = |block: &Block| merged.start <= block.start && block.end <= merged.end;
        // Slots hold distinct ranges; the first one absorbed by the new range, or else the last,
        // makes room.
        let slot = self
            .recent
            .iter()
            .position(inside)
            .unwrap_or(SackBlocks::CAPACITY - 1);
        if let Some(moved) = self.recent.get_mut(..=slot) {
            moved.rotate_right(1);
        }
        for block in self.recent.iter_mut().filter(|block| inside(block)) {
            *block = Block::default();
        }
        if let Some(first) = self.recent.first_mut() {
            *first = merged;
        }
    }

    #[inline]
    fn acknowledge(&mut self, now: Instant, duplicate: Option<(u64, u64)>) -> Acknowledgment {
        let mut blocks = SackBlocks::default();
        if let Some((start, end)) = duplicate {
            blocks.dsack = true;
            blocks.push(Block { start, end });
        }
        if !self.out_of_order.is_empty() {
            for block in self.recent.iter().filter(|block| block.start > self.next) {
                blocks.push(*block);
            }
        }
        blocks.truncate(self.config.sack_blocks);
        self.plain_ack(now).with(blocks)
    }

    /// The acknowledgment, without the ranges that it reports.
    #[inline(always)]
    fn plain_ack(&mut self, now: Instant) -> PlainAck {
        let mut free = self.config.window.saturating_sub(self.held_bytes);
        if let Some(growth) = &self.growth {
            free = free.min(growth.offers(self.held_bytes));
        }
        self.edge = self.edge.max(self.next.saturating_add(free));
        let delay = if self.pending > 0 {
            now.since(self.pending_since)
        } else {
            Duration::ZERO
        };
        self.pending = 0;
        self.compression.end();
        self.last_ack = self.next;
        let mut ack = PlainAck {
            ack: self.next,
            ts_echo: self.ts_recent,
            sent: now,
            window: self.edge - self.next,
            delay,
            ..PlainAck::default()
        };
        self.marks.write(&mut ack);
        ack
    }

    /// When a delayed acknowledgment is due.
    #[inline]
    pub fn next_timer(&self) -> Option<Instant> {
        // While anything is out of order, in-order data is acknowledged at once.
        self.compression.until.or_else(|| self.delayed())
    }

    fn delayed(&self) -> Option<Instant> {
        (self.pending > 0).then(|| self.pending_since + self.config.max_ack_delay)
    }

    /// The acknowledgment to send if the timer has expired.
    pub fn on_timer(&mut self, now: Instant) -> Option<Acknowledgment> {
        self.next_timer().filter(|timer| *timer <= now)?;
        Some(Acknowledgment {
            delayed: self.delayed().is_some(),
            ..self.acknowledge(now, None)
        })
    }

    /// Bytes delivered to the application, in order and once.
    pub fn delivered(&self) -> u64 {
        self.next
    }

    /// Bytes held out of order.
    pub fn held(&self) -> u64 {
        self.held_bytes
    }

    /// Bytes that arrived more than once.
    pub fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }
}

#[cfg(test)]
mod tests;
