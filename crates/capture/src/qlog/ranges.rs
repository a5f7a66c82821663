//! Bytes of a stream that have been seen, as a few ranges.

use std::collections::BTreeMap;

/// Ranges beyond this are joined over the gaps between them.
const MOST: usize = 10_000;

/// Ranges of bytes.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// The end of each range, by its start.
    ends: BTreeMap<u64, u64>,
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
        if self.ends.len() >= MOST
            && let Some((&first, &last)) = self.ends.iter().next()
        {
            // Holes at the beginning, from a log with missing pieces.
            self.ends.remove(&first);
            if let Some((&second, &after)) = self.ends.iter().next() {
                self.ends.remove(&second);
                self.ends.insert(first, after.max(last));
            }
        }
        self.ends.insert(from, end);
        new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_byte_is_new_once(pieces in prop::collection::vec((0_u64..60, 0_u64..20), 0..40)) {
            let (mut ranges, mut bytes) = (Ranges::default(), BTreeSet::new());
            for (start, length) in pieces {
                let before = bytes.len();
                bytes.extend(start..start + length);
                prop_assert_eq!(ranges.add(start, length), (bytes.len() - before) as u64);
            }
        }
    }
}
