//! Counters over the life of a sender.

/// Declares the counters: one line each, with the name of its column in the record.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Counters over the life of a sender.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct SenderStats { $($(#[doc = $doc])+ pub $name: u64),* }

        impl SenderStats {
            /// Each counter's name and meaning, in the order of [`Self::values`].
            pub const COUNTERS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($doc),+))),*];

            /// The counters.
            pub fn values(&self) -> [u64; Self::COUNTERS.len()] {
                [$(self.$name),*]
            }
        }
    };
}

counters! {
    /// Data packets sent, retransmissions included.
    sent_packets,
    /// Packets retransmitted.
    retransmitted_packets,
    /// Packets declared lost.
    lost_packets,
    /// Packets declared lost that had arrived.
    spurious_packets,
    /// Retransmission timeouts.
    rto_count,
    /// Tail loss probes.
    tlp_count,
    /// Episodes of fast recovery.
    recovery_count,
    /// Recovery episodes undone as spurious.
    undo_count,
    /// Those of them that F-RTO found.
    f_rto_count,
}
