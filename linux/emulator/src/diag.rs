//! The kernel's state of a host's TCP sockets, of any process: sock_diag(7), which ss(8) uses.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use paceline_tcp::netlink::{HEADER, Request, open};
use socket2::Socket;

/// One socket of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketInfo<'a> {
    /// Its own address.
    pub local: Ipv4Addr,
    /// And port.
    pub port: u16,
    /// The other end's address and port.
    pub other: (Ipv4Addr, u16),
    /// Its congestion control.
    pub cc: &'a str,
    /// `struct tcp_info`, of the kernel's length.
    pub info: &'a [u8],
    /// The private state of its congestion control.
    pub own: &'a [u8],
}

/// Queries the sockets of one network namespace.
pub struct Diag {
    socket: Socket,
    buffer: Vec<u8>,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_VEGASINFO: u16 = 3;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_DCTCPINFO: u16 = 9;
const INET_DIAG_BBRINFO: u16 = 16;
/// `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// All states of connections with two ends: not SYN-SENT, SYN-RECEIVED, TIME-WAIT, CLOSED and LISTEN.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

impl Diag {
    /// Queries the namespace that this thread is in.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            socket: open(libc::NETLINK_SOCK_DIAG)?,
            // A kernel answers with at most 32 KiB.
            buffer: vec![0; 1 << 16],
        })
    }

    /// Reports each connection over IPv4, also of an IPv6 socket.
    pub fn each(&mut self, mut visit: impl FnMut(SocketInfo<'_>)) -> io::Result<()> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            let extensions = [INET_DIAG_INFO, INET_DIAG_VEGASINFO, INET_DIAG_CONG];
            let extensions = extensions
                .iter()
                .fold(0, |all, one| all | 1_u8 << (one - 1));
            let mut body = vec![family as u8, libc::IPPROTO_TCP as u8, extensions, 0];
            body.extend(STATES.to_ne_bytes());
            // Any address and port.
            body.extend([0; 48]);
            let request = Request::dump(SOCK_DIAG_BY_FAMILY, body);
            self.socket.send(&request.bytes(1))?;
            while self.next_messages(&mut visit)? {}
        }
        Ok(())
    }

    /// Reads the next messages; returns whether there are more.
    fn next_messages(&mut self, visit: &mut impl FnMut(SocketInfo<'_>)) -> io::Result<bool> {
        let length = io::Read::read(&mut self.socket, &mut self.buffer)?;
        let mut rest = self.buffer.get(..length).unwrap_or_default();
        while let Some((kind, body, after)) = message(rest) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(false),
                libc::NLMSG_ERROR => {
                    let code = body
                        .first_chunk()
                        .map_or(0, |code| i32::from_ne_bytes(*code));
                    return Err(io::Error::from_raw_os_error(-code));
                }
                _ => {
                    if let Some(socket) = parse(body) {
                        visit(socket);
                    }
                }
            }
            rest = after;
        }
        Ok(length > 0)
    }
}

/// The first message of a buffer: its kind, its body, and the rest.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..length)?;
    let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, after))
}

/// Reads an `inet_diag_msg` and its attributes.
fn parse(body: &[u8]) -> Option<SocketInfo<'_>> {
    let header = body.first_chunk::<MESSAGE>()?;
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let address = |at: usize| {
        let bytes = header.get(at..)?;
        match i32::from(header[0]) {
            libc::AF_INET => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?)),
            _ => Ipv6Addr::from(*bytes.first_chunk::<16>()?).to_ipv4_mapped(),
        }
    };
    let mut socket = SocketInfo {
        local: address(8)?,
        port: port(4),
        other: (address(24)?, port(6)),
        cc: "",
        info: &[],
        own: &[],
    };
    let mut rest = body.get(MESSAGE..)?;
    while let Some(length) = rest.first_chunk().map(|length| u16::from_ne_bytes(*length)) {
        let length = usize::from(length);
        let name = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(4..length)?;
        match name {
            INET_DIAG_INFO => socket.info = value,
            INET_DIAG_CONG => {
                let end = value.iter().position(|byte| *byte == 0);
                let text = value.get(..end.unwrap_or(value.len()))?;
                socket.cc = std::str::from_utf8(text).unwrap_or_default();
            }
            INET_DIAG_VEGASINFO | INET_DIAG_DCTCPINFO | INET_DIAG_BBRINFO => socket.own = value,
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use paceline_tcp::netlink::attribute;

    #[test]
    fn a_connection_of_this_machine_is_found() {
        // Through an IPv6 socket, as most servers listen.
        let Ok(listener) = TcpListener::bind("[::]:0") else {
            return;
        };
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _accepted = listener.accept().unwrap();
        let other = client.local_addr().unwrap().port();
        let mut ends = Vec::new();
        let mut diag = Diag::open().unwrap();
        diag.each(|socket| {
            assert!(!socket.cc.is_empty() && socket.info.len() > 100);
            ends.push((socket.port, socket.other));
        })
        .unwrap();
        let local = Ipv4Addr::LOCALHOST;
        assert!(ends.contains(&(port, (local, other))));
        assert!(ends.contains(&(other, (local, port))));
    }

    #[test]
    fn an_answer_is_read_by_its_lengths() {
        let mut body = vec![0; MESSAGE];
        body[0] = libc::AF_INET as u8;
        body[4..8].copy_from_slice(&[0, 80, 0x12, 0x34]);
        body[24..28].copy_from_slice(&[10, 3, 0, 2]);
        attribute(&mut body, INET_DIAG_CONG, b"cubic\0");
        attribute(&mut body, INET_DIAG_INFO, &[7; 9]);
        let whole = parse(&body).unwrap();
        assert_eq!(
            (whole.port, whole.cc, whole.info),
            (80, "cubic", &[7; 9][..])
        );
        assert_eq!(whole.other, (Ipv4Addr::new(10, 3, 0, 2), 0x1234));
        for length in 0..body.len() {
            let _ = parse(&body[..length]);
        }
        for length in [0, 1, 3, 200] {
            let mut bent = body.clone();
            bent[MESSAGE] = length;
            let _ = parse(&bent);
        }
    }
}
