//! Work that may not end, watched from beside it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What each thread is at, and since when.
#[derive(Debug, Default)]
pub struct Watch {
    at: Mutex<BTreeMap<usize, Option<(u64, Instant)>>>,
}

impl Watch {
    /// Watches threads of these numbers, which have not begun.
    pub fn new(threads: usize) -> Self {
        let idle = (0..threads).map(|number| (number, None)).collect();
        Self {
            at: Mutex::new(idle),
        }
    }

    /// One of the threads.
    pub fn thread(&self, number: usize) -> Watched<'_> {
        Watched {
            watch: self,
            number,
        }
    }

    /// Waits until all threads have ended. Names a seed at which one has been for longer than this, and ends the process:
    /// nothing else ends a thread that does not return.
    pub fn guard(&self, longest: Duration) {
        while !self.lock().is_empty() {
            if let Some(seed) = self.beyond(longest) {
                eprintln!("seed {seed}: does not end; --seed {seed} --count 1 repeats it");
                std::process::exit(1);
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The seed of a thread that has been at it for longer than this.
    fn beyond(&self, longest: Duration) -> Option<u64> {
        let at = self.lock();
        let beyond = at
            .values()
            .flatten()
            .find(|(_, since)| since.elapsed() > longest);
        beyond.map(|(seed, _)| *seed)
    }

    /// A thread that panics leaves what is true of the others.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Option<(u64, Instant)>>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that is watched, until this is dropped.
#[derive(Debug)]
pub struct Watched<'w> {
    watch: &'w Watch,
    number: usize,
}

impl Watched<'_> {
    /// It is at the scenario of a seed.
    pub fn begin(&self, seed: u64) {
        let now = Some((seed, Instant::now()));
        self.watch.lock().insert(self.number, now);
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.watch.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_named() {
        let watch = Watch::new(2);
        assert_eq!(watch.beyond(Duration::ZERO), None);
        let threads = [watch.thread(0), watch.thread(1)];
        threads[1].begin(42);
        thread::sleep(Duration::from_millis(1));
        assert_eq!(watch.beyond(Duration::ZERO), Some(42));
        assert_eq!(watch.beyond(Duration::MAX), None);
        drop(threads);
        watch.guard(Duration::ZERO);
    }
}
