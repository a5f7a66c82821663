//! Counters over the life of a sender.

/// Counters over the life of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets sent, retransmissions included.
    pub packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Retransmissions.
    pub packets_retransmitted: u64,
    /// Payload bytes of retransmissions.
    pub bytes_retransmitted: u64,
    /// Transmissions declared lost.
    pub packets_lost: u64,
    /// Payload bytes of transmissions declared lost.
    pub bytes_lost: u64,
    /// Transmissions declared lost that were delivered after all.
    pub spurious_losses: u64,
    /// Retransmission timeouts.
    pub rto_count: u64,
    /// Tail loss probes sent.
    pub tlp_count: u64,
    /// Fast recovery episodes.
    pub recovery_count: u64,
    /// Episodes undone as spurious.
    pub undo_count: u64,
    /// Those of them that F-RTO has found.
    pub f_rto_count: u64,
    /// Packets acknowledged, cumulatively or selectively.
    pub packets_delivered: u64,
    /// Their payload bytes.
    pub bytes_delivered: u64,
}
