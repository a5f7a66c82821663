//! Programs of the user's at both ends of the path, in a process tree that ends with its first process.
//!
//! A keeper leaves the process namespace, and its child is the first process of a new one: however
//! that ends, the kernel then ends every process in it. It starts both programs, each in its host's
//! network namespace, and waits for the client.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use paceline_scenario::Scenario;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use rustix::thread::UnshareFlags;

use crate::place::{CLIENT_KEY, Place, SERVER, SERVER_KEY};
use crate::process::{self, Child};
use crate::sys;

/// The programs at the ends of the path.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The client and its arguments.
    pub client: Vec<OsString>,
    /// The server, a command for the shell; none if there is none.
    pub server: Option<OsString>,
    /// The flow whose path the client's data takes; none if it takes a path like the server's.
    pub up: Option<Scenario>,
}

/// How long the client waits for the server to listen.
const LISTENS: Duration = Duration::from_secs(5);
/// The time for the server to end after its client has ended and it was asked to end.
const GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

/// Exit status of a client that cannot be run, of one that does not exist, and of a failure of
/// ours: as of env(1).
const REFUSED: i32 = 126;
const MISSING: i32 = 127;
const FAILED: i32 = 125;

/// Starts both; their end is reported through the stream, as four bytes. `hosts` are the namespaces
/// of the server and of the client, which is at `place`. Dropping the child ends all of them.
pub fn start(
    programs: &Programs,
    place: Place,
    hosts: [&File; 2],
) -> io::Result<(Child, UnixStream)> {
    let (server_host, client_host) = (hosts[0].try_clone()?, hosts[1].try_clone()?);
    // Inside, outside groups have no number.
    let foreground = sys::in_foreground();
    process::start(move |theirs| {
        let _ = sys::die_with_parent();
        sys::behave();
        let hosts = [&server_host, &client_host];
        report(theirs, keep(programs, place, hosts, foreground));
    })
}

/// Reports how the client ended, or that it could not run.
fn report(mut theirs: UnixStream, code: io::Result<i32>) {
    let code = code.unwrap_or_else(|error| {
        eprintln!("paceline shell: {error}");
        FAILED
    });
    let _ = theirs.write_all(&code.to_ne_bytes());
}

/// How the client ended, as reported by [`start`]'s stream.
pub fn ended(stream: &mut UnixStream) -> i32 {
    let mut code = [0; 4];
    match stream.read_exact(&mut code) {
        Ok(()) => i32::from_ne_bytes(code),
        Err(_) => FAILED,
    }
}

/// The keeper: starts the first process, and passes its report on.
fn keep(programs: &Programs, place: Place, hosts: [&File; 2], foreground: bool) -> io::Result<i32> {
    sys::unshare(UnshareFlags::NEWPID | UnshareFlags::NEWNS)?;
    let (_first, mut stream) = process::start(|theirs| {
        let _ = sys::die_with_parent();
        report(theirs, first(programs, place, hosts, foreground));
    })?;
    Ok(ended(&mut stream))
}

/// The first process of the namespace.
fn first(
    programs: &Programs,
    place: Place,
    [server_host, client_host]: [&File; 2],
    foreground: bool,
) -> io::Result<i32> {
    // Before anything is mounted: mounts must not reach the machine.
    sys::private_mounts()?;
    // Its own /proc shows only these processes. A container may not allow it; then the old one is
    // used.
    let _ = sys::mount("proc", Path::new("/proc"), "proc", "");
    names(place)?;
    let shared = [
        (SERVER_KEY, SERVER.to_string()),
        (CLIENT_KEY, place.client().to_string()),
    ];
    let server = match &programs.server {
        None => None,
        Some(line) => {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(line).envs(shared.clone());
            command.stdin(Stdio::null()).stdout(io::stderr());
            let server = sys::spawn_in(&mut command, server_host, false)?;
            await_listener(server_host, server.id())?;
            Some(server)
        }
    };
    let (name, arguments) = programs
        .client
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(name);
    command.args(arguments).envs(shared);
    let client = match sys::spawn_in(&mut command, client_host, foreground) {
        Ok(client) => client,
        Err(error) => {
            eprintln!("paceline shell: {}: {error}", Path::new(name).display());
            return Ok(match error.kind() {
                io::ErrorKind::NotFound => MISSING,
                _ => REFUSED,
            });
        }
    };
    let status = reap_until(client.id())?;
    if let Some(server) = server {
        let _ = kill_process(pid(server.id())?, Signal::TERM);
        let end = Instant::now() + GRACE;
        while Instant::now() < end
            && reap(WaitOptions::NOHANG)?.is_some_and(|(one, _)| one != server.id())
        {
            std::thread::sleep(LOOK);
        }
    }
    Ok(status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn pid(number: u32) -> io::Result<Pid> {
    let number = number.cast_signed();
    Pid::from_raw(number).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Waits for any process of the namespace; none if there is none left. Zero matches no process yet.
fn reap(options: WaitOptions) -> io::Result<Option<(u32, ExitStatus)>> {
    loop {
        match wait(options) {
            Ok(Some((pid, status))) => {
                let status = ExitStatus::from_raw(status.as_raw());
                return Ok(Some((pid.as_raw_nonzero().get().cast_unsigned(), status)));
            }
            Ok(None) => return Ok(Some((0, ExitStatus::default()))),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for one process, and for all that end before it.
fn reap_until(wanted: u32) -> io::Result<ExitStatus> {
    loop {
        match reap(WaitOptions::empty())? {
            Some((pid, status)) if pid == wanted => return Ok(status),
            Some(_) => {}
            None => return Err(io::Error::other("the client was lost")),
        }
    }
}

/// Names both ends in /etc/hosts, and configures no name server.
fn names(place: Place) -> io::Result<()> {
    let client = place.client();
    let files = [
        (
            "hosts",
            format!("127.0.0.1 localhost\n{SERVER} server\n{client} client\n"),
        ),
        (
            "resolv.conf",
            "# There is no name server on the path; /etc/hosts names server and client.\n"
                .to_owned(),
        ),
    ];
    // Private files to mount over those; they stay after unmounting.
    let place = Path::new("/mnt");
    sys::mount("tmpfs", place, "tmpfs", "size=64k,mode=755")?;
    for (name, text) in &files {
        let (own, there) = (place.join(name), Path::new("/etc").join(name));
        fs::write(&own, text)?;
        // A missing file is not read either.
        if let Ok(there) = fs::canonicalize(there) {
            sys::bind(&own, &there)?;
        }
    }
    sys::unmount(place)
}

/// Waits until something listens at the server's end, or the server has ended.
fn await_listener(host: &File, server: u32) -> io::Result<()> {
    sys::enter(host)?;
    let end = Instant::now() + LISTENS;
    while Instant::now() < end && !listens() {
        if !Path::new(&format!("/proc/{server}")).exists() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Whether a process of the namespace has a listening socket, or a UDP socket.
fn listens() -> bool {
    const LISTEN: &str = "0A";
    let own = sockets();
    // State and inode of each socket of the network namespace; the path's own probes are among them.
    let any = |table: &str, state: Option<&str>| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        text.lines().skip(1).any(|row| {
            let mut columns = row.split_whitespace().skip(3);
            let (tcp_state, inode) = (columns.next(), columns.nth(5));
            state.is_none_or(|state| tcp_state == Some(state))
                && inode.is_some_and(|inode| own.contains(inode))
        })
    };
    ["tcp", "tcp6"].iter().any(|table| any(table, Some(LISTEN)))
        || ["udp", "udp6"].iter().any(|table| any(table, None))
}

/// The inodes of the sockets of all processes but this one, which has those of the path.
fn sockets() -> HashSet<String> {
    let mut inodes = HashSet::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u32>().ok());
        if number.is_none_or(|number| number == std::process::id()) {
            continue;
        }
        for file in fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let target = fs::read_link(file.path()).unwrap_or_default();
            let inode = target
                .to_str()
                .and_then(|target| target.strip_prefix("socket:[")?.strip_suffix(']'));
            inodes.extend(inode.map(str::to_owned));
        }
    }
    inodes
}
