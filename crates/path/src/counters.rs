use paceline_units::Bytes;

/// Packets and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// Total size.
    pub bytes: Bytes,
}

impl Tally {
    /// Counts one packet of `size` bytes.
    pub(crate) fn add(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += Bytes::new(u64::from(size));
    }

    /// Removes one packet of `size` bytes.
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
    /// Offered to the link.
    pub offered: Tally,
    /// Delivered at the far end.
    pub delivered: Tally,
    /// Copies made on the way, in addition to the packets offered.
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
    /// Marked by the queue. The other counters include these packets.
    pub marked: Tally,
}

impl Counters {
    /// All packets lost, whatever the cause.
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
