//! The header of a TCP segment.

/// TCP's protocol number.
pub const TCP: u8 = 6;

/// The TCP header fields of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// Acknowledgment number, if the ACK flag is set: without it the field means nothing (RFC 9293
    /// section 3.1).
    pub ack: Option<u32>,
    /// Whether it opens the connection.
    pub syn: bool,
    /// Bytes of the stream: a reset has none, whatever follows its header (RFC 9293 section 3.5.3).
    pub len: u32,
    /// Receive window, unscaled.
    pub window: u16,
    /// The shift that a SYN announces for windows.
    pub window_shift: Option<u8>,
    /// The largest segment that a SYN announces.
    pub mss: Option<u16>,
    /// Bytes of options.
    pub options: u8,
    /// Source and destination.
    pub ports: [u16; 2],
    /// The value of its timestamp.
    pub stamp: Option<u32>,
    /// The timestamp that it echoes: only an ACK echoes one (RFC 7323 section 3.2).
    pub echo: Option<u32>,
    /// Whether it ends the stream.
    pub fin: bool,
    /// Whether it resets the connection.
    pub rst: bool,
    /// SACK blocks of an ACK; missing ones are empty.
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
        // A short capture may have cut the options.
        let options = segment.get(20..length.min(segment.len()))?;
        let flag = |bit: u8| header[13] & bit != 0;
        let payload = u32::try_from(total.checked_sub(length)?).ok()?;
        let mut tcp = Self {
            seq: word(4),
            ack: flag(16).then(|| word(8)),
            syn: flag(2),
            fin: flag(1),
            rst: flag(4),
            len: if flag(4) { 0 } else { payload },
            options: (length - 20) as u8,
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
        const MSS: u8 = 2;
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
            match (*kind, value) {
                (MSS, [high, low]) if self.syn => {
                    self.mss = Some(u16::from_be_bytes([*high, *low]));
                }
                (WINDOW, [shift]) if self.syn => self.window_shift = Some(*shift),
                (STAMP, [a, b, c, d, echo @ ..]) if echo.len() == 4 => {
                    self.stamp = Some(u32::from_be_bytes([*a, *b, *c, *d]));
                    let echo = echo.first_chunk().map(|echo| u32::from_be_bytes(*echo));
                    self.echo = echo.filter(|_| self.ack.is_some());
                }
                (SACK, value) if self.ack.is_some() && value.len().is_multiple_of(8) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with these flags and options, and 5 bytes after it.
    fn read(flags: u8, options: &[u8]) -> Option<Tcp> {
        let words = 5 + options.len() / 4;
        let mut segment = vec![0, 80, 0, 81, 0, 0, 0, 5, 0, 0, 0, 9];
        segment.extend([(words << 4) as u8, flags, 1, 0, 0, 0, 0, 0]);
        segment.extend(options);
        Tcp::of_segment(&segment, segment.len() + 5)
    }

    const STAMP: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 3];

    #[test]
    fn a_field_counts_only_with_its_flag() {
        let tcp = read(16, &STAMP).unwrap();
        assert_eq!((tcp.ack, tcp.stamp, tcp.echo), (Some(9), Some(7), Some(3)));
        let reset = read(4, &STAMP).unwrap();
        assert_eq!((reset.ack, reset.stamp, reset.echo), (None, Some(7), None));
        // The text after a reset is no data.
        assert_eq!((tcp.len, reset.len), (5, 0));
        let sizes = [2, 4, 5, 180, 3, 3, 7, 0];
        let syn = read(2, &sizes).unwrap();
        assert_eq!((syn.mss, syn.window_shift), (Some(1460), Some(7)));
        let other = read(16, &sizes).unwrap();
        assert_eq!((other.mss, other.window_shift), (None, None));
        let blocks = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        assert_eq!(read(16, &blocks).unwrap().blocks[0], (1, 2));
        assert_eq!(read(1, &blocks).unwrap().blocks[0], (0, 0));
        // A length that the option cannot have.
        let odd = [8, 8, 0, 0, 0, 7, 0, 0, 5, 4, 0, 0];
        let tcp = read(16, &odd).unwrap();
        assert_eq!((tcp.stamp, tcp.blocks[0]), (None, (0, 0)));
    }

    #[test]
    fn options_that_were_cut_off_cost_only_themselves() {
        let mut segment = vec![
            0, 80, 0, 81, 0, 0, 0, 5, 0, 0, 0, 9, 0x80, 16, 1, 0, 0, 0, 0, 0,
        ];
        let of = |segment: &[u8]| Tcp::of_segment(segment, 132).map(|tcp| (tcp.len, tcp.stamp));
        assert_eq!(of(&segment), Some((100, None)));
        segment.extend(&STAMP);
        assert_eq!(of(&segment), Some((100, Some(7))));
        // A header shorter than the shortest.
        segment[12] = 0x40;
        assert_eq!(of(&segment), None);
    }
}
