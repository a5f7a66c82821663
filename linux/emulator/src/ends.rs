//! The two ends of a flow of a QUIC stack, each over a UDP socket of its host.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use paceline_endpoint::udp::{Error, Socket, Wait};
use paceline_endpoint::{Endpoint, Stats, Write};
use paceline_experiment::GuestFlow;
use paceline_quic::{AnyEnd, EndConfig, Qlog, end};
use paceline_units::{Instant, StackName};

/// The stack of a flow that does not run the kernel's TCP.
pub enum Stack {
    /// One of this program, and the configuration of its sender.
    Named(StackName, Box<EndConfig>),
    /// A library's, with the flow's seed, start and maximum UDP payload.
    Guest(GuestFlow, u64, Instant, u32),
}

impl Stack {
    /// An end that has sent nothing.
    pub fn end(&self, sends: bool) -> io::Result<AnyEnd> {
        match self {
            Self::Named(stack, sender) => {
                let qlog = sender.qlog.clone().filter(|_| sends);
                let config = EndConfig {
                    sends,
                    qlog,
                    ..EndConfig::clone(sender)
                };
                end(*stack, &config).ok_or(io::ErrorKind::NotFound.into())
            }
            Self::Guest(guest, seed, now, max_datagram) => guest
                .end(sends, *seed, *now, *max_datagram)
                .map_err(io::Error::other),
        }
    }

    /// The qlog of its sender, if it writes one.
    pub fn qlog(&self) -> Option<&Qlog> {
        match self {
            Self::Named(_, sender) => sender.qlog.as_ref(),
            Self::Guest(..) => None,
        }
    }
}

/// One end, over its socket.
pub struct End {
    endpoint: AnyEnd,
    socket: Socket,
}

impl End {
    /// An end at `here` that communicates with `peer`, in the host that this thread is in.
    pub fn new(endpoint: AnyEnd, here: SocketAddr, peer: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            endpoint,
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
