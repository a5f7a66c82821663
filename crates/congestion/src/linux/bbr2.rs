//! BBRv2 alpha as in Linux (google/bbr branch v2alpha, `tcp_bbr2.c`).
//!
//! The [`bbr23`] with v2's constants, and with the two faults that v3 fixes: UP ends as soon as in
//! flight reaches 1.25 BDP of max_bw, even if inflight_hi keeps it from finding more; and a window
//! of 2 BDP in UP with 0.75 in DOWN keeps slow flows slow in buffers above 1.5 BDP.

use super::Adapter;
use super::bbr23;

/// The algorithm.
pub type Core = bbr23::Core<2>;
/// The options.
pub type Parameters = bbr23::Parameters<2>;
/// `bbr2` as a controller.
pub type Bbr2 = Adapter<Core>;
