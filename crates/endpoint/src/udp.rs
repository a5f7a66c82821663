//! An end over a UDP socket, in real time.
//!
//! The standard library's sockets neither set nor show the ECN codepoint: datagrams leave without one,
//! and [`Datagram::ecn`] is none.

use std::io;
use std::net::UdpSocket;
use std::time;

use paceline_units::{Duration, Instant};

use crate::{Datagram, Endpoint};

/// The longest that a step waits, so that `until` is asked often enough.
const PATIENCE: Duration = Duration::from_millis(20);
/// The shortest time-out that a socket takes.
const LEAST: Duration = Duration::from_micros(1);
/// Batches at one instant beyond which an end must be defective.
const MOST_AT_ONCE: u32 = 1_000_000;

/// Why a drive ended early.
#[derive(Debug)]
pub enum Error {
    /// The socket failed.
    Socket(io::Error),
    /// The end sends or wakes without end while no time passes, or asks for a time that is past.
    Defect(&'static str),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(error) => write!(f, "the socket failed: {error}"),
            Self::Defect(what) => write!(f, "the endpoint is defective: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

/// Drives `endpoint` over a connected socket until `until` says so, which is asked after every step and
/// may write. Time begins at `origin`, which both ends may share.
///
/// What the socket has no room for, or nobody takes at the other end, is lost on the way.
///
/// # Errors
/// See [`Error`].
pub fn drive<E: Endpoint<Payload = Vec<u8>>>(
    endpoint: &mut E,
    socket: &UdpSocket,
    origin: time::Instant,
    until: &mut dyn FnMut(Instant, &mut E) -> bool,
) -> Result<(), Error> {
    let clock =
        || Instant::from_nanos(u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut buffer = vec![0; usize::from(u16::MAX)];
    socket.set_nonblocking(false)?;
    loop {
        let now = clock();
        endpoint.on_timer(now);
        if until(now, endpoint) {
            return Ok(());
        }
        send(endpoint, socket, now)?;
        let due = endpoint.next_timer().unwrap_or(Instant::MAX);
        if due < now {
            return Err(Error::Defect("it asks for a time that is past"));
        }
        let wait = due.since(clock()).min(PATIENCE).max(LEAST);
        socket.set_read_timeout(Some(time::Duration::from_nanos(wait.as_nanos())))?;
        match socket.recv(&mut buffer) {
            Ok(size) => endpoint.receive(
                clock(),
                Datagram {
                    payload: buffer[..size].to_vec(),
                    size: u32::try_from(size).unwrap_or(u32::MAX),
                    ecn: None,
                },
            ),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn send<E: Endpoint<Payload = Vec<u8>>>(
    endpoint: &mut E,
    socket: &UdpSocket,
    now: Instant,
) -> Result<(), Error> {
    for _ in 0..MOST_AT_ONCE {
        let Some(batch) = endpoint.poll_transmit(now) else {
            return Ok(());
        };
        for datagram in batch.datagrams() {
            match socket.send(&datagram.payload) {
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Err(Error::Defect("it sends without end"))
}

/// A wait that is over, a full buffer, and the ICMP message of a port that nobody listens at yet: datagrams may be lost.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(
        error.kind(),
        ConnectionRefused | Interrupted | TimedOut | WouldBlock
    )
}
