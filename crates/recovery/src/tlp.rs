//! Tail loss probes (RFC 8985 section 7).

use paceline_congestion::PacketState;
use paceline_units::{Duration, Instant};

use crate::Block;

/// The transmission that a probe repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probed {
    pub packet: PacketState,
    /// Whether it was itself a retransmission.
    pub retransmission: bool,
}

/// The RFC's `TLP.` state and the probe timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tlp {
    /// `TLP.end_seq` while a probe is outstanding, and what it repeats (`TLP.is_retrans`).
    probe: Option<(u64, Option<Probed>)>,
    /// Whether an RTT was measured since the last probe.
    measured: bool,
    /// When the probe timer expires.
    deadline: Option<Instant>,
}

impl Default for Tlp {
    fn default() -> Self {
        Self {
            probe: None,
            measured: true,
            deadline: None,
        }
    }
}

impl Tlp {
    /// 7.2: arms the timer, no later than the retransmission timer at `rto`. `single` holds the
    /// receiver's maximum delay if one segment is in flight.
    #[inline]
    pub(crate) fn arm(
        &mut self,
        now: Instant,
        srtt: Option<Duration>,
        single: Option<Duration>,
        rto: Option<Instant>,
    ) {
        if self.probe.is_some() || !self.measured {
            self.deadline = None;
            return;
        }
        let pto = match srtt {
            Some(srtt) => srtt * 2 + single.unwrap_or_default(),
            None => Duration::from_secs(1),
        };
        let deadline = now + pto;
        self.deadline = Some(rto.map_or(deadline, |rto| rto.min(deadline)));
    }

    pub(crate) fn disarm(&mut self) {
        self.deadline = None;
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// 7.3: a probe was sent, with `end` the end of everything sent; `probed` if it was not new
    /// data.
    pub(crate) fn on_probe(&mut self, end: u64, probed: Option<Probed>) {
        self.probe = Some((end, probed));
        self.measured = false;
        self.deadline = None;
    }

    /// Whether a probe is outstanding.
    pub(crate) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    pub(crate) fn on_rtt(&mut self) {
        self.measured = true;
    }

    /// The window is reduced: the probe's result no longer matters.
    pub(crate) fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// Recovery begins, so the probe no longer matters.
    pub(crate) fn reset(&mut self) {
        self.probe = None;
        self.deadline = None;
    }

    /// Whether `duplicate` reports the probe itself.
    pub(crate) fn is_duplicate(&self, duplicate: Block) -> bool {
        self.probe
            .is_some_and(|(end, probed)| probed.is_some() && duplicate.end == end)
    }

    /// 7.4.2: the segment that the probe has repaired, if the acknowledgment shows that it was
    /// lost. `plain` says that it repeats the previous one without selective ranges.
    #[inline]
    pub(crate) fn repaired(
        &mut self,
        ack: u64,
        duplicate: Option<Block>,
        plain: bool,
    ) -> Option<Probed> {
        let (end, probed) = self.probe.filter(|(end, _)| ack >= *end)?;
        let both = plain || duplicate.is_some_and(|duplicate| duplicate.end == end);
        let probed = probed.filter(|_| !both);
        if probed.is_none() || ack > end {
            // New data was acknowledged, or both transmissions arrived, or it is repaired.
            self.probe = None;
        }
        probed.filter(|_| ack > end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed() -> Option<Probed> {
        Some(Probed {
            packet: PacketState::default(),
            retransmission: false,
        })
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_timeout_is_two_rtts_with_room_for_a_delayed_ack() {
        let mut tlp = Tlp::default();
        tlp.arm(at(5), Some(ms(40)), None, None);
        assert_eq!(tlp.deadline(), Some(at(85)));
        tlp.arm(at(5), Some(ms(40)), Some(ms(200)), None);
        assert_eq!(tlp.deadline(), Some(at(285)));
        tlp.arm(at(5), Some(ms(40)), Some(ms(200)), Some(at(245)));
        assert_eq!(tlp.deadline(), Some(at(245)));
        tlp.arm(at(5), None, None, None);
        assert_eq!(tlp.deadline(), Some(at(1005)));
    }

    #[test]
    fn one_probe_until_an_rtt_is_measured() {
        let mut tlp = Tlp::default();
        tlp.on_probe(1000, None);
        tlp.arm(at(5), Some(ms(40)), None, None);
        assert_eq!(tlp.deadline(), None);
        assert!(tlp.repaired(1000, None, false).is_none());
        tlp.arm(at(5), Some(ms(40)), None, None);
        assert_eq!(tlp.deadline(), None);
        tlp.on_rtt();
        tlp.arm(at(5), Some(ms(40)), None, None);
        assert_eq!(tlp.deadline(), Some(at(85)));
    }

    #[test]
    fn a_repaired_loss_shows_when_later_data_is_acknowledged() {
        let mut tlp = Tlp::default();
        tlp.on_probe(1000, probed());
        assert!(tlp.repaired(900, None, false).is_none());
        assert!(tlp.repaired(1000, None, false).is_none());
        assert!(tlp.repaired(1500, None, false).is_some());
        assert!(tlp.repaired(2000, None, false).is_none());
    }

    #[test]
    fn a_duplicate_shows_that_nothing_was_lost() {
        let duplicate = Block {
            start: 900,
            end: 1000,
        };
        let mut tlp = Tlp::default();
        tlp.on_probe(1000, probed());
        assert!(tlp.is_duplicate(duplicate));
        assert!(tlp.repaired(1000, Some(duplicate), false).is_none());
        assert!(tlp.repaired(1500, None, false).is_none());
        tlp.on_probe(1000, probed());
        assert!(tlp.repaired(1000, None, true).is_none());
        assert!(tlp.repaired(1500, None, false).is_none());
    }
}
