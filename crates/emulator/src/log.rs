//! What the path saw in a run.

use crate::fidelity::Histogram;
use crate::message::{Event, Packet as PacketRow, Queue};

/// What the path saw in a run.
#[derive(Default)]
pub struct Log {
    pub queues: Vec<Queue>,
    pub events: Vec<Event>,
    pub packets: Vec<PacketRow>,
    pub lateness: Histogram,
    pub ingest: Histogram,
    pub offered: u64,
    /// The path's own link in each sample interval.
    pub bins: Vec<Bin>,
}

/// The path's own link in one sample interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bin {
    /// Wire bytes that it could have carried from the start of the run to the interval's.
    pub capacity: Option<u64>,
    /// Whether it was never idle in it.
    pub busy: bool,
    /// Wire bytes that left it then, as seen at the far end.
    pub released: u64,
}

impl Log {
    /// What the path's own link carried, and could have carried, in the intervals in which it was
    /// never idle, and whose last packets have arrived: the first `whole` ones.
    pub fn achieved_and_asked(&self, whole: usize) -> (u64, u64) {
        let pairs = self.bins.iter().zip(self.bins.iter().skip(1));
        pairs
            .take(whole)
            .filter(|(bin, _)| bin.busy)
            .filter_map(|(bin, next)| {
                let capacity = next.capacity?.saturating_sub(bin.capacity?);
                Some((bin.released, capacity))
            })
            .fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_busy_intervals_tell_of_the_rate() {
        let bin = |capacity, busy, released| Bin {
            capacity,
            busy,
            released,
        };
        let bins = vec![
            bin(Some(0), false, 10),
            bin(Some(100), true, 90),
            bin(Some(200), true, 105),
            // A sample was missed: how much it could carry is not known.
            bin(None, true, 70),
            bin(Some(400), true, 98),
            bin(Some(500), true, 0),
            bin(Some(600), false, 0),
        ];
        let log = Log {
            bins,
            ..Log::default()
        };
        // From 100 to 200 and from 400 to 500; the last packets of the one after are on their way.
        assert_eq!(log.achieved_and_asked(5), (90 + 98, 200));
        assert_eq!(log.achieved_and_asked(6), (90 + 98, 300));
    }
}
