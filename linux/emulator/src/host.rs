//! The hosts' programs: a thread for each sender; the path runs the receivers.

mod datagrams;
mod tcp;

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use paceline_experiment::{Change, FlowPlan, Plan, end_counters, end_row};
use paceline_record::{EventKind, EventRow, FlowTotals, Text};
use paceline_recovery::{App, Application, Write};
use paceline_scenario::FlowGroup;
use paceline_tcp::packet::{PROBE, SENDER, receiver};
use paceline_tcp::settings::{is_bbr, name};
use paceline_tcp::{Counts, Flow, Own, Rows, Sample, decode};
use paceline_units::{Bytes, Duration, Instant};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::clock::{Clock, STALL};
use crate::ends::{End, Ends, Stack};
use crate::histogram::{Histogram, Times};
use crate::sockets::SocketPoller;
use crate::sys;

/// The port on which receivers listen.
const PORT: u16 = 5001;
/// The maximum window of TCP (RFC 7323 2.3), for which no limit is needed.
const LARGEST: i32 = 1 << 30;
/// The maximum that a receiver reads at once.
const DISCARD: usize = 64 << 10;
/// The maximum unsent data in the kernel for a sender whose application may fall silent: written
/// data cannot be taken back.
const UNSENT: u32 = 128 * 1024;

/// How often a waiting thread checks whether the run is over.
const LOOK: Duration = Duration::from_millis(200);

/// State shared by all threads of a run.
pub struct Shared<'a> {
    pub clock: &'a Clock,
    pub end: Instant,
    pub connections: &'a [Connection<'a>],
    pub log: Mutex<Log>,
    pub stop: AtomicBool,
}

/// Observations of flows.
#[derive(Default)]
pub struct Log {
    pub samples: Vec<Sample>,
    pub events: Vec<EventRow>,
}

/// One flow's two ends.
pub struct Connection<'a> {
    flow: u32,
    plan: &'a FlowPlan,
    /// The actions of its application at times of the run, in order.
    steps: Vec<&'a (Instant, Change)>,
    carrier: Carrier,
    /// Latest RTT, as the path sees it, in nanoseconds; 0 before there is one.
    pub rtt: AtomicU64,
    /// Bytes that the receiver's program has read.
    goodput: AtomicU64,
    /// When it read the last of them, if there will be no more.
    last: AtomicU64,
    ended: AtomicBool,
    state: Mutex<State>,
}

/// The transport of a flow.
enum Carrier {
    Kernel(Sockets),
    Stack(Box<Ends>),
}

/// A connection of the kernel's TCP.
struct Sockets {
    sender: Socket,
    listener: Socket,
    /// The receiver's end, once it exists.
    accepted: OnceLock<Socket>,
}

/// A flow's receiver, before there is a sender.
pub enum Receiver {
    Kernel(Socket),
    Stack(End),
}

#[derive(Default)]
struct State {
    stage: Stage,
    rows: Rows,
    finished: Option<Instant>,
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Waiting,
    Open,
    Closed,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Creates a flow's receiver, in the receivers' host; `stack` makes its end if it runs its own.
pub fn listen(flow: u32, group: &FlowGroup, stack: Option<&Stack>) -> io::Result<Receiver> {
    let Some(stack) = stack else {
        return listen_tcp(flow, group).map(Receiver::Kernel);
    };
    let (there, here) = addresses(flow);
    End::new(stack.end(false)?, here, there).map(Receiver::Stack)
}

/// The addresses of a datagram flow's ends: the sender's and the receiver's.
fn addresses(flow: u32) -> (SocketAddr, SocketAddr) {
    // Senders share an address.
    let port = u16::try_from(flow).map_or(u16::MAX, |flow| PORT.saturating_add(1 + flow));
    let sender = SocketAddrV4::new(SENDER, port);
    (
        sender.into(),
        SocketAddrV4::new(receiver(flow), PORT).into(),
    )
}

fn listen_tcp(flow: u32, group: &FlowGroup) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    clamp(&socket, group)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address(receiver(flow)))?;
    socket.listen(1)?;
    Ok(socket)
}

/// Limits a receiver to its window.
fn clamp(socket: &Socket, group: &FlowGroup) -> io::Result<()> {
    let window = i32::try_from(group.receive_window.get()).unwrap_or(i32::MAX);
    if window >= LARGEST {
        return Ok(());
    }
    sys::clamp_window(socket.as_fd(), window)
}

/// Creates the socket of a flow's sender, in the senders' host; `silent` if its application may
/// write nothing for a while.
fn prepare(plan: &FlowPlan, silent: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(name(&plan.group.cc.name).as_bytes())?;
    socket.set_nonblocking(true)?;
    // Closed after the run, with unread data: otherwise the kernel would keep it for minutes.
    socket.set_linger(Some(std::time::Duration::ZERO))?;
    if silent {
        socket.set_tcp_notsent_lowat(UNSENT)?;
    }
    Ok(socket)
}

fn address(ip: Ipv4Addr) -> SockAddr {
    SocketAddr::V4(SocketAddrV4::new(ip, PORT)).into()
}

impl<'a> Connection<'a> {
    /// A flow of a plan, by its number, with its receiver; in the senders' host.
    pub fn new(
        plan: &'a Plan<'a>,
        number: usize,
        receiver: Receiver,
        stack: Option<&Stack>,
    ) -> io::Result<Self> {
        let flow = plan.flows.get(number).ok_or(io::ErrorKind::NotFound)?;
        let script = plan.script.timed.iter();
        let steps: Vec<_> = script
            .filter(|(_, change)| change.flow() == Some(number))
            .collect();
        let silent = flow.group.app != App::Bulk || !steps.is_empty();
        let carrier = match (receiver, stack) {
            (Receiver::Kernel(listener), _) => Carrier::Kernel(Sockets {
                sender: prepare(flow, silent)?,
                listener,
                accepted: OnceLock::new(),
            }),
            (Receiver::Stack(receiver), Some(stack)) => {
                let (here, there) = addresses(number as u32);
                let sender = End::new(stack.end(true)?, here, there)?;
                Carrier::Stack(Box::new(Ends::new(sender, receiver)?))
            }
            (Receiver::Stack(_), None) => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Self {
            flow: number as u32,
            plan: flow,
            steps,
            carrier,
            rtt: AtomicU64::new(0),
            goodput: AtomicU64::new(0),
            last: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    /// The receiver reads the data that has arrived, and returns when it wants to be called next if
    /// nothing more arrives.
    fn receive(&self, now: Instant) -> io::Result<Instant> {
        match &self.carrier {
            Carrier::Kernel(sockets) => self.receive_tcp(now, sockets).map(|()| Instant::MAX),
            Carrier::Stack(ends) => {
                let mut receiver = ends.receiver();
                let wait = receiver.step(|| now, Write::default())?;
                let delivered = receiver.delivered();
                if delivered > self.goodput.load(Relaxed) {
                    self.last.store(now.as_nanos(), Relaxed);
                    self.goodput.store(delivered, Relaxed);
                }
                Ok(wait.until)
            }
        }
    }

    fn receive_tcp(&self, now: Instant, sockets: &Sockets) -> io::Result<()> {
        let is_empty = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        let socket = match sockets.accepted.get() {
            Some(socket) => socket,
            None => match sockets.listener.accept() {
                Ok((socket, _)) => sockets.accepted.get_or_init(|| socket),
                Err(error) if is_empty(&error) => return Ok(()),
                Err(error) => return Err(error),
            },
        };
        // With MSG_TRUNC, TCP discards the data instead of copying it (tcp(7)).
        let mut nowhere = [MaybeUninit::uninit(); DISCARD];
        let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
        loop {
            match socket.recv_with_flags(&mut nowhere, flags) {
                Ok(0) => {
                    self.ended.store(true, Relaxed);
                    break;
                }
                Ok(bytes) => {
                    self.last.store(now.as_nanos(), Relaxed);
                    self.goodput.fetch_add(bytes as u64, Relaxed);
                }
                Err(error) if is_empty(&error) => break,
                Err(error) => return Err(error),
            }
        }
        // The kernel resets it as the buffer grows.
        clamp(socket, &self.plan.group)
    }

    /// The totals, after the run.
    pub fn totals(&self) -> Flow {
        let state = locked(&self.state);
        let goodput = Bytes::new(self.goodput.load(Relaxed));
        if let Carrier::Stack(ends) = &self.carrier {
            let stats = ends.sender().stats();
            return Flow {
                totals: FlowTotals {
                    flow: self.flow,
                    goodput,
                    finished: state.finished,
                    counters: end_counters(&stats),
                },
                min_rtt: stats.min_rtt,
                error: state.error.clone(),
                ..Flow::default()
            };
        }
        let (sample, counts) = state.rows.last.clone().unwrap_or_default();
        Flow {
            totals: state.rows.totals(self.flow, goodput, state.finished),
            min_rtt: sample.row.min_rtt_ns,
            window_limited: counts.window_limited,
            buffer_limited: counts.buffer_limited,
            error: state.error.clone(),
            ..Flow::default()
        }
    }
}

/// Reads a connection. The caller fills in times and places, and the receiver's data.
pub fn read(socket: BorrowedFd<'_>, is_bbr: bool, mss: u32) -> io::Result<(Sample, Counts)> {
    let (mut info, mut own) = ([0; 512], [0; 64]);
    let info = sys::tcp_option(socket, libc::TCP_INFO, &mut info)?;
    // A controller without private state reports none.
    let own = sys::tcp_option(socket, libc::TCP_CC_INFO, &mut own).unwrap_or_default();
    Ok(decode(info, own, is_bbr, mss))
}

/// A sender's program: its application, and the scenario's commands to it.
struct Program<'a> {
    steps: std::slice::Iter<'a, &'a (Instant, Change)>,
    application: Application,
}

impl<'a> Program<'a> {
    fn new(connection: &'a Connection<'_>) -> Self {
        let plan = connection.plan;
        Self {
            steps: connection.steps.iter(),
            application: Application::new(plan.group.app, plan.mss, plan.start),
        }
    }

    fn step(&self) -> Option<&'a (Instant, Change)> {
        self.steps.as_slice().first().copied()
    }

    /// Its current activity.
    fn poll(&mut self, now: Instant) -> Write {
        while let Some((at, change)) = self.step().filter(|(at, _)| *at <= now) {
            change.steer(*at, &mut self.application);
            self.steps.next();
        }
        self.application.poll(now)
    }

    /// When it wants to be asked next.
    fn next(&self) -> Instant {
        let wakeup = self.application.next_wakeup().unwrap_or(Instant::MAX);
        self.step().map_or(wakeup, |(at, _)| wakeup.min(*at))
    }
}

impl Shared<'_> {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn over(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Sleeps until a time of the run, or until it is over.
    fn sleep_until(&self, at: Instant) {
        while !self.over() && (self.now() < at || !self.clock.has_begun()) {
            let (now, due) = (sys::now(), self.clock.machine(at));
            // It has passed by the machine's clock only while the path stands still.
            let wake = if due > now { due } else { now + STALL };
            sys::sleep_until(wake.min(now + LOOK));
        }
    }

    fn event(&self, t: Instant, flow: u32, kind: EventKind) {
        self.between(t, flow, kind, "", "");
    }

    fn between(
        &self,
        t: Instant,
        flow: u32,
        kind: EventKind,
        from: impl Into<Text>,
        to: impl Into<Text>,
    ) {
        let event = EventRow::new(t.min(self.end), Some(flow), kind);
        locked(&self.log).events.push(event.between(from, to));
    }

    /// Takes a row of an open flow, and records the changes since the previous one.
    fn sample(&self, connection: &Connection<'_>, state: &mut State) -> io::Result<()> {
        if state.stage != Stage::Open {
            return Ok(());
        }
        let flow = connection.flow;
        let goodput = || connection.goodput.load(Relaxed);
        let sender = match &connection.carrier {
            Carrier::Kernel(sockets) => sockets.sender.as_fd(),
            Carrier::Stack(ends) => {
                let stats = ends.sender().stats();
                let now = self.now().min(self.end);
                let row = end_row(now, flow, &stats, goodput());
                let own = stats.bandwidth.map_or(Own::Hidden, Own::Bandwidth);
                locked(&self.log).samples.push(Sample { row, own });
                return Ok(());
            }
        };
        let (mut sample, counts) = read(sender, is_bbr(connection.plan), connection.plan.mss)?;
        let now = self.now().min(self.end);
        let rtt = connection.rtt.load(Relaxed);
        let row = &mut sample.row;
        row.t_ns = now;
        row.flow = flow;
        row.goodput_bytes = Bytes::new(goodput());
        row.rtt_ns = (rtt > 0).then(|| Duration::from_nanos(rtt));
        let events = state.rows.next(&mut sample, counts);
        let mut log = locked(&self.log);
        log.events.extend(events);
        log.samples.push(sample);
        Ok(())
    }

    /// Takes rows of all flows at each interval; records how late they were.
    pub fn watch(&self, interval: Duration, poller: &mut Option<SocketPoller>) -> Times {
        let mut late = Histogram::default();
        let mut next = Instant::ZERO;
        while next <= self.end && !self.over() {
            self.sleep_until(next);
            for connection in self.connections {
                let mut state = locked(&connection.state);
                if let Err(error) = self.sample(connection, &mut state) {
                    state.error.get_or_insert_with(|| error.to_string());
                }
            }
            if let Some(poller) = poller {
                poller.poll(next);
            }
            let now = self.now();
            late.add(now.since(next));
            if next == self.end {
                break;
            }
            let passed = now.as_nanos() / interval.as_nanos().max(1);
            next = (Instant::ZERO + interval * (passed + 1)).min(self.end);
        }
        late.times()
    }

    /// Sends probes both ways, each with its sending time.
    pub fn probe(&self, there: &Socket, back: &Socket, interval: Duration) {
        let mut next = Instant::ZERO;
        let to = |ip| SockAddr::from(SocketAddr::V4(SocketAddrV4::new(ip, PORT)));
        let (there_to, back_to) = (to(PROBE), to(SENDER));
        while next < self.end && !self.over() {
            self.sleep_until(next);
            for (socket, to) in [(there, &there_to), (back, &back_to)] {
                // A probe that cannot be sent measures nothing.
                let _ = socket.send_to(&sys::now().as_nanos().to_ne_bytes(), to);
            }
            next = next.max(self.now()) + interval;
        }
    }

    /// A receiver's program at `now`: reads the data delivered to it. Returns when it wants to be
    /// called next although nothing arrives; [`Instant::MAX`] if never.
    ///
    /// Linux acknowledges every second packet only if unread data does not shrink the window;
    /// otherwise it acknowledges when the data is read. A separate thread that the machine does not
    /// run for some milliseconds would delay ACKs as no idle host does. So the path itself calls
    /// this whenever it has delivered a packet.
    pub fn receive(&self, now: Instant, flow: usize) -> Instant {
        let connection = self.connections.get(flow);
        let Some(connection) = connection.filter(|one| !one.ended.load(Relaxed)) else {
            return Instant::MAX;
        };
        connection.receive(now).unwrap_or_else(|error| {
            connection.ended.store(true, Relaxed);
            // The scenario stopped the flow.
            if error.kind() != io::ErrorKind::ConnectionReset {
                self.broke(connection, "receiver", &error);
            }
            Instant::MAX
        })
    }

    /// A sender's program: writes its application's data.
    pub fn send(&self, connection: &Connection<'_>) {
        if let Err(error) = self.send_all(connection) {
            self.broke(connection, "sender", &error);
        }
    }

    fn broke(&self, connection: &Connection<'_>, who: &str, error: &io::Error) {
        let mut state = locked(&connection.state);
        state.stage = Stage::Closed;
        state.error.get_or_insert_with(|| format!("{who}: {error}"));
        let reason = error.to_string();
        self.between(self.now(), connection.flow, EventKind::Error, "", reason);
    }

    fn send_all(&self, connection: &Connection<'_>) -> io::Result<()> {
        let start = connection.plan.start;
        if start >= self.end {
            return Ok(());
        }
        self.sleep_until(start);
        self.event(self.now(), connection.flow, EventKind::Start);
        let stop = connection.plan.stop.unwrap_or(Instant::MAX);
        match &connection.carrier {
            Carrier::Kernel(sockets) => self.send_tcp(connection, sockets, stop),
            Carrier::Stack(ends) => self.send_datagrams(connection, ends, stop),
        }
    }

    fn close(
        &self,
        connection: &Connection<'_>,
        kind: EventKind,
        finished: Option<Instant>,
    ) -> io::Result<()> {
        self.event(self.now(), connection.flow, kind);
        let mut state = locked(&connection.state);
        let last = self.sample(connection, &mut state);
        state.stage = Stage::Closed;
        state.finished = finished;
        match &connection.carrier {
            // A reset informs its peer. On failure the socket is closed with the process.
            Carrier::Kernel(sockets) => {
                let _ = rustix::net::connect_unspec(&sockets.sender);
            }
            // Its peer is not informed any more.
            Carrier::Stack(_) => connection.ended.store(true, Relaxed),
        }
        last
    }
}
