//! A sorted set of disjoint ranges.

use std::collections::VecDeque;

use crate::Block;

/// Half-open ranges, sorted, none touching another.
///
/// Steady growth of one range costs a binary search; closing a gap in the middle moves the ranges
/// on one side of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    ranges: VecDeque<Block>,
}

impl Ranges {
    /// Adds `block` and calls `fresh` with each part that was not in the set.
    /// Returns the range that now contains it.
    pub(crate) fn insert(&mut self, block: Block, mut fresh: impl FnMut(Block)) -> Block {
        if block.start >= block.end {
            return block;
        }
        // Mostly the highest range grows.
        if let Some(last) = self.ranges.back_mut()
            && last.end == block.start
        {
            last.end = block.end;
            fresh(block);
            return *last;
        }
        let from = self.ranges.partition_point(|range| range.end < block.start);
        let mut merged = block;
        let mut next = block.start;
        let mut to = from;
        while let Some(range) = self.ranges.get(to).filter(|range| range.start <= block.end) {
            if next < range.start {
                fresh(Block {
                    start: next,
                    end: range.start,
                });
            }
            next = next.max(range.end);
            merged.start = merged.start.min(range.start);
            merged.end = merged.end.max(range.end);
            to += 1;
        }
        if next < block.end {
            fresh(Block {
                start: next,
                end: block.end,
            });
        }
        if from == to {
            self.ranges.insert(from, merged);
        } else {
            if let Some(range) = self.ranges.get_mut(from) {
                *range = merged;
            }
            if from + 1 < to {
                self.ranges.drain(from + 1..to);
            }
        }
        merged
    }

    /// The ranges, highest first.
    pub(crate) fn descending(&self) -> impl Iterator<Item = &Block> {
        self.ranges.iter().rev()
    }

    /// The lowest number from `from` on that is in no range.
    pub(crate) fn first_gap(&self, from: u64) -> u64 {
        let next = self.ranges.partition_point(|range| range.end <= from);
        match self.ranges.get(next) {
            Some(range) if range.start <= from => range.end,
            _ => from,
        }
    }

    /// Removes and returns the lowest range.
    pub(crate) fn pop_first(&mut self) -> Option<Block> {
        self.ranges.pop_front()
    }

    /// The highest range.
    pub(crate) fn last(&self) -> Option<&Block> {
        self.ranges.back()
    }

    /// The highest range ends here from now on, which is higher.
    pub(crate) fn extend_last(&mut self, end: u64) {
        if let Some(last) = self.ranges.back_mut() {
            last.end = end;
        }
    }

    /// Removes everything below `bound`.
    #[inline]
    pub(crate) fn remove_below(&mut self, bound: u64) {
        while let Some(range) = self.ranges.front_mut() {
            if range.end > bound {
                range.start = range.start.max(bound);
                return;
            }
            self.ranges.pop_front();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_ends_at_the_bound_is_below_it() {
        let mut ranges = Ranges::default();
        ranges.insert(Block { start: 3, end: 9 }, |_| {});
        ranges.remove_below(8);
        assert!(ranges.descending().eq(&[Block { start: 8, end: 9 }]));
        ranges.remove_below(9);
        assert!(ranges.is_empty());
    }

    proptest! {
        #[test]
        fn equals_a_set_of_points(
            steps in prop::collection::vec((0_u64..60, 0_u64..12, prop::bool::weighted(0.1)), 1..60)
        ) {
            let mut ranges = Ranges::default();
            let mut points = BTreeSet::new();
            for (start, len, remove) in steps {
                if remove {
                    ranges.remove_below(start);
                    points.retain(|point| *point >= start);
                } else {
                    let mut fresh = BTreeSet::new();
                    let block = Block { start, end: start + len };
                    let merged = ranges.insert(block, |part| fresh.extend(part.start..part.end));
                    let expected: BTreeSet<u64> =
                        (start..start + len).filter(|point| !points.contains(point)).collect();
                    prop_assert_eq!(fresh, expected);
                    points.extend(start..start + len);
                    prop_assert!(merged.start <= start && merged.end >= start + len);
                    prop_assert!((merged.start..merged.end).all(|point| points.contains(&point)));
                }
                let contained: Vec<u64> =
                    ranges.ranges.iter().flat_map(|range| range.start..range.end).collect();
                prop_assert_eq!(contained, points.iter().copied().collect::<Vec<_>>());
                let ordered = ranges.ranges.iter().zip(ranges.ranges.iter().skip(1));
                prop_assert!(ordered.into_iter().all(|(a, b)| a.end < b.start));
            }
        }
    }
}
