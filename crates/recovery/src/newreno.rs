//! NewReno: fast recovery without SACK (RFC 6582), in the impatient variant
//! (section 4), with limited transmit (RFC 3042).

/// What the sender keeps across acknowledgments. Volumes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewReno {
    dup_acks: u64,
    /// `recover`: duplicates start no fast retransmit until more than this is
    /// acknowledged. None before the first episode.
    recover: Option<u64>,
    /// What the window holds above the controller's in fast recovery.
    inflation: i64,
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

    /// Step 3: three segments have left the network.
    pub(crate) fn enter(&mut self, nxt: u64, mss: u32) {
        self.recover = Some(nxt);
        self.inflation = i64::from(mss) * Self::DUP_THRESH as i64;
        self.restarted = false;
    }

    /// RFC 5681 section 3.2 step 4: a duplicate in fast recovery.
    pub(crate) fn inflate(&mut self, mss: u32) {
        self.inflation = self.inflation.saturating_add(i64::from(mss));
    }

    /// Step 5, a partial acknowledgment of `acked` bytes. Returns whether it
    /// restarts the timer, as the first one of an episode does.
    pub(crate) fn on_partial(&mut self, acked: u64, mss: u32) -> bool {
        self.inflation = self.inflation.saturating_sub_unsigned(acked);
        if acked >= u64::from(mss) {
            self.inflate(mss);
        }
        !std::mem::replace(&mut self.restarted, true)
    }

    /// New data is acknowledged outside recovery, or an episode is over.
    pub(crate) fn reset(&mut self) {
        self.dup_acks = 0;
        self.inflation = 0;
    }

    /// Step 6: the timer expired.
    pub(crate) fn on_timeout(&mut self, nxt: u64) {
        self.recover = Some(nxt);
        self.reset();
    }

    /// Whether duplicates have come that started nothing.
    pub(crate) fn is_disordered(&self) -> bool {
        self.dup_acks > 0
    }

    /// The window in force, where the controller's is `cwnd`: outside recovery
    /// the first two duplicates let a new segment go each (RFC 3042).
    pub(crate) fn window(&self, cwnd: u64, mss: u32, recovering: bool, limited: bool) -> u64 {
        let mss = u64::from(mss);
        if recovering {
            cwnd.saturating_add_signed(self.inflation).max(mss)
        } else if limited {
            cwnd.saturating_add(self.dup_acks.min(2) * mss)
        } else {
            cwnd
        }
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

    /// By hand: ssthresh 5; three duplicates, two more; a partial ACK of four
    /// segments takes four and gives one back.
    #[test]
    fn inflates_and_deflates_by_the_rfc() {
        let mut newreno = NewReno::default();
        newreno.enter(10_000, 1000);
        let window = |newreno: &NewReno| newreno.window(5000, 1000, true, true);
        assert_eq!(window(&newreno), 8000);
        newreno.inflate(1000);
        newreno.inflate(1000);
        assert_eq!(window(&newreno), 10_000);
        assert!(newreno.on_partial(4000, 1000));
        assert_eq!(window(&newreno), 7000);
        // Impatient: the timer is not restarted again.
        assert!(!newreno.on_partial(500, 1000));
        assert_eq!(window(&newreno), 6500);
    }

    #[test]
    fn limited_transmit_lets_two_segments_go() {
        let mut newreno = NewReno::default();
        let mut windows = Vec::new();
        for _ in 0..3 {
            newreno.on_duplicate(0);
            windows.push(newreno.window(4000, 1000, false, true));
        }
        assert_eq!(windows, [5000, 6000, 6000]);
        assert_eq!(newreno.window(4000, 1000, false, false), 4000);
    }
}
