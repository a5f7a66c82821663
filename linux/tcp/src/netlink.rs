//! The few requests to the kernel's routing (rtnetlink(7)), as messages.
//!
//! netlink-packet-route would save 60 lines here and add half a minute to a clean build; neli has
//! no route metrics, and brings two crates of derive macros.

use std::io::{self, Read};
use std::net::Ipv4Addr;

use socket2::{Domain, Protocol, Socket, Type};

/// The route's settings for connections that use it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteMetrics {
    /// Initial congestion window in packets.
    pub initial_window: Option<u32>,
    /// Minimum retransmission timeout in milliseconds.
    pub min_rto_ms: Option<u32>,
    /// Whether connections ask for ECN.
    pub ecn: bool,
}

/// A request to the kernel's routing or traffic control.
#[derive(Clone, Debug)]
pub struct Request {
    kind: u16,
    flags: u16,
    body: Vec<u8>,
}

const RTAX_LOCK: u16 = 1;
const RTAX_INITCWND: u16 = 11;
const RTAX_FEATURES: u16 = 12;
const RTAX_RTO_MIN: u16 = 13;
const RTAX_FEATURE_ECN: u32 = 1;
/// `struct nlmsghdr`.
pub const HEADER: usize = 16;

/// Loopback's index in every namespace.
pub const LOOPBACK: u32 = 1;

impl Request {
    /// One of `kind`, with `flags` in addition to those of every acknowledged request.
    pub fn new(kind: u16, flags: libc::c_int, body: Vec<u8>) -> Self {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        Self { kind, flags, body }
    }

    /// One that is answered, and not acknowledged.
    pub fn question(kind: u16, body: Vec<u8>) -> Self {
        // Traffic control answers with change notifications, which the sender receives only if it
        // asks for an echo.
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ECHO) as u16;
        Self { kind, flags, body }
    }

    /// One that is answered with all entries.
    pub fn dump(kind: u16, body: Vec<u8>) -> Self {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        Self { kind, flags, body }
    }

    /// Brings a device up, with an MTU and a queue length if they are given.
    pub fn bring_up(device: u32, sizes: Option<(u32, u32)>) -> Self {
        let up = libc::IFF_UP as u32;
        let mut body = link_header(device, up);
        if let Some((mtu, queue)) = sizes {
            attribute(&mut body, libc::IFLA_TXQLEN, &queue.to_ne_bytes());
            attribute(&mut body, libc::IFLA_MTU, &mtu.to_ne_bytes());
        }
        Self::new(libc::RTM_NEWLINK, 0, body)
    }

    /// From now on a device gets packets of one segment each: the kernel neither splits nor merges
    /// them.
    pub fn without_offloads(device: u32) -> Self {
        let mut body = link_header(device, 0);
        attribute(&mut body, libc::IFLA_GSO_MAX_SEGS, &1_u32.to_ne_bytes());
        Self::new(libc::RTM_NEWLINK, 0, body)
    }

    /// Gives a device its own address.
    pub fn add_address(device: u32, address: Ipv4Addr) -> Self {
        // ifaddrmsg: family, prefix length, flags, scope, index.
        let mut body = vec![libc::AF_INET as u8, 32, 0, 0];
        body.extend(device.to_ne_bytes());
        attribute(&mut body, libc::IFA_LOCAL, &address.octets());
        attribute(&mut body, libc::IFA_ADDRESS, &address.octets());
        Self::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE, body)
    }

    /// Accepts all addresses of a network as the host's own.
    pub fn add_local(network: Ipv4Addr, prefix: u8) -> Self {
        let (scope, kind) = (libc::RT_SCOPE_HOST, libc::RTN_LOCAL);
        let mut body = route_header(prefix, libc::RT_TABLE_LOCAL, scope, kind);
        attribute(&mut body, libc::RTA_DST, &network.octets());
        attribute(&mut body, libc::RTA_OIF, &LOOPBACK.to_ne_bytes());
        Self::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE, body)
    }

    /// Sends packets for the network `to` out by `device`, from the address `from`.
    pub fn add_route(
        device: u32,
        from: Option<Ipv4Addr>,
        (to, prefix): (Ipv4Addr, u8),
        metrics: RouteMetrics,
    ) -> Self {
        let (scope, kind) = (libc::RT_SCOPE_LINK, libc::RTN_UNICAST);
        let mut body = route_header(prefix, libc::RT_TABLE_MAIN, scope, kind);
        attribute(&mut body, libc::RTA_DST, &to.octets());
        attribute(&mut body, libc::RTA_OIF, &device.to_ne_bytes());
        if let Some(from) = from {
            attribute(&mut body, libc::RTA_PREFSRC, &from.octets());
        }
        let mut nested = Vec::new();
        let mut metric = |name, value: u32| attribute(&mut nested, name, &value.to_ne_bytes());
        if let Some(packets) = metrics.initial_window {
            metric(RTAX_INITCWND, packets);
        }
        if let Some(millis) = metrics.min_rto_ms {
            // A locked timeout also applies to connections that have measured another.
            metric(RTAX_LOCK, 1 << RTAX_RTO_MIN);
            metric(RTAX_RTO_MIN, millis);
        }
        if metrics.ecn {
            metric(RTAX_FEATURES, RTAX_FEATURE_ECN);
        }
        if !nested.is_empty() {
            attribute(&mut body, libc::RTA_METRICS, &nested);
        }
        Self::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE, body)
    }

    /// As the kernel reads it.
    pub fn bytes(&self, sequence: u32) -> Vec<u8> {
        let length = HEADER + self.body.len();
        let mut message = Vec::with_capacity(length);
        message.extend((length as u32).to_ne_bytes());
        message.extend(self.kind.to_ne_bytes());
        message.extend(self.flags.to_ne_bytes());
        message.extend(sequence.to_ne_bytes());
        message.extend(0_u32.to_ne_bytes());
        message.extend(&self.body);
        message
    }
}

/// A netlink socket to the routing of the network namespace that the thread is in.
pub struct Routing {
    socket: Socket,
    sequence: u32,
}

/// A netlink socket of a protocol.
pub fn open(protocol: libc::c_int) -> io::Result<Socket> {
    let family = Domain::from(libc::AF_NETLINK);
    Socket::new(family, Type::RAW, Some(Protocol::from(protocol)))
}

impl Routing {
    /// Opens one.
    pub fn open() -> io::Result<Self> {
        let socket = open(libc::NETLINK_ROUTE)?;
        let sequence = 0;
        Ok(Self { socket, sequence })
    }

    /// A device's index.
    pub fn find(&self, name: &str) -> io::Result<u32> {
        Ok(rustix::net::netdevice::name_to_index(&self.socket, name)?)
    }

    /// Sends a request and waits for its acknowledgment.
    pub fn request(&mut self, request: &Request) -> io::Result<()> {
        self.sequence += 1;
        self.socket.send(&request.bytes(self.sequence))?;
        let mut buffer = [0; 4096];
        let length = self.socket.read(&mut buffer)?;
        // An acknowledgment is an error message with the error 0.
        let reply = buffer.get(..length).and_then(|all| all.get(HEADER..));
        let code = reply.and_then(|error| error.first_chunk::<4>());
        match code.map(|code| i32::from_ne_bytes(*code)) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }
    }
}

/// ifinfomsg: family, type, index, flags, which flags change.
pub fn link_header(device: u32, flags: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(device.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body
}

/// rtmsg: family, lengths of destination and source, type of service, table, protocol, scope, type,
/// flags.
fn route_header(prefix: u8, table: u8, scope: u8, kind: u8) -> Vec<u8> {
    let mut body = vec![libc::AF_INET as u8, prefix, 0, 0];
    body.extend([table, libc::RTPROT_STATIC, scope, kind]);
    body.extend([0; 4]);
    body
}

/// Appends an attribute: length, name, value, and padding to four bytes.
pub fn attribute(body: &mut Vec<u8>, name: u16, value: &[u8]) {
    body.extend(((4 + value.len()) as u16).to_ne_bytes());
    body.extend(name.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_say_their_own_length() {
        let mut body = Vec::new();
        attribute(&mut body, 3, &[1, 2, 3]);
        attribute(&mut body, 4, &[9]);
        assert_eq!(body[0..2], 7_u16.to_ne_bytes());
        assert_eq!(body[2..4], 3_u16.to_ne_bytes());
        assert_eq!(body[4..8], [1, 2, 3, 0]);
        assert_eq!(body[8..10], 5_u16.to_ne_bytes());
        assert_eq!(body.len(), 16);
    }

    #[test]
    fn headers_have_the_kernel_s_sizes() {
        assert_eq!(link_header(7, 1).len(), 16);
        assert_eq!(route_header(32, 254, 0, 1).len(), 12);
    }
}
