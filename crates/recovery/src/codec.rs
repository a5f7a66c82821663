//! Messages as bytes, for engines that carry datagrams instead of values.
//!
//! Numbers are big-endian; times are in nanoseconds of the clock that both ends share. A segment is
//! a header of 24 bytes and its payload of zeros, which is not described.
//!
//! | at | segment | acknowledgment |
//! |---|---|---|
//! | 0 | 1 | 2 |
//! | 1 | flags: CWR 1, PSH 2, sent again 4 | flags: ECE 1, timer 2, first range is a duplicate 4 |
//! | 2 | zero, 2 bytes | number of ranges, 1 byte; zero, 1 byte |
//! | 4 | length of the payload, 4 bytes | zero, 4 bytes |
//! | 8 | sequence number | next byte expected |
//! | 16 | departure | departure of the segment that it answers |
//! | 24 | payload | departure |
//! | 32 | | packets that arrived with CE |
//! | 40 | | bytes that arrived with CE |
//! | 48 | | window |
//! | 56 | | delay in the receiver |
//! | 64 | | ranges: start and end, 16 bytes each |

use paceline_units::{Duration, Ecn, Instant};

use crate::{Acknowledgment, Block, Message, SackBlocks, Segment};

const SEGMENT: u8 = 1;
const ACKNOWLEDGMENT: u8 = 2;
/// Bytes of an acknowledgment without ranges.
const BARE: usize = 64;
/// Bytes of a range.
const RANGE: usize = 16;

impl Message {
    /// Bytes of a segment before its payload.
    pub const HEADER: usize = 24;
    /// The maximum size of an acknowledgment in bytes.
    pub const MAX_ACKNOWLEDGMENT: usize = BARE + SackBlocks::CAPACITY * RANGE;

    /// Its bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Segment(segment) => Self::HEADER.saturating_add(segment.len as usize),
            Self::Acknowledgment(ack) => BARE + ack.blocks.len() * RANGE,
        }
    }

    /// Writes it at the beginning of `room`; returns its size, none if there is not enough room.
    pub fn write(&self, room: &mut [u8]) -> Option<usize> {
        let size = self.size();
        let mut to = Writer(room.get_mut(..size)?);
        match self {
            Self::Segment(segment) => {
                to.put(&[
                    SEGMENT,
                    flags([segment.cwr, segment.push, segment.retransmission]),
                    0,
                    0,
                ])?;
                to.put(&segment.len.to_be_bytes())?;
                to.numbers([segment.seq, segment.sent.as_nanos()])?;
                to.0.fill(0);
            }
            Self::Acknowledgment(ack) => {
                let blocks = u8::try_from(ack.blocks.len()).ok()?;
                let flags = flags([ack.ece, ack.delayed, ack.blocks.dsack]);
                to.put(&[ACKNOWLEDGMENT, flags, blocks, 0, 0, 0, 0, 0])?;
                to.numbers([ack.ack, ack.ts_echo.as_nanos(), ack.sent.as_nanos()])?;
                to.numbers([ack.ce_packets, ack.ce_bytes, ack.window])?;
                to.numbers([ack.delay.as_nanos()])?;
                for block in ack.blocks.iter() {
                    to.numbers([block.start, block.end])?;
                }
            }
        }
        Some(size)
    }

    /// Reads it from a datagram; none if it is not one of ours.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let [kind, flags, count, _] = from.take()?;
        let flag = |bit: u8| flags >> bit & 1 == 1;
        let len = u32::from_be_bytes(from.take()?);
        let message = match kind {
            SEGMENT => {
                let [seq, sent] = from.numbers()?;
                let segment = Segment {
                    seq,
                    len,
                    ecn: Ecn::NotEct,
                    cwr: flag(0),
                    push: flag(1),
                    sent: Instant::from_nanos(sent),
                    retransmission: flag(2),
                };
                seq.checked_add(len.into())?;
                Self::Segment(segment)
            }
            ACKNOWLEDGMENT => {
                let [ack, ts_echo, sent, ce_packets, ce_bytes, window, delay] = from.numbers()?;
                let mut blocks = SackBlocks::default();
                blocks.dsack = flag(2) && count > 0;
                for _ in 0..count {
                    let [start, end] = from.numbers()?;
                    let is_range = start < end && blocks.len() < SackBlocks::CAPACITY;
                    is_range.then(|| blocks.push(Block { start, end }))?;
                }
                Self::Acknowledgment(Acknowledgment {
                    ack,
                    blocks,
                    ts_echo: Instant::from_nanos(ts_echo),
                    sent: Instant::from_nanos(sent),
                    ece: flag(0),
                    ce_packets,
                    ce_bytes,
                    window,
                    delay: Duration::from_nanos(delay),
                    delayed: flag(1),
                    stack: Duration::ZERO,
                })
            }
            _ => return None,
        };
        (message.size() == bytes.len()).then_some(message)
    }
}

/// One bit each, the first in the lowest position.
fn flags(flags: [bool; 3]) -> u8 {
    let bits = flags.iter().zip(0..);
    bits.fold(0, |all, (flag, bit)| all | u8::from(*flag) << bit)
}

/// The remaining room.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let (to, rest) = std::mem::take(&mut self.0).split_at_mut_checked(bytes.len())?;
        to.copy_from_slice(bytes);
        self.0 = rest;
        Some(())
    }

    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) -> Option<()> {
        numbers
            .iter()
            .try_for_each(|number| self.put(&number.to_be_bytes()))
    }
}

/// The remaining bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn numbers<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = u64::from_be_bytes(self.take()?);
        }
        Some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment() -> Segment {
        Segment {
            seq: 0x0102_0304_0506_0708,
            len: 3,
            ecn: Ecn::NotEct,
            cwr: false,
            push: true,
            sent: Instant::from_nanos(9),
            retransmission: true,
        }
    }

    fn written(message: &Message) -> Vec<u8> {
        let mut room = vec![0xaa; message.size()];
        assert_eq!(message.write(&mut room), Some(room.len()));
        room
    }

    #[test]
    fn a_segment_is_what_the_table_says() {
        let bytes = written(&Message::Segment(segment()));
        let header = [1, 6, 0, 0, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(bytes, [&header[..], &[0; 7], &[9], &[0; 3]].concat());
    }

    #[test]
    fn the_longest_acknowledgment_has_the_most_bytes() {
        let blocks = (1..=4).map(|at| Block {
            start: 10 * at,
            end: 10 * at + 5,
        });
        let ack = Acknowledgment {
            blocks: blocks.collect(),
            ..Acknowledgment::default()
        };
        let message = Message::Acknowledgment(ack);
        assert_eq!(written(&message).len(), Message::MAX_ACKNOWLEDGMENT);
        assert_eq!(
            message.write(&mut [0; Message::MAX_ACKNOWLEDGMENT - 1]),
            None
        );
    }

    #[test]
    fn what_is_none_of_ours_is_not_read() {
        let good = written(&Message::Segment(segment()));
        assert!(Message::read(&good).is_some());
        for length in 0..good.len() {
            assert!(Message::read(&good[..length]).is_none(), "{length}");
        }
        let mut long = good.clone();
        long.push(0);
        let mut beyond_the_end = good.clone();
        beyond_the_end[8..16].fill(0xff);
        let mut unknown = good;
        unknown[0] = 3;
        let mut empty_range = [0; BARE + RANGE];
        empty_range[..3].copy_from_slice(&[2, 0, 1]);
        for wrong in [&long, &beyond_the_end, &unknown, &empty_range.to_vec()] {
            assert!(Message::read(wrong).is_none(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            numbers in any::<[u32; 8]>(), flags in any::<[bool; 3]>(), ranges in 0_u64..=4,
        ) {
            let [a, b, c, d, e, f, g, len] = numbers;
            let time = |number: u32| Instant::from_nanos(number.into());
            let sent = Segment {
                seq: a.into(),
                len: len % 3000,
                cwr: flags[0],
                push: flags[1],
                sent: time(b),
                retransmission: flags[2],
                ..segment()
            };
            let mut blocks: SackBlocks =
                (0..ranges).map(|at| Block { start: at, end: at + u64::from(c) + 1 }).collect();
            blocks.dsack = flags[2] && ranges > 0;
            let ack = Acknowledgment {
                ack: a.into(),
                blocks,
                ts_echo: time(b),
                sent: time(c),
                ece: flags[0],
                ce_packets: d.into(),
                ce_bytes: e.into(),
                window: f.into(),
                delay: Duration::from_nanos(g.into()),
                delayed: flags[1],
                stack: Duration::ZERO,
            };
            for message in [Message::Segment(sent), Message::Acknowledgment(ack)] {
                let read = Message::read(&written(&message));
                prop_assert_eq!(read, Some(message));
            }
        }
    }
}
