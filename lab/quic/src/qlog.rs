//! Where a stack writes its own qlog.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The qlog that a stack writes of a connection, for whoever made its end.
#[derive(Clone, Debug, Default)]
pub struct Qlog(Arc<Mutex<Vec<u8>>>);

impl Qlog {
    /// How many bytes were written.
    pub fn size(&self) -> usize {
        self.bytes().len()
    }

    /// What was written so far.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes())
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Qlog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
