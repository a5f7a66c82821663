//! F-RTO: whether a retransmission timeout was spurious (RFC 5682 section 3,
//! the SACK-enhanced algorithm, with the conditions of Linux's
//! `tcp_process_loss`).
//!
//! After a timeout only the first segment is retransmitted. If an acknowledgment then covers data
//! that was sent before the timeout and not retransmitted, not everything was lost, and the timeout
//! was premature. Linux decides at the first such sign, the RFC one acknowledgment later.

/// The detection after one timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FRto {
    armed: bool,
    /// Step 2b: this many new segments are sent, and nothing is retransmitted until the next
    /// acknowledgment.
    new_segments: Option<u8>,
}

/// The content of an acknowledgment that arrives after the timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// It acknowledges data sent before the timeout and not retransmitted.
    pub original: bool,
    /// The cumulative point advanced.
    pub advanced: bool,
    /// It is a duplicate, or newly SACKs something.
    pub duplicate: bool,
    /// Everything sent before the timeout is acknowledged.
    pub recovered: bool,
    /// New data was sent after the timeout.
    pub new_sent: bool,
    /// There is new data that the receiver's window allows.
    pub new_available: bool,
}

impl FRto {
    /// "Transmit up to two new segments".
    const NEW_SEGMENTS: u8 = 2;

    /// Step 1: the timer expired.
    pub(crate) fn begin(&mut self, armed: bool) {
        *self = Self {
            armed,
            new_segments: None,
        };
    }

    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// Steps 2 and 3. Returns whether the timeout is now known to be spurious.
    pub(crate) fn on_ack(&mut self, ack: Evidence) -> bool {
        self.new_segments = None;
        if !self.armed {
            return false;
        }
        if ack.original {
            // 3b.
            self.armed = false;
            return true;
        }
        if ack.new_sent {
            // 3a: new data overtook the missing data, so that is lost.
            self.armed = !ack.duplicate;
        } else if ack.advanced && !ack.recovered {
            // 2b, or the conventional recovery if there is nothing new to send.
            self.armed = ack.new_available;
            self.new_segments = ack.new_available.then_some(Self::NEW_SEGMENTS);
        }
        false
    }

    /// The number of new segments to send before any retransmission; none outside step 2b.
    pub(crate) fn new_segments(&self) -> Option<u8> {
        self.new_segments
    }

    pub(crate) fn on_new_segment(&mut self) {
        self.new_segments = self.new_segments.map(|left| left.saturating_sub(1));
    }

    /// The new segments are sent, and the pacer runs: Linux retransmits when its timer expires
    /// (`tcp_tsq_write`), without waiting for the next acknowledgment.
    pub(crate) fn on_paced(&mut self) {
        self.new_segments = self.new_segments.filter(|left| *left > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_REPAIRED: Evidence = Evidence {
        original: false,
        advanced: true,
        duplicate: false,
        recovered: false,
        new_sent: false,
        new_available: true,
    };

    fn armed() -> FRto {
        let mut frto = FRto::default();
        frto.begin(true);
        frto
    }

    /// RFC 5682, a delay spike: the first acknowledgment allows two new segments, the second covers
    /// data that was not retransmitted.
    #[test]
    fn spurious_when_original_data_arrives_after_the_new() {
        let mut frto = armed();
        assert!(!frto.on_ack(FIRST_REPAIRED));
        assert_eq!(frto.new_segments(), Some(2));
        frto.on_new_segment();
        frto.on_new_segment();
        assert_eq!(frto.new_segments(), Some(0));
        assert!(frto.on_ack(Evidence {
            original: true,
            new_sent: true,
            ..FIRST_REPAIRED
        }));
        assert_eq!(frto.new_segments(), None);
    }

    /// Everything was lost: the second acknowledgment SACKs the new data.
    #[test]
    fn real_when_new_data_arrives_first() {
        let mut frto = armed();
        assert!(!frto.on_ack(FIRST_REPAIRED));
        frto.on_new_segment();
        let second = Evidence {
            advanced: false,
            duplicate: true,
            new_sent: true,
            ..FIRST_REPAIRED
        };
        assert!(!frto.on_ack(second));
        // Later acknowledgments do not change that.
        assert!(!frto.on_ack(Evidence {
            original: true,
            ..second
        }));
    }

    #[test]
    fn conventional_without_new_data_or_when_all_is_acknowledged() {
        for first in [
            Evidence {
                new_available: false,
                ..FIRST_REPAIRED
            },
            Evidence {
                recovered: true,
                ..FIRST_REPAIRED
            },
        ] {
            let mut frto = armed();
            assert!(!frto.on_ack(first));
            assert_eq!(frto.new_segments(), None);
        }
    }

    /// RFC 5682 section 3.1 step 2: duplicates before the retransmission is acknowledged.
    #[test]
    fn waits_for_the_cumulative_point() {
        let mut frto = armed();
        let stray = Evidence {
            advanced: false,
            duplicate: true,
            ..FIRST_REPAIRED
        };
        assert!(!frto.on_ack(stray));
        assert_eq!(frto.new_segments(), None);
        assert!(!frto.on_ack(FIRST_REPAIRED));
        assert_eq!(frto.new_segments(), Some(2));
    }

    #[test]
    fn says_nothing_unless_armed() {
        let mut frto = FRto::default();
        frto.begin(false);
        assert!(!frto.on_ack(Evidence {
            original: true,
            ..FIRST_REPAIRED
        }));
    }
}
