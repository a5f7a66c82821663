//! A receiver's record of a stream whose pieces it reads in any order.

use std::collections::BTreeMap;

/// Ranges of bytes that have arrived.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// Everything before this has arrived.
    delivered: u64,
    /// The ranges that have arrived beyond it: disjoint starts and ends.
    ahead: BTreeMap<u64, u64>,
}

impl Assembly {
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A piece has arrived, for the first time.
    pub fn put(&mut self, start: u64, length: u64) {
        let end = start + length;
        if length == 0 {
            return; // the end of a stream
        }
        if start > self.delivered {
            self.ahead.insert(start, end);
            return;
        }
        self.delivered = self.delivered.max(end);
        while let Some(entry) = self.ahead.first_entry()
            && *entry.key() <= self.delivered
        {
            self.delivered = self.delivered.max(entry.remove());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_out_of_order_counts_once_the_gap_is_filled() {
        let mut assembly = Assembly::default();
        for (start, length, delivered) in [
            (0, 10, 10),
            (20, 10, 10),
            (40, 5, 10),
            (30, 5, 10),
            (10, 10, 35),
            (35, 5, 45),
        ] {
            assembly.put(start, length);
            assembly.put(start, 0);
            assert_eq!(assembly.delivered(), delivered, "{start}");
        }
        assert!(assembly.ahead.is_empty());
    }
}
