//! Plays scripts of the recovery suite to this kernel's TCP: its sockets send into a TUN device,
//! with only the script's path and receiver behind it.

mod segment;

use std::fs;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::thread;

use paceline_capture::Tcp;
use paceline_conformance::recovery::{
    MSS, Peer, Played, Script, Trace, Transmission, WINDOW, compare,
};
use paceline_tcp::netlink::RouteMetrics;
use paceline_tcp::packet::{self, Kind};
use paceline_tcp::settings::Stack;
use paceline_units::Duration;
use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, Protocol, Socket, Type};

use self::segment::Answerer;
use crate::namespace::{self, Host, HostError};
use crate::{process, sys};

/// How many scripts are played in parallel: they mostly wait.
const SIDE_BY_SIDE: usize = 8;
/// How often each is played; all results must be equal.
pub const TIMES: usize = 3;
/// Bytes that the kernel accepts from an application at once: every write of a script.
const BUFFER: u64 = 64 << 20;

/// The kernel's transmissions for each script, in order, or why they could not be recorded. `step`
/// is called after each script.
pub fn record(scripts: &[Played], step: &(dyn Fn(&str) + Sync)) -> Vec<Result<Trace, String>> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut done: Vec<(usize, Result<Trace, String>)> = thread::scope(|scope| {
        let worker = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(played) = scripts.get(at) else {
                    return done;
                };
                done.push((at, agreed(&played.script)));
                step(&played.id());
            }
        };
        let workers: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(worker)).collect();
        let results = workers.into_iter().filter_map(|worker| worker.join().ok());
        results.flatten().collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The kernel's transmissions in each of [`TIMES`] runs.
fn agreed(script: &Script) -> Result<Trace, String> {
    let first = once(script)?;
    for time in 2..=TIMES {
        let again = once(script)?;
        if let Some(departure) = compare(&first.sent, &again.sent, script.rtt) {
            let [one, other] = departure
                .sent
                .map(|sent| sent.map_or_else(|| "nothing".to_owned(), |sent| sent.to_string()));
            let number = departure.at + 1;
            return Err(format!(
                "the kernel does not do the same each time: transmission {number} is {one} at first, {other} \
                 the {time}. time"
            ));
        }
    }
    Ok(first)
}

/// Plays a script in its own process.
fn once(script: &Script) -> Result<Trace, String> {
    let text = process::trial(|| {
        sys::no_timer_slack();
        // If it is refused, repetitions reveal late packets.
        let _ = sys::real_time(1);
        namespace::isolate().map_err(describe)?;
        let _ = sys::die_with_parent();
        let host = host(script).map_err(describe)?;
        let sent = converse(script, &host)?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(words)?;
        // Without the packager's suffix.
        let version = kernel.trim().split('-').next().unwrap_or_default();
        let kernel = format!("Linux {version}");
        Ok(Trace { kernel, sent }.write())
    })?;
    Trace::read(&text).map_err(|line| format!("line {line} of its trace"))
}

fn describe(error: HostError) -> String {
    format!("cannot {}: {}", error.what, error.source)
}

fn words(error: io::Error) -> String {
    error.to_string()
}

/// A host whose sockets send one segment per packet, and accept a script's write at once.
fn host(script: &Script) -> Result<Host, HostError> {
    let stack = Stack {
        mtu: 1500,
        timestamps: true,
        window: WINDOW,
    };
    let metrics = RouteMetrics {
        initial_window: Some(script.initial_window),
        ..RouteMetrics::default()
    };
    let host = Host::senders(&stack, &[metrics])?;
    host.without_offloads()?;
    let path = "/proc/sys/net/ipv4/tcp_wmem";
    fs::write(path, format!("4096 {BUFFER} {}", i32::MAX)).map_err(|source| HostError {
        what: format!("write {path}"),
        source,
    })?;
    Ok(host)
}

/// Connects the kernel to the peer, performs the script's writes, and answers.
fn converse(script: &Script, host: &Host) -> Result<Vec<Transmission>, String> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).map_err(words)?;
    let cc = script.cc.linux();
    socket
        .set_tcp_congestion(cc.as_bytes())
        .map_err(|error| format!("this kernel has no controller `{cc}`: {error}"))?;
    socket.set_tcp_nodelay(true).map_err(words)?;
    socket.set_nonblocking(true).map_err(words)?;
    let to = SocketAddr::V4(SocketAddrV4::new(packet::receiver(0), 5001));
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        result => result.map_err(words)?,
    }
    let mut line = Line {
        host,
        buffer: vec![0; 4096],
    };
    let opening = line
        .wait(Duration::from_secs(1))?
        .ok_or("the kernel sends no SYN")?;
    let answerer =
        Answerer::new(&opening, script.sack).ok_or("the kernel's first packet is no SYN")?;
    sys::sleep_until(sys::now() + script.handshake_rtt());
    host.device.write(&answerer.open()).map_err(words)?;
    let established = line.wait(Duration::from_secs(1))?;
    established.ok_or("the kernel does not complete the handshake")?;

    let start = sys::now();
    let mut peer = Peer::new(script, start);
    let mut writes = script.writes.iter().peekable();
    loop {
        while let Some(bytes) = line.read()? {
            let now = sys::now();
            let Some(tcp) = Tcp::read(bytes).filter(|tcp| tcp.len > 0) else {
                continue;
            };
            let (seq, stamp) = answerer.place(&tcp);
            if tcp.len != MSS || seq % u64::from(MSS) != 0 {
                return Err(format!("the kernel sends {} bytes from {seq}", tcp.len));
            }
            peer.on_data(now, seq, stamp);
        }
        let now = sys::now();
        if let Some(write) = writes.next_if(|write| start + write.at <= now) {
            let bytes = vec![0; (write.segments * u64::from(MSS)) as usize];
            let taken = socket.send(&bytes).map_err(words)?;
            if taken != bytes.len() {
                return Err(format!("the kernel takes {taken} of {} bytes", bytes.len()));
            }
            continue;
        }
        if let Some(reply) = peer.poll(now) {
            host.device.write(&answerer.reply(&reply)).map_err(words)?;
            continue;
        }
        if peer.is_over(now) {
            return Ok(peer.into_log());
        }
        let next = [
            peer.next_event(),
            writes.peek().map(|write| start + write.at),
        ];
        let next = next.into_iter().flatten().min();
        line.sleep(next.map_or(LOOK, |next| next.since(now).min(LOOK)))?;
    }
}

/// The longest sleep.
const LOOK: Duration = Duration::from_millis(50);

/// The host's packets.
struct Line<'a> {
    host: &'a Host,
    buffer: Vec<u8>,
}

impl Line<'_> {
    /// The next packet of TCP, if there is one.
    fn read(&mut self) -> Result<Option<&[u8]>, String> {
        loop {
            let Some(length) = self.host.device.read(&mut self.buffer).map_err(words)? else {
                return Ok(None);
            };
            let bytes = self.buffer.get(..length).unwrap_or_default();
            if matches!(packet::classify(bytes, true), Kind::Tcp(_)) {
                return Ok(self.buffer.get(..length));
            }
        }
    }

    /// The next packet of TCP, within `time`.
    fn wait(&mut self, time: Duration) -> Result<Option<Tcp>, String> {
        let end = sys::now() + time;
        loop {
            if let Some(bytes) = self.read()? {
                return Ok(Tcp::read(bytes));
            }
            let left = end.since(sys::now());
            if left == Duration::ZERO {
                return Ok(None);
            }
            self.sleep(left)?;
        }
    }

    /// Until the host sends, or `time` is over.
    fn sleep(&self, time: Duration) -> Result<(), String> {
        let fd = self.host.device.as_fd();
        sys::poll([PollFd::from_borrowed_fd(fd, PollFlags::IN)], time).map_err(words)?;
        Ok(())
    }
}
