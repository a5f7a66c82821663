//! What is set once for a sender.

use paceline_congestion::Signals;
use paceline_units::{Bytes, Duration};

use crate::{EcnFeedback, Recovery};

/// How a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Payload bytes in a full segment.
    pub mss: u32,
    /// Initial window; for information, the controller has its own.
    pub initial_window: Bytes,
    /// Floor of the retransmission timeout.
    pub min_rto: Duration,
    /// Retransmission timeout before the first RTT sample.
    pub initial_rto: Duration,
    /// Ceiling of the retransmission timeout.
    pub max_rto: Duration,
    /// How losses are found, and how the window falls.
    pub recovery: Recovery,
    /// Whether tail loss probes are sent, where there is RACK (RFC 8985 section 7).
    pub tlp: bool,
    /// Whether a timeout is judged by what arrives after it (F-RTO, RFC 5682).
    pub f_rto: bool,
    /// Whether the first duplicate ACKs send new data (RFC 3042).
    pub limited_transmit: bool,
    /// Whether timestamps (RFC 3522) and DSACKs (RFC 3708) may show an episode to be spurious.
    pub undo: bool,
    /// What the probe timeout allows for the receiver's delayed ACK when one segment is in flight.
    pub max_ack_delay: Duration,
    /// The most that one burst may hold, instead of the controller's quantum.
    pub max_burst: Option<Bytes>,
    /// Whether segments carry PSH: that behind which nothing is written and, as in Linux, the last of each burst of
    /// two or more that its segmentation offload would take at once.
    pub push: bool,
    /// Whether round trips and the receiver's delay come by the [ETS option](crate::ets). Without
    /// it the receiver's delay is not known.
    pub ets: bool,
    /// How the receiver reports congestion marks.
    pub ecn: EcnFeedback,
}

impl SenderConfig {
    /// The signals that a sender with this configuration gives its controller.
    pub const fn signals(&self) -> Signals {
        Signals {
            mark_counts: !matches!(self.ecn, EcnFeedback::Classic),
            spurious_loss: self.undo || self.f_rto,
            receiver_delay: self.ets,
            ..Signals::ALL
        }
    }
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            mss: 1448,
            initial_window: Bytes::new(14_480),
            min_rto: Duration::from_millis(200),
            initial_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(120),
            recovery: Recovery::RackPrr,
            tlp: true,
            f_rto: true,
            limited_transmit: true,
            undo: true,
            max_ack_delay: Duration::from_millis(200),
            max_burst: None,
            push: false,
            ets: false,
            ecn: EcnFeedback::Accurate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_told_what_its_sender_knows() {
        for ets in [false, true] {
            let config = SenderConfig {
                ets,
                ..SenderConfig::default()
            };
            assert_eq!(config.signals().receiver_delay, ets);
        }
        let config = SenderConfig {
            undo: false,
            f_rto: false,
            ecn: EcnFeedback::Classic,
            ..SenderConfig::default()
        };
        let signals = config.signals();
        assert!(!signals.spurious_loss && !signals.mark_counts);
    }
}
