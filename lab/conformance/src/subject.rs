//! The algorithm that a trace is replayed with.

pub(crate) mod bbr;
pub(crate) mod cubic;
pub(crate) mod window;

use paceline_congestion::linux::Field;

use crate::trace::Event;

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The trace's name for it.
    pub field: String,
    /// The trace's value.
    pub expected: String,
    /// The replayed value.
    pub got: String,
}

/// An algorithm with its socket, which receives a trace's events.
pub(crate) trait Subject {
    /// Feeds an event. Returns where the requested random draws differ from the recorded ones.
    fn apply(&mut self, event: &Event) -> Vec<Difference>;

    /// Every field, by Linux's names, once there is a connection.
    fn visit(&self, visit: &mut dyn FnMut(&'static str, Field));

    /// The current state, if it differs from the trace's.
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
