//! The names that a scenario may use, supplied by the crates that implement them.

use paceline_units::options::Named;

/// The names that a scenario may use. Controllers are not included: the engines check which exist.
#[derive(Clone, Copy)]
pub struct Vocabulary {
    /// Queueing disciplines: the `kind` of a queue. The first is the default.
    pub queues: &'static [Named],
    /// Signals that the first of them may give before it is full, each a key of the queue.
    pub early_signals: &'static [Named],
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.queues.iter().chain(self.early_signals);
        f.debug_list()
            .entries(names.map(|named| named.name))
            .finish()
    }
}
