//! A child process for what must not happen to this one.

use std::io;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::sys;

/// A child process that does not outlive this.
pub struct Child(Pid);

impl Drop for Child {
    fn drop(&mut self) {
        // It has not been waited for, so that the number is still its own.
        let _ = kill_process(self.0, Signal::KILL);
        let _ = retry_on_intr(|| waitpid(Some(self.0), WaitOptions::empty()));
    }
}

/// Held while a process is started: children are started by several threads.
static FORKING: Mutex<()> = Mutex::new(());

/// Starts a process that does `work` with one end of a pair of sockets, and ends; this one keeps the
/// other end.
pub fn start(work: impl FnOnce(UnixStream)) -> io::Result<(Child, UnixStream)> {
    // Another child must not keep this one's end, which would hide its death.
    let alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (ours, theirs) = UnixStream::pair()?;
    match sys::fork()? {
        Some(pid) => {
            drop(theirs);
            drop(alone);
            Ok((Child(pid), ours))
        }
        None => {
            drop(ours);
            // What unwinds must not get back to the code of the parent.
            let done = catch_unwind(AssertUnwindSafe(|| work(theirs)));
            sys::exit_now(i32::from(done.is_err()));
        }
    }
}
