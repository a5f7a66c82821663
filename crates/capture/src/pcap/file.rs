//! The frames of a capture, in their order.

use std::collections::HashMap;

use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use crate::error::CaptureError;
use crate::frame;
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
    pub next_generation: bool,
}

/// A link of a pcapng file: its type, units of time a second, and seconds to be added.
struct Interface {
    link: i32,
    per_second: u64,
    offset: i64,
}

impl Interface {
    /// Nanoseconds since 1970.
    fn time(&self, high: u32, low: u32) -> u64 {
        let units = u128::from(high) << 32 | u128::from(low);
        let nanos = units * 1_000_000_000 / u128::from(self.per_second.max(1));
        let offset = i128::from(self.offset) * 1_000_000_000;
        let nanos = i128::try_from(nanos)
            .unwrap_or(i128::MAX)
            .saturating_add(offset);
        u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
    }
}

/// Passes each frame to the caller: its time in nanoseconds since 1970, its link type, its bytes.
pub fn frames(
    source: &Source<'_>,
    mut each: impl FnMut(u64, i32, &[u8]) -> bool,
) -> Result<Read, CaptureError> {
    let mut read = Read::default();
    let mut reader = match create_reader(CHUNK, source.open()?) {
        Ok(reader) => reader,
        Err(PcapError::Eof | PcapError::Incomplete(_)) => {
            return Err(CaptureError::damaged("the capture ends within its header"));
        }
        Err(error) => return Err(failed(source, &error)),
    };
    let (mut legacy, mut interfaces) = ((1, 1_000), Vec::new());
    let mut dropped = HashMap::new();
    loop {
        let consumed = match reader.next() {
            Ok((consumed, block)) => {
                let mut hand_over = |at, link, bytes: &[u8]| {
                    read.frames += 1;
                    read.foreign += u64::from(!frame::is_known(link));
                    each(at, link, bytes)
                };
                let goes_on = match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        let nanos = header.is_nanosecond_precision();
                        legacy = (header.network.0, if nanos { 1 } else { 1_000 });
                        true
                    }
                    PcapBlockOwned::Legacy(packet) => {
                        let fraction = u64::from(packet.ts_usec) * legacy.1;
                        let at = u64::from(packet.ts_sec) * 1_000_000_000 + fraction;
                        let captured = packet.data.get(..packet.caplen as usize);
                        hand_over(at, legacy.0, captured.unwrap_or(packet.data))
                    }
                    PcapBlockOwned::NG(block) => {
                        match &block {
                            Block::SectionHeader(_) => interfaces.clear(),
                            Block::InterfaceDescription(interface) => interfaces.push(Interface {
                                link: interface.linktype.0,
                                per_second: interface.ts_resolution().unwrap_or(1_000_000),
                                offset: interface.if_tsoffset,
                            }),
                            Block::InterfaceStatistics(statistics) => {
                                for option in &statistics.options {
                                    // isb_ifdrop and isb_osdrop.
                                    let number = option.value.first_chunk::<8>();
                                    if let (5 | 7, Some(bytes)) = (option.code.0, number) {
                                        // Drops fit in 32 bits: in the wrong byte order the number
                                        // would be larger.
                                        let count = u64::from_le_bytes(*bytes)
                                            .min(u64::from_be_bytes(*bytes));
                                        let key = (statistics.if_id, option.code.0);
                                        dropped.insert(key, count);
                                    }
                                }
                            }
                            _ => {}
                        }
                        read.next_generation = true;
                        match block {
                            Block::EnhancedPacket(packet) => {
                                let interface = interfaces.get(packet.if_id as usize);
                                interface.is_none_or(|interface: &Interface| {
                                    let at = interface.time(packet.ts_high, packet.ts_low);
                                    let captured = packet.data.get(..packet.caplen as usize);
                                    hand_over(at, interface.link, captured.unwrap_or(packet.data))
                                })
                            }
                            _ => true,
                        }
                    }
                };
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
    read.missed = dropped
        .values()
        .fold(0, |sum: u64, count| sum.saturating_add(*count));
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
