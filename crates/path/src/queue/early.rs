//! Signals that judge a packet on arrival: the interface of each, and the code they share.

use paceline_units::options::Parameters;
use paceline_units::{Duration, Gain, Instant, Rng, Site};

/// An early signal.
pub(crate) trait Early: Sized {
    /// The options that a scenario may set.
    type Options: Parameters;

    /// The initial state.
    fn new(options: Self::Options, site: &Site, seed: u64) -> Self;

    /// Its decision about an arriving packet.
    fn judge(&mut self, arrival: Arrival) -> Signal;
}

/// An arriving packet, and the queue before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) size: u32,
    /// Waiting behind the packet in transmission.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Time until its transmission begins.
    pub(crate) sojourn: Duration,
    /// How long the link has been idle, in transmission times of this packet; none if it is busy.
    pub(crate) idle: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    None,
    /// Mark it if it can be marked.
    Mark,
    /// Mark it, or drop it if it cannot be.
    MarkOrDrop,
    Drop,
}

pub(super) fn share(gain: Gain) -> f64 {
    f64::from(gain.millionths()) / f64::from(Gain::SCALE)
}

/// Uniform in [0, 1).
pub(super) fn draw(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// How many transmissions of `each` fit between `from` and `to`.
pub(crate) fn transmissions(from: Instant, to: Instant, each: Duration) -> u64 {
    let count = to.since(from).as_nanos().checked_div(each.as_nanos());
    count.unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// This many packets of 1500 bytes in front of a link of 50 Mbit/s.
    pub(crate) fn arrival(packets: u64) -> Arrival {
        Arrival {
            size: 1500,
            bytes: packets * 1500,
            packets,
            sojourn: Duration::from_micros(packets * 240),
            idle: None,
        }
    }
}
