//! A socket that keeps to a controller's rate, for users of quinn (as opposed to quinn-proto).

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use paceline_units::Bytes;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};

use crate::Pace;

/// How much of a late wake-up is compensated: timers of runtimes count in milliseconds.
const LATE: Duration = Duration::from_millis(2);
/// Bytes of a datagram before any was sent (RFC 9000 section 14).
const DATAGRAM: u64 = 1200;

/// A UDP socket that sends no faster than a [`Pace`] says, in bursts of at most its quantum.
///
/// quinn asks a socket for room without naming the connection, so pacing is exact for an endpoint
/// with one connection. quinn's other packets, such as ACKs, count too. Without a rate, nothing
/// waits.
#[derive(Debug)]
pub struct PacedSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    runtime: Arc<dyn Runtime>,
    pace: Pace,
    /// When the next datagram may leave, if one has left.
    next: Mutex<Option<Instant>>,
    datagram: AtomicU64,
}

impl PacedSocket {
    /// `inner` at the rate of `pace`, with the timers of `runtime`, which must be the endpoint's.
    pub fn new(inner: Arc<dyn AsyncUdpSocket>, runtime: Arc<dyn Runtime>, pace: Pace) -> Self {
        Self {
            inner,
            runtime,
            pace,
            next: Mutex::new(None),
            datagram: AtomicU64::new(DATAGRAM),
        }
    }

    /// The time until which sending has to wait; none if it may begin now.
    fn wait(&self, now: Instant) -> Option<Instant> {
        self.pace.rate()?;
        let next = *self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.filter(|next| *next > now)
    }

    fn on_send(&self, now: Instant, transmit: &Transmit<'_>) {
        let size = transmit.contents.len() as u64;
        let segment = transmit.segment_size.map_or(size, |segment| segment as u64);
        self.datagram.store(segment.max(1), Relaxed);
        let Some(rate) = self.pace.rate() else {
            return;
        };
        let cost = Duration::from_nanos(rate.time_for(Bytes::new(size)).as_nanos());
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        // From its due time, if that is not long ago.
        let due = next.map_or(now, |next| next.min(now));
        let from = due.max(now.checked_sub(LATE).unwrap_or(now));
        *next = from.checked_add(cost);
    }
}

impl AsyncUdpSocket for PacedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let inner = self.inner.clone().create_io_poller();
        Box::pin(Poller {
            socket: self,
            inner: Mutex::new(inner),
            timer: Mutex::new(None),
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let now = self.runtime.now();
        if self.wait(now).is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.inner.try_send(transmit)?;
        self.on_send(now, transmit);
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// As many as the quantum allows.
    fn max_transmit_segments(&self) -> usize {
        let most = self.inner.max_transmit_segments();
        if self.pace.rate().is_none() {
            return most;
        }
        let datagrams = self.pace.quantum() / self.datagram.load(Relaxed);
        usize::try_from(datagrams).map_or(most, |datagrams| datagrams.clamp(1, most.max(1)))
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Waits for the rate, and then for room in the socket.
#[derive(Debug)]
struct Poller {
    socket: Arc<PacedSocket>,
    inner: Mutex<Pin<Box<dyn UdpPoller>>>,
    timer: Mutex<Option<Running>>,
}

/// A timer that runs.
#[derive(Debug)]
struct Running {
    until: Instant,
    timer: Pin<Box<dyn AsyncTimer>>,
}

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let timer = this.timer.get_mut().unwrap_or_else(PoisonError::into_inner);
        while let Some(until) = this.socket.wait(this.socket.runtime.now()) {
            let running = timer.get_or_insert_with(|| Running {
                until,
                timer: this.socket.runtime.new_timer(until),
            });
            if running.until != until {
                running.until = until;
                running.timer.as_mut().reset(until);
            }
            ready!(running.timer.as_mut().poll(cx));
        }
        let inner = this.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.as_mut().poll_writable(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::Waker;

    use paceline_congestion::{Controller as _, recipe};
    use quinn_proto::congestion::ControllerFactory as _;

    use super::*;
    use crate::{Adapter, Factory};

    /// A runtime whose time can be set, and a socket that counts.
    #[derive(Clone, Debug)]
    struct World(Arc<Mutex<(Instant, u64)>>);

    impl World {
        fn wait(&self, time: Duration) {
            self.0.lock().expect("no panic").0 += time;
        }

        fn sent(&self) -> u64 {
            self.0.lock().expect("no panic").1
        }
    }

    #[derive(Debug)]
    struct Timer(World, Instant);

    impl AsyncTimer for Timer {
        fn reset(self: Pin<&mut Self>, until: Instant) {
            self.get_mut().1 = until;
        }

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            match self.0.now() >= self.1 {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }
    }

    impl Runtime for World {
        fn new_timer(&self, until: Instant) -> Pin<Box<dyn AsyncTimer>> {
            Box::pin(Timer(self.clone(), until))
        }

        fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {}

        fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
            Ok(Arc::new(self.clone()))
        }

        fn now(&self) -> Instant {
            self.0.lock().expect("no panic").0
        }
    }

    impl UdpPoller for World {
        fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncUdpSocket for World {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            Box::pin(World::clone(&self))
        }

        fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
            self.0.lock().expect("no panic").1 += transmit.contents.len() as u64;
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            _: &mut [IoSliceMut<'_>],
            _: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(SocketAddr::from(([127, 0, 0, 1], 1)))
        }

        fn max_transmit_segments(&self) -> usize {
            64
        }
    }

    /// Sends as much as it may for a second, and wakes every `step`. Returns bytes per second:
    /// those sent, and those of the controller's rate.
    fn sent_in_a_second(step: Duration, late: Duration) -> (f64, f64) {
        let world = World(Arc::new(Mutex::new((Instant::now(), 0))));
        let pace = Pace::default();
        let bbr3 = recipe("bbr3", &[]).expect("a controller");
        let factory = Factory::paced(bbr3, pace.clone()).expect("it is paced");
        let controller = Arc::new(factory).build(world.now(), 1200);
        let ours = Adapter::of(controller.as_ref()).expect("ours");
        let rate = ours.path().controller().pacing_rate().expect("it paces");
        let runtime: Arc<dyn Runtime> = Arc::new(world.clone());
        let socket = Arc::new(PacedSocket::new(Arc::new(world.clone()), runtime, pace));
        let mut poller = socket.clone().create_io_poller();
        let begun = world.now();
        let mut cx = Context::from_waker(Waker::noop());
        while world.now() - begun < Duration::from_secs(1) {
            let room = vec![0; 1200 * socket.max_transmit_segments()];
            let transmit = Transmit {
                destination: SocketAddr::from(([127, 0, 0, 1], 2)),
                ecn: None,
                contents: &room,
                segment_size: Some(1200),
                src_ip: None,
            };
            while poller.as_mut().poll_writable(&mut cx).is_ready() {
                socket.try_send(&transmit).expect("it was writable");
            }
            let early = socket.try_send(&transmit).expect_err("it was not");
            assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
            world.wait(step + late);
        }
        (world.sent() as f64, rate.bps() as f64 / 8.0)
    }

    #[test]
    fn a_socket_keeps_the_rate_though_timers_are_late() {
        for (step, late) in [(10, 0), (100, 0), (100, 900)] {
            let (step, late) = (Duration::from_micros(step), Duration::from_micros(late));
            let (sent, rate) = sent_in_a_second(step, late);
            let ratio = sent / rate;
            assert!((0.98..1.02).contains(&ratio), "{step:?} {late:?}: {ratio}");
        }
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let world = World(Arc::new(Mutex::new((Instant::now(), 0))));
        let (inner, runtime) = (Arc::new(world.clone()), Arc::new(world.clone()));
        let socket = PacedSocket::new(inner, runtime, Pace::default());
        assert_eq!(socket.max_transmit_segments(), 64);
        let transmit = Transmit {
            destination: SocketAddr::from(([127, 0, 0, 1], 2)),
            ecn: None,
            contents: &[0; 1200],
            segment_size: None,
            src_ip: None,
        };
        for _ in 0..100 {
            socket.try_send(&transmit).expect("there is room");
        }
        assert_eq!(world.sent(), 120_000);
    }
}
