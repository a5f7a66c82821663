//! The isolated process: two hosts, the path between them, and the threads that use them.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed};

use paceline_experiment::{Plan, Unbalanced, seed_of};
use paceline_tcp::packet::PROBE;
use paceline_tcp::{Flow, Observations, settings};
use paceline_units::{Duration, Instant};
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock::Clock;
use crate::ends::Stack;
use crate::gate::Gate;
use crate::histogram::Times;
use crate::host::{self, Connection, Log, Shared};
use crate::kernel;
use crate::message::{self, Measured, Message, Outcome};
use crate::namespace::{self, Host, HostError};
use crate::network::Network;
use crate::place::{Place, SERVER};
use crate::programs::{self, Programs};
use crate::sockets::{self, SocketPoller};
use crate::sys;

/// Before everything less urgent on the machine, but after the kernel's own needs.
const PRIORITY: i32 = 50;
/// The priority of the hosts' programs: only the path comes before them.
const HOST_PRIORITY: i32 = 10;
/// All threads before other normal ones.
const NICE: i32 = -19;
/// Time from the last preparation to the start.
const LEAD: Duration = Duration::from_millis(50);
/// Time between two probes.
const PROBES: Duration = Duration::from_millis(5);
/// Index of the random stream of the link from client to server.
const UP: u64 = u64::MAX;
/// Exit status of a client that was still running at the end, as of timeout(1).
const TIMED_OUT: i32 = 124;
/// Time between two progress messages.
const PROGRESS: Duration = Duration::from_millis(100);

/// Why a run ended early.
enum Trouble {
    Host(HostError),
    Unbalanced(Unbalanced),
    Io(&'static str, io::Error),
}

impl From<HostError> for Trouble {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<Unbalanced> for Trouble {
    fn from(unbalanced: Unbalanced) -> Self {
        Self::Unbalanced(unbalanced)
    }
}

fn io(what: &'static str) -> impl FnOnce(io::Error) -> Trouble {
    move |error| Trouble::Io(what, error)
}

/// Runs a scenario and reports to `parent`; `stacks` make the ends of QUIC flows. If `parent` is
/// gone, this process ends, too. With programs it ends when their client does.
pub fn main(
    plan: &Plan<'_>,
    stacks: &[Option<Stack>],
    programs: Option<&Programs>,
    mut parent: UnixStream,
    pid: u32,
) {
    let last = match live(plan, stacks, programs, &parent, pid) {
        Ok(outcome) => Message::Outcome(Box::new(outcome)),
        Err(Trouble::Host(HostError { what, source })) => Message::Unavailable {
            hint: hint(&what, &source),
            what: format!("cannot {what}: {source}"),
        },
        Err(Trouble::Unbalanced(error)) => Message::Failed(error.to_string()),
        Err(Trouble::Io(what, error)) => Message::Failed(format!("{what}: {error}")),
    };
    // A parent that no longer listens needs no answer.
    let _ = message::write(&mut parent, &last);
}

/// A hint for a refusal.
fn hint(what: &str, error: &io::Error) -> Option<String> {
    let hint = match (what, error.raw_os_error()) {
        (what, Some(libc::ENOENT)) if what.contains("/dev/net/tun") => {
            "sudo modprobe tun (in a container: --device /dev/net/tun)"
        }
        (what, _) if what.contains("/dev/net/tun") => "sudo chmod 666 /dev/net/tun",
        (what, _) if what.contains("namespace") => {
            "sudo sysctl user.max_user_namespaces=10000 kernel.apparmor_restrict_unprivileged_userns=0, or run it as root"
        }
        (what, _) if what.contains("/proc/sys") => {
            "mount /proc writable, as it is outside containers"
        }
        _ => "`paceline doctor` says what is missing",
    };
    Some(hint.to_owned())
}

/// The priorities and limits that the scheduler grants.
struct Grants {
    real_time: bool,
    locked: bool,
}

/// Asks for everything that keeps the run on time; continues without the refused parts. This happens
/// before the process exchanges its privileges for those of a namespace, which do not include this.
fn hurry() -> Grants {
    sys::no_timer_slack();
    // For systems where real-time priority is refused.
    let _ = rustix::process::setpriority_process(None, NICE);
    Grants {
        real_time: sys::real_time(PRIORITY).is_ok(),
        locked: sys::lock_memory().is_ok(),
    }
}

/// The scheduling that a thread of a host's program asks for.
fn relax() {
    sys::no_timer_slack();
    // If delayed while it holds a socket's lock, it would delay that socket's ACKs.
    let _ = sys::real_time(HOST_PRIORITY);
}

/// Leaves the parent's namespaces, and raises its priority as far as the machine allows; returns
/// whether a user namespace was used.
fn isolate(parent: u32) -> Result<(Grants, bool), Trouble> {
    let tie = || sys::die_with_parent().map_err(io("tie this process to its parent"));
    tie()?;
    sys::reset_signals();
    let grants = hurry();
    let user_namespace = namespace::isolate()?;
    // New credentials may have removed the parent-death signal (prctl(2)).
    tie()?;
    if parent_id() != parent {
        return Err(Trouble::Io(
            "the parent has gone",
            io::ErrorKind::BrokenPipe.into(),
        ));
    }
    Ok((grants, user_namespace))
}

fn live(
    plan: &Plan<'_>,
    stacks: &[Option<Stack>],
    programs: Option<&Programs>,
    parent: &UnixStream,
    pid: u32,
) -> Result<Outcome, Trouble> {
    let mut stack = settings::stack(plan.scenario);
    let mut gate = None;
    if let Some(programs) = programs {
        // They have the same as outside.
        stack.window = stack.window.max(kernel::largest_window());
        if programs.server.is_none() {
            gate = Gate::open(&stack)?;
        }
    }
    let place = gate.as_ref().map_or(Place::OUTERMOST, |gate| gate.place);
    let (grants, user_namespace) = isolate(pid)?;
    let flows = plan.flows.iter();
    let metrics: Vec<_> = flows.map(|flow| settings::metrics(&flow.group)).collect();
    let senders = Host::senders(&stack, &metrics)?;
    let receivers = Host::receivers(&stack, metrics.iter().any(|flow| flow.ecn))?;
    let back = probe_socket(PROBE).map_err(io("make a probe"))?;
    let mut listeners = Vec::new();
    for ((number, flow), stack) in (0..).zip(&plan.flows).zip(stacks) {
        let listener = host::listen(number, &flow.group, stack.as_ref());
        listeners.push(listener.map_err(io("make a receiver"))?);
    }
    let (mut keeper, mut poller) = (None, None);
    if let Some(programs) = programs {
        senders.give(SERVER, &place.networks())?;
        receivers.give(place.client(), &[(SERVER, 32)])?;
        poller = SocketPoller::new(&senders, &receivers)?;
        // Before there are threads: threads cannot enter another process namespace.
        let hosts = [senders.namespace(), receivers.namespace()];
        keeper = Some(programs::start(programs, place, hosts).map_err(io("start programs"))?);
    }
    senders.enter()?;
    let there = probe_socket(Ipv4Addr::UNSPECIFIED).map_err(io("make a probe"))?;
    let mut connections = Vec::new();
    for ((number, listener), stack) in (0..).zip(listeners).zip(stacks) {
        let connection = Connection::new(plan, number, listener, stack.as_ref());
        connections.push(connection.map_err(io("make a sender"))?);
    }

    let devices = (&senders.device, &receivers.device);
    let clock = Clock::new(sys::now() + LEAD);
    let shared = Shared {
        clock: &clock,
        end: Instant::ZERO + plan.info.duration,
        connections: &connections,
        log: Mutex::new(Log::default()),
        stop: AtomicBool::new(false),
    };
    let mut network = Network::new(plan, devices, &shared);
    if let Some(programs) = programs {
        // Its own random numbers, so that the two directions differ.
        let seed = seed_of(plan.seed, UP);
        let other = match &programs.up {
            Some(up) => Plan::resolve(up, seed, &plan.info.backend).ok(),
            None => None,
        };
        let other = other.unwrap_or_else(|| Plan {
            seed,
            ..plan.clone()
        });
        if let Some(up) = other.build_links().into_iter().next() {
            let gate = gate.as_ref().map(|gate| &gate.device);
            network = network.with_programs(up, place, gate);
        }
    }
    let (exit, over) = (AtomicI32::new(0), AtomicBool::new(false));
    let (passed, offered) = (AtomicU64::new(0), AtomicU64::new(0));
    let interval = plan.info.sample_interval;
    let (begin, machine) = (sys::now(), machine_cpu());
    let polling = &mut poller;
    let (mut measured, path, code) = std::thread::scope(|scope| -> Result<_, Trouble> {
        let shared = &shared;
        // However this ends, the threads end, too.
        let _stop = Stop(&shared.stop);
        for connection in &connections {
            spawn(scope, move || shared.send(connection))?;
        }
        spawn(scope, || shared.probe(&there, &back, PROBES))?;
        spawn(scope, || report(shared, parent, &passed, &offered))?;
        let watcher = spawn(scope, move || shared.watch(interval, polling))?;
        // Those still running at the end are ended by their keeper.
        let mut kept = None;
        if let Some((keeper, mut ending)) = keeper {
            kept = Some(keeper);
            let (exit, over) = (&exit, &over);
            spawn(scope, move || {
                exit.store(programs::ended(&mut ending), Relaxed);
                over.store(true, Relaxed);
            })?;
        }

        let path = network.run(|now, packets| {
            passed.store(now.as_nanos(), Relaxed);
            offered.store(packets, Relaxed);
            over.load(Relaxed)
        });
        let code = match over.load(Relaxed) {
            true => exit.load(Relaxed),
            false => TIMED_OUT,
        };
        drop(kept);
        if programs.is_some() {
            shared.stop.store(true, Relaxed);
        }
        let own = sys::thread_cpu();
        let sampling = match path.is_ok() {
            true => watcher.join().unwrap_or_default(),
            false => Times::default(),
        };
        let all = sys::process_cpu();
        let measured = Measured {
            sampling,
            emulator_cpu: own.as_nanos(),
            hosts_cpu: (all - own).as_nanos(),
            wall: sys::now().since(begin).as_nanos(),
            ..Measured::default()
        };
        Ok((measured, path, code))
    })?;
    let ended = path.map_err(io("run the path"))?;
    let (mut talks, mut rows) = network.talks();
    let states = poller.map(SocketPoller::states).unwrap_or_default();
    let socket_events = sockets::merge(states, &mut rows, &mut talks, interval);
    network.audit()?;
    measured.machine_cpu = machine_cpu().saturating_sub(machine);
    measured.cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    measured.device_drops = senders.drops() + receivers.drops();
    let tlp_count = senders.loss_probes();
    measured.real_time = grants.real_time;
    measured.locked = grants.locked;
    measured.user_namespace = user_namespace;
    measured.rate = network.rate_error();
    let path_log = network.log;
    measured.lateness = path_log.lateness.times();
    measured.ingest = path_log.ingest.times();
    measured.answers = path_log.answers.times();
    measured.stalls = path_log.stalls.times();
    measured.stalled = path_log.stalled.as_nanos();
    let log = shared.log.into_inner();
    let log = log.unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut samples = log.samples;
    if programs.is_some() {
        samples.extend(rows);
        samples.sort_by_key(|sample| sample.row.t_ns);
    }
    let mut events = path_log.events;
    events.extend(log.events);
    events.extend(socket_events);
    events.sort_by_key(|event| event.t_ns);
    Ok(Outcome {
        observations: Observations {
            samples,
            queues: path_log.queues,
            events,
            packets: path_log.packets,
            flows: connections
                .iter()
                .enumerate()
                .map(|(flow, connection)| Flow {
                    acks: path_log.acks.get(flow).copied(),
                    ..connection.totals()
                })
                .collect(),
            packets_offered: path_log.offered,
            tlp_count,
        },
        measured,
        ended,
        talks,
        exit: programs.map(|_| code),
        qlogs: (0..)
            .zip(stacks)
            .filter_map(|(flow, stack)| Some((flow, stack.as_ref()?.qlog()?.take())))
            .collect(),
    })
}

/// Ends the threads of a run when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Starts a thread of the hosts.
fn spawn<'s, T: Send + 's>(
    scope: &'s std::thread::Scope<'s, '_>,
    work: impl FnOnce() -> T + Send + 's,
) -> Result<std::thread::ScopedJoinHandle<'s, T>, Trouble> {
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn_scoped(scope, || {
            relax();
            work()
        })
        .map_err(io("start a thread"))
}

/// Reports the progress of the run to the parent.
fn report(shared: &Shared<'_>, mut parent: &UnixStream, passed: &AtomicU64, packets: &AtomicU64) {
    let mut next = shared.clock.machine(Instant::ZERO);
    while !shared.stop.load(Relaxed) {
        next += PROGRESS;
        sys::sleep_until(next);
        let progress = Message::Progress {
            passed: passed.load(Relaxed),
            packets: packets.load(Relaxed),
        };
        if message::write(&mut parent, &progress).is_err() {
            // Without a parent there is nothing to do; the kernel ends this process.
            return;
        }
    }
}

fn probe_socket(ip: Ipv4Addr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.bind(&std::net::SocketAddr::V4(SocketAddrV4::new(ip, 0)).into())?;
    Ok(socket)
}

/// CPU time of all processes so far, in nanoseconds: /proc/stat, in ticks of 10 ms.
fn machine_cpu() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = first.split_whitespace().flat_map(str::parse).collect();
    // user, nice, system, then idle and iowait, then irq and softirq.
    let busy = ticks.iter().take(3).chain(ticks.iter().skip(5).take(2));
    busy.sum::<u64>() * 10_000_000
}
