//! How many packets left a host that a capture shows as fewer: offload merges segments.

use std::collections::BTreeMap;

/// The payload of a full Ethernet frame over IPv4 and IPv6, with and without timestamps.
const ETHERNET: [u32; 4] = [1448, 1460, 1428, 1440];
/// A full segment is at least this large (RFC 9293 section 3.7.1).
const LEAST: u32 = 536;

/// The sizes of a direction's data segments, with the bytes of each that were sent again.
#[derive(Debug, Default)]
pub struct Sizes {
    counts: BTreeMap<(u32, u32), u64>,
}

/// Packets of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    pub sent: u64,
    /// Sent again.
    pub again: u64,
    /// Captured segments that were several packets.
    pub merged: u64,
}

impl Packets {
    /// Adds segments of a size, of which some bytes were sent again, in packets of `piece` bytes.
    pub fn add(&mut self, (length, again): (u32, u32), piece: Option<u32>, count: u64) {
        let packets = |bytes: u32| match piece {
            Some(piece) => bytes.div_ceil(piece.max(1)).into(),
            None => u64::from(bytes > 0),
        };
        self.sent += packets(length) * count;
        self.again += packets(again) * count;
        self.merged += u64::from(packets(length) > 1) * count;
    }
}

impl Sizes {
    pub fn add(&mut self, length: u32, again: u32) {
        *self.counts.entry((length, again)).or_default() += 1;
    }

    /// The payload of a full packet, of which the merged segments are multiples: as the SYNs
    /// announce it, less the options of its header or not, or a smaller size that was captured.
    pub fn piece(&self, announced: Option<(u32, u32)>) -> Option<u32> {
        let likely = match announced {
            // What a SYN announces includes options (RFC 6691), which not all know.
            Some((mss, options)) => vec![mss.saturating_sub(options).max(1), mss],
            None => ETHERNET.to_vec(),
        };
        let limit = likely.iter().max().copied()?;
        let largest = self.counts.last_key_value()?.0.0;
        if largest <= limit {
            return Some(largest);
        }
        let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
        for ((length, _), count) in &self.counts {
            *bytes.entry(*length).or_default() += u64::from(*length) * count;
        }
        // Without a SYN, packets may be larger than Ethernet's.
        let limit = announced.map_or(u32::MAX, |_| limit);
        let merged = |size: &u32| announced.is_none() || *size > limit;
        // The most frequent sizes are enough.
        let mut sizes: Vec<(u64, u32)> =
            bytes.iter().map(|(size, bytes)| (*bytes, *size)).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let known = sizes.iter().map(|(_, size)| *size);
        let known = known.filter(|size| (LEAST..=limit).contains(size)).take(32);
        let explained = |piece: u32| {
            let multiples = bytes.iter().filter(|(size, _)| merged(size));
            let multiples = multiples.filter(|(size, _)| size.is_multiple_of(piece));
            multiples.map(|(_, bytes)| *bytes).sum::<u64>()
        };
        let sizes = bytes.iter().filter(|(size, _)| merged(size));
        let total: u64 = sizes.map(|(_, bytes)| *bytes).sum();
        let rank = |size: u32| likely.iter().rev().position(|one| *one == size);
        let sizes = known.chain(likely.iter().copied());
        let best = sizes.map(|size| (explained(size), rank(size), size)).max();
        let best = best.filter(|(explained, ..)| explained * 2 >= total);
        // Otherwise the segments fit no size, and their bytes are counted in the likely one.
        best.map(|(.., size)| size).or(likely.first().copied())
    }

    /// The packets, each of at most `piece` bytes.
    pub fn packets(&self, piece: u32) -> Packets {
        let mut packets = Packets::default();
        for (sizes, count) in &self.counts {
            packets.add(*sizes, Some(piece), *count);
        }
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(lengths: &[u32]) -> Option<u32> {
        announced(None, lengths)
    }

    fn announced(syn: Option<(u32, u32)>, lengths: &[u32]) -> Option<u32> {
        let mut sizes = Sizes::default();
        lengths.iter().for_each(|length| sizes.add(*length, 0));
        sizes.piece(syn)
    }

    #[test]
    fn a_full_packet_is_what_segments_are_multiples_of() {
        assert_eq!(piece(&[]), None);
        assert_eq!(piece(&[1000, 1000, 7]), Some(1000));
        assert_eq!(piece(&[1448, 2896, 14_480, 700]), Some(1448));
        // None was captured alone.
        assert_eq!(piece(&[2896, 5792, 14_480]), Some(1448));
        // Jumbo frames, and of a smaller path.
        assert_eq!(piece(&[8948, 8948, 8948, 17_896]), Some(8948));
        assert_eq!(piece(&[1400, 2800, 14_000, 4200]), Some(1400));
        assert_eq!(piece(&[65_483, 65_483, 100]), Some(65_483));
    }

    #[test]
    fn a_syn_tells_the_size_with_options_or_without() {
        let merged = [1448, 2896, 14_480, 700];
        assert_eq!(announced(Some((1460, 12)), &merged), Some(1448));
        assert_eq!(announced(Some((1448, 12)), &merged), Some(1448));
        assert_eq!(announced(Some((1460, 0)), &[1460, 29_200]), Some(1460));
        assert_eq!(
            announced(Some((65_495, 12)), &[65_483, 32_768]),
            Some(65_483)
        );
        // The path has smaller packets than the hosts.
        assert_eq!(
            announced(Some((1460, 0)), &[1380, 13_800, 2760]),
            Some(1380)
        );
        // Most data is of small messages, and what is merged fits nothing.
        assert_eq!(
            announced(Some((1460, 12)), &[800, 800, 800, 800, 3000]),
            Some(1448)
        );
        assert_eq!(announced(Some((1460, 12)), &[800, 800, 2896]), Some(1448));
    }

    #[test]
    fn bytes_are_counted_in_packets() {
        let mut sizes = Sizes::default();
        sizes.add(14_480, 0);
        sizes.add(1449, 1448);
        sizes.add(1000, 1000);
        let counted = Packets {
            sent: 10 + 2 + 1,
            again: 1 + 1,
            merged: 2,
        };
        assert_eq!(sizes.packets(1448), counted);
    }
}
