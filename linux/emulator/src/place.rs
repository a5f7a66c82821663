//! Where programs are: a server, its client, and the clients of sessions inside the client's end.
//!
//! A session without its own server, started at the client's end of another, leads to the server of
//! that. Addresses stay the same all the way: each session has a network that contains those of the
//! sessions inside it, so that every host needs one route per session.

use std::net::Ipv4Addr;

/// The server's address, at the end from which scenarios send data.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 1);
/// The client's address in an outermost session.
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 2);
/// The network of clients of nested sessions.
const INSIDE: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 128, 0, 0), 9);
/// Bits of an address that distinguish the sessions inside one.
pub const BITS: u8 = 4;
/// The longest network that still has room for two hosts.
const LONGEST: u8 = 29;
/// The maximum depth of nested sessions.
pub const DEEPEST: u8 = (LONGEST - INSIDE.1) / BITS;

/// The names by which programs find their ends.
pub const SERVER_KEY: &str = "PACELINE_SERVER";
/// The client's own address.
pub const CLIENT_KEY: &str = "PACELINE_CLIENT";

/// Where a session's client is, and the clients of all sessions inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    client: Ipv4Addr,
    network: (Ipv4Addr, u8),
}

impl Place {
    /// The place of an outermost session.
    pub const OUTERMOST: Self = Self {
        client: CLIENT,
        network: INSIDE,
    };

    /// The place of a client's address.
    pub fn of(client: Ipv4Addr) -> Option<Self> {
        let mut place = Self::OUTERMOST;
        while place.client != client {
            place = (1..1 << BITS)
                .filter_map(|number| place.inside(number))
                .find(|inner| inner.contains(client))?;
        }
        Some(place)
    }

    /// The place of one of the sessions inside, which count from 1.
    pub fn inside(self, number: u8) -> Option<Self> {
        let (network, prefix) = self.network;
        let prefix = prefix + BITS;
        let bits = network.to_bits() | u32::from(number) << (32 - prefix.min(32));
        (prefix <= LONGEST).then(|| Self {
            client: Ipv4Addr::from_bits(bits | 2),
            network: (Ipv4Addr::from_bits(bits), prefix),
        })
    }

    /// The client's address.
    pub fn client(self) -> Ipv4Addr {
        self.client
    }

    /// The address, inside another session, of the end that leads to the server.
    pub fn gate(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.0.to_bits() | 1)
    }

    /// Everything at the client's end: the networks of addresses.
    pub fn networks(self) -> [(Ipv4Addr, u8); 2] {
        [(self.client, 32), self.network]
    }

    /// Whether an address is at the client's end.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        self.networks().iter().any(|(network, prefix)| {
            let mask = u32::MAX << (32 - prefix);
            (address.to_bits() ^ network.to_bits()) & mask == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_sessions_lie_in_those_of_the_sessions_around_them() {
        let outer = Place::OUTERMOST;
        let (one, two) = (outer.inside(1).unwrap(), outer.inside(2).unwrap());
        let deep = one.inside(15).unwrap();
        assert_eq!(one.client, Ipv4Addr::new(10, 136, 0, 2));
        for place in [one, two, deep] {
            assert!(outer.contains(place.client));
            assert_eq!(Place::of(place.client), Some(place));
        }
        assert!(one.contains(deep.client) && !two.contains(deep.client));
        assert!(!one.contains(two.client) && !deep.contains(one.client));
        assert!(!outer.contains(SERVER) && !one.contains(outer.client));
        assert_eq!(Place::of(Ipv4Addr::new(10, 3, 0, 7)), None);
    }

    #[test]
    fn sessions_end_where_addresses_do() {
        let mut place = Place::OUTERMOST;
        let mut depth = 0;
        while let Some(inner) = place.inside(15) {
            (place, depth) = (inner, depth + 1);
        }
        assert_eq!(depth, 5);
        // The addresses of the gateway and the client are not networks of a session inside.
        assert_eq!(place.network.1, LONGEST);
    }
}
