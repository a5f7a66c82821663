//! An end over a UDP socket, in real time: with ECN codepoints, and with segmentation offload if
//! the system has it.

use std::borrow::Cow;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time;

use paceline_units::{Duration, Ecn, Instant};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Batch, Datagram, Endpoint};

/// The maximum wait of a step, so that `until` is called often enough.
const PATIENCE: Duration = Duration::from_millis(20);
/// How late a step may be and still count from its due time.
const LATE: Duration = Duration::from_millis(1);
/// The maximum bytes of a batch sent in one call: less than the largest UDP datagram.
const MAX_OFFLOAD: usize = 60_000;
/// Datagrams, or merged series of them, read in one call.
const READS: usize = 8;
/// Room for each of them.
const ROOM: usize = 1 << 16;
/// The number of batches at one instant beyond which an end must be defective.
const MOST_AT_ONCE: u32 = 1_000_000;

/// Why a drive ended early.
#[derive(Debug)]
pub enum Error {
    /// The socket failed.
    Socket(io::Error),
    /// The end sends or wakes without end while no time passes, asks for a time that is past, or says that it cannot go on.
    Defect(Cow<'static, str>),
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

/// What to wait for after a step, in addition to the arrival of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When the end wants to be called next; [`Instant::MAX`] if never.
    pub until: Instant,
    /// Whether the socket was full, so that the end has more to send as soon as there is room.
    pub room: bool,
}

/// A UDP socket that connects two ends. The caller waits and supplies the time; a step is
/// [`Self::receive`], the application's writes, and [`Self::transmit`].
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    peer: SocketAddr,
    buffer: Vec<u8>,
    /// Data for which the socket had no room.
    unsent: Option<Batch<Vec<u8>>>,
    /// The time of the last step.
    latest: Instant,
}

impl Socket {
    /// A connection to `peer` over a socket that is bound and not connected; datagrams from others
    /// are ignored. It becomes non-blocking.
    ///
    /// # Errors
    /// The system refuses a required socket option.
    pub fn new(socket: UdpSocket, peer: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            state: UdpSocketState::new((&socket).into())?,
            socket,
            peer,
            buffer: vec![0; READS * ROOM],
            unsent: None,
            latest: Instant::ZERO,
        })
    }

    /// Begins a step: calls the end's timer if it is due, and delivers everything that has arrived.
    /// Returns the time, for write and transmit; `clock` never goes back.
    ///
    /// A thread wakes some microseconds after the time for which it asked. A timeout that is late
    /// by at most a millisecond is therefore handled as if on time; otherwise a pacer, which gives
    /// no credit for unused time, would lose the delay with every burst.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn receive<E>(
        &mut self,
        endpoint: &mut E,
        clock: impl Fn() -> Instant,
    ) -> Result<Instant, Error>
    where
        E: Endpoint<Payload = Vec<u8>> + ?Sized,
    {
        let mut now = clock();
        let due = endpoint.next_timer().unwrap_or(Instant::MAX);
        if due < now && now.since(due) <= LATE {
            let due = due.max(self.latest);
            endpoint.on_timer(due);
            self.send(endpoint, due)?;
        } else {
            endpoint.on_timer(now);
        }
        loop {
            self.latest = now;
            let mut metas = [RecvMeta::default(); READS];
            let mut places = self.buffer.chunks_mut(ROOM);
            let mut slices: [IoSliceMut<'_>; READS] =
                std::array::from_fn(|_| IoSliceMut::new(places.next().unwrap_or_default()));
            let count = match self
                .state
                .recv((&self.socket).into(), &mut slices, &mut metas)
            {
                Ok(count) => count,
                Err(error) if is_passing(&error) => return Ok(now),
                Err(error) => return Err(error.into()),
            };
            // Not before they arrived: the thread may not have run since it last asked.
            now = clock();
            for (meta, place) in metas.iter().zip(self.buffer.chunks(ROOM)).take(count) {
                if meta.addr == self.peer {
                    hand_over(endpoint, now, place, meta);
                }
            }
            if count < READS {
                self.latest = now;
                return Ok(now);
            }
        }
    }

    /// Ends a step: the end sends as much as it may.
    ///
    /// Data without a receiver at the other end, and data that the system refuses, such as a probe
    /// beyond the interface's MTU, is lost on the way.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn transmit<E>(&mut self, endpoint: &mut E, now: Instant) -> Result<Wait, Error>
    where
        E: Endpoint<Payload = Vec<u8>> + ?Sized,
    {
        self.send(endpoint, now)?;
        let until = endpoint.next_timer().unwrap_or(Instant::MAX);
        if let Some(failure) = endpoint.failure() {
            return Err(Error::Defect(failure.into()));
        }
        if until < now {
            return Err(Error::Defect("it asks for a time that is past".into()));
        }
        let room = self.unsent.is_some();
        Ok(Wait { until, room })
    }

    fn send<E>(&mut self, endpoint: &mut E, now: Instant) -> Result<(), Error>
    where
        E: Endpoint<Payload = Vec<u8>> + ?Sized,
    {
        for _ in 0..MOST_AT_ONCE {
            let next = self.unsent.take().or_else(|| endpoint.poll_transmit(now));
            let Some(batch) = next else {
                return Ok(());
            };
            self.unsent = self.send_batch(batch)?;
            if self.unsent.is_some() {
                return Ok(());
            }
        }
        Err(Error::Defect("it sends without end".into()))
    }

    /// Sends a batch in as few calls as the system allows; returns the rest if the socket is full.
    fn send_batch(&self, mut batch: Batch<Vec<u8>>) -> io::Result<Option<Batch<Vec<u8>>>> {
        let segment = batch.segment_size.max(1) as usize;
        let mut sent = 0;
        while let Some(rest) = batch.payload.get(sent..).filter(|rest| !rest.is_empty()) {
            let most = self.state.max_gso_segments();
            let length = segment * (MAX_OFFLOAD / segment).clamp(1, most);
            let contents = rest.get(..length).unwrap_or(rest);
            let transmit = Transmit {
                destination: self.peer,
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
            match self.state.try_send((&self.socket).into(), &transmit) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    batch.payload.drain(..sent);
                    batch.size = u32::try_from(batch.payload.len()).unwrap_or(u32::MAX);
                    return Ok(Some(batch));
                }
                // The device does not take several at once; from now on one per call.
                Err(_) if contents.len() > segment && self.state.max_gso_segments() < most => {}
                Err(error) if !is_passing(&error) && !is_refusal(&error) => return Err(error),
                Ok(()) | Err(_) => sent += contents.len(),
            }
        }
        Ok(None)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Drives `endpoint` over a socket to `peer` until `until` says so, which is called in every step
/// and may write. Time begins at `origin`, which both ends may share. The requirements for the
/// socket are those of [`Socket::new`].
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
    let mut socket = Socket::new(socket.try_clone()?, peer)?;
    loop {
        let now = socket.receive(endpoint, clock)?;
        if until(now, endpoint) {
            return Ok(());
        }
        let wait = socket.transmit(endpoint, now)?;
        let mut ready = PollFlags::IN;
        ready.set(PollFlags::OUT, wait.room);
        let longest = wait.until.since(clock()).min(PATIENCE);
        // A read's own timeout counts in the kernel's ticks, which are milliseconds.
        let longest = Timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(longest.as_nanos()).unwrap_or(0) as _,
        };
        match poll(&mut [PollFd::new(&socket, ready)], Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}

/// Delivers a datagram, or several that the system has merged.
fn hand_over<E>(endpoint: &mut E, now: Instant, buffer: &[u8], meta: &RecvMeta)
where
    E: Endpoint<Payload = Vec<u8>> + ?Sized,
{
    let arrived = buffer.get(..meta.len).unwrap_or(buffer);
    // No codepoint is reported for packets that are not ECN-capable.
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

/// Nothing to read, or no listener at the other end yet.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | WouldBlock)
}

/// A datagram that is too large, or for which the system has no memory.
fn is_refusal(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refusals = [Errno::MSGSIZE, Errno::NOBUFS].map(|errno| Some(errno.raw_os_error()));
    refusals.contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;

    use super::*;
    use crate::{Stats, Write};

    /// Sends one batch, and collects the arrivals.
    #[derive(Default)]
    struct Probe {
        batch: Option<Batch<Vec<u8>>>,
        arrived: Vec<(usize, Option<Ecn>)>,
        due: Option<Instant>,
        woken: Vec<Instant>,
        latest: Option<Instant>,
        failure: Option<String>,
    }

    impl Endpoint for Probe {
        type Payload = Vec<u8>;

        fn receive(&mut self, now: Instant, datagram: Datagram<Vec<u8>>) {
            self.latest = Some(now);
            self.arrived.push((datagram.payload.len(), datagram.ecn));
        }

        fn on_timer(&mut self, now: Instant) {
            if self.due.is_some_and(|due| due <= now) {
                self.due = None;
                self.woken.push(now);
            }
        }

        fn poll_transmit(&mut self, _now: Instant) -> Option<Batch<Vec<u8>>> {
            self.batch.take()
        }

        fn next_timer(&mut self) -> Option<Instant> {
            self.due
        }

        fn write(&mut self, _now: Instant, _write: Write) {}

        fn delivered(&self) -> u64 {
            0
        }

        fn stats(&self) -> Stats {
            Stats::default()
        }

        fn failure(&self) -> Option<String> {
            self.failure.clone()
        }
    }

    /// The arrivals of a batch of two datagrams and a shorter third.
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

    #[test]
    fn a_datagram_never_comes_before_it_was_read() {
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (here, there) = (bind(), bind());
        let address = |socket: &UdpSocket| socket.local_addr().expect("bound");
        let (from, to) = (address(&here), address(&there));
        let mut socket = Socket::new(there, from).expect("a socket");
        let mut end = Probe::default();
        // It arrives after the step has first read the clock.
        let looks = Cell::new(0);
        let clock = || {
            if looks.get() == 0 {
                here.send_to(b"hello", to).expect("sent");
            }
            looks.set(looks.get() + 1);
            Instant::ZERO + Duration::from_millis(looks.get())
        };
        let now = socket.receive(&mut end, clock).expect("a step");
        assert_eq!(end.latest, Some(Instant::ZERO + Duration::from_millis(2)));
        assert_eq!(end.latest, Some(now));
    }

    #[test]
    fn a_wake_up_that_is_a_little_late_counts_from_when_it_was_due() {
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        let here = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let peer = here.local_addr().expect("bound");
        let mut socket = Socket::new(here, peer).expect("a socket");
        let mut end = Probe::default();
        let steps = [
            (100, 160, 100),
            (100, 200, 160),
            (500, 500, 500),
            (600, 9000, 9000),
        ];
        for (due, now, woken) in steps {
            end.due = Some(at(due));
            socket.receive(&mut end, || at(now)).expect("a step");
            assert_eq!(end.woken.last(), Some(&at(woken)), "{due} at {now}");
            let wait = socket.transmit(&mut end, at(now)).expect("a step");
            assert_eq!((wait.until, wait.room), (Instant::MAX, false));
        }
        end.due = Some(at(8000));
        let late = socket.transmit(&mut end, at(9000));
        assert!(matches!(late, Err(Error::Defect(_))));
        end.due = None;
        end.failure = Some("enough".to_owned());
        let failed = socket.transmit(&mut end, at(9000)).expect_err("it says so");
        assert_eq!(failed.to_string(), "the endpoint is defective: enough");
    }
}
