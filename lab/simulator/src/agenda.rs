use paceline_units::Instant;

/// The next event: the earliest of a fixed set of sources.
///
/// Ties go to the lower source number, so that the order of simultaneous events is defined by the
/// program and not by chance. The first sources, links and return paths, are due with every packet:
/// updating them stays cheap however many flows there are. If there are few sources, all are busy.
pub(crate) struct Agenda {
    busy: Busy,
    rest: Tree,
    /// Index of the first of the other sources.
    split: usize,
}

/// The sources that are due most often. A few (the array's size) are searched linearly, eight at a
/// time, which costs less than a tree in which every change goes up to the root.
enum Busy {
    Few([Instant; Self::FEW], usize),
    Many(Tree),
}

impl Busy {
    const FEW: usize = 16;

    fn new(sources: usize) -> Self {
        if sources <= Self::FEW {
            Self::Few([Instant::MAX; Self::FEW], sources.div_ceil(8))
        } else {
            Self::Many(Tree::new(sources))
        }
    }

    fn due(&self, source: usize) -> Instant {
        match self {
            Self::Few(times, _) => times[source],
            Self::Many(tree) => tree.due(source),
        }
    }

    fn set(&mut self, source: usize, time: Instant) {
        match self {
            Self::Few(times, _) => times[source] = time,
            Self::Many(tree) => tree.set(source, time),
        }
    }

    fn first(&self) -> Due {
        match self {
            Self::Few(times, eights) => {
                let mut time = Instant::MAX;
                for eight in &times.as_chunks::<8>().0[..*eights] {
                    time = eight.iter().fold(time, |first, other| first.min(*other));
                }
                let source = times.iter().position(|other| *other == time);
                Due {
                    time,
                    source: source.unwrap_or(0) as u32,
                }
            }
            Self::Many(tree) => tree.first(),
        }
    }
}

impl Agenda {
    /// An agenda of `sources`, of which the first `busy` are due most often.
    pub(crate) fn new(busy: usize, sources: usize) -> Self {
        let busy = if sources <= Busy::FEW { sources } else { busy };
        Self {
            busy: Busy::new(busy),
            rest: Tree::new(sources.saturating_sub(busy)),
            split: busy,
        }
    }

    /// When `source` is due; [`Instant::MAX`] if it is not.
    #[inline]
    pub(crate) fn due(&self, source: usize) -> Instant {
        match source.checked_sub(self.split) {
            None => self.busy.due(source),
            Some(source) => self.rest.due(source),
        }
    }

    /// Sets when `source` is due.
    // Always inlined: many call it, and each packet does.
    #[inline(always)]
    pub(crate) fn set(&mut self, source: usize, time: Instant) {
        match source.checked_sub(self.split) {
            None => self.busy.set(source, time),
            Some(source) => self.rest.set(source, time),
        }
    }

    /// The earliest time and its source.
    #[inline]
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
    /// Node `leaves + source` is when the source is due, and a parent is the earlier of its two
    /// children; 1 is the root. Siblings are adjacent, node `n` at `pairs[n / 2][n % 2]`, so that a
    /// match reads one place.
    pairs: Vec<[Due; 2]>,
    leaves: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Due {
    time: Instant,
    source: u32,
}

fn earlier(pair: [Due; 2]) -> Due {
    let [left, right] = pair;
    if right.time < left.time { right } else { left }
}

impl Tree {
    fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        let never = |source| Due {
            time: Instant::MAX,
            source,
        };
        let mut pairs = vec![[never(0); 2]; leaves];
        for (source, pair) in (0..).step_by(2).zip(&mut pairs[leaves / 2..]) {
            *pair = [never(source), never(source + 1)];
        }
        for node in (1..leaves).rev() {
            pairs[node / 2][node % 2] = earlier(pairs[node]);
        }
        Self { pairs, leaves }
    }

    fn due(&self, source: usize) -> Instant {
        let node = self.leaves + source;
        self.pairs[node / 2][node % 2].time
    }

    fn set(&mut self, source: usize, time: Instant) {
        let mut node = self.leaves + source;
        let mut due = Due {
            time,
            source: source as u32,
        };
        while node > 0 {
            let pair = &mut self.pairs[node / 2];
            // If a node is unchanged, so is everything above it.
            if pair[node % 2] == due {
                return;
            }
            pair[node % 2] = due;
            due = earlier(*pair);
            node /= 2;
        }
    }

    fn first(&self) -> Due {
        self.pairs[0][1]
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
                // 19 means "not due".
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
