//! Loss recovery by selective acknowledgments alone (RFC 6675).
//!
//! The scoreboard holds the SACK information; this is the rest of the RFC's state. A retransmission
//! is assumed to be delivered until the end of its episode, so `HighRxt` only decides what rules 1
//! and 3 of `NextSeg` may still send. A retransmission of a segment that is not assumed lost (rules
//! 3 and 4) counts once in the pipe, where the RFC counts both copies.

/// The RFC's variables. Segments are identified by index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sack {
    dup_acks: u64,
    /// `IsLost` has been evaluated for everything below.
    examined: u64,
    /// The segment after `HighRxt`.
    high_rxt: u64,
    /// `RescueRxt` is defined.
    rescued: bool,
}

impl Sack {
    pub(crate) const DUP_THRESH: usize = 3;

    /// Steps 1 to 3 of section 5: an acknowledgment that newly SACKs something (`sacks`) is a
    /// duplicate; one that advances the cumulative point resets the count.
    pub(crate) fn on_ack(&mut self, advanced: bool, sacks: bool) {
        if advanced {
            self.dup_acks = 0;
        } else if sacks {
            self.dup_acks = self.dup_acks.saturating_add(1);
        }
    }

    /// Whether the first segment is lost because of the number of duplicates alone.
    pub(crate) fn is_first_lost(&self) -> bool {
        self.dup_acks >= Self::DUP_THRESH as u64
    }

    /// The indices for which `IsLost` has become true, given that it holds below `bound`.
    pub(crate) fn examine(&mut self, first: u64, bound: u64) -> std::ops::Range<u64> {
        let start = self.examined.max(first);
        self.examined = self.examined.max(bound);
        start..bound.max(start)
    }

    /// Nothing is assumed lost any more: evaluate everything again.
    pub(crate) fn forget(&mut self) {
        self.examined = 0;
    }

    /// An episode begins with `first` unacknowledged.
    pub(crate) fn enter(&mut self, first: u64) {
        self.high_rxt = first;
        self.rescued = false;
    }

    pub(crate) fn on_retransmit(&mut self, index: u64) {
        self.high_rxt = self.high_rxt.max(index.saturating_add(1));
    }

    /// The segment after `HighRxt`.
    pub(crate) fn high_rxt(&self) -> u64 {
        self.high_rxt
    }

    /// Rule 4: whether the episode's one rescue retransmission is still available.
    pub(crate) fn may_rescue(&self) -> bool {
        !self.rescued
    }

    pub(crate) fn on_rescue(&mut self) {
        self.rescued = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_duplicates_without_an_advance() {
        let mut sack = Sack::default();
        for (advanced, sacks, lost) in [
            (false, true, false),
            (false, true, false),
            (false, false, false),
            (true, true, false),
            (false, true, false),
            (false, true, false),
            (false, true, true),
        ] {
            sack.on_ack(advanced, sacks);
            assert_eq!(sack.is_first_lost(), lost);
        }
    }

    #[test]
    fn each_segment_is_examined_once_until_all_is_forgotten() {
        let mut sack = Sack::default();
        assert_eq!(sack.examine(0, 5), 0..5);
        assert_eq!(sack.examine(2, 5), 5..5);
        assert_eq!(sack.examine(2, 3), 5..5);
        assert_eq!(sack.examine(7, 9), 7..9);
        sack.forget();
        assert_eq!(sack.examine(7, 9), 7..9);
    }

    #[test]
    fn one_rescue_an_episode() {
        let mut sack = Sack::default();
        sack.enter(4);
        assert!(sack.may_rescue());
        sack.on_rescue();
        assert!(!sack.may_rescue());
        assert_eq!(sack.high_rxt(), 4);
        sack.on_retransmit(6);
        sack.on_retransmit(5);
        assert_eq!(sack.high_rxt(), 7);
        sack.enter(9);
        assert!(sack.may_rescue());
    }
}
