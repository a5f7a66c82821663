//! What can be wrong with a file of others.

use std::io;

/// Why a file is not read as a record.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The system does not give it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file starts like none of the formats that can be read.
    #[error("it is no capture, qlog or iperf3 output that is known")]
    Unknown,
    /// It is not what its format asks for.
    #[error("{what}")]
    Damaged {
        /// What is wrong, and where.
        what: String,
    },
    /// It says nothing that a record could hold.
    #[error("{what}")]
    Empty {
        /// What it lacks.
        what: String,
    },
    /// Whoever asked no longer waits.
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
