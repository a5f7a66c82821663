//! The frames of a capture, in their order.

use std::collections::{BTreeMap, HashMap};

use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use crate::error::CaptureError;
use crate::frame::{self, Frame};
use crate::source::Source;

/// Bytes that are read at once, and the maximum size of a block.
const CHUNK: usize = 1 << 18;
const LARGEST: usize = 16 << 20;

/// A capture's information other than its frames.
#[derive(Debug, Default)]
pub struct Read {
    pub frames: u64,
    /// Frames on links of unsupported types.
    pub foreign: u64,
    /// Why it ended early.
    pub cut: Option<String>,
    /// Frames that the capturing program dropped, as it reports itself.
    pub missed: u64,
    /// Simple packet blocks, which have no time.
    pub timeless: u64,
    /// Packets of interfaces that the file does not describe.
    pub nowhere: u64,
}

/// A link of a pcapng file: its type, units of time a second, and seconds to be added.
struct Interface {
    link: i32,
    per_second: u64,
    offset: i64,
}

impl Interface {
    /// Nanoseconds since 1970.
    fn time(&self, [high, low]: [u32; 2]) -> u64 {
        let units = u128::from(high) << 32 | u128::from(low);
        let nanos = units * 1_000_000_000 / u128::from(self.per_second.max(1));
        let offset = i128::from(self.offset) * 1_000_000_000;
        let nanos = i128::try_from(nanos)
            .unwrap_or(i128::MAX)
            .saturating_add(offset);
        u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
    }
}

/// The type of the packet blocks that enhanced ones have replaced.
const OBSOLETE: u32 = 2;

/// The time of a packet, the type of its link, its length as captured and before, its bytes.
type Packet<'a> = (u64, i32, [u32; 2], &'a [u8]);

/// A section of a pcapng file.
#[derive(Default)]
struct Section {
    is_big: bool,
    interfaces: Vec<Interface>,
    /// By interface and by who dropped them.
    dropped: HashMap<(u32, u16), u64>,
}

impl Section {
    /// Reads a block, which may be a packet.
    fn packet<'a>(&mut self, block: &Block<'a>, read: &mut Read) -> Option<Packet<'a>> {
        let (interface, time, lengths, data) = match block {
            Block::SectionHeader(section) => {
                self.interfaces.clear();
                self.is_big = section.big_endian();
                return None;
            }
            Block::InterfaceDescription(interface) => {
                self.interfaces.push(Interface {
                    link: interface.linktype.0,
                    per_second: interface.ts_resolution().unwrap_or(1_000_000),
                    offset: interface.if_tsoffset,
                });
                return None;
            }
            Block::InterfaceStatistics(statistics) => {
                for option in &statistics.options {
                    // isb_ifdrop and isb_osdrop.
                    if let (5 | 7, Some(bytes)) = (option.code.0, option.value.first_chunk::<8>()) {
                        // Drops fit in 32 bits: in the wrong byte order the number would be larger.
                        let count = u64::from_le_bytes(*bytes).min(u64::from_be_bytes(*bytes));
                        let key = (statistics.if_id, option.code.0);
                        self.dropped.insert(key, count);
                    }
                }
                return None;
            }
            Block::EnhancedPacket(packet) => (
                packet.if_id,
                [packet.ts_high, packet.ts_low],
                [packet.caplen, packet.origlen],
                packet.data,
            ),
            Block::Unknown(block) if block.block_type == OBSOLETE => {
                let (head, data) = block.data.split_first_chunk::<20>()?;
                let word = |at: usize| {
                    let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
                    match self.is_big {
                        true => u32::from_be_bytes(bytes),
                        false => u32::from_le_bytes(bytes),
                    }
                };
                // A number of 16 bits, followed by a count of drops.
                let interface = match self.is_big {
                    true => word(0) >> 16,
                    false => word(0) & 0xffff,
                };
                (interface, [word(4), word(8)], [word(12), word(16)], data)
            }
            Block::SimplePacket(_) => {
                read.frames += 1;
                read.timeless += 1;
                return None;
            }
            _ => return None,
        };
        let Some(interface) = self.interfaces.get(interface as usize) else {
            read.frames += 1;
            read.nowhere += 1;
            return None;
        };
        Some((interface.time(time), interface.link, lengths, data))
    }
}

/// Packets that are sorted at once if they are not in order of time: more than a computer's queues
/// hold.
const SORTED: usize = 1 << 14;

/// Passes each packet to the caller: its time in nanoseconds since 1970, and its content. If
/// `sorted`, packets that are out of order in the file pass in order of time.
pub fn packets(
    source: &Source<'_>,
    sorted: bool,
    mut each: impl FnMut(u64, Frame) -> bool,
) -> Result<Read, CaptureError> {
    let mut waiting = BTreeMap::new();
    let mut number = 0_u64;
    let mut goes_on = true;
    let read = frames(source, |at, link, bytes, length| {
        let packet = frame::read(link, bytes, length);
        if !sorted {
            return each(at, packet);
        }
        number += 1;
        waiting.insert((at, number), packet);
        if waiting.len() > SORTED
            && let Some(((at, _), packet)) = waiting.pop_first()
        {
            goes_on = each(at, packet);
        }
        goes_on
    })?;
    for ((at, _), packet) in waiting {
        goes_on = goes_on && each(at, packet);
    }
    Ok(read)
}

/// Passes each frame to the caller: its time in nanoseconds since 1970, its link type, its bytes,
/// and its length before it was captured.
fn frames(
    source: &Source<'_>,
    mut each: impl FnMut(u64, i32, &[u8], usize) -> bool,
) -> Result<Read, CaptureError> {
    let mut read = Read::default();
    let mut reader = match create_reader(CHUNK, source.open()?) {
        Ok(reader) => reader,
        Err(PcapError::Eof | PcapError::Incomplete(_)) => {
            return Err(CaptureError::damaged("the capture ends within its header"));
        }
        Err(error) => return Err(failed(source, &error)),
    };
    let (mut legacy, mut section) = ((1, 1_000), Section::default());
    loop {
        let consumed = match reader.next() {
            Ok((consumed, block)) => {
                let packet = match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        let nanos = header.is_nanosecond_precision();
                        legacy = (header.network.0, if nanos { 1 } else { 1_000 });
                        None
                    }
                    PcapBlockOwned::Legacy(packet) => {
                        let fraction = u64::from(packet.ts_usec) * legacy.1;
                        let at = u64::from(packet.ts_sec) * 1_000_000_000 + fraction;
                        let lengths = [packet.caplen, packet.origlen];
                        Some((at, legacy.0, lengths, packet.data))
                    }
                    PcapBlockOwned::NG(block) => section.packet(&block, &mut read),
                };
                let goes_on = packet.is_none_or(|(at, link, [captured, length], data)| {
                    read.frames += 1;
                    read.foreign += u64::from(!frame::is_known(link));
                    let bytes = data.get(..captured as usize).unwrap_or(data);
                    each(at, link, bytes, (length as usize).max(bytes.len()))
                });
                if !goes_on {
                    return Ok(read);
                }
                consumed
            }
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_)) => {
                source.check()?;
                if reader.reader_exhausted() {
                    read.cut = Some("the file ends within a packet".to_owned());
                    break;
                }
                let size = reader.data().len();
                let refilled = reader.refill();
                if refilled.is_err() || reader.data().len() == size && !reader.reader_exhausted() {
                    // A block that is larger than the buffer.
                    let larger = size.max(CHUNK) * 2;
                    if larger > LARGEST || !reader.grow(larger) {
                        read.cut = Some("the file has a packet of an impossible size".to_owned());
                        break;
                    }
                }
                continue;
            }
            Err(PcapError::UnexpectedEof) => {
                read.cut = Some("the file ends within a packet".to_owned());
                break;
            }
            Err(error) => {
                if read.frames == 0 {
                    return Err(failed(source, &error));
                }
                source.check()?;
                read.cut = Some(format!("the file is damaged after {} packets", read.frames));
                break;
            }
        };
        reader.consume(consumed);
    }
    let dropped = section.dropped.values();
    read.missed = dropped.fold(0, |sum: u64, count| sum.saturating_add(*count));
    Ok(read)
}

fn failed<E: std::fmt::Debug>(source: &Source<'_>, error: &PcapError<E>) -> CaptureError {
    match source.check() {
        Err(stopped) => stopped,
        Ok(()) => {
            let kind = match error {
                PcapError::HeaderNotRecognized => "it does not begin as a capture".to_owned(),
                PcapError::ReadError => "it cannot be read to its end".to_owned(),
                _ => "it is damaged at its first packet".to_owned(),
            };
            CaptureError::damaged(kind)
        }
    }
}
