//! What an end is made with.

use paceline_congestion::{Recipe, Signals};
use paceline_units::{Crypto, Duration, Instant};

use crate::qlog::Qlog;

/// The choice of a controller.
#[derive(Clone, Debug)]
pub enum Choice {
    /// One of ours, through an adapter.
    Ours(Recipe),
    /// One of the stack's own, by the name that it has in [`controllers`](crate::controllers).
    Theirs(&'static str),
}

impl Choice {
    /// The controller, if it is one of ours.
    pub fn ours(&self) -> Option<&Recipe> {
        match self {
            Self::Ours(recipe) => Some(recipe),
            Self::Theirs(_) => None,
        }
    }
}

/// What an end is made with.
#[derive(Clone, Debug)]
pub struct EndConfig {
    /// Whether it is the end that sends: the client.
    pub sends: bool,
    /// The seed of its draws and identifiers.
    pub seed: u64,
    /// The time at which it begins.
    pub now: Instant,
    /// The most bytes of UDP payload in a datagram: at least 1200 (RFC 9000 section 14).
    pub max_datagram: u16,
    /// The controller.
    pub controller: Choice,
    /// The initial window in full packets, of a controller of ours.
    pub initial_packets: u64,
    /// Bytes that the receiver is willing to hold.
    pub receive_window: u64,
    /// The shortest wait between two steps that its timers ask for.
    pub timer_slack: Duration,
    /// How packets are protected. The server's certificate follows from the seed, which both ends have.
    pub crypto: Crypto,
    /// Whether several datagrams may leave at once, as segmentation offload takes them.
    pub gso: bool,
    /// Where the stack writes its own qlog, if it is to write one. Its times count from the engine's origin.
    pub qlog: Option<Qlog>,
}

/// The initial window of a stack's own controllers: ten datagrams of 1200 bytes, as both stacks have it. Of larger ones it
/// holds four, where the stacks' own would not let a handshake through.
pub(crate) fn their_window(max_datagram: u16) -> u64 {
    (4 * u64::from(max_datagram)).max(12_000)
}

/// What an end tells a controller of ours and does for it, where its adapter's `signals` are these.
pub(crate) const fn paced(signals: Signals) -> Signals {
    Signals {
        pacing: true,
        ..signals
    }
}
