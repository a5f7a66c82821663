//! What an end is made with.

use paceline_congestion::{Recipe, Signals};
use paceline_units::{Duration, Instant};

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
    /// Whether several datagrams may leave at once, as segmentation offload takes them.
    pub gso: bool,
}

/// What an end tells a controller of ours and does for it, where its adapter's `signals` are these.
pub(crate) const fn paced(signals: Signals) -> Signals {
    Signals {
        pacing: true,
        ..signals
    }
}
