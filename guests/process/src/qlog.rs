//! What a stack says in its qlog only.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is kept of the records.
pub trait Reported: Default + Send {
    /// Takes a record: one event in JSON.
    fn take(&mut self, record: &str);
}

/// Where a stack writes its qlog; clones share what is kept.
#[derive(Default)]
pub struct Log<R>(Arc<Mutex<(Vec<u8>, R)>>);

impl<R> Clone for Log<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Copy> Log<R> {
    /// What was reported last.
    pub fn latest(&self) -> R {
        lock(&self.0).1
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Reported> io::Write for Log<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut shared = lock(&self.0);
        let (record, reported) = &mut *shared;
        record.extend_from_slice(bytes);
        if bytes.ends_with(b"\n") {
            reported.take(&String::from_utf8_lossy(record));
            record.clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The value after a key of a record, as written: `"key":` with its quotation marks.
pub fn value<'a>(record: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = record.split_once(key)?;
    rest.split([',', '}']).next()
}

/// The same, if it is a number.
pub fn number(record: &str, key: &str) -> Option<f64> {
    value(record, key)?.parse().ok()
}
