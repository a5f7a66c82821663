//! NewReno: fast recovery without SACK (RFC 6582), in the impatient variant
//! (section 4), with limited transmit (RFC 3042).
//!
//! A duplicate acknowledgment says that a segment has arrived. The RFC inflates the window by one
//! segment for each, and deflates it by the data that a partial acknowledgment covers, less one
//! segment. Here, as in Linux, the segment leaves the data in flight instead
//! ([`Scoreboard`](crate::scoreboard::Scoreboard)): the same amount may be sent, and the controller
//! learns of the delivery when it happens.

/// The sender's state across acknowledgments. Volumes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewReno {
    dup_acks: u64,
    /// `recover`: duplicates start no fast retransmit until more than this is acknowledged. None
    /// before the first episode.
    recover: Option<u64>,
    /// A partial acknowledgment has restarted the timer of this episode.
    restarted: bool,
}

impl NewReno {
    const DUP_THRESH: u64 = 3;

    /// A duplicate outside recovery. Returns whether it starts a fast retransmit (step 2).
    pub(crate) fn on_duplicate(&mut self, una: u64) -> bool {
        self.dup_acks = self.dup_acks.saturating_add(1);
        self.dup_acks == Self::DUP_THRESH && self.recover.is_none_or(|recover| una > recover)
    }

    /// An episode begins.
    pub(crate) fn enter(&mut self, nxt: u64) {
        self.recover = Some(nxt);
        self.restarted = false;
    }

    /// Step 5, a partial acknowledgment. Returns whether it restarts the timer; the first one of an
    /// episode does.
    pub(crate) fn on_partial(&mut self) -> bool {
        !std::mem::replace(&mut self.restarted, true)
    }

    /// New data is acknowledged outside recovery, or an episode ends.
    pub(crate) fn reset(&mut self) {
        self.dup_acks = 0;
    }

    /// Step 6: the timer expired.
    pub(crate) fn on_timeout(&mut self, nxt: u64) {
        self.recover = Some(nxt);
        self.reset();
    }

    /// Whether there were duplicates that started nothing.
    pub(crate) fn is_disordered(&self) -> bool {
        self.dup_acks > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_duplicate_retransmits_once() {
        let mut newreno = NewReno::default();
        let starts: Vec<bool> = (0..5).map(|_| newreno.on_duplicate(0)).collect();
        assert_eq!(starts, [false, false, true, false, false]);
    }

    /// RFC 6582 section 3.2 step 2: no second fast retransmit for the window of the first.
    #[test]
    fn duplicates_of_the_old_window_start_nothing() {
        let mut newreno = NewReno::default();
        newreno.on_timeout(5000);
        let third = |newreno: &mut NewReno, una| {
            newreno.reset();
            newreno.on_duplicate(una);
            newreno.on_duplicate(una);
            newreno.on_duplicate(una)
        };
        assert!(!third(&mut newreno, 4000));
        assert!(!third(&mut newreno, 5000));
        assert!(third(&mut newreno, 6000));
    }

    /// Impatient: the timer restarts once per episode.
    #[test]
    fn the_first_partial_acknowledgment_restarts_the_timer() {
        let mut newreno = NewReno::default();
        newreno.enter(10_000);
        assert_eq!([newreno.on_partial(), newreno.on_partial()], [true, false]);
        newreno.enter(20_000);
        assert!(newreno.on_partial());
    }
}
