//! Captures: packets as they pass their sender, in pcapng, with headers of IPv4 and TCP.
//!
//! A packet is captured up to the end of its headers: its original length includes the payload, and
//! its checksum is that of a payload of zeros. Timestamps are RFC 7323's in milliseconds, or
//! [`Ets`].
//!
//! The crate pcap-file would save the 30 lines that write blocks, but its version 2 pulls in second
//! versions of syn and thiserror, and its version 3 needs a newer Rust.

use paceline_units::{Duration, Instant};

use crate::SackBlocks;
use crate::ets::{EchoDelay, Ets, OPTION_SPACE, Timestamp};

/// Addresses for documentation (RFC 5737), the sender's first. Each flow has its own port.
const ADDRESSES: [[u8; 4]; 2] = [[192, 0, 2, 1], [198, 51, 100, 1]];
const PORT: u16 = 10_000;
const PORTS: u32 = 50_000;
const SERVICE: u16 = 5_001;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const IP: usize = 20;
const TCP: usize = 20;
const NOP: u8 = 1;
/// The largest shift of a window (RFC 7323 section 2.3).
const SHIFT: u8 = 14;
/// The code of a comment in every block.
const COMMENT: u16 = 1;

/// A packet at its sender. Sequence numbers count from the stream's first byte.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// When it left, or arrived.
    pub t: Instant,
    /// Its flow, by index in the capture.
    pub flow: u32,
    /// Whether the sender sent it; otherwise the receiver.
    pub sent: bool,
    /// Whether it opens the connection.
    pub syn: bool,
    /// Whether it ends the sender's data.
    pub fin: bool,
    /// Its first byte.
    pub seq: u64,
    /// The next byte expected.
    pub ack: u64,
    /// Payload bytes.
    pub len: u32,
    /// The receiver's window in bytes.
    pub window: u64,
    /// The receiver's data beyond `ack`.
    pub blocks: SackBlocks,
    /// The timestamps of the receiver; those of the sender follow from earlier packets.
    pub times: Option<Times>,
    /// A comment on it, or nothing.
    pub comment: String,
}

/// The timestamps of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// When it left.
    pub departed: Instant,
    /// Departure time of the segment that it echoes.
    pub echoed: Instant,
    /// How long that segment was held, if it is reported.
    pub held: Option<Duration>,
}

/// A flow of a capture.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// Header bytes of data packets; NOPs fill the space that options leave.
    pub header: usize,
    /// The segment size that SYNs offer.
    pub mss: u16,
    /// The receiver's largest window in bytes, which decides how windows are scaled.
    pub window: u64,
    /// Its timestamps, if they are known.
    pub clock: Option<Clock>,
}

/// The timestamps of a flow.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// ETS instead of RFC 7323's.
    pub ets: bool,
    /// The maximum ACK delay.
    pub max_ack_delay: Duration,
    /// When the latest segment from the receiver left, and when it arrived: data echoes it.
    pub latest: (Instant, Instant),
}

impl Clock {
    /// The padded option of a packet; nothing if it has none.
    fn option(&mut self, packet: &Packet) -> Vec<u8> {
        let t = packet.t;
        let times = match packet.times {
            Some(times) => times,
            None if !packet.sent => return Vec::new(),
            None if packet.syn => Times {
                departed: t,
                ..Times::default()
            },
            None => Times {
                departed: t,
                echoed: self.latest.0,
                held: Some(t.since(self.latest.1)),
            },
        };
        if !packet.sent {
            self.latest = (times.departed, t);
        }
        if !self.ets {
            let ticks = |at: Instant| ((at.as_nanos() / 1_000_000) as u32).to_be_bytes();
            let (value, echo) = (ticks(times.departed), ticks(times.echoed));
            return [&[NOP, NOP, 8, 10][..], &value, &echo].concat();
        }
        let max_ack_delay = u16::try_from(self.max_ack_delay.as_micros()).unwrap_or(u16::MAX);
        let option = Ets {
            tsval: Timestamp::at(times.departed),
            tsecr: Timestamp::at(times.echoed),
            delay: times.held.map_or(EchoDelay::Invalid, EchoDelay::new),
            max_ack_delay: packet.syn.then_some(max_ack_delay),
        };
        let length = option.wire_len();
        let mut octets = vec![NOP; length.next_multiple_of(4)];
        let padding = octets.len() - length;
        option.encode(octets.get_mut(padding..).unwrap_or_default());
        octets
    }
}

impl Flow {
    /// The smallest shift with which its windows have room: they lose no more than they must.
    fn shift(&self) -> u8 {
        let bits = u64::BITS - self.window.leading_zeros();
        bits.saturating_sub(u16::BITS).min(SHIFT.into()) as u8
    }
}

impl Packet {
    fn options(&self, flow: &mut Flow) -> Vec<u8> {
        let shift = flow.shift();
        let clock = flow.clock.as_mut();
        let mut times = clock.map_or_else(Vec::new, |clock| clock.option(self));
        if self.syn {
            let [high, low] = flow.mss.to_be_bytes();
            // MSS, SACK permitted, window scale
            let offers = [2, 4, high, low, 4, 2, NOP, 3, 3, shift, NOP, NOP];
            return [&offers[..], &times].concat();
        }
        if self.sent {
            let room = flow.header.saturating_sub(IP + TCP).min(OPTION_SPACE) / 4 * 4;
            if times.len() > room {
                times.clear();
            }
            times.resize(room, NOP);
            return times;
        }
        let blocks = self.blocks.iter();
        let blocks: Vec<u8> = blocks
            .flat_map(|block| [number(block.start), number(block.end)])
            .flatten()
            .collect();
        let header = [NOP, NOP, 5, (2 + blocks.len()) as u8];
        let sack = if blocks.is_empty() { &[][..] } else { &header };
        // Four blocks leave no room, but the simulation has them nevertheless.
        if times.len() + sack.len() + blocks.len() > OPTION_SPACE {
            times.clear();
        }
        [&times, sack, &blocks].concat()
    }

    /// All headers, with their checksums.
    fn headers(&self, flow: &mut Flow) -> Vec<u8> {
        let options = self.options(flow);
        let (mut ports, mut addresses) = ([PORT + (self.flow % PORTS) as u16, SERVICE], ADDRESSES);
        if !self.sent {
            ports.reverse();
            addresses.reverse();
        }
        let end = if self.fin { FIN } else { 0 };
        let (seq, ack, flags) = match (self.syn, self.sent) {
            (true, true) => ([0; 4], [0; 4], SYN),
            (true, false) => ([0; 4], number(0), SYN | ACK),
            (false, _) => (number(self.seq), number(self.ack), ACK | end),
        };
        let window = match self.sent || self.syn {
            true => u16::MAX,
            false => u16::try_from(self.window >> flow.shift()).unwrap_or(u16::MAX),
        };
        let mut tcp = ports.map(u16::to_be_bytes).as_flattened().to_vec();
        tcp.extend([seq, ack].as_flattened());
        tcp.extend([((TCP + options.len()) << 2) as u8, flags]);
        tcp.extend(window.to_be_bytes());
        // Checksum and urgent pointer.
        tcp.extend([0; 4]);
        tcp.extend(options);
        let length = |before: usize| ((before + tcp.len()) as u32 + self.len) as u16;
        let ([high, low], of_tcp) = (length(IP).to_be_bytes(), length(0).to_be_bytes());
        let pseudo = [addresses.as_flattened(), &[0, 6], &of_tcp].concat();
        put_checksum(&mut tcp, 16, &pseudo);
        // Not to be fragmented; 64 hops; TCP.
        let mut headers = vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, 6, 0, 0];
        headers.extend(addresses.as_flattened());
        put_checksum(&mut headers, 10, &[]);
        headers.extend(tcp);
        headers
    }
}

/// The sequence number of a byte: the SYN has 0, the first byte 1.
fn number(offset: u64) -> [u8; 4] {
    (offset.wrapping_add(1) as u32).to_be_bytes()
}

/// Fills in the checksum (RFC 1071) of the preceding data and of these octets, all of even length.
fn put_checksum(octets: &mut [u8], at: usize, before: &[u8]) {
    let words = before.chunks_exact(2).chain(octets.chunks_exact(2));
    let mut sum: u32 = words
        .filter_map(|word| word.first_chunk())
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    if let Some(place) = octets.get_mut(at..at + 2) {
        place.copy_from_slice(&(!sum as u16).to_be_bytes());
    }
}

/// A capture that is being written.
#[derive(Debug)]
pub struct Capture {
    flows: Vec<Flow>,
    octets: Vec<u8>,
}

impl Capture {
    /// A capture of these flows; `about` describes it, `application` names its author.
    pub fn new(flows: Vec<Flow>, about: &str, application: &str) -> Self {
        const SECTION: u32 = 0x0a0d_0d0a;
        const INTERFACE: u32 = 1;
        const APPLICATION: u16 = 4;
        const NAME: u16 = 2;
        const RESOLUTION: u16 = 9;
        /// A packet begins with its IP header.
        const RAW: u8 = 101;
        let octets = Vec::new();
        let mut capture = Self { flows, octets };
        // Byte order, version 1.0, and an unspecified length.
        let mut section = vec![0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
        section.extend([0xff; 8]);
        let options = [(COMMENT, about), (APPLICATION, application)];
        capture.block(SECTION, section, &options);
        let interface = vec![RAW, 0, 0, 0, 0, 0, 0, 0];
        // In powers of ten: nanoseconds.
        capture.block(
            INTERFACE,
            interface,
            &[(NAME, "sender"), (RESOLUTION, "\t")],
        );
        capture
    }

    /// Writes a packet; a packet of an unknown flow is skipped.
    pub fn push(&mut self, packet: &Packet) {
        const ENHANCED: u32 = 6;
        let Some(flow) = self.flows.get_mut(packet.flow as usize) else {
            return;
        };
        let headers = packet.headers(flow);
        let (nanos, length) = (packet.t.as_nanos(), headers.len() as u32);
        let words = [
            0,
            (nanos >> 32) as u32,
            nanos as u32,
            length,
            length + packet.len,
        ];
        let body = [words.map(u32::to_le_bytes).as_flattened(), &headers].concat();
        let comment = [(COMMENT, packet.comment.as_str())];
        let comments = usize::from(!packet.comment.is_empty());
        self.block(ENHANCED, body, comment.get(..comments).unwrap_or_default());
    }

    /// The file.
    pub fn into_octets(self) -> Vec<u8> {
        self.octets
    }

    fn block(&mut self, kind: u32, mut body: Vec<u8>, options: &[(u16, &str)]) {
        for (code, text) in options {
            body.extend(
                [*code, text.len() as u16]
                    .map(u16::to_le_bytes)
                    .as_flattened(),
            );
            body.extend(text.as_bytes());
            body.resize(body.len().next_multiple_of(4), 0);
        }
        if !options.is_empty() {
            body.extend([0; 4]);
        }
        let length = (body.len() as u32 + 12).to_le_bytes();
        self.octets.extend(kind.to_le_bytes());
        self.octets.extend(length);
        self.octets.extend(body);
        self.octets.extend(length);
    }
}

#[cfg(test)]
mod tests;
