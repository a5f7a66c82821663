//! A child process for work that must not affect this one.

use std::io::{self, Read, Write};
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
        // It has not been waited for, so its number is still its own.
        let _ = kill_process(self.0, Signal::KILL);
        let _ = retry_on_intr(|| waitpid(Some(self.0), WaitOptions::empty()));
    }
}

/// Locked while a process is started: several threads start children.
static FORKING: Mutex<()> = Mutex::new(());

/// Starts a process that does `work` with one end of a pair of sockets, and ends; this process
/// keeps the other end.
pub fn start(work: impl FnOnce(UnixStream)) -> io::Result<(Child, UnixStream)> {
    // Another child must not inherit this one's end, which would hide its death.
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
            // The child may start others.
            drop(alone);
            // Unwinding must not reach the code of the parent.
            let done = catch_unwind(AssertUnwindSafe(|| work(theirs)));
            sys::exit_now(i32::from(done.is_err()));
        }
    }
}

/// The output of a trial in a separate process, or its error message.
pub fn trial(work: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
    let run = || -> io::Result<String> {
        let (_child, mut ours) = start(|mut theirs| {
            let _ = sys::die_with_parent();
            let output = match work() {
                Ok(text) => format!("+{text}"),
                Err(text) => format!("-{text}"),
            };
            let _ = theirs.write_all(output.as_bytes());
        })?;
        let mut output = String::new();
        ours.read_to_string(&mut output)?;
        Ok(output)
    };
    match run() {
        Ok(output) => match (output.strip_prefix('+'), output.strip_prefix('-')) {
            (Some(good), _) => Ok(good.to_owned()),
            (_, Some(bad)) => Err(bad.to_owned()),
            _ => Err("the trial died".to_owned()),
        },
        Err(error) => Err(error.to_string()),
    }
}
