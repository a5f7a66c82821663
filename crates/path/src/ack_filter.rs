//! Which ACK that waits becomes redundant when another joins it: `cake_ack_filter` of Linux
//! (`net/sched/sch_cake.c`, 6.12).

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

/// Whether `a` comes after `b` in a sequence space that wraps.
fn after(a: u32, b: u32) -> bool {
    b.wrapping_sub(a) > u32::MAX / 2
}

impl Header {
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
