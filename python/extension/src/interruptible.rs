//! Long-running work that a signal can interrupt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// The interval at which signals are checked.
pub const PERIOD: Duration = Duration::from_millis(50);

/// Runs work on a separate thread while Python checks for signals. An exception from one of them is
/// returned at once: the work is told that nobody waits for it, and ends in parallel with whatever
/// comes next.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mpsc::sync_channel(1);
    let worker = {
        let stop = Arc::clone(&stop);
        let work = move || drop(sender.send(work(&stop)));
        thread::Builder::new().spawn(work)?
    };
    // The waiting thread owns its end of the channel.
    py.detach(move || {
        loop {
            match receiver.recv_timeout(PERIOD) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => {
                    let signals = Python::attach(|py| py.check_signals());
                    signals.inspect_err(|_| stop.store(true, Relaxed))?;
                }
                Err(RecvTimeoutError::Disconnected) => match worker.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => unreachable!("it has sent what it has done"),
                },
            }
        }
    })
}
