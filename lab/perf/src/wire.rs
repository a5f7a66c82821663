//! A UDP socket shared by connections.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use bytes::BytesMut;
use paceline_units::Duration;
use quinn_proto::EcnCodepoint;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Datagrams, or merged series of them, read in one call.
const READS: usize = 8;
/// Room for each of them.
const ROOM: usize = 1 << 16;
/// The socket buffer to request in each direction: bursts of a fast path.
const BUFFER: usize = 4 << 20;

/// A datagram that has arrived.
pub(crate) struct Arrived {
    pub from: SocketAddr,
    pub local: Option<IpAddr>,
    pub ecn: Option<EcnCodepoint>,
    pub bytes: BytesMut,
}

/// Data for which the socket had no room.
struct Unsent {
    transmit: quinn_proto::Transmit,
    bytes: Vec<u8>,
}

pub(crate) struct Wire {
    socket: UdpSocket,
    state: UdpSocketState,
    buffer: Vec<u8>,
    unsent: Option<Unsent>,
}

impl Wire {
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        // The system may grant less.
        let _ = state.set_recv_buffer_size((&socket).into(), BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), BUFFER);
        Ok(Self {
            socket,
            state,
            buffer: vec![0; READS * ROOM],
            unsent: None,
        })
    }

    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// Whether the socket is full.
    pub fn is_full(&self) -> bool {
        self.unsent.is_some()
    }

    /// Reads with one call; returns whether there may be more.
    pub fn receive(&mut self, take: &mut dyn FnMut(Arrived)) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); READS];
        let mut places = self.buffer.chunks_mut(ROOM);
        let mut slices: [IoSliceMut<'_>; READS] =
            std::array::from_fn(|_| IoSliceMut::new(places.next().unwrap_or_default()));
        let count = match self
            .state
            .recv((&self.socket).into(), &mut slices, &mut metas)
        {
            Ok(count) => count,
            Err(error) if is_passing(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        for (meta, place) in metas.iter().zip(self.buffer.chunks(ROOM)).take(count) {
            let mut rest = BytesMut::from(place.get(..meta.len).unwrap_or(place));
            while !rest.is_empty() {
                take(Arrived {
                    from: meta.addr,
                    local: meta.dst_ip,
                    ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
                    bytes: rest.split_to(meta.stride.clamp(1, rest.len())),
                });
            }
        }
        Ok(count == READS)
    }

    /// Sends the data kept back; returns whether all of it was sent.
    pub fn flush(&mut self) -> io::Result<bool> {
        let unsent = self.unsent.take();
        unsent.map_or(Ok(true), |unsent| self.send(unsent.transmit, &unsent.bytes))
    }

    /// Sends the data that a stack has written to `bytes`. If the socket is full, the rest is kept,
    /// and nothing more may be sent before it. Data that the system refuses, such as a probe beyond
    /// the MTU, is lost on the way.
    pub fn send(&mut self, transmit: quinn_proto::Transmit, bytes: &[u8]) -> io::Result<bool> {
        let mut rest = bytes.get(..transmit.size).unwrap_or(bytes);
        let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
        while !rest.is_empty() {
            let most = self.state.max_gso_segments();
            let contents = rest.get(..segment * most).unwrap_or(rest);
            let sent = self.state.try_send(
                (&self.socket).into(),
                &Transmit {
                    destination: transmit.destination,
                    ecn: transmit
                        .ecn
                        .and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                    contents,
                    segment_size: (contents.len() > segment).then_some(segment),
                    src_ip: transmit.src_ip,
                },
            );
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let bytes = rest.to_vec();
                    let transmit = quinn_proto::Transmit {
                        size: bytes.len(),
                        ..transmit
                    };
                    self.unsent = Some(Unsent { transmit, bytes });
                    return Ok(false);
                }
                // The device does not take several at once; from now on one per call.
                Err(_) if contents.len() > segment && self.state.max_gso_segments() < most => {}
                Ok(()) | Err(_) => rest = rest.get(contents.len()..).unwrap_or_default(),
            }
        }
        Ok(true)
    }

    /// Waits for a datagram, or for room if the socket is full, but no longer than this.
    pub fn wait(&self, longest: Duration) -> io::Result<()> {
        let mut ready = PollFlags::IN;
        ready.set(PollFlags::OUT, self.is_full());
        // A read's own timeout counts in the kernel's ticks, which are milliseconds.
        let longest = Timespec {
            tv_sec: i64::try_from(longest.as_nanos() / 1_000_000_000).unwrap_or(0) as _,
            tv_nsec: i64::try_from(longest.as_nanos() % 1_000_000_000).unwrap_or(0) as _,
        };
        match poll(&mut [PollFd::new(&self.socket, ready)], Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Nothing to read, or no listener at the other end.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | WouldBlock)
}
