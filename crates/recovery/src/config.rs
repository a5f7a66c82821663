//! The configuration of a sender.

use paceline_congestion::Signals;
use paceline_units::{Bytes, Duration};

use crate::{EcnFeedback, Recovery};

/// The behaviour of a sender.
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
    /// How losses are detected, and how the window is reduced.
    pub recovery: Recovery,
    /// Whether tail loss probes are sent, if RACK is used (RFC 8985 section 7).
    pub tlp: bool,
    /// Whether F-RTO judges a timeout by the acknowledgments after it (RFC 5682).
    pub f_rto: bool,
    /// Whether the first duplicate ACKs send new data (RFC 3042).
    pub limited_transmit: bool,
    /// Whether timestamps (RFC 3522) and DSACKs (RFC 3708) may show an episode to be spurious.
    pub undo: bool,
    /// Whether a rate sample's interval starts with a packet only if no other is unacknowledged
    /// (the draft's pull request 56), not if none is in flight.
    pub sample_unacknowledged: bool,
    /// The probe timeout's allowance for the receiver's delayed ACK when one segment is in flight.
    pub max_ack_delay: Duration,
    /// The maximum burst, instead of the controller's quantum.
    pub max_burst: Option<Bytes>,
    /// Whether segments carry PSH: the last one written and, as in Linux, the last of each burst of
    /// two or more that segmentation offload would send at once.
    pub push: bool,
    /// Whether new data waits until the window has room for a larger burst, as in Linux
    /// (`tcp_tso_should_defer`).
    pub tso_defer: bool,
    /// Whether RTT and the receiver's delay are taken from the [ETS option](crate::ets). Without it
    /// the receiver's delay is not known.
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
            sample_unacknowledged: false,
            max_ack_delay: Duration::from_millis(200),
            max_burst: None,
            push: false,
            tso_defer: false,
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
