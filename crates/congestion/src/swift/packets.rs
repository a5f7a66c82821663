//! Windows in packets with a fraction.

/// Bits of fraction in a window.
pub(super) const BITS: u32 = 20;
/// A window of one packet.
pub(super) const ONE: u64 = 1 << BITS;
