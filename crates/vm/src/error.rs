//! What is missing, and what broke.

use paceline_emulator::Unavailable;

/// Why a machine failed.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// Something is missing.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// Reading or writing failed.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// QEMU or the guest failed.
    #[error("{0}")]
    Machine(String),
}

impl Failed {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |error| Self::Io(what, error)
    }
}
