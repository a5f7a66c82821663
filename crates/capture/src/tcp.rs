//! The header of a TCP segment.

/// TCP's protocol number.
pub const TCP: u8 = 6;

/// The TCP header fields of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Whether it opens the connection.
    pub syn: bool,
    /// Payload in bytes.
    pub len: u32,
    /// Receive window, unscaled.
    pub window: u16,
    /// The shift that a SYN announces for windows.
    pub window_shift: Option<u8>,
    /// Source and destination.
    pub ports: [u16; 2],
    /// The value of its timestamp; 0 if it has none.
    pub stamp: u32,
    /// The timestamp that it echoes; 0 if it has none.
    pub echo: u32,
    /// Whether it ends the stream.
    pub fin: bool,
    /// Whether it resets the connection.
    pub rst: bool,
    /// SACK blocks; missing ones are empty.
    pub blocks: [(u32, u32); 4],
}

impl Tcp {
    /// Reads the TCP header of an IPv4 packet.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let first = *packet.first()?;
        if *packet.get(9)? != TCP {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
        let ip = usize::from(first & 15) * 4;
        Self::of_segment(packet.get(ip..)?, total.checked_sub(ip)?)
    }

    /// Reads a segment of `total` bytes, whose payload need not have been captured.
    pub fn of_segment(segment: &[u8], total: usize) -> Option<Self> {
        let header = segment.first_chunk::<20>()?;
        let word = |at: usize| {
            let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_be_bytes(bytes)
        };
        let length = usize::from(header[12] >> 4) * 4;
        let options = segment.get(20..length)?;
        let mut tcp = Self {
            seq: word(4),
            ack: word(8),
            syn: header[13] & 2 != 0,
            fin: header[13] & 1 != 0,
            rst: header[13] & 4 != 0,
            len: u32::try_from(total.checked_sub(length)?).ok()?,
            window: u16::from_be_bytes([header[14], header[15]]),
            ports: [
                u16::from_be_bytes([header[0], header[1]]),
                u16::from_be_bytes([header[2], header[3]]),
            ],
            ..Self::default()
        };
        tcp.read_options(options);
        Some(tcp)
    }

    fn read_options(&mut self, mut options: &[u8]) {
        const END: u8 = 0;
        const PAD: u8 = 1;
        const WINDOW: u8 = 3;
        const SACK: u8 = 5;
        const STAMP: u8 = 8;
        while let [kind, rest @ ..] = options {
            if *kind == END {
                return;
            }
            if *kind == PAD {
                options = rest;
                continue;
            }
            let Some((length, value)) = rest.split_first() else {
                return;
            };
            let Some(length) = usize::from(*length).checked_sub(2) else {
                return;
            };
            let Some((value, next)) = value.split_at_checked(length) else {
                return;
            };
            match *kind {
                WINDOW => self.window_shift = value.first().copied(),
                STAMP => {
                    let number = |at: usize| {
                        let bytes = value.get(at..).and_then(|rest| rest.first_chunk());
                        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
                    };
                    (self.stamp, self.echo) = (number(0), number(4));
                }
                SACK => {
                    for (block, bytes) in self.blocks.iter_mut().zip(value.chunks_exact(8)) {
                        if let [a, b, c, d, e, f, g, h] = *bytes {
                            let start = u32::from_be_bytes([a, b, c, d]);
                            *block = (start, u32::from_be_bytes([e, f, g, h]));
                        }
                    }
                }
                _ => {}
            }
            options = next;
        }
    }
}
