use paceline_units::Instant;

/// What happens next: the earliest of a fixed set of sources.
///
/// Ties go to the lower source number, so that the order of simultaneous events
/// is part of the program and not of chance. The first sources, links and ways
/// back, are due with every packet; a tree of their own keeps their changes
/// short however many flows there are.
pub(crate) struct Agenda {
    busy: Tree,
    rest: Tree,
    /// Where the rest begins.
    split: usize,
}

impl Agenda {
    /// An agenda of `sources`, of which the first `busy` are due most often.
    pub(crate) fn new(busy: usize, sources: usize) -> Self {
        Self {
            busy: Tree::new(busy),
            rest: Tree::new(sources.saturating_sub(busy)),
            split: busy,
        }
    }

    /// When `source` is due; [`Instant::MAX`] if it is not.
    pub(crate) fn due(&self, source: usize) -> Instant {
        match source.checked_sub(self.split) {
            None => self.busy.due(source),
            Some(source) => self.rest.due(source),
        }
    }

    /// Sets when `source` is due.
    pub(crate) fn set(&mut self, source: usize, time: Instant) {
        match source.checked_sub(self.split) {
            None => self.busy.set(source, time),
            Some(source) => self.rest.set(source, time),
        }
    }

    /// The earliest time and its source.
    pub(crate) fn next(&self) -> (Instant, usize) {
        let (busy, rest) = (self.busy.first(), self.rest.first());
        if rest.time < busy.time {
            (rest.time, self.split + rest.source as usize)
        } else {
            (busy.time, busy.source as usize)
        }
    }
}

/// A tournament tree: a change costs one path to the root, nothing is allocated.
struct Tree {
    /// `nodes[leaves + source]` is when the source is due; a node above is the earlier of the
    /// two below it; 1 is the root. Each holds the time, so that a match looks at two neighbours.
    nodes: Vec<Due>,
    leaves: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Due {
    time: Instant,
    source: u32,
}

impl Tree {
    fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        let never = |source| Due {
            time: Instant::MAX,
            source,
        };
        let mut nodes = vec![never(0); 2 * leaves];
        for (source, node) in (0..).zip(&mut nodes[leaves..]) {
            *node = never(source);
        }
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node];
        }
        Self { nodes, leaves }
    }

    fn due(&self, source: usize) -> Instant {
        self.nodes[self.leaves + source].time
    }

    fn set(&mut self, source: usize, time: Instant) {
        let mut node = self.leaves + source;
        if self.nodes[node].time == time {
            return;
        }
        self.nodes[node].time = time;
        while node > 1 {
            node /= 2;
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            let earlier = if right.time < left.time { right } else { left };
            // A node that is as it was sees no change above it.
            if self.nodes[node] == earlier {
                break;
            }
            self.nodes[node] = earlier;
        }
    }

    fn first(&self) -> Due {
        self.nodes[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_scan(sources in 1usize..40, busy in 0usize..40, changes in prop::collection::vec((0usize..40, 0u64..20), 1..300)) {
            let mut agenda = Agenda::new(busy.min(sources), sources);
            let mut model = vec![Instant::MAX; sources];
            for (source, time) in changes {
                let source = source % sources;
                // 19 stands for "not due".
                let time = if time == 19 { Instant::MAX } else { Instant::from_nanos(time) };
                agenda.set(source, time);
                model[source] = time;
                let expected = (0..sources).map(|s| (model[s], s)).min().unwrap();
                if expected.0 < Instant::MAX {
                    prop_assert_eq!(agenda.next(), expected);
                } else {
                    prop_assert_eq!(agenda.next().0, Instant::MAX);
                }
            }
        }
    }
}
