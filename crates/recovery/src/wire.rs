//! The messages: data segments one way, acknowledgments the other.

use paceline_congestion::Ecn;
use paceline_units::{Duration, Instant};

/// A data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of its first byte.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// Its ECN codepoint; a link may change it to [`Ecn::Ce`].
    pub ecn: Ecn,
    /// Whether the window was reduced (the CWR flag of RFC 3168).
    pub cwr: bool,
    /// The PSH flag ([`SenderConfig::push`](crate::SenderConfig::push)).
    pub push: bool,
    /// Departure time, the value of its timestamp option (RFC 7323 `TSval`).
    pub sent: Instant,
    /// Whether it is a retransmission. For the record only: receivers do not look at it.
    pub retransmission: bool,
}

impl Segment {
    /// The sequence number after its last byte.
    pub const fn end(&self) -> u64 {
        self.seq.saturating_add(self.len as u64)
    }
}

/// A half-open range of sequence numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// First byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

/// The SACK option (RFC 2018): at most four ranges, the most recently changed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [Block; Self::CAPACITY],
    len: u8,
    /// Whether the first range reports a duplicate (RFC 2883) instead of held data.
    pub dsack: bool,
}

impl SackBlocks {
    /// The most ranges that an option holds.
    pub const CAPACITY: usize = 4;

    /// Appends a range; ignored if the option is full.
    pub fn push(&mut self, block: Block) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.len)) {
            *slot = block;
            self.len += 1;
        }
    }

    /// Keeps the first `len` ranges.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u8::try_from(len).unwrap_or(u8::MAX));
    }

    /// All ranges, a leading duplicate included.
    pub fn iter(&self) -> impl Iterator<Item = Block> + '_ {
        self.as_slice().iter().copied()
    }

    /// All ranges, a leading duplicate included.
    pub fn as_slice(&self) -> &[Block] {
        self.blocks.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The range reported as received more than once, if any.
    #[inline]
    pub fn duplicate(&self) -> Option<Block> {
        self.as_slice().first().copied().filter(|_| self.dsack)
    }

    /// The ranges held out of order.
    pub fn held(&self) -> &[Block] {
        self.as_slice()
            .get(usize::from(self.dsack)..)
            .unwrap_or(&[])
    }

    /// By what the first range has grown, if that is all that distinguishes them from an option
    /// `before`.
    #[inline]
    pub(crate) fn growth_since(&self, before: &Self) -> Option<Block> {
        let ([first, others @ ..], [known, rest @ ..]) = (self.as_slice(), before.as_slice())
        else {
            return None;
        };
        let grows = first.start == known.start && first.end > known.end;
        let rest_is_known = others == rest && !self.dsack && !before.dsack;
        (grows && rest_is_known).then_some(Block {
            start: known.end,
            end: first.end,
        })
    }

    /// Whether there is no range.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many ranges there are.
    pub const fn len(&self) -> usize {
        self.len as usize
    }
}

impl FromIterator<Block> for SackBlocks {
    fn from_iter<I: IntoIterator<Item = Block>>(iter: I) -> Self {
        let mut blocks = Self::default();
        iter.into_iter().for_each(|block| blocks.push(block));
        blocks
    }
}

/// An acknowledgment, with `Ranges` that are SACKed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgment<Ranges = SackBlocks> {
    /// Cumulative: the next byte expected.
    pub ack: u64,
    /// Selective ranges.
    pub blocks: Ranges,
    /// RFC 7323 `TSecr`: [`Segment::sent`] of the segment it answers.
    pub ts_echo: Instant,
    /// Departure time, the value of its own timestamp option. Both ends share one clock.
    pub sent: Instant,
    /// ECN echo; its meaning depends on the [`EcnFeedback`](crate::EcnFeedback). With accurate
    /// feedback: a segment since the last acknowledgment carried CE.
    pub ece: bool,
    /// Packets that arrived with CE since the start (accurate ECN), or the last three bits of their
    /// number (ACE).
    pub ce_packets: u64,
    /// Payload bytes that arrived with CE since the start (accurate ECN).
    pub ce_bytes: u64,
    /// Receive window in bytes, counted from `ack`.
    pub window: u64,
    /// How long the receiver held the segment it answers.
    pub delay: Duration,
    /// Whether the delayed-ACK timer sent it.
    pub delayed: bool,
    /// Not on the wire: how long it has been in the sender's host, if its NIC's clock reports it. RTT
    /// samples end before that.
    pub stack: Duration,
}

/// An acknowledgment without selective ranges: half as large, and most are.
pub type PlainAck = Acknowledgment<()>;

impl<Ranges> Acknowledgment<Ranges> {
    /// The same with other selective ranges.
    #[inline(always)]
    pub fn with<Others>(&self, blocks: Others) -> Acknowledgment<Others> {
        Acknowledgment {
            ack: self.ack,
            blocks,
            ts_echo: self.ts_echo,
            sent: self.sent,
            ece: self.ece,
            ce_packets: self.ce_packets,
            ce_bytes: self.ce_bytes,
            window: self.window,
            delay: self.delay,
            delayed: self.delayed,
            stack: self.stack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u64, end: u64) -> Block {
        Block { start, end }
    }

    #[test]
    fn holds_four_ranges_and_tells_a_duplicate_apart() {
        let mut blocks: SackBlocks = (0..5).map(|i| block(10 * i, 10 * i + 5)).collect();
        assert_eq!(blocks.len(), 4);
        assert_eq!(blocks.duplicate(), None);
        assert_eq!(blocks.held().len(), 4);
        blocks.dsack = true;
        assert_eq!(blocks.duplicate(), Some(block(0, 5)));
        assert_eq!(blocks.held().first(), Some(&block(10, 15)));
    }

    #[test]
    fn an_empty_option_has_no_duplicate() {
        let blocks = SackBlocks {
            dsack: true,
            ..SackBlocks::default()
        };
        assert_eq!(blocks.duplicate(), None);
        assert!(blocks.held().is_empty());
    }
}
