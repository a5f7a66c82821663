//! The configuration of an end.

use paceline_congestion::{Recipe, Signals};
use paceline_units::{Crypto, Duration, Instant};

use crate::qlog::Qlog;

/// The choice of a controller.
#[derive(Clone, Debug)]
pub enum Choice {
    /// One of ours, through an adapter.
    Ours(Recipe),
    /// One of the stack's own, by its name in [`controllers`](crate::controllers).
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

/// The configuration of an end.
#[derive(Clone, Debug)]
pub struct EndConfig {
    /// Whether it is the end that sends: the client.
    pub sends: bool,
    /// The seed of its random draws and identifiers.
    pub seed: u64,
    /// The time at which it begins.
    pub now: Instant,
    /// The maximum UDP payload of a datagram, in bytes: at least 1200 (RFC 9000 section 14).
    pub max_datagram: u16,
    /// The controller.
    pub controller: Choice,
    /// The initial window in full packets, of a controller of ours.
    pub initial_packets: u64,
    /// The receiver's buffer in bytes.
    pub receive_window: u64,
    /// The shortest wait between two steps that its timers may ask for.
    pub timer_slack: Duration,
    /// How packets are protected. The server's certificate is derived from the seed, which both
    /// ends have.
    pub crypto: Crypto,
    /// Whether several datagrams may leave at once, as with segmentation offload.
    pub gso: bool,
    /// How many packets the other end is asked to acknowledge at once, if it is asked.
    pub ack_frequency: Option<u32>,
    /// Where the stack writes its own qlog, if it is to write one. Its times count from the engine's origin.
    pub qlog: Option<Qlog>,
}

/// The initial window of a stack's own controllers: ten datagrams of 1200 bytes, as in both stacks.
/// If datagrams are larger it holds four, where the stacks' own value would not let a handshake
/// through.
pub(crate) fn their_window(max_datagram: u16) -> u64 {
    (4 * u64::from(max_datagram)).max(12_000)
}

/// The signals an end gives a controller of ours and the services it provides, if these are its
/// adapter's `signals`.
pub(crate) const fn paced(signals: Signals) -> Signals {
    Signals {
        pacing: true,
        ..signals
    }
}
