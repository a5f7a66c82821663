//! Conversations of programs, distinguished by protocol, ports and the client's address.

use std::net::Ipv4Addr;

use paceline_capture::TCP;
use paceline_tcp::packet::UDP;
use serde::{Deserialize, Serialize};

use crate::place::{Place, SERVER};

/// A conversation of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conversation {
    /// Its protocol number.
    pub protocol: u8,
    /// The port at the server; 0 if it is neither TCP nor UDP.
    pub server: u16,
    /// The port at the client.
    pub client: u16,
    /// The client's address.
    pub at: Ipv4Addr,
}

/// The conversation of a packet, if it is between the server and a client of `place`; `from_server`
/// gives its direction.
pub fn conversation(packet: &[u8], from_server: bool, place: Place) -> Option<Conversation> {
    let header = packet.first_chunk::<20>()?;
    let address =
        |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let (source, destination) = (address(12), address(16));
    let (at, known) = match from_server {
        true => (destination, place.contains(destination)),
        false => (source, destination == SERVER),
    };
    if header[0] >> 4 != 4 || !known {
        return None;
    }
    let payload = usize::from(header[0] & 15) * 4;
    let first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    let ports = packet
        .get(payload..)
        .and_then(|body| body.first_chunk::<4>());
    let (from, there) = match ports {
        Some(ports) if first && matches!(header[9], TCP | UDP) => (
            u16::from_be_bytes([ports[0], ports[1]]),
            u16::from_be_bytes([ports[2], ports[3]]),
        ),
        _ => (0, 0),
    };
    let (server, client) = match from_server {
        true => (from, there),
        false => (there, from),
    };
    Some(Conversation {
        protocol: header[9],
        server,
        client,
        at,
    })
}
