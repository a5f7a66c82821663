//! A run: the script, the flows' events, and the samples, in one loop.

use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;
use std::process;

use crate::flow::{End, Flow, Stage, untag};
use crate::losses::{self, Losses};
use crate::sys::{self, Event, PacketRing, Poll, Ring, Shared};
use crate::wire::{self, Command, Header, Record, SCRIPT, State, Report};

/// Time from the last preparation to the start.
const LEAD: u64 = 1_000_000;
/// The part of a captured packet that is kept: Ethernet, IPv4 without options, TCP with all.
const SNAP: usize = 14 + 20 + 60;

/// The log, in the shared memory.
struct Log<'a> {
    shared: &'a Shared,
    begin: usize,
    length: usize,
}

impl Log<'_> {
    fn append(&mut self, kind: Report, number: usize, at: u64, body: &[u8]) {
        let record = Record { kind: kind as u16, number: number as u16, at, body };
        if self.begin + self.length + record.size() > self.shared.size {
            // The machine is stopped while the host takes it: the run does not notice.
            self.shared.set_word(Header::Log as usize, self.length as u64);
            self.shared.set_word(Header::State as usize, State::Full as u64);
            sys::stop_machine();
            self.length = 0;
        }
        let at = self.begin + self.length;
        let head = record.head();
        self.shared.write(at, &head);
        self.shared.write(at + head.len(), body);
        self.length += record.size();
        self.shared.set_word(Header::Log as usize, self.length as u64);
    }
}

struct Run<'a> {
    log: Log<'a>,
    poll: Poll,
    flows: Vec<Flow>,
    /// A netlink socket in each namespace.
    routing: Vec<RawFd>,
    queries: Vec<(u16, &'a [u8])>,
    captures: Vec<PacketRing>,
    /// Calls of a controller's functions.
    calls: Option<Ring>,
    /// Of the way there, and of the way back.
    losses: [Option<Losses>; 2],
    begin: u64,
    /// The same in real time.
    begin_real: u64,
}

pub fn run(shared: &Shared) -> io::Result<()> {
    let length = shared.word(Header::Script as usize) as usize;
    let mut script = vec![0; length];
    shared.read(SCRIPT, &mut script);
    let begin = (SCRIPT + length).next_multiple_of(4096);
    let log = Log { shared, begin, length: 0 };
    log.shared.set_word(Header::Log as usize, 0);
    let mut run = Run {
        log,
        poll: Poll::new()?,
        flows: Vec::new(),
        routing: namespaces()?,
        queries: Vec::new(),
        captures: Vec::new(),
        calls: None,
        losses: [None, None],
        begin: 0,
        begin_real: 0,
    };
    let mut rest = &script[..];
    let mut timed = Vec::new();
    let mut times = [0_u64; 2];
    let mut place = 0;
    while let Some(record) = Record::take(&mut rest) {
        if record.kind >= Command::At as u16 {
            timed.push((place, record));
        } else if record.kind == Command::Begin as u16 {
            let (a, b) = record.body.split_at(8);
            times = [a, b].map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        } else if let Err(error) = run.prepare(&record) {
            return run.refuse(place, error);
        }
        place += 1;
    }
    run.main_loop(&timed, times)
}

/// Creates the namespaces, each with a netlink socket.
fn namespaces() -> io::Result<Vec<RawFd>> {
    const NETLINK: i32 = 16;
    const RAW: i32 = 3;
    // Half of the memory, in pages. A machine of this size would refuse the segments of a long fast
    // path, which the machine of a flow that fills such a path does not.
    fs::write("/proc/sys/net/ipv4/tcp_mem", "32768 32768 32768")?;
    let mut sockets = Vec::new();
    for number in 0..wire::NAMESPACES {
        sys::new_network()?;
        let file = File::open("/proc/self/ns/net")?;
        sys::renumber(&file, wire::NAMESPACE_FD + i32::from(number))?;
        sockets.push(sys::make_socket(NETLINK, RAW, 0)?);
    }
    Ok(sockets)
}

/// Runs the loader; if the kernel refuses the program, the console has its reason.
fn load(loader: &mut process::Command) -> io::Result<()> {
    match loader.status()?.success() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(wire::REFUSES_PROGRAM)),
    }
}

/// Loads the recorder of a controller's calls, and opens its ring buffer.
fn trace(functions: &str) -> io::Result<Ring> {
    sys::mount_at("bpf", "/sys/fs/bpf")?;
    load(crate::loader().arg(crate::place(wire::RECORDER)).args([wire::CALLS, functions]))?;
    Ring::open(wire::CALLS, wire::CALLS_SIZE)
}

impl<'a> Run<'a> {
    fn now(&self) -> u64 {
        sys::now().saturating_sub(self.begin)
    }

    fn refuse(&mut self, place: usize, error: io::Error) -> io::Result<()> {
        let code = error.raw_os_error().unwrap_or(0);
        self.log.append(Report::CommandFailed, 0, place as u64, &code.to_le_bytes());
        Err(error)
    }

    fn prepare(&mut self, record: &Record<'a>) -> io::Result<()> {
        let enter = || sys::enter(wire::NAMESPACE_FD + i32::from(record.number));
        match Command::of(record.kind) {
            Some(Command::File) => {
                enter()?;
                let at = record.body.iter().position(|byte| *byte == 0).unwrap_or(0);
                let (path, content) = record.body.split_at(at);
                let path = str::from_utf8(path).map_err(io::Error::other)?;
                match fs::write(path, content.get(1..).unwrap_or_default()) {
                    // A kernel that lacks a setting has only one behaviour.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    result => result,
                }
            }
            Some(Command::Netlink) => self.netlink(record.number, record.body),
            Some(Command::Plain) => {
                enter()?;
                let socket = sys::make_socket(2, 2, 0)?;
                let name = str::from_utf8(record.body).map_err(io::Error::other)?;
                // TSO, GSO, GRO: everything that splits or merges. Those that a device lacks are
                // off.
                for command in [0x1f, 0x24, 0x2c] {
                    match sys::set_offload(socket, name, command, 0) {
                        Err(error) if error.raw_os_error() != Some(95) => return Err(error),
                        _ => {}
                    }
                }
                sys::close_fd(socket);
                Ok(())
            }
            Some(Command::Flow) => {
                let flow = Flow::new(self.flows.len(), record.body, &self.poll)?;
                self.flows.push(flow);
                Ok(())
            }
            Some(Command::Query) => {
                self.queries.push((record.number, record.body));
                Ok(())
            }
            Some(Command::Seed) => {
                sys::seed_random(&File::open("/dev/urandom")?, record.body)
            }
            Some(Command::Capture) => {
                enter()?;
                self.capture(str::from_utf8(record.body).map_err(io::Error::other)?)
            }
            Some(Command::Controller) => {
                const OBJECT: &str = "/controller.o";
                fs::write(OBJECT, record.body)?;
                load(crate::loader().args([OBJECT, wire::BBR3]))
            }
            Some(Command::Losses) => {
                let way = self.losses.get_mut(usize::from(record.number));
                *way.ok_or(io::ErrorKind::NotFound)? = Some(Losses::load(record.body, record.number)?);
                Ok(())
            }
            Some(Command::Trace) => {
                self.calls = Some(trace(str::from_utf8(record.body).map_err(io::Error::other)?)?);
                Ok(())
            }
            _ => Err(io::Error::other("a request that the guest does not know")),
        }
    }

    /// Captures packets at a device.
    fn capture(&mut self, device: &str) -> io::Result<()> {
        const PACKET: i32 = 17;
        const RAW: i32 = 3;
        let protocol = 0x0003_u16.to_be();
        let socket = sys::make_socket(PACKET, RAW, i32::from(protocol))?;
        let mut address = [0; 20];
        address[..2].copy_from_slice(&(PACKET as u16).to_ne_bytes());
        address[2..4].copy_from_slice(&protocol.to_ne_bytes());
        address[4..8].copy_from_slice(&sys::device(device)?.to_ne_bytes());
        let ring = PacketRing::new(socket)?;
        sys::bind_to(socket, &address)?;
        self.captures.push(ring);
        Ok(())
    }

    /// Sends a message and reads its acknowledgment, which is an error message with the error 0.
    fn netlink(&mut self, namespace: u16, message: &[u8]) -> io::Result<()> {
        const HEADER: usize = 16;
        let socket = self.routing.get(usize::from(namespace)).copied();
        let socket = socket.ok_or(io::ErrorKind::NotFound)?;
        sys::write(socket, message)?;
        let mut buffer = [0; 8192];
        let length = sys::read(socket, &mut buffer)?;
        let code = buffer[..length].get(HEADER..HEADER + 4);
        match code.and_then(|code| code.try_into().ok()).map(i32::from_ne_bytes) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn main_loop(&mut self, timed: &[(usize, Record<'a>)], [duration, interval]: [u64; 2]) -> io::Result<()> {
        let mut timed = timed.iter().peekable();
        let mut events = [Event { events: 0, data: 0 }; 64];
        let mut next_sample = 0;
        let now = sys::now();
        self.begin = now + LEAD;
        self.begin_real = sys::real_time() - (sys::now() - now) + LEAD;
        while sys::now() < self.begin {
            self.poll.wait(&mut events[..1], self.begin.saturating_sub(sys::now()))?;
        }
        let idle = self.log.shared.word(Header::Idle as usize);
        loop {
            let now = self.now();
            while let Some((place, record)) = timed.next_if(|(_, record)| record.at <= now) {
                if let Err(error) = self.act(record) {
                    return self.refuse(*place, error);
                }
            }
            if now >= next_sample.min(duration) {
                self.sample(now.min(duration))?;
                let rounds = self.log.shared.word(Header::Idle as usize).wrapping_sub(idle);
                self.log.append(Report::Idle, 0, now, &rounds.to_le_bytes());
                self.log.shared.set_word(Header::Passed as usize, now);
                next_sample = (now / interval.max(1) + 1) * interval;
            }
            if now >= duration {
                self.counters(now);
                return Ok(());
            }
            let at = timed.peek().map_or(duration, |(_, record)| record.at);
            let next = at.min(next_sample).min(duration);
            let wait = next.saturating_sub(self.now());
            for event in self.poll.wait(&mut events, wait)? {
                self.on_event(event.data);
            }
            self.captured();
        }
    }

    fn act(&mut self, record: &Record<'a>) -> io::Result<()> {
        let number = usize::from(record.number);
        let command = Command::of(record.kind);
        if command == Some(Command::At) {
            return self.netlink(record.number, record.body);
        }
        if command == Some(Command::LossesAt) {
            let (joins, list) = losses::split(record.body);
            let waiting = if joins == 1 { self.waiting(number)? } else { 0 };
            let losses = self.losses.get_mut(number).and_then(Option::as_mut);
            return losses.map_or(Ok(()), |losses| losses.change(list, waiting));
        }
        let now = self.now();
        let Some(flow) = self.flows.get_mut(number).filter(|flow| flow.stage != Stage::Over) else {
            return Ok(());
        };
        let done = match command {
            Some(Command::Connect) => {
                self.log.append(Report::Start, number, now, &[]);
                flow.connect(number, &self.poll)
            }
            Some(Command::Stop) => {
                if matches!(flow.stage, Stage::Open | Stage::Draining) {
                    self.report_state(number, now);
                }
                self.log.append(Report::Stop, number, now, &[]);
                self.flows[number].reset();
                Ok(())
            }
            _ => {
                match command {
                    Some(Command::Write) => {
                        let bytes = record.body.try_into().map_or(0, u64::from_le_bytes);
                        flow.pending += bytes;
                    }
                    Some(Command::Unlimited) => flow.unlimited = true,
                    Some(Command::Pause) => flow.unlimited = false,
                    Some(Command::Close) => flow.closing = true,
                    _ => return Err(io::Error::other("a request that the guest does not know")),
                }
                flow.write(number, &self.poll)
            }
        };
        self.broken(number, done);
        Ok(())
    }

    fn broken(&mut self, number: usize, done: io::Result<()>) {
        if let Err(error) = done {
            let code = error.raw_os_error().unwrap_or(0);
            self.log.append(Report::Broken, number, self.now(), &code.to_le_bytes());
            self.flows[number].reset();
        }
    }

    fn on_event(&mut self, data: u64) {
        let (number, end) = untag(data);
        let now = self.now();
        let Some(flow) = self.flows.get_mut(number).filter(|flow| flow.stage != Stage::Over) else {
            return;
        };
        let done = match end {
            End::Listener => flow.accept(number, &self.poll),
            End::Sender => self.can_write(number, now),
            End::Receiver => flow.take(now),
        };
        self.broken(number, done);
        let flow = &self.flows[number];
        if flow.stage == Stage::Draining && flow.ended {
            let last = flow.last;
            self.report_state(number, now);
            self.log.append(Report::Finish, number, last, &[]);
            self.flows[number].end();
        }
    }

    fn can_write(&mut self, number: usize, now: u64) -> io::Result<()> {
        if self.flows[number].stage == Stage::Connecting {
            self.flows[number].is_connected()?;
            self.log.append(Report::Established, number, now, &[]);
            self.report_state(number, now);
        }
        self.flows[number].write(number, &self.poll)
    }

    fn report_state(&mut self, number: usize, now: u64) {
        match self.flows[number].state() {
            Ok(body) => self.log.append(Report::Sample, number, now, &body),
            Err(error) => self.broken(number, Err(error)),
        }
    }

    /// All open flows and all queries.
    fn sample(&mut self, now: u64) -> io::Result<()> {
        self.captured();
        for number in 0..self.flows.len() {
            if matches!(self.flows[number].stage, Stage::Open | Stage::Draining) {
                self.report_state(number, now);
            }
        }
        let mut buffer = [0; 8192];
        for place in 0..self.queries.len() {
            let (namespace, message) = self.queries[place];
            let socket = self.routing[usize::from(namespace)];
            sys::write(socket, message)?;
            let length = sys::read(socket, &mut buffer)?;
            self.log.append(Report::Reply, place, now, &buffer[..length]);
        }
        Ok(())
    }

    /// How many packets wait at the first discipline of a direction's queries.
    fn waiting(&self, direction: usize) -> io::Result<u64> {
        const HEADERS: usize = 16 + 20;
        const STATS2: u16 = 7;
        const QUEUE: u16 = 3;
        let query = self.queries.get(direction * wire::QUERIES);
        let (namespace, message) = query.ok_or(io::ErrorKind::NotFound)?;
        let socket = self.routing[usize::from(*namespace)];
        sys::write(socket, message)?;
        let mut buffer = [0; 8192];
        let length = sys::read(socket, &mut buffer)?;
        let queue = attribute(buffer[..length].get(HEADERS..).unwrap_or_default(), STATS2)
            .and_then(|stats| attribute(stats, QUEUE)?.first_chunk().copied());
        queue.map(|count| u32::from_ne_bytes(count).into()).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Takes captured packets, with the times at which the kernel had them, and recorded calls.
    fn captured(&mut self) {
        while let Some(call) = self.calls.as_mut().and_then(Ring::take) {
            let now = self.now();
            self.log.append(Report::Call, 0, now, &call);
        }
        let mut bytes = [0; SNAP];
        for place in 0..self.captures.len() {
            while let Some((packet, real)) = self.captures[place].take(&mut bytes) {
                let at = real.saturating_sub(self.begin_real);
                self.log.append(Report::Packet, place, at, packet);
            }
        }
    }

    fn counters(&mut self, now: u64) {
        for host in [wire::SENDERS, wire::RECEIVERS] {
            let entered = sys::enter(wire::NAMESPACE_FD + i32::from(host));
            let text = entered.and_then(|()| fs::read("/proc/thread-self/net/netstat"));
            self.log.append(Report::Counters, host.into(), now, &text.unwrap_or_default());
        }
    }
}

/// The value of a netlink message's attribute.
fn attribute(mut bytes: &[u8], name: u16) -> Option<&[u8]> {
    loop {
        let half = |at: usize| Some(u16::from_ne_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        let length = usize::from(half(0)?);
        let value = bytes.get(4..length)?;
        // The highest bit marks a nested attribute.
        if half(2)? & 0x7fff == name {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}
