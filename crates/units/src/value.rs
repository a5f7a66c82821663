use crate::{Bytes, Duration, Gain, Rate};

/// A value with its unit, for state that is shown rather than computed with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A volume; an infinite one is shown as absent.
    Bytes(Bytes),
    /// A rate; an infinite one is shown as absent.
    Rate(Rate),
    /// A span of time; [`Duration::MAX`] is shown as absent.
    Duration(Duration),
    /// A dimensionless factor.
    Gain(Gain),
    /// A count.
    Count(u64),
    /// A yes or no.
    Flag(bool),
}
