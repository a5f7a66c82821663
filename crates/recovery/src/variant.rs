//! The ways to recover from loss among which a flow chooses.

use crate::prr::Bound;

/// How losses are found, and how the window falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// RACK-TLP (RFC 8985) and proportional rate reduction (RFC 9937).
    #[default]
    RackPrr,
    /// The same with the conservative bound (RFC 6937): never more than was delivered.
    RackPrrCrb,
    /// The same with the slow-start bound (RFC 6937): one segment more for each acknowledgment.
    RackPrrSsrb,
    /// RACK-TLP alone: the window falls at once, and once more for each round in which a
    /// retransmission is lost (RFC 5681 section 4.3).
    Rack,
    /// SACK without RACK (RFC 6675): the window falls at once, and a lost
    /// retransmission waits for the timeout.
    Sack,
    /// Without SACK (RFC 6582, the impatient variant): one segment a round trip.
    NewReno,
}

impl Recovery {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::RackPrr,
        Self::RackPrrCrb,
        Self::RackPrrSsrb,
        Self::Rack,
        Self::Sack,
        Self::NewReno,
    ];

    /// Whether the sender reads selective acknowledgments.
    pub const fn has_sack(self) -> bool {
        !matches!(self, Self::NewReno)
    }

    /// Whether losses are found by time, and tails probed (RFC 8985).
    pub const fn has_rack(self) -> bool {
        !matches!(self, Self::Sack | Self::NewReno)
    }

    /// What bounds the proportional rate reduction; none without it.
    pub(crate) const fn bound(self) -> Option<Bound> {
        match self {
            Self::RackPrr => Some(Bound::SafeAck),
            Self::RackPrrCrb => Some(Bound::Conservative),
            Self::RackPrrSsrb => Some(Bound::SlowStart),
            Self::Rack | Self::Sack | Self::NewReno => None,
        }
    }
}
