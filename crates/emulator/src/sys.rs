//! System calls that the standard library has not, each behind a safe function.
//!
//! This is the only module with `unsafe` in it. Every call hands over memory that lives as long as
//! the call, with its true length, and file descriptors that their owner lends for it.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_ulong, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use paceline_units::{Duration, Instant};

fn check(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Which side of a fork this is.
pub enum Fork {
    /// The process that asked; the other one's number.
    Parent(i32),
    /// The new process, with one thread.
    Child,
}

/// Forks. The child may allocate and start threads (the C library makes its own locks anew), but
/// must not touch what other threads of its parent may have held.
pub fn fork() -> io::Result<Fork> {
    // SAFETY: no argument; the caller keeps to what is said above.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Ends this process at once, without any clearing up.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

/// Kills a child that has not been waited for.
pub fn kill(pid: i32) {
    // SAFETY: plain numbers. The child has not been reaped, so that the number is still its.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Waits for a child to end; its status as `waitpid` gives it.
pub fn wait(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        match check(unsafe { libc::waitpid(pid, &mut status, 0) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(|_| status),
        }
    }
}

/// The parent's process number.
pub fn parent() -> i32 {
    // SAFETY: cannot fail.
    unsafe { libc::getppid() }
}

/// This process dies when the thread that made it ends.
pub fn die_with_parent() -> io::Result<()> {
    let signal = libc::SIGKILL as c_ulong;
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) }).map(drop)
}

/// Leaves Ctrl-C to the parent, and ends upon a request to end.
pub fn reset_signals() {
    for (signal, action) in [
        (libc::SIGINT, libc::SIG_IGN),
        (libc::SIGPIPE, libc::SIG_IGN),
        (libc::SIGTERM, libc::SIG_DFL),
    ] {
        // SAFETY: both actions are constants that run no code of ours.
        unsafe { libc::signal(signal, action) };
    }
}

/// Leaves namespaces for new ones, as `CLONE_NEW...` flags.
pub fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: plain numbers; file descriptors and memory stay shared.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Enters a network namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a descriptor that is lent.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// The effective user and group.
pub fn user_and_group() -> (u32, u32) {
    // SAFETY: cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Makes `file`, an open `/dev/net/tun`, the device `name`: IP packets without a header.
pub fn attach_tun(file: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: all zeros is a value of this plain struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(15)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) }).map(drop)
}

/// A device's number in the network namespace that the thread is in.
pub fn device_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: a text with its end, which outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// A socket for messages to the kernel's routing.
pub fn route_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: a new descriptor, owned from here on.
    unsafe {
        let fd = check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sends a whole message.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer's own length.
    check_len(unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
        )
    })
}

/// A file of zeros in memory.
pub fn zeros(len: usize) -> io::Result<File> {
    // SAFETY: a constant name that ends in a zero.
    let fd = check(unsafe { libc::memfd_create(c"zeros".as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: new, and nobody else's.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.write_all(&vec![0; len])?;
    Ok(file)
}

/// Sends the beginning of a file that is in memory. The socket takes its pages and copies nothing.
pub fn send_file(socket: BorrowedFd<'_>, file: &File, len: usize) -> io::Result<usize> {
    let mut offset = 0;
    // SAFETY: two descriptors that are lent, and a number that outlives the call.
    check_len(unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &mut offset, len) })
}

/// Receives into `buffer`.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer's own length.
    check_len(unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
        )
    })
}

/// Takes up to `most` bytes from a TCP socket and drops them uncopied; 0 at the end of the stream.
pub fn discard(socket: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC, TCP writes nothing to the buffer (tcp(7)).
    check_len(unsafe {
        libc::recv(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            most,
            libc::MSG_TRUNC | libc::MSG_DONTWAIT,
        )
    })
}

/// Sets a socket option that is a number.
pub fn set_option(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    let pointer: *const c_int = &value;
    // SAFETY: one number of its own length.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            pointer.cast::<c_void>(),
            size_of_val(&value) as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Reads an option of TCP as bytes: as many as the kernel has and `buffer` takes.
pub fn tcp_option<'b>(
    socket: BorrowedFd<'_>,
    name: c_int,
    buffer: &'b mut [u8],
) -> io::Result<&'b [u8]> {
    let mut length = libc::socklen_t::try_from(buffer.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the kernel writes no more than `length` bytes and says how many.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            buffer.as_mut_ptr().cast(),
            &mut length,
        )
    })?;
    Ok(buffer.get(..length as usize).unwrap_or_default())
}

/// What to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Something to read.
    Read,
    /// Room to write.
    Write,
}

/// Waits until one of the descriptors is ready, or for `timeout` (for ever if none); which are.
/// Signals may end it early.
pub fn poll<const N: usize>(
    what: [(BorrowedFd<'_>, Ready); N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut fds = what.map(|(fd, ready)| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: match ready {
            Ready::Read => libc::POLLIN,
            Ready::Write => libc::POLLOUT,
        },
        revents: 0,
    });
    let timeout = timeout.map(timespec);
    let pointer = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: N entries; the time outlives the call; no signal mask.
    let result = unsafe { libc::ppoll(fds.as_mut_ptr(), N as _, pointer, std::ptr::null()) };
    match check(result) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Err(_) => Ok([false; N]),
        Ok(_) => Ok(fds.map(|fd| fd.revents != 0)),
    }
}

fn timespec(time: Duration) -> libc::timespec {
    let nanos = time.as_nanos();
    libc::timespec {
        tv_sec: (nanos / Duration::NANOS_PER_SEC) as libc::time_t,
        tv_nsec: (nanos % Duration::NANOS_PER_SEC) as libc::c_long,
    }
}

/// The monotonic clock.
pub fn now() -> Instant {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant::from_nanos(seconds * Duration::NANOS_PER_SEC + nanos)
}

/// Sleeps until `time` of [`now`]'s clock, or until a signal.
pub fn sleep_until(time: Instant) {
    let time = timespec(time.since(Instant::ZERO));
    // SAFETY: `time` outlives the call; what is left is not asked for.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &time,
            std::ptr::null_mut(),
        )
    };
}

/// Makes this thread's timers exact.
pub fn no_timer_slack() {
    let slack: c_ulong = 1;
    // SAFETY: plain numbers; cannot fail.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack) };
}

/// Makes this thread, and those that it starts, first come first served before all normal ones.
pub fn real_time(priority: c_int) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the parameters outlive the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) }).map(drop)
}

/// Puts this thread, and those that it starts, before other normal ones.
pub fn nice(value: c_int) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) }).map(drop)
}

/// Keeps in memory what is used from now on, whatever the privileges of later.
pub fn lock_memory() -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // Under a limit, what is locked in future would be refused, new threads among it.
    // SAFETY: the limit outlives the call; plain numbers.
    unsafe {
        check(libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit))?;
        check(libc::mlockall(flags)).map(drop)
    }
}

/// CPU time that this thread has used.
pub fn thread_cpu() -> Duration {
    cpu(libc::RUSAGE_THREAD)
}

/// CPU time that this process has used.
pub fn process_cpu() -> Duration {
    cpu(libc::RUSAGE_SELF)
}

fn cpu(whose: c_int) -> Duration {
    // SAFETY: all zeros is a value of this plain struct, which outlives the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(whose, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .into_iter()
        .fold(Duration::ZERO, |sum, time| {
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            let micros = u64::try_from(time.tv_usec).unwrap_or(0);
            sum + Duration::from_secs(seconds) + Duration::from_micros(micros)
        })
}

/// Forgets a connection: its peer is told by a reset.
pub fn disconnect(socket: BorrowedFd<'_>) {
    let nowhere = libc::sockaddr {
        sa_family: libc::AF_UNSPEC as libc::sa_family_t,
        sa_data: [0; 14],
    };
    // SAFETY: an address of its own length. A failure leaves a socket that the process's end closes.
    unsafe {
        libc::connect(
            socket.as_raw_fd(),
            &nowhere,
            size_of::<libc::sockaddr>() as libc::socklen_t,
        )
    };
}
