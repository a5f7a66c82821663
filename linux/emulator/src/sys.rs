//! System calls: rustix's, with the names and types used here, and the few that it lacks.
//!
//! This is the only module with `unsafe`. Every such call passes memory that lives as long as the
//! call, with its true length, and file descriptors that their owner lends for it.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use paceline_units::{Duration, Instant};
use rustix::event::{PollFd, Timespec};
use rustix::fs::MemfdFlags;
use rustix::mm::MlockAllFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use rustix::thread::{ClockId, UnshareFlags};

fn check(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Forks: returns the new process, or none in the child, which has one thread. The child may
/// allocate and start threads (the C library resets its own locks), but must not touch locks that
/// other threads of its parent may have held.
pub fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: no argument; the caller keeps to the rules above.
    Ok(Pid::from_raw(check(unsafe { libc::fork() })?))
}

/// Ends this process at once, without any cleanup.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

/// This process is killed when the thread that created it ends.
pub fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(
        Signal::KILL,
    ))?)
}

/// Leaves Ctrl-C to the parent, and ends when asked to.
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

/// Leaves namespaces for new ones.
pub fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    // SAFETY: file descriptors stay shared.
    Ok(unsafe { rustix::thread::unshare_unsafe(namespaces - UnshareFlags::FILES) }?)
}

/// Turns `file`, an open `/dev/net/tun`, into the device `name`: IP packets without a header.
pub fn attach_tun(file: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        },
    };
    let text = request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
    for (to, from) in text.zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: TUNSETIFF reads and writes one `ifreq`.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) }).map(drop)
}

/// A file of zeros in memory.
pub fn zeros(len: usize) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("zeros", MemfdFlags::CLOEXEC)?);
    file.write_all(&vec![0; len])?;
    Ok(file)
}

/// Limits the window that a TCP socket announces to this number of bytes.
pub fn clamp_window(socket: BorrowedFd<'_>, bytes: c_int) -> io::Result<()> {
    let (fd, value) = (socket.as_raw_fd(), (&raw const bytes).cast());
    let length = size_of_val(&bytes) as libc::socklen_t;
    // SAFETY: one number of its own length.
    check(unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, value, length) })
        .map(drop)
}

/// Reads an option of TCP as bytes: as many as the kernel has and `buffer` can take.
pub fn tcp_option<'b>(
    socket: BorrowedFd<'_>,
    name: c_int,
    buffer: &'b mut [u8],
) -> io::Result<&'b [u8]> {
    let (fd, value) = (socket.as_raw_fd(), buffer.as_mut_ptr().cast());
    let mut length = libc::socklen_t::try_from(buffer.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the kernel writes no more than `length` bytes and returns the number.
    check(unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, name, value, &mut length) })?;
    Ok(buffer.get(..length as usize).unwrap_or_default())
}

/// Waits until one of the descriptors is ready, or for `timeout`; returns which are. Signals may
/// end it early.
pub fn poll<const N: usize>(mut fds: [PollFd<'_>; N], timeout: Duration) -> io::Result<[bool; N]> {
    match rustix::event::poll(&mut fds, Some(&timespec(timeout))) {
        Err(error) if error != rustix::io::Errno::INTR => Err(error.into()),
        Err(_) => Ok([false; N]),
        Ok(_) => Ok(fds.map(|fd| !fd.revents().is_empty())),
    }
}

fn timespec(time: Duration) -> Timespec {
    let nanos = time.as_nanos();
    Timespec {
        tv_sec: (nanos / Duration::NANOS_PER_SEC).cast_signed(),
        tv_nsec: (nanos % Duration::NANOS_PER_SEC) as _,
    }
}

fn read_clock(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * Duration::NANOS_PER_SEC + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The monotonic clock.
pub fn now() -> Instant {
    Instant::from_nanos(read_clock(ClockId::Monotonic))
}

/// CPU time that this thread has used.
pub fn thread_cpu() -> Duration {
    Duration::from_nanos(read_clock(ClockId::ThreadCPUTime))
}

/// CPU time that this process has used.
pub fn process_cpu() -> Duration {
    Duration::from_nanos(read_clock(ClockId::ProcessCPUTime))
}

/// Sleeps until `time` of [`now`]'s clock, or until a signal.
pub fn sleep_until(time: Instant) {
    let time = timespec(time.since(Instant::ZERO));
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &time);
}

/// Makes this thread's timers exact.
pub fn no_timer_slack() {
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Schedules this thread, and those that it starts, first come first served before all normal ones.
pub fn real_time(priority: c_int) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the parameters outlive the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) }).map(drop)
}

/// Locks memory that is used from now on, whatever privileges are dropped later.
pub fn lock_memory() -> io::Result<()> {
    // Under a limit, locking future memory would fail, including that of new threads.
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    rustix::process::setrlimit(Resource::Memlock, unlimited)?;
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    Ok(rustix::mm::mlockall(flags)?)
}

/// Drops the priority of the path's process, so that its children run at normal priority.
pub fn behave() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters outlive the call.
    let _ = check(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &parameters) });
    let _ = rustix::process::setpriority_process(None, 0);
    // 50 us, the kernel's own.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(50_000));
}

/// Whether this process's group is the terminal's foreground group, if there is a terminal.
pub fn in_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    let group = terminal.and_then(|terminal| Ok(rustix::termios::tcgetpgrp(terminal)?));
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Makes this process's group the terminal's foreground group. A process that reads or changes a
/// terminal of another group is stopped.
pub fn take_terminal() -> io::Result<()> {
    let terminal = File::open("/dev/tty")?;
    // SAFETY: the action runs no code of ours.
    let before = unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
    let taken = rustix::termios::tcsetpgrp(&terminal, rustix::process::getpgrp());
    // SAFETY: it is the previous action.
    unsafe { libc::signal(libc::SIGTTOU, before) };
    Ok(taken?)
}

/// Starts a command in a network namespace, with every signal as for a shell's child; it is killed
/// when this thread ends. A `foreground` command is a process group that has the terminal.
pub fn spawn_in(
    command: &mut Command,
    host: &File,
    foreground: bool,
) -> io::Result<std::process::Child> {
    let host = host.try_clone()?;
    let prepare = move || {
        if foreground {
            rustix::process::setpgid(None, None)?;
            take_terminal()?;
        }
        for signal in 1..32 {
            // SAFETY: the action is a constant that runs no code of ours; signals that have none refuse it.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        die_with_parent()?;
        enter(&host)
    };
    // SAFETY: it makes system calls and nothing else.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Moves this thread into a network namespace.
pub fn enter(host: &File) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(
        host.as_fd(),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )?)
}

fn path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn mount_with(
    from: &CString,
    at: &Path,
    kind: &str,
    flags: libc::c_ulong,
    data: &str,
) -> io::Result<()> {
    let (at, kind, data) = (path(at)?, CString::new(kind)?, CString::new(data)?);
    // SAFETY: all texts outlive the call and end in zero.
    check(unsafe {
        libc::mount(
            from.as_ptr(),
            at.as_ptr(),
            kind.as_ptr(),
            flags,
            data.as_ptr().cast(),
        )
    })
    .map(drop)
}

/// From now on mounts are visible in this namespace only.
pub fn private_mounts() -> io::Result<()> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    mount_with(&CString::new("none")?, Path::new("/"), "", flags, "")
}

/// Mounts a file system without a device.
pub fn mount(name: &str, at: &Path, kind: &str, data: &str) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount_with(&CString::new(name)?, at, kind, flags, data)
}

/// Mounts a file over another.
pub fn bind(file: &Path, over: &Path) -> io::Result<()> {
    mount_with(&path(file)?, over, "", libc::MS_BIND, "")
}

/// Unmounts.
pub fn unmount(at: &Path) -> io::Result<()> {
    let at = path(at)?;
    // SAFETY: the text outlives the call and ends in zero.
    check(unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) }).map(drop)
}
