//! The two ends of a flow of a QUIC stack, each over a UDP socket of its host.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use paceline_endpoint::udp::{Error, Socket, Wait};
use paceline_endpoint::{Endpoint, Stats, Write};
use paceline_quic::{AnyEnd, EndConfig, end};
use paceline_units::{Instant, StackName};

/// One end, over its socket.
pub struct End {
    endpoint: AnyEnd,
    socket: Socket,
}

impl End {
    /// An end at `here` that communicates with `peer`, in the host that this thread is in.
    pub fn new(
        stack: StackName,
        config: &EndConfig,
        here: SocketAddr,
        peer: SocketAddr,
    ) -> io::Result<Self> {
        Ok(Self {
            endpoint: end(stack, config).ok_or(io::ErrorKind::NotFound)?,
            socket: Socket::new(UdpSocket::bind(here)?, peer)?,
        })
    }

    /// Processes arrivals, writes, and sends as much as it may.
    pub fn step(&mut self, clock: impl Fn() -> Instant, write: Write) -> io::Result<Wait> {
        let failed = |error: Error| match error {
            Error::Socket(error) => error,
            Error::Defect(_) => io::Error::other(error.to_string()),
        };
        let end = &mut self.endpoint;
        let now = self.socket.receive(end, clock).map_err(failed)?;
        if write != Write::default() {
            end.write(now, write);
        }
        self.socket.transmit(end, now).map_err(failed)
    }

    /// Bytes passed to its application.
    pub fn delivered(&self) -> u64 {
        self.endpoint.delivered()
    }

    /// Its state.
    pub fn stats(&self) -> Stats {
        self.endpoint.stats()
    }
}

/// Both ends of a flow: the sender's thread drives one, the path the other, and samples are taken of the first.
pub struct Ends {
    sender: Mutex<End>,
    receiver: Mutex<End>,
    /// The sender's socket, to wait for.
    pub incoming: OwnedFd,
}

impl Ends {
    pub fn new(sender: End, receiver: End) -> io::Result<Self> {
        Ok(Self {
            incoming: sender.socket.as_fd().try_clone_to_owned()?,
            sender: Mutex::new(sender),
            receiver: Mutex::new(receiver),
        })
    }

    pub fn sender(&self) -> MutexGuard<'_, End> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn receiver(&self) -> MutexGuard<'_, End> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
