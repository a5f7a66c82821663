//! Bytes of a stream that have passed, as a few ranges.

use std::collections::BTreeMap;

/// Ranges beyond this are joined over the gaps between them.
const MOST: usize = 10_000;

/// Ranges of bytes.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// The end of each range, by its start.
    ends: BTreeMap<u64, u64>,
    /// Bytes that were added, each once.
    total: u64,
    /// Bytes of the gaps that were given up.
    joined: u64,
}

impl Ranges {
    /// Adds bytes; returns how many are new.
    pub fn add(&mut self, start: u64, length: u64) -> u64 {
        let mut end = start.saturating_add(length);
        let (mut from, mut new) = (start, end - start);
        while let Some((&first, &last)) = self.ends.range(..=end).next_back() {
            if last < from {
                break;
            }
            let (low, high) = (first.max(start), last.min(start.saturating_add(length)));
            new -= high.saturating_sub(low);
            self.ends.remove(&first);
            (from, end) = (from.min(first), end.max(last));
        }
        self.total += new;
        if self.ends.len() >= MOST
            && let Some((&first, &last)) = self.ends.iter().next()
        {
            // Holes at the beginning, from a log with missing pieces.
            self.ends.remove(&first);
            if let Some((&second, &after)) = self.ends.iter().next() {
                self.joined += second.saturating_sub(last);
                self.ends.remove(&second);
                self.ends.insert(first, after.max(last));
            }
        }
        self.ends.insert(from, end);
        new
    }

    /// How many bytes have been added, each once.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes of gaps that were too many to be kept.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// Whether all of these bytes have been added.
    pub fn has(&self, start: u64, end: u64) -> bool {
        let before = self.ends.range(..=start).next_back();
        start >= end || before.is_some_and(|(_, last)| *last >= end)
    }

    /// The parts of these bytes that have not been added.
    pub fn missing(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut from, mut parts) = (start, Vec::new());
        let before = self.ends.range(..=start).next_back();
        for (&first, &last) in before.into_iter().chain(self.ends.range(start + 1..)) {
            if first >= end {
                break;
            }
            if from < first {
                parts.push((from, first));
            }
            from = from.max(last);
        }
        if from < end {
            parts.push((from, end));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_byte_is_new_once(
            pieces in prop::collection::vec((0_u64..60, 0_u64..20), 0..40),
            from in 0_u64..60,
        ) {
            let (mut ranges, mut bytes) = (Ranges::default(), BTreeSet::new());
            for (start, length) in pieces {
                let before = bytes.len();
                bytes.extend(start..start + length);
                prop_assert_eq!(ranges.add(start, length), (bytes.len() - before) as u64);
            }
            prop_assert_eq!(ranges.total(), bytes.len() as u64);
            let missing = ranges.missing(from, from + 30);
            let holes: Vec<u64> = missing.iter().flat_map(|(from, to)| *from..*to).collect();
            let expected: Vec<u64> = (from..from + 30).filter(|n| !bytes.contains(n)).collect();
            prop_assert_eq!(ranges.has(from, from + 30), expected.is_empty());
            prop_assert_eq!(holes, expected);
        }
    }
}
