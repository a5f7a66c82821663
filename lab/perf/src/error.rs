//! Why a test, or a server, cannot continue.

use std::fmt;
use std::io;

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// Not a token, or not the server's.
    Token,
    /// An address that cannot be used.
    Address,
    /// A controller that does not exist or cannot run.
    Controller,
    /// More than the server allows.
    Limit,
    /// The server has another client.
    Busy,
    /// The other side sends nothing.
    Vanished,
    /// The other side ended it, or violates the protocol.
    Peer,
    /// A system call failed.
    System,
    /// It was asked to stop.
    Stopped,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the request was wrong, as opposed to a failure while running.
    pub fn is_input(self) -> bool {
        matches!(
            self,
            Self::Token | Self::Address | Self::Controller | Self::Limit
        )
    }

    /// The error code with which a server closes a connection for this reason; 0 is unspecified.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Token => 1,
            Self::Busy => 2,
            Self::Limit => 3,
            Self::Controller => 4,
            Self::Peer => 5,
            Self::Address | Self::Vanished | Self::System | Self::Stopped => 0,
        }
    }

    /// The kind that a server's `code` means.
    pub(crate) fn of_code(code: u64) -> Self {
        let all = [Self::Token, Self::Busy, Self::Limit, Self::Controller];
        let named = all.into_iter().find(|kind| u64::from(kind.code()) == code);
        named.unwrap_or(Self::Peer)
    }
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Its kind.
    pub kind: Kind,
    /// What is wrong, for people.
    pub message: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::new(Kind::System, format!("the socket failed: {error}"))
    }
}

/// At most `most` characters of a message of the other side, without any that control a terminal.
pub(crate) fn printable(text: &str, most: usize) -> String {
    let shown = text.chars().filter(|c| !c.is_control());
    shown.take(most).collect()
}
