//! IPv4 and TCP, as far as the emulator looks into packets.
//!
//! etherparse would save 45 lines, but takes 34 ns where this takes 10 to 18, 50 instead of 6 for a
//! mark, and ten seconds to build.

use std::net::Ipv4Addr;

use paceline_capture::{TCP, Tcp};

/// The senders' address.
pub const SENDER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
/// The receivers' network; each flow has an address in it.
pub const RECEIVERS: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 2, 0, 0), 16);
/// The addresses of probes.
pub const PROBE: Ipv4Addr = Ipv4Addr::new(10, 2, 255, 254);
/// The maximum number of flows: each has an address.
pub const MOST_FLOWS: u64 = 1_000;

/// The address of a flow's receiver.
pub fn receiver(flow: u32) -> Ipv4Addr {
    let [_, _, high, low] = (flow + 1).to_be_bytes();
    let [a, b, _, _] = RECEIVERS.0.octets();
    Ipv4Addr::new(a, b, high, low)
}

/// The flow of a receiver's address.
fn flow_of(address: [u8; 4]) -> Option<u32> {
    let [a, b, high, low] = address;
    let [x, y, _, _] = RECEIVERS.0.octets();
    let number = u32::from(high) * 256 + u32::from(low);
    ((a, b) == (x, y)).then(|| number.checked_sub(1))?
}

/// The kind of a packet on one of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP of a flow.
    Tcp(u32),
    /// A datagram of a flow.
    Udp(u32),
    /// A probe, with the time in it.
    Probe(u64),
    /// Anything else: packets of the kernel itself.
    Other,
}

/// IPv4 and UDP headers of a datagram.
pub const UDP_HEADERS: usize = 28;

/// Its protocol number.
pub const UDP: u8 = 17;

/// Classifies an IP packet by the address of the receivers' side: its destination when it comes
/// from the sender, its source otherwise.
pub fn classify(packet: &[u8], from_sender: bool) -> Kind {
    let Some(header) = packet.first_chunk::<20>() else {
        return Kind::Other;
    };
    if header[0] >> 4 != 4 {
        return Kind::Other;
    }
    let there = [header[16], header[17], header[18], header[19]];
    let back = [header[12], header[13], header[14], header[15]];
    let address = if from_sender { there } else { back };
    let payload = usize::from(header[0] & 15) * 4;
    match header[9] {
        UDP if address == PROBE.octets() => packet
            .get(payload + 8..)
            .and_then(|body| body.first_chunk::<8>())
            .map_or(Kind::Other, |time| Kind::Probe(u64::from_ne_bytes(*time))),
        TCP => flow_of(address).map_or(Kind::Other, Kind::Tcp),
        UDP => flow_of(address).map_or(Kind::Other, Kind::Udp),
        _ => Kind::Other,
    }
}

/// The usual name of a protocol.
pub fn protocol(number: u8) -> &'static str {
    match number {
        TCP => "tcp",
        UDP => "udp",
        1 => "icmp",
        _ => "ip",
    }
}

/// The payload of a packet in bytes: that of TCP or UDP, or everything after the IP header.
pub fn payload(packet: &[u8]) -> u64 {
    match Tcp::read(packet) {
        Some(tcp) => tcp.len.into(),
        None => datagram(packet).len() as u64,
    }
}

/// The payload of a datagram, or everything after the IP header.
pub fn datagram(packet: &[u8]) -> &[u8] {
    let Some(header) = packet.first_chunk::<20>() else {
        return &[];
    };
    let ip = usize::from(header[0] & 15) * 4;
    let udp = if header[9] == UDP { 8 } else { 0 };
    packet.get(ip + udp..).unwrap_or_default()
}

/// Marks a packet with CE; false if it is not ECN-capable.
pub fn mark(packet: &mut [u8]) -> bool {
    let Some(header) = packet.first_chunk_mut::<20>() else {
        return false;
    };
    if header[1] & 3 == 0 {
        return false;
    }
    let old = u16::from_be_bytes([header[0], header[1]]);
    header[1] |= 3;
    let new = u16::from_be_bytes([header[0], header[1]]);
    // RFC 1624, equation 3.
    let sum = u16::from_be_bytes([header[10], header[11]]);
    let mut sum = u32::from(!sum) + u32::from(!old) + u32::from(new);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = !(sum as u16);
    [header[10], header[11]] = sum.to_be_bytes();
    true
}

/// Whether a packet carries CE.
pub fn is_marked(packet: &[u8]) -> bool {
    packet.get(1).is_some_and(|tos| tos & 3 == 3)
}

/// Whether a packet asks for the L4S service: ECT(1), or already CE (RFC 9331 section 5.1).
pub fn is_l4s(packet: &[u8]) -> bool {
    packet.get(1).is_some_and(|tos| tos & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(header: &[u8]) -> u16 {
        let mut sum: u32 = header
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    /// A segment of flow 300 with one SACK block and 100 bytes.
    fn segment() -> Vec<u8> {
        let mut packet = vec![0x45, 2, 0, 152, 0, 7, 0x40, 0, 64, 6, 0, 0];
        packet.extend(SENDER.octets());
        packet.extend(receiver(300).octets());
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend([
            0, 80, 0, 81, 0, 0, 0, 5, 0, 0, 0, 9, 0x80, 0x10, 1, 0, 0, 0, 0, 0,
        ]);
        packet.extend([1, 1, 5, 10, 0, 0, 1, 0, 0, 0, 2, 0]);
        packet.resize(152, 0);
        packet
    }

    #[test]
    fn a_segment_is_read() {
        let packet = segment();
        assert_eq!(classify(&packet, true), Kind::Tcp(300));
        assert_eq!(classify(&packet, false), Kind::Other);
        let tcp = Tcp::read(&packet).unwrap();
        assert_eq!(
            (tcp.seq, tcp.ack, tcp.len, tcp.window),
            (5, Some(9), 100, 256)
        );
        assert_eq!(tcp.blocks, [(256, 512), (0, 0), (0, 0), (0, 0)]);
        assert!(!tcp.syn);
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        let mut packet = segment();
        assert!(!is_marked(&packet));
        assert!(mark(&mut packet));
        assert!(is_marked(&packet));
        assert_eq!(checksum(&packet[..20]), 0);
        packet[1] = 0;
        assert!(!mark(&mut packet));
    }

    #[test]
    fn every_flow_has_its_address() {
        for flow in [0, 1, 254, 255, 999] {
            assert_eq!(flow_of(receiver(flow).octets()), Some(flow));
        }
        assert_eq!(flow_of(RECEIVERS.0.octets()), None);
        assert_eq!(flow_of(SENDER.octets()), None);
    }

    #[test]
    fn no_cut_or_bent_packet_is_read_beyond_its_end() {
        let packet = segment();
        for length in 0..packet.len() {
            let _ = (
                classify(&packet[..length], true),
                Tcp::read(&packet[..length]),
            );
        }
        for at in 0..packet.len() {
            for value in [0, 1, 0x4f, 0xf0, 0xff] {
                let mut packet = packet.clone();
                packet[at] = value;
                let _ = (
                    classify(&packet, true),
                    Tcp::read(&packet),
                    mark(&mut packet),
                );
            }
        }
    }
}
