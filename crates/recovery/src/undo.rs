//! Whether a recovery episode was spurious: DSACK (RFC 3708, counted as in
//! Linux) and the Eifel detection algorithm (RFC 3522).

use paceline_units::Instant;

use crate::Block;

/// The state of the latest episode. It outlives recovery: duplicates may be reported after it has
/// ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undo {
    active: bool,
    /// The first unacknowledged byte when it began (Linux's `undo_marker`).
    marker: u64,
    /// Retransmissions not yet reported as duplicates; none before the first one
    /// (`undo_retrans`).
    unreported: Option<u64>,
    first_retransmission: Option<Instant>,
    /// The window was reduced before the episode, so that its undo leaves the window as it is (Linux's
    /// `prior_ssthresh` of zero).
    reduced_before: bool,
}

impl Undo {
    /// An episode begins with `una` the first unacknowledged byte. A duplicate may also belong to
    /// one of the `retransmitted` segments (of a probe, or an earlier episode) that are already
    /// outstanding, and an answer to one of them proves nothing; if `keeps`, its time still counts,
    /// as in Linux.
    pub(crate) fn begin(&mut self, una: u64, retransmitted: u64, keeps: bool) {
        *self = Self {
            active: true,
            marker: una,
            unreported: Some(retransmitted).filter(|count| *count > 0),
            first_retransmission: self.first_retransmission.filter(|_| keeps),
            reduced_before: false,
        };
    }

    pub(crate) fn end(&mut self) {
        self.active = false;
    }

    /// The window is reduced by marks: what follows does not restore it.
    pub(crate) fn keep_reduction(&mut self) {
        self.reduced_before = true;
    }

    /// Whether an undo restores the window.
    pub(crate) fn restores(&self) -> bool {
        !self.reduced_before
    }

    pub(crate) fn on_retransmit(&mut self, now: Instant) {
        self.unreported = Some(self.unreported.unwrap_or(0).saturating_add(1));
        self.first_retransmission.get_or_insert(now);
    }

    /// A duplicate was reported. Returns whether it is one of the episode's, and how many segments
    /// it represents.
    pub(crate) fn on_duplicate(&mut self, duplicate: Block, mss: u32) -> u64 {
        let unreported = self.unreported.unwrap_or(0);
        if !self.active || duplicate.start < self.marker || unreported == 0 {
            return 0;
        }
        let segments = (duplicate.end - duplicate.start) / u64::from(mss.max(1));
        let segments = segments.clamp(1, unreported);
        self.unreported = Some(unreported - segments);
        segments
    }

    /// Every retransmission was unnecessary.
    pub(crate) fn all_duplicate(&self) -> bool {
        self.active && self.unreported == Some(0) && self.first_retransmission.is_some()
    }

    /// RFC 3522: an acknowledgment that covers a segment declared lost answers a segment sent
    /// before the first retransmission, or nothing was retransmitted yet.
    pub(crate) fn is_eifel(&self, echo: Instant) -> bool {
        self.active && self.first_retransmission.is_none_or(|first| echo < first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Instant = Instant::from_nanos(7);

    #[test]
    fn undone_when_every_retransmission_was_a_duplicate() {
        let mut undo = Undo::default();
        undo.begin(1000, 0, false);
        assert!(!undo.all_duplicate());
        for _ in 0..3 {
            undo.on_retransmit(AT);
        }
        // Two segments in one block, one from before the episode, one more.
        assert_eq!(
            undo.on_duplicate(
                Block {
                    start: 1000,
                    end: 1200
                },
                100
            ),
            2
        );
        assert_eq!(
            undo.on_duplicate(
                Block {
                    start: 900,
                    end: 1000
                },
                100
            ),
            0
        );
        assert!(!undo.all_duplicate());
        assert_eq!(
            undo.on_duplicate(
                Block {
                    start: 1500,
                    end: 1550
                },
                100
            ),
            1
        );
        assert!(undo.all_duplicate());
    }

    #[test]
    fn eifel_compares_with_the_first_retransmission() {
        let mut undo = Undo::default();
        undo.begin(0, 0, false);
        assert!(undo.is_eifel(AT));
        undo.on_retransmit(AT);
        assert!(undo.is_eifel(Instant::from_nanos(6)));
        assert!(!undo.is_eifel(AT));
        undo.end();
        assert!(!undo.is_eifel(Instant::ZERO));
    }

    #[test]
    fn the_time_of_a_retransmission_that_is_still_out_counts() {
        let mut undo = Undo::default();
        undo.begin(0, 0, false);
        undo.on_retransmit(AT);
        undo.begin(100, 1, true);
        undo.on_retransmit(Instant::from_nanos(20));
        assert!(!undo.is_eifel(Instant::from_nanos(8)));
        assert!(undo.is_eifel(Instant::from_nanos(6)));
        undo.begin(200, 0, false);
        undo.on_retransmit(Instant::from_nanos(30));
        assert!(undo.is_eifel(Instant::from_nanos(20)));
    }

    /// A probe was outstanding when the episode began: its duplicate says nothing about the
    /// episode's own.
    #[test]
    fn retransmissions_from_before_the_episode_are_to_be_reported_too() {
        let mut undo = Undo::default();
        undo.begin(0, 1, true);
        undo.on_retransmit(AT);
        let duplicate = |start| Block {
            start,
            end: start + 100,
        };
        undo.on_duplicate(duplicate(900), 100);
        assert!(!undo.all_duplicate());
        undo.on_duplicate(duplicate(0), 100);
        assert!(undo.all_duplicate());
    }
}
