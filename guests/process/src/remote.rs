//! The engine's side.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time;

use paceline_capi::{EndConfig, OwnStack};
use paceline_endpoint::{Batch, Datagram, Endpoint, Stats, Write};
use paceline_units::Instant;

use crate::wire::{Answer, Fields, Init, Message, Request, VERSION};

/// What a stack in a process of its own says of itself: as [`OwnStack`].
pub trait Guest: Send + 'static {
    /// Its name.
    const NAME: &'static str;
    /// What it is, in a line.
    const SUMMARY: &'static str;
    /// The version of the stack.
    const VERSION: &'static str;
    /// The names of its own controllers, separated by commas.
    const CONTROLLERS: &'static str;
    /// The states of its controllers' state machines: it tells no other.
    const PHASES: &'static [&'static str] = &[];
    /// The names of its controllers' options, and what they do, if it says so.
    const OPTIONS: Option<&'static [(&'static str, &'static str)]> = None;
    /// The executable, in the folder of the library.
    const EXECUTABLE: &'static str;
    /// The CPU time that it may take for one step: far longer than any takes.
    const PATIENCE: time::Duration = time::Duration::from_secs(20);
    /// The real time, for one that waits: no load of the machine makes a step as long.
    const STANDSTILL: time::Duration = time::Duration::from_secs(1200);
}

/// An end in another process.
pub struct Remote<G> {
    child: Child,
    stream: UnixStream,
    /// Keeps the last that the process writes to its standard error, until it ends.
    errors: Option<JoinHandle<Vec<u8>>>,
    /// Requests that have not been sent.
    queue: Message,
    /// The state after the last answer.
    last: Answer,
    /// What is left of what it sends.
    batches: VecDeque<Batch<Vec<u8>>>,
    /// The instant at which it had nothing more to send, with nothing asked of it since.
    idle_at: Option<Instant>,
    guest: PhantomData<G>,
}

/// Bytes of its standard error that are kept, and lines of them that an error shows.
const KEPT: usize = 4096;
const SHOWN: usize = 3;

/// Reads to the end, and returns the last bytes.
fn last_of(mut errors: ChildStderr) -> Vec<u8> {
    let (mut kept, mut some) = (Vec::new(), [0; KEPT]);
    while let Ok(read @ 1..) = errors.read(&mut some) {
        kept.extend_from_slice(&some[..read]);
        kept.drain(..kept.len().saturating_sub(KEPT));
    }
    kept
}

/// Waits until a process answers.
fn wait<G: Guest>(stream: &UnixStream, child: &Child) -> io::Result<()> {
    const PERIOD_MS: i32 = 250;
    // Most answers come at once, and need no clock.
    let mut begun = None;
    let mut readable = libc::pollfd {
        fd: stream.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: it is one descriptor, and open.
    while unsafe { libc::poll(&raw mut readable, 1, PERIOD_MS) } <= 0 {
        let (computed, began) =
            *begun.get_or_insert_with(|| (cpu_time(child), time::Instant::now()));
        let spent = cpu_time(child).saturating_sub(computed);
        if spent > G::PATIENCE || began.elapsed() > G::STANDSTILL {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

/// The CPU time of a process so far, zero once it has ended.
fn cpu_time(child: &Child) -> time::Duration {
    let mut clock: libc::clockid_t = 0;
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: there is room for a clock and a time. The process has not been waited for: its
    // number is no other's.
    let failed = unsafe {
        libc::clock_getcpuclockid(child.id().cast_signed(), &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut at) != 0
    };
    let seconds = at.tv_sec.cast_unsigned();
    match failed {
        true => time::Duration::ZERO,
        false => time::Duration::new(seconds, at.tv_nsec.try_into().unwrap_or_default()),
    }
}

/// The folder of the library that this code is in.
fn folder() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is one of this code's, and there is room for what is known of it.
    let name = unsafe {
        if libc::dladdr(folder as *const libc::c_void, info.as_mut_ptr()) == 0 {
            return None;
        }
        let name = info.assume_init().dli_fname;
        if name.is_null() {
            return None;
        }
        CStr::from_ptr(name).to_bytes()
    };
    let library = PathBuf::from(std::ffi::OsStr::from_bytes(name));
    library.canonicalize().ok()?.parent().map(PathBuf::from)
}

impl<G: Guest> Remote<G> {
    /// Sends what is queued, and takes the answer.
    fn exchange(&mut self) {
        if self.last.failure.is_some() {
            return;
        }
        let mut exchanged = || {
            self.queue.send(&mut self.stream)?;
            wait::<G>(&self.stream, &self.child)?;
            Fields::receive(&mut self.stream)
        };
        let nonsense = |end: &Self| end.failed("its process answers what is no answer".to_owned());
        self.last = match exchanged() {
            Ok(Some(mut fields)) => fields.answer().unwrap_or_else(|| nonsense(self)),
            Ok(None) => self.ended(),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    let seconds = G::PATIENCE.as_secs();
                    let what = format!("its process does not answer within {seconds} s");
                    self.failed(format!("{what} of CPU time"))
                }
                io::ErrorKind::InvalidData => nonsense(self),
                _ => self.ended(),
            },
        };
        if self.last.failure.is_some() {
            // It is of no more use; if it has ended already, this does nothing.
            let _ = self.child.kill();
        }
        let phase = G::PHASES.iter().find(|phase| **phase == self.last.phase);
        self.last.stats.phase = phase.copied().unwrap_or_default();
        self.batches.extend(self.last.batches.drain(..));
    }

    fn failed(&self, why: String) -> Answer {
        Answer {
            failure: Some(why),
            delivered: self.last.delivered,
            stats: self.last.stats,
            ..Answer::default()
        }
    }

    /// The process is gone: how it ended.
    fn ended(&mut self) -> Answer {
        // It has closed its socket, so that it is about to end; what does not is ended.
        let _ = self.child.kill();
        let how = match self.child.wait() {
            Ok(status) => match (status.signal(), status.code()) {
                (Some(libc::SIGABRT), _) => "aborted".into(),
                (Some(libc::SIGKILL), _) => "closed its socket".into(),
                (Some(signal), _) => format!("died of signal {signal}"),
                (_, code) => format!("ended with code {}", code.unwrap_or_default()),
            },
            Err(error) => format!("ended: {error}"),
        };
        let errors = self.errors.take().and_then(|errors| errors.join().ok());
        let errors = String::from_utf8_lossy(&errors.unwrap_or_default()).into_owned();
        let lines: Vec<_> = errors
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = lines[lines.len().saturating_sub(SHOWN)..].join("; ");
        self.failed(match last.is_empty() {
            true => format!("its process {how}"),
            false => format!("its process {how}: {last}"),
        })
    }

    fn ask(&mut self, request: &Request) {
        self.queue.request(request);
        self.idle_at = None;
    }
}

impl<G: Guest> OwnStack for Remote<G> {
    const NAME: &'static str = G::NAME;
    const SUMMARY: &'static str = G::SUMMARY;
    const VERSION: &'static str = G::VERSION;
    const CONTROLLERS: &'static str = G::CONTROLLERS;
    const OPTIONS: Option<&'static [(&'static str, &'static str)]> = G::OPTIONS;

    fn new(config: &EndConfig<'_>, options: &[(&str, &str)]) -> Result<Self, String> {
        let executable = folder()
            .ok_or("the folder of its library is not known")?
            .join(G::EXECUTABLE);
        let start = || {
            let (stream, other) = UnixStream::pair()?;
            stream.set_read_timeout(Some(G::STANDSTILL))?;
            stream.set_write_timeout(Some(G::STANDSTILL))?;
            let child = Command::new(&executable)
                .stdin(Stdio::from(OwnedFd::from(other)))
                .stdout(Stdio::null())
                // A backtrace would hide the reason.
                .env("RUST_BACKTRACE", "0")
                .stderr(Stdio::piped())
                .spawn()?;
            io::Result::Ok((child, stream))
        };
        let (mut child, stream) =
            start().map_err(|error| format!("{}: {error}", executable.display()))?;
        let mut queue = Message::default();
        queue.init(&Init {
            version: VERSION,
            sends: config.sends,
            max_datagram: config.max_datagram,
            seed: config.seed,
            now: config.now,
            controller: config.controller.to_owned(),
            options: options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        });
        let errors = child.stderr.take();
        let errors = errors.map(|errors| thread::spawn(move || last_of(errors)));
        let mut end = Self {
            child,
            stream,
            errors,
            queue,
            last: Answer::default(),
            batches: VecDeque::new(),
            idle_at: None,
            guest: PhantomData,
        };
        end.exchange();
        match end.last.failure.take() {
            Some(why) => Err(why),
            None => Ok(end),
        }
    }
}

impl<G> Drop for Remote<G> {
    fn drop(&mut self) {
        // A guest has nothing to save. It is gone already if these fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<G: Guest> Endpoint for Remote<G> {
    type Payload = Vec<u8>;

    fn receive(&mut self, now: Instant, datagram: Datagram<Vec<u8>>) {
        self.ask(&Request::Receive(now, datagram));
    }

    fn on_timer(&mut self, now: Instant) {
        self.ask(&Request::OnTimer(now));
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Vec<u8>>> {
        if self.batches.is_empty() && self.idle_at != Some(now) {
            self.ask(&Request::Transmit(now));
            self.exchange();
            self.idle_at = (!self.last.more).then_some(now);
        }
        self.batches.pop_front()
    }

    fn next_timer(&mut self) -> Option<Instant> {
        if !self.queue.is_empty() {
            self.exchange();
        }
        self.last.timer
    }

    fn write(&mut self, now: Instant, write: Write) {
        self.ask(&Request::Write(now, write));
    }

    fn delivered(&self) -> u64 {
        self.last.delivered
    }

    fn stats(&self) -> Stats {
        self.last.stats
    }

    fn failure(&self) -> Option<String> {
        self.last.failure.clone()
    }
}
