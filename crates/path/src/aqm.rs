//! Signals of a queue before it is full.
//!
//! Step marking and RED judge a packet as it comes, and leave the queue to the link. The others are
//! queues of their own ([`Discipline`]): they judge a packet as it is taken out, or by how long
//! those before it waited.

mod codel;
mod discipline;
mod dualpi2;
mod fq_codel;
#[cfg(test)]
mod kernel;
mod pie;
mod red;

use paceline_units::{Duration, Gain, Instant, Rng};

pub use codel::Codel;
pub(crate) use discipline::{Discipline, Fate};
pub use dualpi2::DualPi2;
pub use fq_codel::FqCodel;
pub use pie::Pie;
pub use red::Red;
use red::RedState;

/// When a queue marks or drops what it could still hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aqm {
    /// Marks what finds more waiting than the threshold, itself included, as DCTCP asks for
    /// (RFC 8257 section 3.1). What is not ECN-capable passes.
    Step(Threshold),
    /// Random early detection.
    Red(Red),
    /// Controlled delay (RFC 8289).
    Codel(Codel),
    /// Fair queues, each with CoDel (RFC 8290).
    FqCodel(FqCodel),
    /// Proportional integral controller enhanced (RFC 8033).
    Pie(Pie),
    /// Two coupled queues, one for L4S (RFC 9332).
    DualPi2(DualPi2),
}

/// How much may wait, or how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// In bytes on the wire.
    Bytes(u64),
    /// In packets.
    Packets(u64),
    /// The sojourn that the packet faces at the rate in force.
    Sojourn(Duration),
}

/// What a packet finds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) size: u32,
    /// Waiting behind the packet in transmission.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Time until its transmission begins.
    pub(crate) sojourn: Duration,
    /// How long the link has been idle, in transmissions of this packet; none if it is busy.
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

/// An [`Aqm`] at work.
#[derive(Clone, Debug)]
pub(crate) enum Watch {
    Step(Threshold),
    Red(RedState),
}

impl Watch {
    /// None for what is a queue of its own.
    pub(crate) fn new(aqm: Aqm, seed: u64) -> Option<Self> {
        match aqm {
            Aqm::Step(threshold) => Some(Self::Step(threshold)),
            Aqm::Red(red) => Some(Self::Red(RedState::new(red, seed))),
            Aqm::Codel(_) | Aqm::FqCodel(_) | Aqm::Pie(_) | Aqm::DualPi2(_) => None,
        }
    }

    pub(crate) fn judge(&mut self, found: Found) -> Signal {
        match self {
            Self::Step(threshold) => {
                let exceeded = match *threshold {
                    Threshold::Bytes(most) => found.bytes + u64::from(found.size) > most,
                    Threshold::Packets(most) => found.packets + 1 > most,
                    Threshold::Sojourn(most) => found.sojourn > most,
                };
                match exceeded && found.idle.is_none() {
                    true => Signal::Mark,
                    false => Signal::None,
                }
            }
            Self::Red(red) => red.judge(found),
        }
    }
}

fn share(gain: Gain) -> f64 {
    f64::from(gain.millionths()) / f64::from(Gain::SCALE)
}

/// Uniform in [0, 1).
fn draw(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// How many transmissions of `each` fit between `from` and `to`.
pub(crate) fn transmissions(from: Instant, to: Instant, each: Duration) -> u64 {
    let count = to.since(from).as_nanos().checked_div(each.as_nanos());
    count.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many packets of 1500 bytes before a link of 50 Mbit/s.
    pub(super) fn found(packets: u64) -> Found {
        Found {
            size: 1500,
            bytes: packets * 1500,
            packets,
            sojourn: Duration::from_micros(packets * 240),
            idle: None,
        }
    }

    #[test]
    fn a_step_marks_what_stands_beyond_it() {
        for threshold in [
            Threshold::Packets(3),
            Threshold::Bytes(3 * 1500),
            Threshold::Sojourn(Duration::from_micros(2 * 240)),
        ] {
            let mut watch = Watch::new(Aqm::Step(threshold), 1).unwrap();
            let signals: Vec<bool> = (0..5)
                .map(|packets| watch.judge(found(packets)) == Signal::Mark)
                .collect();
            assert_eq!(signals, [false, false, false, true, true], "{threshold:?}");
        }
        // What finds the link idle does not wait.
        let mut watch = Watch::new(Aqm::Step(Threshold::Packets(0)), 1).unwrap();
        let idle = Found {
            idle: Some(0),
            ..found(0)
        };
        assert_eq!(watch.judge(idle), Signal::None);
        assert_eq!(watch.judge(found(0)), Signal::Mark);
    }
}
