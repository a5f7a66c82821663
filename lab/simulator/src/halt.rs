//! Why a world stopped early.

use paceline_units::Instant;

use crate::foreign::Defect;

/// Why a world stopped early.
#[derive(Clone, Debug)]
pub(crate) enum Halt {
    /// Time does not advance.
    Stuck,
    /// An end of a flow of another transport is defective.
    Defective(u32, Defect),
}

impl Halt {
    /// The error, `at` this time.
    pub fn message(&self, at: Instant) -> String {
        let seconds = at.since(Instant::ZERO).as_secs_f64();
        match self {
            Self::Stuck => format!(
                "the engine does not get past {seconds} s of virtual time; please report this scenario"
            ),
            Self::Defective(flow, what) => format!(
                "the endpoint of flow {flow} is defective: {what}, at {seconds} s of virtual time"
            ),
        }
    }
}
