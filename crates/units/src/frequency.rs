use crate::Gain;

/// A weight per second, in millionths: "0.125 Hz".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frequency(Gain);

impl Frequency {
    /// This many millionths per second.
    pub const fn from_millionths(millionths: u32) -> Self {
        Self(Gain::from_millionths(millionths))
    }

    /// A weight of one per second.
    pub const fn per_second(self) -> Gain {
        self.0
    }
}
