//! Extracts a TCP segment from a captured frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::tcp::{TCP, Tcp};

/// One end of a connection.
pub type End = (IpAddr, u16);

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frame {
    /// A segment, from one end to the other; and the identification of its packet, which IPv6 does
    /// not have.
    Segment(End, End, Tcp, Option<u16>),
    /// A datagram of UDP.
    Datagram,
    /// A part of a packet that is not its first.
    Fragment,
    /// A packet of TCP that is truncated within its header.
    Short,
    /// Anything else.
    Other,
}

const UDP: u8 = 17;

/// Reads a frame of a link type (<https://www.tcpdump.org/linktypes.html>) that was `length` bytes
/// long before it was captured.
pub fn read(link: i32, frame: &[u8], length: usize) -> Frame {
    let cut = length.saturating_sub(frame.len());
    match link {
        // Ethernet.
        1 => ethernet(frame.get(12..), cut),
        // BSD's loopback, and OpenBSD's: four bytes of address family.
        0 | 108 => ip(frame.get(4..), cut),
        // PPP, with or without its address field.
        9 => match frame {
            [0xff, 3, 0, 0x21 | 0x57, packet @ ..] | [0, 0x21 | 0x57, packet @ ..] => {
                ip(Some(packet), cut)
            }
            _ => Frame::Other,
        },
        // Bare IP.
        12 | 14 | 101 | 228 | 229 => ip(Some(frame), cut),
        // Linux's cooked capture, and its second version.
        113 => ethernet(frame.get(14..), cut),
        276 => match (frame.first_chunk(), frame.get(20..)) {
            (Some(kind), Some(rest)) => typed(*kind, rest, cut),
            _ => Frame::Other,
        },
        // Others have a different beginning.
        _ => Frame::Other,
    }
}

/// Whether frames of a link type are supported.
pub fn is_known(link: i32) -> bool {
    matches!(
        link,
        0 | 1 | 9 | 12 | 14 | 101 | 108 | 113 | 228 | 229 | 276
    )
}

/// What follows the addresses of an Ethernet frame.
fn ethernet(rest: Option<&[u8]>, cut: usize) -> Frame {
    match rest.and_then(|rest| rest.split_first_chunk()) {
        // An 802.3 length, and a SNAP header.
        Some(([0..=5, _], [0xaa, 0xaa, 3, 0, 0, 0, rest @ ..])) => ethernet(Some(rest), cut),
        Some((kind, rest)) => typed(*kind, rest, cut),
        None => Frame::Other,
    }
}

/// What follows an Ethernet type, behind any number of tags.
fn typed(mut kind: [u8; 2], mut rest: &[u8], cut: usize) -> Frame {
    loop {
        match (kind, rest) {
            ([0x08, 0x00] | [0x86, 0xdd], packet) => return ip(Some(packet), cut),
            // 802.1Q, 802.1ad, and what came before it.
            ([0x81, 0x00] | [0x88, 0xa8] | [0x91, 0x00], [_, _, high, low, inner @ ..]) => {
                (kind, rest) = ([*high, *low], inner);
            }
            // PPPoE's session.
            ([0x88, 0x64], [0x11, 0, _, _, _, _, 0, 0x21 | 0x57, packet @ ..]) => {
                return ip(Some(packet), cut);
            }
            // MPLS: the last label has a bit.
            ([0x88, 0x47], [_, _, last, _, inner @ ..]) => {
                rest = inner;
                if last & 1 == 1 {
                    return ip(Some(inner), cut);
                }
            }
            _ => return Frame::Other,
        }
    }
}

fn ip(packet: Option<&[u8]>, cut: usize) -> Frame {
    let packet = packet.unwrap_or_default();
    match packet.first().map(|first| first >> 4) {
        Some(4) => v4(packet, cut),
        Some(6) => v6(packet, cut),
        _ => Frame::Other,
    }
}

fn v4(packet: &[u8], cut: usize) -> Frame {
    let Some(header) = packet.first_chunk::<20>() else {
        return Frame::Short;
    };
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let address = |at: usize| {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        IpAddr::V4(Ipv4Addr::from(bytes))
    };
    if word(6) & 0x1fff != 0 {
        return Frame::Fragment;
    }
    let length = usize::from(header[0] & 15) * 4;
    let total = match usize::from(word(2)) {
        // Segments that offload has merged may be longer than the field can say.
        0 => packet.len() + cut,
        total => total,
    };
    let (rest, total) = (packet.get(length..), total.checked_sub(length));
    let ends = (address(12), address(16));
    transport(header[9], rest, total, ends, Some(word(4)))
}

fn v6(packet: &[u8], cut: usize) -> Frame {
    let Some(header) = packet.first_chunk::<40>() else {
        return Frame::Short;
    };
    let address = |at: usize| {
        let bytes = header.get(at..).and_then(|rest| rest.first_chunk::<16>());
        IpAddr::V6(Ipv6Addr::from(*bytes.unwrap_or(&[0; 16])))
    };
    let mut total = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
        0 => packet.len() - 40 + cut,
        total => total,
    };
    let (mut next, mut rest) = (header[6], packet.get(40..).unwrap_or_default());
    loop {
        // Hop-by-hop, routing, destination options, fragment.
        let (after, length) = match (next, rest) {
            (0 | 43 | 60, [after, length, ..]) => (*after, 8 + usize::from(*length) * 8),
            (44, [after, _, high, low, ..]) => {
                if u16::from_be_bytes([*high, *low]) & 0xfff8 != 0 {
                    return Frame::Fragment;
                }
                (*after, 8)
            }
            _ => break,
        };
        let (Some(inner), Some(left)) = (rest.get(length..), total.checked_sub(length)) else {
            return Frame::Short;
        };
        (next, rest, total) = (after, inner, left);
    }
    let ends = (address(8), address(24));
    transport(next, Some(rest), Some(total), ends, None)
}

fn transport(
    protocol: u8,
    body: Option<&[u8]>,
    total: Option<usize>,
    (from, to): (IpAddr, IpAddr),
    id: Option<u16>,
) -> Frame {
    match protocol {
        UDP => return Frame::Datagram,
        TCP => {}
        _ => return Frame::Other,
    }
    let tcp = body.zip(total);
    match tcp.and_then(|(body, total)| Tcp::of_segment(body, total)) {
        Some(tcp) => Frame::Segment((from, tcp.ports[0]), (to, tcp.ports[1]), tcp, id),
        None => Frame::Short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 bytes from port 80 to port 81 over IPv4, of which the last 60 were not captured.
    fn v4_packet() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 140, 0, 0, 0, 0, 64, 6, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([
            0, 80, 0, 81, 0, 0, 0, 5, 0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
        ]);
        packet.resize(80, 0);
        packet
    }

    fn v6_packet() -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 128, 0, 64];
        packet.extend([1; 16]);
        packet.extend([2; 16]);
        // An empty hop-by-hop header.
        packet.extend([6, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend(&v4_packet()[20..40]);
        packet
    }

    fn whole(link: i32, frame: &[u8]) -> Frame {
        read(link, frame, frame.len())
    }

    fn behind(header: &[u8], packet: Vec<u8>) -> Vec<u8> {
        [header.to_vec(), packet].concat()
    }

    #[test]
    fn a_segment_is_found_behind_every_link_layer() {
        let of = |link, frame: Vec<u8>| match read(link, &frame, frame.len()) {
            Frame::Segment(from, to, tcp, _) => (from.1, to.1, tcp.seq, tcp.len),
            other => panic!("{link}: {other:?}"),
        };
        let expected = (80, 81, 5, 100);
        assert_eq!(of(101, v4_packet()), expected);
        assert_eq!(of(101, v6_packet()), expected);
        assert_eq!(
            of(
                1,
                behind(&[[0; 12].as_slice(), &[8, 0]].concat(), v4_packet())
            ),
            expected
        );
        let vlan = [[0; 12].as_slice(), &[0x81, 0, 0, 7, 0x86, 0xdd]].concat();
        assert_eq!(of(1, behind(&vlan, v6_packet())), expected);
        assert_eq!(of(0, behind(&[2, 0, 0, 0], v4_packet())), expected);
        let cooked = [[0; 14].as_slice(), &[8, 0]].concat();
        assert_eq!(of(113, behind(&cooked, v4_packet())), expected);
        let second = [[8, 0].as_slice(), &[0; 18]].concat();
        assert_eq!(of(276, behind(&second, v4_packet())), expected);
        let tagged = [[0x81, 0].as_slice(), &[0; 18], &[0, 7, 8, 0]].concat();
        assert_eq!(of(276, behind(&tagged, v4_packet())), expected);
        let tagged = [[0; 14].as_slice(), &[0x81, 0, 0, 7, 8, 0]].concat();
        assert_eq!(of(113, behind(&tagged, v4_packet())), expected);
        let snap = [[0; 13].as_slice(), &[80, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat();
        assert_eq!(of(1, behind(&snap, v4_packet())), expected);
        let session = [[0x88, 0x64].as_slice(), &[0x11, 0, 0, 1, 0, 99, 0, 0x21]].concat();
        assert_eq!(
            of(
                1,
                behind(&[[0; 12].as_slice(), &session].concat(), v4_packet())
            ),
            expected
        );
        let labels = [0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64];
        assert_eq!(
            of(
                1,
                behind(&[[0; 12].as_slice(), &labels].concat(), v6_packet())
            ),
            expected
        );
        assert_eq!(of(9, behind(&[0xff, 3, 0, 0x21], v4_packet())), expected);
    }

    #[test]
    fn a_merged_segment_may_be_longer_than_its_length_field_says() {
        let mut packet = v4_packet();
        (packet[2], packet[3]) = (0, 0);
        // 80 of 100,040 bytes were captured.
        match read(101, &packet, 100_040) {
            Frame::Segment(_, _, tcp, id) => assert_eq!((tcp.len, id), (100_000, Some(0))),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_segment_is_told_apart() {
        assert_eq!(whole(101, &v4_packet()[..35]), Frame::Short);
        let mut fragment = v4_packet();
        fragment[7] = 4;
        assert_eq!(whole(101, &fragment), Frame::Fragment);
        let mut datagram = v4_packet();
        datagram[9] = 17;
        assert_eq!(whole(101, &datagram), Frame::Datagram);
        assert_eq!(whole(1, &[0; 60]), Frame::Other);
        assert_eq!(whole(147, &v4_packet()), Frame::Other);
    }

    #[test]
    fn no_cut_or_bent_frame_is_read_beyond_its_end() {
        for packet in [v4_packet(), v6_packet()] {
            for length in 0..packet.len() {
                whole(101, &packet[..length]);
            }
            for at in 0..packet.len() {
                for value in [0, 1, 0x4f, 0x60, 0xf0, 0xff] {
                    let mut packet = packet.clone();
                    packet[at] = value;
                    whole(101, &packet);
                    whole(1, &packet);
                }
            }
        }
    }
}
