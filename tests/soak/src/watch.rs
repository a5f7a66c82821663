//! A watchdog for work that may never end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The current seed of each thread, and its start time.
#[derive(Debug, Default)]
pub struct Watch {
    at: Mutex<BTreeMap<usize, Option<(u64, Instant)>>>,
}

impl Watch {
    /// Watches threads of these numbers, which have not started yet.
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

    /// Waits until all threads have ended. If one takes longer than this for a seed, names the seed
    /// and ends the process: nothing else can end a thread that does not return.
    pub fn guard(&self, longest: Duration) {
        while !self.lock().is_empty() {
            if let Some(seed) = self.beyond(longest) {
                eprintln!("seed {seed}: does not end; --seed {seed} --count 1 repeats it");
                std::process::exit(1);
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The seed on which a thread has spent more than this time.
    fn beyond(&self, longest: Duration) -> Option<u64> {
        let at = self.lock();
        let beyond = at
            .values()
            .flatten()
            .find(|(_, since)| since.elapsed() > longest);
        beyond.map(|(seed, _)| *seed)
    }

    /// A thread that panics does not affect the state of the others.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Option<(u64, Instant)>>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watched thread, until this is dropped.
#[derive(Debug)]
pub struct Watched<'w> {
    watch: &'w Watch,
    number: usize,
}

impl Watched<'_> {
    /// Starts on the scenario of a seed.
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
