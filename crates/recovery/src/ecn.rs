//! ECN feedback: how a receiver reports CE-marked packets, and how the sender uses the report.

use paceline_congestion::Ecn;
use paceline_units::{Bytes, EcnFeedback};

use crate::{Acknowledgment, Segment};

/// `DIVACE` (RFC 9768 appendix A.2).
const ACE_MODULUS: u64 = 8;

/// The receiver's side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo {
    feedback: EcnFeedback,
    packets: u64,
    bytes: u64,
    /// The next value of ECE: latched, `DCTCP.CE`, or a mark since the last acknowledgment.
    ece: bool,
}

impl Echo {
    pub(crate) fn new(feedback: EcnFeedback) -> Self {
        Self {
            feedback,
            packets: 0,
            bytes: 0,
            ece: false,
        }
    }

    /// Whether `segment` changes `DCTCP.CE`: earlier segments are acknowledged separately, so that
    /// the sender attributes the marks correctly.
    #[inline]
    pub(crate) fn turns(&self, segment: &Segment) -> bool {
        self.feedback == EcnFeedback::Dctcp && (segment.ecn == Ecn::Ce) != self.ece
    }

    /// A segment arrived. Returns whether to acknowledge it at once.
    #[inline]
    pub(crate) fn on_segment(&mut self, segment: &Segment) -> bool {
        let turns = self.turns(segment);
        let marked = segment.ecn == Ecn::Ce;
        if marked {
            self.packets += 1;
            self.bytes += u64::from(segment.len);
        }
        self.ece = match self.feedback {
            // RFC 3168 6.1.3: a CWR ends the echo, and a mark on the same packet restarts it.
            EcnFeedback::Classic => marked || (self.ece && !segment.cwr),
            EcnFeedback::Dctcp => marked,
            EcnFeedback::Accurate => marked || self.ece,
            EcnFeedback::Ace => false,
        };
        turns
    }

    /// Writes the feedback into an acknowledgment.
    #[inline]
    pub(crate) fn write<R>(&mut self, ack: &mut Acknowledgment<R>) {
        ack.ece = self.ece;
        match self.feedback {
            EcnFeedback::Classic | EcnFeedback::Dctcp => {}
            EcnFeedback::Accurate => {
                self.ece = false;
                ack.ce_packets = self.packets;
                ack.ce_bytes = self.bytes;
            }
            EcnFeedback::Ace => ack.ce_packets = self.packets % ACE_MODULUS,
        }
    }
}

/// The sender's side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    feedback: EcnFeedback,
    /// The last known counters.
    packets: u64,
    bytes: u64,
    /// Data up to here was sent before the latest reaction to ECE.
    reacted: u64,
    /// The next new segment signals that the window was reduced.
    cwr: bool,
}

impl Marks {
    pub(crate) fn new(feedback: EcnFeedback) -> Self {
        Self {
            feedback,
            packets: 0,
            bytes: 0,
            reacted: 0,
            cwr: false,
        }
    }

    /// The bytes that an acknowledgment reports as marked, of data up to `nxt`;
    /// it newly acknowledges about `newly_acked` packets of `mss` bytes.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        ack: &Acknowledgment,
        nxt: u64,
        newly_acked: u64,
        mss: u32,
    ) -> u64 {
        match self.feedback {
            EcnFeedback::Classic => {
                // RFC 3168 6.1.2: one reaction per window of data, announced by CWR.
                if ack.ece && ack.ack > self.reacted {
                    self.reacted = nxt;
                    self.cwr = true;
                }
                0
            }
            // RFC 8257 3.3: all data that this acknowledgment covers.
            EcnFeedback::Dctcp if ack.ece => u64::MAX,
            EcnFeedback::Dctcp => 0,
            EcnFeedback::Accurate => {
                let marked = ack.ce_bytes.saturating_sub(self.bytes);
                self.bytes = self.bytes.max(ack.ce_bytes);
                marked
            }
            EcnFeedback::Ace => {
                // RFC 9768 A.2: the counter may have wrapped while this many packets were
                // acknowledged; the safe reading is that it did.
                let known = self.packets % ACE_MODULUS;
                let least = (ack.ce_packets + ACE_MODULUS - known) % ACE_MODULUS;
                let most = match newly_acked.checked_sub(least) {
                    Some(more) => newly_acked - more % ACE_MODULUS,
                    None => least,
                };
                self.packets += most;
                most.saturating_mul(u64::from(mss))
            }
        }
    }

    /// Whether [`Self::on_ack`] would find no mark and change nothing.
    #[inline]
    pub(crate) fn reports_none<R>(&self, ack: &Acknowledgment<R>) -> bool {
        match self.feedback {
            EcnFeedback::Classic | EcnFeedback::Dctcp => !ack.ece,
            EcnFeedback::Accurate => ack.ce_bytes <= self.bytes,
            EcnFeedback::Ace => false,
        }
    }

    /// The marked bytes reported to the controller: none where marks are not counted.
    pub(crate) fn counted(&self, bytes: u64) -> Option<Bytes> {
        (self.feedback != EcnFeedback::Classic).then_some(Bytes::new(bytes))
    }

    /// Whether the next new segment carries CWR.
    pub(crate) fn take_cwr(&mut self) -> bool {
        std::mem::take(&mut self.cwr)
    }

    /// The codepoint of a segment, given the one that the controller asks for: RFC 3168 6.1.5
    /// excludes retransmissions from classic ECN.
    pub(crate) fn codepoint(&self, wanted: Ecn, retransmission: bool) -> Ecn {
        if retransmission && self.feedback == EcnFeedback::Classic {
            Ecn::NotEct
        } else {
            wanted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Receiver, ReceiverConfig};
    use paceline_units::{Duration, Instant};
    use proptest::prelude::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn segment(number: u64, marked: bool, cwr: bool) -> Segment {
        Segment {
            seq: number * 100,
            len: 100,
            ecn: if marked { Ecn::Ce } else { Ecn::Ect0 },
            cwr,
            push: false,
            sent: at(number),
            retransmission: false,
        }
    }

    fn receiver(ecn: EcnFeedback) -> Receiver {
        Receiver::new(ReceiverConfig {
            quick_acks: 0,
            ecn,
            ..ReceiverConfig::default()
        })
    }

    /// The acknowledgments of a series of segments: the data each covers, and its ECE.
    fn acks(receiver: &mut Receiver, marks: &[(bool, bool)]) -> Vec<(u64, bool)> {
        let mut reported = Vec::new();
        for (number, (marked, cwr)) in (0..).zip(marks) {
            let segment = segment(number, *marked, *cwr);
            let now = at(10 + number);
            reported.extend(receiver.before_segment(now, &segment));
            reported.extend(receiver.on_segment(now, &segment));
        }
        reported
            .iter()
            .map(|ack| (ack.ack / 100, ack.ece))
            .collect()
    }

    #[test]
    fn classic_echoes_until_the_window_was_reduced() {
        let (no, ce, cwr) = ((false, false), (true, false), (false, true));
        let reported = acks(
            &mut receiver(EcnFeedback::Classic),
            &[no, ce, no, no, no, no, cwr, no, (true, true), no],
        );
        let expected = [(2, true), (4, true), (6, true), (8, false), (10, true)];
        assert_eq!(reported, expected);
    }

    #[test]
    fn dctcp_tells_each_change_apart_and_at_once() {
        let (no, ce) = ((false, false), (true, false));
        let reported = acks(
            &mut receiver(EcnFeedback::Dctcp),
            &[no, ce, ce, ce, ce, no, no, ce],
        );
        let expected = [
            (1, false), // what came before the first mark
            (2, true),
            (4, true),
            (5, true), // what came before it ended
            (6, false),
            (7, false),
            (8, true),
        ];
        assert_eq!(reported, expected);
    }

    #[test]
    fn accurate_counts_and_ace_keeps_three_bits() {
        let mut exact = receiver(EcnFeedback::Accurate);
        let mut ace = receiver(EcnFeedback::Ace);
        for number in 0..10 {
            exact.on_segment(at(number), &segment(number, true, false));
            ace.on_segment(at(number), &segment(number, true, false));
        }
        let last = |receiver: &mut Receiver| {
            receiver.on_segment(at(20), &segment(10, true, false));
            receiver
                .on_segment(at(21), &segment(11, false, false))
                .unwrap()
        };
        let (exact, ace) = (last(&mut exact), last(&mut ace));
        assert_eq!(
            (exact.ce_packets, exact.ce_bytes, exact.ece),
            (11, 1100, true)
        );
        assert_eq!((ace.ce_packets, ace.ce_bytes, ace.ece), (3, 0, false));
    }

    #[test]
    fn a_sender_reacts_once_a_window_to_classic_echoes() {
        let mut marks = Marks::new(EcnFeedback::Classic);
        let ack = |ack| Acknowledgment {
            ack,
            ece: true,
            ..Acknowledgment::default()
        };
        marks.on_ack(&ack(100), 1000, 1, 100);
        assert!(marks.take_cwr() && !marks.take_cwr());
        marks.on_ack(&ack(1000), 1500, 1, 100);
        assert!(!marks.take_cwr());
        marks.on_ack(&ack(1100), 2000, 1, 100);
        assert!(marks.take_cwr());
        assert_eq!(marks.codepoint(Ecn::Ect0, true), Ecn::NotEct);
        assert_eq!(marks.codepoint(Ecn::Ect0, false), Ecn::Ect0);
    }

    proptest! {
        /// If an acknowledgment covers fewer than eight packets, ACE is exact; otherwise it never
        /// reports fewer marks than there were, nor more than packets acknowledged.
        #[test]
        fn ace_is_exact_or_safe(rounds in prop::collection::vec((1u64..40, 0u64..=100), 1..50)) {
            let mut marks = Marks::new(EcnFeedback::Ace);
            let (mut truth, mut reported) = (0, 0);
            for (acked, share) in rounds {
                let marked = acked * share / 100;
                truth += marked;
                let ack = Acknowledgment {
                    ce_packets: truth % ACE_MODULUS,
                    ..Acknowledgment::default()
                };
                // An earlier overcount is part of the sender's count.
                marks.packets = truth - marked;
                let bytes = marks.on_ack(&ack, 0, acked, 100);
                prop_assert!(bytes >= marked * 100 && bytes <= acked * 100);
                if acked < ACE_MODULUS {
                    prop_assert_eq!(bytes, marked * 100);
                }
                reported += bytes;
            }
            prop_assert!(reported >= truth * 100);
        }
    }
}
