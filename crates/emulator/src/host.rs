//! The hosts' programs: a thread for each sender; receivers are run by the path.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use paceline_experiment::{Change, FlowPlan, Plan};
use paceline_record::{EventKind, EventRow, Text};
use paceline_recovery::{Amount, App, Application};
use paceline_scenario::FlowGroup;
use paceline_units::{Bytes, Duration, Instant};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::clock::Clock;
use crate::histogram::{Histogram, Times};
use crate::kernel;
use crate::message::{Flow, Sample};
use crate::packet::{PROBE, receiver};
use crate::sample;
use crate::sys;

/// Where receivers listen.
const PORT: u16 = 5001;
/// What a sender writes at once.
const CHUNK: usize = 256 * 1024;
/// The largest window of TCP (RFC 7323 2.3), which needs no keeping to.
const LARGEST: i32 = 1 << 30;
/// The most that a receiver takes at once.
const DISCARD: usize = 64 << 10;
/// The most that a sender lets the kernel hold unsent when its application may fall silent: what is
/// written cannot be taken back.
const UNSENT: u32 = 128 * 1024;

/// How often a thread that waits looks whether the run is over.
const LOOK: Duration = Duration::from_millis(200);

/// What all threads of a run share.
pub struct Shared<'a> {
    pub clock: &'a Clock,
    pub end: Instant,
    pub connections: &'a [Connection<'a>],
    pub log: Mutex<Log>,
    pub stop: AtomicBool,
}

/// What was seen of flows.
#[derive(Default)]
pub struct Log {
    pub samples: Vec<Sample>,
    pub events: Vec<EventRow>,
}

/// One flow's two ends.
pub struct Connection<'a> {
    flow: u32,
    plan: &'a FlowPlan<'a>,
    /// What its application does at times of the run, in order.
    steps: Vec<&'a (Instant, Change)>,
    sender: Socket,
    listener: Socket,
    /// The receiver's end, once it has one.
    accepted: OnceLock<Socket>,
    /// Latest round trip, as the path sees it, in nanoseconds; 0 before there is one.
    pub rtt: AtomicU64,
    /// Bytes that the receiver's program has taken.
    goodput: AtomicU64,
    /// When it had the last of them, and that there will be no more.
    last: AtomicU64,
    ended: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stage: Stage,
    rows: sample::Rows,
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

/// Makes the socket of a flow's receiver, in the receivers' host.
pub fn listen(flow: u32, group: &FlowGroup) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    clamp(&socket, group)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address(receiver(flow)))?;
    socket.listen(1)?;
    Ok(socket)
}

/// Keeps a receiver to its window.
fn clamp(socket: &Socket, group: &FlowGroup) -> io::Result<()> {
    let window = i32::try_from(group.receive_window.get()).unwrap_or(i32::MAX);
    if window >= LARGEST {
        return Ok(());
    }
    sys::clamp_window(socket.as_fd(), window)
}

/// Makes the socket of a flow's sender, in the senders' host; `silent` if its application may write
/// nothing for a while.
fn prepare(plan: &FlowPlan<'_>, silent: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(kernel::name(&plan.group.cc.name).as_bytes())?;
    socket.set_nonblocking(true)?;
    if silent {
        socket.set_tcp_notsent_lowat(UNSENT)?;
    }
    Ok(socket)
}

fn address(ip: Ipv4Addr) -> SockAddr {
    SocketAddr::V4(SocketAddrV4::new(ip, PORT)).into()
}

impl<'a> Connection<'a> {
    /// A flow of a plan, by its number; in the senders' host.
    pub fn new(plan: &'a Plan<'a>, number: usize, listener: Socket) -> io::Result<Self> {
        let flow = plan.flows.get(number).ok_or(io::ErrorKind::NotFound)?;
        let script = plan.script.timed.iter();
        let steps: Vec<_> = script
            .filter(|(_, change)| change.flow() == Some(number))
            .collect();
        let silent = flow.group.app != App::Bulk || !steps.is_empty();
        Ok(Self {
            flow: number as u32,
            plan: flow,
            steps,
            sender: prepare(flow, silent)?,
            listener,
            accepted: OnceLock::new(),
            rtt: AtomicU64::new(0),
            goodput: AtomicU64::new(0),
            last: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    fn receive(&self, now: Instant) -> io::Result<()> {
        let is_empty = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        let socket = match self.accepted.get() {
            Some(socket) => socket,
            None => match self.listener.accept() {
                Ok((socket, _)) => self.accepted.get_or_init(|| socket),
                Err(error) if is_empty(&error) => return Ok(()),
                Err(error) => return Err(error),
            },
        };
        // With MSG_TRUNC, TCP drops what it would write (tcp(7)).
        let (mut nowhere, flags) = (
            [MaybeUninit::uninit(); DISCARD],
            libc::MSG_TRUNC | libc::MSG_DONTWAIT,
        );
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
        // The kernel forgets it as the buffer grows.
        clamp(socket, self.plan.group)
    }

    /// The totals, after the run.
    pub fn totals(&self) -> Flow {
        let state = locked(&self.state);
        let (sample, counts) = state.rows.last.clone().unwrap_or_default();
        let goodput = Bytes::new(self.goodput.load(Relaxed));
        Flow {
            totals: state.rows.totals(self.flow, goodput, state.finished),
            min_rtt: sample.row.min_rtt_ns,
            window_limited: counts.window_limited,
            buffer_limited: counts.buffer_limited,
            error: state.error.clone(),
        }
    }
}

impl Shared<'_> {
    fn now(&self) -> Instant {
        self.clock.read()
    }

    fn over(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Sleeps until a time of the run, or until it is over.
    fn sleep_until(&self, at: Instant) {
        while !self.over() && (self.now() < at || !self.clock.has_begun()) {
            let soon = sys::now() + LOOK;
            sys::sleep_until(soon.min(self.clock.machine(at)));
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

    /// Takes a row of an open flow, and records what has changed since the one before.
    fn sample(&self, connection: &Connection<'_>, state: &mut State) -> io::Result<()> {
        if state.stage != Stage::Open {
            return Ok(());
        }
        let flow = connection.flow;
        let socket = connection.sender.as_fd();
        let (mut sample, counts) =
            sample::read(socket, kernel::is_bbr(connection.plan), connection.plan.mss)?;
        let now = self.now().min(self.end);
        let rtt = connection.rtt.load(Relaxed);
        let row = &mut sample.row;
        row.t_ns = now;
        row.flow = flow;
        row.goodput_bytes = Bytes::new(connection.goodput.load(Relaxed));
        row.rtt_ns = (rtt > 0).then(|| Duration::from_nanos(rtt));
        let events = state.rows.next(&mut sample, counts);
        let mut log = locked(&self.log);
        log.events.extend(events);
        log.samples.push(sample);
        Ok(())
    }

    /// Takes rows of all flows at each interval; how late they were.
    pub fn watch(&self, interval: Duration) -> Times {
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

    /// Sends probes both ways, each with the time of its sending.
    pub fn probe(&self, there: &Socket, back: &Socket, interval: Duration) {
        let mut next = Instant::ZERO;
        let to = |ip| SockAddr::from(SocketAddr::V4(SocketAddrV4::new(ip, PORT)));
        let (there_to, back_to) = (to(PROBE), to(crate::packet::SENDER));
        while next < self.end && !self.over() {
            self.sleep_until(next);
            for (socket, to) in [(there, &there_to), (back, &back_to)] {
                // One that cannot be sent measures nothing.
                let _ = socket.send_to(&sys::now().as_nanos().to_ne_bytes(), to);
            }
            next = next.max(self.now()) + interval;
        }
    }

    /// A receiver's program at `now`: takes what it has been handed.
    ///
    /// Linux acknowledges every second packet only if the window need not shrink for what has not been read; else
    /// when it is read. A thread of its own, not run by the machine for some milliseconds, would hold up ACKs as
    /// no idle host does. So the path calls this itself whenever it has delivered a packet.
    pub fn receive(&self, now: Instant, flow: usize) {
        let Some(connection) = self.connections.get(flow) else {
            return;
        };
        if !connection.ended.load(Relaxed)
            && let Err(error) = connection.receive(now)
        {
            connection.ended.store(true, Relaxed);
            // The scenario stopped the flow.
            if error.kind() != io::ErrorKind::ConnectionReset {
                self.broke(connection, "receiver", &error);
            }
        }
    }

    /// A sender's program: writes what its application has to write.
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
        let (plan, socket) = (connection.plan, &connection.sender);
        if plan.start >= self.end {
            return Ok(());
        }
        self.sleep_until(plan.start);
        self.event(self.now(), connection.flow, EventKind::Start);
        let stop = plan.stop.unwrap_or(Instant::MAX);
        if !self.connect(connection, stop)? {
            return Ok(());
        }
        // Copied, they would hold the socket, and its ACKs, for as long as the machine needs to find memory.
        let zeros = sys::zeros(CHUNK)?;
        let mut steps = connection.steps.iter().peekable();
        let mut application = Application::new(plan.group.app, plan.mss, plan.start);
        let (mut pending, mut unlimited, mut closing) = (0_u64, false, false);
        loop {
            let now = self.now();
            if self.over() || now >= self.end {
                return Ok(());
            }
            if now >= stop {
                return self.close(connection, EventKind::Stop, None);
            }
            while let Some((at, change)) = steps.next_if(|(at, _)| *at <= now) {
                change.steer(*at, &mut application);
            }
            let write = application.poll(now);
            unlimited &= !write.stop;
            match write.amount {
                Amount::None => {}
                Amount::Bytes(bytes) => pending += bytes,
                Amount::Unlimited => unlimited = true,
            }
            closing |= write.close;
            let mut wake = stop.min(self.end);
            wake = wake.min(application.next_wakeup().unwrap_or(Instant::MAX));
            wake = wake.min(steps.peek().map_or(Instant::MAX, |(at, _)| *at));
            let wait = wake.since(now).min(LOOK);
            if !unlimited && pending == 0 {
                if closing {
                    return self.drain(connection, stop);
                }
                self.sleep_until(now + wait);
                continue;
            }
            if sys::poll([PollFd::new(socket, PollFlags::OUT)], wait)? != [true] {
                continue;
            }
            let most = if pending > 0 { pending } else { u64::MAX };
            let most = usize::try_from(most).unwrap_or(CHUNK).min(CHUNK);
            // The socket takes the file's pages and copies nothing.
            match rustix::fs::sendfile(socket, &zeros, Some(&mut 0), most) {
                Ok(sent) => pending = pending.saturating_sub(sent as u64),
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Opens the connection; false if the run, or the flow's time, is over before it is open.
    fn connect(&self, connection: &Connection<'_>, stop: Instant) -> io::Result<bool> {
        let socket = &connection.sender;
        match socket.connect(&address(receiver(connection.flow))) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            result => result?,
        }
        loop {
            let now = self.now();
            if self.over() || now >= self.end.min(stop) {
                return Ok(false);
            }
            let wait = self.end.min(stop).since(now).min(LOOK);
            if sys::poll([PollFd::new(socket, PollFlags::OUT)], wait)? == [true] {
                break;
            }
        }
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        self.event(self.now(), connection.flow, EventKind::Established);
        let mut state = locked(&connection.state);
        state.stage = Stage::Open;
        self.sample(connection, &mut state)?;
        Ok(true)
    }

    /// All is written: waits until all is acknowledged.
    fn drain(&self, connection: &Connection<'_>, stop: Instant) -> io::Result<()> {
        let socket = &connection.sender;
        socket.shutdown(std::net::Shutdown::Write)?;
        while !self.over() && self.now() < self.end {
            if self.now() >= stop {
                return self.close(connection, EventKind::Stop, None);
            }
            let (_, counts) = sample::read(socket.as_fd(), false, connection.plan.mss)?;
            let all = counts.unacknowledged == 0 && counts.unsent == 0;
            if all && connection.ended.load(Relaxed) {
                let last = Instant::from_nanos(connection.last.load(Relaxed));
                return self.close(connection, EventKind::Finish, Some(last));
            }
            self.sleep_until(self.now() + Duration::from_millis(1));
        }
        Ok(())
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
        // Its peer is told by a reset. A failure leaves a socket that the process's end closes.
        let _ = rustix::net::connect_unspec(&connection.sender);
        last
    }
}
