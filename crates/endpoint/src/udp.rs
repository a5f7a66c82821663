//! An end over a UDP socket, in real time: with ECN codepoints, and with segmentation offload where the
//! system has it.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::time;

use paceline_units::{Duration, Ecn, Instant};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

use crate::{Batch, Datagram, Endpoint};

/// The longest that a step waits, so that `until` is asked often enough.
const PATIENCE: Duration = Duration::from_millis(20);
/// The shortest time-out that a socket takes.
const LEAST: Duration = Duration::from_micros(1);
/// The most bytes of a batch that go out in one call: less than the largest UDP datagram.
const MAX_OFFLOAD: usize = 60_000;
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

/// Drives `endpoint` over a socket to `peer` until `until` says so, which is asked after every step and
/// may write. Time begins at `origin`, which both ends may share. The socket is bound and not connected;
/// what others send to it is ignored.
///
/// What the socket has no room for, or nobody takes at the other end, is lost on the way.
///
/// # Errors
/// See [`Error`].
pub fn drive<E: Endpoint<Payload = Vec<u8>>>(
    endpoint: &mut E,
    socket: &UdpSocket,
    peer: SocketAddr,
    origin: time::Instant,
    until: &mut dyn FnMut(Instant, &mut E) -> bool,
) -> Result<(), Error> {
    let clock =
        || Instant::from_nanos(u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut buffer = vec![0; usize::from(u16::MAX)];
    let state = UdpSocketState::new(socket.into())?;
    // A read ends at the next time-out.
    socket.set_nonblocking(false)?;
    loop {
        let now = clock();
        endpoint.on_timer(now);
        if until(now, endpoint) {
            return Ok(());
        }
        send(endpoint, (&state, socket, peer), now)?;
        let due = endpoint.next_timer().unwrap_or(Instant::MAX);
        if due < now {
            return Err(Error::Defect("it asks for a time that is past"));
        }
        let wait = due.since(clock()).min(PATIENCE).max(LEAST);
        socket.set_read_timeout(Some(time::Duration::from_nanos(wait.as_nanos())))?;
        let mut meta = [RecvMeta::default()];
        match state.recv(
            socket.into(),
            &mut [IoSliceMut::new(&mut buffer)],
            &mut meta,
        ) {
            Ok(_) if meta[0].addr == peer => receive(endpoint, clock(), &buffer, &meta[0]),
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Hands over a datagram, or several that the system has merged.
fn receive<E: Endpoint<Payload = Vec<u8>>>(
    endpoint: &mut E,
    now: Instant,
    buffer: &[u8],
    meta: &RecvMeta,
) {
    let arrived = buffer.get(..meta.len).unwrap_or(buffer);
    // No codepoint is that of packets that are not ECN-capable.
    let ecn = Some(meta.ecn.map_or(Ecn::NotEct, |codepoint| match codepoint {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }));
    for payload in arrived.chunks(meta.stride.max(1)) {
        let datagram = Datagram {
            size: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            payload: payload.to_vec(),
            ecn,
        };
        endpoint.receive(now, datagram);
    }
}

fn send<E: Endpoint<Payload = Vec<u8>>>(
    endpoint: &mut E,
    to: (&UdpSocketState, &UdpSocket, SocketAddr),
    now: Instant,
) -> Result<(), Error> {
    for _ in 0..MOST_AT_ONCE {
        let Some(batch) = endpoint.poll_transmit(now) else {
            return Ok(());
        };
        match send_batch(&batch, to) {
            Ok(()) => {}
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Defect("it sends without end"))
}

/// Sends a batch in as few calls as the system allows.
fn send_batch(
    batch: &Batch<Vec<u8>>,
    (state, socket, destination): (&UdpSocketState, &UdpSocket, SocketAddr),
) -> io::Result<()> {
    let segment = batch.segment_size.max(1) as usize;
    let segments = (MAX_OFFLOAD / segment).clamp(1, state.max_gso_segments());
    for contents in batch.payload.chunks(segment * segments) {
        let transmit = Transmit {
            destination,
            ecn: match batch.ecn {
                Ecn::NotEct => None,
                Ecn::Ect0 => Some(EcnCodepoint::Ect0),
                Ecn::Ect1 => Some(EcnCodepoint::Ect1),
                Ecn::Ce => Some(EcnCodepoint::Ce),
            },
            contents,
            segment_size: (contents.len() > segment).then_some(segment),
            src_ip: None,
        };
        // What the system refuses, such as a probe beyond the interface's MTU, is lost.
        state.send(socket.into(), &transmit)?;
    }
    Ok(())
}

/// A wait that is over, and a full buffer: datagrams may be lost.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(
        error.kind(),
        ConnectionRefused | Interrupted | TimedOut | WouldBlock
    )
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{Stats, Write};

    /// Sends one batch, and keeps what arrives.
    #[derive(Default)]
    struct Probe {
        batch: Option<Batch<Vec<u8>>>,
        arrived: Vec<(usize, Option<Ecn>)>,
    }

    impl Endpoint for Probe {
        type Payload = Vec<u8>;

        fn receive(&mut self, _now: Instant, datagram: Datagram<Vec<u8>>) {
            self.arrived.push((datagram.payload.len(), datagram.ecn));
        }

        fn on_timer(&mut self, _now: Instant) {}

        fn poll_transmit(&mut self, _now: Instant) -> Option<Batch<Vec<u8>>> {
            self.batch.take()
        }

        fn next_timer(&mut self) -> Option<Instant> {
            None
        }

        fn write(&mut self, _now: Instant, _write: Write) {}

        fn delivered(&self) -> u64 {
            0
        }

        fn stats(&self) -> Stats {
            Stats::default()
        }
    }

    /// What arrives of a batch of two datagrams and a shorter third.
    fn over_loopback(ecn: Ecn) -> Vec<(usize, Option<Ecn>)> {
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (here, there) = (bind(), bind());
        let address = |socket: &UdpSocket| socket.local_addr().expect("bound");
        let (from, to) = (address(&here), address(&there));
        let origin = time::Instant::now();
        let limit = Instant::ZERO + Duration::from_secs(20);
        let receiver = thread::spawn(move || {
            let mut end = Probe::default();
            drive(&mut end, &there, from, origin, &mut |now, end| {
                end.arrived.len() >= 3 || now > limit
            })
            .expect("a socket that works");
            end.arrived
        });
        let stranger = bind();
        stranger.send_to(b"not of this flow", to).expect("sent");
        let mut end = Probe {
            batch: Some(Batch {
                payload: vec![0; 2500],
                size: 2500,
                segment_size: 1200,
                ecn,
            }),
            ..Probe::default()
        };
        drive(&mut end, &here, to, origin, &mut |_, end| {
            end.batch.is_none()
        })
        .expect("a socket that works");
        receiver.join().expect("no panic")
    }

    #[test]
    fn codepoints_and_sizes_cross_a_socket() {
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let sizes = [1200, 1200, 100].map(|size| (size, Some(ecn)));
            assert_eq!(over_loopback(ecn), sizes);
        }
    }
}
