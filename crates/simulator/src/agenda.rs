use paceline_units::Instant;

/// What happens next: the earliest of a fixed set of sources.
///
/// A tournament tree: each source has one time, a change costs one path to the
/// root, nothing is allocated, and ties go to the lower source number, so that
/// the order of simultaneous events is part of the program and not of chance.
pub(crate) struct Agenda {
    /// Leaves a power of two; `times[source]` is when the source is due.
    times: Vec<Instant>,
    /// `winners[node]` is the source that is due first below the node; 1 is the root.
    winners: Vec<u32>,
}

impl Agenda {
    pub(crate) fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        let mut winners = vec![0; 2 * leaves];
        for (source, winner) in (0..).zip(&mut winners[leaves..]) {
            *winner = source;
        }
        for node in (1..leaves).rev() {
            winners[node] = winners[2 * node];
        }
        Self {
            times: vec![Instant::MAX; leaves],
            winners,
        }
    }

    /// When `source` is due; [`Instant::MAX`] if it is not.
    pub(crate) fn due(&self, source: usize) -> Instant {
        self.times[source]
    }

    /// Sets when `source` is due.
    pub(crate) fn set(&mut self, source: usize, time: Instant) {
        if self.times[source] == time {
            return;
        }
        self.times[source] = time;
        let mut node = (self.times.len() + source) / 2;
        while node > 0 {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let winner = if self.times[right as usize] < self.times[left as usize] {
                right
            } else {
                left
            };
            // A node that neither was nor is won by the source sees no change above it.
            if self.winners[node] == winner && winner as usize != source {
                break;
            }
            self.winners[node] = winner;
            node /= 2;
        }
    }

    /// The earliest time and its source.
    pub(crate) fn next(&self) -> (Instant, usize) {
        let source = self.winners[1] as usize;
        (self.times[source], source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_scan(sources in 1usize..40, changes in prop::collection::vec((0usize..40, 0u64..20), 1..300)) {
            let mut agenda = Agenda::new(sources);
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
