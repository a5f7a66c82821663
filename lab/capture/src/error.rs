//! Errors in files of other programs.

use std::io;

/// Why a file is not read as a record.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The system cannot read it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Its beginning matches none of the supported formats.
    #[error("it is no capture, qlog, iperf3 output or Flent data that is known")]
    Unknown,
    /// It violates its format.
    #[error("{what}")]
    Damaged {
        /// What is wrong, and where.
        what: String,
    },
    /// It contains nothing for a record.
    #[error("{what}")]
    Empty {
        /// What is missing.
        what: String,
    },
    /// The caller no longer waits.
    #[error("stopped")]
    Stopped,
}

impl CaptureError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }

    pub(crate) fn empty(what: impl Into<String>) -> Self {
        Self::Empty { what: what.into() }
    }
}
