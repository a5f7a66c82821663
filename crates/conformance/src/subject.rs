//! What a trace is replayed through.

pub(crate) mod bbr;
pub(crate) mod cubic;

use paceline_congestion::linux::Field;

use crate::trace::Event;

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The trace's name for it.
    pub field: String,
    /// What the trace has.
    pub expected: String,
    /// What came out.
    pub got: String,
}

/// An algorithm with its socket, to which a trace's events happen.
pub(crate) trait Subject {
    /// Feeds an event. Says where the draws asked for differ from those traced.
    fn apply(&mut self, event: &Event) -> Vec<Difference>;

    /// Every field, by Linux's names, once there is a connection.
    fn visit(&self, visit: &mut dyn FnMut(&'static str, Field));

    /// The state, if it is not the trace's.
    fn other_mode(&self, mode: &str) -> Option<String>;
}

/// An event that the algorithm does not know.
pub(crate) fn foreign(event: &Event) -> Difference {
    Difference {
        field: String::from("event"),
        expected: String::from(event.input.name()),
        got: String::from("(not one of this algorithm)"),
    }
}
