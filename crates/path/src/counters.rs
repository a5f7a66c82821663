use paceline_units::Bytes;

/// Packets and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many packets.
    pub packets: u64,
    /// How many bytes they hold.
    pub bytes: Bytes,
}

impl Tally {
    /// Counts one packet of `size` bytes.
    pub(crate) fn add(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += Bytes::new(u64::from(size));
    }

    /// Takes one packet of `size` bytes out again.
    pub(crate) fn remove(&mut self, size: u32) {
        self.packets -= 1;
        self.bytes -= Bytes::new(u64::from(size));
    }

    fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Where every packet offered to a link went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handed to the link.
    pub offered: Tally,
    /// Handed over at the far end.
    pub delivered: Tally,
    /// Copies that came up on the way, besides what was offered.
    pub duplicated: Tally,
    /// Refused by the policer.
    pub dropped_policer: Tally,
    /// Dropped by the queue before it was full.
    pub dropped_early: Tally,
    /// Refused by a full queue.
    pub dropped_queue: Tally,
    /// Lost at random after transmission.
    pub dropped_random: Tally,
    /// Lost because the scenario said so.
    pub dropped_scripted: Tally,
    /// In the queue or on the way.
    pub held: Tally,
    /// Marked by the queue; these are among the others.
    pub marked: Tally,
}

impl Counters {
    /// All that was lost, whatever the cause.
    pub fn dropped(&self) -> Tally {
        self.dropped_policer
            .plus(self.dropped_early)
            .plus(self.dropped_queue)
            .plus(self.dropped_random)
            .plus(self.dropped_scripted)
    }

    /// Conservation: offered + duplicated = delivered + dropped + held, in packets and in bytes.
    pub fn balanced(&self) -> bool {
        self.offered.plus(self.duplicated) == self.delivered.plus(self.dropped()).plus(self.held)
    }
}
