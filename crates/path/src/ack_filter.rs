//! What boxes on the way do to ACKs. A filter removes those that wait and that another repeats:
//! `cake_ack_filter` of Linux (`net/sched/sch_cake.c`, 6.12). A box that thins them out forwards one
//! of a number.

use std::collections::BTreeMap;

/// The parts of a TCP header that an ACK filter reads. Numbers wrap, as on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The connection, in one direction.
    pub connection: u64,
    /// Whether it acknowledges and does not open a connection: it may make others redundant.
    pub acknowledges: bool,
    /// Whether it is an ACK and nothing else: no data, no flag besides ACK, ECE and CWR, and no
    /// option besides SACK and timestamps. Only such a packet may be redundant.
    pub pure: bool,
    /// ECE in bit 0, CWR in bit 1.
    pub ecn: u8,
    /// The acknowledgment number.
    pub ack: u32,
    /// The value of the timestamp and its echo, if it has one.
    pub stamps: Option<[u32; 2]>,
    /// The first and the last byte, exclusive, of each SACK block.
    pub blocks: [[u32; 2]; 4],
    /// The number of blocks.
    pub sacks: u8,
}

/// The four bytes from there, or zero beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(<[u8]>::first_chunk);
    four.map_or(0, |four| u32::from_be_bytes(*four))
}

/// Whether `a` comes after `b` in a sequence space that wraps.
fn after(a: u32, b: u32) -> bool {
    b.wrapping_sub(a) > u32::MAX / 2
}

impl Header {
    /// That of an IPv4 packet, if it is TCP.
    pub fn read(packet: &[u8], connection: u64) -> Option<Self> {
        const TCP: u8 = 6;
        let [first, _, high, low, .., protocol, _, _] = packet.first_chunk::<12>()?;
        let start = usize::from(first & 15) * 4;
        let tcp = packet.get(start..).filter(|_| *protocol == TCP)?;
        let header = tcp.first_chunk::<20>()?;
        let length = usize::from(header[12] >> 4) * 4;
        let total = usize::from(u16::from_be_bytes([*high, *low]));
        // Without ECE and CWR, of which the filter keeps account.
        let flags = u16::from_be_bytes([header[12], header[13]]) & 0x0f3f;
        const SYN: u16 = 2;
        const ACK: u16 = 16;
        let mut read = Self {
            connection,
            acknowledges: flags & (SYN | ACK) == ACK,
            pure: flags == ACK && total == start + length,
            ecn: header[13] >> 6,
            ack: word(header, 8),
            ..Self::default()
        };
        read.pure &= read.read_options(tcp.get(20..length)?);
        Some(read)
    }

    /// Reads SACK blocks and timestamps; false if there is anything else.
    fn read_options(&mut self, mut options: &[u8]) -> bool {
        const END: u8 = 0;
        const PAD: u8 = 1;
        const SACK: u8 = 5;
        const STAMPS: u8 = 8;
        while let [kind, rest @ ..] = options
            && *kind != END
        {
            if *kind == PAD {
                options = rest;
                continue;
            }
            let size = rest
                .first()
                .and_then(|size| usize::from(*size).checked_sub(2));
            let value = size.and_then(|size| rest.get(1..)?.split_at_checked(size));
            let Some((value, next)) = value else {
                return true;
            };
            match *kind {
                STAMPS if value.len() == 8 => self.stamps = Some([word(value, 0), word(value, 4)]),
                SACK if value.len() % 8 == 0 => {
                    for (block, bytes) in self.blocks.iter_mut().zip(value.chunks_exact(8)) {
                        *block = [word(bytes, 0), word(bytes, 4)];
                        self.sacks += 1;
                    }
                }
                _ => return false,
            }
            options = next;
        }
        true
    }

    fn blocks(&self) -> &[[u32; 2]] {
        self.blocks.get(..self.sacks.into()).unwrap_or(&[])
    }

    /// Whether `later` selects everything that this one does, and, if so, whether it selects more
    /// (`cake_tcph_sack_compare`). A duplicate that is reported (RFC 2883) is reported once only.
    fn is_selected_by(&self, later: &Self) -> Option<bool> {
        let covers = |[start, end]: [u32; 2]| {
            let within = |[from, to]: &[u32; 2]| !after(*from, start) && !after(end, *to);
            !after(self.ack, start) && later.blocks().iter().any(within)
        };
        let bytes = |header: &Self| {
            let sizes = header
                .blocks()
                .iter()
                .map(|[start, end]| end.wrapping_sub(*start));
            sizes.fold(0, u32::wrapping_add)
        };
        let all = self.blocks().iter().all(|block| covers(*block));
        all.then(|| bytes(later) > bytes(self))
    }

    /// Whether `later`, of the same connection, says everything that this one does.
    fn yields_to(&self, later: &Self) -> bool {
        // A connection without timestamps never has the later one's, which counts as zero.
        let stamps = later.stamps.unwrap_or_default();
        let newer = self
            .stamps
            .is_some_and(|[value, echo]| after(value, stamps[0]) || after(echo, stamps[1]));
        self.pure
            && !newer
            && !after(self.ack, later.ack)
            && (self.is_selected_by(later)).is_some_and(|more| more || self.ack != later.ack)
    }
}

/// The place of the ACK that `new` makes redundant among those that wait before it: the oldest, if
/// two could go. An `aggressive` filter takes a single one, if `new` follows it directly. A change of
/// the ECN flags keeps what came before it.
pub(crate) fn redundant(
    waiting: impl Iterator<Item = Option<Header>>,
    new: &Header,
    aggressive: bool,
) -> Option<usize> {
    if !new.acknowledges {
        return None;
    }
    let mut oldest: Option<(usize, u8)> = None;
    let mut count = 0;
    for (place, header) in waiting.enumerate() {
        count += 1;
        let Some(header) = header.filter(|header| header.connection == new.connection) else {
            continue;
        };
        oldest = oldest.filter(|(_, ecn)| *ecn == header.ecn);
        if header.yields_to(new) {
            match oldest {
                Some((oldest, _)) => return Some(oldest),
                None => oldest = Some((place, header.ecn)),
            }
        }
    }
    let (place, ecn) = oldest.filter(|_| aggressive)?;
    (place + 1 == count && ecn == new.ecn).then_some(place)
}

/// Forwards one ACK of `every` that only advance, of each connection. Whatever else an ACK may say
/// passes, and starts the count again: SACK blocks, a duplicate, a change of the ECN flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thinning {
    /// None if it is at most one.
    pub(crate) every: u32,
    connections: BTreeMap<u64, LastAck>,
}

/// The latest ACK of a connection, and the number withheld since one passed.
#[derive(Clone, Copy, Debug, Default)]
struct LastAck {
    ack: u32,
    ecn: u8,
    withheld: u32,
}

impl Thinning {
    /// Whether it withholds the next packet.
    pub(crate) fn withholds(&mut self, new: &Header) -> bool {
        let last = self.connections.entry(new.connection).or_default();
        let advances =
            new.pure && new.sacks == 0 && after(new.ack, last.ack) && new.ecn == last.ecn;
        (last.ack, last.ecn) = (new.ack, new.ecn);
        let withheld = advances && last.withheld + 1 < self.every;
        last.withheld = if withheld { last.withheld + 1 } else { 0 };
        withheld
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pure ACK at the time that its number says.
    fn ack(number: u32) -> Header {
        Header {
            acknowledges: true,
            pure: true,
            ack: 1000 + number * 100,
            stamps: Some([number, number]),
            ..Header::default()
        }
    }

    fn sacked(number: u32, blocks: &[[u32; 2]]) -> Header {
        let mut header = ack(number);
        header.sacks = blocks.len() as u8;
        header.blocks[..blocks.len()].copy_from_slice(blocks);
        header
    }

    fn marked(number: u32) -> Header {
        Header {
            ecn: 1,
            ..ack(number)
        }
    }

    /// What the last of `queue` makes redundant, by default and aggressively.
    fn gone(queue: &[Header]) -> [Option<usize>; 2] {
        let (new, waiting) = queue.split_last().unwrap();
        [false, true]
            .map(|aggressive| redundant(waiting.iter().copied().map(Some), new, aggressive))
    }

    #[test]
    fn the_oldest_goes_if_two_could() {
        assert_eq!(gone(&[ack(1)]), [None, None]);
        assert_eq!(gone(&[ack(1), ack(2)]), [None, Some(0)]);
        assert_eq!(gone(&[ack(1), ack(2), ack(3)]), [Some(0), Some(0)]);
        // Nothing that says more than the new one, and no duplicate: three start fast recovery.
        assert_eq!(gone(&[ack(3), ack(4), ack(2)]), [None, None]);
        let again = |time| Header {
            stamps: Some([time; 2]),
            ..ack(2)
        };
        assert_eq!(gone(&[again(2), again(3), again(4)]), [None, None]);
        // Numbers wrap.
        let near = |ack| Header { ack, ..ack_zero() };
        assert_eq!(
            gone(&[near(u32::MAX - 9), near(u32::MAX), near(5)]),
            [Some(0); 2]
        );
    }

    fn ack_zero() -> Header {
        Header {
            stamps: None,
            ..ack(0)
        }
    }

    #[test]
    fn only_pure_acks_of_the_connection_go() {
        let other = Header {
            connection: 7,
            ..ack(1)
        };
        let data = Header {
            pure: false,
            ..ack(1)
        };
        assert_eq!(gone(&[other, ack(2), ack(3)]), [None, Some(1)]);
        assert_eq!(gone(&[data, ack(2), ack(3)]), [None, Some(1)]);
        // One packet of another kind between the two: no longer consecutive.
        assert_eq!(gone(&[ack(1), other, ack(3)]), [None, None]);
        // Data may replace ACKs; what opens a connection may not.
        let with_data = Header {
            pure: false,
            ..ack(3)
        };
        assert_eq!(gone(&[ack(1), ack(2), with_data]), [Some(0), Some(0)]);
        let syn = Header {
            acknowledges: false,
            ..ack(3)
        };
        assert_eq!(gone(&[ack(1), ack(2), syn]), [None, None]);
    }

    #[test]
    fn what_is_selected_must_be_selected_again() {
        let (one, two) = ([5000, 5100], [6000, 6100]);
        // The last one selects more, at the same point.
        let queue = [sacked(1, &[one]), sacked(1, &[one]), sacked(1, &[two, one])];
        assert_eq!(gone(&queue), [Some(0), Some(0)]);
        // It selects as much, or less.
        assert_eq!(gone(&[sacked(1, &[one]); 3]), [None, None]);
        assert_eq!(
            gone(&[sacked(1, &[two, one]), sacked(1, &[one]), sacked(2, &[one])]),
            [None, Some(1)]
        );
        assert_eq!(gone(&[sacked(1, &[one]), ack(2), ack(3)]), [None, Some(1)]);
        // A larger block covers it. A duplicate is below the point.
        let wide = [4900, 5200];
        assert_eq!(
            gone(&[sacked(1, &[one]), ack(1), sacked(2, &[wide])]),
            [Some(0), Some(0)]
        );
        let duplicate = [900, 1000];
        let queue = [sacked(1, &[duplicate]), ack(2), sacked(3, &[duplicate])];
        assert_eq!(gone(&queue), [None, Some(1)]);
    }

    #[test]
    fn a_change_of_the_ecn_flags_is_told() {
        assert_eq!(gone(&[marked(1), marked(2), marked(3)]), [Some(0), Some(0)]);
        // The first of the marked ones stays, and the one before it.
        assert_eq!(gone(&[ack(1), marked(2), marked(3)]), [None, Some(1)]);
        assert_eq!(
            gone(&[ack(1), marked(2), marked(3), ack(4)]),
            [Some(1), Some(1)]
        );
        assert_eq!(gone(&[ack(1), marked(2)]), [None, None]);
        // Data between them changes the flags, too.
        let data = Header {
            pure: false,
            ..ack(2)
        };
        assert_eq!(
            gone(&[marked(1), data, marked(3), marked(4)]),
            [None, Some(2)]
        );
    }

    #[test]
    fn a_header_is_read_from_the_packet() {
        let packet = |flags: u16, options: &[u8], data: usize| {
            let total = 40 + options.len() + data;
            let mut packet = vec![
                0x45,
                0,
                0,
                total as u8,
                0,
                0,
                0,
                0,
                64,
                6,
                0,
                0,
                10,
                0,
                0,
                1,
                10,
                0,
                0,
                2,
            ];
            packet.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 3, 232]);
            let words = 5 + options.len() as u16 / 4;
            packet.extend((words << 12 | flags).to_be_bytes());
            packet.extend([1, 0, 0, 0, 0, 0]);
            packet.extend(options);
            packet.resize(total, 0);
            Header::read(&packet, 7)
        };
        let stamps = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 5];
        let known = Header {
            connection: 7,
            acknowledges: true,
            pure: true,
            ack: 1000,
            stamps: Some([9, 5]),
            ..Header::default()
        };
        assert_eq!(packet(16, &stamps, 0), Some(known));
        assert_eq!(
            packet(16 | 64, &stamps, 0),
            Some(Header { ecn: 1, ..known })
        );
        assert_eq!(
            packet(16 | 128, &stamps, 0),
            Some(Header { ecn: 2, ..known })
        );
        // Data, PSH, FIN, and the highest bit of ACE are no pure ACKs; a SYN acknowledges nothing.
        let other = Some(Header {
            pure: false,
            ..known
        });
        let others = [
            packet(16, &stamps, 5),
            packet(24, &stamps, 0),
            packet(17, &stamps, 0),
            packet(272, &stamps, 0),
        ];
        assert_eq!(others, [other; 4]);
        let syn = packet(18, &stamps, 0).map(|header| (header.acknowledges, header.pure));
        assert_eq!(syn, Some((false, false)));
        let sack = [
            1, 1, 5, 18, 0, 0, 7, 208, 0, 0, 8, 52, 0, 0, 11, 184, 0, 0, 12, 28,
        ];
        let blocks = packet(16, &sack, 0).map(|header| (header.pure, header.sacks, header.blocks));
        let wanted = [[2000, 2100], [3000, 3100], [0; 2], [0; 2]];
        assert_eq!(blocks, Some((true, 2, wanted)));
        // An option that the filter does not know, and one that is cut off, which ends them.
        assert_eq!(
            packet(16, &[253, 4, 0, 0], 0).map(|header| header.pure),
            Some(false)
        );
        assert_eq!(
            packet(16, &[8, 10, 0, 0], 0).map(|header| (header.pure, header.stamps)),
            Some((true, None))
        );
        assert_eq!(Header::read(&[0x45; 12], 7), None);
    }

    #[test]
    fn a_box_forwards_one_of_a_number() {
        let passed = |every, acks: &[Header]| {
            let mut thinning = Thinning {
                every,
                ..Thinning::default()
            };
            let places = acks.iter().enumerate();
            let passed = places.filter(|(_, ack)| !thinning.withholds(ack));
            passed.map(|(place, _)| place).collect::<Vec<_>>()
        };
        let plain: Vec<_> = (0..9).map(ack).collect();
        assert_eq!(passed(1, &plain), (0..9).collect::<Vec<_>>());
        assert_eq!(passed(4, &plain), [3, 7]);
        // SACK blocks, a duplicate and the first ACK with ECE pass, and the count starts again.
        let block = [9000, 9100];
        let mixed = [
            ack(1),
            ack(2),
            sacked(3, &[block]),
            ack(4),
            ack(4),
            ack(5),
            marked(6),
            marked(7),
            marked(8),
        ];
        assert_eq!(passed(3, &mixed), [2, 4, 6]);
        // Another connection has its own count; data passes.
        let other = |number| Header {
            connection: 7,
            ..ack(number)
        };
        assert_eq!(passed(2, &[ack(1), other(1), ack(2), other(2)]), [2, 3]);
        let data = Header {
            pure: false,
            ..ack(2)
        };
        assert_eq!(passed(2, &[ack(1), data, ack(3), ack(4)]), [1, 3]);
    }

    #[test]
    fn a_newer_timestamp_stays() {
        let late = |value, echo| Header {
            stamps: Some([value, echo]),
            ..ack(1)
        };
        assert_eq!(gone(&[late(4, 1), ack(2), ack(3)]), [None, Some(1)]);
        assert_eq!(gone(&[late(1, 4), ack(2), ack(3)]), [None, Some(1)]);
        assert_eq!(gone(&[late(3, 3), ack(2), ack(3)]), [Some(0), Some(0)]);
        assert_eq!(gone(&[ack_zero(), ack(2), ack(3)]), [Some(0), Some(0)]);
    }
}
