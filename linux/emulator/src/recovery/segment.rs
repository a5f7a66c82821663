//! The peer's TCP segments, byte for byte.

use std::net::Ipv4Addr;

use paceline_capture::Tcp;
use paceline_conformance::recovery::{MSS, WINDOW};
use paceline_recovery::Acknowledgment;
use paceline_tcp::packet::{SENDER, receiver};
use paceline_units::{Duration, Instant};

/// The peer's initial sequence number.
const SEQUENCE: u32 = 1_000_000;
/// The shift of its windows.
const SHIFT: u8 = 10;
/// Bytes of a timestamp option with its padding.
const STAMP: u32 = 12;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// Writes the receiver's segments.
pub struct Answerer {
    /// The kernel's initial sequence number, its first timestamp, and its port.
    sequence: u32,
    stamp: u32,
    ports: [u16; 2],
    sack: bool,
}

impl Answerer {
    /// The writer for a connection, from its SYN; none if it is another segment.
    pub fn new(syn: &Tcp, sack: bool) -> Option<Self> {
        syn.syn.then_some(Self {
            sequence: syn.seq,
            stamp: syn.stamp.unwrap_or(0),
            ports: [syn.ports[1], syn.ports[0]],
            sack,
        })
    }

    /// The position of a segment in the stream, and its timestamp: one more than the time since the
    /// SYN's.
    pub fn place(&self, tcp: &Tcp) -> (u64, Instant) {
        let seq = tcp.seq.wrapping_sub(self.sequence).wrapping_sub(1);
        let stamp = tcp.stamp.unwrap_or(0);
        let stamp = stamp.wrapping_sub(self.stamp).wrapping_add(1);
        (u64::from(seq), stamped(stamp))
    }

    /// The SYN-ACK.
    pub fn open(&self) -> Vec<u8> {
        let mss = ((MSS + STAMP) as u16).to_be_bytes();
        let mut options = vec![2, 4, mss[0], mss[1], 1, 3, 3, SHIFT];
        if self.sack {
            options.extend([1, 1, 4, 2]);
        }
        options.extend(self.stamps(0, self.stamp));
        self.segment(SYN | ACK, SEQUENCE, self.sequence.wrapping_add(1), &options)
    }

    /// An acknowledgment.
    pub fn reply(&self, ack: &Acknowledgment) -> Vec<u8> {
        let place = |at: u64| self.sequence.wrapping_add(1).wrapping_add(at as u32);
        let millis = |time: Instant| {
            let time = time.since(Instant::ZERO).as_nanos();
            (time / Duration::from_millis(1).as_nanos()) as u32
        };
        let echo = self.stamp.wrapping_add(millis(ack.ts_echo)).wrapping_sub(1);
        let mut options = self.stamps(millis(ack.sent), echo).to_vec();
        let blocks: Vec<_> = ack.blocks.iter().collect();
        if !blocks.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
            for block in blocks {
                options.extend(place(block.start).to_be_bytes());
                options.extend(place(block.end).to_be_bytes());
            }
        }
        self.segment(ACK, SEQUENCE.wrapping_add(1), place(ack.ack), &options)
    }

    fn stamps(&self, value: u32, echo: u32) -> [u8; STAMP as usize] {
        let mut option = [1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0];
        option[4..8].copy_from_slice(&value.to_be_bytes());
        option[8..12].copy_from_slice(&echo.to_be_bytes());
        option
    }

    fn segment(&self, flags: u8, seq: u32, ack: u32, options: &[u8]) -> Vec<u8> {
        // The window of a SYN is not shifted.
        let window = match flags & SYN {
            0 => (WINDOW >> SHIFT) as u16,
            _ => u16::MAX,
        };
        let length = 20 + options.len();
        let mut tcp = Vec::with_capacity(length);
        tcp.extend(self.ports[0].to_be_bytes());
        tcp.extend(self.ports[1].to_be_bytes());
        tcp.extend(seq.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        tcp.extend([(length / 4 * 16) as u8, flags]);
        tcp.extend(window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        ip(&tcp, receiver(0), SENDER)
    }
}

/// A time in the kernel's timestamps, which count milliseconds.
fn stamped(millis: u32) -> Instant {
    Instant::ZERO + Duration::from_millis(u64::from(millis))
}

/// A TCP segment in an IPv4 packet, still without its checksum.
fn ip(tcp: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    const TCP: u8 = 6;
    let mut pseudo = Vec::new();
    pseudo.extend(from.octets());
    pseudo.extend(to.octets());
    pseudo.extend([0, TCP]);
    pseudo.extend((tcp.len() as u16).to_be_bytes());
    pseudo.extend(tcp);
    let mut tcp = tcp.to_vec();
    tcp[16..18].copy_from_slice(&checksum(&pseudo).to_be_bytes());

    let mut packet = vec![0x45, 0];
    packet.extend((20 + tcp.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, TCP, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(tcp);
    packet
}

/// RFC 1071, of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2);
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use paceline_recovery::Block;

    use super::*;

    fn answerer() -> Answerer {
        let syn = Tcp {
            seq: u32::MAX,
            syn: true,
            stamp: Some(u32::MAX - 1),
            ports: [40_000, 5001],
            ..Tcp::default()
        };
        Answerer::new(&syn, true).unwrap()
    }

    #[test]
    fn an_answer_is_read_as_it_was_meant() {
        let mut ack: Acknowledgment = Acknowledgment {
            ack: 3000,
            ts_echo: stamped(7),
            sent: stamped(9),
            ..Acknowledgment::default()
        };
        ack.blocks.push(Block {
            start: 5000,
            end: 8000,
        });
        let packet = answerer().reply(&ack);
        let tcp = Tcp::read(&packet).unwrap();
        // The first byte is 0: sequence numbers have wrapped.
        assert_eq!((tcp.ack, tcp.seq, tcp.len), (Some(3000), SEQUENCE + 1, 0));
        assert_eq!(tcp.blocks[0], (5000, 8000));
        assert_eq!((tcp.stamp, tcp.ports), (Some(9), [5001, 40_000]));
        assert_eq!(u64::from(tcp.window) << SHIFT, WINDOW);
        let echo = packet.windows(2).position(|two| two == [8, 10]).unwrap() + 6;
        // 7 is six more than the SYN's, which is 1.
        assert_eq!(packet[echo..echo + 4], [0, 0, 0, 4]);
        assert_eq!(checksum(&packet[..20]), 0);
    }

    #[test]
    fn segments_have_their_places() {
        let data = Tcp {
            seq: 1000,
            stamp: Some(3),
            ..Tcp::default()
        };
        assert_eq!(answerer().place(&data), (1000, stamped(6)));
        assert!(Answerer::new(&data, true).is_none());
    }

    #[test]
    fn only_a_receiver_with_sack_says_so() {
        let has = |answerer: Answerer| answerer.open().windows(4).any(|o| o == [1, 1, 4, 2]);
        assert!(has(answerer()));
        assert!(!has(Answerer {
            sack: false,
            ..answerer()
        }));
    }
}
